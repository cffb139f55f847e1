"""Proposed schemas: kinds, chosen kinds, days and times."""

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synth.errors import SchemaError, TableError
from synth.infer import infer_schema
from synth.schema.kinds import Column
from synth.table import conform, datetime_codec, present, read_table, violations, write_table

N = 400
RNG = np.random.default_rng(5)
GROUPS = (RNG.random(N) * 90).astype(int)


OFFSET, ISO = dt.timezone(dt.timedelta(hours=3)), "%Y-%m-%d"


def _texts(values: Any) -> pd.DataFrame:
    return pd.DataFrame({"x": pd.Series(list(values), dtype=object)})


def _column(values: Any, name: str = "x", **options: Any) -> Column:
    frame = pd.DataFrame({name: values})
    schema = infer_schema(frame, **options)
    assert violations(frame, schema) == []
    return schema.columns[name]


@pytest.mark.parametrize(
    ("texts", "kind", "facts"),
    [
        (["1", "22", "-3"], "integer", {"bounds": (-3, 22)}),
        (["1.5", "2", ".25"], "real", {"bounds": (0.25, 2.0), "decimals": 2}),
        (["007", "012", "007"], "categorical", {"categories": ("007", "012")}),
        (["12E4", "13E5", "12E4"], "categorical", {}),
        (["NA", "None", "x", "NA"], "categorical", {"categories": ("NA", "None", "x"), "missing": False}),
        (["true", "false", ""], "boolean", {"tokens": ("false", "true"), "missing": True}),
        (["2020-01-05", "2021-12-31"], "date", {"bounds": (dt.date(2020, 1, 5), dt.date(2021, 12, 31))}),
        (["05/13/2020", "12/01/2020"], "date", {"format": "%m/%d/%Y"}),
        (["13.05.2020", "01.12.2020"], "date", {"format": "%d.%m.%Y"}),
        (["05/01/2020", "12/01/2020", "05/01/2020"], "categorical", {}),
        (
            ["2020-01-05 10:30:00", "2021-12-31 00:00:00"],
            "datetime",
            {"format": "%Y-%m-%d %H:%M:%S", "precision": "min"},
        ),
        (["2020-01-05T10:30:01", "2021-12-31T00:00:00"], "datetime", {"format": None, "timezone": None}),
        (["2020-01-05T10:30:00+01:00", "2021-12-31T00:00:00Z"], "datetime", {"timezone": "mixed"}),
        (["2020-01-05T10:30:00+01:00", "2021-12-31T00:00:00"], "categorical", {}),
        (["", "", ""], "categorical", {"categories": (), "missing": True}),
        ([f"P-{i:04d}" for i in range(50)], "identifier", {"template": "P-####"}),
        ([f"{i:08x}-A" for i in range(10**9, 10**9 + 50)], "identifier", {"template": "3b9\\ac\\a#x-\\A"}),
        ([f"note number {i} of many" for i in range(200)], "personal", {"personal": "text", "drop": False}),
        ([f"{i:x}" * (1 + i % 3) + "-nn" for i in range(200)], "text", {"drop": True}),
        ([str(i) for i in range(30)], "identifier", {"bounds": (0, 1000)}),
    ],
)
def test_a_column_of_text_is_proposed(texts: list[str], kind: str, facts: dict) -> None:
    frame = _texts(texts)
    schema = infer_schema(frame)
    column = schema.columns["x"]
    assert column.kind == kind
    assert {name: getattr(column, name) for name in facts} == facts
    assert column.dtype is None
    if schema.kept and kind != "categorical":
        assert violations(frame, schema) == []


