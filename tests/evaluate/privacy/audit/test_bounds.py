"""Bounds of one run: the theorem's p-value by another road, its promise under randomized response, known numbers."""

import itertools
import math

import numpy as np
import pytest
from scipy import optimize

from evaluate.privacy.audit.bounds import MOST_EPSILON, best_of_run, gaussian_epsilon, one_run_epsilon, one_run_p_value


def by_hand(epsilon: float, delta: float, sizes: tuple[int, int, int]) -> float:
    """Theorem 5.2 term by term, each probability from a table of all outcomes."""
    m, r, v = sizes
    q = 1 / (1 + math.exp(-epsilon))
    mass = [math.comb(r, w) * q**w * (1 - q) ** (r - w) for w in range(r + 1)]
    beta = sum(mass[v:])
    alpha = max((sum(mass[max(v - i, 0) : v]) / i for i in range(1, m + 1)), default=0.0)
    return min(1.0, beta + 2 * m * delta * alpha)


@pytest.mark.parametrize("epsilon", [0.0, 0.7, 3.0])
@pytest.mark.parametrize("delta", [0.0, 1e-5, 0.01])
def test_the_p_value_is_that_of_the_theorem(epsilon: float, delta: float) -> None:
    for m, r in itertools.product((1, 5, 20), (1, 4, 17)):
        for v in range(r + 1):
            if r <= m:
                expected = by_hand(epsilon, delta, (m, r, v))
                assert one_run_p_value(epsilon, delta, m, r, v) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("epsilon", [0.0, 1.0, 3.0])
def test_randomized_response_exceeds_its_epsilon_no_more_often_than_stated(epsilon: float) -> None:
    # It is the mechanism for which the theorem is tight: of 2,000 runs a twentieth at most may be above, but for four
    # standard errors; and not many fewer, or the bound gives something away.
    rng, n_runs, m = np.random.default_rng(5), 2_000, 400
    right = rng.binomial(m, 1 / (1 + math.exp(-epsilon)), n_runs)
    bounds = {v: one_run_epsilon(0.0, m, m, int(v), 0.95) for v in np.unique(right)}
    above = np.mean([bounds[v] > epsilon for v in right])
    assert above <= 0.05 + 4 * math.sqrt(0.05 * 0.95 / n_runs)
    assert above >= 0.015


def test_a_bound_is_the_last_epsilon_that_is_ruled_out() -> None:
    for v in (60, 75, 99, 100):
        result = one_run_epsilon(1e-4, 1_000, 100, v, 0.95)
        if result > 0:
            assert one_run_p_value(result, 1e-4, 1_000, 100, v) < 0.05
            assert one_run_p_value(result + 1e-3, 1e-4, 1_000, 100, v) >= 0.05
    assert one_run_epsilon(0.0, 100, 100, 50, 0.95) == 0.0
    assert one_run_epsilon(0.0, 10**6, 10**6, 10**6, 0.95) < MOST_EPSILON
    # A delta that explains all there is leaves nothing to be said.
    assert one_run_epsilon(0.1, 1_000, 100, 100, 0.95) == 0.0


@pytest.mark.parametrize(("epsilon", "known"), [(1.0, 0.27), (2.0, 0.69), (4.0, 1.58), (8.0, 2.89)])
def test_two_thousand_canaries_give_about_what_is_known_of_gaussian_noise(epsilon: float, known: float) -> None:
    rng, delta, m = np.random.default_rng(7), 1e-6, 2_000
    mu = optimize.brentq(lambda x: gaussian_epsilon(x, delta) - epsilon, 1e-3, 10)
    result = []
    for _ in range(12):
        present = rng.random(m) < 0.5
        result.append(best_of_run(rng.normal(size=m) + mu * present, present, delta, 0.95))
    # Four standard errors of a mean of twelve, and what another choice of the number of guesses may change.
    assert np.mean(result) == pytest.approx(known, abs=0.15 + 4 * float(np.std(result)) / math.sqrt(12))
    assert max(result) < epsilon


def test_scores_that_say_nothing_prove_nothing() -> None:
    rng = np.random.default_rng(3)
    present = rng.random(2_000) < 0.5
    assert best_of_run(rng.normal(size=2_000), present, 1e-6, 0.999) == 0.0
    assert best_of_run(present * 1.0, present, 1e-6, 0.99) > 3.0
