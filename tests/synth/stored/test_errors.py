"""What cannot be opened or read ends in one sentence that tells no secret and no cell."""

import logging
import sqlite3
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import ibis
import pandas as pd
import pyarrow as pa
import pytest

from synth.errors import MissingExtra, TableError
from synth.generators.marginal_generator import Independent
from synth.schema import Schema, build_schema
from synth.stored import open_table
from synth.stored.address import parsed
from synth.stored.errors import each_told, silent
from tests.synth.postgres import PASSWORD, Server

ONE = build_schema({"status": "declared", "n_units": 9, "columns": {"x": {"kind": "integer", "bounds": [0, 9]}}})


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("", "has no name"),
        ("nowhere.parquet", "there is no table"),
        ("postgresql://ann:zebrafish@db.example/clinic?password=zebrafish", "lacks the table's name"),
        ("postgresql://ann:zebrafish@db.example:port/clinic#t", "cannot be read"),
        ("sqlite:///nowhere.db#t", "there is no database"),
        ("duckdb:///nowhere.ddb#t", "there is no database"),
        ("duckdb://nowhere.ddb#t", "three slashes"),
        ("sqlite://#t", "three slashes"),
    ],
)
def test_an_address_that_names_nothing_is_refused(address: str, said: str) -> None:
    with pytest.raises(TableError, match=said) as error:
        parsed(address)
    assert "zebrafish" not in str(error.value)


def test_a_folder_of_several_kinds_is_refused(tmp_path: Path) -> None:
    for name in ("a.csv", "b.parquet"):
        (tmp_path / name).touch()
    with pytest.raises(TableError, match=r"all \.parquet, all \.csv"):
        parsed(str(tmp_path))


def test_a_file_that_is_none_tells_nothing_of_itself(tmp_path: Path) -> None:
    (tmp_path / "rows.parquet").write_text("zebrafish")
    with pytest.raises(TableError, match="is cut short or of another format") as error, open_table(tmp_path):
        pass
    assert "zebrafish" not in "".join(traceback.format_exception(error.value))


@pytest.mark.parametrize(
    ("user", "database", "table"), [("zoe", "postgres", "t"), ("keeper", "nowhere", "t"), ("keeper", "postgres", "t")]
)
def test_a_server_that_refuses_is_told_without_the_password(
    server: Server, user: str, database: str, table: str
) -> None:
    url = server.url(database).replace("keeper", user)
    with pytest.raises(TableError, match="cannot be read where it is stored") as error, open_table(f"{url}#{table}"):
        pass
    assert PASSWORD not in str(error.value) and user not in str(error.value)
    assert error.value.__cause__ is None


def test_a_server_that_is_not_there_is_told() -> None:
    with (
        pytest.raises(TableError, match=r"postgresql://127\.0\.0\.1:1/d#t") as error,
        open_table("postgresql://ann:zebrafish@127.0.0.1:1/d#t"),
    ):
        pass
    assert "zebrafish" not in str(error.value)


@pytest.mark.parametrize(
    ("address", "error", "said"),
    [
        ("nonsense://ann:zebrafish@host/d#t", TableError, "scheme='nonsense'"),
        ("mysql://ann:zebrafish@host/d#t", MissingExtra, "ibis-framework\\[mysql\\]"),
    ],
)
def test_a_backend_that_is_not_there_is_told(address: str, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said) as raised, open_table(address):
        pass
    assert "zebrafish" not in "".join(traceback.format_exception(raised.value))


def test_a_database_in_a_file_is_read_and_not_written(tmp_path: Path) -> None:
    path = tmp_path / "rows.ddb"
    with duckdb.connect(str(path)) as made:
        made.execute("CREATE TABLE t AS SELECT range % 3 AS x FROM range(9)")
    before = path.read_bytes()
    with open_table(f"duckdb://{path}#t") as stored:
        assert len(stored) == 9
        Independent(epsilon=1.0).fit(stored, ONE)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("kind", "name", "found"),
    [("duckdb", "a.b", False), ("duckdb", "main.a.b", True), ("sqlite", "a.b", False)],
)
def test_what_stands_before_a_dot_is_the_schema_and_is_said_to_be(
    tmp_path: Path, kind: str, name: str, found: bool
) -> None:
    path = tmp_path / "rows.db"
    with duckdb.connect(str(path)) if kind == "duckdb" else sqlite3.connect(path) as made:
        made.execute('CREATE TABLE "a.b" AS SELECT 1 AS x')
    if found:
        with open_table(f"{kind}://{path}#{name}") as stored:
            assert len(stored) == 1
        return
    with pytest.raises(TableError, match="before its first dot"), open_table(f"{kind}://{path}#{name}"):
        pass


