"""The benchmark of a large table: every piece of work runs, and its table stands beside the figures before."""

from pathlib import Path

from benchmarks.large import WORKS, draw
from benchmarks.runs import Results, Run


def test_every_work_but_the_job_runs_on_a_small_table(tmp_path: Path) -> None:
    for work in ("model", "write", "read", "fit"):
        WORKS[work](tmp_path, 500, None)()
    assert [path.name for path in sorted((tmp_path / "rows").iterdir())] == ["part-00000.parquet"]


def test_a_fit_stands_beside_its_figures_before() -> None:
    results = Results(None)
    for turn, seconds in enumerate((3.0, 4.0, 9.0)):
        results.add(
            Run("fit: 1000000 rows", None, turn, fit_s=seconds, fit_cpu_s=2 * seconds, scores={"peak_mb": 400.0})
        )
    assert "| 1,000,000 | fit | 4.0 | 8.0 | 400 | 4.7 | 513 |" in draw(results, (1_000_000,))
