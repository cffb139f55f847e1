"""A survey: which questions respondents are asked, and how each randomizes the answers; all of it public.

A question is a column or a pair of columns of the declared domain. Numbers and times are asked in bins of their public
grid. Every respondent answers `n_answers` of the questions, each at an equal part of epsilon. With all questions asked
of everybody the budget is split; with one each, the people are.

**The rule.** With n respondents, M questions and m answers each, n m / M respondents answer a question. The noise of an
estimated share has a variance of v(epsilon / m) M / (n m), where v is the oracle's. Those who answer are a sample of
all, which adds f (1 - f) M / (n m) (1 - m / M) for an answer of share f. The m is taken at which the sum over all
answers of all questions is smallest. For the noise alone that is m = 1: for unary encoding v is
1 / sinh^2(epsilon / 2), and sinh(epsilon / 2) is at least m sinh(epsilon / (2 m)). Where epsilon is large the sample
counts, and several answers each are better.

**Reports.** What a respondent sends is one JSON object: `survey`, the digest of the survey's public header;
`respondent`, random bits that are drawn once and stand on every copy; and `answers`, for the number of each question
a symbol, or bits in hexadecimal. The bits of `respondent` are drawn apart from all answers, and tell nothing of them.
They link the answers of one respondent, whose parts of epsilon are added up anyway.
"""

import codecs
import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
from scipy import special

from synth.domain import Discretizer, grid
from synth.domain.discretizer import OTHER, Attribute, regroup
from synth.domain.relations import to_counted
from synth.dp.budget import Budget
from synth.dp.events import RandomizedResponseEvent
from synth.dp.mechanisms import Words, system_words
from synth.dp.schedule import EPSILON_RANGE, Schedule, require_declared
from synth.errors import BudgetError, SchemaError, TableError
from synth.generators.fitting.training_data import bound_contributions
from synth.marginals import Measurement
from synth.marginals.factor import MEAN_ABSOLUTE
from synth.schema import Schema
from synth.schema.residual_schema import in_rows_alone
from synth.table import conform
from synth.table.rows import Rows
from synth.validation import plain_json
from understudy.extras.local.oracles import Oracle, smaller_variance

Pairs = Literal["auto", "none", "all"] | tuple[tuple[str, str], ...]
ANSWERS = "randomized answers of each respondent"  # the event of a survey
MOST_CELLS = 100_000  # answers to one question at most
LARGEST_NOISE = 0.2  # the mean distance of a pair from its true shares, by noise alone, up to which "auto" asks pairs
QUANTILE = float(special.ndtri(0.975))
_SHARES = np.linspace(0.0, 1.0, 101)  # among which the one with the widest interval is looked for
N_DIGITS = 32  # of the name of a survey, and of that of a respondent: 128 bits in hexadecimal
_TOKEN = re.compile(f"[0-9a-f]{{{N_DIGITS}}}", re.ASCII)
_DECLARED = {"bounds", "bins", "decimals", "steps", "step_shares", "scale", "spikes", "modeled"}  # give edges
NO_REPORT, OTHER_SURVEY = "that are no report", "of another survey, or of another version"
NO_SUCH_ANSWER = "with answers that the survey does not have"
AGAIN, CONTRADICTION = "sent again", "of respondents whose reports contradict each other"
Answers = tuple[tuple[int, Any], ...]  # of one respondent: numbers of questions, each with what is sent


@dataclass(frozen=True)
class Question:
    columns: tuple[str, ...]
    sizes: tuple[int, ...]
    oracle: Oracle

    def cells(self, codes: Mapping[str, np.ndarray]) -> np.ndarray:
        """The answer of each row, shape (n,). `codes`: *Sensitive*. Of each column, shape (n,)."""
        return np.ravel_multi_index([codes[name] for name in self.columns], self.sizes).astype(np.int64)


