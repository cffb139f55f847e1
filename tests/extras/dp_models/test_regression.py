"""A regression by DP-SGD: beside the model of a synthetic table, and its steps by finite differences."""

import numpy as np
import pytest

from evaluate.sampling import shuffle_columns
from synth.dp.mechanisms import InjectedNoise, NoNoise, Steps
from synth.dp.schedule import Schedule
from tests.evaluate.utility.conftest import population, schema_of
from tests.evaluations import stated
from understudy.extras.dp_models import regression

CLAIM = stated(epsilon=3.0, delta=1e-5, n_units=600)
GAP = regression.GAP


@pytest.fixture(scope="module")
def tables(make):
    """Their plain models are fitted once; each measurement trains a private one."""
    return make(claim=CLAIM)


@pytest.fixture(scope="module")
def estimates(tables):
    return {e.measure: e for e in regression.measure(tables).estimates}


def test_a_model_without_a_table_costs_privacy_but_not_much_of_it(estimates):
    assert estimates[GAP].floor > 0.2 and estimates[GAP].reference < 0.02
    assert estimates[GAP].low < estimates[GAP].value < estimates[GAP].high


def test_against_a_useless_table_training_directly_wins(make):
    bad = make(claim=CLAIM, synthetic=lambda train: shuffle_columns(train, np.random.default_rng(5)))
    gap = {e.measure: e for e in regression.measure(bad).estimates}[GAP]
    assert gap.value > 0.1


def _skipped(tables):
    measurement = regression.measure(tables)
    assert not measurement.estimates and {f.measure for f in measurement.failures} == {GAP}
    return {f.message for f in measurement.failures}.pop()


def test_what_cannot_be_trained_privately_is_said(make):
    assert "no privacy claim" in _skipped(make())
    assert "no target" in _skipped(make(schema_of(None), claim=CLAIM))
    assert "inferred" in _skipped(make(schema_of().model_copy(update={"status": "inferred"}), claim=CLAIM))


def test_public_features_are_of_length_one_at_most_whatever_the_values():
    frame = population(300, np.random.default_rng(0))
    X = regression.encode(regression.public_columns(schema_of()), frame.assign(x=frame["x"] * 100, group="unheard of"))
    assert np.linalg.norm(X, axis=1).max() <= 1 + 1e-6


def test_of_many_units_a_sample_is_learned_from_with_the_noise_that_all_allow(tables, estimates, monkeypatch):
    monkeypatch.setattr(regression, "MAX_UNITS", 300)
    sampled = regression.measure(tables).estimates[0]
    assert sampled.value == pytest.approx(estimates[GAP].value, abs=0.05)
    assert sampled.note.split(":")[1] == estimates[GAP].note.split(":")[1]


def _units(rng, n=60, k=3, loss="binary"):
    X = rng.random((n, 5)).astype(np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = rng.uniform(-1, 1, n) if loss == "squared" else rng.integers(0, 2 if loss == "binary" else 4, n)
    return regression.UnitRows.of(X, y.astype(float), np.unique(rng.integers(0, n // 3, n), return_inverse=True)[1], k)


def _gradient(units, unit, weights, loss):
    """The gradient of one unit, row by row and by finite differences."""
    rows = slice(units.first[unit], units.first[unit] + units.size[unit])
    X, y = units.X[rows].astype(float), units.y[rows]

    def total(flat):
        outputs = regression.predict(X, flat.reshape(weights.shape), loss)
        if loss == "squared":
            return ((outputs[:, 0] - y) ** 2).sum() / 2
        if loss == "binary":
            return -np.log(np.where(y == 1, outputs[:, 0], 1 - outputs[:, 0])).sum()
        return -np.log(outputs[np.arange(len(y)), y.astype(int)]).sum()

    step, flat = 1e-6, weights.ravel()
    slopes = [(total(flat + step * e) - total(flat - step * e)) / (2 * step) for e in np.eye(len(flat))]
    return np.array(slopes).reshape(weights.shape)


@pytest.mark.parametrize(("loss", "n_outputs"), [("binary", 1), ("softmax", 4), ("squared", 1)])
def test_the_clipped_sum_is_that_of_gradients_taken_by_finite_differences(loss, n_outputs):
    rng = np.random.default_rng(0)
    units, weights = _units(rng, loss=loss), rng.standard_normal((5, n_outputs))
    expected = np.zeros_like(weights)
    for unit in range(len(units)):
        gradient = _gradient(units, unit, weights, loss)
        expected += gradient * min(1.0, regression.MAX_GRAD_NORM / np.linalg.norm(gradient))
    assert regression.clipped_sum(units, np.arange(len(units)), weights, loss) == pytest.approx(expected, abs=1e-6)


def _largest_move(rng):
    """The largest L2 distance by which leaving one unit out moves the sum."""
    units, weights = _units(rng, loss="softmax"), 5 * rng.standard_normal((5, 4))
    everyone = regression.clipped_sum(units, np.arange(len(units)), weights, "softmax")
    moves = [
        np.linalg.norm(
            everyone - regression.clipped_sum(units, np.delete(np.arange(len(units)), unit), weights, "softmax")
        )
        for unit in range(len(units))
    ]
    return max(moves)


def test_no_unit_moves_the_sum_by_more_than_the_bound():
    assert _largest_move(np.random.default_rng(1)) <= regression.MAX_GRAD_NORM * (1 + 1e-9)


def test_without_clipping_a_unit_moves_it_by_more(monkeypatch):
    monkeypatch.setattr(regression, "clip_factors", lambda X, residuals: np.ones(len(X)))
    assert _largest_move(np.random.default_rng(1)) > 2 * regression.MAX_GRAD_NORM


def test_the_noise_is_what_the_claim_allows():
    event = regression.planned(1.0, 1e-5, 2_000, 1)
    assert 0.99 < Schedule((event,), 1e-5).epsilon <= 1.0
    assert event.count == regression.N_STEPS


def test_without_noise_it_finds_the_signal_and_with_much_it_does_not():
    rng = np.random.default_rng(2)
    X = np.c_[rng.uniform(-0.7, 0.7, 2_000), np.full(2_000, 0.7)].astype(np.float32)
    y = (rng.random(2_000) < 1 / (1 + np.exp(-6 * X[:, 0]))).astype(float)
    units, event = regression.UnitRows.of(X, y, np.arange(2_000), 1), regression.planned(1.0, 1e-5, 2_000, 1)
    quiet = regression.fit(units, "binary", 1, Steps(event, 300, NoNoise()), 2_000 * event.sampling_rate)
    assert quiet[0, 0] == pytest.approx(6, abs=0.9) and abs(quiet[1, 0]) < 0.5
    strict = regression.planned(0.01, 1e-5, 2_000, 1)
    lost = regression.fit(units, "binary", 1, Steps(strict, 300, InjectedNoise(rng)), 2_000 * strict.sampling_rate)
    assert np.linalg.norm(lost - quiet) > 5
