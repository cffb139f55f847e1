"""The page in a real browser: quiet, readable and in its place, with scripts on and off, on screen and on paper."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evaluate.gate.policy import Policy, Rule
from evaluate.gate.policy_checks import Check
from evaluate.gate.verdict import Verdict, judge_candidate
from evaluate.result import Evaluation
from reports import write_html
from tests.evaluations import altered
from tests.reports.browsing import OPEN, check_page, visiting
from tests.reports.samples import LEDGER, compared

SCRIPT = "</script><script>alert(1)</script>"
NAMES = (
    SCRIPT, "{{7*7}}", "x" * 10_000, "\u0627\u0644\u0639\u0645\u0631 \u202e", "\U0001f469\u200d\U0001f680",
    "a\x07b", "\"'><img src=x onerror=alert(2)>", "<svg onload=alert(3)>", "${alert(4)}", "]]><!--",
)  # fmt: skip


@pytest.fixture(scope="module")
def reports(
    make_evaluation: Callable[..., Evaluation],
    verdicts_of: Callable[..., tuple[Verdict, ...]],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Path]:
    """Three tables; a single one in a ledger, with warnings; vendors; and bad names wherever somebody writes one."""
    folder = tmp_path_factory.mktemp("reports")
    three = make_evaluation()
    first = replace(three.candidates[0], statement=altered(three.candidates[0].statement, {"ledger": LEDGER}))
    warned = altered(three.provenance, {"warnings": ["n_units=9 is few", "x" * 500]})
    alone = replace(three, candidates=(first,), provenance=warned)
    evaluations = {"three": three, "one": alone, "vendors": compared()}
    paths = {
        name: write_html(each, folder / f"{name}.html", verdicts=verdicts_of(each), release="mst")
        for name, each in evaluations.items()
    }
    hostile = make_evaluation(dict(zip(three.schema.columns, NAMES, strict=False)))
    rules = (Rule(measure="validity.rows", limit=1.5, why=SCRIPT),)
    policy = Policy(name=SCRIPT, version=1, audience=SCRIPT, rules=rules)
    tables, verdicts = [], []
    for i, candidate in enumerate(hostile.candidates):
        figures = [{**f, "labels": [*NAMES, *f["labels"]][-len(f["labels"]) :]} for f in candidate.figures["columns"]]
        tables.append(replace(candidate, name=NAMES[i], figures={**candidate.figures, "columns": figures}))
        checks = (Check("copy", "did not come out", NAMES[i]),)
        verdicts.append(replace(judge_candidate(tables[-1], policy), checks=checks))
    known = altered(hostile.provenance, {"job": SCRIPT, "warnings": list(NAMES)})
    hostile = replace(hostile, candidates=tuple(tables), provenance=known)
    paths["hostile"] = write_html(hostile, folder / "hostile.html", verdicts=verdicts, title=SCRIPT, release=SCRIPT)
    return paths


@pytest.mark.parametrize(
    ("name", "width", "scripts", "scheme"),
    [
        ("three", 1440, True, "light"), ("three", 390, False, "dark"), ("one", 1440, True, "dark"),
        ("vendors", 1024, True, "light"), ("vendors", 390, True, "light"),
        ("hostile", 1440, False, "light"), ("hostile", 390, True, "light"),
    ],
)  # fmt: skip
def test_the_page_is_quiet_and_everybody_can_read_all_of_it(
    browser: Any, reports: dict[str, Path], name: str, width: int, scripts: bool, scheme: str
) -> None:
    vendors, how = ".scroll:has(> table.vendors)", {"java_script_enabled": scripts, "color_scheme": scheme}
    text = check_page(browser, reports[name], width, vendors, **how)
    if name == "hostile":
        for bad in (SCRIPT[:25], "{{7*7}}", "\u0627\u0644\u0639\u0645\u0631", "${alert(4)}", "]]><!--"):
            assert bad in text
        assert "\u202e" not in text and "\x00" not in text and "x" * 700 not in text


def test_a_script_that_somebody_puts_into_the_page_is_refused_by_its_policy(
    browser: Any, reports: dict[str, Path], tmp_path: Path
) -> None:
    changed = tmp_path / "changed.html"
    page = reports["one"].read_text(encoding="utf-8")
    changed.write_text(page.replace("</main>", "<script>alert(1)</script></main>"), encoding="utf-8")
    with visiting(browser, changed) as visit:
        (told,) = visit.told
        assert "Content Security Policy" in told


@pytest.mark.parametrize(("width", "height", "most"), [(1440, 900, 8), (390, 844, 16)])
def test_the_verdict_is_on_the_first_of_few_screens(
    browser: Any, reports: dict[str, Path], width: int, height: int, most: int
) -> None:
    with visiting(browser, reports["three"], width) as visit:
        assert visit.page.locator(".applied > b").first.bounding_box()["y"] < height
        assert visit.page.evaluate("document.documentElement.scrollHeight") <= most * height
        visit.page.evaluate(OPEN)
        assert visit.page.locator("wbr").count() > 20
        assert visit.page.evaluate(BROKEN) == []
        sizes = visit.page.locator(".maps svg:visible").evaluate_all("all => all.map(one => one.clientWidth)")
        assert len(sizes) == 3 and len(set(sizes)) == 1, "heat maps of a table are of one size"


BROKEN = """[...document.querySelectorAll('code')].flatMap(code => [...code.childNodes].filter(one => {
  const range = document.createRange();
  range.selectNodeContents(one);
  const lines = new Set([...range.getClientRects()].map(box => box.top));
  return one.nodeType === 3 && /^[a-z_0-9.]+$/.test(one.data) && lines.size > 1;
}).map(one => one.data))"""
"""Parts of dotted names that are broken within a word."""


def test_tabs_show_one_table_at_a_time_and_what_needs_the_script_is_not_shown_without_it(
    browser: Any, reports: dict[str, Path]
) -> None:
    with visiting(browser, reports["three"], java_script_enabled=False) as visit:
        panels = [visit.page.locator(f"label[for='tab-weakest-{i}'] + .panel") for i in (1, 2, 3)]
        assert [panel.is_visible() for panel in panels] == [True, False, False]
        visit.page.click("label[for='tab-weakest-2']")
        assert [panel.is_visible() for panel in panels] == [False, True, False]
        visit.page.evaluate(OPEN)
        assert not visit.page.locator("#find, #open-all, button.sort").first.is_visible()


# ---- The small script.


@pytest.fixture
def page(browser: Any, reports: dict[str, Path]) -> Iterator[Any]:
    with visiting(browser, reports["three"]) as visit:
        yield visit.page
        assert visit.told == []


def opened(page: Any, name: str) -> Any:
    """A section that is unfolded as a reader does it; without what is folded in it."""
    page.locator(f"section:has(#{name}) > details > summary").click()
    return page.locator(f"#{name}")


FIRST_CELLS = "table => [...table.tBodies[0].rows].map(row => row.cells[0].textContent.trim())"
NUMBERS = "table => [...table.tBodies[0].rows].map(row => parseFloat(row.cells[1].textContent.replace('\u2212', '-')))"


def test_a_table_is_sorted_up_then_down_then_as_it_was_and_what_has_no_number_is_last(page: Any) -> None:
    table = page.locator("table.fill").first
    before = table.evaluate(FIRST_CELLS)
    head = table.locator("th", has_text="Total")
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    assert table.evaluate(NUMBERS) == sorted(table.evaluate(NUMBERS))
    head.locator("button").click()
    assert table.evaluate(NUMBERS) == sorted(table.evaluate(NUMBERS), reverse=True)
    head.locator("button").click()
    assert head.get_attribute("aria-sort") is None
    assert table.evaluate(FIRST_CELLS) == before
    table = opened(page, "attacks").locator("table.attacks").first
    for _ in range(2):
        table.locator("th", has_text="Would have seen").locator("button").click()
        cells = table.evaluate("t => [...t.tBodies[0].rows].map(row => [...row.cells].at(-1).textContent.trim())")
        absent = [not cell[:1].isdigit() for cell in cells]
        assert any(absent)
        assert absent == sorted(absent)


def test_a_column_is_found_where_it_is_folded_and_all_are_printed(page: Any) -> None:
    shown = "[...document.querySelectorAll('.column')].filter(one => one.checkVisibility()).length"
    hidden = "[...document.querySelectorAll('.column')].filter(one => one.hidden).length"
    opened(page, "columns")
    assert page.evaluate(shown) == 6
    for text, n in ((" EDUC", 2), ("no such column", 0), ("age", 1)):
        page.fill("#find", text)
        assert page.inner_text("#found") == f"{n} of 15 columns"
        assert page.evaluate(shown) == n
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate(hidden) == 0
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate(hidden) == 14
    page.fill("#find", "")
    assert page.evaluate(shown) == 15
    closed = "[...document.querySelectorAll('details')].filter(one => !one.open).length"
    page.click("#open-all")
    assert page.evaluate(closed) == 0
    page.click("#close-all")
    assert page.evaluate(closed) == page.locator("details").count() > 5


def test_values_are_told_under_the_pointer_and_by_arrow_keys(page: Any) -> None:
    opened(page, "columns")
    page.locator(".column svg .real").first.hover()
    assert "synthetic" in page.inner_text(".tip")
    page.mouse.move(2, 450)
    assert not page.locator(".tip").is_visible()
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


FOCUSED = """() => {
  const one = document.activeElement, style = getComputedStyle(one);
  return { tag: one.nodeName, kind: one.id || one.className.baseVal || one.className, hash: one.hash || "",
    seen: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1 || one.className === "skip" };
}"""


def test_the_keyboard_reaches_everything_in_order_and_shows_where_it_is(page: Any) -> None:
    met = []
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = false; })")
    for _ in range(400):
        page.keyboard.press("Tab")
        now = page.evaluate(FOCUSED)
        if now["tag"] == "BODY":
            break
        met.append(now)
    assert [each["kind"] for each in met if not each["seen"]] == []
    order = [each["kind"] for each in met]
    assert [each["hash"] for each in met if each["tag"] == "A"][:4] == ["#verdict", "#verdict", "#weakest", "#policy"]
    places = [order.index(kind) for kind in ("skip", "open-all", "close-all", "tab-weakest-1", "sort")]
    assert places == sorted(places)
    assert sum(each["tag"] == "SUMMARY" for each in met) > 5


def test_links_into_folded_places_open_them_and_a_table_that_is_chosen_is_shown_everywhere(page: Any) -> None:
    link = page.locator(".worst a[href^='#column-']:visible").last
    target = (link.get_attribute("href") or "")[1:]
    assert not page.locator(f"#{target}").is_visible()
    link.click()
    assert page.locator(f"#{target}").is_visible()
    opened(page, "comparison").get_by_role("link", name="Explain: Membership attack, AUC").click()
    assert page.locator("[id='word-privacy.membership.auc']").is_visible()
    opened(page, "pairs")
    label = page.locator("label[for='tab-pairs-3']")
    label.scroll_into_view_if_needed()
    before = label.bounding_box()["y"]
    label.click()
    for group in ("weakest", "guarantee", "pairs"):
        assert page.locator(f"#tab-{group}-3").is_checked()
    assert abs(label.bounding_box()["y"] - before) < 2, "the reader stays where he was"


def test_hostile_names_stay_text_in_what_the_script_shows(browser: Any, reports: dict[str, Path]) -> None:
    with visiting(browser, reports["hostile"]) as visit:
        page = visit.page
        page.evaluate(OPEN)
        page.fill("#find", "<img src=x onerror")
        assert page.inner_text("#found") == "1 of 15 columns"
        page.fill("#find", "")
        charts = page.locator("svg.chart[tabindex]:visible")
        for i in range(0, charts.count(), charts.count() // 6):
            charts.nth(i).hover()
            charts.nth(i).focus()
            page.keyboard.press("End")
        page.locator("button.sort:visible").first.click()
        assert page.locator(".tip *").count() == 0
        assert page.locator("script").count() == 1
        assert visit.told == []


# ---- On paper.


def test_everything_is_printed_and_no_picture_or_row_is_cut(browser: Any, reports: dict[str, Path]) -> None:
    with visiting(browser, reports["three"], 695, java_script_enabled=False) as visit:
        visit.page.emulate_media(media="print")
        kept = "one => [getComputedStyle(one).breakInside, one.getBoundingClientRect().height]"
        for selector in ("svg.chart", "figure", ".column", "tr", ".verdicts > li", ".sign"):
            places = visit.page.locator(selector).evaluate_all(f"all => all.map({kept})")
            assert places
            assert {rule for rule, _ in places} == {"avoid"}
            assert max(height for _, height in places) < 1000, "of an A4 page within its margins, in pixels"
        hidden = (
            "[...document.querySelectorAll('.panel, .column, .glossary dd')].filter(e => !e.checkVisibility()).length"
        )
        assert visit.page.evaluate(hidden) == 0
        for selector in ("nav", ".skip", ".search"):
            assert not visit.page.locator(selector).is_visible()
        assert visit.page.locator(".notice").is_visible()
        assert visit.page.title().startswith("Internal: ")
        assert "@top-left" in visit.page.locator("style").text_content(), "the notice stands on every page"
        assert 5 < len(re.findall(rb"/Type /Page\b(?!s)", visit.page.pdf(format="A4"))) <= 30
