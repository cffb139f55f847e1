"""The generator `local`: its statement, what leaves a fit, and a table from reports alone."""

from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from synth.dp.budget import Budget
from synth.dp.events import RandomizedResponseEvent
from synth.dp.statement import LOCAL, REPLACE
from synth.schema import Schema
from tests.extras.local.test_survey import COLUMNS, people, schema_of
from tests.synth.generators.deaf_noise import N_UNITS, Watched
from tests.synth.generators.test_whole_fits_one_unit_less import Fit, one_unit_less_moves_what_is_paid_for
from understudy.extras.local import survey as surveys
from understudy.extras.local.generator import Local
from understudy.extras.local.survey import ReportCounts, Survey


def tables() -> dict[str, pd.DataFrame]:
    """Tables that have nothing in common but their columns."""
    odd = people(150, 1)
    odd["age"], odd["sex"], odd["job"] = pd.NA, True, "never heard of"
    return {"plain": people(80), "odd": odd.astype({"age": "Int64", "sex": "boolean"}), "empty": people(80).iloc[:0]}


def left(frame: pd.DataFrame, schema: Schema, folder: Path) -> dict[str, Any]:
    """All that a fit leaves where every draw is answered without a look at what was asked."""
    chosen = Local(epsilon=2.0, pairs="all")
    schedule = chosen.schedule(schema)
    assert schedule is not None
    budget = Watched(schedule)
    model = chosen.fit(frame, schema, budget=budget)
    model.save(folder)
    return {
        "questions": budget.deaf.questions, "sample": model.sample(20, seed=0).to_csv(), "rows": model.default_rows,
        **{path.name: path.read_bytes() for path in folder.iterdir()},
    }  # fmt: skip


def check_deaf(folder: Path) -> None:
    leftovers = [left(frame, schema_of(N_UNITS), folder / name) for name, frame in tables().items()]
    assert leftovers[1:] == leftovers[:-1]


def test_a_statement_is_local_and_pure() -> None:
    model = Local(epsilon=1.5, pairs="none").fit(people(), schema_of())
    stated = model.statement
    assert stated is not None
    assert (stated.trust, stated.relation, stated.delta, stated.unit) == (LOCAL, REPLACE, 0.0, "row")
    assert stated.epsilon == stated.epsilon_rdp == 1.5
    assert [(event.mechanism, event.count) for event in stated.events] == [("randomized response", 1)]
    assert stated.private


def test_what_a_fit_leaves_is_a_function_of_its_reports(tmp_path: Path) -> None:
    check_deaf(tmp_path)


def _as_many_slots_as_rows(n_rows: int, n_slots: int) -> np.ndarray:
    return np.arange(n_rows)


def _exact(self: Budget, answers: Any, event: RandomizedResponseEvent) -> list[np.ndarray]:
    return [np.bincount(cells[cells >= 0], minlength=oracle.size) for cells, oracle in answers]


class Counting(Budget):
    n_sent = 0

    def respond(self, answers: Any, event: RandomizedResponseEvent) -> list[np.ndarray]:
        self.n_sent += sum(int((cells >= 0).sum()) for cells, _ in answers)
        return super().respond(answers, event)


SPELLED = ["7", "7.0", "07", "+7", 7, 7.0, Decimal("7.00"), np.int64(7), np.str_("7")]
NAMELESS = [" 7", "seven", b"7", 7.5, np.inf, "", None, pd.NA, pd.Timestamp(7)]
"""Cells that are no whole number name nobody, whose report could be bounded."""


def check_one_report(folder: Path) -> None:
    """A respondent sends one report, however their name is spelled and by whichever way they report."""
    schema = schema_of(40, entity="who", columns={"who": {"kind": "identifier", "bounds": [0, 99]}, **COLUMNS})
    chosen = Local(epsilon=2.0, pairs="none", answers=1)
    survey = chosen.survey(schema)
    names = pd.Series([*SPELLED, *NAMELESS, *range(20, 31)], dtype=object)
    for who in (names, names[: len(SPELLED)].map(str).astype("category"), pd.Series([7.0, 7.0, np.nan])):
        rows = people(len(who)).assign(who=who)
        n_people = 1 + 11 * (who is names)
        budget = Counting(survey.schedule)
        chosen.fit(rows, schema, budget=budget)
        assert budget.n_sent == n_people
        assert ReportCounts.of(rows, survey).n == n_people


