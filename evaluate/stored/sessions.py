"""Sessions that outlive a measure which was cut short.

An alarm may ring anywhere in a driver, also where it has sent a query and forgets that it did: then the server still
works on it, and the connection answers nothing else. An embedded engine goes on, too, with what was left behind.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import ibis

from evaluate.stored.keys import EMBEDDED
from evaluate.stored.tables import StoredTables
from synth.errors import TableError
from synth.stored.connection import StorageLocation
from synth.stored.errors import told

_SERVER, _IDLE = "postgres", 0


@ibis.udf.scalar.builtin(name="pg_terminate_backend")  # type: ignore[untyped-decorator]
def _terminate(session: int) -> bool:  # type: ignore[empty-body]
    """True where the server was told to end a session of this user."""


@dataclass(frozen=True)
class Sessions:
    """The sessions in which tables are read."""

    numbers: Mapping[StorageLocation, int]
    embedded: Sequence[StorageLocation]

    @classmethod
    def of(cls, stored: StoredTables) -> Self:
        """The sessions of all tables of an evaluation."""
        places = {id(table.place.connection): table.place for table in (stored.train, stored.holdout, stored.offered)}
        embedded = [place for place in places.values() if place.backend == EMBEDDED]
        return cls({p: p.connection.con.info.backend_pid for p in places.values() if p.backend == _SERVER}, embedded)

    def renewed(self) -> bool:
        """True where a dead session was ended and replaced. No old query goes on."""
        for place in self.embedded:
            place.connection.con.interrupt()
        unanswered = [place for place in self.numbers if not _answers(place)]
        for place in unanswered:
            _renew(place, self.numbers[place])
        return bool(unanswered)


def _answers(place: StorageLocation) -> bool:
    """True where a connection is at rest, and again after a question."""
    if place.connection.con.info.transaction_status != _IDLE:
        return False
    try:
        place.number(ibis.literal(1))
    except TableError:
        return False
    return bool(place.connection.con.info.transaction_status == _IDLE)


def _renew(place: StorageLocation, number: int) -> None:
    with told(place.shown):
        place.connection.con.close()
        place.connection.reconnect()
    place.fetch(_terminate(ibis.literal(number)).name("ended").as_table())
