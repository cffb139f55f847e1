"""An audit of a local claim: does any report tell more of its respondent's answers than epsilon allows?

The attacker gets the reports of one respondent, as they leave. They know that these are of one of two rows, and want to
say of which. Under pure epsilon no set of reports is more than e^epsilon times as likely after the one row as after the
other. So Clopper-Pearson ends of two rates bound epsilon from below. Respondents are made up, all alike, with answers
from the declared domain: no real row is read, and no budget is charged. The generator's own fit randomizes them by the
system's randomness, up to its counts, and a `Wire` holds every count against the reports that passed.

Fits of four such tables are compared: rows whose answers are furthest apart in every column, rows of answers at random,
and no rows at all, so that every slot is silent.

- **The whole** takes the two that are furthest apart. Each report speaks for the one, the other, or neither. The
  attacker guesses by single answers, and by all answers of one respondent together. Single answers bound the whole if
  each is randomized on its own; all together assume nothing.
- **Each question** takes all four, each against each.
- **One respondent** takes fits with a single respondent among the slots: how many answers the row goes into, and that
  reports account for every count.

An event is chosen by half of the fits, and tested by the other half. So the attack needs no formula of the mechanism,
and a fault of another kind than less noise shows, too.

Source: Jagielski, Ullman, Oprea 2020 (2006.07709), bounds from two rates; Arcolezi, Gambs 2024 (2309.01534), audits of
local claims.
"""

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from evaluate.audit_result import Audit, AuditCheck, Power
from evaluate.intervals import clopper_pearson
from evaluate.privacy.audit.neighboring_tables import EXCESS, without_constraints
from evaluate.privacy.audit.power import N_SIMULATED, power_of
from evaluate.privacy.audit.stand_in import LogComplete
from synth.dp.budget import Budget
from synth.dp.events import RandomizedResponseEvent
from synth.dp.mechanisms import SystemNoise
from synth.progress import Progress
from synth.schema import Schema
from understudy.extras.local.generator import Local
from understudy.extras.local.oracles import NO_ANSWER, DirectEncoding, Oracle
from understudy.extras.local.survey import ANSWERS, Survey

OUTSIDE = (
    "what only the real table would bring out",
    "reports that other programs make, and files of reports",
    "bits of answers that were not compared",
    "randomness that the answers of one respondent share, but for two rows that differ in every column",
    "predictable randomness",
    "whether the list of events names all that was read",
)
"""No audit of a local claim looks at these."""
QUESTIONS, RESPONDENT = "reports to each question", "answers of one respondent"
CERTAIN = 40.0  # The least epsilon that is proved where an answer is not randomized at all
ATTACK_SHARE = 0.5  # Of the error that the confidence leaves, for the whole; the rest is for each question alone
NEEDED, RARE = 1_000.0, 60.0
"""Reports to tell twice a small epsilon from one: so many over its square. Where it is large: so many times the odds of
twice as much."""
LEAST_ANSWERS, MOST_ANSWERS = 50_000, 400_000  # of one fit
LEAST_EACH = 2_000  # reports to one question of one fit, where time allows
MOST_WORDS = 20_000_000  # random words of one fit: what takes seconds
N_ALONE, ROOM = 24, 4
"""Fits with a single respondent, and slots for each question: several rows of one respondent have room."""
_SEED = 20_242
Codes = Mapping[str, int]


