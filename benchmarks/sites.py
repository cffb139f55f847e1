"""Several sites beside one pooled table: how much is lost when nobody hands over rows, and at what cost.

``python -m benchmarks.sites FOLDER --out sites.json``, where FOLDER holds ``adult.csv.gz`` and
``diabetes_hospital.csv.gz``. Adult is dealt to ten sites alike. Diabetes goes to five sites by the source of a
patient's first admission, which are unlike each other and of unlike size. Every fit has epsilon 1:

- ``pooled``: the generator as it is, on all rows in one place;
- ``pooled, noisy pairs``: the same, but with choices from noisy pairs, still in one place;
- ``sites``: over all sites, of which one may collude with the server;
- ``sites, nobody colludes``: the same, with noise for a server alone;
- ``largest site``: the generator as it is, on the rows of the largest site alone.

Sites are in this process, so that seconds are those of the mathematics. ``--flower`` adds one run of ``mst`` for each
table with every site in a process of its own, over Flower and TLS. Runs that the file holds are not done again.
"""

import argparse
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import tomli_w

import synth
from benchmarks.runs import about, keep, read_kept
from benchmarks.scoring import Scorer
from benchmarks.shelf import TARGETS
from synth.generators.registry import generator
from synth.schema import Schema
from synth.schema_file import to_toml
from understudy.extras.sites.channel import LocalChannel
from understudy.extras.sites.job import read_sites_job
from understudy.extras.sites.remote_table import RemoteRows, SecureSums, SitesBudget
from understudy.extras.sites.site import Site

EPSILON = 1.0
FIGURES = ("tv1", "tv2", "tv3", "tstr")
WAYS = ("pooled", "pooled, noisy pairs", "sites", "sites, nobody colludes", "largest site")


@dataclass(frozen=True)
class Dealt:
    """A table that several sites hold.

    Attributes:
        schema: of all rows together.
        train: rows that are learned from.
        test: rows that are not.
        sites: the train rows of each site.
        target: column that models predict.
    """

    schema: Schema
    train: pd.DataFrame
    test: pd.DataFrame
    sites: Mapping[str, pd.DataFrame]
    target: str


def main(arguments: Sequence[str]) -> None:
    """Run what is asked for, keep it after every fit, and draw the table."""
    options = _options(arguments)
    content: dict[str, Any] = read_kept(options.out, {"about": about(machine=platform.machine()), "runs": []})
    if options.folder is not None:
        for run in _runs(options):
            if not any(run.items() <= {key: each[key] for key in run}.items() for each in content["runs"]):
                run_result = {**run, **_measured(options.folder, run)}
                content["runs"].append(run_result)
                keep(options.out, content)
                print({key: value for key, value in run_result.items() if key != "bytes"}, file=sys.stderr)
    print(draw(content["runs"]))


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks.sites", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, help="of the tables; without it, only the results are drawn")
    parser.add_argument("--tables", nargs="+", default=list(DEALS), choices=list(DEALS))
    parser.add_argument("--generators", nargs="+", default=["mst", "aim"])
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=WAYS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--flower", action="store_true", help="one run of mst with real processes")
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args(arguments)