@pytest.mark.parametrize(
    ("series", "kind", "dtype"),
    [
        (pd.Series([3, 1, 2, 3]), "integer", None),
        (pd.Series([3, 1, None, 3], dtype="Int64"), "integer", None),
        (pd.Series([3, 1, 2, 3], dtype="int8"), "integer", "int8"),
        (pd.Series([Decimal("1.25"), Decimal(2)]), "real", "decimal128(38, 2)[pyarrow]"),
        (pd.Series([2**60, 1, 2.5], dtype=object), "real", "object"),
        (pd.Series([True, None]), "boolean", "object"),
        (pd.Series(["7", "8", "7"]), "categorical", None),
        (pd.Series(["7", "8", "7"], dtype="string"), "categorical", "string"),
        (pd.Series([2.5, 1, 2.5], dtype="category"), "real", "category"),
        (pd.Series(["2020-01-01", "2020-01-02"]), "date", "str"),
        (pd.Series(["2020-01-01", "2020-01-02"], dtype="datetime64[ns]"), "date", "datetime64[ns]"),
        (pd.Series([dt.date(2020, 1, 1), None]), "date", "object"),
        (pd.Series(["2020-01-01T01", None], dtype=(paris := "datetime64[ns, Europe/Paris]")), "datetime", paris),
        (pd.Series([dt.datetime(2020, 1, 1, 2, tzinfo=OFFSET), None], dtype=object), "datetime", "object"),
    ],
)
def test_a_typed_column_is_proposed_and_presented_as_it_was(series: pd.Series, kind: str, dtype: str | None) -> None:
    frame = pd.DataFrame({"x": series, "y": np.arange(len(series)) * 0.5})
    schema = infer_schema(frame)
    assert (schema.columns["x"].kind, schema.columns["x"].dtype) == (kind, dtype)
    shown = present(conform(frame, schema), schema)
    if str(dtype).startswith("decimal"):  # which pandas holds as objects, too
        frame = frame.astype({"x": shown["x"].dtype})
    pd.testing.assert_frame_equal(shown, frame)


@pytest.mark.parametrize(
    ("name", "values", "kind"),
    [
        ("patientId", RNG.permutation(10**6)[:N], "identifier"),
        ("admission_type_id", RNG.integers(1, 9, N), "categorical"),
        ("count", RNG.integers(1, 90, N), "integer"),
        ("uuid", [f"{v:032x}" for v in range(10**30, 10**30 + N)], "identifier"),
        ("fnlwgt", RNG.integers(10**4, 10**6, N), "weight"),
    ],
)
def test_names_help_to_tell_identifiers(name: str, values: Any, kind: str) -> None:
    assert _column(values, name).kind == kind


def test_an_identifier_that_repeats_is_proposed_as_the_entity() -> None:
    frame = pd.DataFrame(
        {"patient_nbr": GROUPS + 10**6, "visit": np.arange(N), "other_id": GROUPS * 7, "x": GROUPS % 5}
    )
    schema = infer_schema(frame)
    assert schema.entity == "patient_nbr"
    assert 1 < schema.max_rows_per_unit <= 10
    assert schema.columns["other_id"].drop
    assert violations(frame, schema) == []
    assert infer_schema(frame, entity="other_id").entity == "other_id"


ODD: dict[str, tuple[pd.Series, str]] = {
    "floats": (pd.Series([1.0, 2.0, 3.0] * 8), "bounds"),
    "floats with one missing": (pd.Series([1.0, np.nan, 3.0] * 8), "missing values"),
    "floats beyond 64 bits": (pd.Series([2.0**63, 1e300, 3.0] * 8), "neither"),
    "whole numbers of 64 bits": (pd.Series([-(2**63), 2**63 - 1, 3] * 8), "bounds"),
    "texts of large numbers": (_texts(["1e+300", "9" * 400, "2"] * 8)["x"], "template"),
    "nothing": (pd.Series([None] * 24, dtype=object), "missing values"),
}


