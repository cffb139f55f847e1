"""Groups found in synthetic tables beside k-means with DP on the real rows, at the same epsilon.

``python -m benchmarks.clusters TABLE ... --out clusters.json``, where each TABLE is a CSV file. The schema is inferred
and declared as it is. A seed splits the table 80 to 20, each generator is fitted once to the larger part and gives as
many rows, and `utility.clusters` and its alternative with DP are measured. k-means with DP spends the epsilon of each
private table anew, and its score is the mean over those. A run is written as soon as it is done, and is not done again.
Without TABLE, only the table of results is drawn: medians over the seeds, and the range.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

import synth
from benchmarks.runs import about, keep, read_kept
from evaluate.engine import evaluate
from evaluate.result import Estimate
from evaluate.utility.clusters import EXPLAINED
from synth.schema import Schema
from understudy.extras.dp_models import groups

WITH_DP = "k-means with DP"
GENERATORS = ("mst:1", "aim:1", "trees")
"""Generators, each with its epsilon unless it has none."""
HEAD = "| table | rows | groups from | explained |\n| --- | ---: | --- | ---: |"


def main(arguments: Sequence[str]) -> None:
    """Do each run that the file does not hold, keep it, and draw all."""
    options = _options(arguments)
    content: dict[str, Any] = read_kept(options.out, {"about": about(), "runs": {}})
    for path in options.tables:
        table = pd.read_csv(path, keep_default_na=False, na_values=[""], low_memory=False)
        schema = synth.declare_schema(synth.infer_schema(table), n_units=len(table), dataset=path.name)
        for seed in range(options.seeds):
            for generator in options.generators:
                key = f"{path.name.split('.')[0]} {generator} {seed}"
                if key not in content["runs"]:
                    content["runs"][key] = _run(table, schema, generator, seed)
                    print(key, content["runs"][key], file=sys.stderr, flush=True)
                    keep(options.out, content)
    print("\n".join(drawn(content["runs"])))


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks.clusters", description=__doc__)
    parser.add_argument("tables", nargs="*", type=Path, help="CSV files; none only draws what --out holds")
    parser.add_argument("--generators", nargs="+", default=list(GENERATORS), help=f"unless said, {GENERATORS}")
    parser.add_argument("--seeds", type=int, default=3, help="splits, and fits of each generator")
    parser.add_argument("--out", type=Path, help="JSON file of the results, read and continued")
    return parser.parse_args(arguments)


def _run(table: pd.DataFrame, schema: Schema, generator: str, seed: int) -> dict[str, Any]:
    """One fit on one split: of each number its value, and what training rows and shuffled ones give."""
    name, _, epsilon = generator.partition(":")
    sides = synth.split_table(table, schema, seed=seed)
    began = time.process_time()
    private: dict[str, Any] = {"epsilon": float(epsilon)} if epsilon else {}
    model: Any = synth.fit(sides.train, schema, name, seed=seed, **private)
    fitted = time.process_time()
    synthetic = model.sample(len(sides.train), seed=seed)
    statement = {name: model.statement} if epsilon else None
    evaluation = evaluate(
        sides.train,
        {name: synthetic},
        holdout=sides.holdout,
        schema=schema,
        measures=["utility.clusters", "utility.clusters.dp_alternative"],
        seed=seed,
        statements=statement,
    ).candidates[0]
    explained, gap = evaluation.find(EXPLAINED), evaluation.find(groups.GAP)
    assert isinstance(explained, Estimate)
    numbers = {EXPLAINED: {key: round(getattr(explained, key), 4) for key in ("value", "reference", "floor")}}
    if isinstance(gap, Estimate):
        numbers[WITH_DP] = {"value": round(explained.value + gap.value, 4)}
    seconds = sum(evaluation.seconds.values())
    return {"rows": len(sides.train), "fit_cpu_s": round(fitted - began, 1), "measure_s": seconds, "numbers": numbers}


def drawn(runs: dict[str, Any]) -> list[str]:
    """A table in Markdown: for each table the landmarks, each generator, and k-means with DP."""
    lines = HEAD.splitlines()
    for table in dict.fromkeys(key.split()[0] for key in runs):
        of_table = {key: run for key, run in runs.items() if key.split()[0] == table}
        every, rows = list(of_table.values()), next(iter(of_table.values()))["rows"]
        numbers = [run["numbers"] for run in every]
        sides = {
            "training rows": [n[EXPLAINED]["reference"] for n in numbers],
            "shuffled columns": [n[EXPLAINED]["floor"] for n in numbers],
            WITH_DP: [n[WITH_DP]["value"] for n in numbers if WITH_DP in n],
        }
        for generator in dict.fromkeys(key.split()[1] for key in of_table):
            of_generator = [run["numbers"] for key, run in of_table.items() if key.split()[1] == generator]
            sides[f"`{generator}`"] = [n[EXPLAINED]["value"] for n in of_generator]
        lines += [f"| {table} | {rows:,} | {side} | {_cell(values)} |" for side, values in sides.items()]
    return lines


def _cell(values: Sequence[float]) -> str:
    """The median and the range.

    >>> _cell([0.31, 0.3, 0.34]), _cell([])
    ('.310 (.300 to .340)', '')
    """
    if not values:
        return ""
    figures = (statistics.median(values), min(values), max(values))
    middle, low, high = (f"{value:.3f}".replace("0.", ".", 1) for value in figures)
    return f"{middle} ({low} to {high})"


if __name__ == "__main__":
    main(sys.argv[1:])
