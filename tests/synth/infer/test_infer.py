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
from synth.schema.kinds import CategoricalColumn, Column, DateColumn, RealColumn
from synth.table import conform, datetime_codec, present, read_table, violations, write_table

N = 400
RNG = np.random.default_rng(5)
GROUPS = (RNG.random(N) * 90).astype(int)


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
        (["1.0", "2.0", ""], "integer", {"bounds": (1, 2), "missing": True, "dtype": "float64"}),
        (["1.5", "2", ".25"], "real", {"bounds": (0.25, 2.0), "decimals": 2}),
        (["1e-05", "2.5"], "real", {"decimals": 5}),
        (["007", "012", "007"], "categorical", {"categories": ("007", "012")}),
        (["+49", "+33", "+49"], "categorical", {"categories": ("+33", "+49")}),
        (["12E4", "13E5", "12E4"], "categorical", {}),
        (["NA", "None", "x", "NA"], "categorical", {"categories": ("NA", "None", "x"), "missing": False}),
        (["12", "x", "12"], "categorical", {}),
        (["true", "false", ""], "boolean", {"tokens": ("false", "true"), "missing": True}),
        (["yes", "no", "yes"], "categorical", {}),
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
        (["2020-01-05T10:30:00Z", "2021-12-31T00:00:00+00:00"], "datetime", {"timezone": "UTC"}),
        (["2020-01-05T10:30:00+01:00", "2021-12-31T00:00:00Z"], "datetime", {"timezone": "mixed"}),
        (["2020-01-05T10:30:00+01:00", "2021-12-31T00:00:00"], "categorical", {}),
        (["2020-13-45", "2021-12-31"], "categorical", {}),
        (["", "", ""], "categorical", {"categories": (), "missing": True}),
        (["9223372036854775808", "1"], "categorical", {}),
        ([f"P-{i:04d}" for i in range(50)], "identifier", {"template": "P-####"}),
        ([f"{i:08x}-A" for i in range(10**9, 10**9 + 50)], "identifier", {"template": "3b9\\ac\\a#x-\\A"}),
        ([f"note number {i} of many" for i in range(200)], "personal", {"personal": "text", "drop": False}),
        ([f"{i:x}" * (1 + i % 3) + "-nn" for i in range(200)], "text", {"drop": True}),
        ([str(i) for i in range(30)], "identifier", {"bounds": (0, 1000)}),
    ],
)
def test_a_column_of_text_is_proposed(texts: list[str], kind: str, facts: dict) -> None:
    frame = _texts(texts)
    column = infer_schema(frame).columns["x"]
    assert column.kind == kind
    assert {name: getattr(column, name) for name in facts} == facts
    assert column.dtype == facts.get("dtype")
    schema = infer_schema(frame)
    if schema.kept and kind != "categorical":
        assert violations(frame, schema) == []


@pytest.mark.parametrize(
    ("series", "kind", "dtype"),
    [
        (pd.Series([3, 1, 2, 3]), "integer", None),
        (pd.Series([3, 1, None, 3]), "integer", "float64"),
        (pd.Series([3, 1, None, 3], dtype="Int64"), "integer", None),
        (pd.Series([3, 1, 2, 3], dtype="Int64"), "integer", "Int64"),
        (pd.Series([3, 1, 2, 3], dtype="int8"), "integer", "int8"),
        (pd.Series([3.5, 1]), "real", None),
        (pd.Series([3.1, 1], dtype="float32"), "real", "float32"),
        (pd.Series([Decimal("1.25"), Decimal(2)]), "real", "decimal128(38, 2)[pyarrow]"),
        (pd.Series([2**60, 1, 2.5], dtype=object), "real", "object"),
        (pd.Series([True, False]), "boolean", None),
        (pd.Series([True, None]), "boolean", "object"),
        (pd.Series([True, None], dtype="boolean"), "boolean", None),
        (pd.Series(["7", "8", "7"]), "categorical", None),
        (pd.Series(["7", "8", "7"], dtype="string"), "categorical", "string"),
        (pd.Series(["b", "a", "b"], dtype="category"), "categorical", "category"),
        (pd.Series([2, 1, 2], dtype="category"), "categorical", "category"),
        (pd.Series([2.5, 1, 2.5], dtype="category"), "real", "category"),
        (pd.Series(["2020-01-01", "2020-01-02"]), "date", "str"),
        (pd.Series(["2020-01-01", "2020-01-02"], dtype="datetime64[ns]"), "date", "datetime64[ns]"),
        (pd.Series([dt.date(2020, 1, 1), None]), "date", "object"),
        (pd.Series(["2020-01-01T01", None], dtype="datetime64[us]"), "datetime", None),
        (
            pd.Series(["2020-01-01T01", None], dtype="datetime64[ns, Europe/Paris]"),
            "datetime",
            "datetime64[ns, Europe/Paris]",
        ),
        (pd.Series([dt.datetime(2020, 1, 1, 2), None], dtype=object), "datetime", "object"),
        (
            pd.Series([dt.datetime(2020, 1, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=3))), None], dtype=object),
            "datetime",
            "object",
        ),
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


