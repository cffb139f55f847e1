"""An audit of the measurement log: does a private fit leak more than its epsilon allows?

The attacker holds the measurement log: every number that a fit released with Gaussian noise, with its noise. They know
the program and the whole table but for one unit, the canary, and they know the canary's rows. They want to say whether
the canary was in the table, and win where they are right more often than epsilon and delta allow. That is the very
attacker of the guarantee, far stronger than anyone who sees a synthetic table, so that a fault in the noise shows after
a few hundred fits. The table is a public stand-in made of constants: an audit reads no real row and costs no budget.

For a log y with noise sigma, in which the canary adds c to exact counts x, the best test adds up c (y - x - c/2) /
sigma^2 over all releases, and says "in" above zero. Zero is where the two errors are alike under the claim; since it is
fixed in advance, no trials are spent on choosing a threshold. The test's two error rates have exact upper ends, and no
Gaussian mechanism with mu below mu_low = Phi^-1(1 - FPR) - Phi^-1(FNR) allows them. At the claimed delta, mu_low is an
epsilon: the bound. A bound above the claim disproves it, at the stated confidence; one below it proves nothing beyond
that no fault of this kind was found.

What is left out: choices (their noise is no Gaussian), the histogram of rows per entity, measured domains. A true
bound, then, but one that a fault in those parts alone does not move.

Source: Nasr et al. 2023, "Tight auditing of differentially private machine learning" (2302.07956), section 4; Balle &
Wang 2018 (1805.06530), Theorem 8; without the Gaussian assumption Kairouz, Oh, Viswanath 2015 (1311.0776).
"""

import math
import time
from contextlib import suppress

import numpy as np
from scipy import optimize, special

from evaluate.intervals import clopper_pearson
from evaluate.privacy.audit_result import Audit, AuditError
from evaluate.privacy.audit_stand_in import N_CANARIES, N_COLUMNS, LogComplete, MeasurementLog, StandIn
from synth.dp.budget import Budget
from synth.dp.calibration import resolve_delta
from synth.dp.events import SubsampledGaussianEvent
from synth.dp.schedule import Schedule
from synth.generators.base import PrivateGenerator
from synth.progress import Progress, quiet
from synth.schema import Schema

CONFIDENCE = 0.99
"""Of 10,000 audits of the tightest true claim about one says that it is exceeded; at 95% it would be 25.

Fewer than the confidence alone promises, since both error rates have to come out low at once.
"""
N_FITS = 160
"""At epsilon 3 enough to find half the noise in 999 audits of a thousand."""
TIME_LIMIT_S = 20.0
SHORTCUTS = {"n_iterations": 1, "n_draws": 1_000}
"""Parameters of what follows the noise: it may be worse in an audit, and what it costs in privacy is nothing."""
TIE = 1e-9


def audit(
    generator: PrivateGenerator,
    schema: Schema,
    *,
    n_fits: int = N_FITS,
    confidence: float = CONFIDENCE,
    time_limit_s: float | None = TIME_LIMIT_S,
    seed: int = 0,
    progress: Progress = quiet,
) -> Audit:
    """The audit of a generator at its own epsilon and delta.

    Args:
        generator: with an epsilon.
        schema: declared; it gives the unit, k, n_units and with them delta. No column of it is used.
        n_fits: how often a stand-in is fitted, at least 1.
        confidence: of the bound, in (0, 1).
        time_limit_s: seconds after which no further fit is begun; none: no limit. The clock knows no result, so that
            stopping early costs strength and nothing else.
        seed: of which canaries are in; never of the noise.
        progress: told the share done.

    Raises:
        AuditError: the generator has no epsilon, reads by DP-SGD, or releases no counts of the stand-in; nothing is
            known.
        BudgetError: the schema is not declared, or the budget cannot be met; nothing was fitted.
    """
    if generator.epsilon is None:
        raise AuditError(f"an audit needs a claim, and generator={generator.name!r} has epsilon=none; set epsilon")
    stand_in = StandIn.like(schema)
    shortcuts = {name: value for name, value in SHORTCUTS.items() if name in type(generator).model_fields}
    audited = generator.model_copy(update={**shortcuts, "delta": resolve_delta(generator.delta, schema)})
    schedule = audited.schedule(stand_in.schema)
    assert schedule is not None
    if any(isinstance(event, SubsampledGaussianEvent) for event in schedule.events):
        raise AuditError(
            f"the audit tests noise on counts, and generator={generator.name!r} reads most by DP-SGD, which no audit "
            "here tests; its claim rests on its accounting and on the tests of its steps"
        )
    rng = np.random.default_rng(seed)
    until = math.inf if time_limit_s is None else time.monotonic() + time_limit_s
    false_positives = false_negatives = n_done = 0
    while n_done < n_fits and (n_done == 0 or time.monotonic() < until):
        progress(f"audit {generator.name}", n_done / n_fits)
        present = rng.permutation(N_CANARIES) < N_CANARIES // 2
        said = guesses(stand_in, measurement_log(audited, schedule, stand_in, present), present)
        false_positives += int((said & ~present).sum())
        false_negatives += int((~said & present).sum())
        n_done += 1
    return conclude(
        (schedule.epsilon, schedule.delta), (false_positives, false_negatives), n_done * N_CANARIES // 2, confidence,
        ran_on=f"a public stand-in of {N_COLUMNS} columns and {len(stand_in.table(present)):,} rows, fitted "
        f"{n_done:,} times with {N_CANARIES} canaries of {stand_in.k} row{'s' if stand_in.k > 1 else ''} each",
    )  # fmt: skip


