"""The printed report: the notice and a number on every page, no picture cut in two, not longer than it has to be."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evaluate.gate.verdict import Verdict
from evaluate.result import Evaluation
from reports import write_html
from tests.reports.browsing import visiting
from tests.reports.printed import pages

PAGE_HEIGHT = 1000
"""Of an A4 page within its margins, in pixels."""
NOTICE = "INTERNAL: reads real data, outside the privacy guarantee. Do not pass on."


@pytest.fixture(scope="module")
def report(
    evaluation: Evaluation, verdicts_of: Callable[..., tuple[Verdict, ...]], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    path = tmp_path_factory.mktemp("print") / "report.html"
    return write_html(evaluation, path, verdicts=verdicts_of(evaluation), title="A census", release="mst")


@pytest.fixture(
    scope="module", params=[pytest.param(True, marks=pytest.mark.slow, id="scripts"), pytest.param(False, id="none")]
)
def printed(request: pytest.FixtureRequest, browser: Any, report: Path) -> list[str]:
    with visiting(browser, report, java_script_enabled=request.param) as visit:
        return pages(visit.page.pdf(format="A4"))


def test_every_printed_page_has_the_notice_and_its_number(printed: list[str]) -> None:
    for number, page in enumerate(printed, start=1):
        assert NOTICE in page
        assert f"{number} of {len(printed)}" in page


def test_three_tables_take_no_more_than_thirty_pages(printed: list[str]) -> None:
    assert 5 < len(printed) <= 30


def test_no_page_break_goes_through_a_chart(printed: list[str], evaluation: Evaluation) -> None:
    """All bars of a chart are told on one page, as often as there are tables."""
    for figure in evaluation.candidates[0].figures["columns"]:
        if figure["column"] not in ("relationship", "race", "sex", "income"):
            continue
        labels = [label for label in figure["labels"][:-2] if len(label) <= 16]
        holding = [page for page in printed if all(page.count(label) >= 3 for label in labels)]
        assert len(holding) >= 1, figure["column"]


def test_everything_is_printed_whatever_is_folded_and_whichever_table_is_shown(
    printed: list[str], evaluation: Evaluation
) -> None:
    whole = "".join(printed)
    assert "Code written against the table must run" in whole
    assert whole.count("Columns furthest off") == len(evaluation.candidates)
    assert whole.count("Wasserstein") >= len(evaluation.candidates)  # a head of each list of columns
    assert "9 more columns" in whole
    assert "Asian-Pac-Islan" in whole
    assert "Words used here" in whole
    assert "How to read this" not in whole


def test_charts_and_rows_may_not_be_cut_and_fit_a_page(browser: Any, report: Path) -> None:
    with visiting(browser, report, 695) as visit:
        visit.page.emulate_media(media="print")
        kept = "one => [getComputedStyle(one).breakInside, one.getBoundingClientRect().height]"
        for selector in ("svg.chart", "figure", ".column", "tr", ".verdicts > li", ".sign"):
            found = visit.page.locator(selector).evaluate_all(f"all => all.map({kept})")
            assert found
            assert {rule for rule, _ in found} == {"avoid"}
            assert max(height for _, height in found) < PAGE_HEIGHT


def test_what_only_a_screen_needs_is_not_printed(browser: Any, report: Path) -> None:
    with visiting(browser, report) as visit:
        visit.page.emulate_media(media="print")
        for selector in ("nav", ".skip", ".search"):
            assert not visit.page.locator(selector).is_visible()
        assert visit.page.locator(".notice").is_visible()
        assert visit.page.title() == "Internal: A census"
