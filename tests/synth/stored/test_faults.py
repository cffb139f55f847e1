"""What cannot be opened or read ends in one sentence that tells no secret and no cell."""

import traceback
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

from synth.errors import MissingExtra, TableError
from synth.generators.independent import Independent
from synth.schema import Schema, build_schema
from synth.stored import open_table
from synth.stored.address import parsed
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
