"""Tables in files: names, files that change while they are read, and one row more or less."""

import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from synth.domain import Discretizer
from synth.errors import TableError
from synth.generators.fitting.training_data import HeldTable
from synth.generators.marginal_generator import Independent
from synth.generators.mst import Mst
from synth.schema import Schema, build_schema
from synth.schema.kinds import IdentifierColumn
from synth.split import split_table
from synth.stored import StoredTable, open_table
from synth.table import conform, read_table
from tests.synth.postgres import Server
from tests.synth.stored.conftest import COLUMNS, every_kind

CSV = {
    "status": "declared", "n_units": 3_000, "missing_values": ["?"],
    "columns": {name: {**COLUMNS[name], "missing": True} for name in ("whole", "real", "fine", "word", "code", "day")}
    | {"yes": {"kind": "boolean", "missing": True, "tokens": ["no", "yes"]}},
}  # fmt: skip


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
def test_a_csv_file_is_read_as_in_memory(tmp_path: Path, suffix: str) -> None:
    schema = build_schema(CSV)
    frame = every_kind()[list(CSV["columns"])].astype(object)  # type: ignore[call-overload]
    frame["yes"] = frame["yes"].map({True: "yes", False: "no"})
    frame.loc[::19, "whole"], frame.loc[::23, "whole"], frame.loc[::29, "real"] = "?", "1e1", "none of a number"
    frame.loc[::31, "day"], frame.loc[::37, "real"], frame.loc[::41, "yes"] = "2001-02-30", " 7", "maybe"
    path = tmp_path / f"rows{suffix}"
    frame.to_csv(path, index=False)
    held = HeldTable(read_table(path, schema, outside="clamp"), schema)
    attributes = Discretizer.by_schema(schema).attributes
    with open_table(path) as stored:
        counted = list(stored.training(schema).cell_counts(attributes))
    for attribute, here, there in zip(attributes, held.cell_counts(attributes), counted, strict=True):
        np.testing.assert_array_equal(here, there, err_msg=attribute.name)


def test_a_folder_of_files_is_one_table(tmp_path: Path, kinds: Schema) -> None:
    frame = every_kind()
    for index, part in enumerate(np.array_split(np.arange(len(frame)), 3)):
        (tmp_path / f"part={index}").mkdir()
        pq.write_table(pa.Table.from_pandas(frame.iloc[part]), tmp_path / f"part={index}" / "rows.parquet")
    codes = Discretizer.by_schema(kinds)
    held = HeldTable(conform(frame, kinds, outside="clamp"), kinds)
    with open_table(tmp_path) as stored:
        assert len(stored) == len(frame)
        found = stored.training(kinds).coded(codes).counts(("level", "word"))
    np.testing.assert_array_equal(found, held.coded(codes).counts(("level", "word")))


def test_what_writers_leave_beside_the_files_of_a_table_is_none_of_it(tmp_path: Path) -> None:
    left = ("part-0.parquet", ".part-0.parquet.ab12.parquet", "_temporary/0/part-0.parquet", "_log.parquet", ".parquet")
    folder = tmp_path / ".hidden"  # its own name is of no matter
    for name in left:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        every_kind()[["whole"]].head(10).to_parquet(folder / name)
    with open_table(folder) as stored:
        assert len(stored) == 10
    (folder / "part-0.parquet").unlink()
    with pytest.raises(TableError, match=r"holds no \.parquet"), open_table(folder):
        pass


