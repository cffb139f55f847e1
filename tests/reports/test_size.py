"""Reports stay small and quick, also of a hundred columns and five tables."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evaluate.gate.verdict import Verdict
from evaluate.result import Evaluation
from reports import render_html
from tests.reports.browsing import visiting
from tests.reports.widened import widened

MB = 1_000_000
Verdicts = Callable[..., tuple[Verdict, ...]]


def test_fifteen_columns_of_three_tables_take_less_than_a_megabyte(
    evaluation: Evaluation, verdicts_of: Verdicts
) -> None:
    page = render_html(evaluation, verdicts=verdicts_of(evaluation), release="mst")
    assert len(page.encode()) < 1 * MB


def test_forty_columns_take_no_more_bytes_for_each_than_fifteen(
    make_evaluation: Callable[..., Evaluation], verdicts_of: Verdicts
) -> None:
    """What grows with the square of columns is cut: one more column costs less than 10 kB for a table."""
    few, many = (widened(make_evaluation, n_columns, 1) for n_columns in (15, 45))
    sizes = [len(render_html(one, verdicts=verdicts_of(one)).encode()) for one in (few, many)]
    assert (sizes[1] - sizes[0]) / 30 < 10_000


@pytest.mark.slow
def test_a_hundred_columns_of_five_tables_load_in_three_seconds_and_ten_megabytes(
    browser: Any, make_evaluation: Callable[..., Evaluation], verdicts_of: Verdicts, tmp_path: Path
) -> None:
    wide = widened(make_evaluation)
    page = render_html(wide, verdicts=verdicts_of(wide), release="table 0")
    assert len(page.encode()) < 10 * MB
    path = tmp_path / "wide.html"
    path.write_text(page, encoding="utf-8")
    assert min(_loading_s(browser, path) for _ in range(3)) < 3  # others may be at work on this machine
    with visiting(browser, path) as visit:
        visit.page.click("#open-all")
        visit.page.fill("#find", "age_03")
        assert visit.page.inner_text("#found") == "1 of 100 columns"
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= 1440
        assert visit.told == []


def _loading_s(browser: Any, path: Path) -> float:
    """Wall seconds from the request to the first picture."""
    started = time.monotonic()
    with visiting(browser, path) as visit:
        visit.page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        return time.monotonic() - started
