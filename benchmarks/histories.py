"""Histories by our generators, by the same without an order, and by SDV's PAR: the figures of evaluation, side by side.

``python -m benchmarks.histories --out histories.json``; ``--table CSV --entity NAME --order NAME`` takes another table,
whose schema is inferred. Half of the entities are trained on, and the others are fresh. Each run is written as
soon as it is done, and is not done again. Without ``--run``, only the table of results is drawn.

- `trees`, `arn`, `aim` and `mst` draw a row given the row before.
- "rows alone" are the same generators under a schema without an order: rows of an entity are drawn independently.
- `sdv.par` is a recurrent network for sequences (Zhang, Patki, Veeramachaneni 2022), as it comes. It is
  trained on `PAR_ENTITIES` entities at most, for time.
- "fresh" are the histories of the other half, and "dealt" are training rows dealt at random to entities.
"""

import argparse
import json
import math
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import synth
from benchmarks.history_tables import patients, patients_schema, shoppers, shoppers_schema
from evaluate.estimate import NotMeasuredError
from evaluate.fidelity.dependence import Squares
from evaluate.fidelity.samples import SYNTHETIC
from evaluate.tables import Tables
from synth.generators import registry
from synth.generators.base import fit_model
from synth.row_order import histories_of
from synth.schema import Schema, build_schema
from synth.table import conform
from understudy.extras.histories import fidelity, next_event
from understudy.extras.histories.fidelity import HistorySamples, StepCodes, varying

N_ENTITIES = 6_000
PAR_ENTITIES = 3_000
"""Entities that PAR is trained on at most, and draws as many of."""
OURS: dict[str, dict[str, Any]] = {
    "trees": {}, "arn": {}, "aim": {}, "aim at 1": {"epsilon": 1.0}, "aim at 3": {"epsilon": 3.0},
    "mst at 3": {"epsilon": 3.0},
}  # fmt: skip
RUNS = ("fresh", "dealt", *OURS, *(f"{name}, rows alone" for name in ("trees", "aim at 1", "aim at 3")), "sdv.par")
SHOWN = {
    "histories.lengths": "rows an entity", "histories.gaps": "gaps", "histories.transitions.mean": "transitions",
    "histories.dependence.floor_share": "ties lost", "histories.lag.mean": "lag 1",
    "histories.constants.broken": "constants broken", "histories.nondecreasing.broken": "falls",
    "utility.next_event.tstr": "next event", "cpu_s": "fit and sample, CPU s",
}  # fmt: skip
SDTYPES = {
    "identifier": "id", "categorical": "categorical", "boolean": "boolean", "date": "datetime", "datetime": "datetime",
}  # fmt: skip
"""SDV's names of the kinds of columns that are no numbers."""


