"""Charge first, draw second: a budget holds a schedule, and a draw that is not in it does not happen."""

import copy
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import metadata
from typing import Any

import numpy as np

from synth.dp.events import (
    Event,
    GaussianEvent,
    LaplaceEvent,
    RandomizedResponseEvent,
    SelectionEvent,
    StabilityEvent,
    SubsampledGaussianEvent,
)
from synth.dp.mechanisms import Noise, Oracle, Steps, SystemNoise, Value, name_stable, release, select
from synth.dp.noise_journal import Journal
from synth.dp.schedule import Schedule, require_declared
from synth.dp.statement import CURATOR, LOCAL, RELATION, REPLACE, LedgerNote, PrivacyStatement
from synth.errors import BudgetError
from synth.schema import Schema

SCHEMA_CAVEAT = (
    "Everything that the schema says is taken to be public, and epsilon does not cover it: the names, order, kinds and "
    "dtypes of the columns, bounds, categories, decimals and steps, where values may be missing, how texts and "
    "identifiers are written, relations between columns, n_units. Whoever declared it asserts that, also of what was "
    "read off the rows to propose it."
)
CAVEATS = (
    "The guarantee is for the rows that were fitted, and for the source table where these were split off by hashes of "
    "units, as jobs do: another split or extract of it is another release of the same table.",
    "The mechanisms refuse no row: values beyond the declared bounds are clamped, unknown categories are treated as "
    "one, and rows without an entity left out. What refuses a table for its values before that does so outside this "
    'guarantee: understudy fit unless --clamp is set, and a job with outside = "refuse".',
    SCHEMA_CAVEAT,
    "Checking the table against its schema, evaluating and the internal report read real rows outside this guarantee.",
    "Choosing to publish because exact measures came out well is a release that this guarantee does not cover.",
)


LOCAL_CAVEATS = (
    "The guarantee is for what leaves each respondent, and each report has it by itself: it does not depend on other "
    "respondents, on the collector or on the number of reports.",
    "Whoever randomizes rows that were collected before has seen them: the guarantee begins behind the randomization.",
    "Whoever answers anew at a later time loses as much once more.",
    SCHEMA_CAVEAT,
    "Checking the table against its schema, evaluating and the internal report read real rows outside this guarantee.",
)
STEPS_CAVEAT = (
    "Noise of DP-SGD is drawn in double precision by a generator keyed by the operating system; what floating point "
    "arithmetic itself might give away of a sum is not ruled out."
)
LIBRARIES = ("dp-accounting", "opendp", "numpy")
PURE = "sum of pure losses"  # the accountant of local claims


