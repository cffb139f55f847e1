"""Where keys of rows of several tables are counted together, so that as few as possible leave their database.

Tables of one database meet there, though each address has opened a connection of its own. Others meet in an embedded
engine: that of a real side that has one, else one that is opened once for the whole evaluation.
"""

import weakref
from collections.abc import Mapping, Sequence
from typing import Any

from synth.stored import StoredTable
from synth.stored.connection import Place
from synth.stored.embedded import embedded

EMBEDDED = "duckdb"


def at_home(table: StoredTable, other: StoredTable) -> StoredTable:
    """A table read through another's connection where both are in one database, so that one query may name both.

    Args:
        table: *Sensitive* where it is real.
        other: where its connection is.
    """
    old, new = table.place.connection, other.place.connection
    # By server, database, user and parameters: what the one may read there, the other may.
    if old is new or old.db_identity != new.db_identity:
        return table

    def moved(node: Any, changed: Mapping[str, Any] | None) -> Any:
        made = node if changed is None else node.__recreate__(changed)
        return made.copy(source=new) if getattr(made, "source", None) is old else made

    place = Place(new, table.place.shown, table.place.memory_mb, table.place.threads)
    return type(table)(place, table.rows.op().replace(moved).to_expr(), table.slot)


def meeting_place(real: Sequence[StoredTable], *others: StoredTable, kept: dict[Any, Any]) -> Place:
    """Where keys of tables are counted together.

    Args:
        real: the sides of the real table.
        others: tables beside them.
        kept: *Sensitive*. Holds the engine of the evaluation, once there is one.
    """
    places = [table.place for table in (*real, *others)]
    if all(place.connection is places[0].connection for place in places):
        return places[0]
    if "engine" not in kept:
        embedded_ones = (table.place for table in real if table.place.backend == EMBEDDED)
        kept["engine"] = next(embedded_ones, None) or _opened(places[0])
    found: Place = kept["engine"]
    return found


def _opened(beside: Place) -> Place:
    """An engine of its own, which closes with the place and takes no more than was granted."""
    block = embedded(memory_mb=beside.memory_mb, threads=beside.threads)
    place = Place(block.__enter__(), "keys of rows", beside.memory_mb, beside.threads)
    weakref.finalize(place, block.__exit__, None, None, None)
    return place
