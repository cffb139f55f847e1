"""Ours under the protocol of a public benchmark, beside the figures of all who published there.

``python -m benchmarks.published FOLDER --out published.json``, where FOLDER holds tables as UCI has them, by the names
of `benchmarks.published_tables`: adult, credit_default, shoppers, magic, beijing. ``make bench-peers`` makes the
environment that scores. Every fit is a process of its own with one thread, and is written as soon as it is done; those
that the file holds are not done again. Without FOLDER, only the tables and the picture are drawn. Peers of
`benchmarks.shelf` (``tabularargn``, ``arf``, ``sdv.gaussian_copula``, ``dpmm.mst:1``) are fits, too; seconds of those
that run in an environment of their own are of fit and sample, and they are not fitted to halves.

The protocol takes *train* as the real side, so that a copier wins. So beside every fit stand the share of its rows that
are copies beyond twins, detection against *test* rows, and the AUC of the strongest of our attacks. Landmarks are CART
with leaves of 5, which repeats rows, columns on their own, and fresh real rows: the test part.

Source of the protocol, and of the others' figures in ``published.csv`` (means and standard deviations of five runs,
seconds on GPUs): TabPC (2603.23016), april-tools/tabpc.
"""

import argparse
import json
import math
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import evaluate
import synth
from benchmarks.evaluation import held_to, outcome
from benchmarks.leaking_tables import cart
from benchmarks.peer import ENVIRONMENTS, HERE, is_peer, run_peer, run_script
from benchmarks.peers.evaluated import measured
from benchmarks.published_chart import chart
from benchmarks.published_tables import TABLES, PublishedSplit, read_split
from benchmarks.runs import NOT_INSTALLED, about, keep, read_kept
from benchmarks.sides import Sides

OTHERS = Path(__file__).with_suffix(".csv")
PYTHON, SCRIPT = ENVIRONMENTS / "published" / "bin" / "python", HERE / "peers" / "with_published.py"
LANDMARKS = FRESH, APART, CART = "fresh real rows", "columns on their own", "cart"
FITS = ("trees", "arn", "latent_class", "latent_class:3", "latent_class:1")
DELTA = 1e-6
FIGURES = {
    "shape": "shapes (SDMetrics)", "trend": "trends (SDMetrics)", "lr": "detection, logistic regression",
    "xgb": "detection, XGBoost", "mle": "TSTR: AUC, of beijing RMSE (lower)", "wnmis": "wNMIS",
    "dcr": "share nearer to train than to test, halves", "seconds": "seconds: ours of a CPU, theirs of a GPU",
    "peak_mib": "MiB at most, of a process",
    "copies": "copies beyond twins", "xgb of test": "detection against test rows, XGBoost",
    "attack": "the strongest attack, AUC",
}  # fmt: skip
"""What is drawn, by name in the files."""
RANKED = ("trend", "xgb", "mle", "wnmis", "seconds")
CHUNK = 200  # rows whose distances are held at once


def main(arguments: Sequence[str]) -> None:
    """Run what is asked for, keep it in the file after every fit, and draw it."""
    options = _options(arguments)
    if options.point:
        print(json.dumps(_point(options)))
        return
    content: dict[str, Any] = read_kept(options.out, {"about": about(delta=DELTA), "tables": {}})
    for seed in range(options.seeds if options.folder else 0):
        for name in options.tables:
            results = content["tables"].setdefault(name, {})
            for fit in (*(LANDMARKS if seed == 0 else ()), *options.fits):
                runs = results.setdefault(fit, {})
                if str(seed) not in runs:
                    asked = [str(options.folder), "--tables", name, "--point", fit, str(seed)]
                    asked += ["--limit-s", str(options.limit_s)]
                    runs[str(seed)] = outcome("benchmarks.published", *asked, limit_s=3 * options.limit_s)
                    keep(options.out, content)
                    print(f"{name} {fit} {seed}: {runs[str(seed)]}", file=sys.stderr, flush=True)
    everyone = all_figures(content["tables"])
    print("\n".join(_drawn(everyone)))
    if options.svg is not None:
        options.svg.write_text(chart(everyone, FITS), encoding="utf-8")


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks.published", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, help="of tables; none only draws what --out holds")
    parser.add_argument("--fits", nargs="+", default=list(FITS), help="NAME or NAME:EPSILON")
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES), help="unless said, all")
    parser.add_argument("--seeds", type=int, default=5, help="fits of each")
    parser.add_argument("--limit-s", type=float, default=3600.0, help="seconds of one fit, and of its scores, at most")
    parser.add_argument("--out", type=Path, help="JSON file of the results, read and continued")
    parser.add_argument("--svg", type=Path, help="SVG file of detection over seconds")
    parser.add_argument("--point", nargs=2, metavar=("FIT", "SEED"), help="one fit in this process, printed as JSON")
    return parser.parse_args(arguments)


