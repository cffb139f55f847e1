"""Tables of a command: where a real one is, its rows under a schema, its split, and its digest while it is measured.

A table is a file, a folder or a pattern of files, or the address of a table in a database. Some come embedded in an
installed package; they are found without importing it.
"""

import hashlib
import importlib.util
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pandas as pd

from evaluate.text import MOST_NAMED, percent
from synth.errors import JobError, TableError, nearest
from synth.extras import missing_extra
from synth.generators.models.postprocess import ROWS_A_FILE
from synth.output import whole_folder
from synth.row_hash import entity_codes
from synth.schema import Schema
from synth.split import split_table
from synth.table import check_names, conform, read_table, write_table
from synth.table.conforming import Outside, refuse, shares_clamped, violations_of
from synth.table.databases import parse_address
from synth.table.files import check_suffix, list_files
from synth.table.rows import Rows
from synth.table.table import Table
from synth.table.text_files import NO_MORE, Batch, SizeLimits, opened
from synth.table.translating import translate
from understudy.provenance import sha256

FILES = "a file, a folder or a pattern of files, or an address like postgresql://host/database#table"
_PARAMETERS = frozenset(
    {
        "account", "application_name", "catalog", "connect_timeout", "database", "dbname", "host", "port", "region",
        "role", "schema", "sslcert", "sslkey", "sslmode", "sslrootcert", "target_session_attrs", "user", "warehouse",
    }
)  # fmt: skip
"""Parameters of an address that hold nothing for nobody else to read."""
_ADDRESS_LIKE = re.compile(r"://|^[A-Za-z][A-Za-z0-9+.-]+:/|(?<!^[A-Za-z]):.*@|\?.*=")
"""Patterns of an address: its beginning, also with a slash too few; a password and the @ behind it; a parameter."""
_MISSPELLED = (
    "this is neither a file nor an address, but looks like one, which may hold a password, so that it is not shown; "
    "write it like postgresql://host/database#table"
)
MOST_ROWS = 1_000_000
"""Rows from which a schema is inferred at most."""


def embedded_table(source: str) -> Path:
    package, _, name = source.partition(":")
    if package != "statsmodels" or not name:
        raise JobError(f"source={source!r} is not known; write one such as 'statsmodels:fair', or a file as `path`")
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise missing_extra(f"source={source!r}", "demo")
    home = Path(spec.submodule_search_locations[0]) / "datasets"
    tables = {path.stem: path for path in home.glob("*/*.csv") if path.stem == path.parent.name}
    if name not in tables:
        raise JobError(f"source={source!r}: {package} brings no table {name!r}; {nearest(name, tables)}")
    return tables[name]


@dataclass(frozen=True)
class RealTable:
    address: str = field(repr=False)
    shown: str

    @property
    def is_database(self) -> bool:
        """True where it is in a database."""
        return "://" in self.address

    @property
    def absolute(self) -> str:
        """The address, as processes elsewhere find it."""
        return self.address if self.is_database else str(Path(self.address).absolute())

    @property
    def suffix(self) -> str:
        """The suffix of tables beside it: of its format; empty, for folders of Parquet parts, unless it is a file."""
        if self.is_database or not Path(self.address).is_file():
            return ""
        return ".parquet" if check_suffix(Path(self.address)) in (".parquet", ".feather", ".arrow") else ".csv"

    @property
    def paths(self) -> tuple[Path, ...]:
        """A file or a folder, or the files of a pattern; none in a database."""
        if self.is_database:
            return ()
        path = Path(self.address)
        return tuple(list_files(path)) if is_pattern(path) else (path,)


def find_table(address: str, home: Path = Path()) -> RealTable:
    """The place of a table. No row of it is read, and no connection is made."""
    if "://" in address:
        return RealTable(address, parse_address(address).shown)
    if is_address(address):
        raise TableError(_MISSPELLED)
    path = home / address
    if not path.exists() and not is_pattern(path):
        raise TableError(f"the table is not there: path={str(path)!r}; name {FILES}")
    list_files(path)
    return RealTable(str(path), str(path))


