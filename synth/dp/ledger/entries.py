"""One entry of a ledger, the canonical form of what it says, and the hash that chains it to the one before."""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from synth.dp.renyi_curve import RdpCurve
from synth.parsing import plain_json

FORMAT = "understudy-ledger/1"
"""Hashed with every entry: a change to what the columns mean is another format."""

GENESIS = "0" * 64
"""What the first entry has in place of the hash of the one before it."""


@dataclass(frozen=True)
class Draft:
    """What an entry says, before it has a place in the chain.

    Attributes:
        kind: opened, reserved, used, charged or committed.
        dataset: declared name of the dataset.
        unit: "row", or the entity column's name.
        token: names a reservation; empty for a total.
        body: canonical JSON.
    """

    kind: str
    dataset: str
    unit: str
    token: str
    body: str


@dataclass(frozen=True)
class LedgerEntry:
    """One row of a ledger, as it was read; a damaged database may hold anything in any column.

    Attributes:
        seq: place in the chain, from 1; the only order there is.
        time: UTC, for people; nothing depends on it.
        kind: see `Draft`, also for `dataset`, `unit`, `token` and `body`.
        previous: hash of the entry before.
        hash: SHA-256 of all other columns.
    """

    seq: int
    time: str
    kind: str
    dataset: str
    unit: str
    token: str
    body: str
    previous: str
    hash: str

    def digest(self) -> str:
        """The hash that this entry should have."""
        columns = [self.seq, self.time, self.kind, self.dataset, self.unit, self.token, self.body, self.previous]
        # Columns of another type than was written hash as what they are, so that they are found.
        text = json.dumps([FORMAT, *columns], ensure_ascii=True, separators=(",", ":"), default=repr)
        return hashlib.sha256(text.encode("ascii")).hexdigest()

    @property
    def content(self) -> dict[str, Any]:
        """What the body says.

        Raises:
            ValueError: it is not the canonical JSON of an object.
        """
        content = plain_json(self.body)
        if not isinstance(content, dict) or canonical(content) != self.body:
            raise ValueError("the body is not canonical")
        return content


def chained(draft: Draft, last: LedgerEntry | None, time: str) -> LedgerEntry:
    """The entry that a draft becomes after `last`."""
    seq, previous = (1, GENESIS) if last is None else (last.seq + 1, last.hash)
    bare = LedgerEntry(seq, time, draft.kind, draft.dataset, draft.unit, draft.token, draft.body, previous, hash="")
    return LedgerEntry(**{**bare.__dict__, "hash": bare.digest()})


def canonical(content: Mapping[str, Any]) -> str:
    r"""JSON in the one form that is hashed: sorted keys, no spaces, ASCII; floats come back exactly.

    >>> canonical({"b": 0.1, "a": "é"})
    '{"a":"\\u00e9","b":0.1}'
    """
    return json.dumps(content, ensure_ascii=True, allow_nan=False, separators=(",", ":"), sort_keys=True)


def curve_content(curve: RdpCurve) -> dict[str, Any]:
    """A curve as plain data; JSON has no infinity, so it is spelled "inf"."""
    divergences = ["inf" if math.isinf(value) else float(value) for value in curve.divergences]
    return {"delta": float(curve.delta), "divergences": divergences}


def curve_of(content: Mapping[str, Any]) -> RdpCurve:
    """The curve that `curve_content` wrote.

    Raises:
        KeyError, TypeError, ValueError: the content is no curve.
    """
    divergences = tuple(math.inf if value == "inf" else _number(value) for value in content["divergences"])
    return RdpCurve(divergences, _number(content["delta"]))


def _number(value: object) -> float:
    if not isinstance(value, float):
        raise TypeError("a cost is a float")
    return value
