"""Published marginals: the table that `from_marginals` makes of noisy tables of Adult, beside that of `mst`.

``python -m benchmarks.marginals adult.csv --out marginals.json`` measures whatever the file does not hold; without a
table ``python -m benchmarks.marginals --out marginals.json`` only draws the tables. An office publishes what `mst`
would measure at epsilon 1: each column on its public grid, and the pairs of the tree that a private fit has chosen,
over its merged codes. Then scales are declared wrong: of one table at a time (the largest pairs), and of all.
"""

import argparse
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import synth
from benchmarks.adult_table import DELTA, Adult, read_adult
from benchmarks.runs import keep, read_kept
from benchmarks.scoring import Scorer
from synth.domain import Discretizer
from synth.domain.discretizer import OTHER, Attribute, with_cells
from synth.dp.mechanisms import SystemNoise
from synth.errors import TableError
from synth.generators.fitting.private_fit import CELLS_A_SIGNAL, FEWEST_CELLS
from synth.schema import Schema
from understudy.extras.marginals.model import PublishedModel, from_marginals

EPSILON, SEEDS, N_WRONG = 1.0, 3, 2
WRONG = {"half": (0.5, "too small"), "double": (2.0, "too large")}
PUBLISHER = {"name": "benchmark", "epsilon": EPSILON, "delta": DELTA, "unit": "row"}
SCORES = ("tv1", "tv2", "tv3", "c2st", "tstr")
Tables = dict[str, dict[str, Any]]


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.marginals", description=__doc__)
    parser.add_argument("table", nargs="?", type=Path, help="Adult; none only draws what --out holds")
    parser.add_argument("--out", type=Path, required=True, help="JSON file of the results, read and continued")
    options = parser.parse_args(arguments)
    runs: list[dict[str, Any]] = read_kept(options.out, [])
    adult = None if options.table is None else read_adult(options.table)
    for seed in range(SEEDS) if adult is not None else ():
        if adult is not None and all(run["seed"] != seed for run in runs):
            runs += measured(adult, seed)
            keep(options.out, runs)
    print(_drawn(runs))


def measured(adult: Adult, seed: int) -> Iterator[dict[str, Any]]:
    scorer, started = Scorer(adult.train, adult.test, adult.target), time.process_time()
    model: Any = synth.fit(adult.train, adult.plain, "mst", epsilon=EPSILON, delta=DELTA)
    seconds = {"mst": time.process_time() - started}
    tables = published(adult.train, adult.plain, model)
    started = time.process_time()
    ours, told = fitted(tables, adult.plain)
    seconds["marginals"] = time.process_time() - started
    yield {"of": "check", "seed": seed, "name": "all", "declared": "as it is", "told": told, "caught": bool(told)}
    for name, each in (("mst", model), ("marginals", ours)):
        assert each is not None, told
        drawn = each.sample(len(adult.train), seed=seed)
        scores = {score: float(getattr(scorer, score)(drawn)) for score in ("c2st", "tstr")}
        scores |= {f"tv{order}": scorer.tv(drawn, order) for order in (1, 2, 3)}
        yield {"of": "fit", "seed": seed, "name": name, "cpu_s": seconds[name], **scores}
    pairs = sorted((name for name in tables if " x " in name), key=lambda name: -len(tables[name]["cells"]))[:N_WRONG]
    for declared, (factor, direction) in WRONG.items():
        for name in (*pairs, "all"):
            wrong = {each: {**tables[each], "scale": tables[each]["scale"] * factor} for each in tables}
            told = fitted({**tables, **(wrong if name == "all" else {name: wrong[name]})}, adult.plain)[1]
            is_named = ("the tables differ" if name == "all" else f"table={name!r} differs") in told
            right = {"caught": bool(told), "direction": direction in told, "named": is_named}
            yield {"of": "check", "seed": seed, "name": name, "declared": declared, "told": told, **right}


def fitted(tables: Tables, schema: Schema) -> tuple[PublishedModel | None, str]:
    """A model, and what the check says of the tables; it says nothing where all is as declared."""
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        try:
            model = from_marginals(tables, schema, publisher=PUBLISHER)
        except TableError as error:
            return None, str(error)
    return model, "; ".join(str(note.message) for note in notes)


