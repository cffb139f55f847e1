"""A latent class model against all its cells, and the rows drawn from it against what it expects."""

import json
from collections.abc import Mapping
from itertools import combinations, permutations
from typing import Any

import numpy as np
import pytest

from synth.errors import ModelError
from synth.marginals.latent_classes import CLASS_SHARES, CLASS_TABLES, LatentClasses
from synth.marginals.sampling import Codes, sample_classes

DOMAIN = {"a": 2, "b": 3, "c": 4, "d": 2}
NAMES = tuple(DOMAIN)
TOTAL = 1000.0
ALL_CLIQUES = [clique for n in range(len(NAMES) + 1) for clique in permutations(NAMES, n)]


@pytest.fixture
def model(rng: np.random.Generator) -> LatentClasses:
    """Five classes, some codes of which never occur: what is known of two attributes may rule all of them out."""
    tables = [rng.gamma(0.5, size=(size, 5)) * (rng.random((size, 5)) < 0.7) + np.eye(size, 5) for size in (2, 3, 4, 2)]
    tables = [table + (table.sum(axis=0) == 0) for table in tables]
    return LatentClasses(DOMAIN, rng.dirichlet(np.ones(5)), [table / table.sum(axis=0) for table in tables], TOTAL)


def cell_by_cell(model: LatentClasses) -> np.ndarray:
    """The count of every cell: for each class its share times that of each code."""
    cells = np.zeros(tuple(model.domain.values()))
    for cell in np.ndindex(cells.shape):
        for index, share in enumerate(model.shares):
            codes = [table[code, index] for code, table in zip(cell, model.tables, strict=True)]
            cells[cell] += model.total * share * np.prod(codes)
    return cells


@pytest.mark.parametrize("clique", ALL_CLIQUES, ids="-".join)
def test_a_marginal_is_the_sum_of_its_cells(model, projected, clique) -> None:
    np.testing.assert_allclose(model.marginal(clique), projected(cell_by_cell(model), DOMAIN, clique), atol=1e-9)


@pytest.mark.parametrize("clique", [("a", "z"), ("a", "a"), ("z",)])
def test_a_marginal_of_no_clique_is_refused(model, clique) -> None:
    with pytest.raises(ValueError, match="each once"):
        model.marginal(clique)


@pytest.mark.parametrize("names", [(), ("a",), ("c", "b"), ("a", "d"), NAMES])
def test_every_marginal_is_that_of_the_cells_given_the_evidence(model, projected, rng, names) -> None:
    evidence = {name: rng.random(DOMAIN[name]) * (rng.random(DOMAIN[name]) < 0.7) for name in names}
    for weights in evidence.values():
        weights[0] += 0.1  # whatever else is ruled out, the first codes are open
    expected = cell_by_cell(model)
    for name, weights in evidence.items():
        expected = expected * weights.reshape([-1 if name == other else 1 for other in NAMES])
    assert expected.sum() > 0
    expected *= TOTAL / expected.sum()
    conditioned = model.condition(evidence)
    assert conditioned.total == TOTAL
    for clique in ALL_CLIQUES:
        np.testing.assert_allclose(conditioned.marginal(clique), projected(expected, DOMAIN, clique), atol=1e-9)


def test_evidence_leaves_the_model_that_was_asked_as_it_is(model) -> None:
    before = cell_by_cell(model)
    model.condition({"a": np.array([0.0, 1.0]), "c": np.array([0.0, 1.0, 0.0, 2.0])})
    np.testing.assert_array_equal(cell_by_cell(model), before)


def copies(n_attributes: int, least: float = 0.0) -> LatentClasses:
    """Attributes of two codes that are alike in every row, but for shares of `least`."""
    table = np.array([[1 - least, least], [least, 1 - least]])
    domain = {f"c{index}": 2 for index in range(n_attributes)}
    return LatentClasses(domain, np.array([0.75, 0.25]), [table] * n_attributes, 8.0)


