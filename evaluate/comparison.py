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


@dataclass(frozen=True)
class ComparisonTerms:
    """Terms that are the same for all tables.

    Attributes:
        rows: of each table that are compared.
        rows_asked: rows that somebody asked for; `None` where nobody did.
        train_rows: rows of train.
        seed: of every draw.
        policy: name of the policy that rules were taken from.
        policy_version: its version.
    """

    __pydantic_config__: ClassVar = CLOSED

    rows: Count
    rows_asked: Count | None
    train_rows: Count
    seed: Count
    policy: str
    policy_version: Count


@dataclass(frozen=True)
class RuleRecord:
    """A rule of a policy, as it was applied.

    Attributes:
        measure: the number that it limits.
        limit: the most, or the least, that passes.
        why: the reason for it.
        fails_beyond: the number beyond which the favorable end fails; `None`: the limit.
        severity: "warn" changes no verdict.
        subject: the columns that it is about; empty for the whole table.
    """

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
    """A finding that bars a table.

    Attributes:
        name: of the measure, or of what a comparison measures for itself alone.
        rule: that was broken.
        outcome: of the rule.
        reason: one sentence or more that say why.
        estimate: the number it rests on; `None` where there is none.
        beyond_policy: the rule is of comparisons, not of the policy.
    """

    __pydantic_config__: ClassVar = CLOSED

    name: str
    rule: RuleRecord
    outcome: Literal["PASS", "FAIL", "INCONCLUSIVE"]
    reason: str
    estimate: Estimate | None
    beyond_policy: bool


@dataclass(frozen=True)
class VendorResult:
    """The standing of one vendor.

    Attributes:
        name: of the vendor.
        file: name of the file that was delivered.
        standing: "incomplete" lacks columns, so that it comes after all that lack none and is not compared with them.
        reason: why it is not ranked, or which rules on fidelity it breaks; empty where neither is.
        rows_offered: rows of the file; `None` where it could not be read.
        rows_compared: rows of it that were compared; `None` where none were.
        missing_columns: columns of the schema that it lacks.
        extra_columns: columns that the schema drops or does not know, the first of them.
        n_extra_columns: all of these.
        formula_cells: cells that a spreadsheet would run as formulas; `None` where it could not be read.
        claim: of the vendor, unverified; empty where nothing is claimed.
        same_as: another vendor whose table holds the same rows; `None` where there is none.
        evidence: findings that bar it.
        open: names of findings that leave open whether they would.
    """

    __pydantic_config__: ClassVar = CLOSED

    name: str
    file: str
    standing: Standing
    reason: str
    rows_offered: Count | None
    rows_compared: Count | None
    missing_columns: tuple[str, ...]
    extra_columns: tuple[str, ...]
    n_extra_columns: Count
    formula_cells: Count | None
    claim: Mapping[str, bool | int | float | str]
    same_as: str | None
    evidence: tuple[BarringFinding, ...]
    open: tuple[str, ...]


@dataclass(frozen=True)
class Rank:
    """The place of a table among those that were compared.

    Attributes:
        name: the table.
        place: from 1; tables may share one.
        behind: those that are ahead of it.
        letters: tables that share one are not ordered.
    """

    __pydantic_config__: ClassVar = CLOSED

    name: str
    place: Annotated[int, Field(ge=1)]
    behind: tuple[str, ...]
    letters: str


@dataclass(frozen=True)
class RankedFigure:
    """One figure of every ranked table.

    Attributes:
        figure: its name in the catalog.
        direction: the better way.
        values: by table.
        reference: the same of fresh real rows; `None` where it was measured of no table.
        floor: the same of shuffled columns, likewise.
        letters: by table; those that share one cannot be told apart.
        absent: why it was not measured, by table.
    """

    __pydantic_config__: ClassVar = CLOSED

    figure: str
    direction: Direction
    values: Mapping[str, Number]
    reference: Number | None
    floor: Number | None
    letters: Mapping[str, str]
    absent: Mapping[str, str]


@dataclass(frozen=True)
class PairResult:
    """Two tables by one figure.

    Attributes:
        figure: its name in the catalog.
        first: a table.
        second: another one.
        difference: the figure of the first less that of the second; `None` where it was measured of one of them only.
        low: lower end of its 95% interval; `None` without bound.
        high: upper end.
        p: chance of such a difference between equal tables; `None` where there is no difference to test.
        p_adjusted: after Holm, over all comparisons.
        better: the one that is told to be better; `None` where they cannot be told apart.
        reason: why there is no difference; empty where there is one.
    """

    __pydantic_config__: ClassVar = CLOSED

    figure: str
    first: str
    second: str
    difference: Number | None
    low: Number | None
    high: Number | None
    p: Share | None
    p_adjusted: Share | None
    better: str | None
    reason: str


@dataclass(frozen=True)
class PicturePoint:
    """One table in the picture of utility against exposure.

    Attributes:
        name: of the table.
        utility: higher is better.
        utility_low: lower end of its 95% interval; `None` where it has none.
        utility_high: upper end.
        exposure: the unfavorable end of the privacy figure; lower is better.
        exposure_value: the figure itself.
        standing: of the vendor.
        best: no other ranked table beats it in both.
    """

    __pydantic_config__: ClassVar = CLOSED

    name: str
    utility: Number
    utility_low: Number | None
    utility_high: Number | None
    exposure: Number
    exposure_value: Number
    standing: Standing
    best: bool


@dataclass(frozen=True)
class Picture:
    """Utility against the exposure to a membership attack.

    Attributes:
        utility: name of the figure of utility.
        exposure: name of the figure of privacy.
        points: every table that has both.
        reference: the utility of real rows; `None` where it is not known.
        floor: the utility of shuffled columns, likewise.
        absent: tables that lack either.
    """

    __pydantic_config__: ClassVar = CLOSED

    utility: str
    exposure: str
    points: tuple[PicturePoint, ...]
    reference: Number | None
    floor: Number | None
    absent: tuple[str, ...]


@dataclass(frozen=True)
class Order:
    """The order of compared tables, and what it rests on.

    Attributes:
        rule: the way in which the order comes about.
        alpha: significance level of all comparisons together.
        n_comparisons: differences that were tested.
        order: the best first.
        figures: what the order rests on.
        comparisons: each pair of tables by each figure.
    """

    __pydantic_config__: ClassVar = CLOSED

    rule: str
    alpha: Share
    n_comparisons: Count
    order: tuple[Rank, ...]
    figures: tuple[RankedFigure, ...]
    comparisons: tuple[PairResult, ...]


@dataclass(frozen=True, repr=False)
class VendorRanking:
    """A comparison of vendors.

    Attributes:
        terms: that are the same for all.
        vendors: each with its standing.
        order: of those that are ranked.
        picture: of utility against exposure; `None` where no table has both.
    """

    __repr__ = brief_repr

    __pydantic_config__: ClassVar = CLOSED

    terms: ComparisonTerms
    vendors: tuple[VendorResult, ...]
    order: Order
    picture: Picture | None