@dataclass(frozen=True)
class Survey:
    schema: Schema
    discretizer: Discretizer
    epsilon: float
    n_answers: int
    questions: tuple[Question, ...]
    n_bins: int

    @classmethod
    def of(
        cls, schema: Schema, epsilon: float, *, pairs: Pairs = "auto", n_bins: int = 16,
        n_answers: int | Literal["auto"] = "auto", allows_no_answer: bool = False,
    ) -> "Survey":  # fmt: skip
        n = require_askable(schema)
        if not EPSILON_RANGE[0] <= epsilon <= EPSILON_RANGE[1]:
            raise BudgetError(
                f"epsilon={epsilon:g} is outside [{EPSILON_RANGE[0]:g}, {EPSILON_RANGE[1]:g}]; choose one inside"
            )
        schema = in_rows_alone(schema)
        discretizer = public_bins(schema.counted, n_bins)

        def planned(chosen: Literal["none", "all"] | Sequence[tuple[str, str]]) -> Survey:
            columns = questions_of(chosen, discretizer.sizes)
            shapes = [tuple(discretizer.sizes[name] for name in names) for names in columns]
            asked = range(1, len(shapes) + 1) if n_answers == "auto" else (n_answers,)
            if not 1 <= asked[0] <= len(shapes):
                raise BudgetError(f"answers={n_answers} of {len(shapes)} questions; ask for 1 at least and all at most")
            surveys = []
            for m in asked:
                oracles = [smaller_variance(math.prod(shape), epsilon / m, allows_no_answer) for shape in shapes]
                questions = tuple(map(Question, columns, shapes, oracles))
                surveys.append(cls(schema, discretizer, epsilon, m, questions, n_bins))
            return min(surveys, key=lambda survey: survey.variance(n))

        survey = planned("all" if pairs == "auto" else pairs)
        if pairs == "auto" and survey.noise(n) > LARGEST_NOISE:
            survey = planned("none")
        largest = max(survey.questions, key=lambda question: question.oracle.n_cells)
        if largest.oracle.n_cells > MOST_CELLS:
            raise SchemaError(
                f"columns={', '.join(largest.columns)} have {largest.oracle.n_cells:,} answers, and a question has at "
                f"most {MOST_CELLS:,}; declare fewer categories or fewer bins"
            )
        return survey

    def variance(self, n: int) -> float:
        """The variance of all estimated shares of n respondents, all answers of a question taken for alike."""
        n_each, left = n * self.n_answers / len(self.questions), 1 - self.n_answers / len(self.questions)
        sizes = ((question.oracle, question.oracle.n_cells) for question in self.questions)
        return sum(k * float(oracle.variance(1 / k, n_each)) + (1 - 1 / k) / n_each * left for oracle, k in sizes)

    def noise(self, n: int) -> float:
        """The mean total variation by which noise alone moves a pair; infinite where none is asked."""
        n_each = n * self.n_answers / len(self.questions)
        oracles = [question.oracle for question in self.questions if len(question.columns) > 1]
        each = [oracle.n_cells * math.sqrt(float(oracle.variance(1 / oracle.n_cells, n_each))) for oracle in oracles]
        return MEAN_ABSOLUTE / 2 * float(np.mean(each)) if each else math.inf

    @property
    def event(self) -> RandomizedResponseEvent:
        return RandomizedResponseEvent(ANSWERS, self.epsilon / self.n_answers, self.n_answers)

    @property
    def schedule(self) -> Schedule:
        return Schedule((self.event,), 0.0)

    def half_width(self, question: Question, n: int) -> float:
        """Half the widest 95% interval of a share in a population, to expect of so many respondents."""
        n_reports = max(n * self.n_answers / len(self.questions), 1.0)
        # Noise and sampling of one report, at the share at which they are largest.
        widest = float((question.oracle.variance(_SHARES, 1) + _SHARES * (1 - _SHARES)).max())
        return QUANTILE * math.sqrt(widest / n_reports)

    def respondents_needed(self, question: Question, width: float) -> int:
        n = len(self.questions)  # one report of each question, or more
        return math.ceil(n * (self.half_width(question, n) / width) ** 2)

    def codes(self, frame: pd.DataFrame) -> dict[str, np.ndarray]:
        """*Sensitive*. The codes of each column of a table, a row for each respondent; what does not fit is clamped."""
        coded = self.discretizer.encode(to_counted(conform(frame, self.schema, outside="clamp"), self.schema))
        return dict(zip(self.discretizer.columns, coded.T, strict=True))

    def respondents_of(self, question: int, n: int) -> np.ndarray:
        """The slots, of n in a random order, whose respondents answer a question; ascending.

        Slot i answers m questions after the first m i, and begins anew behind the last. So each question is asked of
        as many respondents, but for one.
        """
        first = (np.arange(n, dtype=np.int64) * self.n_answers) % len(self.questions)
        return np.flatnonzero((question - first) % len(self.questions) < self.n_answers)

    @cached_property
    def header(self) -> dict[str, Any]:
        """All that says what a report means, as plain JSON; public. Answers are named by labels, which are rounded, and
        by what is declared, not by edges, whose last digits may differ between machines.
        """
        columns = [
            {"name": each.name, "kind": each.column.kind, "zone": each.column.zone, "answers": each.labels()}
            for each in self.discretizer.attributes
        ]
        questions = [
            {"columns": list(question.columns), "mechanism": question.oracle.mechanism, "p": question.oracle.p,
             "q": question.oracle.q}
            for question in self.questions
        ]  # fmt: skip
        declared = {
            name: self.schema.columns[name].model_dump(mode="json", include=_DECLARED, exclude_defaults=True)
            for name in self.schema.learned
        }
        return {"format": 3, "epsilon": self.epsilon, "delta": 0.0, "answers_each": self.n_answers,
                "questions": questions, "columns": columns, "declared": declared}  # fmt: skip

    @cached_property
    def digest(self) -> str:
        """The survey's name in its reports."""
        return hashlib.sha256(json.dumps(self.header, sort_keys=True).encode()).hexdigest()[:N_DIGITS]

    def randomize(self, row: Mapping[str, Any], words: Words = system_words) -> dict[str, Any]:
        """A respondent's report, plain JSON: randomized answers to the questions drawn for them. `row`: *Sensitive*;
        identifiers and texts, which are not asked, may be left out.

        Whoever sends it again sends this very report: another one would cost as much epsilon again.
        """
        unasked = {name for name in self.schema.kept if name not in self.schema.learned}
        codes = self.codes(pd.DataFrame({n: [row.get(n)] for n in self.schema.kept if n in row or n in unasked}))
        answers = {}
        for number in np.argsort(words(len(self.questions), np.uint64), kind="stable")[: self.n_answers].tolist():
            question = self.questions[number]
            report = question.oracle.randomize(question.cells(codes), words)
            answers[str(number)] = question.oracle.to_plain(report)[0]
        return self.report(answers, words)

    def report(self, answers: Mapping[str, Any], words: Words) -> dict[str, Any]:
        token = words(N_DIGITS // 2, np.uint8).tobytes().hex()
        return {"survey": self.digest, "respondent": token, "answers": answers}

    def read(self, report: Any) -> tuple[bytes, Answers] | str:
        """The respondent and the answers of a report, which may be anything; else why it is left out."""
        if not isinstance(report, dict) or report.keys() != {"survey", "respondent", "answers"}:
            return NO_REPORT
        if report["survey"] != self.digest:
            return OTHER_SURVEY
        token, answers, oracles = report["respondent"], report["answers"], self._oracles
        if not (isinstance(token, str) and _TOKEN.fullmatch(token) and isinstance(answers, dict)):
            return NO_REPORT
        if len(answers) != self.n_answers or not answers.keys() <= oracles.keys():
            return NO_SUCH_ANSWER
        if not all(oracles[number].accepts(answer) for number, answer in answers.items()):
            return NO_SUCH_ANSWER
        return bytes.fromhex(token), tuple(sorted((int(number), answer) for number, answer in answers.items()))

    @cached_property
    def _oracles(self) -> dict[str, Oracle]:
        return {str(number): question.oracle for number, question in enumerate(self.questions)}

    def asked(self, table: Any, n_slots: int | None = None) -> tuple[list[np.ndarray], int]:
        """The true answers to each question by the rows of a table, one of each entity, and the number of slots.
        `table`: *Sensitive*. `n_slots`: as many as are declared, whatever the rows; `None`: one for each row.
        """
        # Conformed first: one name may be spelled in several ways, and each would send a report.
        rows = bound_contributions(Rows.of(table, self.schema), self.schema).frame()
        order = deal(len(rows), len(rows) if n_slots is None else n_slots)
        return list(self.answers(self.codes(rows), order)), len(order)

    def answers(self, codes: Mapping[str, np.ndarray], order: np.ndarray) -> Iterator[np.ndarray]:
        """For each question the true answers of those who are asked it, -1 for none, in the order of their slots.
        `codes`: *Sensitive*. `order`: the row in each slot, -1 for none, shape (n_slots,): random, and not kept.
        """
        for number, question in enumerate(self.questions):
            rows = order[self.respondents_of(number, len(order))]
            cells = np.full(len(rows), -1, dtype=np.int64)
            cells[rows >= 0] = question.cells({name: codes[name][rows[rows >= 0]] for name in question.columns})
            yield cells


def deal(n_rows: int, n_slots: int) -> np.ndarray:
    """The row in each slot, -1 for none: rows in a random order of the system, those beyond the slots left out."""
    rows = np.full(max(n_slots, n_rows), -1, dtype=np.int64)
    rows[:n_rows] = np.arange(n_rows)
    return rows[np.argsort(system_words(len(rows), np.uint64), kind="stable")][:n_slots]


def questions_of(
    pairs: Literal["none", "all"] | Sequence[tuple[str, str]], sizes: Mapping[str, int]
) -> list[tuple[str, ...]]:
    """The columns of each question: every column, then pairs."""
    if pairs == "none":
        pairs = ()
    elif isinstance(pairs, str):  # "all"
        pairs = [two for two in combinations(sizes, 2) if math.prod(sizes[name] for name in two) <= MOST_CELLS]
    rank = {name: index for index, name in enumerate(sizes)}
    if wrong := [pair for pair in pairs if len(rank.keys() & set(pair)) < 2]:
        raise SchemaError(
            f"pair={':'.join(wrong[0])} is not of two columns that are asked; these are {', '.join(rank)}"
        )
    return [*((name,) for name in sizes), *dict.fromkeys(tuple(sorted(pair, key=rank.__getitem__)) for pair in pairs)]


def require_askable(schema: Schema) -> int:
    n = require_declared(schema)
    if hidden := dict.fromkeys((*schema.measured, *schema.spikes_measured)):
        raise SchemaError(
            f"columns={', '.join(hidden)} are to be measured, and a respondent needs to know the answers that there "
            "are; declare their bounds or categories"
        )
    if schema.max_rows_per_unit > 1:
        raise SchemaError(
            f"max_rows_per_unit={schema.max_rows_per_unit}: each row is randomized as one respondent's, and somebody "
            "with several rows would lose as many times epsilon; declare 1 row of each unit"
        )
    return n


def public_bins(schema: Schema, n_bins: int) -> Discretizer:
    """Codes from what is declared alone: categories, declared bins, or about so many stretches of the public grid.

    Cells of declared spikes stay apart, as does the zero of a logarithmic scale.
    """

    def binned(attribute: Attribute) -> Attribute:
        if attribute.column.is_categorical or len(getattr(attribute.column, "bins", ())) > 0:
            return attribute
        n_cells, apart = attribute.n_cells + OTHER, grid.spike_cells(*attribute.line)
        starts = np.diff(np.arange(n_cells) * min(n_bins, n_cells) // n_cells, prepend=0) != 0
        starts |= apart | np.concatenate([[False], apart[:-1]])
        starts[0] = False
        return regroup(attribute, np.cumsum(starts))

    return Discretizer(tuple(map(binned, Discretizer.by_schema(schema).attributes)))


@dataclass(frozen=True, eq=False)
class ReportCounts:
    survey: Survey
    supports: tuple[np.ndarray, ...]  # for each question how many reports support each answer, shape (n_cells,)
    n_each: tuple[int, ...]
    n: int

    @classmethod
    def of(cls, table: Any, survey: Survey, budget: Budget | None = None) -> Self:
        """The reports of the respondents of a *sensitive* table, randomized and counted; nothing but these leaves. With
        a budget, by its noise and from as many slots as are declared; else by the system's, from one for each row.
        """
        cells, n = survey.asked(table, None if budget is None else require_declared(survey.schema))
        asked = [(each, question.oracle) for each, question in zip(cells, survey.questions, strict=True)]
        own = (oracle.support(each) for each, oracle in asked)
        supports = own if budget is None else budget.respond(asked, survey.event)
        return cls(survey, tuple(supports), tuple(map(len, cells)), n)

    def shares(self, question: int) -> np.ndarray:
        """The share of respondents with each answer, without bias: some may lie outside [0, 1]; shape (n_cells,). NaN
        where nobody answered.
        """
        n_reports, oracle = self.n_each[question] or math.nan, self.survey.questions[question].oracle
        return oracle.counts(self.supports[question], n_reports) / n_reports

    def variance(self, question: int) -> tuple[float, float, float]:
        """The variance of an estimated share about that of all respondents: (a, b, c) of a + b f + c f (1 - f), where f
        is the true share. The noise of the reports gives a and b, and who was asked gives c.
        """
        n_reports, oracle = self.n_each[question] or math.nan, self.survey.questions[question].oracle
        none, every = (float(oracle.variance(share, n_reports)) for share in (0.0, 1.0))
        return none, every - none, max(self.n - n_reports, 0) / max(self.n - 1, 1) / n_reports

    def intervals(self, question: int) -> tuple[np.ndarray, np.ndarray]:
        """Ends of 95% intervals of the shares of all respondents, each of shape (n_cells,): the shares that a score
        test with half a count of correction does not reject (Wilson 1927; Newcombe 1998). The variance is that at the
        share tested, so that an answer that nobody gave has no narrow one. NaN where nobody answered.
        """
        (a, b, c), z, sides = self.variance(question), QUANTILE**2, np.array([[-1.0], [1.0]])
        oracle, n_reports = self.survey.questions[question].oracle, self.n_each[question] or math.nan
        shares = self.shares(question) + sides / (2 * n_reports * (oracle.p - oracle.q))
        # (share - f)^2 = z (a + b f + c f (1 - f)) is quadratic in f: two roots, or none where the share is below 0.
        within = a + b * shares + c * shares * (1 - shares) + z * ((b + c) ** 2 / 4 + a * c)
        low, high = (shares + z * (b + c) / 2 + sides * np.sqrt(z * np.maximum(within, 0.0))) / (1 + z * c)
        return np.minimum(low, shares[0]), np.maximum(high, shares[1])

    def measurements(self) -> list[Measurement]:
        """Each question that somebody answered as counts of respondents.

        DEVIATES: answers differ in their variance, since that of generalized randomized response grows with the share.
        A measurement takes the root of the mean over all answers.
        """
        measured = []
        for number, question in enumerate(self.survey.questions):
            if self.n_each[number] == 0:
                continue
            (a, b, c), known = self.variance(number), np.clip(self.shares(number), 0.0, 1.0)
            sigma = self.n * float(np.sqrt(np.mean(a + b * known + c * known * (1 - known))))
            measured.append(Measurement(question.columns, self.n * self.shares(number).reshape(question.sizes), sigma))
        return measured


def write(table: Any, survey: Survey, path: Path, words: Words = system_words) -> None:
    """Write the reports of all respondents of a table, one a line, in no order of its rows. `table`: *Sensitive*."""
    cells, n = survey.asked(table)
    sent: list[dict[str, Any]] = [{} for _ in range(n)]
    for number, (question, truths) in enumerate(zip(survey.questions, cells, strict=True)):
        oracle, slots = question.oracle, iter(survey.respondents_of(number, n).tolist())
        for part in oracle.chunks(truths):
            for answer, slot in zip(oracle.to_plain(oracle.randomize(part, words)), slots, strict=False):
                sent[slot][str(number)] = answer
    with path.open("w", encoding="utf-8") as file:
        file.writelines(f"{json.dumps(survey.report(answers, words))}\n" for answers in sent)


def collect(path: Path, survey: Survey) -> tuple[ReportCounts, Counter[str]]:
    """The reports of a file or folder, counted, and how many were left out by each reason; no table is needed.

    A respondent counts once, however many copies came, and not at all where these contradict each other: nobody knows
    which is theirs, and the order in which files are read must not decide.
    """
    kept, again, left_out = dict[bytes, Answers | None](), Counter[bytes](), Counter[str]()
    for content in _contents(path, 10_000 + sum(question.oracle.n_cells for question in survey.questions)):
        report = survey.read(content)
        if isinstance(report, str):
            left_out[report] += 1
            continue
        token, answers = report
        if token in kept:
            again[token] += 1
        if kept.setdefault(token, answers) != answers:
            kept[token] = None
    for token, n_more in again.items():
        contradicts = kept[token] is None
        left_out[CONTRADICTION if contradicts else AGAIN] += n_more + contradicts
    counted = [answers for answers in kept.values() if answers is not None]
    if not counted:
        why = ", ".join(f"{n:,} {reason}" for reason, n in left_out.items()) or "nothing is there"
        raise TableError(
            f"path={str(path)!r} holds no report that counts ({why}); name the schema and the options of the survey "
            "that was asked"
        )
    by_question: list[list[Any]] = [[] for _ in survey.questions]
    for number, answer in chain.from_iterable(counted):
        by_question[number].append(answer)
    supports = []
    for oracle, sent in zip((question.oracle for question in survey.questions), by_question, strict=True):
        parts = (oracle.supported(oracle.from_plain(part)) for part in oracle.chunks(sent))
        supports.append(sum(parts, np.zeros(oracle.n_cells, dtype=np.int64)))
    return ReportCounts(survey, tuple(supports), tuple(map(len, by_question)), len(counted)), left_out


def _contents(path: Path, longest: int) -> Iterator[Any]:
    """What stands in a file, or in those of a folder: one JSON text each, or one a line; `None` for what is none."""
    try:
        inside = ((f"/{file.relative_to(path).as_posix()}", file) for file in sorted(path.rglob("*")) if file.is_file())
        for file in [file for name, file in inside if "/." not in name] if path.is_dir() else [path]:
            with file.open("rb") as lines:
                whole = _parsed(lines.read(longest))
                if whole is not None and not lines.read(1):
                    yield whole
                    continue
                lines.seek(0)
                while line := lines.readline(longest):
                    if line.strip():
                        yield _parsed(line)
                    while len(line) == longest and not line.endswith(b"\n"):  # the rest of a line that is too long
                        line = lines.readline(longest)
    except OSError as error:
        raise TableError(
            f"path={str(path)!r} cannot be read ({error.strerror}); name a file or folder that can"
        ) from None


def _parsed(text: bytes) -> Any:
    try:
        return plain_json(text.removeprefix(codecs.BOM_UTF8))
    except ValueError:
        return None
