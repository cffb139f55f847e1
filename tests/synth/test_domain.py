"""The discretizer: total, loss-free up to the width of a code, and blind to the data where it must be."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synth.columns import IntegerColumn, RealColumn
from synth.domain import MAX_CELLS, Discretizer
from synth.domain.discretizer import regroup
from synth.domain.grid import public_grid
from synth.errors import SchemaError
from synth.schema import Schema, build_schema


def one(column: dict[str, object]) -> Schema:
    return build_schema({"status": "declared", "columns": {"x": column}})


def test_codes_of_a_decoded_table_are_the_codes_it_was_decoded_from(schema: Schema, frame: pd.DataFrame) -> None:
    for discretizer in (Discretizer.by_schema(schema), Discretizer.by_quantiles(schema, frame)):
        codes = discretizer.encode(frame)
        decoded = discretizer.decode(codes, np.random.default_rng(0))
        np.testing.assert_array_equal(discretizer.encode(decoded), codes)


@pytest.mark.parametrize("kind", ["integer", "real", "date", "categorical"])
def test_a_column_that_is_still_to_be_measured_gets_no_codes(kind: str) -> None:
    with pytest.raises(SchemaError, match="before there are codes"):
        Discretizer.by_schema(one({"kind": kind, "measure": True}))


def test_categories_and_narrow_integers_survive_a_round_trip_exactly(schema: Schema, frame: pd.DataFrame) -> None:
    discretizer = Discretizer.by_schema(schema)
    decoded = discretizer.decode(discretizer.encode(frame), np.random.default_rng(0))
    for name in ("age", "job", "level", "married", "income"):
        pd.testing.assert_series_equal(decoded[name], frame[name], check_names=False)


def test_decoded_values_keep_dtype_bounds_and_precision(schema: Schema, frame: pd.DataFrame) -> None:
    discretizer = Discretizer.by_schema(schema)
    rng = np.random.default_rng(1)
    codes = np.column_stack([rng.integers(0, size, 5000) for size in discretizer.sizes.values()])
    decoded = discretizer.decode(codes, rng)
    assert decoded.dtypes.astype(str).to_dict() == frame[list(schema.learned)].dtypes.astype(str).to_dict()
    assert decoded["gain"].between(0, 99_999).all()
    assert (decoded["gain"].round(2) == decoded["gain"]).all()
    assert decoded["age"].between(17, 90).all()
    assert (decoded["seen"].dt.second == 0).all()
    assert decoded["visited"].dropna().between("2011-03-28", "2019-07-08").all()


def test_other_and_missing_are_the_last_two_codes_of_every_column(schema: Schema, frame: pd.DataFrame) -> None:
    for discretizer in (Discretizer.by_schema(schema), Discretizer.by_quantiles(schema, frame)):
        for name in discretizer.columns:
            assert discretizer.labels(name)[-2:] == ["other", "missing"]
            assert len(discretizer.labels(name)) == discretizer.sizes[name]


def test_values_outside_the_declaration_are_clamped_and_unknown_ones_are_other(
    schema: Schema, frame: pd.DataFrame
) -> None:
    discretizer = Discretizer.by_schema(schema)
    odd = frame.head(3).copy()
    odd["age"] = pd.array([-5, 1000, None], dtype="Int64")
    odd["job"] = pd.Series(["unheard of", None, "clerk"], dtype=object)
    codes = pd.DataFrame(discretizer.encode(odd), columns=list(discretizer.columns))
    size = discretizer.sizes
    assert codes["age"].tolist() == [0, size["age"] - 3, size["age"] - 1]
    assert codes["job"].tolist() == [size["job"] - 2, size["job"] - 1, 2]


def test_a_column_that_never_misses_a_value_never_gets_a_missing_one(schema: Schema) -> None:
    discretizer = Discretizer.by_schema(schema)
    forbidden = np.array([[size - 1 for size in discretizer.sizes.values()]] * 50)
    decoded = discretizer.decode(forbidden, np.random.default_rng(0))
    assert decoded["age"].notna().all()
    assert decoded["income"].isin(["<=50K", ">50K"]).all()
    assert decoded["job"].isna().all()


@given(
    low=st.floats(-1e6, 1e6), width=st.floats(0, 1e7), scale=st.sampled_from(["linear", "log"]),
    decimals=st.one_of(st.none(), st.integers(0, 4)),
)  # fmt: skip
@settings(max_examples=200, deadline=None)
def test_a_public_grid_ascends_covers_the_bounds_and_stays_small(
    low: float, width: float, scale: str, decimals: int | None
) -> None:
    if decimals is not None:
        low, width = round(low, decimals), round(width, decimals)
    column = RealColumn(bounds=(low, low + width), scale=scale, decimals=decimals)  # type: ignore[arg-type]
    edges = public_grid(column)
    assert (np.diff(edges) > 0).all()
    assert edges[0] <= low
    assert edges[-1] > low + width
    assert len(edges) - 1 <= MAX_CELLS


def test_zero_has_a_cell_of_its_own_on_a_logarithmic_grid() -> None:
    for column in (IntegerColumn(bounds=(-500, 99_999), scale="log"), RealColumn(bounds=(-5.0, 9.0), scale="log")):
        edges = public_grid(column)
        start = np.searchsorted(edges, 0.0, side="right") - 1
        others = np.array([-1.0, 1.0]) if isinstance(column, IntegerColumn) else np.array([-1e-300, 1e-300])
        assert not np.any(np.searchsorted(edges, others, side="right") - 1 == start)


def test_integers_beyond_two_to_the_53_stay_whole_and_inside_their_bounds() -> None:
    low, high = 2**53 + 1, 2**62 + 3
    schema = one({"kind": "integer", "bounds": [low, high]})
    discretizer = Discretizer.by_schema(schema)
    codes = np.random.default_rng(0).integers(0, discretizer.sizes["x"] - 2, size=(1000, 1))
    decoded = discretizer.decode(codes, np.random.default_rng(1))["x"]
    assert decoded.dtype == "Int64"
    assert decoded.between(low, high).all()


def test_declared_bins_are_the_codes() -> None:
    schema = one({"kind": "integer", "bounds": [0, 99], "bins": [0, 1, 10, 50, 100]})
    labels = Discretizer.by_schema(schema).labels("x")
    assert labels == ["0", "1 to 9", "10 to 49", "50 to 99", "other", "missing"]


def test_quantile_bins_give_a_frequent_value_its_own_bin() -> None:
    values = np.r_[np.zeros(920), np.arange(1, 81)]
    schema = one({"kind": "integer", "bounds": [0, 99_999]})
    labels = Discretizer.by_quantiles(schema, pd.DataFrame({"x": pd.array(values, dtype="Int64")})).labels("x")
    assert labels[0] == "0"
    assert len(labels) > 15


@pytest.mark.parametrize("column", [
    {"kind": "integer", "bounds": [5, 5]},
    {"kind": "real", "bounds": [0.0, 0.0], "scale": "log"},
    {"kind": "real", "bounds": [0.3, 0.3], "decimals": 1},
    {"kind": "date", "bounds": ["2020-02-29", "2020-02-29"]},
    {"kind": "categorical", "categories": ["only"]},
])  # fmt: skip
def test_a_column_of_one_value_decodes_to_that_value(column: dict[str, object]) -> None:
    schema = one(column)
    decoded = Discretizer.by_schema(schema).decode(np.zeros((4, 1), dtype=int), np.random.default_rng(0))["x"]
    assert len(set(decoded)) == 1
    assert decoded.notna().all()


def test_mixed_offsets_are_read_as_instants_and_written_in_utc() -> None:
    bounds = ["2020-01-01T00:00:00", "2020-12-31T00:00:00"]
    schema = one({"kind": "datetime", "bounds": bounds, "timezone": "mixed"})
    stamps = pd.Series(
        [
            pd.Timestamp("2020-06-01T12:00:00+02:00").to_pydatetime(),
            pd.Timestamp("2020-06-01T10:00:00Z").to_pydatetime(),
        ],
        dtype=object,
    )
    discretizer = Discretizer.by_schema(schema)
    codes = discretizer.encode(pd.DataFrame({"x": stamps}))
    assert codes[0, 0] == codes[1, 0]
    decoded = discretizer.decode(codes, np.random.default_rng(0))["x"]
    assert all(str(stamp.tzinfo) == "UTC" for stamp in decoded)


def test_a_discretizer_comes_back_from_plain_data(schema: Schema, frame: pd.DataFrame) -> None:
    discretizer = Discretizer.by_quantiles(schema, frame)
    again = Discretizer.from_plain(discretizer.to_plain(), schema)
    np.testing.assert_array_equal(again.encode(frame), discretizer.encode(frame))


def test_where_every_category_is_in_other_without_any_mass_they_are_drawn_evenly() -> None:
    schema = one({"kind": "categorical", "categories": ["a", "b", "c"]})
    public = Discretizer.by_schema(schema).attributes[0]
    # The column is never missing, and all that noise left is values beyond the declared ones.
    merged = regroup(public, np.full(3, -1), np.array([0.0, 0.0, 0.0, 500.0, 0.0]))
    drawn = merged.values(np.zeros(3000, dtype=np.int64), np.random.default_rng(0))
    assert drawn.value_counts().between(900, 1100).all()
    assert sorted(drawn.unique()) == ["a", "b", "c"]
