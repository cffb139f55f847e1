# ruff: noqa: E501
"""No cell ends a fit where a table is stored: whatever a row holds is read as in memory, or is missing."""

import datetime as dt
import decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

from synth.domain import Discretizer
from synth.errors import TableError
from synth.generators.fitting.training_data import HeldTable
from synth.generators.marginal_generator import Independent
from synth.schema import Schema, build_schema
from synth.stored import StoredTable, open_table
from synth.stored.decode import code_of
from synth.table import conform
from tests.synth.postgres import Server

NUMBERS = [
    "0", "-0", "7", " 7", "7 ", "7\n", "\t7", "+7", "++7", "1.", ".5", ".", "-.5", "1e3", "1E3", "1e", "e3", "1e+3", "1e-3", "1_000",
    "1,000", "0x10", "1e400", "-1e400", "1e-400", "0e999", "1e308", "-1e308", "1.7976931348623159e308", "1e0005", "1e-310",
    "5e-324", "2e-324", "1e999999999", "1e-999999999", "0e999999999", "-0.0e-123456", "9" * 40, "9" * 310, "9" * 310 + "e-305",
    "0." + "0" * 390 + "1e400", "0." + "9" * 300, "1" * 199 + "e99", "9" * 5_000, "inf", "-Infinity", "nan", "NaN", "NULL", "None", "7\x0b",
    "9223372036854775807", "9223372036854775808", "-9223372036854775809", "4503599627370496.5", "0.5", "1.5", "2.5", "1.005", "true", "yes",
    "False", "True", "t", "1", "1.0", "2", "٧", "７", "𝟕", "", "?", "a", "A", "a ", "Ä", "\u00c4", "A\u0308", "'; drop table t; --", "\\", "%s",
    "\u202e7", "\ufeff7", "x" * 100_000,
]  # fmt: skip
TIMES = [
    "2021-02-28", "2021-02-29", "2020-02-29", "1900-02-29", "2000-02-29", "2021-02-30", "2021-04-31", "2021-13-01", "2021-00-10",
    "2021-01-00", "0000-01-01", "0001-01-01", "9999-12-31", "10000-01-01", "-0001-01-01", "2021-1-1", "2021-01-01 ", " 2021-01-01",
    "2021-01-01\n", "20210101", "infinity", "-infinity", "epoch", "now", "today", "2021-01-01 BC", "2021-W01-1", "2021-01-01T",
    "2021-01-01T00", "2021-01-01T00:00", "2021-01-01 23:59", "2021-01-01T23:59:59", "2021-01-01T23:59:59.9", "2021-01-01T23:59:59,123456",
    "2021-01-01T23:59:59.123456000", "2021-01-01T23:59:59.1234560000", "2021-01-01T23:59:59.1234567", "2021-01-01T24:00", "2021-01-01T23:60",
    "2021-01-01T23:59:60", "2021-01-01T10:00Z", "2021-01-01T10:00z", "2021-01-01T10:00:00Z", "2021-01-01T10:00+02:00", "2021-01-01T10:00-0230",
    "2021-01-01T10:00:00.5+02:00:30", "2021-01-01T10:00:00+020030", "2021-01-01T10:00+0200:30", "2021-01-01T10:00+24:00", "2021-01-01T10:00+23:59:59",
    "2021-01-01T10:00+01:75", "2021-01-01T10:00+02", "2021-02-30T10:00Z", "0001-01-01T00:00+05:00", "9999-12-31T23:59-05:00",
    "2021-01-01T10:00 Z", "2021-01-01  10:00", "2021-01-01t10:00", "1969-12-31T23:59:59.999999", "1.2.2021", "01.02.2021", "31.12.1969",
    "29.02.2021", "29.02.2020", "1.2.21", "01/02/21 5:07", "01/02/68 5:07", "01/02/69 05:7", "01/02/21  5:07", "32/01/21 5:07", "30/02/21 5:07",
    "01/02/21 24:07", "01/02/21 5:07 ", "2021x01x02T030405.5", "2021X01X02t030405.123456", "2021x01x02T30405.5", "2021x01x02T030405.1234567",
]  # fmt: skip
TEXTS = [*NUMBERS, *TIMES]
KINDS: dict[str, Any] = {
    "whole": {"kind": "integer", "bounds": [-100, 1000]},
    "wide": {"kind": "integer", "bounds": [-(10**18), 10**18]},
    "real": {"kind": "real", "bounds": [-1e300, 1e300]},
    "near": {"kind": "real", "bounds": [-10.0, 10.0]},
    "fine": {"kind": "real", "bounds": [-1e6, 1e6], "decimals": 9},
    "cents": {"kind": "weight", "bounds": [-1e10, 1e10], "decimals": 2},
    "yes": {"kind": "boolean"},
    "no": {"kind": "boolean", "tokens": ["2", "7"]},
    "level": {"kind": "categorical", "categories": [0, 1, 2, 7]},
    "word": {"kind": "categorical", "categories": ["a", "Ä", "7", "True", "1", "1e+20", "0.5", "x", "99999999999999999999"]},
    "day": {"kind": "date", "bounds": ["0001-01-01", "9999-12-31"]},
    "seen": {"kind": "datetime", "bounds": ["0001-01-01T00:00:00", "9999-12-31T23:59:59"], "precision": "us"},
    "hour": {"kind": "datetime", "bounds": ["1969-12-31T00:00:00", "2021-12-31T00:00:00"], "precision": "h"},
    "mixed": {
        "kind": "datetime", "bounds": ["0001-01-01T00:00:00", "9999-12-31T23:59:59"], "precision": "us", "timezone": "mixed",
    },
    "german": {"kind": "date", "bounds": ["1900-01-01", "2100-12-31"], "format": "%d.%m.%Y"},
    "slashes": {"kind": "datetime", "bounds": ["1900-01-01T00:00:00", "2100-12-31T00:00:00"], "format": "%d/%m/%y %H:%M"},
    "packed": {
        "kind": "datetime", "bounds": ["1900-01-01T00:00:00", "2100-12-31T00:00:00"], "format": "%Yx%mx%dT%H%M%S.%f",
        "precision": "us",
    },
}  # fmt: skip
NUMERIC = ("whole", "wide", "real", "near", "fine", "cents", "yes", "level", "word")


