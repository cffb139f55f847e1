"""Private releases of one dataset by several jobs that no ledger adds up."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from evaluate.text import typed_loss
from synth.errors import UnderstudyError
from synth.schema import Schema
from synth.schema_file import read_schema
from understudy.batch.listing import BatchJob
from understudy.funds import LEDGER_VARIABLE
from understudy.job import Job
from understudy.payment import ledger_of


@dataclass(frozen=True)
class Uncounted:
    """What several jobs ask for of one dataset, outside a ledger.

    Attributes:
        dataset: its declared name; where it has none, the table's place.
        unit: of privacy.
        jobs: their names.
        epsilon: of all that they ask for, added up; at the sum of their deltas.
    """

    dataset: str
    unit: str
    jobs: tuple[str, ...]
    epsilon: float

    @property
    def warning(self) -> str:
        """What somebody should know before these jobs draw, without full stop."""
        return (
            f"{len(self.jobs)} jobs make private releases of dataset {self.dataset!r} outside a ledger, and they add "
            f"up: {', '.join(self.jobs)} come to epsilon={typed_loss(self.epsilon)} together by basic composition, and "
            f"their deltas add up too; a ledger ([ledger] url in each job, or {LEDGER_VARIABLE}) keeps count of these "
            "and of all others, and refuses what its total does not admit"
        )

    @property
    def line(self) -> str:
        """The same in a line beside the totals of ledgers."""
        return (
            f"No ledger: dataset {self.dataset!r}, unit {self.unit}: epsilon {typed_loss(self.epsilon)} is asked for "
            f"by {', '.join(self.jobs)} together, by basic composition; no total limits it"
        )

    def content(self) -> dict[str, Any]:
        """The same as plain data."""
        return {"dataset": self.dataset, "unit": self.unit, "jobs": list(self.jobs), "epsilon": self.epsilon}


def uncounted(jobs: Iterable[BatchJob]) -> list[Uncounted]:
    """Every dataset of which several jobs make private releases that no ledger adds up; no row is read.

    What a job asks for counts, whether or not it comes to that. A sweep that nobody pays for releases nothing.

    Source: Dwork and Roth (2014), The Algorithmic Foundations of Differential Privacy, Theorem 3.16.
    """
    found: dict[tuple[str, str], list[tuple[str, float]]] = {}
    for name, key, epsilon in _releases(jobs):
        found.setdefault(key, []).append((name, epsilon))
    return [
        Uncounted(*key, tuple(name for name, _ in asked), sum(epsilon for _, epsilon in asked))
        for key, asked in found.items()
        if len(asked) > 1
    ]


def _releases(jobs: Iterable[BatchJob]) -> Iterator[tuple[str, tuple[str, str], float]]:
    """Each job that makes private releases outside a ledger: its name, dataset and unit, and what it asks for."""
    for job in jobs:
        spec = job.spec
        if spec is None or job.fault or spec.is_sweep or not (asked := _asked(spec)):
            continue
        with suppress(UnderstudyError):  # its own process tells what is wrong
            if ledger_of(spec, job.path.parent) is None:
                schema = read_schema(job.path.parent / spec.table.schema_path)
                yield job.name, (_dataset(job, spec, schema), schema.unit), sum(asked)


def _asked(spec: Job) -> list[float]:
    """The epsilons of all private fits of a job that is no sweep, and of the numbers that it publishes."""
    fits = [point.epsilon for point in spec.points.values()]
    published = None if spec.public_report is None else spec.public_report.epsilon
    return [float(epsilon) for epsilon in (*fits, published) if isinstance(epsilon, int | float)]


def _dataset(job: BatchJob, spec: Job, schema: Schema) -> str:
    if schema.dataset is not None:
        return schema.dataset
    if spec.table.path is not None and "://" in spec.table.path:
        from synth.stored.address import parsed

        return parsed(spec.table.path).shown
    return str(spec.table.source or (job.path.parent / str(spec.table.path)).resolve())
