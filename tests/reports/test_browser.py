"""The page in a real browser: nothing runs, nothing is fetched, nothing sticks out, and it prints."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evaluate.result import Evaluation
from evaluate.verdict import Verdict
from reports import write_html

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = [
    "--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run",
]  # fmt: skip
HOSTILE = {"age": "</script><script>alert(1)</script>", "fnlwgt": "x" * 10_000, "sex": "\u0627\u0644\u0639\u0645\u0631"}

LEDGER = {
    "dataset": "d" * 100, "unit": "row", "reservation": "5f" * 16, "entry": "e6" * 32, "epsilon": 1.29934,
    "spent_epsilon": 2.10012, "total_epsilon": 3.0, "total_delta": 1e-6,
}  # fmt: skip


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if not CHROMIUM.exists():
        pytest.skip("Chromium is not on this machine")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def reports(
    make_evaluation: Callable[..., Evaluation],
    verdicts_of: Callable[..., tuple[Verdict, ...]],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Path]:
    """A comparison of three, a single table in a ledger with warnings, and one whose columns have hostile names."""
    folder = tmp_path_factory.mktemp("reports")
    three, hostile = make_evaluation(), make_evaluation(HOSTILE)
    first = three.candidates[0]
    held = replace(first, statement={**(first.statement or {}), "ledger": LEDGER})
    one = Evaluation(
        (held,), three.real, three.schema, {**three.provenance, "warnings": ["n_units=9 is few", "x" * 500]}
    )
    return {
        name: write_html(found, folder / f"{name}.html", verdicts=verdicts_of(found), release="mst")
        for name, found in (("three", three), ("one", one), ("hostile", hostile))
    }


def opened(browser: Any, path: Path, width: int) -> tuple[Any, list[str], list[str]]:
    """The page with its console messages and the requests it made."""
    page = browser.new_page(viewport={"width": width, "height": 900})
    told: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: told.append(message.text))
    page.on("pageerror", lambda error: told.append(str(error)))
    page.on("dialog", lambda dialog: told.append(dialog.message))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    return page, told, asked


@pytest.mark.parametrize("name", ["three", "one", "hostile"])
@pytest.mark.parametrize("width", [1440, 390])
def test_the_page_is_quiet_and_nothing_sticks_out(
    browser: Any, reports: dict[str, Path], name: str, width: int
) -> None:
    page, told, asked = opened(browser, reports[name], width)
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert told == []
    assert asked == [reports[name].as_uri()]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for section in ("verdict", "comparison", "policy", "guarantee", "columns", "pairs", "utility", "attacks", "limits"):
        assert page.locator(f"h2#{section}").is_visible()
    page.close()


def test_the_verdict_is_on_the_first_screen(browser: Any, reports: dict[str, Path]) -> None:
    page, _, _ = opened(browser, reports["three"], 1440)
    box = page.locator(".verdicts > li").last.bounding_box()
    assert box["y"] + box["height"] < 900
    page.close()


def test_hostile_names_are_seen_as_text(browser: Any, reports: dict[str, Path]) -> None:
    page, told, _ = opened(browser, reports["hostile"], 1440)
    assert "</script><script>alert(1" in page.locator("body").text_content()
    assert page.locator("script").count() == 0
    assert told == []
    page.close()


def test_no_style_of_the_page_is_refused_by_its_own_policy(browser: Any, reports: dict[str, Path]) -> None:
    page, _, _ = opened(browser, reports["three"], 1440)
    assert page.evaluate("getComputedStyle(document.querySelector('.verdicts')).listStyleType") == "none"
    page.close()


def test_the_printed_page_shows_long_lists_and_the_notice(browser: Any, reports: dict[str, Path]) -> None:
    page, _, _ = opened(browser, reports["three"], 1440)
    hidden = "[...document.querySelectorAll('.column')].filter(c => !c.checkVisibility()).length"
    assert page.evaluate(hidden) > 0
    page.emulate_media(media="print")
    assert page.evaluate(hidden) == 0
    assert page.evaluate("getComputedStyle(document.querySelector('nav')).display") == "none"
    assert page.locator(".notice").is_visible()
    assert len(page.pdf(format="A4")) > 50_000
    page.close()
