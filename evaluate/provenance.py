"""Provenance of an evaluation: the run that made it, its files by their hashes, the ledger, and all that was drawn."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from pydantic import Field

from evaluate.released import Released
from synth.dp.statement import CLOSED, LARGEST, PrivacyStatement
from synth.notebook import brief_repr

Loss = Annotated[float, Field(ge=0, le=LARGEST, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]


@dataclass(frozen=True)
class ComposedClaim:
    """The claim of several private releases together.

    Attributes:
        epsilon: by PLD, at `delta`.
        delta: the largest of any of them, or twice what mechanisms have themselves where that is more.
        n_fits: releases.
    """

    __pydantic_config__: ClassVar = CLOSED

    epsilon: Annotated[float, Field(gt=0, le=LARGEST, allow_inf_nan=False)]
    delta: Annotated[float, Field(ge=0, lt=1)]
    n_fits: Annotated[int, Field(ge=1)]


@dataclass(frozen=True)
class SweepEntry:
    """One point of a sweep.

    Attributes:
        label: the candidate's name.
        generator: its label in the job.
        epsilon: as the job asks for it; `None`: no formal guarantee.
        seed: tells repeated fits apart.
    """

    __pydantic_config__: ClassVar = CLOSED

    label: str
    generator: str
    epsilon: Loss | None
    seed: Count


@dataclass(frozen=True)
class SweepRecord:
    """A sweep.

    Attributes:
        releasable: its private fits are paid for, so that something of it may be released.
        composed: claim of all its private fits; `None` where it has none.
        points: its candidates.
    """

    __pydantic_config__: ClassVar = CLOSED

    releasable: bool
    composed: ComposedClaim | None
    points: tuple[SweepEntry, ...]


@dataclass(frozen=True)
class LedgerStanding:
    """The standing of a dataset in its ledger, after all that a run drew.

    Attributes:
        dataset: its declared name.
        unit: of privacy.
        reserved_epsilon: by label, of each release.
        spent_epsilon: of all releases.
        left_epsilon: below the total.
        total_epsilon: that releases may come to.
        total_delta: the delta of all of them.
    """

    __pydantic_config__: ClassVar = CLOSED

    dataset: str
    unit: str
    reserved_epsilon: Mapping[str, Loss]
    spent_epsilon: Loss
    left_epsilon: Loss
    total_epsilon: Loss
    total_delta: Loss


@dataclass(frozen=True)
class EvaluationCounts:
    """Evaluations of one real table, or of one dataset by its name.

    Attributes:
        evaluations: runs, evaluations and comparisons, this one included.
        tables: synthetic tables that were measured in them.
        since: the day of the first, as ISO 8601 has it.
    """

    __pydantic_config__: ClassVar = CLOSED

    evaluations: Annotated[int, Field(ge=1)]
    tables: Count
    since: str


@dataclass(frozen=True)
class CountedAttempts(EvaluationCounts):
    """Evaluations of one real table, with those of its dataset by name.

    Attributes:
        by_name: of all versions of the dataset, as it and its unit are declared; `None` where the schema names none.
    """

    by_name: EvaluationCounts | None = None


@dataclass(frozen=True)
class PublishedNumbers:
    """Numbers that were released about a table.

    Attributes:
        table: the candidate's name.
        numbers: as they were released.
        statement: of the numbers.
        together: of table and numbers; of a sweep, of all its private fits and the numbers.
        n_fits: private fits that `together` holds.
        every: claim of all private fits of the job and the numbers; `None` where that is no more.
    """

    __pydantic_config__: ClassVar = CLOSED

    table: str
    numbers: tuple[Released, ...]
    statement: PrivacyStatement
    together: PrivacyStatement
    n_fits: Annotated[int, Field(ge=1)]
    every: ComposedClaim | None


@dataclass(frozen=True, repr=False)
class Provenance:
    """The origin of an evaluation; `None` or empty where there is no such thing.

    Attributes:
        run_id: tells this run from others.
        evaluated_at: the moment, in UTC as ISO 8601 has it.
        job: the job's title.
        release: the candidate that the job names for release.
        seed: of every draw.
        split: the way in which the two sides came about; `None` where they were given.
        warnings: *Sensitive*. Sentences that were said before and during the work; some are read off real rows.
        ledger: its standing after all that the run drew.
        sweep: its points, and whether any may be released.
        composed: claim of all private fits, and of the numbers published beside them; `None` where there are not two.
        both_tables: by label, the claim of the private fits of both of two related tables; of others there is none.
        attempts: evaluations of this real table that were counted on this machine.
        fingerprints: keyed, of the real table and its sides.
        job_sha256: hash of the job file.
        schema_sha256: hash of the schema file.
        policy_sha256: hash of the policy file.
        waivers_sha256: hash of the waivers file.
        files_sha256: hashes of synthetic tables and models, by name.
        versions: of what was installed.
        released_numbers: numbers that were released about a table.
    """

    __repr__ = brief_repr

    __pydantic_config__: ClassVar = CLOSED

    run_id: str | None = None
    evaluated_at: str | None = None
    job: str | None = None
    release: str | None = None
    seed: Count | None = None
    split: str | None = None
    warnings: tuple[str, ...] = ()
    ledger: LedgerStanding | None = None
    sweep: SweepRecord | None = None
    composed: ComposedClaim | None = None
    both_tables: Mapping[str, ComposedClaim] = field(default_factory=dict)
    attempts: CountedAttempts | None = None
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    job_sha256: str | None = None
    schema_sha256: str | None = None
    policy_sha256: str | None = None
    waivers_sha256: str | None = None
    files_sha256: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    released_numbers: PublishedNumbers | None = None
