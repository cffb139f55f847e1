"""Names that are whole numbers: the same ones as in memory, to the last digit, however they are written."""

import datetime as dt
import decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import psycopg
import pytest

from synth.errors import TableError
from synth.row_hash import content_sums as sums_in_memory
from synth.schema import Schema, build_schema
from synth.split import split_table
from synth.stored import StoredTable, content_sums, open_table
from synth.stored.violations import violations_of
from synth.table import conform, violations
from tests.synth.postgres import Server

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
