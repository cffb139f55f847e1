"""Audits by canaries: can what a fit releases tell whether a unit was there? In counts, and in steps of DP-SGD.

**Counts.** Every row of the table holds one code throughout. Of each code there is a number of rows that no other code
has, and one canary: a unit that is there or not. So whatever counts rows has one cell for each canary. Where a unit may
have several rows, a canary has more than a fit may use; in histories it is one of the first rows of its unit, and k - 1
of the later ones. For a log y with noise sigma, in which the canary adds c to exact counts x, the best test adds up
c (y - x - c/2) / sigma^2 over all releases, and says "in" above zero, where both errors are alike under the claim: no
trials are spent on choosing a threshold. Choices, the histogram of rows per entity and measured domains are left out.

**Steps.** The attacker sees every noisy sum of a training run and knows the program, the table, and when which unit was
sampled, but for the canaries: units of which each is in by the toss of a coin, and each has a coordinate of the sums to
itself. That is the worst that a unit can do, so that one run is enough: 50,000 canaries are 50,000 trials. The run is
the system's own `fit` of a public stand-in, with the system's noise, but:

- Canaries are units more, which the system samples at the rate of the others.
- What a canary adds to a sum is the norm of the exact sum of a sample of one unit, which has three times the rows that
  a fit may use: so missing clipping shows, and clipping by layer or by row. Of every hundred samples one is empty, and
  its sum must be zero.
- The system adds its noise, at the sigma that the training code asks for, to sums and coordinates at once. The training
  goes on with its own part: it never meets a canary, and canaries do not depend on each other.

A canary's score is the sum of its coordinate over all steps, weighted by what it adds over the noise's variance, held
against a threshold fixed in advance. What this cannot see stands in `OUTSIDE` of `evaluate.audit_result`.

Source: Nasr et al. 2023, "Tight auditing of differentially private machine learning" (2302.07956), section 4, for the
attacker; Steinke, Nasr, Jagielski 2023 (2305.08846), section 5, for one run and canaries that are gradients.
"""

import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from evaluate.audit_result import AuditError
from evaluate.privacy.audit.bounds import Residuals
from synth.dp.budget import Budget
from synth.dp.events import Event, GaussianEvent, SubsampledGaussianEvent
from synth.dp.mechanisms import SystemNoise
from synth.dp.schedule import Schedule
from synth.generators.base import PrivateGenerator, unwrapped, wrappers
from synth.schema import Schema, build_schema

N_COLUMNS = 5
N_CANARIES = 12
"""Canaries in one fit, and codes of a column; in cells of their own, they are as good as one canary in twelve fits."""
EXCESS = 3  # A canary's rows in multiples of those that a fit may use, where a unit may have several rows
UNIT, ORDER, GROWING = "unit", "order", "growing column"
IDENTIFIER = {"kind": "identifier", "bounds": [0, 10**12]}
OF_TEXT = {"kind": "text", "learn": True, "length": 16}
TIE, ROUNDING = 1e-9, 1e-9


