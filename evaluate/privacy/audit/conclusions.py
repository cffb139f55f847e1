"""What the errors of an attacker prove of a claim, whoever made them."""

import math
from dataclasses import replace

import numpy as np

from evaluate.intervals import clopper_pearson
from evaluate.privacy.audit.bounds import best_of_run, free_epsilon, gaussian_epsilon, gaussian_mu
from evaluate.privacy.audit.counts import CountTrials
from evaluate.privacy.audit.power import Residuals, mu_of_claim, power_of_counts, power_of_steps
from evaluate.privacy.audit.result import Audit, AuditCheck, AuditPart
from evaluate.privacy.audit.steps import StepTrials
from evaluate.privacy.audit.tradeoff import LEAST_FACTOR, epsilon_of_less, epsilon_of_steps, largest_factor
from synth.dp.accounting import epsilon_pld
from synth.dp.events import GaussianEvent, SubsampledGaussianEvent
from synth.dp.schedule import Schedule
from synth.generators.fitting.histograms import COLUMNS

NOISE = "size of the noise on counts"
SINGLE = 1e-4
"""What single precision may make of a clipped sum, relative."""


def of_steps(schedule: Schedule, trials: StepTrials, confidence: float) -> AuditPart:
    """What the guesses about one training run prove.

    Args:
        schedule: whose steps they are.
        trials: the guesses.
        confidence: of the bounds; each of the two rates may fail with half of the rest.
    """
    n_in = int(trials.present.sum())
    n_each = (len(trials.present) - n_in, n_in)
    rates, best = (
        [(k / n, *clopper_pearson(k, n, level=confidence)) for k, n in zip(errors, n_each, strict=True)]
        for errors in (trials.errors, trials.errors_without_noise)
    )
    bound, strongest = (
        epsilon_of_steps(schedule, trials.event, largest_factor(trials.event, (one[2], other[2])))
        for one, other in (rates, best)
    )
    return AuditPart(
        what=trials.event.what,
        bound=bound,
        distribution_free=best_of_run(trials.scores, trials.present, schedule.delta, confidence),
        strongest=strongest,
        n_trials=len(trials.present),
        false_positives=rates[0],
        false_negatives=rates[1],
        ran_on=trials.ran_on,
        # No more than a sound training has: what a unit adds beyond the bound is the fault that is looked for.
        power=power_of_steps(
            trials.event, np.minimum(trials.sizes, 1.0) / trials.event.noise_multiplier, n_each, confidence
        ),
    )


def of_counts(schedule: Schedule, trials: CountTrials, confidence: float) -> AuditPart:
    """What the guesses about the one-way histograms of a larger schedule prove of the whole.

    Args:
        schedule: with other events beside.
        trials: the guesses.
        confidence: of the bounds.
    """
    claim = (schedule.epsilon, schedule.delta)
    alone = conclude(claim, trials.errors, trials.n_each, confidence, ran_on=trials.ran_on)
    event = schedule.event(COLUMNS)
    assert event is not None
    assert event.rho is not None
    mu = gaussian_mu(alone.false_positives[2], alone.false_negatives[2])
    bound, factor = alone.bound, math.sqrt(2 * event.rho) / mu if mu > 0 else math.inf
    if factor < 1:
        bound = max(bound, epsilon_of_less(schedule, COLUMNS, max(factor, LEAST_FACTOR)))
    return AuditPart(
        COLUMNS, bound, alone.distribution_free, alone.strongest, alone.n_trials,
        alone.false_positives, alone.false_negatives, alone.ran_on,
        power_of_counts(trials.signal, trials.n_each, confidence, min(mu_of_claim(*claim), math.sqrt(2 * event.rho))),
    )  # fmt: skip


