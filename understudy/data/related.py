"""Two related real tables, read as the table that the fit of either one learns from."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from synth.histories.relation import RELATED_TABLES, Relation, TableRole
from synth.schema import Schema
from synth.table import read_table
from synth.table.conforming import Outside, clamp
from understudy.data.load import clamped
from understudy.data.source import RealTable


@dataclass(frozen=True)
class RelatedTables:
    """The places of two related tables, and which of them a run is about."""

    relation: Relation
    parents: RealTable
    rows: RealTable
    role: TableRole
    drawn: Path

    def synthetic_parents(self, label: str) -> Path:
        """The path of a candidate's synthetic parents, with their numbers of rows."""
        return self.drawn / f"{label}{self.parents.suffix or '.parquet'}"

    def read(self, outside: Outside, tell: Callable[[str], None] | None = None) -> pd.DataFrame:
        """The real table of this role, made from both; *Sensitive*."""
        parents, rows = self.read_both(outside, tell)
        return parents if self.role == "parents" else rows

    def read_both(
        self, outside: Outside, tell: Callable[[str], None] | None = None
    ) -> tuple[pd.DataFrame, pd.DataFrame]:
        """The real tables as both runs fit them; *Sensitive*. Arguments and errors as of `read`."""
        given = self.relation.parent_schema, self.relation.child_schema
        parents, rows = (
            _read(place, schema, outside, tell if role == self.role else None)
            for place, schema, role in zip((self.parents, self.rows), given, RELATED_TABLES, strict=True)
        )
        return self.relation.joined(parents, rows, outside=outside)


def _read(place: RealTable, schema: Schema, outside: Outside, tell: Callable[[str], None] | None) -> pd.DataFrame:
    if outside == "refuse":
        return read_table(place.address, schema)
    rows, shares = clamp(read_table(place.address), schema)
    if tell is not None and shares:
        tell(clamped(shares))
    return rows