def _runs(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for table in options.tables:
        for name in options.generators:
            for seed in range(options.seeds):
                for way in options.ways:
                    yield {"table": table, "generator": name, "way": way, "seed": seed}
        if options.flower:
            yield {"table": table, "generator": "mst", "way": "processes", "seed": 0}


def _measured(folder: Path, run: Mapping[str, Any]) -> dict[str, Any]:
    dealt = _dealt(folder, run["table"], run["seed"])
    fit = WAY_OF[run["way"]]
    started, used = time.perf_counter(), time.process_time()
    synthetic, cost = fit(dealt, run["generator"], run["seed"])
    seconds = {"seconds": time.perf_counter() - started, "cpu_s": time.process_time() - used}
    names = list(dealt.schema.learned)
    scorer = Scorer(_as_read(dealt.train)[names], _as_read(dealt.test)[names], dealt.target)
    table = _as_read(synthetic)[names]
    scores = {f"tv{order}": scorer.tv(table, order) for order in (1, 2, 3)} | {"tstr": scorer.tstr(table)}
    return {**scores, **seconds, **cost, "sizes": {name: len(rows) for name, rows in dealt.sites.items()}}


def _dealt(folder: Path, name: str, seed: int) -> Dealt:
    """Four fifths of the units to learn from, dealt to sites."""
    path = folder / f"{name}.csv.gz"
    raw = pd.read_csv(path, keep_default_na=False, na_values=[""], low_memory=False)
    inferred = synth.infer_schema(raw, target=TARGETS[name])
    n_units = len(raw) if inferred.entity is None else raw[inferred.entity].nunique()
    schema = synth.declare_schema(inferred, n_units=n_units, dataset=name)
    schema = schema.model_copy(update={"order": None, "nondecreasing_in_entity": ()})
    table = synth.read_table(path, schema)
    units = np.arange(len(table)) if schema.entity is None else pd.factorize(table[schema.entity])[0]
    rng = np.random.default_rng(seed)
    is_test = rng.permutation(units.max() + 1)[units] >= 0.8 * (units.max() + 1)
    train, test = (table[side].reset_index(drop=True) for side in (~is_test, is_test))
    where = DEALS[name](train, schema)
    sites = {str(site): train[where == site].reset_index(drop=True) for site in sorted(set(where))}
    return Dealt(schema, train, test, sites, TARGETS[name])


def _ten_alike(table: pd.DataFrame, schema: Schema) -> np.ndarray:
    return np.array([f"site{row % 10}" for row in range(len(table))])


def _by_source(table: pd.DataFrame, schema: Schema) -> np.ndarray:
    """A patient is at one site: that of the source of the first admission, the emergency room in two of unlike size."""
    assert schema.entity is not None
    first = table.groupby(schema.entity)["admission_source_id"].transform("first").astype(str)
    names = first.map({"1": "referral", "7": "emergency", "17": "unknown"}).fillna("transfer")
    smaller = pd.factorize(table[schema.entity])[0] % 4 == 0
    return np.where((names == "emergency") & smaller, "outpost", names)


DEALS: Mapping[str, Callable[[pd.DataFrame, Schema], np.ndarray]] = {
    "adult": _ten_alike,
    "diabetes_hospital": _by_source,
}


def _pooled(dealt: Dealt, name: str, seed: int, **more: Any) -> tuple[pd.DataFrame, dict[str, Any]]:
    model = generator(name, epsilon=EPSILON, **more).fit(dealt.train, dealt.schema, seed=seed)
    return model.sample(len(dealt.train), seed=seed), {}


def _largest(dealt: Dealt, name: str, seed: int) -> tuple[pd.DataFrame, dict[str, Any]]:
    rows = max(dealt.sites.values(), key=len)
    n_units = len(rows) if dealt.schema.entity is None else rows[dealt.schema.entity].nunique()
    schema = dealt.schema.model_copy(update={"n_units": int(n_units)})
    model = generator(name, epsilon=EPSILON).fit(rows, schema, seed=seed)
    return model.sample(len(dealt.train), seed=seed), {"n_rows": len(rows)}


def _sites(dealt: Dealt, name: str, seed: int, colluding: int = 1) -> tuple[pd.DataFrame, dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        inputs = read_sites_job(_written(Path(folder), dealt, name, colluding))
        sites, sent = {site: Site(site, inputs, rows) for site, rows in dealt.sites.items()}, Counter[str]()
        sums = SecureSums(LocalChannel(sites, lambda site, _, payload: sent.update({site: len(payload)})), inputs)
        budget, rows = SitesBudget(inputs.schedule, sums), RemoteRows(inputs.schema)
        model = inputs.generator.fit(rows, inputs.schema, seed=seed, budget=budget)
    return model.sample(len(dealt.train), seed=seed), {"n_sums": sums.n_sums, "bytes": dict(sent)}


def _processes(dealt: Dealt, name: str, seed: int) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Every site in a process of its own; its evaluation is of columns alone, and outside the seconds of the fit."""
    from understudy.extras.sites.channel import make_server_files, make_site_files
    from understudy.extras.sites.flower import FlowerChannel
    from understudy.extras.sites.server import serve

    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        home, sent = Path(folder), Counter[str]()
        job = _written(home, dealt, name, 1, tables=True)
        keys = home / "keys"
        make_server_files(keys)
        for site in dealt.sites:
            make_site_files(keys, site)
        recorder = lambda site, _, payload: sent.update({site: len(payload)})  # noqa: E731
        processes = stack.enter_context(ExitStack())
        channel = stack.enter_context(FlowerChannel(keys, dealt.sites, recorder=recorder))
        for site in dealt.sites:
            command = ["sites", "join", str(job), "--site", site, "--table", str(home / f"{site}.csv")]
            command += ["--server", channel.address, "--ca", str(keys / "ca.pem"), "--key", str(keys / f"{site}.key")]
            process = subprocess.Popen(
                [sys.executable, "-m", "understudy", *command, "--out", str(home / f"at-{site}")]
            )
            processes.callback(process.wait)
        channel.wait(len(dealt.sites), 600.0)
        outcome = serve(read_sites_job(job), channel, home / "server")
        synthetic = synth.read_table(home / "server" / "synthetic.csv", dealt.schema)
    return synthetic, {"fit_s": outcome.seconds, "n_sums": outcome.n_sums, "bytes": dict(sent)}


def _written(home: Path, dealt: Dealt, name: str, colluding: int, *, tables: bool = False) -> Path:
    """A job of the sites, with their tables where they are read."""
    (home / "schema.toml").write_text(to_toml(dealt.schema))
    for site, rows in dealt.sites.items() if tables else ():
        synth.write_table(rows, home / f"{site}.csv", dealt.schema)
    content = {
        "schema": "schema.toml",
        "generator": {"name": name, "epsilon": EPSILON},
        "colluding": colluding,
        "measures": ["fidelity.columns"],
        "audit": False,
        "timeout_s": 1800.0,
        "sites": {site: {"table": f"{site}.csv"} if tables else {} for site in dealt.sites},
    }
    (home / "job.toml").write_text(tomli_w.dumps(content))
    return home / "job.toml"


WAY_OF: Mapping[str, Callable[[Dealt, str, int], tuple[pd.DataFrame, dict[str, Any]]]] = {
    "pooled": _pooled,
    "pooled, noisy pairs": lambda dealt, name, seed: _pooled(dealt, name, seed, choices="noisy_pairs"),
    "sites": _sites,
    "sites, nobody colludes": lambda dealt, name, seed: _sites(dealt, name, seed, 0),
    "largest site": _largest,
    "processes": _processes,
}


def _as_read(table: pd.DataFrame) -> pd.DataFrame:
    """Columns as NumPy knows them, missing values as NaN or None."""
    plain = {}
    for name, column in table.items():
        if column.dtype == object:
            plain[name] = column
        elif pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column):
            plain[name] = pd.Series(column.to_numpy(dtype=np.float64, na_value=np.nan))
        else:
            plain[name] = column.astype(object).where(column.notna(), None)
    return pd.DataFrame(plain)


def draw(runs: Sequence[Mapping[str, Any]]) -> str:
    """A line for each way: median and range over seeds, and the ratio to the pooled table in the same file."""
    lines = [f"{'table':<18} {'generator':<9} {'way':<23} {'tv1':<20} {'tv2':<20} {'tv3':<20} {'TSTR':<20} tv2 ratio"]
    for table, name, way in dict.fromkeys((run["table"], run["generator"], run["way"]) for run in runs):
        these = _those(runs, table, name, way)
        pooled = _those(runs, table, name, "pooled")
        cells = " ".join(f"{_cell([run[figure] for run in these]):<20}" for figure in FIGURES)
        ratio = ""
        if pooled:
            ratio = f"{statistics.median(r['tv2'] for r in these) / statistics.median(r['tv2'] for r in pooled):.3f}"
        lines.append(f"{table:<18} {name:<9} {way:<23} {cells} {ratio}")
        costs = [run for run in these if "bytes" in run]
        if costs:
            sent = statistics.median(size for run in costs for size in run["bytes"].values())
            seconds = statistics.median(run.get("fit_s", run["seconds"]) for run in costs)
            lines.append(f"{'':<28} {costs[0]['n_sums']} sums, {sent / 1e6:.2f} MB a site, {seconds:.0f} s")
    return "\n".join(lines)


def _those(runs: Sequence[Mapping[str, Any]], table: str, name: str, way: str) -> list[Mapping[str, Any]]:
    return [run for run in runs if (run["table"], run["generator"], run["way"]) == (table, name, way)]


def _cell(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.4f} ({min(values):.4f}-{max(values):.4f})"


if __name__ == "__main__":
    main(sys.argv[1:])
