"""Facts about a real table: its rows, twins among them, and the shift of train against holdout."""

import math
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from evaluate.estimate import Count, Record, Share
from synth.progress import brief_repr

LEVEL = 5e-4  # Significance level of all tests together
LEAST_AUC = 0.52
"""Area that the lower end of its interval must exceed. A shift moves no attack's area further than this classifier's,
if that has learned all there is. The strictest shipped policy leaves .05 above a coin. Of many rows, less than a half
of that is overlooked."""
LEAST_EFFECT = 0.04
"""D or V from which a column matters. With V = v no test gains more than v over its false alarms. By that column no
area under a curve exceeds .5 + v. A test with 1% or .1% false alarms then finds at most 1.97% or .56%: the strictest
shipped policy allows .55, 2% and .6%. A level that only one side has, with a share s there, has V = sqrt(s / 2)."""
LEAST_TWINS = 0.002
"""Share of the holdout from which missing or surplus twins in train matter: the least excess of copies from which a
shipped policy says FAIL."""
MOST_UNSEEN = 0.55
"""Area of a shift that must have been seen; it is the strictest limit on an attack's area in a shipped policy."""
MAX_NAMED = 5  # Columns that a sentence names

UNTESTED = "Whether train and holdout are of one population is not known"
NOT_HELD = "the evaluation holds no such test"

NONE_HELD_OUT = (
    "No holdout was given: attacks and models were not measured, since rows that the generator saw tell nothing of "
    "either, and fidelity was measured between two halves of the real rows, drawn by seed. To have both measured, fit "
    "to a part of the rows, as `understudy split` makes it, and evaluate with the rest as the holdout."
)

SHARED_MEANS = "Copies of these rows pass for chance, and attacks take these people for outsiders."
REPEATED_MEANS = "Repeated rows make any table look nearer to train."
BECOMES = "A PASS of a rule that rests on the holdout becomes INCONCLUSIVE, and a FAIL"
REMEDY = "If no two people have equal rows, drop repeated rows, and split anew."

_CLOSED = ConfigDict(strict=True, extra="forbid", frozen=True, use_attribute_docstrings=True)


class ShiftedColumn(BaseModel):
    """A column that differs between train and holdout."""

    model_config = _CLOSED

    column: str
    statistic: Literal["D", "V"]
    """Kolmogorov-Smirnov's D of numbers and times; Cramer's V of categories, single values and missing ones. In V both
    sides weigh the same, and noise is taken off.
    """
    value: Share
    """By how much, from 0 (alike) to 1."""
    p_value: Share
    """Holm-Bonferroni adjusted."""


