"""Generators on every table of a folder, with a schema as `infer` proposes it and nothing set by hand.

``python -m benchmarks.shelf FOLDER --fits aim:1 mst:1 aim --out shelf.json --page shelf.html``, where FOLDER holds
tables as CSV files, and a fit is a generator's name with or without an epsilon. The schema is inferred, then declared
as it is. Four fifths of the rows are learned from, the rest tested on. Every fit is a process of its own with one
thread, and is written as soon as it is done; those that the file holds are not done again. Without FOLDER, only the
tables of results are drawn.

Peers are fits, too:
- ``cart``: CART with 5 rows a leaf, which is what synthpop does;
- ``sdv.gaussian_copula``, ``sdv.ctgan``, ``sdv.tvae``: SDV's three, by the names that jobs have for them;
- ``arf``: adversarial random forests by ``arfpy``, after ``make bench-peers``;
- ``opendp.aim:1``, ``dpmm.mst:1`` and others of `benchmarks.peer.PEERS`: private, on codes by the schema alone,
  with rows as units, after ``make bench-peers``;
- ``tabularargn``: MOSTLY AI's TabularARGN, ten minutes of training at most. With an epsilon (``tabularargn:1``) it is
  trained by DP-SGD, whose unit is a row. It is there after ``make bench-peers``, runs in an environment of its own, and
  its seconds and memory are those of its own process.
"""

import argparse
import json
import math
import statistics
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import synth
from benchmarks.evaluation import outcome
from benchmarks.leaking_tables import cart
from benchmarks.looks import looks
from benchmarks.peer import PEERS, PeerRun, is_peer, run_peer
from benchmarks.peers.evaluated import measured
from benchmarks.private import limited
from benchmarks.runs import NOT_INSTALLED, about, keep, read_kept
from benchmarks.scoring import Scorer
from benchmarks.shelf_curves import draw_curves
from benchmarks.shelf_page import page, pictures
from benchmarks.sides import Sides
from synth.schema import Schema

DELTA = 1e-6
"""Of fits with an epsilon; a tenth of a row where that is less."""
TARGETS = {
    "adult": "income", "insurance": "charges", "airbnb_nyc": "price", "diabetes_hospital": "readmitted",
    "credit_default": "default payment", "king_county_housing": "price", "hmeq": "BAD", "nist_ma2018": "OWN_RENT",
    "nist_ma2019": "OWN_RENT", "hotel_bookings": "is_canceled", "german_credit": "default",
}  # fmt: skip
"""Of public tables by the names of their files; of others the last column."""
CART, LEAF = "cart", 5
NETWORKS = ("ctgan", "tvae")
LANDMARKS = ("fresh real rows", "columns shuffled")
FIGURES = {"tv2": "pairs", "tstr": "TSTR", "c2st": "C2ST", "cpu_s": "CPU s"}
"""What is drawn, by name; the file of results holds more."""


def main(arguments: Sequence[str]) -> None:
    """Run what is asked for, keep it in the file after every fit, and draw it."""
    options = _options(arguments)
    if options.point:
        print(json.dumps(_point(options)))
        return
    content: dict[str, Any] = read_kept(options.out, {"about": about(delta=DELTA), "tables": {}})
    for path in _paths(options):
        results = content["tables"].setdefault(_name(path), {})
        for fit in (*LANDMARKS, *options.fits):
            for seed in range(options.seeds):
                runs = results.setdefault(fit, {})
                if _is_to_do(runs.get(str(seed))):
                    runs[str(seed)] = _apart(path, fit, seed, options)
                    keep(options.out, content)
                    print(f"{path.name} {fit} {seed}: {_said(runs[str(seed)])}", file=sys.stderr, flush=True)
    print("\n".join(_drawn(content["tables"])))
    if options.curves is not None:
        options.curves.write_text(draw_curves(content["tables"]), encoding="utf-8")
    if options.page is not None:
        options.page.write_text(page(content["tables"]), encoding="utf-8")


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks.shelf", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, help="of CSV files; none only draws what --out holds")
    parser.add_argument(
        "--fits",
        nargs="+",
        default=["independent:1", "mst:1", "aim:1", "latent_class:1", "aim", "latent_class"],
        help="NAME or NAME:EPSILON",
    )
    parser.add_argument("--tables", nargs="+", default=[], help="names of files without their ends; unless said, all")
    parser.add_argument("--target", nargs="+", default=[], help="TABLE=COLUMN")
    parser.add_argument("--seeds", type=int, default=3, help="splits and fits of each")
    parser.add_argument("--rows", type=int, help="of a table at most, a seeded sample; unless said, all")
    parser.add_argument("--epochs", type=int, help="of networks without epsilon; unless said, as they come")
    parser.add_argument("--limit-s", type=float, default=3600.0, help="seconds of one fit at most")
    parser.add_argument("--out", type=Path, help="JSON file of the results, read and continued")
    parser.add_argument("--page", type=Path, help="HTML file of small pictures of columns")
    parser.add_argument("--curves", type=Path, help="SVG file of curves over epsilon")
    parser.add_argument("--point", nargs=2, metavar=("FIT", "SEED"), help="one fit in this process, printed as JSON")
    return parser.parse_args(arguments)