def _schema(names: Any) -> Schema:
    columns = {name: {**KINDS[name], "missing": True} for name in names}
    return build_schema({"status": "declared", "n_units": 200, "missing_values": ["?"], "columns": columns})


def _held(frame: pd.DataFrame, schema: Schema) -> dict[str, np.ndarray]:
    """Places, or numbers of categories, of the cells in memory."""
    read = conform(frame, schema, outside="clamp")
    found = {}
    for name in schema.kept:
        column: Any = schema.columns[name]
        if column.is_categorical:
            known = pd.Index(column.levels).get_indexer(pd.Index(read[name].array))
            known = np.where(known < 0, len(column.levels), known)
            found[name] = np.where(read[name].isna().to_numpy(), len(column.levels) + 1, known)
        else:
            found[name] = column.positions(read[name])
    return found


def _stored(table: StoredTable, schema: Schema) -> dict[str, np.ndarray]:
    """The same of the cells where they are stored, by the column that numbers them."""
    reader, found = table.training(schema).reader, {}
    for name in schema.kept:
        column: Any = schema.columns[name]
        read = reader.members if column.is_categorical else reader.places
        asked = table.rows.select(i="i", x=read(table.rows[name], name, column)).order_by("i")
        found[name] = table.place.fetch(asked).column(1).to_numpy(zero_copy_only=False).astype(np.float64)
    return found


def _agree(frame: pd.DataFrame, table: StoredTable, names: Any, cells: Any = None) -> None:
    schema = _schema(names)
    here, there = _held(frame, schema), _stored(table, schema)
    for name in names:
        shown = list(frame[name]) if cells is None else cells
        wrong = [
            (cell, a, b)
            for cell, a, b in zip(shown, here[name], there[name], strict=True)
            if not (a == b or (np.isnan(a) and np.isnan(b)))
        ]
        assert not wrong, (name, wrong[:5])
    model = Independent(epsilon=1.0).fit(table, schema)
    assert model.schema.learned == tuple(names)


def _texts(texts: list[str], names: Any) -> pd.DataFrame:
    return pd.DataFrame({"i": range(len(texts)), **dict.fromkeys(names, texts)}).astype(dict.fromkeys(names, object))


FAR = ("1e400", "-1e400", "1e-400", "0e999", "1e308", "-1e308", "1.7976931348623159e308", "1e-310", "5e-324", "2e-324",
       "1e999999999", "1e-999999999", "0e999999999", "-0.0e-123456", "9" * 310, "9" * 310 + "e-305", "0." + "9" * 300,
       "0." + "0" * 390 + "1e400")  # fmt: skip
"""What PostgreSQL refuses to read as float64, or might: missing there."""


