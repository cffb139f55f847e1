"""A white-box audit of a claim: does a private fit leak more than its epsilon allows?

The attacker holds all that a fit drew with noise: released counts, and every noisy sum of a training by DP-SGD. They
know the program and the whole table but for the canaries, and know the canaries' rows. They want to say which canaries
were in, and win where they are right more often than epsilon and delta allow. That is the very attacker of the
guarantee, far stronger than anyone who sees a synthetic table. So a fault in the noise shows after a few hundred fits,
or after a single training. The table is a public stand-in made of constants: an audit reads no real row and costs no
budget.

- Counts (`counts`): the two error rates over some hundred fits have exact upper ends, and no Gaussian mechanism
  with mu below mu_low = Phi^-1(1 - FPR) - Phi^-1(FNR) allows them. At the claimed delta, mu_low has an epsilon: the
  bound.
- Steps of DP-SGD (`steps`): the error rates over the canaries of one training run, and the least noise in the
  claimed steps that rules them out (`bounds`). That noise gives the bound.

Where a generator draws both, each part is attacked with half of the error. A bound above the claim disproves it, at the
stated confidence; one below it proves nothing beyond that no fault of this kind was found.

An attack on a small epsilon needs more trials than anybody has time for: at epsilon 1 it misses half the noise. So what
the program does is checked, too, event by event, where a fault shows at any epsilon:

- the size of the noise that all those fits drew (`of_scale`, `of_noise_in_steps`),
- the exact numbers behind every draw, with one canary and without (`releases`),
- measured bounds, categories and frequent values, on made-up rows of the schema itself (`releases`),
- choices, again and again by the scores of two tables (`choices`),
- the split, with one unit really gone (`split`).

The stand-in has as many columns of free text as the schema keeps, all alike and short, so that steps on them are
attacked like others. What was read off real texts cannot show: tests of that fit look for it. Beside a network the
audit attacks the steps of that alone, and names those on texts among what it did not cover.

Where a fit draws histories, all of it is done on histories. A canary is one of the first rows, and k - 1 of the later
ones. A stand-in that would be fitted otherwise than the real table is refused. So is an audit that saw nothing of first
rows, or nothing of later ones.

Where respondents randomize their own answers, there is no such noise: their reports are attacked. An extra that brings
such a generator brings its audit as well, with the arguments of `audit`.

Of everything that is left to chance the audit says with which probability it would have shown half the noise, and how
much less noise it would have shown in nine of ten audits (`power`). It names the events that it covered and those that
it did not.

Source: Nasr et al. 2023, "Tight auditing of differentially private machine learning" (2302.07956), section 4; Balle &
Wang 2018 (1805.06530), Theorem 8; Steinke, Nasr, Jagielski 2023 (2305.08846), "Privacy auditing with one (1) training
run".
"""

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evaluate.audit_result import OUTSIDE, Audit, AuditCheck, AuditError, AuditPart
from evaluate.intervals import clopper_pearson
from evaluate.privacy.audit.bounds import (
    LEAST_FACTOR,
    best_of_run,
    epsilon_of_less,
    epsilon_of_steps,
    free_epsilon,
    gaussian_epsilon,
    gaussian_mu,
    largest_factor,
)
from evaluate.privacy.audit.choices import audit_choices
from evaluate.privacy.audit.counts import CountTrials, Patience, trials_of_counts
from evaluate.privacy.audit.power import Residuals, mu_of_claim, power_of_counts, power_of_steps
from evaluate.privacy.audit.rehearsal import audit_domain, audit_releases
from evaluate.privacy.audit.split import audit_split
from evaluate.privacy.audit.stand_in import StandIn
from evaluate.privacy.audit.steps import N_STEP_CANARIES, StepLog, StepTrials, run_of_steps
from synth import extras
from synth.dp.accounting import epsilon_pld
from synth.dp.events import GaussianEvent, SelectionEvent, SubsampledGaussianEvent
from synth.dp.schedule import Schedule, resolve_delta
from synth.generators.base import PrivateGenerator
from synth.generators.fitting.marginal_selection import column_weights
from synth.generators.wrapper import compose, draws_in_order, unwrapped, wrappers
from synth.progress import Progress, quiet
from synth.row_order import FIRST_ROWS, LATER_ROWS
from synth.schema import Schema

