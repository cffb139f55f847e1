"""Addresses and names of stored tables, errors, secrets, and wide counts that stand for narrow ones."""

import datetime as dt
import decimal
import itertools
import logging
import math
import sqlite3
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import ibis
import numpy as np
import pandas as pd
import psycopg
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from synth.domain import Discretizer
from synth.errors import MissingExtra, TableError
from synth.generators.marginal_generator import Independent
from synth.row_hash import content_sums as sums_in_memory
from synth.schema import Schema, build_schema
from synth.split import split_table
from synth.stored import StoredTable, content_sums, counts, open_table
from synth.stored.address import parsed
from synth.stored.counts import covering
from synth.stored.errors import each_told, silent
from synth.stored.violations import violations_of
from synth.table import conform, violations
from tests.synth.postgres import PASSWORD, Server

INT64 = [-(2**63), 2**63 - 1]
TEXTS = [
    "1234567890123456789", "1234567890123456790", "9007199254740992", "9007199254740993", "12", "12.0", "012", "+7",
    " 7", "7", "-7", "-0", "1e3", "1E+3", "2.5e1", "1e18", "1e19", "9223372036854775807", "9223372036854775808",
    "9223372036854775807.0", "-9223372036854775808", "-9223372036854775809", "18446744073709551615", "9" * 40,
    "0" * 39 + "7", "0" * 60 + "7", "7.5", "7.0000", "7.", ".5e1", "x", "", "?", "inf", "nan", "1e400", "7\n", "7 ",
    "1_000", "0x10", "\u0667",
]  # fmt: skip
DECIMALS = {
    "DECIMAL(20,0)": ["9007199254740992", "9007199254740993", "9007199254740994", "12", "-7", "99999999999999999999",
                      "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809"],
    "DECIMAL(38,18)": ["9007199254740993", "9007199254740992", "7.5", "0", "-0.5", "12.0",
                       "99999999999999999999.999999999999999999", "-99999999999999999999.999999999999999999"],
    "DECIMAL(4,1)": ["999.9", "-999.9", "7.0", "0.5", "0"],
    "DECIMAL(38,37)": ["-9.5", "7", "0." + "0" * 36 + "1"],
    "DECIMAL(4,4)": ["0.5", "0", "-0.9999"],
    "DECIMAL(38,0)": ["9" * 38, "-" + "9" * 38, "9007199254740993", "7"],
}  # fmt: skip


def _schema(**more: Any) -> Schema:
    columns = {"who": {"kind": "identifier", "bounds": INT64}, **more}
    return build_schema(
        {
            "status": "declared", "n_units": 200, "entity": "who", "max_rows_per_unit": 1, "missing_values": ["?"],
            "columns": columns,
        }
    )  # fmt: skip


def _names(table: StoredTable, schema: Schema) -> list[Any]:
    asked = table.rows.select(i="i", who=table.text("who", schema)).order_by("i")
    return table.place.fetch(asked).column(1).to_pylist()  # type: ignore[no-any-return]


def _names_in_memory(cells: pd.Series, schema: Schema) -> list[Any]:
    read = conform(pd.DataFrame({"who": cells}), schema, outside="clamp")["who"]
    return [None if pd.isna(name) else str(name) for name in read]


def _differing(cells: Any, here: list[Any], there: list[Any]) -> list[Any]:
    return [one for one in zip(cells, here, there, strict=True) if one[1] != one[2]]


def test_a_text_names_whom_it_names_in_memory(put: Any) -> None:
    frame, schema = pd.DataFrame({"i": range(len(TEXTS)), "who": pd.Series(TEXTS, dtype=object)}), _schema()
    here = _names_in_memory(frame["who"], schema)
    assert here.count(None) < len(TEXTS) - 20
    assert not _differing(TEXTS, here, _names(put(frame).stored, schema))


@pytest.mark.parametrize(
    "cells",
    [
        [2**53 + 1, 2**53 + 2, INT64[0], INT64[1], None],
        [1.0, 2.5, np.nan, np.inf, -(2.0**63), 2.0**63, 2.0**63 - 1024, -0.0, 1e17],
        [True, False, None],
    ],
    ids=["whole", "real", "truth"],
)
def test_a_number_names_whom_it_names_in_memory(put: Any, cells: list[Any]) -> None:
    dtype: Any = "float64" if isinstance(cells[0], float) else "boolean" if cells[0] is True else "Int64"
    frame, schema = pd.DataFrame({"i": range(len(cells)), "who": pd.array(cells, dtype=dtype)}), _schema()
    assert not _differing(cells, _names_in_memory(frame["who"], schema), _names(put(frame).stored, schema))