def test_evidence_without_mass_is_refused() -> None:
    one, other = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    assert copies(2).condition({"c0": one}).marginal(("c1",)).tolist() == [8.0, 0.0]
    with pytest.raises(ModelError, match=r"no mass .*\['c0', 'c1'\]"):
        copies(2).condition({"c0": one, "c1": other})
    with pytest.raises(ModelError, match="no mass"):
        copies(2).condition({"c1": np.zeros(2)})


def test_evidence_of_many_attributes_that_is_unlikely_has_mass_all_the_same() -> None:
    # Of 40 attributes 19 speak for the first class and 20 for the second, each at 1e-20 against the other: all of it
    # is less likely than the smallest number.
    one, other = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    evidence = {f"c{index}": one if index < 19 else other for index in range(39)}
    conditioned = copies(40, 1e-20).condition(evidence)
    np.testing.assert_allclose(conditioned.marginal(("c39",)), [0.0, 8.0], atol=1e-9)


@pytest.mark.parametrize("scale", [1e-250, 1e250])
def test_only_proportions_of_the_evidence_matter(model, scale) -> None:
    evidence = {"b": np.array([0.5, 0.0, 2.0]), "c": np.array([0.5, 1.0, 2.0, 0.1])}
    scaled = {name: weights * scale for name, weights in evidence.items()}
    np.testing.assert_allclose(
        model.condition(scaled).marginal(NAMES), model.condition(evidence).marginal(NAMES), atol=1e-9
    )


@pytest.mark.parametrize(
    "evidence",
    [
        {"z": np.ones(2)},
        {"a": np.ones(3)},
        {"a": np.float64(1.0)},
        {"a": np.array([1.0, -0.1])},
        {"a": np.array([-1.0, -0.1])},
        {"a": np.array([1.0, np.nan])},
        {"a": np.array([1.0, np.inf])},
    ],
)
def test_evidence_that_fits_no_attribute_is_refused(model, evidence) -> None:
    with pytest.raises(ValueError, match=r"attribute='[az]'") as caught:
        model.condition(evidence)
    assert not isinstance(caught.value, ModelError)


HALVES = np.full((2, 2), 0.5)
THIRDS = np.full((3, 2), 1 / 3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"total": 0.0}, "positive"),
        ({"total": np.nan}, "positive"),
        ({"total": np.inf}, "positive"),
        ({"shares": np.array([0.5, 0.4])}, "shares of classes"),
        ({"shares": np.array([1.5, -0.5])}, "shares of classes"),
        ({"shares": np.array([0.5, np.nan])}, "shares of classes"),
        ({"shares": np.array([[0.5], [0.5]])}, "shares of classes"),
        ({"shares": np.zeros(0)}, "shares of classes"),
        ({"shares": np.array([1.0])}, "attribute='a'"),
        ({"tables": (HALVES,)}, "each attribute has a table"),
        ({"tables": (HALVES, THIRDS, HALVES)}, "each attribute has a table"),
        ({"tables": (HALVES, HALVES)}, "attribute='b'"),
        ({"tables": (HALVES, THIRDS * 1.1)}, "attribute='b'"),
        ({"tables": (np.array([[1.5, 1.0], [-0.5, 0.0]]), THIRDS)}, "attribute='a'"),
        ({"tables": (np.array([[np.nan, 1.0], [1.0, 0.0]]), THIRDS)}, "attribute='a'"),
        ({"domain": {"a": 2, "b": 2}}, "attribute='b'"),
        ({"domain": {"a": 2}}, "each attribute has a table"),
    ],
)
def test_what_is_no_distribution_is_refused(change: Mapping[str, Any], message: str) -> None:
    whole: dict[str, Any] = {
        "domain": {"a": 2, "b": 3}, "shares": np.array([0.5, 0.5]), "tables": (HALVES, THIRDS), "total": 1.0,
    }  # fmt: skip
    LatentClasses(**whole)
    with pytest.raises(ValueError, match=message):
        LatentClasses(**{**whole, **change})


