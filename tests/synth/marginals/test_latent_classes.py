"""Latent classes beside brute force, and their estimation."""

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, permutations
from typing import Any

import numpy as np
import pytest

from synth.marginals import Clique, Measurement
from synth.marginals.distributions import CLASS_TABLES, LatentClasses
from synth.marginals.latent_class_estimation import (
    FARTHEST,
    NEARER,
    REACH,
    ROUGHNESS,
    ClassEstimation,
    CoarseCodes,
    _Measured,
    _spread_many,
)
from synth.marginals.sampling import Codes, sample_classes

DOMAIN = {"a": 2, "b": 3, "c": 4, "d": 2}
NAMES = tuple(DOMAIN)
TOTAL = 1000.0
ALL_CLIQUES = [clique for n in (0, 1, 2, 4) for clique in permutations(NAMES, n)]


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


def test_every_marginal_is_that_of_the_cells(model, projected) -> None:
    cells = cell_by_cell(model)
    for clique in ALL_CLIQUES:
        np.testing.assert_allclose(model.marginal(clique), projected(cells, DOMAIN, clique), atol=1e-9)


def test_a_model_comes_back_from_its_arrays_but_for_rounding(model) -> None:
    description, arrays = model.to_arrays()
    again = LatentClasses.from_arrays(json.loads(json.dumps(description)), arrays)
    assert list(again.domain.items()) == list(DOMAIN.items())
    assert again.total == TOTAL
    np.testing.assert_array_equal(again.shares, model.shares)
    for first, other in zip(again.tables, model.tables, strict=True):
        np.testing.assert_array_equal(first, other.astype(np.float32))
    # A second trip changes nothing more.
    np.testing.assert_array_equal(again.to_arrays()[1][CLASS_TABLES], arrays[CLASS_TABLES])


def counted(codes: Codes, clique: tuple[str, ...]) -> np.ndarray:
    shape = tuple(DOMAIN[name] for name in clique)
    columns = [codes[:, NAMES.index(name)] for name in clique]
    return np.bincount(np.ravel_multi_index(columns, shape), minlength=int(np.prod(shape))).reshape(shape)


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


MEASURED_DOMAIN = {"a": 3, "b": 5, "c": 4}

GROUPS = {"B": ("b", [0, 0, 1, 2, 1]), "C": ("c", [1, 0, 0, 1])}
"""Coarse attributes, one of which merges codes that are no neighbors."""
COARSE = {name: CoarseCodes(of, np.array(groups)) for name, (of, groups) in GROUPS.items()}
SIZES = {**MEASURED_DOMAIN, "B": 3, "C": 2}
N_ROWS, SIGMA = 1000.0, 20.0


def measured(
    clique: Clique, rng: np.random.Generator, sigma: float | np.ndarray = SIGMA, total: float = N_ROWS
) -> Measurement:
    """Counts that go together with no others."""
    shape = tuple(SIZES[name] for name in clique)
    return Measurement(clique, rng.dirichlet(np.ones(np.prod(shape))).reshape(shape) * total, sigma)


def one_way(rng: np.random.Generator, sigma: float = SIGMA) -> list[Measurement]:
    """Of totals that do not differ, so that nothing has to be said of how they are averaged."""
    return [measured((name,), rng, sigma) for name in MEASURED_DOMAIN]


Loss = Callable[[np.ndarray, np.ndarray], float]


def loss(estimation: ClassEstimation, measurements: Sequence[Measurement], price: float) -> Loss:
    """By the parameters in double precision: half the squared residuals in standard deviations, and the price.

    The penalty on roughness is left out.
    """
    base = estimation._base.astype(np.float64)

    def of(logits: np.ndarray, share_logits: np.ndarray) -> float:
        shares = np.exp(share_logits) / np.exp(share_logits).sum()
        tables, start = {}, 0
        for name, size in MEASURED_DOMAIN.items():
            part = np.exp((base + logits)[start : start + size])
            tables[name], start = part / part.sum(axis=0), start + size
        for name, (fine, groups) in GROUPS.items():
            tables[name] = np.stack([tables[fine][np.array(groups) == code].sum(axis=0) for code in range(SIZES[name])])
        result = 0.0
        for each in measurements:
            letters = "xyz"[: len(each.clique)]
            operands = ",".join(f"{letter}k" for letter in letters)
            expected = np.einsum(f"k,{operands}->{letters}", shares, *(tables[name] for name in each.clique))
            result += float((np.square((expected * N_ROWS - each.values) / each.sigma)).sum()) / 2
        for name in MEASURED_DOMAIN:
            together = tables[name] @ shares
            result += price * float(
                shares @ (tables[name] * np.log(tables[name] / together[:, np.newaxis])).sum(axis=0)
            )
        return result

    return of


