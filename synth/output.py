"""Files and folders that appear whole or not at all: written beside, flushed to the disk, then renamed."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from synth.errors import OutputError

RUN = ".unfinished"  # the ending of the hidden folder beside the output of a run
_LOCK, _STATE = "lock", "work.json"
_SHOWN_CHARACTERS = 40  # of an output's name in that of a hidden folder beside it


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A path beside `path` to write to; it takes `path`'s name when the block ends well, and is gone otherwise.

    What has taken the name survives a power cut. A process that is killed may leave a hidden file beside.
    """
    check_writable(path)
    with _appearing(path, is_file=True) as beside:
        yield beside


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """An empty folder beside `path` to fill, as `whole_file` is a file to write to."""
    check_new_folder(path)
    with _appearing(path, is_file=False) as beside:
        yield beside


@contextmanager
def _appearing(path: Path, *, is_file: bool) -> Iterator[Path]:
    prefix = f".{path.name[:_SHOWN_CHARACTERS]}."
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if is_file:
            handle, beside = tempfile.mkstemp(prefix=prefix, suffix=path.suffix, dir=path.parent)
            os.close(handle)
        else:
            beside = tempfile.mkdtemp(prefix=prefix, dir=path.parent)
    except OSError as error:
        raise unwritable(path, error) from None
    temporary = Path(beside)
    try:
        yield temporary
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod((0o666 if is_file else 0o777) & ~umask)
        sync_all(temporary)
        temporary.replace(path)
        sync(path.parent)
    finally:
        if is_file:
            temporary.unlink(missing_ok=True)
        else:
            shutil.rmtree(temporary, ignore_errors=True)


@dataclass(frozen=True)
class Unfinished:
    """Unfinished work on an output: a hidden folder beside it, which a later start of the same work goes on from.

    ::

        .NAME.ENDING/
            lock         held by the process at work
            work.json    whose work it is
            RESULT       becomes the output by one rename
            ...          what else the work needs

    The state is written beside and renamed, so that it is whole. Where the folder is removed the state goes first: what
    a killed process leaves of that is nobody's.
    """

    folder: Path
    out: Path
    result: Path

    @property
    def state(self) -> dict[str, Any]:
        """The identity of this work; empty where it is nobody's."""
        return read_state(self.folder / _STATE, {})  # type: ignore[no-any-return]

    def write_state(self, content: Mapping[str, Any]) -> None:
        with whole_file(self.folder / _STATE) as beside:
            beside.write_text(json.dumps(content), encoding="utf-8")

    @contextmanager
    def held(self, busy: str) -> Iterator[None]:
        """This process has the folder to itself, as long as the block lasts; it is made where it is not there."""
        with sole(self.folder, busy, lambda error: unwritable(self.out, error)):
            yield

    def publish(self) -> None:
        sync_all(self.result)
        self.result.replace(self.out)
        sync(self.out.absolute().parent)

    def clear(self) -> None:
        """Remove everything but the lock, and first of all what says whose work it is."""
        (self.folder / _STATE).unlink(missing_ok=True)
        sync(self.folder)
        self.sweep()

    def sweep(self, *kept: str) -> None:
        """Remove everything but the lock, the state and what is named."""
        for path in self.folder.iterdir():
            if path.name not in (_LOCK, _STATE, *kept):
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    def discard(self) -> None:
        if self.folder.is_dir():
            (self.folder / _STATE).unlink(missing_ok=True)
            shutil.rmtree(self.folder, ignore_errors=True)


def read_state(path: Path, otherwise: Any) -> Any:
    """The content of a JSON file of unfinished work, or what stands for it where there is none."""
    try:
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else otherwise
    except (ValueError, RecursionError):
        raise OutputError(
            f"the unfinished work is damaged: path={str(path)!r}; remove its folder and start anew (what was drawn "
            "stays spent)"
        ) from None


@contextmanager
def sole(folder: Path, busy: str, refused: Callable[[OSError], OutputError]) -> Iterator[None]:
    """This process has a hidden folder to itself, as long as the block lasts; it is made where it is not there."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
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


def hidden_beside(out: Path, ending: str) -> Path:
    """A hidden folder beside an output, whose name is no longer than a file system allows."""
    whole = out.absolute()
    name = whole.name
    if len(name) > _SHOWN_CHARACTERS:
        digest = hashlib.blake2b(os.fsencode(name), digest_size=8).hexdigest()
        name = f"{name[:_SHOWN_CHARACTERS]}.{digest}"
    return whole.parent / f".{name}{ending}"


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
    """Refuse a file path that cannot be written, before any work is done."""
    if path.is_dir():
        raise OutputError(f"an output file needs a name of its own: {str(path)!r} is a folder; name a file in it")
    _check_parent(path)


def check_new_file(path: Path, *, force: bool) -> None:
    """Refuse a file path that cannot be written, or that is taken, before any work is done."""
    check_writable(path)
    if not force and (path.exists() or path.is_symlink()):
        raise OutputError(f"an output file must be new: {str(path)!r} exists; name another, or replace it with --force")


def remove_older(path: Path) -> None:
    """Remove a plain file of an earlier start, so that nobody takes it for this one's."""
    if path.is_symlink() or not path.is_file():
        return
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise unwritable(path, error) from None


def check_new_folder(path: Path) -> None:
    """Refuse a folder path that is taken or cannot be made, before any work is done."""
    if is_taken(path):
        raise OutputError(f"an output folder must be new: {str(path)!r} exists; name another or remove it")
    _check_parent(path)


def is_taken(path: Path) -> bool:
    """True if a path holds anything but an empty folder."""
    try:
        return path.is_symlink() or (path.exists() and (not path.is_dir() or any(path.iterdir())))
    except OSError as error:
        raise unwritable(path, error) from None


def _check_parent(path: Path) -> None:
    parent = next(folder for folder in path.absolute().parents if folder.exists())
    if not parent.is_dir():
        raise OutputError(f"the folder of {str(path)!r} cannot be made: {str(parent)!r} is a file; choose another")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise OutputError(f"the folder of {str(path)!r} cannot be written; choose another or change its permissions")


def unwritable(path: Path, error: OSError) -> OutputError:
    """The error of an output that the system does not let be written, with its remedy."""
    reason = type(error).__name__ if error.errno is None else os.strerror(error.errno)
    return OutputError(f"{str(path)!r} cannot be written ({reason}); make room there or choose another place")
