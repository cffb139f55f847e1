"""PATE beside what does the same work: `pategan` beside `aim` and `tvae`, and DP-SGD for one target.

``python -m benchmarks.pategan FOLDER --out pategan.json``, where FOLDER holds ``adult.csv.gz`` and ``hmeq.csv.gz``. The
schema is inferred, then declared as it is; four fifths of the rows are learned from, the rest tested on. Of Adult a
sample of 8,000 rows is taken, so that all of it ends within half an hour of one core. Every fit is written as soon as
it is done, and what the file holds is not done again. Without FOLDER the tables of results are drawn.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import synth
from benchmarks.runs import keep, read_kept
from benchmarks.scoring import Scorer
from evaluate.tables import Tables
from evaluate.utility.study import Study, study_of
from synth.schema import Schema
from understudy.extras.dp_models import regression

TARGETS = {"adult": "income", "hmeq": "BAD"}
MOST_ROWS = 8_000
GENERATORS, EPSILONS, SEEDS = ("pategan", "aim", "tvae", "independent"), (1.0, 10.0), (0, 1, 2)
FIGURES = {"tv1": "columns", "tv2": "pairs", "tstr": "TSTR", "linear": "linear", "cpu_s": "CPU s"}


def main(arguments: Sequence[str]) -> None:
    """Measure what is not there yet, keep it, and draw it."""
    parser = argparse.ArgumentParser("python -m benchmarks.pategan", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, help="of the two tables; none only draws what --out holds")
    parser.add_argument("--tables", nargs="+", default=list(TARGETS), choices=TARGETS, help="unless said, both")
    parser.add_argument("--out", type=Path, required=True, help="JSON file of the results, read and continued")
    options = parser.parse_args(arguments)
    runs: dict[str, Any] = read_kept(options.out, {})
    for name in options.tables if options.folder is not None else ():
        for key, point in _points(name):
            if key not in runs:
                runs[key] = point | _measured(options.folder / f"{name}.csv.gz", point)
                keep(options.out, runs)
                print(key, runs[key], file=sys.stderr, flush=True)
    print("\n".join(_drawn(list(runs.values()))))


def _points(table: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for seed in SEEDS:
        for epsilon in EPSILONS:
            for fit in (*GENERATORS, *(["DP-SGD for one target"] if seed == 0 else [])):
                point = {"table": table, "fit": fit, "epsilon": epsilon, "seed": seed}
                yield " ".join(map(str, point.values())), point


def _measured(path: Path, point: Mapping[str, Any]) -> dict[str, float]:
    train, test, schema = _sides(path, TARGETS[point["table"]], point["seed"])
    started = time.process_time()
    if point["fit"] not in GENERATORS:
        return _alternative(train, test, schema, point)
    model = synth.fit(train, schema, point["fit"], epsilon=point["epsilon"], seed=point["seed"])
    seconds = time.process_time() - started
    synthetic = model.sample(len(train), seed=point["seed"])
    names = [name for name in schema.learned if name in synthetic.columns]
    scorer = Scorer(train[names], test[names], TARGETS[point["table"]])
    drawn = synthetic[names]
    return {
        "tv1": scorer.tv(drawn, 1), "tv2": scorer.tv(drawn, 2), "tstr": scorer.tstr(drawn),
        "linear": scorer.linear_tstr(drawn), "cpu_s": seconds,
    }  # fmt: skip


def _alternative(
    train: pd.DataFrame, test: pd.DataFrame, schema: Schema, point: Mapping[str, Any]
) -> dict[str, float]:  # fmt: skip
    """The score on real rows of a model without a table, beside that of the linear model on real rows."""
    model = synth.fit(train, schema, "independent", epsilon=point["epsilon"])
    synthetic, statement = model.sample(len(train), seed=0), model.statement
    tables = Tables.prepare(train, test, synthetic, model.schema, outside="clamp", statement=statement)
    started = time.process_time()
    (gap,), study = regression.measure(tables).estimates, study_of(tables)
    assert isinstance(study, Study)
    score = {side: study.value("linear", side) for side in ("tstr", "trtr")}
    return {
        "linear": gap.value + score["tstr"], "real": score["trtr"], "cpu_s": time.process_time() - started,
    }  # fmt: skip


def _sides(path: Path, target: str, seed: int) -> tuple[pd.DataFrame, pd.DataFrame, Schema]:
    """Rows to learn from, rows to test on, and the schema of the table."""
    table = pd.read_csv(path, keep_default_na=False, na_values=[""], low_memory=False)
    table = table.sample(min(MOST_ROWS, len(table)), random_state=0).reset_index(drop=True)
    schema = synth.declare_schema(synth.infer_schema(table, target=target), n_units=len(table), dataset=path.name)
    table = table.replace(dict.fromkeys(schema.missing_values)) if schema.missing_values else table
    order = np.random.default_rng(seed).permutation(len(table))
    cut = len(table) * 4 // 5
    train, test = (table.iloc[part].reset_index(drop=True) for part in (order[:cut], order[cut:]))
    return train, test, schema


def _drawn(runs: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """One Markdown table: medians over seeds, with half their range."""
    yield f"| table | epsilon | fit | {' | '.join(FIGURES.values())} |"
    yield f"| --- | ---: | --- |{' ---: |' * len(FIGURES)}"
    for table, epsilon, fit in dict.fromkeys((run["table"], run["epsilon"], run["fit"]) for run in runs):
        same = [run for run in runs if (run["table"], run["epsilon"], run["fit"]) == (table, epsilon, fit)]
        cells = [_cell([run[key] for run in same if key in run]) for key in FIGURES]
        yield f"| {table} | {epsilon:g} | {fit} | {' | '.join(cells)} |"


def _cell(values: Sequence[float]) -> str:
    if not values:
        return ""
    half = (max(values) - min(values)) / 2
    return f"{statistics.median(values):.3g}" + (f" ± {half:.1g}" if half > 0 else "")


if __name__ == "__main__":
    main(sys.argv[1:])