def published(train: pd.DataFrame, schema: Schema, model: Any) -> Tables:
    """What an office would publish: columns on public grids, and the tree of a private fit. `train`: *Sensitive*."""
    columns, pairs = (event.noise["sigma"] for event in model.statement.events if event.mechanism == "Gaussian")
    most = max(CELLS_A_SIGNAL * (schema.n_units or 0) / columns, FEWEST_CELLS)
    fine = [with_cells(attribute, most) for attribute in Discretizer.by_schema(schema).attributes]
    merged = {attribute.name: attribute for attribute in model.discretizer.attributes}
    tree = [factor.attributes for factor in model.distribution.potentials if len(factor.attributes) == 2]
    tables = {each.name: _counted(train, [each], columns) for each in fine}
    return tables | {" x ".join(pair): _counted(train, [merged[name] for name in pair], pairs) for pair in tree}


def _counted(train: pd.DataFrame, attributes: Sequence[Attribute], sigma: float) -> dict[str, Any]:
    labels = [_labels(attribute) for attribute in attributes]
    codes = [attribute.codes(train[attribute.name]) for attribute in attributes]
    counts = np.zeros([attribute.size for attribute in attributes], dtype=np.int64)
    np.add.at(counts, tuple(codes), 1)
    noisy = SystemNoise().gaussian(counts[np.ix_(*(list(each) for each in labels))], sigma)
    index = pd.MultiIndex.from_product([each.values() for each in labels], names=[each.name for each in attributes])
    groups = {each.name: _groups(each) for each in attributes if _groups(each)}
    cells = index.to_frame(index=False).assign(value=noisy.ravel())
    return {"cells": cells, "mechanism": "discrete gaussian", "scale": sigma, "groups": groups}


def _labels(attribute: Attribute) -> dict[int, Any]:
    """What each code that may be is called: a category, a group, or where a stretch begins."""
    firsts = {code: int(np.flatnonzero(attribute.group == code)[0]) for code in range(attribute.size - 1)}
    if attribute.edges is None:
        names = {
            code: attribute.column.levels[cell] for code, cell in firsts.items() if cell < attribute.n_cells + OTHER
        }
        names |= {code: name for name, code in zip(_groups(attribute), _codes_of_groups(attribute), strict=True)}
    else:
        starts = attribute.edges[[*firsts.values()][: OTHER + 1]] + (attribute.column.unit or 0) / 2
        names = dict(zip(firsts, attribute.placed(starts), strict=False))
    possible = [code for code in range(attribute.size) if code not in attribute.impossible]
    return {code: names.get(code) for code in possible}


def _codes_of_groups(attribute: Attribute) -> list[int]:
    counts = np.bincount(attribute.group[:OTHER], minlength=attribute.size)
    is_shared = (counts > 1) | ((counts > 0) & (np.arange(attribute.size) == attribute.size + OTHER))
    return [] if attribute.edges is not None else np.flatnonzero(is_shared).tolist()


def _groups(attribute: Attribute) -> dict[str, list[Any]]:
    levels = attribute.column.levels
    return {
        f"group {code}": [levels[cell] for cell in np.flatnonzero(attribute.group[:OTHER] == code)]
        for code in _codes_of_groups(attribute)
    }


def _drawn(runs: Sequence[dict[str, Any]]) -> str:
    """The tables of the manual."""
    lines = [f"| | CPU s | {' | '.join(SCORES)} |", f"| --- {'| ---: ' * 6}|"]
    for name in ("mst", "marginals"):
        own = [run for run in runs if run["of"] == "fit" and run["name"] == name]
        if own:
            means = [f"{np.mean([run[score] for run in own]):.4f}" for score in SCORES]
            lines.append(f"| {name} | {np.mean([run['cpu_s'] for run in own]):.1f} | {' | '.join(means)} |")
    header = ("scale declared", "tables", "checks", "caught", "direction", "named")
    lines += ["", f"| {' | '.join(header)} |", f"| --- | --- {'| ---: ' * 4}|"]
    for declared in ("as it is", *WRONG):
        for what in ("one", "all"):
            own = [run for run in runs if run.get("declared") == declared and (run["name"] == "all") == (what == "all")]
            sums = [str(sum(run.get(key, 0) for run in own)) for key in ("caught", "direction", "named")]
            lines += [f"| {declared} | {what} | {len(own)} | {' | '.join(sums)} |"] * bool(own)
    return "\n".join(lines)


if __name__ == "__main__":
    main(sys.argv[1:])
