"""Noisy values on disk before anything reads them, so that work that was cut short goes on without drawing again.

A second draw of the same numbers would spend the budget twice. A job that is killed and started anew ten times would
give its noise away. So every draw is marked as begun, drawn, and its noisy value is written and flushed to the disk
before it is returned. When the file is opened again, values that are there are given back in order. A draw that was
begun, and whose value is not there, is *lost*. Somebody may have seen it, and it has to be paid for again.
"""

import json
import os
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Self

from synth.dp.statement import EventRecord
from synth.errors import BudgetError

_Draw = tuple[EventRecord, int]  # of what event a draw is, and how many of its releases


class Journal:
    """The draws of one fit, in order. The file holds noisy values only, never an exact one.

    It knows its events, not its table. Its owner lets one process at a time open it, and for the fit that it was begun
    for.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._values: list[tuple[_Draw, Any]] = []
        self._next = 0
        self._lost: list[EventRecord] = []
        whole = self._read() if path.exists() else 0
        self._file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b")
        self._file.truncate(whole)
        self._file.seek(whole)
        _sync_folder(path.parent)

    @property
    def n_persisted(self) -> int:
        return len(self._values)

    @property
    def lost(self) -> tuple[EventRecord, ...]:
        """Draws begun earlier whose values never reached the disk; the count of each is that draw's own releases."""
        return tuple(self._lost)

    def once(self, record: EventRecord, draw: Callable[[], Any], n_releases: int = 1) -> Any:
        """The value of the next draw: the one on disk where there is one, else drawn, written and given."""
        if self._next < len(self._values):
            kept, value = self._values[self._next]
            if kept != (record, n_releases):
                raise BudgetError(
                    f"the journal of an earlier start holds {kept[0].what!r} where {record.what!r} is due, so the work "
                    "is not the same; start anew (what was drawn stays spent)"
                )
            self._next += 1
            return value
        self._append({"begun": asdict(record), "releases": n_releases})
        value = draw()
        self._append({"value": value})
        self._values.append(((record, n_releases), value))
        self._next += 1
        return value

    def settle(self) -> None:
        """Note that the lost draws have been paid for again; call it after they have."""
        self._append({"settled": len(self._lost)})
        self._lost = []

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _append(self, line: dict[str, Any]) -> None:
        self._file.write((json.dumps(line) + "\n").encode())
        self._file.flush()
        os.fsync(self._file.fileno())

    def _read(self) -> int:
        """Take in what is there; the length of its whole lines in bytes, for a line cut short never happened."""
        content = self._path.read_bytes()
        whole = content.rfind(b"\n") + 1
        begun: _Draw | None = None
        try:
            for line in content[:whole].splitlines():
                part = dict(json.loads(line))
                if "value" in part and begun is not None:
                    self._values.append((begun, part["value"]))
                    begun = None
                    continue
                self._lost += _lost(begun)
                begun = (EventRecord(**part["begun"]), int(part.get("releases", 1))) if "begun" in part else None
                if begun is None and part.get("settled") == len(self._lost):
                    self._lost = []
                elif begun is None:
                    raise KeyError("begun")
        except (ValueError, KeyError, TypeError, RecursionError):
            raise BudgetError(
                f"path={str(self._path)!r} is not a journal of draws, or a damaged one; remove the unfinished work and "
                "start anew (what was drawn stays spent)"
            ) from None
        self._lost += _lost(begun)
        return whole


def _lost(begun: _Draw | None) -> list[EventRecord]:
    return [] if begun is None else [replace(begun[0], count=begun[1])]


def _sync_folder(folder: Path) -> None:
    """Make a new file's name durable, not only its content."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
