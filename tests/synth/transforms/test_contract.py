"""What every encoding promises, on tables that trap the unwary."""

import json
import tracemalloc
from typing import Any

import numpy as np
import pandas as pd
import pytest

from synth.domain import Discretizer, numeric_scale
from synth.schema import Schema, build_schema
from synth.table import conform
from synth.transforms.encoding import BinnedEncoding
from synth.transforms.layout import Encoded
from synth.transforms.mode_encoding import Categories, ModalEncoding
from synth.transforms.mode_normalization import EDGE, WIDTH, Modes


def _apply(case: Any, seed: int = 0) -> Encoded:
    return case.encoding.apply(case.frame, np.random.default_rng(seed))


def _there_and_back(case: Any) -> pd.DataFrame:
    return case.encoding.invert(_apply(case), np.random.default_rng(1))


def test_codes_and_scalars_stay_within_the_layout(case: Any) -> None:
    encoded, layout = _apply(case), case.encoding.layout
    assert tuple(span.column for span in layout.spans) == case.schema.modeled == case.encoding.discretizer.columns
    assert encoded.codes.shape == (len(case.frame), len(layout.spans)) and encoded.codes.dtype == layout.dtype
    assert (encoded.codes >= 0).all() and (encoded.codes < np.array(layout.sizes)).all()
    assert encoded.scalars.shape == (len(case.frame), len(layout.scalars)) and encoded.scalars.dtype == np.float32
    assert (np.abs(encoded.scalars) <= 1).all()
    assert layout.scalars == tuple(span.column for span in layout.spans if not span.whole)


def test_rows_come_back_canonical(case: Any) -> None:
    back = _there_and_back(case)
    pd.testing.assert_frame_equal(back, conform(back, case.modeled, part=True))
    assert back.dtypes.equals(case.frame[list(case.schema.modeled)].dtypes)
    assert back.index.equals(pd.RangeIndex(len(case.frame)))


def test_missing_values_stay_missing_and_no_others_become_so(case: Any) -> None:
    back = _there_and_back(case)
    for name in case.schema.modeled:
        assert (back[name].isna().to_numpy() == case.frame[name].isna().to_numpy()).all()


def test_rows_that_a_network_made_are_canonical(case: Any) -> None:
    rng, layout = np.random.default_rng(2), case.encoding.layout
    codes = np.column_stack([rng.integers(0, size, 500) for size in layout.sizes]).astype(layout.dtype)
    scalars = rng.choice([-1, -0.5, 0, 0.123, 1], (500, len(layout.scalars))).astype(np.float32)
    back = case.encoding.invert(Encoded(codes, scalars), rng)
    for name in case.schema.modeled:
        if not case.schema.columns[name].missing:
            assert back[name].notna().all()
    pd.testing.assert_frame_equal(back, conform(back, case.modeled, part=True))


def test_the_same_generator_gives_the_same_rows_and_the_table_is_not_touched(case: Any) -> None:
    before = case.frame.copy(deep=True)
    first, second = _apply(case, seed=3), _apply(case, seed=3)
    np.testing.assert_array_equal(first.codes, second.codes)
    np.testing.assert_array_equal(first.scalars, second.scalars)
    pd.testing.assert_frame_equal(case.frame, before)


def test_no_rows_are_encoded_as_no_rows(case: Any) -> None:
    encoded = case.encoding.apply(case.frame.iloc[:0], np.random.default_rng(0))
    assert len(encoded) == 0
    back = case.encoding.invert(encoded, np.random.default_rng(0))
    assert list(back) == list(case.schema.modeled) and len(back) == 0


def test_an_encoding_that_was_saved_encodes_the_same(case: Any) -> None:
    content = json.loads(json.dumps(case.encoding.to_plain(), allow_nan=False))
    loaded = type(case.encoding).from_plain(content, case.schema)
    assert loaded.layout == case.encoding.layout
    encoded, again = _apply(case), loaded.apply(case.frame, np.random.default_rng(0))
    np.testing.assert_array_equal(encoded.codes, again.codes)
    np.testing.assert_array_equal(encoded.scalars, again.scalars)
    back = loaded.invert(again, np.random.default_rng(1))
    pd.testing.assert_frame_equal(back, _there_and_back(case))


