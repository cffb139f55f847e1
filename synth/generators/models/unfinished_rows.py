"""Unfinished chunked output: a hidden folder beside the output, which the same call goes on from.

::

    .NAME.parts/
        lock            held by the process at work
        state.json      what is being written, and what is known of the files that are whole
        table/          the files; becomes the output by one rename
        seen/           hashes of what may not repeat
"""

import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock, Timeout

from synth.errors import OutputError
from synth.output import check_new_folder, hidden_beside, is_taken, stamp, sync, whole_file

_STATE, _TABLE, _SEEN, _OLDER = "state.json", "table", "seen", "older"
_SHOWN = ("rows", "rows_a_file", "seed")
"""The fields of a call whose values an error shows."""


class OtherRows(OutputError):
    """Unfinished rows of another call are in the way; they were left as they are."""


class FileFacts(NamedTuple):
    """Facts about the rows of a file: conditions and rejections.

    Attributes:
        n_rejected: rows that broke a constraint and were drawn again; `None`: there are no constraints.
        given: way of meeting conditions, one of `synth.generators.models.conditions.WAYS`; `None`: there are none.
    """

    n_rejected: int | None
    given: str | None


@dataclass(frozen=True)
class UnfinishedRows:
    """The hidden folder, held by this process alone.

    Attributes:
        hidden: the folder.
        out: the folder that its files are to become.
    """

    hidden: Path
    out: Path

    @property
    def seen(self) -> Path:
        """The folder of the hashes of values that may not repeat."""
        return self.hidden / _SEEN

    @property
    def done(self) -> list[FileFacts]:
        """Of each file that is whole, in order."""
        known = enumerate(self._state().get("parts", []))
        return [FileFacts(*facts) for _, facts in takewhile(lambda found: self.file(found[0]).exists(), known)]

    @property
    def is_finished(self) -> bool:
        """True if the files have become the output, and nobody was told yet."""
        is_whole = is_taken(self.out) and not (self.hidden / _TABLE).exists()
        return is_whole and self._state().get("files") == stamp(self.out)

    @property
    def ever_done(self) -> list[FileFacts]:
        """Of each file that was ever whole, in order."""
        return [FileFacts(*facts) for facts in self._state().get("parts", [])]

    def file(self, index: int) -> Path:
        """The path of a file of the table."""
        return self.hidden / _TABLE / f"part-{index:05d}.parquet"

    def claim(self, call: Mapping[str, Any], *, force: bool) -> dict[str, Any]:
        """Take the work up where it was left, or begin it.

        Args:
            call: the table to write; a seed of `None` is that of the work, or a fresh one.
            force: true if the work of another call may be thrown away.

        Returns:
            The call with the seed that it goes by.

        Raises:
            OtherRows: the work is another call's; it was left as it is.
        """
        known: dict[str, Any] = self._state().get("call", {})
        n_done = len(self.done)
        asked = {**call, "seed": call["seed"] if call["seed"] is not None or not known else known["seed"]}
        other = [name for name in asked if known and known.get(name) != asked[name]]
        if self.is_finished and not other:
            return asked
        if self.is_finished and not force:
            others = " and another ".join(other)
            raise OtherRows(
                f"an output folder must be new: {str(self.out)!r} exists, and is of another {others}; name another or "
                "remove it"
            )
        if other and n_done and not force:
            told = [f"{name} ({name}={known.get(name)})" if name in _SHOWN else name for name in other]
            raise OtherRows(
                f"unfinished rows stand in the way of {str(self.out)!r}, {n_done} files of them, and they are "
                f"of another {' and another '.join(told)}; finish them with what they were begun with, name "
                "another folder, or throw them away with --force"
            )
        if other or not known:
            self._clear()
            return self._begun(call)
        self._sweep(n_done)
        return asked

    def note(self, call: Mapping[str, Any], done: Sequence[FileFacts]) -> None:
        """Keep which files are whole; it is on the disk when this returns."""
        with whole_file(self.hidden / _STATE) as beside:
            beside.write_text(json.dumps({"call": call, "parts": done}), encoding="utf-8")

    def finish(self, *, force: bool) -> None:
        """Turn the files into the output.

        Raises:
            OutputError: something has taken the output's name meanwhile; the files were left as they are.
        """
        if force and is_taken(self.out):
            check_parts_alone(self.out)
            self.out.replace(self.hidden / _OLDER)
        check_new_folder(self.out)
        sync(self.hidden / _TABLE)
        with whole_file(self.hidden / _STATE) as beside:
            content = {**self._state(), "files": stamp(self.hidden / _TABLE)}
            beside.write_text(json.dumps(content), encoding="utf-8")
        (self.hidden / _TABLE).replace(self.out)
        sync(self.hidden.parent)

    def discard(self) -> None:
        """Remove the folder: what tells of finished rows last of all, of unfinished ones first."""
        if not self.is_finished:
            (self.hidden / _STATE).unlink(missing_ok=True)
        for path in self.hidden.iterdir() if self.hidden.is_dir() else ():
            if path.name != _STATE:
                shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
        shutil.rmtree(self.hidden, ignore_errors=True)

    def _state(self) -> dict[str, Any]:
        path = self.hidden / _STATE
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        return found

    def _begun(self, call: Mapping[str, Any]) -> dict[str, Any]:
        begun = {**call, "seed": secrets.randbits(32) if call["seed"] is None else call["seed"]}
        (self.hidden / _TABLE).mkdir()
        self.note(begun, [])
        return begun

    def _clear(self) -> None:
        (self.hidden / _STATE).unlink(missing_ok=True)
        sync(self.hidden)
        self._remove(kept=frozenset())

    def _sweep(self, n_done: int) -> None:
        """Remove what a process that was killed left half-written."""
        self._remove(kept=frozenset((_STATE, _TABLE, _SEEN)))
        whole = {self.file(index) for index in range(n_done)}
        for path in (self.hidden / _TABLE).iterdir():
            if path not in whole:
                path.unlink()

    def _remove(self, kept: frozenset[str]) -> None:
        for path in self.hidden.iterdir():
            if path.name != "lock" and path.name not in kept:
                shutil.rmtree(path) if path.is_dir() else path.unlink()


