"""Seeded draws of the rows of a stored table, each made once, a smaller one from a larger where that is the same."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from synth.schema import Schema
from synth.stored import StoredTable
from synth.stored.drawing import POSITION, DrawnRows, draw_rows, whole_entities


@dataclass(frozen=True, eq=False)
class Drawer:
    """Rows of one table in its seeded order, each draw made once.

    Attributes:
        table: *Sensitive* where it is real.
        schema: with domains known.
        seed: of its order.
        kept: *Sensitive*. Draws, by their limit.
    """

    table: StoredTable
    schema: Schema
    seed: int
    kept: dict[int | None, DrawnRows] = field(default_factory=dict, repr=False)

    def first(self, limit: int | None) -> DrawnRows:
        """The first so many rows; none: all."""
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