NOISE = "size of the noise on counts"
SINGLE = 1e-4  # Relative error of a clipped sum in single precision


def of_steps(schedule: Schedule, trials: StepTrials, confidence: float) -> AuditPart:
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
    """The conclusion on a whole schedule from guesses about its counts."""
    claim = (schedule.epsilon, schedule.delta)
    alone = conclude(claim, trials.errors, trials.n_each, confidence, ran_on=trials.ran_on)
    counted = [event for event in schedule.events if isinstance(event, GaussianEvent)]
    rho = sum(event.rho for event in counted)
    mu = gaussian_mu(alone.false_positives[2], alone.false_negatives[2])
    bound, factor = alone.bound, math.sqrt(2 * rho) / mu if mu > 0 else math.inf
    if factor < 1:
        # One of them has so much less noise at least.
        least = (epsilon_of_less(schedule, event.what, max(factor, LEAST_FACTOR)) for event in counted)
        bound = max(bound, *least)
    return AuditPart(
        ", ".join(event.what for event in counted), bound, alone.distribution_free, alone.strongest, alone.n_trials,
        alone.false_positives, alone.false_negatives, alone.ran_on,
        power_of_counts(trials.signal, trials.n_each, confidence, min(mu_of_claim(*claim), math.sqrt(2 * rho))),
    )  # fmt: skip


def of_trials(schedule: Schedule, trials: CountTrials, confidence: float) -> Audit:
    """Conclusions from the guesses about counts of a schedule that is attacked as a whole."""
    claim = (schedule.epsilon, schedule.delta)
    alone = conclude(claim, trials.errors, trials.n_each, confidence, ran_on=trials.ran_on)
    power = power_of_counts(trials.signal, trials.n_each, confidence, mu_of_claim(*claim))
    return replace(alone, power=power)


def of_noise_in_steps(schedule: Schedule, trials: StepTrials, confidence: float) -> AuditCheck:
    """Conclusions from the noise and the samples that a training asked for, and the size of the noise that it got."""
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
    """Conclusions from the size of the noise that was drawn, whatever it hides."""
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


CONFIDENCE = 0.99
"""Of 10,000 audits of the tightest true claim about one says that it is exceeded; at 95% it would be 25.

Fewer than the confidence alone promises, since both error rates have to come out low at once.
"""
N_FITS = 160  # At epsilon 3 enough to find half the noise in 999 audits of a thousand
MOST_RELEASES = 2_700
"""Noisy numbers or tables of numbers that all fits release together, as fits that release more take longer: `aim` is
fitted 60 to 160 times. The strength that a result states is that of the fits that were made. No clock decides how many
these are, unless somebody asks for one."""
MOST_STEPS = 2_000  # Of a training run; of a longer one these are held against as many
SHORTCUTS: Mapping[str, Any] = {
    "n_iterations": 1, "n_draws": 1_000, "n_classes": 1, "generator_steps": 1, "rounds_kept": 1, "workload": {},
}  # fmt: skip
"""Parameters that no noise depends on: a fit may be worse in an audit. Made-up tables have no columns to be weighed.

One class holds no pair of columns, so that units move the scores of choices as far as units can."""
WIDTHS = ("generator_widths", "critic_widths", "encoder_widths", "decoder_widths")
WIDEST = 64  # Of a network's layers in an audit: any network of as many layers is clipped and noised alike
N_CODES_BESIDE_STEPS = 32
"""Of the stand-in where counts have a small part of the budget, and so many more trials are needed to find a fault."""
CHOICES_SHARE, SCALE_SHARE = 0.1, 0.001
"""Of the error that the confidence leaves, for the check of choices, and for each of the size of a noise.

The bound on choices rests on four rates that must all be at their ends at once. It errs far less often than its share.
That on a noise errs as often as it says: at 99% one sound audit in 100,000.
"""
STEPS_SHARE, FITS_SHARE = 0.6, 0.3  # Of the time, for the steps of a network and for the fits beside them


