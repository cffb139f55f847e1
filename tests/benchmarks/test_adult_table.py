"""Adult's codes: a value becomes the code of its bin or category, and a code a value of the same."""

import tomllib

import numpy as np
import pandas as pd
import pytest

from benchmarks.adult_table import SCHEMA, Codes
from synth.schema import Schema, build_schema


@pytest.fixture(scope="module")
def schema() -> Schema:
    return build_schema(tomllib.loads(SCHEMA.read_text()))


@pytest.fixture(scope="module")
def codes(schema: Schema) -> pd.DataFrame:
    """Every code of every column, some often."""
    sizes = Codes(schema).sizes
    rng = np.random.default_rng(0)
    longest = max(sizes.values())
    every = {name: np.arange(longest) % size for name, size in sizes.items()}
    some = {name: rng.integers(0, size, 500) for name, size in sizes.items()}
    return pd.concat([pd.DataFrame(every), pd.DataFrame(some)], ignore_index=True)


def test_codes_become_values_and_the_same_codes_again(schema: Schema, codes: pd.DataFrame) -> None:
    coder = Codes(schema)
    again = coder.encode(coder.decode(codes, np.random.default_rng(1)))
    pd.testing.assert_frame_equal(again, codes, check_dtype=False)


def test_values_keep_bounds_and_categories(schema: Schema, codes: pd.DataFrame) -> None:
    decoded = Codes(schema).decode(codes, np.random.default_rng(2))
    for name, column in schema.columns.items():
        values = decoded[name].dropna()
        if column.is_whole:
            assert values.between(*column.bounds).all()
        else:
            assert set(values) == set(column.categories)  # type: ignore[union-attr]


def test_a_code_that_is_missing_or_unknown_is_drawn_from_the_others_of_its_column(
    schema: Schema, codes: pd.DataFrame
) -> None:
    coder, name = Codes(schema), "sex"
    broken = codes.assign(**{name: 1}).astype({name: object})
    broken.loc[:2, name] = [None, 99, -1]
    decoded = coder.decode(broken, np.random.default_rng(3))
    assert (coder.encode(decoded)[name] == 1).all()
