"""Measured bounds: what they clamp, how far they reach, and what a table costs whose whole domain is measured.

``python -m benchmarks.bounds --clamped insurance.csv:charges --distances adult.csv visits.csv:patient --out
bounds.json``. ``--clamped`` names a table and the column whose bounds are measured, the rest declared; two tables made
here, of signed amounts and of visits with dates, stand beside it. ``--distances`` names tables of which all bounds and
categories are measured, after a colon the column that names the entity. Every fit is private and draws the system's
noise, so that no two runs are alike. ``python -m benchmarks.bounds --out bounds.json`` only draws the tables.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import evaluate
import synth
from benchmarks.runs import keep, read_kept
from synth.declare import measurable
from synth.dp.budget import Budget
from synth.generators.base import PrivateGenerator
from synth.generators.fitting.private_fit import measure_domain
from synth.generators.fitting.training_data import TrainingTable, bound_contributions
from synth.generators.registry import generator
from synth.schema import Schema, build_schema
from synth.table import conform
from synth.table.rows import Rows

GENERATOR = "mst"
EPSILONS = (0.3, 0.5, 1.0, 3.0)
SEEDS = 3
ROWS_OF_ENTITY = 3
"""Rows of one entity that a fit uses at most."""


@dataclass(frozen=True)
class Bounded:
    """Bounds of one column, measured many times.

    Attributes:
        table: its name.
        column: whose bounds were measured.
        epsilon: of each fit.
        how: "fit", or "simulation", which ends when the domain is measured.
        clamped: share of the present values beyond the bounds, for each time.
        ratio: measured range over true range, for each time.
    """

    table: str
    column: str
    epsilon: float
    how: str
    clamped: list[float]
    ratio: list[float]


@dataclass(frozen=True)
class Distance:
    """A table whose whole domain was measured, beside the same table with its domain declared.

    Attributes:
        table: its name.
        epsilon: of each fit.
        domain: "measured" or "declared".
        seed: of the split and of the sample.
        column: mean over the columns of the total variation distance to the holdout.
    """

    table: str
    epsilon: float
    domain: str
    seed: int
    column: float


def main(arguments: Sequence[str]) -> None:
    options = _options(arguments)
    content: dict[str, Any] = read_kept(options.out, {})
    if options.clamped:
        content["clamped"] = [asdict(each) for each in _clamped(options)]
    if options.distances:
        content["distances"] = [asdict(each) for each in _distances(options)]
    keep(options.out, content)
    print("\n".join(_drawn(content)))


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks.bounds", description=__doc__)
    parser.add_argument("--clamped", metavar="TABLE:COLUMN", help="a CSV file and the column to measure")
    parser.add_argument("--distances", metavar="TABLE[:ENTITY]", nargs="+", help="CSV files to measure as a whole")
    parser.add_argument("--epsilons", type=float, nargs="+", default=EPSILONS, help="of the fits whose bounds are read")
    parser.add_argument("--fits", type=int, default=20, help="fits of each table at each epsilon")
    parser.add_argument("--simulations", type=int, default=200, help="domains measured without a fit, of each")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="splits of each table that is measured as a whole")
    parser.add_argument("--out", type=Path, help="JSON file of the results")
    return parser.parse_args(arguments)


def signed_amounts(n_rows: int = 400) -> tuple[pd.DataFrame, Schema]:
    """Bookings of both signs with heavy tails, a third of them zero; the bounds of the amount are not public."""
    rng = np.random.default_rng(0)
    amount = np.exp(rng.normal(5, 2, n_rows)) * rng.choice([-1.0, 0.0, 1.0], n_rows)
    frame = pd.DataFrame({"amount": amount.round(2), "branch": rng.choice(["north", "south"], n_rows)})
    columns = {
        "amount": {"kind": "real", "decimals": 2, "measure": True},
        "branch": {"kind": "categorical", "categories": ["north", "south"]},
    }
    return frame, _declared({"n_units": n_rows, "columns": columns})


def dated_visits(n_patients: int = 600) -> tuple[pd.DataFrame, Schema]:
    """Visits of two years, several of each patient; the bounds of the day are not public."""
    rng = np.random.default_rng(0)
    who = np.repeat(np.arange(n_patients), rng.integers(1, ROWS_OF_ENTITY + 1, n_patients))
    first = np.datetime64("2021-03-01") + rng.integers(0, 500, n_patients)
    day = first[who] + rng.integers(0, 230, len(who))
    frame = pd.DataFrame({"who": who, "day": day.astype("datetime64[us]"), "ill": rng.random(len(who)) < 0.3})
    columns = {
        "who": {"kind": "identifier", "bounds": [0, 10**6]},
        "day": {"kind": "date", "measure": True},
        "ill": {"kind": "boolean"},
    }
    entity = {"entity": "who", "max_rows_per_unit": ROWS_OF_ENTITY}
    return frame, _declared({"n_units": n_patients, "columns": columns, **entity})


def _declared(content: dict[str, Any]) -> Schema:
    return build_schema({"status": "declared", **content})


def _clamped(options: argparse.Namespace) -> Iterator[Bounded]:
    path, column = options.clamped.rsplit(":", 1)
    frame = synth.read_table(Path(path))
    schema = synth.declare_schema(synth.infer_schema(frame), n_units=len(frame), measure=[column])
    tables = {
        Path(path).name.split(".")[0]: (frame, schema),
        "signed amounts": signed_amounts(),
        "dated visits": dated_visits(),
    }
    for name, (rows, declared) in tables.items():
        for epsilon in options.epsilons:
            for how, times in (("fit", options.fits), ("simulation", options.simulations)):
                if times:
                    yield _bounded(name, rows, declared, epsilon, how, times)


def _bounded(name: str, frame: pd.DataFrame, schema: Schema, epsilon: float, how: str, times: int) -> Bounded:
    """Bounds measured so many times over."""
    chosen = generator(GENERATOR, epsilon=epsilon)
    assert isinstance(chosen, PrivateGenerator)
    (column,) = schema.measured
    exists = conform(frame, schema, outside="clamp")
    positions = schema.columns[column].positions(exists[column])  # type: ignore[arg-type]
    positions = positions[~np.isnan(positions)]
    schedule = chosen.schedule(schema)
    assert schedule is not None
    clamped, ratio = [], []
    for _ in range(times):
        if how == "fit":
            measured = chosen.fit(frame, schema, budget=Budget(schedule)).schema
        else:
            rows = TrainingTable(bound_contributions(Rows.of(exists, schema), schema))
            measured = measure_domain(rows, schema, Budget(schedule))
        low, high = measured.columns[column].ends  # type: ignore[arg-type]
        clamped.append(float(((positions < low) | (positions > high)).mean()))
        ratio.append(float((high - low) / np.ptp(positions)))
    return Bounded(name, column, epsilon, how, clamped, ratio)


def _distances(options: argparse.Namespace) -> Iterator[Distance]:
    for named in options.distances:
        path, _, entity = named.partition(":")
        frame = synth.read_table(Path(path))
        inferred = synth.infer_schema(frame, **({"entity": entity} if entity else {}))
        if entity:
            inferred = inferred.model_copy(update={"max_rows_per_unit": ROWS_OF_ENTITY})
        n_units = frame[entity].nunique() if entity else len(frame)
        domains = {"measured": measurable(inferred), "declared": ()}
        for domain, names in domains.items():
            schema = synth.declare_schema(inferred, n_units=n_units, measure=names)
            for seed in range(options.seeds):
                column = _column_distance(frame, schema, seed)
                yield Distance(Path(path).name.split(".")[0], 1.0, domain, seed, column)


def _column_distance(frame: pd.DataFrame, schema: Schema, seed: int) -> float:
    """The mean column distance of one private table to the holdout."""
    sides = synth.split_table(frame, schema, seed=seed)
    model = synth.fit(sides.train, schema, GENERATOR, seed=seed, epsilon=1.0)
    synthetic = model.sample(len(sides.train), seed=seed)
    measures = ["fidelity.columns"]
    evaluation = evaluate.evaluate(
        sides.train, synthetic, holdout=sides.holdout, schema=schema, measures=measures, seed=seed
    )
    return float(np.mean([column["tvd"] for column in evaluation.candidates[0].figures["columns"]]))


def _drawn(content: dict[str, Any]) -> Iterator[str]:
    """The tables, a line each."""
    for each in content.get("clamped", ()):
        shares, ratios = np.array(each["clamped"]), np.array(each["ratio"])
        yield (
            f"{each['table']}, {each['column']}, epsilon {each['epsilon']:g}, {each['how']} x {len(shares)}: more than "
            f"half clamped in {(shares > 0.5).mean():.3f}, median share {np.median(shares):.3f}; measured range "
            f"/ true: median {np.median(ratios):.2f}, largest {ratios.max():.3g}"
        )
    groups: dict[tuple[str, float, str], list[float]] = {}
    for each in content.get("distances", ()):
        groups.setdefault((each["table"], each["epsilon"], each["domain"]), []).append(each["column"])
    for (table, epsilon, domain), runs in groups.items():
        seeds = ", ".join(f"{value:.4f}" for value in runs)
        yield f"{table}, epsilon {epsilon:g}, {domain}: mean column distance {np.mean(runs):.4f} ({seeds})"


if __name__ == "__main__":
    main(sys.argv[1:])
