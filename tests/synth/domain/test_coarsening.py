"""Tests of coarse attributes beside fine ones."""

from itertools import combinations

import numpy as np
import pytest

from synth.domain.coarsening import MARK, CoarseCounts, Coarsening, fine
from synth.domain.counting import CodedTable
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
