"""An audit of a local claim: does any report tell more of its respondent's answers than epsilon allows?

The attacker gets a report as it leaves, knows that it is of one of two rows, and wants to say of which. Under pure
epsilon no set of reports is more than e^epsilon times as likely after the one as after the other. So Clopper-Pearson
ends of two rates bound epsilon from below. Respondents are made up, all alike, with answers from the declared domain:
no real row is read, and no budget is charged. Rows whose answers are furthest apart, a row of answers at random and
nobody are compared, each with each, in every question. The question, the two and the event that tell most are chosen by
half of the reports, and tested by the other half: no formula of the mechanism is needed.

Beside it, fits with a single respondent among the slots, with none and with all show how many answers a row goes into,
and that reports account for every count.

Source: Jagielski, Ullman, Oprea 2020 (2006.07709), bounds from two rates; Arcolezi, Gambs 2024 (2309.01534), audits of
local claims.
"""

import math
import time
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np
from scipy import stats

from evaluate.audit_result import Audit, AuditCheck
from evaluate.intervals import clopper_pearson
from evaluate.privacy.audit.canaries import EXCESS, IDENTIFIER
from synth.dp.budget import Budget
from synth.dp.mechanisms import SystemNoise, system_words
from synth.progress import Progress
from synth.schema import Schema, build_schema
from understudy.extras.local.generator import Local
from understudy.extras.local.oracles import NO_ANSWER, DirectEncoding, Oracle
from understudy.extras.local.survey import ANSWERS, ReportCounts, Survey

OUTSIDE = (  # no audit of a local claim looks at these
    "what only the real table would bring out",
    "reports that other programs make, and files of reports",
    "bits of answers that were not compared",
    "randomness that the answers of one respondent share",
    "predictable randomness",
    "whether the list of events names all that was read",
)
QUESTIONS, RESPONDENT = "reports to each question", "answers of one respondent"
CERTAIN = 40.0  # The least epsilon that is proved where an answer is not randomized at all
NEEDED, RARE = 1_000.0, 60.0
"""Reports to tell twice a small epsilon from one: so many over its square. Where it is large: so many times the odds of
twice as much."""
REPORTS_EACH, MOST_WORDS = (20_000, 100_000), 20_000_000
"""Reports to a question at least and at most, and random words of one table: what takes seconds."""
ROOM = 4  # Slots for each question where there is a single respondent: several rows of one have room
_SEED, N_SIMULATED = 20_242, 2_000
Row = dict[str, np.ndarray] | None  # codes, shape (1,) by column, or nobody


def audit_local(
    generator: Local, schema: Schema, *, n_fits: int | None, confidence: float, time_limit_s: float | None, seed: int,
    progress: Progress,
) -> Audit:  # fmt: skip
    """An audit by one pass, which takes seconds, and by more where `n_fits` asks for them and there is time."""
    what, began = f"audit {generator.name}", time.monotonic()
    progress(what, None)
    # Without constraints: the columns alone, and whose rows they are.
    columns: dict[str, Any] = {name: schema.columns[name].model_dump() for name in (*schema.learned, *schema.texts)}
    columns |= {} if schema.entity is None else {schema.entity: IDENTIFIER}
    unit = schema.model_dump(include={"status", "n_units", "entity", "max_rows_per_unit"}, exclude_defaults=True)
    survey = type(generator).asking(generator.survey(schema)).survey(build_schema({**unit, "columns": columns}))
    rows, m = made_up_rows(survey, np.random.default_rng(seed)), survey.n_answers
    n_slots, n_passes = _n_slots(survey), (n_fits or 8) // 8
    first, second = (_reports(survey, rows, n_slots) for _ in range(2))
    for turn in range(1, n_passes):
        if time_limit_s is not None and time.monotonic() - began > time_limit_s:
            break
        progress(what, turn / n_passes)
        for half in (first, second):
            for counts, more in zip(half, _reports(survey, rows, n_slots), strict=True):
                counts += more
    number, (n_hits, n_one, n_false, n_other) = attack(first, second, confidence)
    proved, n = float(bounds(n_hits, n_false, (n_one, n_other), confidence)), min(n_one, n_other)
    kinds = dict.fromkeys(question.oracle for question in survey.questions)
    power = min(_power(oracle, n, confidence) for oracle in kinds)
    names, exceeds, alone = " and ".join(survey.questions[number].columns), m * proved > survey.epsilon, _alone(survey)
    tried = (
        f"{len(first):,} question{'s' if len(first) > 1 else ''}, {n:,} reports or more after each of up to four "
        f"answers, no answer among them: an epsilon of at least {proved:.3g} by {names}, where "
        f"{survey.event.epsilon:.3g} is stated"
    )
    fault = f"a report about {names} tells more of the answer than is stated" if exceeds else None
    each = AuditCheck(QUESTIONS, tried, power=power, fault=fault, bound=m * proved if exceeds else 0.0)
    false_in, false_out = (
        (wrong / n_worlds, *clopper_pearson(wrong, n_worlds, level=confidence))
        for wrong, n_worlds in ((n_false, n_other), (n_one - n_hits, n_one))
    )
    return Audit(
        epsilon=survey.epsilon, delta=0.0, bound=max(m * proved, alone.bound), distribution_free=proved,
        strongest=m * float(bounds(n, 0, (n, n), confidence)), confidence=confidence, n_trials=n_one + n_other,
        false_positives=false_in, false_negatives=false_out,
        ran_on=f"a public stand-in of {n_slots:,} respondents, all alike",
        checks=(each, alone), covered=(ANSWERS,), not_covered=OUTSIDE, attacked="reports",
    )  # fmt: skip


