"""The kinds of columns: what is public about a single one.

The domain of most kinds (bounds, categories) is either declared or, with `measure = true`, left for a private fit to
measure under its budget. So are the frequent values of numbers, with `measure_spikes = true`.
"""

from typing import Annotated

from pydantic import Field

from synth.columns.base import INT64, AnyColumn, MeasurableColumn, exactly_up_to
from synth.columns.categories import BooleanColumn, CategoricalColumn
from synth.columns.numbers import WIDEST_REAL, IntegerColumn, NumericColumn, RealColumn, WeightColumn
from synth.columns.times import NANOSECONDS, DateColumn, DatetimeColumn, read_as, write_as
from synth.columns.unlearned import IdentifierColumn, Personal, PersonalColumn, TextColumn

__all__ = [
    "INT64",
    "KINDS",
    "NANOSECONDS",
    "WIDEST_REAL",
    "BooleanColumn",
    "CategoricalColumn",
    "Column",
    "DateColumn",
    "DatetimeColumn",
    "IdentifierColumn",
    "IntegerColumn",
    "Personal",
    "PersonalColumn",
    "RealColumn",
    "TextColumn",
    "WeightColumn",
    "exactly_up_to",
    "is_measurable",
    "is_measured",
    "measures_spikes",
    "read_as",
    "write_as",
]

Column = Annotated[
    IntegerColumn | RealColumn | WeightColumn | CategoricalColumn | BooleanColumn | DateColumn | DatetimeColumn
    | IdentifierColumn | PersonalColumn | TextColumn,
    Field(discriminator="kind"),
]  # fmt: skip

KINDS: dict[str, type[AnyColumn]] = {
    "integer": IntegerColumn, "real": RealColumn, "weight": WeightColumn, "categorical": CategoricalColumn,
    "boolean": BooleanColumn, "date": DateColumn, "datetime": DatetimeColumn, "identifier": IdentifierColumn,
    "personal": PersonalColumn, "text": TextColumn,
}  # fmt: skip


def is_measured(column: AnyColumn) -> bool:
    """Whether a column's bounds or categories are not declared but to be measured."""
    return isinstance(column, MeasurableColumn) and column.measure


def measures_spikes(column: AnyColumn) -> bool:
    """Whether a column's frequent values are not declared but to be measured."""
    return isinstance(column, NumericColumn) and column.measure_spikes


def is_measurable(column: AnyColumn) -> bool:
    """Whether a column is of a kind whose bounds or categories a private fit can measure."""
    return isinstance(column, MeasurableColumn)
