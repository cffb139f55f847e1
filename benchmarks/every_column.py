"""What a table is worth for every column as a target: fresh real rows, the same half shuffled, and shuffled columns.

``python -m benchmarks.every_column TABLE ... [--seeds 3]``, where each TABLE is a CSV file. A seed splits at most
20,000 rows 80 to 20. Half of the larger part is the training table, the other half is a fresh sample; of that every
column is shuffled on its own, in half of the rows or in all. `utility.columns.mean` and `.worst` of each are printed
with their reference.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

import synth
from evaluate.sampling import shuffle_columns
from evaluate.tables import Real
from evaluate.utility import columns
from synth.schema import Schema

MOST_ROWS = 20_000


def main(arguments: Sequence[str]) -> None:
    """Print a line for each table, seed and kind of synthetic table."""
    parser = argparse.ArgumentParser("python -m benchmarks.every_column", description=__doc__)
    parser.add_argument("tables", nargs="+", type=Path, help="CSV files")
    parser.add_argument("--seeds", type=int, default=3, help="splits")
    options = parser.parse_args(arguments)
    print(
        "| table | seed | rows | mean | its reference | worst | its reference |\n| --- | ---: | --- |" + " ---: |" * 4
    )
    for path in options.tables:
        table = pd.read_csv(path, keep_default_na=False, na_values=[""], low_memory=False)
        schema = synth.infer_schema(table)
        for seed in range(options.seeds):
            for kind, numbers in _measured(table, schema, seed):
                print(f"| {path.name.split('.')[0]} | {seed} | {kind} | {' | '.join(numbers)} |", flush=True)


def _measured(table: pd.DataFrame, schema: Schema, seed: int) -> Iterator[tuple[str, list[str]]]:
    rows = table.sample(min(MOST_ROWS, len(table)), random_state=seed).reset_index(drop=True)
    sides, rng = synth.split_table(rows, schema, seed=seed), np.random.default_rng(seed)
    n = len(sides.train) // 2
    real = Real.prepare(sides.train.iloc[:n], sides.holdout, schema, seed=seed, outside="clamp")
    fresh = sides.train.iloc[n:].reset_index(drop=True)
    spoiled = shuffle_columns(fresh.iloc[: n // 2].reset_index(drop=True), rng)
    offered = {"fresh": fresh, "half shuffled": pd.concat([spoiled, fresh.iloc[n // 2 :]], ignore_index=True),
               "shuffled": shuffle_columns(fresh, rng)}  # fmt: skip
    for kind, synthetic in offered.items():
        estimates = columns.measure(real.beside(synthetic)).estimates
        yield kind, [f"{number:.2f}" for each in estimates for number in (each.value, each.reference or 0.0)]


if __name__ == "__main__":
    main(sys.argv[1:])
