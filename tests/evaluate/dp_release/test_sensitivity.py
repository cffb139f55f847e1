"""What published numbers draw, and what one unit moves: the scheduled noise, and never farther than it pays for.

What a unit moves is found by brute force: every unit of small random tables is taken out. The numbers are those that
`release_numbers` asks its budget for. It is given the same answers about all tables, so that what it asks about later
rests on the same number of rows.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from evaluate import dp_release
from evaluate.dp_release import (
    ACCURACY,
    COLUMNS,
    PAIRS,
    ROWS,
    Yardstick,
    bounded,
    half_rows,
    release_numbers,
    released_schedule,
    right_and_wrong,
)
from evaluate.provenance import COLUMN, COLUMN_MEAN, MEASURES, N_ROWS, PAIR_MEAN, RIGHT, Released
from synth.dp.budget import Budget
from synth.dp.mechanisms import InjectedNoise, NoNoise, SystemNoise
from synth.dp.schedule import Schedule
from synth.errors import BudgetError
from synth.schema import Schema, build_schema
from synth.split import Split, split_table
from synth.table import conform

N = 500
KINDS: dict[str, Any] = {
    "age": {"kind": "integer", "bounds": [0, 9], "missing": True},
    "height": {"kind": "real", "bounds": [0.0, 2.0]},
    "town": {"kind": "categorical", "categories": ["a", "b", "c"]},
    "ill": {"kind": "boolean", "missing": True},
}
DISTANCES = {*KINDS, "pairs"}
RELEASES = ("rows", *KINDS, "pairs", "accuracy")


def schema_of(k: int = 1, **changes: Any) -> Schema:
    content: dict[str, Any] = {"status": "declared", "n_units": N, "target": "ill", "columns": KINDS, **changes}
    if k == 1:
        return build_schema(content)
    columns = {"person": {"kind": "identifier", "bounds": [0, 10**6]}, **KINDS}
    return build_schema({**content, "entity": "person", "max_rows_per_unit": k, "columns": columns})


@cache
def schedule_of(k: int = 1) -> Schedule:
    return released_schedule(schema_of(k), 0.7, "auto")


def table(n: int, rng: np.random.Generator, n_people: int | None = None) -> pd.DataFrame:
    """Random rows; people have any number of them."""
    age = rng.integers(0, 10, n).astype(float)
    age[rng.random(n) < 0.1] = np.nan
    ill = pd.Series(rng.random(n) < 0.5 + 0.04 * (np.nan_to_num(age) - 5), dtype="boolean")
    ill[rng.random(n) < 0.1] = pd.NA
    town = rng.choice(["a", "b", "c", "unknown"], n, p=[0.6, 0.2, 0.1, 0.1])
    frame = pd.DataFrame({"age": age, "height": rng.random(n) * 2.2, "town": town, "ill": ill})
    return frame if n_people is None else frame.assign(person=rng.integers(0, n_people, n))


@pytest.fixture(scope="module")
def sides() -> Split:
    rows = conform(table(N, np.random.default_rng(0)), schema_of(), outside="clamp")
    return split_table(rows, schema_of(), private=True)


@pytest.fixture(scope="module")
def synthetic() -> pd.DataFrame:
    return conform(table(400, np.random.default_rng(1)), schema_of(), outside="clamp")


@pytest.fixture(scope="module", autouse=True)
def the_same_before_and_after() -> Iterator[None]:
    """Which rows of an entity count is chosen by a key of the system's; what a fixed table makes is made once."""
    from synth.generators.fitting import training_data

    fit, fitted, part, built = dp_release._model, {}, Yardstick.of, {}

    def once_of(synthetic: pd.DataFrame, schema: Schema) -> Yardstick:
        if id(synthetic) not in built:
            built[id(synthetic)] = (synthetic, part(synthetic, schema))
        return built[id(synthetic)][1]

    def once(rows: pd.DataFrame, known: pd.Index, schema: Schema) -> Any:
        if id(rows) not in fitted:
            fitted[id(rows)] = (rows, fit(rows, known, schema))  # the rows too, so that no other gets their number
        return fitted[id(rows)][1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training_data, "system_words", np.zeros)
        patch.setattr(dp_release, "_model", once)
        patch.setattr(Yardstick, "of", once_of)
        yield


