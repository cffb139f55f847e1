"""A white-box audit of a claim: does a private fit leak more than its epsilon allows?

The attacker holds all that a fit drew with noise, knows the program, the table and the rows of the canaries, and wants
to say which canaries were in: the attacker of the guarantee. The table is a public stand-in made of constants: an audit
reads no real row and costs no budget. One that would be fitted otherwise than the real table is refused.

Counts (`counts`) and steps of DP-SGD (`steps`) are attacked, each with half of the error where a generator draws both.
An attack on a small epsilon needs more trials than anybody has time for, so the same fits say how large the noise is
that they drew, and how far a canary moves what it hides: there a fault shows at any epsilon. All else that a fit draws
is held to what is stated by tests: the same noise, one unit less.

Source: Nasr et al. 2023, "Tight auditing of differentially private machine learning" (2302.07956), section 4; Steinke,
Nasr, Jagielski 2023 (2305.08846), "Privacy auditing with one (1) training run".
"""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from evaluate.audit_result import OUTSIDE, Audit, AuditCheck, AuditError, AuditPart
from evaluate.intervals import clopper_pearson
from evaluate.privacy.audit.bounds import (
    best_of_run,
    epsilon_of_less,
    epsilon_of_steps,
    free_epsilon,
    gaussian_epsilon,
    gaussian_mu,
    largest_factor,
)
from evaluate.privacy.audit.canaries import (
    MOST_STEPS,
    N_STEP_CANARIES,
    CountTrials,
    StandIn,
    StepLog,
    StepTrials,
    run_of_steps,
    trials_of_counts,
)
from synth import extras
from synth.dp.accounting import epsilon_pld
from synth.dp.events import GaussianEvent, SubsampledGaussianEvent
from synth.dp.schedule import Schedule, resolve_delta
from synth.generators.base import PrivateGenerator, compose, draws_in_order, unwrapped, wrappers
from synth.generators.fitting.selection import column_weights
from synth.progress import Progress, quiet
from synth.schema import Schema

CONFIDENCE = 0.99
"""Of 10,000 audits of the tightest true claim about one says that it is exceeded, as both error rates have to come out
low at once; at 95% it would be 25."""
SIZE_SHARE = 0.001
"""Of the error that the confidence leaves, for each size of a noise. That bound errs as often as it says: at 99% one
sound audit in 100,000."""
LEAST_FITS, N_FITS = 5, 160  # At epsilon 3 enough to find half the noise in 999 audits of a thousand
MOST_RELEASES = 2_700
"""Noisy numbers or tables of numbers that all fits release together, as fits that release more take longer: `aim` is
fitted 60 to 160 times. No clock decides how many these are, unless somebody asks for one."""
N_CODES_BESIDE_STEPS = 32
"""Of the stand-in where counts have a small part of the budget, and so many more trials are needed to find a fault."""
STEPS_SHARE, FITS_SHARE = 0.6, 0.3  # Of the time, for the steps of a network and for the fits beside them
SINGLE = 1e-4  # Relative error of a clipped sum in single precision
SHORTCUTS: Mapping[str, Any] = {
    "n_iterations": 1, "n_draws": 1_000, "n_classes": 1, "generator_steps": 1, "rounds_kept": 1, "workload": {},
}  # fmt: skip
"""Parameters that no noise depends on: a fit may be worse in an audit. Made-up tables have no columns to be weighed."""
WIDTHS = ("generator_widths", "encoder_widths", "decoder_widths")
WIDEST = 64  # Of a network's layers in an audit: any network of as many layers is clipped and noised alike


