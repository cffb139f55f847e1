import gc
import weakref
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from evaluate.neighbors import blocked as neighbors
from evaluate.neighbors import Rows, nearest, space_of
from evaluate.tables import Tables, shuffle_columns
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
    return Tables(schema, schema, train, fresh, control, synthetic, synthetic, shuffled, 0)


@pytest.fixture(params=[categories, numbers, mixed])
def drawn(request: pytest.FixtureRequest) -> Tables:
    """Tables of each make, a fifth of the synthetic rows being training rows."""
    make: Callable[[int, np.random.Generator], pd.DataFrame] = request.param
    rng = np.random.default_rng(1)
    train, fresh, control, synthetic = (make(n, rng) for n in (200, 100, 100, 150))
    return tables_of(train, fresh, control, pd.concat([synthetic.iloc[30:], train.iloc[:30]]))


def brute_force(targets: Rows, pool: Rows, k: int) -> np.ndarray:
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
