"""Distribution shift between train and holdout, and the findings that it puts in doubt.

An attack counts as successful by how much better it does on training rows than on held-out ones. Where the two are of
different populations, another year or another town, it tells these apart, and no member. An honest table then looks
like a leak, and a leak can look honest. So a rule that compares with the holdout is INCONCLUSIVE there, either way.
What is counted among training rows alone stands, and so do copies that training rows' own twins do not explain.

Source: Das, Zhang, Tramer 2024, "Blind Baselines Beat Membership Inference Attacks for Foundation Models",
arXiv:2406.16201.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from evaluate.gate.finding import Finding, finding_of
from evaluate.result import Candidate, Estimate

KEY = "shift"
"""Key of the shift among facts about the real table."""
TWINS = "duplicate_share_train"
"""Key of the share of training rows that equal another one."""
LEVEL = 5e-4
"""Significance level of all tests together."""
LEAST_AUC = 0.52
"""Area that the lower end of its interval must exceed. A shift moves no attack's area further than this classifier's,
if that has learned all there is. The strictest shipped policy leaves .05 above a coin. Of many rows, less than a half
of that is overlooked."""
LEAST_EFFECT = 0.04
"""D or V from which a column matters. With V = v no test gains more than v over its false alarms. By that column no
area under a curve exceeds .5 + v. A test with 1% or .1% false alarms then finds at most 1.97% or .56%: the strictest
shipped policy allows .55, 2% and .6%. A level that only one side has, with a share s there, has V = sqrt(s / 2)."""
LEAST_TWINS = 0.01
"""Share of the holdout from which missing or surplus twins in train matter: the least excess of copies from which a
shipped policy says FAIL."""
MOST_UNSEEN = 0.55
"""Area of a shift that must have been seen; it is the strictest limit on an attack's area in a shipped policy."""
MAX_NAMED = 5
"""Columns that a sentence names."""

ALONE = (
    "privacy.personal", "privacy.copies", "privacy.copies.unique", "privacy.multiset", "privacy.audit.excess",
)  # fmt: skip
"""Privacy measures that are not compared with the holdout: counted among training rows, or by chance or mechanism."""
EXCESS = ".excess"
"""Ends the name of a share less that of the holdout's rows."""

COUNTED: Mapping[str, str] = {"privacy.copies.people": "privacy.copies.unique"}
"""Numbers counted among training rows alone, by the number that compares with the holdout."""

UNTESTED = "Whether train and holdout are of one population is not known"
NOT_HELD = "the evaluation holds no such test"
_REMEDY = "hold out rows of the same table at random, as `understudy split` does, and evaluate again"

Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
_CLOSED = ConfigDict(strict=True, extra="forbid", frozen=True)


class ShiftedColumn(BaseModel):
    """A column that differs between train and holdout.

    Attributes:
        column: its name.
        statistic: Kolmogorov-Smirnov's D of numbers and times; Cramer's V of categories, single values and missing
            ones. In V both sides weigh the same, and noise is taken off.
        value: by how much, from 0 (alike) to 1.
        p_value: Holm-Bonferroni adjusted.
    """

    model_config = _CLOSED

    column: str
    statistic: Literal["D", "V"]
    value: Share
    p_value: Share


