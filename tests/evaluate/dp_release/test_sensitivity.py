"""What one unit can move, by brute force: every unit of small random tables is taken out, and nothing moves too far.

The numbers are those that `release_numbers` asks its budget for. It is given the same answers about all tables, so that
what it asks about later rests on the same number of rows.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

from evaluate import dp_release
from evaluate.dp_release import Yardstick, half_rows, release_numbers, released_schedule
from evaluate.released import Released
from synth.dp.budget import Budget
from synth.dp.schedule import Schedule
from synth.schema import Schema, build_schema
from synth.split import Split
from synth.table import conform

COLUMNS: dict[str, Any] = {
    "age": {"kind": "integer", "bounds": [0, 9], "missing": True},
    "height": {"kind": "real", "bounds": [0.0, 2.0]},
    "town": {"kind": "categorical", "categories": ["a", "b", "c"]},
    "ill": {"kind": "boolean", "missing": True},
}
DISTANCES = {*COLUMNS, "pairs"}
RELEASES = ("rows", *COLUMNS, "pairs", "accuracy")


def schema_of(k: int) -> Schema:
    content: dict[str, Any] = {"status": "declared", "n_units": 500, "target": "ill", "columns": COLUMNS}
    if k == 1:
        return build_schema(content)
    return build_schema({
        **content, "entity": "person", "max_rows_per_unit": k,
        "columns": {"person": {"kind": "identifier", "bounds": [0, 10**6]}, **COLUMNS},
    })  # fmt: skip


def table(n: int, rng: np.random.Generator, n_people: int | None = None) -> pd.DataFrame:
    """Random rows; people have any number of them."""
    age = rng.integers(0, 10, n).astype(float)
    age[rng.random(n) < 0.1] = np.nan
    ill = pd.Series(rng.random(n) < 0.5 + 0.04 * (np.nan_to_num(age) - 5), dtype="boolean")
    ill[rng.random(n) < 0.1] = pd.NA
    town = rng.choice(["a", "b", "c", "unknown"], n, p=[0.6, 0.2, 0.1, 0.1])
    frame = pd.DataFrame({"age": age, "height": rng.random(n) * 2.2, "town": town, "ill": ill})
    return frame if n_people is None else frame.assign(person=rng.integers(0, n_people, n))


class Canned:
    """Answers with one number, whatever was asked; keeps what was."""

    private = False

    def __init__(self, answer: int) -> None:
        self.answer = answer
        self.asked: list[np.ndarray] = []

    def gaussian(self, values: np.ndarray, sigma: float) -> np.ndarray:
        self.asked.append(values.copy())
        return np.full_like(values, self.answer)


@cache
def schedule_of(k: int) -> Schedule:
    return released_schedule(schema_of(k), 0.7, "auto")


def asked(real: pd.DataFrame, synthetic: pd.DataFrame, k: int, n_rows: int) -> dict[str, np.ndarray]:
    """Everything that is noised, before it is; the sides of units are what they always are."""
    side, noise = real["side"].to_numpy(), Canned(n_rows)
    parts = (real[side == each].drop(columns=["side", "unit"]) for each in ("train", "holdout"))
    sides = Split(*parts, 0, True, side == "holdout")
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


@pytest.fixture(autouse=True)
def the_same_before_and_after(monkeypatch: pytest.MonkeyPatch) -> None:
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

    monkeypatch.setattr(training_data, "system_words", np.zeros)
    monkeypatch.setattr(dp_release, "_model", once)
    monkeypatch.setattr(Yardstick, "of", once_of)


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
def test_a_number_that_one_unit_moves_farther_is_caught(
    monkeypatch: pytest.MonkeyPatch, name: str, lie: Callable[..., Any], k: int, farther: set[str]
) -> None:
    monkeypatch.setattr(dp_release, name, lie)
    moved = over_tables(k, 1)
    assert any(moved[what] > k for what in farther), moved
