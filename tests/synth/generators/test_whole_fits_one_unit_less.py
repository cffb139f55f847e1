"""A whole private fit with one unit less, all earlier answers pinned: no question's answer moves by more than is paid.

A fit asks for later numbers by what it has heard before. So the second fit is told what the first one was, and what it
asks may differ by the one unit alone.
"""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd
import pytest

from synth.dp.budget import Budget
from synth.dp.mechanisms import InjectedNoise
from synth.dp.schedule import Schedule
from synth.generators.aim import Aim
from synth.generators.base import PrivateGenerator
from synth.generators.fitting import private_fit, training_data
from synth.generators.fitting.training_data import PrivateRows
from synth.generators.latent_class import LatentClass
from synth.generators.mst import Mst
from synth.generators.neural_generator import Ctgan, NeuralGenerator
from synth.generators.wrapper import compose
from synth.schema import Schema, build_schema
from synth.table import conform
from tests.chunks import in_chunks

GENERATORS: list[PrivateGenerator] = [
    Mst(epsilon=9.0), Aim(epsilon=9.0, rounds=2), LatentClass(epsilon=9.0, rounds=2, n_classes=8), Ctgan(epsilon=9.0),
]  # fmt: skip
QUICK = ("mst",)
K = 2
OWNERS: list[Any] = [1, 1.0, "1", "01", 1, "2", 2, None, "nobody", 3, 4, "4.0"]
"""Five rows of one entity, each spelled in its way, and two that belong to nobody."""
UNTIL = {"expression": "day", "unit": "day", "parts": True}
WRITTEN = {"format": "$#,##0.00", "below": ["-"], "above": [9999]}
SIDE = {"by": "age", "usual": [[0, "left"], [7, "right"]]}
SUMS: dict[str, dict[str, Any]] = {
    "row": {"expression": "age", "left": "ratio", "alone": True, "column": {"kind": "real", "bounds": [0, 9]}},
    "entity": {"expression": "2 * age", "alone": True, "column": {"kind": "integer", "measure": True}},
    "history": {"expression": "either(before(sum), 0) + age", "alone": True},
}


def visits() -> pd.DataFrame:
    n = len(OWNERS)
    return pd.DataFrame({
        "who": pd.Series(OWNERS, dtype=object),
        "age": pd.Series([(7 * i) % 50 for i in range(n - 3)] + ["x", None, 1e300], dtype=object),
        "word": pd.Series((["u", "v", "v ", 5, None] * n)[:n], dtype=object),
        "pay": [10.0**i for i in range(n)],
        "day": [f"2020-01-{1 + i % 3:02d}" for i in range(n)],
        "until": pd.Series(["x", "1999-01-01", *(f"2020-01-{1 + 2 * i:02d}" for i in range(n - 2))], dtype=object),
        "sum": pd.Series([1e300, None, "y", *(i**2 for i in range(n - 3))], dtype=object),
        "cost": pd.Series(["-", 9999, "$1,250.00", 2.5, "$1.00", 7, "x", None] * n, dtype=object)[:n],
        "at": pd.Series([745, "7:45", 1200.5, "1" * 5000 + ":00", None, 30.0] * n, dtype=object)[:n],
        "side": [("left", "right", "up")[i % 5 % 3] for i in range(n)],
    })  # fmt: skip


def schema_of(unit: str, *, asks: bool = False) -> Schema:
    columns: dict[str, Any] = {
        "age": {"kind": "integer", "bounds": [0, 99], "measure_spikes": True, "missing": True},
        "word": {"kind": "categorical", "measure": True, "missing": True},
        "pay": {"kind": "real", "measure": True},
        "day": {"kind": "date", "bounds": ["2020-01-01", "2020-02-01"]},
        "until": {"kind": "date", "bounds": ["2020-01-01", "2020-02-01"], "missing": True, "modeled": UNTIL},
        "sum": {"kind": "integer", "bounds": [0, 999], "missing": True, "modeled": SUMS["row" if asks else unit]},
        "cost": {"kind": "real", "bounds": [0, 5000], "decimals": 2, "missing": True, **WRITTEN},
        "at": {"kind": "clock", "bounds": [0, 1439], "precision": "min", "format": "%-H%M", "missing": True},
        "side": {"kind": "categorical", "categories": ["left", "right"], "missing": True, "modeled": SIDE},
    }
    if asks:  # respondents, who know the answers there are, and send one row each
        columns["age"] |= {"measure_spikes": False}
        columns |= {"word": {"kind": "categorical", "categories": ["u", "v"], "missing": True}}
        columns |= {"pay": {"kind": "real", "bounds": [0, 1e6]}}
    content: dict[str, Any] = {"status": "declared", "n_units": 500, "columns": columns}
    if unit != "row":
        content |= {"columns": {"who": {"kind": "identifier", "bounds": [0, 99]}, **columns}}
        content |= {"entity": "who", "max_rows_per_unit": 1 if asks else K} | (
            {"order": "day"} if unit == "history" else {}
        )
    return build_schema(content)


