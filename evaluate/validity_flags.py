"""What is wrong with each row of a stored table, in flags that are worked out there."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import ibis
import ibis.expr.types as ir

from evaluate.validity_forms import misshapen
from synth.columns import PersonalColumn
from synth.constraints import Unique
from synth.schema import Schema
from synth.stored import StoredTable
from synth.stored.constraint_checks import Laws
from synth.stored.violations import Looked, later, looked, own_values

UNIT, ANY = "unit", "any"
"""The entity of a row, and whether it has any violation."""


@dataclass(frozen=True, eq=False)
class Flags:
    """One table under judgment.

    Attributes:
        table: it, beside places of its cells.
        schema: that alone says what is valid.
        laws: what constraints say of its rows.
    """

    table: StoredTable
    schema: Schema
    laws: Laws

    @cached_property
    def looked(self) -> dict[str, Looked]:
        """The faults of every column."""
        return looked(self.table, self.schema)

    @property
    def units(self) -> Any:
        """The entity of each row, null where it has none."""
        name = self.schema.entity
        assert name is not None
        return own_values(self.table.rows[name], self.schema.columns[name], self.laws.reader)

    @cached_property
    def rows(self) -> ir.Table:
        """Ones and zeros of every row, under short names, beside `unit`.

        By the place of a column: "m0" missing, "f0_0" each fault, "p0_0" what is wrong with a value of personal data,
        "c0" any of these faults. By the place of a constraint: "b0" broken, "n0" how many rows repeat each other, "u0"
        a fault in its columns, "l0" broken or a fault. And `any`.
        """
        asked: dict[str, Any] = {} if self.schema.entity is None else {UNIT: self.units}
        for place, name in enumerate(self.schema.kept):
            seen = self.looked[name]
            asked[f"m{place}"] = seen.missing
            asked |= {f"f{place}_{number}": flag for number, flag in enumerate(seen.faults.values())}
            asked |= {f"p{place}_{number}": flag for number, flag in enumerate(self._misshapen(name))}
        for place, constraint in enumerate(self.schema.constraints):
            asked[f"b{place}"] = self.laws.broken(constraint)
            if isinstance(constraint, Unique):
                asked[f"n{place}"] = self.laws.repeats(constraint)
        ones = {
            key: flag if key == UNIT or key.startswith("n") else ibis.ifelse(flag, 1, 0) for key, flag in asked.items()
        }
        first = self.table.place.apart(self.table.rows.select(**ones))
        columns = {
            f"c{place}": _any([first[key] for key in asked if key.startswith((f"f{place}_", f"p{place}_"))])
            for place in range(len(self.schema.kept))
        }
        second = first.mutate(**columns)
        unread = {
            f"u{place}": _any([second[f"c{self.schema.kept.index(name)}"] for name in constraint.columns])
            for place, constraint in enumerate(self.schema.constraints)
        }
        third = second.mutate(**unread)
        broken = {f"l{place}": _any([third[f"b{place}"], third[f"u{place}"]]) for place in range(len(unread))}
        whole = _any([third[key] for key in (*columns, *unread, *(f"b{place}" for place in range(len(unread))))])
        return self.table.place.written(third.mutate(**broken, **{ANY: whole}))

    def _misshapen(self, name: str) -> list[Any]:
        """Which rows of a column of personal data hold no value of its form, or repeat one that may not be repeated."""
        column = self.schema.columns[name]
        if not isinstance(column, PersonalColumn):
            return []
        cells: Any = self.table.rows[name]
        texts = self.laws.reader.present(cells if cells.type().is_string() else cells.cast("string"))
        found = [misshapen(self.table, texts, column)]
        return [*found, later(self.table, texts)] if column.unique else found


def _any(flags: list[Any]) -> Any:
    """One where one of the flags is, which are ones and zeros."""
    return ibis.greatest(*flags, 0) if flags else ibis.literal(0)
