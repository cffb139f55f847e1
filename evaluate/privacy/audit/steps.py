"""An audit of the steps of DP-SGD by canaries in one training run: how well can their gradients be told from the noise?

The attacker sees every noisy sum of a training run and knows the program, the table, and when which unit was sampled,
but for the canaries: units of which each is in by the toss of a coin, and each has a coordinate of the sums to itself.
That is the worst that a unit can do, so that one run is enough: 50,000 canaries are 50,000 trials. The run is the
system's own `fit` of a public stand-in, with the system's noise, but:

- Canaries are units more, which the system samples at the rate of the others.
- What a canary adds to a sum is the norm of the exact sum of a sample of one unit, which has three times the rows that
  a fit may use: so missing clipping shows, and clipping by layer or by row. Of every hundred samples one is empty, and
  its sum must be zero.
- The system adds its noise, at the sigma that the training code asks for, to sums and coordinates at once. The training
  goes on with its own part: it never meets a canary, and canaries do not depend on each other.

A canary's score is the sum of its coordinate over all steps, weighted by what it adds over the noise's variance, held
against a threshold fixed in advance. What this cannot see stands in `OUTSIDE` of `evaluate.audit_result`.

Source: Steinke, Nasr, Jagielski 2023 (2305.08846), section 5, for one run and canaries that are gradients; Nasr et al.
2023 (2302.07956) for the attacker.
"""

import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from scipy import stats

from evaluate.audit_result import AuditError
from evaluate.privacy.audit.counts import LogComplete, StandIn
from evaluate.privacy.audit.power import Residuals
from synth.dp.budget import Budget
from synth.dp.events import SubsampledGaussianEvent
from synth.dp.mechanisms import SystemNoise
from synth.dp.schedule import Schedule
from synth.generators.base import PrivateGenerator, unwrapped, wrappers

N_STEP_CANARIES = 50_000
"""Canaries of a run. They cost a second or two; at epsilon 1 they find contributions that are two thirds too large."""
MOST_STEPS = 2_000  # Of a training run; of a longer one these are held against as many
EMPTY_EVERY = 100
EXPECTED_SAMPLE, N_UNITS = 16, (256, 20_000)
"""Units in a sample of the stand-in, as expected, within so many units in all: with fewer, networks diverge."""


class StepLog(SystemNoise):
    """The system's noise, which samples canaries beside the units and adds them to the sums."""

    private = False

    def __init__(
        self,
        present: np.ndarray,  # which canaries are in, shape (n_canaries,)
        n_planned: int,
        limit_s: float,
        rng: np.random.Generator,
        tell: Callable[[float], None] = lambda _: None,
    ) -> None:
        super().__init__()
        self.present, self.n_planned, self.limit_s, self.rng, self.tell = present, n_planned, limit_s, rng, tell
        self.score = np.zeros(len(present))  # of each canary, up to a threshold that all share, shape (n_canaries,)
        self.halfway, self.n_done, self.sizes = 0.0, 0, list[float]()
        self.least_noise, self.most_sampled, self.residuals = math.inf, 0.0, Residuals()
        self._canary_at = self._sampled = np.zeros(0, dtype=np.int64)
        self._rate, self._is_probed, self._until = 0.0, False, math.inf

    def sample(self, n_units: int, sampling_rate: float) -> np.ndarray:
        """One unit, or none; whom the system sampled of the canaries is kept."""
        if self.n_done == 0:  # what a fit does before its first step, as loading its libraries, is not the audit's time
            self._until = time.monotonic() + self.limit_s
        n_present = int(self.present.sum())
        if len(self._canary_at) != n_units + n_present:
            self._canary_at = np.full(n_units + n_present, -1)  # the canary at each position, -1 where a unit is
            positions = self.rng.permutation(len(self._canary_at))[:n_present]
            self._canary_at[positions] = np.flatnonzero(self.present)
        canaries = self._canary_at[super().sample(n_units + n_present, sampling_rate)]
        self._sampled, self._rate = canaries[canaries >= 0], sampling_rate
        self.most_sampled = max(self.most_sampled, sampling_rate)
        self._is_probed = self.n_done % EMPTY_EVERY != EMPTY_EVERY - 1
        return np.full(int(self._is_probed), self.n_done % n_units, dtype=np.int64)

    def floats(self, values: np.ndarray, sigma: float) -> np.ndarray:
        """The sum with the system's noise; the canaries' coordinates are noised beside it and scored."""
        size = self._size(values)
        exact = np.zeros(len(self.present))
        exact[self._sampled] = size
        noisy = super().floats(np.concatenate([values.ravel(), exact]), sigma)
        self.residuals.add(noisy[values.size :] - exact, sigma, whole=False)
        if size > 0:
            self.least_noise = min(self.least_noise, sigma / size)
        weight = size / sigma**2
        self.score += weight * noisy[values.size :]
        self.halfway += weight * size * self._rate / 2
        self.n_done += 1
        if self.n_done % EMPTY_EVERY == 0:
            self.tell(self.n_done / self.n_planned)
        if self.n_done == self.n_planned or time.monotonic() > self._until:
            raise LogComplete
        return noisy[: values.size].reshape(values.shape)

    def _size(self, total: np.ndarray) -> float:
        """A canary's addition at this step: the norm of the one unit's sum, 0 where no canary was handed out."""
        size = float(np.linalg.norm(total))
        if not math.isfinite(size):
            raise AuditError(
                f"a unit's sum must be finite, and at step={self.n_done} it is not; what the noise hides "
                "is then not to be told, so do not rely on the claim"
            )
        if self._is_probed:
            self.sizes.append(size)
        elif size > 0:
            raise AuditError(
                f"the sum over no unit must be zero, and at step={self.n_done} it is not; what a unit adds is then not "
                "to be told, so leave the audit out for this one"
            )
        return size