def test_every_text_is_read_as_in_memory(put: Any, request: pytest.FixtureRequest) -> None:
    texts = [text for text in TEXTS if "postgres" not in request.node.name or text not in FAR]
    frame = _texts(texts, KINDS)
    _agree(frame, put(frame).stored, KINDS)


def test_numbers_that_postgresql_does_not_hold_are_missing(server: Server) -> None:
    names = ("whole", "real", "level", "cents")
    frame = _texts([*FAR, "7"], names)
    schema = _schema(names)
    with _on_a_server(server, frame, dict.fromkeys(names, "text"), {name: [*FAR, "7"] for name in names}) as table:
        for name, found in _stored(table, schema).items():
            absent = found == 5 if name == "level" else np.isnan(found)
            assert absent.tolist() == [True] * len(FAR) + [False], name


def test_a_text_with_a_nul_is_missing(put: Any, request: pytest.FixtureRequest) -> None:
    if "postgres" in request.node.name:
        pytest.skip("no text of PostgreSQL can hold one")
    frame = _texts(["7", "7\0", "\0", "a\0b", "2021-01-01\0", "a"], KINDS)
    both = put(frame)
    _agree(frame, both.stored, KINDS)


REALS = [0.0, -0.0, 1.0, 2.5, 1.005, np.nan, np.inf, -np.inf, 1e308, -1.7976931348623157e308, 5e-324, 2.0**63, -(2.0**63), 2.0**52 + 0.5,
         1e20, 0.5, 1e17, 123456789.125]  # fmt: skip
WHOLE = [0, 1, 2, 7, -1, 2**63 - 1, -(2**63), 2**53 + 1, 10**17]


@pytest.mark.parametrize("cells", [REALS, WHOLE, [True, False, None], [1, 7, None]], ids=str)
def test_every_number_is_read_as_in_memory(put: Any, cells: list[Any]) -> None:
    dtype: Any = "float64" if isinstance(cells[0], float) else "boolean" if cells[0] is True else "Int64"
    frame = pd.DataFrame({"i": range(len(cells)), **{name: pd.array(cells, dtype=dtype) for name in NUMERIC}})
    _agree(frame, put(frame).stored, NUMERIC)


def test_a_whole_number_of_few_bits_or_without_a_sign_is_read_as_in_memory(tmp_path: Path) -> None:
    for dtype, cells in {"int16": [0, 7, -(2**15)], "uint64": [7, 2**63 - 1, 2**63, 2**64 - 1]}.items():
        frame = pd.DataFrame({"i": range(len(cells)), **{name: pd.array(cells, dtype=dtype) for name in NUMERIC}})  # type: ignore[call-overload]
        frame.to_parquet(tmp_path / f"{dtype}.parquet")
        with open_table(tmp_path / f"{dtype}.parquet") as table:
            _agree(frame, table, NUMERIC)


DECIMALS = [
    "0", "1", "7.0", "0.5", "1.005", "NaN", "Infinity", "-Infinity", "1e400", "-1e400", "1e-390", "1e-401", "1e-320", "2e-324", "1e308",
    "1.7976931348623157e308", "1.7976931348623159e308", "9" * 400, "123456789012345678.123456789012345678", "99999999999999999999",
    "0.1" + "0" * 30 + "1",
]  # fmt: skip


COUNTED = tuple(name for name in NUMERIC if name != "word")  # of more digits than float64 has, decimals are no names


def test_every_decimal_of_postgresql_is_read_as_in_memory(server: Server) -> None:
    cells = [decimal.Decimal(text) for text in DECIMALS]
    frame = pd.DataFrame({"i": range(len(cells)), **{name: pd.Series(cells, dtype=object) for name in COUNTED}})
    with _on_a_server(server, frame, dict.fromkeys(COUNTED, "numeric"), dict.fromkeys(COUNTED, DECIMALS)) as table:
        _agree(frame, table, COUNTED)


def test_every_decimal_of_duckdb_is_read_as_in_memory(tmp_path: Path) -> None:
    sizes = {"DECIMAL(38,18)": ["1.000000000000000001", "99999999999999999999.999999999999999999", "0.5", "7", "-0.3"],
             "HUGEINT": [str(10**23 - 10**38), str(10**38 - 10**23), "7", "0"], "UBIGINT": [str(2**64 - 1), "7", "0"],
             "DECIMAL(4,1)": ["999.9", "0.5", "7.0"]}  # fmt: skip
    for kind, texts in sizes.items():
        cells = [decimal.Decimal(text) for text in texts]
        frame = pd.DataFrame({"i": range(len(cells)), **{name: pd.Series(cells, dtype=object) for name in COUNTED}})
        with _in_a_file(tmp_path / f"{kind}.ddb", dict.fromkeys(COUNTED, kind), dict.fromkeys(COUNTED, texts)) as t:
            _agree(frame, t, COUNTED)


