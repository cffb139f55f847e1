"""What steps allow: exact where there is a closed form, kept by the claim's own noise, and broken by half of it."""

import math

import numpy as np
import pytest
from scipy import stats

from evaluate.intervals import clopper_pearson
from evaluate.privacy.audit.bounds import allows, epsilon_of_less, epsilon_of_steps, gaussian_epsilon, largest_factor
from synth.dp.events import GaussianEvent, SubsampledGaussianEvent
from synth.dp.schedule import Schedule

DELTA, N = 1e-6, 20_000


def steps(noise_multiplier: float, sampling_rate: float = 1.0, count: int = 1) -> SubsampledGaussianEvent:
    return SubsampledGaussianEvent("steps", noise_multiplier, sampling_rate, count)


def rates_of(
    event: SubsampledGaussianEvent, rng: np.random.Generator, *, factor: float = 1.0, level: float = 0.99
) -> tuple[float, float]:
    """Upper ends of an attacker's error rates, drawn from the mechanism itself without any training."""
    present = rng.random(N) < 0.5
    hits = np.where(present, rng.binomial(event.count, event.sampling_rate, N), 0)
    spread = event.noise_multiplier * factor * math.sqrt(event.count)
    clause = hits + rng.normal(0, spread, N) > event.count * event.sampling_rate / 2
    wrong = ((clause & ~present).sum(), (~clause & present).sum())
    n_each = (N - present.sum(), present.sum())
    each, other = (clopper_pearson(float(k), float(n), level=level)[1] for k, n in zip(wrong, n_each, strict=True))
    return each, other


CLAIMS = {
    "one step of all": steps(1.6),
    "few steps": steps(1.0, 0.3, 10),
    "many steps": steps(2.37, 0.03, 2_000),
    "little noise": steps(0.7, 0.05, 200),
}


@pytest.mark.parametrize("mu", [0.3, 1.0, 3.0])
def test_one_step_of_everyone_is_the_gaussian_mechanism(mu: float) -> None:
    event = steps(1 / mu)
    for threshold in (mu / 2, mu, -0.5):
        rates = float(stats.norm.sf(threshold)), float(stats.norm.cdf(threshold - mu))
        assert allows(event, 0.97, rates)
        assert not allows(event, 1.03, rates)
        assert largest_factor(event, rates) == pytest.approx(1.0, rel=0.03)


@pytest.mark.statistical
@pytest.mark.parametrize("name", CLAIMS)
def test_the_noise_of_the_claim_is_never_ruled_out_and_half_of_it_always_is(name: str) -> None:
    # At the level of 0.5, so that a bound that is off would show: by the confidence alone half of the runs may alarm.
    # Two rates that have to come out low at once do so in about 17%; 24% of 200 runs would be more than two and a half
    # standard errors above that, and the draws are seeded.
    event, rng = CLAIMS[name], np.random.default_rng(11)
    alarms = [not allows(event, 1.0, rates_of(event, rng, level=0.5)) for _ in range(200)]
    assert np.mean(alarms) <= 0.24
    assert all(allows(event, 1.0, rates_of(event, rng)) for _ in range(100))
    assert all(not allows(event, 1.0, rates_of(event, rng, factor=0.5)) for _ in range(20))


def test_a_bound_of_steps_is_theirs_above_the_stated_noise_and_that_of_all_below() -> None:
    counts, event = GaussianEvent("counts", sigma=4.0), steps(2.0)
    schedule = Schedule((counts, event), DELTA)
    assert epsilon_of_steps(schedule, event, math.inf) == 0.0
    assert epsilon_of_steps(schedule, event, 2.0) == pytest.approx(gaussian_epsilon(0.25, DELTA), rel=0.01)
    both = math.hypot(1 / 4, 1 / (2.0 * 0.5))
    assert epsilon_of_steps(schedule, event, 0.5) == pytest.approx(gaussian_epsilon(both, DELTA), rel=0.01)
    more = math.hypot(1 / (4 * 0.5), 1 / 2)
    assert epsilon_of_less(schedule, "counts", 0.5) == pytest.approx(gaussian_epsilon(more, DELTA), rel=0.01)
    # Of a run that was cut short, the steps that were done count, and less noise in them is less noise in all.
    long = Schedule((steps(20.0, count=400),), DELTA)
    assert epsilon_of_steps(long, steps(20.0, count=100), 1.0) == pytest.approx(gaussian_epsilon(0.5, DELTA), rel=0.01)
    assert epsilon_of_steps(long, steps(20.0, count=100), 0.5) == pytest.approx(gaussian_epsilon(2.0, DELTA), rel=0.01)