@contextmanager
def unfinished_rows(out: Path, *, force: bool) -> Iterator[UnfinishedRows]:
    """The rows of an output, new or as they were left, for this process alone.

    Args:
        out: the folder that they are to become.
        force: true if a folder of such files may be replaced.

    Raises:
        OutputError: the output is taken, or cannot be made, or another process is at work on it; nothing was changed.
    """
    rows = UnfinishedRows(hidden_beside(out, ".parts"), out)
    lock = FileLock(rows.hidden / "lock")
    try:
        _take(rows, lock, force=force)
    except OSError as error:
        raise unwritable(out, error) from None
    keep = False
    try:
        yield rows
    except OtherRows:
        keep = True
        raise
    finally:
        if not keep and not rows.done:  # none was written, or all of them are the output now
            rows.discard()
        lock.release()


def _take(rows: UnfinishedRows, lock: FileLock, *, force: bool) -> None:
    """Check the place of the output and hold the hidden folder."""
    if force and is_taken(rows.out):
        check_parts_alone(rows.out)
    elif not rows.is_finished:
        check_new_folder(rows.out)
    rows.hidden.mkdir(mode=0o700, exist_ok=True)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        raise OutputError(
            f"another process is writing {str(rows.out)!r}; wait for it to end, or name another folder"
        ) from None


def unwritable(out: Path, error: OSError) -> OutputError:
    """The error for a failure of the disk."""
    reason = type(error).__name__ if error.errno is None else os.strerror(error.errno)
    return OutputError(f"{str(out)!r} cannot be written ({reason}); make room there or choose another place")


def check_parts_alone(folder: Path) -> None:
    """Refuse to replace a folder that holds anything but files such as are written here.

    Raises:
        OutputError: it does, or it is no plain folder; nothing was removed.
    """
    if folder.is_symlink() or not folder.is_dir() or any(not _is_part(path) for path in folder.iterdir()):
        raise OutputError(
            f"--force replaces a folder that holds nothing but part-*.parquet: {str(folder)!r} is none; name another "
            "or remove it"
        )


def _is_part(path: Path) -> bool:
    return path.match("part-*.parquet") and path.is_file() and not path.is_symlink()
