"""What hangs together between columns, in synthetic tables: the share of rows that keep it, beside fresh real rows.

``python -m benchmarks.relations --fits trees aim sdv.gaussian_copula --out relations.json`` fits tables of
`benchmarks.relation_tables` with a schema as `infer` proposes it, four fifths of the rows, each in a process of its own
with one thread. ``--folder FOLDER`` takes tables of a folder instead, of which there is only the classifier's AUC.

The classifier is gradient boosting on what somebody would look at: numbers, times, their weekdays and hours, gaps
between times, differences and ratios of numbers that go together. On fresh real rows its AUC is .5.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict

import synth
from benchmarks.evaluation import apart
from benchmarks.relation_tables import TABLES
from benchmarks.runs import keep, read_kept
from benchmarks.shelf import TARGETS

MOST_ROWS, MOST_PAIRS, RELATED, LEVELS = 20_000, 60, 0.3, 250
SHORT = 0.01  # share of rows by which a relation may be kept less often than in fresh real rows


def main(arguments: Sequence[str]) -> None:
    """Run what is asked for, keep it in the file after every fit, and draw it."""
    options = _options(arguments)
    if options.point:
        name, fit, seed = options.point
        print(json.dumps(_point(name, fit, int(seed), options.folder)))
        return
    content: dict[str, Any] = read_kept(options.out, {})
    names = options.tables or (TABLES if options.folder is None else TARGETS)
    for name in names:
        for fit in options.fits:
            runs = content.setdefault(name, {}).setdefault(fit, {})
            for seed in range(options.seeds):
                if str(seed) not in runs:
                    folder = [] if options.folder is None else ["--folder", str(options.folder)]
                    runs[str(seed)] = apart("benchmarks.relations", "--point", name, fit, str(seed), *folder)
                    print(name, fit, seed, runs[str(seed)], file=sys.stderr, flush=True)
                    keep(options.out, content)
    print(draw(content))


def draw(content: Mapping[str, Any]) -> str:
    """One Markdown table: means over seeds."""
    lines = ["| table | fit | relations kept | C2ST | CPU s |", "| --- | --- | ---: | ---: | ---: |"]
    for name, fits in content.items():
        for fit, runs in fits.items():
            mean = {key: statistics.fmean(run[key] for run in runs.values()) for key in ("c2st", "cpu_s")}
            shares = [run["relations"] for run in runs.values()]
            kept = [sum(synthetic >= real - SHORT for real, synthetic in pairs.values()) for pairs in shares]
            words = f"{statistics.fmean(kept):.3g} of {len(shares[0])}" if shares[0] else ""
            lines.append(f"| {name} | {fit} | {words} | {mean['c2st']:.3f} | {mean['cpu_s']:.1f} |")
    return "\n".join(lines)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks.relations", description=__doc__)
    parser.add_argument("--fits", nargs="+", default=["trees"], help="NAME or NAME:EPSILON")
    parser.add_argument("--tables", nargs="+", default=[])
    parser.add_argument("--folder", type=Path, help="of gzipped CSV files, such as those of `benchmarks.shelf`")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="JSON file of the results, read and continued")
    parser.add_argument("--point", nargs=3, metavar=("TABLE", "FIT", "SEED"), help="one fit in this process")
    return parser.parse_args(arguments)


def _point(name: str, fit: str, seed: int, folder: Path | None) -> dict[str, Any]:
    if folder is None:
        table, target, relations_of = TABLES[name]()
    else:
        table, target, relations_of = _texts(folder / f"{name}.csv.gz"), TARGETS[name], lambda _: {}
    order = np.random.default_rng(seed).permutation(len(table))
    train, fresh = (table.iloc[part].reset_index(drop=True) for part in np.split(order, [len(table) * 4 // 5]))
    synthetic, left_out, cpu_s = _made(train, target, fit, seed)
    mean = {key: float(np.nanmean(kept)) for key, kept in relations_of(synthetic).items()}
    real = {key: float(np.nanmean(kept)) for key, kept in relations_of(fresh).items()}
    told = c2st(train.drop(columns=left_out), fresh, synthetic)
    return {"c2st": told, "cpu_s": cpu_s, "relations": {key: (real[key], mean[key]) for key in real}}


def _made(train: pd.DataFrame, target: str, fit: str, seed: int) -> tuple[pd.DataFrame, list[str], float]:
    """A synthetic table as its CSV file is read, columns that say nothing of a row, and the fit's processor seconds."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.csv"
        train.to_csv(path, index=False)
        start, rows = time.process_time(), synth.read_table(path)
        schema = synth.infer_schema(rows, target=target, propose_entity=False)
        name, _, epsilon = fit.partition(":")
        privacy = {"epsilon": float(epsilon)} if epsilon else {}
        if epsilon:
            schema = synth.declare_schema(schema, n_units=len(train), dataset=name)
        sample = synth.fit(rows, schema, name, seed=seed, **privacy).sample(len(train), seed=seed)
        cpu_s = time.process_time() - start
        synth.write_table(sample, Path(folder) / "made.csv", schema)
        synthetic = _texts(Path(folder) / "made.csv")
    left_out = [name for name in train if name not in synthetic or schema.columns[name].is_replaced]
    return synthetic, left_out, cpu_s


