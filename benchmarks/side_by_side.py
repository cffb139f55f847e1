"""One table: `mst` beside SDV's Gaussian copula, and our evaluation beside SDMetrics' quality report.

Ours and the peer's run in turn, several times over; what is printed is the median, the spread and the ratio of medians.
Without arguments the table is the RAND Health Insurance Experiment that statsmodels carries (20,190 x 10); any other
can be named: `python -m benchmarks.side_by_side TABLE SCHEMA`.
"""

import os
import platform
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

import evaluate
import synth
from synth.schema import Schema

N_RUNS = 5


def main(arguments: list[str]) -> None:
    real, schema = _named(*map(Path, arguments)) if arguments else _randhie()
    sides = synth.split_table(real, schema, seed=0)
    train, holdout = sides.train, sides.holdout
    print(
        f"{len(real):,} rows x {len(schema.kept)} columns; {os.cpu_count()} cores; Python {platform.python_version()}"
    )
    drawn: dict[str, pd.DataFrame] = {}

    def make(name: str, **parameters: Any) -> Callable[[], None]:
        def run() -> None:
            drawn[name] = synth.fit(train, schema, name, **parameters).sample(len(train), seed=0)

        return run

    _compare(
        "fit and sample",
        {"mst, epsilon 1": make("mst", epsilon=1.0), "SDV Gaussian copula": make("sdv.gaussian_copula")},
    )
    synthetic = drawn["mst"]
    quality = ["fidelity.columns", "fidelity.pairs"]
    _compare(
        "quality of columns and pairs",
        {
            "ours, with intervals and landmarks": lambda: evaluate.evaluate(
                train, synthetic, holdout=holdout, schema=schema, measures=quality
            ),
            "SDMetrics quality report": lambda: _quality_report(train, synthetic, schema),
        },
    )
    print("\nfigures of the two synthetic tables")
    for candidate in evaluate.evaluate(train, drawn, holdout=holdout, schema=schema).candidates:
        for measure in ("columns.tvd.excess", "pairs.tvd.excess", "utility.tstr.boosting", "privacy.membership.auc"):
            estimate = candidate.find(measure)
            shown = f"{estimate.value:.4f}" if isinstance(estimate, evaluate.Estimate) else "not measured"
            print(f"  {candidate.name:22} {measure:26} {shown}")


def _randhie() -> tuple[pd.DataFrame, Schema]:
    from statsmodels.datasets import randhie

    frame = randhie.load_pandas().data
    schema = synth.infer_schema(frame, target="mdvis")
    return frame, synth.declare_schema(schema, n_units=len(frame))


def _named(table: Path, schema: Path) -> tuple[pd.DataFrame, Schema]:
    read = synth.read_schema(schema)
    return synth.read_table(table, read), read


def _quality_report(train: pd.DataFrame, synthetic: pd.DataFrame, schema: Schema) -> None:
    from synth.table import present

    numeric = ("integer", "real", "weight")
    columns = {
        name: {"sdtype": "numerical" if schema.columns[name].kind in numeric else "categorical"}
        for name in schema.learned
    }
    names = list(columns)
    with warnings.catch_warnings(record=True):
        from sdmetrics.reports.single_table import QualityReport

        QualityReport().generate(present(train, schema)[names], synthetic[names], {"columns": columns}, verbose=False)


def _compare(what: str, runs: dict[str, Callable[[], object]]) -> None:
    """Time two things in turn and print them; the first run of each warms up and does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(N_RUNS + 1):
        for name, run in runs.items():
            started = time.perf_counter()
            run()
            if turn:
                seconds[name].append(time.perf_counter() - started)
    medians = [statistics.median(times) for times in seconds.values()]
    print(f"\n{what}, {N_RUNS} runs each")
    for (name, times), median in zip(seconds.items(), medians, strict=True):
        print(f"  {name:36} {median:7.2f} s  [{min(times):.2f}, {max(times):.2f}]")
    print(f"  ratio of medians (first / second)    {medians[0] / medians[1]:7.2f}")


if __name__ == "__main__":
    main(sys.argv[1:])
