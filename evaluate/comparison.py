"""The result of a comparison of tables: terms, the standing of each vendor, their order and what it rests on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from evaluate.estimate import Count, Direction, Estimate, Number, Record, Share
from synth.notebook import brief_repr

Standing = Literal["ranked", "incomplete", "disqualified", "not evaluated"]


@dataclass(frozen=True)
class ComparisonTerms(Record):
    """Terms that are the same for all tables."""

    rows: Count
    """Rows of each table that are compared."""
    rows_asked: Count | None
    """Rows that somebody asked for; `None` where nobody did."""
    train_rows: Count
    """Rows of train."""
    seed: Count
    """Of every draw."""
    policy: str
    """Name of the policy that rules were taken from."""


@dataclass(frozen=True)
class BarringFinding(Record):
    """A rule that a table breaks, so that it is barred."""

    name: str
    """Of the measure, or of what a comparison measures for itself alone."""
    measure: str
    """The number that the rule limits."""
    limit: Number
    """The most, or the least, that passes."""
    fails_beyond: Number
    """The number beyond which the favorable end of an interval fails."""
    why: str
    """The reason for the rule."""
    subject: tuple[str, ...]
    """The columns that it is about; empty for the whole table."""
    reason: str
    """One sentence or more that say what was found."""
    estimate: Estimate | None
    """The number it rests on; `None` where there is none."""
    beyond_policy: bool
    """The rule is of comparisons, not of the policy."""


@dataclass(frozen=True)
class VendorResult(Record):
    """The standing of one vendor."""

    name: str
    """Of the vendor."""
    file: str
    """Name of the file that was delivered."""
    standing: Standing
    """"incomplete" lacks columns, so that it comes after all that lack none and is not compared with them."""
    reason: str
    """Why it is not ranked, or which rules on fidelity it breaks; empty where neither is."""
    rows_offered: Count | None
    """Rows of the file; `None` where it could not be read."""
    rows_compared: Count | None
    """Rows of it that were compared; `None` where none were."""
    missing_columns: tuple[str, ...]
    """Columns of the schema that it lacks."""
    extra_columns: tuple[str, ...]
    """Columns that the schema drops or does not know, the first of them."""
    n_extra_columns: Count
    """All of these."""
    formula_cells: Count | None
    """Cells that a spreadsheet would run as formulas; `None` where it could not be read."""
    claim: Mapping[str, bool | int | float | str]
    """Of the vendor, unverified; empty where nothing is claimed."""
    same_as: str | None
    """Another vendor whose table holds the same rows; `None` where there is none."""
    evidence: tuple[BarringFinding, ...]
    """Findings that bar it."""
    open: tuple[str, ...]
    """Names of findings that leave open whether they would."""


@dataclass(frozen=True)
class Rank(Record):
    """The place of a table among those that were compared."""

    name: str
    """The table."""
    place: Annotated[int, Field(ge=1)]
    """From 1; tables may share one."""
    behind: tuple[str, ...]
    """Those that are ahead of it."""
    letters: str
    """Tables that share one are not ordered."""


@dataclass(frozen=True)
class RankedFigure(Record):
    """One figure of every ranked table."""

    figure: str
    """Its name in the catalog."""
    direction: Direction
    """The better way."""
    values: Mapping[str, Number]
    """By table."""
    reference: Number | None
    """The same of fresh real rows; `None` where it was measured of no table."""
    floor: Number | None
    """The same of shuffled columns, likewise."""
    letters: Mapping[str, str]
    """By table; those that share one cannot be told apart."""
    absent: Mapping[str, str]
    """Why it was not measured, by table."""


@dataclass(frozen=True)
class PairResult(Record):
    """Two tables by one figure."""

    figure: str
    """Its name in the catalog."""
    first: str
    """A table."""
    second: str
    """Another one."""
    difference: Number | None
    """The figure of the first less that of the second; `None` where it was measured of one of them only."""
    low: Number | None
    """Lower end of its 95% interval; `None` without bound."""
    high: Number | None
    """Upper end."""
    p: Share | None
    """Chance of such a difference between equal tables; `None` where there is no difference to test."""
    p_adjusted: Share | None
    """After Holm, over all comparisons."""
    better: str | None
    """The one that is told to be better; `None` where they cannot be told apart."""
    reason: str
    """Why there is no difference; empty where there is one."""


@dataclass(frozen=True)
class PicturePoint(Record):
    """One table in the picture of utility against exposure."""

    name: str
    """Of the table."""
    utility: Number
    """Higher is better."""
    utility_low: Number | None
    """Lower end of its 95% interval; `None` where it has none."""
    utility_high: Number | None
    """Upper end."""
    exposure: Number
    """The unfavorable end of the privacy figure; lower is better."""
    standing: Standing
    """Of the vendor."""
    best: bool
    """No other ranked table beats it in both."""


@dataclass(frozen=True)
class Picture(Record):
    """Utility against the exposure to a membership attack."""

    utility: str
    """Name of the figure of utility."""
    exposure: str
    """Name of the figure of privacy."""
    points: tuple[PicturePoint, ...]
    """Every table that has both."""
    reference: Number | None
    """The utility of real rows; `None` where it is not known."""
    floor: Number | None
    """The utility of shuffled columns, likewise."""
    absent: tuple[str, ...]
    """Tables that lack either."""


@dataclass(frozen=True)
class Order(Record):
    """The order of compared tables, and what it rests on."""

    rule: str
    """The way in which the order comes about."""
    alpha: Share
    """Significance level of all comparisons together."""
    n_comparisons: Count
    """Differences that were tested."""
    order: tuple[Rank, ...]
    """The best first."""
    figures: tuple[RankedFigure, ...]
    """What the order rests on."""
    comparisons: tuple[PairResult, ...]
    """Each pair of tables by each figure."""


@dataclass(frozen=True, repr=False)
class VendorRanking(Record):
    """A comparison of vendors."""

    __repr__ = brief_repr

    terms: ComparisonTerms
    """What is the same for all."""
    vendors: tuple[VendorResult, ...]
    """Each with its standing."""
    order: Order
    """Of those that are ranked."""
    picture: Picture | None
    """Of utility against exposure; `None` where no table has both."""
