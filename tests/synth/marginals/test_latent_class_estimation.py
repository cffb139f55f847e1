"""The descent to a latent class model: its gradient against finite differences, what it fits, and what a price does."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations, pairwise

import numpy as np
import pytest

from synth.marginals import Clique, LatentClasses, Measurement
from synth.marginals.latent_class_estimation import NEARER, ClassEstimation, CoarseCodes

DOMAIN = {"a": 3, "b": 5, "c": 4}
NAMES = list(DOMAIN)
GROUPS = {"B": ("b", [0, 0, 1, 2, 1]), "C": ("c", [1, 0, 0, 1])}
"""Coarse attributes, one of which merges codes that are no neighbors."""
COARSE = {name: CoarseCodes(of, np.array(groups)) for name, (of, groups) in GROUPS.items()}
SIZES = {**DOMAIN, "B": 3, "C": 2}
TOTAL, SIGMA = 1000.0, 20.0


def measured(
    clique: Clique, rng: np.random.Generator, sigma: float | np.ndarray = SIGMA, total: float = TOTAL
) -> Measurement:
    """Counts that go together with no others."""
    shape = tuple(SIZES[name] for name in clique)
    return Measurement(clique, rng.dirichlet(np.ones(np.prod(shape))).reshape(shape) * total, sigma)


def one_way(rng: np.random.Generator, sigma: float = SIGMA) -> list[Measurement]:
    """Of totals that do not differ, so that nothing has to be said of how they are averaged."""
    return [measured((name,), rng, sigma) for name in DOMAIN]


Loss = Callable[[np.ndarray, np.ndarray], float]


def loss(estimation: ClassEstimation, measurements: Sequence[Measurement], price: float) -> Loss:
    """By the parameters in double precision: half the squared residuals in standard deviations, and the price."""
    base = estimation._base.astype(np.float64)

    def of(logits: np.ndarray, share_logits: np.ndarray) -> float:
        shares = np.exp(share_logits) / np.exp(share_logits).sum()
        tables, start = {}, 0
        for name, size in DOMAIN.items():
            part = np.exp((base + logits)[start : start + size])
            tables[name], start = part / part.sum(axis=0), start + size
        for name, (fine, groups) in GROUPS.items():
            tables[name] = np.stack([tables[fine][np.array(groups) == code].sum(axis=0) for code in range(SIZES[name])])
        found = 0.0
        for each in measurements:
            letters = "xyz"[: len(each.clique)]
            operands = ",".join(f"{letter}k" for letter in letters)
            expected = np.einsum(f"k,{operands}->{letters}", shares, *(tables[name] for name in each.clique))
            found += float((np.square((expected * TOTAL - each.values) / each.sigma)).sum()) / 2
        for name in DOMAIN:
            together = tables[name] @ shares
            found += price * float(shares @ (tables[name] * np.log(tables[name] / together[:, np.newaxis])).sum(axis=0))
        return found

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
    estimation = ClassEstimation(DOMAIN, COARSE, singles, 4, rng)
    estimation.add(more)
    estimation.run(3, price)  # away from the even shares of classes that the descent begins with
    of, gradients = loss(estimation, [*singles, *more], price), estimation._gradients(price)
    for which, gradient in enumerate(gradients):
        slopes = np.empty(gradient.shape)
        for place in np.ndindex(gradient.shape):
            ends = []
            for step in (1e-5, -1e-5):
                parameters = [values.astype(np.float64) for values in estimation._parameters]
                parameters[which][place] += step
                ends.append(of(parameters[0], parameters[1]))
            slopes[place] = (ends[0] - ends[1]) / 2e-5
        assert np.abs(slopes).max() > 1
        np.testing.assert_allclose(gradient, slopes, atol=2e-4 * np.abs(slopes).max())


def mixture(rng: np.random.Generator, n_classes: int = 3) -> LatentClasses:
    """Classes that differ: attributes depend on each other."""
    tables = [rng.dirichlet(np.full(size, 0.2), n_classes).T for size in DOMAIN.values()]
    return LatentClasses(DOMAIN, np.full(n_classes, 1 / n_classes), tables, TOTAL)


def exact(model: LatentClasses, cliques: Sequence[Clique], sigma: float = 1.0) -> list[Measurement]:
    return [Measurement(clique, model.marginal(clique), sigma) for clique in cliques]


def distance(model: LatentClasses, counts: np.ndarray, clique: Clique) -> float:
    """Total variation distance of a marginal from counts of as many rows."""
    return float(np.abs(model.marginal(clique) - counts).sum() / (2 * TOTAL))


PAIRS: list[Clique] = list(combinations(NAMES, 2))


def test_exact_marginals_of_a_mixture_come_out(rng) -> None:
    real = mixture(rng)
    alone = max(
        np.abs(real.marginal(pair) - np.outer(*(real.marginal((name,)) for name in pair)) / TOTAL).sum() / (2 * TOTAL)
        for pair in PAIRS
    )
    assert alone > 0.2
    estimation = ClassEstimation(DOMAIN, {}, exact(real, [("a",), ("b",), ("c",)]), 50, rng)
    estimation.add(exact(real, PAIRS))
    estimation.run(100, 0.0)
    estimation.run(150, 0.0, last=True)
    model = estimation.model()
    assert model.total == pytest.approx(TOTAL)
    for clique in [*PAIRS, ("a",), ("b",), ("c",)]:
        assert distance(model, real.marginal(clique), clique) < 0.005, clique


def test_what_only_a_triple_tells_comes_out_once_it_is_measured() -> None:
    """Any two of the attributes are independent, and the third is the parity of the others."""
    cells = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]]) * TOTAL / 4
    domain = dict.fromkeys("xyz", 2)
    singles = [Measurement((name,), np.full(2, TOTAL / 2), 5.0) for name in domain]
    pairs = [Measurement(pair, np.full((2, 2), TOTAL / 4), 5.0) for pair in combinations(domain, 2)]
    found = []
    for triples in ([], [Measurement(("x", "y", "z"), cells, 5.0)]):
        estimation = ClassEstimation(domain, {}, singles, 50, np.random.default_rng(0))
        estimation.add(pairs)
        estimation.run(50, 1.0)
        estimation.add(triples)
        estimation.run(150, 1.0, last=True)
        found.append(distance(estimation.model(), cells, ("x", "y", "z")))
    assert found[0] > 0.3
    assert found[1] < 0.05


def of_independent(price_in_noise: float, seed: int = 0) -> tuple[float, float]:
    """How far the pairs are from independence, in the mean, and how far from what was measured of them."""
    rng, size, sigma = np.random.default_rng(seed), 8, 8.0
    domain = {f"c{index}": size for index in range(6)}
    even, pairs = np.full(size, TOTAL / size), list(combinations(domain, 2))
    noisy = [Measurement(pair, rng.normal(TOTAL / size**2, sigma, (size, size)), sigma) for pair in pairs]
    estimation = ClassEstimation(domain, {}, [Measurement((name,), even, 1.0) for name in domain], 50, rng)
    estimation.add(noisy)
    price = price_in_noise * estimation.noise
    estimation.run(100, price)
    estimation.run(100, price, last=True)
    model = estimation.model()
    from_noisy = [distance(model, each.values, each.clique) for each in noisy]
    return float(np.mean([distance(model, np.full((size, size), TOTAL / size**2), p) for p in pairs])), np.mean(
        from_noisy
    ).item()


def test_the_price_keeps_noise_out() -> None:
    """Without one, pairs of independent attributes follow their noise as far as classes can."""
    free, priced = of_independent(0.0), of_independent(0.7)
    assert free[0] > 0.07
    assert priced[0] < 0.5 * free[0]
    # What was left out is what was measured: the price is paid in fit.
    assert free[1] < priced[1]


def test_a_higher_price_keeps_more_of_it_out() -> None:
    away = [of_independent(price)[0] for price in (0.0, 0.3, 0.7, 2.0)]
    assert all(later < earlier for earlier, later in pairwise(away))
    assert away[-1] < 0.01


def test_the_price_leaves_what_is_far_above_the_noise() -> None:
    domain, size = {f"c{index}": 4 for index in range(4)}, 4
    copied = np.diag(np.full(size, TOTAL / size))
    rng = np.random.default_rng(3)
    estimation = ClassEstimation(
        domain, {}, [Measurement((name,), np.full(size, TOTAL / size), 1.0) for name in domain], 50, rng
    )
    pairs = list(combinations(domain, 2))
    estimation.add([Measurement(pair, copied + rng.normal(0, 10.0, (size, size)), 10.0) for pair in pairs])
    price = 0.7 * estimation.noise
    estimation.run(100, price)
    estimation.run(150, price, last=True)
    # Independence is at 0.75, and noise of 10 in each of 16 cells alone is at 0.06.
    assert max(distance(estimation.model(), copied, pair) for pair in pairs) < 0.08


def test_noise_is_the_price_of_what_the_cells_of_all_pairs_hold() -> None:
    """Two attributes of 4 and 8 codes: a cell of a share has precision 2,500, an even share of the codes each."""
    domain = {"x": 4, "y": 8}
    singles = [Measurement((name,), np.full(size, TOTAL / size), 1.0) for name, size in domain.items()]
    estimation = ClassEstimation(domain, {}, singles, 3, np.random.default_rng(0))
    assert estimation.noise == 0
    estimation.add([Measurement(("x", "y"), np.full((4, 8), TOTAL / 32), SIGMA)])
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
    estimation = ClassEstimation(DOMAIN, COARSE, one_way(rng), 6, rng)
    estimation.add([measured(("a", "B"), rng), measured(("b", "c"), rng)])
    estimation.run(10, 1.0)
    model = estimation.model()
    for clique, counts in zip(cliques, estimation.expected(cliques), strict=True):
        assert counts.shape == tuple(SIZES[name] for name in clique)
        np.testing.assert_allclose(counts, merged(model, clique), rtol=1e-4, atol=1e-3)


def arrays_of(seed: int) -> Mapping[str, np.ndarray]:
    rng = np.random.default_rng(5)
    singles, pair = one_way(rng), measured(("a", "B"), rng)
    estimation = ClassEstimation(DOMAIN, COARSE, singles, 6, np.random.default_rng(seed))
    estimation.add([pair])
    estimation.run(20, 1.0, last=True)
    return estimation.model().to_arrays()[1]


def test_the_same_generator_gives_the_same_model_and_another_gives_another() -> None:
    one, same, other = arrays_of(1), arrays_of(1), arrays_of(2)
    for name, values in one.items():
        np.testing.assert_array_equal(values, same[name])
        assert (values != other[name]).any()


def gradient_with(more: Sequence[Measurement]) -> np.ndarray:
    rng = np.random.default_rng(5)
    estimation = ClassEstimation(DOMAIN, COARSE, one_way(rng), 6, np.random.default_rng(1))
    estimation.add(more)
    return np.concatenate([part.ravel() for part in estimation._gradients(0.0)])


@pytest.mark.parametrize("clique", [("a", "B"), ("b", "c"), ("a", "B", "C"), ("c",)], ids="-".join)
def test_a_second_measurement_counts_as_much_as_the_first(rng, clique) -> None:
    """Precisions add: two of the same counts are one with noise smaller by the root of two."""
    once = measured(clique, rng)
    twice = gradient_with([once, Measurement(clique, once.values, SIGMA)])
    surer = gradient_with([Measurement(clique, once.values, SIGMA / np.sqrt(2))])
    np.testing.assert_allclose(twice, surer, atol=1e-4 * np.abs(surer).max())
    assert np.abs(twice - gradient_with([once])).max() > 0.1 * np.abs(surer).max()


def test_measurements_of_one_pair_meet_between_them_where_the_surer_one_is() -> None:
    """Counts of 20 and 60 copies of 100 meet at 28, with sigmas of 1 and 2."""
    even = [Measurement((name,), np.full(2, 50.0), 1.0) for name in "xy"]
    estimation = ClassEstimation({"x": 2, "y": 2}, {}, even, 20, np.random.default_rng(0))
    for held, sigma in ((20.0, 1.0), (60.0, 2.0)):
        estimation.add([Measurement(("x", "y"), np.array([[held, 100 - held], [100 - held, held]]) / 2, sigma)])
    estimation.run(300, 0.0, last=True)
    counts = estimation.model().marginal(("x", "y"))
    assert counts[0, 0] + counts[1, 1] == pytest.approx(28.0, abs=0.5)


@pytest.mark.parametrize(
    ("clique", "shape"),
    [
        (("a", "z"), (3, 2)),
        (("a", "b"), (5, 3)),
        (("a", "B"), (3, 5)),
        (("a", "b", "c"), (3, 5, 3)),
        (("b", "B"), (5, 3)),
        (("a", "b", "c", "B"), (3, 5, 4, 3)),
        ((), ()),
    ],
)
def test_a_measurement_that_fits_no_attributes_is_refused(rng, clique, shape) -> None:
    estimation = ClassEstimation(DOMAIN, COARSE, one_way(rng), 6, rng)
    with pytest.raises(ValueError, match="domain"):
        estimation.add([Measurement(clique, np.ones(shape), 1.0)])


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
    estimation = ClassEstimation(DOMAIN, COARSE, one_way(rng), 6, rng)
    before = estimation.model()
    rows = np.stack([rng.integers(0, size, 6) for size in DOMAIN.values()], axis=1)
    estimation.begin(rows)
    after = estimation.model()
    for place, (old, new) in enumerate(zip(before.tables, after.tables, strict=True)):
        odds = np.log(new / old) - np.log(new / old).min(axis=0)
        expected = np.zeros_like(odds)
        expected[rows[:, place], np.arange(6)] = NEARER
        np.testing.assert_allclose(odds, expected, atol=1e-4)
