"""Relations of many columns: does a table by `latent_class` or `aim` still tell a target that no few columns tell?

``python -m benchmarks.many_columns --out many_columns.json`` makes tables of 20,000 rows whose target is the exclusive
or of 3 to 7 of twelve columns: flags, or numbers above a threshold that is not their median. ``--table FILE:TARGET``
adds a table of yours. A fit trains two learners on its synthetic rows; the better accuracy on real test rows counts,
and so for the real training rows. Without tables to fit, results are only drawn.
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
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier

import synth
from benchmarks.runs import about, keep, read_kept

N_ROWS, DELTA = 20_000, 1e-6
RELATIONS = {f"{k} flags": (k, 0) for k in range(3, 8)} | {"2 flags, 2 numbers": (4, 2), "3 flags, 2 numbers": (5, 2)}
"""By name, how many columns tell the target, and how many of them are numbers."""
REAL = "real rows"


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.many_columns", description=__doc__)
    parser.add_argument("--out", type=Path, help="JSON file of the results, read and continued")
    parser.add_argument("--table", nargs="*", default=[], help="FILE:TARGET")
    parser.add_argument("--fits", nargs="+", default=["latent_class:1", "aim:1"], help="NAME:EPSILON")
    parser.add_argument("--seeds", type=int, default=3, help="splits and fits of each; 0 only draws")
    options = parser.parse_args(arguments)
    content: dict[str, Any] = read_kept(options.out, {"about": about(delta=DELTA), "tables": {}})
    tables = {name: (_with_relation(*facts), "y") for name, facts in RELATIONS.items()}
    for asked in options.table:
        path, _, target = asked.rpartition(":")
        tables[Path(path).name.partition(".")[0]] = (pd.read_csv(path), target)
    for seed in range(options.seeds):
        for name, (table, target) in tables.items():
            results = content["tables"].setdefault(name, {})
            for fit in (REAL, *options.fits):
                if str(seed) not in results.setdefault(fit, {}):
                    results[fit][str(seed)] = _run(fit, table, target, seed)
                    keep(options.out, content)
                    print(f"{name} {fit} {seed}: {results[fit][str(seed)]}", file=sys.stderr, flush=True)
    print("\n".join(_drawn(content["tables"])))


def _with_relation(n_telling: int, n_numbers: int) -> pd.DataFrame:
    """Seven flags, three numbers, two categories, and the target, which some of the first tell together."""
    rng = np.random.default_rng(n_telling)
    flags = {f"f{at}": rng.random(N_ROWS) < 0.5 for at in range(7)}
    numbers: dict[str, Any] = {"x0": rng.normal(50, 12, N_ROWS).round(1), "x1": rng.lognormal(3, 0.7, N_ROWS).round(2)}
    numbers["x2"] = rng.integers(0, 100, N_ROWS)
    above = [numbers["x0"] > 52, numbers["x1"] > 18][:n_numbers]
    told = np.bitwise_xor.reduce([*above, *list(flags.values())[: n_telling - n_numbers]])
    columns: dict[str, Any] = {name: np.where(flag, "yes", "no") for name, flag in flags.items()} | numbers
    columns |= {"c0": rng.choice(list("abc"), N_ROWS), "c1": rng.choice(list("uvwxyz"), N_ROWS)}
    order = rng.permutation(list(columns))
    return pd.DataFrame({name: columns[name] for name in order} | {"y": np.where(told, "one", "zero")})


def _run(fit: str, table: pd.DataFrame, target: str, seed: int) -> dict[str, float]:
    order = np.random.default_rng(seed).permutation(len(table))
    train, test = (table.iloc[part].reset_index(drop=True) for part in np.split(order, [len(table) * 4 // 5]))
    if fit == REAL:
        return {"accuracy": _accuracy(train, test, target)}
    schema = synth.declare_schema(synth.infer_schema(table, target=target), n_units=len(table))
    name, _, epsilon = fit.partition(":")
    started = time.process_time()
    model = synth.fit(train, schema, name, epsilon=float(epsilon), delta=DELTA, seed=seed, progress=synth.quiet)
    cpu_s = time.process_time() - started
    return {"accuracy": _accuracy(model.sample(len(train), seed=seed), test, target), "cpu_s": cpu_s}


def _accuracy(rows: pd.DataFrame, test: pd.DataFrame, target: str) -> float:
    """The better accuracy on test rows of two learners on rows."""
    levels = {str(name): sorted(test[name].astype(str).unique()) for name in test if test[name].dtype == object}

    def features(frame: pd.DataFrame) -> pd.DataFrame:
        coded = {name: pd.Index(texts).get_indexer(frame[name].astype(str)) for name, texts in levels.items()}
        return frame.assign(**coded)[[name for name in test if name != target]].astype(np.float64).fillna(-1)

    learners = (
        HistGradientBoostingClassifier(random_state=0),
        ExtraTreesClassifier(300, min_samples_leaf=2, max_features=None, random_state=0),
    )
    of_rows, of_test = rows[target].astype(str), test[target].astype(str)
    return max(float(each.fit(features(rows), of_rows).score(features(test), of_test)) for each in learners)


def _drawn(tables: Mapping[str, Any]) -> Iterator[str]:
    fits = list(dict.fromkeys(fit for results in tables.values() for fit in results))
    yield f"| the target is told by | {' | '.join(fits)} |"
    yield f"| --- |{' ---: |' * len(fits)}"
    for name, results in tables.items():
        means = [statistics.fmean(run["accuracy"] for run in results[fit].values()) for fit in fits if fit in results]
        yield f"| {name} | {' | '.join(f'{mean:.3f}' for mean in means)} |"


if __name__ == "__main__":
    main(sys.argv[1:])
