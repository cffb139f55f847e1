"""A whole private fit with one unit less, noise pinned: no number moves by more than is paid, and all else is equal.

A fit asks for later numbers by what it has heard before. So the second fit is told what the first one was, and what it
asks may differ by the one unit alone, for no less noise than is stated. Then both leave the same model, byte for byte.
Each fault in the table below must show, whatever epsilon is.
"""

import json
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import pytest

from synth import extras
from synth.domain.counts import CoarseCounts, SpooledTable
from synth.dp import budget, mechanisms
from synth.dp.budget import Budget
from synth.dp.events import GaussianEvent, StabilityEvent
from synth.dp.schedule import Schedule
from synth.errors import ModelError
from synth.generators import registry
from synth.generators.base import PrivateGenerator, compose
from synth.generators.fitting import private_fit, training_data
from synth.generators.fitting.parity import ParitySearch
from synth.generators.fitting.selection import ClassSearch
from synth.generators.fitting.training_data import PrivateRows, TrainingTable
from synth.generators.latent_class import MANY_COLUMNS
from synth.generators.marginal_generator import Mst
from synth.generators.models import fitted
from synth.generators.neural_generator import PrivateNetwork
from synth.schema import Schema, build_schema
from synth.table import conform
from tests.chunks import in_chunks
from tests.synth.generators.pinned import Pinned

SMALL: dict[str, dict[str, Any]] = {
    "aim": {"rounds": 2},
    "latent_class": {"rounds": 2, "n_classes": 300},
    "pategan": {"n_teachers": 3, "rounds": 2, "labels_per_round": 4, "generator_steps": 1},
}
PRIVATE = [
    name for name in registry.names()
    if registry.generator_class(name).private and name not in {"auto", *extras.entries("audit")}
]  # fmt: skip
"""Where respondents randomize, the tests of that extra ask the same of what they send."""
QUICK = ("independent", "mst")
K = {"entity": 2, "history": 3}
"""Rows of a unit that count: of a history two later ones."""
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
    content: dict[str, Any] = {"status": "declared", "n_units": 500, "target": "word", "columns": columns}
    if unit != "row":
        content |= {"columns": {"who": {"kind": "identifier", "bounds": [0, 99]}, **columns}}
        content |= {"entity": "who", "max_rows_per_unit": 1 if asks else K[unit]} | (
            {"order": "day"} if unit == "history" else {}
        )
    return build_schema(content)


def units_of(rows: PrivateRows) -> Counter[Any]:
    """What a network is trained on: the encoded rows of each unit."""
    owners = np.arange(len(rows.encoded.codes)) if rows.entities is None else rows.entities
    assert (owners >= 0).all()
    codes = rows.encoded.codes.tolist()
    return Counter(
        tuple(sorted(map(tuple, (codes[i] for i in np.flatnonzero(owners == first))))) for first in {*owners}
    )


class Fit:
    """All that a fit reads of its rows."""

    budget: Pinned
    model: Any = None
    rounding = 1e-9

    def __init__(self, generator: PrivateGenerator, rows: Any, schema: Schema, earlier: "Fit | None" = None) -> None:
        schedule = _scheduled(generator, schema.model_dump_json(), private_fit.domain_events)
        self.budget = Pinned(schedule, None if earlier is None else earlier.budget)
        self.units = Counter[Any]()

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(training_data, "system_words", np.zeros)
            self.watch(patch)
            with suppress(StopIteration):
                self.model = generator.fit(rows, schema, seed=3, budget=self.budget)

    def watch(self, patch: pytest.MonkeyPatch) -> None:
        """Of a network, the units are the rows that it is trained on."""

        def trained(_: Any, rows: PrivateRows, *__: Any) -> None:
            self.units = units_of(rows)
            raise StopIteration

        patch.setattr(PrivateNetwork, "_trained", trained)

    def differences(self, other: "Fit") -> list[float]:
        """How far each answer is from another fit's, in what is paid for."""
        return self.budget.differences(other.budget)


@cache
def _scheduled(generator: PrivateGenerator, schema: str, _: Any) -> Schedule:
    schedule = generator.schedule(build_schema(json.loads(schema)))
    assert schedule is not None
    return schedule


def told_by(model: Any) -> Any:
    """All that a model tells, of the answers that are pinned here: its files, size and rows."""
    if model is None:
        return None
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitted, "FITTED_ROWS", 100)
        model.save(Path(folder) / "model")
        files = {path.name: path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}
        try:
            rows = model.sample(9, seed=1)
            told = rows.dtypes.to_dict(), rows.to_csv()
        except ModelError as refusal:  # noise may leave bounds that hardly a row keeps: what is said then tells as well
            told = {}, str(refusal)
    return files, str(model.statement), model.default_rows, *told