def test_a_server_s_table_with_a_dot_in_its_name_is_told_of(server: Server) -> None:
    with (
        pytest.raises(TableError, match="before its first dot"),
        open_table(f"{server.url('postgres')}#nowhere.t"),
    ):
        pass


NAMES = ("hash", "Slot", "owner", "key", "tie", "POSITION", "file", "rank", "anything")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("put", ["duckdb", "postgres"], indirect=True)
def test_a_column_with_a_name_that_is_given_to_others_is_refused(put: Any, name: str) -> None:
    with pytest.raises(TableError, match=f"column='Understudy_{name}'; rename it"):
        put(pd.DataFrame({"x": [1, 2], f"Understudy_{name}": [1, 2]}))


def test_a_column_of_a_csv_file_with_such_a_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("x,understudy_hash\n1,2\n")
    with pytest.raises(TableError, match="column='understudy_hash'; rename it"), open_table(tmp_path):
        pass


@pytest.mark.parametrize(
    "error",
    [
        pa.ArrowInvalid("mine"), sqlite3.OperationalError("mine"), ConnectionRefusedError("mine"),
        duckdb.CatalogException("mine"), ibis.common.exceptions.IbisError("mine"), RuntimeError("Query interrupted"),
    ],
)  # fmt: skip
def test_what_goes_wrong_in_the_caller_s_block_stays_the_caller_s(tmp_path: Path, error: Exception) -> None:
    pd.DataFrame({"x": [1, 2]}).to_parquet(tmp_path / "rows.parquet")
    with duckdb.connect(str(tmp_path / "rows.ddb")) as made:
        made.execute("CREATE TABLE t AS SELECT 1 AS x")
    for address in (str(tmp_path / "rows.parquet"), f"duckdb://{tmp_path / 'rows.ddb'}#t"):
        cause = ValueError("why")
        with pytest.raises(type(error)) as raised, open_table(address):
            raise error from cause
        assert raised.value is error and error.__cause__ is cause


def test_loggers_are_as_they_were_however_blocks_overlap() -> None:
    logger = logging.getLogger("psycopg")
    before = logger.level
    first, second = silent(), silent()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not logger.isEnabledFor(logging.CRITICAL)
    second.__exit__(None, None, None)
    assert logger.level == before


def test_a_stream_that_is_left_leaves_loggers_and_errors_to_the_caller() -> None:
    logger = logging.getLogger("psycopg")
    before, items = logger.level, each_told(iter([1, 2, 3]), "rows")
    assert next(items) == 1
    assert logger.level == before
    with pytest.raises(pa.ArrowInvalid, match="mine"):
        for _ in items:
            raise pa.ArrowInvalid("mine")


def test_a_stream_that_breaks_off_is_told() -> None:
    def breaking() -> Iterator[int]:
        yield 1
        raise pa.ArrowInvalid("zebrafish")

    found = []
    with pytest.raises(TableError, match="the table at 'rows' cannot be read") as error:
        for item in each_told(breaking(), "rows"):
            found.append(item)
    assert found == [1] and "zebrafish" not in "".join(traceback.format_exception(error.value))


def test_a_column_of_another_type_is_named(put: Any, kinds: Schema) -> None:
    both = put(pd.DataFrame({"x": pd.to_datetime(["2021-01-01", "2021-01-02"])}))
    with pytest.raises(TableError, match="column='x'"):
        Independent(epsilon=1.0).fit(both.stored, ONE)


def test_a_column_that_is_not_there_is_named(put: Any) -> None:
    both = put(pd.DataFrame({"y": [1, 2]}))
    with pytest.raises(TableError, match="column='x' is in the schema"):
        Independent(epsilon=1.0).fit(both.stored, ONE)


def test_names_are_never_read_as_queries(put: Any) -> None:
    hostile = ['x"; drop table t; --', "x'y", "from", "a b", "$1", "%s", "{0}", "\u202ex", "COUNT(*)"]
    both = put(pd.DataFrame({name: [1, 2, 2] for name in hostile}))
    columns = {name: {"kind": "integer", "bounds": [0, 3]} for name in hostile}
    schema = build_schema({"status": "declared", "n_units": 9, "columns": columns})
    assert Independent(epsilon=1.0).fit(both.stored, schema).schema.learned == tuple(hostile)
