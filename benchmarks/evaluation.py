"""The evaluation beside SDMetrics' reports: processor seconds and memory on Adult, and ours on a million rows.

``python -m benchmarks.evaluation TABLE --out evaluation.json``, where TABLE is UCI's ``adult.data``. Ours and the
peer's run in turn, each in a process of its own with one thread, imports not counted. The synthetic table is half
right: every other column is shuffled. ``--only`` takes some parts.
"""

import argparse
import importlib
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.adult_table import Adult, read_adult

VALIDITY_AND_FIDELITY = ("validity", "fidelity.columns", "fidelity.pairs", "fidelity.triples")
PRIVACY = "privacy."
THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
LARGE_ROWS = 1_000_000


def main(arguments: Sequence[str]) -> None:
    options = _options(arguments)
    if options.point is not None:
        print(json.dumps(_point(options.point, options.table)))
        return
    found: dict[str, list[dict[str, float]]] = {name: [] for name in options.only}
    for turn in range(options.repeats):
        for name in options.only:
            if turn == 0 or name not in ONCE:
                found[name].append(_apart(name, options.table))
    content = {"about": {"python": platform.python_version(), "cores": os.cpu_count()}, "runs": found}
    if options.out is not None:
        options.out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    print(draw(found))


def draw(found: dict[str, list[dict[str, float]]]) -> str:
    """The results as a table, with the ratio to the peer's reports."""
    medians = {name: statistics.median(run["cpu_s"] for run in runs) for name, runs in found.items() if runs}
    peer = sum(medians.get(name, float("nan")) for name in PEERS)
    lines = [
        "| what | CPU seconds, median [least, most] | peak MiB | of the peer's reports |",
        "| --- | --- | --- | --- |",
    ]
    for name, runs in found.items():
        seconds = [run["cpu_s"] for run in runs]
        memory = max(run["peak_mib"] for run in runs)
        spread = f"{medians[name]:.2f} [{min(seconds):.2f}, {max(seconds):.2f}]"
        ratio = f"{medians[name] / peer:.2f}" if peer == peer and name not in ONCE else ""
        lines.append(f"| {name} | {spread} | {memory:.0f} | {ratio} |")
    return "\n".join(lines)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks.evaluation", description=__doc__)
    parser.add_argument("table", type=Path, help="adult.data")
    parser.add_argument("--only", nargs="+", choices=POINTS, default=list(POINTS), help="parts; unless said, all")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each")
    parser.add_argument("--point", choices=POINTS, help="measure one part in this process and print it as JSON")
    parser.add_argument("--out", type=Path, help="JSON file of the results")
    return parser.parse_args(arguments)


def _apart(name: str, table: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.evaluation", str(table), "--point", name]
    done = subprocess.run(command, env={**os.environ, **THREADS}, capture_output=True, text=True, check=True)
    measured: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return measured


def _point(name: str, table: Path) -> dict[str, float]:
    run = POINTS[name](read_adult(table))
    began = time.process_time(), time.perf_counter()
    run()
    ended = time.process_time(), time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"cpu_s": ended[0] - began[0], "wall_s": ended[1] - began[1], "peak_mib": peak}


def half_right(train: pd.DataFrame) -> pd.DataFrame:
    """As many rows as train, drawn from it, with every other column shuffled."""
    rng = np.random.default_rng(1)
    made = train.iloc[rng.integers(len(train), size=len(train))].reset_index(drop=True)
    return made.assign(**{name: made[name].to_numpy()[rng.permutation(len(made))] for name in made.columns[::2]})


def _ours(*starts: str) -> Callable[[Adult], Callable[[], object]]:
    """Ours, of the measures whose names begin so."""

    def prepare(adult: Adult) -> Callable[[], object]:
        import evaluate
        from evaluate.engine import MEASURES

        chosen = [name for name in MEASURES if name.startswith(starts)]
        for name in chosen:
            importlib.import_module(f"evaluate.{name}")
        _import_late()
        synthetic = half_right(adult.train)
        return lambda: evaluate.evaluate(adult.train, adult.test, synthetic, adult.plain, measures=chosen)

    return prepare


def _ours_large(adult: Adult) -> Callable[[], object]:
    """Ours without attacks on a million rows of thirty columns: Adult twice side by side, resampled."""
    import evaluate
    import synth
    from evaluate.engine import MEASURES

    rng = np.random.default_rng(0)

    def wide(frame: pd.DataFrame, n: int) -> pd.DataFrame:
        parts = (frame.iloc[rng.integers(len(frame), size=n)].reset_index(drop=True) for _ in range(2))
        return pd.concat([part.add_suffix(end) for part, end in zip(parts, ("", ".2"), strict=True)], axis=1)

    train, holdout = wide(adult.train, LARGE_ROWS), wide(adult.test, LARGE_ROWS // 4)
    synthetic = half_right(train)
    schema = synth.infer_schema(pd.concat([train, holdout]), target=adult.target)
    chosen = [name for name in MEASURES if not name.startswith(PRIVACY)]
    _import_late()
    return lambda: evaluate.evaluate(train, holdout, synthetic, schema, measures=chosen)


def _import_late() -> None:
    for name in ("scipy.stats", "sklearn.ensemble", "sklearn.linear_model", "threadpoolctl"):
        importlib.import_module(name)


def _sdmetrics(report: str) -> Callable[[Adult], Callable[[], object]]:
    def prepare(adult: Adult) -> Callable[[], object]:
        reports: Any = importlib.import_module("sdmetrics.reports.single_table")
        numeric = ("integer", "real", "weight")
        kinds = {n: "numerical" if c.kind in numeric else "categorical" for n, c in adult.plain.columns.items()}
        metadata = {"columns": {name: {"sdtype": kind} for name, kind in kinds.items()}}
        synthetic = half_right(adult.train)

        def run() -> None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                getattr(reports, report)().generate(adult.train, synthetic, metadata, verbose=False)

        return run

    return prepare


PEERS = ("SDMetrics quality report", "SDMetrics diagnostic report")
POINTS: dict[str, Callable[[Adult], Callable[[], object]]] = {
    "validity and fidelity of columns, pairs, triples": _ours(*VALIDITY_AND_FIDELITY),
    "validity, fidelity, utility and fairness": _ours("validity", "fidelity", "utility", "fairness"),
    PEERS[0]: _sdmetrics("QualityReport"),
    PEERS[1]: _sdmetrics("DiagnosticReport"),
    "validity, fidelity, utility and fairness of 1,000,000 x 30": _ours_large,
}
ONCE = ("validity, fidelity, utility and fairness of 1,000,000 x 30",)

if __name__ == "__main__":
    main(sys.argv[1:])