def test_ordered_categories_keep_their_order() -> None:
    column = _column(pd.Series(pd.Categorical(["low", "high"], ["low", "mid", "high"], ordered=True)))
    assert isinstance(column, CategoricalColumn)
    assert (column.categories, column.ordered) == (("low", "mid", "high"), True)


@pytest.mark.parametrize(
    ("name", "values", "kind"),
    [
        ("encounter_id", RNG.permutation(10**6)[:N], "identifier"),
        ("patientId", RNG.permutation(10**6)[:N], "identifier"),
        ("admission_type_id", RNG.integers(1, 9, N), "categorical"),
        ("count", RNG.integers(1, 90, N), "integer"),
        ("level", RNG.integers(1, 9, N), "categorical"),
        ("uuid", [f"{v:032x}" for v in range(10**30, 10**30 + N)], "identifier"),
        ("fnlwgt", RNG.integers(10**4, 10**6, N), "weight"),
        ("valid", RNG.integers(0, 1000, N), "integer"),
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


def test_any_column_of_texts_or_whole_numbers_can_be_the_entity() -> None:
    names = [f"person {g}" for g in GROUPS]
    frame = pd.DataFrame({"who": names, "x": GROUPS % 5})
    schema = infer_schema(frame, entity="who")
    assert schema.columns["who"].is_identifier
    assert violations(frame, schema) == []
    with pytest.raises(TableError, match="neither"):
        infer_schema(frame.assign(who=GROUPS + 0.5), entity="who")
    with pytest.raises(TableError, match="missing values"):
        infer_schema(frame.assign(who=pd.Series(names).where(GROUPS > 5)), entity="who")


ODD: dict[str, tuple[pd.Series, str]] = {
    "floats": (pd.Series([1.0, 2.0, 3.0] * 8), "bounds"),
    "short floats": (pd.Series([1.0, 2.0, 3.0] * 8, dtype="float32"), "bounds"),
    "floats with one missing": (pd.Series([1.0, np.nan, 3.0] * 8), "missing values"),
    "fractions": (pd.Series([1.5, 2.0, 3.0] * 8), "neither"),
    "floats that are hardly told apart": (pd.Series([2.0**53 + 2, 2.0, 3.0] * 8), "neither"),
    "floats beyond 64 bits": (pd.Series([2.0**63, 1e300, 3.0] * 8), "neither"),
    "infinite floats": (pd.Series([np.inf, 2.0, 3.0] * 8), "infinite"),
    "whole numbers of 64 bits": (pd.Series([-(2**63), 2**63 - 1, 3] * 8), "bounds"),
    "texts of floats": (_texts(["1.0", "2.0", "3.0"] * 8)["x"], "bounds"),
    "texts of fractions": (_texts(["1.5", "2.0", "3.0"] * 8)["x"], "template"),
    "texts of large numbers": (_texts(["1e+300", "9" * 400, "2"] * 8)["x"], "template"),
    "truths": (pd.Series([True, False] * 12), "neither"),
    "days": (pd.Series([dt.date(2020, 1, 1), dt.date(2020, 1, 2)] * 12), "neither"),
    "times": (pd.Series(pd.to_datetime(["2020-01-01", "2020-01-02"] * 12)), "neither"),
    "decimals": (pd.Series([Decimal(1), Decimal(2)] * 12), "neither"),
    "nothing": (pd.Series([None] * 24, dtype=object), "missing values"),
    "empty texts": (_texts([""] * 24)["x"], "missing values"),
    "one value": (pd.Series([7] * 24), "bounds"),
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
    ("values", "scale"),
    [
        (RNG.normal(50, 10, N).round(), "linear"),
        (np.exp(RNG.normal(8, 1.5, N)).round(2), "log"),
        (np.where(RNG.random(N) < 0.9, 0, RNG.integers(1, 99999, N)), "log"),
        (RNG.normal(-74, 0.1, N), "linear"),
        (RNG.integers(0, 100, N) ** 3, "log"),
        (RNG.integers(0, 30, N), "linear"),
        (RNG.random(N), "linear"),
        (RNG.standard_cauchy(N), "log"),
        (np.full(N, 7.5), "linear"),
        (np.zeros(N), "linear"),
    ],
)
def test_heavy_tails_are_resolved_on_a_logarithmic_scale(values: np.ndarray, scale: str) -> None:
    column = _column(values)
    assert getattr(column, "scale", None) == scale


@pytest.mark.parametrize(
    ("frame", "rule"),
    [
        (pd.DataFrame({"x": [1, "a", 2.5]}), "mixes"),
        (pd.DataFrame({"x": [[1], [2]]}), "holds list"),
        (pd.DataFrame({"x": [2**64, 1]}), "64 bits"),
        (pd.DataFrame({"x": pd.Series([10**400, 1.5], dtype=object)}), "64 bits"),
        (pd.DataFrame({"x": pd.period_range("2020", periods=3)}), "holds Period"),
        (pd.DataFrame({"x": [1.0, np.inf]}), "infinite"),
        (_texts(["1.5", "inf"]), "infinite"),
        (pd.DataFrame({"x": [dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, tzinfo=dt.UTC)]}, dtype=object), "mixes"),
        (pd.DataFrame([[1, 2]], columns=["x", "x"]), "two columns"),
        (pd.DataFrame({"x": []}), "without rows"),
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


def test_a_role_that_is_no_column_names_the_nearest() -> None:
    with pytest.raises(SchemaError, match="did you mean 'income'"):
        infer_schema(pd.DataFrame({"income": [1, 2]}), target="incme")
    with pytest.raises(SchemaError, match="did you mean 'income'"):
        infer_schema(pd.DataFrame({"income": [1, 2]}), entity="incme")


def test_a_target_is_never_taken_for_an_identifier() -> None:
    assert _column(np.arange(N), target="x").kind == "integer"


def test_decimals_are_the_fewest_that_express_all_values() -> None:
    for values, decimals in [([0.1 + 0.2], None), ([1.25, 3.5], 2), ([1e-7, 0.5], 7), ([1 / 3], None)]:
        column = _column(values)
        assert isinstance(column, RealColumn)
        assert column.decimals == decimals


CELLS = [
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6),
    st.integers(-(2**63), 2**63 - 1).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.dates().map(str),
    st.datetimes(timezones=st.just(dt.UTC)).map(str),
    st.sampled_from(["", "NA", "True", "False", "00", "-0", "1."]),
]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_every_table_of_text_conforms_to_its_proposal(data: st.DataObject) -> None:
    cells = data.draw(st.sampled_from(CELLS)) | data.draw(st.sampled_from(CELLS))
    frame = pd.DataFrame({"x": pd.Series(data.draw(st.lists(cells, min_size=1, max_size=40)), dtype=object)})
    schema = infer_schema(frame)
    if not schema.columns["x"].is_text and schema.kept:
        assert violations(frame, schema) == []


@pytest.mark.parametrize(
    ("name", "target"),
    [("adult", "income"), ("insurance", "charges"), ("airbnb_nyc", "price"), ("diabetes_hospital", "readmitted")],
)
def test_the_development_tables_are_proposed_and_conform(shared_table, name: str, target: str) -> None:
    frame = read_table(shared_table(f"{name}.csv.gz"))
    schema = infer_schema(frame, target=target)
    assert violations(frame, schema) == []
    assert not any(schema.columns[n].is_text for n in schema.columns)
    expected = {
        "adult": {"fnlwgt": "weight", "age": "integer", "workclass": "categorical", "capital-gain": "integer"},
        "insurance": {"bmi": "real", "charges": "real", "smoker": "categorical"},
        "airbnb_nyc": {"neighbourhood": "categorical", "last_review": "date", "latitude": "real"},
        "diabetes_hospital": {
            "encounter_id": "identifier", "patient_nbr": "identifier", "admission_type_id": "categorical",
            "diag_1": "categorical", "weight": "categorical", "A1Cresult": "categorical",
        },
    }[name]  # fmt: skip
    assert {n: schema.columns[n].kind for n in expected} == expected


def test_the_survey_of_the_demo_is_presented_as_it_was() -> None:
    survey = pytest.importorskip("statsmodels.datasets").fair.load_pandas().data
    schema = infer_schema(survey, target="affairs")
    assert violations(survey, schema) == []
    pd.testing.assert_frame_equal(present(conform(survey, schema), schema), survey)


N_C = 60
DAYS = pd.date_range("2020-01-01", periods=N_C)
COLUMNS: dict[str, Any] = {
    "whole": np.arange(N_C) % 30,
    "half": np.arange(N_C) / 2,
    "flag": np.arange(N_C) % 2,
    "town": np.array(["Ulm", "Bonn", "Kiel"])[np.arange(N_C) % 3],
    "sick": np.array(["yes", "no"])[np.arange(N_C) % 2],
    "day": DAYS.strftime("%d.%m.%Y"),
    "eight": DAYS.strftime("%Y%m%d"),
    "time": (DAYS + pd.Timedelta(hours=5)).strftime("%Y-%m-%d %H:%M"),
    "nothing": [""] * N_C,
    "name": [f"client {i}" for i in range(N_C)],
}


def frame(name: str) -> pd.DataFrame:
    return pd.DataFrame(
        {name: pd.Series(list(map(str, COLUMNS[name])), dtype=object), "other": ["a", "b"] * (N_C // 2)}
    )


@pytest.mark.parametrize(
    ("name", "kind", "facts"),
    [
        ("whole", "categorical", {"categories": tuple(range(30)), "ordered": False}),
        ("whole", "real", {"decimals": 0, "bounds": (0.0, 29.0)}),
        ("whole", "weight", {"bounds": (0.0, 29.0)}),
        ("whole", "identifier", {"template": None}),
        ("flag", "integer", {"bounds": (0, 1)}),
        ("flag", "boolean", {"tokens": ("0", "1")}),
        ("flag", "categorical", {"categories": (0, 1), "ordered": True}),
        ("half", "categorical", {}),
        ("town", "categorical", {"categories": ("Bonn", "Kiel", "Ulm")}),
        ("town", "identifier", {"template": "#########"}),
        ("sick", "boolean", {"tokens": ("no", "yes")}),
        ("day", "categorical", {}),
        ("day", "datetime", {"format": "%d.%m.%Y", "precision": "h", "bounds": (DAYS[0], DAYS[-1])}),
        ("eight", "date", {"format": "%Y%m%d", "bounds": (dt.date(2020, 1, 1), dt.date(2020, 2, 29))}),
        ("eight", "integer", {"bounds": (20200101, 20200229)}),
        ("nothing", "categorical", {"categories": (), "missing": True}),
        ("name", "categorical", {}),
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
    ("name", "kind", "reason"),
    [
        ("town", "real", "some of its values are no numbers"),
        ("town", "boolean", "nor two texts"),
        ("town", "date", "no days or times of one known form"),
        ("sick", "personal", "do not say what it holds"),
        ("half", "integer", "no numbers, or fractions"),
        ("time", "date", "not at midnight"),
        ("nothing", "integer", "it holds no value"),
        ("typed", "integer", "no numbers, or fractions"),
        ("typed", "date", "no days or times of one known form"),
        ("typed", "boolean", "neither 0 and 1"),
        ("typed", "categorical", "texts or whole numbers"),
        ("typed", "identifier", "neither texts nor whole numbers"),
        ("typed", "clock", "no times of day"),
    ],
)
def test_a_column_that_cannot_be_of_a_kind_is_refused_in_a_sentence(name: str, kind: str, reason: str) -> None:
    table = pd.DataFrame({"typed": np.arange(N_C) / 7, "y": np.arange(N_C)}) if name == "typed" else frame(name)
    with pytest.raises(SchemaError, match=f"column='{name}' cannot be of kind='{kind}': .*{reason}") as refused:
        infer_schema(table, kinds={name: kind})
    assert not any(text in str(refused.value) for text in ("Ulm", "Bonn"))


def test_typed_columns_keep_their_dtype() -> None:
    table = pd.DataFrame({"x": (np.arange(N_C) % 30).astype("int16"), "y": DAYS, "z": [True, False] * (N_C // 2)})
    schema = infer_schema(table, kinds={"x": "categorical", "y": "datetime", "z": "boolean"})
    assert [schema.columns[name].dtype for name in "xyz"] == ["int16", str(DAYS.dtype), None]
    assert violations(table, schema) == []


def test_a_kind_or_a_column_that_there_is_not_names_the_nearest() -> None:
    with pytest.raises(SchemaError, match="did you mean 'integer'"):
        infer_schema(frame("whole"), kinds={"whole": "intege"})
    with pytest.raises(SchemaError, match="did you mean 'whole'"):
        infer_schema(frame("whole"), kinds={"whol": "integer"})
    with pytest.raises(SchemaError, match="entity='town' must be of kind identifier"):
        infer_schema(frame("town"), entity="town", kinds={"town": "categorical"})


def test_constraints_leave_the_kind_that_was_chosen() -> None:
    rng = np.random.default_rng(3)
    low = rng.integers(0, 20, 3_000)
    table = pd.DataFrame({"low": low, "high": low + rng.integers(0, 5, 3_000), "x": rng.random(3_000)})
    schema = infer_schema(table, constraints=True, kinds={"low": "categorical"})
    assert schema.columns["low"].kind == "categorical"


TIMES = pd.date_range("2018-01-29 00:00", "2021-03-04", periods=70).round("min").to_pydatetime()


def written(form: str, times: Any = TIMES) -> list[str]:
    column = DateColumn(bounds=("1900-01-01", "2100-12-31"), format=form)
    return [datetime_codec.writer(column)(time) for time in times]


@pytest.mark.parametrize(
    ("form", "kind"),
    [
        ("%Y%m%d", "date"), ("%Y%m%dT000000", "date"), ("%Y-%m-%d 00:00:00", "date"), ("%Y-%m-%dT00:00:00", "date"),
        ("%b-%Y", "date"), ("%B %Y", "date"), ("%Y-%m", "date"), ("%m/%Y", "date"), ("%d-%b-%Y", "date"),
        ("%b %d, %Y", "date"), ("%B %-d, %Y", "date"), ("%d %B %Y", "date"), ("%-m/%-d/%Y", "date"),
        ("%d.%m.%y", "date"), ("%-m/%-d/%Y 0:00", "date"), ("%m/%d/%Y 12:00 AM", "date"),
        ("%Y%m%dT%H%M%S", "datetime"), ("%d-%b-%Y %H:%M", "datetime"), ("%b %d, %Y %I:%M %p", "datetime"),
        ("%-m/%-d/%Y %-H:%M", "datetime"), ("%d.%m.%Y, %H:%M:%S", "datetime"),
    ],
)  # fmt: skip
def test_a_form_is_found_and_written_as_it_was(form: str, kind: str, tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": pd.Series(written(form), dtype=object)})
    schema = infer_schema(frame)
    assert (schema.columns["x"].kind, schema.columns["x"].format) == (kind, form)
    assert violations(frame, schema) == []
    write_table(frame, tmp_path / "t.csv", schema)
    pd.testing.assert_frame_equal(read_table(tmp_path / "t.csv"), frame)


def test_a_month_stands_for_its_first_day() -> None:
    column = infer_schema(pd.DataFrame({"x": ["Mar-2018", "Dec-2019"]})).columns["x"]
    assert column.bounds == (dt.date(2018, 3, 1), dt.date(2019, 12, 1))


@pytest.mark.parametrize(
    "texts",
    [
        ["05/01/2020", "12/01/2020"],  # months and days that may be either
        ["March", "May", "June"],
        ["2018-13", "2018-12"],
        ["Mar-2018", "MAR-2019"],  # would be written otherwise
        ["30-Feb-2018", "12-Mar-2018"],
    ],
)
def test_what_is_no_day_for_sure_is_none(texts: list[str]) -> None:
    assert infer_schema(pd.DataFrame({"x": texts * 9})).columns["x"].kind == "categorical"


@pytest.mark.parametrize("texts", [["20180101", "20180230", "20190101"], ["20180101", "22000101", "20190101"]])
def test_eight_digits_that_are_not_all_days_are_numbers(texts: list[str]) -> None:
    assert infer_schema(pd.DataFrame({"x": texts * 2})).columns["x"].kind == "integer"


def test_numbers_named_like_identifiers_are_days_where_many_are() -> None:
    texts = written("%Y%m%d", pd.date_range("2000-01-25", periods=1_500).to_pydatetime())
    assert infer_schema(pd.DataFrame({"date_key": texts})).columns["date_key"].kind == "date"
    assert infer_schema(pd.DataFrame({"date_key": texts[:15]})).columns["date_key"].kind == "identifier"


@pytest.mark.parametrize("end", ["T00:00:00Z", "T00:00:00.000Z", " 00:00:00+00:00", "T00:00+02:00"])
def test_days_that_are_written_as_midnights_of_a_zone_stay_days_in_that_form(end: str) -> None:
    frame = pd.DataFrame({"day": [f"2024-01-31{end}", f"2024-02-29{end}"] * 10})
    schema = infer_schema(frame)
    assert schema.columns["day"].kind == "date"
    assert datetime_codec.texts(conform(frame, schema)["day"], schema.columns["day"]) == frame["day"].tolist()


def test_typed_midnights_of_a_zone_stay_midnights() -> None:
    stamps = pd.to_datetime(["2024-01-31", "2024-02-29"] * 10).tz_localize("UTC")
    frame = pd.DataFrame({"day": stamps})
    schema = infer_schema(frame)
    assert schema.columns["day"].precision == "day"
    later = frame.assign(day=stamps + pd.Timedelta(hours=1))
    assert any("precision='day'" in str(violation) for violation in violations(later, schema))
    assert conform(later, schema, outside="clamp")["day"].equals(conform(frame, schema)["day"])


def test_other_midnights_than_the_declared_one_do_not_fit() -> None:
    frame = pd.DataFrame({"x": written("%Y-%m-%d 00:00:00")})
    schema = infer_schema(frame)
    assert len(violations(pd.DataFrame({"x": [*frame["x"], "2019-05-05 07:00:00"]}), schema)) == 1


def test_days_of_a_real_table_that_are_written_with_a_clock(shared_table: Any) -> None:
    frame = read_table(shared_table("king_county_housing.csv.gz"))[["date"]]
    column = infer_schema(frame).columns["date"]
    assert (column.kind, column.format) == ("date", "%Y%m%dT000000")
    assert column.bounds == (dt.date(2014, 5, 2), dt.date(2015, 5, 27))