def _n_slots(survey: Survey) -> int:
    """Respondents of one table: enough to tell twice epsilon from once by any question."""
    epsilon, n_questions = survey.event.epsilon, len(survey.questions)
    wanted = max(NEEDED / epsilon**2, RARE * math.exp(min(2 * epsilon, 40.0)))
    n_words = sum(question.oracle.n_words for question in survey.questions)
    return math.ceil(min(float(np.clip(wanted, *REPORTS_EACH)), MOST_WORDS / n_words) * n_questions / survey.n_answers)


class Wire(SystemNoise):
    def __init__(self) -> None:
        super().__init__()
        self.passed: list[tuple[np.ndarray, Oracle, np.ndarray]] = []

    def respond(self, cells: np.ndarray, oracle: Any) -> np.ndarray:
        seen, tapped = [oracle.randomize(cells[:0], system_words)], copy(oracle)

        def supported(reports: np.ndarray) -> np.ndarray:
            seen.append(reports)
            return np.asarray(oracle.supported(reports))

        object.__setattr__(tapped, "supported", supported)  # of this copy alone, which is frozen
        counted = super().respond(cells, tapped)
        self.passed.append((cells, oracle, np.concatenate(seen)))
        return counted

    def carried(self, heard: Sequence[np.ndarray]) -> bool:
        """True if counts that a fit heard are of the reports that passed, one of each respondent who was asked."""
        return len(heard) == len(self.passed) and all(
            len(cells) == len(reports) and np.array_equal(count, oracle.supported(reports))
            for count, (cells, oracle, reports) in zip(heard, self.passed, strict=True)
        )


def made_up_rows(survey: Survey, rng: np.random.Generator) -> list[Row]:
    """Rows that are furthest apart: the first and the last code of each column that a value can have; a row of codes at
    random; and nobody.
    """
    sizes = survey.discretizer.sizes
    codes = {
        each.name: np.setdiff1d(np.arange(sizes[each.name]), each.impossible) for each in survey.discretizer.attributes
    }
    drawn = {name: rng.choice(possible, 1) for name, possible in codes.items()}
    return [*({name: possible[[end]] for name, possible in codes.items()} for end in (0, -1)), drawn, None]


def _reports(survey: Survey, rows: Sequence[Row], n_slots: int) -> list[np.ndarray]:
    """For each question how often each report came of respondents who are all alike; shape (n_rows, n_classes). A class
    is a symbol, or the bits of the answers of all rows.
    """
    counts = [
        np.zeros((len(rows), max(question.oracle.n_cells + 1, 8)), dtype=np.int64) for question in survey.questions
    ]
    for world, row in enumerate(rows):
        codes = {name: np.broadcast_to(code, n_slots) for name, code in (row or rows[0] or {}).items()}
        order = np.full(n_slots, -1) if row is None else np.arange(n_slots)
        asked, wire = zip(survey.answers(codes, order), survey.questions, strict=True), Wire()
        heard = Budget(survey.schedule, wire).respond([(cells, each.oracle) for cells, each in asked], survey.event)
        if not wire.carried(heard):  # counts that no report carries tell the answers themselves
            wire.passed = [(np.zeros(0), DirectEncoding(2, 1.0), np.full(n_slots, world))] * len(counts)
        for table, question, (_, oracle, reports) in zip(counts, survey.questions, wire.passed, strict=True):
            if not isinstance(oracle, DirectEncoding):
                bits = [int(question.cells(each)[0]) for each in rows if each is not None]
                reports = reports[:, bits].astype(np.int64) @ (1 << np.arange(len(bits)))
            table[world] = np.bincount(reports, minlength=table.shape[1])
    return counts