@dataclass(frozen=True)
class StepTrials:
    scores: np.ndarray  # of each canary, above 0 where the attacker says "in", shape (n_canaries,)
    present: np.ndarray  # whether it is, shape (n_canaries,)
    event: SubsampledGaussianEvent  # the steps that were done
    n_planned: int
    share: float  # of the clipping bound, what a unit adds to a sum on average
    noise_left: float
    most_sampled: float
    residuals: Residuals

    @property
    def errors(self) -> tuple[int, int]:
        is_in = self.scores > 0
        return int((is_in & ~self.present).sum()), int((~is_in & self.present).sum())

    @property
    def errors_without_noise(self) -> tuple[int, int]:
        """About what the same attacker would have of either, where there is no noise at all."""
        n, rate = self.event.count, self.event.sampling_rate
        missed = float(stats.binom.cdf(math.floor(n * rate / 2), n, rate)) if rate < 1 else 0.0
        return 0, round(missed * int(self.present.sum()))

    @property
    def ran_on(self) -> str:
        done, planned = self.event.count, self.n_planned
        steps = f"{done:,} steps" if done == planned else f"the first {done:,} of {planned:,} steps"
        return (
            f"{steps} of one training run on a public stand-in, with {len(self.present):,} canaries, each in by the "
            f"toss of a coin and as large as a unit of the run ({self.share:.2f} of the clipping bound)"
        )


def run_of_steps(
    generator: PrivateGenerator, schedule: Schedule, event: SubsampledGaussianEvent, stand_in: StandIn, log: StepLog
) -> StepTrials:
    n_units = int(np.clip(math.ceil(EXPECTED_SAMPLE / event.sampling_rate), *N_UNITS))
    with suppress(LogComplete):
        generator.fit(stand_in.probes(n_units), stand_in.schema, budget=Budget(schedule, log))
    if not any(log.sizes):
        raise AuditError("the audit found no step at which a unit adds to the sum; leave it out for this one")
    bounds = {what: bound for wrapper in wrappers(generator) for what, bound in wrapper.clips.items()}
    bound = bounds.get(event.what) or getattr(unwrapped(generator), "max_grad_norm", 1.0)
    done = SubsampledGaussianEvent(event.what, event.noise_multiplier, event.sampling_rate, log.n_done)
    return StepTrials(
        log.score - log.halfway, log.present, done, event.count, float(np.mean(np.array(log.sizes) / bound)),
        log.least_noise / event.noise_multiplier, log.most_sampled, log.residuals,
    )  # fmt: skip
