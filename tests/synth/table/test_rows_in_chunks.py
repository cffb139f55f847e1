"""The contract of rows in chunks: whatever these are and wherever they lie, all that is read off them is the same."""

import datetime as dt
import decimal
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from synth.dp.budget import Budget
from synth.dp.mechanisms import InjectedNoise
from synth.generators.fitting import training_data
from synth.generators.registry import generator
from synth.row_hash import content_keys, content_sums, entity_codes, seeded_order, whole_entities
from synth.schema import Schema, build_schema
from synth.split import row_keys, split_table, twins
from synth.table import conform
from synth.table.rows import Rows
from tests.chunks import in_chunks

N_EVERY = 60
EVERY: dict[str, Any] = {
    "who": {"kind": "identifier", "template": "P####"},
    "whole": {"kind": "integer", "bounds": [0, 150]},
    "gone": {"kind": "integer", "bounds": [0, 150], "missing": True},
    "real": {"kind": "real", "bounds": [-150.0, 150.0], "missing": True},
    "fine": {"kind": "real", "bounds": [-15.0, 15.0], "decimals": 2},
    "money": {"kind": "real", "bounds": [0.0, 1e5], "scale": "log"},
    "exact": {"kind": "real", "bounds": [-4.0, 4.0], "decimals": 1},
    "yes": {"kind": "boolean", "missing": True},
    "word": {
        "kind": "categorical", "categories": ["a", "b", "Ä", "\U0001f642", 'x"; drop table t; --'], "missing": True,
    },
    "level": {"kind": "categorical", "categories": [0, 1, 2]},
    "code": {"kind": "categorical", "categories": ["0", "1", "2", "2.5"]},
    "day": {"kind": "date", "bounds": ["1969-12-28", "1970-01-20"], "missing": True},
    "seen": {
        "kind": "datetime", "bounds": ["1969-12-28T00:00:00", "1970-01-20T00:00:00"], "missing": True,
        "precision": "min",
    },
    "zoned": {
        "kind": "datetime", "bounds": ["2021-03-21T00:00:00", "2021-04-03T00:00:00"], "timezone": "Europe/Paris",
        "precision": "us",
    },
}  # fmt: skip


def every_kind() -> pd.DataFrame:
    """Rows with all that a cell may be: missing, beyond bounds, unknown, between two steps, on either side of 1970."""
    rng, n = np.random.default_rng(0), N_EVERY
    days = rng.integers(0, 40, n)
    words = np.array(["a", "b", "Ä", "a ", "A", "", None, "\U0001f642", 'x"; drop table t; --'], dtype=object)
    frame = pd.DataFrame(
        {
            "who": [f"P{i:04d}" for i in range(n)],
            "whole": rng.integers(-50, 200, n),
            "gone": pd.array(rng.integers(-50, 200, n), dtype="Int64"),
            "real": rng.normal(0, 100, n),
            "fine": np.round(rng.normal(0, 10, n), 3),
            "money": np.exp(rng.normal(0, 4, n)),
            "exact": [decimal.Decimal(int(v)) / 100 for v in rng.integers(-500, 500, n)],
            "yes": pd.array(rng.random(n) < 0.5, dtype="boolean"),
            "word": rng.choice(words, n),
            "level": rng.integers(0, 6, n),
            "code": rng.integers(0, 6, n),
            "day": [dt.date(1969, 12, 25) + dt.timedelta(days=int(d)) for d in days],
            "seen": pd.Timestamp("1969-12-25") + pd.to_timedelta(rng.integers(0, 40 * 86400 * 10**6, n), unit="us"),
            "zoned": (
                pd.Timestamp("2021-03-20") + pd.to_timedelta(rng.integers(0, 20 * 86400 * 10**6, n), unit="us")
            ).tz_localize("UTC").tz_convert("Europe/Paris"),
        }
    )  # fmt: skip
    frame.loc[::7, "gone"], frame.loc[::11, "real"], frame.loc[5, "real"] = pd.NA, np.nan, np.inf
    frame.loc[::13, "day"], frame.loc[::9, "seen"], frame.loc[::17, "yes"] = None, pd.NaT, pd.NA
    return frame


EVERY_KIND = build_schema({"status": "declared", "n_units": N_EVERY, "columns": EVERY})
ENTITIES = build_schema({**EVERY_KIND.model_dump(), "entity": "who", "max_rows_per_unit": 2, "columns": EVERY})


def of_entities() -> pd.DataFrame:
    """The same rows, three of each entity and some of nobody, in no order."""
    frame = every_kind().assign(who=[f"P{i // 3:04d}" for i in range(N_EVERY)])
    frame.loc[::29, "who"] = None
    return frame.sample(frac=1, random_state=0).reset_index(drop=True)


Chunked = Callable[[pd.DataFrame, Schema], Rows]


@pytest.fixture(params=[(5, "file")], ids=str)
def chunked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Chunked:
    """The rows of a frame in chunks of some size, in memory or in a file."""
    size, where = request.param
    if where == "file":
        monkeypatch.setattr("synth.table.spool.MOST_IN_MEMORY", 0)
    return lambda frame, schema: in_chunks(frame, schema, size, tmp_path)


