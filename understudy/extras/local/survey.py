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
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal, Self

import numpy as np
import pandas as pd

from synth.domain import Discretizer, grid
from synth.domain.counted_form import to_counted
from synth.domain.discretizer import OTHER, Attribute, regroup
from synth.dp.events import RandomizedResponseEvent
from synth.dp.mechanisms import Words, system_words
from synth.dp.schedule import EPSILON_RANGE, Schedule, require_declared
from synth.errors import BudgetError, SchemaError, nearest
from synth.generators.fitting.training_data import bound_contributions
from synth.marginals.measurement import MEAN_ABSOLUTE
from synth.schema import Schema
from synth.schema.counted import in_rows_alone
from synth.table import conform
from synth.table.rows import Rows
from understudy.extras.local.oracles import Oracle, smaller_variance

Pairs = Literal["auto", "none", "all"] | tuple[tuple[str, str], ...]
Columns = tuple[str, ...]
ANSWERS = "randomized answers of each respondent"  # the event of a survey
MOST_CELLS = 100_000  # answers to one question at most
LARGEST_NOISE = 0.2  # the mean distance of a pair from its true shares, by noise alone, up to which "auto" asks pairs


@dataclass(frozen=True)
class Question:
    columns: Columns
    sizes: tuple[int, ...]
    oracle: Oracle

    def cells(self, codes: Mapping[str, np.ndarray]) -> np.ndarray:
        """The answer of each row, shape (n,). `codes`: *Sensitive*. Of each column, shape (n,)."""
        return np.ravel_multi_index([codes[name] for name in self.columns], self.sizes).astype(np.int64)


@dataclass(frozen=True)
class Survey:
    """The questions of a survey and how they are answered."""

    schema: Schema
    discretizer: Discretizer
    epsilon: float
    n_answers: int
    questions: tuple[Question, ...]
    n_bins: int

    @classmethod
    def of(
        cls,
        schema: Schema,
        epsilon: float,
        *,
        pairs: Pairs = "auto",
        n_bins: int = 16,
        n_answers: int | Literal["auto"] = "auto",
        allows_no_answer: bool = False,
    ) -> Self:
        """The survey of a declared schema; nothing is read."""
        n = require_askable(schema)
        if not EPSILON_RANGE[0] <= epsilon <= EPSILON_RANGE[1]:
            raise BudgetError(
                f"epsilon={epsilon:g} is outside [{EPSILON_RANGE[0]:g}, {EPSILON_RANGE[1]:g}]; choose one inside"
            )
        schema = in_rows_alone(schema)
        discretizer = public_bins(schema.counted, n_bins)
        sizes, plan = discretizer.sizes, Plan(epsilon, n, n_answers, allows_no_answer)
        chosen = questions_of("all" if pairs == "auto" else pairs, sizes)
        if pairs == "auto" and plan.noise(chosen, sizes) > LARGEST_NOISE:
            chosen = questions_of("none", sizes)
        m = plan.answers(chosen, sizes)
        questions = []
        for columns in chosen:
            shape = tuple(sizes[name] for name in columns)
            if math.prod(shape) > MOST_CELLS:
                raise SchemaError(
                    f"columns={', '.join(columns)} have {math.prod(shape):,} answers together, and a question has at "
                    f"most {MOST_CELLS:,}; declare fewer categories or fewer bins"
                )
            questions.append(Question(columns, shape, plan.oracle(math.prod(shape), m)))
        return cls(schema, discretizer, epsilon, m, tuple(questions), n_bins)

    @property
    def event(self) -> RandomizedResponseEvent:
        """The line of the books: the answers of one respondent."""
        return RandomizedResponseEvent(ANSWERS, self.epsilon / self.n_answers, self.n_answers)

    @property
    def schedule(self) -> Schedule:
        """All that is drawn, at delta 0."""
        return Schedule((self.event,), 0.0)

    def codes(self, frame: pd.DataFrame) -> dict[str, np.ndarray]:
        """The codes of each column of a table, shape (n,) each; what does not fit is clamped, or `other` or `missing`.
        `frame`: *Sensitive*. A row for each respondent.
        """
        coded = self.discretizer.encode(to_counted(conform(frame, self.schema, outside="clamp"), self.schema))
        return {name: coded[:, index] for index, name in enumerate(self.discretizer.columns)}

    def respondents_of(self, question: int, n: int) -> np.ndarray:
        """The slots, of n in a random order, whose respondents answer a question; ascending.

        Slot i answers m questions after the first m i, and begins anew behind the last. So each question is asked of
        as many respondents, but for one.
        """
        first = (np.arange(n, dtype=np.int64) * self.n_answers) % len(self.questions)
        return np.flatnonzero((question - first) % len(self.questions) < self.n_answers)

    def randomize(self, row: Mapping[str, Any], words: Words = system_words) -> list[tuple[int, np.ndarray | int]]:
        """One respondent's report: the questions drawn for them, and a randomized answer to each.
        `row`: *Sensitive*. The respondent's own answers, by column.
        """
        codes = self.codes(pd.DataFrame({name: [row[name]] for name in self.schema.kept if name in row}))
        drawn = np.argsort(words(len(self.questions), np.uint64), kind="stable")[: self.n_answers]
        answers = ((int(i), self.questions[i]) for i in drawn)
        return [(i, question.oracle.randomize(question.cells(codes), words)[0]) for i, question in answers]

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
        `codes`: *Sensitive*. Of each column, shape (n,).
        `order`: the row in each slot, -1 for none, shape (n_slots,): random, and not kept.
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


