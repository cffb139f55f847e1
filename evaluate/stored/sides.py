"""The two sides of a real table where they are stored: their draws and the counts of their rows, each made once."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from evaluate.sides import Side, side_seed
from evaluate.stored.draws import Drawer
from evaluate.stored.keys import KeyCounts
from evaluate.stored.meeting import meeting_place
from synth.schema import Schema
from synth.stored import StoredTable
from synth.stored.connection import Place

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class StoredSides:
    """Train and holdout where they are stored.

    Attributes:
        train: *Sensitive*. All of it.
        holdout: *Sensitive*. All of it.
        schema: with domains known.
        seed: of the evaluation.
        kept: *Sensitive*. What is drawn and counted once.
    """

    train: StoredTable
    holdout: StoredTable
    schema: Schema
    seed: int
    kept: dict[Any, Any] = field(default_factory=dict, repr=False)

    def drawer(self, side: Side) -> Drawer:
        """What draws rows of one side."""
        table, seed = getattr(self, side), side_seed(self.seed, side)
        return self.once(("drawer", side), lambda: Drawer(table, self.schema, seed))

    def meeting_place(self, *others: StoredTable) -> Place:
        """Where keys of both sides, and of other tables, are counted together."""
        return meeting_place((self.train, self.holdout), *others, kept=self.kept)

    def keys(self, side: Side, place: Place) -> KeyCounts:
        """The distinct rows of one side, counted in a place."""
        # Which lives as long as what is kept.
        name = ("keys", side, id(place.connection))
        return self.once(name, lambda: KeyCounts.of(getattr(self, side), self.schema, place))

    def once(self, name: Any, made: Callable[[], T]) -> T:
        """What is made of real rows alone, by a name: the same for every synthetic table."""
        if name not in self.kept:
            self.kept[name] = made()
        found: T = self.kept[name]
        return found
