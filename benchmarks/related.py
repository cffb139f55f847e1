"""Related tables: ours and SDV's HMA on the same ones, beside fresh real tables.

``python -m benchmarks.related --out benchmarks/related.json`` fits `benchmarks.related_tables`, each in a process of
its own with one thread, and draws a table of what came of it:

- keys: the least share of valid rows over all keys
- numbers of rows, parents, grandparents: the mean distance from the training tables over that of fresh ones, of how
  many rows name a row, and of pairs of a column and one of a parent's or of its parents' (`us.evaluate_related`)
- shuffled: the same of parents' columns that are shuffled

HMA refuses more than five tables and more than two levels. `orders` are customers, orders and lines of a small shop,
for which that check is taken out.
``--large`` fits 100,000 regions with all below them, and measures processor seconds and memory.
Source of HMA: Patki, Wedge, Veeramachaneni 2016, "The Synthetic Data Vault", as `sdv` has it.
"""

import argparse
import json
import resource
import statistics
import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

import understudy as us
from benchmarks.evaluation import outcome
from benchmarks.related_tables import ORDERS_KEYS, RECORDS_KEYS, SHOP_KEYS, records, shop, shop_schemas
from benchmarks.runs import about, keep, read_kept

FITS, SEEDS = ("trees", "sdv.hma"), {"sdv.hma": 1}  # seeds of fits, three of others
OF: Mapping[str, Any] = {
    "orders": (lambda n, seed: _orders(n, seed), ORDERS_KEYS, (), 150),
    "shop": (shop, SHOP_KEYS, ("product",), 2000),
    "records": (records, RECORDS_KEYS, ("country",), 4000),
}
MEASURES = ("numbers of rows", "parents", "grandparents")
LIMIT_S = 3600.0


def main(arguments: Sequence[str]) -> None:
    """Run what is asked for, keep it in the file after every fit, and draw it."""
    parser = argparse.ArgumentParser("python -m benchmarks.related", description=__doc__)
    parser.add_argument("--fits", nargs="+", default=[*FITS], help="trees, sdv.hma, or NAME:EPSILON of the shop")
    parser.add_argument("--tables", nargs="+", default=[*OF])
    parser.add_argument("--out", type=Path, help="JSON file of the results, read and continued")
    parser.add_argument("--large", action="store_true", help="fit 100,000 regions, too")
    parser.add_argument("--point", nargs=3, metavar=("TABLES", "FIT", "SEED"), help="one fit in this process")
    options = parser.parse_args(arguments)
    if options.point:
        name, fit, seed = options.point
        print(json.dumps(_large() if name == "large" else _point(name, fit, int(seed))))
        return
    content: dict[str, Any] = read_kept(options.out, {"about": about(), "runs": {}})
    points = [
        (name, fit, str(seed)) for name in options.tables for fit in options.fits for seed in range(SEEDS.get(fit, 3))
    ]
    for point in [*points, *([("large", "trees", "0")] if options.large else [])]:
        key = " ".join(point)
        if key not in content["runs"]:
            content["runs"][key] = outcome("benchmarks.related", "--point", *point, limit_s=LIMIT_S)
            print(key, content["runs"][key], file=sys.stderr, flush=True)
            keep(options.out, content)
    print(draw(content["runs"]))