def _point(options: argparse.Namespace) -> dict[str, Any]:
    """One fit, sample and score; and another on a half of the rows, for distances."""
    (name,), (fit, seed) = options.tables, (options.point[0], int(options.point[1]))
    split = read_split(options.folder, name)
    schema = synth.infer_schema(split.train, target=split.target)
    synthetic, cost = _made(split, fit, seed, options.limit_s)
    if isinstance(synthetic, str):
        return {"failure": synthetic}
    facts = {"columns": list(split.train), "numbers": split.numbers, "target": split.target, "seed": seed}
    facts |= {"is_regression": split.is_regression, "is_fresh": fit == FRESH}
    figures = _scores(split, synthetic, facts, options.limit_s)
    if "failure" in figures or fit == FRESH:
        return figures
    asked = ["privacy.copies", "privacy.membership"]
    (candidate,) = evaluate.evaluate(
        split.train, synthetic, holdout=split.test, schema=schema, measures=asked, seed=seed
    ).candidates
    for key, estimate in (("copies", "privacy.copies.excess"), ("attack", "privacy.membership.auc")):
        figures[key] = getattr(candidate.find(estimate), "value", None)
    figures |= {"seconds": cost.get("cpu_s", 0.0), "peak_mib": cost.get("peak_mib")}
    if is_peer(fit):
        return figures
    half = read_split(options.folder, name, halves=True)
    synthetic, _ = _made(half, fit, seed, options.limit_s)
    assert not isinstance(synthetic, str)
    return {**figures, "dcr": _nearer(half, synthetic)}


def _made(split: PublishedSplit, fit: str, seed: int, limit_s: float) -> tuple[pd.DataFrame | str, Mapping[str, float]]:
    """As many rows as train, or why there are none, and the cost of all that made them but sampling; or a landmark."""
    rng, train = np.random.default_rng(seed), split.train
    if fit == FRESH:
        return split.test, {}
    if fit == APART:
        return pd.DataFrame({name: rng.permutation(train[name].to_numpy()) for name in train}), {}
    rows: list[Any] = []
    if fit == CART:
        cost = measured(lambda: rows.append(cart(Sides(train, train.head(0), train), rng)))
        return rows[0], cost
    name, _, epsilon = fit.partition(":")
    schema = synth.infer_schema(train, target=split.target)
    privacy: dict[str, Any] = {"epsilon": float(epsilon), "delta": DELTA} if epsilon else {}
    if epsilon:
        schema = synth.declare_schema(schema, n_units=len(train), dataset="published")
    if is_peer(fit):
        run = run_peer(name, train, schema, privacy, seed, limit_s)
        if run.synthetic is None:
            return str(run.failure), {}
        whole = [each for each in split.categories if train[each].dtype.kind == "i"]
        return run.synthetic.assign(**{each: _whole(run.synthetic[each]) for each in whole}), run.facts
    cost = measured(lambda: rows.append(synth.fit(train, schema, name, seed=seed, **privacy)))
    return rows[0].sample(len(train), seed=seed), cost


def _whole(codes: pd.Series) -> pd.Series:
    """Categories that are whole numbers, which another library may give back as 1.0."""
    return pd.to_numeric(codes, errors="coerce").round().astype("Int64")


def _scores(split: PublishedSplit, synthetic: pd.DataFrame, facts: Mapping[str, Any], limit_s: float) -> dict[str, Any]:
    frames = (("train", split.train), ("holdout", split.test), ("synthetic", synthetic))
    return scored({name: split.scored(frame) for name, frame in frames}, facts, limit_s)


def scored(frames: Mapping[str, pd.DataFrame], facts: Mapping[str, Any], limit_s: float) -> dict[str, Any]:
    """What the environment that scores says of a train, a holdout and a synthetic table."""
    if not PYTHON.exists():
        return {"failure": f"published is {NOT_INSTALLED}"}
    with tempfile.TemporaryDirectory() as position:
        folder = Path(position)
        for name, frame in frames.items():
            frame.to_csv(folder / f"{name}.csv", index=False)
        (folder / "task.json").write_text(json.dumps(facts))
        failure = run_script(PYTHON, SCRIPT, folder, limit_s, held_to(1))
        if failure is not None:
            return {"failure": failure}
        scores: dict[str, Any] = json.loads((folder / "result.json").read_text())["facts"]
    return scores


def _nearer(split: PublishedSplit, synthetic: pd.DataFrame) -> float:
    """Share of synthetic rows nearer to train than to test: numbers by their range, 2 for each other category.

    As published, categories of a table whose target is a number do not count: they are an index.
    """
    train, test, drawn = (split.scored(frame) for frame in (split.train, split.test, synthetic))
    names = [] if split.is_regression else split.categories
    width = (train[split.numbers].max() - train[split.numbers].min()).to_numpy()
    points = [(frame[split.numbers].to_numpy() / width).astype(np.float32) for frame in (train, test, drawn)]
    codes = np.split(
        np.column_stack([pd.factorize(pd.concat([train[n], test[n], drawn[n]]))[0] for n in names])
        if names
        else np.zeros((len(train) + len(test) + len(drawn), 0), dtype=np.int64),
        np.cumsum([len(train), len(test)]),
    )
    nearer = 0
    for start in range(0, len(drawn), CHUNK):
        rows = slice(start, start + CHUNK)
        own, other = (_least(points[2][rows], codes[2][rows], points[at], codes[at]) for at in (0, 1))
        nearer += int((own < other).sum())
    return nearer / len(drawn)


