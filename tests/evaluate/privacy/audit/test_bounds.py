"""Bounds: the theorem's p-value by another road, known numbers, closed forms of steps, power by simulated audits."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import optimize, stats

from evaluate.intervals import clopper_pearson
from evaluate.privacy.audit.bounds import (
    MOST_EPSILON,
    Residuals,
    allows,
    best_of_run,
    epsilon_of_less,
    epsilon_of_steps,
    gaussian_epsilon,
    largest_factor,
    one_run_epsilon,
    one_run_p_value,
)
from evaluate.privacy.audit.white_box import of_noise_in_steps
from synth.dp.accounting import epsilon_pld
from synth.dp.events import GaussianEvent, SubsampledGaussianEvent
from synth.dp.schedule import Schedule


def by_hand(epsilon: float, delta: float, sizes: tuple[int, int, int]) -> float:
    """Theorem 5.2 term by term, each probability from a table of all outcomes."""
    m, r, v = sizes
    q = 1 / (1 + math.exp(-epsilon))
    mass = [math.comb(r, w) * q**w * (1 - q) ** (r - w) for w in range(r + 1)]
    beta = sum(mass[v:])
    alpha = max((sum(mass[max(v - i, 0) : v]) / i for i in range(1, m + 1)), default=0.0)
    return min(1.0, beta + 2 * m * delta * alpha)


def test_the_p_value_is_that_of_the_theorem() -> None:
    for epsilon, delta, (m, r) in itertools.product((0.0, 0.7, 3.0), (0.0, 0.01), ((1, 1), (5, 4), (20, 17))):
        for v in range(r + 1):
            expected = by_hand(epsilon, delta, (m, r, v))
            assert one_run_p_value(epsilon, delta, m, r, v) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("epsilon", [0.0, 3.0])
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


@pytest.mark.parametrize(("epsilon", "known"), [(1.0, 0.27), (4.0, 1.58)])
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
    for threshold in (mu / 2, mu, -0.5):  # the last one binds with the rates exchanged
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


STEPS = SubsampledGaussianEvent("steps", noise_multiplier=1.0, sampling_rate=0.1, count=40)


@pytest.mark.parametrize(("sigma", "share"), [(20.0, 0.97), (20.0, 0.95), (1.0, 0.9), (0.7, 1.0)])
def test_the_power_of_the_size_of_noise_is_that_of_simulated_audits(sigma: float, share: float) -> None:
    rng, n_numbers, n, confidence = np.random.default_rng(7), 4_000, 400, 0.999
    points = np.arange(-200, 201)
    mass = np.exp(-(points.astype(float) ** 2) / (2 * (share * sigma) ** 2))
    drawn = rng.choice(points, size=(n, n_numbers), p=mass / mass.sum())
    shown, stated = 0, Residuals()
    for row in drawn:
        residuals = Residuals()
        residuals.add(row, sigma)
        shown += residuals.most(confidence) < 1
    stated.add(drawn[0], sigma)
    if share == 1.0:
        assert shown <= 4  # of 400 at 1 in 1,000
    else:
        assert shown / n > (0.9 if sigma < 3 else 0.2)


@pytest.mark.parametrize(
    ("noise_left", "sampled", "scale", "fault"),
    [
        (1.0, 0.1, 1.0, ""),
        (0.98, 0.1, 1.0, "noise of steps"),
        (1.0, 0.2, 1.0, "sample more"),
        (1.0, 0.1, 0.9, "noise of"),
    ],
)
def test_less_noise_or_larger_samples_of_steps_are_faults(noise_left, sampled, scale, fault):
    residuals = Residuals()
    residuals.add(scale * np.random.default_rng(0).normal(0, 2.0, 50_000), 2.0, whole=False)
    run = SimpleNamespace(event=STEPS, noise_left=noise_left, most_sampled=sampled, residuals=residuals)
    result = of_noise_in_steps(Schedule((STEPS,), 1e-5), run, 0.9999)  # type: ignore[arg-type]
    assert (result.fault is None) == (fault == "")
    assert fault in (result.fault or "")
    assert (result.bound > epsilon_pld([STEPS], 1e-5)) == (fault != "")
