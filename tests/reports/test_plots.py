"""Charts of an evaluation in a notebook: those of the report, whose styles reach nothing else."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evaluate.result import Evaluation, EvaluationError
from evaluate.text import number
from reports import render_html
from reports.plots import ROOT, Chart
from synth.errors import UnderstudyError
from tests.evaluations import evaluation_of
from tests.reports.browsing import OPEN, UNREADABLE, visiting

KINDS: dict[str, Callable[[Evaluation], Chart]] = {
    "columns": lambda e: e.plot.columns(candidate="mst"),
    "pairs": lambda e: e.plot.pairs(candidate="mst"),
    "rows": lambda e: e.plot.rows(candidate="mst"),
    "attacks": lambda e: e.plot.attacks(candidate="mst"),
    "frontier": lambda e: e.plot.frontier(),
}
STYLES = """selector => [...document.querySelectorAll(selector)].map(one => {
  const style = getComputedStyle(one), font = one.nodeName === "text" ? ["fontSize", "fontWeight", "fontFamily"] : [];
  return ["fill", "stroke", "strokeWidth", "strokeDasharray", ...font].map(name => style[name]);
})"""


@pytest.mark.parametrize("kind", KINDS)
def test_a_chart_is_one_line_a_page_part_and_a_drawing(kind: str, evaluation: Evaluation, tmp_path: Path) -> None:
    chart = KINDS[kind](evaluation)
    assert re.fullmatch(rf"<Chart {kind}: .+, \d+ pictures?>", repr(chart))
    assert chart._repr_html_().startswith(f'<div class="{ROOT}">')
    assert "Internal" in chart._repr_html_()
    drawn = ET.fromstring(chart._repr_svg_())
    assert len(drawn.findall("{*}svg")) == len(chart.drawings)
    for ending in (".svg", ".html"):
        assert chart.save(tmp_path / f"a{ending}").read_text(encoding="utf-8").count("<style>") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.html", "a.svg"]


def test_columns_and_pairs_are_those_that_are_named(evaluation: Evaluation) -> None:
    chart = evaluation.plot.columns("sex", "age", candidate="mst")
    assert [each.caption.split()[0] for each in chart.drawings] == ["sex", "age"]
    pairs = evaluation.plot.pairs("sex", "age", candidate="mst").drawings[0].svg
    assert re.findall(r"<title>(\w+)</title>", pairs) == ["sex", "age"]
    figure = evaluation.candidates[0].figures["associations"]
    i, j = (figure["columns"].index(name) for name in ("sex", "age"))
    assert f"<title>sex \u00d7 age: {number(figure['train'][i][j], 2)}</title>" in pairs
    assert len(evaluation.plot.columns(candidate="mst").drawings) == 12
    released = replace(evaluation, provenance=replace(evaluation.provenance, release="sdv.tvae"))
    assert released.plot.columns().title == "Columns of sdv.tvae"


REFUSALS: list[tuple[Callable[[Any], Chart], str]] = [
    (lambda plot: plot.columns("agee", candidate="mst"), "column='agee'; did you mean 'age'?"),
    (lambda plot: plot.pairs("age", "sexx", candidate="mst"), "did you mean 'sex'?"),
    (lambda plot: plot.attacks("agee", candidate="mst"), "did you mean 'age'?"),
    (lambda plot: plot.columns(candidate="mts"), "candidate='mts'; did you mean 'mst'?"),
    (lambda plot: plot.columns(), "there are 'mst', 'sdv.gaussian_copula', 'sdv.tvae'; name one"),
    (lambda plot: plot.pairs("age", candidate="mst"), "a pair has two columns"),
    (lambda plot: plot.frontier().save("a.png"), "name one of these"),
]


@pytest.mark.parametrize(("call", "clause"), REFUSALS)
def test_what_cannot_be_drawn_is_one_sentence(
    call: Callable[[Any], Chart], clause: str, evaluation: Evaluation
) -> None:
    with pytest.raises(UnderstudyError, match=re.escape(clause)):
        call(evaluation.plot)


def test_what_was_not_measured_says_which_measure_to_ask_for(evaluation: Evaluation) -> None:
    bare = evaluation_of(replace(evaluation.candidates[0], figures={}, estimates=(), failures=()))
    for ask, measure in ((bare.plot.columns, "fidelity.columns"), (bare.plot.pairs, "fidelity.pairs"),
                         (bare.plot.attacks, "privacy.membership"), (bare.plot.rows, "fidelity.looks"),
                         (bare.plot.frontier, "utility.tstr")):  # fmt: skip
        with pytest.raises(EvaluationError, match=measure):
            ask()


def test_names_stay_text(evaluation: Evaluation) -> None:
    hostile = replace(evaluation.candidates[0], name="<script>alert(1)</script>")
    chart = evaluation_of(hostile).plot.attacks()
    assert "<script" not in chart._repr_html_() + chart._repr_svg_()


def test_a_chart_looks_as_in_the_report_and_styles_nothing_beside_it(
    browser: Any, evaluation: Evaluation, tmp_path: Path
) -> None:
    report, notebook = tmp_path / "report.html", tmp_path / "notebook.html"
    report.write_text(render_html(evaluation), encoding="utf-8")
    charts = "".join(draw(evaluation)._repr_html_() for draw in KINDS.values())
    beside = '<svg id="beside"><text class="tick name">a</text><rect class="real"/></svg>'
    notebook.write_text(f'<body data-jp-theme-light="true">{charts}{beside}</body>', encoding="utf-8")
    with visiting(browser, report) as page, visiting(browser, notebook) as cell:
        page.page.evaluate(OPEN)
        for part in (".real", ".line", ".stem", "circle.dot", ".dot.hollow", ".axis", ".grid", "text.tick", "text.name",
                     ".map .p8, .map .n8", ".chance", ".probe"):  # fmt: skip
            style = cell.page.evaluate(STYLES, f".{ROOT} :is({part})")
            assert style, part
            assert style[0] in page.page.evaluate(STYLES, f"svg :is({part})"), part
        assert cell.page.evaluate(STYLES, "#beside rect")[0][0] == "rgb(0, 0, 0)"


@pytest.mark.parametrize(
    ("body", "system", "dark"),
    [
        ('data-jp-theme-light="true"', "dark", False), ('data-jp-theme-light="false"', "light", True),
        ('class="vscode-dark"', "light", True), ('class="vscode-light"', "dark", False),
        ("", "dark", True), ("", "light", False),
    ],
)  # fmt: skip
def test_a_chart_is_dark_where_its_notebook_is_and_can_be_read(
    browser: Any, evaluation: Evaluation, tmp_path: Path, body: str, system: str, dark: bool
) -> None:
    path = tmp_path / "notebook.html"
    path.write_text(f"<body {body}>{KINDS['attacks'](evaluation)._repr_html_()}</body>", encoding="utf-8")
    with visiting(browser, path, 390, color_scheme=system) as visit:
        background = visit.page.evaluate(f"getComputedStyle(document.querySelector('.{ROOT}')).backgroundColor")
        assert (background == "rgb(22, 22, 20)") is dark
        texts = visit.page.evaluate(UNREADABLE)
        assert texts["looked"] > 20
        assert texts["found"] == []
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= 390