class Loud:
    """The system's noise, scaled; a fault to be found."""

    private = True

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def gaussian(self, values: np.ndarray, sigma: float) -> np.ndarray:
        if self.factor == 0:
            return values
        return SystemNoise().gaussian(values, sigma * self.factor)


def residuals(sides: Split, synthetic: pd.DataFrame, noise: Any, n_times: int) -> np.ndarray:
    """Drawn minus exact, in standard deviations of the noise that the schedule states; all draws of all times."""
    schema, schedule = schema_of(), schedule_of()
    yardstick = Yardstick.of(synthetic, schema)
    parts = [bounded(side, yardstick) for side in (sides.train, sides.holdout)]
    both = pd.concat(parts, ignore_index=True)
    columns = list(zip(yardstick.column_counts(both), yardstick.column_counts(yardstick.synthetic), strict=True))
    pairs = yardstick.pair_counts(both), yardstick.pair_counts(yardstick.synthetic)
    accuracy = right_and_wrong(parts[1], yardstick)
    assert accuracy is not None
    result: list[float] = []
    n_left_out = 0
    for _ in range(n_times):
        numbers = release_numbers(sides, synthetic, schema, Budget(schedule, noise))
        by = {each.measure: each for each in numbers if each.measure != COLUMN}
        if RIGHT not in by:  # noise that is too loud may leave no held-out row
            n_left_out += 1
            continue
        n_rows = int(by[N_ROWS].value)
        exact = [len(both), *(half_rows([c], [s], n_rows) for c, s in columns), half_rows(*pairs, n_rows), *accuracy]
        drawn = [d for m in (N_ROWS, COLUMN_MEAN, PAIR_MEAN, RIGHT) for d in by[m].drawn]
        events = [schedule.event(what) for what in (ROWS, *[COLUMNS] * len(KINDS), PAIRS, ACCURACY, ACCURACY)]
        result += [(d - e) / event.sigma for d, e, event in zip(drawn, exact, events, strict=True)]  # type: ignore[union-attr]
    assert 2 * n_left_out < n_times
    return np.array(result)


def suspicious(result: np.ndarray) -> bool:
    """Whether residuals are not of the stated size, at one in a million."""
    return bool(min(stats.chi2.cdf(q := float((result**2).sum()), len(result)), stats.chi2.sf(q, len(result))) < 5e-7)


def test_the_noise_is_that_of_the_schedule(sides: Split, synthetic: pd.DataFrame) -> None:
    result = residuals(sides, synthetic, SystemNoise(), 25)
    assert not suspicious(result)
    assert abs(result.mean()) < 4 / np.sqrt(len(result))


@pytest.mark.parametrize("factor", [0.0, 0.5, 2.0])
def test_other_noise_than_the_schedule_states_is_caught(sides: Split, synthetic: pd.DataFrame, factor: float) -> None:
    assert suspicious(residuals(sides, synthetic, Loud(factor), 16))


