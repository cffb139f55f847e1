"""An audit of the measurement log: can the counts that a fit releases tell whether a unit was there?

For a log y with noise sigma, in which the canary adds c to exact counts x, the best test adds up c (y - x - c/2) /
sigma^2 over all releases, and says "in" above zero. Zero is where the two errors are alike under the claim; since it is
fixed in advance, no trials are spent on choosing a threshold. The fit is that of a stand-in, and some hundred fits of a
dozen canaries each are as many trials.

What is left out: choices (their noise is no Gaussian), the histogram of rows per entity, measured domains; these have
checks of their own. The same fits say how large the noise is that they drew, whatever it hides.

Source: Nasr et al. 2023, "Tight auditing of differentially private machine learning" (2302.07956), section 4.
"""

import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from evaluate.audit_result import AuditError
from evaluate.privacy.audit.power import Residuals, Signal
from evaluate.privacy.audit.stand_in import LogComplete, MeasurementLog, StandIn
from synth.dp.budget import Budget
from synth.dp.events import SubsampledGaussianEvent
from synth.dp.schedule import Schedule
from synth.generators.base import PrivateGenerator

TIE = 1e-9


@dataclass(frozen=True)
class CountTrials:
    errors: tuple[int, int]
    n_each: int
    ran_on: str
    signal: Signal
    residuals: Residuals


@dataclass(frozen=True)
class Patience:
    n_fits: int
    until: float
    tell: Callable[[float], None]

    @property
    def over(self) -> bool:
        """True where no further fit is begun; reads no clock without a limit."""
        return math.isfinite(self.until) and time.monotonic() >= self.until


def trials_of_counts(
    generator: PrivateGenerator, schedule: Schedule, stand_in: StandIn, patience: Patience, rng: np.random.Generator
) -> CountTrials:
    false_positives = false_negatives = n_done = 0
    half = stand_in.n_codes // 2
    signals, residuals = [], Residuals()
    while n_done < patience.n_fits and (n_done == 0 or not patience.over):
        patience.tell(n_done / patience.n_fits)
        present = rng.permutation(stand_in.n_codes) < half
        log = measurement_log(generator, schedule, stand_in, present)
        said, signal = guesses(stand_in, log, present)
        signals.append(signal)
        for release in log.releases:
            residuals.add(release.published - release.exact, release.sigma)
        false_positives += int((said & ~present).sum())
        false_negatives += int((~said & present).sum())
        n_done += 1
    n_columns = len(stand_in.schema.modeled)
    rows = f"{stand_in.k} row{'s' if stand_in.k > 1 else ''}"
    return CountTrials(
        (false_positives, false_negatives),
        n_done * half,
        f"{stand_in.name} of {n_columns} column{'s' if n_columns > 1 else ''} and {len(stand_in.table(present)):,} "
        f"rows, fitted {n_done:,} times with {stand_in.n_codes} canaries of {rows} each",
        min(signals, key=lambda signal: signal.mu),
        residuals,
    )


def measurement_log(
    generator: PrivateGenerator, schedule: Schedule, stand_in: StandIn, present: np.ndarray
) -> MeasurementLog:
    """The noisy measurements of one fit of the stand-in. `present`: which canaries are in, shape (n_codes,)."""
    counted = [event for event in schedule.events if not isinstance(event, SubsampledGaussianEvent)]
    log = MeasurementLog(sum(event.count for event in counted))
    with suppress(LogComplete):
        generator.fit(stand_in.table(present), stand_in.schema, budget=Budget(schedule, log))
    return log


def guesses(stand_in: StandIn, log: MeasurementLog, present: np.ndarray) -> tuple[np.ndarray, Signal]:
    """For each canary whether the attacker says "in", shape (n_codes,), each from its own cells; and from how many."""
    score, used = np.zeros(stand_in.n_codes), list[tuple[float, float]]()
    for release in log.releases:
        cells = np.flatnonzero(release.exact)
        if len(cells) != stand_in.n_codes:
            continue
        cells = cells[np.argsort(release.exact[cells])]  # more rows of every next code, with its canary or without
        weight = stand_in.weight(release.exact, cells, present)
        if weight is None:
            continue
        canary = weight * stand_in.n_counted
        used.append((canary, release.sigma))
        surplus = release.published[cells] - weight * stand_in.background - canary / 2
        score += canary * surplus / release.sigma**2
    if not used:
        raise AuditError("the audit found no released count that tells its canaries apart; leave it out for this one")
    # Whole numbers tie; each way in half of the cases, whether the canary is in or not.
    said = score + np.where(np.arange(stand_in.n_codes) % 2, TIE, -TIE) > 0
    return said, Signal(*np.array(used).T)
