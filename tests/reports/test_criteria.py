"""Measures beside the criteria of guidelines: every answer says what was found, and every row what it leaves open."""

from collections.abc import Mapping
from dataclasses import replace

from evaluate.metrics import CATALOG
from evaluate.result import Candidate, Evaluation
from reports import render_html
from reports.sections import guidelines
from reports.sections.guidelines import CRITERIA, NOT_COVERED, GuidelineFinding, criteria_rows
from tests.evaluations import altered


def answers(evaluation: Evaluation, candidate: Candidate) -> Mapping[str, GuidelineFinding]:
    return {row.criterion.title: row.answers[0][1] for row in criteria_rows(evaluation, [candidate])}


def test_three_guidelines_are_there_with_the_three_criteria_of_the_opinion() -> None:
    by_source: dict[str, list[str]] = {}
    for one in CRITERIA:
        by_source.setdefault(one.source, []).append(one.title)
    assert by_source["WP29 Opinion 05/2014"] == ["Singling out", "Linkability", "Inference"]
    assert set(by_source) == {"WP29 Opinion 05/2014", "NIST SP 800-226", "ISO/IEC 27559:2022"}
    assert all(one.uncovered and one.asks.endswith("?") for one in CRITERIA)


def test_an_attack_that_alarms_is_an_alarm_of_its_criterion(evaluation: Evaluation) -> None:
    quiet, loud = answers(evaluation, evaluation.candidates[0]), answers(evaluation, evaluation.candidates[2])
    for title in ("Singling out", "Linkability", "Inference", "Identifiability (clause 8)"):
        assert quiet[title].word == "no alarm"
        assert loud[title].word == "alarm"
    assert "0.0120 (0.0070 to 0.0170)" in loud["Singling out"].text
    assert "0.020 would have been seen" in quiet["Singling out"].text


def test_a_table_without_a_statement_or_without_measures_is_said_to_be_so(evaluation: Evaluation) -> None:
    bare = answers(evaluation, Candidate("bare", ()))
    assert bare["Singling out"] == GuidelineFinding("not measured", "no attack of this kind gave a result")
    assert bare["Privacy parameters and unit of privacy"].word == "absent"
    assert "no formal guarantee" in bare["Privacy parameters and unit of privacy"].text
    assert bare["Utility and bias"].word == "not measured"


def test_a_claim_is_quoted_rounded_up_and_a_void_one_is_called_void(evaluation: Evaluation) -> None:
    first = evaluation.candidates[0]
    title = "Privacy parameters and unit of privacy"
    assert "epsilon 0.999 at delta 1e\u22126, unit row" in answers(evaluation, first)[title].text
    void = replace(first, statement=altered(first.statement, {"private": False}))
    assert answers(evaluation, void)[title].text.startswith("void")


def test_a_claim_is_that_of_all_that_counts_with_the_table(evaluation: Evaluation) -> None:
    drawn = {"epsilon": 1.5, "delta": 1e-6, "n_fits": 3}
    picked = replace(evaluation, provenance=altered(evaluation.provenance, {"release": None, "composed": drawn}))
    said = answers(picked, picked.candidates[0])["Privacy parameters and unit of privacy"].text
    assert said == "epsilon 1.5 at delta 1e\u22126, for all 3 private releases that its run drew, unit row"


def test_what_was_audited_is_told_beside_the_claim(audited: Evaluation) -> None:
    found = answers(audited, audited.candidates[0])["Algorithms and correctness"]
    assert found.word == "no alarm"
    assert "audited lower bound 0." in found.text
    assert answers(audited, audited.candidates[1])["Algorithms and correctness"].word == "absent"


def test_quasi_identifiers_are_counted_and_never_named(evaluation: Evaluation) -> None:
    schema = altered(evaluation.schema, {"quasi_identifiers": ["age", "sex"]})
    found = answers(replace(evaluation, schema=schema), evaluation.candidates[0])["Data (clause 7)"]
    assert found.text == "schema declared; 2 quasi-identifiers and 1 sensitive columns named"


def test_every_attack_that_is_tried_answers_some_criterion() -> None:
    keys = {
        cell.cell_contents
        for answer in (*(one.answer for one in CRITERIA), guidelines._IDENTIFIED)
        for cell in getattr(answer, "__closure__", None) or ()
    }
    attacks = [metric for metric in CATALOG.values() if metric.attack == "always"]
    assert all(metric.criteria for metric in attacks)
    assert {key for metric in attacks for key in metric.criteria} <= keys


def test_the_page_says_what_no_criterion_covers(evaluation: Evaluation) -> None:
    section = render_html(evaluation).split('id="criteria"')[1].split('id="glossary"')[0]
    for sentence in NOT_COVERED:
        assert sentence.replace("'", "&#39;") in section
    assert section.count('<table class="criteria asis">') == 3
