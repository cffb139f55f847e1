"""One large table: what it costs to write, to read, to fit privately and to take through a whole job, as its rows grow.

``python -m benchmarks.large [TABLE] --out large.json``, where TABLE is UCI's ``adult.data``; without it a table of 15
made columns takes its place. `mst` without epsilon is fitted to it, and the large tables are drawn from that model, as
folders of Parquet files. Each piece of work runs in a process of its own; runs that the file holds are kept.

- write: `write_rows`, the table itself.
- read: all rows cast under the schema, into the spool.
- fit: `mst` at epsilon 1 on four fifths of it: read, split, bound, count, measure, fit.
- job: `understudy run` of `mst` at epsilon 1 with as many synthetic rows as units, evaluated by all measures.
"""

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.evaluation import apart
from benchmarks.peers.evaluated import measured
from benchmarks.runs import Results, Run

if TYPE_CHECKING:
    from synth.schema import Schema

ROWS = (1_000_000, 20_000_000)
BEFORE = {1_000_000: (4.70, 513), 3_000_000: (10.24, 671), 10_000_000: (25.01, 773), 100_000_000: (248.67, 2_021)}
"""CPU seconds and peak MB of the same fit where DuckDB counted, with two threads and 1,500 MB (commit 151ab37a)."""


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.large", description=__doc__)
    parser.add_argument("table", nargs="?", help="adult.data; none: a made table")
    parser.add_argument("--rows", nargs="+", type=int, default=list(ROWS), help="of the large tables")
    parser.add_argument("--works", nargs="+", default=["write", "read", "fit", "job"], help="what is measured")
    parser.add_argument("--repeats", type=int, default=1, help="runs of each")
    parser.add_argument("--out", type=Path, help="JSON file of the results, read and continued")
    options = parser.parse_args(arguments)
    results = Results(options.out)
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        _apart("model", folder, 0, options.table)
        for n_rows in options.rows:
            for turn in range(options.repeats):
                for work in options.works:
                    name = f"{work}: {n_rows} rows"
                    if not results.has(name, None, turn):
                        results.add(_measure(work, folder, n_rows, name, turn))
            shutil.rmtree(Path(folder) / "rows", ignore_errors=True)
    print(draw(results, options.rows))


def _measure(work: str, folder: str, n_rows: int, name: str, turn: int) -> Run:
    if work == "write":
        shutil.rmtree(Path(folder) / "rows", ignore_errors=True)
    elif not (Path(folder) / "rows").exists():
        _apart("write", folder, n_rows)
    cost = _apart(work, folder, n_rows)
    run = Run(name, None, turn, fit_s=cost["wall_s"], fit_cpu_s=cost["cpu_s"], scores={"peak_mb": cost["peak_mb"]})
    print(f"{name}, run {turn}: {run.fit_cpu_s:.1f} CPU s, {run.scores['peak_mb']:,.0f} MB", file=sys.stderr)
    return run


def _apart(work: str, folder: str, n_rows: int, table: str | None = None) -> dict[str, float]:
    cost = apart("benchmarks.large", "--point", json.dumps([work, folder, n_rows, table]))
    return {**cost, "peak_mb": cost["peak_mib"] * 1.048576}


def draw(results: Results, rows: Sequence[int]) -> str:
    """The results as a table, beside the figures of the fit before."""
    lines = [
        f"{results.about['cores']} cores", "",
        "| rows | work | seconds | CPU s | peak MB | before: CPU s | before: peak MB |",
        "| ---: | --- | ---: | ---: | ---: | ---: | ---: |",
    ]  # fmt: skip
    for n_rows in rows:
        for work in WORKS:
            runs = results.named(f"{work}: {n_rows} rows", None)
            if not runs:
                continue
            wall, cpu = (statistics.median(getattr(run, figure) for run in runs) for figure in ("fit_s", "fit_cpu_s"))
            peak = max(run.scores["peak_mb"] for run in runs)
            before = BEFORE.get(n_rows) if work == "fit" else None
            known = "| |" if before is None else f"{before[0]:.1f} | {before[1]:,} |"
            lines.append(f"| {n_rows:,} | {work} | {wall:.1f} | {cpu:.1f} | {peak:,.0f} | {known}")
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
    from synth.generators.models.postprocess import write_rows
    from synth.generators.registry import load_model

    model = load_model(folder / "model")
    return lambda: write_rows(model, folder / "rows", n_rows, seed=0)


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
        Mst(epsilon=1.0).fit(train, schema)

    return run


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
}  # fmt: skip

if __name__ == "__main__":
    if sys.argv[1:2] == ["--point"]:
        warnings.simplefilter("ignore")
        work, place, size, adult = json.loads(sys.argv[2])
        print(json.dumps(measured(WORKS[work](Path(place), size, adult))))
    else:
        main(sys.argv[1:])