def kinds(rng: np.random.Generator) -> Iterator[tuple[str, list[Measurement]]]:
    """Every way in which measurements reach the loss."""
    uneven = rng.uniform(5, 50, (5, 4))
    yield "nothing but single attributes", []
    yield "a pair of the block", [measured(("a", "B"), rng)]
    yield "a pair of the block, turned, a sigma for each cell", [measured(("C", "B"), rng, rng.uniform(5, 50, (2, 3)))]
    yield "all pairs of the block", [measured(pair, rng) for pair in combinations(("a", "B", "C"), 2)]
    yield "a pair of fine codes", [measured(("b", "c"), rng)]
    yield "a pair of fine codes, turned, a sigma for each cell", [measured(("c", "b"), rng, uneven.T)]
    yield "a pair of fine and coarse codes", [measured(("b", "C"), rng)]
    yield "a triple", [measured(("a", "b", "c"), rng)]
    yield "a triple of coarse codes, out of order", [measured(("C", "a", "B"), rng, rng.uniform(5, 50, (2, 3, 3)))]
    yield "a single attribute", [measured(("b",), rng)]
    yield "a single coarse attribute, a sigma for each cell", [measured(("B",), rng, np.array([5.0, 30.0, 9.0]))]
    yield "the same pair twice", [measured(("a", "B"), rng), measured(("B", "a"), rng, 40.0)]
    yield (
        "all of it",
        [m for clique in (("a", "B"), ("b", "c"), ("a", "b", "C"), ("c",)) for m in [measured(clique, rng)]],
    )


@pytest.mark.parametrize("price", [0.0, 300.0])
@pytest.mark.parametrize("index", range(13), ids=[what for what, _ in kinds(np.random.default_rng(0))])
def test_the_gradient_is_that_of_the_loss(rng, index, price) -> None:
    singles, (_, more) = one_way(rng), list(kinds(rng))[index]
    estimation = ClassEstimation(MEASURED_DOMAIN, COARSE, singles, 4, rng)
    estimation.add(more)
    estimation.run(3, price)  # away from the even shares of classes that the descent begins with
    origin, gradients = loss(estimation, [*singles, *more], price), estimation._gradients(price)
    for which, gradient in enumerate(gradients):
        slopes = np.empty(gradient.shape)
        for position in np.ndindex(gradient.shape):
            ends = []
            for step in (1e-5, -1e-5):
                parameters = [values.astype(np.float64) for values in estimation._parameters]
                parameters[which][position] += step
                ends.append(origin(parameters[0], parameters[1]))
            slopes[position] = (ends[0] - ends[1]) / 2e-5
        assert np.abs(slopes).max() > 1
        np.testing.assert_allclose(gradient, slopes, atol=2e-4 * np.abs(slopes).max())


def test_the_penalty_on_roughness_is_of_third_differences_along_stretches() -> None:
    domain, price, rng = {"x": 12, "y": 3}, 40.0, np.random.default_rng(3)
    singles = [Measurement((name,), np.full(size, 10.0), 5.0) for name, size in domain.items()]
    parameters = rng.normal(size=(15, 4)).astype(np.float32), rng.normal(size=4).astype(np.float32)
    stretches = [slice(0, 5), slice(6, 12)]
    gradients = []
    for along in ({}, {"x": stretches}):
        estimation = ClassEstimation(domain, {}, singles, 4, rng, along)
        estimation._parameters = parameters
        gradients.append(estimation._gradients(price)[0])
    shares = np.exp(parameters[1]) / np.exp(parameters[1]).sum()
    expected = np.zeros((15, 4))
    for each in stretches:
        third = np.diff(np.eye(each.stop - each.start), n=3, axis=0)
        expected[each] = third.T @ third @ parameters[0][each] * shares * price * ROUGHNESS
    np.testing.assert_allclose(gradients[1] - gradients[0], expected, rtol=1e-3, atol=1e-4)


def test_codes_that_were_measured_together_are_told_apart_as_their_neighbors_are() -> None:
    """Two numbers with a normal distribution, correlated, are measured by four codes each, and known by sixteen."""
    size, groups = 16, np.repeat(np.arange(4), 4)
    steps = (np.arange(size) - 7.5) / 4
    counts = np.exp(-(steps[:, np.newaxis] ** 2 + steps**2 - 1.6 * steps[:, np.newaxis] * steps) / 0.72)
    counts *= N_ROWS / counts.sum()
    merged_counts = counts.reshape(4, 4, 4, 4).sum(axis=(1, 3))
    apart = []
    for stretches in ({}, {name: [slice(0, size)] for name in "xy"}):
        rng = np.random.default_rng(0)
        coarse = {name.upper(): CoarseCodes(name, groups) for name in "xy"}
        singles = [Measurement((name,), counts.sum(axis=axis), 1.0) for name, axis in (("x", 1), ("y", 0))]
        estimation = ClassEstimation({"x": size, "y": size}, coarse, singles, 100, rng, stretches)
        estimation.add([Measurement(("X", "Y"), merged_counts, 5.0)])
        estimation.begin(rng.integers(0, size, (100, 2)))
        for _ in range(2):
            estimation.run(150, 0.2 * estimation.noise, last=True)
        apart.append(distance(estimation.model(), counts, ("x", "y")))
    assert apart[1] < 0.7 * apart[0], apart


