"""The result of a comparison of tables: terms, the standing of each vendor, their order and what it rests on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from evaluate.estimate import Direction, Estimate
from synth.dp.statement import CLOSED
from synth.notebook import brief_repr

Number = Annotated[float, Field(allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0)]
Standing = Literal["ranked", "incomplete", "disqualified", "not evaluated"]
"""Incomplete is a table that lacks columns: it comes after all that lack none and is not compared with them."""


@dataclass(frozen=True)
class ComparisonTerms:
    """Terms that are the same for all tables."""

    __pydantic_config__: ClassVar = CLOSED

    rows: Count  # of each table that are compared
    rows_asked: Count | None  # that somebody asked for
    train_rows: Count
    seed: Count  # of every draw
    policy: str
    policy_version: Count


@dataclass(frozen=True)
class RuleRecord:
    """A rule of a policy, as it was applied."""

    __pydantic_config__: ClassVar = CLOSED

    measure: str
    limit: Number
    why: str
    fails_beyond: Number | None
    severity: Literal["fail", "warn"]
    subject: tuple[str, ...]

    @property
    def failing(self) -> float:
        """The number beyond which the favorable end of an interval fails."""
        return self.limit if self.fails_beyond is None else self.fails_beyond


@dataclass(frozen=True)
class BarringFinding:
    """A finding that bars a table."""

    __pydantic_config__: ClassVar = CLOSED

    name: str  # of the measure, or of what a comparison measures for itself alone
    rule: RuleRecord
    outcome: Literal["PASS", "FAIL", "INCONCLUSIVE"]
    reason: str
    estimate: Estimate | None
    beyond_policy: bool  # the rule is of comparisons, not of the policy


@dataclass(frozen=True)
class VendorResult:
    """The standing of one vendor."""

    __pydantic_config__: ClassVar = CLOSED

    name: str
    file: str
    standing: Standing
    reason: str  # why it is not ranked, or which rules on fidelity it breaks
    rows_offered: Count | None  # `None`: the file could not be read
    rows_compared: Count | None
    missing_columns: tuple[str, ...]
    extra_columns: tuple[str, ...]  # that the schema drops or does not know, the first of them
    n_extra_columns: Count
    formula_cells: Count | None  # that a spreadsheet would run
    claim: Mapping[str, bool | int | float | str]  # unverified
    same_as: str | None  # another vendor whose table holds the same rows
    evidence: tuple[BarringFinding, ...]
    open: tuple[str, ...]  # names of findings that leave open whether they would bar it


@dataclass(frozen=True)
class Rank:
    """The place of a table among those that were compared."""

    __pydantic_config__: ClassVar = CLOSED

    name: str
    place: Annotated[int, Field(ge=1)]  # tables may share one
    behind: tuple[str, ...]  # those that are ahead of it
    letters: str  # tables that share one are not ordered


@dataclass(frozen=True)
class RankedFigure:
    """One figure of every ranked table."""

    __pydantic_config__: ClassVar = CLOSED

    figure: str  # its name in the catalog
    direction: Direction
    values: Mapping[str, Number]
    reference: Number | None  # of fresh real rows
    floor: Number | None  # of shuffled columns
    letters: Mapping[str, str]
    absent: Mapping[str, str]  # why it was not measured, by table


@dataclass(frozen=True)
class PairResult:
    """Two tables by one figure."""

    __pydantic_config__: ClassVar = CLOSED

    figure: str
    first: str
    second: str
    difference: Number | None  # first less second; `None`: measured of one of them only
    low: Number | None  # of its 95% interval; `None`: no bound
    high: Number | None
    p: Share | None  # chance of such a difference between equal tables
    p_adjusted: Share | None  # after Holm, over all comparisons
    better: str | None  # `None`: they cannot be told apart
    reason: str  # why there is no difference


@dataclass(frozen=True)
class PicturePoint:
    """One table in the picture of utility against exposure."""

    __pydantic_config__: ClassVar = CLOSED

    name: str
    utility: Number
    utility_low: Number | None
    utility_high: Number | None
    exposure: Number  # the unfavorable end of the privacy figure
    exposure_value: Number
    standing: Standing
    best: bool  # no other ranked table beats it in both


@dataclass(frozen=True)
class Picture:
    """Utility against the exposure to a membership attack."""

    __pydantic_config__: ClassVar = CLOSED

    utility: str  # names of the figures in the catalog
    exposure: str
    points: tuple[PicturePoint, ...]
    reference: Number | None  # the utility of real rows
    floor: Number | None  # and of shuffled columns
    absent: tuple[str, ...]  # tables that lack either


@dataclass(frozen=True)
class Order:
    """The order of compared tables, and what it rests on."""

    __pydantic_config__: ClassVar = CLOSED

    rule: str  # how the order comes about
    alpha: Share  # of all comparisons together
    n_comparisons: Count
    order: tuple[Rank, ...]  # the best first
    figures: tuple[RankedFigure, ...]
    comparisons: tuple[PairResult, ...]


@dataclass(frozen=True, repr=False)
class VendorRanking:
    """A comparison of vendors; no picture where no table has both figures."""

    __repr__ = brief_repr

    __pydantic_config__: ClassVar = CLOSED

    terms: ComparisonTerms
    vendors: tuple[VendorResult, ...]
    order: Order
    picture: Picture | None