def _least(points: np.ndarray, codes: np.ndarray, others: np.ndarray, other_codes: np.ndarray) -> np.ndarray:
    """Distance of each row to the nearest of others, shape (n,)."""
    distances = np.zeros((len(points), len(others)), dtype=np.float32)
    for at in range(points.shape[1]):
        distances += np.abs(points[:, at, np.newaxis] - others[:, at])
    for at in range(codes.shape[1]):
        distances += 2.0 * (codes[:, at, np.newaxis] != other_codes[:, at])
    return np.asarray(distances.min(axis=1))


Everyone = Mapping[str, Mapping[str, Mapping[str, tuple[float, float]]]]
"""For each method, table and figure the mean and the standard deviation."""


def all_figures(tables: Mapping[str, Any]) -> Everyone:
    """Figures of all who published, and then of ours."""
    everyone: dict[str, dict[str, dict[str, tuple[float, float]]]] = {}
    for method, table, figure, mean, sd in pd.read_csv(OTHERS).to_numpy().tolist():
        everyone.setdefault(method, {}).setdefault(table, {})[figure] = (mean, sd)
    for table, results in tables.items():
        for fit, runs in results.items():
            for figure in FIGURES:
                values = [run[figure] for run in runs.values() if run.get(figure) is not None]
                if values:
                    spread = statistics.stdev(values) if len(values) > 1 else 0.0
                    everyone.setdefault(fit, {}).setdefault(table, {})[figure] = (statistics.fmean(values), spread)
    return everyone


def _drawn(everyone: Everyone) -> Iterator[str]:
    """A Markdown table for each figure, and what `trees` reaches beside all who published."""
    for figure, words in FIGURES.items():
        yield f"\n| {words} | {' | '.join(TABLES)} |"
        yield f"| --- |{' ---: |' * len(TABLES)}"
        for method, tables in everyone.items():
            cells = [tables.get(table, {}).get(figure, (math.nan, 0.0))[0] for table in TABLES]
            if not all(map(math.isnan, cells)):
                yield f"| {method} | {' | '.join('' if math.isnan(cell) else f'{cell:.4g}' for cell in cells)} |"
    yield from ("", *beside(everyone))
    for fit in FITS:
        ranks = [_rank(everyone, fit, table, figure) for table in TABLES for figure in RANKED]
        known = [rank for rank in ranks if rank is not None]
        if known:
            yield f"\n{fit}: first or level in {sum(known)} of {len(known)} cells ({', '.join(RANKED)})"


def beside(everyone: Everyone) -> Iterator[str]:
    """The first of ours and, in brackets, the best of those who published, as a Markdown table."""
    yield f"| `{FITS[0]}` (the best published) | {' | '.join(TABLES)} |"
    yield f"| --- |{' --- |' * len(TABLES)}"
    for figure in RANKED:
        cells = [f"{_own(everyone, FITS[0], table, figure)} ({_best(everyone, table, figure)})" for table in TABLES]
        yield f"| {FIGURES[figure]} | {' | '.join(cells)} |"
    for figure in ("copies", "attack"):
        cells = [" (".join(_own(everyone, fit, table, figure) for fit in (FITS[0], CART)) for table in TABLES]
        yield f"| {FIGURES[figure]} ({CART}) | {') | '.join(cells)}) |"


def _own(everyone: Everyone, fit: str, table: str, figure: str) -> str:
    return _short(everyone.get(fit, {}).get(table, {}).get(figure, (math.nan,))[0])


def _best(everyone: Everyone, table: str, figure: str) -> str:
    rivals = [everyone[name].get(table, {}).get(figure, (math.nan,))[0] for name in _rivals()]
    return _short((min if _is_less_better(table, figure) else max)(mean for mean in rivals if not math.isnan(mean)))


def _short(figure: float) -> str:
    if math.isnan(figure):
        return "-"
    return f"{figure:,.0f}" if figure > 1 else f"{figure:.3f}".replace("0.", ".", 1)  # seconds, or shares


def _is_less_better(table: str, figure: str) -> bool:
    return figure == "seconds" or (figure == "mle" and TABLES[table].is_regression)


@cache
def _rivals() -> frozenset[str]:
    """All who published, but for the model of columns on their own."""
    return frozenset(pd.read_csv(OTHERS)["method"]) - {"FullyFactorized"}


def _rank(everyone: Everyone, fit: str, table: str, figure: str) -> bool | None:
    """True where no method that keeps pairs is better by more than the larger standard deviation."""
    own = everyone.get(fit, {}).get(table, {}).get(figure)
    if own is None:
        return None
    sign = -1 if _is_less_better(table, figure) else 1
    rivals = [everyone[name][table][figure] for name in _rivals() if figure in everyone[name].get(table, {})]
    return all(sign * (own[0] - mean) >= -max(own[1], spread) for mean, spread in rivals)


if __name__ == "__main__":
    main(sys.argv[1:])
