"""Estimation from noisy marginals: losses, measurements and projections."""

import itertools
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synth.marginals.estimation import MarginalLoss, estimate
from synth.marginals.factor import Clique, Factor, axes_beside, broadcast_shape
from synth.marginals.inference import Projections, place, propagate
from synth.marginals.markov_random_field import MarkovRandomField
from synth.marginals.measurement import Measurement, estimate_total, merge

DOMAIN = {"a": 2, "b": 3, "c": 4, "d": 2, "e": 3}
SHARE_OF_TOTAL = 1e-3


def loss_of(model, measurements) -> float:
    merged = [measurement for measurement in merge(measurements, DOMAIN) if measurement.clique]
    return MarginalLoss(model.tree, merged, model.total)(model.beliefs).loss


def noisy(joint, projected, cliques, sigma, rng):
    tables = [projected(joint, DOMAIN, clique) for clique in cliques]
    return [
        Measurement(clique, table + rng.normal(0, sigma, table.shape), sigma)
        for clique, table in zip(cliques, tables, strict=True)
    ]


def test_exact_measurements_are_recovered_within_a_thousandth_of_the_total(cliques, random_joint, projected) -> None:
    measurements = [Measurement(clique, projected(random_joint, DOMAIN, clique), 1.0) for clique in cliques]
    model = estimate(DOMAIN, measurements, total=1000.0)
    for measurement in measurements:
        difference = np.abs(model.marginal(measurement.clique) - measurement.values).sum()
        assert difference < SHARE_OF_TOTAL * model.total, measurement.clique


def test_what_is_not_measured_is_as_random_as_it_can_be(random_joint, projected) -> None:
    measurements = [
        Measurement(clique, projected(random_joint, DOMAIN, clique), 1.0) for clique in [("a", "b"), ("c",)]
    ]
    model = estimate(DOMAIN, measurements, total=1000.0)
    independent = np.multiply.outer(model.marginal(("a", "b")), model.marginal(("c",))) / 1000
    np.testing.assert_allclose(model.marginal(("a", "b", "c")), independent, atol=1e-9)
    np.testing.assert_allclose(model.marginal(("d", "e")), 1000 / 6)


def test_nothing_measured_is_uniform() -> None:
    model = estimate(DOMAIN, [], total=144.0)
    np.testing.assert_allclose(model.marginal(tuple(DOMAIN)), 1.0)


def test_an_empty_clique_measures_the_number_of_rows() -> None:
    assert estimate(DOMAIN, [Measurement((), 250.0, 3.0)]).total == pytest.approx(250)


def test_an_empty_domain_is_estimated_too() -> None:
    assert estimate({}, [Measurement((), 7.0, 1.0)]).marginal(()) == 7.0


def test_the_order_of_the_attributes_in_a_clique_does_not_matter(random_joint, projected) -> None:
    forward = [Measurement(("a", "c"), projected(random_joint, DOMAIN, ("a", "c")), 2.0)]
    backward = [Measurement(("c", "a"), projected(random_joint, DOMAIN, ("c", "a")), 2.0)]
    one, other = estimate(DOMAIN, forward), estimate(DOMAIN, backward)
    np.testing.assert_allclose(one.marginal(("a", "c")), other.marginal(("a", "c")))


def test_a_clique_measured_cell_by_cell_has_the_closed_form_of_a_weighted_projection(rng) -> None:
    """With the total fixed and all counts positive, each cell moves in proportion to its variance."""
    sigma = rng.uniform(1, 5, size=(3, 4))
    values = rng.uniform(60, 120, size=(3, 4))
    model = estimate(DOMAIN, [Measurement(("b", "c"), values, sigma)], total=1000.0, n_iterations=5000, tolerance=0)
    surplus = values.sum() - 1000
    closed_form = values - surplus * sigma**2 / (sigma**2).sum()
    np.testing.assert_allclose(model.marginal(("b", "c")), closed_form, atol=1e-3)


