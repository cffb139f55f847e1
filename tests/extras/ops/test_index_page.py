"""The page of an index: filtered as is asked, and printed whole."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from evaluate.result import Estimate
from tests.reports.browsing import visiting
from understudy.bundle.verification import Demand
from understudy.extras.ops.index import EMPTY, FIGURES, NOT_SOUND, render_page

FOUND = Estimate("privacy.membership.auc", 0.5, 100, "lower", low=0.4, high=0.6)
ROW = {
    **EMPTY, "title": "A job", "day": "2026-01-02", "policy": "internal 3", "audience": "us", "is_measured": True,
    "figures": {name: replace(FOUND, measure=name) for name in FIGURES}, "report": "a/report.html",
}  # fmt: skip
TABLES = (("PASS", "mst"), ("FAIL", "trees"), ("INCONCLUSIVE", "sdv.tvae"))


def test_filters_choose_rows_and_all_are_printed(browser: Any, tmp_path: Path) -> None:
    rows = [
        {**ROW, "output": f"2026-{month:02d}/a", "state": state, "table": generator, "generator": generator}
        for month in range(2)
        for state, generator in TABLES
    ]
    rows.append({**EMPTY, "output": "broken", "state": NOT_SOUND, "reason": "report.html was changed."})
    path = tmp_path / "index.html"
    path.write_text(render_page(rows, "outputs", Demand()), encoding="utf-8")
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
        assert (shown(), page.inner_text("#left")) == (["PASS"], "1 of 7 rows")
        page.emulate_media(media="print")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert page.locator(".outputs tbody tr:visible").count() == len(rows)
