"""Encodings of tables that nobody made for them."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from synth.domain import Discretizer, numeric_scale
from synth.infer import infer_schema
from synth.observed import observe
from synth.schema import Schema
from synth.table import conform, read_table
from synth.transforms.encoding import BinnedEncoding
from synth.transforms.mode_encoding import Categories, ModalEncoding

TABLES = ["adult", "airbnb_nyc", pytest.param("diabetes_hospital", marks=pytest.mark.slow), "insurance"]


@pytest.mark.parametrize("name", TABLES)
def test_a_real_table_comes_back_but_for_one_value_in_a_thousand(
    name: str, shared_table: Callable[[str], Path]
) -> None:
    table = read_table(shared_table(f"{name}.csv.gz"))
    inferred = _without_steps(infer_schema(table))  # which step a value is put on is drawn anew
    frame = conform(table, inferred)
    schema = observe(inferred, frame)
    encoding = ModalEncoding.fit(frame, schema, np.random.default_rng(0))
    encoded = encoding.apply(frame, np.random.default_rng(1))
    back = encoding.invert(encoded, np.random.default_rng(2))
    for attribute, column in zip(encoding.discretizer.attributes, encoding.columns, strict=True):
        before, after = frame[attribute.name], back[attribute.name]
        if isinstance(column, Categories) or not column.has_scalar:
            pd.testing.assert_series_equal(before, after)
            continue
        assert after.dtype == before.dtype and (after.isna() == before.isna()).all()
        old, new = (numeric_scale.positions(part, attribute.column) for part in (before, after))
        same = np.isclose(old, new, rtol=1e-6, atol=0, equal_nan=True)
        assert same.mean() > 0.999
    again = conform(back.join(frame.drop(columns=back.columns))[list(schema.kept)], schema)
    pd.testing.assert_frame_equal(again[list(back)], back)


def _without_steps(schema: Schema) -> Schema:
    none = {"steps": (), "step_shares": ()}
    stepped = {name: column for name, column in schema.columns.items() if getattr(column, "steps", ())}
    changed = {name: column.model_copy(update=none) for name, column in stepped.items()}
    return schema.model_copy(update={"columns": {**schema.columns, **changed}})


def test_bins_of_a_real_table_are_the_discretizers(shared_table: Callable[[str], Path]) -> None:
    table = read_table(shared_table("adult.csv.gz"))
    inferred = infer_schema(table)
    frame = conform(table, inferred)
    encoding = BinnedEncoding(Discretizer.by_schema(observe(inferred, frame)))
    encoded = encoding.apply(frame, np.random.default_rng(0))
    np.testing.assert_array_equal(encoded.codes, encoding.discretizer.encode(frame))
