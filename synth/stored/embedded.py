"""The embedded DuckDB: what it may take, and the folder that it writes in, which outlives no process for long.

The folder holds real rows. It is removed when the block ends, and where the process was killed in between, by the next
one that starts: a folder whose lock is free has no owner any more.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ibis
from filelock import FileLock, Timeout

from synth.errors import PlaceError

MEMORY_MB = 1_500
"""What it may take; what does not fit goes to its folder."""
PREFIX, LOCK = "understudy-", "lock"
CATALOG = "understudy_work"
"""The name of its own database: tables written there are compressed, as a database's temporary ones are not."""
_WORK, _HELD = f"{CATALOG}.duckdb", "held"
_OPTIONS = {
    "storage_compatibility_version": "latest",  # texts are written in a third less time, and read in a quarter less
    "perfect_ht_threshold": 20,  # up to 2**20 cells are counted in an array; by default 2**12
}


@contextmanager
def embedded(*, memory_mb: int = MEMORY_MB, threads: int | None = None) -> Iterator[Any]:
    """Ibis's connection to an engine of its own, as long as the block lasts.

    Args:
        memory_mb: what it may take.
        threads: that it runs; none: as many as there are cores.

    Raises:
        PlaceError: the folder for temporary files cannot be written; nothing was read.
    """
    with work_folder() as folder:
        options: dict[str, Any] = {"memory_limit": f"{memory_mb}MB", "temp_directory": str(folder), **_OPTIONS}
        options |= {} if threads is None else {"threads": threads}
        connection = ibis.duckdb.connect(folder / _WORK, **options)
        try:
            yield connection
        finally:
            connection.con.interrupt()  # a query that Ctrl-C has left behind goes on, and closing waits for it
            connection.disconnect()


@contextmanager
def work_folder() -> Iterator[Path]:
    """A folder for real rows beside the system's temporary files, as long as the block lasts; orphans are removed.

    Raises:
        PlaceError: it cannot be made; nothing was read.
    """
    _remove_orphans(Path(tempfile.gettempdir()))
    try:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    except OSError as error:
        reason = error.strerror
    else:
        reason = None
    if reason is not None:
        raise PlaceError(
            f"no folder can be made beside the system's temporary files ({reason}); make room there, or name another "
            "place with the environment's TMPDIR"
        )
    try:
        # Locked before it holds a row, so that a folder that holds some and is not locked has no owner.
        with FileLock(folder / LOCK):
            (folder / _HELD).touch()
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _remove_orphans(place: Path) -> None:
    for folder in place.glob(f"{PREFIX}*"):
        if not _holds_rows(folder):
            continue
        try:
            with FileLock(folder / LOCK, timeout=0):
                shutil.rmtree(folder, ignore_errors=True)
        except (Timeout, OSError):  # it is another's, or was removed by another in between
            continue


def _holds_rows(folder: Path) -> bool:
    """Whether it is a folder of this user's that was locked once; links are not followed."""
    try:
        ours = not hasattr(os, "getuid") or folder.lstat().st_uid == os.getuid()
        return ours and not folder.is_symlink() and (folder / LOCK).is_file() and (folder / _HELD).is_file()
    except OSError:
        return False