def test_half_the_sensitivity_is_caught_by_the_price() -> None:
    """With k rows of a unit, counts move by k: a schedule for half of that would cost twice what it says."""
    assert {event.sensitivity for event in schedule_of(4).events} == {4}  # type: ignore[union-attr]
    assert schedule_of(4).epsilon <= 0.7
    for of_four, plain in zip(schedule_of(4).events, schedule_of().events, strict=True):
        assert float(of_four.sigma / plain.sigma) == pytest.approx(4, rel=2e-3)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("columns", "target", "missing"),
    [
        ({"age": KINDS["age"]}, None, {PAIR_MEAN, RIGHT}),
        ({"age": KINDS["age"], "ill": KINDS["ill"]}, "age", {RIGHT}),
    ],
)
def test_a_table_without_pairs_or_classes_pays_for_neither(sides, synthetic, columns, target, missing):
    schema = schema_of(columns=columns, target=target)
    budget = Budget(released_schedule(schema, 0.7, "auto"))
    kept = Split(sides.train[list(columns)], sides.holdout[list(columns)], True, sides.inside)
    numbers = release_numbers(kept, synthetic[list(columns)], schema, budget)
    assert {each.measure for each in numbers} == set(MEASURES) - missing
    assert sum(event.count for event in budget.schedule.events) == sum(
        1 if each.measure == RIGHT else len(each.drawn) for each in numbers if each.measure != COLUMN_MEAN
    )


def test_an_undeclared_schema_pays_for_nothing() -> None:
    with pytest.raises(BudgetError, match="a declared schema"):
        released_schedule(schema_of(status="inferred"), 0.7, "auto")
    with pytest.raises(BudgetError, match="n_units"):
        released_schedule(schema_of(n_units=None), 0.7, "auto")


def test_a_column_whose_domain_is_not_declared_is_seen_as_the_synthetic_table_shows_it(sides, synthetic):
    measured = {
        "age": {"kind": "integer", "missing": True, "measure": True},
        "town": {"kind": "categorical", "measure": True},
    }
    schema, narrow = (
        schema_of(columns={**KINDS, **measured}),
        synthetic.assign(age=synthetic["age"].clip(4, 6), town="a"),
    )
    assert Yardstick.of(narrow, schema).schema.columns["age"].bounds == (4, 6)  # type: ignore[union-attr]
    numbers = release_numbers(sides, narrow, schema, Budget(released_schedule(schema, 50.0, "auto"), NoNoise()))
    result = {each.subject: each for each in numbers if each.measure == COLUMN}
    real = pd.concat([sides.train, sides.holdout])
    assert result[("town",)].value == pytest.approx((real["town"] != "a").mean(), abs=2 / N)


def test_intervals_hold_the_exact_number_in_a_few_repetitions(sides: Split, synthetic: pd.DataFrame) -> None:
    rng, covered = np.random.default_rng(0), []
    exact = release_numbers(sides, synthetic, schema_of(), Budget(schedule_of(), NoNoise()))
    truth = {(each.measure, each.subject): each.value for each in exact}
    for _ in range(25):
        numbers = release_numbers(sides, synthetic, schema_of(), Budget(schedule_of(), InjectedNoise(rng)))
        # Half rows are whole numbers: rounding down may cost one of them.
        covered += [
            each.low - 1.5 / N <= truth[each.measure, each.subject] <= each.high + 1.5 / N for each in numbers
        ]  # fmt: skip
    assert np.mean(covered) > 0.88


class Canned:
    """Answers with one number, whatever was asked; keeps what was."""

    private = False

    def __init__(self, answer: int) -> None:
        self.answer = answer
        self.asked: list[np.ndarray] = []

    def gaussian(self, values: np.ndarray, sigma: float) -> np.ndarray:
        self.asked.append(values.copy())
        return np.full_like(values, self.answer)


def asked(real: pd.DataFrame, synthetic: pd.DataFrame, k: int, n_rows: int) -> dict[str, np.ndarray]:
    """Everything that is noised, before it is; the sides of units are what they always are."""
    side, noise = real["side"].to_numpy(), Canned(n_rows)
    parts = (real[side == each].drop(columns=["side", "unit"]) for each in ("train", "holdout"))
    sides = Split(*parts, True, side == "holdout")
    release_numbers(sides, synthetic, schema_of(k), Budget(schedule_of(k), noise))  # type: ignore[arg-type]
    return dict(zip(RELEASES, noise.asked, strict=True))