def test_a_model_comes_back_from_its_arrays_but_for_rounding(model) -> None:
    description, arrays = model.to_arrays()
    again = LatentClasses.from_arrays(json.loads(json.dumps(description)), arrays)
    assert list(again.domain.items()) == list(DOMAIN.items())
    assert again.total == TOTAL
    np.testing.assert_array_equal(again.shares, model.shares)
    for one, other in zip(again.tables, model.tables, strict=True):
        np.testing.assert_array_equal(one, other.astype(np.float32))
    # A second trip changes nothing more.
    np.testing.assert_array_equal(again.to_arrays()[1][CLASS_TABLES], arrays[CLASS_TABLES])


@pytest.mark.parametrize(
    "damage",
    [
        {"domain": None},
        {"domain": [["a", 2], ["b", 3], ["c", 4]]},
        {"domain": [["a", 2], ["a", 3], ["c", 4], ["d", 2]]},
        {"domain": [["a", 2.0], ["b", 3], ["c", 4], ["d", 2]]},
        {"domain": [["a", 3], ["b", 2], ["c", 4], ["d", 2]]},
        {"domain": [["a", -2], ["b", 7], ["c", 4], ["d", 2]]},
        {"domain": [["a", True], ["b", 4], ["c", 4], ["d", 2]]},
        {"domain": [["a", 10**400], ["b", 3], ["c", 4], ["d", 2]]},
        {"total": "many"},
        {"total": -1.0},
        {"total": None},
        {"total": 10**400},
    ],
)
def test_a_damaged_description_is_refused(model, damage) -> None:
    description, arrays = model.to_arrays()
    with pytest.raises(ModelError, match="fit it again"):
        LatentClasses.from_arrays({**description, **damage}, arrays)
    for name in description:
        with pytest.raises(ModelError, match="fit it again"):
            LatentClasses.from_arrays({key: part for key, part in description.items() if key != name}, arrays)


def test_damaged_arrays_are_refused(model) -> None:
    description, arrays = model.to_arrays()
    shares, tables = arrays[CLASS_SHARES], arrays[CLASS_TABLES]
    for damaged in (
        {CLASS_SHARES: shares},
        {CLASS_TABLES: tables},
        {**arrays, "rows": tables},
        {**arrays, CLASS_SHARES: shares[:-1]},
        {**arrays, CLASS_SHARES: shares[:0]},
        {**arrays, CLASS_SHARES: shares[:, np.newaxis]},
        {**arrays, CLASS_SHARES: shares.astype("U9")[0]},
        {**arrays, CLASS_SHARES: shares * np.nan},
        {**arrays, CLASS_SHARES: np.full(100_001, 1 / 100_001)},
        {**arrays, CLASS_TABLES: tables[:-1]},
        {**arrays, CLASS_TABLES: tables[:, :-1]},
        {**arrays, CLASS_TABLES: tables[:, :, np.newaxis]},
        {**arrays, CLASS_TABLES: tables.ravel()},
        {**arrays, CLASS_TABLES: tables[0, 0]},
        {**arrays, CLASS_TABLES: -tables},
        {**arrays, CLASS_TABLES: tables * np.nan},
        {**arrays, CLASS_TABLES: tables[::-1]},
        {**arrays, CLASS_TABLES: np.full(tables.shape, "x")},
    ):
        with pytest.raises(ModelError, match="fit it again"):
            LatentClasses.from_arrays(description, damaged)


def counted(codes: Codes, clique: tuple[str, ...]) -> np.ndarray:
    shape = tuple(DOMAIN[name] for name in clique)
    columns = [codes[:, NAMES.index(name)] for name in clique]
    return np.bincount(np.ravel_multi_index(columns, shape), minlength=int(np.prod(shape))).reshape(shape)


def test_rows_have_codes_of_the_domain_column_by_column(model, rng) -> None:
    codes = sample_classes(model, 500, rng)
    assert codes.shape == (500, 4)
    assert codes.dtype == np.int32
    assert codes.flags.f_contiguous
    assert (codes >= 0).all()
    assert (codes < list(DOMAIN.values())).all()


