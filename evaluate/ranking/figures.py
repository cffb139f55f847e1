"""The figures that tables are ranked by, and the difference of one figure between two tables with its error.

Fidelity is the mean total variation from train, of columns and of pairs of columns, utility the score on control rows
of models that learned from the table. Every table is measured on as many rows, against the same training rows in the
same groups. It is scored on the same draws of the same control rows. So their effect on two tables cancels in the
difference. No table is better for being closer to train than a fresh real sample is.
"""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, Self

import numpy as np

from evaluate.engine import attempted
from evaluate.fidelity.columns import compared_columns
from evaluate.fidelity.encoded import EncodedSamples
from evaluate.fidelity.samples import FRESH, SHUFFLED, SYNTHETIC, Samples
from evaluate.intervals import LEVEL, blended_variance
from evaluate.result import Direction, Failure
from evaluate.tables import Tables
from evaluate.utility.models import Form
from evaluate.utility.study import study_of, variance


@dataclass(frozen=True)
class Difference:
    value: float
    error: float
    freedom: float

    @classmethod
    def of(cls, value: float, variance: float, freedom: float) -> "Difference":
        return cls(value, float(np.sqrt(max(variance, 0.0))), freedom)

    @property
    def p(self) -> float:
        """The p-value of a difference by Student's t; 1 for no difference at all.

        >>> round(Difference(2.131, 1.0, 15).p, 3)
        0.05
        """
        from scipy import special

        if self.value == 0.0:
            return 1.0
        if self.error == 0.0:
            return 0.0
        return float(2 * special.stdtr(self.freedom, -abs(self.value) / self.error))

    @property
    def interval(self) -> tuple[float, float]:
        """The 95% interval of this difference alone, whatever others are looked at."""
        from scipy import special

        half = float(special.stdtrit(self.freedom, 1 - (1 - LEVEL) / 2)) * self.error
        return self.value - half, self.value + half


FIGURES: Mapping[str, Direction] = {
    "columns.tvd.mean": "lower",
    "pairs.tvd.mean": "lower",
    "utility.tstr.linear": "higher",
    "utility.tstr.boosting": "higher",
}
"""By name of the number in the catalog, which way is better."""
FORMS: Mapping[str, Form] = {"utility.tstr.linear": "linear", "utility.tstr.boosting": "boosting"}


class ReplicatedFigure(Protocol):
    @property
    def value(self) -> float:
        """The figure on all rows."""

    @property
    def landmarks(self) -> tuple[float, float]:
        """The same of fresh real rows (of training rows, for models), and of shuffled columns."""

    def less(self, other: Self) -> Difference:
        """This figure less that of another table, measured beside the same real rows."""


@dataclass(frozen=True)
class MeanDistance:
    # of synthetic, fresh and shuffled rows as `evaluate.fidelity.estimates.Distance` has them; shape (3, n_replicates),
    # the first replicate being of all rows.
    replicates: np.ndarray
    n_distances: int

    @property
    def value(self) -> float:
        """As `ReplicatedFigure` says."""
        return float(self.replicates[SYNTHETIC, 0])

    @property
    def landmarks(self) -> tuple[float, float]:
        """As `ReplicatedFigure` says."""
        return float(self.replicates[FRESH, 0]), float(self.replicates[SHUFFLED, 0])

    @property
    def _beyond(self) -> np.ndarray:
        return np.asarray(np.maximum(self.replicates[SYNTHETIC], self.replicates[FRESH]))

    def less(self, other: "MeanDistance") -> Difference:
        """As `ReplicatedFigure` says. Halves of the training rows are the same for both; each table has its own. A
        table that is closer to the training rows than a fresh real sample has learned these rows, not where they come
        from, which is no merit: it counts as being as close as the sample.
        """
        between = self._beyond - other._beyond
        if len(between) == 1:
            return Difference(float(between[0]), np.inf, 1.0)
        return Difference.of(float(between[0]), *blended_variance(between, self.n_distances))


@dataclass(frozen=True)
class Score:
    drawn: np.ndarray  # on the control rows, then on draws of them; shape (1 + n_draws,)
    halves: np.ndarray
    trained_on_real: float
    trained_on_shuffled: float

    @property
    def value(self) -> float:
        """As `ReplicatedFigure` says."""
        return float(self.drawn[0])

    @property
    def landmarks(self) -> tuple[float, float]:
        """As `ReplicatedFigure` says."""
        return self.trained_on_real, self.trained_on_shuffled

    def less(self, other: "Score") -> Difference:
        """As `ReplicatedFigure` says: both are scored on the same draws."""
        drawn = self.drawn - other.drawn
        return Difference.of(float(drawn[0]), *variance(drawn, self.halves - other.halves))


@dataclass(frozen=True)
class ReplicatedFigures:
    found: Mapping[str, ReplicatedFigure]
    absent: Mapping[str, Failure] = field(default_factory=dict)

    @classmethod
    def of(cls, tables: Tables, time_limit_s: float | None = None) -> "ReplicatedFigures":
        """The figures of a table beside its real rows; what fails or takes too long is absent, with the reason.
        `tables`: *Sensitive*. All tables that are compared stand beside the same `Real` and have as many rows.
        """
        found: dict[str, ReplicatedFigure] = {}
        absent: dict[str, Failure] = {}
        for name in FIGURES:
            got, _ = attempted(name, partial(_MAKERS[name], name, tables), time_limit_s)
            if isinstance(got, Failure):
                absent[name] = got
            else:
                found[name] = got
        return cls(found, absent)


def _columns(name: str, tables: Tables) -> MeanDistance | Failure:
    if not tables.schema.learned:
        return Failure(name, "skipped", "the schema has no column that is learned")
    columns = compared_columns(tables, Samples.draw(tables))
    return MeanDistance(np.mean([column.tvd for column in columns], axis=0), len(columns))


def _pairs(name: str, tables: Tables) -> MeanDistance | Failure:
    if len(tables.schema.learned) < 2:
        return Failure(name, "skipped", "the schema has fewer than two columns that are learned")
    coded = EncodedSamples.of(tables, Samples.draw(tables))
    pairs = list(itertools.combinations(range(len(coded.columns)), 2))
    return MeanDistance(np.mean([coded.tvd(*pair) for pair in pairs], axis=0), len(pairs))


def _score(name: str, tables: Tables) -> Score | Failure:
    study, form = study_of(tables), FORMS[name]
    if isinstance(study, str):
        return Failure(name, "skipped", study)
    real, shuffled = (
        float(study.score(study.models[form].predictions[side], study.blocks[0])[0]) for side in ("trtr", "floor")
    )
    drawn, halves = study.drawn(form, "tstr", study.score), study.split(form, "tstr", study.score)
    return Score(drawn, halves, real, shuffled)


_MAKERS: Mapping[str, Callable[[str, Tables], "ReplicatedFigure | Failure"]] = {
    "columns.tvd.mean": _columns, "pairs.tvd.mean": _pairs,
    "utility.tstr.linear": _score, "utility.tstr.boosting": _score,
}  # fmt: skip