@pytest.mark.parametrize("chunked", [(5, "file"), (11, "memory")], indirect=True)
def test_rows_are_those_that_conform_gives(chunked: Chunked, tmp_path: Path) -> None:
    frame = every_kind()
    clamped, rows = conform(frame, EVERY_KIND, outside="clamp"), chunked(frame, EVERY_KIND)
    pd.testing.assert_frame_equal(rows.frame(), clamped)
    assert not list(tmp_path.iterdir())  # files have no names
    some = np.random.default_rng(0).permutation(N_EVERY)[:20]
    pd.testing.assert_frame_equal(rows.take(some), clamped.iloc[some].reset_index(drop=True))
    flags = clamped["yes"].fillna(False).to_numpy(dtype=bool)
    kept = rows.where(flags).where(np.arange(flags.sum()) % 3 > 0)
    pd.testing.assert_frame_equal(
        kept.frame(), clamped[flags].iloc[np.arange(flags.sum()) % 3 > 0].reset_index(drop=True)
    )
    pd.testing.assert_frame_equal(Rows.from_frames(rows.frames(), EVERY_KIND).frame(), clamped)
    again = Rows.of(
        rows, build_schema({**EVERY_KIND.model_dump(), "columns": {"whole": {"kind": "integer", "bounds": [0, 2]}}})
    )
    assert again.frame()["whole"].dropna().isin([0, 1, 2]).all()
    groups = np.arange(N_EVERY) % 11 - 1
    parts = [part.frame("who")["who"].tolist() for part in rows.together(groups, 12)]
    owners = [{groups[int(name[1:])] for name in part} for part in parts]
    assert [group for some in owners for group in sorted(some)] == list(range(10)) and len(parts) > 3
    assert sorted(itertools.chain.from_iterable(parts)) == [f"P{row:04d}" for row in range(N_EVERY) if groups[row] >= 0]


def test_hashes_orders_and_sides_are_those_of_all_rows_at_once(chunked: Chunked) -> None:
    for frame, schema in ((every_kind(), EVERY_KIND), (of_entities(), ENTITIES)):
        whole, rows = conform(frame, schema, outside="clamp"), chunked(frame, schema)
        for hashes in (content_keys, lambda table, schema: row_keys(table, schema.kept)):
            np.testing.assert_array_equal(hashes(rows, schema), hashes(whole, schema))
        assert content_sums(rows, schema) == content_sums(whole, schema)
        np.testing.assert_array_equal(seeded_order(rows, schema, 5), seeded_order(whole, schema, 5))
        sides = [split_table(t, schema, private=True, any_size=True) for t in (rows, whole)]
        np.testing.assert_array_equal(sides[0].inside, sides[1].inside)
        pd.testing.assert_frame_equal(sides[0].holdout.frame(), sides[1].holdout)
        assert twins(rows, whole, schema.kept).all()
    np.testing.assert_array_equal(entity_codes(rows, schema), pd.factorize(whole["who"])[0])
    drawn = whole_entities(rows, schema, seed=3, limit=30)
    np.testing.assert_array_equal(drawn, whole_entities(whole, schema, seed=3, limit=30))
    assert 20 < drawn.sum() <= 30 and not whole["who"][~drawn].isin(whole["who"][drawn]).any()


def released(rows: Any, schema: Schema, name: str) -> tuple[Any, ...]:
    """All that a fit releases, with noise that is pinned, and rows of its model."""
    fitted = generator(name, epsilon=3.0)
    asked: list[Any] = []

    class Kept(Budget):
        def release(self, exact: np.ndarray, event: Any) -> np.ndarray:
            asked.append(exact.tolist())
            return super().release(exact, event)

    budget = Kept(fitted.schedule(schema), InjectedNoise(np.random.default_rng(4)))
    model = fitted.fit(rows, schema, budget=budget, seed=1)
    return asked, model.statement, model.sample(50, seed=2)


MEASURED = {**EVERY, "real": {**EVERY["real"], "measure": True}, "word": {**EVERY["word"], "measure": True}}
MEASURED["real"].pop("bounds")
MEASURED["word"].pop("categories")
FITS = {
    "mst": (every_kind, build_schema({"status": "declared", "n_units": N_EVERY, "columns": MEASURED})),
    "independent": (of_entities, ENTITIES),
}


@pytest.mark.parametrize("name", FITS)
def test_the_same_numbers_are_released(name: str, chunked: Chunked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_data, "system_words", np.zeros)
    make, schema = FITS[name]
    asked, statement, sample = released(make(), schema, name)
    monkeypatch.setattr(training_data, "ROWS_AT_ONCE", 20)
    again, stated, drawn = released(chunked(make(), schema), schema, name)
    assert again == asked and stated == statement
    pd.testing.assert_frame_equal(drawn, sample)


@pytest.mark.parametrize("name", ["independent", "trees"])
def test_a_fit_without_epsilon_is_the_same(name: str, chunked: Chunked) -> None:
    schema = EVERY_KIND
    frame = conform(every_kind(), schema, outside="clamp").dropna(subset=["word"]).reset_index(drop=True)
    frame = frame[frame["word"].isin(EVERY["word"]["categories"]) & frame["level"].isin([0, 1, 2])]
    schema = build_schema({**schema.model_dump(), "columns": {
        n: c if n in ("who", "code") else {**c, "missing": True} for n, c in EVERY.items() if n != "code"
    }})  # fmt: skip
    frame = frame.drop(columns="code").reset_index(drop=True)
    options: dict[str, Any] = {"rounds": 3} if name == "trees" else {}
    models = [generator(name, **options).fit(rows, schema, seed=1) for rows in (frame, chunked(frame, schema))]
    assert models[1].schema == models[0].schema
    pd.testing.assert_frame_equal(models[1].sample(50, seed=2), models[0].sample(50, seed=2))
