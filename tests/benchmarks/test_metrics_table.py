"""The page of metrics in the docs."""

from pathlib import Path

from benchmarks.metrics_table import page

ROOT = Path(__file__).parents[2]


def test_the_page_of_metrics_is_what_their_declarations_say() -> None:
    assert (ROOT / "docs/reference/metrics.md").read_text(encoding="utf-8") == page()
