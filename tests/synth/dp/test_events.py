"""Events: what they cost, what they refuse, and that a line of the books gives the event back."""

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from synth.dp.events import (
    Event,
    GaussianEvent,
    LaplaceEvent,
    SelectionEvent,
    StabilityEvent,
    SubsampledGaussianEvent,
    event_of,
    gaussian_tail,
)
from synth.errors import BudgetError

EXAMPLES: tuple[Event, ...] = (
    GaussianEvent("a", 12.5, 3, 4),
    GaussianEvent("b", 0.1, 0.25, whole=False),
    LaplaceEvent("c", 7.0, 2),
    SelectionEvent("d", 0.3, 14),
    StabilityEvent("e", 10.0, 55, 2, 3),
    SubsampledGaussianEvent("f", 1.1, 0.01, 1000),
)


@pytest.mark.parametrize("event", EXAMPLES, ids=lambda event: event.mechanism)
def test_a_line_of_the_books_written_and_read_gives_the_event_back(event: Event) -> None:
    record = event.record()
    noise = json.loads(json.dumps(dict(record.noise)))
    assert event_of(record.what, record.mechanism, noise, record.count) == event
    assert (record.rho, record.delta) == (event.rho, event.delta)


@pytest.mark.parametrize("value", [0, -1.0, math.inf, math.nan, "much", True, None])
@pytest.mark.parametrize(
    ("kind", "parameter"),
    [
        (GaussianEvent, "sigma"), (GaussianEvent, "sensitivity"), (LaplaceEvent, "scale"), (SelectionEvent, "epsilon"),
        (StabilityEvent, "threshold"), (SubsampledGaussianEvent, "noise_multiplier"),
        (SubsampledGaussianEvent, "sampling_rate"),
    ],
)  # fmt: skip
def test_a_parameter_that_no_mechanism_has_is_refused(kind: Any, parameter: str, value: object) -> None:
    good: dict[str, Any] = next(dict(e.record().noise) for e in EXAMPLES if isinstance(e, kind))
    with pytest.raises(BudgetError, match=f"{parameter}="):
        kind("ages", **{**good, parameter: value})


def test_a_count_a_whole_sensitivity_and_a_sampling_rate_have_their_ranges() -> None:
    for wrong in (0, 1.5, -2):
        with pytest.raises(BudgetError, match="count="):
            GaussianEvent("ages", 1.0, count=wrong)  # type: ignore[arg-type]
    with pytest.raises(BudgetError, match=r"sensitivity=0\.5"):
        GaussianEvent("ages", 1.0, sensitivity=0.5)
    with pytest.raises(BudgetError, match=r"sampling_rate=1\.2"):
        SubsampledGaussianEvent("steps", 1.0, 1.2)
    with pytest.raises(BudgetError, match="threshold=2 must be a whole number above sensitivity=2"):
        StabilityEvent("jobs", 1.0, 2, 2)


def test_an_unknown_mechanism_or_key_names_the_nearest() -> None:
    with pytest.raises(BudgetError, match="did you mean 'Gaussian'"):
        event_of("ages", "Gausian", {"sigma": 1.0}, 1)
    with pytest.raises(BudgetError, match="did you mean 'sigma'"):
        event_of("ages", "Gaussian", {"sigmma": 1.0}, 1)
    with pytest.raises(BudgetError, match="'sigma' is missing"):
        event_of("ages", "Gaussian", {}, 1)


@given(sigma=st.floats(0.5, 50), least=st.integers(-50, 300))
def test_the_tail_of_discrete_gaussian_noise_is_the_sum_of_its_mass(sigma: float, least: int) -> None:
    points = np.arange(-4000, 4001)
    mass = np.exp(-(points**2) / (2 * sigma**2))
    expected = mass[points >= least].sum() / mass.sum()
    assert gaussian_tail(np.array([least]), sigma)[0] == pytest.approx(expected, rel=1e-9, abs=1e-300)


@given(sigma=st.floats(50, 300), least=st.integers(0, 2000))
def test_the_tail_of_much_noise_is_bounded_from_above_and_closely(sigma: float, least: int) -> None:
    points = np.arange(-13_000, 13_001)
    mass = np.exp(-(points**2) / (2 * sigma**2))
    exact = mass[points >= least].sum() / mass.sum()
    bound = gaussian_tail(np.array([least]), sigma)[0]
    assert exact <= bound * (1 + 1e-9)
    # The bound is the continuous tail one below, half a step further than where the discrete one lies.
    assert bound <= exact * math.exp((abs(least) + 1) / sigma**2) * 1.02 + 1e-300


@given(rho=st.floats(1e-5, 0.5), delta=st.floats(1e-12, 1e-3), k=st.integers(1, 6))
def test_a_stability_histogram_has_the_lowest_threshold_that_its_delta_allows(rho: float, delta: float, k: int) -> None:
    event = StabilityEvent.of_rho("jobs", rho, delta, k)
    assert event.rho == pytest.approx(rho)
    assert event.delta <= delta
    if event.threshold > k + 1:
        assert StabilityEvent("jobs", event.sigma, event.threshold - 1, k).delta > delta


def test_however_a_unit_spreads_its_rows_over_values_of_its_own_the_stated_delta_covers_it() -> None:
    event = StabilityEvent("jobs", sigma=6.0, threshold=20, sensitivity=5)

    def partitions(rows: int, largest: int) -> list[list[int]]:
        if rows == 0:
            return [[]]
        return [[c, *rest] for c in range(min(rows, largest), 0, -1) for rest in partitions(rows - c, c)]

    for spread in partitions(5, 5):
        assert sum(gaussian_tail(20 - np.array(spread), 6.0)) <= event.delta
    assert event.delta < 1.1 * stats.norm.sf(14.5, scale=6.0) * 5