def attack(
    first: Sequence[np.ndarray], second: Sequence[np.ndarray], confidence: float
) -> tuple[int, tuple[int, int, int, int]]:
    """The question and the event that tell most by the first half, and how often the event came in the second half
    after the one row and after the other. Both are counts by question, shape (n_rows, n_classes).
    """
    best, chosen = -1.0, (0, 0, 1, np.arange(1))
    for number, counts in enumerate(first):
        for first_row, other in permutations(range(len(counts)), 2):
            # Events hold the classes with the highest ratios.
            order = np.argsort(-(counts[first_row] + 0.5) / (counts[other] + 0.5), kind="stable")
            came = [np.cumsum(counts[row][order]) for row in (first_row, other)]
            proved = bounds(came[0], came[1], (came[0][-1], came[1][-1]), confidence)
            if proved.max() > best:
                best, chosen = float(proved.max()), (number, first_row, other, order[: int(proved.argmax()) + 1])
    number, first_row, other, event = chosen
    sides = [second[number][row] for row in (first_row, other)]
    return number, (int(sides[0][event].sum()), int(sides[0].sum()), int(sides[1][event].sum()), int(sides[1].sum()))


def _alone(survey: Survey) -> AuditCheck:
    """The check of the number of answers that one respondent gives, and of what is counted beside reports."""
    n, m, schema = ROOM * len(survey.questions), survey.n_answers, survey.schema
    survey = replace(survey, schema=schema.model_copy(update={"n_units": n}))
    codes = made_up_rows(survey, np.random.default_rng(_SEED))[1] or {}
    row = survey.discretizer.decode(np.stack(list(codes.values()), axis=1), np.random.default_rng(_SEED))
    n_answered, n_reports, faults = [], set(), {}
    for n_people, n_rows in ((1, EXCESS if schema.entity is not None else 1), (0, 1), (n, 1)):
        frame = row.iloc[np.zeros(n_people * n_rows, dtype=np.int64)].reset_index(drop=True)
        if schema.entity is not None:
            frame[schema.entity] = np.repeat(np.arange(n_people), n_rows)
        wire = Wire()
        if not wire.carried(ReportCounts.of(frame, survey, Budget(survey.schedule, wire)).supports):
            faults["counts reach the fit that no report carries"] = max(CERTAIN, 2 * survey.epsilon)
        n_answered.append(sum(int((cells != NO_ANSWER).sum()) for cells, *_ in wire.passed) / max(n_people, 1))
        n_reports.add(tuple(len(cells) for cells, *_ in wire.passed))
    if max(n_answered) > m:
        faults["a respondent gives more answers than are stated"] = survey.event.epsilon * max(n_answered)
    if len(n_reports) > 1:
        faults["the number of reports tells of the number of rows"] = max(CERTAIN, 2 * survey.epsilon)
    return AuditCheck(
        RESPONDENT,
        f"fits with a single respondent among {n:,} slots, with none and with all of them: at most "
        f"{max(n_answered):,.3g} answers of one respondent, where {m:,} are stated",
        "any respondent who answers more questions than is stated, any count without a report, and any number of "
        "reports that tells of rows",
        fault="; ".join(faults) or None,
        bound=max(faults.values(), default=0.0),
    )


def bounds(first: np.ndarray | int, other: np.ndarray | int, n: tuple[int, int], confidence: float) -> np.ndarray:
    """Epsilon is at least this, by how often an event came after the one row and after the other; shape of the counts.

    >>> bounds(9_000, 1_000, (10_000, 10_000), 0.99).round(2).item()  # log 9 is 2.20
    2.11
    """
    first, other, tail = np.asarray(first), np.asarray(other), (1 - confidence) / 2
    low = np.where(first > 0, stats.beta.ppf(tail, np.maximum(first, 1), n[0] - np.maximum(first, 1) + 1), 0.0)
    high = np.where(other < n[1], stats.beta.isf(tail, other + 1, np.maximum(n[1] - other, 1)), 1.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.maximum(np.log(low / high), 0.0))


def _power(oracle: Oracle, n: int, confidence: float) -> float:
    """The power to show that answers are randomized by twice the epsilon: by its half, where half the noise is left."""
    rng = np.random.default_rng(_SEED)
    chances = _chances(replace(oracle, epsilon=2 * oracle.epsilon))
    first, other = (rng.binomial(n, min(chance, 1.0), N_SIMULATED) for chance in chances)
    return float(np.mean(bounds(first, other, (n, n), confidence) > oracle.epsilon))


def _chances(oracle: Oracle) -> tuple[float, float]:
    p, q = oracle.p, oracle.q
    return (p, q) if isinstance(oracle, DirectEncoding) else (p * (1 - q), (1 - p) * q)
