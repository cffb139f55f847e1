from collections.abc import Callable
from dataclasses import replace
from typing import Any

from evaluate.result import Candidate, Estimate, Evaluation, Failure
from reports.html import render_html
from reports.sections.utility import subgroups, utility_absent, utility_rows

ESTIMATES = (
    Estimate("utility.tstr.linear", 0.8, 100, "higher", low=0.7, high=0.9, reference=0.85, floor=0.5),
    Estimate("utility.queries.excess", 0.1234, 100, "lower", low=0.1, high=0.15, reference=0.0, floor=0.3),
    Estimate("utility.dp_alternative.gap", 0.02, 100, "lower", low=0.0, high=0.04, reference=0.0, floor=0.3),
    Estimate("fairness.gap.boosting", 0.05, 100, "lower", subject=("race",), low=0.0, high=0.1),
    Estimate("fairness.gap.boosting", 0.07, 100, "lower", subject=("sex",), low=0.0, high=0.1),
)
FIGURES: dict[str, Any] = {
    "fairness_columns": [
        {
            "column": "sex",
            "groups": [
                {"group": "men", "real": 0.6, "synthetic": 0.7, "few": False, "excess": 0.01},
                {"group": "<b>", "real": 0.4, "synthetic": 0.3, "few": False, "excess": 0.02},
                {"group": "rare", "real": 0.01, "synthetic": 0.0, "few": True},
            ],
        }
    ],
    "fairness_models": [
        {
            "column": "sex",
            "groups": [
                {"group": "men", "n": 200, "few": False, "boosting": {"gap": 0.07, "low": 0.0, "high": 0.1}},
                {"group": "rare", "n": 3, "few": True},
            ],
            "levels": [{"model": "boosting", "parity_tstr": 0.3, "parity_trtr": 0.2}],
        }
    ],
}
CANDIDATE = Candidate("a", ESTIMATES, (Failure("utility.queries", "skipped", "nothing to order"),), FIGURES)


def test_every_figure_but_the_drawn_scores_is_a_row_and_the_worst_column_comes_first():
    rows = [(row.measure, row.subject) for row in utility_rows(CANDIDATE)]
    assert rows == [
        ("utility.queries.excess", ()), ("utility.dp_alternative.gap", ()),
        ("fairness.gap.boosting", ("sex",)), ("fairness.gap.boosting", ("race",)),
    ]  # fmt: skip


def test_what_is_missing_is_said_once_for_each_reason():
    failures = (Failure("utility.queries", "skipped", "why."), Failure("utility.queries.excess", "skipped", "why."))
    assert [each["message"] for each in utility_absent(replace(CANDIDATE, failures=failures))] == ["why"]


def test_groups_hold_what_columns_and_models_say_of_them_the_worst_first():
    (found,) = subgroups(CANDIDATE)
    assert [row["group"] for row in found["groups"]] == ["men", "<b>", "rare"]
    assert found["groups"][0]["boosting"]["gap"] == 0.07 and found["groups"][0]["excess"] == 0.01
    assert found["groups"][2]["few_test"]


def test_the_section_shows_all_of_it(make_evaluation: Callable[..., Evaluation]):
    evaluation = make_evaluation()
    page = render_html(replace(evaluation, candidates=(CANDIDATE,)))
    for words in ("0.123", "By group of", "too few rows", "nothing to order", "&lt;b&gt;"):
        assert words in page
    assert "<b></bdi>" not in page
