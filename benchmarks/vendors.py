"""Six deliveries of one table, of which it is known how a comparison has to rank them.

``python -m benchmarks.vendors TABLE --target NAME``, where TABLE is a CSV file. A seed deals its rows to train, holdout
and three fresh samples. The six are fresh rows; fresh rows in odd forms (columns in another order, blanks around texts,
commas between thousands, words for missing); `trees`; `mst` at epsilon 1; fresh rows whose columns are shuffled; fresh
rows 2% of which are training rows. They are ranked rightly where the copies are disqualified, fresh rows in either form
come first, `trees` is behind nobody but these, and shuffled columns are behind all or barred.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

import synth
from benchmarks.leaking_tables import LEAKS
from benchmarks.sides import Sides
from benchmarks.verdicts import ruled_measures
from evaluate.comparison import VendorRanking
from evaluate.options import EvaluationOptions
from evaluate.sampling import shuffle_columns
from synth.progress import quiet
from synth.schema import Schema
from synth.schema_file import write_schema
from understudy.vendors.comparison import compare
from understudy.vendors.submission import Asked

FRESH, ODD, TREES, MST, SHUFFLED, COPIES = "fresh", "odd", "trees", "mst", "shuffled", "copies"
VENDORS = (FRESH, ODD, TREES, MST, SHUFFLED, COPIES)


def main(arguments: Sequence[str]) -> None:
    """Print a line for each seed."""
    parser = argparse.ArgumentParser("python -m benchmarks.vendors", description=__doc__)
    parser.add_argument("table", type=Path, help="CSV file")
    parser.add_argument("--target", required=True, help="column that models predict")
    parser.add_argument("--rows", type=int, default=5_000, help="of each side and sample at most")
    parser.add_argument("--seeds", type=int, default=5, help="splits")
    options = parser.parse_args(arguments)
    table = pd.read_csv(options.table, keep_default_na=False, na_values=[""], low_memory=False)
    schema = synth.declare_schema(
        synth.infer_schema(table, target=options.target), n_units=len(table), dataset="vendors"
    )
    print(f"| seed | {' | '.join(VENDORS)} | right |\n| ---: |{' --- |' * (len(VENDORS) + 1)}")
    for seed in range(options.seeds):
        with tempfile.TemporaryDirectory() as folder:
            ranking = ranked(table, schema, min(options.rows, len(table) // 5), seed, Path(folder))
        places = shown(ranking)
        cells = " | ".join(str(places[name]) for name in VENDORS)
        print(f"| {seed} | {cells} | {'yes' if is_right(ranking) else 'no'} |", flush=True)


def ranked(table: pd.DataFrame, schema: Schema, n: int, seed: int, folder: Path) -> VendorRanking:
    """The ranking of six files; *folder* takes them, and the key that real rows are named by."""
    os.environ["UNDERSTUDY_KEY_FILE"] = str(folder / "fingerprint.key")
    order = np.random.default_rng(seed).permutation(len(table))
    train, holdout, *fresh = (table.iloc[order[i * n : (i + 1) * n]].reset_index(drop=True) for i in range(5))
    rng = np.random.default_rng([seed, 1])
    copied = LEAKS["2% copies"](Sides(train, holdout, fresh[2]), rng)
    deliveries = {
        FRESH: fresh[0],
        ODD: odd(fresh[1], schema),
        TREES: synth.fit(train, schema, "trees", seed=seed).sample(n, seed=seed),
        MST: synth.fit(train, schema, "mst", seed=seed, epsilon=1.0).sample(n, seed=seed),
        SHUFFLED: shuffle_columns(fresh[2], rng),
        COPIES: copied,
    }
    for name, rows in {"train": train, "holdout": holdout, **deliveries}.items():
        rows.to_csv(folder / f"{name}.csv", index=False)
    write_schema(schema, folder / "schema.toml")
    options = EvaluationOptions(seed=seed, measures=tuple(ruled_measures()), outside="clamp")
    sides = folder / "train.csv", folder / "holdout.csv", folder / "schema.toml"
    asked = Asked(*sides, tuple(folder / f"{name}.csv" for name in VENDORS), options=options)
    return compare(asked, quiet).ranking


def odd(rows: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """The same rows, as another program writes them."""
    cells = {}
    for name in reversed(rows.columns):
        if pd.api.types.is_numeric_dtype(rows[name].dtype) and not schema.columns[name].is_categorical:
            texts = rows[name].map(lambda value: f"{value:,}" if abs(value) >= 1_000 else f"{value}")
        else:
            texts = rows[name].map(lambda value: f" {value} ", na_action="ignore")
        cells[name] = texts.where(rows[name].notna(), "NaN")
    return pd.DataFrame(cells)


def shown(ranking: VendorRanking) -> Mapping[str, str]:
    """By vendor its place, with a mark where it breaks a rule on fidelity, or its standing."""
    places = {rank.name: rank.place for rank in ranking.order.order}
    return {
        vendor.name: f"{places[vendor.name]}{'*' if vendor.reason else ''}"
        if vendor.name in places
        else vendor.standing
        for vendor in ranking.vendors
    }


def is_right(ranking: VendorRanking) -> bool:
    """As the head of this module says."""
    standings = {vendor.name: vendor.standing for vendor in ranking.vendors}
    behind = {rank.name: set(rank.behind) for rank in ranking.order.order}
    honest = {FRESH, ODD, TREES, MST}
    if standings[COPIES] != "disqualified" or not honest <= set(behind):
        return False
    first = not behind[FRESH] and not behind[ODD] and behind[TREES] <= {FRESH, ODD}
    return first and (standings[SHUFFLED] == "disqualified" or honest <= behind.get(SHUFFLED, set()))


if __name__ == "__main__":
    main(sys.argv[1:])