@dataclass(frozen=True)
class StandIn:
    """A public table in place of the real one."""

    schema: Schema
    n_codes: int = N_CANARIES

    @classmethod
    def like(cls, schema: Schema, n_codes: int = N_CANARIES, *, histories: bool = False) -> "StandIn":
        # No more columns than there are: a budget that tells pairs of rows must tell them of the stand-in's, too.
        n_columns = min(N_COLUMNS, len(schema.modeled)) - bool(schema.growing) if histories else N_COLUMNS
        columns: dict[str, Any] = {
            # Declared bins: no noise merges these codes, whatever epsilon is.
            f"column {i + 1}": {"kind": "integer", "bounds": [0, n_codes - 1], "bins": list(range(n_codes + 1))}
            for i in range(n_columns)
        }
        columns |= {f"text {i + 1}": OF_TEXT for i in range(len(schema.texts))}  # their number sets those of a unit
        content = {"status": "declared", "n_units": schema.n_units, "columns": columns}
        if schema.entity is not None:
            columns[UNIT] = IDENTIFIER
            content |= {"entity": UNIT, "max_rows_per_unit": schema.max_rows_per_unit}
        if histories:
            content |= _roles(schema, columns, 6 * n_codes * schema.max_rows_per_unit)
        return cls(build_schema(content), n_codes)

    @property
    def histories(self) -> bool:
        return self.schema.order is not None

    @property
    def k(self) -> int:
        return self.schema.max_rows_per_unit

    @property
    def n_brought(self) -> int:
        """Rows of one canary in the table."""
        return self.k if self.schema.entity is None else EXCESS * self.k

    @property
    def background(self) -> np.ndarray:
        """Units of each code beside the canary: rows of no two codes are as many, with it or without."""
        apart = math.ceil(self.n_brought / max(self.k - 1, 1)) + 1 if self.histories else 2 * self.n_brought
        return apart * np.arange(1, self.n_codes + 1)

    def table(self, present: np.ndarray) -> pd.DataFrame:
        """The table with some of the canaries. `present`: which, shape (n_codes,), boolean."""
        codes, n = np.arange(self.n_codes), int(self.background.sum())
        units = np.concatenate([np.repeat(codes, self.background), codes[present]])
        n_rows = np.full(len(units), self.k if self.histories else 1)
        n_rows[n:] = self.n_brought
        rows = np.repeat(units, n_rows)
        frame = pd.DataFrame(dict.fromkeys(self.schema.modeled, rows))
        if self.schema.entity is not None:
            frame[UNIT] = np.repeat(np.concatenate([np.arange(n), n + codes[present]]), n_rows)
        if self.histories:
            # By their beginning and by their gain, which have cells for each code, whatever k is.
            positions = np.arange(len(rows)) - np.repeat(np.cumsum(n_rows) - n_rows, n_rows)
            for name in self.schema.growing:
                frame[name] = rows * (4 * self.k + 2 * positions)
            if ORDER not in self.schema.growing:
                frame[ORDER] = positions
        return self._with_texts(frame)

    def probes(self, n_units: int) -> pd.DataFrame:
        """A table of units that are all like canaries: each has one code, and more rows than a fit may use."""
        unit = np.repeat(np.arange(n_units), self.n_brought)
        frame = pd.DataFrame(dict.fromkeys(self.schema.modeled, unit % self.n_codes))
        return self._with_texts(frame if self.schema.entity is None else frame.assign(**{UNIT: unit}))

    def _with_texts(self, frame: pd.DataFrame) -> pd.DataFrame:
        return frame.assign(**dict.fromkeys(self.schema.texts, "a made-up text")) if self.schema.texts else frame

    def weights(self, exact: np.ndarray, present: np.ndarray) -> tuple[np.ndarray, float, float] | None:
        """Cells of a release by code, and rows of a unit and a canary in it; `None` where codes are not kept apart."""
        cells = np.flatnonzero(exact)
        if len(cells) != self.n_codes:
            return None
        cells = cells[np.argsort(exact[cells])]  # more rows of every next code, with its canary or without
        causes = np.stack([self.background, present], axis=1).astype(float)
        (weight, added), *_ = np.linalg.lstsq(causes, exact[cells])
        explained = np.allclose(causes @ [weight, added], exact[cells])
        kept_apart = explained and weight > 0 and (added > 0 or not present.any())
        return (cells, float(weight), float(added)) if kept_apart else None


def _roles(schema: Schema, columns: dict[str, Any], most: int) -> dict[str, Any]:
    """The roles of a stand-in's columns in histories, of the kinds that a schema has; their columns are added."""
    roles: dict[str, Any] = {"order": ORDER}
    grows = {"kind": "integer", "bounds": [0, most]}
    columns[ORDER] = grows if schema.order in schema.growing else IDENTIFIER
    if schema.growing and schema.order not in schema.growing:
        columns[GROWING] = grows
        roles["nondecreasing_in_entity"] = [GROWING]
    if "column 2" in columns and any(name in schema.constant_in_entity for name in schema.modeled):
        roles["constant_in_entity"] = ["column 1"]
    return roles


@dataclass(frozen=True)
class GaussianRelease:
    """One release with Gaussian noise as it reached the sampler, flat: exact values, what was published, sigma."""

    event: GaussianEvent
    exact: np.ndarray
    published: np.ndarray
    sigma: float


class LogComplete(Exception):
    """All that was planned is drawn: what a fit makes of it is nothing that an audit needs."""


