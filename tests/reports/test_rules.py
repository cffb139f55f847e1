"""The rules of the schema in the report: how many rows break each, and what breaks it, whatever columns are called."""

from dataclasses import replace

from evaluate.result import Evaluation
from reports.html import render_html

BAD = "<script>alert(1)</script>"
FIGURE = {
    "constraints": [
        {
            "rule": f"'{BAD}' is at most 'b'", "n": 1000, "n_broken": 1234 - 1000, "n_unreadable": 3,
            "reference": 1.0, "floor": 0.4,
            "shapes": [{"shape": f"'{BAD}' is above 'b' by about 40% of the range of both", "n": 200}],
        },
        {"rule": "'c' never repeats", "n": 1000, "n_broken": 0, "n_unreadable": 0, "reference": 0.99, "floor": 1.0,
         "shapes": []},
    ],
    "columns": [{"column": BAD, "n": 1000, "n_broken": 3, "note": "3 of 1,000 rows break a rule."}],
}  # fmt: skip


def _with(evaluation: Evaluation, figure: object, name: str = "validity") -> str:
    first, *others = evaluation.candidates
    shown = replace(first, figures={**first.figures, name: figure})
    return render_html(replace(evaluation, candidates=(shown, *others)))


def test_the_report_counts_what_breaks_each_rule_and_shows_its_shapes(evaluation: Evaluation) -> None:
    page = _with(evaluation, FIGURE)
    assert '<a href="#rules">Rules</a>' in page
    section = page.split('id="rules"')[1].split("</section>")[0]
    assert "never repeats" in section
    assert ">234<" in section
    assert "0.766" in section
    assert "by about 40% of the range of both</bdi> (200)" in section
    assert "3 of 1,000 rows break a rule." in section
    assert BAD not in page


def test_a_report_without_rules_has_no_section_of_them(evaluation: Evaluation) -> None:
    assert 'id="rules"' not in _with(evaluation, {})


def test_relations_are_written_out_with_what_is_left_of_them(evaluation: Evaluation) -> None:
    of = {"kept": 0.046, "reference": 1.0, "floor": 0.001, "real": "0 to 22 days", "synthetic": "0 to 660 days"}
    page = _with(evaluation, [{"relation": f"`{BAD}` = admitted + nights in days", **of}], "relations")
    section = page.split('id="pairs"')[1].split("</section>")[0]
    assert "1 relation that real rows keep" in section
    assert all(f">{cell}<" in section for cell in ("0.046", "0 to 22 days", "0 to 660 days"))
    assert BAD not in page
