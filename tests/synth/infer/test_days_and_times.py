"""Days and times in many forms are found, and written as they were."""

import datetime as dt
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from synth.columns import DateColumn
from synth.infer import infer_schema
from synth.stored.temporal import form_of
from synth.table import datetime_codec, read_table, violations, write_table

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


def test_numbers_named_like_identifiers_are_no_days() -> None:
    texts = written("%Y%m%d", pd.date_range("2000-01-01", periods=1_500).to_pydatetime())
    assert infer_schema(pd.DataFrame({"case_id": texts})).columns["case_id"].kind == "identifier"


@pytest.mark.parametrize("form", ["%-d.%-m.%Y", "%-m/%-d/%y"])
def test_days_without_a_zero_are_read_alike_where_tables_are_stored(form: str) -> None:
    column = DateColumn(bounds=("1900-01-01", "2100-12-31"), format=form)
    padded = column.model_copy(update={"format": form.replace("-", "")})
    assert form_of(column) == form_of(padded)
    parse = datetime_codec.parser(column)
    assert [parse(text) for text in written(form)] == [parse(text) for text in written(padded.format)]


@pytest.mark.parametrize("form", ["%b-%Y", "%B %-d, %Y", "%d-%b-%Y %H:%M", "%m/%d/%Y %I:%M %p"])
def test_names_of_months_and_halves_of_days_are_refused_where_tables_are_stored(form: str) -> None:
    assert form_of(DateColumn(bounds=("1900-01-01", "2100-12-31"), format=form)) is None


def test_other_midnights_than_the_declared_one_do_not_fit() -> None:
    frame = pd.DataFrame({"x": written("%Y-%m-%d 00:00:00")})
    schema = infer_schema(frame)
    assert len(violations(pd.DataFrame({"x": [*frame["x"], "2019-05-05 07:00:00"]}), schema)) == 1


def test_days_of_a_real_table_that_are_written_with_a_clock(shared_table: Any) -> None:
    frame = read_table(shared_table("king_county_housing.csv.gz"))[["date"]]
    column = infer_schema(frame).columns["date"]
    assert (column.kind, column.format) == ("date", "%Y%m%dT000000")
    assert column.bounds == (dt.date(2014, 5, 2), dt.date(2015, 5, 27))