class Shift(BaseModel):
    """Two-sample tests of the holdout against the training rows.

    Attributes:
        n_train: training rows (entities, where there are some) that are compared; 0 where nothing was tested.
        n_holdout: the same of the holdout.
        auc: the area under the ROC curve of a classifier that tells them apart, on rows it has not seen.
        low: the lower end of its 95% interval.
        high: the upper end.
        p_value: of that area, if both were samples of one population.
        detectable: the area that would have been seen in 80 of 100 repetitions.
        columns: those that differ by as much as matters, the furthest first.
        twins: pairs of equal rows, one on either side, beyond chance, as a share of the holdout's rows. It is 0 where
            the test does not reject, or where it does not matter. Content of three rows or more is not looked at.
        untested: why nothing was tested; empty where it was.
    """

    model_config = _CLOSED

    n_train: Annotated[int, Field(ge=0)] = 0
    n_holdout: Annotated[int, Field(ge=0)] = 0
    auc: Share = 0.5
    low: Share = 0.5
    high: Share = 0.5
    p_value: Share = 1.0
    detectable: Share = 1.0
    columns: list[ShiftedColumn] = []
    twins: Annotated[float, Field(ge=-1, le=1, allow_inf_nan=False)] = 0.0
    untested: str = ""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.n_train > 0 and self.n_holdout > 0) == bool(self.untested):
            raise ValueError("it was tested, or says why not")
        if not self.low <= self.auc <= self.high:
            raise ValueError("the area lies in its interval")
        return self

    @classmethod
    def of(cls, real: Mapping[str, Any]) -> Self:
        """The shift that facts about a real table tell; an evaluation that holds none did not test it.

        Raises:
            ValidationError: what stands there is none.
        """
        found = real.get(KEY)
        return cls(untested=NOT_HELD) if found is None else cls.model_validate(found)

    @property
    def differs(self) -> bool:
        """True where the tests reject one population, and by as much as matters."""
        told_apart = self.p_value <= LEVEL / 2 and self.low > LEAST_AUC
        return told_apart or bool(self.columns) or self.twins != 0

    @property
    def warnings(self) -> tuple[str, ...]:
        """The sentence where they differ, for a first screen. *Sensitive*."""
        return (self.sentence,) if self.differs else ()

    @property
    def notes(self) -> tuple[str, ...]:
        """A sentence on the power of the test, where none was seen that would matter."""
        if self.untested or self.differs or self.detectable <= MOST_UNSEEN:
            return ()
        return (
            f"No difference of populations between train and holdout was seen that would matter, but with so few rows "
            f"one with an AUC below {self.detectable:.2f} may go unseen.",
        )

    @property
    def sentence(self) -> str:
        """The result in words; empty where the tests rejected nothing that matters. *Sensitive*."""
        if self.untested:
            return f"{UNTESTED}: {self.untested.rstrip('.')}."
        if not self.differs:
            return ""
        return (
            f"Train and holdout are not samples of one population: a classifier of their rows has an AUC of "
            f"{self.auc:.3f} (95% interval {self.low:.3f} to {self.high:.3f}; 0.5 is a coin){self._twins}{self._named}"
        )

    @property
    def _twins(self) -> str:
        if self.twins == 0:
            return ""
        than = "more" if self.twins > 0 else "fewer"
        return f"; {than} of the holdout's rows than by chance equal one training row, by {abs(self.twins):.1%} of them"

    @property
    def _named(self) -> str:
        if not self.columns:
            return "; no column differs by itself."
        named = ", ".join(f"{one.column!r} ({one.statistic} = {one.value:.3f})" for one in self.columns[:MAX_NAMED])
        n_more = len(self.columns) - MAX_NAMED
        return f"; columns that differ: {named}{f' and {n_more} more' if n_more > 0 else ''}."


def questioned(finding: Finding, candidate: Candidate, real: Mapping[str, Any] | None) -> Finding:
    """The finding as far as it stands where train and holdout may be of different populations.

    Args:
        finding: of a rule on the candidate.
        candidate: measured.
        real: facts about the real table; `None`: the finding rests on the measures as they are.
    """
    if real is None or not rests_on_holdout(finding.rule.measure) or finding.estimate is None:
        return finding
    if finding.proven is not None:  # a proof compares nothing
        return finding
    shift = Shift.of(real)
    if not shift.differs and not (shift.untested and finding.outcome == "PASS"):
        return finding
    if finding.outcome == "FAIL" and _beyond_twins(finding, candidate, real.get(TWINS)):
        return replace(finding, reason=f"{finding.reason} Training rows' own twins do not explain it either.")
    remedy = _REMEDY
    if shift.untested:
        remedy = "evaluate again" if shift.untested == NOT_HELD else "hold out more rows"
    why = f"It compares training rows with held-out ones, so that it tells nothing here. {shift.sentence} So {remedy}."
    return replace(finding, outcome="INCONCLUSIVE", reason=why, n_needed=None)


def rests_on_holdout(measure: str) -> bool:
    """True for privacy measures that compare with the holdout, unknown ones included."""
    return measure.startswith("privacy.") and measure not in ALONE


def _beyond_twins(finding: Finding, candidate: Candidate, twins: object) -> bool:
    """True where copies break the rule beyond training rows' own twins."""
    rule = finding.rule
    counted = candidate.find(COUNTED.get(rule.measure, rule.measure.removesuffix(EXCESS)), rule.subject)
    if not isinstance(twins, int | float) or not isinstance(counted, Estimate) or counted.measure == rule.measure:
        return False
    if counted.measure not in ALONE or counted.low is None or counted.high is None:
        return False
    value, low, high = (end - twins for end in (counted.value, counted.low, counted.high))
    beyond = replace(counted, measure=rule.measure, value=value, low=low, high=high, reference=None)
    return finding_of(Candidate(candidate.name, (beyond,)), rule).outcome == "FAIL"
