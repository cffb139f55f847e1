"""Stand-in respondents and the wire that their reports pass on the way to a count.

Respondents are made up: all rows of a table are alike, with answers from the declared domain. The generator's own `fit`
randomizes them by the system's randomness. Two things alone are added. A source of noise keeps each report as it is
counted, and a budget ends the fit behind its reports. The wire holds every count against the reports that passed: what
is counted without a report would be an answer that nobody randomized.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from evaluate.privacy.audit.neighboring_tables import without_constraints
from evaluate.privacy.audit.stand_in import LogComplete
from synth.dp.budget import Budget
from synth.dp.events import RandomizedResponseEvent
from synth.dp.mechanisms import Oracle, SystemNoise
from synth.dp.schedule import Schedule
from synth.generators.local import Local
from synth.local.oracles import NO_ANSWER, DirectEncoding
from synth.local.survey import Survey
from synth.schema import Schema

Look = Callable[[int, Any, np.ndarray], np.ndarray]
"""Numbers, one for each report, by the question's place, its oracle and the reports."""
_SEED = 0  # Of values within a code, which no report tells


@dataclass(frozen=True)
class Passed:
    cells: np.ndarray  # the true answers that went in, -1 for none; shape (n,)
    seen: np.ndarray  # the numbers that were made of the reports, one for each; shape (n,)
    carried: bool


class Wire(SystemNoise):
    def __init__(self, look: Look) -> None:
        super().__init__()
        self._look = look
        self.passed: list[Passed] = []
        """The reports to each question, in turn."""

    def respond(self, cells: np.ndarray, oracle: Oracle) -> np.ndarray:
        """The support of each answer, by the system's noise; arguments as of `SystemNoise.respond`."""
        seen: list[np.ndarray] = []
        tapped: Any = copy(oracle)
        carried, count = np.zeros(oracle.size, dtype=np.int64), tapped.supported
        place = len(self.passed)

        def supported(reports: np.ndarray) -> np.ndarray:
            nonlocal carried
            support = np.asarray(count(reports))
            carried = carried + support
            seen.append(self._look(place, oracle, reports))
            return support

        object.__setattr__(tapped, "supported", supported)  # of this copy alone, which is frozen
        counted = super().respond(cells, tapped)
        numbers = np.concatenate([np.zeros(0, dtype=np.int64), *seen])
        self.passed.append(Passed(cells, numbers, len(numbers) == len(cells) and np.array_equal(counted, carried)))
        return counted


class Listening(Budget):
    def __init__(self, schedule: Schedule, wire: Wire) -> None:
        super().__init__(schedule, wire)
        self._wire = wire
        self.carried = False
        """True if each number that the fit got is of reports that passed the wire."""

    def respond(self, answers: Sequence[tuple[np.ndarray, Oracle]], event: RandomizedResponseEvent) -> list[np.ndarray]:
        """As of `Budget`, and then no further."""
        counted = super().respond(answers, event)
        passed = self._wire.passed
        self.carried = len(passed) == len(counted) and all(one.carried for one in passed)
        raise LogComplete


@dataclass(frozen=True)
class Respondents:
    generator: Local
    schema: Schema
    survey: Survey

    @classmethod
    def of(cls, generator: Local, schema: Schema) -> "Respondents":
        plain = without_constraints(schema, histories=False)
        asked = type(generator).asking(generator.survey(schema))
        return cls(asked, plain, asked.survey(plain))

    def rows(self, codes: Mapping[str, int], n: int, n_rows_each: int = 1) -> pd.DataFrame:
        wanted = np.array([[codes[name] for name in self.survey.columns]])
        row = self.survey.discretizer.decode(wanted, np.random.default_rng(_SEED))
        frame = row.iloc[np.zeros(n * n_rows_each, dtype=np.int64)].reset_index(drop=True)
        if self.schema.entity is not None:
            frame[self.schema.entity] = np.repeat(np.arange(n), n_rows_each)
        return frame

    def cells(self, codes: Mapping[str, int]) -> list[int]:
        """The answer to each question that a fit makes of such a respondent."""
        row = self.survey.codes(self.rows(codes, 1))
        return [int(question.cells(row)[0]) for question in self.survey.questions]

    def fitted(self, frame: pd.DataFrame, n_slots: int, look: Look) -> tuple[list[Passed], bool]:
        """The reports of a fit, by question, and whether these are all that the fit heard."""
        schema = self.schema.model_copy(update={"n_units": n_slots})
        wire = Wire(look)
        budget = Listening(self.survey.schedule, wire)
        with suppress(LogComplete):
            self.generator.fit(frame, schema, budget=budget)
        return wire.passed, budget.carried

    def asked(self, answers: Sequence[np.ndarray], look: Look) -> list[Passed]:
        """The reports of so many answers to each question, without a fit. `answers`: to each question, shape (n,) each.
        Where counts are of more than the reports, or of none, each answer counts as its own report.
        """
        wire = Wire(look)
        budget = Budget(self.survey.schedule, wire)
        oracles = (question.oracle for question in self.survey.questions)
        budget.respond(list(zip(answers, oracles, strict=True)), self.survey.event)
        if len(wire.passed) == len(answers) and all(one.carried for one in wire.passed):
            return wire.passed
        return [Passed(cells, cells - NO_ANSWER, carried=False) for cells in answers]


def evidence(one: Sequence[int], other: Sequence[int]) -> Look:
    """A look at which of two answers a report speaks for: 1 the one, -1 the other, 0 neither or both."""

    def look(place: int, oracle: Any, reports: np.ndarray) -> np.ndarray:
        if isinstance(oracle, DirectEncoding):
            return np.asarray((reports == one[place]).astype(np.int64) - (reports == other[place]))
        return np.asarray(reports[:, one[place]].astype(np.int64) - reports[:, other[place]])

    return look


def pattern(compared: Sequence[Sequence[int]]) -> Look:
    """A look at a whole symbol, or at the bits of all answers that are compared."""

    def look(place: int, oracle: Any, reports: np.ndarray) -> np.ndarray:
        if isinstance(oracle, DirectEncoding):
            return reports
        cells = [cell for cell in dict.fromkeys(compared[place]) if cell != NO_ANSWER]
        return np.asarray(reports[:, cells].astype(np.int64) @ (1 << np.arange(len(cells))))

    return look
