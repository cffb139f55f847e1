"""The files of a bundle as they really lie in a folder. No link is ever followed, and no pipe is waited for."""

import hashlib
import os
import stat
from pathlib import Path

from synth.errors import BadInput

FILE, FOLDER, LINK = "a file", "a folder", "a link"
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class BundleError(BadInput):
    """A bundle, a key or a register cannot be used, or what was asked of it is refused; nothing was written."""


def contents(folder: Path) -> dict[str, str]:
    """What everything below a folder is, hidden or not, by its path from there with `/` between the parts."""
    kinds = dict[str, str]()

    def refuse(error: OSError) -> None:
        name = os.path.relpath(error.filename, folder)
        if name == ".":
            raise BundleError(f"the folder cannot be read: path={str(folder)!r} ({error.strerror}); name one that can")
        kinds[name] = f"a folder that cannot be read ({error.strerror})"

    for at, folders, files in os.walk(folder, onerror=refuse):
        for path in (Path(at, name) for name in (*folders, *files)):
            kinds[path.relative_to(folder).as_posix()] = _kind(path.lstat().st_mode)
    return kinds


def _kind(mode: int) -> str:
    known = {stat.S_IFREG: FILE, stat.S_IFDIR: FOLDER, stat.S_IFLNK: LINK}
    return known.get(stat.S_IFMT(mode), "no plain file")


def read_plain(path: Path, limit: int) -> bytes:
    """The content of a small plain file."""
    handle, size = _opened(path)
    with os.fdopen(handle, "rb") as file:
        if size > limit:
            raise BundleError(f"{path.name} is larger than such a file can be: bytes={size}; it may have {limit}")
        return file.read(limit + 1)


def digest(path: Path, expected_size: int | None = None) -> tuple[str, int]:
    """SHA-256 in hexadecimal, and bytes, of a plain file; one of another size than expected is not read."""
    handle, size = _opened(path)
    with os.fdopen(handle, "rb") as file:
        if expected_size not in (None, size):
            return "", size
        return hashlib.file_digest(file, "sha256").hexdigest(), size


def _opened(path: Path) -> tuple[int, int]:
    try:
        handle = os.open(path, _FLAGS)
    except OSError as error:
        raise BundleError(
            f"{path.name} cannot be read ({error.strerror}); ask for access, or for another copy"
        ) from None
    status = os.fstat(handle)
    if stat.S_ISREG(status.st_mode):
        return handle, status.st_size
    os.close(handle)
    raise BundleError(f"{path.name} is no plain file; put the file itself there")


def is_there(path: Path) -> bool:
    """True where anything has this name, if only a link that leads nowhere."""
    return os.path.lexists(path)