@pytest.mark.parametrize("n_rows", [1, 7, 997, 20_000])
def test_counts_of_single_attributes_are_off_by_rounding_only(model, rng, n_rows) -> None:
    """A class is off by less than one row, and within it a code by less than one."""
    codes = sample_classes(model, n_rows, rng)
    for name in NAMES:
        expected = model.marginal((name,)) * n_rows / TOTAL
        assert np.abs(counted(codes, (name,)) - expected).max() < 2 * len(model.shares)


def test_counts_of_pairs_are_those_of_the_model_but_for_chance(model, rng, monkeypatch) -> None:
    """Of 40,000 rows each cell is within 5 standard errors of its expectation, and a cell of no mass is empty."""
    monkeypatch.setattr("synth.marginals.sampling.EVEN_ROWS", 0)
    codes = sample_classes(model, 40_000, rng)
    for clique in combinations(NAMES, 2):
        expected, counts = model.marginal(clique) * 40_000 / TOTAL, counted(codes, clique)
        # One row more for each class, since rounding is not in the standard error of a cell of few rows.
        assert (np.abs(counts - expected) < 5 * np.sqrt(expected) + len(model.shares)).all(), clique
        assert (counts[expected == 0] == 0).all()


def independent() -> LatentClasses:
    """Two classes that are alike in all attributes: these are independent."""
    tables = [np.repeat(np.linspace(1, 2, size)[:, np.newaxis], 2, axis=1) for size in DOMAIN.values()]
    return LatentClasses(DOMAIN, np.array([0.4, 0.6]), [table / table.sum(axis=0) for table in tables], TOTAL)


def test_what_is_independent_in_a_class_is_independent_in_its_rows_by_chance(rng, monkeypatch) -> None:
    """Chi-squares of 40 draws have a mean of 6, the degrees of freedom, within 5 standard errors."""
    monkeypatch.setattr("synth.marginals.sampling.EVEN_ROWS", 0)
    statistics = []
    for _ in range(40):
        table = counted(sample_classes(independent(), 6000, rng), ("b", "c"))
        expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / 6000
        statistics.append(((table - expected) ** 2 / expected).sum())
    assert abs(np.mean(statistics) - 6) < 5 * np.sqrt(2 * 6 / 40)


def test_rows_of_a_small_table_are_spread_more_evenly_than_chance_would(rng) -> None:
    for _ in range(5):
        table = counted(sample_classes(independent(), 6000, rng), ("b", "c"))
        expected = independent().marginal(("b", "c")) * 6000 / TOTAL
        assert ((table - expected) ** 2 / expected).sum() < 1


@pytest.mark.statistical
def test_no_cell_is_favored(rng) -> None:
    """The mean over 3,000 tables of 7 rows is within 5 standard errors."""
    tables = np.array([counted(sample_classes(independent(), 7, rng), ("a", "c")) for _ in range(3000)])
    expected = independent().marginal(("a", "c")) * 7 / TOTAL
    assert (np.abs(tables.mean(axis=0) - expected) < 5 * tables.std(axis=0) / np.sqrt(3000)).all()


def test_the_same_seed_gives_the_same_rows_and_another_gives_others(model) -> None:
    draws = [sample_classes(model, 500, np.random.default_rng(seed)) for seed in (1, 1, 2)]
    np.testing.assert_array_equal(draws[0], draws[1])
    assert (draws[0] != draws[2]).any()


def test_rows_come_in_no_order(model, rng) -> None:
    codes = sample_classes(model, 10_000, rng)
    halves = [np.bincount(half[:, 2], minlength=4) for half in (codes[:5000], codes[5000:])]
    assert np.abs(halves[0] - halves[1]).max() < 5 * np.sqrt(10_000)


def test_no_rows_are_a_table_of_no_rows_and_fewer_are_refused(model, rng) -> None:
    assert sample_classes(model, 0, rng).shape == (0, 4)
    with pytest.raises(ValueError, match="n_rows=-1"):
        sample_classes(model, -1, rng)
