"""TVAE over five unlike sites of Adult beside the table in one place and the largest site alone, at epsilon 1.

``python -m benchmarks.sites_training adult.data --out sites_training.json`` prints a table. Sites hold 40, 25, 20, 10
and 5% of the train part, by chance or sorted by age, so that they are unlike in their rows as well. All sites run one
after the other in one process, with secure aggregation.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import tomli_w

from benchmarks.adult_table import DELTA, SCHEMA, Adult, read_adult
from benchmarks.scoring import Scorer
from synth.generators.models.model import Model
from synth.generators.registry import generator
from understudy.extras.sites.channel import LocalChannel
from understudy.extras.sites.job import read_sites_job
from understudy.extras.sites.remote_table import SecureSums, SitesBudget, fit_network
from understudy.extras.sites.site import Site

SHARES = {"first": 0.4, "second": 0.25, "third": 0.2, "fourth": 0.1, "fifth": 0.05}
"""Of the train part, by site."""


@dataclass(frozen=True)
class TrainedPoint:
    """One fit, and its scores.

    Attributes:
        place: "pooled", "largest" or a kind of sites.
        name: of the generator.
        seed: of the cut, and of the sample.
        tv2: mean total variation of two-way marginals.
        tstr: AUC of gradient boosting on test rows.
        linear_tstr: the same of a logistic regression.
        fit_s: seconds.
        n_sums: sums that the server saw; 0 of one table.
        megabytes: between the server and all sites.
    """

    place: str
    name: str
    seed: int
    tv2: float
    tstr: float
    linear_tstr: float
    fit_s: float
    n_sums: int = 0
    megabytes: float = 0.0


def cut(train: pd.DataFrame, seed: int, *, by: str | None = None) -> dict[str, pd.DataFrame]:
    """The rows of each site: by chance, or sorted by a column."""
    order = np.random.default_rng(seed).permutation(len(train))
    mixed = train.iloc[order]
    rows = mixed if by is None else mixed.sort_values(by, kind="stable")
    ends = np.round(np.cumsum(list(SHARES.values())) * len(rows)).astype(int)
    starts = [0, *ends[:-1]]
    return {
        site: rows.iloc[a:b].reset_index(drop=True) for site, a, b in zip(SHARES, starts, ends, strict=True)
    }  # fmt: skip


def over_sites(
    parts: Mapping[str, pd.DataFrame], parameters: Mapping[str, Any], training: Mapping[str, Any]
) -> tuple[Model, dict[str, Any]]:
    """A model of all sites, with the cost of coming by it.

    Args:
        parts: rows by site.
        parameters: of the generator, its name among them.
        training: the job's table of that name.
    """
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "adult.toml").write_text(SCHEMA.read_text())
        content = {"schema": "adult.toml", "generator": dict(parameters), "sites": {site: {} for site in parts}}
        (home / "job.toml").write_text(tomli_w.dumps({**content, "training": dict(training)}))
        inputs = read_sites_job(home / "job.toml")
        sizes: list[int] = []
        sites = {site: Site(site, inputs, rows) for site, rows in parts.items()}
        sums = SecureSums(LocalChannel(sites, lambda site, way, payload: sizes.append(len(payload))), inputs)
        model = fit_network(sums, SitesBudget(inputs.schedule, sums))
    return model, {"n_sums": sums.n_sums, "megabytes": round(sum(sizes) / 1e6, 1)}


def measured(
    adult: Adult, site: str, seed: int, *, name: str = "tvae", epsilon: float = 1.0, **training: Any
) -> TrainedPoint:
    """One fit and its scores.

    Args:
        adult: the table.
        place: "pooled", "largest", "sites" cut by chance, or "sites by age".
        seed: of the cut, and of the sample.
        name: of the generator.
        epsilon: of it.
        training: the job's table of that name.
    """
    parts = cut(adult.train, seed, by="age" if site == "sites by age" else None)
    parameters: dict[str, Any] = {"epsilon": epsilon, "delta": DELTA}
    began, cost = time.monotonic(), {}
    if site in ("pooled", "largest"):
        rows = adult.train if site == "pooled" else parts["first"]
        model: Any = generator(name, **parameters).fit(rows, adult.binned)
    else:
        model, cost = over_sites(parts, {"name": name, **parameters}, training)
    seconds = round(time.monotonic() - began, 1)
    synthetic = model.sample(len(adult.train), seed=seed)
    scorer = Scorer(adult.train, adult.test, adult.target)
    scores = scorer.tv(synthetic, 2), scorer.tstr(synthetic), scorer.linear_tstr(synthetic)
    return TrainedPoint(site, name, seed, *(round(score, 4) for score in scores), seconds, **cost)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.sites_training", description=__doc__)
    parser.add_argument("table", type=Path, help="UCI's adult.data")
    parser.add_argument("--out", type=Path, help="a file for the numbers")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--name", default="tvae", choices=["tvae", "ctgan"], help="the generator")
    parser.add_argument("--places", nargs="+", default=["pooled", "largest", "sites", "sites by age"])
    parser.add_argument("--local-steps", type=int, nargs="+", default=[], help="of sites; left out: the usual ones")
    options = parser.parse_args(arguments)
    adult, points = read_adult(options.table), []
    print("place          local_steps  seed     tv2    tstr  linear   fit_s  sums      MB", flush=True)
    for seed in options.seeds:
        for site in options.places:
            several = site.startswith("sites")
            for n in (options.local_steps or [None]) if several else [None]:
                training = {} if n is None else {"local_steps": n}
                point = measured(adult, site, seed, name=options.name, **training)
                points.append({**asdict(point), "local_steps": n})
                print(
                    f"{site:14} {n or '-'!s:>11} {seed:5} {point.tv2:7.4f} {point.tstr:7.4f} {point.linear_tstr:7.4f} "
                    f"{point.fit_s:7.0f} {point.n_sums:5} {point.megabytes:7.0f}",
                    flush=True,
                )
    if options.out:
        options.out.write_text(json.dumps(points, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