@dataclass(frozen=True)
class _Subject:
    generator: PrivateGenerator
    schedule: Schedule
    stand_in: StandIn
    confidence: float
    n_fits: int
    limit_s: float
    progress: Progress

    def patience(self, share: float, tell: Callable[[float], None]) -> Patience:
        """For fits that begin now and may take this share of the limit."""
        until = math.inf if math.isinf(self.limit_s) else time.monotonic() + share * self.limit_s
        return Patience(self.n_fits, until, tell)

    def tell(self, share: float) -> None:
        self.progress(f"audit {self.generator.name}", share)

    @property
    def steps(self) -> SubsampledGaussianEvent | None:
        return next((event for event in self.schedule.events if isinstance(event, SubsampledGaussianEvent)), None)

    @property
    def claim(self) -> tuple[float, float]:
        return self.schedule.epsilon, self.schedule.delta


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
    if (of_its_own := extras.load("audit").get(generator.name)) is not None:
        audited_apart: Audit = of_its_own(
            generator, schema, n_fits=n_fits, confidence=confidence, time_limit_s=time_limit_s, seed=seed,
            progress=progress,
        )  # fmt: skip
        return audited_apart
    audited = generator.model_copy(update={**_shortcuts(generator), "delta": resolve_delta(generator.delta, schema)})
    counted = generator.counted(schema)
    histories = generator.in_order
    stand_in = StandIn.like(schema, histories=histories)
    weighed = audited.model_copy(update=_weights(generator, counted, stand_in))
    if draws_in_order(weighed, stand_in.schema) != histories:
        raise AuditError(
            f"the stand-in must be fitted as the real table is, and generator={generator.name!r} draws histories of "
            "one of the two alone; nothing is known, so leave the audit out for this one"
        )
    schedule = weighed.schedule(stand_in.schema)
    if schedule is None:
        raise AuditError(f"generator={generator.name!r} plans no release, so that nothing can be audited; set epsilon")
    limit_s = math.inf if time_limit_s is None else time_limit_s
    attacked, of_choices, of_size = (
        1 - share * (1 - confidence) for share in (1 - CHOICES_SHARE - 2 * SCALE_SHARE, CHOICES_SHARE, SCALE_SHARE)
    )
    progress(f"audit {generator.name}", 0.0)
    releases, seen = audit_releases(weighed, schedule, stand_in)
    checks, measured, undrawn = _checks(audited, schema, schedule, stand_in, of_choices)
    checks, covered = (releases, *checks), (seen | measured) - undrawn
    subject = _Subject(weighed, schedule, stand_in, attacked, n_fits or _n_fits(schedule), limit_s, progress)
    found, of_noise = _attacked(subject, schema, np.random.default_rng(seed), of_size)
    if subject.steps is not None:
        covered.add(subject.steps.what)
    # Names need no calibration, which costs more than the checks do.
    named = [event.what for event in generator.whole_plan(counted, schedule.delta)(1.0)]
    _check_coverage(named, covered, histories=histories)
    unseen = [each for wrapper in wrappers(generator) for each in wrapper.unaudited(schema)]
    return replace(
        found,
        confidence=confidence,
        bound=max(found.bound, *(_proved(check, schedule.epsilon) for check in (*of_noise, *checks))),
        checks=(*of_noise, *checks),
        covered=tuple(what for what in named if what in covered),
        not_covered=(
            *(what for what in named if what not in covered), *unseen, *OUTSIDE
        ),
    )  # fmt: skip


