"""The books: closed forms, an independent accountant, and calibration that inverts accounting."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from synth.dp.accounting import epsilon_pld, epsilon_rdp, selection_delta
from synth.dp.calibration import calibrate, resolve_delta
from synth.dp.events import GaussianEvent, SelectionEvent, gaussian_of_rho
from synth.errors import BudgetError
from synth.schema import build_schema


def analytic_gaussian_epsilon(noise_multiplier: float, delta: float) -> float:
    """Balle & Wang 2018, Theorem 8, solved for epsilon."""

    def excess(epsilon: float) -> float:
        a, b = 1 / (2 * noise_multiplier), epsilon * noise_multiplier
        return float(stats.norm.cdf(a - b) - math.exp(epsilon) * stats.norm.cdf(-a - b) - delta)

    return float(optimize.brentq(excess, 0, 100))


@pytest.mark.parametrize("sigma", [5.0, 20.0, 80.0])
@pytest.mark.parametrize("count", [1, 9, 40])
def test_gaussian_releases_cost_what_the_analytic_formula_says(sigma: float, count: int) -> None:
    events = [GaussianEvent("counts", sigma, count=count)]
    expected = analytic_gaussian_epsilon(sigma / math.sqrt(count), 1e-6)
    # The discrete Gaussian differs from the continuous one below one part in a thousand at these sigmas.
    assert epsilon_pld(events, 1e-6) == pytest.approx(expected, rel=5e-3)


def test_a_sensitivity_of_k_needs_k_times_the_noise() -> None:
    one, five = GaussianEvent("a", 20.0), GaussianEvent("a", 100.0, sensitivity=5)
    assert epsilon_pld([five], 1e-6) == pytest.approx(epsilon_pld([one], 1e-6), rel=1e-3)


def test_one_selection_costs_its_epsilon_at_delta_zero_and_less_at_a_larger_delta() -> None:
    event = SelectionEvent("pairs", epsilon=0.8)
    assert epsilon_pld([event], 1e-12) == pytest.approx(0.8, abs=1e-3)
    x = 0.5
    delta = (1 - math.exp((x - 0.8) / 2)) ** 2 / (1 - math.exp(-0.8))
    assert epsilon_pld([event], delta) == pytest.approx(x, abs=1e-3)


def test_the_selection_curve_bounds_two_outcomes_of_a_real_exponential_mechanism() -> None:
    # Any exponential mechanism with bounded range epsilon stays below the curve: random scores, random moves.
    rng = np.random.default_rng(0)
    epsilon, grid = 1.0, np.linspace(-1.5, 1.5, 61)
    for _ in range(200):
        scores = rng.normal(0, 3, 6)
        moved = scores + rng.uniform(-1, 1, 6)
        p, q = (np.exp(epsilon / 2 * s) / np.exp(epsilon / 2 * s).sum() for s in (scores, moved))
        actual = np.maximum(p[:, None] - np.exp(grid) * q[:, None], 0).sum(axis=0)
        assert (actual <= selection_delta(grid, epsilon) + 1e-12).all()


@given(
    sigmas=st.lists(st.floats(3, 100), min_size=0, max_size=3),
    choices=st.lists(st.floats(0.01, 1.0), min_size=0, max_size=3),
    count=st.integers(1, 8),
)
@settings(max_examples=15, deadline=None)
def test_the_claim_never_exceeds_the_check(sigmas: list[float], choices: list[float], count: int) -> None:
    events = [GaussianEvent("a", s, count=count) for s in sigmas] + [SelectionEvent("b", e, count) for e in choices]
    assert epsilon_pld(events, 1e-6) <= epsilon_rdp(events, 1e-6) * 1.001 + 1e-9


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0, 10.0])
def test_calibration_inverts_accounting_from_below(epsilon: float) -> None:
    def plan(rho: float) -> list[GaussianEvent | SelectionEvent]:
        return [
            gaussian_of_rho("columns", rho / 3, count=15, sensitivity=1),
            SelectionEvent.of_rho("pairs", rho / 3, 14),
            gaussian_of_rho("pairs", rho / 3, count=14, sensitivity=1),
        ]

    spent = calibrate(plan, epsilon, 1e-6).epsilon
    assert epsilon * 0.999 <= spent <= epsilon


@pytest.mark.parametrize("epsilon", [0.0, -1.0, 1e9, math.inf, math.nan])
def test_an_epsilon_that_cannot_be_met_is_refused(epsilon: float) -> None:
    with pytest.raises(BudgetError, match="epsilon="):
        calibrate(lambda rho: [gaussian_of_rho("a", rho, count=1, sensitivity=1)], epsilon, 1e-6)


def test_delta_auto_follows_the_number_of_units_and_a_careless_delta_is_refused() -> None:
    def schema(n_units: int | None, status: str = "declared"):  # type: ignore[no-untyped-def]
        return build_schema({"status": status, "n_units": n_units, "columns": {"a": {"kind": "boolean"}}})

    assert resolve_delta("auto", schema(1000)) == 1e-6
    assert resolve_delta("auto", schema(10**6)) == pytest.approx(10**-7.2)
    for delta in (0.0, -1e-9, 1e-3, 1.0):
        with pytest.raises(BudgetError, match="delta="):
            resolve_delta(delta, schema(1000))
    with pytest.raises(BudgetError, match="n_units"):
        resolve_delta("auto", schema(None))
    with pytest.raises(BudgetError, match="declare"):
        resolve_delta("auto", schema(1000, "inferred"))
