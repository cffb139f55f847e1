"""A row's side is its own: a split that rests on places is planted, and must be caught, in memory and on DuckDB."""

import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import ibis
import numpy as np
import pandas as pd
import pytest

from synth import split
from synth.schema import Schema, build_schema
from synth.split import side_bound, side_salt, split_table
from synth.stored import StoredTable, open_table
from synth.stored.sql_functions import md5

N_ROWS = 24
SCHEMA = build_schema({
    "status": "declared", "n_units": N_ROWS,
    "columns": {"x": {"kind": "integer", "bounds": [0, 3]}, "y": {"kind": "boolean"}},
})  # fmt: skip


def table() -> pd.DataFrame:
    """Rows of which nearly every one has its equals."""
    rng = np.random.default_rng(0)
    return pd.DataFrame({"x": rng.integers(0, 4, N_ROWS), "y": rng.random(N_ROWS) < 0.5})


def train_in_memory(frame: pd.DataFrame, folder: Path) -> Counter[tuple[int, bool]]:
    train = split_table(frame, SCHEMA, holdout_share=0.5, private=True).train
    return Counter((int(x), bool(y)) for x, y in zip(train["x"], train["y"], strict=True))


def train_where_stored(frame: pd.DataFrame, folder: Path) -> Counter[tuple[int, bool]]:
    path = folder / f"{len(list(folder.iterdir()))}.parquet"
    frame.to_parquet(path, index=False)
    with open_table(path) as stored:
        train, _ = stored.split(SCHEMA, holdout_share=0.5, seed=0)
        found = stored.place.fetch(train.rows.select("x", "y"))
    return Counter(zip(*(column.to_pylist() for column in found.columns), strict=True))


Train = Callable[[pd.DataFrame, Path], "Counter[tuple[int, bool]]"]


def one_row_less_is_one_row_less_of_train_or_none(train: Train, gone: range, folder: Path) -> None:
    frame = table()
    whole = train(frame, folder)
    assert 0 < whole.total() < N_ROWS
    for place in gone:
        fewer = train(frame.drop(index=place).reset_index(drop=True), folder)
        row = (int(frame["x"][place]), bool(frame["y"][place]))
        assert not fewer - whole
        assert whole - fewer in (Counter(), Counter([row]))


WHERE: dict[str, tuple[Train, range]] = {
    "in memory": (train_in_memory, range(N_ROWS)),
    "where stored": (train_where_stored, range(0, N_ROWS, 12)),
}


@pytest.fixture(autouse=True)
def sides_may_be_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split, "MIN_SIDE_ROWS", 0)


@pytest.mark.parametrize("where", WHERE)
def test_one_row_less_moves_no_other(where: str, tmp_path: Path) -> None:
    one_row_less_is_one_row_less_of_train_or_none(*WHERE[where], tmp_path)


def _by_place(frame: pd.DataFrame, schema: Schema, share: float, seed: int) -> np.ndarray:
    names = (f"{side_salt(seed)}{place}".encode() for place in range(len(frame)))
    digests = [hashlib.md5(name, usedforsecurity=False).hexdigest() for name in names]
    return np.array([digest < side_bound(share) for digest in digests])


def _by_place_where_stored(self: StoredTable, schema: Schema, *, holdout_share: float, seed: int) -> Any:
    rows = self.rows.mutate(place=ibis.row_number().cast("string"))
    rows = rows.mutate(inside=md5(ibis.literal(side_salt(seed)) + rows["place"]) < side_bound(holdout_share))
    return [replace(self, rows=rows.filter(which)) for which in (~rows["inside"], rows["inside"])]


@pytest.mark.parametrize(
    ("where", "plant"),
    [
        ("in memory", (split, "_keyed", _by_place)),
        ("where stored", (StoredTable, "split", _by_place_where_stored)),
    ],
)
def test_a_split_by_place_is_caught(
    where: str, plant: tuple[Any, str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(*plant)
    with pytest.raises(AssertionError) as caught:
        one_row_less_is_one_row_less_of_train_or_none(*WHERE[where], tmp_path)
    assert caught.traceback[-1].name == one_row_less_is_one_row_less_of_train_or_none.__name__
