"""The files of a bundle, as they really lie in a folder: plain files, folders, and what is neither.

No link is ever followed. `BundleError` is a child of `BadInput`, so that the command line ends in exit code 2.
"""

import hashlib
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from synth.errors import BadInput


class BundleError(BadInput):
    """A bundle, a key or a register cannot be used, or what was asked of it is refused; nothing was written."""


_CLOSED = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
"""A link is refused, and a pipe that nobody writes to does not wait."""


@dataclass(frozen=True)
class Contents:
    """Everything below a folder, by its path from there, with `/` between the parts."""

    files: dict[str, Path] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)
    odd: dict[str, str] = field(default_factory=dict)

    @property
    def empty_folders(self) -> tuple[str, ...]:
        """Folders with nothing in them, which no manifest can name."""
        held = {parent for path in (*self.files, *self.folders, *self.odd) for parent in [path.rpartition("/")[0]]}
        return tuple(sorted(self.folders - held))


def contents(folder: Path) -> Contents:
    """Everything below a folder, hidden or not."""
    found = Contents()
    waiting = [""]
    while waiting:
        prefix = waiting.pop()
        try:
            with os.scandir(folder / prefix) as entries:
                for entry in entries:
                    _sort(entry, f"{prefix}{entry.name}", found, waiting.append)
        except OSError as error:
            if not prefix:
                raise BundleError(
                    f"the folder cannot be read: path={str(folder)!r} ({error.strerror}); name one that can"
                ) from None
            found.odd[prefix.rstrip("/")] = f"a folder that cannot be read ({error.strerror})"
    return found


def _sort(entry: "os.DirEntry[str]", path: str, found: Contents, later: Callable[[str], None]) -> None:
    if entry.is_symlink():
        found.odd[path] = "a link"
    elif entry.is_dir(follow_symlinks=False):
        found.folders.add(path)
        later(f"{path}/")
    elif entry.is_file(follow_symlinks=False):
        found.files[path] = Path(entry.path)
    else:
        found.odd[path] = "no plain file"


def read_plain(path: Path, limit: int) -> bytes:
    """The content of a small plain file."""
    handle, size = _opened(path)
    with os.fdopen(handle, "rb") as file:
        if size > limit:
            raise BundleError(f"{path.name} is larger than such a file can be: bytes={size}; it may have {limit}")
        return file.read(limit + 1)


def digest(path: Path, expected_size: int | None = None) -> tuple[str, int]:
    """SHA-256 in hexadecimal, and bytes, of a plain file."""
    handle, size = _opened(path)
    with os.fdopen(handle, "rb") as file:
        if expected_size not in (None, size):
            return "", size
        try:
            return hashlib.file_digest(file, "sha256").hexdigest(), size
        except OSError as error:
            raise _unreadable(path, error) from None


def _opened(path: Path) -> tuple[int, int]:
    try:
        handle = os.open(path, _CLOSED)
    except OSError as error:
        raise _unreadable(path, error) from None
    found = os.fstat(handle)
    if stat.S_ISREG(found.st_mode):
        return handle, found.st_size
    os.close(handle)
    raise BundleError(f"{path.name} is no plain file; put the file itself there")


def _unreadable(path: Path, error: OSError) -> BundleError:
    return BundleError(f"{path.name} cannot be read ({error.strerror}); ask for access, or for another copy")