def one_unit_less_moves_what_is_paid_for(
    generator: PrivateGenerator, unit: str, *, asks: bool = False, watched: type[Fit] = Fit, last: bool = False
) -> None:
    """`last`: the last unit alone is left out, where others have draws of their own, by their turn."""
    frame, schema = visits(), schema_of(unit, asks=asks)
    composed = compose(generator, schema)
    assert isinstance(composed, PrivateGenerator)
    generator = composed
    if unit == "history" and not generator.in_order:
        pytest.skip("its rows are drawn independently")
    names = conform(frame, schema, outside="clamp")["who"] if schema.entity else pd.Series(range(len(frame)))
    whole = watched(generator, in_chunks(frame, schema, None), schema)
    told = told_by(whole.model)
    # Few rows seldom change what is made of a range or of steps: exact ones in place of a draw would not show.
    drawn = {draw.event for draw in whole.budget.draws}
    counted = [each for each in whole.budget.schedule.events if isinstance(each, GaussianEvent | StabilityEvent)]
    assert drawn.issuperset(counted)
    busy, other = (names[0], names[5]) if schema.entity else (9, 0)
    nobody = [(None, 7)] if schema.entity else []
    cases = [(names.iloc[-1], None)] if last else [(busy, 1), (other, 7), (busy, None), *nobody]
    for gone, size in cases:
        kept = names.notna() if gone is None else ~names.eq(gone).fillna(False).astype(bool)
        fit = watched(generator, in_chunks(frame[kept].reset_index(drop=True), schema, size), schema, whole)
        assert max(whole.differences(fit), default=0.0) <= (0.0 if gone is None else 1.0 + watched.rounding)
        assert told_by(fit.model) == told
        assert not fit.units - whole.units and (whole.units - fit.units).total() <= int(gone is not None)


def small(name: str) -> PrivateGenerator:
    if name == "pategan":
        pytest.importorskip("torch")
    fitted_model = registry.generator(name, epsilon=9.0, **SMALL.get(name, {}))
    assert isinstance(fitted_model, PrivateGenerator)
    return fitted_model