def _n_fits(schedule: Schedule) -> int:
    """Fits of a stand-in, the fewer the more each releases; at least a handful."""
    n_releases = sum(event.count for event in schedule.events if not isinstance(event, SubsampledGaussianEvent))
    return int(np.clip(MOST_RELEASES // max(n_releases, 1), 5, N_FITS))


def _proved(check: AuditCheck, claimed: float) -> float:
    """The bound of a check, above the claim where it found a fault, however slight."""
    return check.bound if check.fault is None else max(check.bound, math.nextafter(claimed, math.inf))


def _attacked(
    subject: _Subject, schema: Schema, rng: np.random.Generator, confidence: float
) -> tuple[Audit, tuple[AuditCheck, ...]]:
    if subject.steps is not None:
        wide = StandIn.like(schema, N_CODES_BESIDE_STEPS, histories=subject.stand_in.histories)
        return _of_network(subject, subject.steps, wide, rng, confidence)
    patience = subject.patience(1.0, subject.tell)
    trials = trials_of_counts(subject.generator, subject.schedule, subject.stand_in, patience, rng)
    checks = (of_scale(subject.schedule, trials.residuals, confidence),)
    return of_trials(subject.schedule, trials, subject.confidence), checks


def _checks(
    generator: PrivateGenerator, schema: Schema, schedule: Schedule, stand_in: StandIn, confidence: float
) -> tuple[tuple[AuditCheck, ...], set[str], set[str]]:
    """The checks of mechanisms on tables of their own, the events that they cover, and choices that none is made of. A
    rehearsal sees the scores of choices, and not how one is drawn.
    """
    choices = audit_choices(generator, stand_in.schema, schedule, confidence)
    domain, measured = audit_domain(generator, schema, schedule) or (None, set())
    found = (*choices, domain, audit_split(schema, schedule))
    undrawn = set() if choices else {event.what for event in schedule.events if isinstance(event, SelectionEvent)}
    return tuple(check for check in found if check is not None), measured, undrawn


def _check_coverage(named: Sequence[str], covered: AbstractSet[str], *, histories: bool) -> None:
    """Refuse an audit that looked at nothing of a claim: no verdict may rest on it."""
    for fit in (FIRST_ROWS, LATER_ROWS) if histories else ("",):
        of_fit = [what for what in named if what.endswith(fit)]
        if of_fit and covered.isdisjoint(of_fit):
            raise AuditError(
                f"an audit must look at the events of the claim, and of {fit or 'these'} it saw none; leave it out for "
                "this one"
            )


def _shortcuts(generator: PrivateGenerator) -> dict[str, Any]:
    """Parameters that only what follows the noise depends on, or that change no noise."""
    inmost = unwrapped(generator)
    known = type(inmost).model_fields
    short: dict[str, Any] = {name: value for name, value in SHORTCUTS.items() if name in known}
    for name in (name for name in WIDTHS if name in known):
        widths = getattr(inmost, name) or (WIDEST, WIDEST)
        short[name] = tuple(min(width, WIDEST) for width in widths)
    return short | {name: each for wrapper in wrappers(generator) for name, each in wrapper.shortcuts.items()}


def _weights(generator: PrivateGenerator, schema: Schema, stand_in: StandIn) -> dict[str, Any]:
    """A workload by which the stand-in's columns weigh what those of the schema do, as far as it has columns for that.
    Where noise depends on weights, a fit draws it once for each weight of a pair: two columns of each weight make all
    of these, if there are two.
    """
    inmost = unwrapped(generator)
    if "workload" not in type(inmost).model_fields:
        return {}
    workload, focus = getattr(inmost, "workload"), getattr(inmost, "focus")  # noqa: B009
    held = Counter(column_weights(workload, focus, schema).values()).most_common()
    names = stand_in.schema.modeled
    weights = [weight for turn in (1, 2) for weight, n_columns in held if n_columns >= turn]
    weights += [held[0][0]] * len(names)
    return {"workload": dict(zip(names, weights, strict=False))}


def _of_network(
    subject: _Subject, event: SubsampledGaussianEvent, stand_in: StandIn, rng: np.random.Generator, confidence: float
) -> tuple[Audit, tuple[AuditCheck, ...]]:
    """The audit of steps and of the counts before them, each with half of the error, and checks of their noise."""
    generator, schedule = subject.generator, subject.schedule
    each = 1 - (1 - subject.confidence) / 2
    subject.tell(0.0)
    present, limit_s = rng.random(N_STEP_CANARIES) < 1 / 2, STEPS_SHARE * subject.limit_s
    log = StepLog(present, min(event.count, MOST_STEPS), limit_s, rng, lambda share: subject.tell(STEPS_SHARE * share))
    run = run_of_steps(generator, schedule, event, subject.stand_in, log)
    steps = of_steps(schedule, run, each)
    patience = subject.patience(FITS_SHARE, lambda share: subject.tell(STEPS_SHARE + share * (1 - STEPS_SHARE)))
    trials = trials_of_counts(generator, schedule, stand_in, patience, rng)
    counts = of_counts(schedule, trials, each)
    drawn = (of_noise_in_steps(schedule, run, confidence), of_scale(schedule, trials.residuals, confidence))
    return Audit.of_parts(subject.claim, (steps, counts), subject.confidence), drawn
