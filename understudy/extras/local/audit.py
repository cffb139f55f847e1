"""An audit of a local claim: does any report tell more of its respondent's answers than epsilon allows?

The attacker gets the reports of one respondent, as they leave. They know that these are of one of two rows, and want to
say of which. Under pure epsilon no set of reports is more than e^epsilon times as likely after the one row as after the
other. So Clopper-Pearson ends of two rates bound epsilon from below. Respondents are made up, all alike, with answers
from the declared domain: no real row is read, and no budget is charged. They answer the survey of a fit, and a `Wire`
holds every count against the reports that passed.

Four such tables are compared, each against each, in every question: rows whose answers are furthest apart, rows of
answers at random, and no rows at all, so that every slot is silent. The question, the two tables and the event that
tell most are chosen by half of the reports, and tested by the other half. So the attack needs no formula of the
mechanism, and a fault of another kind than less noise shows, too. Beside it, fits with a single respondent among the
slots, with none and with all show how many answers a row goes into, and that reports account for every count.

Source: Jagielski, Ullman, Oprea 2020 (2006.07709), bounds from two rates; Arcolezi, Gambs 2024 (2309.01534), audits of
local claims.
"""

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np
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
NEEDED, RARE = 1_000.0, 60.0
"""Reports to tell twice a small epsilon from one: so many over its square. Where it is large: so many times the odds of
twice as much."""
REPORTS_EACH, MOST_WORDS = (20_000, 100_000), 20_000_000
"""Reports to a question at least and at most, and random words of one table: what takes seconds."""
ROOM = 4  # Slots for each question where there is a single respondent: several rows of one have room
_SEED = 20_242
Code = dict[str, np.ndarray] | None  # one row, shape (1,) by column, or nobody