def test_row_numbers_of_pandas_are_no_column(tmp_path: Path) -> None:
    frame = every_kind()[["whole", "real"]].iloc[[5, 3, 9]]
    frame.to_parquet(tmp_path / "rows.parquet")
    assert len(pq.read_schema(tmp_path / "rows.parquet").names) == 3
    with open_table(tmp_path) as stored:
        assert [name for name in stored.rows.columns if name != stored.slot] == ["whole", "real"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_blank_line_is_no_row(tmp_path: Path, end: str) -> None:
    path = tmp_path / "rows.csv"
    for lines, n_rows in ((["x", "1", "", '""', "2", "", ""], 3), (["x,y", "1,1", "", ",", "2,2", ""], 3)):
        path.write_bytes(end.join(lines).encode())
        schema = build_schema({"status": "declared", "n_units": 9, "columns": {"x": GONE}})
        held = HeldTable(read_table(path)[["x"]].pipe(conform, schema, outside="clamp"), schema)
        attributes = Discretizer.by_schema(schema).attributes
        with open_table(path) as stored:
            assert len(stored) == n_rows
            counted = next(stored.training(schema).cell_counts(attributes))
        np.testing.assert_array_equal(counted, next(iter(held.cell_counts(attributes))))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"x,y\n1,77\n2\n", "as many fields as its header"),
        (b"x,y\n1,77\n2,3,4\n", "as many fields as its header"),
        (b'x,y\n1,"77\n2,3\n', "every quote in a CSV file must be closed"),
        (b'x,y\n1,"77"7\n2,3\n', "every quote in a CSV file must be closed"),
        ("x,y\n1,77\n2,\xe9\n".encode("latin-1"), "must be UTF-8 text"),
        (b"x,y\r\n1,77\n2,3\r\n", "must end alike"),
        (b"x,y\n1,77\n2,3\r\n", "must end alike"),
        (b'x,y\n1,77\n2,"3"\r\n4,5\n', "all lines must end alike"),
    ],
)
def test_what_is_wrong_with_a_csv_file_is_named(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "rows.csv").write_bytes(content)
    with pytest.raises(TableError, match=said) as error, open_table(tmp_path) as stored:
        len(stored.place.fetch(stored.rows))
    assert "77" not in str(error.value).replace(str(tmp_path), "") and "\n" not in str(error.value)


def test_a_far_time_in_milliseconds_is_told_by_its_unit(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": pa.array([0, 10**17], pa.timestamp("ms"))}), tmp_path / "rows.parquet")
    with pytest.raises(TableError, match="write times in microseconds"), open_table(tmp_path) as stored:
        stored.place.fetch(stored.rows)


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_rows_without_a_name_fall_on_the_sides_that_they_fall_on_in_memory(tmp_path: Path, suffix: str) -> None:
    schema = build_schema({"status": "declared", "n_units": 3_000, "columns": {"whole": COLUMNS["whole"]}})
    frame = every_kind()[["whole"]]
    if suffix == "csv":
        frame.to_csv(tmp_path / "rows.csv", index=False)
    else:
        frame.to_parquet(tmp_path / "rows.parquet")
    sides = split_table(frame, schema, holdout_share=0.25, seed=3, private=True)
    codes = Discretizer.by_schema(schema)
    with open_table(tmp_path / f"rows.{suffix}") as stored:
        train, _ = stored.split(schema, holdout_share=0.25, seed=3)
        found = train.training(schema).coded(codes).counts(("whole",))
    np.testing.assert_array_equal(found, HeldTable(sides.train, schema).coded(codes).counts(("whole",)))


def test_rows_of_several_files_fall_on_both_sides(tmp_path: Path) -> None:
    schema = build_schema({"status": "declared", "n_units": 3_000, "columns": {"whole": COLUMNS["whole"]}})
    for index in range(3):
        every_kind()[["whole"]].to_parquet(tmp_path / f"{index}.parquet")
    sizes = []
    for _ in range(2):
        with open_table(tmp_path) as stored:
            train, holdout = stored.split(schema, holdout_share=0.25, seed=3)
            sizes.append((len(train), len(holdout)))
    assert sizes[0] == sizes[1] and sum(sizes[0]) == 9_000
    assert 2_000 < sizes[0][1] < 2_500


def test_nothing_stays_behind(tmp_path: Path, monkeypatch: Any, kinds: Schema) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "work"))
    (tmp_path / "work").mkdir()
    every_kind().to_parquet(tmp_path / "rows.parquet", coerce_timestamps="us")
    with open_table(tmp_path / "rows.parquet") as stored:
        Mst(epsilon=1.0).fit(stored, kinds)
        assert any((tmp_path / "work").iterdir())
    assert not any((tmp_path / "work").iterdir())


