"""The small script: sorting, finding, folding and values of charts, by pointer and by keyboard alone."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from evaluate.gate.verdict import Verdict
from evaluate.result import Evaluation
from reports import write_html
from tests.reports.browsing import FOCUSED, visiting

FIRST_CELLS = "table => [...table.tBodies[0].rows].map(row => row.cells[0].textContent.trim())"
NUMBERS = "table => [...table.tBodies[0].rows].map(row => parseFloat(row.cells[1].textContent.replace('\u2212', '-')))"


@pytest.fixture(scope="module")
def report(
    evaluation: Evaluation, verdicts_of: Callable[..., tuple[Verdict, ...]], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    path = tmp_path_factory.mktemp("script") / "report.html"
    return write_html(evaluation, path, verdicts=verdicts_of(evaluation), release="mst")


def opened(page: Any, place: str) -> Any:
    """A section that is unfolded as a reader does it; without what is folded in it."""
    page.locator(f"section:has(#{place}) > details > summary").click()
    return page.locator(f"#{place}")


@pytest.fixture
def page(browser: Any, report: Path) -> Iterator[Any]:
    with visiting(browser, report) as visit:
        yield visit.page
        assert visit.told == []
        assert visit.asked == [report.as_uri()]


def test_a_table_is_sorted_up_then_down_then_as_it_was(page: Any) -> None:
    table = page.locator("table.fill").first
    before = table.evaluate(FIRST_CELLS)
    head = table.locator("th", has_text="Total")
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    assert table.evaluate(NUMBERS) == sorted(table.evaluate(NUMBERS))
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    assert table.evaluate(NUMBERS) == sorted(table.evaluate(NUMBERS), reverse=True)
    table.locator("th", has_text="Pair").locator("button").click()
    assert head.get_attribute("aria-sort") is None
    assert table.evaluate(FIRST_CELLS) == sorted(before, key=str.lower)
    for _ in range(2):
        table.locator("th", has_text="Pair").locator("button").click()
    assert table.evaluate(FIRST_CELLS) == before


def test_what_has_no_number_is_sorted_last_either_way(page: Any) -> None:
    table = opened(page, "attacks").locator("table.attacks").first
    estimate = table.locator("th", has_text="Would have seen").locator("button")
    for _ in range(2):
        estimate.click()
        cells = table.evaluate("t => [...t.tBodies[0].rows].map(row => [...row.cells].at(-1).textContent.trim())")
        absent = [not cell[:1].isdigit() for cell in cells]
        assert any(absent)
        assert absent == sorted(absent)


def test_a_column_is_found_where_it_is_folded_and_all_come_back(page: Any) -> None:
    shown = "[...document.querySelectorAll('.column')].filter(one => one.checkVisibility()).length"
    opened(page, "columns")
    assert page.evaluate(shown) == 6
    page.fill("#find", " EDUC")
    assert page.inner_text("#found") == "2 of 15 columns"
    assert page.evaluate(shown) == 2
    page.fill("#find", "no such column")
    assert page.inner_text("#found") == "0 of 15 columns"
    page.fill("#find", "")
    assert page.evaluate(shown) == 15
    assert page.inner_text("#found") == ""


def test_whatever_was_looked_for_all_columns_are_printed(page: Any) -> None:
    hidden = "[...document.querySelectorAll('.column')].filter(one => one.hidden).length"
    opened(page, "columns")
    page.fill("#find", "age")
    assert page.evaluate(hidden) == 14
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate(hidden) == 0
    assert page.evaluate("[...document.querySelectorAll('details')].every(one => one.open)")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate(hidden) == 14


def test_everything_is_opened_and_closed_at_once(page: Any) -> None:
    closed = "[...document.querySelectorAll('details')].filter(one => !one.open).length"
    page.click("#open-all")
    assert page.evaluate(closed) == 0
    page.click("#close-all")
    assert page.evaluate(closed) == page.locator("details").count() > 5


def test_a_value_is_told_under_the_pointer(page: Any) -> None:
    opened(page, "columns")
    opened(page, "pairs")
    page.locator(".column svg .real").first.hover()
    assert "synthetic" in page.inner_text(".tip")
    page.locator("svg.map").first.scroll_into_view_if_needed()
    page.locator("svg.map text").first.hover()
    assert page.inner_text(".tip") == "age"
    box = page.locator("svg.map").first.bounding_box()
    page.mouse.move(box["x"] + 4, box["y"] + box["height"] - 12)
    assert page.inner_text(".tip").startswith("age \u00d7 income: ")
    page.mouse.move(2, 450)
    assert not page.locator(".tip").is_visible()


def test_values_of_a_chart_are_told_by_arrow_keys(page: Any) -> None:
    chart = opened(page, "attacks").locator("svg[aria-label^='Membership attack']").first
    chart.scroll_into_view_if_needed()
    page.keyboard.press("Tab")
    chart.focus()
    first = page.inner_text(".tip")
    page.keyboard.press("ArrowRight")
    assert page.inner_text(".tip") != first
    page.keyboard.press("End")
    assert page.inner_text(".tip") == "at 100% outsiders accused, 100% of members found"
    page.keyboard.press("Escape")
    assert not page.locator(".tip").is_visible()


def test_the_keyboard_reaches_everything_in_order_and_shows_where_it_is(page: Any) -> None:
    met = []
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = false; })")
    for _ in range(400):
        page.keyboard.press("Tab")
        now = page.evaluate(FOCUSED)
        if now["tag"] == "BODY":
            break
        met.append(now)
    assert [one["kind"] for one in met if not one["seen"]] == []
    order = [one["kind"] for one in met]
    links = [one["hash"] for one in met if one["tag"] == "A"][:4]
    assert links == ["#verdict", "#verdict", "#weakest", "#policy"]
    assert "tab-weakest-1" in order
    places = [order.index(kind) for kind in ("skip", "open-all", "close-all", "tab-weakest-1", "sort")]
    assert places == sorted(places)
    assert sum(one["tag"] == "SUMMARY" for one in met) > 5


def test_no_control_that_has_the_focus_is_out_of_sight_on_a_narrow_screen(browser: Any, report: Path) -> None:
    with visiting(browser, report, 390) as visit:
        button = opened(visit.page, "policy").locator("table.rules button.sort").first
        assert _clipped(button)
        button.focus()
        assert not _clipped(button)
        assert button.bounding_box()["width"] > 20
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= 390


def _clipped(button: Any) -> bool:
    head = "one => getComputedStyle(one.closest('thead')).clipPath"
    return bool(button.evaluate(head) != "none")


def test_the_skip_link_leads_to_the_verdict(page: Any) -> None:
    page.keyboard.press("Tab")
    assert page.locator(".skip").bounding_box()["width"] > 50
    page.keyboard.press("Enter")
    assert page.url.endswith("#verdict")


def test_a_link_into_a_folded_place_opens_it(page: Any) -> None:
    link = page.locator(".worst a[href^='#column-']:visible").last
    target = (link.get_attribute("href") or "")[1:]
    assert not page.locator(f"#{target}").is_visible()
    link.click()
    assert page.locator(f"#{target}").is_visible()


def test_a_table_that_is_chosen_is_shown_in_every_section_and_the_reader_stays_where_he_was(page: Any) -> None:
    opened(page, "guarantee")
    opened(page, "pairs")
    label = page.locator("label[for='tab-pairs-3']")
    label.scroll_into_view_if_needed()
    before = label.bounding_box()["y"]
    label.click()
    for group in ("weakest", "guarantee", "pairs"):
        assert page.locator(f"#tab-{group}-3").is_checked()
        assert page.locator(f"label[for='tab-{group}-3'] + .panel").is_visible()
        assert not page.locator(f"label[for='tab-{group}-1'] + .panel").is_visible()
    assert abs(label.bounding_box()["y"] - before) < 2
    page.keyboard.press("ArrowLeft")
    assert page.locator("#tab-guarantee-2").is_checked()


def test_a_measure_is_explained_beside_its_name(page: Any) -> None:
    link = opened(page, "comparison").get_by_role("link", name="Explain: Membership attack, AUC")
    word = page.locator("[id='word-privacy.membership.auc']")
    assert not word.is_visible()
    link.click()
    assert word.is_visible()
