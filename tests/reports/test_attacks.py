"""Attacks as a reader sees them: the worst on top, nothing called safe, and nothing believed that a file claims."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from evaluate.metrics import CATALOG
from evaluate.result import Candidate, Estimate, Evaluation, Failure
from reports import render_html
from reports.charts import inferred
from reports.sections.attacks import AttackNote, attack_note, splits, ways
from tests.evaluations import evaluation_of

ATTACKS = [name for name, metric in CATALOG.items() if metric.attack == "always"]
AUC, LINKED, INFERRED = "privacy.membership.auc", "privacy.linkability", "privacy.inference"


def advantage(measure: str, low: float, **more: Any) -> Estimate:
    return Estimate(measure, low + 0.02, 2000, "lower", low=low, high=low + 0.04, reference=0.0, **more)


def note_of(*estimates: Estimate, failures: tuple[Failure, ...] = (), **figures: Any) -> AttackNote:
    return attack_note(Candidate("a", estimates, failures, figures))


def line_of(note: AttackNote, measure: str) -> Any:
    return next(line for line in note.lines if line.measure == measure)


def test_an_alarm_is_an_interval_above_chance_and_all_else_is_no_alarm() -> None:
    auc = Estimate(AUC, 0.53, 2000, "lower", low=0.501, high=0.55, reference=0.5)
    note = note_of(auc, advantage(LINKED, 0.0), advantage(INFERRED, -0.01))
    assert [line.measure for line in note.alarms] == [AUC]
    assert line_of(note, LINKED).word == "no alarm"
    assert not {line.word for line in note.lines} - {"alarm", "no alarm", "not measured"}


def test_what_stands_furthest_above_chance_comes_first_whatever_its_scale() -> None:
    auc = Estimate(AUC, 0.9, 2000, "lower", low=0.8, high=0.95, reference=0.5)
    note = note_of(advantage(LINKED, 0.5), auc, advantage(INFERRED, 0.7))
    assert [line.measure for line in note.lines[:3]] == [INFERRED, AUC, LINKED]
    assert {line.word for line in note.lines[3:]} == {"not measured"}


def test_every_attack_has_a_line_and_what_was_not_measured_says_why() -> None:
    failures = (
        Failure(LINKED, "skipped", "two columns are needed"),
        Failure("privacy.singling_out", "timed out", "late"),
    )
    note = note_of(advantage(INFERRED, 0.1), failures=failures)
    assert {line.measure for line in note.lines} == {name for name in ATTACKS if not CATALOG[name].needs}
    assert line_of(note, LINKED).note == "two columns are needed"
    assert line_of(note, "privacy.singling_out.multivariate").note == "timed out: late"
    assert line_of(note, AUC).note == "it was not run"
    assert f"{len(note.lines) - 1} gave no result" in note.sentence


def test_attacks_that_run_on_request_are_shown_where_they_were_asked_for() -> None:
    shadow = "privacy.shadow.auc"
    assert shadow not in {line.measure for line in note_of().lines}
    for failure in (Failure(shadow, "skipped", "too few targets"), Failure("privacy.shadow", "timed out", "late")):
        assert line_of(note_of(failures=(failure,)), shadow).word == "not measured"
    asked = Estimate(shadow, 0.6, 99, "lower", low=0.5, high=0.7, reference=0.5)
    assert shadow in {line.measure for line in note_of(asked).lines}


def test_rates_and_columns_come_from_the_figure_of_the_same_number() -> None:
    rates = {"attack": [0.5, 0.4, 0.6], "control": [0.3, 0.2, 0.4], "baseline": 0.28}
    drawn = [
        {"column": "age", **rates, "advantage": [0.0, -0.1, 0.1]},
        {"column": "income", **rates, "advantage": [0.1 + 0.02, 0.1, 0.2]},
    ]
    line = line_of(note_of(advantage(INFERRED, 0.1), inference={"columns": drawn}), INFERRED)
    assert (line.rates.column, line.rates.members, line.rates.controls, line.rates.own) == ("income", 0.5, 0.3, 0.28)


def test_without_any_result_nothing_is_said_to_be_fine() -> None:
    assert "nothing speaks against a leak" in note_of().sentence


@pytest.mark.parametrize(
    "junk", [None, 3, "<b>", [], {}, [3, "x"], {"columns": 5, "classes": "x", "attacks": [{"auc": "1"}], "chosen": 1}]
)
def test_figures_that_hold_anything_else_are_left_out(junk: Any) -> None:
    names = ("singling_out", "linkability", "inference", "reconstruction")
    candidate = Candidate("a", (advantage(INFERRED, 0.1), advantage(LINKED, 0.1)), (), dict.fromkeys(names, junk))
    assert not (splits(candidate) or attack_note(candidate).columns)
    assert [way.numbers for way in ways(replace(candidate, figures={"membership": junk}))] in ([], [(None,) * 3])
    assert render_html(evaluation_of(candidate))


def test_numbers_that_are_none_are_not_drawn() -> None:
    broken = {"column": "age", "attack": [float("nan"), 0, 1], "control": [0.3, 0.2, 0.4], "advantage": [0, 0, 0]}
    assert not note_of(inference={"columns": [broken]}).columns


def test_the_chart_has_a_row_for_each_column_and_marks_alarms(evaluation: Evaluation) -> None:
    note = attack_note(evaluation.candidates[2])
    drawn = str(inferred(note.columns[:5]))
    assert drawn.count('class="dot"') == drawn.count('class="dot hollow"') == 5
    assert drawn.count("tick num hot") == sum(one.alarms for one in note.columns[:5]) == 1
    assert "members: " in drawn


def test_the_page_shows_the_worst_attack_on_top_and_names_it_on_the_cover(evaluation: Evaluation) -> None:
    page = render_html(Evaluation(evaluation.candidates[2:], evaluation.real, evaluation.schema))
    cover, section = page.split('id="comparison"')[0], page.split('id="attacks"')[1].split('id="limits"')[0]
    assert "raise an alarm" in cover
    assert section.index("alarm</span>") < section.index("no alarm</td>") < section.index("not measured</td>")
    assert "Every secret in numbers" in section
    assert "Linking two sources, each split" in section
    assert " safe" not in section.lower()


def test_names_of_columns_are_text_among_attacks(make_evaluation: Callable[..., Evaluation]) -> None:
    hostile = make_evaluation({"age": "</script><script>alert(1)</script>", "race": "<img src=x>"})
    assert "<script" not in render_html(hostile).split('id="attacks"')[1].split('id="limits"')[0]
