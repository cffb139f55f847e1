"""Addresses of stored tables: a file, a folder of files, or a URL of a database with the table's name behind a #."""

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult

from synth.errors import TableError
from synth.url import ESCAPES, MARKS, lacks_scheme, split

SUFFIXES = (".parquet", ".csv", ".csv.gz")
FILES = ("duckdb", "sqlite")
"""Databases that are a file."""
FORMS = (
    'a stored table is named by a file or folder of .parquet or .csv files, or like "postgresql://host/database#table"'
)


@dataclass(frozen=True)
class TableAddress:
    """The address of a table."""

    url: str | None = field(repr=False)
    table: str
    files: tuple[Path, ...]
    shown: str


def parsed(text: str) -> TableAddress:
    """The address that a text names.

    >>> parsed("postgresql://ann:secret@db.example/clinic?password=x#public.visits").shown
    'postgresql://db.example/clinic#public.visits'
    """
    if not text.strip() or "\0" in text:
        raise TableError(f"the stored table has no name; {FORMS}")
    if "://" in text:
        return _of_database(text)
    if lacks_scheme(text) and not Path(text).exists():
        raise TableError(f"the address of the stored table has no scheme; {FORMS}")
    return _of_files(Path(text))


def _of_database(text: str) -> TableAddress:
    parts = split(text, is_file=_names_file(text))
    if parts is None:
        raise TableError(
            f"the address of the stored table cannot be read; {FORMS}, and {ESCAPES}; parameters stand behind a '?' "
            f"before the '#', and a table whose name holds one of {MARKS} is read through a view"
        )
    if not parts.fragment:
        raise TableError(f"the address of a database lacks the table's name; {FORMS}")
    if parts.scheme in FILES:
        _check_file(parts)
    server = f"{parts.hostname or ''}:{parts.port}" if parts.port else parts.hostname or ""
    shown = f"{parts.scheme}://{server}{parts.path}#{parts.fragment}"
    return TableAddress(text.partition("#")[0], parts.fragment, (), shown)


def _check_file(parts: SplitResult) -> None:
    if parts.hostname or not parts.path:
        raise TableError(
            "a database that is a file is named by its whole path behind three slashes, like "
            f'"{parts.scheme}:///data/clinic.db#visits"; write it so'
        )
    if not Path(parts.path).is_file():  # which the engine would make, empty
        raise TableError(f"there is no database at path={parts.path!r}; check the name")


def _names_file(text: str) -> bool:
    """True if it is the address of a database that is a file, and that file is there."""
    scheme, _, rest = text.partition("#")[0].partition("://")
    return scheme in FILES and rest.startswith("/") and Path(rest.partition("?")[0]).is_file()


def _of_files(path: Path) -> TableAddress:
    place = f"path={str(path)!r}"
    if path.is_dir():
        named = sorted(one for one in path.rglob("*") if _suffix(one) is not None and not _is_hidden(one, path))
        found = [one for one in named if one.is_file()]
        if not found:
            raise TableError(f"the folder holds no .parquet and no .csv file: {place}; name another")
    elif path.exists():
        found = [path]
    else:
        raise TableError(f"there is no table at {place}; check the name")
    suffixes = {_suffix(one) for one in found}
    if len(suffixes) != 1 or None in suffixes:
        raise TableError(
            f"the files of one table are all .parquet, all .csv or all .csv.gz: {place} is not; convert it"
        )
    return TableAddress(None, path.name, tuple(found), str(path))


def _is_hidden(path: Path, folder: Path) -> bool:
    """True if writers leave the file beside those of a table: unfinished, or about them."""
    return any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)


def _suffix(path: Path) -> str | None:
    return next(
        (suffix for suffix in sorted(SUFFIXES, key=len, reverse=True) if path.name.lower().endswith(suffix)), None
    )
