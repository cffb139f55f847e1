"""`understudy schema related`: from related tables to their keys, their schemas and a job, for a person to confirm."""

import re
from typing import TYPE_CHECKING, Annotated, Any

import tomli_w
import typer

from understudy.cli.options import OutFolder, arg, console_of, opt

if TYPE_CHECKING:
    import pandas as pd

RELATED = "Example: understudy schema related customers.csv orders.csv lines.csv --keep products.csv --out shop"
WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,17})")


def add_to(group: typer.Typer) -> None:
    group.command("related", epilog=RELATED)(related)


def related(
    ctx: typer.Context,
    tables: Annotated[list[str], arg("Files of tables, which are called after them.")],
    out: OutFolder,
    keep: Annotated[
        list[str] | None, opt("A further table, which is public and taken over as it is; may be repeated.")
    ] = None,
) -> int:
    """Propose the keys of related tables, a schema of each, and a job. All was read off the rows: confirm it."""
    from evaluate.text import listed
    from reports.sections.limitations import left_out
    from synth.errors import JobError
    from synth.infer import infer_schema
    from synth.output import check_new_folder, whole_folder
    from synth.schema_file import write_schema
    from synth.table import Table
    from understudy.data import find_table
    from understudy.extras.related.evaluation import Units
    from understudy.extras.related.infer import infer_keys
    from understudy.extras.related.keys import candidates, hidden_columns, positions

    console = console_of(ctx)
    check_new_folder(out)
    paths = (*tables, *(keep or ()))
    names = [_name(path) for path in paths]
    places = dict(zip(names, map(find_table, paths), strict=True))
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise JobError(f"two tables have the name {twice!r}; rename a file")
    with console.stage("infer"):
        frames = {name: Table.of(place.address).frame() for name, place in places.items()}
        typed = {name: frame.apply(_typed) for name, frame in frames.items()}
        keys, kept = infer_keys(typed), names[len(tables) :]
        schemas = {}
        for name in (name for name in places if name not in kept):
            own = keys.tables[name]
            named = {c for c in hidden_columns(keys, name) if c != own.number}
            kinds = {c: "identifier" for c in named if frames[name][c].notna().any()}
            schema = infer_schema(frames[name], propose_entity=False, kinds=kinds)
            columns = {c: schema.columns[c].model_copy(update={"drop": False}) for c in kinds}  # that repeat, too
            schemas[name] = schema.model_copy(update={"columns": {**schema.columns, **columns}})
    has_orphans = any(
        ((positions(typed[name], key.columns, typed[key.table], keys.tables[key.table].primary) < 0)
         & typed[name][list(key.columns)].notna().all(axis=1).to_numpy()).any()
        for name, key in keys.edges()
    )  # fmt: skip
    orphans = "keep" if has_orphans else "refuse"
    job: dict[str, Any] = {"name": out.name, "release": "auto", "orphans": orphans}
    listing = dict[str, Any]()
    roots = [name for name in keys.order if name not in kept and not candidates(keys, name, kept)]
    if len(roots) > 1:  # the one with the most tables below is more likely that of people
        job["unit"] = max(roots, key=lambda root: len(Units(keys, root, kept).tables))
        console.warn(
            f"{listed(roots)} are below none: unit={job['unit']!r} is proposed, and only rows below it are measured"
        )
    for name in keys.order:
        own = keys.tables[name]
        foreign: Any = {key.columns[0]: key.table for key in own.foreign}
        if any(len(key.columns) > 1 for key in own.foreign):
            foreign = [{"columns": list(key.columns), "table": key.table} for key in own.foreign]
        written = {"primary": list(own.primary), "foreign": foreign, "number": own.number}
        source = {"path": places[name].absolute, **({"keep": True} if name in kept else {"schema": f"{name}.toml"})}
        listing[name] = {**source, **{key: value for key, value in written.items() if value}}
    job |= {"tables": listing, "generators": {"auto": {}}}
    with whole_folder(out) as folder:
        for name, schema in schemas.items():
            write_schema(schema, folder / f"{name}.toml", read_off=True)
        (folder / "job.toml").write_text(tomli_w.dumps(job), encoding="utf-8")
    console.say(*str(keys).split("\n"))
    for name, schema in schemas.items():
        rest = {c: column for c, column in schema.columns.items() if c not in keys.tables[name].columns}
        told = () if not rest else left_out(schema.model_copy(update={"columns": rest}))
        console.say(*(f"{name}: {sentence}" for sentence in told))
    console.say(
        f"Job: {out / 'job.toml'} (read the keys, correct them, then `understudy run {out / 'job.toml'} --out ...`)"
    )
    console.result({"job": str(out / "job.toml"), "keys": keys.model_dump(mode="json")})
    return 0


def _name(path: str) -> str:
    last = re.split(r"[/#]", path.rstrip("/"))[-1]
    return re.sub(r"[^A-Za-z0-9_-]+", "-", last.split(".")[0]).strip("-") or "table"


def _typed(column: "pd.Series") -> "pd.Series":
    """Whole numbers, which files of text hold as texts."""
    import pandas as pd

    texts = column.dropna()
    is_whole = texts.dtype == object and len(texts) and all(isinstance(t, str) and WHOLE.fullmatch(t) for t in texts)
    return pd.to_numeric(column).astype("Int64") if is_whole else column
