"""One large table: what it costs to write, to read, to fit privately and to take through a whole job, as its rows grow.

``python -m benchmarks.large [TABLE] --out large.json``, where TABLE is UCI's ``adult.data``; without it a table of 15
made columns takes its place. `mst` without epsilon is fitted to it, and the large tables are drawn from that model, as
folders of Parquet files. Each piece of work runs in a process of its own; runs that the file holds are kept.

- write: `write_rows`, the table itself.
- read: all rows cast under the schema, into the spool.
- fit: `mst` at epsilon 1 on four fifths of it: read, split, bound, count, measure, fit.
- alone, dask, spark: `mst` at epsilon 1 on all of it, nothing split, in one process or with its parts counted by two
  workers of a Dask cluster, or of Spark's local one; all processes count, and the cluster runs already.
- job: `understudy run` of `mst` at epsilon 1 with as many synthetic rows as units, evaluated by all measures.
- any other name is a fit and a sample of as many rows in memory: of ours, of SDV's (both by their names in jobs; with
  ``:1`` behind for epsilon 1), or of a peer of `benchmarks.peer`.
"""

import argparse
import json
import os
import pickle
import shutil
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import psutil

from benchmarks.evaluation import outcome
from benchmarks.peer import is_peer, run_peer
from benchmarks.peers.evaluated import measured
from benchmarks.runs import Results, Run
from synth.generators.registry import names

if TYPE_CHECKING:
    from synth.schema import Schema

ROWS = (1_000_000, 20_000_000)
WORKERS = 2
MOST_WRITTEN = 20_000_000
"""Rows that are drawn; a larger table is its files under several names."""
EPSILON = 1.0
LIMIT_S = 1_800.0
"""After which a fit and a sample in memory are stopped."""
MOVED = ("moved_mb", "passes")
LOOK_S = 1.0  # between looks at the memory, which cost seconds themselves
SPARK = {
    "spark.pyspark.python": sys.executable, "spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1", "spark.ui.showConsoleProgress": "false",
}  # fmt: skip


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.large", description=__doc__)
    parser.add_argument("table", nargs="?", help="adult.data; none: a made table")
    parser.add_argument("--rows", nargs="+", type=int, default=list(ROWS), help="of the large tables")
    parser.add_argument("--works", nargs="+", default=["write", "read", "fit", "job"], help="what is measured")
    parser.add_argument("--out", type=Path, help="JSON file of the results, read and continued")
    options = parser.parse_args(arguments)
    known = {*WORKS, *names()}
    if any(rows > MOST_WRITTEN and rows % MOST_WRITTEN for rows in options.rows):
        parser.error(f"rows above {MOST_WRITTEN:,} are a multiple of them")
    if unknown := {work for work in options.works if not is_peer(work) and work.partition(":")[0] not in known}:
        parser.error(f"unknown works={sorted(unknown)}")
    results = Results(options.out)
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        _apart("model", folder, 0, options.table)
        for n_rows in options.rows:
            for work in options.works:
                if not results.has(name := f"{work}: {n_rows} rows", None, 0):
                    results.add(_measure(work, folder, n_rows, name))
            shutil.rmtree(Path(folder) / "rows", ignore_errors=True)
    print(draw(results, options.rows))


def _measure(work: str, folder: str, n_rows: int, name: str) -> Run:
    if work == "write":
        shutil.rmtree(Path(folder) / "rows", ignore_errors=True)
    elif not (Path(folder) / "rows").exists():
        _apart("write", folder, n_rows)
    cost = _apart(work, folder, n_rows)
    print(name, cost, file=sys.stderr)
    if "failure" in cost:
        return Run(name, failure=cost["failure"])
    scores = {"peak_mb": cost["peak_mib"] * 1.048576, **{each: cost[each] for each in MOVED if each in cost}}
    return Run(name, fit_s=cost["wall_s"], fit_cpu_s=cost["cpu_s"], scores=scores)


def _apart(work: str, folder: str, n_rows: int, table: str | None = None) -> dict[str, Any]:
    point = json.dumps([work, folder, n_rows, table])
    return outcome("benchmarks.large", "--point", point, limit_s=None if work in WORKS else LIMIT_S)