def _paths(options: argparse.Namespace) -> list[Path]:
    if options.folder is None:
        return []
    paths = sorted([*options.folder.glob("*.csv"), *options.folder.glob("*.csv.gz")])
    return [path for path in paths if not options.tables or _name(path) in options.tables]


def _name(path: Path) -> str:
    return path.name.partition(".")[0]


def _is_to_do(run: Mapping[str, Any] | None) -> bool:
    """True of a run that is not there, and of a peer that was not installed: by now it may be."""
    return run is None or run.get("failure", "").endswith(NOT_INSTALLED)


def _apart(path: Path, fit: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """One fit in a process of its own; whatever goes wrong is a result, too."""
    asked = [str(path.parent), "--tables", _name(path), "--point", fit, str(seed)]
    asked += ["--target", *options.target] if options.target else []
    asked += ["--limit-s", str(options.limit_s)]
    for name in ("rows", "epochs"):
        asked += [f"--{name}", str(vars(options)[name])] if vars(options)[name] else []
    # A peer is stopped by its own parent: else it would go on when that is killed.
    return outcome("benchmarks.shelf", *asked, limit_s=None if is_peer(fit) else options.limit_s)


def _said(run: Mapping[str, Any]) -> str:
    return run.get("failure") or ", ".join(f"{key} {run[key]:.4g}" for key in ("tv3", "tstr", "c2st"))


def _point(options: argparse.Namespace) -> dict[str, Any]:
    """One fit, sample and score."""
    (path,), (fit, seed) = _paths(options), (options.point[0], int(options.point[1]))
    table = pd.read_csv(path, keep_default_na=False, na_values=[""], low_memory=False)
    target = dict(text.split("=", 1) for text in options.target).get(_name(path)) or TARGETS.get(
        _name(path), str(table.columns[-1])
    )
    schema = synth.infer_schema(table, target=target)
    order = np.random.default_rng(seed).permutation(len(table))[: options.rows]
    schema = synth.declare_schema(schema, n_units=len(order), dataset=path.name)
    table = _read(path, schema, {})
    cut = len(order) * 4 // 5
    train, test = (table.iloc[part].reset_index(drop=True) for part in (order[:cut], order[cut:]))
    frames, cost = _measured(fit, (train, test), schema, seed, options)
    if frames.synthetic is None:
        return {"failure": frames.failure}
    names = [name for name in schema.learned if name in frames.synthetic.columns]
    synthetic = _as_read(frames.synthetic, table, schema)
    scorer = Scorer(train[names], test[names], target)
    fresh = fit == LANDMARKS[0]
    figures: dict[str, Any] = {f"tv{i}": scorer.tv(synthetic[names], i) for i in (1, 2, 3)}
    # What is trained on the test rows is not tested on them: fresh rows show how well the training rows do.
    learned = train[names] if fresh else synthetic[names]
    figures |= {"tstr": scorer.tstr(learned), "linear": scorer.linear_tstr(learned)}
    figures |= {"c2st": scorer.c2st(train[names] if fresh else synthetic[names], test[names])}
    figures["column"] = scorer.worst_column(synthetic[names], test[names])
    figures |= asdict(looks(train[names], synthetic[names]))
    figures |= {
        "dropped": sum(column.drop for column in schema.columns.values()),
        "metric": "AUC" if scorer.is_class else "R2",
    }
    figures |= {"cpu_s": cost["cpu_s"], "peak_mib": cost["peak_mib"]}
    if epsilon := fit.partition(":")[2].partition("@")[0]:
        figures["auto"] = synth.generator("auto", **_privacy(epsilon, schema)).chosen(schema).name
    figures |= {"versions": frames.versions} if frames.versions else {}
    return {**figures, **({"pictures": pictures(train[names], synthetic[names])} if seed == 0 else {})}


def _measured(
    fit: str, sides: tuple[pd.DataFrame, pd.DataFrame], schema: Schema, seed: int, options: argparse.Namespace
) -> tuple[PeerRun, Mapping[str, float]]:
    """Synthetic rows made from train, and their cost, which a peer measures itself."""
    if is_peer(fit):
        name, _, epsilon = fit.partition(":")
        run = run_peer(name, sides[0], schema, _privacy(epsilon, schema), seed, options.limit_s)
        return run, run.facts
    synthetic: list[pd.DataFrame] = []
    cost = measured(lambda: synthetic.append(_made(fit, *sides, schema, seed, options.epochs)))
    return PeerRun(synthetic[0]), cost


def _privacy(epsilon: str, schema: Schema) -> dict[str, float]:
    """Epsilon and delta; empty where a fit has none."""
    assert schema.n_units is not None
    return {"epsilon": float(epsilon), "delta": min(DELTA, 1 / (10 * schema.n_units))} if epsilon else {}


def _made(
    fit: str, train: pd.DataFrame, test: pd.DataFrame, schema: Schema, seed: int, epochs: int | None
) -> pd.DataFrame:
    """A synthetic table with as many rows as train, or a landmark."""
    rng = np.random.default_rng(seed)
    if fit == LANDMARKS[0]:
        return test
    if fit == LANDMARKS[1]:
        return pd.DataFrame({name: rng.permutation(train[name].to_numpy()) for name in train})
    if fit == CART:
        learned = train[list(schema.learned)]
        return cart(Sides(learned, learned.head(0), learned), rng, LEAF)
    name, _, epsilon = fit.partition(":")
    if "@" in fit:
        return limited(fit, train, schema, seed, _privacy(epsilon.partition("@")[0], schema))
    own: dict[str, Any] = {"epochs": epochs} if epochs and name.endswith(NETWORKS) and not epsilon else {}
    return synth.fit(train, schema, name, seed=seed, **own, **_privacy(epsilon, schema)).sample(len(train), seed=seed)


def _as_read(synthetic: pd.DataFrame, table: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """The synthetic table as its CSV file is read, every column as the real one is."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "synthetic.csv"
        synthetic.to_csv(path, index=False)
        texts = {name: str for name in synthetic.columns if table[name].dtype == object}
        return _read(path, schema, texts)


def _read(path: Path, schema: Schema, texts: Mapping[str, type]) -> pd.DataFrame:
    """A CSV file, with texts as missing that the schema says stand for it."""
    missing = ["", *schema.missing_values]
    return pd.read_csv(path, keep_default_na=False, na_values=missing, dtype=dict(texts), low_memory=False)


def _drawn(tables: Mapping[str, Any]) -> Iterator[str]:
    """A Markdown table of means over seeds for each figure: a line for each fit, a column for each table.

    Private peers, and fits at other epsilons than 1, stand in tables of their own, one for each epsilon, beside ours.
    """
    fits = list(dict.fromkeys(fit for results in tables.values() for fit in results))
    beside = [fit for fit in fits if fit.startswith(PEERS) or fit.partition(":")[2] not in ("", "1")]
    for key, name in FIGURES.items():
        yield from _lines(name, [fit for fit in fits if fit not in beside], tables, (key,))
    for epsilon in dict.fromkeys(fit.partition(":")[2] for fit in beside):
        compared = [fit for fit in fits if fit.endswith(f":{epsilon}")]
        some = {
            name: results for name, results in tables.items() if any(fit in beside for fit in {*compared} & {*results})
        }
        yield from _lines(f"C2ST / TSTR / CPU s, epsilon {epsilon}", compared, some, ("c2st", "tstr", "cpu_s"))


def _lines(head: str, fits: Sequence[str], tables: Mapping[str, Any], keys: Sequence[str]) -> Iterator[str]:
    yield f"\n| {head} | {' | '.join(tables)} |"
    yield f"| --- |{' ---: |' * len(tables)}"
    for fit in fits:
        runs = [results.get(fit, {}).values() for results in tables.values()]
        cells = [[_cell(each, key) for key in keys] for each in runs]
        shown = [each[0] if {*each} <= {"", "failed"} else " / ".join(each) for each in cells]
        yield f"| {fit} | {' | '.join(shown)} |"


def _cell(runs: Collection[Mapping[str, Any]], key: str) -> str:
    values = [run.get(key, math.nan) for run in runs if "failure" not in run]
    if not values:
        return "failed" if runs else ""
    return "" if any(map(math.isnan, values)) else f"{statistics.fmean(values):.3g}"


if __name__ == "__main__":
    main(sys.argv[1:])