def test_nested_measurements_agree_with_generalized_least_squares(rng) -> None:
    values, line = rng.uniform(60, 120, size=(3, 4)), rng.uniform(300, 350, size=3)
    measurements = [Measurement(("b", "c"), values, 4.0), Measurement(("b",), line, 1.0)]
    model = estimate(DOMAIN, measurements, total=1000.0, n_iterations=5000, tolerance=0)
    design = np.vstack([np.eye(12) / 4, np.kron(np.eye(3), np.ones(4))])
    target = np.concatenate([values.ravel() / 4, line])
    normal = np.block([[design.T @ design, np.ones((12, 1))], [np.ones((1, 12)), np.zeros((1, 1))]])
    closed_form = np.linalg.solve(normal, np.append(design.T @ target, 1000.0))[:12].reshape(3, 4)
    np.testing.assert_allclose(model.marginal(("b", "c")), closed_form, atol=1e-3)


@pytest.mark.parametrize("sigma", [3.0, 30.0])
def test_no_distribution_fits_noisy_measurements_better(
    cliques, random_joint, projected, brute_force, rng, sigma
) -> None:
    """The loss is convex in the joint, so its linear model there bounds what any other joint could gain.

    The best that one can do by the linear model is to put all rows into the joint cell with the lowest gradient.
    """
    measurements = noisy(random_joint, projected, cliques, sigma, rng)
    model = estimate(DOMAIN, measurements, total=1000.0, n_iterations=20_000, tolerance=0)
    merged = [measurement for measurement in merge(measurements, DOMAIN) if measurement.clique]
    gradients = MarginalLoss(model.tree, merged, 1000.0)(model.beliefs).gradients
    names = tuple(DOMAIN)
    slope = sum(
        (Factor(m.clique, gradient).aligned(names) for m, gradient in zip(merged, gradients, strict=True)),
        np.zeros(tuple(DOMAIN.values())),
    )
    could_gain = 1000 * float((brute_force(model) * slope).sum() - slope.min())
    assert could_gain <= 0.01 * max(loss_of(model, measurements), 1.0)


def test_two_hundred_steps_come_within_a_percent_of_the_optimum(random_joint, projected, rng) -> None:
    """Plain steps need some ten times as many where sigmas differ as they do here."""
    measurements = [
        measurement
        for sigma, clique in [
            (2.0, ("a", "b")), (10.0, ("b", "c")), (30.0, ("c", "d")), (5.0, ("d", "e")), (1.0, ("e",)),
        ]
        for measurement in noisy(random_joint, projected, [clique], sigma, rng)
    ]  # fmt: skip
    soon = estimate(DOMAIN, measurements, total=1000.0, n_iterations=200, tolerance=0)
    late = estimate(DOMAIN, measurements, total=1000.0, n_iterations=5000, tolerance=0)
    assert loss_of(soon, measurements) <= 1.01 * loss_of(late, measurements)


def test_codes_held_at_zero_by_a_tiny_sigma_stay_near_zero(random_joint, projected, rng) -> None:
    """A sigma ten thousand times smaller than the rest neither stalls the descent nor breaks it."""
    table = projected(random_joint, DOMAIN, ("c",)).copy()
    sigma = np.full(4, 20.0)
    table[3], sigma[3] = 0.0, 0.002
    measurements = [Measurement(("c",), table, sigma), *noisy(random_joint, projected, [("b", "c")], 20.0, rng)]
    model = estimate(DOMAIN, measurements, total=1000.0)
    assert model.marginal(("c",))[3] < 0.01
    np.testing.assert_allclose(model.marginal(("c",))[:3] / 1000, table[:3] / table.sum(), atol=0.05)


def test_noise_leaves_no_negative_count_and_the_total_is_kept(random_joint, projected, rng) -> None:
    measurements = noisy(random_joint, projected, [("a", "b", "c"), ("c", "d"), ("d", "e")], 40.0, rng)
    model = estimate(DOMAIN, measurements, total=1000.0)
    table = model.marginal(("a", "b", "c"))
    assert (table >= 0).all()
    assert table.sum() == pytest.approx(1000)


