"""The source of a real table: a file, a folder or a pattern of files, or the address of a table in a database.

Some tables come embedded in an installed package. They are found without importing it.
"""

import importlib.util
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from synth.errors import JobError, TableError, nearest
from synth.extras import missing_extra

_PACKAGES = {"statsmodels": "datasets"}
"""Packages that bring tables, and their folders."""


def embedded_table(source: str) -> Path:
    """The file of a table that a package brings."""
    package, _, name = source.partition(":")
    if package not in _PACKAGES or not name:
        raise JobError(f"source={source!r} is not known; write one such as 'statsmodels:fair', or a path")
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise missing_extra(f"source={source!r}", "demo")
    home = Path(spec.submodule_search_locations[0]) / _PACKAGES[package]
    tables = {path.stem: path for path in home.glob("*/*.csv") if path.stem == path.parent.name}
    if name not in tables:
        raise JobError(f"source={source!r}: {package} brings no table {name!r}; {nearest(name, tables)}")
    return tables[name]


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


@dataclass(frozen=True)
class RealTable:
    """A real table's place."""

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
        from synth.table.files import check_suffix

        if self.is_database or not Path(self.address).is_file():
            return ""
        return ".parquet" if check_suffix(Path(self.address)) in (".parquet", ".feather", ".arrow") else ".csv"

    @property
    def paths(self) -> tuple[Path, ...]:
        """A file or a folder, or the files of a pattern; none in a database."""
        from synth.table.files import list_files

        if self.is_database:
            return ()
        path = Path(self.address)
        return tuple(list_files(path)) if is_pattern(path) else (path,)


def find_table(address: str, home: Path = Path()) -> RealTable:
    """The place of a table. No row of it is read, and no connection is made."""
    from synth.table.databases import parse_address
    from synth.table.files import list_files

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
    from synth.table.files import list_files

    if path.is_dir() or is_pattern(path):
        named = path.rglob("*") if path.is_dir() else list_files(path)
        files = sorted((str(file), file.stat()) for file in named if file.is_file())
        return {"path": str(path), "files": [[name, status.st_size, status.st_mtime_ns] for name, status in files]}
    if not path.is_file():
        return {"path": str(path)}
    status = path.stat()
    return {"path": str(path), "bytes": status.st_size, "modified_ns": status.st_mtime_ns}


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
    from synth.table.databases import parse_address

    parse_address(address)  # refuses what does not come apart cleanly, whose parts may hold some of a password
    parts = urlsplit(address)
    unknown = any(name.lower() not in _PARAMETERS for name, _ in parse_qsl(parts.query, keep_blank_values=True))
    if parts.password is not None or unknown:
        raise ValueError(
            "the address of a table in a job holds no password, no token, and of parameters only "
            f"{', '.join(sorted(_PARAMETERS))}, since the job is copied into the output; leave others out and use the "
            "driver's own places, such as PGPASSWORD or a pgpass file"
        )
