"""The source of a real table: a file that is read into memory, or a table that stays where it is stored.

Some tables come embedded in an installed package. They are found without importing it.
"""

import importlib.util
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import parse_qsl, urlsplit
from uuid import uuid4

from synth.distribution import missing_extra
from synth.errors import JobError, TableError, nearest

_PACKAGES = {"statsmodels": "datasets"}
"""Packages that bring tables, and their folders."""


def embedded_table(source: str) -> Path:
    """The file of a table that a package brings."""
    package, _, name = source.partition(":")
    if package not in _PACKAGES or not name:
        raise JobError(f"source={source!r} is not known; write one such as 'statsmodels:fair', or a path")
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise missing_extra(f"source={source!r}", "demo")
    home = Path(found.submodule_search_locations[0]) / _PACKAGES[package]
    tables = {path.stem: path for path in home.glob("*/*.csv") if path.stem == path.parent.name}
    if name not in tables:
        raise JobError(f"source={source!r}: {package} brings no table {name!r}; {nearest(name, tables)}")
    return tables[name]


Engine = Literal["memory", "stored"]
MEMORY_MB, LEAST_MEMORY_MB = 1_500, 100
"""Memory of the embedded engine: its default, and its minimum."""
FILES = "a .csv, .csv.gz or .parquet file, a folder of such files, or an address like postgresql://host/database#table"
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
    """A real table's place, and how it is read there."""

    address: str = field(repr=False)
    shown: str
    stored: bool
    memory_mb: int = MEMORY_MB
    threads: int | None = None

    @property
    def is_database(self) -> bool:
        """True where it is in a database, which its rows may not leave."""
        return "://" in self.address

    @property
    def suffix(self) -> str:
        """The suffix of tables beside it: of its format, or empty for folders of Parquet parts."""
        from synth.table.files import check_suffix

        if self.stored:
            return ""
        return ".parquet" if check_suffix(self.file) == ".parquet" else ".csv"

    @property
    def state(self) -> dict[str, Any]:
        """The state that tells a table from others unread; a database may be another one at each look."""
        return {"table": self.shown, "look": uuid4().hex} if self.is_database else file_state(Path(self.address))

    @property
    def file(self) -> Path:
        """The file of a table that is read into memory."""
        if self.stored:
            raise TableError(f"table={self.shown!r} stays where it is stored; set engine=memory for a file")
        return Path(self.address)

    def shared(self, n: int) -> Self:
        """The same for each of several engines at work at once."""
        return replace(self, memory_mb=max(self.memory_mb // n, LEAST_MEMORY_MB))


def find_table(
    given: str, home: Path = Path(), *, engine: Engine | None = None, memory_mb: int | None = None,
    threads: int | None = None,
) -> RealTable:  # fmt: skip
    """The place of a table. No row of it is read, and no connection is made."""
    text = given if "://" in given else str(home / given)
    if "://" not in given and is_address(given):
        raise TableError(_MISSPELLED)
    if "://" not in text and not Path(text).is_dir() and engine != "stored":
        if not Path(text).is_file():
            raise TableError(f"the table is not there: path={text!r}; name {FILES}")
        if memory_mb is not None or threads is not None:
            raise JobError(
                "memory_mb and threads are of the engine for tables that stay where they are stored, and a file is "
                'read into memory; leave them out, or set engine = "stored"'
            )
        return RealTable(text, text, stored=False)
    from synth.stored.address import parsed

    shown = parsed(text).shown
    if engine == "memory":
        raise JobError(
            f'only a file is read into memory, and {shown!r} is a folder or a database; leave engine = "memory" out'
        )
    return RealTable(text, shown, stored=True, memory_mb=memory_mb or MEMORY_MB, threads=threads)


def file_state(path: Path) -> dict[str, Any]:
    """The state of a file or folder, which tells it from others unread: equal or not, whatever a clock says."""
    if path.is_dir():
        files = sorted((one.relative_to(path).as_posix(), one.stat()) for one in path.rglob("*") if one.is_file())
        return {"path": str(path), "files": [[name, found.st_size, found.st_mtime_ns] for name, found in files]}
    if not path.is_file():
        return {"path": str(path)}
    found = path.stat()
    return {"path": str(path), "bytes": found.st_size, "modified_ns": found.st_mtime_ns}


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
    from synth.stored.address import parsed

    parsed(address)  # refuses what does not come apart cleanly, whose parts may hold some of a password
    parts = urlsplit(address)
    unknown = any(name.lower() not in _PARAMETERS for name, _ in parse_qsl(parts.query, keep_blank_values=True))
    if parts.password is not None or unknown:
        raise ValueError(
            "the address of a table in a job holds no password, no token, and of parameters only "
            f"{', '.join(sorted(_PARAMETERS))}, since the job is copied into the output; leave others out and use the "
            "driver's own places, such as PGPASSWORD or a pgpass file"
        )