def of_trials(schedule: Schedule, trials: CountTrials, confidence: float) -> Audit:
    """Conclusions from the guesses about counts of a schedule that is attacked as a whole.

    Args:
        schedule: whose counts they are.
        trials: the guesses.
        confidence: of the bounds.
    """
    claim = (schedule.epsilon, schedule.delta)
    alone = conclude(claim, trials.errors, trials.n_each, confidence, ran_on=trials.ran_on)
    power = power_of_counts(trials.signal, trials.n_each, confidence, mu_of_claim(*claim))
    return replace(alone, power=power)


def of_noise_in_steps(schedule: Schedule, trials: StepTrials, confidence: float) -> AuditCheck:
    """Conclusions from the noise and the samples that a training asked for, and the size of the noise that it got.

    Args:
        schedule: whose steps they are.
        trials: of one run.
        confidence: of the bound on the size of the noise.
    """
    most, planned = trials.residuals.most(confidence), trials.event
    check = AuditCheck(
        f"noise and samples of the {planned.what}",
        f"{trials.residuals.n:,} numbers published less their exact ones: at {confidence:.4%} confidence at most "
        f"{most:.3g} times the noise that was asked for; and what one unit's sum came to at each of {planned.count:,} "
        "steps",
        "any step that asks for less noise than one unit's sum calls for, or for larger samples than are stated",
        trials.residuals.power(confidence),
    )
    left = min(trials.noise_left * (1 + SINGLE), most)
    said = "the noise of steps is smaller than is stated for what one unit adds"
    if left < 1:
        return replace(check, fault=said, bound=epsilon_of_less(schedule, planned.what, left))
    if trials.most_sampled <= planned.sampling_rate * (1 + SINGLE):
        return check
    larger = [
        replace(event, sampling_rate=trials.most_sampled) if isinstance(event, SubsampledGaussianEvent) else event
        for event in schedule.events
    ]
    return replace(check, fault="steps sample more units than is stated", bound=epsilon_pld(larger, schedule.delta))


def of_scale(schedule: Schedule, residuals: Residuals, confidence: float) -> AuditCheck:
    """Conclusions from the size of the noise that was drawn, whatever it hides.

    Args:
        schedule: whose counts were noised.
        residuals: the noise.
        confidence: of the bound.
    """
    most = residuals.most(confidence)
    check = AuditCheck(
        NOISE,
        f"{residuals.n:,} numbers published less their exact ones: at {confidence:.4%} confidence at most "
        f"{most:.3g} times the noise that was asked for",
        power=residuals.power(confidence),
    )
    if most >= 1:
        return check
    counted = [event for event in schedule.events if isinstance(event, GaussianEvent)]
    proved = max((epsilon_of_less(schedule, event.what, most) for event in counted), default=0.0)
    return replace(check, fault="the noise of counts is smaller than is asked for", bound=proved)


def conclude(
    claim: tuple[float, float], errors: tuple[int, int], n_each: int, confidence: float, *, ran_on: str
) -> Audit:
    """What the errors of the attacker prove.

    Args:
        claim: epsilon and delta.
        errors: false positives and false negatives.
        n_each: trials with the canary, and as many without.
        confidence: of the bounds; each of the two rates may fail with half of the rest.
        ran_on: the table, in words.
    """
    epsilon, delta = claim
    wrong_in, wrong_out = ((k / n_each, *clopper_pearson(k, n_each, level=confidence)) for k in errors)
    never = clopper_pearson(0, n_each, level=confidence)[1]
    return Audit(
        epsilon=epsilon,
        delta=delta,
        bound=gaussian_epsilon(gaussian_mu(wrong_in[2], wrong_out[2]), delta),
        distribution_free=max(
            free_epsilon(wrong_in[2], wrong_out[2], delta), free_epsilon(wrong_out[2], wrong_in[2], delta)
        ),
        strongest=gaussian_epsilon(gaussian_mu(never, never), delta),
        confidence=confidence,
        n_trials=2 * n_each,
        false_positives=wrong_in,
        false_negatives=wrong_out,
        ran_on=ran_on,
    )