def main(arguments: Sequence[str]) -> None:
    """Runs that are asked for and not done yet, then the table of all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "histories.json")
    parser.add_argument("--run", nargs="*", choices=RUNS, metavar="NAME", help=f"one or more of: {', '.join(RUNS)}")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--table", type=Path)
    parser.add_argument("--entity")
    parser.add_argument("--order")
    parser.add_argument("--constant", nargs="*", default=[])
    parser.add_argument("--rows-per-entity", type=int, default=4)
    asked = parser.parse_args(arguments)
    done: list[dict[str, Any]] = json.loads(asked.out.read_text()) if asked.out.exists() else []
    for name, read in _tables(asked).items():
        for run in asked.run or ():
            for seed in range(asked.seeds):
                key = {"table": name, "run": run, "seed": seed}
                if any(key.items() <= each.items() for each in done):
                    continue
                done.append({**key, **_measured(run, *read(seed), seed)})
                asked.out.write_text(json.dumps(done, indent=1) + "\n")
    print(drawn(done))


def _tables(asked: argparse.Namespace) -> dict[str, Callable[[int], tuple[pd.DataFrame, pd.DataFrame, Schema]]]:
    """By name, what gives a training half, a fresh half and the schema, by seed."""
    if asked.table is None:
        return {
            "patients": lambda seed: _halves(patients(N_ENTITIES, seed), patients_schema(), seed),
            "shoppers": lambda seed: _halves(shoppers(N_ENTITIES, seed), shoppers_schema(), seed),
        }
    rows = pd.read_csv(asked.table, keep_default_na=False, na_values=[""], low_memory=False)
    for name in asked.constant:  # as a schema may promise it
        rows[name] = rows.groupby(asked.entity)[name].transform("first")
    inferred = synth.infer_schema(rows).model_dump(mode="json")
    for name in {asked.entity, asked.order}:
        if name == asked.entity or rows[name].is_unique:
            inferred["columns"][name] = {"kind": "identifier", "bounds": [0, 10**12]}
    inferred["constraints"] = [each for each in inferred["constraints"] if each.get("proposed") is None]
    inferred |= {
        "status": "declared", "n_units": 10 * math.ceil(rows[asked.entity].nunique() / 10), "entity": asked.entity,
        "order": asked.order, "constant_in_entity": asked.constant, "nondecreasing_in_entity": [],
        "max_rows_per_unit": asked.rows_per_entity,
    }  # fmt: skip
    schema = build_schema(inferred)
    return {asked.table.name.split(".")[0]: lambda seed: _halves(rows, schema, seed)}


def _halves(rows: pd.DataFrame, schema: Schema, seed: int) -> tuple[pd.DataFrame, pd.DataFrame, Schema]:
    """The rows of half of the entities, and those of the others."""
    codes, entities = pd.factorize(rows[schema.entity])
    train = np.random.default_rng(seed).permutation(len(entities)) < len(entities) // 2
    inside = train[codes]
    return rows[inside].reset_index(drop=True), rows[~inside].reset_index(drop=True), schema


def _measured(run: str, train: pd.DataFrame, fresh: pd.DataFrame, schema: Schema, seed: int) -> dict[str, Any]:
    """The figures of one run, and the processor seconds of its fit and sample."""
    started = time.process_time()
    synthetic = _made(run, train, fresh, schema, seed)
    seconds = time.process_time() - started
    half = np.random.default_rng(seed).permutation(np.unique(fresh[schema.entity]))
    is_holdout = (
        fresh[schema.entity].isin(half[: len(half) // 2]) if run == "fresh" else np.ones(len(fresh), dtype=bool)
    )
    synthetic = fresh[~is_holdout].reset_index(drop=True) if run == "fresh" else synthetic
    open_units = schema.model_copy(update={"n_units": None})
    tables = Tables.prepare(
        train, fresh[is_holdout].reset_index(drop=True), synthetic, open_units, seed=seed, outside="clamp"
    )
    of_histories = fidelity.measure(tables)
    runs, samples = of_histories.estimates, HistorySamples.of(tables)
    gaps = None if schema.columns[str(schema.order)].is_identifier else fidelity.gap_distance(samples)
    distances = {"lengths": fidelity.length_distance(samples), "gaps": gaps}
    figures = {f"histories.{name}": float(each.replicates[SYNTHETIC, 0]) for name, each in distances.items() if each}
    lags = {n: lag_correlations(n, samples, schema) for n in varying(tables.schema) if schema.columns[n].is_line}
    figures |= {"histories.lag.mean": statistics.mean(abs(a - b) for a, b in lags.values())} if lags else {}
    steps = of_histories.figures["histories"]["transitions"]
    figures["histories.transitions.mean"] = statistics.mean(column["tvd"] for column in steps)
    figures |= {each.measure: each.value for each in runs}
    for name, columns in (("constants", schema.constant_in_entity), ("nondecreasing", schema.nondecreasing_in_entity)):
        each = samples.others[SYNTHETIC]
        broken = [fidelity.count_broken(each, column, schema) / each.n_histories for column in columns]
        figures[f"histories.{name}.broken"] = max(broken, default=0.0)
    codes = {name: StepCodes.of(name, samples, tables.schema) for name in varying(tables.schema)}
    if telling := fidelity.dependences(samples, codes)[0]:
        figures["histories.dependence.floor_share"] = Squares.total(telling.values()).share(SYNTHETIC)
    with suppress(NotMeasuredError):
        figures["utility.next_event.tstr"] = next_event.score_and_loss(tables)[0].value
    return {"cpu_s": seconds, **{name: figures[name] for name in SHOWN if name in figures}}


def lag_correlations(name: str, samples: HistorySamples, schema: Schema) -> tuple[float, float]:
    """The correlation of a number or time with its value in the row before, in training and in synthetic histories.

    Values are ranked among all of the training table.
    """
    column, equal, correlations = schema.columns[name], samples.equal_steps(), list[float]()
    known = np.sort(column.positions(equal.train.frame[name]))
    known = known[~np.isnan(known)]
    for each in (equal.train, equal.others[SYNTHETIC]):
        values = column.positions(each.frame[name])
        ranks = (known.searchsorted(values, "left") + known.searchsorted(values, "right")) / (2.0 * max(len(known), 1))
        now, before = each.histories.pairs
        there = ~(np.isnan(values[now]) | np.isnan(values[before]))
        x, y = ranks[before][there], ranks[now][there]
        varies = len(x) > 1 and min(np.ptp(x), np.ptp(y)) > 0
        correlations.append(float(np.corrcoef(x, y)[0, 1]) if varies else 0.0)
    return correlations[0], correlations[1]


def _made(run: str, train: pd.DataFrame, fresh: pd.DataFrame, schema: Schema, seed: int) -> pd.DataFrame:
    if run == "fresh":
        return fresh
    if run == "dealt":
        owners = np.random.default_rng(seed).permutation(train[schema.entity].to_numpy())
        return train.assign(**{str(schema.entity): owners})
    if run == "sdv.par":
        return _par(train, schema)
    name, _, alone = run.partition(",")
    update = {"order": None, "nondecreasing_in_entity": ()} if alone else {}
    known = schema.model_copy(update=update)
    generator = registry.generator(name.split()[0], **OURS[name])
    if generator.promises:
        known = known.model_copy(update={"n_units": train[schema.entity].nunique()})
    rows = conform(train, schema.model_copy(update={"n_units": None}), outside="clamp")
    return fit_model(generator, rows, known, seed=seed).sample(seed=seed)


def _par(train: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """SDV's synthesizer of sequences, on at most `PAR_ENTITIES` entities."""
    from sdv.metadata import Metadata
    from sdv.sequential import PARSynthesizer

    some = pd.unique(train[schema.entity])[:PAR_ENTITIES]
    rows = train[train[schema.entity].isin(some)].copy()
    runs = histories_of(conform(rows, schema, outside="clamp"), schema)
    rows = rows.iloc[runs.rows].reset_index(drop=True)
    rows[schema.entity] = rows[schema.entity].astype(str)
    for name in rows.select_dtypes("datetime"):
        rows[name] = rows[name].astype("datetime64[ns]")  # it takes microseconds for nanoseconds
    kept = [name for name in schema.kept if name == schema.entity or name in schema.learned]
    columns = {name: {"sdtype": SDTYPES.get(schema.columns[name].kind, "numerical")} for name in kept}
    described = {"columns": columns, "sequence_key": schema.entity}
    if schema.order in kept:
        described["sequence_index"] = schema.order
    metadata = Metadata.load_from_dict({"tables": {"rows": described}, "relationships": []})
    constant = [name for name in schema.constant_in_entity if name in kept]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        synthesizer = PARSynthesizer(metadata, context_columns=constant, cuda=False)
        synthesizer.fit({"rows": rows[kept]})
        synthetic = synthesizer.sample_sequences(len(some))
    synthetic = synthetic["rows"] if isinstance(synthetic, dict) else synthetic
    if schema.order not in kept:  # an identifier: rows follow each other as they were drawn
        synthetic[schema.order] = np.arange(1, len(synthetic) + 1)
    for name in schema.kept:
        if name not in synthetic:
            synthetic[name] = None
    kept_as_read: pd.DataFrame = synthetic[list(schema.kept)]
    return kept_as_read


def drawn(done: Sequence[dict[str, Any]]) -> str:
    """The results as text: for each table and run the median over seeds."""
    lines = []
    for table in dict.fromkeys(each["table"] for each in done):
        lines += [f"{table}:", " | ".join(["", *SHOWN.values()])]
        for run in RUNS:
            runs = [each for each in done if (each["table"], each["run"]) == (table, run)]
            cells = [_cell([each[name] for each in runs if name in each]) for name in SHOWN]
            lines += [" | ".join([run, *cells])] if runs else []
        lines.append("")
    return "\n".join(lines)


def _cell(values: Sequence[float]) -> str:
    """The median, and the range where there are several."""
    if not values:
        return "-"
    spread = f" ({min(values):.3f} to {max(values):.3f})" if len(values) > 1 else ""
    return f"{statistics.median(values):.3f}{spread}"


if __name__ == "__main__":
    main(sys.argv[1:])
