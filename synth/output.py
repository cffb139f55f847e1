"""Files and folders that appear whole or not at all: written beside, flushed to the disk, then renamed."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from synth.errors import OutputError


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A path beside `path` to write to; it takes `path`'s name when the block ends well, and is gone otherwise.

    What has taken the name survives a power cut. A process that is killed may leave a hidden file beside.

    Raises:
        OutputError: the folder is not there or cannot be written; nothing was left.
    """
    check_writable(path)
    try:
        handle, beside = tempfile.mkstemp(prefix=f".{path.name[:40]}.", suffix=path.suffix, dir=path.parent)
    except OSError as error:
        raise _unwritable(path, error) from None
    os.close(handle)
    temporary = Path(beside)
    try:
        yield temporary
        temporary.chmod(0o666 & ~_umask())
        sync(temporary)
        temporary.replace(path)
        sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """An empty folder beside `path` to fill; it takes `path`'s name when the block ends well, and is gone otherwise.

    What has taken the name survives a power cut. A process that is killed may leave a hidden folder beside.

    Raises:
        OutputError: `path` exists and is not an empty folder, or its parent cannot be written; nothing was left.
    """
    check_new_folder(path)
    try:
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.name[:40]}.", dir=path.parent))
    except OSError as error:
        raise _unwritable(path, error) from None
    try:
        yield temporary
        temporary.chmod(0o777 & ~_umask())
        sync_all(temporary)
        temporary.replace(path)
        sync(path.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def sync(path: Path) -> None:
    """Flush a file's content, or the names in a folder, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_all(folder: Path) -> None:
    """Flush everything in a folder to the disk, itself last."""
    for path in folder.rglob("*"):
        sync(path)
    sync(folder)


def check_writable(path: Path) -> None:
    """Refuse a file path that cannot be written, before any work is done.

    Raises:
        OutputError: the folder is missing or closed to writing, or the path names a folder.
    """
    if path.is_dir():
        raise OutputError(f"an output file needs a name of its own: {str(path)!r} is a folder; name a file in it")
    _check_parent(path)


def check_new_file(path: Path, *, force: bool) -> None:
    """Refuse a file path that cannot be written, or that is taken, before any work is done.

    Args:
        path: of an output.
        force: whether whoever asks for it says that a file there may be replaced.

    Raises:
        OutputError: it cannot be written, or it exists and may not be replaced; what is there stays as it is.
    """
    check_writable(path)
    if not force and (path.exists() or path.is_symlink()):
        raise OutputError(f"an output file must be new: {str(path)!r} exists; name another, or replace it with --force")


def remove_older(path: Path) -> None:
    """Remove a file of an earlier start, so that nobody takes it for this one's; nothing but a plain file is touched.

    Raises:
        OutputError: it cannot be removed.
    """
    if path.is_symlink() or not path.is_file():
        return
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise _unwritable(path, error) from None


def check_new_folder(path: Path) -> None:
    """Refuse a folder path that is taken or cannot be made, before any work is done.

    Raises:
        OutputError: it exists and is not an empty folder, or its parent is missing or closed to writing.
    """
    if is_taken(path):
        raise OutputError(f"an output folder must be new: {str(path)!r} exists; name another or remove it")
    _check_parent(path)


def is_taken(path: Path) -> bool:
    """Whether a path holds anything but an empty folder."""
    return path.is_symlink() or (path.exists() and (not path.is_dir() or any(path.iterdir())))


def _check_parent(path: Path) -> None:
    parent = path.absolute().parent
    if not parent.is_dir():
        raise OutputError(f"the folder of {str(path)!r} does not exist; create it first")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise OutputError(f"the folder of {str(path)!r} cannot be written; choose another or change its permissions")


def _unwritable(path: Path, error: OSError) -> OutputError:
    return OutputError(f"{str(path)!r} cannot be written ({error.strerror}); choose another place or make room there")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
