"""What is drawn for published numbers: the scheduled noise and no other, in the scheduled order, once."""

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
from evaluate.released import COLUMN, COLUMN_MEAN, MEASURES, N_ROWS, PAIR_MEAN, RIGHT
from synth.dp.budget import Budget
from synth.dp.mechanisms import InjectedNoise, NoNoise, SystemNoise
from synth.errors import BudgetError
from synth.schema import Schema, build_schema
from synth.split import Split, split_table

N = 800


def schema_of(**changes: Any) -> Schema:
    content: dict[str, Any] = {
        "status": "declared", "n_units": N, "target": "ill",
        "columns": {
            "age": {"kind": "integer", "bounds": [0, 99]},
            "town": {"kind": "categorical", "categories": ["a", "b", "c"]},
            "ill": {"kind": "boolean"},
        },
    }  # fmt: skip
    return build_schema({**content, **changes})


def table(seed: int, n: int = N) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 100, n)
    return pd.DataFrame({"age": age, "town": rng.choice(["a", "b", "c"], n), "ill": rng.random(n) < age / 100})


@pytest.fixture(scope="module")
def sides() -> Split:
    return split_table(table(0), schema_of(), private=True)


@pytest.fixture(scope="module")
def synthetic() -> pd.DataFrame:
    return table(1, 700)


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
    schema = schema_of()
    schedule = released_schedule(schema, 0.7, "auto")
    yardstick = Yardstick.of(synthetic, schema)
    parts = [bounded(side, yardstick) for side in (sides.train, sides.holdout)]
    both = pd.concat(parts, ignore_index=True)
    columns = list(zip(yardstick.column_counts(both), yardstick.column_counts(yardstick.synthetic), strict=True))
    pairs = yardstick.pair_counts(both), yardstick.pair_counts(yardstick.synthetic)
    accuracy = right_and_wrong(parts[1], yardstick)
    assert accuracy is not None
    result: list[float] = []
    for _ in range(n_times):
        numbers = release_numbers(sides, synthetic, schema, Budget(schedule, noise))
        by = {each.measure: each for each in numbers if each.measure != COLUMN}
        n_rows = int(by[N_ROWS].value)
        exact = [len(both), *(half_rows([c], [s], n_rows) for c, s in columns), half_rows(*pairs, n_rows), *accuracy]
        drawn = [d for m in (N_ROWS, COLUMN_MEAN, PAIR_MEAN, RIGHT) for d in by[m].drawn]
        events = [schedule.event(what) for what in (ROWS, COLUMNS, COLUMNS, COLUMNS, PAIRS, ACCURACY, ACCURACY)]
        result += [(d - e) / event.sigma for d, e, event in zip(drawn, exact, events, strict=True)]  # type: ignore[union-attr]
    return np.array(result)


def suspicious(result: np.ndarray) -> bool:
    """Whether residuals are not of the stated size, at one in a million."""
    return bool(min(stats.chi2.cdf(q := float((result**2).sum()), len(result)), stats.chi2.sf(q, len(result))) < 5e-7)


@pytest.fixture(scope="module", autouse=True)
def one_model() -> Any:
    """The model of a fixed table is the same each time it is fitted; here it is fitted once."""
    fit, fitted = dp_release._model, {}

    def once(rows: pd.DataFrame, known: pd.Index, schema: Schema) -> Any:
        key = (len(rows), tuple(known))
        if key not in fitted:
            fitted[key] = fit(rows, known, schema)
        return fitted[key]

    dp_release._model = once
    yield
    dp_release._model = fit


def test_the_noise_is_that_of_the_schedule(sides: Split, synthetic: pd.DataFrame) -> None:
    result = residuals(sides, synthetic, SystemNoise(), 25)
    assert not suspicious(result)
    assert abs(result.mean()) < 4 / np.sqrt(len(result))


@pytest.mark.parametrize("factor", [0.0, 0.5, 2.0])
def test_other_noise_than_the_schedule_states_is_caught(sides: Split, synthetic: pd.DataFrame, factor: float) -> None:
    assert suspicious(residuals(sides, synthetic, Loud(factor), 16))


def test_half_the_sensitivity_is_caught_by_the_price() -> None:
    """With k rows of a unit, counts move by k: a schedule for half of that would cost twice what it says."""
    entity = {"person": {"kind": "identifier", "bounds": [0, 10**6]}, **schema_of().model_dump()["columns"]}
    schema = schema_of(columns=entity, entity="person", max_rows_per_unit=4)
    schedule = released_schedule(schema, 0.7, "auto")
    assert {event.sensitivity for event in schedule.events} == {4}  # type: ignore[union-attr]
    assert schedule.epsilon <= 0.7
    plain = released_schedule(schema_of(), 0.7, "auto")
    ratios = {
        float(a.sigma / b.sigma)  # type: ignore[union-attr]
        for a, b in zip(schedule.events, plain.events, strict=True)
    }
    assert all(ratio == pytest.approx(4, rel=2e-3) for ratio in ratios)


@pytest.mark.parametrize(
    ("columns", "target", "missing"),
    [
        ({"age": {"kind": "integer", "bounds": [0, 99]}}, None, {PAIR_MEAN, RIGHT}),
        ({"age": {"kind": "integer", "bounds": [0, 99]}, "ill": {"kind": "boolean"}}, "age", {RIGHT}),
    ],
)
def test_a_table_without_pairs_or_classes_pays_for_neither(
    sides: Split, synthetic: pd.DataFrame, columns: Any, target: str | None, missing: set[str]
) -> None:
    schema = schema_of(columns=columns, target=target)
    budget = Budget(released_schedule(schema, 0.7, "auto"))
    kept = Split(sides.train[list(columns)], sides.holdout[list(columns)], 0, True, sides.inside)
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


def test_a_column_whose_domain_is_not_declared_is_seen_as_the_synthetic_table_shows_it(sides: Split) -> None:
    columns = {
        "age": {"kind": "integer", "measure": True},
        "town": {"kind": "categorical", "measure": True},
        "ill": {"kind": "boolean"},
    }
    schema = schema_of(columns=columns)
    narrow = table(1, 300).assign(age=lambda t: t["age"].clip(40, 60), town="a")
    yardstick = Yardstick.of(narrow, schema)
    assert yardstick.schema.columns["age"].bounds == (40, 60)  # type: ignore[union-attr]
    numbers = release_numbers(sides, narrow, schema, Budget(released_schedule(schema, 50.0, "auto"), NoNoise()))
    result = {each.subject: each for each in numbers if each.measure == COLUMN}
    assert result[("town",)].value == pytest.approx((table(0)["town"] != "a").mean(), abs=2 / N)


def test_intervals_hold_the_exact_number_in_a_few_repetitions(sides: Split, synthetic: pd.DataFrame) -> None:
    schedule, rng, covered = released_schedule(schema_of(), 0.7, "auto"), np.random.default_rng(0), []
    exact = release_numbers(sides, synthetic, schema_of(), Budget(schedule, NoNoise()))
    truth = {(each.measure, each.subject): each.value for each in exact}
    for _ in range(25):
        numbers = release_numbers(sides, synthetic, schema_of(), Budget(schedule, InjectedNoise(rng)))
        # Half rows are whole numbers: rounding down may cost one of them.
        covered += [
            each.low - 1.5 / N <= truth[each.measure, each.subject] <= each.high + 1.5 / N for each in numbers
        ]  # fmt: skip
    assert np.mean(covered) > 0.88
