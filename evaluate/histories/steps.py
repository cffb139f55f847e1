"""The steps of histories as a table of its own: each row that follows another one, beside that row.

Measures that look at single rows take them from there: what is predicted of the next event, and who is singled out by
what followed what.
"""

from dataclasses import dataclass
from typing import Any

import pandas as pd

from evaluate.histories.samples import varying
from synth.histories.layout import HistoryLayout
from synth.histories.ordering import Histories
from synth.schema import Schema
from synth.schema.kinds import IntegerColumn

MOST_ROWS = 10_000_000  # The largest place in a history


@dataclass(frozen=True)
class StepLayout:
    """Columns of a table of steps, named as models of histories name them (`synth.histories.layout`)."""

    schema: Schema
    constant: tuple[str, ...]
    before: dict[str, str]
    now: tuple[str, ...]
    place: str | None

    @classmethod
    def of(cls, schema: Schema, now: tuple[str, ...], *, with_place: bool = False) -> "StepLayout":
        layout = HistoryLayout(schema, MOST_ROWS)
        before = {name: layout.before(name) for name in varying(schema)}
        place = layout.place if with_place else None
        names = (str(schema.entity), *layout.constant, *now)
        columns: dict[str, Any] = {name: schema.columns[name] for name in names}
        columns |= {new: schema.columns[name] for name, new in before.items()}
        if place is not None:
            columns[place] = IntegerColumn(bounds=(1, MOST_ROWS))
        target = schema.target if schema.target in now else None
        made = Schema(
            status=schema.status, target=target, task=schema.task if target else None, entity=schema.entity,
            columns=columns,
        )  # fmt: skip
        return cls(made, layout.constant, before, now, place)

    def steps(self, frame: pd.DataFrame, histories: Histories) -> pd.DataFrame:
        """The steps of a table. `frame`: *Sensitive* where it is real. Conforming to the schema."""
        now, before = histories.pairs
        rows, earlier = (frame.iloc[at].reset_index(drop=True) for at in (now, before))
        made = {name: rows[name] for name in (str(self.schema.entity), *self.constant, *self.now)}
        made |= {new: earlier[name] for name, new in self.before.items()}
        if self.place is not None:
            places = histories.places
            made[self.place] = pd.Series(places[places > 1], dtype="Int64")
        return pd.DataFrame({name: made[name] for name in self.schema.columns}, copy=False)
