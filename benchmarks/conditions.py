"""Conditions and missing cells on any table: rows on a condition beside real ones, filled cells beside simple rivals.

``python -m benchmarks.conditions TABLE --target NAME --out conditions.json``, where TABLE is a CSV file. The schema is
inferred and declared as it is. A seed splits the table 80 to 20, and each generator is fitted once to the larger part.
A seed is written as soon as it is done, and is not done again. Without TABLE, only the tables of results are drawn.

- **Conditions** are on frequent values of the table (`_conditions`). Distances are to train rows that meet a condition:
  the total variation of a column's cells (`benchmarks.scoring`), as a mean over the other columns. Synthetic rows are
  compared in pieces with as many rows as the holdout has on the condition, so that both have the same noise.
- **Missing cells**: a tenth of the cells of each column is hidden in holdout rows, filled in, and compared with the
  truth. A filler that draws keeps the spread of a column, and is less often right than one that gives a likely value.
"""

import argparse
import math
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer

import synth
from benchmarks.runs import about, keep, read_kept
from benchmarks.scoring import Scorer
from synth.errors import JobError
from synth.generators.models.given import GIVEN
from synth.schema import Schema
from synth.split import Split
from synth.table import conform

GENERATORS = ("trees", "arn", "latent_class")
LEAST_ROWS = 400
"""Rows of the whole table that meet a condition: 320 in train and 80 in the holdout, on average."""
PIECE_ROWS = 20_000
"""Synthetic rows on a condition, in pieces; a few more where pieces are large."""
HIDDEN = 0.1
N_NEIGHBORS = N_DRAWS = 10
AT_ONCE = 1_000
"""Rows whose neighbors are searched at a time."""
DRAWN, LIKELY = "a draw", "a likely value"
"""What fillers give."""
ANSWERS = {
    "tv": "on the condition", "picked_tv": "picked from all", "holdout_tv": "holdout rows", "all_tv": "no condition"
}  # fmt: skip
"""Distances that are drawn, by name."""


def main(arguments: Sequence[str]) -> None:
    """Run each seed that the file does not hold, keep it, and draw all."""
    options = _options(arguments)
    table = None if options.table is None else options.table.name
    content: dict[str, Any] = read_kept(options.out, {"about": about(table=table), "runs": {}})
    if options.table is not None:
        table = pd.read_csv(options.table, keep_default_na=False, na_values=[""], low_memory=False)
        schema = synth.infer_schema(table, target=options.target)
        schema = synth.declare_schema(schema, n_units=len(table), dataset=options.table.name)
        conditions = _conditions(conform(table, schema), schema)
        for seed in range(options.seeds):
            if str(seed) not in content["runs"]:
                sides = synth.split_table(table, schema, seed=seed)
                content["runs"][str(seed)] = _run(sides, schema, conditions, seed, options)
                keep(options.out, content)
    runs = list(content["runs"].values())
    print("\n".join([*_drawn_conditions(runs), "", *_drawn_imputation(runs)]))


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks.conditions", description=__doc__)
    parser.add_argument("table", nargs="?", type=Path, help="CSV file; none only draws what --out holds")
    parser.add_argument("--target", help="column that is drawn last")
    parser.add_argument("--generators", nargs="+", default=list(GENERATORS), help=f"unless said, {GENERATORS}")
    parser.add_argument("--seeds", type=int, default=3, help="splits, and fits of each generator")
    parser.add_argument("--drawn", type=int, default=100_000, help="rows without a condition, to pick from")
    parser.add_argument("--rows", type=int, default=10_000, help="holdout rows at most in which cells are hidden")
    parser.add_argument("--out", type=Path, help="JSON file of the results, read and continued")
    return parser.parse_args(arguments)


