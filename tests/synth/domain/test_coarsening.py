"""Tests of coarse attributes beside fine ones."""

from itertools import combinations

import numpy as np
import pytest

from synth.domain.counts import MARK, CoarseCounts, Coarsening, CodedTable, fine
from synth.domain.discretizer import Discretizer
from synth.schema import build_schema

SCHEMA = build_schema(
    {
        "status": "declared",
        "columns": {
            "age": {"kind": "integer", "bounds": [0, 19]},
            "grade": {"kind": "integer", "bounds": [1, 5]},
            "town": {"kind": "categorical", "categories": ["a", "b", "c"]},
        },
    }
)


def coarsened() -> tuple[Discretizer, Coarsening, np.ndarray]:
    discretizer = Discretizer.by_schema(SCHEMA)
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(0, 22, 500), rng.integers(0, 5, 500), rng.integers(0, 3, 500)], axis=1)
    masses = {
        name: np.bincount(codes[:, i], minlength=size) for i, (name, size) in enumerate(discretizer.sizes.items())
    }
    return discretizer, Coarsening.of(discretizer, masses, 4), codes


def test_only_numbers_of_many_codes_have_coarse_ones_of_even_mass() -> None:
    discretizer, coarsening, codes = coarsened()
    assert list(coarsening.domain(discretizer.sizes)) == ["age", "grade", "town", "age" + MARK]
    group = coarsening.groups["age"]
    assert (np.diff(group) >= 0).all()
    assert group[-3:].tolist() == [3, 4, 5]  # the last age, other, missing
    held = np.bincount(group[codes[:, 0]])
    assert held[:4].min() > 80


def test_counts_by_coarse_codes_are_sums_of_fine_ones() -> None:
    discretizer, coarsening, codes = coarsened()
    table = CoarseCounts(CodedTable(discretizer.sizes, codes), coarsening)
    both = np.column_stack([codes, coarsening.groups["age"][codes[:, 0]]])
    expected = CodedTable(table.domain, both)
    cliques = [*combinations(table.domain, 1), *combinations(table.domain, 2), *combinations(table.domain, 3)]
    cliques = [clique[::-1] for clique in cliques if len(set(map(fine, clique))) == len(clique)]
    assert len(cliques) == 4 + 5 + 2
    for clique, counts in zip(cliques, table.each(cliques), strict=True):
        np.testing.assert_array_equal(counts, expected.counts(clique))
        np.testing.assert_array_equal(counts, table.counts(clique))


def test_a_code_goes_with_its_coarse_code_alone() -> None:
    _, coarsening, _ = coarsened()
    ((pair, together),) = coarsening.zeros()
    assert pair == ("age", "age" + MARK)
    assert together.sum(axis=1).tolist() == [1] * 22
    assert together.argmax(axis=1).tolist() == coarsening.groups["age"].tolist()


@pytest.mark.parametrize("masses", [np.zeros(22), np.full(22, -3.0), np.eye(22)[7] * 900])
def test_groups_of_no_mass_are_groups_all_the_same(masses: np.ndarray) -> None:
    discretizer = Discretizer.by_schema(SCHEMA)
    coarsening = Coarsening.of(discretizer, {"age": masses}, 4)
    group = coarsening.groups["age"]
    assert len(group) == 22
    assert (np.unique(group) == np.arange(group[-1] + 1)).all()


LEVELS = build_schema(
    {
        "status": "declared",
        "columns": {
            "age": {"kind": "integer", "bounds": [0, 19]},
            "grade": {"kind": "integer", "bounds": [1, 5]},
            "level": {"kind": "categorical", "categories": list(range(8)), "ordered": True},
            "town": {"kind": "categorical", "categories": [f"t{index}" for index in range(9)]},
            "sex": {"kind": "boolean"},
        },
    }
)
TOWNS = np.array([5.0, 90.0, -7.0, 80.0, 0.0, 90.0, 3.0, 85.0, 1.0, 40.0, 20.0])
"""Released counts of the towns; the last two are of `other` and `missing`."""