def audit_local(
    generator: Local,
    schema: Schema,
    *,
    n_fits: int | None,
    confidence: float,
    time_limit_s: float | None,  # it takes seconds
    seed: int,
    progress: Progress,
) -> Audit:
    progress(f"audit {generator.name}", None)
    plain = without_constraints(schema, histories=False)
    asked = type(generator).asking(generator.survey(schema))
    survey, oracles = asked.survey(plain), [question.oracle for question in asked.survey(plain).questions]
    alone, m = _one_respondent(asked, survey), survey.n_answers
    worlds = made_up_rows(survey, np.random.default_rng(seed))
    n_slots = _n_slots(survey) * max((n_fits or 8) // 8, 1)
    first, second = (_reports(survey, worlds, n_slots) for _ in range(2))
    number, event = attack(first, second, confidence)
    one, n_one, other, n_other = event
    proved, n = bound(*event, confidence), min(n_one, n_other)
    power = min((_power(oracle, n, confidence) for oracle in dict.fromkeys(oracles)), key=lambda each: each.half)
    names, fault = " and ".join(survey.questions[number].columns), m * proved > survey.epsilon
    each = AuditCheck(
        QUESTIONS,
        f"{len(oracles):,} questions, {n:,} reports or more after each of up to four answers, no answer among them: an "
        f"epsilon of at least {proved:.3g} by {names}, where {survey.event.epsilon:.3g} is stated",
        power=power,
        fault=f"a report about {names} tells more of the answer than is stated" if fault else None,
        bound=m * proved if fault else 0.0,
    )
    false_in, false_out = (
        (k / trials, *clopper_pearson(k, trials, level=confidence))
        for k, trials in ((other, n_other), (n_one - one, n_one))
    )
    return Audit(
        epsilon=survey.epsilon,
        delta=0.0,
        bound=max(m * proved, alone.bound),
        distribution_free=proved,
        strongest=m * bound(n, n, 0, n, confidence),
        confidence=confidence,
        n_trials=n_one + n_other,
        false_positives=false_in,
        false_negatives=false_out,
        ran_on=f"a public stand-in of {n_slots:,} respondents, all alike",
        power=power,
        checks=(each, alone),
        covered=(ANSWERS,),
        not_covered=OUTSIDE,
        attacked="reports",
    )


def _n_slots(survey: Survey) -> int:
    """Respondents of one table: enough to tell twice epsilon from once by any question."""
    epsilon, n_questions = survey.event.epsilon, len(survey.questions)
    wanted = max(NEEDED / epsilon**2, RARE * math.exp(min(2 * epsilon, 40.0)))
    n_words = sum(question.oracle.n_words for question in survey.questions)
    return math.ceil(min(float(np.clip(wanted, *REPORTS_EACH)), MOST_WORDS / n_words) * n_questions / survey.n_answers)


class Wire(SystemNoise):
    """Noise that keeps each report as it is counted. `compared`: the answers to each question whose bits are kept."""

    def __init__(self, compared: Sequence[Sequence[int]]) -> None:
        super().__init__()
        self._compared = compared
        self.reports: list[np.ndarray] = []  # to each question: symbols, or the bits that are compared as numbers
        self.n_answered = 0
        self.counts: list[np.ndarray] = []
        self.carried = True  # each count is of the reports that passed

    def respond(self, cells: np.ndarray, oracle: Any) -> np.ndarray:
        seen, tapped = [np.zeros(0, dtype=np.int64)], copy(oracle)
        carried = np.zeros(oracle.size, dtype=np.int64)
        bits = [cell for cell in self._compared[len(self.reports)] if cell != NO_ANSWER]

        def supported(reports: np.ndarray) -> np.ndarray:
            support = np.asarray(oracle.supported(reports))
            np.add(carried, support, out=carried)
            direct = isinstance(oracle, DirectEncoding)
            seen.append(reports if direct else reports[:, bits].astype(np.int64) @ (1 << np.arange(len(bits))))
            return support

        object.__setattr__(tapped, "supported", supported)  # of this copy alone, which is frozen
        counted = super().respond(cells, tapped)
        self.reports.append(np.concatenate(seen))
        self.n_answered += int((cells != NO_ANSWER).sum())
        self.counts.append(counted)
        self.carried &= len(self.reports[-1]) == len(cells) and np.array_equal(counted, carried)
        return counted

    def hold(self, heard: Sequence[np.ndarray]) -> "Wire":
        """Hold what a fit heard against the counts that passed."""
        self.carried &= len(self.counts) == len(heard) and all(map(np.array_equal, self.counts, heard))
        return self


def made_up_rows(survey: Survey, rng: np.random.Generator) -> list[Code]:
    """Rows that are furthest apart: the first and the last code of each column that a value can have; a row of codes at
    random; and nobody.
    """
    sizes = survey.discretizer.sizes
    codes = {
        each.name: np.setdiff1d(np.arange(sizes[each.name]), each.impossible) for each in survey.discretizer.attributes
    }
    drawn = {name: rng.choice(possible, 1) for name, possible in codes.items()}
    return [*({name: possible[[end]] for name, possible in codes.items()} for end in (0, -1)), drawn, None]


def _reports(survey: Survey, worlds: Sequence[Code], n_slots: int) -> list[np.ndarray]:
    """For each question how often each report came of each table; shape (n_worlds, n_classes). A class is a symbol, or
    the bits of all answers that are compared.
    """
    answers = [
        [NO_ANSWER if row is None else int(question.cells(row)[0]) for row in worlds] for question in survey.questions
    ]
    sizes = [getattr(question.oracle, "n_symbols", 1 << len(worlds)) for question in survey.questions]
    counts = [np.zeros((len(worlds), max(size, len(worlds))), dtype=np.int64) for size in sizes]
    for world, row in enumerate(worlds):
        rows = {name: np.broadcast_to(code, n_slots) for name, code in (row or worlds[0] or {}).items()}
        order = np.full(n_slots, -1) if row is None else np.arange(n_slots)
        asked = zip(survey.answers(rows, order), (each.oracle for each in survey.questions), strict=True)
        wire = Wire(answers)
        wire.hold(Budget(survey.schedule, wire).respond(list(asked), survey.event))
        for number, table in enumerate(counts):
            # Counts that no report carries tell the answers themselves.
            passed = wire.reports[number] if wire.carried else np.full(n_slots, world)
            table[world] = np.bincount(passed, minlength=table.shape[1])
    return counts


def attack(
    first: Sequence[np.ndarray], second: Sequence[np.ndarray], confidence: float
) -> tuple[int, tuple[int, int, int, int]]:
    """The question and the event that tell most by the first half, and how often the event came in the second half
    after the one row and after the other. Both are counts by question, shape (n_worlds, n_classes).
    """
    best, chosen = -1.0, (0, 0, 1, np.arange(1))
    for number, counts in enumerate(first):
        for one, other in permutations(range(len(counts)), 2):
            # Events hold the classes with the highest ratios.
            order = np.argsort(-(counts[one] + 0.5) / (counts[other] + 0.5), kind="stable")
            came = [np.cumsum(counts[world][order]) for world in (one, other)]
            bounds = _bounds(came[0], came[1], (came[0][-1], came[1][-1]), confidence)
            if bounds.max() > best:
                best, chosen = float(bounds.max()), (number, one, other, order[: int(bounds.argmax()) + 1])
    number, one, other, event = chosen
    sides = [second[number][world] for world in (one, other)]
    return number, (int(sides[0][event].sum()), int(sides[0].sum()), int(sides[1][event].sum()), int(sides[1].sum()))


def _one_respondent(generator: Local, survey: Survey) -> AuditCheck:
    """The check of the number of answers that one respondent gives, and of what is counted beside reports."""
    n, m, schema = ROOM * len(survey.questions), survey.n_answers, survey.schema
    survey = replace(survey, schema=schema.model_copy(update={"n_units": n}))
    codes = made_up_rows(survey, np.random.default_rng(_SEED))[1] or {}
    row = survey.discretizer.decode(np.stack(list(codes.values()), axis=1), np.random.default_rng(_SEED))

    def fitted(n_people: int, n_rows_each: int = 1) -> Wire:
        frame = row.iloc[np.zeros(n_people * n_rows_each, dtype=np.int64)].reset_index(drop=True)
        if schema.entity is not None:
            frame[schema.entity] = np.repeat(np.arange(n_people), n_rows_each)
        wire = Wire([[0]] * len(survey.questions))
        return wire.hold(generator.reported(frame, survey, Budget(survey.schedule, wire)).supports)

    fits = single, _, everybody = fitted(1, EXCESS if schema.entity is not None else 1), fitted(0), fitted(n)
    most = max(single.n_answered, everybody.n_answered / n)
    bound, fault = max(CERTAIN, 2 * survey.epsilon), None
    if not all(wire.carried for wire in fits):
        fault = "counts reach the fit that no report carries"
    elif most > m:
        bound, fault = survey.event.epsilon * most, "a respondent gives more answers than are stated"
    elif len({tuple(map(len, wire.reports)) for wire in fits}) > 1:
        fault = "the number of reports tells of the number of rows"
    return AuditCheck(
        RESPONDENT,
        f"fits with a single respondent among {n:,} slots, with none and with all of them: at most {most:,.3g} answers "
        f"of one respondent, where {m:,} are stated",
        "any respondent who answers more questions than is stated, any count without a report, and any number of "
        "reports that tells of rows",
        fault=fault,
        bound=0.0 if fault is None else bound,
    )


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


def _power(oracle: Oracle, n: int, confidence: float) -> Power:
    """The power to show that answers are randomized by a larger epsilon: by its half where half the noise is left."""
    rng = np.random.default_rng(_SEED)

    def shows(share: float) -> float:
        one, other = (rng.binomial(n, min(rate, 1.0), N_SIMULATED) for rate in _chances(oracle, share))
        return float(np.mean(_bounds(one, other, (n, n), confidence) > oracle.epsilon))

    return power_of(shows)


def _chances(oracle: Oracle, share: float) -> tuple[float, float]:
    """The chances that a report speaks for an answer and not for another, after the one and after the other."""
    if share == 0:
        return 1.0, 0.0
    less = replace(oracle, epsilon=oracle.epsilon / share)
    if isinstance(less, DirectEncoding):
        return less.p, less.q
    return less.p * (1 - less.q), (1 - less.p) * less.q