MUTANTS = (
    (surveys, "deal", _as_many_slots_as_rows, check_deaf),
    (Budget, "respond", _exact, check_deaf),
    (surveys, "bound_contributions", lambda rows, schema: rows, check_one_report),
)


def test_a_respondent_sends_one_report_however_their_name_is_spelled(tmp_path: Path) -> None:
    check_one_report(tmp_path)


@pytest.mark.parametrize(("owner", "name", "plant", "check"), MUTANTS)
def test_a_lie_about_what_reaches_the_model_is_caught(
    owner: Any, name: str, plant: Any, check: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, plant)
    with pytest.raises((AssertionError, ValueError)):  # a table without rows sends nothing to estimate from
        check(tmp_path)


def test_one_hostile_row_changes_no_answer_but_its_own() -> None:
    survey, frame = Survey.of(schema_of(), 1.0, pairs="all"), people()
    before = survey.codes(frame)
    for column, value in (("age", 10**18), ("age", "forty"), ("sex", "spy"), ("job", "spy\0clerk"), ("job", None)):
        odd = frame.astype(object)
        odd.loc[0, column] = value
        after = survey.codes(odd)
        for question in survey.questions:
            moved = np.flatnonzero(question.cells(after) != question.cells(before))
            assert set(moved) <= {0}


def test_every_row_of_the_table_is_as_likely_in_any_slot() -> None:
    repeats = 4_000
    first = np.array([surveys.deal(3, 4)[0] for _ in range(repeats)])
    shares = np.array([(first == row).mean() for row in (-1, 0, 1, 2)])
    assert np.all(np.abs(shares - 0.25) < 4.5 * np.sqrt(0.25 * 0.75 / repeats))


@pytest.mark.statistical
def test_a_table_is_made_of_reports_alone_and_has_the_relations_of_its_pairs() -> None:
    rng = np.random.default_rng(0)
    n = 60_000
    age = rng.integers(0, 60, n)
    frame = people(n).assign(age=pd.array(age, dtype="Int64"), sex=pd.array(age > 29, dtype="boolean"))
    schema = schema_of(n)
    survey = Survey.of(schema, 5.0, pairs=(("age", "sex"),))
    model = Local.asking(survey).of_reports(ReportCounts.of(frame, survey))
    drawn = model.sample(20_000, seed=0)
    old = drawn["age"].fillna(0).astype(int) > 29
    assert abs((old == drawn["sex"].astype(bool)).mean() - 1) < 0.15
    assert abs((drawn["job"] == "clerk").mean() - 0.6) < 0.03
    assert model.statement is not None and model.statement.trust == LOCAL


class Asked(Fit):
    def watch(self, patch: pytest.MonkeyPatch) -> None:
        true_codes = Survey.codes

        def answered(survey: Survey, frame: pd.DataFrame) -> Any:
            codes = true_codes(survey, frame)
            self.units = Counter(zip(*(codes[name].tolist() for name in sorted(codes)), strict=True))
            raise StopIteration

        patch.setattr(Survey, "codes", answered)


@pytest.mark.parametrize("unit", ["row", "entity"])
def test_one_respondent_less_is_one_report_less(unit: str) -> None:
    one_unit_less_moves_what_is_paid_for(Local(epsilon=9.0), unit, asks=True, watched=Asked)


def test_a_fit_that_does_not_bound_rows_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surveys, "bound_contributions", lambda rows, schema, **_: rows)
    with pytest.raises(AssertionError):
        one_unit_less_moves_what_is_paid_for(Local(epsilon=9.0), "entity", asks=True, watched=Asked)
