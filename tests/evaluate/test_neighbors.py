import gc
import weakref
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from evaluate.neighbors import Neighbors, SpaceRows, kept_search, nearest, search, space_of
from evaluate.neighbors import exact_search as neighbors
from evaluate.sampling import shuffle_columns
from evaluate.tables import Tables
from synth.schema import build_schema
from synth.table import conform


def categories(n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Columns of categories that hang together, some values missing, and many rows equal."""
    group = rng.integers(0, 3, n)
    codes = np.where(rng.random((4, n)) < 0.6, group, rng.integers(0, 4, (4, n)))
    frame = pd.DataFrame({f"c{i}": np.array(list("klmn"), dtype=object)[codes[i]] for i in range(4)})
    return frame.mask(rng.random(frame.shape) < 0.05, None)


def numbers(n: int, rng: np.random.Generator) -> pd.DataFrame:
    base = rng.standard_normal(n)
    frame = pd.DataFrame({f"x{i}": np.round(base + rng.standard_normal(n), 2) for i in range(4)})
    return frame.mask(rng.random(frame.shape) < 0.05)


def mixed(n: int, rng: np.random.Generator) -> pd.DataFrame:
    odd = pd.DataFrame({"flag": rng.random(n) < 0.3, "same": "k", "never": np.full(n, np.nan)})
    return pd.concat([categories(n, rng).iloc[:, :2], numbers(n, rng).iloc[:, :2], odd], axis=1)


def tables_of(*frames: pd.DataFrame) -> Tables:
    """An evaluation of train, fresh, control and synthetic rows."""
    columns: dict[str, object] = {}
    for name, series in pd.concat(frames).items():
        kind = {"O": "categorical", "b": "boolean"}.get(series.dtype.kind, "real")
        domain = {"categorical": {"categories": sorted(set(series.dropna()))}, "real": {"bounds": [-1e9, 1e9]}}
        columns[str(name)] = {"kind": kind, "missing": True, **domain.get(kind, {})}
    schema = build_schema({"status": "inferred", "columns": columns})
    train, fresh, control, synthetic = (conform(frame.reset_index(drop=True), schema, part=True) for frame in frames)
    shuffled = shuffle_columns(train, np.random.default_rng(0))
    return Tables(schema, schema, train, fresh, control, shuffled, 0, synthetic=synthetic)


@pytest.fixture(params=[categories, numbers, mixed])
def drawn(request: pytest.FixtureRequest) -> Tables:
    """Tables of each make, a fifth of the synthetic rows being training rows."""
    make: Callable[[int, np.random.Generator], pd.DataFrame] = request.param
    rng = np.random.default_rng(1)
    train, fresh, control, synthetic = (make(n, rng) for n in (200, 100, 100, 150))
    return tables_of(train, fresh, control, pd.concat([synthetic.iloc[30:], train.iloc[:30]]))


def brute_force(targets: SpaceRows, pool: SpaceRows, k: int) -> np.ndarray:
    gaps = targets.points[:, None, :].astype(float) - pool.points[None].astype(float)
    return np.sort(np.sqrt((gaps**2).sum(axis=2)), axis=1)[:, :k]


def test_nearest_rows_are_those_of_brute_force(drawn, monkeypatch):
    monkeypatch.setattr(neighbors, "CHUNK_ROWS", 70)
    monkeypatch.setattr(neighbors, "BLOCK_ROWS", 33)
    space = space_of(drawn)
    found = nearest(space.synthetic, space.train, k=2)
    assert np.allclose(found, brute_force(space.synthetic, space.train, 2), atol=1e-4)


def test_equal_rows_and_only_they_are_at_distance_zero(drawn):
    space = space_of(drawn)
    equal = np.isin(space.synthetic.keys, space.train.keys)
    assert equal.any()
    assert np.array_equal(nearest(space.synthetic, space.train)[:, 0] == 0, equal)


def test_numbers_too_close_to_tell_are_not_equal():
    rng = np.random.default_rng(0)
    train, fresh = (numbers(100, rng)[["x0"]] for _ in range(2))
    beyond = pd.DataFrame({"x0": train["x0"].max() + 1 + np.arange(100.0)})
    space = space_of(tables_of(train, fresh, fresh, beyond))
    assert (nearest(space.synthetic, space.train) > 0).all()


def test_the_distance_of_categories_counts_the_columns_that_differ():
    frame = categories(100, np.random.default_rng(3)).fillna("k")
    other = frame.iloc[:1].assign(c0="l" if frame["c0"].iloc[0] != "l" else "m")
    space = space_of(tables_of(frame.iloc[:1], frame, frame, other))
    assert nearest(space.synthetic, space.train)[0, 0] == 1.0


def test_the_space_is_built_once_and_goes_with_its_tables():
    rng = np.random.default_rng(4)
    tables = tables_of(*(mixed(50, rng) for _ in range(4)))
    space = space_of(tables)
    assert space_of(tables) is space
    gone = weakref.ref(space)
    del tables, space
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("k", [1, 3, 16])
def test_many_neighbors_are_those_of_brute_force(k, monkeypatch):
    """Groups whose minima are looked at first must hide no neighbor, nor may the rest that fills no group."""
    monkeypatch.setattr(neighbors, "GROUP_ROWS", 4)
    monkeypatch.setattr(neighbors, "CHUNK_ROWS", 151)
    rng = np.random.default_rng(2)
    targets, pool = (plain(rng.standard_normal((n, 6)).astype(np.float32)) for n in (40, 450))
    found = search(targets, pool, k)
    gaps = np.linalg.norm(targets.points[:, None].astype(float) - pool.points[None], axis=2)
    assert np.allclose(found.distances, np.sort(gaps, axis=1)[:, :k], atol=1e-6)
    assert np.allclose(np.take_along_axis(gaps, found.positions, axis=1), found.distances, atol=1e-6)


def test_positions_of_equal_rows_point_at_equal_rows(drawn):
    space = space_of(drawn)
    found = search(space.synthetic, space.train, 5)
    equal = found.distances == 0
    rows = space.train.keys[found.positions]
    assert equal.any()
    assert np.array_equal(rows[equal], np.broadcast_to(space.synthetic.keys[:, None], rows.shape)[equal])


def test_what_is_found_among_real_rows_serves_every_synthetic_table(drawn):
    calls = []

    def find() -> Neighbors:
        calls.append(1)
        return Neighbors(np.zeros((1, 1)), np.zeros((1, 1), dtype=np.int64))

    other = replace(drawn, synthetic=drawn.fresh)
    object.__setattr__(other, "kept_of_real", drawn.kept_of_real)
    for tables in (drawn, other, drawn):
        kept_search(tables, "real", find)
    assert len(calls) == 1


def test_the_space_looks_alike_from_training_rows_and_from_others():
    """By the training rows' own ranks every fresh row would lie further from a training row than from a control."""
    rng, gaps = np.random.default_rng(4), []
    for _ in range(30):
        frames = (pd.DataFrame({"x": rng.standard_normal(n)}) for n in (300, 300, 300, 10))
        space = space_of(tables_of(*frames))
        gaps.append(nearest(space.train, space.fresh).mean() - nearest(space.control, space.fresh).mean())
    assert abs(np.mean(gaps)) < 4 * np.std(gaps) / 30**0.5


def plain(points: np.ndarray) -> SpaceRows:
    return SpaceRows(np.arange(len(points), dtype=np.uint64) + np.uint64(10_000 * len(points)), points, {})
