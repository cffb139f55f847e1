"""Provenance of an evaluation: the run that made it, its files by their hashes, the ledger, and all that was drawn."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field

from evaluate.estimate import Count, Direction, Estimate, Record
from synth.dp.statement import LARGEST, PrivacyStatement
from synth.progress import brief_repr

N_ROWS, COLUMN, COLUMN_MEAN = "rows.released", "columns.tvd.released", "columns.tvd.released.mean"
PAIR_MEAN, RIGHT = "pairs.tvd.released.mean", "utility.accuracy.released"
MEASURES: Mapping[str, Direction] = {
    N_ROWS: "none", COLUMN: "lower", COLUMN_MEAN: "lower", PAIR_MEAN: "lower", RIGHT: "higher",
}  # fmt: skip
"""Every number that may be published, and which way is better."""


@dataclass(frozen=True)
class Released(Record):
    """One published number."""

    measure: str
    value: float
    """The number, held within its range."""
    low: float
    """Lower end of the 95% interval for the noise."""
    high: float
    drawn: tuple[int, ...]
    """The noisy whole numbers that it is made of, as they were drawn: they may be negative."""
    counts: str
    what: str
    """The event of the statement that paid for it."""
    sigma: float
    sensitivity: int
    """How far one unit moves them together, in L2."""
    epsilon: float
    """Of this number alone, at the delta of the statement; the numbers compose to less than the sum, and a mean is made
    of draws that other numbers show, too.
    """
    subject: tuple[str, ...] = ()
    denominator: int | None = None
    """What they are divided by; `None` where they are not. Noisy or declared, never an exact count."""
    expected: float | None = None
    """What two tables of these sizes show by chance alone, though both are drawn from the synthetic one's distribution;
    `None` where that makes no sense.
    """
    mechanism: Literal["discrete Gaussian"] = "discrete Gaussian"

    def __post_init__(self) -> None:
        if self.measure not in MEASURES or not -math.inf < self.low <= self.value <= self.high < math.inf:
            raise ValueError(f"measure={self.measure!r} is no published number with its interval; release it anew")

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise on the scale of the number, with the divisor as it was released."""
        if self.measure == RIGHT:
            return self.sigma * math.hypot(self.value, 1 - self.value) / (self.denominator or 1)
        return self.sigma / math.sqrt(len(self.drawn)) / (self.denominator or 1)

    @property
    def estimate(self) -> Estimate:
        """The number as an evaluation holds it, so that a rule may rest on it."""
        return Estimate(
            self.measure, self.value, self.denominator or 0, MEASURES[self.measure], subject=self.subject,
            low=self.low, high=self.high, reference=self.expected,
            note="Published under a budget of its own; the interval is that of its noise.",
        )  # fmt: skip


Loss = Annotated[float, Field(ge=0, le=LARGEST, allow_inf_nan=False)]


@dataclass(frozen=True)
class ComposedClaim(Record):
    """The claim of several private releases together."""

    epsilon: Annotated[float, Field(gt=0, le=LARGEST, allow_inf_nan=False)]
    """By PLD, at `delta`."""
    delta: Annotated[float, Field(ge=0, lt=1)]
    """The largest of any of them, or twice what mechanisms have themselves where that is more."""
    n_fits: Annotated[int, Field(ge=1)]


@dataclass(frozen=True)
class SweepEntry(Record):
    """One point of a sweep."""

    label: str
    generator: str
    epsilon: Loss | None
    """As the job asks for it; `None`: no formal guarantee."""
    seed: Count


@dataclass(frozen=True)
class SweepRecord(Record):
    """A sweep."""

    releasable: bool
    """Its private fits are paid for, so that something of it may be released."""
    composed: ComposedClaim | None
    """Claim of all its private fits; `None` where it has none."""
    points: tuple[SweepEntry, ...]


@dataclass(frozen=True)
class LedgerStanding(Record):
    """The standing of a dataset in its ledger, after all that a run drew."""

    dataset: str
    unit: str
    reserved_epsilon: Mapping[str, Loss]
    """By label, of each release."""
    spent_epsilon: Loss
    left_epsilon: Loss
    total_epsilon: Loss
    total_delta: Loss


@dataclass(frozen=True)
class EvaluationCounts(Record):
    """Evaluations of one real table, or of one dataset by its name."""

    evaluations: Annotated[int, Field(ge=1)]
    """Runs, evaluations and comparisons, this one included."""
    tables: Count
    since: str


@dataclass(frozen=True)
class CountedAttempts(EvaluationCounts):
    """Evaluations of one real table, with those of its dataset by name."""

    by_name: EvaluationCounts | None = None
    """Of all versions of the dataset, as it and its unit are declared; `None` where the schema names none."""


@dataclass(frozen=True)
class PublishedNumbers(Record):
    """Numbers that were released about a table."""

    table: str
    numbers: tuple[Released, ...]
    statement: PrivacyStatement
    together: PrivacyStatement
    """Of table and numbers; of a sweep, of all its private fits and the numbers."""
    n_fits: Annotated[int, Field(ge=1)]
    every: ComposedClaim | None
    """Claim of all private fits of the job and the numbers; `None` where that is no more."""


@dataclass(frozen=True, repr=False)
class Provenance(Record):
    """The origin of an evaluation; `None` or empty where there is no such thing."""

    __repr__ = brief_repr

    run_id: str | None = None
    evaluated_at: str | None = None
    """The moment, in UTC as ISO 8601 has it."""
    job: str | None = None
    release: str | None = None
    """The candidate that the job names for release."""
    seed: Count | None = None
    split: str | None = None
    """The way in which the two sides came about; `None` where they were given."""
    warnings: tuple[str, ...] = ()
    """*Sensitive*. Sentences that were said before and during the work; some are read off real rows."""
    ledger: LedgerStanding | None = None
    sweep: SweepRecord | None = None
    composed: ComposedClaim | None = None
    """Claim of all private fits, and of the numbers published beside them; `None` where there are not two."""
    attempts: CountedAttempts | None = None
    """Evaluations of this real table that were counted on this machine."""
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    """Keyed, of the real table and its sides."""
    job_sha256: str | None = None
    schema_sha256: str | None = None
    policy_sha256: str | None = None
    waivers_sha256: str | None = None
    files_sha256: Mapping[str, str] = field(default_factory=dict)
    """Hashes of synthetic tables and models, by name."""
    versions: Mapping[str, str] = field(default_factory=dict)
    released_numbers: PublishedNumbers | None = None
