"""The names of a table's columns, read off its head alone: no row, and not how many there are."""

import csv
import gzip
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import pandas as pd

from synth.errors import TableError
from synth.schema import Schema
from synth.table.conforming import readable
from synth.table.reading import check_place, header_names, index_names, no_header, no_table, not_utf8

_BOM = "\ufeff"


def read_header(path: str | Path) -> tuple[str, ...]:
    """The names of a table's columns in order: a CSV file's first line, a Parquet file's schema.

    Args:
        path: a .csv, .csv.gz (UTF-8, comma, header row) or .parquet file.

    Raises:
        TableError: the file is not there, or has no header that can be read.
    """
    path = Path(path)
    suffix, place = check_place(path), f"path={str(path)!r}"
    try:
        return _of_parquet(path) if suffix == ".parquet" else _of_csv(path, suffix, place)
    except FileNotFoundError:
        raise no_table(path) from None
    except (OSError, EOFError, zlib.error):
        raise TableError(f"the header of the table at {place} cannot be read; check the file and its rights") from None
    except UnicodeDecodeError:
        raise not_utf8(place) from None
    except (csv.Error, StopIteration):
        raise no_header(place) from None


def check_header(path: str | Path, schema: Schema) -> None:
    """Refuse a table whose column names are not those of the schema; neither a row nor their number is read.

    Raises:
        TableError: the header cannot be read, or a name is missing, unknown or there twice.
    """
    readable(pd.DataFrame([], columns=pd.Index(read_header(path), dtype=object), dtype=object), schema)


def _of_csv(path: Path, suffix: str, place: str) -> tuple[str, ...]:
    # Latin-1 stands for the bytes as they are, so that rows behind the header need not even be text.
    opened = gzip.open if suffix == ".csv.gz" else open
    with opened(path, "rt", encoding="latin-1", newline="") as stream:
        return tuple(header_names(_lines(stream), place))


def _lines(stream: Iterable[str]) -> Iterator[str]:
    """Lines one at a time, each decoded only once it is asked for: what follows the header is never looked at."""
    first = True
    for line in stream:
        text = line.encode("latin-1").decode("utf-8")
        yield text.lstrip(_BOM) if first else text
        first = False


def _of_parquet(path: Path) -> tuple[str, ...]:
    import pyarrow as pa
    import pyarrow.parquet

    try:
        kinds = pa.parquet.read_schema(path)
    except pa.ArrowException:
        raise TableError(
            f"a Parquet file must be whole: path={str(path)!r} is cut short or of another format; copy it again"
        ) from None
    index = index_names(kinds.metadata)
    return tuple(name for name in kinds.names if name not in index)