@pytest.mark.parametrize("case", ODD)
def test_any_column_is_proposed_as_entity_or_target_or_refused_in_a_sentence(case: str, tmp_path: Path) -> None:
    series, outcome = ODD[case]
    frame = pd.DataFrame({"x": series, "y": [f"{i % 5}" for i in range(24)]})
    if outcome in ("bounds", "template"):
        schema = infer_schema(frame, entity="x")
        assert getattr(schema.columns["x"], outcome) is not None
        assert violations(frame, schema) == []
        for path in (tmp_path / "t.csv", tmp_path / "t.parquet"):
            write_table(frame, path, schema)
            pd.testing.assert_frame_equal(read_table(path, schema), conform(frame, schema))
    else:
        with pytest.raises(TableError, match=outcome):
            infer_schema(frame, entity="x")
    if series.nunique() < 2:
        with pytest.raises(TableError, match="is the target and has one value at most"):
            infer_schema(frame, target="x")
    elif "infinite" not in case:
        assert violations(frame, infer_schema(frame, target="x")) == []


@pytest.mark.parametrize(
    ("frame", "rule"),
    [
        (pd.DataFrame({"x": [1, "a", 2.5]}), "holds float, int, str"),
        (pd.DataFrame({"x": [[1], [2]]}), "holds list"),
        (pd.DataFrame({"x": [2**64, 1]}), "64 bits"),
        (pd.DataFrame({"x": [1.0, np.inf]}), "infinite"),
        (pd.DataFrame({"x": [dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, tzinfo=dt.UTC)]}, dtype=object), "mixes"),
    ],
)
def test_a_column_without_one_kind_is_refused(frame: pd.DataFrame, rule: str) -> None:
    with pytest.raises(TableError, match=rule):
        infer_schema(frame)


@pytest.mark.parametrize("text", ["y\0z", "\ud800"])
@pytest.mark.parametrize("dtype", [object, "category"])
def test_a_text_that_nobody_reads_is_proposed_as_no_category(text: str, dtype: Any) -> None:
    frame = pd.DataFrame({"x": pd.Series(["x", text] * 20, dtype=object).astype(dtype), "y": [1, 2] * 20})
    for target in (None, "x"):
        with pytest.raises(
            TableError, match="neither a NUL character nor half a surrogate pair: column='x'"
        ) as refused:
            infer_schema(frame, target=target)
        assert ascii(text) not in str(refused.value)


CELLS = [
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6),
    st.integers(-(2**63), 2**63 - 1).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.dates().map(str),
    st.datetimes(timezones=st.just(dt.UTC)).map(str),
    st.sampled_from(["", "NA", "True", "False", "00", "-0", "1."]),
]


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_every_table_of_text_conforms_to_its_proposal(data: st.DataObject) -> None:
    cells = data.draw(st.sampled_from(CELLS)) | data.draw(st.sampled_from(CELLS))
    frame = pd.DataFrame({"x": pd.Series(data.draw(st.lists(cells, min_size=1, max_size=20)), dtype=object)})
    schema = infer_schema(frame)
    if not schema.columns["x"].is_text and schema.kept:
        assert violations(frame, schema) == []


N_C = 60
DAYS = pd.date_range("2020-01-01", periods=N_C)
COLUMNS: dict[str, Any] = {
    "whole": np.arange(N_C) % 30, "half": np.arange(N_C) / 2, "flag": np.arange(N_C) % 2,
    "town": np.array(["Ulm", "Bonn", "Kiel"])[np.arange(N_C) % 3],
    "sick": np.array(["yes", "no"])[np.arange(N_C) % 2], "day": DAYS.strftime("%d.%m.%Y"),
    "eight": DAYS.strftime("%Y%m%d"), "time": (DAYS + pd.Timedelta(hours=5)).strftime("%Y-%m-%d %H:%M"),
    "nothing": [""] * N_C, "name": [f"client {i}" for i in range(N_C)],
}  # fmt: skip


