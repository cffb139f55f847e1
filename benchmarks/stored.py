"""Tables that stay where they are stored: what a fit of `mst` on a folder of Parquet files costs as its rows grow.

``python -m benchmarks.stored [TABLE] --out stored.json``, where TABLE is UCI's ``adult.data``; without it a table of 15
made columns takes its place. `mst` without epsilon is fitted to it, and the stored tables are drawn from that model.
Each piece of work runs in a process of its own, several times over; runs that the file holds are kept.

- write: `write_rows`, the table itself as a folder of Parquet files.
- fit: `mst` at epsilon 1 on four fifths of it: open, split, bound, count, measure, fit. Nothing is held in memory.
- count: the 15 columns and 105 pairs of all rows in codes, from opening the files to the last count.
- plain: the same 120 counts of values as they are, `count(*) ... GROUP BY` through DuckDB's own API, with as many
  threads and as much memory.
"""

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import numpy as np

from benchmarks.evaluation import apart
from benchmarks.runs import Results, Run
from benchmarks.stored_point import MODEL, Point

ROWS = (1_000_000, 3_000_000, 10_000_000)
MEASURED = ("write", "fit", "count", "plain")
MOST_MB = 3_000
"""What a process may hold at its peak, DuckDB's share included."""


def main(arguments: Sequence[str]) -> None:
    options = _options(arguments)
    results = Results(options.out)
    results.about["versions"]["duckdb"] = metadata.version("duckdb")
    results.about |= {"threads": options.threads, "memory_mb": options.memory_mb}
    with _scratch(options.folder) as folder:
        start = Point("model", str(folder), 0, options.threads, options.memory_mb, options.table)
        if _left(results, options) and not (folder / MODEL).exists():
            _measured(start)
        for n_rows in options.rows:
            _measure(results, replace(start, rows=n_rows), options)
    print(draw(results, options.rows))


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks.stored", description=__doc__)
    parser.add_argument("table", nargs="?", help="adult.data; none: a made table")
    parser.add_argument("--rows", nargs="+", type=int, default=list(ROWS), help="of the stored tables")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each")
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1), help="of DuckDB")
    parser.add_argument("--memory-mb", type=int, default=1_500, help="of DuckDB")
    parser.add_argument("--folder", type=Path, help="where tables are made and kept; unless said, they are removed")
    parser.add_argument("--out", type=Path, help="JSON file of the results, read and continued")
    return parser.parse_args(arguments)


@contextmanager
def _scratch(kept: Path | None) -> Iterator[Path]:
    if kept is not None:
        kept.mkdir(parents=True, exist_ok=True)
        yield kept
        return
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        yield Path(folder)


def _left(results: Results, options: argparse.Namespace) -> bool:
    wanted = [(n, work, turn) for n in options.rows for work in MEASURED for turn in range(options.repeats)]
    return any(not results.has(_name(work, n), None, turn) for n, work, turn in wanted)


def _measure(results: Results, point: Point, options: argparse.Namespace) -> None:
    """All works on one table, in turn; the table is removed afterwards unless it is to be kept."""
    for turn in range(options.repeats):
        for work in MEASURED:
            name = _name(work, point.rows)
            if results.has(name, None, turn):
                continue
            if work == "write":
                shutil.rmtree(point.stored, ignore_errors=True)
            elif not point.stored.exists():
                _measured(replace(point, work="write"))
            run = _measured(replace(point, work=work), name, turn)
            results.add(run)
            print(f"{name}, run {turn}: {run.fit_s:.1f} s, {run.scores['peak_mb']:,.0f} MB", file=sys.stderr)
    if options.folder is None:
        shutil.rmtree(point.stored, ignore_errors=True)


def _measured(point: Point, name: str = "", turn: int = 0) -> Run:
    found = apart("benchmarks.stored_point", json.dumps(vars(point)))
    peak_mb = found["peak_mib"] * 1.048576
    return Run(name, None, turn, fit_s=found["wall_s"], fit_cpu_s=found["cpu_s"], scores={"peak_mb": peak_mb})


def _name(work: str, n_rows: int) -> str:
    return f"{work}: {n_rows} rows"


def draw(results: Results, rows: Sequence[int]) -> str:
    """The results as tables: each work, its growth with the rows, and the ratios to DuckDB's own counts."""
    about = results.about
    lines = [
        f"{about['cores']} cores; DuckDB {about['versions']['duckdb']} with {about['threads']} threads and "
        f"{about['memory_mb']:,} MB",
        "",
        "| work | rows | seconds, median [least, most] | CPU s | s per million rows | rows a second | peak MB |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for work in MEASURED:
        lines += [_row(work, n, runs) for n in rows if (runs := results.named(_name(work, n), None))]
    lines += ["", "| rows | count / plain | fit / plain | the same in CPU seconds |", "| ---: | ---: | ---: | ---: |"]
    lines += [_ratios(results, n) for n in rows if results.named(_name("plain", n), None)]
    lines += ["", *[_growth(results, work, rows) for work in MEASURED]]
    over = sorted({run.name for run in results.runs if run.scores.get("peak_mb", 0.0) > MOST_MB})
    lines.append(f"Over {MOST_MB:,} MB at its peak: {', '.join(over) or 'nothing'}")
    return "\n".join(lines)


def _row(work: str, n_rows: int, runs: Sequence[Run]) -> str:
    seconds = [run.fit_s or 0.0 for run in runs]
    median, cpu_s = statistics.median(seconds), statistics.median(run.fit_cpu_s or 0.0 for run in runs)
    peak = max(run.scores["peak_mb"] for run in runs)
    spread = f"{median:.2f} [{min(seconds):.2f}, {max(seconds):.2f}]"
    return (
        f"| {work} | {n_rows:,} | {spread} | {cpu_s:.2f} | {1e6 * median / n_rows:.3f} | {n_rows / median:,.0f} "
        f"| {peak:,.0f} |"
    )


def _ratios(results: Results, n_rows: int) -> str:
    cells = []
    for figure in ("fit_s", "fit_cpu_s"):
        count, fit, plain = (_median(results, work, n_rows, figure) for work in ("count", "fit", "plain"))
        cells.append((count / plain, fit / plain))
    return f"| {n_rows:,} | {cells[0][0]:.2f} | {cells[0][1]:.2f} | {cells[1][0]:.2f}, {cells[1][1]:.2f} |"


def _growth(results: Results, work: str, rows: Sequence[int]) -> str:
    known = [n for n in rows if results.named(_name(work, n), None)]
    if len(known) < 2:
        return f"{work}: no growth from one size"
    seconds, cpu_s = (np.log([_median(results, work, n, figure) for n in known]) for figure in ("fit_s", "fit_cpu_s"))
    slopes = [np.polyfit(np.log(known), logs, 1)[0] for logs in (seconds, cpu_s)]
    return f"{work}: seconds grow as rows to the power {slopes[0]:.2f}, CPU seconds {slopes[1]:.2f}"


def _median(results: Results, work: str, n_rows: int, figure: str) -> float:
    found = [getattr(run, figure) for run in results.named(_name(work, n_rows), None)]
    return statistics.median(found) if found else float("nan")


if __name__ == "__main__":
    main(sys.argv[1:])
