"""The curve of `caution` in `trees`: how well members of the table are found, and how well the tables are told apart.

``python -m benchmarks.caution FOLDER --out caution.json``, where FOLDER holds tables as CSV files. Of each table, 6,000
rows are learned from, as many are fresh, and up to 9,000 are what an attacker has. Each fit is written as soon as it is
done, and is not done again. Without FOLDER, only the table of results is drawn.

- **Found**: the attack counts cells of 300 sets of two to four columns in the synthetic rows and in those of the
  attacker, and adds up the logs of their ratios in the cells of a row ("focal points"). AUC of members against fresh
  rows; .5 is chance.
- **Told apart**: the AUC of scikit-learn's boosting with its defaults, out of fold, on synthetic and fresh rows.
"""

import argparse
import itertools
import statistics
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict

import synth
from benchmarks.runs import keep, read_kept
from benchmarks.shelf import TARGETS

CAUTIONS = (0.0, 2.0, 4.0, 6.0, 12.0, 30.0)
TABLES = ("adult", "credit_default", "king_county_housing")
MOST_TRAIN, MOST_REFERENCE = 6_000, 9_000
N_SETS, N_CODES = 300, (8, 20)
"""Sets of columns of the attack, and the codes of a column of many values, one or the other for each set."""
MOST_CATEGORIES = 200
FIGURES = {"found": "found", "told_apart": "told apart", "cpu_s": "CPU s"}
Matrix = NDArray[np.float64]


def main(arguments: Sequence[str]) -> None:
    """Run each fit that the file does not hold, keep it, and draw all."""
    parser = argparse.ArgumentParser("python -m benchmarks.caution", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, help="of CSV files; none only draws what --out holds")
    parser.add_argument("--tables", nargs="+", default=TABLES)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, required=True, help="JSON file of the results, read and continued")
    options = parser.parse_args(arguments)
    content: dict[str, Any] = read_kept(options.out, {})
    folder = options.folder
    for seed, name in itertools.product(range(options.seeds), options.tables if folder is not None else ()):
        (path,) = folder.glob(f"{name}.csv*")
        table = pd.read_csv(path, low_memory=False)
        for caution in CAUTIONS:
            runs = content.setdefault(name, {}).setdefault(f"{caution:g}", {})
            if str(seed) not in runs:
                runs[str(seed)] = _run(table, TARGETS[name], caution, seed)
                keep(options.out, content)
    print("\n".join(_draw(content)))


def _run(table: pd.DataFrame, target: str, caution: float, seed: int) -> dict[str, float]:
    target = next(name for name in map(str, table) if name.startswith(target))
    order = np.random.default_rng(seed).permutation(len(table))
    n = min(MOST_TRAIN, len(table) // 3)
    train, fresh, reference = (
        table.iloc[order[first:end]].reset_index(drop=True)
        for first, end in ((0, n), (n, 2 * n), (2 * n, 2 * n + MOST_REFERENCE))
    )
    schema = synth.infer_schema(train, target=target)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        drawn = synth.fit(train, schema, "trees", seed=seed, caution=caution).sample(n, seed=seed + 1)
        seconds = time.process_time() - start
    columns = [name for name in train if name in drawn]
    matrices, categories = _matrices([part[columns] for part in (train, fresh, reference, drawn)])
    return {
        "found": _found(matrices, seed),
        "told_apart": _told_apart(matrices[3], matrices[1], categories),
        "cpu_s": seconds,
    }


def _matrices(parts: Sequence[pd.DataFrame]) -> tuple[list[Matrix], list[int]]:
    """The cells of tables as numbers, and which columns are categories, by frequency; texts of dates are numbers."""
    whole, columns, categories = pd.concat(parts, ignore_index=True), [], []
    for at, name in enumerate(whole):
        values = pd.to_numeric(whole[name], errors="coerce")
        if values.notna().sum() < whole[name].notna().sum():
            values = pd.to_datetime(whole[name], errors="coerce", format="mixed").astype("int64") / 1e9
            if (values < 0).mean() > 0.5:  # what is no date is far below
                texts = whole[name].fillna("").astype(str)
                ranks = {text: min(rank, MOST_CATEGORIES) for rank, text in enumerate(texts.value_counts().index)}
                values = texts.map(ranks)
                categories.append(at)
        columns.append(values.to_numpy(dtype=np.float64))
    return np.split(np.column_stack(columns), np.cumsum([len(part) for part in parts])[:-1]), categories


def _found(matrices: Sequence[Matrix], seed: int) -> float:
    """AUC of the attack: members against fresh rows, by their cells in the attacker's and the synthetic rows."""
    rng = np.random.default_rng(seed)
    coded = []
    for n_codes in N_CODES:
        shares = np.linspace(0, 1, n_codes + 1)[1:-1]
        cuts = [np.unique(np.nanquantile(column, shares)) for column in matrices[2].T]
        coded.append([np.stack(list(map(np.searchsorted, cuts, part.T))) for part in matrices])
    scores = [np.zeros(len(part)) for part in matrices[:2]]
    sizes = [len(part) for part in matrices]
    for at in range(N_SETS):
        columns = rng.choice(matrices[0].shape[1], 2 + at % 3, replace=False)
        codes = coded[int(rng.integers(len(coded)))]
        cells = np.concatenate([part[columns] for part in codes], axis=1)
        keys = np.unique(cells, axis=1, return_inverse=True)[1].ravel()
        members, fresh, reference, drawn = np.split(keys, np.cumsum(sizes)[:-1])
        shares_of = [(np.bincount(part, minlength=keys.max() + 1) + 1) / len(part) for part in (drawn, reference)]
        logs = np.log(shares_of[0] / shares_of[1])
        scores[0] += logs[members]
        scores[1] += logs[fresh]
    return float(roc_auc_score(np.repeat([1, 0], sizes[:2]), np.concatenate(scores)))


def _told_apart(drawn: Matrix, fresh: Matrix, categories: list[int]) -> float:
    rows, is_fresh = np.concatenate([drawn, fresh]), np.repeat([0, 1], [len(drawn), len(fresh)])
    model = HistGradientBoostingClassifier(categorical_features=categories or None, random_state=0)
    chances = cross_val_predict(model, rows, is_fresh, cv=3, method="predict_proba")[:, 1]
    return float(roc_auc_score(is_fresh, chances))


def _draw(content: Mapping[str, Any]) -> Iterator[str]:
    """Means of each figure and their standard deviations over seeds."""
    yield "| table | caution | " + " | ".join(FIGURES.values()) + " |"
    yield "| --- | ---: | " + " | ".join(["---:"] * len(FIGURES)) + " |"
    for table, runs in content.items():
        for caution, seeds in runs.items():
            values = [[run[figure] for run in seeds.values()] for figure in FIGURES]
            yield f"| {table} | {caution} | " + " | ".join(_drawn(each) for each in values) + " |"


def _drawn(values: Sequence[float]) -> str:
    spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 and max(values) < 1 else ""
    return f"{statistics.mean(values):.3f}{spread}" if max(values) < 1 else f"{statistics.mean(values):.1f}"


if __name__ == "__main__":
    main(sys.argv[1:])