def audit(
    generator: PrivateGenerator,
    schema: Schema,
    *,
    n_fits: int | None = None,
    confidence: float = CONFIDENCE,
    time_limit_s: float | None = None,
    seed: int = 0,
    progress: Progress = quiet,
) -> Audit:
    if generator.epsilon is None:
        raise AuditError(f"an audit needs a claim, and generator={generator.name!r} has epsilon=none; set epsilon")
    chosen = compose(generator, schema)
    if not isinstance(chosen, PrivateGenerator):
        raise AuditError(f"generator={generator.name!r} stands for {chosen.name!r}, which claims nothing; name another")
    generator = chosen
    if (brought := extras.load("audit").get(generator.name)) is not None:
        limits = {"n_fits": n_fits, "confidence": confidence, "time_limit_s": time_limit_s}
        audited_apart: Audit = brought(generator, schema, seed=seed, progress=progress, **limits)
        return audited_apart
    counted, stand_in = generator.counted(schema), StandIn.like(schema, histories=generator.in_order)
    audited = generator.model_copy(update={**_shortcuts(generator), "delta": resolve_delta(generator.delta, schema)})
    audited = audited.model_copy(update=_weights(generator, counted, stand_in))
    if draws_in_order(audited, stand_in.schema) != generator.in_order:
        raise AuditError(
            f"the stand-in must be fitted as the real table is, and generator={generator.name!r} draws histories of "
            "one of the two alone; nothing is known, so leave the audit out for this one"
        )
    schedule = audited.schedule(stand_in.schema)
    if schedule is None:
        raise AuditError(f"generator={generator.name!r} plans no release, so that nothing can be audited; set epsilon")
    what, rng = f"audit {generator.name}", np.random.default_rng(seed)
    limit_s = math.inf if time_limit_s is None else time_limit_s
    progress(what, 0.0)
    steps = next((event for event in schedule.events if isinstance(event, SubsampledGaussianEvent)), None)
    error, n_parts = 1 - confidence, 1 if steps is None else 2
    size_level, level = 1 - SIZE_SHARE * error, 1 - (1 - 2 * SIZE_SHARE) * error / n_parts
    parts, checks, covered, begun, fits_share = list[AuditPart](), list[AuditCheck](), set[str](), 0.0, 1.0
    if steps is not None:
        begun, fits_share = STEPS_SHARE, FITS_SHARE
        log = StepLog(
            rng.random(N_STEP_CANARIES) < 1 / 2, min(steps.count, MOST_STEPS), STEPS_SHARE * limit_s, rng,
            lambda share: progress(what, STEPS_SHARE * share),
        )  # fmt: skip
        run = run_of_steps(audited, schedule, steps, stand_in, log)
        parts.append(of_steps(schedule, run, level))
        checks.append(of_noise_in_steps(schedule, run, size_level))
        covered.add(steps.what)
        stand_in = StandIn.like(schema, N_CODES_BESIDE_STEPS, histories=stand_in.histories)
    n_releases = sum(event.count for event in schedule.events if not isinstance(event, SubsampledGaussianEvent))
    trials = trials_of_counts(
        audited, schedule, stand_in, rng, limit_s=fits_share * limit_s,
        n_fits=n_fits or int(np.clip(MOST_RELEASES // max(n_releases, 1), LEAST_FITS, N_FITS)),
        tell=lambda share: progress(what, begun + share * (1 - begun)),
    )  # fmt: skip
    parts.append(of_counts(schedule, trials, level))
    checks.append(of_noise_on_counts(schedule, trials, size_level))
    covered |= set(trials.least)
    # Names need no calibration, which costs more than the checks do.
    named = [event.what for event in generator.all_events(counted, schedule.delta)(1.0)]
    if covered.isdisjoint(named):
        raise AuditError("an audit must look at an event of the claim, and it saw none; leave it out for this one")
    result = Audit.of_parts((schedule.epsilon, schedule.delta), parts, confidence)
    unseen = [each for wrapper in wrappers(generator) for each in wrapper.unaudited(schema)]
    return replace(
        result,
        # A fault is above the claim, however slight.
        bound=max([result.bound, *(max(c.bound, math.nextafter(result.epsilon, math.inf)) for c in checks if c.fault)]),
        checks=tuple(checks),
        covered=tuple(name for name in named if name in covered),
        not_covered=(*(name for name in named if name not in covered), *unseen, *OUTSIDE),
    )


def _shortcuts(generator: PrivateGenerator) -> dict[str, Any]:
    """Parameters that only what follows the noise depends on, or that change no noise."""
    inmost = unwrapped(generator)
    known = type(inmost).model_fields
    short: dict[str, Any] = {name: value for name, value in SHORTCUTS.items() if name in known}
    for name in (name for name in WIDTHS if name in known):
        short[name] = tuple(min(width, WIDEST) for width in getattr(inmost, name) or (WIDEST, WIDEST))
    return short | {name: each for wrapper in wrappers(generator) for name, each in wrapper.shortcuts.items()}


def _weights(generator: PrivateGenerator, schema: Schema, stand_in: StandIn) -> dict[str, Any]:
    """A workload by which the stand-in's columns weigh what those of the schema do, as far as it has columns for it."""
    inmost = unwrapped(generator)
    if "workload" not in type(inmost).model_fields:
        return {}
    workload, focus = getattr(inmost, "workload"), getattr(inmost, "focus")  # noqa: B009
    present = Counter(column_weights(workload, focus, schema).values()).most_common()
    names = stand_in.schema.modeled
    # A fit draws noise once for each weight of a pair: two columns of each weight make all of these, if there are two.
    weights = [weight for turn in (1, 2) for weight, n_columns in present if n_columns >= turn]
    weights += [present[0][0]] * len(names)
    return {"workload": dict(zip(names, weights, strict=False))}


def attacked(
    what: str, delta: float, errors: tuple[int, int], n_each: int, confidence: float, ran_on: str
) -> AuditPart:
    wrong_in, wrong_out = ((k / n_each, *clopper_pearson(k, n_each, level=confidence)) for k in errors)
    never = clopper_pearson(0, n_each, level=confidence)[1]
    first, other = wrong_in[2], wrong_out[2]
    free = max(free_epsilon(first, other, delta), free_epsilon(other, first, delta))
    bound, strongest = (gaussian_epsilon(gaussian_mu(*rates), delta) for rates in ((first, other), (never, never)))
    return AuditPart(
        what=what, bound=bound, distribution_free=free, strongest=strongest, n_trials=2 * n_each,
        false_positives=wrong_in, false_negatives=wrong_out, ran_on=ran_on,
    )  # fmt: skip


def of_counts(schedule: Schedule, trials: CountTrials, confidence: float) -> AuditPart:
    """The conclusion on a whole schedule from guesses about its counts."""
    events = [event for event in schedule.events if isinstance(event, GaussianEvent)]
    what = ", ".join(event.what for event in events)
    part = attacked(what, schedule.delta, trials.errors, trials.n_each, confidence, trials.ran_on)
    mu = gaussian_mu(part.false_positives[2], part.false_negatives[2])
    stated = math.sqrt(2 * sum(event.rho for event in events))
    return replace(part, bound=max(part.bound, _of_some(schedule, stated / mu))) if mu > stated else part


def of_steps(schedule: Schedule, trials: StepTrials, confidence: float) -> AuditPart:
    n_each = np.bincount(trials.present, minlength=2).tolist()  # out and in
    rates, best = (
        [(k / n, *clopper_pearson(k, n, level=confidence)) for k, n in zip(errors, n_each, strict=True)]
        for errors in (trials.errors, trials.errors_without_noise)
    )
    bound, strongest = (
        epsilon_of_steps(schedule, trials.event, largest_factor(trials.event, (rate[2], other[2])))
        for rate, other in (rates, best)
    )
    free = best_of_run(trials.scores, trials.present, schedule.delta, confidence)
    return AuditPart(
        what=trials.event.what, bound=bound, distribution_free=free, strongest=strongest, n_trials=len(trials.present),
        false_positives=rates[0], false_negatives=rates[1], ran_on=trials.ran_on,
    )  # fmt: skip


def of_noise_on_counts(schedule: Schedule, trials: CountTrials, confidence: float) -> AuditCheck:
    """Conclusions from the size of the noise that was drawn, and from what it was to hide of a canary."""
    check = AuditCheck(
        "noise on counts",
        f"{trials.residuals.words(confidence)}; and what a canary added to each count",
        "any count that asks for less noise than is stated, or to which a canary adds more",
        trials.residuals.power(confidence),
    )
    what, left = min(trials.least.items(), key=lambda known: known[1])
    if left < 1:
        message = f"{what}: the noise is smaller than is stated for what a canary adds"
        return replace(check, fault=message, bound=epsilon_of_less(schedule, what, left))
    if (most := trials.residuals.most(confidence)) >= 1:
        return check
    return replace(check, fault="the noise of counts is smaller than is asked for", bound=_of_some(schedule, most))


def _of_some(schedule: Schedule, factor: float) -> float:
    """Epsilon at least where one of the counts has so much of its noise, whichever it is."""
    counted = (event for event in schedule.events if isinstance(event, GaussianEvent))
    return min((epsilon_of_less(schedule, event.what, factor) for event in counted), default=0.0)


def of_noise_in_steps(schedule: Schedule, trials: StepTrials, confidence: float) -> AuditCheck:
    """Conclusions from the noise and the samples that a training asked for, and the size of the noise that it got."""
    planned = trials.event
    check = AuditCheck(
        f"noise and samples of the {planned.what}",
        f"{trials.residuals.words(confidence)}; and what one unit's sum came to at each of {planned.count:,} steps",
        "any step that asks for less noise than one unit's sum calls for, or for larger samples than are stated",
        trials.residuals.power(confidence),
    )
    left = min(trials.noise_left * (1 + SINGLE), trials.residuals.most(confidence))
    if left < 1:
        message = "the noise of steps is smaller than is stated for what one unit adds"
        return replace(check, fault=message, bound=epsilon_of_less(schedule, planned.what, left))
    if trials.most_sampled <= planned.sampling_rate * (1 + SINGLE):
        return check
    larger = [
        replace(event, sampling_rate=trials.most_sampled) if isinstance(event, SubsampledGaussianEvent) else event
        for event in schedule.events
    ]
    return replace(check, fault="steps sample more units than is stated", bound=epsilon_pld(larger, schedule.delta))