def draw(results: Results, rows: Sequence[int]) -> str:
    """The results as a table."""
    lines = [
        f"{results.about['cores']} cores", "",
        "| rows | work | seconds | CPU s | peak MB | moved MB | passes |",
        "| ---: | --- | ---: | ---: | ---: | ---: | ---: |",
    ]  # fmt: skip
    for run in results.runs:
        work, _, n_rows = run.name.removesuffix(" rows").partition(": ")
        if int(n_rows) in rows:
            of_run = [run.fit_s, run.fit_cpu_s, *map(run.scores.get, ("peak_mb", *MOVED))]
            figures = ["" if figure is None else f"{figure:,.1f}" for figure in of_run]
            lines.append(f"| {int(n_rows):,} | {work} | {run.failure or ' | '.join(figures)} |")
    return "\n".join(lines)


def draw_model(folder: Path, _n_rows: int, table: str | None) -> Callable[[], object]:
    """`mst` without epsilon on Adult's train part, or on a made table of 15 columns."""
    import synth
    from benchmarks.adult_table import read_adult
    from benchmarks.growth_table import make_table

    if table is None:
        frame, schema = make_table(50_000, 15)
    else:
        adult = read_adult(Path(table))
        frame, schema = adult.train, adult.binned
    return lambda: synth.fit(frame, schema, "mst", progress=synth.quiet).save(folder / "model")