class Shift(BaseModel):
    """Two-sample tests of the holdout against the training rows."""

    model_config = _CLOSED

    n_train: Count = 0
    """Training rows (entities, where there are some) that are compared; 0 where nothing was tested."""
    n_holdout: Count = 0
    auc: Share = 0.5
    """The area under the ROC curve of a classifier that tells them apart, on rows it has not seen."""
    low: Share = 0.5
    high: Share = 0.5
    p_value: Share = 1.0
    """Of that area, if both were samples of one population."""
    detectable: Share = 1.0
    """The area that would have been seen in 80 of 100 repetitions."""
    columns: list[ShiftedColumn] = []
    """Those that differ by as much as matters, the furthest first."""
    twins: Annotated[float, Field(ge=-1, le=1, allow_inf_nan=False)] = 0.0
    """Pairs of equal rows, one on either side, beyond chance, as a share of the holdout's rows. It is 0 where the test
    does not reject, or where it does not matter. Content of three rows or more is not looked at.
    """
    repeats: Share = 0.0
    """Rows of the holdout that repeat another, beyond train's, as a share of its rows; 0 as `twins` is. Content that
    both sides have is not looked at.
    """
    entities: Share = 0.0
    """Share of the holdout's entities that stand in train, too."""
    untested: str = ""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.n_train > 0 and self.n_holdout > 0) == bool(self.untested):
            raise ValueError("it was tested, or says why not")
        if not self.low <= self.auc <= self.high:
            raise ValueError("the area lies in its interval")
        return self

    @property
    def differs(self) -> bool:
        """True where the tests reject one population, and by as much as matters."""
        return self._moved or self.shares_rows or self.repeats > 0

    @property
    def shares_rows(self) -> bool:
        """True where training rows, or their entities, stand in the holdout beyond twins."""
        return self.twins > 0 or self.entities >= LEAST_TWINS

    @property
    def feigned(self) -> float:
        """By how much an area, a rate or a share of people may seem too high. Shared rows only make it too low.

        Where a share r of the rows are repeats, at most 2r have an equal. No attack's success on the others moves by
        more than that. In a count of what one person alone has, all these are missing: of a share x that chance hits,
        at least (x - 2r) / (1 - 2r) are left, less by (1 - x) 2r / (1 - 2r).
        """
        if self._moved or self.repeats >= 0.5:
            return math.inf
        return 2 * self.repeats / (1 - 2 * self.repeats)

    @property
    def _moved(self) -> bool:
        told_apart = self.p_value <= LEVEL / 2 and self.low > LEAST_AUC
        return told_apart or bool(self.columns) or self.twins < 0

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
        parts = []
        if self.twins > 0:
            parts.append(f"{self.twins:.1%} of its rows equal a training row, beyond what twins explain")
        if self.entities >= LEAST_TWINS:
            parts.append(f"{self.entities:.1%} of its entities stand in train, too")
        shared = f"Not all of the holdout is held out: {', and '.join(parts)}." if parts else ""
        if self.repeats > 0:
            shared += f" {self.repeats:.1%} of the holdout's rows repeat another of its rows, beyond what train's do."
        if not self._moved:
            return shared.strip()
        pairs = (
            f"; fewer of the holdout's rows than by chance equal one training row, by {-self.twins:.1%} of them"
            if self.twins < 0
            else ""
        )
        named = ", ".join(f"{each.column!r} ({each.statistic} = {each.value:.3f})" for each in self.columns[:MAX_NAMED])
        n_more = len(self.columns) - MAX_NAMED
        more = f" and {n_more} more" if n_more > 0 else ""
        moved = (
            "Train and holdout are not samples of one population: a classifier of their rows has an AUC of "
            f"{self.auc:.3f} (95% interval {self.low:.3f} to {self.high:.3f}; 0.5 is a coin)"
            f"{pairs}; {f'columns that differ: {named}{more}' if named else 'no column differs by itself'}."
        )
        return f"{moved} {shared.strip()}".strip()


@dataclass(frozen=True, repr=False)
class RealFacts(Record):
    """Facts about the real table."""

    __repr__ = brief_repr

    train_rows: Count
    holdout_rows: Count
    """Rows of the holdout; 0 where nothing was held out."""
    duplicates_across: Count
    duplicate_share_train: Share
    columns: Count
    target: str | None = None
    entity: str | None = None
    """The column of the unit of privacy; `None` where that is a row."""
    shift: Shift = field(default_factory=partial(Shift, untested=NOT_HELD))
    order: str | None = None
    """The column by which rows of an entity follow each other; `None` where they make no history."""
    texts: tuple[str, ...] = ()

    @property
    def rows_in_words(self) -> str:
        """How many rows the generator saw, as a part of a sentence."""
        return f"{self.train_rows:,} {'training rows' if self.holdout_rows else 'real rows, none held out'}"

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences for a first screen: nothing was held out, or what was is of another population. *Sensitive*."""
        shift, rows, n_shared = self.shift, self.holdout_rows, self.duplicates_across
        if not shift.differs:
            return (NONE_HELD_OUT,) if rows == 0 else ()
        shares, repeats, entities = shift.shares_rows, shift.repeats > 0, shift.entities >= LEAST_TWINS
        if not shares and not repeats:
            return (shift.sentence,)
        told = f"Of the holdout's {rows:,} rows {n_shared:,} stand in train, word for word. " if n_shared else ""
        means = " ".join([SHARED_MEANS] * shares + [REPEATED_MEANS] * repeats)
        explained = "stands where that does not explain it" if repeats else "stands"
        fails = "mostly, too" if math.isinf(shift.feigned) else explained
        remedies = [REMEDY] * (n_shared > 0 or repeats) + ["Split by entity."] * entities
        return shift.sentence, f"{told * shares}{means} {BECOMES} {fails}.", " ".join(remedies)
