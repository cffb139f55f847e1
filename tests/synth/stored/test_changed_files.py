"""Files that vanish, change, are damaged, closed or unlike: one sentence each, and none of their content in it."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from synth.errors import TableError
from synth.generators.marginal_generator import Independent
from synth.schema import build_schema
from synth.stored import open_table

ONE = build_schema({"status": "declared", "n_units": 9, "columns": {"x": {"kind": "integer", "bounds": [0, 9]}}})
SECRET = "zebrafish77"


@pytest.fixture
def folder() -> Iterator[Path]:
    """Two files of 50,000 rows, where another user may look."""
    path = Path(tempfile.mkdtemp(prefix="files"))
    path.chmod(0o755)
    for name in ("a.parquet", "b.parquet"):
        _write(path / name, f"SELECT range % 7 AS x, '{SECRET}' || range AS y FROM range(50000)")
    yield path
    shutil.rmtree(path)


def _write(path: Path, query: str) -> None:
    path.unlink(missing_ok=True)
    duckdb.execute(f"COPY ({query}) TO $1 (FORMAT parquet)", [str(path)])


def _halve(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _overwrite(path: Path) -> None:
    """Its pages are something else, its footer is sound."""
    content = bytearray(path.read_bytes())
    content[4 : len(content) // 2] = bytes(len(content) // 2 - 4)
    path.write_bytes(bytes(content))


CHANGES: list[tuple[Callable[[Path], object], str]] = [
    (lambda path: path.unlink(), "no longer there"),
    (_halve, "damaged"),
    (_overwrite, "damaged"),
    (lambda path: path.write_bytes(b""), "damaged"),
    (lambda path: path.write_text(SECRET), "damaged"),
    (lambda path: _write(path, f"SELECT 'q' AS z, '{SECRET}' AS y FROM range(9)"), "same columns"),
    (lambda path: _write(path, f"SELECT '{SECRET}' AS x, 'z' AS y FROM range(9)"), "same columns and types"),
]


@pytest.mark.parametrize(("change", "said"), CHANGES)
def test_a_file_that_changes_between_opening_and_reading_is_told(
    folder: Path, change: Callable[[Path], object], said: str
) -> None:
    with pytest.raises(TableError, match=said) as error, open_table(folder) as stored:
        change(folder / "b.parquet")
        Independent(epsilon=1.0).fit(stored, ONE)
    assert SECRET not in str(error.value) and error.value.__context__ is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_halve, r"b\.parquet' is cut short"),
        (_overwrite, "damaged"),
        (lambda path: path.write_bytes(b""), r"b\.parquet' is cut short"),
        (lambda path: path.write_text(SECRET), r"b\.parquet' is cut short"),
        (lambda path: _write(path, f"SELECT 'q' AS z, '{SECRET}' AS y FROM range(9)"), "differ in column='x'"),
        (lambda path: _write(path, f"SELECT '{SECRET}' AS x, 'z' AS y FROM range(9)"), "differ in column='x'"),
        (lambda path: _write(path, "SELECT 2.6::DOUBLE AS x, 'z' AS y FROM range(9)"), "differ in column='x'"),
        (lambda path: _write(path, "SELECT 2::INTEGER AS x, 'z' AS y FROM range(9)"), "differ in column='x'"),
        (lambda path: _write(path, "SELECT 2 AS x, 'z' AS y FROM range(9)"), "differ in column='x'"),
        (lambda path: _write(path, "SELECT range AS x, 'z' AS y, 1 AS more FROM range(9)"), "differ in column='more'"),
        (lambda path: _write(path, "SELECT range AS X, 'z' AS y FROM range(9)"), "differ in column='x'"),
        (lambda path: _write(path, "SELECT [range] AS x, 'z' AS y FROM range(9)"), "differ in column='x'"),
    ],
)
def test_a_file_that_is_wrong_from_the_start_is_told(folder: Path, change: Callable[[Path], object], said: str) -> None:
    change(folder / "b.parquet")
    with pytest.raises(TableError, match=said) as error, open_table(folder) as stored:
        Independent(epsilon=1.0).fit(stored, ONE)
    assert SECRET not in str(error.value) and SECRET not in repr(error.value.__context__)


def test_a_file_of_another_writer_whose_columns_are_alike_is_read(folder: Path) -> None:
    texts = pa.array(["a", None, "a"]).dictionary_encode()
    fields = [pa.field("y", texts.type), pa.field("x", pa.int64(), nullable=False)]
    pq.write_table(pa.table([texts, pa.array([1, 2, 3])], schema=pa.schema(fields)), folder / "b.parquet")
    with open_table(folder) as stored:
        last = stored.rows.filter(stored.rows["y"].isnull() | (stored.rows["y"] == "a")).order_by("x")
        assert stored.place.fetch(last).select(["x", "y"]).to_pydict() == {"x": [1, 2, 3], "y": ["a", None, "a"]}
        assert len(stored) == 50_003


def test_decimals_are_alike_however_they_are_held(folder: Path) -> None:
    for name, as_integer in (("a", False), ("b", True)):
        cells = pa.table({"x": pa.array([Decimal(1), Decimal(2)], pa.decimal128(9, 2))})
        pq.write_table(cells, folder / f"{name}.parquet", store_decimal_as_integer=as_integer)
    with open_table(folder) as stored:
        assert len(stored) == 4


def test_what_a_fit_has_begun_to_read_changes_no_more(folder: Path) -> None:
    with open_table(folder) as stored:
        training = stored.training(ONE)
        _write(folder / "a.parquet", "SELECT 1 AS x, 'q' AS y")
        (folder / "b.parquet").unlink()
        assert len(training) == 100_000


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become another user")
def test_a_file_that_this_user_may_not_read_is_told(folder: Path) -> None:
    (folder / "b.parquet").chmod(0o600)
    os.seteuid(65534)
    try:
        with (
            pytest.raises(TableError, match=r"b\.parquet' cannot be read; check the file and its rights"),
            open_table(folder),
        ):
            pass
    finally:
        os.seteuid(0)
