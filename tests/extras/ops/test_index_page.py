"""The page of an index: whole without script, filtered and sorted with it, and as wide as the screen."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evaluate.result import Estimate
from tests.reports.browsing import NAMELESS, UNREADABLE, visiting
from understudy.bundle.verification import Demand
from understudy.extras.ops.index import EMPTY, FIGURES, NOT_SOUND, WITHDRAWN, render_page

N_TABLES = 6
FOUND = Estimate("privacy.membership.auc", 0.5, 100, "lower", low=0.4, high=0.6)


def page_of(n_outputs: int) -> str:
    rows = []
    for at in range(n_outputs):
        for state, generator in (("PASS", "mst"), ("FAIL", "trees"), ("INCONCLUSIVE", "sdv.tvae")):
            figures = {name: replace(FOUND, measure=name, reference=0.9) for name in FIGURES}
            row = {
                "output": f"2026-{at:02d}/a_rather_long_name_of_a_job_{at}", "state": state, "table": generator,
                "title": "A job", "released": state == "PASS", "day": "2026-01-02", "generator": generator,
                "policy": "internal 3", "audience": "us", "figures": figures, "is_measured": True,
                "claimed": (0.1 + at, 1e-6, "formal") if generator == "mst" else None,
                "report": "a/report.html", "evaluation": "a/evaluation.json",
            }  # fmt: skip
            rows.append({**EMPTY, **row})
    rows.append({**EMPTY, "output": "broken", "state": NOT_SOUND, "reason": "report.html was changed."})
    rows.append({**EMPTY, "output": "lost", "state": WITHDRAWN, "reason": "x" * 300})
    return render_page(rows, "outputs", Demand())


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("index") / "index.html"
    path.write_text(page_of(2), encoding="utf-8")
    return path


def test_the_page_is_no_wider_than_the_screen_and_can_be_read(browser: Any, path: Path) -> None:
    with visiting(browser, path, color_scheme="dark") as visit:
        for width in (320, 1000, 1440):
            visit.page.set_viewport_size({"width": width, "height": 900})
            assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
        contrast = visit.page.evaluate(UNREADABLE)
        assert contrast["looked"] > 50
        assert contrast["found"] == []
        assert visit.page.evaluate(NAMELESS) == []
        assert (visit.told, [url for url in visit.asked if not url.startswith("file:")]) == ([], [])


def test_filters_and_order_choose_rows_and_all_are_printed(browser: Any, path: Path) -> None:
    with visiting(browser, path) as visit:
        page = visit.page

        def shown() -> list[str]:
            return [text.split()[0] for text in page.locator(".outputs tbody .state:visible").all_inner_texts()]

        page.select_option("#generator", "trees")
        assert shown() == ["FAIL"] * 2
        page.select_option("#state", "PASS")
        assert (shown(), page.is_visible("#nothing")) == ([], True)
        page.select_option("#generator", "")
        page.fill("#text", "2026-01/")
        assert (shown(), page.inner_text("#left")) == (["PASS"], "1 of 8 rows")
        page.emulate_media(media="print")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert page.locator(".outputs tbody tr:visible").count() == N_TABLES + 2
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        page.emulate_media(media="screen")
        assert shown() == ["PASS"]