def test_little_memory_is_enough(tmp_path: Path) -> None:
    names = ("whole", "real", "word", "level")
    schema = build_schema({"status": "declared", "n_units": 10**6, "columns": {n: COLUMNS[n] for n in names}})
    frame = pd.concat([every_kind()[list(names)]] * 300, ignore_index=True)
    frame.to_parquet(tmp_path / "rows.parquet")
    with open_table(tmp_path / "rows.parquet", memory_mb=100, threads=1) as stored:
        rows = stored.training(schema)
        codes = Discretizer.by_schema(schema)
        pairs = list(itertools.combinations(codes.columns, 2))
        assert all(int(counts.sum()) == len(frame) for counts in rows.coded(codes).each(pairs))


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_columns_may_have_the_names_that_duckdb_gives_its_own(tmp_path: Path, suffix: str) -> None:
    names = ("filename", "file_row_number", "file_index", "understudy")
    columns = {"who": COLUMNS["who"], **{name: {"kind": "integer", "bounds": [0, 9]} for name in names}}
    schema = build_schema({"status": "declared", "n_units": 100, "columns": columns})
    frame = pd.DataFrame({"who": [f"P{i:04d}" for i in range(300)], **{name: np.arange(300) % 7 for name in names}})
    if suffix == ".csv":
        frame.to_csv(tmp_path / "rows.csv", index=False)
    else:
        frame.to_parquet(tmp_path / "rows.parquet")
    codes = Discretizer.by_schema(schema)
    with open_table(tmp_path / f"rows{suffix}") as stored:
        train, holdout = stored.split(schema, holdout_share=0.3, seed=0)
        found = train.training(schema).coded(codes).counts(("filename", "file_row_number"))
        assert len(train) + len(holdout) == 300
    sides = split_table(frame, schema, holdout_share=0.3, seed=0, private=True)
    here = HeldTable(sides.train, schema).coded(codes).counts(("filename", "file_row_number"))
    np.testing.assert_array_equal(found, here)


def test_a_long_line_is_read(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(f"x,y\n1,{'a' * 5_000_000}\n2,b\n")
    schema = build_schema(
        {"status": "declared", "n_units": 9, "columns": {"x": {"kind": "integer", "bounds": [0, 9]}, "y": WORD}}
    )
    with open_table(tmp_path / "rows.csv") as stored:
        counted = list(stored.training(schema).cell_counts(Discretizer.by_schema(schema).attributes))
    assert counted[1].tolist() == [0, 1, 1, 0]


GONE = {"kind": "integer", "bounds": [0, 9], "missing": True}
WORD = {"kind": "categorical", "categories": ["a", "b"], "missing": True}


def test_whole_numbers_of_128_bits_end_no_fit(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "rows.ddb")) as made:
        made.execute(f"CREATE TABLE t AS SELECT unnest([{2**127 - 1}, {-(2**127)}, 7, NULL])::HUGEINT AS x")
    column = {"kind": "integer", "bounds": [0, 9], "missing": True}
    schema = build_schema({"status": "declared", "n_units": 9, "columns": {"x": column}})
    with open_table(f"duckdb://{tmp_path / 'rows.ddb'}#t") as stored:
        counted = next(stored.training(schema).cell_counts(Discretizer.by_schema(schema).attributes))
    assert (counted.sum(), counted[-1]) == (4, 3)


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
        y = stored.rows["y"]
        last = stored.rows.filter(y.isnull() | (y == "a")).order_by("x")  # noqa: PD003 - Ibis has no `isna`
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


SPELLED = ["7", "07", "+7", "007", "0007", "7.0", "7e0", ".7E1"]
K = 2


@pytest.fixture
def owned() -> Schema:
    return build_schema(
        {
            "status": "declared", "n_units": 21, "entity": "who", "max_rows_per_unit": K,
            "columns": {
                "who": {"kind": "identifier", "bounds": [0, 1000]},
                "x": {"kind": "categorical", "categories": ["0", "1"]},
            },
        }
    )  # fmt: skip


@pytest.mark.parametrize("backend", ["csv", "postgres"])
def test_an_entity_spelled_in_several_ways_has_k_rows(
    backend: str, owned: Schema, tmp_path: Path, server: Server
) -> None:
    rows = [(who, "1") for who in SPELLED for _ in range(3)] + [(str(who), "0") for who in range(10, 30)]
    with _table(backend, rows, tmp_path, server) as stored:
        kept = stored.training(owned)
        n = stored.place.number(kept.rows.filter(kept.rows["x"] == "1").count())
        assert n == K
        assert kept.rows_per_entity().tolist() == [20, 1]


def test_one_zero_is_one_name_and_a_number_that_is_not_finite_is_none(owned: Schema, tmp_path: Path) -> None:
    named = owned.model_copy(update={"columns": {**owned.columns, "who": IdentifierColumn(template="##")}})
    numbers = "'-0.0', '0.0', '-0.0', '0.0', 'inf', 'nan'"
    for kind in ("DOUBLE", "FLOAT"):
        _write(tmp_path / "t.parquet", f"SELECT unnest([{numbers}])::{kind} AS who, '1' AS x")
        with open_table(tmp_path / "t.parquet") as stored:
            assert stored.training(named).rows_per_entity().tolist() == [0, 1]


