"""What does not fit a schema is refused with a sentence that tells no cell value; what fits comes in any dtype."""

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

from synth.errors import TableError
from synth.schema import Schema, build_schema
from synth.table import conform, faulty_rows, present, violations

AGE = {"kind": "integer", "bounds": [17, 90]}
CITY = {"kind": "categorical", "categories": ["Ulm", "Bonn"]}
CODE = {"kind": "categorical", "categories": [1, 2, 30]}
WAGE = {"kind": "real", "bounds": [0, 100], "decimals": 2}
DAY = {"kind": "date", "bounds": [dt.date(2000, 1, 1), dt.date(2020, 12, 31)]}
TIME = {"kind": "datetime", "bounds": [dt.datetime(2000, 1, 1), dt.datetime(2020, 12, 31)]}
ROW = {"kind": "identifier", "bounds": [0, 10**9]}
FLAG = {"kind": "boolean"}


def _schema(column: dict[str, Any], **table: Any) -> Schema:
    return build_schema({"status": "declared", "columns": {"x": column}, **table})


def _frame(*values: Any, dtype: Any = object) -> pd.DataFrame:
    return pd.DataFrame({"x": pd.Series(values, dtype=dtype)})


@pytest.mark.parametrize(
    ("column", "values", "rule"),
    [
        (AGE, ["41", "91"], "outside bounds=[17, 90]"),
        (AGE, [41, 16], "outside bounds=[17, 90]"),
        (AGE, [41, 2**70], "outside bounds=[17, 90]"),
        (AGE, [41, 1e30], "outside bounds=[17, 90]"),
        (AGE, [41, "forty-one"], "not numbers"),
        (AGE, [41, "41 "], "not numbers"),
        (AGE, [41, "٤١"], "not numbers"),
        (AGE, [41, [41]], "not numbers"),
        (AGE, [41, True, "x"], "not numbers"),
        (AGE, [41, 41.5], "with a fraction"),
        (AGE, ["41", "41.5"], "with a fraction"),
        (AGE, [41, float("inf")], "infinite"),
        (AGE, ["41", "-inf"], "infinite"),
        (AGE, [41, None], "missing values, which missing=false"),
        (AGE, ["41", ""], "missing values, which missing=false"),
        (AGE, [None, None], "missing values, which missing=false"),
        (AGE | {"missing": True}, [None, None], "missing values only; set drop = true, or declare it categorical"),
        (WAGE, [1.5, 101.0], "outside bounds=[0.0, 100.0]"),
        (WAGE, [1.5, float("-inf")], "infinite"),
        (WAGE, [1.5, 1.555], "more digits than decimals=2"),
        (WAGE, ["1.5", "1,5"], "not numbers"),
        (CITY, ["Ulm", "Köln"], "outside its categories"),
        (CITY, ["Ulm", 3], "not text"),
        (CODE, [1, 3], "outside its categories"),
        (CODE, ["1", "x"], "not numbers"),
        (FLAG, ["True", "yes"], "neither of tokens=['False', 'True']"),
        (FLAG, [0, 2], "neither of tokens"),
        (DAY, ["2001-01-01", "2021-01-01"], "outside bounds=[2000-01-01, 2020-12-31]"),
        (DAY, ["2001-01-01", "01.02.2001"], "no date of format='%Y-%m-%d'"),
        (DAY, ["2001-01-01", "2001-02-30"], "no date of format"),
        (DAY, [dt.datetime(2001, 1, 1, 12)], "times of day"),
        (DAY, [dt.date(2001, 1, 1), 7], "no date of format"),
        (TIME, ["2001-01-01T10:00:00", "2001"], "no datetime of format='ISO 8601'"),
        (TIME, ["2001-01-01T10:00:00Z"], "with a zone where none is declared"),
        (TIME, ["2001-01-01T10:00:00.5"], "finer than precision='s'"),
        (TIME | {"timezone": "mixed"}, ["2001-01-01T10:00:00"], "without an offset"),
        (ROW, [1, 2, 1], "repeats itself"),
        (ROW, [1, 10**10], "outside bounds"),
    ],
)
def test_a_cell_that_does_not_fit_is_refused(column: dict[str, Any], values: list, rule: str) -> None:
    frame, schema = _frame(*values), _schema(column)
    with pytest.raises(TableError) as caught:
        conform(frame, schema)
    message = str(caught.value)
    assert message.startswith("column='x' ")
    assert rule in message
    assert "; " in message
    assert message in [str(violation) for violation in violations(frame, schema)]
    told = message.replace("[17, 90]", "").replace("decimals=2", "").replace("2000-01-01", "").replace("%Y-%m-%d", "")
    assert not any(str(value) in told for value in values if len(str(value)) > 3 and value not in (None, True, "True"))


