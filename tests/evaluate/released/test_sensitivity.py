"""What one unit can move, by brute force: every unit of small random tables is taken out, and nothing moves too far."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from evaluate.released import exact
from evaluate.released.exact import Yardstick, bounded, half_rows, right_and_wrong
from synth.schema import Schema, build_schema
from synth.split import split_table

COLUMNS: dict[str, Any] = {
    "age": {"kind": "integer", "bounds": [0, 9], "missing": True},
    "height": {"kind": "real", "bounds": [0.0, 2.0]},
    "town": {"kind": "categorical", "categories": ["a", "b", "c"]},
    "ill": {"kind": "boolean", "missing": True},
}
RELEASES = ("rows", "age", "height", "town", "ill", "pairs", "accuracy")


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


def exact_numbers(real: pd.DataFrame, yardstick: Yardstick, n_rows: int) -> dict[str, np.ndarray]:
    """Everything that is noised, before it is; the sides of slots and people are what they always are."""
    side = real["side"].to_numpy()
    parts = [bounded(real[side == one].drop(columns=["side", "unit"]), yardstick) for one in ("train", "holdout")]
    both, synthetic = pd.concat(parts, ignore_index=True), yardstick.synthetic
    columns = zip(yardstick.column_counts(both), yardstick.column_counts(synthetic), strict=True)
    accuracy = right_and_wrong(parts[1], yardstick)
    assert accuracy is not None
    return {
        "rows": np.array([len(both)]),
        **{name: np.array([half_rows([c], [s], n_rows)]) for name, (c, s) in zip(COLUMNS, columns, strict=True)},
        "pairs": np.array([half_rows(yardstick.pair_counts(both), yardstick.pair_counts(synthetic), n_rows)]),
        "accuracy": accuracy,
    }


def farthest(k: int, seed: int) -> dict[str, float]:
    """The largest L2 distance that taking out any one unit moves each release, over a small random table."""
    rng = np.random.default_rng(seed)
    schema = schema_of(k)
    real = table(24, rng, None if k == 1 else 10)
    if k > 1:  # somebody with more rows than may count, all of them alike, and rows of nobody
        real.loc[:5, ["age", "height", "town", "ill"]] = [0.0, 0.1, "c", True]
        real.loc[:5, "person"] = 999
        real["person"] = real["person"].astype("Int64")
        real.loc[6, "person"] = pd.NA
    real["unit"] = np.arange(len(real)) if k == 1 else real["person"].astype(object)
    real["side"] = np.where(pd.util.hash_array(real["unit"].astype(str).to_numpy()) % 3 == 0, "holdout", "train")
    yardstick = Yardstick.of(table(60, rng, None if k == 1 else 20), schema)
    moved = dict.fromkeys(RELEASES, 0.0)
    n_rows = int(rng.integers(1, 80))
    whole = exact_numbers(real, yardstick, n_rows)
    for unit in real["unit"].dropna().unique():
        without = exact_numbers(real[real["unit"].ne(unit).fillna(True)], yardstick, n_rows)
        for what, number in whole.items():
            moved[what] = max(moved[what], float(np.linalg.norm(number - without[what])))
    return moved


@pytest.fixture(autouse=True)
def the_same_before_and_after(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which rows of an entity count is chosen by a key of the system's; the model of a fixed table is fitted once."""
    from synth.generators import contributions

    fit, fitted = exact._model, {}

    def once(rows: pd.DataFrame, known: pd.Index, schema: Schema) -> Any:
        if id(rows) not in fitted:
            fitted[id(rows)] = (rows, fit(rows, known, schema))  # the rows too, so that no other gets their number
        return fitted[id(rows)][1]

    monkeypatch.setattr(contributions.os, "urandom", lambda n: b"k" * n)
    monkeypatch.setattr(exact, "_model", once)


def over_tables(k: int, n_tables: int) -> dict[str, float]:
    found = [farthest(k, seed) for seed in range(n_tables)]
    return {what: max(one[what] for one in found) for what in RELEASES}


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


def test_counting_every_row_of_an_entity_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "bound_contributions", lambda rows, _schema: rows[rows["person"].notna()])
    assert over_tables(2, 1)["rows"] > 2


def _by_exact_rows(real: list[np.ndarray], synthetic: list[np.ndarray], _n_rows: int) -> int:
    return exact.half_rows(real, synthetic, int(real[0].sum()))


def _summed(real: list[np.ndarray], synthetic: list[np.ndarray], n_rows: int) -> int:
    return exact.half_rows(real, synthetic, n_rows) * len(real)


def _whole_rows(real: list[np.ndarray], synthetic: list[np.ndarray], n_rows: int) -> int:
    return 2 * exact.half_rows(real, synthetic, n_rows)


@pytest.mark.parametrize("mutant", [_by_exact_rows, _summed, _whole_rows])
def test_a_distance_that_one_row_moves_farther_is_caught(
    monkeypatch: pytest.MonkeyPatch, mutant: Callable[..., int]
) -> None:
    import sys

    monkeypatch.setattr(sys.modules[__name__], "half_rows", mutant)
    assert max(over_tables(1, 1).values()) > 1


def test_rounding_down_adds_nothing_to_what_a_unit_moves() -> None:
    rng = np.random.default_rng(0)
    for _ in range(500):
        n_cells, k = int(rng.integers(1, 6)), int(rng.integers(1, 5))
        synthetic = [rng.integers(0, 9, n_cells) + (np.arange(n_cells) == 0) for _ in range(2)]
        synthetic[1] = rng.multinomial(int(synthetic[0].sum()), np.ones(n_cells) / n_cells)
        real = [rng.integers(0, 9, n_cells) for _ in range(2)]
        without = [np.maximum(c - rng.multinomial(k, np.ones(n_cells) / n_cells), 0) for c in real]
        n_rows = int(rng.integers(1, 50))
        assert abs(half_rows(real, synthetic, n_rows) - half_rows(without, synthetic, n_rows)) <= k


def test_a_guess_about_one_row_does_not_depend_on_the_rows_beside_it() -> None:
    rng = np.random.default_rng(1)
    schema = schema_of(1)
    yardstick = Yardstick.of(table(300, rng), schema)
    rows = bounded(table(200, rng), yardstick)
    known = pd.Index([True, False])
    model = exact._model(yardstick.synthetic, known, yardstick.schema)
    together = exact._guesses(model, rows)
    alone = [int(exact._guesses(model, rows.iloc[[i]])[0]) for i in range(0, len(rows), 10)]
    assert together[::10].tolist() == alone


def test_the_side_of_a_unit_is_its_own() -> None:
    rng = np.random.default_rng(2)
    people = table(600, rng, 150)
    schema = schema_of(2)
    sides = split_table(people, schema, private=True)
    without = split_table(people[people["person"] != 7], schema, private=True)
    assert set(without.holdout["person"]) == set(sides.holdout["person"]) - {7}
