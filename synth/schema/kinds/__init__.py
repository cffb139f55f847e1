"""Column kinds: what is public about a single column, and what the rest of the product asks of it.

Numbers, categories, dates and times are learned; identifiers and personal data never are. Free text is written by a
language model where its column says `learn = true`, given the rest of its row. The domain of most kinds (bounds,
categories) is either declared or, with `measure = true`, left for a private fit to measure under its budget. So are the
frequent values of numbers, with `measure_spikes = true`.
"""

from functools import reduce
from operator import or_
from typing import Annotated, Any

from pydantic import Field, GetCoreSchemaHandler

from synth.schema.kinds.base import AnyColumn, LineColumn
from synth.schema.kinds.categorical import BooleanColumn, CategoricalColumn
from synth.schema.kinds.dates import DateColumn, DatetimeColumn
from synth.schema.kinds.number import IntegerColumn, RealColumn, WeightColumn
from synth.schema.kinds.spans import ClockColumn, DurationColumn
from synth.schema.kinds.unlearned import IdentifierColumn, PersonalColumn, TextColumn

_SHIPPED: tuple[type[AnyColumn], ...] = (
    IntegerColumn, RealColumn, WeightColumn, CategoricalColumn, BooleanColumn, DateColumn, DatetimeColumn, ClockColumn,
    DurationColumn, IdentifierColumn, PersonalColumn, TextColumn,
)  # fmt: skip
KINDS = {kind.model_fields["kind"].default: kind for kind in _SHIPPED}


class _ByKind:
    """Reads a column by its key kind, as one of the kinds above."""

    @property
    def union(self) -> Any:
        return reduce(or_, KINDS.values())

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> Any:
        return handler.generate_schema(Annotated[self.union, Field(discriminator="kind")])


Column = Annotated[AnyColumn, _ByKind()]

__all__ = [
    "KINDS", "AnyColumn", "BooleanColumn", "CategoricalColumn", "ClockColumn", "Column", "DateColumn", "DatetimeColumn",
    "DurationColumn", "IdentifierColumn", "IntegerColumn", "LineColumn", "PersonalColumn", "RealColumn", "TextColumn",
    "WeightColumn",
]  # fmt: skip
