"""An audit of a local claim: does any report tell more of its respondent's answers than epsilon allows?

The attacker gets the reports of one respondent, as they leave. They know that these are of one of two rows, and want to
say of which. Under pure epsilon no set of reports is more than e^epsilon times as likely after the one row as after the
other. So Clopper-Pearson ends of two rates bound epsilon from below. Respondents are made up, all alike, with answers
from the declared domain: no real row is read, and no budget is charged. A survey and a budget randomize them as in a
fit, up to its counts, and a `Wire` holds every count against the reports that passed.

Fits of four such tables are compared: rows whose answers are furthest apart in every column, rows of answers at random,
and no rows at all, so that every slot is silent.

- **The whole** takes the two that are furthest apart. Each report speaks for the one, the other, or neither. Single
  answers bound the whole, times their number if each is randomized on its own.
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
from synth.dp.budget import Budget
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
    "randomness that the answers of one respondent share",
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
ANSWERS_OF_FIT, REPORTS_EACH = (50_000, 400_000), (2_000, 100_000)
"""Answers of one fit, and reports to one of its questions, at least and at most."""
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
    worlds, n_slots, n_turns = people.worlds(np.random.default_rng(seed)), _n_slots(people.survey), (n_fits or 8) // 8
    first, second = people.classes(worlds, n_slots), people.classes(worlds, n_slots)
    for turn in range(1, n_turns):
        if time.monotonic() > until:
            break
        for half in (first, second):
            for total, more in zip(half, people.classes(worlds, n_slots), strict=True):
                total += more
        progress(what, turn / n_turns)
    whole = _whole(people, worlds, (first, second), level, n_slots)
    each = _each_question(people.survey, first, second, level)
    faults = [max(check.bound, math.nextafter(whole.epsilon, math.inf)) for check in (each, alone) if check.fault]
    return replace(
        whole, bound=max(whole.bound, *faults, 0.0), confidence=confidence, checks=(each, alone),
        covered=(ANSWERS,), not_covered=OUTSIDE, attacked="reports",
    )  # fmt: skip


def _n_slots(survey: Survey) -> int:
    """Respondents of one fit: enough to tell twice epsilon from once."""
    epsilon, n_questions = survey.event.epsilon, len(survey.questions)
    wanted = max(NEEDED / epsilon**2, RARE * math.exp(min(2 * epsilon, 40.0)))
    words = float(np.mean([question.oracle.n_words for question in survey.questions]))
    n_answers = max(float(np.clip(wanted, *ANSWERS_OF_FIT)), n_questions * float(np.clip(wanted, *REPORTS_EACH)))
    return max(math.ceil(min(n_answers, MOST_WORDS / words) / survey.n_answers), n_questions)


class Wire(SystemNoise):
    """Noise that keeps each report as it is counted.
    `reports`: to each question, in turn, what of each report is compared; `answered`: the true answers of each.
    """

    def __init__(self, compared: Sequence[Sequence[int]]) -> None:
        super().__init__()
        self._compared = compared
        self.reports: list[np.ndarray] = []
        self.answered: list[int] = []
        self.counts: list[np.ndarray] = []
        self.carried = True  # each count is of the reports that passed

    def respond(self, cells: np.ndarray, oracle: Any) -> np.ndarray:
        seen: list[np.ndarray] = []
        carried, tapped, count = np.zeros(oracle.size, dtype=np.int64), copy(oracle), oracle.supported
        bits = [cell for cell in self._compared[len(self.reports)] if cell != NO_ANSWER]

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
        self.counts.append(counted)
        self.carried &= len(self.reports[-1]) == len(cells) and np.array_equal(counted, carried)
        return counted

    def hold(self, heard: Sequence[np.ndarray]) -> None:
        """Hold what a fit heard against the counts that passed."""
        self.carried &= len(self.counts) == len(heard) and all(map(np.array_equal, self.counts, heard))


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
        sizes = self.survey.discretizer.sizes
        possible = {
            each.name: np.setdiff1d(np.arange(sizes[each.name]), each.impossible)
            for each in self.survey.discretizer.attributes
        }
        lowest, highest = ({name: int(codes[end]) for name, codes in possible.items()} for end in (0, -1))
        return [lowest, highest, {name: int(rng.choice(codes)) for name, codes in possible.items()}, None]

    def rows(self, codes: Codes, n: int, n_rows_each: int = 1) -> pd.DataFrame:
        wanted = np.array([list(codes.values())])
        row = self.survey.discretizer.decode(wanted, np.random.default_rng(_SEED))
        frame = row.iloc[np.zeros(n * n_rows_each, dtype=np.int64)].reset_index(drop=True)
        if self.schema.entity is not None:
            frame[self.schema.entity] = np.repeat(np.arange(n), n_rows_each)
        return frame

    def compared(self, worlds: Sequence[Codes | None]) -> list[tuple[int, ...]]:
        """For each question the answers that fits of the worlds make of a respondent."""
        rows = [None if codes is None else self.survey.codes(self.rows(codes, 1)) for codes in worlds]
        return [
            tuple(NO_ANSWER if row is None else int(question.cells(row)[0]) for row in rows)
            for question in self.survey.questions
        ]

    def classes(self, worlds: Sequence[Codes | None], n_slots: int) -> list[np.ndarray]:
        """For each question how often each class of reports came in a fit of each world; shape (n_worlds, n_classes).

        A class is a symbol, or the bits of all answers that are compared.
        """
        compared = self.compared(worlds)
        sizes = [getattr(question.oracle, "n_symbols", 1 << len(worlds)) for question in self.survey.questions]
        counts = [np.zeros((len(worlds), max(size, len(worlds))), dtype=np.int64) for size in sizes]
        for world, codes in enumerate(worlds):
            # Rows that are all alike need no table; those of one respondent come in one.
            rows = {name: np.full(n_slots, 0 if codes is None else codes[name]) for name in worlds[0] or {}}
            order = np.full(n_slots, -1) if codes is None else np.arange(n_slots)
            asked = zip(self.survey.answers(rows, order), (each.oracle for each in self.survey.questions), strict=True)
            wire = Wire(compared)
            wire.hold(Budget(self.survey.schedule, wire).respond(list(asked), self.survey.event))
            for number, table in enumerate(counts):
                # Counts that no report carries tell the answers themselves.
                passed = wire.reports[number] if wire.carried else np.full(n_slots, world)
                table[world] += np.bincount(passed, minlength=table.shape[1])
        return counts

    def fitted(self, frame: pd.DataFrame, n_slots: int, compared: Sequence[Sequence[int]]) -> Wire:
        """The reports of a fit up to its counts, by question; `carried` says whether these are all that it heard."""
        survey = replace(self.survey, schema=self.survey.schema.model_copy(update={"n_units": n_slots}))
        wire = Wire(compared)
        wire.hold(self.generator.reported(frame, survey, Budget(survey.schedule, wire)).supports)
        return wire


def _spoken_for(oracle: Oracle, counts: np.ndarray, cells: Sequence[int]) -> np.ndarray:
    """Reports that speak for the first of the answers, for the second, and for neither or both; shape (2, 3)."""
    classes = np.arange(counts.shape[1])
    if isinstance(oracle, DirectEncoding):
        one, other = classes == cells[0], classes == cells[1]
    else:
        one, other = (classes & 3) == 1, (classes & 3) == 2  # the bits of both come first
    return np.stack([counts[:2, each].sum(axis=1) for each in (one, other, ~(one | other))], axis=1)


def _whole(
    people: "Respondents", worlds: Sequence[Codes | None], halves: Any, confidence: float, n_slots: int
) -> Audit:
    """The attack on the whole, by single answers."""
    survey, m = people.survey, people.survey.n_answers
    oracles, cells = [question.oracle for question in survey.questions], people.compared(worlds)
    first, second = (np.sum(list(map(_spoken_for, oracles, half, cells)), axis=0) for half in halves)
    one, n_one, other, n_other = best = _best(first, second, confidence)
    n, proved = min(n_one, n_other), bound(*best, confidence)
    false_in, false_out = (
        (k / of, *clopper_pearson(k, of, level=confidence)) for k, of in ((other, n_other), (n_one - one, n_one))
    )
    return Audit(
        epsilon=survey.epsilon,
        delta=0.0,
        bound=m * proved,
        distribution_free=proved,
        strongest=m * bound(n, n, 0, n, confidence),
        confidence=confidence,
        n_trials=n_one + n_other,
        false_positives=false_in,
        false_negatives=false_out,
        ran_on=f"a public stand-in of {n_slots:,} respondents, all alike",
        power=_power(oracles, n, confidence),
    )


def _each_question(
    survey: Survey, first: Sequence[np.ndarray], second: Sequence[np.ndarray], confidence: float
) -> AuditCheck:
    """The check of each question alone, by every pair of worlds."""
    pairs = [list(pair) for pair in combinations(range(len(first[0])), 2)]
    level = 1 - (1 - confidence) / (len(pairs) * len(survey.questions))
    bounds = [
        max(bound(*_best(one[pair], other[pair], level), level) for pair in pairs if one[pair].any(axis=1).all())
        for one, other in zip(first, second, strict=True)
    ]
    stated, highest = survey.event.epsilon, max(bounds)
    n_each = min(int(counts.sum(axis=1)[:2].min()) for counts in second)
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


def bound(one: int, n_one: int, other: int, n_other: int, confidence: float) -> float:
    """Epsilon is at least this, by how often an event came after the one row and after the other: the logarithm of the
    ratio of both rates, each at its end.

    >>> round(bound(9_000, 10_000, 1_000, 10_000, 0.99), 2)  # log 9 is 2.20
    2.11
    """
    return float(_bounds(np.array([one]), np.array([other]), (n_one, n_other), confidence)[0])


def _bounds(one: np.ndarray, other: np.ndarray, n: tuple[int, int], confidence: float) -> np.ndarray:
    """Bounds of many pairs of counts at once, shape of the counts."""
    tail = (1 - confidence) / 2
    low = np.where(one > 0, stats.beta.ppf(tail, np.maximum(one, 1), n[0] - np.maximum(one, 1) + 1), 0.0)
    high = np.where(other < n[1], stats.beta.isf(tail, other + 1, np.maximum(n[1] - other, 1)), 1.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.maximum(np.log(low / high), 0.0))


def _best(first: np.ndarray, second: np.ndarray, confidence: float) -> tuple[int, int, int, int]:
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
    return (
        int(second[one][event].sum()), int(second[one].sum()), int(second[other][event].sum()), int(second[other].sum())
    )  # fmt: skip


def _power(oracles: Sequence[Oracle], n: int, confidence: float) -> Power:
    """The power to show that answers are randomized by a larger epsilon: by its half where half the noise is left."""
    rng, kinds, claimed = np.random.default_rng(_SEED), Counter(oracles), oracles[0].epsilon

    def shows(share: float) -> float:
        rates = np.sum([count / len(oracles) * _chances(oracle, share) for oracle, count in kinds.items()], axis=0)
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
