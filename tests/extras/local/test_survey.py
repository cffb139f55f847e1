"""Surveys: who is asked what, the rule that splits budget or people, intervals that cover, and what is refused."""

import math
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from synth.errors import BudgetError, SchemaError
from synth.schema import Schema, build_schema
from understudy.extras.local.survey import ReportCounts, Survey

COLUMNS: dict[str, Any] = {
    "age": {"kind": "integer", "bounds": [0, 59], "missing": True},
    "sex": {"kind": "boolean"},
    "job": {"kind": "categorical", "categories": ["clerk", "cook", "nurse"]},
}
N = 600


def schema_of(n_units: int = N, **more: Any) -> Schema:
    return build_schema({"status": "declared", "n_units": n_units, "columns": COLUMNS, **more})


def people(n: int = N, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age = pd.array(rng.integers(0, 60, n), dtype="Int64")
    age[rng.random(n) < 0.1] = pd.NA
    return pd.DataFrame({
        "age": age,
        "sex": pd.array(rng.random(n) < 0.3, dtype="boolean"),
        "job": rng.choice(["clerk", "cook", "nurse"], n, p=[0.6, 0.3, 0.1]),
    })  # fmt: skip


def check_asked(survey: Survey, n: int) -> None:
    """Everybody is asked as many questions as the event counts, none twice, and all questions are asked alike."""
    asked = [survey.respondents_of(number, n) for number in range(len(survey.questions))]
    each = Counter(int(number) for places in asked for number in places)
    assert set(each.values()) == {survey.event.count} and len(each) == n
    assert all(len(np.unique(places)) == len(places) for places in asked)
    sizes = [len(places) for places in asked]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("n_answers", [1, 3, 6])
@pytest.mark.parametrize("n", [1, 600])
def test_everybody_answers_as_many_questions_as_the_books_say(n_answers: int, n: int) -> None:
    survey = Survey.of(schema_of(), 2.0, pairs="all", n_answers=n_answers)
    check_asked(survey, n)
    assert survey.event.count * survey.event.epsilon == pytest.approx(survey.epsilon)
    assert survey.schedule.epsilon == pytest.approx(2.0)
    assert survey.schedule.delta == 0
    assert {question.oracle.epsilon for question in survey.questions} == {survey.event.epsilon}


def test_an_answer_that_is_sent_twice_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    survey = Survey.of(schema_of(), 2.0, pairs="all", n_answers=1)
    monkeypatch.setattr(
        Survey,
        "respondents_of",
        lambda self, question, n: np.flatnonzero((question - np.arange(n)) % len(self.questions) < 2),
    )
    with pytest.raises(AssertionError):
        check_asked(survey, 600)


def test_missing_and_other_are_answers_and_nothing_that_a_row_holds_is_refused() -> None:
    survey = Survey.of(schema_of(), 2.0, pairs="none")
    assert [question.oracle.n_cells for question in survey.questions] == [18, 4, 5]
    odd = pd.DataFrame({"age": [99, None], "sex": [None, True], "job": ["spy", None]}, dtype=object)
    codes = survey.codes(odd)
    assert {name: values.tolist() for name, values in codes.items()} == {"age": [15, 17], "sex": [3, 1], "job": [3, 4]}


def test_the_number_of_answers_is_that_of_the_smallest_variance() -> None:
    columns = {name: {"kind": "categorical", "categories": list("pqrs")} for name in "abcdefgh"}
    schema = build_schema({"status": "declared", "n_units": 10_000, "columns": columns})
    for epsilon in (0.5, 1.0, 2.0):
        assert Survey.of(schema, epsilon, pairs="none").n_answers == 1
    generous = Survey.of(schema, 30.0, pairs="none")
    each = [Survey.of(schema, 30.0, pairs="none", n_answers=m).variance(10_000) for m in range(1, 9)]
    assert generous.n_answers == 1 + int(np.argmin(each)) > 1


def test_pairs_are_asked_where_noise_leaves_something_of_them() -> None:
    few = Survey.of(schema_of(1_000), 1.0)
    many = Survey.of(schema_of(10_000_000), 4.0)
    assert {len(question.columns) for question in few.questions} == {1}
    assert sum(len(question.columns) == 2 for question in many.questions) == 3
    named = Survey.of(schema_of(), 1.0, pairs=(("job", "age"),))
    assert [question.columns for question in named.questions] == [("age",), ("sex",), ("job",), ("age", "job")]


@pytest.mark.statistical
@pytest.mark.parametrize(("epsilon", "pairs", "n_answers"), [(1.0, "none", 1), (4.0, "all", 2)])
def test_intervals_cover_the_shares_of_all_respondents_and_estimates_vary_as_is_stated(
    epsilon: float, pairs: Any, n_answers: int
) -> None:
    frame, repeats = people(3_000), 150
    survey = Survey.of(schema_of(3_000), epsilon, pairs=pairs, n_answers=n_answers)
    codes = survey.codes(frame)
    covered, total, squares = 0, 0, 0.0
    truths = []
    for question in survey.questions:
        truths.append(np.bincount(question.cells(codes), minlength=question.oracle.n_cells) / len(frame))
    for _ in range(repeats):
        known = ReportCounts.of(frame, survey)
        for number, true in enumerate(truths):
            (low, high), (a, b, c) = known.intervals(number), known.variance(number)
            covered += int(((low <= true) & (true <= high)).sum())
            total += len(true)
            squares += float(((known.shares(number) - true) ** 2 / (a + b * true + c * true * (1 - true))).sum())
    # Cells of one question depend on each other, so that a repeat counts as a question's worth of trials at least.
    trials = repeats * len(survey.questions)
    assert abs(covered / total - 0.95) < 4.5 * math.sqrt(0.95 * 0.05 / trials)
    assert abs(squares / total - 1) < 4.5 * math.sqrt(2 / trials)


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 8.0, 20.0])
@pytest.mark.parametrize(("n", "n_answered"), [(1, 1), (3, 1), (30, 10), (100, 33), (100, 100), (1_000, 333)])
def test_intervals_cover_where_few_answer_or_few_give_an_answer(epsilon: float, n: int, n_answered: int) -> None:
    """By the exact probability of every number of reports that support an answer."""
    survey = Survey.of(schema_of(), epsilon, pairs="none", n_answers=1)
    oracle, supports = survey.questions[0].oracle, np.arange(n_answered + 1)
    low, high = ReportCounts(survey, (supports,), (n_answered,), n).intervals(0)
    for n_true in {round(share * n) for share in (0.0, 0.01, 0.02, 0.03, 0.05, 0.1, 0.3, 0.5, 0.9, 1.0)}:
        chances, asked = np.zeros(n_answered + 1), np.arange(min(n_answered, n_true) + 1)
        for each, chance in zip(asked, stats.hypergeom.pmf(asked, n, n_true, n_answered), strict=True):
            true, chosen = stats.binom(each, oracle.p), stats.binom(n_answered - each, oracle.q)
            chances += chance * np.convolve(true.pmf(asked[: each + 1]), chosen.pmf(supports[: n_answered - each + 1]))
        assert chances[(low <= n_true / n) & (n_true / n <= high)].sum() > 0.93


MEASURED: dict[str, Any] = {"columns": {**COLUMNS, "age": {"kind": "integer", "measure": True}}}
SEVERAL: dict[str, Any] = {
    "entity": "who", "max_rows_per_unit": 3, "columns": {"who": {"kind": "identifier", "bounds": [0, 9]}, **COLUMNS},
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "asked", "error", "message"),
    [
        ({"status": "inferred"}, {}, BudgetError, "declare"),
        ({}, {"n_answers": 9}, BudgetError, "answers=9"),
        (MEASURED, {}, SchemaError, "age.*declare"),
        (SEVERAL, {}, SchemaError, "max_rows_per_unit=3"),
    ],
)
def test_what_cannot_be_asked_is_refused(
    change: dict[str, Any], asked: dict[str, Any], error: type[Exception], message: str
) -> None:
    content = {"status": "declared", "n_units": N, "columns": COLUMNS, **change}
    with pytest.raises(error, match=message):
        Survey.of(build_schema(content), **{"epsilon": 1.0, **asked})
