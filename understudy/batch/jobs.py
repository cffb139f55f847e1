"""The jobs of a batch, named after their files: which of them cannot run, and which releases no ledger adds up.

Several jobs may release privately from one dataset. Where no ledger holds them all, nothing bounds what they tell
together.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from evaluate.text import typed_loss
from synth.errors import BadInput, JobError, MissingExtra, UnderstudyError
from synth.schema import Schema
from synth.schema_file import read_schema
from understudy.budget import LEDGER_VARIABLE, ledger_of
from understudy.data import find_table
from understudy.job.load import read_inputs
from understudy.job.spec import Job, read_job

SUMMARY_JSON, SUMMARY_CSV = "summary.json", "summary.csv"
OWN = ".batch"
MOST_BYTES = 100
"""Of a name: unfinished work and files that are being written lengthen it, and file systems end at 255."""


@dataclass(frozen=True)
class BatchJob:
    name: str
    path: Path
    folder: Path
    spec: Job | None
    fault: str = ""

    @property
    def job(self) -> Job:
        if self.spec is None:
            raise ValueError(f"job {self.name} cannot be read: {self.fault}")
        return self.spec

    @property
    def out(self) -> Path:
        return self.folder / self.name

    @property
    def log(self) -> Path:
        return self.folder / f"{self.name}.log"

    @property
    def mark(self) -> Path:
        """What the job's latest start was to read: digests of its files, and a mark of its table."""
        return self.folder / OWN / f"{self.name}.json"


def listed(paths: Sequence[Path], folder: Path) -> list[BatchJob]:
    """The jobs of a batch in the order given, a file that is named twice once, each checked with all that it names.

    Neither a row of a table nor a ledger is read.
    """
    whole = list(dict.fromkeys(Path(os.path.normpath(path.absolute())) for path in paths))
    for path in whole:
        _check_there(path)
        _check_name(path)
    _check_apart(whole)
    return [_job(path, Path(os.path.normpath(folder.absolute()))) for path in whole]


def _job(path: Path, folder: Path) -> BatchJob:
    if path.exists() and not path.is_file():  # a pipe would be waited for
        return BatchJob(path.stem, path, folder, None, f"the job is no file: path={str(path)!r}; name a TOML file")
    try:
        spec = read_job(path)
    except JobError as error:
        return BatchJob(path.stem, path, folder, None, str(error).rstrip("."))
    return BatchJob(path.stem, path, folder, spec, _fault(path))


def _fault(path: Path) -> str:
    """The reason against a job that can be read; empty where none is known."""
    try:
        read_inputs(path)
    except (BadInput, MissingExtra) as error:
        return str(error).rstrip(".")
    except Exception:  # noqa: BLE001 - the job's own process meets the same, and tells it without harm to the others
        return ""
    return ""


def _check_there(path: Path) -> None:
    if not path.exists() and any(sign in path.name for sign in "*?["):
        raise JobError(f"no job file is called so: path={str(path)!r}; name files that are there")


def _check_name(path: Path) -> None:
    name = path.stem
    speaks = name and name.isprintable() and name == name.strip() and not name.startswith((".", "-"))
    if not speaks or len(os.fsencode(name)) > MOST_BYTES:
        raise JobError(
            f"a job's file names its output, and path={str(path)!r} cannot; use at most {MOST_BYTES} bytes of "
            "printable characters, without '.' or '-' in front and spaces around"
        )


def _check_apart(paths: Sequence[Path]) -> None:
    """No file of a batch may be another's, on file systems that know no upper case either."""
    taken = dict.fromkeys((SUMMARY_JSON, SUMMARY_CSV), "the batch's own summary")
    for path in paths:
        names = {path.stem.casefold(), f"{path.stem}.log".casefold()}
        for name in sorted(names & taken.keys()):
            raise JobError(
                f"job={str(path)!r} would write {name!r}, as would {taken[name]}; rename the job's file, or give it a "
                "batch of its own"
            )
        taken |= dict.fromkeys(names, f"job={str(path)!r}")


def uncounted(jobs: Iterable[BatchJob]) -> Iterator[str]:
    """A warning on every dataset of which several jobs make private releases that no ledger adds up; no row is read.

    What a job asks for counts, whether or not it comes to that. A sweep that nobody pays for releases nothing.

    Source: Dwork and Roth (2014), The Algorithmic Foundations of Differential Privacy, Theorem 3.16.
    """
    asked_of: dict[tuple[str, str], dict[str, float]] = {}
    for job in jobs:
        spec = job.spec
        if spec is None or job.fault or spec.is_sweep or not (asked := epsilons(spec)):
            continue
        with suppress(UnderstudyError):  # its own process tells what is wrong
            if ledger_of(spec, job.path.parent) is None:
                schema = read_schema(job.path.parent / spec.table.schema_path)
                asked_of.setdefault((_dataset(job, spec, schema), schema.unit), {})[job.name] = sum(asked)
    for (dataset, _), asked_by in asked_of.items():
        if len(asked_by) > 1:
            yield (
                f"{len(asked_by)} jobs make private releases of dataset {dataset!r} outside a ledger, and they add up: "
                f"{', '.join(asked_by)} come to epsilon={typed_loss(sum(asked_by.values()))} together by basic "
                f"composition, and their deltas add up too; a ledger ([ledger] url in each job, or {LEDGER_VARIABLE}) "
                "keeps count of these and of all others, and refuses what its total does not admit"
            )


def epsilons(spec: Job) -> list[float]:
    """The epsilons of all private fits of a job, and of the numbers that it publishes."""
    fits = [point.epsilon for point in spec.points.values()]
    published = None if spec.released_numbers is None else spec.released_numbers.epsilon
    return [float(epsilon) for epsilon in (*fits, published) if isinstance(epsilon, int | float)]


def _dataset(job: BatchJob, spec: Job, schema: Schema) -> str:
    if schema.dataset is not None:
        return schema.dataset
    if spec.table.path is not None and "://" in spec.table.path:
        return find_table(spec.table.path).shown
    return str(spec.table.source or (job.path.parent / str(spec.table.path)).resolve())
