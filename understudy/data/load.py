"""Rows of tables: of a real one, read into memory or reached where they are stored; of a synthetic one in parts."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pandas as pd

from evaluate.text import percent
from synth.schema import Schema
from synth.table import conform, read_table, violations, write_table
from synth.table.conforming import Outside, Violation, clamp, readable
from synth.table.reading import check_header
from synth.table.translating import translate
from understudy.data.source import RealTable

if TYPE_CHECKING:
    from synth.stored import StoredTable


@dataclass(frozen=True)
class StoredSplit:
    """The two sides of one table that stays where it is stored.

    Attributes:
        train: *Sensitive*. What generators are fitted on.
        holdout: *Sensitive*. What no generator sees.
    """

    train: "StoredTable" = field(repr=False)
    holdout: "StoredTable" = field(repr=False)
    keyed: bool = True

    @classmethod
    def of(
        cls, table: "StoredTable", schema: Schema, *, holdout_share: float, seed: int, any_size: bool = False
    ) -> Self:
        """Train and holdout, each unit by the hash of its own name."""
        return cls(*table.split(schema, holdout_share=holdout_share, seed=seed, any_size=any_size))


@contextmanager
def opened(table: RealTable) -> Iterator["StoredTable"]:
    """A table where it is stored, as long as the block lasts."""
    from synth.stored import open_table

    with open_table(table.address, memory_mb=table.memory_mb, threads=table.threads) as found:
        yield found


@contextmanager
def read_real(
    table: RealTable, schema: Schema, outside: Outside, tell: Callable[[str], None] | None = None
) -> "Iterator[pd.DataFrame | StoredTable]":
    """The real rows, as long as the block lasts: in memory and conforming to the schema, or where they are stored.

    Args:
        tell: is given a sentence on the cells that were clamped, where any were. *Sensitive*. Of a table that stays
            where it is stored nothing is counted.
    """
    if table.stored:
        with read_stored(table, schema, outside) as found:
            yield found
        return
    if outside == "refuse":
        yield read_table(table.file, schema)
        return
    rows, shares = clamp(read_table(table.file), schema)
    if tell is not None and shares:
        tell(clamped(shares))
    yield rows


MAX_NAMED = 5
"""Columns that a sentence names."""


def clamped(shares: Mapping[str, float]) -> str:
    """A warning that cells were clamped, without a final stop. *Sensitive*: it is counted on real rows."""
    ranked = sorted(shares, key=lambda name: -shares[name])
    shown = [f"{name!r} {percent(shares[name])}" for name in ranked[:MAX_NAMED]]
    n_more = len(ranked) - len(shown)
    more = f", and {n_more} more column{'' if n_more == 1 else 's'}" if n_more else ""
    return (
        f"values outside the schema were clamped, or became missing where they cannot be read: {', '.join(shown)} of "
        f"cells{more}, counted on the real rows outside any guarantee; every number but the share of valid rows is "
        "about the table as clamped; check the bounds and categories in the schema"
    )


@contextmanager
def read_stored(table: RealTable, schema: Schema, outside: Outside) -> "Iterator[StoredTable]":
    """The real rows where they are stored, as long as the block lasts. Arguments and errors as of `read_real`."""
    from synth.stored.violations import refuse_violations

    with opened(table) as found:
        if outside == "refuse":
            refuse_violations(found, schema)
        yield found


def check_reached(table: "StoredTable") -> None:
    """Refuse to go on with a table that cannot be reached any more, though no measure has stopped for it."""
    table.place.number(table.rows.limit(0).count())


def check_names(table: RealTable, schema: Schema) -> None:
    """Refuse a table whose column names are not those of the schema; neither a row nor their number is read."""
    if not table.stored:
        check_header(table.file, schema)
        return
    with opened(table) as found:
        names = [name for name in found.rows.columns if name != found.slot]
    readable(pd.DataFrame([], columns=pd.Index(names, dtype=object), dtype=object), schema)


def violations_in(table: RealTable, schema: Schema) -> Sequence[Violation]:
    """The violations of a schema by a table, without a cell value or a count."""
    if not table.stored:
        return violations(read_table(table.file), schema)
    from synth.stored.violations import violations_of

    with opened(table) as found:
        return violations_of(found, schema)


def parts_of(table: Path) -> Sequence[Path]:
    """The files of a table: itself, or those of a folder in their order."""
    if not table.is_dir():
        return (table,)
    from synth.stored.address import parsed

    return parsed(str(table)).files


def rewrite(source: Path, to: Path, schema: Schema) -> None:
    """A synthetic table written anew as every measure had it: by the schema, in the same parts."""
    for part in parts_of(source):
        place = to / part.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        rows, _ = translate(read_table(part), schema)
        write_table(conform(rows, schema, outside="clamp", part=True), place, schema)