def audit_local(
    generator: Local,
    schema: Schema,
    *,
    n_fits: int | None,
    confidence: float,
    time_limit_s: float | None,
    seed: int,
    progress: Progress,
) -> Audit:
    what, level = f"audit {generator.name}", 1 - ATTACK_SHARE * (1 - confidence)
    until = math.inf if time_limit_s is None else time.monotonic() + time_limit_s
    progress(what, 0.0)
    people = Respondents.of(generator, schema)
    alone = _one_respondent(people)
    worlds = people.worlds(np.random.default_rng(seed))
    n_slots = _n_slots(people.survey)
    halves: tuple[list[_Fits], list[_Fits]] = ([], [])
    for turn in range(max((n_fits or 0) // 8, 1)):
        for half in halves:
            half.append(_Fits.of(people, worlds, n_slots))
        progress(what, (turn + 1) / max((n_fits or 0) // 8, 1))
        if time.monotonic() > until:
            break
    first, second = (_Fits.total(half) for half in halves)
    whole = _whole(people.survey, first, second, level, n_slots)
    each = _each_question(people.survey, first, second, level)
    faults = [max(check.bound, math.nextafter(whole.epsilon, math.inf)) for check in (each, alone) if check.fault]
    return replace(
        whole, bound=max(whole.bound, *faults, 0.0), confidence=confidence, checks=(each, alone),
        covered=(ANSWERS,), not_covered=OUTSIDE, attacked="reports",
    )  # fmt: skip


def _n_slots(survey: Survey) -> int:
    """Respondents of one fit: enough to tell twice epsilon from once."""
    epsilon, n_questions = survey.event.epsilon, len(survey.questions)
    wanted = max(NEEDED / epsilon**2, RARE * math.exp(min(2 * epsilon, 40.0)), LEAST_EACH * n_questions)
    words = float(np.mean([question.oracle.n_words for question in survey.questions]))
    n_answers = min(float(np.clip(wanted, LEAST_ANSWERS, MOST_ANSWERS)), MOST_WORDS / words)
    return max(math.ceil(n_answers / survey.n_answers), n_questions)


class Wire(SystemNoise):
    """Noise that keeps each report as it is counted.
    `reports`: to each question, in turn, what of each report is compared; `answered`: the true answers of each.
    """

    def __init__(self, compared: Sequence[Sequence[int]]) -> None:
        super().__init__()
        self._compared = compared
        self.reports: list[np.ndarray] = []
        self.answered: list[int] = []
        self.carried = True  # each count is of the reports that passed

    def respond(self, cells: np.ndarray, oracle: Any) -> np.ndarray:
        seen: list[np.ndarray] = []
        carried, tapped, count = np.zeros(oracle.size, dtype=np.int64), copy(oracle), oracle.supported
        bits = [cell for cell in dict.fromkeys(self._compared[len(self.reports)]) if cell != NO_ANSWER]

        def supported(reports: np.ndarray) -> np.ndarray:
            nonlocal carried
            support = np.asarray(count(reports))
            carried = carried + support
            direct = isinstance(oracle, DirectEncoding)
            seen.append(reports if direct else reports[:, bits].astype(np.int64) @ (1 << np.arange(len(bits))))
            return support

        object.__setattr__(tapped, "supported", supported)  # of this copy alone, which is frozen
        counted = super().respond(cells, tapped)
        self.reports.append(np.concatenate([np.zeros(0, dtype=np.int64), *seen]))
        self.answered.append(int((cells != NO_ANSWER).sum()))
        self.carried &= len(self.reports[-1]) == len(cells) and np.array_equal(counted, carried)
        return counted


class Listening(Budget):
    """A budget that ends the fit behind its reports."""

    heard = 0

    def respond(self, answers: Sequence[tuple[np.ndarray, Any]], event: RandomizedResponseEvent) -> list[np.ndarray]:
        self.heard = len(super().respond(answers, event))
        raise LogComplete


@dataclass(frozen=True)
class Respondents:
    """Made-up respondents of a survey."""

    generator: Local
    schema: Schema
    survey: Survey

    @classmethod
    def of(cls, generator: Local, schema: Schema) -> "Respondents":
        plain = without_constraints(schema, histories=False)
        asked = type(generator).asking(generator.survey(schema))
        return cls(asked, plain, asked.survey(plain))

    def worlds(self, rng: np.random.Generator) -> list[Codes | None]:
        """Rows that are furthest apart: the first and the last code of each column that a value can have; a row of
        codes at random; and nobody.
        """
        possible = {each.name: np.flatnonzero(~each.impossible) for each in self.survey.discretizer.attributes}
        lowest, highest = ({name: int(codes[end]) for name, codes in possible.items()} for end in (0, -1))
        return [lowest, highest, {name: int(rng.choice(codes)) for name, codes in possible.items()}, None]

    def rows(self, codes: Codes, n: int, n_rows_each: int = 1) -> pd.DataFrame:
        wanted = np.array([list(codes.values())])
        row = self.survey.discretizer.decode(wanted, np.random.default_rng(_SEED))
        frame = row.iloc[np.zeros(n * n_rows_each, dtype=np.int64)].reset_index(drop=True)
        if self.schema.entity is not None:
            frame[self.schema.entity] = np.repeat(np.arange(n), n_rows_each)
        return frame

    def cells(self, codes: Codes | None) -> list[int]:
        """The answer to each question that a fit makes of such a respondent."""
        if codes is None:
            return [NO_ANSWER] * len(self.survey.questions)
        row = self.survey.codes(self.rows(codes, 1))
        return [int(question.cells(row)[0]) for question in self.survey.questions]

    def fitted(self, frame: pd.DataFrame, n_slots: int, compared: Sequence[Sequence[int]]) -> Wire:
        """The reports of a fit, by question; `carried` says whether these are all that it heard."""
        wire = Wire(compared)
        budget = Listening(self.survey.schedule, wire)
        with suppress(LogComplete):
            self.generator.fit(frame, self.schema.model_copy(update={"n_units": n_slots}), budget=budget)
        wire.carried &= len(wire.reports) == budget.heard == len(self.survey.questions)
        return wire


@dataclass(frozen=True)
class _Fits:
    """How often each event came in fits of all worlds.
    `questions`: of each question the classes of its reports, shape (n_worlds, n_classes).
    `singles`, `wholes`: what single reports, and all of one respondent, speak for, of the first two worlds; shape
    (2, n).
    """

    questions: tuple[np.ndarray, ...]
    singles: np.ndarray
    wholes: np.ndarray

    @classmethod
    def of(cls, people: Respondents, worlds: Sequence[Codes | None], n_slots: int) -> "_Fits":
        survey = people.survey
        compared = list(zip(*(people.cells(codes) for codes in worlds), strict=True))
        slots = [survey.respondents_of(number, n_slots) for number in range(len(survey.questions))]
        most = max(int(np.bincount(np.concatenate(slots)).max()), survey.n_answers)
        questions: list[list[np.ndarray]] = [[] for _ in slots]
        singles, wholes = np.zeros((2, 3), dtype=np.int64), np.zeros((2, 2 * most + 1), dtype=np.int64)
        for world, codes in enumerate(worlds):
            frame = people.rows(worlds[0] or {}, 0) if codes is None else people.rows(codes, n_slots)
            wire = people.fitted(frame, n_slots, compared)
            total = np.zeros(n_slots, dtype=np.int64)
            for number, (question, cells) in enumerate(zip(survey.questions, compared, strict=True)):
                # Counts that no report carries tell the answers themselves.
                passed = wire.reports[number] if wire.carried else np.full(len(slots[number]), world)
                size = _n_classes(question.oracle, cells) if wire.carried else len(worlds)
                questions[number].append(np.bincount(passed, minlength=size))
                if world < 2:
                    spoken = _spoken_for(question.oracle, passed, cells) if wire.carried else 1 - 2 * passed
                    singles[world] += np.bincount(spoken + 1, minlength=3)
                    linked = slots[number] if len(spoken) == len(slots[number]) else np.arange(len(spoken)) % n_slots
                    np.add.at(total, linked, spoken)
            if world < 2:
                wholes[world] += np.bincount(np.clip(total, -most, most) + most, minlength=2 * most + 1)
        widest = [max(len(counts) for counts in each) for each in questions]
        padded = (
            np.stack([np.pad(counts, (0, width - len(counts))) for counts in each])
            for each, width in zip(questions, widest, strict=True)
        )
        return cls(tuple(padded), singles, wholes)

    @classmethod
    def total(cls, fits: Sequence["_Fits"]) -> "_Fits":
        questions = tuple(sum(counts) for counts in zip(*(each.questions for each in fits), strict=True))
        return cls(questions, sum(each.singles for each in fits), sum(each.wholes for each in fits))  # type: ignore


def _n_classes(oracle: Oracle, cells: Sequence[int]) -> int:
    return oracle.n_symbols if isinstance(oracle, DirectEncoding) else 1 << len(set(cells) - {NO_ANSWER})


def _spoken_for(oracle: Oracle, reports: np.ndarray, cells: Sequence[int]) -> np.ndarray:
    """Which of the two first answers each report speaks for: 1 the one, -1 the other, 0 neither or both."""
    if isinstance(oracle, DirectEncoding):
        return np.asarray((reports == cells[0]).astype(np.int64) - (reports == cells[1]))
    return np.asarray((reports & 1) - (reports >> 1 & 1))


def _whole(survey: Survey, first: _Fits, second: _Fits, confidence: float, n_slots: int) -> Audit:
    """The attack on the whole: by single answers, and by all of a respondent; half of the error is for each."""
    each, m = 1 - (1 - confidence) / 2, survey.n_answers
    best = _best(first.singles, second.singles, each)
    assumed_nothing = _best(first.wholes, second.wholes, each).bound(each)
    n = min(best.n_one, best.n_other)
    false_in, false_out = (
        (k / of, *clopper_pearson(k, of, level=each))
        for k, of in ((best.other, best.n_other), (best.n_one - best.one, best.n_one))
    )
    return Audit(
        epsilon=survey.epsilon,
        delta=0.0,
        bound=max(m * best.bound(each), assumed_nothing),
        distribution_free=assumed_nothing,
        strongest=m * EventCounts(n, n, 0, n).bound(each),
        confidence=confidence,
        n_trials=best.n_one + best.n_other,
        false_positives=false_in,
        false_negatives=false_out,
        ran_on=f"a public stand-in of {n_slots:,} respondents, all alike",
        power=_power([question.oracle for question in survey.questions], n, each),
    )


def _each_question(survey: Survey, first: _Fits, second: _Fits, confidence: float) -> AuditCheck:
    """The check of each question alone, by every pair of worlds."""
    pairs = list(combinations(range(len(first.questions[0])), 2))
    level = 1 - (1 - confidence) / (len(pairs) * len(survey.questions))
    bounds = [
        max(_best(one[list(pair)], other[list(pair)], level).bound(level) for pair in pairs if one[list(pair)].any(1).all())
        for one, other in zip(first.questions, second.questions, strict=True)
    ]
    stated, highest = survey.event.epsilon, max(bounds)
    n_each = min(int(counts.sum(axis=1)[:2].min()) for counts in second.questions)
    kinds = dict.fromkeys(question.oracle for question in survey.questions)

    def expected(oracle: Oracle) -> float:
        """About the bound that half the noise would give."""
        one, other = (np.array([round(n_each * chance)]) for chance in _chances(oracle, 0.5))
        return float(_bounds(one, other, (n_each, n_each), level)[0])

    check = AuditCheck(
        QUESTIONS,
        f"{len(bounds):,} question{'s' if len(bounds) > 1 else ''}, {n_each:,} reports after each of up to four "
        f"answers, no answer among them: an epsilon of at least {highest:.3g} for one, where {stated:.3g} is stated",
        power=_power([min(kinds, key=expected)], n_each, level),
    )
    if highest <= stated:
        return check
    name = " and ".join(survey.questions[int(np.argmax(bounds))].columns)
    said = f"a report about {name} tells more of the answer than is stated"
    return replace(check, fault=said, bound=highest + survey.epsilon - stated)


def _one_respondent(people: Respondents) -> AuditCheck:
    """The check of the number of answers that one respondent gives, and of what is counted beside reports."""
    survey = people.survey
    n, m = ROOM * len(survey.questions), survey.n_answers
    row, compared = people.worlds(np.random.default_rng(_SEED))[1] or {}, [[0]] * len(survey.questions)
    n_rows = EXCESS if people.schema.entity is not None else 1
    single = [people.fitted(people.rows(row, 1, n_rows), n, compared) for _ in range(N_ALONE)]
    nobody, everybody = (people.fitted(people.rows(row, size), n, compared) for size in (0, n))
    fits = (*single, nobody, everybody)
    most = max(max(sum(wire.answered) for wire in single), sum(everybody.answered) / n)
    check = AuditCheck(
        RESPONDENT,
        f"{N_ALONE} fits with a single respondent among {n:,} slots, one with none and one with all of them: at most "
        f"{most:,.3g} answers of one respondent, where {m:,} are stated",
        "any respondent who answers more questions than is stated, any count without a report, and any number of "
        "reports that tells of rows",
    )
    certain = max(CERTAIN, 2 * survey.epsilon)
    if not all(wire.carried for wire in fits):
        return replace(check, fault="counts reach the fit that no report carries", bound=certain)
    if most > m:
        said = "a respondent gives more answers than are stated"
        return replace(check, fault=said, bound=survey.event.epsilon * most)
    if len({tuple(len(reports) for reports in wire.reports) for wire in fits}) > 1:
        return replace(check, fault="the number of reports tells of the number of rows", bound=certain)
    return check


@dataclass(frozen=True)
class EventCounts:
    """How often an event came after the one row, and after the other."""

    one: int
    n_one: int
    other: int
    n_other: int

    def bound(self, confidence: float) -> float:
        """Epsilon is at least this: the logarithm of the ratio of both rates, each at its end.

        >>> round(EventCounts(9_000, 10_000, 1_000, 10_000).bound(0.99), 2)  # log 9 is 2.20
        2.11
        """
        return float(_bounds(np.array([self.one]), np.array([self.other]), (self.n_one, self.n_other), confidence)[0])


def _bounds(one: np.ndarray, other: np.ndarray, n: tuple[int, int], confidence: float) -> np.ndarray:
    """Bounds of many pairs of counts at once, shape of the counts."""
    tail = (1 - confidence) / 2
    low = np.where(one > 0, stats.beta.ppf(tail, np.maximum(one, 1), n[0] - np.maximum(one, 1) + 1), 0.0)
    high = np.where(other < n[1], stats.beta.isf(tail, other + 1, np.maximum(n[1] - other, 1)), 1.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.maximum(np.log(low / high), 0.0))


def _best(first: np.ndarray, second: np.ndarray, confidence: float) -> EventCounts:
    """The event that the first half speaks for, as it came in the second half.

    Both are counts of each class by world, shape (2, n_classes). Events hold the classes with the highest ratios. The
    one with the largest bound, about, is taken, in the direction in which it is larger.
    """
    z, choices = float(stats.norm.isf((1 - confidence) / 2)), []
    for one, other in ((0, 1), (1, 0)):
        order = np.argsort(-np.log((first[one] + 0.5) / (first[other] + 0.5)), kind="stable")
        sums = [np.cumsum(first[world][order]) + 0.5 for world in (one, other)]
        shares = [each / first[world].sum() for each, world in zip(sums, (one, other), strict=True)]
        spread = sum(np.sqrt(np.maximum(1 - share, 0) / each) for share, each in zip(shares, sums, strict=True))
        gains = np.log(shares[0] / shares[1]) - z * spread
        best = int(np.argmax(gains))
        choices.append((float(gains[best]), one, other, order[: best + 1]))
    _, one, other, event = max(choices, key=lambda choice: choice[0])
    return EventCounts(
        int(second[one][event].sum()), int(second[one].sum()), int(second[other][event].sum()), int(second[other].sum())
    )


def _power(oracles: Sequence[Oracle], n: int, confidence: float) -> Power:
    """The power to show that answers are randomized by a larger epsilon: by its half where half the noise is left."""
    rng, kinds, claimed = np.random.default_rng(_SEED), Counter(oracles), oracles[0].epsilon

    def shows(share: float) -> float:
        rates = sum(count / len(oracles) * _chances(oracle, share) for oracle, count in kinds.items())
        drawn = [rng.binomial(n, min(rate, 1.0), N_SIMULATED) for rate in rates]
        return float(np.mean(_bounds(drawn[0], drawn[1], (n, n), confidence) > claimed))

    return power_of(shows)


def _chances(oracle: Oracle, share: float) -> np.ndarray:
    """The chances that a report speaks for an answer and not for another, after the one and after the other."""
    if share == 0:
        return np.array([1.0, 0.0])
    less = replace(oracle, epsilon=oracle.epsilon / share)
    if isinstance(less, DirectEncoding):
        return np.array([less.p, less.q])
    return np.array([less.p * (1 - less.q), (1 - less.p) * less.q])
