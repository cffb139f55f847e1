"""Words such as `N` and `?` among numbers stand for a missing value, in every column."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from synth.errors import SchemaError, TableError
from synth.infer import infer_schema
from synth.schema import Schema
from synth.table import conform, present, read_table, violations, write_table

N = 400
RNG = np.random.default_rng(11)


def texts(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame({name: pd.Series(list(map(str, cells)), dtype=object) for name, cells in columns.items()})


def sometimes(word: str, values: Any, share: float = 0.2) -> np.ndarray:
    return np.where(RNG.random(N) < share, word, np.asarray(values).astype(str))


@pytest.mark.parametrize(
    "word", ["N", "NA", "n/a", "?", "-", "--", ".", "unknown", "null", "None", "NaN", "missing", "Not available"]
)
def test_a_word_among_numbers_stands_for_a_missing_one(word: str, tmp_path: Path) -> None:
    frame = texts(income=sometimes(word, RNG.integers(0, 90_000, N)), sex=RNG.integers(1, 3, N))
    schema = infer_schema(frame)
    assert schema.missing_values == (word,)
    assert (schema.columns["income"].kind, schema.columns["income"].missing) == ("integer", True)
    assert not schema.columns["sex"].missing
    assert violations(frame, schema) == []
    write_table(frame, tmp_path / "t.csv", schema)
    pd.testing.assert_frame_equal(read_table(tmp_path / "t.csv"), frame)


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (sometimes("?", RNG.integers(1, 8, N)), "categorical"),
        (sometimes("?", np.round(RNG.normal(0, 1, N), 2)), "real"),
        (sometimes("?", pd.date_range("2020-01-01", periods=N).strftime("%Y-%m-%d")), "date"),
        (sometimes("?", pd.date_range("2020-01-01", periods=N).strftime("%b %Y")), "date"),
        (sometimes("?", pd.date_range("2020-01-01 08:30", periods=N).strftime("%Y-%m-%d %H:%M")), "datetime"),
    ],
)
def test_numbers_and_times_of_all_kinds_are_read_beside_it(cells: np.ndarray, kind: str) -> None:
    frame = texts(x=cells)
    schema = infer_schema(frame)
    assert (schema.columns["x"].kind, schema.columns["x"].missing, schema.missing_values) == (kind, True, ("?",))
    assert violations(frame, schema) == []


def test_among_texts_alone_a_word_is_a_category() -> None:
    frame = texts(test=RNG.choice(["None", "Norm", ">200"], N), code=sometimes("-", RNG.choice(["A1", "B2"], N)))
    schema = infer_schema(frame)
    assert schema.missing_values == ("",)
    assert schema.columns["test"].categories == (">200", "None", "Norm")
    assert schema.columns["code"].categories == ("-", "A1", "B2")


def test_it_leaves_the_categories_of_other_columns_and_is_written_back_most_frequent_first(tmp_path: Path) -> None:
    frame = texts(
        income=sometimes("?", RNG.integers(0, 90_000, N), 0.1),
        rent=sometimes("", RNG.integers(0, 900, N), 0.6),
        job=sometimes("?", RNG.choice(["clerk", "farmer"], N)),
    )
    schema = infer_schema(frame)
    assert schema.missing_values == ("", "?")
    assert (schema.columns["job"].categories, schema.columns["job"].missing) == (("clerk", "farmer"), True)
    write_table(frame, tmp_path / "t.csv", schema)
    written = read_table(tmp_path / "t.csv")
    assert not (written == "?").any(axis=None)
    pd.testing.assert_frame_equal(conform(written, schema), conform(frame, schema))


def test_two_words_in_one_column_both_stand_for_a_missing_value() -> None:
    frame = texts(x=sometimes("?", sometimes("NA", RNG.integers(0, 90_000, N), 0.4), 0.1))
    schema = infer_schema(frame)
    assert schema.missing_values == ("NA", "?")
    assert conform(frame, schema)["x"].isna().sum() == frame["x"].isin(["NA", "?"]).sum()


def test_a_value_of_the_target_or_the_entity_is_none() -> None:
    income, sick = sometimes("N", RNG.integers(0, 90_000, N)), RNG.choice(["Y", "N"], N)
    assert infer_schema(texts(income=income, sick=sick)).missing_values == ("N",)
    schema = infer_schema(texts(income=income, sick=sick), target="sick")
    assert (schema.missing_values, schema.columns["sick"].categories) == (("",), ("N", "Y"))
    who = sometimes("unknown", [f"P-{i % 90}" for i in range(N)])
    frame = texts(who=who, income=sometimes("unknown", RNG.integers(0, 90_000, N)))
    assert infer_schema(frame, entity="who").missing_values == ("",)
    # A target of numbers is read like any other column.
    assert infer_schema(texts(income=income), target="income").missing_values == ("N",)


def test_a_user_says_further_texts_for_all_columns() -> None:
    frame = texts(x=sometimes("refused", RNG.integers(0, 90_000, N)), y=sometimes("refused", RNG.choice(["a", "b"], N)))
    assert infer_schema(frame).columns["x"].kind == "text"
    schema = infer_schema(frame, missing_values=["refused", "-9"])
    assert schema.missing_values == ("refused", "-9")
    assert (schema.columns["x"].kind, schema.columns["y"].categories) == ("integer", ("a", "b"))
    assert violations(frame, schema) == []
    with pytest.raises(SchemaError, match="must be a list of texts"):
        infer_schema(frame, missing_values="refused")
    with pytest.raises(TableError, match="is the target and has one value at most"):
        infer_schema(texts(x=RNG.choice(["a", "b"], N), y=range(N)), target="x", missing_values=["a"])


def test_numbers_that_pandas_could_not_read_are_told_beside_typed_columns() -> None:
    frame = pd.DataFrame({"x": pd.Series(sometimes("N", RNG.integers(0, 90_000, N)), dtype=object), "y": RNG.random(N)})
    schema = infer_schema(frame)
    assert (schema.columns["x"].kind, schema.columns["x"].dtype, schema.missing_values) == ("integer", "str", ("N",))
    shown = present(conform(frame, schema), schema)
    pd.testing.assert_series_equal(shown["x"], frame["x"].where(frame["x"] != "N", None))
    # Text without such a word is taken to be meant as text.
    assert infer_schema(frame.assign(x=["7", "8"] * (N // 2))).columns["x"].categories == ("7", "8")


@pytest.mark.parametrize("year", [2018, 2019])
def test_no_column_of_a_census_with_such_words_is_dropped(shared_table: Any, year: int) -> None:
    frame = read_table(shared_table(f"nist_ma{year}.csv.gz"))
    schema = infer_schema(frame)
    assert schema.missing_values == ("N",)
    assert schema.kept == tuple(frame.columns)
    missing = {name for name, column in schema.columns.items() if column.missing}
    assert missing == {name for name in frame if (frame[name] == "N").any()}
    assert violations(frame, schema) == []


def test_a_schema_that_lists_such_a_word_is_refused() -> None:
    content = {
        "status": "inferred",
        "missing_values": ["N"],
        "columns": {"x": {"kind": "categorical", "categories": ["N"]}},
    }
    with pytest.raises(ValueError, match="stands for a missing value"):
        Schema.model_validate(content)