def _conditions(table: pd.DataFrame, schema: Schema) -> dict[str, dict[str, Any]]:
    """By name, values of columns; a condition that too few rows meet is left out.

    "middle" is a column of categories nearest to the middle of the order, and "number" the last number: no more than
    half of the rows meet either. "ends" are the first and the last column, or those next to them that rows allow. All
    these have their most frequent values. "rare" is the last column at its least frequent category.
    """
    order = sorted(schema.modeled, key=lambda name: name == schema.target)
    counts = {name: table[name].value_counts() for name in order if "classification" in schema.columns[name].tasks}
    counts = {name: count for name, count in counts.items() if len(count) and count.iloc[0] >= LEAST_ROWS}
    mode = {name: _python(count.index[0]) for name, count in counts.items()}
    halves = [name for name, count in counts.items() if count.iloc[0] <= len(table) / 2]
    middle = [name for name in halves if _is_category(name, schema)]
    middle.sort(key=lambda name: abs(order.index(name) - (len(order) - 1) / 2))
    numbers = [name for name in halves if not _is_category(name, schema)]
    pairs = ((first, last) for last in reversed(mode) for first in mode if first != last)
    ends = (pair for pair in pairs if _meets(table, {name: mode[name] for name in pair}).sum() >= LEAST_ROWS)
    chosen = {"middle": middle[:1], "ends": next(ends, ()), "number": numbers[-1:]}
    conditions = {name: {column: mode[column] for column in columns} for name, columns in chosen.items() if columns}
    last = counts[order[-1]] if order[-1] in counts and _is_category(order[-1], schema) else pd.Series(dtype=int)
    if len(last := last[last >= LEAST_ROWS]) > 1:
        conditions["rare"] = {order[-1]: _python(last.index[-1])}
    return {"none": {}, **conditions}


