"""Small input files, read once.

The content that is understood, hashed and passed on is the same, whatever becomes of the file afterwards.
"""

import hashlib
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

from synth.errors import BadInput


@dataclass(frozen=True)
class GivenFile:
    """A small file of settings, as it was when it was read.

    Attributes:
        path: where it was.
        content: all of it.
    """

    path: Path
    content: bytes = field(repr=False)

    @property
    def sha256(self) -> str:
        """The SHA-256 of its content, in hexadecimal."""
        return hashlib.sha256(self.content).hexdigest()


def read_given(path: Path, what: str, error: type[BadInput]) -> GivenFile:
    """A file as it is now.

    Args:
        path: the file.
        what: it is, in one word, such as "job".
        error: what to raise.

    Raises:
        BadInput: of the given class; the file is not there, is none (a pipe, a device), or cannot be read.
    """
    place = f"path={str(path)!r}"
    try:
        content = _content(path)
    except FileNotFoundError:
        raise error(f"the {what} cannot be read: there {be(what)} no {what} at {place}; check the name") from None
    except IsADirectoryError:
        raise error(f"the {what} cannot be read: {place} is a folder; name a file in it") from None
    except ValueError:  # a NUL character
        raise error(f"the {what} cannot be read: {place} is no path; check the name") from None
    except OSError as refusal:
        raise error(f"the {what} cannot be read: {place} ({refusal.strerror}); pass a file that can") from None
    if content is None:
        raise error(f"the {what} must be a file on a disk: {place} is a pipe or a device; save it as a file")
    return GivenFile(path, content)


def be(what: str) -> str:
    """The verb of what is read: some files hold several of what they are named after.

    >>> be("job"), be("waivers")
    ('is', 'are')
    """
    return "are" if what.endswith("s") else "is"


def _content(path: Path) -> bytes | None:
    """All that a file holds; none where it is no file. A pipe that nobody writes to is not waited for."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError
        if not stat.S_ISREG(mode):
            return None
        with os.fdopen(handle, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(handle)
