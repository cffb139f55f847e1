import numpy as np
import pytest

from synth.marginals.estimation import MarginalLoss
from synth.marginals.factor import Factor
from synth.marginals.inference import place, propagate
from synth.marginals.measurement import Measurement, merge

DOMAIN = {"a": 2, "b": 3, "c": 4, "d": 2, "e": 3}


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
