"""Ours beside a published study of reconstruction, and our attack on the tables of it that can be made again.

``python -m benchmarks.reconstruction ADULT --out reconstruction.json``, where ADULT holds both parts of UCI's table.
``make bench-peers`` makes the peers, and the environment that scores shapes and trends. Every fit is a process of its
own, and is written as soon as it is done; without ADULT, only the table is drawn.

The protocol as published, whose samples have the same rows: suppressed cells have about their shapes, trends and TSTR.
An attacker knows six columns of everybody in a sample of 10,000 and wants nine. A right guess counts
one over the number of people who have the value, so that a column's score is the mean over its values of the share that
is guessed. *Memory*: income, where all else is known, on a sample of 1,000, less that on the next sample.

Source of the protocol, and of the others' figures in ``reconstruction.csv``: SoK: Reconstruction Attacks on Synthetic
Tabular Data (2606.08372), steveng9/Reconstruction. `forest` is their random forest, `best` the best of fifteen attacks,
`memory` the mean of three.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import f1_score
from sklearn.model_selection import cross_val_score

import evaluate
import synth
from benchmarks.evaluation import outcome
from benchmarks.published import scored
from benchmarks.reconstruction_tables import BINNED, CART, CELLS, DELTA, RANKS, TARGET, make, read_samples
from benchmarks.runs import about, keep, read_kept
from benchmarks.sides import numbers
from evaluate.neighbors import SpaceRows
from evaluate.privacy.reconstruction import guesses

OTHERS = Path(__file__).with_suffix(".csv")
KNOWN = ("age", "sex", "race", "native-country", "education", "marital-status")
WIDE, NARROW = 10_000, 1_000
SAMPLES = {WIDE: 3, NARROW: 5}
FRESH = "fresh real rows"
FITS = (
    FRESH, CART, RANKS, CELLS, "trees", "latent_class", "latent_class:3", "latent_class:1",
    *(f"mst:{epsilon:g}" for epsilon in (0.1, 1, 10, 100)), "aim:1",
    "binned mst:1", "binned mst:10", "binned aim:1", "binned smartnoise.mst:1", "arf",
)  # fmt: skip
ALIKE = {CART: "synthpop"}
"""What is published under another name; *binned* is as there, of the middles of 20 equal parts of numbers."""
COLUMNS = {
    WIDE: {
        "TSTR ratio": ("tstr", "tstr", 3), "shapes": ("shape", "shape", 3), "trends": ("trend", "trend", 3),
        "a forest's score": ("forest", "forest", 1), "our forest's (their best)": ("ours", "best", 1),
        "`privacy.reconstruction`": ("reconstruction", None, 3),
    },
    NARROW: {
        "a forest's memory": ("forest memory", "memory", 1),
        "`privacy.reconstruction`": ("reconstruction", None, 3), "`privacy.inference`": ("inference", None, 3),
    },
}  # fmt: skip
"""For each sample, by heading: what is measured, what is published of it, and decimals."""
MANY = 500  # Values of a column, beyond which a tree of classes takes too much memory


def main(arguments: Sequence[str]) -> None:
    """Run what is asked for, keep it in the file after every fit, and draw it."""
    options = _options(arguments)
    if options.point:
        print(json.dumps(_point(options)))
        return
    content: dict[str, Any] = read_kept(options.out, {"about": about(delta=DELTA), "runs": {}})
    asked = [(seed, n, fit) for seed in range(max(SAMPLES.values())) for n in options.rows for fit in options.fits]
    for seed, n, fit in asked if options.table else ():
        runs = content["runs"].setdefault(str(n), {}).setdefault(fit, {})
        if str(seed) not in runs and seed < min(SAMPLES[n], options.seeds):
            point = [str(options.table), "--rows", str(n), "--point", fit, str(seed), "--limit-s", str(options.limit_s)]
            runs[str(seed)] = outcome("benchmarks.reconstruction", *point, limit_s=3 * options.limit_s)
            keep(options.out, content)
            print(f"{n} {fit} {seed}: {runs[str(seed)]}", file=sys.stderr, flush=True)
    print("\n".join(_drawn(content["runs"])))


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks.reconstruction", description=__doc__)
    parser.add_argument("table", nargs="?", type=Path, help="Adult; none only draws what --out holds")
    parser.add_argument("--fits", nargs="+", default=list(FITS), help="NAME or NAME:EPSILON")
    parser.add_argument("--rows", nargs="+", type=int, choices=SAMPLES, default=list(SAMPLES), help="of a sample")
    parser.add_argument("--seeds", type=int, default=5, help="samples of each at most")
    parser.add_argument("--limit-s", type=float, default=900.0, help="seconds of one fit at most")
    parser.add_argument("--out", type=Path, help="JSON file of the results, read and continued")
    parser.add_argument("--point", nargs=2, metavar=("FIT", "SEED"), help="one fit in this process, printed as JSON")
    return parser.parse_args(arguments)


def _point(options: argparse.Namespace) -> dict[str, Any]:
    """One fit and sample, and what it tells of train and of the next sample."""
    (n,), (fit, seed) = options.rows, (options.point[0], int(options.point[1]))
    train, other = read_samples(options.table, n)[seed : seed + 2]
    known = KNOWN if n == WIDE else tuple(str(name) for name in train if name != TARGET)
    schema = synth.infer_schema(train, target=TARGET).model_copy(update={"quasi_identifiers": known})
    synthetic = other if fit == FRESH else make(train, schema, fit, seed, options.limit_s)
    if isinstance(synthetic, str):
        return {"failure": synthetic}
    synthetic = synthetic[list(train)].astype(train.dtypes.to_dict())
    holdout = read_samples(options.table, n)[-1] if fit == FRESH else other
    attacks = ("reconstruction",) if n == WIDE else ("reconstruction", "inference")
    (candidate,) = evaluate.evaluate(
        train, synthetic, holdout=holdout, schema=schema, measures=[f"privacy.{name}" for name in attacks], seed=seed
    ).candidates
    figures: dict[str, Any] = {}
    for name in attacks:
        estimate = candidate.find(f"privacy.{name}")
        figures[name] = [getattr(estimate, key, None) for key in ("value", "low", "high", "note")]
    both = pd.concat([train, holdout], ignore_index=True)
    guessed = ours(synthetic, both, known, seed)
    for name, guess in (("ours", guessed), ("forest", forest(synthetic, both, known, seed, guessed))):
        sides = [{column: values[rows] for column, values in guess.items()} for rows in (slice(n), slice(n, None))]
        figures[name], others = score(train, sides[0]), score(holdout, sides[1])
        figures[f"{name} memory"] = figures[name] - others
    if n == WIDE:
        figures["tstr"] = utility(train, synthetic)
        frames = {"train": train, "holdout": holdout, "synthetic": synthetic}
        facts = {"columns": list(train), "numbers": numbers(train), "seed": seed}
        figures |= scored(frames, facts, options.limit_s)
    return figures


def score(rows: pd.DataFrame, guessed: Mapping[str, np.ndarray]) -> float:
    """Percent: the mean, over columns, of the mean over values of the share of their rows that are guessed."""
    hits = {name: guess == rows[name] for name, guess in guessed.items()}
    return 100 * float(np.mean([right.groupby(rows[name]).mean().mean() for name, right in hits.items()]))


def ours(synthetic: pd.DataFrame, rows: pd.DataFrame, known: Sequence[str], seed: int) -> dict[str, np.ndarray]:
    """What the forest of `privacy.reconstruction` guesses, of exact values."""
    hidden = [str(name) for name in synthetic if name not in known]
    pool, targets = _coded(synthetic, rows, known)
    values = {name: pd.factorize(synthetic[name]) for name in hidden}
    codes = guesses(pool, targets, list(known), {name: coded for name, (coded, _) in values.items()}, seed)
    return {name: np.asarray(values[name][1])[codes[name]] for name in hidden}


def _coded(synthetic: pd.DataFrame, rows: pd.DataFrame, known: Sequence[str]) -> Iterator[SpaceRows]:
    """Known columns as codes in the order of the synthetic values; -1 for others."""
    values = {name: pd.Index(sorted(synthetic[name].unique())) for name in known}
    for part in (synthetic, rows):
        columns = {name: values[name].get_indexer(part[name]) for name in known}
        yield SpaceRows(np.arange(len(part)), np.empty((len(part), 0)), columns)


def forest(
    synthetic: pd.DataFrame, rows: pd.DataFrame, known: Sequence[str], seed: int, guessed: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """What their random forests guess, one for each column; of very many values, what was guessed already."""
    pool, targets = (np.column_stack(list(part.columns.values())) for part in _coded(synthetic, rows, known))
    model = RandomForestClassifier(n_estimators=25, max_depth=25, random_state=seed)
    few = [name for name in guessed if synthetic[name].nunique() <= MANY]
    return {**guessed, **{name: model.fit(pool, synthetic[name]).predict(targets) for name in few}}


def utility(train: pd.DataFrame, synthetic: pd.DataFrame) -> float:
    """Macro F1 on train of a forest learned from synthetic rows, over that of forests cross-validated on train."""
    both = pd.concat([train, synthetic], ignore_index=True)
    ordered = numbers(train)
    names = [name for name in train if name not in (*ordered, TARGET)]
    features = np.column_stack([pd.factorize(both[name], sort=True)[0] for name in names] + [both[ordered]])
    real, learned = features[: len(train)].astype(float), features[len(train) :].astype(float)
    model = RandomForestClassifier(n_estimators=50, max_depth=8, random_state=42)
    order = np.random.default_rng(42).choice(len(train), len(train), replace=False)
    truth = train[TARGET].to_numpy()
    at_best = cross_val_score(model, real[order], truth[order], cv=3, scoring="f1_macro").mean()
    guessed = model.fit(learned, synthetic[TARGET].to_numpy()).predict(real)
    return float(min(f1_score(truth, guessed, average="macro") / at_best, 1.1))


def _drawn(runs: Mapping[str, Any]) -> Iterator[str]:
    """Markdown tables: means of ours, deviations of small samples, and in brackets what is published."""
    published = pd.read_csv(OTHERS, index_col="method")
    for n, columns in COLUMNS.items():
        results = runs.get(str(n), {})
        names = {fit: ALIKE.get(fit, fit.removeprefix(BINNED).removeprefix("smartnoise.")) for fit in results}
        yield f"\n| {n:,} rows | {' | '.join(columns)} | samples |"
        yield f"| --- |{' ---: |' * (len(columns) + 1)}"
        for fit in (*results, *(method for method in published.index if method not in names.values())):
            cells = []
            for figure, theirs, decimals in columns.values():
                values = [_first(run[figure]) for run in results.get(fit, {}).values() if figure in run]
                cell = f"{statistics.fmean(values):.{decimals}f}" if values else ""
                cell += f" ± {statistics.stdev(values):.{decimals}f}" if n == NARROW and len(values) > 2 else ""
                known = published[theirs].get(names.get(fit, fit)) if theirs else None
                cells.append(cell if known is None or known != known else f"{cell} ({known:.{decimals}f})".strip())
            if any(cells):
                yield f"| {fit} | {' | '.join(cells)} | {len(results.get(fit, ())) or ''} |"


def _first(figure: Any) -> float:
    """An estimate is kept with its interval and its words."""
    return float(figure[0] if isinstance(figure, list) else figure)


if __name__ == "__main__":
    main(sys.argv[1:])
