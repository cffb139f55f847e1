"""Six deliveries of one table, of which it is known how a comparison has to rank them; and those of real vendors.

``python -m benchmarks.vendors TABLE --target NAME``, where TABLE is a CSV file. A seed deals its rows to train, holdout
and three fresh samples. The six are fresh rows; fresh rows in odd forms (columns in another order, blanks around texts,
commas between thousands, words for missing); `trees`; `mst` at epsilon 1; fresh rows whose columns are shuffled; fresh
rows 2% of which are training rows. They are ranked rightly where the copies are disqualified, fresh rows in either form
come first, `trees` is behind nobody but these, and shuffled columns are behind all or barred.

``python -m benchmarks.vendors FOLDER --target NAME``, where FOLDER holds train, holdout and vendors' tables: they
are compared by validity, fidelity and copies (attacks take minutes more), the schema inferred from train, with the same
rounded to whole numbers, our `trees` and `latent_class` at epsilon 1, and `trees` 5% of whose rows are training rows:
2%, as above, cannot be said where the holdout repeats its rows. A cell has a number for each seed.
"""

import argparse
import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import synth
from benchmarks.leaking_tables import LEAKS
from benchmarks.sides import Sides
from benchmarks.verdicts import ruled_measures
from evaluate.comparison import VendorRanking
from evaluate.options import EvaluationOptions
from evaluate.ranking import FIGURES
from evaluate.sampling import shuffle_columns
from evaluate.text import number
from synth.progress import quiet
from synth.schema import Schema
from synth.schema_file import write_schema
from understudy.vendors.comparison import VendorComparison, compare
from understudy.vendors.submission import Asked

FRESH, ODD, TREES, MST, SHUFFLED, COPIES = "fresh", "odd", "trees", "mst", "shuffled", "copies"
VENDORS = (FRESH, ODD, TREES, MST, SHUFFLED, COPIES)


def main(arguments: Sequence[str]) -> None:
    """Print a line for each seed."""
    parser = argparse.ArgumentParser("python -m benchmarks.vendors", description=__doc__)
    parser.add_argument("table", type=Path, help="CSV file, or a folder of deliveries")
    parser.add_argument("--target", required=True, help="column that models predict")
    parser.add_argument("--rows", type=int, default=5_000, help="of each side and sample at most")
    parser.add_argument("--seeds", type=int, default=5, help="splits")
    options = parser.parse_args(arguments)
    if options.table.is_dir():
        print_delivered(options.table, options.target, options.rows, options.seeds)
        return
    table = read(options.table)
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


def read(path: Path) -> pd.DataFrame:
    if path.suffix == ".parquet":
        return pd.read_parquet(path)
    return pd.read_csv(path, keep_default_na=False, na_values=[""], low_memory=False)


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


OURS: Mapping[str, Mapping[str, Any]] = {TREES: {}, "latent_class": {"epsilon": 1.0}}
MEASURED = ("validity", "fidelity.columns", "fidelity.pairs", "privacy.copies")
PEOPLE = "privacy.copies.people"
HEADINGS = ("vendor", "place", "group", *FIGURES, PEOPLE, "reason")


def print_delivered(folder: Path, target: str, rows: int, seeds: int) -> None:
    """Print what is wrong with the real rows, and a line for each vendor."""
    lines = defaultdict[str, list[list[str]]](list)
    for seed in range(seeds):
        with tempfile.TemporaryDirectory() as ours:
            comparison = compare_delivered(folder, target, rows, seed, Path(ours))
        ranking, people = comparison.ranking, {c.name: c.find(PEOPLE) for c in comparison.evaluation.candidates}
        letters = {rank.name: rank.letters for rank in ranking.order.order}
        values = [figure.values for figure in ranking.order.figures]  # noqa: PD011 - a mapping
        for vendor in ranking.vendors:
            numbers = [*(each.get(vendor.name) for each in values), getattr(people.get(vendor.name), "value", None)]
            cells = [shown(ranking)[vendor.name], letters.get(vendor.name, ""), *map(number, numbers), vendor.reason]
            lines[vendor.name].append(cells)
    print("\n".join(comparison.evaluation.real.warnings))
    print(f"\n| {' | '.join(HEADINGS)} |\n|{' --- |' * len(HEADINGS)}")
    for name, of_seeds in lines.items():
        print(f"| {name} | {' | '.join(', '.join(cells) for cells in zip(*of_seeds, strict=True))} |")


def compare_delivered(folder: Path, target: str, rows: int | None, seed: int, ours: Path) -> VendorComparison:
    """The comparison of what vendors delivered, and of ours and rounded tables, which go to a folder of their own."""
    os.environ["UNDERSTUDY_KEY_FILE"] = str(ours / "fingerprint.key")
    files = [path for path in sorted(folder.iterdir()) if path.name.endswith((".csv", ".csv.gz", ".parquet"))]
    sides = {path.name.partition(".")[0]: path for path in files}
    train_file, holdout_file = sides.pop("train"), sides.pop("holdout")
    train = read(train_file)
    schema = synth.infer_schema(train, target=target)
    write_schema(schema, ours / "schema.toml")
    declared = synth.declare_schema(schema, n_units=len(train), dataset="vendors")
    tables = {n: synth.fit(train, declared, n, seed=seed, **OURS[n]).sample(len(train), seed=seed) for n in OURS}
    tables[COPIES] = pd.concat([tables[TREES], train.sample(frac=0.05, random_state=seed)])[-len(train) :]
    for name, path in sides.items():
        if not (rounded := read(path).round()).equals(read(path)):
            tables[f"{name}_rounded"] = rounded
    for name, table in tables.items():
        table.to_csv(ours / f"{name}.csv", index=False)
    delivered = (*sides.values(), *(ours / f"{name}.csv" for name in tables))
    options = EvaluationOptions(seed=seed, measures=MEASURED)
    return compare(Asked(train_file, holdout_file, ours / "schema.toml", delivered, rows=rows, options=options), quiet)


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
