"""Estimation from noisy marginals: losses, measurements and projections."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synth.marginals.estimation import MarginalLoss, estimate
from synth.marginals.factor import Clique, Factor, Measurement, axes_beside, broadcast_shape, estimate_total, merge
from synth.marginals.inference import Projections, place, propagate

DOMAIN = {"a": 2, "b": 3, "c": 4, "d": 2, "e": 3}


def loss_of(model, measurements) -> float:
    merged = [measurement for measurement in merge(measurements, DOMAIN) if measurement.clique]
    return MarginalLoss(model.tree, merged, model.total)(model.beliefs).loss


def noisy(joint, projected, cliques, sigma, rng):
    tables = [projected(joint, DOMAIN, clique) for clique in cliques]
    return [
        Measurement(clique, table + rng.normal(0, sigma, table.shape), sigma)
        for clique, table in zip(cliques, tables, strict=True)
    ]


def test_what_is_not_measured_is_as_random_as_it_can_be(random_joint, projected) -> None:
    measurements = [
        Measurement(clique, projected(random_joint, DOMAIN, clique), 1.0) for clique in [("a", "b"), ("c",)]
    ]
    model = estimate(DOMAIN, measurements, total=1000.0)
    independent = np.multiply.outer(model.marginal(("a", "b")), model.marginal(("c",))) / 1000
    np.testing.assert_allclose(model.marginal(("a", "b", "c")), independent, atol=1e-9)
    np.testing.assert_allclose(model.marginal(("d", "e")), 1000 / 6)


def test_an_empty_clique_measures_the_number_of_rows() -> None:
    assert estimate(DOMAIN, [Measurement((), 250.0, 3.0)]).total == pytest.approx(250)


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


def test_codes_held_at_zero_by_a_tiny_sigma_stay_near_zero(random_joint, projected, rng) -> None:
    """A sigma ten thousand times smaller than the rest neither stalls the descent nor breaks it."""
    table = projected(random_joint, DOMAIN, ("c",)).copy()
    sigma = np.full(4, 20.0)
    table[3], sigma[3] = 0.0, 0.002
    measurements = [Measurement(("c",), table, sigma), *noisy(random_joint, projected, [("b", "c")], 20.0, rng)]
    model = estimate(DOMAIN, measurements, total=1000.0)
    assert model.marginal(("c",))[3] < 0.01
    np.testing.assert_allclose(model.marginal(("c",))[:3] / 1000, table[:3] / table.sum(), atol=0.05)


def test_a_warm_start_reaches_the_same_optimum_in_fewer_iterations(random_joint, projected, rng, monkeypatch) -> None:
    """One more clique closes a loop, so that the tree changes and every potential needs a new home."""
    first = noisy(random_joint, projected, [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e")], 3.0, rng)
    further = [*first, *noisy(random_joint, projected, [("a", "d")], 3.0, rng)]
    earlier = estimate(DOMAIN, first, total=1000.0)
    calls = list[object]()
    monkeypatch.setattr("synth.marginals.estimation.propagate", lambda *at: calls.append(at) or propagate(*at))
    cold = estimate(DOMAIN, further, total=1000.0, n_iterations=5000)
    n_cold = len(calls)
    warm = estimate(DOMAIN, further, total=1000.0, n_iterations=5000, warm_start=earlier)
    assert len(calls) - n_cold < n_cold
    assert loss_of(warm, further) == pytest.approx(loss_of(cold, further), rel=1e-2)
    for clique in [measurement.clique for measurement in further]:
        assert np.abs(warm.marginal(clique) - cold.marginal(clique)).sum() < 0.01 * 1000


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


PAIR_DOMAIN = {"a": 2, "b": 3}


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


def test_the_total_weighs_each_sum_by_its_variance() -> None:
    narrow, wide = Measurement(("a",), [60.0, 50.0], 1.0), Measurement(("a", "b"), np.full(6, 20.0), 3.0)
    assert estimate_total([narrow, wide]) == pytest.approx((110 / 2 + 120 / 54) / (1 / 2 + 1 / 54))


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
    result = Projections.of(DOMAIN, HELD, cliques).up(parts)
    np.testing.assert_allclose(np.broadcast_to(result, spread.shape), spread)
