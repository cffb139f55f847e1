"""The page in a real browser, scripts on and off: it is quiet, nothing is fetched, nothing sticks out, all can read."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evaluate.gate.verdict import Verdict
from evaluate.result import Evaluation
from reports import write_html
from tests.evaluations import altered
from tests.reports.browsing import NAMELESS, UNREADABLE, visiting
from tests.reports.test_ranking import ranking

OPEN = "document.querySelectorAll('details').forEach(one => { one.open = true; })"
SECTIONS = (
    "verdict", "weakest", "policy", "guarantee", "comparison", "looks", "columns", "pairs", "utility", "attacks",
    "limits", "provenance", "signoff", "criteria", "glossary",
)  # fmt: skip
LEDGER = {
    "dataset": "d" * 100, "unit": "row", "reservation": "5f" * 16, "entry": "e6" * 32, "epsilon": 1.29934,
    "spent_epsilon": 2.10012, "total_epsilon": 3.0, "total_delta": 1e-6,
}  # fmt: skip


@pytest.fixture(scope="module")
def reports(
    make_evaluation: Callable[..., Evaluation],
    verdicts_of: Callable[..., tuple[Verdict, ...]],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Path]:
    """Three tables, a single one in a ledger with warnings, and three vendors."""
    folder = tmp_path_factory.mktemp("reports")
    three = make_evaluation()
    first = three.candidates[0]
    held = replace(first, statement=altered(first.statement, {"ledger": LEDGER}))
    one = Evaluation(
        (held,), three.real, three.schema, altered(three.provenance, {"warnings": ["n_units=9 is few", "x" * 500]})
    )
    return {
        name: write_html(found, folder / f"{name}.html", verdicts=verdicts_of(found), release="mst")
        for name, found in (("three", three), ("one", one), ("vendors", replace(three, ranking=ranking())))
    }


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize(("name", "scripts"), [("three", True), ("three", False), ("one", True), ("vendors", True)])
def test_the_page_is_quiet_and_nothing_sticks_out(
    browser: Any, reports: dict[str, Path], name: str, width: int, scripts: bool
) -> None:
    with visiting(browser, reports[name], width, java_script_enabled=scripts) as visit:
        visit.page.evaluate(OPEN)
        assert visit.told == []
        assert visit.asked == [reports[name].as_uri()]
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
        shown = (
            "[...document.querySelectorAll('h2[id], .inside')].filter(one => one.checkVisibility()).map(one => one.id)"
        )
        assert [one for one in visit.page.evaluate(shown) if one != "ranking"] == list(SECTIONS)


BROKEN = """[...document.querySelectorAll('code')].flatMap(code => [...code.childNodes].filter(one => {
  const range = document.createRange();
  range.selectNodeContents(one);
  const lines = new Set([...range.getClientRects()].map(box => box.top));
  return one.nodeType === 3 && /^[a-z_0-9.]+$/.test(one.data) && lines.size > 1;
}).map(one => one.data))"""
"""Parts of dotted names that are broken within a word."""


@pytest.mark.parametrize("width", [1440, 1100, 390])
def test_no_name_of_a_measure_is_broken_within_a_word(browser: Any, reports: dict[str, Path], width: int) -> None:
    with visiting(browser, reports["three"], width) as visit:
        visit.page.evaluate(OPEN)
        assert visit.page.locator("wbr").count() > 20
        assert visit.page.evaluate(BROKEN) == []


def test_the_verdict_is_on_the_first_screen(browser: Any, reports: dict[str, Path]) -> None:
    with visiting(browser, reports["three"]) as visit:
        box = visit.page.locator(".asked .applied > b").last.bounding_box()
        assert box["y"] + box["height"] < 900
    with visiting(browser, reports["three"], 390) as visit:
        assert visit.page.locator(".applied > b").first.bounding_box()["y"] < 600


@pytest.mark.parametrize(("width", "height", "most"), [(1440, 900, 8), (390, 844, 16)])
def test_three_tables_of_fifteen_columns_take_few_screens(
    browser: Any, reports: dict[str, Path], width: int, height: int, most: int
) -> None:
    with visiting(browser, reports["three"], width) as visit:
        assert visit.page.evaluate("document.documentElement.scrollHeight") <= most * height


def test_tabs_show_one_table_at_a_time_without_a_script(browser: Any, reports: dict[str, Path]) -> None:
    with visiting(browser, reports["three"], java_script_enabled=False) as visit:
        panels = [visit.page.locator(f"label[for='tab-weakest-{i}'] + .panel") for i in (1, 2, 3)]
        assert [one.is_visible() for one in panels] == [True, False, False]
        visit.page.click("label[for='tab-weakest-2']")
        assert [one.is_visible() for one in panels] == [False, True, False]
        visit.page.locator("nav a", has_text="Attacks").click()
        assert visit.page.locator("#attacks").is_visible()


def test_heat_maps_of_a_table_are_of_one_size_and_no_chart_waits_to_be_seen(
    browser: Any, reports: dict[str, Path]
) -> None:
    with visiting(browser, reports["three"]) as visit:
        visit.page.evaluate(OPEN)
        sizes = visit.page.locator(".maps svg:visible").evaluate_all("all => all.map(one => one.clientWidth)")
        assert len(sizes) == 3 and len(set(sizes)) == 1
        waiting = (
            "[...document.querySelectorAll('main *')].filter(e => getComputedStyle(e).contentVisibility === 'auto')"
        )
        assert visit.page.evaluate(f"{waiting}.length") == 0


def test_no_style_of_the_page_is_refused_by_its_own_policy(browser: Any, reports: dict[str, Path]) -> None:
    with visiting(browser, reports["three"]) as visit:
        assert visit.page.evaluate("getComputedStyle(document.querySelector('.verdicts')).listStyleType") == "none"


def test_a_script_that_somebody_puts_into_the_page_is_refused_by_its_policy(
    browser: Any, reports: dict[str, Path], tmp_path: Path
) -> None:
    page = reports["one"].read_text(encoding="utf-8")
    changed = tmp_path / "changed.html"
    changed.write_text(page.replace("</main>", "<script>alert(1)</script></main>"), encoding="utf-8")
    with visiting(browser, changed) as visit:
        (told,) = visit.told
        assert "Content Security Policy" in told


def test_what_needs_the_script_is_not_shown_without_it(browser: Any, reports: dict[str, Path]) -> None:
    for scripts in (True, False):
        with visiting(browser, reports["three"], java_script_enabled=scripts) as visit:
            visit.page.evaluate(OPEN)
            assert visit.page.locator("#find").is_visible() is scripts
            assert visit.page.locator("#open-all").is_visible() is scripts
            assert (visit.page.locator("button.sort").count() > 0) is scripts


@pytest.mark.parametrize(("name", "scheme"), [("vendors", "light"), ("vendors", "dark"), ("one", "dark")])
def test_every_text_has_the_contrast_of_wcag_aa(browser: Any, reports: dict[str, Path], name: str, scheme: str) -> None:
    with visiting(browser, reports[name], color_scheme=scheme) as visit:
        visit.page.evaluate(OPEN)
        said = visit.page.evaluate(UNREADABLE)
        assert said["found"] == []
        assert said["looked"] > 500


def test_charts_and_controls_have_names(browser: Any, reports: dict[str, Path]) -> None:
    with visiting(browser, reports["vendors"]) as visit:
        assert visit.page.evaluate(NAMELESS) == []
        assert visit.page.locator("svg[role=img]").count() > 50