class MeasurementLog(SystemNoise):
    """The system's noise, which keeps Gaussian releases, and ends a fit with the last draw or at the first step."""

    private = False

    def __init__(self, n_planned: int) -> None:
        super().__init__()
        self.n_planned, self.n_drawn = n_planned, 0
        self.event: Event | None = None
        self.releases: list[GaussianRelease] = []

    def gaussian(self, values: np.ndarray, sigma: float) -> np.ndarray:
        published = super().gaussian(values, sigma)
        if isinstance(self.event, GaussianEvent):
            self.releases.append(GaussianRelease(self.event, values.ravel(), published.ravel(), sigma))
        return published

    def sample(self, n_units: int, sampling_rate: float) -> np.ndarray:
        raise LogComplete


class _Logged(Budget):
    """A budget that tells its log what is drawn."""

    _noise: MeasurementLog

    def _charge_then_draw(self, event: Event, draw: Callable[[], Any], n_releases: int = 1) -> Any:
        self._noise.event = event
        drawn = super()._charge_then_draw(event, draw, n_releases)
        self._noise.n_drawn += n_releases
        if self._noise.n_drawn == self._noise.n_planned:
            raise LogComplete
        return drawn


def measurement_log(
    generator: PrivateGenerator, schedule: Schedule, stand_in: StandIn, present: np.ndarray
) -> MeasurementLog:
    """The noisy measurements of one fit of the stand-in. `present`: which canaries are in, shape (n_codes,)."""
    log = MeasurementLog(sum(e.count for e in schedule.events if not isinstance(e, SubsampledGaussianEvent)))
    with suppress(LogComplete):
        generator.fit(stand_in.table(present), stand_in.schema, budget=_Logged(schedule, log))
    return log


@dataclass
class CountTrials:
    ran_on: str = ""
    n_each: int = 0
    errors: tuple[int, int] = (0, 0)
    residuals: Residuals = field(default_factory=Residuals)
    least: dict[str, float] = field(default_factory=dict)  # by event: the least noise for what a canary added

    def add(self, stand_in: StandIn, log: MeasurementLog, present: np.ndarray) -> None:
        """Count the guesses of one fit, each from the canary's own cells, and the noise that it drew."""
        score, n_used = np.zeros(stand_in.n_codes), 0
        for release in log.releases:
            event, residuals = release.event, release.published - release.exact
            self.residuals.add(residuals, release.sigma, whole=release.exact.dtype.kind in "iu")
            share = release.sigma / event.sigma
            if (told := stand_in.weights(release.exact.astype(float), present)) is not None:
                cells, weight, added = told
                share *= min(event.sensitivity / added, 1.0) if present.any() else 1.0
                canary = weight * (1 if stand_in.histories else stand_in.k)
                surplus = release.published[cells] - weight * stand_in.background - canary / 2
                score, n_used = score + canary * surplus / release.sigma**2, n_used + 1
            self.least[event.what] = min(self.least.get(event.what, 1.0), share * (1 + ROUNDING))
        if not n_used:
            raise AuditError("no count that was released tells the audit's canaries apart; leave it out for this one")
        # Whole numbers tie; each way in half of the cases, whether the canary is in or not.
        is_in = score + np.where(np.arange(stand_in.n_codes) % 2, TIE, -TIE) > 0
        self.errors = (self.errors[0] + int((is_in & ~present).sum()), self.errors[1] + int((~is_in & present).sum()))
        self.n_each += stand_in.n_codes // 2


def trials_of_counts(
    generator: PrivateGenerator,
    schedule: Schedule,
    stand_in: StandIn,
    rng: np.random.Generator,
    *,
    n_fits: int,
    limit_s: float = math.inf,
    tell: Callable[[float], None] = lambda share: None,
) -> CountTrials:
    """Fits of the stand-in, in each of which half of the canaries are in."""
    trials, started = CountTrials(), time.monotonic()
    for n_done in range(n_fits):
        if n_done and time.monotonic() - started >= limit_s:
            n_fits = n_done
            break
        tell(n_done / n_fits)
        present = rng.permutation(stand_in.n_codes) < stand_in.n_codes // 2
        trials.add(stand_in, measurement_log(generator, schedule, stand_in, present), present)
    n_columns, n_rows = len(stand_in.schema.modeled), len(stand_in.table(present))
    trials.ran_on = (
        f"a public stand-in{' of histories' if stand_in.histories else ''} of {n_columns} "
        f"column{'s' if n_columns > 1 else ''} and {n_rows:,} rows, fitted {n_fits:,} times with {stand_in.n_codes} "
        f"canaries of {stand_in.k} row{'s' if stand_in.k > 1 else ''} each"
    )
    return trials


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
