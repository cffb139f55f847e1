"""The section of a comparison: everything a vendor wrote is text."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from pydantic import TypeAdapter

from evaluate.comparison import VendorRanking
from evaluate.result import Estimate, Evaluation
from evaluate.text import alike
from reports import render_html
from reports.charts.pareto import pareto
from reports.charts.svg import round_values
from reports.sections.ranking import Mark, ranking_of
from tests.evaluations import altered
from tests.reports.browsing import visiting
from tests.reports.conftest import sample_evaluation

HOSTILE = "</script><script>alert(1)</script>"
TITLES = ("Boosting", "Membership attack")


def estimate(value: float) -> dict[str, Any]:
    return {
        "measure": "privacy.copies.unique.excess", "value": value, "n": 800, "direction": "lower", "subject": [],
        "low": value - 0.01, "high": value + 0.01, "reference": 0.0, "floor": None, "note": "share of rows",
        "detectable": None,
    }  # fmt: skip


def vendor(name: str, standing: str, **changes: Any) -> dict[str, Any]:
    evidence = {
        "name": "privacy.copies.unique.excess", "measure": "privacy.copies.unique.excess", "limit": 0.01,
        "fails_beyond": 0.01, "why": "Copied rows.", "subject": [], "reason": "It breaks the limit.",
        "estimate": estimate(0.05), "beyond_policy": True,
    }  # fmt: skip
    return {
        "name": name, "file": f"{name}.csv", "standing": standing, "reason": "", "rows_offered": 800,
        "rows_compared": 800, "missing_columns": [], "extra_columns": [], "n_extra_columns": 0, "formula_cells": 0,
        "claim": {}, "same_as": None,
        "evidence": [evidence] if standing == "disqualified" else [], "open": [], **changes,
    }  # fmt: skip


def point(name: str, utility: float, exposure: float, standing: str = "ranked", best: bool = False) -> dict[str, Any]:
    return {
        "name": name, "utility": utility, "utility_low": utility - 0.01, "utility_high": utility + 0.01,
        "exposure": exposure, "standing": standing, "best": best,
    }  # fmt: skip


FIGURE = "pairs.dependence.floor_share"


def ranking(name: str = "acme", **changes: Any) -> VendorRanking:
    """Two ranked vendors and three others, with other parts where they are named."""
    order = {
        "rule": "A table is ahead.", "alpha": 0.05, "n_comparisons": 1,
        "order": [
            {"name": name, "place": 1, "behind": [], "letters": "a"},
            {"name": "beta", "place": 2, "behind": [name], "letters": "b"},
        ],
        "figures": [
            {
                "figure": FIGURE, "direction": "lower", "values": {name: 0.01, "beta": 0.2}, "reference": 0.01,
                "floor": 0.02, "letters": {name: "a", "beta": "b"}, "absent": {},
            },
        ],
        "comparisons": [
            {
                "figure": FIGURE, "first": name, "second": "beta", "difference": -0.19, "low": -0.2, "high": -0.18,
                "p": 0.001, "p_adjusted": 0.001, "better": name, "reason": "",
            },
        ],
    }  # fmt: skip
    content = {
        "terms": {
            "rows": 800, "rows_asked": None, "train_rows": 800, "seed": 0, "policy": "internal",
        },
        "vendors": [
            vendor("cheat", "disqualified"),
            vendor(name, "ranked", claim={"epsilon": 1.0, "says": "=1+1"}, open=["privacy.membership.auc"]),
            vendor("beta", "ranked", same_as=name, extra_columns=["x"], n_extra_columns=9),
            vendor("gamma", "incomplete", missing_columns=["income"], reason="it lacks columns"),
            vendor("delta", "not evaluated", rows_offered=None, rows_compared=None, reason="a table is a file"),
        ],
        "order": {**order, **changes.pop("order", {})},
        "picture": {
            "utility": "utility.tstr.boosting", "exposure": "privacy.membership.auc", "reference": 0.9, "floor": 0.5,
            "points": [point(name, 0.88, 0.51, best=True), point("cheat", 0.89, 0.6, "disqualified")], "absent": [],
        },
        **changes,
    }  # fmt: skip
    return TypeAdapter(VendorRanking).validate_json(json.dumps(content))


@pytest.fixture(scope="module")
def evaluation() -> Evaluation:
    found = sample_evaluation()
    return replace(found, candidates=found.candidates[:1])


def test_vendors_stand_in_order_and_those_not_ranked_come_last(evaluation: Evaluation) -> None:
    found = ranking_of(replace(evaluation, ranking=ranking()))
    assert found is not None
    assert [row.name for row in found.rows] == ["acme", "beta", "gamma", "cheat", "delta"]
    assert [row.name for row in found.ranked] == ["acme", "beta"]


def test_nothing_that_a_vendor_wrote_becomes_markup(evaluation: Evaluation) -> None:
    page = render_html(replace(evaluation, ranking=ranking(HOSTILE)))
    assert HOSTILE not in page
    assert "alert(1)" in page


def test_a_name_of_ten_thousand_characters_is_cut(evaluation: Evaluation) -> None:
    plain, long = (len(render_html(replace(evaluation, ranking=ranking(n)))) for n in ("acme", "x" * 10_000))
    assert long < plain + 20_000


def test_without_a_comparison_there_is_no_section(evaluation: Evaluation) -> None:
    assert ranking_of(evaluation) is None
    assert "Vendors compared" not in render_html(evaluation)


def test_everybody_disqualified_is_shown_too(evaluation: Evaluation) -> None:
    empty = {"order": [], "figures": [], "comparisons": [], "n_comparisons": 0}
    barred = ranking(vendors=[vendor("cheat", "disqualified")], order=empty, picture=None)
    page = render_html(replace(evaluation, ranking=barred))
    assert "Copied rows." in page


def test_each_table_is_one_mark_whose_shape_says_how_it_stands() -> None:
    marks = [Mark("x", 0.9, 0.88, 0.92, 0.51, best=True, barred=False), Mark("y", 0.8, 0.8, 0.8, 0.52, False, False)]
    drawn = ElementTree.fromstring(pareto([*marks, Mark("z", 0.95, 0.9, 1.0, 0.7, False, True)], TITLES, 0.9))
    classes = [element.get("class") for element in drawn.iter()]
    assert classes.count("dot") == 1
    assert classes.count("dot hollow") == 1
    assert classes.count("cross") == 2
    spoken = drawn.get("aria-label")
    assert spoken is not None
    assert "x (beaten by none)" in spoken
    assert "z (disqualified)" in spoken


def test_one_mark_alone_is_drawn_within_the_picture() -> None:
    drawn = ElementTree.fromstring(pareto([Mark("x", 0.9, 0.9, 0.9, 0.5, best=True, barred=False)], TITLES))
    (dot,) = [element for element in drawn.iter() if element.get("class") == "dot"]
    assert 0 < float(dot.get("cx", "nan")) < 560
    assert 0 < float(dot.get("cy", "nan")) < 330


def test_axes_have_a_few_round_values() -> None:
    assert round_values(0.4, 0.95) == [0.4, 0.6, 0.8]


WIDTHS = """() => {
  const one = document.querySelector("#ranking").closest("section").querySelector(".scroll");
  return [one.scrollWidth, one.clientWidth];
}"""


def compared() -> Evaluation:
    """The three tables of the sample as vendors: one ranked, one disqualified, one that lacks columns."""
    found = sample_evaluation()
    first, second, third = (one.name for one in found.candidates)
    vendors = [
        vendor(first, "ranked", claim={"epsilon": 1.0, "says": "word " * 60}), vendor(second, "disqualified"),
        vendor(third, "incomplete", missing_columns=["income"], reason="it lacks columns"),
        vendor("delta", "not evaluated", rows_offered=None, rows_compared=None, reason="a table is a file"),
    ]  # fmt: skip
    figure = {
        "figure": FIGURE, "direction": "lower", "values": {first: 0.021}, "reference": 0.01, "floor": 0.02,
        "letters": {first: "a"}, "absent": {},
    }  # fmt: skip
    order = {"order": [{"name": first, "place": 1, "behind": [], "letters": "a"}], "figures": [figure]}
    terms = ranking(first, vendors=vendors, order=order)
    return replace(found, ranking=terms, provenance=altered(found.provenance, {"split": None}))


def test_a_figure_stands_with_the_interval_that_its_letter_is_understood_by() -> None:
    found = compared()
    own = found.candidates[0].find(FIGURE)
    assert isinstance(own, Estimate)
    _, low, high = alike(own.value, own.low, own.high)
    table = render_html(found).split("Figure by figure")[1].split("</table>")[0]
    assert f"{low} to {high}</small>" in table


@pytest.mark.parametrize("width", [1440, 1280, 1024, 390])
def test_the_vendors_fit_the_page(browser: Any, tmp_path: Path, width: int) -> None:
    path = tmp_path / "report.html"
    path.write_text(render_html(compared()), encoding="utf-8")
    with visiting(browser, path, width) as visit:
        needed, given = visit.page.evaluate(WIDTHS)
        assert needed <= given
