"""Tables in files: what reads each suffix, folders and patterns of files that are alike, and one file in memory."""

import glob
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pyarrow as pa

from synth.errors import TableError
from synth.table import binary_files, text_files
from synth.table.text_files import IN_PARTS, Batch, SizeLimits
from synth.table.typed_cells import as_objects

SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".jsonl", ".jsonl.gz", ".parquet", ".feather", ".arrow", ".xlsx")
WRITTEN = (".csv", ".csv.gz", ".parquet")  # suffixes of the files that are written
Part = Callable[[], Iterator[Batch]]


@dataclass(frozen=True)
class Files:
    """Names of columns, the types that typed files declare, and parts, each of which reads rows when it is called."""

    names: tuple[str, ...]
    parts: tuple[Part, ...] = field(repr=False)
    kinds: Mapping[str, pa.DataType] = field(default_factory=dict, repr=False)
    notes: tuple[str, ...] = ()


def open_files(path: Path, limits: SizeLimits = IN_PARTS) -> Files:
    """One file, or those of a folder or a pattern in the order of their names; all have the same columns."""
    first, *others = list_files(path)
    files = _open(first, limits)
    parts = list(files.parts)
    for other in others:
        more = _open(other, limits)
        for name in dict.fromkeys((*files.names, *more.names)):
            if files.names.count(name) != more.names.count(name) or files.kinds.get(name) != more.kinds.get(name):
                raise TableError(
                    f"the files of a table have the same columns and types: path={str(other)!r} and the first differ "
                    f"in column={name!r}; export them anew, all alike"
                )
        parts += more.parts
    return replace(files, parts=tuple(parts))


def list_files(path: Path) -> list[Path]:
    """The files of a table: itself, or those of a folder or a pattern, all of one format."""
    shown = f"path={str(path)!r}"
    if "\0" in str(path):
        raise TableError(f"a path holds no NUL character: {shown} does; check the name")
    if path.is_dir():
        # Hidden ones are what writers leave beside those of a table: unfinished, or about them.
        below = {p: p.relative_to(path).parts for p in path.rglob("*") if _suffix(p) is not None}
        named = sorted(p for p, parts in below.items() if not any(part.startswith((".", "_")) for part in parts))
    elif any(mark in str(path) for mark in "*?[") and not path.exists():
        named = sorted(Path(name) for name in glob.glob(str(path), recursive=True) if _suffix(Path(name)) is not None)  # noqa: PTH207
    else:
        check_suffix(path)
        return [path]
    files = [p for p in named if p.is_file()]
    if not files:
        what = "is a folder that holds no file" if path.is_dir() else "is a pattern of no file"
        raise TableError(f"there is no table: {shown} {what} of {', '.join(SUFFIXES)}; name another")
    if len({_suffix(p) for p in files}) > 1:
        raise TableError(
            f"the files of one table have one suffix: {shown} has several; convert them, or name a pattern"
        )
    return files


def _suffix(path: Path) -> str | None:
    return next((s for s in sorted(SUFFIXES, key=len, reverse=True) if path.name.lower().endswith(s)), None)


def check_suffix(path: Path, suffixes: Sequence[str] = SUFFIXES) -> str:
    suffix = _suffix(path)
    if suffix not in suffixes:
        raise TableError(f"a table must be a file of {', '.join(suffixes)}: path={str(path)!r} is none; convert it")
    return str(suffix)


def _open(path: Path, limits: SizeLimits) -> Files:
    suffix = check_suffix(path).removesuffix(".gz")
    kinds: dict[str, pa.DataType] = {}
    notes: tuple[str, ...] = ()
    with explained(path):
        if suffix == ".parquet":
            schema, index, n_groups = binary_files.parquet_facts(path, limits)
            if index:
                listed = ", ".join(map(repr, sorted(index)))
                notes = (f"the row numbers that pandas stored in path={str(path)!r} ({listed}) are left out",)
            kinds = {field.name: field.type for field in schema if field.name not in index}
            names = [name for name in schema.names if name not in index]
            parts: list[Part] = [
                partial(binary_files.read_parquet, path, schema, limits, group) for group in range(n_groups)
            ]
        elif suffix in (".feather", ".arrow"):
            schema = binary_files.feather_kinds(path, limits)
            names, kinds = schema.names, {field.name: field.type for field in schema}
            parts = [partial(binary_files.read_feather, path, limits)]
        else:
            names, part, notes = _untyped(path, suffix, limits)
            parts = [part]
    return Files(tuple(names), tuple(partial(_explained, part, path) for part in parts), kinds, notes)


def _untyped(path: Path, suffix: str, limits: SizeLimits) -> tuple[list[str], Part, tuple[str, ...]]:
    if suffix == ".jsonl":
        names = text_files.json_names(path, limits)
        return names, partial(text_files.read_json_lines, path, names, limits), ()
    if suffix == ".xlsx":
        header = ["" if name is None else str(name) for name in binary_files.excel_rows(path, limits)[0]]
        names = name_leading(header)
        read = partial(_read_excel, path, names, limits)
    else:
        delimiter = "\t" if suffix == ".tsv" else ","
        header = text_files.csv_names(path, limits, delimiter)
        names = name_leading(header)
        read = partial(text_files.read_csv, path, names, limits, delimiter)
    unnamed = ", ".join(repr(new) for new, old in zip(names, header, strict=True) if not old)
    note = (
        f"the first column of path={str(path)!r} has no name, as row names have none; it is read as {unnamed}, which a "
        "proposed schema leaves out"
    )
    return names, read, (note,) if names != header else ()


def _read_excel(path: Path, names: Sequence[str], limits: SizeLimits) -> Iterator[Batch]:
    _, *rows = binary_files.excel_rows(path, limits)
    yield {name: as_objects(row[i] for row in rows) for i, name in enumerate(names)}, len(rows)


def name_leading(names: list[str]) -> list[str]:
    """The names with those of leading columns that have none, such as row names of pandas and R, as pandas calls them.

    >>> name_leading(["", "a", ""])
    ['Unnamed: 0', 'a', '']
    """
    n_unnamed = next((i for i, name in enumerate(names) if name), 0)
    return [f"Unnamed: {i}" if i < n_unnamed else name for i, name in enumerate(names)]


def _explained(part: Part, path: Path) -> Iterator[Batch]:
    with explained(path):
        yield from part()


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """A block in which errors of the system are told in a sentence."""
    shown = f"path={str(path)!r}"
    try:
        yield
        return
    except FileNotFoundError:
        reason = f"there is no table at {shown}; check the name"
    except OSError as error:
        reason = f"the table at {shown} cannot be read ({error.strerror}); check its permissions and the disk"
    raise TableError(reason)
