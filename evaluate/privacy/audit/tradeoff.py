"""What a stretch of DP-SGD steps allows an attacker to get right, exactly, and how much less noise two rates need.

The steps of a schedule are a family: the same steps, the noise of each times a factor. Every factor has a privacy curve
delta(epsilon) by privacy loss distributions, and an attacker's two error rates must satisfy 1 - FNR <= e^epsilon FPR +
delta(epsilon), and the same with the rates exchanged, at every epsilon. The largest factor that allows the observed
rates says how much noise there can have been at most. No Gaussian limit is taken: few steps, or steps with little
noise, are far from it.

Curves lie on a coarse grid of losses. The accountant rounds so that delta is never too small, hence more rates are
allowed and the factor is larger: the bound stays one.

Source: Kairouz, Oh, Viswanath 2015 (1311.0776) for the region of rates; Nasr et al. 2023 (2302.07956), section 4, for
families of mechanisms in audits; Doroshenko et al. 2022 (2207.04380) for the grid.
"""

import math
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from synth.dp.accounting import epsilon_pld, loss_deviation
from synth.dp.events import (
    Event,
    GaussianEvent,
    LaplaceEvent,
    SelectionEvent,
    StabilityEvent,
    SubsampledGaussianEvent,
)
from synth.dp.schedule import Schedule

LEAST_FACTOR, MOST_FACTOR = 1 / 4, 16.0
"""Between them a factor is looked for: less noise than a quarter is reported as a quarter, and beyond 16 times as much
nothing is proved."""
FINENESS, INTERVALS = 20, (1e-5, 1e-2)
"""Grid points per standard deviation of a step's privacy loss, a fifth of what a claim is worked out with."""
EPSILONS = np.linspace(0.0, 14.0, 71)
"""Where the rates are held against the curve; more places could only rule out more."""
N_HALVINGS = 7


def allows(event: SubsampledGaussianEvent, factor: float, rates: tuple[float, float]) -> bool:
    """Whether steps with so many times the noise allow both error rates at once.

    Args:
        event: the steps, as stated.
        factor: on the noise of each.
        rates: of false positives and false negatives.
    """
    return not _outside(_curve(_scaled(event, factor)), np.array(rates[0]), np.array(rates[1]))


def rules_out(event: SubsampledGaussianEvent, wrong_in: np.ndarray, wrong_out: np.ndarray) -> np.ndarray:
    """Whether `largest_factor` would come out below 1, so that the claim is disproved; boolean, shape of the rates.

    Args:
        event: the steps, as stated.
        wrong_in: rates of false positives, at their upper ends.
        wrong_out: rates of false negatives, likewise.
    """
    nearest = LEAST_FACTOR ** (1 / 2**N_HALVINGS)
    return _outside(_curve(_scaled(event, nearest)), wrong_in, wrong_out)


def _outside(delta: np.ndarray, wrong_in: np.ndarray, wrong_out: np.ndarray) -> np.ndarray:
    """Whether a privacy curve at `EPSILONS` forbids pairs of rates; shape of the rates."""
    least, one, other = np.exp(EPSILONS), wrong_in[..., None], wrong_out[..., None]
    return np.asarray(np.any((1 - other - least * one > delta) | (1 - one - least * other > delta), axis=-1))


@lru_cache(maxsize=256)
def _curve(event: SubsampledGaussianEvent) -> np.ndarray:
    """Delta of all steps at `EPSILONS`, never too small."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    one = pld.from_gaussian_mechanism(
        event.noise_multiplier,
        sampling_prob=event.sampling_rate,
        value_discretization_interval=float(np.clip(loss_deviation(event) / FINENESS, *INTERVALS)),
        use_connect_dots=True,
    )
    return np.asarray(one.self_compose(event.count).get_delta_for_epsilon(EPSILONS.tolist()))


def largest_factor(event: SubsampledGaussianEvent, rates: tuple[float, float]) -> float:
    """The largest factor on the noise that allows both rates, or somewhat more; infinite where any seems to.

    Where even the least factor does not allow them, that one: a bound that is too small is a bound.

    Args:
        event: the steps, as stated.
        rates: of false positives and false negatives, at their upper ends.
    """
    if sum(rates) >= 1 or allows(event, MOST_FACTOR, rates):
        return math.inf
    if not allows(event, LEAST_FACTOR, rates):
        return LEAST_FACTOR
    # The claim itself first: the answer that matters most is on which side of it the factor lies.
    low, high = (1.0, MOST_FACTOR) if allows(event, 1.0, rates) else (LEAST_FACTOR, 1.0)
    for _ in range(N_HALVINGS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if allows(event, middle, rates) else (low, middle)
    return high


def epsilon_of_steps(schedule: Schedule, done: SubsampledGaussianEvent, factor: float) -> float:
    """Epsilon that a factor on the noise of steps proves.

    Where there is as much noise as stated or more, it is that of the steps that were done, which proves something
    whatever else was read; where there is less, that of `epsilon_of_less`.

    Args:
        schedule: whose steps they are.
        done: the steps that were done, as stated.
        factor: at most so many times the stated noise is there; infinite where nothing is known.
    """
    if factor >= 1:
        return 0.0 if math.isinf(factor) else epsilon_pld([_scaled(done, factor)], schedule.delta)
    return epsilon_of_less(schedule, done.what, factor)


def epsilon_of_less(schedule: Schedule, what: str | None, factor: float) -> float:
    """Epsilon of the whole schedule with less noise in one event than stated, in the others as much.

    Above the claim, then, and either the claim is false or the list of events that it rests on.

    Args:
        schedule: as stated.
        what: the event's name; `None`: all of them.
        factor: on its noise, below 1; less than a quarter is taken for a quarter.
    """
    factor = max(factor, LEAST_FACTOR)
    events = [_scaled(event, factor) if what in (None, event.what) else event for event in schedule.events]
    return epsilon_pld(events, schedule.delta)


def _scaled(event: Event, factor: float) -> Any:
    """The event with so many times its noise; its own delta stays."""
    match event:
        case SubsampledGaussianEvent():
            return replace(event, noise_multiplier=event.noise_multiplier * factor)
        case LaplaceEvent():
            return replace(event, scale=event.scale * factor)
        case SelectionEvent():
            return replace(event, epsilon=event.epsilon / factor)
        case StabilityEvent():
            return GaussianEvent(event.what, event.sigma * factor, event.sensitivity, event.count)
        case GaussianEvent():
            return replace(event, sigma=event.sigma * factor)