def draw(runs: Mapping[str, Any]) -> str:
    """One Markdown table: means over seeds."""
    lines = [
        f"| tables | fit | keys | {' | '.join(MEASURES)} | shuffled | CPU s |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    of_fits: dict[tuple[str, str], list[Any]] = {}
    for key, run in runs.items():
        name, fit, _ = key.split(" ")
        if "failure" not in run and name != "large":
            of_fits.setdefault((name, fit), []).append(run)
    for (name, fit), each in of_fits.items():
        mean = {what: statistics.fmean(run[what] for run in each) for what in (*MEASURES, "shuffled", "cpu_s")}
        figures = " | ".join(f"{mean[what]:.2f}" for what in (*MEASURES, "shuffled"))
        lines.append(f"| {name} | {fit} | {min(run['keys'] for run in each):.4f} | {figures} | {mean['cpu_s']:.1f} |")
    for key, run in runs.items():
        if "failure" in run:
            lines.append(f"\n{key}: {run['failure']}")
        elif key.startswith("large"):
            lines.append(
                f"\n{run['n_roots']:,} regions, {run['n_rows']:,} rows: {run['cpu_s']:.0f} CPU s, {run['gb']:.1f} GB"
            )
    return "\n".join(lines)


def _point(name: str, fit: str, seed: int) -> dict[str, Any]:
    make, keys, kept, n = OF[name]
    train, holdout = make(n, seed), make(n, seed + 100)
    start = time.process_time()
    if fit == "sdv.hma":
        from sdv.errors import SynthesizerInputError

        try:
            synthetic = _hma(train, keys, limited=name != "orders")
        except SynthesizerInputError as error:
            return {"failure": str(error).partition("\n")[0]}
    else:
        generator, _, epsilon = fit.partition(":")
        more: dict[str, Any] = {"unit": "customer"}
        if epsilon:  # a customer with all below is the unit, and regions are public
            train, holdout, kept = _without_regions(train), _without_regions(holdout), ("product",)
            keys = {t: each for t, each in keys.items() if t != "region"}
            keys["customer"] = "customer_id"
            keys = {**keys, "line": {**keys["line"], "most_of_unit": 12}}
            more = {"epsilon": float(epsilon), "schemas": _of_customers(len(train["customer"]))}
        model = us.fit_related(train, keys, generator, keep=kept, seed=seed, **more)
        synthetic = model.sample(seed=seed)
    cpu_s = time.process_time() - start
    found = us.evaluate_related(
        train, synthetic, holdout=holdout, keys=keys, keep=kept, attacks=fit == "trees" and make is shop
    )
    of_parents = [each for each in found.compared if each.what == "parents"]
    shuffled = sum(e.shuffled * e.n for e in of_parents) / sum(e.fresh * e.n for e in of_parents)
    attack = {"attack": found.attack} if found.attack else {}
    return {
        "cpu_s": cpu_s, "keys": min(found.keys.values()), "shuffled": shuffled,
        **{what: found.ratio(what) for what in MEASURES}, **attack,
    }  # fmt: skip


def _orders(n: int, seed: int) -> dict[str, pd.DataFrame]:
    """Customers, orders and lines alone."""
    tables = _without_regions(shop(n, seed))
    return {"customer": tables["customer"], "order": tables["order"], "line": tables["line"].drop(columns="product_id")}


def _without_regions(tables: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    customers = tables["customer"].drop(columns="region_id")
    return {**{name: table for name, table in tables.items() if name != "region"}, "customer": customers}


def _of_customers(n: int) -> Mapping[str, Any]:
    schemas = dict(shop_schemas(n))
    columns = {c: column for c, column in schemas["customer"].columns.items() if c != "region_id"}
    return {**schemas, "customer": schemas["customer"].model_copy(update={"columns": columns})}


def _hma(tables: Mapping[str, pd.DataFrame], keys: Mapping[str, Any], *, limited: bool) -> dict[str, pd.DataFrame]:
    """SDV's tables, which knows keys of one column; lookup tables are learned as any other."""
    from sdv.metadata import Metadata
    from sdv.multi_table import HMASynthesizer

    class Unlimited(HMASynthesizer):  # type: ignore[misc]
        def _validate_schema_complexity(self) -> None:
            pass

    declared = us.Keys.of(keys)
    content = Metadata.detect_from_dataframes(dict(tables)).to_dict()
    content["relationships"] = []
    for name, own in declared.tables.items():
        table = content["tables"][name]
        table.pop("primary_key", None)
        for column in (*own.primary[:1], *(key.columns[0] for key in own.foreign)):
            table["columns"][column] = {"sdtype": "id"}
        if len(own.primary) == 1:
            table["primary_key"] = own.primary[0]
        content["relationships"] += [
            {"parent_table_name": key.table, "child_table_name": name,
             "parent_primary_key": declared.tables[key.table].primary[0], "child_foreign_key": key.columns[0]}
            for key in own.foreign
        ]  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kind = HMASynthesizer if limited else Unlimited
        synthesizer = kind(Metadata.load_from_dict(content), verbose=False)
        synthesizer.fit(dict(tables))
        drawn: dict[str, pd.DataFrame] = synthesizer.sample_scale(1.0)
    return drawn


def _large() -> dict[str, Any]:
    tables = shop(100_000, customers=1.0)
    start = time.process_time()
    synthetic = us.fit_related(tables, SHOP_KEYS, "trees", keep=("product",), unit="customer").sample(seed=0)
    return {
        "n_roots": 100_000, "n_rows": sum(map(len, synthetic.values())), "cpu_s": time.process_time() - start,
        "gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1:])
