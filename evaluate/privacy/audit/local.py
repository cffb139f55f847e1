"""An audit of a local claim: does any report tell more of its respondent's answers than epsilon allows?

The attacker gets the reports of one respondent, as they leave. They know that these are of one of two rows, and want to
say of which. Under pure epsilon no set of reports is more than e^epsilon times as likely after the one row as after the
other. So Clopper-Pearson ends of two rates bound epsilon from below. Respondents are made up, and their answers are
from the declared domain: no real row is read, and no budget is charged.

- **Whole fits** (`_attacked`). A stand-in of respondents who are all alike is fitted by the generator itself, up to
  its counts, and so is one whose answers differ in every column. Each report speaks for the one row, the other, or
  neither. The attacker guesses by single answers, and by all answers of one respondent together. Single answers bound
  the whole if each is randomized on its own; all together assume nothing.
- **Each question** (`_each_question`). Reports of two answers that are furthest apart in the domain, of one at random,
  and of somebody who answers nothing. All of them are compared with each other.
- **One respondent** (`_one_respondent`). Fits with a single respondent among the slots: how many answers the row goes
  into, and that reports account for every count.

An event is chosen by half of the reports, and tested by the other half. So the attack needs no formula of the
mechanism, and a fault of another kind than less noise shows, too.

Source: Jagielski, Ullman, Oprea 2020 (2006.07709), bounds from two rates; Arcolezi, Gambs 2024 (2309.01534), audits of
local claims.
"""

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import Any

import numpy as np
from scipy import stats