def is_pattern(path: Path) -> bool:
    """True of a path with stars, question marks or brackets that names no file."""
    return any(mark in str(path) for mark in "*?[") and not path.exists()


def file_state(path: Path) -> dict[str, Any]:
    """The state of files, which tells them from others unread: equal or not, whatever a clock says."""
    files = [path] if path.is_file() else list_files(path) if is_pattern(path) else path.rglob("*")
    states = sorted((str(file), file.stat()) for file in files if file.is_file())
    return {"path": str(path), "files": [[name, status.st_size, status.st_mtime_ns] for name, status in states]}


def is_address(text: str) -> bool:
    """True where a text is the address of a database, or one with an error in it: it may hold a password.

    >>> is_address("postgresql:/ann:secret@host/clinic#visits"), is_address("tables/visits.csv")
    (True, False)
    """
    return _ADDRESS_LIKE.search(text) is not None


def refuse_credentials(address: str) -> None:
    """Refuse an address that holds a password or its like: a job is copied into its output."""
    if not is_address(address):
        return
    if "://" not in address:
        raise ValueError(_MISSPELLED)
    parse_address(address)  # refuses what does not come apart cleanly, whose parts may hold some of a password
    parts = urlsplit(address)
    unknown = any(name.lower() not in _PARAMETERS for name, _ in parse_qsl(parts.query, keep_blank_values=True))
    if parts.password is not None or unknown:
        raise ValueError(
            "the address of a table in a job holds no password, no token, and of parameters only "
            f"{', '.join(sorted(_PARAMETERS))}, since the job is copied into the output; leave others out and use the "
            "driver's own places, such as PGPASSWORD or a pgpass file"
        )


def read_rows(
    table: RealTable,
    schema: Schema,
    outside: Outside,
    folder: Path | None = None,
    tell: Callable[[str], None] | None = None,
) -> Rows:
    """The real rows, read once; what memory does not hold lies in a nameless file. `tell` hears of clamped cells."""
    rows = Rows.of(table.address, schema, outside=outside, folder=folder)
    if outside == "refuse":
        refuse(violations_of(rows.chunks(), schema))
    if len(rows) == 0:
        raise TableError(f"a table needs at least one row: {table.shown!r} has no rows; add some")
    if tell is not None and outside == "clamp" and (shares := shares_clamped(rows.chunks())):
        tell(clamped(shares))
    return rows


def beyond_slots(rows: Rows, schema: Schema) -> Iterator[str]:
    """A warning, without a final stop, where clamped rows have more units than declared.

    *Sensitive*: one bit of an exact count, outside any budget. It is still said, on the screen alone, to whoever runs
    the fit: they hold the rows, and would else sign that there are at most `n_units`. It tells no number of the
    table's, and goes into no model, statement or result.
    """
    n_units = len(rows) if schema.entity is None else int(entity_codes(rows, schema).max(initial=-1)) + 1
    if schema.n_units is not None and n_units > schema.n_units:
        what = "rows" if schema.entity is None else "entities"
        yield (
            f"the table has more {what} than n_units={schema.n_units}: epsilon holds, but the statement's n_units is "
            "too small, and delta not as far below 1 / units as it should be; declare a larger public number (counted "
            "outside any guarantee: do not pass this on)"
        )


def read_side(name: str, table: RealTable, schema: Schema, outside: Outside) -> Rows:
    """Some real rows: train or the holdout, which may lack or have by chance what the whole table does not."""
    try:
        return Rows.of(table.address, schema, outside=outside, other=True)
    except TableError as error:
        raise type(error)(f"{name}: {error}") from None


def first_rows(table: RealTable) -> tuple[pd.DataFrame, bool]:
    """The rows to infer a schema from, `MOST_ROWS` at most, as they came, and whether they are all. *Sensitive*."""
    source, batches, n_rows = Table.of(table.address), list[Batch](), 0
    for batch in (batch for part in source.parts for batch in part()):
        batches.append(batch)
        n_rows += batch[1]
        if n_rows > MOST_ROWS:
            break
    frame = replace(source, parts=(lambda: iter(batches),)).frame()
    return frame.head(MOST_ROWS), n_rows <= MOST_ROWS