def farthest(k: int, seed: int) -> dict[str, float]:
    """The largest L2 distance that taking out any one unit moves each release, over a small random table."""
    rng = np.random.default_rng(seed)
    real = table(24, rng, None if k == 1 else 10)
    if k > 1:  # somebody with more rows than may count, all of them alike, and rows of nobody
        real.loc[:5, ["age", "height", "town", "ill"]] = [0.0, 0.1, "c", True]
        real.loc[:5, "person"] = 999
        real["person"] = real["person"].astype("Int64")
        real.loc[6, "person"] = pd.NA
    real["unit"] = np.arange(len(real)) if k == 1 else real["person"].astype(object)
    real["side"] = np.where(pd.util.hash_array(real["unit"].astype(str).to_numpy()) % 3 == 0, "holdout", "train")
    synthetic = table(60, rng, None if k == 1 else 20)
    moved = dict.fromkeys(RELEASES, 0.0)
    n_rows = int(rng.integers(1, 80))
    whole = asked(real, synthetic, k, n_rows)
    for unit in real["unit"].dropna().unique():
        without = asked(real[real["unit"].ne(unit).fillna(True)], synthetic, k, n_rows)
        for what, number in whole.items():
            moved[what] = max(moved[what], float(np.linalg.norm(number - without[what])))
    return moved


def over_tables(k: int, n_tables: int) -> dict[str, float]:
    result = [farthest(k, seed) for seed in range(n_tables)]
    return {what: max(each[what] for each in result) for what in RELEASES}


@pytest.mark.parametrize("k", [1, 2])
def test_no_unit_moves_a_release_farther_than_its_sensitivity(k: int) -> None:
    moved = over_tables(k, 1)
    assert all(distance <= k for distance in moved.values()), moved
    # Nor is the bound idle: noise for half of it would be caught here.
    assert all(moved[what] > k / 2 for what in RELEASES), moved


@pytest.mark.slow
@pytest.mark.parametrize("k", [1, 2, 3])
def test_no_unit_of_many_tables_moves_a_release_farther_than_its_sensitivity(k: int) -> None:
    moved = over_tables(k, 12)
    assert all(distance <= k for distance in moved.values()), moved


_rows = dp_release._rows


def _at_the_exact_rows(real: list[np.ndarray], synthetic: list[np.ndarray], _n_rows: int) -> int:
    return half_rows(real, synthetic, int(real[0].sum()))


def _exact_rows(n_rows: int, schema: Schema, budget: Budget) -> Released:
    """Drawn and paid for as it should be; what is gone on with is another number."""
    return replace(_rows(n_rows, schema, budget), value=float(n_rows), low=0.0, high=1e3)


def _summed(real: list[np.ndarray], synthetic: list[np.ndarray], n_rows: int) -> int:
    return half_rows(real, synthetic, n_rows) * len(real)


def _whole_rows(real: list[np.ndarray], synthetic: list[np.ndarray], n_rows: int) -> int:
    return 2 * half_rows(real, synthetic, n_rows)


def _not_bounded(rows: pd.DataFrame, yardstick: Yardstick) -> pd.DataFrame:
    return conform(rows, yardstick.schema, outside="clamp", part=True)


@pytest.mark.parametrize(
    ("name", "lie", "k", "farther"),
    [
        ("half_rows", _at_the_exact_rows, 1, DISTANCES),
        ("_rows", _exact_rows, 1, DISTANCES),
        ("_rows", _exact_rows, 2, DISTANCES),
        ("half_rows", _summed, 1, {"pairs"}),
        ("half_rows", _whole_rows, 1, DISTANCES),
        ("bounded", _not_bounded, 2, {"rows"}),
        ("bounded", _not_bounded, 2, {"accuracy"}),
    ],
)
def test_a_number_that_one_unit_moves_farther_is_caught(monkeypatch, name, lie, k, farther):
    monkeypatch.setattr(dp_release, name, lie)
    moved = over_tables(k, 1)
    assert any(moved[what] > k for what in farther), moved