@pytest.mark.parametrize("kind", DECIMALS)
def test_a_decimal_names_whom_it_names_in_memory(put: Any, kind: str) -> None:
    with decimal.localcontext(prec=60):
        precision, scale = (int(size) for size in kind[len("DECIMAL(") : -1].split(","))
        cells = [decimal.Decimal(text).quantize(decimal.Decimal(1).scaleb(-scale)) for text in DECIMALS[kind]]
    assert max(len(cell.as_tuple().digits) for cell in cells) <= precision
    frame, schema = pd.DataFrame({"i": range(len(cells)), "who": pd.Series(cells, dtype=object)}), _schema()
    assert not _differing(cells, _names_in_memory(frame["who"], schema), _names(put(frame).stored, schema))


def test_a_numeric_of_postgresql_without_a_size_names_whom_it_names_in_memory(server: Server) -> None:
    texts = [*DECIMALS["DECIMAL(20,0)"], "NaN", "Infinity", "-Infinity", "1e400", "7.00", "7.5", "9" * 100]
    cells = [decimal.Decimal(text) for text in texts]
    url, schema = server.url(server.create()), _schema()
    with psycopg.connect(url) as session:
        session.execute("CREATE TABLE t (i int, who numeric)")
        session.cursor().executemany("INSERT INTO t VALUES (%s, %s)", list(enumerate(texts)))
    with open_table(f"{url}#t") as table:
        assert not _differing(
            cells, _names_in_memory(pd.Series(cells, dtype=object), schema), _names(table, schema)
        )  # fmt: skip


def test_a_decimal_with_a_fraction_that_float64_does_not_hold_names_nobody(put: Any) -> None:
    texts = ["7.0000000000000000001", "-9007199254740992.5", "9007199254740993.0000000000000000001", "0.5"]
    cells = [decimal.Decimal(text).quantize(decimal.Decimal("1e-19"), context=decimal.Context(60)) for text in texts]
    frame = pd.DataFrame({"i": range(len(cells)), "who": pd.Series(cells, dtype=object)})
    assert _names(put(frame).stored, _schema()) == [None] * len(cells)


def test_a_whole_number_of_other_sizes_names_whom_it_names_in_memory(tmp_path: Path) -> None:
    schema = _schema()
    for kind, cells in {"UBIGINT": [2**64 - 1, 2**63, 7], "HUGEINT": [2**126, -(2**100), 2**53 + 1, 7],
                        "UTINYINT": [255, 0]}.items():  # fmt: skip
        with duckdb.connect(str(tmp_path / f"{kind}.ddb")) as made:
            made.execute(f"CREATE TABLE t (i INT, who {kind})")
            made.executemany("INSERT INTO t VALUES (?, ?)", list(enumerate(cells)))
        with open_table(f"duckdb://{tmp_path / kind}.ddb#t") as table:
            here = _names_in_memory(pd.Series(cells, dtype=object), schema)
            assert not _differing(cells, here, _names(table, schema)), kind


@pytest.mark.parametrize(
    "cells",
    [
        [str(2**53 + i) for i in range(100)],
        [str(10**18 + i) for i in range(100)],
        [f"{i}.0" for i in range(100)],
        [decimal.Decimal(2**53 + i) for i in range(100)],
    ],
    ids=["digits", "more digits", "written by pandas", "decimals"],
)
def test_no_entity_is_lost_or_taken_for_another(put: Any, cells: list[Any]) -> None:
    schema = _schema(x={"kind": "categorical", "categories": [0, 1]})
    frame = pd.DataFrame({"who": pd.Series(cells * 2, dtype=object), "x": np.repeat([0, 1], 100)})
    stored = put(frame).stored
    assert stored.training(schema).rows_per_entity().tolist() == [100]
    here = split_table(frame, schema, holdout_share=0.4, seed=3, private=True)
    for side, rows in zip(stored.split(schema, holdout_share=0.4, seed=3), (here.train, here.holdout), strict=True):
        assert content_sums(side, schema) == sums_in_memory(rows, schema)