@pytest.mark.parametrize(
    ("column", "values", "expected"),
    [
        (AGE, [16, 41, 2**70, float("inf"), "x", None, 41.6], [17, 41, 90, None, None, None, 42]),
        (WAGE, [-1, 1.555, float("inf"), "x", None], [0.0, 1.56, None, None, None]),
        (CITY, ["Ulm", "Köln", 3, None, ""], ["Ulm", "Köln", "3", None, None]),
        (CODE, ["1", 99, "x"], [1, 99, None]),
        (FLAG, [True, "False", "x", 2], [True, False, None, None]),
        (DAY, ["1999-01-01", "2021-01-01", "x"], [dt.datetime(2000, 1, 1), dt.datetime(2020, 12, 31), None]),
        (TIME, ["1999-01-01T00:00:00", "2001-01-01T00:00:01.5Z", "x"], [dt.datetime(2000, 1, 1), None, None]),
        (ROW, [5, 5, 10**10], [5, 5, 10**10]),
    ],
)
def test_clamping_never_refuses_a_value(column: dict[str, Any], values: list, expected: list) -> None:
    made = conform(_frame(*values).assign(extra=1), _schema(column), outside="clamp")
    assert made.columns.tolist() == ["x"]
    assert [None if pd.isna(v) else v for v in made["x"]] == expected


def test_clamping_takes_an_empty_table_and_never_a_missing_column() -> None:
    assert len(conform(_frame(), _schema(AGE), outside="clamp")) == 0
    with pytest.raises(TableError, match="not in the table"):
        conform(pd.DataFrame({"y": [1]}), _schema(AGE), outside="clamp")


@pytest.mark.parametrize(
    ("frame", "rule"),
    [
        (pd.DataFrame({"ages": [41]}), "column='age' is in the schema and not in the table; did you mean 'ages'?"),
        (pd.DataFrame({"age": [41], "b": [1]}), "column='b' is in the table and not in the schema; remove it"),
        (pd.DataFrame([[1, 2]], columns=["age", "age"]), "two columns of name='age'"),
        (pd.DataFrame([[1, 2]], columns=["age", 0]), "names that are not text"),
        (pd.DataFrame([[1]], columns=pd.MultiIndex.from_tuples([("age", "b")])), "names that are not text"),
        (pd.DataFrame({"age": []}), "no rows"),
        ([{"age": 1}], "type='list'"),
    ],
)
def test_a_table_of_the_wrong_shape_is_refused(frame: Any, rule: str) -> None:
    schema = build_schema({"status": "declared", "columns": {"age": AGE}})
    with pytest.raises(TableError) as caught:
        conform(frame, schema)
    assert rule in str(caught.value)


def test_rows_and_entities_beyond_n_units_are_refused() -> None:
    frame = pd.DataFrame({"id": [1, 1, 2], "age": [20, 21, 22]})
    rows = {"status": "declared", "n_units": 2, "columns": {"id": ROW | {"drop": True}, "age": AGE}}
    with pytest.raises(TableError, match="more rows than n_units=2"):
        conform(frame, build_schema(rows))
    entities = {"status": "declared", "n_units": 2, "entity": "id", "columns": {"id": ROW, "age": AGE}}
    assert len(conform(frame, build_schema(entities))) == 3
    with pytest.raises(TableError, match="more entities than n_units=1"):
        conform(frame, build_schema(entities | {"n_units": 1}))


def test_a_constant_column_fits_unless_it_is_the_target() -> None:
    assert len(conform(_frame(20, 20), _schema(AGE))) == 2
    with pytest.raises(TableError, match="is the target and has one value only"):
        conform(_frame(20, 20), _schema(AGE, target="x"))


def test_a_part_of_a_table_may_be_empty_or_constant_by_chance() -> None:
    assert len(conform(_frame(20, 20), _schema(AGE, target="x"), part=True)) == 2
    assert conform(_frame(None, None), _schema(AGE | {"missing": True}), part=True)["x"].isna().all()


