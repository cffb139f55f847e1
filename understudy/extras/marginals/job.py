"""A job of published tables: `[marginals]` in place of `[table]`. No real table is read, so that nothing is judged.

::

    OUT/
        model/              the fitted model
        synthetic.csv       rows of it
        marginals.json      whose guarantee it is, and what the fit leaves of each table
        manifest.json       hashes of all of them, signed where a key is named
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from synth.errors import JobError, SchemaError
from synth.output import whole_folder
from synth.schema import Schema
from synth.schema_file import schema_of
from synth.table import write_table
from synth.validation import Frozen, GivenFile, parse_toml, read_given
from understudy import provenance
from understudy.bundle.manifest import About, Rules, seal
from understudy.extras.marginals.model import Publisher, from_marginals
from understudy.extras.marginals.tables import PublishedTable
from understudy.job import MAX_SEED
from understudy.job.load import JobKind
from understudy.job.spec import checked_job

if TYPE_CHECKING:
    from understudy.bundle.signing import Signer
    from understudy.console import Console

MOST_DRAWN = 10_000_000
RESULT, MODEL, TABLE = "marginals.json", "model", "synthetic.csv"
NOTHING_JUDGED = Rules(name="none", version=0, audience="nobody: there was no real table to judge by")


class MarginalsSpec(Frozen):
    schema_path: str = Field(alias="schema", description="The schema file, declared.")
    n: int | None = Field(default=None, ge=1, strict=True, description="Rows, where public; left out: estimated.")
    publisher: Publisher | None = Field(default=None, description="Who published the tables, and what they claim.")
    max_model_mb: float = Field(default=64.0, gt=0, le=4096, description="Size of the model's tables at most.")
    tables: dict[str, PublishedTable] = Field(min_length=1, description="The tables by name.")


class MarginalsJob(Frozen):
    name: str | None = Field(default=None, min_length=1, description="Title of the run.")
    seed: int = Field(default=0, ge=0, le=MAX_SEED, strict=True, description="Of every draw.")
    rows: int | None = Field(
        default=None, ge=1, strict=True, description="Rows to draw, 10,000,000 at most; left out: as many as `n`."
    )
    marginals: MarginalsSpec


@dataclass(frozen=True)
class MarginalsInputs:
    job: MarginalsJob
    schema: Schema
    tables: Mapping[str, PublishedTable]
    files: Mapping[str, GivenFile]


def read_inputs(path: Path) -> MarginalsInputs:
    """A job with its schema, or the first thing that is wrong with them; relative paths start from the job file."""
    files = {"job": read_given(path, "job", JobError)}
    job = checked_job(MarginalsJob, parse_toml(files["job"], "job", JobError))
    files["schema"] = read_given(path.parent / job.marginals.schema_path, "schema", SchemaError)
    tables = dict(job.marginals.tables)
    for name, table in tables.items():
        if isinstance(table.cells, str):
            tables[name] = table.model_copy(update={"cells": str(path.parent / table.cells)})
    return MarginalsInputs(job, schema_of(files["schema"]), tables, files)


def run(
    path: Path, folder: Path, console: "Console", signer: "Signer | None", *, is_named: bool, **options: Any
) -> int:
    from understudy.cli.jobs import planned

    inputs = read_inputs(path)
    job, asked = inputs.job, inputs.job.marginals
    if options.get("executor") is not None:
        raise JobError("a job of published tables is carried out on this machine; leave --executor out")
    if not is_named:
        console.say(
            f"Tables: {', '.join(asked.tables)}, in place of a real one; columns: {', '.join(inputs.schema.kept)}"
        )
        return planned(path, folder, console)
    with whole_folder(folder) as out:
        with console.stage("fit") as progress:
            model = from_marginals(
                inputs.tables, inputs.schema, n=asked.n, publisher=asked.publisher, seed=job.seed,
                max_model_mb=asked.max_model_mb, progress=progress,
            )  # fmt: skip
        if (n_rows := job.rows or model.default_rows) > MOST_DRAWN:
            raise JobError(
                f"rows={n_rows:,} of at most {MOST_DRAWN:,}; set fewer, and `understudy sample` draws the rest"
            )
        model.save(out / MODEL)
        write_table(model.sample(n_rows, seed=job.seed), out / TABLE, inputs.schema)
        for name, file in inputs.files.items():
            (out / f"{name}.toml").write_bytes(file.content)
        result = {"guarantee": model.promise, **model.origin.model_dump(mode="json")}
        (out / RESULT).write_text(json.dumps(result, indent=1, ensure_ascii=False), encoding="utf-8")
        about = About(
            kind="internal", made_at=provenance.now(), title=job.name or path.stem, policy=NOTHING_JUDGED,
            seeds={"job": job.seed}, versions=provenance.versions(),
        )  # fmt: skip
        digest = seal(out, about, signer)
    rows = [
        (each.table, f"{each.cells:,}", each.mechanism, "" if each.scale is None else f"{each.scale:g}",
         "" if each.noise is None else f"{each.noise:.2f}", each.verdict)
        for each in model.origin.tables
    ]  # fmt: skip
    console.table(("table", "cells", "mechanism", "scale", "residuals over declared", "noise is"), rows)
    console.say(f"Guarantee: {model.promise}", f"Synthetic table: {folder / TABLE}", f"Model: {folder / MODEL}")
    console.result({**result, "out": str(folder), "exit_code": 0, "manifest_sha256": digest})
    return 0


KIND = JobKind(run, read_inputs)