class Pinned(Budget):
    """It keeps what it is asked, and answers as an earlier one did."""

    def __init__(self, schedule: Schedule, earlier: "Pinned | None" = None) -> None:
        super().__init__(schedule, InjectedNoise(np.random.default_rng(0)))
        self.earlier, self.exact, self.stated = earlier, list[Any](), list[float]()
        self.answers: list[Any] = [] if earlier is None else earlier.answers

    def _answer(self, exact: Any, stated: float, draw: Callable[[], Any]) -> Any:
        if self.earlier is None:
            self.answers.append(draw())
        self.exact.append(exact)
        self.stated.append(stated)
        return self.answers[len(self.exact) - 1]

    def release(self, exact: np.ndarray, event: Any) -> np.ndarray:
        draw = super().release
        released: np.ndarray = self._answer(exact.copy(), event.sensitivity, lambda: draw(exact, event))
        return released

    def choose(self, scores: np.ndarray, score_sensitivity: float, event: Any) -> int:
        draw = super().choose
        exact = [np.array([score]) for score in scores]  # each may move by as much
        return int(self._answer(exact, score_sensitivity, lambda: draw(scores, score_sensitivity, event)))

    def name_stable(self, counts: Any, event: Any) -> list[Any]:
        draw = super().name_stable
        return list(self._answer(dict(counts), event.sensitivity, lambda: draw(counts, event)))


def moved(before: Any, after: Any) -> float:
    """How far an answer moves: L2, of scores the furthest."""
    if isinstance(before, list):
        return max(moved(one, other) for one, other in zip(before, after, strict=True))
    if isinstance(before, dict):
        return float(np.sqrt(sum((before.get(v, 0) - after.get(v, 0)) ** 2 for v in {*before, *after})))
    assert before.shape == after.shape
    return float(np.linalg.norm((before - after).ravel()))


def units_of(rows: PrivateRows) -> Counter[Any]:
    """What a network is trained on: the encoded rows of each unit."""
    owners = np.arange(len(rows.encoded.codes)) if rows.entities is None else rows.entities
    assert (owners >= 0).all()
    codes = rows.encoded.codes.tolist()
    return Counter(tuple(sorted(map(tuple, (codes[i] for i in np.flatnonzero(owners == one))))) for one in {*owners})


class Fit:
    """All that a fit reads of its rows."""

    budget: Pinned
    model: Any = None

    def __init__(self, generator: PrivateGenerator, rows: Any, schema: Schema, earlier: "Fit | None" = None) -> None:
        schedule = generator.schedule(schema) if earlier is None else earlier.budget.schedule
        assert schedule is not None
        self.budget = Pinned(schedule, None if earlier is None else earlier.budget)
        self.units = Counter[Any]()

        def trained(_: Any, __: Any, rows: PrivateRows, *___: Any) -> None:
            self.units = units_of(rows)
            raise StopIteration

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(training_data, "system_words", np.zeros)
            patch.setattr(NeuralGenerator, "_seeded", trained)
            self.watch(patch)
            with suppress(StopIteration):
                self.model = generator.fit(rows, schema, seed=3, budget=self.budget)

    def watch(self, patch: pytest.MonkeyPatch) -> None:
        """What a generator of an extra reads beside counts and rows of a network."""

    def differences(self, other: "Fit") -> list[float]:
        """How far each answer is from another fit's, in what is paid for."""
        budgets = self.budget, other.budget
        assert budgets[0].stated == budgets[1].stated
        exact = zip(budgets[0].exact, budgets[1].exact, strict=True)
        return [moved(*both) / stated for both, stated in zip(exact, budgets[0].stated, strict=True)]


def told_by(model: Any) -> Any:
    """What a model tells but for its noisy answers, which are pinned here: its schema, size, statement and rows."""
    if model is None:
        return None
    rows = model.sample(9, seed=1)
    return str(model.statement), model.schema, model.default_rows, rows.dtypes.to_dict(), rows.to_csv()


def one_unit_less_moves_what_is_paid_for(
    generator: PrivateGenerator, unit: str, *, asks: bool = False, watched: type[Fit] = Fit
) -> None:
    frame, schema = visits(), schema_of(unit, asks=asks)
    composed = compose(generator, schema)
    assert isinstance(composed, PrivateGenerator)
    generator = composed
    if unit == "history" and not generator.in_order:
        pytest.skip("its rows are drawn independently")
    names = conform(frame, schema, outside="clamp")["who"] if schema.entity else pd.Series(range(len(frame)))
    whole = watched(generator, in_chunks(frame, schema, None), schema)
    busy, other = (names[0], names[5]) if schema.entity else (9, 0)
    nobody = [(None, 7)] if schema.entity else []
    for gone, size in [(busy, 1), (other, 7), (busy, None), *nobody]:
        kept = names.notna() if gone is None else ~names.eq(gone).fillna(False).astype(bool)
        fit = watched(generator, in_chunks(frame[kept].reset_index(drop=True), schema, size), schema, whole)
        assert told_by(fit.model) == told_by(whole.model)
        assert max(whole.differences(fit), default=0.0) <= (0.0 if gone is None else 1.0 + 1e-9)
        assert not fit.units - whole.units and (whole.units - fit.units).total() <= int(gone is not None)


# Five fits each, of which one takes about half a second.
@pytest.mark.parametrize("unit", ["row", "entity", pytest.param("history", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "generator",
    [pytest.param(one, id=one.name, marks=() if one.name in QUICK else pytest.mark.slow) for one in GENERATORS],
)
def test_one_unit_less_moves_every_answer_of_a_fit_by_what_is_paid_for(generator: PrivateGenerator, unit: str) -> None:
    one_unit_less_moves_what_is_paid_for(generator, unit)


@pytest.mark.parametrize("unit", ["entity", "history"])
def test_a_fit_that_does_not_bound_rows_is_caught(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private_fit, "bound_contributions", lambda rows, schema, **_: rows)
    with pytest.raises(AssertionError):
        one_unit_less_moves_what_is_paid_for(GENERATORS[0], unit)