from evaluate.audit_result import Audit, AuditCheck, Power
from evaluate.intervals import clopper_pearson
from evaluate.privacy.audit.neighboring_tables import EXCESS
from evaluate.privacy.audit.power import N_SIMULATED, power_of
from evaluate.privacy.audit.respondents import Respondents, evidence, pattern
from synth.generators.local import Local
from synth.local.oracles import NO_ANSWER, DirectEncoding
from synth.local.survey import ANSWERS, Survey
from synth.progress import Progress
from synth.schema import Schema

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
ATTACK_SHARE = 0.5  # Of the error that the confidence leaves, for whole fits; the rest is for each question alone
NEEDED, RARE = 1_000.0, 60.0
"""Reports to tell twice a small epsilon from one: so many over its square. Where it is large: so many times the odds of
twice as much."""
LEAST_ANSWERS, MOST_ANSWERS = 50_000, 400_000
LEAST_REPORTS, MOST_REPORTS = 2_000, 100_000  # Reports to one question, after each answer, by which an event is tested
CHOOSING = 4  # Of reports to one question a quarter more, by which the event is chosen
MOST_WORDS, MOST_WORDS_ALONE = 60_000_000, 100_000_000
"""Random words for whole fits, and for each question alone: what takes seconds."""
SLOTS = 50_000  # Of one fit at most
N_ALONE, ROOM = 24, 4
"""Fits with a single respondent, and slots for each question: several rows of one respondent have room."""
_SEED = 20_242


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
    error, what = 1 - confidence, f"audit {generator.name}"
    progress(what, 0.0)
    people = Respondents.of(generator, schema)
    alone = _one_respondent(people)
    each = _each_question(people, 1 - (1 - ATTACK_SHARE) * error, np.random.default_rng(seed))
    until = math.inf if time_limit_s is None else time.monotonic() + time_limit_s
    plan = _Fits(people, _n_fits(people.survey) if n_fits is None else max(n_fits // 4, 1), until)
    found = _attacked(plan, 1 - ATTACK_SHARE * error, lambda share: progress(what, 0.3 + 0.7 * share))
    faults = [max(check.bound, math.nextafter(found.epsilon, math.inf)) for check in (each, alone) if check.fault]
    return replace(
        found, bound=max(found.bound, *faults, 0.0), confidence=confidence, checks=(each, alone),
        covered=(ANSWERS,), not_covered=OUTSIDE, attacked="reports",
    )  # fmt: skip


def _n_reports(epsilon: float) -> float:
    """Reports that tell twice an epsilon from one."""
    return max(NEEDED / epsilon**2, RARE * math.exp(min(2 * epsilon, 40.0)))


def _words(oracle: Any) -> int:
    return 4 if isinstance(oracle, DirectEncoding) else int(oracle.n_cells)


@dataclass(frozen=True)
class _Fits:
    people: Respondents
    n_each: int
    until: float

    @property
    def n_slots(self) -> int:
        """Respondents of one fit."""
        return min(_n_slots(self.people.survey), SLOTS)


def _n_slots(survey: Survey) -> int:
    words = float(np.mean([_words(question.oracle) for question in survey.questions]))
    wanted = float(np.clip(_n_reports(survey.event.epsilon), LEAST_ANSWERS, MOST_ANSWERS))
    n_answers = min(wanted, MOST_WORDS / 4 / words)
    return max(math.ceil(n_answers / survey.n_answers), len(survey.questions))


def _n_fits(survey: Survey) -> int:
    return math.ceil(_n_slots(survey) / SLOTS)


def _attacked(plan: _Fits, confidence: float, tell: Callable[[float], None]) -> Audit:
    """The attack on whole fits: by single answers, and by all of a respondent; half of the error is for each."""
    survey, each = plan.people.survey, 1 - (1 - confidence) / 2
    singles, wholes = _evidence(plan, tell)
    best, m = _best(singles, each), survey.n_answers
    n = min(best.n_one, best.n_other)
    false_in, false_out = (
        (k / of, *clopper_pearson(k, of, level=each))
        for k, of in ((best.other, best.n_other), (best.n_one - best.one, best.n_one))
    )
    assumed_nothing = _best(wholes, each).bound(each)
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
        ran_on=f"a public stand-in of {plan.n_slots:,} respondents, all alike",
        power=_power([question.oracle for question in survey.questions], n, each),
    )


def _evidence(plan: _Fits, tell: Callable[[float], None]) -> tuple[np.ndarray, np.ndarray]:
    """How often each evidence came, of single answers and of whole respondents; shape (2 halves, 2 rows, n) each."""
    people, survey = plan.people, plan.people.survey
    rows = _opposites(survey)
    look = evidence(*(people.cells(row) for row in rows))
    slots = [survey.respondents_of(place, plan.n_slots) for place in range(len(survey.questions))]
    most = max(int(np.bincount(np.concatenate(slots)).max()), survey.n_answers)
    singles, wholes = np.zeros((2, 2, 3), dtype=np.int64), np.zeros((2, 2, 2 * most + 1), dtype=np.int64)
    for turn in range(plan.n_each):
        if turn and time.monotonic() > plan.until:
            break
        for half, world in product((0, 1), (0, 1)):
            passed, carried = people.fitted(people.rows(rows[world], plan.n_slots), plan.n_slots, look)
            # Counts that no report carries tell the answers themselves.
            seen = [one.seen for one in passed] if carried else [np.full(len(of), 1 - 2 * world) for of in slots]
            singles[half, world] += np.bincount(np.concatenate(seen) + 1, minlength=3)
            wholes[half, world] += _joint(seen, slots, plan.n_slots, most)
        tell((turn + 1) / plan.n_each)
    return singles, wholes


def _joint(seen: Sequence[np.ndarray], slots: Sequence[np.ndarray], n_slots: int, most: int) -> np.ndarray:
    """How often each sum of evidence came over the answers of one respondent; shape (2 most + 1,)."""
    total = np.zeros(n_slots, dtype=np.int64)
    for numbers, places in zip(seen, slots, strict=True):
        linked = places if len(places) == len(numbers) else np.arange(len(numbers)) % n_slots
        np.add.at(total, linked, numbers)
    return np.bincount(np.clip(total, -most, most) + most, minlength=2 * most + 1)


def _opposites(survey: Survey) -> tuple[dict[str, int], dict[str, int]]:
    """Two rows whose answers are furthest apart: the first and the last code of each column that a value can have."""
    lowest, highest = {}, {}
    for attribute in survey.discretizer.attributes:
        possible = np.flatnonzero(~attribute.impossible)
        lowest[attribute.name], highest[attribute.name] = int(possible[0]), int(possible[-1])
    return lowest, highest


@dataclass(frozen=True)
class EventCounts:
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


def _best(counts: np.ndarray, confidence: float) -> EventCounts:
    """The event that the first half speaks for, as it came in the second half. `counts`: of each class, by half and
    world, shape (2, 2, n_classes). Events hold the classes with the highest ratios. The one with the largest bound,
    about, is taken, in the direction in which it is larger.
    """
    z, choices = float(stats.norm.isf((1 - confidence) / 2)), []
    for one, other in ((0, 1), (1, 0)):
        first = counts[0, one] + 0.5, counts[0, other] + 0.5
        order = np.argsort(-np.log(first[0] / first[1]), kind="stable")
        sums = [np.cumsum(counts[0, world][order]) + 0.5 for world in (one, other)]
        shares = [each / counts[0, world].sum() for each, world in zip(sums, (one, other), strict=True)]
        spread = sum(np.sqrt(np.maximum(1 - share, 0) / each) for share, each in zip(shares, sums, strict=True))
        gains = np.log(shares[0] / shares[1]) - z * spread
        place = int(np.argmax(gains))
        choices.append((float(gains[place]), one, other, order[: place + 1]))
    _, one, other, event = max(choices, key=lambda choice: choice[0])
    second = counts[1]
    return EventCounts(
        int(second[one][event].sum()), int(second[one].sum()), int(second[other][event].sum()), int(second[other].sum())
    )


def _power(oracles: Sequence[Any], n: int, confidence: float) -> Power:
    """The power to show that answers are randomized by a larger epsilon: by its half where half the noise is left."""
    rng, kinds, claimed = np.random.default_rng(_SEED), Counter(oracles), oracles[0].epsilon

    def shows(share: float) -> float:
        rates = np.zeros(2)
        for oracle, count in kinds.items():
            rates += count / len(oracles) * _chances(oracle, share)
        drawn = [rng.binomial(n, min(rate, 1.0), N_SIMULATED) for rate in rates]
        return float(np.mean(_bounds(drawn[0], drawn[1], (n, n), confidence) > claimed))

    return power_of(shows)


def _expected(oracle: Any, n: int, confidence: float) -> float:
    """About the bound that half the noise would give; arguments as of `_power`."""
    one, other = (np.array([round(n * chance)]) for chance in _chances(oracle, 0.5))
    return float(_bounds(one, other, (n, n), confidence)[0])


def _chances(oracle: Any, share: float) -> np.ndarray:
    """The chances that a report speaks for an answer and not for another, after the one and after the other."""
    if share == 0:
        return np.array([1.0, 0.0])
    less = replace(oracle, epsilon=oracle.epsilon / share)
    if isinstance(less, DirectEncoding):
        return np.array([less.p, less.q])
    return np.array([less.p * (1 - less.q), (1 - less.p) * less.q])


def _each_question(people: Respondents, confidence: float, rng: np.random.Generator) -> AuditCheck:
    """The check of each question alone, by every pair of some answers."""
    survey = people.survey
    compared = _compared(people, rng)
    n_each = _n_each(survey, compared)
    look = pattern(compared)
    halves = [people.asked([np.repeat(cells, n) for cells in compared], look) for n in (n_each // CHOOSING, n_each)]
    n_pairs = sum(math.comb(len(cells), 2) for cells in compared)
    level = 1 - (1 - confidence) / n_pairs
    bounds = []
    for place, cells in enumerate(compared):
        seen = [half[place].seen.reshape(len(cells), -1) for half in halves]
        classes = max(int(half.max()) for half in seen) + 1
        counts = np.stack([[np.bincount(world, minlength=classes) for world in half] for half in seen])
        pairs = combinations(range(len(cells)), 2)
        bounds.append(max(_best(counts[:, list(pair)], level).bound(level) for pair in pairs))
    return _of_questions(survey, bounds, n_each, level)


def _of_questions(survey: Survey, bounds: Sequence[float], n_each: int, level: float) -> AuditCheck:
    stated, highest = survey.event.epsilon, max(bounds)
    kinds = dict.fromkeys(question.oracle for question in survey.questions)
    weakest = min(kinds, key=lambda oracle: _expected(oracle, n_each, level))
    check = AuditCheck(
        QUESTIONS,
        f"{len(bounds):,} question{'s' if len(bounds) > 1 else ''}, {n_each:,} reports after each of up to four "
        f"answers, no answer among them: an epsilon of at least {highest:.3g} for one, where {stated:.3g} is stated",
        power=_power([weakest], n_each, level),
    )
    if highest <= stated:
        return check
    name = " and ".join(survey.questions[int(np.argmax(bounds))].columns)
    return replace(
        check,
        fault=f"a report about {name} tells more of the answer than is stated",
        bound=highest + survey.epsilon - stated,
    )


def _compared(people: Respondents, rng: np.random.Generator) -> list[list[int]]:
    """For each question the answers that are compared: those of the opposite rows, one at random, and none at all."""
    lowest, highest = (people.cells(row) for row in _opposites(people.survey))
    found = []
    for question, low, high in zip(people.survey.questions, lowest, highest, strict=True):
        cells = [low, high, int(rng.integers(question.oracle.n_cells))]
        found.append(list(dict.fromkeys([*cells, NO_ANSWER] if question.oracle.allows_no_answer else cells)))
    return found


def _n_each(survey: Survey, compared: Sequence[Sequence[int]]) -> int:
    """Reports to each question after each answer, by which an event is tested."""
    wanted = float(np.clip(_n_reports(survey.event.epsilon), LEAST_REPORTS, MOST_REPORTS))
    words = sum(len(cells) * _words(one.oracle) for one, cells in zip(survey.questions, compared, strict=True))
    return max(int(min(MOST_WORDS_ALONE / (1 + 1 / CHOOSING) / words, wanted)), LEAST_REPORTS)


def _one_respondent(people: Respondents) -> AuditCheck:
    """The check of the number of answers that one respondent gives, and of what is counted beside reports."""
    survey = people.survey
    n, m = ROOM * len(survey.questions), survey.n_answers
    row, look = _opposites(survey)[1], pattern([[0]] * len(survey.questions))
    n_rows = EXCESS if people.schema.entity is not None else 1
    single = [people.fitted(people.rows(row, 1, n_rows), n, look) for _ in range(N_ALONE)]
    nobody = people.fitted(people.rows(row, 0), n, look)
    everybody = people.fitted(people.rows(row, n), n, look)
    most = max(sum(int((one.cells != NO_ANSWER).sum()) for one in passed) for passed, _ in single)
    on_average = sum(int((one.cells != NO_ANSWER).sum()) for one in everybody[0]) / n
    check = AuditCheck(
        RESPONDENT,
        f"{N_ALONE} fits with a single respondent among {n:,} slots, one with none and one with all of them: at most "
        f"{most:,} answers of one respondent, where {m:,} are stated",
        "any respondent who answers more questions than is stated, any count without a report, and any number of "
        "reports that tells of rows",
    )
    sent = {tuple(len(one.cells) for one in passed) for passed, _ in (*single, nobody, everybody)}
    if not all(carried for _, carried in (*single, nobody, everybody)):
        said = "counts reach the fit that no report carries"
        return replace(check, fault=said, bound=max(CERTAIN, 2 * survey.epsilon))
    if max(most, on_average) > m:
        said = "a respondent gives more answers than are stated"
        return replace(check, fault=said, bound=survey.event.epsilon * max(most, on_average))
    if len(sent) > 1:
        said = "the number of reports tells of the number of rows"
        return replace(check, fault=said, bound=max(CERTAIN, 2 * survey.epsilon))
    return check
