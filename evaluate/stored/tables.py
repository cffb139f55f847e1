"""Real and synthetic tables where they are stored: their seeded draws, and what is known of all their rows.

Everything that needs rows works on seeded samples, whole entities, that are drawn there and fetched. Of the synthetic
table more is fetched than of the real ones: an attack finds a leak only in what it searches. Each draw is made once
(`Drawer`), a smaller one from a larger where that is the same; the two sides of a real table keep their draws and the
counts of their rows for all synthetic tables (`StoredSides`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from evaluate.real_facts import Duplicates, SampleSizes
from evaluate.sampling import Side, side_seed
from evaluate.stored.keys import UNIT_NAME, KeyCounts, meeting_place
from synth.schema import Schema
from synth.stored import StoredTable
from synth.stored.connection import StorageLocation
from synth.stored.row_hash import POSITION, DrawnRows, draw_rows, whole_entities


@dataclass(frozen=True, eq=False)
class Drawer:
    """Rows of one table in its seeded order, each draw made once.

    Attributes:
        table: *Sensitive* where it is real.
        kept: *Sensitive*. Draws, by their limit.
    """

    table: StoredTable
    schema: Schema
    seed: int
    kept: dict[int | None, DrawnRows] = field(default_factory=dict, repr=False)

    def first(self, limit: int | None) -> DrawnRows:
        """The first so many rows; `None`: all."""
        if limit not in self.kept:
            self.kept[limit] = self._of_more(limit) or draw_rows(
                self.table, self.schema, seed=self.seed, limit=limit
            )  # fmt: skip
        return self.kept[limit]

    def _of_more(self, limit: int | None) -> DrawnRows | None:
        """The same of a larger draw, where there is one; entities would have to be counted anew."""
        if limit is None or self.schema.entity is not None:
            return None
        found = next((drawn for n, drawn in self.kept.items() if n is None or n >= limit), None)
        if found is None or found.n <= limit:
            return found
        return DrawnRows(found.place, found.rows.filter(found.rows[POSITION] < limit), limit, limit)

    def sample(self, limit: int, also: Sequence[str] = ()) -> DrawnRows:
        """A seeded sample, whole entities, in seeded order: all rows where there are `limit` at most."""
        if self.schema.entity is None and not also:
            return self.first(limit)
        table, cut = self.table, None if self.schema.entity else limit
        if self.schema.entity is not None and len(table) > limit:
            table = whole_entities(table, self.schema, seed=self.seed, limit=limit)
        return draw_rows(table, self.schema, seed=self.seed, limit=cut, also=also)


T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class StoredSides:
    """Train and holdout where they are stored.

    Attributes:
        train: *Sensitive*. All of it.
        holdout: *Sensitive*. All of it.
        kept: *Sensitive*. What is drawn and counted once.
    """

    train: StoredTable
    holdout: StoredTable
    schema: Schema
    seed: int
    kept: dict[Any, Any] = field(default_factory=dict, repr=False)

    def drawer(self, side: Side) -> Drawer:
        """The drawer of rows of one side."""
        table, seed = getattr(self, side), side_seed(self.seed, side)
        return self.once(("drawer", side), lambda: Drawer(table, self.schema, seed))

    def meeting_place(self, *others: StoredTable) -> StorageLocation:
        """The place where keys of both sides, and of other tables, are counted together."""
        return meeting_place((self.train, self.holdout), *others, kept=self.kept)

    def keys(self, side: Side, place: StorageLocation) -> KeyCounts:
        """The distinct rows of one side, counted in a place."""
        # Which lives as long as what is kept.
        name = ("keys", side, id(place.connection))
        return self.once(name, lambda: KeyCounts.of(getattr(self, side), self.schema, place))

    @property
    def shared_entities(self) -> float:
        """The share of the holdout's entities that stand in train, too."""
        place = self.meeting_place()
        train, holdout = (self.keys(side, place).of_units for side in ("train", "holdout"))
        if train is None or holdout is None:
            return 0.0
        both = holdout.semi_join(train.filter(train[UNIT_NAME].notnull()), UNIT_NAME)
        n_shared, n_all = (place.number(rows[UNIT_NAME].nunique()) for rows in (both, holdout))
        return n_shared / max(n_all, 1)

    def once(self, name: Any, made: Callable[[], T]) -> T:
        """A cached value of real rows alone, by a name: the same for every synthetic table."""
        if name not in self.kept:
            self.kept[name] = made()
        found: T = self.kept[name]
        return found


@dataclass(frozen=True, eq=False)
class StoredReal:
    """The real table of an evaluation where it is stored.

    Attributes:
        sides: *Sensitive*. Train and holdout.
        twins: *Sensitive*. Of all rows, counts of those of train that stand there once, and of those of the holdout
            that stand in train, at all or once.
        fresh_in_train: *Sensitive*. How many rows of all of train equal each row of `Real.fresh`; shape (n_fresh,).
        sampled_holdout: *Sensitive*. The rows of the holdout that were drawn, where they are.
        control_positions: *Sensitive*. The position among these of each row of `Real.control`; shape (n_control,).
    """

    sides: StoredSides
    sample_rows: int
    n_rows: Mapping[Side, int]
    n_sampled: Mapping[Side, int]
    twins: Mapping[str, int] = field(repr=False)
    fresh_in_train: np.ndarray = field(repr=False)
    sampled_holdout: DrawnRows = field(repr=False)
    control_positions: np.ndarray = field(repr=False)

    @property
    def facts(self) -> dict[str, Any]:
        """Rows of either side and equal ones among them, all counted there; and rows of samples that are not all."""
        n_train, n_holdout, across = self.n_rows["train"], self.n_rows["holdout"], self.twins["holdout_in_train"]
        counted = {
            "train_rows": n_train,
            "holdout_rows": n_holdout,
            "duplicates_across": Duplicates(across, across / n_holdout),
            "duplicate_share_train": 1.0 - self.twins["train_alone"] / n_train,
        }
        cut = {f"{side}_rows": n for side, n in self.n_sampled.items() if n < self.n_rows[side]}
        return {**counted, "sampled": SampleSizes(**cut)} if cut else counted


@dataclass(frozen=True, eq=False)
class StoredTables:
    """The tables of an evaluation where they are stored.

    Attributes:
        real: *Sensitive*. The real sides.
    """

    real: StoredReal
    offered: StoredTable
    n_offered: int
    n_sampled: int
    drawer: Drawer = field(repr=False)

    @property
    def train(self) -> StoredTable:
        """*Sensitive*. The rows the generator saw."""
        return self.real.sides.train

    @property
    def holdout(self) -> StoredTable:
        """*Sensitive*. Rows it did not see."""
        return self.real.sides.holdout

    def drawn(self, side: Side, limit: int | None) -> DrawnRows:
        """The first rows of one table in its seeded order: what `Tables.order` of all rows gives; drawn once."""
        drawer = self.drawer if side == "synthetic" else self.real.sides.drawer(side)
        return drawer.first(limit)

    @property
    def searched(self) -> float:
        """The share of the synthetic table that attacks search."""
        return self.n_sampled / self.n_offered
