"""The power that an audit states is that with which it finds a planted fault: each held against simulated audits."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluate.audit_result import EXCEEDS
from evaluate.privacy.audit.bounds import largest_factor, rules_out
from evaluate.privacy.audit.power import (
    Residuals,
    Signal,
    discrete_moments,
    mu_of_claim,
    power_of,
    power_of_counts,
    power_of_steps,
    upper_ends,
)
from evaluate.privacy.audit.white_box import conclude, of_noise_in_steps
from synth.dp.accounting import epsilon_pld
from synth.dp.events import SubsampledGaussianEvent
from synth.dp.mechanisms import SystemNoise
from synth.dp.schedule import Schedule

DELTA = 1e-6
STEPS = SubsampledGaussianEvent("steps", noise_multiplier=1.0, sampling_rate=0.1, count=40)


def within(observed: float, stated: float, n: int, errors: float = 4.5) -> bool:
    """Whether a rate of n trials lies within so many standard errors, and a hundredth, of the stated one."""
    return abs(observed - stated) < errors * math.sqrt(max(stated * (1 - stated), 1e-4) / n) + 0.01


@given(st.floats(0.0, 1.0))
def test_the_share_that_is_named_is_the_largest_that_nine_of_ten_audits_show(most: float) -> None:
    found = power_of(lambda share: float(share <= most))
    assert found.share is not None
    assert found.share <= most < found.share + 0.01 or found.share == 0.99
    assert found.half == float(most >= 0.5)
    assert power_of(lambda share: 0.89).share is None


@pytest.mark.parametrize("share", [0.75, 0.6, 0.5])
def test_the_power_of_guesses_about_counts_is_that_of_simulated_audits(share: float) -> None:
    rng, n_each, confidence = np.random.default_rng(3), 960, 0.99
    signal = Signal(np.ones(5), np.full(5, 5.0))
    claim = math.floor(1e3 * 2.1) / 1e3, DELTA
    stated = power_of_counts(signal, n_each, confidence, mu_of_claim(*claim))
    shown, n = 0, 300
    for _ in range(n):
        noise = rng.normal(0, share * 5.0, (2, n_each, 5)).sum(axis=2) / 25
        wrong = [int((noise[0] > signal.mu**2 / 2).sum()), int((noise[1] < -(signal.mu**2) / 2).sum())]
        shown += conclude(claim, (wrong[0], wrong[1]), n_each, confidence, ran_on="paper").verdict == EXCEEDS
    assert within(shown / n, _shows(stated.half, share, signal, n_each, confidence, claim), n)


def _shows(
    half: float, share: float, signal: Signal, n_each: int, confidence: float, claim: tuple[float, float]
) -> float:
    """The stated power at any share: that of half the noise, of a signal to which it is half."""
    if share == 0.5:
        return half
    weaker = Signal(signal.canary, 2 * share * signal.sigma)
    return power_of_counts(weaker, n_each, confidence, mu_of_claim(*claim)).half


@pytest.mark.parametrize(("canary", "sigma", "n"), [(1.0, 0.4, 1), (2.0, 0.6, 1), (2.0, 1.0, 3), (1.0, 8.0, 2)])
def test_the_error_rate_is_that_of_the_noise_that_is_drawn(canary: float, sigma: float, n: int) -> None:
    n_drawn = 4_000
    drawn = SystemNoise().gaussian(np.zeros(n * n_drawn, dtype=np.int64), sigma).reshape(n_drawn, n)
    surplus = canary * drawn.sum(axis=1) - n * canary**2 / 2
    observed = float(np.mean(surplus > 1e-9) + np.mean(np.abs(surplus) < 1e-9) / 2)
    stated = Signal(np.full(n, canary), np.full(n, sigma)).error_rate(1.0)
    assert abs(observed - stated) < 5 * math.sqrt(stated * (1 - stated) / n_drawn) + 1e-3


def test_without_a_release_an_attacker_guesses() -> None:
    assert Signal(np.zeros(0), np.zeros(0)).error_rate(0.0) == 0.5
    assert Signal(np.ones(1), np.ones(1)).error_rate(0.0) == 0.0


@pytest.mark.parametrize("size", [0.45, 0.55, 0.7])
def test_the_power_of_guesses_about_steps_is_that_of_simulated_runs(size: float) -> None:
    rng, n_each, confidence, n = np.random.default_rng(5), (2_000, 2_000), 0.99, 400
    stated = power_of_steps(STEPS, np.full(STEPS.count, size), n_each, confidence)
    halfway, spread = size * STEPS.count * STEPS.sampling_rate / 2, math.sqrt(STEPS.count) / 2
    out = rng.normal(0, spread, (n, n_each[0])) > halfway
    sampled = size * rng.binomial(STEPS.count, STEPS.sampling_rate, (n, n_each[1]))
    missed = sampled + rng.normal(0, spread, (n, n_each[1])) <= halfway
    ends = [upper_ends(wrong.sum(axis=1), 2_000, confidence) for wrong in (out, missed)]
    assert within(float(np.mean(rules_out(STEPS, *ends))), stated.half, n)


def test_what_is_counted_as_shown_is_what_the_audit_would_say() -> None:
    for rates in ((0.3, 0.3), (0.1, 0.1), (0.4, 0.5)):
        one, other = (np.array([rate]) for rate in rates)
        assert bool(rules_out(STEPS, one, other)[0]) == (largest_factor(STEPS, rates) < 1)


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
    elif sigma >= 3:
        half = Residuals()
        half.add(drawn[0], sigma)
        found = half.power(confidence)
        assert found.half == 1.0
        assert found.share is not None
        assert shown / n > 0.85 if share <= found.share else shown / n < 0.95
    else:
        assert shown / n > 0.9


def test_noise_that_is_as_stated_is_rarely_called_less() -> None:
    residuals = Residuals()
    residuals.add(SystemNoise().gaussian(np.zeros(4_000, dtype=np.int64), 30.0), 30.0)
    assert 1 < residuals.most(0.999_99) < 1.12
    assert Residuals().most(0.99) == math.inf
    assert Residuals().power(0.99).share is None


def test_moments_of_whole_numbers_are_those_of_their_mass() -> None:
    for sigma in (0.3, 1.0, 2.9):
        second, fourth = discrete_moments(sigma)
        drawn = SystemNoise().gaussian(np.zeros(4_000, dtype=np.int64), sigma).astype(float)
        assert abs(np.mean(drawn**2) - second) < 5 * math.sqrt((fourth - second**2) / 4_000)


@pytest.mark.parametrize(
    ("noise_left", "sampled", "scale", "fault"),
    [
        (1.0, 0.1, 1.0, ""),
        (0.98, 0.1, 1.0, "noise of steps"),
        (1.0, 0.2, 1.0, "sample more"),
        (1.0, 0.1, 0.9, "noise of"),
    ],
)
def test_less_noise_or_larger_samples_of_steps_are_faults(
    noise_left: float, sampled: float, scale: float, fault: str
) -> None:
    residuals = Residuals()
    residuals.add_real(scale * np.random.default_rng(0).normal(0, 2.0, 50_000), 2.0)
    run = SimpleNamespace(event=STEPS, noise_left=noise_left, most_sampled=sampled, residuals=residuals)
    found = of_noise_in_steps(Schedule((STEPS,), 1e-5), run, 0.9999)  # type: ignore[arg-type]
    assert (found.fault is None) == (fault == "")
    assert fault in (found.fault or "")
    assert (found.bound > epsilon_pld([STEPS], 1e-5)) == (fault != "")
