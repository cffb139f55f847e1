"""What an evaluation says: estimates with their interval and landmarks, failures, and figures to draw.

Nothing here computes; everything here can be written to `evaluation.json` and read back unchanged.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, TypeAdapter

from synth.dp.statement import CLOSED
from synth.errors import BadInput

SCHEMA_VERSION = 2
"""Version of `evaluation.json`; a newer one is refused."""

NOTICE = "Internal: this file holds numbers computed from real rows, outside any privacy guarantee."

Direction = Literal["lower", "higher", "none"]
Reason = Literal["failed", "timed out", "skipped"]
Case = Literal["honest", "copy", "some copies", "shuffled", "sorted"]


class EvaluationError(BadInput):
    """An evaluation cannot be read, or its inputs do not belong together; nothing was measured."""


@dataclass(frozen=True)
class Estimate:
    """One number about one synthetic table, with what is needed to judge it.

    Attributes:
        measure: name in the registry of measures, such as ``"columns.tvd.mean"``.
        subject: the columns it is about; empty for the whole table.
        value: the number itself; finite.
        low: lower end of the 95% interval; none where the measure has no interval.
        high: upper end of the 95% interval; none where the measure has no interval.
        n: rows (or targets, or test rows) the number rests on.
        direction: which way is better; "none" for a number that only describes.
        reference: the same figure for a fresh real sample; none where it makes no sense.
        floor: the same figure for columns shuffled independently; none where it makes no sense.
        note: one sentence that a reader needs beside the number.
        detectable: of an attack, the smallest value that it would have told from chance in 80 of 100 repetitions at
            this sample size; none for all others.
    """

    __pydantic_config__: ClassVar = CLOSED

    measure: str
    value: float
    n: Annotated[int, Field(ge=0)]
    direction: Direction
    subject: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    reference: float | None = None
    floor: float | None = None
    note: str = ""
    detectable: float | None = None

    def __post_init__(self) -> None:
        for name in ("value", "low", "high", "reference", "floor", "detectable"):
            number = getattr(self, name)
            if number is not None and not math.isfinite(number):
                raise ValueError(f"an estimate is finite: measure={self.measure!r} has {name}={number}")
        if (self.low is None) != (self.high is None):
            raise ValueError(f"an interval has two ends: measure={self.measure!r}")

    @property
    def interval(self) -> tuple[float, float]:
        """Both ends of the 95% interval.

        Raises:
            ValueError: the estimate has no interval.
        """
        if self.low is None or self.high is None:
            raise ValueError(f"no interval was measured: measure={self.measure!r}")
        return self.low, self.high


@dataclass(frozen=True)
class Failure:
    """A measure that did not give a number, and why. A rule about it is INCONCLUSIVE.

    Attributes:
        measure: name of the number, or of the measure that would have given several.
        reason: "failed", "timed out", or "skipped" where it does not apply or was not asked for.
        message: why, in a sentence that holds no value of a table.
        subject: the columns it is about; empty for the whole table, or for all columns.
    """

    __pydantic_config__: ClassVar = CLOSED

    measure: str
    reason: Reason
    message: str
    subject: tuple[str, ...] = ()


@dataclass(frozen=True)
class Candidate:
    """The evaluation of one synthetic table.

    Attributes:
        name: what the job or the user calls it.
        estimates: every number measured.
        failures: every measure that gave none.
        figures: what the report draws, by name; plain JSON data (see `evaluate.engine`).
        statement: the privacy statement as plain data; none means that there is no formal guarantee.
        generator: name and parameters of the generator; empty for a table of unknown origin.
        seconds: wall seconds by stage ("fit", "sample", and one per measure).
        audit: what an audit of the claim found, as plain data (see `evaluate.audit_result`); none where none
            ran.
        expected: what public facts let one expect of a private fit, as plain data; none where nothing was worked out.
        n_rejected_rows: rows that were drawn and rejected for breaking a constraint; none where that is not known, or
            there are no constraints.
    """

    __pydantic_config__: ClassVar = CLOSED

    name: str
    estimates: tuple[Estimate, ...]
    failures: tuple[Failure, ...] = ()
    figures: Mapping[str, Any] = field(default_factory=dict)
    statement: Mapping[str, Any] | None = None
    generator: Mapping[str, Any] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    audit: Mapping[str, Any] | None = None
    expected: Mapping[str, Any] | None = None
    n_rejected_rows: Annotated[int, Field(ge=0)] | None = None

    def find(self, measure: str, subject: tuple[str, ...] = ()) -> Estimate | Failure | None:
        """The estimate of a measure, else its failure, else none."""
        for estimate in self.estimates:
            if estimate.measure == measure and estimate.subject == subject:
                return estimate
        for failure in self.failures:
            if failure.measure == measure and failure.subject in (subject, ()):
                return failure
        return None


@dataclass(frozen=True)
class SelfTest:
    """One table of which it is known what a policy must say of it, made of the same real rows and measured like others.

    Attributes:
        case: "honest" is a half of the holdout, "copy" is train itself, "some copies" are honest rows with a few of
            train among them, "shuffled" are train's columns, each shuffled on its own, and "sorted" likewise.
        candidate: what was measured of it; none where the case says nothing about this table.
        absent: why it says nothing, as a sentence; empty where there is a candidate.
    """

    __pydantic_config__: ClassVar = CLOSED

    case: Case
    candidate: Candidate | None = None
    absent: str = ""

    def __post_init__(self) -> None:
        if (self.candidate is None) != bool(self.absent):
            raise ValueError(f"a self-test was measured, or says why not: case={self.case!r}")


@dataclass(frozen=True)
class Evaluation:
    """One real table's evaluation of one or more synthetic tables. It reads real data: outside any guarantee.

    Attributes:
        candidates: one for each synthetic table, at least one in a file, and each of a name of its own.
        real: facts about the real table: rows of train and holdout, exact duplicates across them, columns, target.
        schema: the schema as plain data.
        provenance: seed, versions, keyed fingerprints; filled in by the application.
        self_tests: tables of which it is known what a policy must say; empty where none was tried.
        ranking: how candidates compare pair by pair, as plain data (see `evaluate.ranking`); none where they were not
            compared.
    """

    __pydantic_config__: ClassVar = CLOSED

    candidates: Annotated[tuple[Candidate, ...], Field(min_length=1)]
    real: Mapping[str, Any]
    schema: Mapping[str, Any]
    provenance: Mapping[str, Any] = field(default_factory=dict)
    self_tests: tuple[SelfTest, ...] = ()
    ranking: Mapping[str, Any] | None = None

    def to_json(self) -> str:
        """The evaluation as JSON text."""
        content = {"schema_version": SCHEMA_VERSION, "notice": NOTICE, **asdict(self)}
        return json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False)


def estimate_from(content: object) -> Estimate:
    """One estimate from plain data.

    Raises:
        ValueError: it is none.
    """
    return TypeAdapter(Estimate).validate_json(json.dumps(content, allow_nan=False))