def test_a_column_that_is_always_missing_can_be_declared_so() -> None:
    made = conform(_frame(None, None), _schema({"kind": "categorical", "categories": [], "missing": True}))
    assert made["x"].tolist() == [None, None]


def test_all_violations_are_listed_and_faulty_rows_are_known() -> None:
    schema = build_schema({"status": "declared", "columns": {"age": AGE, "city": CITY, "gone": AGE}})
    frame = pd.DataFrame({"age": [20, 16, 30, None], "city": ["Ulm", "Ulm", "Rom", "Bonn"], "more": 1})
    assert [(v.column, v.rule.split()[0]) for v in violations(frame, schema)] == [
        ("gone", "is"),
        ("more", "is"),
        ("age", "holds"),
        ("age", "holds"),
        ("city", "holds"),
    ]
    two = build_schema({"status": "declared", "columns": {"age": AGE, "city": CITY}})
    assert faulty_rows(frame, two).tolist() == [False, True, True, True]


@pytest.mark.parametrize(
    ("dtype", "fits"), [("int8", True), ("Int16", True), ("float32", True), ("int64[pyarrow]", True), ("wrong", False)]
)
def test_a_dtype_that_cannot_hold_the_schema_is_refused(dtype: str, fits: bool) -> None:
    assert (violations(_frame(20, 21), _schema(AGE | {"dtype": dtype})) == []) is fits
    narrow = _schema(AGE | {"bounds": [0, 300], "dtype": "int8"})
    assert "dtype='int8'" in str(violations(_frame(20, 21), narrow)[0])


AGES = [20, 21, 20]


@pytest.mark.parametrize(
    "series",
    [
        pd.Series(AGES, dtype="int8"),
        pd.Series(AGES, dtype="uint64"),
        pd.Series(AGES, dtype="float32"),
        pd.Series(AGES, dtype="Int64"),
        pd.Series(AGES, dtype="Float64"),
        pd.Series(AGES, dtype="category"),
        pd.Series(AGES, dtype="int32[pyarrow]"),
        pd.Series(AGES, dtype="double[pyarrow]"),
        pd.Series(AGES, dtype=object),
        pd.Series(["20", "21", "20.0"]),
        pd.Series(["20", "21", "20"], dtype="string"),
        pd.Series(["20", "21", "20"], dtype="string[pyarrow]"),
        pd.Series(["20", "21", "20"], dtype="category"),
        pd.Series([Decimal(20), 21.0, np.int8(20)], dtype=object),
        pd.Series(AGES, dtype=pd.SparseDtype("int64", 20)),
        pd.Series(AGES, dtype="float16"),
    ],
)
def test_whole_numbers_come_in_any_dtype(series: pd.Series) -> None:
    frame = pd.DataFrame({"x": series})
    frame.index = pd.Index(["a", "a", "b"])
    before = frame.copy(deep=True)
    made = conform(frame, _schema(AGE))
    pd.testing.assert_frame_equal(made, pd.DataFrame({"x": pd.array(AGES, dtype="Int64")}))
    made.loc[0, "x"] = 77
    pd.testing.assert_frame_equal(frame, before)


@pytest.mark.parametrize("form", ["object", "string", "string[pyarrow]", "category"])
def test_texts_come_in_any_dtype(form: str) -> None:
    frame = _frame("Ulm", None, "Bonn", dtype=form)
    made = conform(frame, _schema(CITY | {"missing": True}))
    pd.testing.assert_frame_equal(made, _frame("Ulm", None, "Bonn"))


@pytest.mark.parametrize(
    "series",
    [
        pd.Series(["2001-01-01", None]),
        pd.Series([dt.date(2001, 1, 1), None]),
        pd.Series([pd.Timestamp("2001-01-01"), pd.NaT]),
        pd.Series([pd.Timestamp("2001-01-01"), pd.NaT], dtype=object),
        pd.Series([np.datetime64("2001-01-01"), None], dtype=object),
        pd.Series(["2001-01-01", None], dtype="datetime64[s]"),
        pd.Series([dt.date(2001, 1, 1), None], dtype="date32[day][pyarrow]"),
        pd.Series(pd.Categorical([pd.Timestamp("2001-01-01"), None])),
    ],
)
def test_days_come_in_any_dtype(series: pd.Series) -> None:
    made = conform(pd.DataFrame({"x": series}), _schema(DAY | {"missing": True}))
    expected = np.array(["2001-01-01", None], dtype="datetime64[us]")
    pd.testing.assert_frame_equal(made, pd.DataFrame({"x": expected}))


