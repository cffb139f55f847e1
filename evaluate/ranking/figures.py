"""The figures that tables are ranked by, and the difference of one figure between two tables with its error.

Fidelity is how much of the dependence between columns is lost or made up: most of a mean distance of pairs is margins,
so that shuffled columns would stand ahead of a private table. Utility is the score of models on control rows. Every
table is measured beside the same real rows and draws, whose effect cancels in the difference. No table is better for
being closer to train than a fresh real sample, nor worse for being farther off than shuffled columns.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from evaluate.engine import attempted
from evaluate.fidelity.dependence import SHARE, Squares, pair_squares
from evaluate.fidelity.encoded import EncodedSamples
from evaluate.fidelity.samples import FRESH, SHUFFLED, SYNTHETIC, Samples
from evaluate.intervals import LEVEL, N_GROUPS
from evaluate.result import Direction, Failure
from evaluate.tables import Tables
from evaluate.utility.models import FORMS
from evaluate.utility.study import interval, study_of, variance

FIGURES: Mapping[str, Direction] = {SHARE: "lower", **{f"utility.tstr.{form}": "higher" for form in FORMS}}
"""By name of the number in the catalog, which way is better."""


@dataclass(frozen=True)
class Difference:
    value: float
    error: float
    freedom: float

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


@dataclass(frozen=True)
class DependenceLost:
    squares: Squares  # Over all pairs of columns

    @property
    def value(self) -> float:
        return self.squares.share(SYNTHETIC)

    @property
    def landmarks(self) -> tuple[float, float]:
        """The same of fresh real rows (of training rows, for models), and of shuffled columns."""
        return self.squares.share(FRESH), self.squares.share(SHUFFLED)

    def less(self, other: Any) -> Difference:
        """This figure less that of another table, measured beside the same real rows."""
        # Halves of the training rows are the same for both; each table has its own.
        first, second = self.squares, other.squares
        room, apart = float(first.beyond_noise[-1]), self.value - other.value
        # To first order, as in `Squares.interval`: what half-samples of all three tables change in the difference.
        moved = 2 * (first.slope[SYNTHETIC] - second.slope[SYNTHETIC] - apart * first.slope[-1]) / room
        noise = float(first.noise_variance[SYNTHETIC] + second.noise_variance[SYNTHETIC]) / room**2
        error = np.sqrt(max(np.mean(moved**2) - noise / 2, noise))
        ends = np.clip([self.value, other.value], 0.0, 1.0)
        return Difference(float(ends[0] - ends[1]), float(error), len(moved))


@dataclass(frozen=True)
class Score:
    drawn: np.ndarray  # on the control rows, then on draws of them; shape (1 + n_draws,)
    halves: np.ndarray  # of models of halves, shape (n_splits, 2, 1 + n_fewer)
    floor: np.ndarray  # of a model of shuffled columns, as `drawn`
    trained_on_real: float

    @property
    def value(self) -> float:
        return float(self.drawn[0])

    @property
    def landmarks(self) -> tuple[float, float]:
        return self.trained_on_real, float(self.floor[0])

    def less(self, other: Any) -> Difference:
        drawn = self._above(self.drawn) - other._above(other.drawn)  # both are scored on the same draws
        total, freedom = variance(drawn, self._above(self.halves) - other._above(other.halves))
        return Difference(float(drawn[0]), float(np.sqrt(total)), freedom)

    def _above(self, scores: np.ndarray) -> np.ndarray:
        return np.asarray(np.maximum(scores, self.floor[: scores.shape[-1]]))


@dataclass(frozen=True)
class ReplicatedFigures:
    measured: Mapping[str, DependenceLost | Score]
    absent: Mapping[str, Failure] = field(default_factory=dict)

    @classmethod
    def of(cls, tables: Tables, time_limit_s: float | None = None) -> "ReplicatedFigures":
        """The figures of a table beside the same `Real` as all others; what fails is absent, with the reason."""
        measured: dict[str, DependenceLost | Score] = {}
        absent: dict[str, Failure] = {}
        for name in FIGURES:
            measure = _dependence if name == SHARE else _score
            result, _ = attempted(name, partial(measure, name, tables), time_limit_s)
            if isinstance(result, Failure):
                absent[name] = result
            else:
                measured[name] = result
        return cls(measured, absent)


def _dependence(name: str, tables: Tables) -> DependenceLost | Score | Failure:
    if len(tables.schema.learned) < 2:
        return Failure(name, "not applicable", "the schema has fewer than two columns that are learned")
    samples = Samples.draw(tables).whole()
    if samples.n_groups != N_GROUPS:
        sides = (samples.tables[0], samples.train), (samples.tables[1 + FRESH], samples.others[FRESH])
        # Of a table whose rows are all of a few units, that is its own doing.
        is_real = min(table.n_units(cut.n_rows) for table, cut in sides) < N_GROUPS
        return Failure(name, "not applicable" if is_real else "skipped", "there are too few rows for an interval")
    squares = Squares.total(pair_squares(EncodedSamples.of(tables, samples)).values())
    if not squares.tells(samples.train.n_rows / samples.n):
        return Failure(name, "not applicable", "shuffled columns are not told from a fresh real sample")
    return DependenceLost(squares)


def _score(name: str, tables: Tables) -> DependenceLost | Score | Failure:
    study, form = study_of(tables), next(form for form in FORMS if name.endswith(form))
    if isinstance(study, str):
        return Failure(name, "skipped", study)
    floor, real = (study.drawn(form, side) for side in ("floor", "trtr"))
    halves = study.split(form, "trtr")
    if interval(real - floor, halves - floor[: halves.shape[-1]])[0] <= 0.0:
        why = (
            "models of shuffled columns are not told from models of real rows: few rows, or nothing predicts the target"
        )
        return Failure(name, "not applicable", why)
    drawn, halves = study.drawn(form, "tstr"), study.split(form, "tstr")
    return Score(drawn, halves, floor, float(real[0]))