def test_names_that_a_collation_takes_for_one_are_two(server: Server) -> None:
    schema = build_schema(
        {
            "status": "declared", "n_units": 9, "entity": "who",
            "columns": {
                "who": {"kind": "identifier", "template": "@@@"},
                "word": {"kind": "categorical", "measure": True},
            },
        }
    )  # fmt: skip
    with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
        for query in (
            "CREATE COLLATION IF NOT EXISTS blind (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
            "DROP TABLE IF EXISTS collated",
            "CREATE TABLE collated (who text COLLATE blind, word text COLLATE blind)",
            "INSERT INTO collated VALUES ('ANN', 'ANN'), ('ann', 'ann'), ('bob', 'ann')",
        ):
            connection.execute(query)
    with open_table(server.url("postgres") + "#collated") as stored:
        kept = stored.training(schema)
        assert len(kept) == 3
        assert kept.rows_per_entity().tolist() == [3]
        assert kept.category_counts("word") == {"ANN": 1, "ann": 2}


def test_sides_do_not_depend_on_how_a_path_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = build_schema({"status": "declared", "columns": {"x": {"kind": "integer", "bounds": [0, 999]}}})
    folder = tmp_path / "rows [1]*"
    folder.mkdir()
    for part in ("a", "b"):
        _write(folder / f"{part}.parquet", "SELECT i AS x FROM range(500) r(i)")
    monkeypatch.chdir(tmp_path)
    sides = []
    for written in (str(folder), folder.name, f"./{folder.name}", f"../{tmp_path.name}/{folder.name}", f"{folder}/"):
        with open_table(written) as stored:
            train, _ = stored.split(schema, holdout_share=0.3, seed=1)
            sides.append(sorted(stored.place.fetch(train.rows.select("x")).column(0).to_pylist()))
    assert all(side == sides[0] for side in sides)
    assert 600 < len(sides[0]) < 800


def test_a_path_is_no_pattern(tmp_path: Path) -> None:
    for folder, value in (("v1", "'another'"), ("v[1]", "'named'")):
        (tmp_path / folder).mkdir()
        _write(tmp_path / folder / "t.parquet", f"SELECT {value} AS y")
    with open_table(tmp_path / "v[1]" / "t.parquet") as stored:
        assert stored.place.fetch(stored.rows.select("y")).column(0).to_pylist() == ["named"]


def test_the_name_of_a_folder_is_no_cell(tmp_path: Path) -> None:
    (tmp_path / "y=b").mkdir()
    _write(tmp_path / "y=b" / "t.parquet", "SELECT 'a' AS y")
    with open_table(tmp_path / "y=b" / "t.parquet") as stored:
        assert stored.place.fetch(stored.rows.select("y")).column(0).to_pylist() == ["a"]


def test_a_duckdb_database_is_only_read_and_spills_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "rows.db"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE t AS SELECT i AS x FROM range(10) r(i)")
    with open_table(f"duckdb://{path}#t", memory_mb=200, threads=1) as stored:
        engine = stored.place.connection.con
        beside, threads = (
            engine.execute(f"SELECT current_setting('{name}')").fetchone()[0] for name in ("temp_directory", "threads")
        )
        attached = engine.execute("SELECT path, readonly FROM duckdb_databases()").fetchall()
        assert (str(path), True) in attached
        assert threads == 1
        assert Path(beside).stat().st_mode & 0o077 == 0
        assert Path(beside).parent != tmp_path
        assert stored.place.shown == f"duckdb://{path}#t"
    assert [one.name for one in tmp_path.iterdir()] == ["rows.db"]


@contextmanager
def _table(backend: str, rows: list[tuple[str, str]], folder: Path, server: Server) -> Iterator[StoredTable]:
    if backend == "csv":
        path = folder / "rows.csv"
        path.write_text("\n".join(["who,x", *(",".join(row) for row in rows)]) + "\n", encoding="utf-8")
        with open_table(path) as stored:
            yield stored
        return
    with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS spelled")
        connection.execute("CREATE TABLE spelled (who text, x text)")
        connection.cursor().executemany("INSERT INTO spelled VALUES (%s, %s)", rows)
    with open_table(server.url("postgres") + "#spelled") as stored:
        yield stored