def test_every_column_of_more_codes_than_it_may_have_gets_coarse_ones() -> None:
    discretizer = Discretizer.by_schema(LEVELS)
    masses = {name: np.ones(size) for name, size in discretizer.sizes.items()}
    coarsening = Coarsening.of_all(discretizer, {**masses, "town": TOWNS}, dict.fromkeys(masses, 4), 5)
    assert list(coarsening.groups) == ["age", "grade", "level", "town"]
    assert {name: size for name, size in coarsening.domain(discretizer.sizes).items() if name.endswith(MARK)} == {
        "age" + MARK: 6, "grade" + MARK: 6, "level" + MARK: 6, "town" + MARK: 7,
    }  # fmt: skip
    # An order is kept, and groups of levels in an order have as many of them.
    assert coarsening.groups["level"].tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 5]
    none = Coarsening.of_all(discretizer, masses, dict.fromkeys(masses, 20), 9)
    assert none.groups == {}


def test_each_column_has_as_many_groups_as_are_named_for_it() -> None:
    discretizer = Discretizer.by_schema(LEVELS)
    masses = {name: np.ones(size) for name, size in discretizer.sizes.items()}
    coarsening = Coarsening.of_all(discretizer, masses, {"age": 10, "grade": 2, "level": 8}, 9)
    assert {name: int(group[-1]) + 1 for name, group in coarsening.groups.items()} == {"age": 12, "grade": 4}


def test_categories_of_least_mass_are_one_group_and_each_other_its_own() -> None:
    discretizer = Discretizer.by_schema(LEVELS)
    masses = {name: np.ones(size) for name, size in discretizer.sizes.items()}
    group = Coarsening.of_all(discretizer, {**masses, "town": TOWNS}, dict.fromkeys(masses, 100), 5).groups["town"]
    rest = [index for index in range(9) if group[index] == group[0]]
    assert rest == [0, 2, 4, 6, 8]
    assert len(set(group[[1, 3, 5, 7]].tolist())) == 4
    assert group[0] not in group[[1, 3, 5, 7]]
    assert group[9:].tolist() == [5, 6]


def test_counts_by_groups_that_are_no_neighbors_are_sums_of_fine_ones() -> None:
    discretizer = Discretizer.by_schema(LEVELS)
    rng = np.random.default_rng(1)
    codes = np.stack([rng.integers(0, size, 400) for size in discretizer.sizes.values()], axis=1)
    masses = {name: np.ones(size) for name, size in discretizer.sizes.items()}
    coarsening = Coarsening.of_all(discretizer, {**masses, "town": TOWNS}, dict.fromkeys(masses, 3), 5)
    assert (np.diff(coarsening.groups["town"]) < 0).any()
    table = CoarseCounts(CodedTable(discretizer.sizes, codes), coarsening)
    merged = [coarsening.groups[name][codes[:, list(discretizer.sizes).index(name)]] for name in coarsening.groups]
    expected = CodedTable(table.domain, np.column_stack([codes, *merged]))
    cliques = [("town" + MARK,), ("sex", "town" + MARK), ("town" + MARK, "age" + MARK, "level"), ("town", "grade")]
    for clique, counts in zip(cliques, table.each(cliques), strict=True):
        assert counts.sum() == 400
        np.testing.assert_array_equal(counts, expected.counts(clique))


@pytest.mark.parametrize("masses", [np.zeros(11), np.full(11, -3.0), TOWNS])
def test_categories_without_mass_are_in_a_group_all_the_same(masses: np.ndarray) -> None:
    discretizer = Discretizer.by_schema(LEVELS)
    others = {name: np.ones(size) for name, size in discretizer.sizes.items()}
    group = Coarsening.of_all(discretizer, {**others, "town": masses}, dict.fromkeys(others, 4), 3).groups["town"]
    assert np.bincount(group).tolist() == [1, 1, 7, 1, 1]