def _texts(path: Path) -> pd.DataFrame:
    return pd.read_csv(path, dtype=str, keep_default_na=False, na_values=[""])


def c2st(train: pd.DataFrame, fresh: pd.DataFrame, synthetic: pd.DataFrame) -> float:
    """AUC of telling synthetic rows from fresh real ones; columns of texts are those of train."""
    n = min(len(fresh), len(synthetic), MOST_ROWS)
    both = pd.concat([fresh.iloc[:n], synthetic.sample(n, random_state=0)], ignore_index=True)
    features = _features(train, both)
    for each, other in _related(features, [name for name in map(str, train) if _kind(train[name]) == "number"]):
        with np.errstate(all="ignore"):
            ratio = features[each] / features[other]
        features[f"{each} - {other}"] = features[each] - features[other]
        features[f"{each} / {other}"] = np.where(np.isfinite(ratio), ratio, np.nan)
    x, y = np.column_stack(list(features.values())), np.repeat([0, 1], n)
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    model = HistGradientBoostingClassifier(random_state=0)
    chance = cross_val_predict(model, x, y, cv=folds, method="predict_proba")[:, 1]
    return float(roc_auc_score(y, chance))


def _kind(series: pd.Series) -> str:
    texts = series.dropna().astype(str)
    if pd.to_numeric(texts, errors="coerce").notna().all():
        return "number"
    return "time" if texts.str.match(r"\d{4}-\d\d-\d\d").all() else "category"


def _features(train: pd.DataFrame, both: pd.DataFrame) -> dict[str, np.ndarray]:
    features, times = dict[str, np.ndarray](), list[str]()
    for name in map(str, train):
        kind = _kind(train[name])
        if kind == "number":
            features[name] = pd.to_numeric(both[name], errors="coerce").to_numpy(np.float64)
        elif kind == "time":
            at = pd.to_datetime(both[name], errors="coerce")
            seconds = (at - pd.Timestamp(0)).dt.total_seconds().to_numpy()
            features |= {f"{name}, {other} before": seconds - features[other] for other in times}
            parts = {"weekday": at.dt.dayofweek, "hour": at.dt.hour}
            features |= {name: seconds, **{f"{name}, {part}": x.to_numpy(np.float64) for part, x in parts.items()}}
            times.append(name)
        else:
            levels = {text: code for code, text in enumerate(train[name].value_counts().index[:LEVELS])}
            features[name] = both[name].map(levels).fillna(-1.0).to_numpy(np.float64)
    return features


def _related(features: Mapping[str, np.ndarray], numbers: Sequence[str]) -> list[tuple[str, str]]:
    if len(numbers) < 2:
        return []
    ranks = pd.DataFrame({name: features[name] for name in numbers}).corr("spearman").abs().to_numpy()
    first, second = np.triu_indices(len(numbers), k=1)
    order = np.argsort(-np.nan_to_num(ranks[first, second]))[:MOST_PAIRS]
    strong = order[np.nan_to_num(ranks[first, second])[order] > RELATED]
    return [(numbers[i], numbers[j]) for i, j in zip(first[strong], second[strong], strict=True)]


if __name__ == "__main__":
    main(sys.argv[1:])