def clamped(shares: Mapping[str, float]) -> str:
    """A warning that cells were clamped, without a final stop. *Sensitive*: it is counted on real rows."""
    ranked = sorted(shares, key=lambda name: -shares[name])
    shown = [f"{name!r} {percent(shares[name])}" for name in ranked[:MOST_NAMED]]
    n_more = len(ranked) - len(shown)
    more = f", and {n_more} more column{'' if n_more == 1 else 's'}" if n_more else ""
    return (
        f"values outside the schema were clamped, or became missing where they cannot be read: {', '.join(shown)} of "
        f"cells{more}, counted on the real rows outside any guarantee; every number but the share of valid rows is "
        "about the table as clamped; check the bounds and categories in the schema"
    )


def parts_of(table: Path) -> Sequence[Path]:
    """The files of a table: itself, or those of a folder in their order."""
    return list_files(table) if table.is_dir() else (table,)


def rewrite(source: Path, to: Path, schema: Schema) -> None:
    """A synthetic table written anew as every measure had it: by the schema, in the same parts."""
    for part in parts_of(source):
        path = to / part.relative_to(source)
        path.parent.mkdir(parents=True, exist_ok=True)
        rows, _ = translate(read_table(part), schema)
        write_table(conform(rows, schema, outside="clamp", part=True), path, schema)


def split_into(
    out: Path, table: RealTable, schema: Schema, outside: Outside, *, private: bool, **settings: Any
) -> tuple[Path, Path]:
    """Train and holdout, written into a new folder that appears whole: two files, or two folders of Parquet parts."""
    train, holdout = (out / f"{side}{table.suffix}" for side in ("train", "holdout"))
    check_names(schema.kept, out / f"train{table.suffix or '.parquet'}")
    out.absolute().parent.mkdir(parents=True, exist_ok=True)
    sides = split_table(read_rows(table, schema, outside, out.absolute().parent), schema, private=private, **settings)
    with whole_folder(out) as folder:
        for rows, path in ((sides.train, folder / train.name), (sides.holdout, folder / holdout.name)):
            if path.suffix:
                write_table(rows.frame(), path, schema)
                continue
            path.mkdir()
            for index, frame in enumerate(_parts(rows)):
                write_table(frame, path / f"part-{index:05}.parquet", schema)
    return train, holdout


def _parts(side: Rows) -> Iterator[pd.DataFrame]:
    """The rows in parts of about as many rows as a file has."""
    frames: list[pd.DataFrame] = []
    for frame in side.frames():
        if frames and sum(map(len, frames)) + len(frame) > ROWS_A_FILE:
            yield pd.concat(frames, ignore_index=True)
            frames = []
        frames.append(frame)
    yield pd.concat(frames, ignore_index=True)


def read_digested(path: Path, limits: SizeLimits = NO_MORE, expected: str | None = None) -> tuple[pd.DataFrame, str]:
    """A table as it was delivered, with the digest of its file."""
    before = digest(path, limits)
    frame = read_table(path, limits=limits)
    if before != digest(path, limits) or (expected is not None and before != expected):
        raise changed(str(path))
    return frame, before


def read_whole(path: Path) -> tuple[tuple[str, ...], str]:
    """Columns and digest of a table as it was delivered, once it is certain that every part of it can be read."""
    before, table = digest(path), Table.of(path)
    if sum(n for part in table.parts for _, n in part()) == 0:
        raise TableError(f"a table needs at least one row: path={str(path)!r} has no rows; add some")
    if digest(path) != before:
        raise changed(str(path))
    return table.names, before


def changed(shown: str) -> TableError:
    """The error about a table that changed while it was measured."""
    return TableError(f"a table must stay as it is while it is measured: path={shown!r} changed; measure it anew")


def digest(path: Path, limits: SizeLimits = NO_MORE) -> str:
    """The SHA-256 of a file, or of files; empty where one cannot be read, of which whoever reads it tells more."""
    try:
        if not path.is_file() and (path.is_dir() or is_pattern(path)):
            return sha256(path)
        with opened(path, limits) as file:  # nobody waits for a pipe
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, ValueError):
        return ""