class Budget:
    """The budget of one private fit. Drawing spends it; statement and draws come from the same schedule."""

    def __init__(
        self,
        schedule: Schedule,
        noise: Noise | None = None,
        journal: Journal | None = None,
        ledger: LedgerNote | None = None,
    ) -> None:
        self.schedule = schedule
        self._noise: Noise = SystemNoise() if noise is None else noise
        if journal is not None and not self._noise.private:
            raise BudgetError("a journal keeps private noise only, and this noise is injected; leave the journal out")
        self._journal = journal
        self._ledger = ledger
        self._spent: Counter[Event] = Counter()
        self._stated = schedule

    def part(self, events: Sequence[Event]) -> "Budget":
        """The same budget for a fit that draws these events alone, each for once; it states the whole schedule."""
        for event in events:
            self._charge(event, event.count)
        part = copy.copy(self)
        part.schedule, part._spent = replace(self.schedule, events=tuple(events)), Counter()
        return part

    def release(self, exact: np.ndarray, event: GaussianEvent | LaplaceEvent) -> np.ndarray:
        """Noisy numbers in place of exact ones, *Sensitive*, of any shape; spends one of the event's releases."""
        noisy = self._charge_then_draw(event, lambda: release(exact, event, self._noise).tolist())
        if np.size(noisy) != exact.size:
            raise BudgetError("the journal holds a value of another shape; start anew (what was drawn stays spent)")
        return np.array(noisy, dtype=np.int64 if event.whole else np.float64).reshape(exact.shape)

    def release_each(self, exact: Sequence[np.ndarray], event: GaussianEvent | LaplaceEvent) -> list[np.ndarray]:
        return [self.release(each, event) for each in exact]

    def choose(self, scores: np.ndarray, score_sensitivity: float, event: SelectionEvent) -> int:
        """The index of a noisy best score, *Sensitive*, of public candidates; spends one of the event's choices."""
        return int(self._charge_then_draw(event, lambda: select(scores, score_sensitivity, event, self._noise)))

    def name_stable(self, counts: Mapping[Value, int], event: StabilityEvent) -> list[Value]:
        """The values whose counts, *Sensitive*, are large by their noise, the largest first; spends one histogram."""
        return list(self._charge_then_draw(event, lambda: name_stable(counts, event, self._noise)))

    def respond(self, answers: Sequence[tuple[np.ndarray, Oracle]], event: RandomizedResponseEvent) -> list[np.ndarray]:
        """The support of each answer to each question, from reports that respondents randomize; spends all answers.

        `answers`: *Sensitive*. For each question the true answers of those who are asked it, -1 for none, shape (n,),
        and how they randomize. Nobody is asked more questions than the event counts.
        """
        respond = self._noise.respond
        drawn = self._charge_then_draw(event, lambda: [respond(*answer).tolist() for answer in answers], event.count)
        return [np.array(support, dtype=np.int64) for support in drawn]

    @property
    def is_resumable(self) -> bool:
        """True if a journal keeps the draws, so that work cut short may go on."""
        return self._journal is not None

    def stretch(self, event: SubsampledGaussianEvent, n_steps: int, work: Callable[[Steps], str]) -> str:
        """The digest of what a stretch of DP-SGD steps left; spends so many of the event's releases."""
        return str(self._charge_then_draw(event, lambda: work(Steps(event, n_steps, self._noise)), n_steps))

    def _charge_then_draw(self, event: Event, draw: Callable[[], Any], n_releases: int = 1) -> Any:
        self._charge(event, n_releases)
        return draw() if self._journal is None else self._journal.once(event.record(), draw, n_releases)

    def _charge(self, event: Event, n_releases: int) -> None:
        planned = sum(e.count for e in self.schedule.events if e == event)
        if self._spent[event] + n_releases > planned:
            raise BudgetError(f"the budget holds no further release of {event.what!r}; plan it before drawing")
        self._spent[event] += n_releases

    def statement(self, schema: Schema) -> PrivacyStatement:
        return statement_of(self._stated, schema, ledger=self._ledger, private=self._noise.private)


def statement_of(
    schedule: Schedule, schema: Schema, *, ledger: LedgerNote | None = None, private: bool = True
) -> PrivacyStatement:
    """The privacy statement of a schedule: local where respondents randomize all that is read."""
    events = schedule.events
    steps = any(isinstance(event, SubsampledGaussianEvent) for event in events)
    local = schedule.delta == 0 and all(isinstance(event, RandomizedResponseEvent) for event in events)
    libraries = ("numpy",) if local else (*LIBRARIES, "torch") if steps else LIBRARIES
    return PrivacyStatement(
        epsilon=schedule.epsilon,
        delta=schedule.delta,
        unit=schema.unit,
        n_units=require_declared(schema),
        max_rows_per_unit=schema.max_rows_per_unit,
        accountant=PURE if local else "PLD (dp-accounting)",
        epsilon_rdp=schedule.epsilon_rdp,
        events=tuple(event.record() for event in events),
        relation=REPLACE if local else RELATION,
        versions={name: metadata.version(name) for name in libraries},
        ledger=ledger,
        caveats=LOCAL_CAVEATS if local else (*CAVEATS, STEPS_CAVEAT) if steps else CAVEATS,
        private=private,
        trust=LOCAL if local else CURATOR,
    )
