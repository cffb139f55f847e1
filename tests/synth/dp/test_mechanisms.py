"""Noise is what the books say: chi-square and moment tests that halved noise would fail."""

import random

import numpy as np
import pytest
from scipy import stats

from synth.dp.budget import Budget
from synth.dp.events import GaussianEvent, SelectionEvent
from synth.dp.mechanisms import InjectedNoise, SystemNoise
from synth.dp.schedule import Schedule
from synth.errors import BudgetError


def sources() -> list[object]:
    return [SystemNoise(), InjectedNoise(np.random.default_rng(0))]


@pytest.mark.parametrize("noise", sources())
@pytest.mark.parametrize("sigma", [3.0, 40.0])
def test_gaussian_noise_has_the_stated_scale(noise: SystemNoise, sigma: float) -> None:
    event = GaussianEvent("counts", sigma)
    drawn = Budget(Schedule((event,), 1e-6), noise).release(np.zeros(10_000, dtype=np.int64), event)
    # (n-1) s^2 / sigma^2 is chi-square: 1e-6 tails catch a scale that is off by 7%, and are hit once in 500,000 runs.
    low, high = stats.chi2(9_999).ppf([1e-6, 1 - 1e-6])
    assert low < np.var(drawn, ddof=1) * 9_999 / sigma**2 < high
    assert abs(drawn.mean()) < 5 * sigma / 100
    assert drawn.dtype == np.int64


def test_system_noise_takes_no_seed() -> None:
    drawn = []
    for _ in range(2):
        np.random.seed(0)  # noqa: NPY002 - noise that listened to it would come out twice the same
        random.seed(0)
        drawn.append(SystemNoise().gaussian(np.zeros(50, dtype=np.int64), 40.0))
    assert (drawn[0] != drawn[1]).any()


@pytest.mark.parametrize("noise", sources())
def test_choices_follow_the_exponential_mechanism(noise: SystemNoise) -> None:
    scores, event, n = np.array([0.0, 1.0, 3.0]), SelectionEvent("pairs", epsilon=1.0, count=3000), 3000
    budget = Budget(Schedule((event,), 1e-6), noise)
    chosen = np.bincount([budget.choose(scores, 1.0, event) for _ in range(n)], minlength=3)
    expected = np.exp(0.5 * scores) / np.exp(0.5 * scores).sum()
    assert stats.chisquare(chosen, n * expected).pvalue > 1e-6
    # The mechanism at twice the epsilon would not pass for it.
    doubled = np.exp(scores) / np.exp(scores).sum()
    assert stats.chisquare(chosen, n * doubled).pvalue < 1e-6


def test_what_is_not_planned_or_spent_is_not_drawn() -> None:
    event = GaussianEvent("ages", sigma=5.0, count=2)
    budget = Budget(Schedule((event,), 1e-6))
    budget.release(np.zeros(3, dtype=np.int64), event)
    budget.release(np.zeros(3, dtype=np.int64), event)
    with pytest.raises(BudgetError, match="no further release"):
        budget.release(np.zeros(3, dtype=np.int64), event)
    with pytest.raises(BudgetError, match="no further release"):
        budget.release(np.zeros(3, dtype=np.int64), GaussianEvent("ages", sigma=4.0))