def distance(model: LatentClasses, counts: np.ndarray, clique: Clique) -> float:
    """Total variation distance of a marginal from counts of as many rows."""
    return float(np.abs(model.marginal(clique) - counts).sum() / (2 * N_ROWS))


def of_independent(price_in_noise: float, seed: int = 0) -> tuple[float, float]:
    """How far the pairs are from independence, in the mean, and how far from what was measured of them."""
    rng, size, sigma = np.random.default_rng(seed), 8, 8.0
    domain = {f"c{index}": size for index in range(6)}
    even, pairs = np.full(size, N_ROWS / size), list(combinations(domain, 2))
    noisy = [Measurement(pair, rng.normal(N_ROWS / size**2, sigma, (size, size)), sigma) for pair in pairs]
    estimation = ClassEstimation(domain, {}, [Measurement((name,), even, 1.0) for name in domain], 50, rng)
    estimation.add(noisy)
    price = price_in_noise * estimation.noise
    estimation.run(100, price)
    estimation.run(100, price, last=True)
    model = estimation.model()
    from_noisy = [distance(model, each.values, each.clique) for each in noisy]
    return float(np.mean([distance(model, np.full((size, size), N_ROWS / size**2), p) for p in pairs])), np.mean(
        from_noisy
    ).item()


def test_the_price_keeps_noise_out() -> None:
    """Without one, pairs of independent attributes follow their noise as far as classes can."""
    free, priced = of_independent(0.0), of_independent(0.7)
    assert free[0] > 0.07
    assert priced[0] < 0.5 * free[0]
    # What was left out is what was measured: the price is paid in fit.
    assert free[1] < priced[1]


def test_noise_is_the_price_of_what_the_cells_of_all_pairs_hold() -> None:
    """Two attributes of 4 and 8 codes: a cell of a share has precision 2,500, an even share of the codes each."""
    domain = {"x": 4, "y": 8}
    singles = [Measurement((name,), np.full(size, N_ROWS / size), 1.0) for name, size in domain.items()]
    estimation = ClassEstimation(domain, {}, singles, 3, np.random.default_rng(0))
    assert estimation.noise == 0
    estimation.add([Measurement(("x", "y"), np.full((4, 8), N_ROWS / 32), SIGMA)])
    assert estimation.noise == pytest.approx(np.sqrt((2500 / 4 + 2500 / 8) / 2))


def merged(model: LatentClasses, clique: Clique) -> np.ndarray:
    """The marginal by coarse codes, from that by fine ones."""
    counts = model.marginal(tuple(GROUPS[name][0] if name in GROUPS else name for name in clique))
    for axis, name in enumerate(clique):
        if name in GROUPS:
            parts = np.moveaxis(counts, axis, 0)
            groups = np.array(GROUPS[name][1])
            counts = np.moveaxis(np.stack([parts[groups == code].sum(axis=0) for code in range(SIZES[name])]), 0, axis)
    return counts


def test_what_is_expected_is_what_the_model_has(rng) -> None:
    cliques: list[Clique] = [
        ("a",), ("B",), ("a", "b"), ("c", "a"), ("B", "C"), ("C", "b"), ("a", "B", "c"), ("C", "b", "a"),
    ]  # fmt: skip
    estimation = ClassEstimation(MEASURED_DOMAIN, COARSE, one_way(rng), 6, rng)
    estimation.add([measured(("a", "B"), rng), measured(("b", "c"), rng)])
    estimation.run(10, 1.0)
    model = estimation.model()
    for clique, counts in zip(cliques, estimation.expected(cliques), strict=True):
        assert counts.shape == tuple(SIZES[name] for name in clique)
        np.testing.assert_allclose(counts, merged(model, clique), rtol=1e-4, atol=1e-3)


def test_codes_without_any_count_keep_a_share_that_can_grow(rng) -> None:
    """A negative count is no share; where a pair says more, the code has it."""
    singles = [Measurement(("x",), np.array([-5.0, 105.0]), 30.0), Measurement(("y",), np.array([50.0, 50.0]), 1.0)]
    estimation = ClassEstimation({"x": 2, "y": 2}, {}, singles, 20, rng)
    estimation.run(0, 0.0)
    assert (estimation.model().marginal(("x",)) > 0).all()
    estimation.add([Measurement(("x", "y"), np.array([[30.0, 0.0], [20.0, 50.0]]), 0.5)])
    estimation.run(300, 0.0, last=True)
    assert estimation.model().marginal(("x", "y"))[0, 0] == pytest.approx(30.0, abs=1.0)