# Five fits each, of which one takes about half a second.
@pytest.mark.parametrize("unit", ["row", "entity", pytest.param("history", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in PRIVATE]
)
def test_one_unit_less_moves_every_answer_of_a_fit_by_what_is_paid_for(name: str, unit: str) -> None:
    one_unit_less_moves_what_is_paid_for(small(name), unit)


_release, _choose, _named = mechanisms.release, mechanisms.select, mechanisms.name_stable
_score, _class_scores, _measure = Mst._score, ClassSearch.scores, private_fit.measure_domain
_positions, _values, _sizes = TrainingTable.place_counts, TrainingTable.value_counts, TrainingTable.rows_per_entity
_domain_events, _counted, _each = private_fit.domain_events, SpooledTable._counted, CoarseCounts.each
_released, _parity_scores = Budget.release, ParitySearch.scores


def _exact_bounds(train: Any, schema: Schema, budget: Any) -> Schema:
    known, exact = _measure(train, schema, budget), train.rows.frame("pay")["pay"]
    pay = known.columns["pay"].model_copy(update={"bounds": (float(exact.min()), float(exact.max()))})
    return known.model_copy(update={"columns": {**known.columns, "pay": pay}})


def _exact_values(counts: Any, event: StabilityEvent, noise: Any) -> Any:
    _named(counts, event, noise)
    return sorted(counts)


def _of_one_row(schema: Schema, rho: float, delta: float) -> Any:
    return _domain_events(schema.model_copy(update={"max_rows_per_unit": 1}), rho, delta)


def _with_sigma(sigma_of: Any) -> Any:
    """Releases of pairs with other noise than the event has that pays for them."""

    def release(self: Budget, exact: np.ndarray, event: GaussianEvent) -> np.ndarray:
        if not event.what.startswith("pairs"):
            return _released(self, exact, event)
        noisy = self._charge_then_draw(event, lambda: self._noise.gaussian(exact.astype(int), sigma_of(self, event)))
        return np.asarray(noisy)

    return release


def _unpaid(what: str) -> Any:
    """Releases of which those of such an event are exact, and nothing is drawn or paid for them."""
    return lambda self, exact, event: exact if event.what.startswith(what) else _released(self, exact, event)


def _of_the_heaviest(self: Budget, _: GaussianEvent) -> float:
    return min(e.sigma for e in self.schedule.events if isinstance(e, GaussianEvent) and e.what.startswith("pairs"))


def _made_up_to_n_units(self: SpooledTable, cliques: Any) -> list[np.ndarray]:
    """Shares of the table in place of counts."""
    return [np.rint(counts * (500 / max(counts.sum(), 1))).astype(np.int64) for counts in _counted(self, cliques)]


Fault = tuple[Any, str, Any, str, str]
FAULTS: dict[str, Fault] = {
    "a unit counts twice": (
        budget, "release", lambda exact, event, noise: _release(2 * exact, event, noise), "independent", "row",
    ),
    "a twentieth less noise is asked for": (
        budget, "release", lambda exact, event, noise: _release(exact, replace(event, sigma=0.95 * event.sigma), noise),
        "independent", "row",
    ),
    "counts without noise": (budget, "release", lambda exact, event, noise: exact, "independent", "row"),
    "half the sensitivity of scores": (
        budget, "select", lambda scores, most, event, noise: _choose(scores, most / 2, event, noise), "mst", "row",
    ),
    "choices at twice epsilon": (
        budget, "select",
        lambda scores, most, event, noise: _choose(scores, most, replace(event, epsilon=2 * event.epsilon), noise),
        "mst", "entity",
    ),
    "choices without noise": (
        budget, "select", lambda scores, most, event, noise: int(np.argmax(scores)), "mst", "row",
    ),
    "scores that move twice as far": (
        Mst, "_score", lambda self, *args: (lambda names, scores: (names, 2 * scores))(*_score(self, *args)),
        "mst", "row",
    ),
    "scores of marginals that move twice as far": (
        ClassSearch, "scores", lambda self, *args: 2 * _class_scores(self, *args), "latent_class", "row",
    ),
    "scores doubled at the stated scale": (
        budget, "select", lambda scores, most, event, noise: _choose(2 * scores, most, event, noise), "mst", "row",
    ),
    "scores squared": (
        budget, "select", lambda scores, most, event, noise: _choose(scores**2, most, event, noise), "mst", "row",
    ),
    "a choice that forgets the rows of an entity": (
        budget, "select", lambda scores, most, event, noise: _choose(scores, 1.0, event, noise), "mst", "entity",
    ),
    "choices with half the noise": (
        budget, "select", lambda scores, most, event, noise: noise.noisy_max(scores, most / event.epsilon),
        "mst", "row",
    ),
    "half the noise": (
        budget, "release", lambda exact, event, noise: noise.gaussian(exact, event.sigma / 2), "independent", "row",
    ),
    "marginals of pairs counted twice": (
        budget, "release",
        lambda exact, event, noise: _release(exact * (1 + event.what.startswith("two-way")), event, noise),
        "mst", "row",
    ),
    "rows counted twice": (
        SpooledTable, "_counted", lambda self, cliques: [2 * counts for counts in _counted(self, cliques)],
        "mst", "row",
    ),
    "counts made up to the public number": (SpooledTable, "_counted", _made_up_to_n_units, "mst", "row"),
    "scores of many columns that move twice as far": (
        ParitySearch, "scores", lambda self, *args: 2 * _parity_scores(self, *args), "latent_class", "row",
    ),
    "choices of many columns that forget the rows of an entity": (
        budget, "select",
        lambda scores, most, event, noise: _choose(scores, 1.0 if event.what == MANY_COLUMNS else most, event, noise),
        "latent_class", "entity",
    ),
    "scores as shares of the rows": (
        ClassSearch, "scores", lambda self, *args: _class_scores(self, *args) * 500 / max(self.counts[0].sum(), 1),
        "latent_class", "row",
    ),
    "pairs of classes counted twice": (
        CoarseCounts, "each", lambda self, cliques: (2 * counts for counts in _each(self, cliques)),
        "latent_class", "row",
    ),
    "pairs with half the noise": (
        Budget, "release", _with_sigma(lambda _, event: event.sigma / 2), "latent_class", "row",
    ),
    "all pairs at the noise of the heaviest": (Budget, "release", _with_sigma(_of_the_heaviest), "latent_class", "row"),
    "choices of classes that forget the rows of an entity": (
        budget, "select", lambda scores, most, event, noise: _choose(scores, 1.0, event, noise), "latent_class",
        "entity",
    ),
    "rows of an entity without a bound": (
        private_fit, "bound_contributions", lambda rows, schema, **_: rows, "independent", "entity",
    ),
    "rows per entity counted twice": (
        TrainingTable, "rows_per_entity", lambda self: 2 * _sizes(self), "independent", "entity",
    ),
    "a low threshold": (
        budget, "name_stable",
        lambda counts, event, noise: _named(counts, replace(event, threshold=event.threshold - 1), noise),
        "independent", "row",
    ),
    "values named whatever their count": (budget, "name_stable", _exact_values, "independent", "row"),
    "k rows forgotten in measured domains": (private_fit, "domain_events", _of_one_row, "independent", "entity"),
    "exact bounds": (private_fit, "measure_domain", _exact_bounds, "independent", "row"),
    "values counted twice": (
        TrainingTable, "value_counts", lambda self, name: {value: 2 * n for value, n in _values(self, name).items()},
        "independent", "row",
    ),
    "a range that is not paid": (Budget, "release", _unpaid("range within"), "independent", "row"),
    "steps that are not paid": (Budget, "release", _unpaid("steps of"), "independent", "entity"),
    "cells of a measured domain counted twice": (
        TrainingTable, "place_counts", lambda self, *args: 2 * _positions(self, *args), "independent", "row",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_what_a_fit_draws_is_caught(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, attribute, planted, name, unit = FAULTS[fault]
    monkeypatch.setattr(owner, attribute, planted)
    with pytest.raises(AssertionError):
        one_unit_less_moves_what_is_paid_for(small(name), unit)