@pytest.mark.parametrize(("timezone", "unit"), [(None, "s"), (None, "us"), ("Europe/Paris", "s"), ("mixed", "us")])
def test_times_beyond_all_years_are_refused_and_clamped(timezone: str | None, unit: str) -> None:
    schema = _schema(TIME | {"timezone": timezone, "precision": "us"})
    far = pd.Series(np.array([2**61, 10**9], dtype=f"datetime64[{unit}]"))
    frame = pd.DataFrame(
        {"x": far if timezone is None else far.clip(upper=pd.Timestamp("9999-01-01")).dt.tz_localize("UTC")}
    )
    with pytest.raises(TableError, match="outside bounds"):
        conform(frame, schema)
    assert len(conform(frame, schema, outside="clamp")) == 2


def test_a_float32_is_read_by_its_digits() -> None:
    made = conform(_frame(0.1, 12.34, dtype="float32"), _schema(WAGE))
    assert made["x"].tolist() == [0.1, 12.34]


def test_times_of_a_zone_are_taken_from_wall_clocks_and_from_offsets() -> None:
    schema = _schema(TIME | {"timezone": "Europe/Paris"})
    texts = conform(_frame("2001-07-01T12:00:00+00:00", "2001-07-01 14:00:00"), schema)["x"]
    assert texts[0] == texts[1]
    naive = conform(_frame(dt.datetime(2001, 7, 1, 14), dtype="datetime64[ns]"), schema)["x"]
    assert naive[0] == texts[0]


def test_presented_dtypes_are_the_declared_ones() -> None:
    columns = {
        "i": AGE,
        "i8": AGE | {"dtype": "int8"},
        "f": AGE | {"dtype": "float64"},
        "c": CITY | {"dtype": "category"},
        "s": CITY | {"dtype": "string"},
        "b": FLAG,
        "bo": FLAG | {"dtype": "object"},
        "d": DAY | {"dtype": "object"},
        "dt": DAY | {"dtype": "str"},
        "ns": DAY | {"dtype": "datetime64[ns]"},
        "w": {"kind": "weight", "bounds": [0, 9], "decimals": 0},
    }
    schema = build_schema({"status": "declared", "columns": columns})
    frame = pd.DataFrame(
        {
            "i": [20],
            "i8": [20],
            "f": [20],
            "c": ["Ulm"],
            "s": ["Ulm"],
            "b": [True],
            "bo": [True],
            "d": ["2001-01-01"],
            "dt": ["2001-01-01"],
            "ns": ["2001-01-01"],
            "w": [3],
        }
    )
    shown = present(conform(frame, schema), schema)
    assert list(shown.dtypes.astype(str)) == [
        "int64",
        "int8",
        "float64",
        "category",
        "string",
        "bool",
        "object",
        "object",
        "object",
        "datetime64[ns]",
        "int64",
    ]
    assert shown["bo"][0] is True
    assert shown["d"][0] == dt.date(2001, 1, 1)
    assert shown["dt"][0] == "2001-01-01"
    assert shown["c"].cat.categories.tolist() == ["Ulm", "Bonn"]


def test_a_missing_value_makes_a_presented_dtype_nullable() -> None:
    schema = _schema(AGE | {"dtype": "int8", "missing": True})
    assert str(present(conform(_frame(20, None), schema), schema)["x"].dtype) == "Int8"


@pytest.mark.parametrize(("column", "value"), [(AGE, 91), (WAGE, 101.0), (DAY, "2021-01-01"), (CITY, "Köln")])
def test_limits_that_are_public_are_not_to_be_set_by_looking_at_the_table(column: dict[str, Any], value: Any) -> None:
    (declared,) = violations(_frame(value), _schema(column))
    assert "clamp" in declared.remedy
    assert "widen" not in declared.remedy
    assert "add them" not in declared.remedy
    (inferred,) = violations(_frame(value), _schema(column, status="inferred"))
    assert "in the schema" in inferred.remedy