def test_classes_begin_near_the_rows_that_they_are_given() -> None:
    rng = np.random.default_rng(0)
    estimation = ClassEstimation(MEASURED_DOMAIN, COARSE, one_way(rng), 6, rng)
    before = estimation.model()
    rows = np.stack([rng.integers(0, size, 6) for size in MEASURED_DOMAIN.values()], axis=1)
    estimation.begin(rows)
    after = estimation.model()
    for position, (old, new) in enumerate(zip(before.tables, after.tables, strict=True)):
        odds = np.log(new / old) - np.log(new / old).min(axis=0)
        expected = np.zeros_like(odds)
        expected[rows[:, position], np.arange(6)] = NEARER
        np.testing.assert_allclose(odds, expected, atol=1e-4)


def test_along_a_stretch_classes_begin_as_normal_densities() -> None:
    rng = np.random.default_rng(0)
    singles = [Measurement(("x",), np.full(12, 10.0), 5.0)]
    estimation = ClassEstimation({"x": 12}, {}, singles, 3, rng, {"x": [slice(0, 5), slice(6, 12)]})
    estimation._parameters[0][5] = 0  # as random as without stretches
    estimation.begin(np.array([[3], [5], [9]]))
    gains = np.log(estimation.model().tables[0]) - np.log(estimation.model().tables[0])[[3, 5, 9], [0, 1, 2]]
    nearest = np.minimum(np.square((np.arange(5) - 3) / 5 / REACH) / 2, FARTHEST)
    np.testing.assert_allclose(gains[:5, 0], -nearest, atol=1e-4)
    np.testing.assert_allclose(gains[6:, 0], -NEARER, atol=1e-4)
    np.testing.assert_allclose(gains[[*range(5), *range(6, 12)], 1], -NEARER, atol=1e-4)


def test_the_derivative_of_a_marginal_of_many_columns_is_that_of_its_loss(rng) -> None:
    sizes, step = {"a": 2, "b": 3, "c": 2, "d": 2, "e": 3}, 1e-5
    tables: dict[str, np.ndarray] = {name: rng.dirichlet(np.ones(size), 3).T for name, size in sizes.items()}
    shape, shares = tuple(sizes.values()), rng.dirichlet(np.ones(3))
    marginal: Any = _Measured(tuple(sizes), rng.random(shape), rng.uniform(1, 9, shape))

    def loss_of_tables() -> float:
        expected = np.einsum("ak,bk,ck,dk,ek,k->abcde", *tables.values(), shares)
        return float((marginal.precisions * (expected - marginal.shares) ** 2).sum()) / 2

    derivatives: dict[str, Any] = {name: np.zeros_like(table) for name, table in tables.items()}
    derivatives["shares"] = _spread_many(marginal, tables, shares, derivatives)
    for name, values in (*tables.items(), ("shares", shares)):
        for position in np.ndindex(values.shape):
            ends = []
            for change in (step, -2 * step):
                values[position] += change
                ends.append(loss_of_tables())
            values[position] += step
            slope = (ends[0] - ends[1]) / (2 * step)
            assert derivatives[name][position] == pytest.approx(slope, abs=1e-6)


def test_classes_that_follow_a_marginal_of_many_columns_have_one_cell_each_and_what_was_measured() -> None:
    """No part of the five columns tells anything of the rest; a descent alone keeps them apart at this price."""
    rng, names = np.random.default_rng(2), [f"c{index}" for index in range(5)]
    cells = np.indices((2,) * 5).sum(axis=0) % 2
    counts = cells * (TOTAL / 16) + rng.normal(0, 6.0, cells.shape)
    halves = np.array([0, 0, 1])
    distances = []
    for follows in (True, False):
        singles = [Measurement((name,), np.array([TOTAL / 4, TOTAL / 4, TOTAL / 2]), 6.0) for name in names]
        estimation = ClassEstimation(dict.fromkeys(names, 3), {}, singles, 400, rng)
        if follows:
            estimation.follow(dict.fromkeys(names, halves), counts, 6.0, rng)
        estimation.run(60, 1000.0, last=True)
        model = estimation.model()
        merged_tables = [np.stack([table[halves == half].sum(axis=0) for half in (0, 1)]) for table in model.tables]
        assert all((table.max(axis=0) > 1 - 1e-6).all() for table in merged_tables) == follows
        joint = np.einsum("ak,bk,ck,dk,ek,k->abcde", *merged_tables, model.shares)
        distances.append(np.abs(joint - cells / 16).sum() / 2)
    assert distances[0] < 0.1 and distances[1] > 0.4
