from collections.abc import Callable

import numpy as np
import pytest

from evaluate.neighbors import SpaceRows, exact_search, gower_nearest, gower_without_each
from evaluate.neighbors.space import MISSING


def rows(n: int, seed: int, kinds: str) -> SpaceRows:
    """Rows with a column of codes for each "c" and one of ranks for each "x", some of them missing."""
    rng = np.random.default_rng(seed)
    columns: dict[str, np.ndarray] = {}
    for place, kind in enumerate(kinds):
        ranks = np.where(rng.random(n) < 0.1, MISSING, rng.integers(0, 65, n) / 64).astype(np.float32)
        columns[f"{kind}{place}"] = rng.integers(-1, 4, n).astype(np.int32) if kind == "c" else ranks
    return SpaceRows(np.arange(n, dtype=np.uint64), np.zeros((n, 1), np.float32), columns)


def brute_force(targets: SpaceRows, pool: SpaceRows, names: list[str]) -> np.ndarray:
    """All distances by the definition."""
    total = np.zeros((len(targets), len(pool)))
    for name in names:
        one, other = targets.columns[name][:, None], pool.columns[name]
        if one.dtype.kind == "i":
            total += one != other
        else:
            total += np.where((one == MISSING) | (other == MISSING), one != other, np.abs(one.astype(float) - other))
    return np.round(total, 4)


@pytest.mark.parametrize("kinds", ["cccc", "xxx", "ccxx", "x", "c"])
@pytest.mark.parametrize("k", [1, 3, 90])
def test_nearest_rows_are_those_of_brute_force(kinds: str, k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact_search, "CELLS", 700)
    targets, pool = rows(40, 0, kinds), rows(90, 1, kinds)
    names = list(pool.columns)
    expected = np.argsort(brute_force(targets, pool, names), axis=1, kind="stable")[:, :k]
    assert np.array_equal(gower_nearest(targets, pool, names, k), expected)


@pytest.mark.parametrize("kinds", ["cccc", "xxx", "ccxx", "x"])
def test_leaving_out_one_column_is_searching_by_the_others(kinds: str) -> None:
    targets, pool = rows(40, 2, kinds), rows(300, 3, kinds)
    names = list(pool.columns)
    found = gower_without_each(targets, pool, names)
    for secret in names:
        distances = brute_force(targets, pool, [name for name in names if name != secret])
        assert np.array_equal(found[secret], distances.argmin(axis=1))


@pytest.mark.parametrize(
    "search", [lambda t, p: gower_nearest(t, p, ["c0"]), lambda t, p: gower_without_each(t, p, ["c0"])["c0"]]
)
def test_no_targets_have_no_neighbors(search: Callable[[SpaceRows, SpaceRows], np.ndarray]) -> None:
    assert len(search(rows(0, 0, "cx"), rows(9, 1, "cx"))) == 0


def test_the_order_of_columns_decides_nothing() -> None:
    targets, pool = rows(60, 4, "xxxxxx"), rows(400, 5, "xxxxxx")
    turned = SpaceRows(pool.keys, pool.points, dict(reversed(pool.columns.items())))
    names = list(pool.columns)
    forward, backward = gower_nearest(targets, pool, names), gower_nearest(targets, turned, names[::-1])
    assert np.array_equal(forward, backward)