def frame(name: str) -> pd.DataFrame:
    return pd.DataFrame(
        {name: pd.Series(list(map(str, COLUMNS[name])), dtype=object), "other": ["a", "b"] * (N_C // 2)}
    )


@pytest.mark.parametrize(
    ("name", "kind", "facts"),
    [
        ("whole", "categorical", {"categories": tuple(range(30)), "ordered": False}),
        ("whole", "real", {"decimals": 0, "bounds": (0.0, 29.0)}),
        ("whole", "identifier", {"template": None}),
        ("flag", "boolean", {"tokens": ("0", "1")}),
        ("town", "categorical", {"categories": ("Bonn", "Kiel", "Ulm")}),
        ("town", "identifier", {"template": "#########"}),
        ("day", "categorical", {}),
        ("eight", "date", {"format": "%Y%m%d", "bounds": (dt.date(2020, 1, 1), dt.date(2020, 2, 29))}),
        ("nothing", "categorical", {"categories": (), "missing": True}),
        ("name", "text", {"drop": True}),
    ],
)
def test_a_column_is_of_the_kind_that_was_chosen(name: str, kind: str, facts: dict[str, Any]) -> None:
    table = frame(name)
    schema = infer_schema(table, kinds={name: kind})
    column = schema.columns[name]
    assert column.kind == kind
    assert {key: getattr(column, key) for key in facts} == facts
    if not column.drop:
        conform(table, schema, part=True)
    if kind != "identifier":
        assert violations(table, schema) == []


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("town", "real"), ("town", "date"), ("sick", "personal"), ("time", "date"), ("nothing", "integer"),
        ("typed", "date"), ("typed", "categorical"),
    ],
)  # fmt: skip
def test_a_column_that_cannot_be_of_a_kind_is_refused_in_a_sentence(name: str, kind: str) -> None:
    table = pd.DataFrame({"typed": np.arange(N_C) / 7, "y": np.arange(N_C)}) if name == "typed" else frame(name)
    reason = "it holds no value; convert it" if name == "nothing" else "its values have not that form; convert it"
    with pytest.raises(SchemaError, match=f"column='{name}' cannot be of kind='{kind}': {reason}") as refused:
        infer_schema(table, kinds={name: kind})
    assert not any(text in str(refused.value) for text in ("Ulm", "Bonn"))


def test_a_kind_or_a_column_that_there_is_not_names_the_nearest() -> None:
    with pytest.raises(SchemaError, match="did you mean 'integer'"):
        infer_schema(frame("whole"), kinds={"whole": "intege"})
    with pytest.raises(SchemaError, match="did you mean 'whole'"):
        infer_schema(frame("whole"), kinds={"whol": "integer"})
    with pytest.raises(SchemaError, match="entity='town' must be of kind identifier"):
        infer_schema(frame("town"), entity="town", kinds={"town": "categorical"})


@pytest.mark.parametrize(
    "texts",
    [
        ["05/01/2020", "12/01/2020"],  # months and days that may be either
        ["2018-13", "2018-12"],
        ["Mar-2018", "MAR-2019"],  # would be written otherwise
        ["30-Feb-2018", "12-Mar-2018"],
    ],
)
def test_what_is_no_day_for_sure_is_none(texts: list[str]) -> None:
    assert infer_schema(pd.DataFrame({"x": texts * 9})).columns["x"].kind == "categorical"


@pytest.mark.parametrize("end", ["T00:00:00.000Z", "T00:00+02:00"])
def test_days_that_are_written_as_midnights_of_a_zone_stay_days_in_that_form(end: str) -> None:
    frame = pd.DataFrame({"day": [f"2024-01-31{end}", f"2024-02-29{end}"] * 10})
    schema = infer_schema(frame)
    assert schema.columns["day"].kind == "date"
    assert datetime_codec.texts(conform(frame, schema)["day"], schema.columns["day"]) == frame["day"].tolist()


def test_a_step_that_all_of_few_numbers_are_on_is_proposed_and_one_that_some_are_on_is_not() -> None:
    scores = np.random.default_rng(0).choice(np.arange(660, 850, 5), 500)
    columns = infer_schema(pd.DataFrame({"score": scores, "near": np.append(scores[1:], 661)})).columns
    assert columns["score"].steps == (5,)  # type: ignore[attr-defined]
    assert columns["near"].steps == ()  # type: ignore[attr-defined]