def write(folder: Path, n_rows: int, _table: str | None) -> Callable[[], object]:
    """The table itself, drawn from the model and written file by file."""
    from synth.generators.models.postprocess import ROWS_A_FILE, write_rows
    from synth.generators.registry import load_model

    model, written = load_model(folder / "model"), min(n_rows, MOST_WRITTEN)
    a_file = min(ROWS_A_FILE, written // (2 * WORKERS))  # so that there are parts for workers

    def run() -> None:
        write_rows(model, folder / "rows", written, seed=0, rows_a_file=a_file)
        for path in sorted((folder / "rows").iterdir()):
            for again in range(1, n_rows // written):
                os.link(path, path.with_stem(f"{path.stem}-{again}"))

    return run


def read(folder: Path, n_rows: int, _table: str | None) -> Callable[[], object]:
    """All rows, cast under the schema."""
    from synth.table.rows import Rows

    schema = _schema(folder, n_rows)
    return lambda: Rows.of(folder / "rows", schema)


def fit(folder: Path, n_rows: int, _table: str | None) -> Callable[[], object]:
    """`mst` at epsilon 1, end to end."""
    from synth.generators.marginal_generator import Mst
    from synth.split import split_table

    schema = _schema(folder, n_rows)

    def run() -> None:
        train, _ = split_table(folder / "rows", schema, holdout_share=0.2, seed=0, private=True)
        Mst(epsilon=EPSILON).fit(train, schema)

    return run


def alone(folder: Path, n_rows: int, _table: str | None) -> Callable[[], object]:
    """`mst` of all rows in one process."""
    return _counted(folder, n_rows, folder / "rows")


def dask(folder: Path, n_rows: int, _table: str | None) -> Callable[[], object]:
    """The same where workers of Dask read and count the files."""
    from distributed import Client, LocalCluster

    from synth.table import Table

    client = Client(LocalCluster(n_workers=WORKERS, threads_per_worker=1, dashboard_address=None))
    return _counted(folder, n_rows, Table.of(folder / "rows").on(client))


def spark(folder: Path, n_rows: int, _table: str | None) -> Callable[[], object]:
    """The same where Spark's executors, each a process with one core, do so."""
    import pyspark
    from pyspark.sql import SparkSession

    from synth.table import Table

    home = Path(tempfile.mkdtemp(prefix="spark-", dir=folder))  # its workers write into it
    for path in Path(pyspark.__file__).parent.iterdir():
        (home / path.name).symlink_to(path)
    os.environ["SPARK_HOME"] = str(home)
    builder = SparkSession.builder.master(f"local-cluster[{WORKERS},1,2048]").config(map=SPARK)
    return _counted(folder, n_rows, Table.of(builder.getOrCreate().read.parquet(str(folder / "rows"))))


def _counted(folder: Path, n_rows: int, source: Any) -> Callable[[], dict[str, float]]:
    """The fit, with what it costs all processes, and what the parts of the table send here in each pass."""
    from synth.generators.marginal_generator import Mst

    schema, moved = _schema(folder, n_rows), list[int]()

    def counted(apply: Callable[[Any], Any]) -> list[Any]:
        results = source.distributed(apply)
        moved.append(sum(len(pickle.dumps(each)) for each in results))
        return list(results)

    rows = source if isinstance(source, Path) else replace(source, distributed=counted)
    return lambda: {
        **of_all(lambda: Mst(epsilon=EPSILON).fit(rows, schema)), "moved_mb": sum(moved) / 1e6, "passes": len(moved)
    }  # fmt: skip


def of_all(run: Callable[[], object]) -> dict[str, float]:
    """What a run costs this process and all below it: processor seconds, and peak memory, each shared page once."""
    over, here, peaks, looked_s = threading.Event(), psutil.Process(), [0.0], [0.0]

    def total(figure: Callable[[psutil.Process], float]) -> float:
        figures = [0.0]
        for process in (here, *here.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                figures.append(figure(process))
        return sum(figures)

    def look() -> None:
        while not over.wait(LOOK_S):
            peaks.append(total(lambda process: process.memory_full_info().pss / 2**20))
        looked_s.append(time.thread_time())

    def seconds() -> float:
        return total(lambda process: sum(process.cpu_times()[:4]))  # children that have ended are in the latter two

    began, looking = seconds(), threading.Thread(target=look, daemon=True)
    looking.start()
    run()
    over.set()
    looking.join()
    return {"cpu_s": seconds() - began - sum(looked_s), "peak_mib": max(peaks)}


def in_memory(name: str) -> Callable[[Path, int, str | None], Callable[[], object]]:
    """A fit and a sample of as many rows: of ours or SDV's here, of a peer in its own environment."""

    def prepare(folder: Path, n_rows: int, _table: str | None) -> Callable[[], object]:
        import synth

        schema, (fit_name, _, epsilon) = _schema(folder, n_rows), name.partition(":")
        frame = pd.read_parquet(folder / "rows")
        if fit_name in names():
            options: dict[str, Any] = {"epsilon": float(epsilon)} if epsilon else {}
            return lambda: synth.fit(frame, schema, fit_name, progress=synth.quiet, **options).sample(n_rows, seed=0)
        privacy = {"epsilon": float(epsilon), "delta": 1 / (10 * n_rows)} if epsilon else {}

        def run() -> dict[str, Any]:
            peer = run_peer(fit_name, frame, schema, privacy, 0, LIMIT_S)
            return {"failure": peer.failure} if peer.failure else peer.facts

        return run

    return prepare


def job(folder: Path, n_rows: int, _table: str | None) -> Callable[[], object]:
    """A whole run of a job with an evaluation, in one process."""
    from synth.schema_file import write_schema
    from understudy.console import Console
    from understudy.run.plan import make_plan
    from understudy.run.run import run

    write_schema(_schema(folder, n_rows), folder / "schema.toml")
    (folder / "job.toml").write_text(
        'release = "mst"\n[table]\npath = "rows"\nschema = "schema.toml"\noutside = "clamp"\n'
        f"[generators.mst]\nepsilon = 1.0\nrows = {n_rows}\n"
    )
    os.environ["UNDERSTUDY_KEY_FILE"] = str(folder / "key")
    shutil.rmtree(folder / "out", ignore_errors=True)
    return lambda: run(make_plan(folder / "job.toml", folder / "out"), Console(quiet=True))


def _schema(folder: Path, n_rows: int) -> "Schema":
    from synth.generators.registry import load_model

    schema = load_model(folder / "model").schema
    return schema.model_copy(update={"status": "declared", "dataset": "large", "n_units": n_rows})


WORKS: Mapping[str, Callable[[Path, int, str | None], Callable[[], object]]] = {
    "model": draw_model, "write": write, "read": read, "fit": fit, "job": job,
    "alone": alone, "dask": dask, "spark": spark,
}  # fmt: skip

if __name__ == "__main__":
    if sys.argv[1:2] == ["--point"]:
        warnings.simplefilter("ignore")
        name, path, size, adult = json.loads(sys.argv[2])
        figures: dict[str, Any] = {}
        work = WORKS.get(name, in_memory(name))(Path(path), size, adult)
        cost = measured(lambda: figures.update(result) if isinstance(result := work(), dict) else None)
        print(json.dumps({**cost, **figures}))
    else:
        main(sys.argv[1:])