DAYS = [
    "infinity",
    "-infinity",
    "0001-01-01",
    "9999-12-31",
    "4713-01-01 BC",
    "0001-12-31 BC",
    "10000-01-01",
    "1969-12-31",
]
MOMENTS = [
    *DAYS, "0001-01-01 00:00:00", "9999-12-31 23:59:59.999999", "1969-12-31 23:59:59.999999", "294000-01-01", "2021-03-28 02:30:00",
]  # fmt: skip


def _moment(text: str, zone: Any = None) -> dt.datetime | None:
    """What a time stands for in memory: nothing, if it is not of the calendar."""
    try:
        return dt.datetime.fromisoformat(text).replace(tzinfo=zone)
    except ValueError:
        return None


@pytest.mark.parametrize(("kind", "texts"), [("date", DAYS), ("timestamp", MOMENTS)])
def test_every_time_is_read_as_in_memory(server: Server, tmp_path: Path, kind: str, texts: list[str]) -> None:
    far = {"date": ["5874897-12-31"], "timestamp": ["294276-12-31 23:59:59.999999"]}[kind]
    names = ("day", "seen", "hour")
    cells = [_moment(text) for text in (*texts, *far)]
    frame = pd.DataFrame({"i": range(len(cells)), **{name: pd.Series(cells, dtype=object) for name in names}})
    given = {name: [*texts, *far] for name in names}
    with _on_a_server(server, frame, dict.fromkeys(names, kind), given) as table:
        _agree(frame, table, names, given["day"])
    latest = {"date": ["5881580-07-10"], "timestamp": ["294247-01-10 04:00:54.775806"]}[kind]
    given = {name: [*[text.replace(" BC", " (BC)") for text in texts], *latest] for name in names}
    with _in_a_file(tmp_path / "rows.ddb", dict.fromkeys(names, kind), given) as table:
        _agree(frame, table, names, given["day"])


def test_every_time_of_a_zone_is_read_as_in_memory(server: Server, tmp_path: Path) -> None:
    clocks = [
        text if ":" in text else text.replace(" BC", "") + " 00:00:00"
        for text in MOMENTS
        if text[-2:] not in ("BC", "ty")
    ]
    texts = [f"{text}+00" for text in clocks]
    texts += ["infinity", "-infinity"]
    moments = [_moment(text.replace("+00", ""), dt.UTC) for text in texts]
    frame = pd.DataFrame({"i": range(len(texts)), "mixed": pd.Series(moments, dtype=object)})
    with _on_a_server(server, frame, {"mixed": "timestamptz"}, {"mixed": texts}) as table:
        _agree(frame, table, ["mixed"])
    given = {"mixed": [text.replace(" BC", " (BC)").replace("+00 (BC)", " (BC)+00") for text in texts]}
    with _in_a_file(tmp_path / "rows.ddb", {"mixed": "timestamptz"}, given) as table:
        _agree(frame, table, ["mixed"])


def test_times_of_other_steps_are_read_as_in_memory(tmp_path: Path) -> None:
    for kind, texts in {
        "TIMESTAMP_NS": ["1969-12-31 23:59:59.999999999", "2021-01-01 00:00:00.000000001", "infinity", "1700-01-01"],
        "TIMESTAMP_MS": ["1969-12-31 23:59:59.999", "infinity", "0001-01-01", "290000-01-01"],
        "TIMESTAMP_S": ["1969-12-31 23:59:59", "infinity", "0001-01-01", "290000-01-01"],
    }.items():
        names = ("day", "seen", "hour")
        stamps = [
            None if "inf" in text or text.startswith("29") else np.datetime64(text.replace(" ", "T")) for text in texts
        ]
        frame = pd.DataFrame({"i": range(len(texts)), **{name: pd.Series(stamps, dtype=object) for name in names}})
        with _in_a_file(tmp_path / f"{kind}.ddb", dict.fromkeys(names, kind), dict.fromkeys(names, texts)) as table:
            _agree(frame, table, names)


def test_other_types_as_categories_to_be_measured(put: Any) -> None:
    cells = {
        "n": pd.array([1, 2, None, 2] * 50, dtype="Int64"),
        "b": pd.array([True, False, None, True] * 50, dtype="boolean"),
    }
    columns = {name: {"kind": "categorical", "measure": True, "missing": True} for name in cells}
    schema = build_schema({"status": "declared", "n_units": 200, "columns": columns})
    both = put(pd.DataFrame(cells))
    found = Independent(epsilon=50.0).fit(both.stored, schema)
    assert [set(found.schema.columns[name].categories) for name in cells] == [{"1", "2"}, {"True", "False"}]  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", ["json", "jsonb"])
