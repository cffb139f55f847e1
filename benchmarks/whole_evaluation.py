"""Processor seconds and memory of a whole evaluation: every measure, attack and self-test, on any table.

``python -m benchmarks.whole_evaluation TABLE --target NAME --rows 20000 --holdout 10000``, where TABLE is a CSV file.
The synthetic table has as many rows as train and is half right: every other column is shuffled. Runs are made in turn,
each in a process of its own with one thread, imports not counted.
"""

import argparse
import json
import os
import platform
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

import evaluate
import synth
from benchmarks.evaluation import apart, half_right, import_late
from benchmarks.peers.evaluated import measured
from evaluate.metrics import MODULES

MOST_MEASURES = 8
"""Slowest ones that are shown."""


def main(arguments: Sequence[str]) -> None:
    """Run the evaluation as often as asked for, and draw the seconds, the peak and the slowest measures."""
    options = _options(arguments)
    if options.here:
        print(json.dumps(_point(options)))
        return
    runs = [apart("benchmarks.whole_evaluation", *arguments, "--here") for _ in range(options.repeats)]
    about = {"python": platform.python_version(), "cores": os.cpu_count()}
    if options.out is not None:
        options.out.write_text(json.dumps({"about": about, "runs": runs}, indent=1) + "\n", encoding="utf-8")
    seconds = [run["cpu_s"] for run in runs]
    shape = "{train} + {holdout} + {train} rows of {columns} columns".format(**runs[0])
    print(
        f"{shape}: {statistics.median(seconds):.1f} CPU seconds [{min(seconds):.1f}, {max(seconds):.1f}], "
        f"peak {max(run['peak_mib'] for run in runs):.0f} MiB"
    )
    slowest = sorted(runs[0]["wall_s"].items(), key=lambda item: -item[1])[:MOST_MEASURES]
    print("Wall seconds of the first run: " + ", ".join(f"{name} {wall:.1f}" for name, wall in slowest))


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks.whole_evaluation", description=__doc__)
    parser.add_argument("table", type=Path, help="CSV file")
    parser.add_argument("--target", help="column to predict; unless said, models are not compared")
    parser.add_argument("--rows", type=int, default=20_000, help="of train and of the synthetic table")
    parser.add_argument("--holdout", type=int, default=10_000, help="rows of the holdout")
    parser.add_argument("--repeats", type=int, default=3, help="runs")
    parser.add_argument("--out", type=Path, help="JSON file of the results")
    parser.add_argument("--here", action="store_true", help="measure once in this process and print it as JSON")
    return parser.parse_args(arguments)


def _point(options: argparse.Namespace) -> dict[str, Any]:
    table = pd.read_csv(options.table).sample(frac=1, random_state=0).reset_index(drop=True)
    schema = synth.infer_schema(table, target=options.target)
    train, holdout = table[: options.rows], table[options.rows : options.rows + options.holdout]
    synthetic = half_right(train)
    import_late(list(MODULES))
    evaluations: list[evaluate.Evaluation] = []
    cost = measured(lambda: evaluations.append(evaluate.evaluate(train, synthetic, holdout=holdout, schema=schema)))
    (candidate,) = evaluations[0].candidates
    sizes = {"train": len(train), "holdout": len(holdout), "columns": len(schema.columns)}
    return {**sizes, **cost, "wall_s": {name: round(wall, 2) for name, wall in candidate.seconds.items()}}


if __name__ == "__main__":
    main(sys.argv[1:])
