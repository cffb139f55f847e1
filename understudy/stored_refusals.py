"""What nobody can have of a table that stays where it is stored, refused before anything is read."""

from collections.abc import Mapping

from synth.errors import JobError
from synth.generators.base import Generator
from understudy.job import Job


def check_fit(chosen: Generator, place: str) -> None:
    """Refuse a generator that needs the whole table in memory.

    Args:
        chosen: the specification.
        place: what an error names it by.

    Raises:
        JobError: it does; nothing was read.
    """
    if not chosen.stored:
        raise JobError(
            f"{place}: generator={chosen.name!r} reads the whole table into memory, and this table stays where it is "
            "stored; choose one of ours (`understudy generators`), or give it a sample as a file"
        )


def check_job(job: Job, generators: Mapping[str, Generator]) -> None:
    """Refuse what a job asks for and cannot have of a table that stays where it is stored.

    Args:
        job: the specification.
        generators: of all candidates, by label.

    Raises:
        JobError: a generator, an attack or published numbers need the rows themselves; nothing was read.
    """
    for label, chosen in generators.items():
        check_fit(chosen, f"generators.{label}")
    if job.evaluation.shadow_models is not None:
        raise JobError(
            f"evaluation.shadow_models={job.evaluation.shadow_models} fits the generator on parts of the real rows, "
            "and this table stays where it is stored, so that a sample would be attacked in its place; leave it out"
        )
    if job.public_report is not None:
        raise JobError(
            f"public_report.epsilon={job.public_report.epsilon:g} pays for numbers that a model reads off each "
            "held-out row, and this table stays where it is stored; leave public_report out"
        )


def check_sampled(sample_rows: int | None, *, stored: bool) -> None:
    """Refuse to draw samples of tables that are in memory as a whole.

    Args:
        sample_rows: what is asked for; none: nothing is.
        stored: whether the tables stay where they are stored.

    Raises:
        JobError: samples are asked for in vain; nothing was read.
    """
    if sample_rows is not None and not stored:
        raise JobError(
            f"sample_rows={sample_rows} is of tables that stay where they are stored, and these are read into memory "
            'and measured whole; leave it out, or set engine = "stored"'
        )
