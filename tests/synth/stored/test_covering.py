"""Wide counts that stand for narrow ones: every clique is in one, none is too wide, and the sums are the counts."""

import itertools
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synth.domain import Discretizer
from synth.schema import build_schema
from synth.stored import counts
from synth.stored.counts import covering

NAMES = tuple("abcdef")
CLIQUES = st.lists(
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True).map(tuple), min_size=1, max_size=20
)
SIZES = st.fixed_dictionaries({name: st.integers(1, 40) for name in NAMES})


@given(cliques=CLIQUES, sizes=SIZES, n_cells=st.integers(0, 5_000))
def test_every_clique_is_held_once_by_a_set_that_is_not_too_wide(cliques: Any, sizes: Any, n_cells: int) -> None:
    found = covering(cliques, sizes, n_cells)
    held = [clique for some in found.values() for clique in some]
    assert sorted(map(sorted, held)) == sorted(map(sorted, set(map(frozenset, cliques))))
    for block, some in found.items():
        assert all(clique <= set(block) for clique in some)
        assert math.prod(sizes[name] for name in block) <= n_cells or frozenset(block) in some


def test_few_sets_hold_all_pairs() -> None:
    names = [f"x{at}" for at in range(15)]
    pairs = list(itertools.combinations(names, 2))
    assert len(covering(pairs, dict.fromkeys(names, 10), 10_000)) <= 35
    assert len(covering(pairs, dict.fromkeys(names, 10), 0)) == 105


@pytest.mark.parametrize(("sets", "cells_a_set", "cells"), [(32, 16_384, 2_000_000), (1, 0, 1), (3, 100, 500)])
def test_counts_are_the_same_however_they_are_put_together(
    put: Any, monkeypatch: pytest.MonkeyPatch, sets: int, cells_a_set: int, cells: int
) -> None:
    rng = np.random.default_rng(0)
    sizes = {"a": 3, "b": 5, "c": 2, "d": 9}
    frame = pd.DataFrame({name: rng.integers(0, size, 500) for name, size in sizes.items()})
    columns = {name: {"kind": "categorical", "categories": list(range(size))} for name, size in sizes.items()}
    schema = build_schema({"status": "declared", "n_units": 500, "columns": columns})
    monkeypatch.setattr(counts, "SETS_A_SCAN", sets)
    monkeypatch.setattr(counts, "CELLS_A_SET", cells_a_set)
    monkeypatch.setattr(counts, "CELLS_AT_ONCE", cells)
    cliques = [("b", "a"), ("d",), ("a", "b"), ("d", "b", "a"), ("c", "a"), *itertools.permutations("abcd", 2)]
    stored = put(frame).stored.training(schema).coded(Discretizer.by_schema(schema))
    for clique, found in zip(cliques, stored.each(cliques), strict=True):
        expected = np.zeros([sizes[name] + 2 for name in clique], dtype=np.int64)
        np.add.at(expected, tuple(frame[name].to_numpy() for name in clique), 1)
        np.testing.assert_array_equal(found, expected)