def measurement_log(
    generator: PrivateGenerator, schedule: Schedule, stand_in: StandIn, present: np.ndarray
) -> MeasurementLog:
    """What one fit of the stand-in drew.

    Args:
        generator: whose schedule it is.
        schedule: calibrated once for all fits.
        stand_in: public.
        present: which canaries are in, shape (N_CANARIES,).
    """
    log = MeasurementLog(sum(event.count for event in schedule.events))
    with suppress(LogComplete):
        generator.fit(stand_in.table(present), stand_in.schema, budget=Budget(schedule, log))
    return log


def guesses(stand_in: StandIn, log: MeasurementLog, present: np.ndarray) -> np.ndarray:
    """For each canary whether the attacker says "in", shape (N_CANARIES,), each from its own cells.

    Args:
        stand_in: public.
        log: of one fit.
        present: which canaries are in. It serves to check that a release has the form that is expected, and no guess
            rests on it.

    Raises:
        AuditError: no release counts the codes of the stand-in.
    """
    score = np.zeros(N_CANARIES)
    n_used = 0
    for release in log.releases:
        cells = np.flatnonzero(release.exact)
        if len(cells) != N_CANARIES:
            continue
        cells = cells[np.argsort(release.exact[cells])]  # more rows of every next code, with its canary or without
        weight = stand_in.weight(release.exact, cells, present)
        if weight is None:
            continue
        n_used += 1
        canary = weight * stand_in.k
        surplus = release.published[cells] - weight * stand_in.background - canary / 2
        score += canary * surplus / release.sigma**2
    if n_used == 0:
        raise AuditError("the audit found no released count that tells its canaries apart; leave it out for this one")
    # Whole numbers tie; each way in half of the cases, whether the canary is in or not.
    return score + np.where(np.arange(N_CANARIES) % 2, TIE, -TIE) > 0


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
        bound=gaussian_epsilon(_mu(wrong_in[2], wrong_out[2]), delta),
        distribution_free=max(_free(wrong_in[2], wrong_out[2], delta), _free(wrong_out[2], wrong_in[2], delta)),
        strongest=gaussian_epsilon(_mu(never, never), delta),
        confidence=confidence,
        n_trials=2 * n_each,
        false_positives=wrong_in,
        false_negatives=wrong_out,
        ran_on=ran_on,
    )


def _mu(one: float, other: float) -> float:
    """The mu that two error rates need at least of a Gaussian mechanism."""
    return float(special.ndtri(1 - one) - special.ndtri(other))


def _free(one: float, other: float, delta: float) -> float:
    """Epsilon that two error rates need at least: 1 - other <= e^epsilon one + delta."""
    surplus = 1 - other - delta
    return max(0.0, math.log(surplus / one)) if surplus > 0 else 0.0


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The exact epsilon of a Gaussian mechanism with sensitivity / sigma = mu, at delta; 0 where mu is not positive.

    Source: Balle & Wang 2018, Theorem 8.

    >>> round(gaussian_epsilon(1.0, 1e-5), 3)
    4.377
    """
    if mu <= 0:
        return 0.0

    def excess(epsilon: float) -> float:
        first, second = (float(special.log_ndtr(sign * mu / 2 - epsilon / mu)) for sign in (1, -1))
        return math.exp(first) - math.exp(epsilon + second) - delta

    if excess(0.0) <= 0:
        return 0.0
    above = mu**2 / 2 + mu * math.sqrt(2 * math.log(1 / delta))  # zCDP's bound (Bun & Steinke 2016, Proposition 1.3)
    return float(optimize.brentq(excess, 0.0, above))
