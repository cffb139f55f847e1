"""Unfinished rows: a table in several files that the same call goes on writing, as `synth.output.Unfinished` keeps it.

Beside the state, which knows of each file that is whole, the hidden folder holds `table/`, which becomes the output,
and `seen/`, hashes of what may not repeat.
"""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

from synth.errors import OutputError
from synth.output import ROWS, Unfinished, check_new_folder, hidden_beside, is_taken

_TABLE, _SEEN, _OLDER = "table", "seen", "older"
_SHOWN = ("rows", "rows_a_file", "seed")  # the fields of a call whose values an error shows


class OtherRows(OutputError):
    """Unfinished rows of another call are in the way; they were left as they are."""


class FileFacts(NamedTuple):
    """Facts about the rows of a file: conditions and rejections."""

    n_rejected: int | None
    given: str | None


@dataclass(frozen=True)
class UnfinishedRows:
    """The unfinished rows of one output, held by this process alone."""

    work: Unfinished

    @property
    def hidden(self) -> Path:
        """The folder of all that is kept."""
        return self.work.folder

    @property
    def out(self) -> Path:
        """The folder that the files are to become."""
        return self.work.out

    @property
    def seen(self) -> Path:
        """The folder of the hashes of values that may not repeat."""
        return self.hidden / _SEEN

    @property
    def done(self) -> list[FileFacts]:
        known = enumerate(self.work.state.get("parts", []))
        return [FileFacts(*facts) for _, facts in takewhile(lambda found: self.file(found[0]).exists(), known)]

    def file(self, index: int) -> Path:
        return self.work.result / f"part-{index:05d}.parquet"

    def claim(self, call: Mapping[str, Any], *, force: bool) -> dict[str, Any]:
        """Take the work up where it was left, or begin it."""
        known: dict[str, Any] = self.work.state.get("call", {})
        n_done = len(self.done)
        asked = {**call, "seed": call["seed"] if call["seed"] is not None or not known else known["seed"]}
        other = [name for name in asked if known and known.get(name) != asked[name]]
        if other and n_done and not force:
            told = [f"{name} ({name}={known.get(name)})" if name in _SHOWN else name for name in other]
            raise OtherRows(
                f"unfinished rows stand in the way of {str(self.out)!r}, {n_done} files of them, and they are "
                f"of another {' and another '.join(told)}; finish them with what they were begun with, name "
                "another folder, or throw them away with --force"
            )
        if other or not known:
            self.work.clear()
            asked = {**call, "seed": secrets.randbits(32) if call["seed"] is None else call["seed"]}
            self.work.result.mkdir()
            self.note(asked, [])
            return asked
        self._sweep(n_done)
        return asked

    def note(self, call: Mapping[str, Any], done: Sequence[FileFacts]) -> None:
        """Keep which files are whole; it is on the disk when this returns."""
        self.work.write_state({"call": call, "parts": done})

    def finish(self, *, force: bool) -> None:
        """Turn the files into the output."""
        if force and is_taken(self.out):
            check_parts_alone(self.out)
            self.out.replace(self.hidden / _OLDER)
        check_new_folder(self.out)
        self.work.publish()

    def discard(self) -> None:
        self.work.discard()

    def _sweep(self, n_done: int) -> None:
        """Remove what a process that was killed left half-written."""
        self.work.sweep(_TABLE, _SEEN)
        whole = {self.file(index) for index in range(n_done)}
        for path in self.work.result.iterdir():
            if path not in whole:
                path.unlink()


@contextmanager
def unfinished_rows(out: Path, *, force: bool) -> Iterator[UnfinishedRows]:
    """The rows of an output, new or as they were left, for this process alone."""
    hidden = hidden_beside(out, ROWS)
    rows = UnfinishedRows(Unfinished(hidden, out, hidden / _TABLE))
    if force and is_taken(out):
        check_parts_alone(out)
    else:
        check_new_folder(out)
    with rows.work.held(f"another process is writing {str(out)!r}; wait for it to end, or name another folder"):
        keep = False
        try:
            yield rows
        except OtherRows:
            keep = True
            raise
        finally:
            if not keep and not rows.done:  # none was written, or all of them are the output now
                rows.discard()


def check_parts_alone(folder: Path) -> None:
    """Refuse to replace a folder that holds anything but files such as are written here."""
    if folder.is_symlink() or not folder.is_dir() or any(not _is_part(path) for path in folder.iterdir()):
        raise OutputError(
            f"--force replaces a folder that holds nothing but part-*.parquet: {str(folder)!r} is none; name another "
            "or remove it"
        )


def _is_part(path: Path) -> bool:
    return path.match("part-*.parquet") and path.is_file() and not path.is_symlink()
