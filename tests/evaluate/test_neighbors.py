"""Nearest rows against brute force, and a space that looks alike from training rows and from others."""

import numpy as np
import pandas as pd
import pytest

from evaluate import neighbors
from evaluate.neighbors import MISSING, SpaceRows, gower_nearest, gower_without_each, nearest, search, space_of
from evaluate.sampling import shuffle_columns
from evaluate.tables import Tables
from synth.schema import build_schema
from synth.table import conform


def mixed(n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Categories and numbers, some missing, many rows equal; a constant column and an empty one."""
    letters = np.array(list("klmn"), dtype=object)[rng.integers(0, 4, (2, n))]
    frame = pd.DataFrame({"c0": letters[0], "c1": letters[1], "x": rng.integers(0, 9, n) / 2})
    frame = frame.mask(rng.random(frame.shape) < 0.05).assign(flag=rng.random(n) < 0.3, same="k", never=np.nan)
    return frame.astype({"c0": object, "c1": object})


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


def test_nearest_rows_are_those_of_brute_force_and_only_equal_ones_are_at_no_distance(monkeypatch):
    monkeypatch.setattr(neighbors, "CHUNK_ROWS", 70)
    monkeypatch.setattr(neighbors, "BLOCK_ROWS", 33)
    rng = np.random.default_rng(1)
    train, fresh, control, synthetic = (mixed(n, rng) for n in (200, 100, 100, 150))
    space = space_of(tables_of(train, fresh, control, pd.concat([synthetic.iloc[30:], train.iloc[:30]])))
    result = nearest(space.synthetic, space.train, k=2)
    gaps = np.linalg.norm(space.synthetic.points[:, None].astype(float) - space.train.points[None], axis=2)
    assert np.allclose(result, np.sort(gaps, axis=1)[:, :2], atol=1e-4)
    equal = np.isin(space.synthetic.keys, space.train.keys)
    assert equal.any() and np.array_equal(result[:, 0] == 0, equal)


@pytest.mark.parametrize("k", [1, 3, 16])
def test_many_neighbors_are_those_of_brute_force(k, monkeypatch):
    """Groups whose minima are looked at first must hide no neighbor, nor may the rest that fills no group."""
    monkeypatch.setattr(neighbors, "GROUP_ROWS", 4)
    monkeypatch.setattr(neighbors, "CHUNK_ROWS", 151)
    rng = np.random.default_rng(2)
    targets, pool = (
        SpaceRows(np.arange(n, dtype=np.uint64) + np.uint64(1000 * n), rng.standard_normal((n, 6), np.float32), {})
        for n in (40, 450)
    )
    result = search(targets, pool, k)
    gaps = np.linalg.norm(targets.points[:, None].astype(float) - pool.points[None], axis=2)
    assert np.allclose(result.distances, np.sort(gaps, axis=1)[:, :k], atol=1e-6)
    assert np.allclose(np.take_along_axis(gaps, result.positions, axis=1), result.distances, atol=1e-6)


def test_the_space_looks_alike_from_training_rows_and_from_others():
    """By the training rows' own ranks every fresh row would lie further from a training row than from a control."""
    rng, gaps = np.random.default_rng(4), []
    for _ in range(30):
        frames = (pd.DataFrame({"x": rng.standard_normal(n)}) for n in (300, 300, 300, 10))
        space = space_of(tables_of(*frames))
        gaps.append(nearest(space.train, space.fresh).mean() - nearest(space.control, space.fresh).mean())
    assert abs(np.mean(gaps)) < 4 * np.std(gaps) / 30**0.5


def rows(n: int, seed: int, kinds: str) -> SpaceRows:
    """Rows with a column of codes for each "c" and one of ranks for each "x", some of them missing."""
    rng = np.random.default_rng(seed)
    columns: dict[str, np.ndarray] = {}
    for i, kind in enumerate(kinds):
        ranks = np.where(rng.random(n) < 0.1, MISSING, rng.integers(0, 65, n) / 64).astype(np.float32)
        columns[f"{kind}{i}"] = rng.integers(-1, 4, n).astype(np.int32) if kind == "c" else ranks
    return SpaceRows(np.arange(n, dtype=np.uint64), np.zeros((n, 1), np.float32), columns)


def gower(targets: SpaceRows, pool: SpaceRows, names: list[str]) -> np.ndarray:
    """All distances by the definition."""
    total = np.zeros((len(targets), len(pool)))
    for name in names:
        first, other = targets.columns[name][:, None], pool.columns[name]
        if first.dtype.kind == "i":
            total += first != other
        else:
            gap = np.abs(first.astype(float) - other)
            total += np.where((first == MISSING) | (other == MISSING), first != other, gap)
    return np.round(total, 4)


@pytest.mark.parametrize("kinds", ["cccc", "xxx", "ccxx"])
def test_gowers_neighbors_are_those_of_brute_force_also_without_each_column(kinds, monkeypatch):
    monkeypatch.setattr(neighbors, "CELLS", 700)
    targets, pool = rows(40, 0, kinds), rows(90, 1, kinds)
    names = list(pool.columns)
    for k in (1, 3, 90):
        expected = np.argsort(gower(targets, pool, names), axis=1, kind="stable")[:, :k]
        assert np.array_equal(gower_nearest(targets, pool, names, k), expected)
    result = gower_without_each(targets, pool, names)
    for secret in names:
        distances = gower(targets, pool, [name for name in names if name != secret])
        assert np.array_equal(result[secret], distances.argmin(axis=1))
    assert len(gower_nearest(rows(0, 0, kinds), pool, names)) == 0
