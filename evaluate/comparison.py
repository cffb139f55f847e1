"""The result of a comparison of tables: terms, the standing of each vendor, their order and what it rests on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from evaluate.estimate import Count, Direction, Estimate, Number, Record, Share
from synth.progress import brief_repr

Standing = Literal["ranked", "incomplete", "disqualified", "not evaluated"]


@dataclass(frozen=True)
class ComparisonTerms(Record):
    """Terms that are the same for all tables."""

    rows: Count
    """Rows of each table that are compared."""
    rows_asked: Count | None
    """Rows that somebody asked for; `None` where nobody did."""
    train_rows: Count
    seed: Count
    policy: str
    """Name of the policy that rules were taken from."""


@dataclass(frozen=True)
class BarringFinding(Record):
    """A rule that a table breaks, so that it is barred."""

    name: str
    """Of the measure, or of what a comparison measures for itself alone."""
    measure: str
    limit: Number
    fails_beyond: Number
    """The number beyond which the favorable end of an interval fails."""
    why: str
    subject: tuple[str, ...]
    """The columns that it is about; empty for the whole table."""
    reason: str
    estimate: Estimate | None
    beyond_policy: bool
    """The rule is of comparisons, not of the policy."""


@dataclass(frozen=True)
class VendorResult(Record):
    """The standing of one vendor."""

    name: str
    file: str
    standing: Standing
    """"incomplete" lacks columns, so that it comes after all that lack none and is not compared with them."""
    reason: str
    """Why it is not ranked, or which rules on fidelity it breaks; empty where neither is."""
    rows_offered: Count | None
    """Rows of the file; `None` where it could not be read."""
    rows_compared: Count | None
    missing_columns: tuple[str, ...]
    renamed_columns: tuple[str, ...]
    """Of each that the vendor spells in another way, both spellings: "'Hours' for 'hours'"."""
    extra_columns: tuple[str, ...]
    """Columns that the schema drops or does not know, the first of them."""
    n_extra_columns: Count
    formula_cells: Count | None
    """Cells that a spreadsheet would run as formulas; `None` where it could not be read."""
    claim: Mapping[str, bool | int | float | str]
    """Of the vendor, unverified; empty where nothing is claimed."""
    same_as: str | None
    """Another vendor whose table holds the same rows; `None` where there is none."""
    evidence: tuple[BarringFinding, ...]
    open: tuple[str, ...]
    """Names of findings that leave open whether they would."""


@dataclass(frozen=True)
class Rank(Record):
    """The place of a table among those that were compared."""

    name: str
    place: Annotated[int, Field(ge=1)]
    """From 1; tables may share one."""
    behind: tuple[str, ...]
    letters: str
    """Tables that share one are not ordered."""


@dataclass(frozen=True)
class RankedFigure(Record):
    """One figure of every ranked table."""

    figure: str
    direction: Direction
    values: Mapping[str, Number]
    reference: Number | None
    """The same of fresh real rows; `None` where it was measured of no table."""
    floor: Number | None
    letters: Mapping[str, str]
    """By table; those that share one cannot be told apart."""
    absent: Mapping[str, str]


@dataclass(frozen=True)
class PairResult(Record):
    """Two tables by one figure."""

    figure: str
    first: str
    second: str
    difference: Number | None
    """The figure of the first less that of the second; `None` where it was measured of one of them only."""
    low: Number | None
    high: Number | None
    p: Share | None
    """Chance of such a difference between equal tables; `None` where there is no difference to test."""
    p_adjusted: Share | None
    better: str | None
    """The one that is told to be better; `None` where they cannot be told apart."""
    reason: str
    """Why there is no difference; empty where there is one."""


@dataclass(frozen=True)
class PicturePoint(Record):
    """One table in the picture of utility against exposure."""

    name: str
    utility: Number
    utility_low: Number | None
    utility_high: Number | None
    exposure: Number
    """The unfavorable end of the privacy figure; lower is better."""
    standing: Standing
    best: bool
    """No other ranked table beats it in both."""


@dataclass(frozen=True)
class Picture(Record):
    """Utility against the exposure to a membership attack."""

    utility: str
    exposure: str
    points: tuple[PicturePoint, ...]
    reference: Number | None
    floor: Number | None
    absent: tuple[str, ...]


@dataclass(frozen=True)
class Order(Record):
    """The order of compared tables, and what it rests on."""

    rule: str
    alpha: Share
    n_comparisons: Count
    order: tuple[Rank, ...]
    figures: tuple[RankedFigure, ...]
    comparisons: tuple[PairResult, ...]


@dataclass(frozen=True, repr=False)
class VendorRanking(Record):
    """A comparison of vendors."""

    __repr__ = brief_repr

    terms: ComparisonTerms
    vendors: tuple[VendorResult, ...]
    order: Order
    picture: Picture | None
