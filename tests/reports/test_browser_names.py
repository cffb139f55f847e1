"""Hostile names in a real browser: of columns, categories, vendors, policies, people and jobs. All of them are text."""

from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from evaluate.gate.policy import Policy, Rule, Waiver
from evaluate.gate.verdict import Check, judge_candidate
from evaluate.result import Evaluation
from reports import write_html
from tests.evaluations import altered
from tests.reports.browsing import visiting

SCRIPT = "</script><script>alert(1)</script>"
NAMES = (
    SCRIPT, "{{7*7}}", "x" * 10_000, "\u0627\u0644\u0639\u0645\u0631 \u202e", "\U0001f469\u200d\U0001f680",
    "a\x07b", "\"'><img src=x onerror=alert(2)>", "<svg onload=alert(3)>", "${alert(4)}", "]]><!--",
)  # fmt: skip


@pytest.fixture(scope="module")
def report(make_evaluation: Callable[..., Evaluation], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every place where a name of somebody else's can stand holds every bad name, one after the other."""
    columns = dict(zip(make_evaluation().schema.columns, NAMES, strict=False))
    found = make_evaluation(columns)
    policy = Policy(
        name=SCRIPT, version=1, audience=SCRIPT,
        rules=tuple(Rule(measure=one, limit=1.5, why=SCRIPT) for one in ("validity.rows", "columns.tvd.excess")),
    )  # fmt: skip
    tables, verdicts = [], []
    for i, (name, candidate) in enumerate(zip(NAMES, (*found.candidates, *found.candidates[:2]), strict=False)):
        drawn = [
            {**f, "labels": [*_bad(f["labels"][:-2], i), "other", "missing"]} for f in candidate.figures["columns"]
        ]
        figures = {**candidate.figures, "columns": drawn}
        tables.append(replace(candidate, name=name, figures=figures))
        waiver = Waiver(
            policy=SCRIPT, version=1, candidate=name, measure="validity.rows", owner=SCRIPT, reason=SCRIPT,
            until=date(2026, 1, 31),
        )  # fmt: skip
        verdict = judge_candidate(tables[-1], policy)
        findings = (replace(verdict.findings[0], waiver=waiver, waived=i % 2 == 0), *verdict.findings[1:])
        checks = (Check("copy", "did not come out", NAMES[i]),)
        verdicts.append(replace(verdict, findings=findings, checks=checks))
    evaluation = replace(
        found, candidates=tuple(tables), provenance=altered(found.provenance, {"job": SCRIPT, "warnings": list(NAMES)})
    )
    path = tmp_path_factory.mktemp("names") / "report.html"
    return write_html(evaluation, path, verdicts=verdicts, title=SCRIPT, release=SCRIPT)


def _bad(labels: list[str], i: int) -> list[str]:
    return [NAMES[(i + k) % len(NAMES)] if k < len(NAMES) else label for k, label in enumerate(labels)]


@pytest.mark.parametrize("scripts", [True, False])
@pytest.mark.parametrize("width", [1440, 390])
def test_hostile_names_are_seen_as_text_and_stay_in_their_place(
    browser: Any, report: Path, width: int, scripts: bool
) -> None:
    with visiting(browser, report, width, java_script_enabled=scripts) as visit:
        visit.page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
        text = visit.page.locator("main").text_content()
        assert visit.told == []
        assert visit.asked == [report.as_uri()]
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
        assert visit.page.locator("script").count() == 1
        assert visit.page.locator("main script, main img, svg[onload]").count() == 0
        for name in (SCRIPT[:25], "{{7*7}}", "\u0627\u0644\u0639\u0645\u0631", "${alert(4)}", "]]><!--"):
            assert name in text
        assert "\u202e" not in text
        assert "\x00" not in text
        assert "x" * 700 not in text


@pytest.mark.slow
def test_hostile_names_stay_text_in_what_the_script_shows(browser: Any, report: Path) -> None:
    with visiting(browser, report) as visit:
        page = visit.page
        page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
        page.fill("#find", "</script>")
        assert page.inner_text("#found") == "1 of 15 columns"
        page.fill("#find", "<img src=x onerror")
        assert page.inner_text("#found") == "1 of 15 columns"
        page.fill("#find", "")
        charts = page.locator("svg.chart[tabindex]:visible")
        assert charts.count() > 20
        for i in range(0, charts.count(), 45):
            charts.nth(i).hover()
            charts.nth(i).focus()
            for key in ("End", "ArrowLeft", "Home"):
                page.keyboard.press(key)
        for button in page.locator("button.sort:visible").all()[:8]:
            button.click()
        assert page.locator(".tip *").count() == 0
        assert page.locator("script").count() == 1
        assert visit.told == []
        assert visit.asked == [report.as_uri()]


def test_names_that_run_from_right_to_left_are_kept_apart_from_their_neighbors(browser: Any, report: Path) -> None:
    with visiting(browser, report) as visit:
        mixed = """[...document.querySelectorAll('main :not(svg *)')].filter(one => {
          const says = [...one.childNodes].some(node => node.nodeType === 3 && /[\u0600-\u06ff]/.test(node.data));
          const style = getComputedStyle(one);
          return says && style.display === 'inline' && !style.unicodeBidi.startsWith('isolate');
        }).map(one => one.outerHTML)"""
        assert visit.page.evaluate(mixed) == []
        assert visit.page.evaluate("getComputedStyle(document.querySelector('bdi')).unicodeBidi") == "isolate"
