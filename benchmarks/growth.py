"""The cost of `mst`, `aim` and `trees` as the work grows: rows, columns, categories of one column, size of the model.

``python -m benchmarks.growth --out growth.json --svg growth.svg`` measures every point that the file does not hold,
each in a process of its own, and draws all of them; with ``--axis`` only some. The table is made (growth_table.py):
50,000 rows x 15 columns of mixed kinds, unless they are what grows. Categories and models grow on a million rows: noise
keeps a smaller table from having as many codes, or as large a model, as it may. Epsilon is 1; `trees` has none.
"""

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.growth_chart import Line, Panel, draw_panels
from benchmarks.growth_point import EPSILON, Point
from benchmarks.runs import Results, Run

GENERATORS = ("mst", "aim", "trees")
LIMITED = ("mst", "aim")
"""Those whose model has a size that can be set."""
AXES: Mapping[str, tuple[int, ...]] = {
    "rows": (10_000, 100_000, 1_000_000, 10_000_000),
    "columns": (5, 15, 30, 50, 100),
    "categories": (10, 100, 1_000, 10_000),
    "model_mb": (1, 4, 16, 64),
}
TITLES = {
    "rows": "Rows (of 15 columns)",
    "columns": "Columns (of 50k rows)",
    "categories": "Categories of one column (1M rows)",
    "model_mb": "Largest model, MB (1M rows)",
}
MANY_ROWS = 1_000_000
LIMIT_S, LIMIT_GB, PATIENCE = 300.0, 12.0, 4.0
"""Processor seconds and memory of a point at most; other work on the machine may stretch the seconds so many times."""
HEADS = ("", "", "fit CPU s", "fit s", "sample CPU s", "sample s", "peak MB", "marginals", "most codes", "model MB")
CAPTION = """\
CPU s: processor seconds, one thread; sampled are as many rows as were fitted. peak MB: of the whole process, the table
itself and the libraries included. marginals: of two columns or more. most codes: of one column after its rare values
are merged. model MB: tables of its junction tree."""

NOTE = "One thread; mst and aim at epsilon 1. Dotted: in proportion to what grows."


def main(arguments: Sequence[str]) -> None:
    options = _options(arguments)
    results = Results(options.out)
    for point in _points(options.axis):
        if not results.has(point.name, EPSILON, 0):
            run = _run(point, options.limit_s)
            results.add(run)
            print(f"{point.name}: {run.failure or f'{run.fit_cpu_s:.1f} s'}", file=sys.stderr)
    print(_table(results, options.axis))
    if options.svg is not None:
        panels = [_panel(results, axis, options.limit_s) for axis in options.axis]
        options.svg.write_text(draw_panels(panels, NOTE) + "\n")


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--axis", nargs="+", choices=AXES, default=list(AXES), help="what grows; unless said, each")
    parser.add_argument("--limit-s", type=float, default=LIMIT_S, help="processor seconds of one point at most")
    parser.add_argument("--out", type=Path, help="JSON file of the results, read and continued")
    parser.add_argument("--svg", type=Path, help="where to draw them")
    return parser.parse_args(arguments)


def _points(axes: Sequence[str]) -> list[Point]:
    """The points, each once, the small ones of every axis first."""
    steps = range(max(map(len, AXES.values())))
    places = [(axis, AXES[axis][step]) for step in steps for axis in axes if step < len(AXES[axis])]
    points = [_point(axis, value, generator) for axis, value in places for generator in _generators(axis)]
    return list({point.name: point for point in points}.values())


def _generators(axis: str) -> tuple[str, ...]:
    return LIMITED if axis == "model_mb" else GENERATORS


def _point(axis: str, value: float, generator: str) -> Point:
    setting: dict[str, Any] = {axis: value}
    if axis in ("categories", "model_mb"):
        setting["rows"] = MANY_ROWS
    return Point(generator, **setting)


def _run(point: Point, limit_s: float) -> Run:
    """One point; what goes wrong is a result too."""

    def limit() -> None:
        seconds = int(limit_s)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
        resource.setrlimit(resource.RLIMIT_AS, (int(LIMIT_GB * 1e9),) * 2)

    run = Run(point.name, EPSILON)
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "benchmarks.growth_point", json.dumps(vars(point))]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=PATIENCE * limit_s,
            preexec_fn=limit,
            env={**os.environ, **threads},
            cwd=Path(__file__).parent.parent,
        )
    except subprocess.TimeoutExpired:
        return Run(**{**vars(run), "failure": f"stopped after {PATIENCE * limit_s:.0f} s on a busy machine"})
    if done.returncode == 0:
        return Run(**{**vars(run), **json.loads(done.stdout)})
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        failure = f"over {limit_s:.0f} s"
    elif "MemoryError" in done.stderr:
        failure = f"over {LIMIT_GB:.0f} GB"
    else:
        failure = f"failed: {(done.stderr.strip().splitlines() or ['nothing was said'])[-1][:100]}"
    return Run(**{**vars(run), "failure": failure})


def _found(results: Results, axis: str, value: float, generator: str) -> Run | None:
    named = results.named(_point(axis, value, generator).name, EPSILON)
    return named[0] if named else None


def _table(results: Results, axes: Sequence[str]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in results.about["versions"].items())
    parts = [f"epsilon 1, trees without; {results.about['cores']} cores, Python {results.about['python']}, {versions}"]
    for axis in axes:
        rows = [list(HEADS)]
        for value in AXES[axis]:
            for generator in _generators(axis):
                rows.append([f"{value:,}", generator, *_cells(_found(results, axis, value, generator))])
        rows[0][0] = TITLES[axis]
        widths = [max(len(row[index]) for row in rows if index < len(row)) for index in range(len(HEADS))]
        widths[2] = len(HEADS[2])
        lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=False)) for row in rows]
        parts.append("\n".join(lines))
    return "\n\n".join([*parts, CAPTION])


def _cells(run: Run | None) -> list[str]:
    if run is None or run.failure is not None:
        return ["not measured" if run is None else f"not measured: {run.failure}"]
    scores = run.scores
    times = (run.fit_cpu_s, run.fit_s, scores["sample_cpu_s"], run.sample_s)
    sizes = [scores[name] for name in ("peak_mb", "n_marginals", "most_codes") if name in scores]
    shown = [f"{value or 0:.2f}" for value in times] + [f"{value:,.0f}" for value in sizes]
    return [*shown, f"{scores['model_mb']:.2f}"] if "model_mb" in scores else shown


def _panel(results: Results, axis: str, limit_s: float) -> Panel:
    lines = []
    for generator in _generators(axis):
        known: list[tuple[float, float]] = []
        stopped: list[tuple[float, str]] = []
        for value in AXES[axis]:
            run = _found(results, axis, value, generator)
            if run is not None and run.failure is None:
                known.append((value, (run.fit_cpu_s or 0) + run.scores["sample_cpu_s"]))
            else:
                stopped.append((value, "not measured" if run is None else run.failure or ""))
        lines.append(Line(generator, tuple(known), tuple(stopped)))
    return Panel(TITLES[axis], tuple(map(float, AXES[axis])), tuple(lines), limit_s)


if __name__ == "__main__":
    main(sys.argv[1:])