def test_a_value_of_the_table_is_looked_for_where_it_was_put(case: Any) -> None:
    encoding, encoded = case.encoding, _apply(case)
    for place, span in enumerate(encoding.layout.spans):
        for row in range(0, len(case.frame), max(len(case.frame) // 20, 1)):
            match = encoding.match(span.column, case.frame[span.column].iloc[row : row + 1])
            code = encoded.codes[row, place]
            assert match.weights.shape == (span.size,) and match.weights.min() >= 0 and match.weights.max() == 1
            assert (match.scalars is None) == span.whole
            scalar = None if span.whole else encoded.scalars[row, encoding.layout.scalars.index(span.column)]
            if scalar is not None and abs(scalar) >= np.float32(EDGE):
                continue  # beyond the reach of its bell, so that nobody will find it there
            assert match.weights[code] > 0
            assert match.scalars is not None or match.weights.sum() == 1
            if match.scalars is not None and not np.isnan(match.scalars[code]):
                assert match.scalars[code] == pytest.approx(scalar, abs=1e-6)


def test_no_other_column_can_be_looked_up(case: Any) -> None:
    with pytest.raises(KeyError):
        case.encoding.match("unknown", pd.Series([1]))


def test_whole_spans_come_back_exactly_and_bells_within_float32(modal: Any) -> None:
    encoded = _apply(modal)
    back = modal.encoding.invert(encoded, np.random.default_rng(1))
    parts = zip(modal.encoding.discretizer.attributes, modal.encoding.columns, strict=True)
    for place, (attribute, column) in enumerate(parts):
        before, after = modal.frame[attribute.name], back[attribute.name]
        if isinstance(column, Categories):
            pd.testing.assert_series_equal(before, after, check_index=False)
            continue
        scalars = np.zeros(len(before))
        if column.has_scalar:
            scalars = encoded.scalars[:, modal.encoding.layout.scalars.index(attribute.name)].astype(np.float64)
        kept = (np.abs(scalars) < np.float32(EDGE)) & before.notna().to_numpy()
        assert (kept | before.isna().to_numpy()).mean() > 0.99
        old, new = numeric_scale.positions(before, attribute.column), numeric_scale.positions(after, attribute.column)
        allowed = _allowed(column, encoded.codes[:, place], old, numeric_scale.step(attribute.column))
        assert (np.abs(new - old)[kept] <= allowed[kept]).all()


def _allowed(column: Modes, codes: np.ndarray, values: np.ndarray, step: float | None) -> np.ndarray:
    """How far a value may be from what it was: nothing for an atom; else what float32 tells apart in its bell."""
    bells = np.concatenate([np.zeros(len(column.atoms)), column.deviations, [0.0]])[codes]
    allowed = WIDTH * bells * 2.0**-23
    if column.log:  # relative to the value
        allowed = np.expm1(allowed + 1e-12 * (bells > 0)) * (1 + np.abs(values))
    inexact = (bells > 0) | (np.abs(values) > 2.0**53)
    rounded = np.where(inexact, 1e-9 * (step or 0.0) + 2 * np.spacing(np.abs(values)), 0.0)
    near = allowed + rounded
    return near if step is None else np.where(near < 0.5 * step, rounded, near + step)


@pytest.mark.parametrize("n_bins", [None, 7])
def test_bins_come_back_as_the_same_codes(n_bins: int | None, frame: pd.DataFrame, schema: Schema) -> None:
    by_schema = Discretizer.by_schema(schema)
    encoding = BinnedEncoding(by_schema if n_bins is None else Discretizer.by_quantiles(schema, frame, n_bins))
    encoded = encoding.apply(frame, np.random.default_rng(0))
    again = encoding.apply(encoding.invert(encoded, np.random.default_rng(1)), np.random.default_rng(2))
    np.testing.assert_array_equal(encoded.codes, again.codes)


def test_bins_are_the_discretizers_codes(frame: pd.DataFrame, schema: Schema) -> None:
    encoding = BinnedEncoding(Discretizer.by_schema(schema))
    np.testing.assert_array_equal(
        encoding.apply(frame, np.random.default_rng(0)).codes, encoding.discretizer.encode(frame)
    )


def test_a_computed_column_is_not_encoded() -> None:
    schema = build_schema(
        {
            "status": "declared",
            "columns": {name: {"kind": "integer", "bounds": [0, 20]} for name in ("a", "b", "total")},
            "constraints": [{"kind": "formula", "column": "total", "expression": "a + b"}],
        }
    )
    frame = conform(pd.DataFrame({"a": [1, 2, 3], "b": [4, 5, 6], "total": [5, 7, 9]}), schema)
    encoding = ModalEncoding.fit(frame, schema, np.random.default_rng(0))
    assert [span.column for span in encoding.layout.spans] == ["a", "b"]


@pytest.mark.parametrize("column", ["x", "c"])
def test_rows_of_another_table_are_refused_and_never_coded_as_something_else(column: str) -> None:
    schema = build_schema(
        {
            "status": "declared",
            "columns": {
                "x": {"kind": "real", "bounds": [0, 9], "missing": True},
                "c": {"kind": "categorical", "categories": ["a", "b"], "missing": True},
            },
        }
    )
    frame = conform(pd.DataFrame({"x": [1.0, 2.0] * 5, "c": ["a"] * 10}), schema)
    encoding = ModalEncoding.fit(frame, schema, np.random.default_rng(0))
    for value in (None, 3.0 if column == "x" else "b"):
        other = conform(frame.astype(object).assign(**{column: [value] * 10}), schema, part=True)
        with pytest.raises(ValueError, match="the table that"):
            encoding.apply(other, np.random.default_rng(0))
        assert not encoding.match(column, other[column].iloc[:1]).weights.any()


@pytest.mark.parametrize("kind", ["modal", "binned"])
def test_what_encoding_needs_on_the_way_does_not_grow_with_the_table(kind: str) -> None:
    n, rng = 1_000_000, np.random.default_rng(0)
    schema = build_schema(
        {
            "status": "declared",
            "columns": {
                "x": {"kind": "real", "bounds": [-1e6, 1e6]},
                "c": {"kind": "categorical", "categories": ["a", "b"]},
            },
        }
    )
    frame = pd.DataFrame({"x": rng.normal(size=n), "c": np.array(["a", "b"], dtype=object)[rng.integers(0, 2, n)]})
    by_bins = BinnedEncoding(Discretizer.by_schema(schema))
    encoding = by_bins if kind == "binned" else ModalEncoding.fit(frame.iloc[:10_000], schema, rng)
    tracemalloc.start()
    try:
        encoded = encoding.apply(frame, rng)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # One float64 a row would be 8 MB, and one a row and bell 80.
    assert peak - encoded.codes.nbytes - encoded.scalars.nbytes < 24e6


def test_a_table_without_rows_gives_columns_that_are_missing(frame: pd.DataFrame, schema: Schema) -> None:
    encoding = ModalEncoding.fit(frame.iloc[:0], schema, np.random.default_rng(0))
    assert set(encoding.layout.sizes) == {1} and encoding.layout.scalars == ()
