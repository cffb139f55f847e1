"""Files and folders that appear whole or not at all: written beside, flushed to the disk, then renamed."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from synth.errors import OutputError

_LOCK, _CALL, _MADE = "lock", "call.json", "made"
_SHOWN_CHARACTERS = 40
"""Of an output's name in that of a hidden folder beside it."""


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
        raise unwritable(path, error) from None
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
        raise unwritable(path, error) from None
    try:
        yield temporary
        temporary.chmod(0o777 & ~_umask())
        sync_all(temporary)
        temporary.replace(path)
        sync(path.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@dataclass(frozen=True)
class Making:
    """An output that one command makes, from its first check until it has told what it made.

    Attributes:
        out: the file or folder that will appear.
        place: where it is made, in a hidden folder beside; nothing is there yet.
        call: what the command was asked for.
        told: what an earlier start of the same command made, where it was killed before it could say so; else `None`.
    """

    out: Path
    place: Path
    call: Mapping[str, Any]
    told: Mapping[str, Any] | None

    @property
    def notice(self) -> str:
        """A sentence that says that nothing was made anew."""
        return f"the output is whole: an earlier start of this command was cut short once {str(self.out)!r} was there"

    def finish(self, told: Mapping[str, Any]) -> None:
        """Turn what was made into the output; it survives a power cut.

        Args:
            told: what the command will tell of it, as JSON has it.

        Raises:
            OutputError: the output cannot be written; nothing of it is left.
        """
        try:
            sync_all(self.place)
            with whole_file(self.place.parent.parent / _CALL) as beside:
                content = {"call": self.call, "told": told, "files": stamp(self.place)}
                beside.write_text(json.dumps(content), encoding="utf-8")
            self.appear()
        except OSError as error:
            raise unwritable(self.out, error) from None

    def appear(self) -> None:
        """Give what was made its name."""
        self.place.replace(self.out)
        sync(self.out.absolute().parent)


@contextmanager
def making(out: Path, call: Mapping[str, Any], *, is_file: bool = False, force: bool = False) -> Iterator[Making]:
    """An output in the making, for this process alone; what is left of it is removed when the block ends.

    Whoever kills the process between the output's appearance and the block's end leaves a hidden folder that says whose
    output that is. The same command then finds it made, and makes it no second time.

    Args:
        out: a file or folder, which must be new unless `call` made it.
        call: what the command is asked for and what it reads, as JSON has it.
        is_file: whether it is a file.
        force: whether an older file may be replaced.

    Raises:
        OutputError: it is taken or cannot be made, or another process is at work on it; nothing was changed.
    """
    _check_parent(out)
    hidden = hidden_beside(out, ".making")
    with _alone(hidden, out):
        made = Making(out, hidden / _MADE / out.name, json.loads(json.dumps(call, default=str)), None)
        made = replace(made, told=_told(made))
        is_whole = made.told is not None and not made.place.exists()
        if not is_whole:
            check_new_file(out, force=force) if is_file else check_new_folder(out)
        try:
            if made.told is None:
                _empty(hidden)
                made.place.parent.mkdir()
            elif not is_whole:
                made.appear()
            yield made
        finally:
            _empty(hidden)


@contextmanager
def sole(folder: Path, busy: str, refused: Callable[[OSError], OutputError]) -> Iterator[None]:
    """This process has a hidden folder to itself, as long as the block lasts; it is made where it is not there.

    Args:
        folder: holds the lock.
        busy: the error's sentence where another process has it.
        refused: the error where it cannot be made.

    Raises:
        OutputError: another process has it, or it cannot be made.
    """
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        lock = FileLock(folder / _LOCK)
        lock.acquire(blocking=False)
    except Timeout:
        raise OutputError(busy) from None
    except OSError as error:
        raise refused(error) from None
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _alone(hidden: Path, out: Path) -> Iterator[None]:
    """This process has a hidden folder to itself; it goes when the block ends, unless it tells of an output.

    Raises:
        OutputError: another process has it, or it cannot be made.
    """
    busy = f"another process is writing {str(out)!r}; wait for it to end, or name another output"
    with sole(hidden, busy, lambda error: unwritable(out, error)):
        try:
            yield
        finally:
            if not (hidden / _CALL).exists():
                shutil.rmtree(hidden, ignore_errors=True)


def hidden_beside(out: Path, ending: str) -> Path:
    """A hidden folder beside an output, whose name is no longer than a file system allows."""
    whole = out.absolute()
    name = whole.name
    if len(name) > _SHOWN_CHARACTERS:
        digest = hashlib.blake2b(os.fsencode(name), digest_size=8).hexdigest()
        name = f"{name[:_SHOWN_CHARACTERS]}.{digest}"
    return whole.parent / f".{name}{ending}"


def _told(made: Making) -> Mapping[str, Any] | None:
    """The report of the same call on the output that it made whole; `None` where it made no output."""
    path = made.place.parent.parent / _CALL
    if not path.exists():
        return None
    content = json.loads(path.read_text(encoding="utf-8"))
    told: Mapping[str, Any] = content["told"]
    there = stamp(made.place if made.place.exists() else made.out)
    return told if content["call"] == made.call and content["files"] == there else None


def stamp(path: Path) -> str:
    """A digest of which files an output is: their names, inodes, sizes and times, none of which a rename changes.

    A file that was written, copied or put there by anybody else has another.

    Args:
        path: a file or folder; one that is not there has a stamp, too, that of no file.
    """
    files = [path] if path.is_file() else sorted(one for one in path.rglob("*") if one.is_file())
    found = [(one.relative_to(path).as_posix(), one.stat()) for one in files]
    told = json.dumps([[name, state.st_ino, state.st_size, state.st_mtime_ns] for name, state in found])
    return hashlib.blake2b(told.encode(errors="surrogatepass"), digest_size=16).hexdigest()


def _empty(hidden: Path) -> None:
    """Remove what is in the folder but its lock: what tells of an output that has appeared last, of any other first."""
    if any((hidden / _MADE).glob("*")):
        (hidden / _CALL).unlink(missing_ok=True)
    shutil.rmtree(hidden / _MADE, ignore_errors=True)
    for path in hidden.iterdir():
        if path.name != _LOCK:
            path.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Flush a file's content, or the names in a folder, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_all(folder: Path) -> None:
    """Flush a file, or everything in a folder and itself last, to the disk."""
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
        raise unwritable(path, error) from None


def check_new_folder(path: Path) -> None:
    """Refuse a folder path that is taken or cannot be made, before any work is done.

    Raises:
        OutputError: it exists and is not an empty folder, or its parent is missing or closed to writing.
    """
    if is_taken(path):
        raise OutputError(f"an output folder must be new: {str(path)!r} exists; name another or remove it")
    _check_parent(path)


def is_taken(path: Path) -> bool:
    """True if a path holds anything but an empty folder."""
    return path.is_symlink() or (path.exists() and (not path.is_dir() or any(path.iterdir())))


def _check_parent(path: Path) -> None:
    parent = path.absolute().parent
    if not parent.is_dir():
        raise OutputError(f"the folder of {str(path)!r} does not exist; create it first")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise OutputError(f"the folder of {str(path)!r} cannot be written; choose another or change its permissions")


def unwritable(path: Path, error: OSError) -> OutputError:
    """The error of an output that the system does not let be written, with its remedy."""
    return OutputError(f"{str(path)!r} cannot be written ({error.strerror}); choose another place or make room there")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