@dataclass(frozen=True)
class Plan:
    """The public facts by which questions are planned."""

    epsilon: float
    n: int
    n_answers: int | Literal["auto"]
    allows_no_answer: bool

    def oracle(self, n_cells: int, n_answers: int) -> Oracle:
        return smaller_variance(n_cells, self.epsilon / n_answers, allows_no_answer=self.allows_no_answer)

    def answers(self, chosen: Sequence[Columns], sizes: Mapping[str, int]) -> int:
        """The number of answers of each respondent: as asked for, or that of the smallest variance."""
        if self.n_answers == "auto":
            return min(range(1, len(chosen) + 1), key=lambda m: self.variance(chosen, sizes, m))
        if not 1 <= self.n_answers <= len(chosen):
            raise BudgetError(
                f"answers={self.n_answers} of {len(chosen)} questions; a respondent answers at least 1 and at most all"
            )
        return self.n_answers

    def variance(self, chosen: Sequence[Columns], sizes: Mapping[str, int], n_answers: int) -> float:
        """The variance of all estimated shares together, all answers of a question taken for alike."""
        n_each, left = self.n * n_answers / len(chosen), 1 - n_answers / len(chosen)
        total = 0.0
        for k, n_alike in Counter(math.prod(sizes[name] for name in columns) for columns in chosen).items():
            noise = k * float(self.oracle(k, n_answers).variance(1 / k, n_each))
            total += n_alike * (noise + (1 - 1 / k) / n_each * left)
        return total

    def noise(self, chosen: Sequence[Columns], sizes: Mapping[str, int]) -> float:
        """The mean total variation by which noise alone moves a pair."""
        m = self.answers(chosen, sizes)
        n_each = self.n * m / len(chosen)
        cells = [math.prod(sizes[name] for name in columns) for columns in chosen if len(columns) > 1]
        deviations = [math.sqrt(float(smaller_variance(k, self.epsilon / m).variance(1 / k, n_each))) for k in cells]
        return float(np.mean(MEAN_ABSOLUTE / 2 * np.multiply(cells, deviations))) if cells else math.inf


def questions_of(
    pairs: Literal["none", "all"] | Sequence[tuple[str, str]], sizes: Mapping[str, int]
) -> list[tuple[str, ...]]:
    """The columns of each question: every column, then pairs."""
    single: list[tuple[str, ...]] = [(name,) for name in sizes]
    if pairs == "none":
        return single
    if isinstance(pairs, str):  # "all"
        return single + [two for two in combinations(sizes, 2) if math.prod(sizes[name] for name in two) <= MOST_CELLS]
    rank = {name: index for index, name in enumerate(sizes)}
    for name in (name for pair in pairs for name in pair):
        if name not in rank:
            raise SchemaError(f"pairs name column={name!r}, which is not asked; {nearest(name, rank)}")
    if any(left == right for left, right in pairs):
        raise SchemaError("a pair names two columns, and one of these names a column twice; correct it")
    return single + list(dict.fromkeys(tuple(sorted(pair, key=rank.__getitem__)) for pair in pairs))


def require_askable(schema: Schema) -> int:
    """The number of respondents of a schema under which respondents can be asked."""
    n = require_declared(schema)
    hidden = dict.fromkeys((*schema.measured, *schema.spikes_measured))
    if hidden:
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
    return Discretizer(tuple(_binned(attribute, n_bins) for attribute in Discretizer.by_schema(schema).attributes))


def _binned(attribute: Attribute, n_bins: int) -> Attribute:
    if attribute.column.is_categorical or len(getattr(attribute.column, "bins", ())) > 0:
        return attribute
    edges, column = attribute.line
    n_cells = attribute.n_cells + OTHER
    stretch = np.arange(n_cells) * min(n_bins, n_cells) // n_cells
    apart = grid.spike_cells(edges, column)
    starts = np.diff(stretch, prepend=0) != 0
    starts |= apart | np.concatenate([[False], apart[:-1]])
    starts[0] = False
    return regroup(attribute, np.cumsum(starts))