def test_the_loss_goes_down_with_every_further_iteration(cliques, random_joint, projected, rng) -> None:
    measurements = noisy(random_joint, projected, cliques, 10.0, rng)
    losses = [
        loss_of(estimate(DOMAIN, measurements, total=1000.0, n_iterations=n), measurements) for n in (0, 1, 5, 25)
    ]
    assert all(later <= earlier for earlier, later in pairwise(losses))


def test_a_warm_start_reaches_the_same_optimum_in_fewer_iterations(random_joint, projected, rng) -> None:
    """One more clique closes a loop, so that the tree changes and every potential needs a new home."""
    first = noisy(random_joint, projected, [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e")], 3.0, rng)
    further = [*first, *noisy(random_joint, projected, [("a", "d")], 3.0, rng)]
    earlier = estimate(DOMAIN, first, total=1000.0)
    counts = {"cold": 0, "warm": 0}

    def counted(name):
        return lambda label, share: counts.__setitem__(name, counts[name] + 1)

    cold = estimate(DOMAIN, further, total=1000.0, n_iterations=5000, progress=counted("cold"))
    warm = estimate(DOMAIN, further, total=1000.0, n_iterations=5000, progress=counted("warm"), warm_start=earlier)
    assert counts["warm"] < counts["cold"]
    assert loss_of(warm, further) == pytest.approx(loss_of(cold, further), rel=1e-2)
    for clique in [measurement.clique for measurement in further]:
        assert np.abs(warm.marginal(clique) - cold.marginal(clique)).sum() < 0.01 * 1000


def test_a_warm_start_alone_is_kept_as_it_is(random_model) -> None:
    model = random_model([("a", "b"), ("b", "c"), ("e",)])
    again = estimate(
        DOMAIN, [Measurement(("a", "b"), np.zeros(6), 1.0)], n_iterations=0, total=1000.0, warm_start=model
    )
    for clique in [("a", "b"), ("b", "c"), ("a", "c"), ("e",)]:
        np.testing.assert_allclose(again.marginal(clique), model.marginal(clique))


def test_a_warm_start_with_a_clique_twice_and_out_of_order_is_kept_too(rng) -> None:
    twice = [Factor(("a", "b"), rng.normal(size=(2, 3))) for _ in range(2)]
    start = MarkovRandomField(DOMAIN, [*twice, Factor(("b", "a"), rng.normal(size=(3, 2)))], total=1000.0)
    again = estimate(
        DOMAIN, [Measurement(("a", "b"), np.zeros(6), 1.0)], n_iterations=0, total=1000.0, warm_start=start
    )
    np.testing.assert_allclose(again.marginal(("a", "b")), start.marginal(("a", "b")))


def test_a_warm_start_of_another_domain_is_refused(random_model) -> None:
    with pytest.raises(ValueError, match="warm start"):
        estimate({"a": 2}, [], warm_start=random_model([]))


def test_structural_zeros_of_a_warm_start_stay_empty(random_joint, projected, rng) -> None:
    shut = np.zeros((2, 3))
    shut[0, 1] = -np.inf
    start = MarkovRandomField(DOMAIN, [Factor(("a", "b"), shut)], total=1000.0)
    measurements = noisy(random_joint, projected, [("a", "b"), ("b", "c")], 5.0, rng)
    model = estimate(DOMAIN, measurements, total=1000.0, warm_start=start)
    assert model.marginal(("a", "b"))[0, 1] == 0
    assert (np.delete(model.marginal(("a", "b")).ravel(), 1) > 0).all()


def test_progress_rises_to_the_end() -> None:
    shares: list[float | None] = []
    estimate(
        DOMAIN,
        [Measurement(("a",), [3.0, 900.0], 1.0)],
        n_iterations=3,
        progress=lambda label, share: shares.append(share),
    )
    assert shares == pytest.approx([1 / 3, 2 / 3, 1.0])


def measured(cliques, rng):
    """One measurement a clique; every other one with a sigma for each cell."""
    shapes = [[DOMAIN[name] for name in clique] for clique in cliques]
    sigmas = [rng.uniform(1, 9, shape) if index % 2 else 4.0 for index, shape in enumerate(shapes)]
    tables = [rng.normal(50, 40, shape) for shape in shapes]
    return [m for m in merge(map(Measurement, cliques, tables, sigmas), DOMAIN) if m.clique]


def test_the_loss_is_half_the_sum_of_squared_standardized_residuals(cliques, random_model, rng) -> None:
    model, measurements = random_model(cliques), measured(cliques, rng)
    fit = MarginalLoss(model.tree, measurements, 1000.0)(model.beliefs)
    residuals = [(model.marginal(m.clique) - m.values) / m.sigma for m in measurements]
    assert fit.loss == pytest.approx(sum((residual**2).sum() for residual in residuals) / 2)


def test_the_gradient_by_the_counts_is_that_of_small_differences(cliques, random_model, rng) -> None:
    """Along the change that moving one potential makes, the loss changes by gradient times the change of counts."""
    model, measurements = random_model(cliques), measured(cliques, rng)
    loss = MarginalLoss(model.tree, measurements, 1000.0)
    fit = loss(model.beliefs)
    for measurement in measurements:
        direction = Factor(measurement.clique, rng.normal(size=measurement.values.shape) * 1e-5)
        ahead, behind = (
            loss(propagate(model.tree, place(model.tree, [*model.potentials, Factor(direction.attributes, step)])))
            for step in (direction.log_values, -direction.log_values)
        )
        changes = zip(fit.gradients, ahead.marginals, behind.marginals, strict=True)
        predicted = sum(np.vdot(gradient, after - before) for gradient, after, before in changes)
        assert ahead.loss - behind.loss == pytest.approx(predicted, rel=1e-4, abs=1e-6)


def test_the_gradient_is_zero_where_the_measurements_are_met(cliques, random_model) -> None:
    model = random_model(cliques)
    exact = [Measurement(clique, model.marginal(clique), 2.0) for clique in cliques if clique]
    fit = MarginalLoss(model.tree, merge(exact, DOMAIN), 1000.0)(model.beliefs)
    assert fit.loss == pytest.approx(0, abs=1e-12)
    assert all(np.abs(gradient).max() < 1e-9 for gradient in fit.gradients)


PAIR_DOMAIN = {"a": 2, "b": 3}


def test_repeated_measurements_average_by_inverse_variance(rng: np.random.Generator) -> None:
    first, second = rng.normal(size=(2, 3)), rng.normal(size=(2, 3))
    (merged,) = merge([Measurement(("a", "b"), first, 1.0), Measurement(("b", "a"), second.T, 2.0)], PAIR_DOMAIN)
    np.testing.assert_allclose(merged.values, (first + second / 4) / (1 + 1 / 4))
    np.testing.assert_allclose(merged.sigma, np.sqrt(1 / (1 + 1 / 4)))


def test_repeated_measurements_average_cell_by_cell_where_sigmas_differ_by_cell(rng: np.random.Generator) -> None:
    values, sigmas = rng.normal(size=(3, 2, 3)), rng.uniform(0.5, 3, size=(2, 2, 3))
    (merged,) = merge(
        [
            Measurement(("a", "b"), values[0], sigmas[0]),
            Measurement(("a", "b"), values[1].ravel(), sigmas[1].ravel()),
            Measurement(("a", "b"), values[2], 1.5),
        ],
        PAIR_DOMAIN,
    )
    precisions = np.stack([sigmas[0] ** -2, sigmas[1] ** -2, np.full((2, 3), 1.5**-2)])
    np.testing.assert_allclose(merged.values, (values * precisions).sum(axis=0) / precisions.sum(axis=0))
    np.testing.assert_allclose(merged.sigma, precisions.sum(axis=0) ** -0.5)


def test_flat_values_mean_the_same_as_shaped_ones() -> None:
    values = np.arange(6.0).reshape(3, 2)
    flat, shaped = Measurement(("b", "a"), values.ravel(), 1.0), Measurement(("b", "a"), values, 1.0)
    np.testing.assert_array_equal(flat.ordered(PAIR_DOMAIN).values, values.T)
    np.testing.assert_array_equal(shaped.ordered(PAIR_DOMAIN).values, values.T)


def test_the_total_weighs_each_sum_by_its_variance() -> None:
    narrow, wide = Measurement(("a",), [60.0, 50.0], 1.0), Measurement(("a", "b"), np.full(6, 20.0), 3.0)
    assert estimate_total([narrow, wide]) == pytest.approx((110 / 2 + 120 / 54) / (1 / 2 + 1 / 54))


def test_the_total_is_at_least_one() -> None:
    assert estimate_total([Measurement(("a",), [-60.0, 5.0], 10.0)]) == 1.0
    assert estimate_total([]) == 1.0


def test_inputs_are_not_changed() -> None:
    values = np.array([1.0, 2.0])
    merge([Measurement(("a",), values, 1.0), Measurement(("a",), values, 1.0)], PAIR_DOMAIN)
    np.testing.assert_array_equal(values, [1.0, 2.0])


@pytest.mark.parametrize(
    ("clique", "values", "sigma"),
    [
        (("a", "a"), np.zeros((2, 2)), 1.0),
        (("a",), [0.0, np.nan], 1.0),
        (("a",), [0.0, 1.0], 0.0),
        (("a",), [0.0, 1.0], -1.0),
        (("a",), [0.0, 1.0], np.inf),
        (("a",), [0.0, 1.0], [1.0, 1.0, 1.0]),
    ],
)
def test_a_measurement_that_cannot_be_is_refused(clique, values, sigma) -> None:
    with pytest.raises(ValueError, match="clique="):
        Measurement(clique, values, sigma)


@pytest.mark.parametrize(("clique", "n_cells"), [(("a",), 3), (("z",), 2), (("a", "b"), 5)])
def test_a_measurement_that_does_not_fit_the_domain_is_refused(clique, n_cells) -> None:
    with pytest.raises(ValueError, match="domain"):
        merge([Measurement(clique, np.zeros(n_cells), 1.0)], PAIR_DOMAIN)


def test_a_transposed_table_is_refused_where_its_shape_shows_it() -> None:
    with pytest.raises(ValueError, match="fit the domain"):
        merge([Measurement(("a", "b"), np.zeros((3, 2)), 1.0)], PAIR_DOMAIN)


HELD = tuple(DOMAIN)
SUBSETS: list[Clique] = [clique for size in range(6) for clique in itertools.combinations(HELD, size)]


@given(st.lists(st.sampled_from(SUBSETS), unique=True, max_size=12))
def test_every_marginal_is_the_one_summed_at_once(cliques: list[Clique]) -> None:
    table = np.random.default_rng(0).normal(size=tuple(DOMAIN.values()))
    projections = Projections.of(DOMAIN, HELD, cliques)
    tables = projections.down(table)
    assert projections.index.keys() == set(cliques)
    for clique in cliques:
        np.testing.assert_allclose(tables[projections.index[clique]], table.sum(axis=axes_beside(HELD, clique)))


@given(st.lists(st.sampled_from(SUBSETS), unique=True, max_size=12))
def test_on_the_way_back_every_part_is_spread_over_the_table(cliques: list[Clique]) -> None:
    rng = np.random.default_rng(1)
    parts = {clique: np.asarray(rng.normal(size=[DOMAIN[name] for name in clique])) for clique in cliques}
    spread = np.zeros(tuple(DOMAIN.values()))
    for clique, part in parts.items():
        spread = spread + part.reshape(broadcast_shape(clique, part.shape, HELD))
    found = Projections.of(DOMAIN, HELD, cliques).up(parts)
    np.testing.assert_allclose(np.broadcast_to(found, spread.shape), spread)


def test_the_table_is_read_a_few_times_however_many_marginals_there_are() -> None:
    pairs = list(itertools.combinations(HELD, 2))
    projections = Projections.of(DOMAIN, HELD, [*pairs, *((name,) for name in HELD)])
    assert sum(projection.source == 0 for projection in projections.projections) < len(HELD)