def _python(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _is_category(name: str, schema: Schema) -> bool:
    return schema.columns[name].is_categorical


def _meets(table: pd.DataFrame, condition: Mapping[str, Any]) -> np.ndarray:
    """Which rows hold all the values, shape (n,)."""
    is_met = np.ones(len(table), dtype=bool)
    for name, value in condition.items():
        is_met &= (table[name] == value).fillna(False).to_numpy(dtype=bool)
    return is_met


def _plain(table: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """The learned columns, categories as text and all else as float64; `None` or NaN where missing."""
    filled: dict[str, Any] = {}
    for name in schema.learned:
        column = table[name]
        if _is_category(name, schema):
            filled[name] = column.astype(object).map(str).where(column.notna(), None)
        elif pd.api.types.is_datetime64_any_dtype(column.dtype):
            filled[name] = (column - pd.Timestamp(0, tz=column.dt.tz)) / pd.Timedelta(days=1)
        else:
            filled[name] = pd.Series(column.to_numpy(dtype=np.float64, na_value=np.nan), column.index)
    return pd.DataFrame(filled)


def _run(
    sides: Split, schema: Schema, conditions: Mapping[str, Mapping[str, Any]], seed: int, options: argparse.Namespace
) -> dict[str, Any]:
    """Every generator on every condition, and every filler, on one split."""
    holes, hidden = _hidden(sides.holdout.head(options.rows), schema, seed)
    train = _plain(sides.train, schema).dropna(axis="columns", how="all")
    truth = _plain(sides.holdout.head(options.rows), schema)[list(train.columns)]
    fits: dict[str, Any] = {}
    asked: dict[str, Any] = {name: {"given": condition, "answers": {}} for name, condition in conditions.items()}
    filled = _rivals(train, _plain(holes, schema)[list(train.columns)], np.random.default_rng([seed, 3]))
    for generator in options.generators:
        began = time.process_time()
        model: Any = synth.fit(sides.train, schema, generator, seed=seed)
        fits[generator] = {"fit_cpu_s": round(time.process_time() - began, 1)}
        everything = conform(model.sample(options.drawn, seed=seed), schema, part=True)
        for name, condition in conditions.items():
            real, asked[name]["answers"][generator] = _answer(model, everything, condition, sides, seed)
            asked[name] |= real
        try:
            began_filling = time.process_time()
            draws = [_plain(model.impute(holes, seed=N_DRAWS * seed + i), schema) for i in range(N_DRAWS)]
            fits[generator]["impute_cpu_s"] = round((time.process_time() - began_filling) / N_DRAWS, 1)
            filled[DRAWN][generator] = draws[0]
            filled[LIKELY][f"{generator}, vote or median of {N_DRAWS} draws"] = _voted(draws)
        except (AttributeError, JobError):  # it has no such method, or draws its columns in one order
            fits[generator]["impute_cpu_s"] = None
        print(f"seed {seed}, {generator}: {time.process_time() - began:.1f} CPU s", file=sys.stderr, flush=True)
    scores = {
        kind: {name: _scored(frame, truth, hidden, train) for name, frame in frames.items()}
        for kind, frames in filled.items()
    }
    return {"fits": fits, "conditions": asked, "cells": int(hidden[list(train)].to_numpy().sum()), "imputation": scores}


def _answer(
    model: Any, everything: pd.DataFrame, condition: Mapping[str, Any], sides: Split, seed: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Facts on real rows that meet a condition, and distances of a model's rows to those of train.

    Args:
        model: is asked for rows on the condition.
        everything: its rows without one.
        given: the condition.
        sides: train and holdout.
        seed: of the draw.
    """
    names = [name for name in model.schema.learned if name not in condition]
    train, holdout = (
        _plain(side[_meets(side, condition)], model.schema)[names] for side in (sides.train, sides.holdout)
    )
    scorer, n_rows = Scorer(train, holdout, names[-1]), len(holdout)
    n_pieces = math.ceil(PIECE_ROWS / n_rows)

    def distance(rows: pd.DataFrame) -> float | None:
        n = min(n_pieces, len(rows) // n_rows)
        plain = _plain(conform(rows.head(n * n_rows), model.schema, part=True), model.schema)[names]
        distances = [scorer.tv(plain.iloc[i * n_rows : (i + 1) * n_rows], 1) for i in range(n)]
        return round(statistics.fmean(distances), 5) if distances else None

    began = time.process_time()
    rows = model.sample(n_pieces * n_rows, seed=seed + 1, given=condition or None)
    answer = {"cpu_s": round(time.process_time() - began, 2), "how": rows.attrs.get(GIVEN), "tv": distance(rows)}
    answer |= {"picked_tv": distance(everything[_meets(everything, condition)]), "all_tv": distance(everything)}
    return {"train_rows": len(train), "holdout_rows": n_rows, "holdout_tv": round(scorer.tv(holdout, 1), 5)}, answer


def _hidden(rows: pd.DataFrame, schema: Schema, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rows with cells hidden at random, and which cells are."""
    names, rng = list(schema.learned), np.random.default_rng([seed, 2])
    hidden = rows[names].notna() & (rng.random((len(rows), len(names))) < HIDDEN)
    return pd.DataFrame({name: rows[name].mask(hidden[name]) if name in names else rows[name] for name in rows}), hidden


def _rivals(train: pd.DataFrame, rows: pd.DataFrame, rng: np.random.Generator) -> dict[str, dict[str, pd.DataFrame]]:
    """The rows as simple fillers fill them in, by what these give."""
    known = {name: train[name].dropna().to_numpy() for name in train.columns}
    texts = {name: np.sort(train[name].dropna().unique()) for name in train.columns if train[name].dtype == object}
    coded, coded_rows = _coded(train, texts), _coded(rows, texts)
    nearest = _nearest(coded, coded_rows, texts)
    donors = [train.iloc[places].reset_index(drop=True) for places in nearest.T]
    turns = rng.permuted(np.tile(np.arange(N_NEIGHBORS), (len(rows), 1)), axis=1)
    drawn = [train.iloc[places].reset_index(drop=True) for places in np.take_along_axis(nearest, turns, axis=1).T]
    return {
        DRAWN: {
            "random train value": _filled(rows, lambda name: rng.choice(known[name], len(rows))),
            "nearest row": _first(donors),
            f"one of {N_NEIGHBORS} nearest rows": _first(drawn),
        },
        LIKELY: {
            "most frequent value or median": _filled(rows, lambda name: np.repeat(_center(train[name]), len(rows))),
            "IterativeImputer": _iterative(coded, coded_rows, texts),
            f"vote or median of {N_NEIGHBORS} nearest rows": _voted(donors),
        },
    }


def _filled(rows: pd.DataFrame, fill: Callable[[str], np.ndarray]) -> pd.DataFrame:
    return pd.DataFrame({name: rows[name].where(rows[name].notna(), fill(name)) for name in rows.columns})


def _center(column: pd.Series) -> Any:
    """The most frequent category, or the median of numbers."""
    return column.mode().iloc[0] if column.dtype == object else column.median()


def _first(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Each cell from the first table in which it is not missing."""
    first = frames[0]
    for frame in frames[1:]:
        first = first.where(first.notna(), frame)
    return first


def _voted(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Each cell's most frequent category in all tables, or the median of its numbers."""
    filled: dict[str, np.ndarray] = {}
    for name in frames[0].columns:
        cells = np.column_stack([frame[name] for frame in frames])
        if cells.dtype == object:
            codes, values = pd.factorize(cells.ravel())
            votes = [(codes.reshape(cells.shape) == code).sum(axis=1) for code in range(len(values))]
            filled[name] = values[np.argmax(votes, axis=0)]
        else:
            filled[name] = pd.DataFrame(cells).median(axis=1).to_numpy()
    return pd.DataFrame(filled)


def _coded(frame: pd.DataFrame, texts: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """Numbers as they are, and categories as places among those of train; NaN where missing or not among them."""
    filled: dict[str, Any] = {}
    for name in frame.columns:
        places = pd.Index(texts[name]).get_indexer(pd.Index(frame[name].array)) if name in texts else None
        filled[name] = frame[name].to_numpy() if places is None else np.where(places < 0, np.nan, places)
    return pd.DataFrame(filled)


def _nearest(train: pd.DataFrame, rows: pd.DataFrame, texts: Mapping[str, np.ndarray]) -> np.ndarray:
    """Places of the nearest train rows by standardized numbers and one-hot categories, shape (n, 10).

    A cell that a row lacks has no part in its distances; one that a train row lacks has the means of train.
    """
    sides = []
    for frame in (train, rows):
        numbers = [(frame[name] - train[name].mean()) / (train[name].std() or 1.0) for name in train.columns]
        numbers = [number for number in numbers if number.name not in texts]
        hot = [(frame[name] == code).where(frame[name].notna()) for name in texts for code in range(len(texts[name]))]
        sides.append(np.column_stack([*numbers, *hot]).astype(np.float32))
    known = np.where(np.isnan(sides[0]), np.nanmean(sides[0], axis=0), sides[0])
    nearest = []
    for start in range(0, len(rows), AT_ONCE):
        asked = sides[1][start : start + AT_ONCE]
        distances = ~np.isnan(asked) @ (known**2).T - 2 * np.nan_to_num(asked) @ known.T
        some = np.argpartition(distances, N_NEIGHBORS, axis=1)[:, :N_NEIGHBORS]
        nearest.append(np.take_along_axis(some, np.take_along_axis(distances, some, axis=1).argsort(axis=1), axis=1))
    return np.concatenate(nearest)


def _iterative(train: pd.DataFrame, rows: pd.DataFrame, texts: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """scikit-learn's `IterativeImputer` as it is, on codes; its values are moved to codes, and whole numbers."""
    imputer = IterativeImputer(random_state=0, keep_empty_features=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        filled = pd.DataFrame(imputer.fit(train.to_numpy()).transform(rows.to_numpy()), columns=train.columns)
    imputed: dict[str, Any] = {}
    for name in train.columns:
        values = filled[name].clip(train[name].min(), train[name].max())
        values = values.round() if (train[name].dropna() % 1 == 0).all() else values
        imputed[name] = texts[name][values.astype(int)] if name in texts else values
    return pd.DataFrame(imputed)


def _scored(filled: pd.DataFrame, truth: pd.DataFrame, hidden: pd.DataFrame, train: pd.DataFrame) -> dict[str, Any]:
    """Of each column's hidden cells the total variation, and the accuracy of categories or the error of numbers.

    The error is the mean absolute one over that of the median of train. A cell that is left missing counts as the most
    frequent category, or the median.
    """
    errors: dict[str, Any] = {}
    for name in truth.columns:
        right = truth.loc[hidden[name], [name]].reset_index(drop=True)
        if len(right) == 0:
            continue
        center = _center(train[name])
        cells = filled.loc[hidden[name], [name]].fillna(center).reset_index(drop=True)
        errors[name] = {"tv": round(Scorer(right, right, name).tv(cells, 1), 5)}
        if right[name].dtype == object:
            errors[name]["accuracy"] = round(float((cells[name] == right[name]).mean()), 5)
        elif spread := float((right[name] - center).abs().mean()):
            errors[name]["error"] = round(float((cells[name] - right[name]).abs().mean()) / spread, 5)
    return errors


def _drawn_conditions(runs: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A line for each condition and generator: means over seeds, with half their range."""
    yield f"| condition | train + holdout rows | generator | answered | {' | '.join(ANSWERS.values())} |"
    yield f"| --- | ---: | --- | --- |{' ---: |' * len(ANSWERS)}"
    for condition in _union(run["conditions"] for run in runs):
        results = [run["conditions"][condition] for run in runs if condition in run["conditions"]]
        fixed = ", ".join(f"{name} = {value}" for name, value in results[0]["given"].items()) or "none"
        n_train, n_holdout = (statistics.fmean(each[key] for each in results) for key in ("train_rows", "holdout_rows"))
        for generator in _union(each["answers"] for each in results):
            answers = [{**each, **each["answers"][generator]} for each in results if generator in each["answers"]]
            ways = ", ".join(_union([each["how"] or ""] for each in answers))
            cells = " | ".join(_cell([each[key] for each in answers]) for key in ANSWERS)
            yield f"| {fixed} | {n_train:.0f} + {n_holdout:.0f} | {generator} | {ways} | {cells} |"


def _drawn_imputation(runs: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A line for each filler: means over columns, then over seeds."""
    yield "| filled in by | gives | accuracy | TV of categories | error | TV of numbers |"
    yield "| --- | --- | ---: | ---: | ---: | ---: |"
    for kind in (DRAWN, LIKELY):
        for filler in _union(run["imputation"][kind] for run in runs):
            scores = [run["imputation"][kind][filler].values() for run in runs if filler in run["imputation"][kind]]
            cells = [_cell([_mean(score, figure, key) for score in scores]) for figure, key in _FIGURES]
            yield f"| {filler} | {kind} | {' | '.join(cells)} |"


_FIGURES = [(kind, key) for kind in ("accuracy", "error") for key in (kind, "tv")]


def _mean(columns: Iterable[Mapping[str, Any]], figure: str, key: str) -> float | None:
    """The mean of a figure over those columns that have another; `None` where none has."""
    values = [column[key] for column in columns if column.get(figure) is not None]
    return statistics.fmean(values) if values else None


def _union(names: Iterable[Iterable[str]]) -> list[str]:
    """All names, each once, in order."""
    return list(dict.fromkeys(name for some in names for name in some))


def _cell(values: Sequence[float | None]) -> str:
    some = [value for value in values if value is not None]
    return f"{statistics.fmean(some):.3f} ± {(max(some) - min(some)) / 2:.3f}" if some else ""


if __name__ == "__main__":
    main(sys.argv[1:])
