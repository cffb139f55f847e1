"""The benchmark of stored tables: every piece of work runs, and its tables say what was measured."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.runs import Results, Run
from benchmarks.stored import MEASURED, draw
from benchmarks.stored_point import WORKS, Point


def test_every_work_runs_on_a_small_table(tmp_path: Path) -> None:
    point = Point("model", str(tmp_path), 500, threads=1, memory_mb=300)
    for work in WORKS:
        WORKS[work](replace(point, work=work))()
    assert [path.name for path in sorted(point.stored.iterdir())] == ["part-00000.parquet"]


def test_growth_and_ratios_are_those_of_the_medians() -> None:
    results = Results(None)
    results.about |= {"threads": 2, "memory_mb": 1_500}
    results.about["versions"]["duckdb"] = "1.0"
    for work, seconds in zip(MEASURED, (1.0, 4.0, 2.0, 8.0), strict=True):
        for times in (1, 10):
            for turn, factor in enumerate((0.5, 1.0, 9.0)):
                took = seconds * times * factor
                name = f"{work}: {times * 1_000_000} rows"
                results.add(Run(name, None, turn, fit_s=took, fit_cpu_s=2 * took, scores={"peak_mb": 400.0 * times}))
    drawn = draw(results, (1_000_000, 10_000_000))
    assert "| fit | 1,000,000 | 4.00 [2.00, 36.00] | 8.00 | 4.000 | 250,000 | 400 |" in drawn
    assert "| 1,000,000 | 0.25 | 0.50 | 0.25, 0.50 |" in drawn
    assert "fit: seconds grow as rows to the power 1.00, CPU seconds 1.00" in drawn
    assert drawn.count("rows, ") == 3 and "write: 10000000 rows" in drawn.splitlines()[-1]


@pytest.mark.parametrize("rows", [(1_000_000,), ()])
def test_one_size_has_no_growth(rows: tuple[int, ...]) -> None:
    results = Results(None)
    results.about |= {"threads": 2, "memory_mb": 1_500}
    results.about["versions"]["duckdb"] = "1.0"
    results.add(Run("fit: 1000000 rows", None, 0, fit_s=1.0, fit_cpu_s=1.0, scores={"peak_mb": 1.0}))
    assert "fit: no growth from one size" in draw(results, rows)
