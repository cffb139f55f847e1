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
import statistics
import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.adult_table import Adult, read_adult
from benchmarks.peers.evaluated import measured

VALIDITY_AND_FIDELITY = ("validity", "fidelity.columns", "fidelity.pairs", "fidelity.triples")
PRIVACY = "privacy."
THREADS = (
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "POLARS_MAX_THREADS",
    "LOKY_MAX_CPU_COUNT",
)  # fmt: skip
LARGE_ROWS = 1_000_000


def main(arguments: Sequence[str]) -> None:
    options = _options(arguments)
    if options.point is not None:
        print(json.dumps(_point(options.point, options.table)))
        return
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in options.only}
    for turn in range(options.repeats):
        for name in options.only:
            if turn == 0 or name not in ONCE:
                runs[name].append(apart("benchmarks.evaluation", str(options.table), "--point", name))
    content = {"about": {"python": platform.python_version(), "cores": os.cpu_count()}, "runs": runs}
    if options.out is not None:
        options.out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    print(draw(runs))


def draw(content: dict[str, list[dict[str, float]]]) -> str:
    """The results as a table, with the ratio to the peer's reports."""
    medians = {name: statistics.median(run["cpu_s"] for run in runs) for name, runs in content.items() if runs}
    peer = sum(medians.get(name, float("nan")) for name in PEERS)
    lines = [
        "| what | CPU seconds, median [least, most] | peak MiB | of the peer's reports |",
        "| --- | --- | --- | --- |",
    ]
    for name, runs in content.items():
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


def apart(module: str, *arguments: str, threads: int = 1, limit_s: float | None = None) -> dict[str, Any]:
    """The JSON that a module prints last, in a process of its own, which is stopped after so many seconds."""
    command, environment = [sys.executable, "-m", module, *arguments], held_to(threads)
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=limit_s)
    runs: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return runs


def outcome(module: str, *arguments: str, limit_s: float | None) -> dict[str, Any]:
    """The same, or why there is none: whatever goes wrong is a result, too."""
    try:
        return apart(module, *arguments, limit_s=limit_s)
    except subprocess.TimeoutExpired:
        return {"failure": f"stopped after {limit_s:.0f} s"}
    except subprocess.CalledProcessError as error:
        return {"failure": f"ended with exit code {error.returncode}"}


def held_to(threads: int) -> dict[str, str]:
    """This environment, with libraries held to so many threads."""
    return {**os.environ, **dict.fromkeys(THREADS, str(threads))}


def _point(name: str, table: Path) -> dict[str, float]:
    return measured(POINTS[name](read_adult(table)))


def half_right(train: pd.DataFrame) -> pd.DataFrame:
    """As many rows as train, drawn from it, with every other column shuffled."""
    rng = np.random.default_rng(1)
    resampled = train.iloc[rng.integers(len(train), size=len(train))].reset_index(drop=True)
    return resampled.assign(
        **{name: resampled[name].to_numpy()[rng.permutation(len(resampled))] for name in resampled.columns[::2]}
    )


def _ours(*starts: str) -> Callable[[Adult], Callable[[], object]]:
    """Ours, of the measures whose names begin so."""

    def prepare(adult: Adult) -> Callable[[], object]:
        import evaluate
        from evaluate.metrics import MODULES

        chosen = [name for name in MODULES if name.startswith(starts)]
        import_late(chosen)
        synthetic = half_right(adult.train)
        return lambda: evaluate.evaluate(
            adult.train, synthetic, holdout=adult.test, schema=adult.plain, measures=chosen
        )

    return prepare


def _ours_large(adult: Adult) -> Callable[[], object]:
    """Ours without attacks on a million rows of thirty columns: Adult twice side by side, resampled."""
    import evaluate
    import synth
    from evaluate.metrics import MODULES

    rng = np.random.default_rng(0)

    def wide(frame: pd.DataFrame, n: int) -> pd.DataFrame:
        parts = (frame.iloc[rng.integers(len(frame), size=n)].reset_index(drop=True) for _ in range(2))
        return pd.concat([part.add_suffix(end) for part, end in zip(parts, ("", ".2"), strict=True)], axis=1)

    train, holdout = wide(adult.train, LARGE_ROWS), wide(adult.test, LARGE_ROWS // 4)
    synthetic = half_right(train)
    schema = synth.infer_schema(pd.concat([train, holdout]), target=adult.target)
    chosen = [name for name in MODULES if not name.startswith(PRIVACY)]
    import_late(chosen)
    return lambda: evaluate.evaluate(train, synthetic, holdout=holdout, schema=schema, measures=chosen)


def import_late(measures: Sequence[str]) -> None:
    """What these measures import when they first run."""
    from evaluate.metrics import MODULES

    late = ("scipy.stats", "sklearn.ensemble", "sklearn.linear_model", "threadpoolctl")
    for name in (*map(MODULES.__getitem__, measures), *late):
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