def test_a_type_that_cannot_be_read_is_named_as_such(server: Server, kind: str) -> None:
    for name in ("word", "level", "yes", "whole", "day"):
        with (
            _on_a_server(server, pd.DataFrame(), {name: kind}, {name: ['{"a": 1}', "7"]}) as table,
            pytest.raises(TableError, match=f"column='{name}'.*convert it there"),
        ):
            next(table.training(_schema([name])).cell_counts(Discretizer.by_schema(_schema([name])).attributes))


N_MANY = 40_000


@pytest.mark.parametrize("written", [str, int, float])
def test_a_category_of_many_is_the_one_of_memory(put: Any, written: type) -> None:
    known = [7 * place for place in range(N_MANY)]
    column = {"kind": "categorical", "categories": [*map(str, known)] if written is str else known, "missing": True}
    schema = build_schema({"status": "declared", "n_units": 200, "columns": {"x": column}})
    cells = [written(cell) for cell in (0, 7, 1, known[-1], known[-1], known[-2], -7, 7 * 2**15)]
    frame = pd.DataFrame({"x": pd.Series(cells, dtype=object if written is str else None)})
    held, stored = HeldTable(conform(frame, schema, outside="clamp"), schema), put(frame).stored.training(schema)
    codes = Discretizer.by_schema(schema)
    here, there = (next(rows.cell_counts(codes.attributes)) for rows in (held, stored))
    np.testing.assert_array_equal(here, there)
    np.testing.assert_array_equal(held.coded(codes).counts(["x"]), stored.coded(codes).counts(["x"]))


def test_a_query_has_as_many_parts_however_many_categories_there_are(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("x\na\n")
    n_parts = []
    for n in (10, 1_000):
        column = {"kind": "categorical", "categories": [f"c{place}" for place in range(n)]}
        schema = build_schema({"status": "declared", "n_units": 9, "columns": {"x": column}})
        (attribute,) = Discretizer.by_schema(schema).attributes
        with open_table(tmp_path / "rows.csv") as stored:
            kept = stored.training(schema)
            codes = code_of(kept.read(kept.rows["x"], attribute), attribute)
            query = kept.place.connection.compile(codes.as_table())
        n_parts.append((query.count("WHEN"), query.count("'")))
    assert n_parts[0] == n_parts[1]


def _on_a_server(server: Server, frame: pd.DataFrame, kinds: dict[str, str], given: dict[str, list[str]]) -> Any:
    import psycopg
    from psycopg import sql

    url = server.url(server.create())
    columns = sql.SQL(", ").join(
        sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(kind)) for name, kind in {"i": "int", **kinds}.items()
    )
    with psycopg.connect(url) as session:
        session.execute(sql.SQL("CREATE TABLE t ({})").format(columns))
        for i, row in enumerate(zip(*given.values(), strict=True)):
            session.execute(f"INSERT INTO t VALUES (%s{', %s' * len(row)})", (i, *row))
    return open_table(f"{url}#t")


def _in_a_file(path: Path, kinds: dict[str, str], given: dict[str, list[str]]) -> Any:
    with duckdb.connect(str(path)) as made:
        made.execute(f"CREATE TABLE t (i INT, {', '.join(f'{name} {kind}' for name, kind in kinds.items())})")
        for i, row in enumerate(zip(*given.values(), strict=True)):
            made.execute(f"INSERT INTO t VALUES (?{', ?' * len(row)})", (i, *row))
    return open_table(f"duckdb://{path}#t")


@pytest.mark.parametrize(
    "column",
    [
        {"kind": "date", "bounds": ["2020-01-01", "2020-12-31"], "format": "%d %B %Y"},
        {"kind": "datetime", "bounds": ["2020-01-01T00:00:00", "2020-12-31T00:00:00"], "timezone": "Europe/Paris"},
    ],
)
def test_texts_that_need_a_language_or_a_clock_of_a_zone_are_refused(tmp_path: Path, column: dict[str, Any]) -> None:
    (tmp_path / "rows.csv").write_text("x\n2020-01-01\n")
    schema = build_schema({"status": "declared", "n_units": 9, "columns": {"x": column}})
    with open_table(tmp_path / "rows.csv") as stored, pytest.raises(TableError, match="convert it there"):
        Independent(epsilon=1.0).fit(stored, schema)