def test_rows_of_one_entity_are_chosen_by_what_is_written_in_them(put: Any) -> None:
    schema = _schema(x={"kind": "categorical", "categories": [1, 2]})
    frame = pd.DataFrame({"who": np.tile(np.arange(100), 2), "x": np.repeat(["1.0", "2.0"], 100)})
    kept = put(frame).stored.training(schema)
    firsts, seconds = (kept.category_counts("x").get(value, 0) for value in (1, 2))
    # Not the first row of all, nor the last: 100 fair draws.
    assert firsts + seconds == 100
    assert 20 < firsts < 80


@pytest.mark.parametrize(
    "cells",
    [
        ["1234567890123456789"] * 20,
        [str(10**18 + i) for i in range(20)],
        ["12", "12.0", *map(str, range(20, 38))],
        [decimal.Decimal(2**53 + i) for i in range(20)],
        [decimal.Decimal(2**53 + i // 2) for i in range(20)],
        ["9223372036854775807", *map(str, range(19))],
        ["9007199254740993", *map(str, range(19))],
    ],
    ids=["copies", "digits", "one in two spellings", "decimals", "decimals twice", "the greatest", "beyond the bounds"],
)
def test_a_name_repeats_itself_where_it_does_in_memory(put: Any, cells: list[Any]) -> None:
    bounds = [0, 2**53] if "9007199254740993" in cells else INT64
    schema = build_schema({"status": "declared", "columns": {"who": {"kind": "identifier", "bounds": bounds}}})
    frame = pd.DataFrame({"who": pd.Series(cells, dtype=object)})
    here = [str(violation) for violation in violations(frame, schema)]
    assert [str(violation) for violation in violations_of(put(frame).stored, schema)] == here


def test_a_number_is_not_missing_for_being_written_like_a_missing_text(put: Any) -> None:
    columns: dict[str, Any] = {"bounds": {"bounds": INT64}, "template": {"template": "##"}}
    frame = pd.DataFrame({"i": range(3), "who": [-9, 7, 8]})
    stored = put(frame).stored
    for format_ in columns.values():
        schema = _schema(who={"kind": "identifier", **format_})
        schema = schema.model_copy(update={"missing_values": ("-9",)})
        assert _names(stored, schema) == _names_in_memory(frame["who"], schema) == ["-9", "7", "8"]


def test_categories_of_many_digits_are_told_apart(put: Any) -> None:
    known = [2**53, 2**53 + 1, 2**53 + 2, INT64[1]]
    columns = {
        "x": {"kind": "categorical", "categories": known},
        "y": {"kind": "categorical", "measure": True, "whole_numbers": True},
    }
    schema = build_schema({"status": "declared", "n_units": 9, "columns": columns})
    for cells in ([*map(str, known)], [decimal.Decimal(value) for value in known]):
        frame = pd.DataFrame(dict.fromkeys("xy", pd.Series(cells, dtype=object)))
        kept = put(frame).stored.training(schema)
        assert kept.category_counts("y") == dict.fromkeys(known, 1)
        members = kept.reader.members(kept.rows["x"], "x", schema.columns["x"])
        found = kept.place.fetch(kept.rows.select(member=members).order_by("member")).column(0).to_pylist()
        assert found == [0, 1, 2, 3]


def test_a_day_names_nobody(tmp_path: Path) -> None:
    frame = pd.DataFrame({"who": [dt.datetime(2020, 1, 1)] * 3})
    frame.to_parquet(tmp_path / "rows.parquet")
    with open_table(tmp_path / "rows.parquet") as stored, pytest.raises(TableError, match="convert it there"):
        stored.training(_schema())


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


USER, SECRET, PARAMETER = "annaquagga", "zebrafish77", "okapi99"
WHO = f"{USER}:{SECRET}"
LOGGERS = ("", "ibis", "duckdb", "psycopg", "sqlglot", "py4j", "pyspark", "asyncio")

Refused = Callable[[str], str]


@pytest.fixture
def refused(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> Refused:
    """Opens an address that cannot be opened; gives all that was said anywhere."""

    def told(address: str) -> str:
        for name in LOGGERS:
            caplog.set_level(logging.DEBUG, logger=name)
        with pytest.raises((TableError, MissingExtra)) as raised, open_table(address) as stored:
            len(stored)
        assert "\n" not in str(raised.value)
        shown = "".join(traceback.format_exception(raised.value))
        return "\n".join([shown, *_chained(raised.value), caplog.text, *capfd.readouterr()])

    return told


@pytest.mark.parametrize(
    "address",
    [
        f"postgresql://{WHO}@127.0.0.1:1/d?application_name={PARAMETER}#t",
        f"postgresql://{WHO}@nowhere.invalid/d?sslkey={PARAMETER}#t",
        f"postgresql://{WHO}@127.0.0.1:1/d?{PARAMETER}={PARAMETER}#t",
        f"postgresql://{WHO}@127.0.0.1:1/d?sslmode={PARAMETER}#t",
        f"postgresql://{WHO}@127.0.0.1:port/d?password={PARAMETER}#t",
        f"postgresql://{WHO}@127.0.0.1:1/d?password={PARAMETER}",
        f"postgresql:///d?host=127.0.0.1&port=1&user={USER}&password={SECRET}#t",
        f"postgresql://{USER}:12#{SECRET}@127.0.0.1:1/d#t",
        f"postgresql://{USER}:12/{SECRET}@127.0.0.1:1/d#t",
        f"postgresql://{USER}:{SECRET}?fish@127.0.0.1:1/d#t",
        f"postgresql://{USER}:12[{SECRET}@127.0.0.1:1/d#t",
        f"postgresql://{WHO}@127.0.0.1:{PARAMETER}/d#t",
        f"mysql://{WHO}@127.0.0.1:1/d?password={PARAMETER}#t",
        f"snowflake://{WHO}@account/d/s?warehouse={PARAMETER}#t",
        f"nonsense://{WHO}@127.0.0.1/d?password={PARAMETER}#t",
        f"sqlite://{WHO}@/nowhere.db?key={PARAMETER}#t",
        f"duckdb://{WHO}@/nowhere.db?key={PARAMETER}#t",
        f"duckdb:///nowhere.db?motherduck_token={PARAMETER}#t",
        f"duckdb:///nowhere.db;motherduck_token={PARAMETER}#t",
        f"duckdb://{SECRET}#t",
        f"postgresql://{WHO}@127.0.0.1:1/d#t?password={PARAMETER}",
        f"postgresql://{WHO}@127.0.0.1:1/d#t&password={PARAMETER}",
        f"postgresql://{WHO}@127.0.0.1:1/d#t%3Fpassword%3D{PARAMETER}",
        f"postgresql://{WHO}@127.0.0.1:1/d;password={PARAMETER}#t",
        f"postgresql://{WHO}@127.0.0.1:1/d&password={PARAMETER}#t",
        f"mssql://db;password={PARAMETER}/c#t",
        f"mssql://127.0.0.1:1;password={PARAMETER}/c#t",
        f"nonsense://db/c#password={PARAMETER}",
    ],
)
def test_what_cannot_be_opened_tells_no_secret(refused: Refused, address: str) -> None:
    said = refused(address)
    assert [secret for secret in (USER, SECRET, PARAMETER) if secret in _without_source(said)] == []


@given(st.text("ab1@:/?#&=;[]%. \\", max_size=6), st.sampled_from(["postgresql", "mysql", "duckdb", "nonsense"]))
@example("@", "postgresql")
def test_no_part_of_a_password_is_shown_whatever_is_in_it(odd: str, scheme: str) -> None:
    address = f"{scheme}://ann:zebra{odd}fish@db.example/clinic#visits"
    for given_address in (address, address.replace("://", ":/"), address.partition("://")[2]):
        try:
            said = parsed(given_address).shown
        except TableError as error:
            said = str(error)
        assert "zebra" not in said, (said, odd)
        assert "fish" not in said, (said, odd)


@pytest.mark.parametrize(
    ("user", "password", "database", "table"),
    [
        (USER, SECRET, "postgres", "t"),
        ("keeper", SECRET, "postgres", "t"),
        ("keeper", PASSWORD, "nowhere", "t"),
        ("keeper", PASSWORD, "postgres", "nowhere"),
        ("keeper", PASSWORD, "postgres", "pg_authid.nowhere"),
        ("reader", PASSWORD, "postgres", "hidden"),
    ],
)
def test_a_server_that_refuses_tells_no_secret(
    server: Server, refused: Refused, user: str, password: str, database: str, table: str
) -> None:
    import psycopg

    with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
        for query in (
            "DROP TABLE IF EXISTS hidden", "DROP ROLE IF EXISTS reader", "CREATE TABLE hidden (x text)",
            f"CREATE ROLE reader LOGIN PASSWORD '{PASSWORD}'", f"INSERT INTO hidden VALUES ('{PARAMETER}')",
        ):  # fmt: skip
            connection.execute(query)  # type: ignore[call-overload]
    url = f"postgresql://{user}:{password}@127.0.0.1:{server.port}/{database}?application_name={PARAMETER}#{table}"
    said = _without_source(refused(url))
    assert [secret for secret in (user, password, PARAMETER) if secret in said] == []


def test_a_cell_that_cannot_be_read_is_not_told(server: Server, refused: Refused) -> None:
    """The server's message quotes the cell."""
    import psycopg

    with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
        connection.execute("DROP VIEW IF EXISTS broken; DROP TABLE IF EXISTS cells")
        connection.execute(f"CREATE TABLE cells AS SELECT '{SECRET}' AS x")  # type: ignore[call-overload]
        connection.execute("CREATE VIEW broken AS SELECT x::integer AS x FROM cells WHERE x::integer > 0")
    assert SECRET not in _without_source(refused(f"{server.url('postgres')}#broken"))


@pytest.mark.parametrize(
    "content", [f"x,y\n1,{SECRET}\xff\n".encode("latin-1"), f'x,y\n1,"{SECRET}\n'.encode(), f"{SECRET}".encode()]
)
@pytest.mark.parametrize("name", ["rows.parquet", "rows.csv.gz"])
def test_a_damaged_file_tells_no_cell(tmp_path: Path, refused: Refused, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    assert SECRET not in _without_source(refused(str(tmp_path / name)))


def _chained(error: BaseException | None) -> list[str]:
    """The errors that led to an error, also those that a traceback does not show."""
    if error is None:
        return []
    return [repr(error), *_chained(error.__cause__), *_chained(error.__context__)]


def _without_source(said: str) -> str:
    """Without the lines of this file, which a traceback shows and which name the secrets."""
    return "\n".join(line for line in said.splitlines() if "open_table(address)" not in line)


LETTERS = tuple("abcdef")
CLIQUES = st.lists(
    st.lists(st.sampled_from(LETTERS), min_size=1, max_size=4, unique=True).map(tuple), min_size=1, max_size=20
)
SIZES = st.fixed_dictionaries({name: st.integers(1, 40) for name in LETTERS})


@given(cliques=CLIQUES, sizes=SIZES, n_cells=st.integers(0, 5_000))
def test_every_clique_is_held_once_by_a_set_that_is_not_too_wide(cliques: Any, sizes: Any, n_cells: int) -> None:
    found = covering(cliques, sizes, n_cells)
    held = [clique for some in found.values() for clique in some]
    assert sorted(map(sorted, held)) == sorted(map(sorted, set(map(frozenset, cliques))))
    for block, some in found.items():
        assert all(clique <= set(block) for clique in some)
        assert math.prod(sizes[name] for name in block) <= n_cells or frozenset(block) in some


def test_few_sets_hold_all_pairs() -> None:
    names = [f"x{at}" for at in range(15)]
    pairs = list(itertools.combinations(names, 2))
    assert len(covering(pairs, dict.fromkeys(names, 10), 10_000)) <= 35
    assert len(covering(pairs, dict.fromkeys(names, 10), 0)) == 105


@pytest.mark.parametrize(("sets", "cells_a_set", "cells"), [(32, 16_384, 2_000_000), (1, 0, 1), (3, 100, 500)])
def test_counts_are_the_same_however_they_are_put_together(
    put: Any, monkeypatch: pytest.MonkeyPatch, sets: int, cells_a_set: int, cells: int
) -> None:
    rng = np.random.default_rng(0)
    sizes = {"a": 3, "b": 5, "c": 2, "d": 9}
    frame = pd.DataFrame({name: rng.integers(0, size, 500) for name, size in sizes.items()})
    columns = {name: {"kind": "categorical", "categories": list(range(size))} for name, size in sizes.items()}
    schema = build_schema({"status": "declared", "n_units": 500, "columns": columns})
    monkeypatch.setattr(counts, "SETS_A_SCAN", sets)
    monkeypatch.setattr(counts, "CELLS_A_SET", cells_a_set)
    monkeypatch.setattr(counts, "CELLS_AT_ONCE", cells)
    cliques = [("b", "a"), ("d",), ("a", "b"), ("d", "b", "a"), ("c", "a"), *itertools.permutations("abcd", 2)]
    stored = put(frame).stored.training(schema).coded(Discretizer.by_schema(schema))
    for clique, found in zip(cliques, stored.each(cliques), strict=True):
        expected = np.zeros([sizes[name] + 2 for name in clique], dtype=np.int64)
        np.add.at(expected, tuple(frame[name].to_numpy() for name in clique), 1)
        np.testing.assert_array_equal(found, expected)
