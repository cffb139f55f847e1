"""Values of personal data without their form, in a table that stays where it is stored.

Whether a value has its form is told here, of each distinct value once; which rows hold such a value, there.
"""

from collections.abc import Iterator
from typing import Any

import ibis
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from evaluate.stored.meeting import EMBEDDED
from synth.columns import PersonalColumn
from synth.errors import PlaceError
from synth.personal.formats import ill_formed
from synth.stored import StoredTable
from synth.stored.connection import batches
from synth.stored.embedded import work_folder
from synth.stored.errors import told

LISTED = 5_000
"""Values that one list of a query holds."""
_BATCH = 100_000
"""Values that are fetched at once."""
_VALUE = "value"


def misshapen(table: StoredTable, texts: Any, column: PersonalColumn) -> Any:
    """Which rows hold a value without the form; never null.

    In an embedded engine such values are written down, and looked up. Elsewhere a query lists them, so that their
    number is limited by what the server takes.

    Args:
        table: *Sensitive* where it is real.
        texts: the cells of a column of it, null where they are missing.
        column: says what they should be.

    Raises:
        PlaceError: its server or a disk gave out; nothing was measured.
    """
    wrong = _ill_formed(table, texts, column)
    if table.place.backend == EMBEDDED:
        return texts.isin(_written(table, wrong)[_VALUE]).fill_null(False)
    values = [value for batch in wrong for value in batch]
    found: Any = ibis.literal(False)
    for start in range(0, len(values), LISTED):
        found = found | texts.isin(values[start : start + LISTED]).fill_null(False)
    return found


def _ill_formed(table: StoredTable, texts: Any, column: PersonalColumn) -> Iterator[list[str]]:
    """The distinct values that have not the form, read a batch at a time."""
    distinct = table.rows.select(value=texts).distinct()
    for batch in batches(table.place, distinct, _BATCH):
        values = pd.Series(batch.column(0).to_pylist(), dtype=object)
        yield values[ill_formed(values, column)].tolist()


def _written(table: StoredTable, values: Iterator[list[str]]) -> Any:
    """A table of texts in the engine that holds another."""
    place, schema, reason = table.place, pa.schema({_VALUE: pa.string()}), None
    with work_folder() as folder:
        path = folder / "values.parquet"
        try:
            with pq.ParquetWriter(path, schema) as writer:
                for some in values:
                    writer.write_table(pa.table({_VALUE: some}, schema=schema))
        except OSError as error:
            reason = error.strerror
        if reason is not None:
            raise PlaceError(
                f"values without their form cannot be written beside the system's temporary files ({reason}); make "
                "room there"
            )
        with told(place.shown):
            return place.written(place.connection.read_parquet(path))
