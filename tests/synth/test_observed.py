"""Domains that nobody declared, read off a table: the least and the greatest value, and every category there is."""

import datetime as dt
from typing import Any

import numpy as np
import pandas as pd
import pytest

from synth.domain import Discretizer
from synth.observed import observe
from synth.schema import Schema, build_schema
from synth.table import conform, violations

KINDS: dict[str, dict[str, Any]] = {
    "whole": {"kind": "integer"},
    "real": {"kind": "real", "decimals": 1},
    "weight": {"kind": "weight"},
    "day": {"kind": "date"},
    "wall": {"kind": "datetime"},
    "zoned": {"kind": "datetime", "timezone": "Europe/Paris"},
    "mixed": {"kind": "datetime", "timezone": "mixed"},
    "town": {"kind": "categorical"},
    "code": {"kind": "categorical", "whole_numbers": True},
}


def to_measure(**changes: Any) -> Schema:
    columns = {name: {**column, "measure": True, **changes} for name, column in KINDS.items()}
    return build_schema({"status": "declared", "columns": {**columns, "ill": {"kind": "boolean", "missing": True}}})


def table(shift: int = 0) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "whole": [3 + shift, -2, 3],
            "real": [0.5, 2.5 + shift, 1.0],
            "weight": [1.25, 0.5, 0.75],
            "day": ["2001-05-06", "1999-12-31", "2000-01-01"],
            "wall": ["2001-05-06T07:08:09", "1999-12-31T00:00:00", "2000-01-01T00:00:00"],
            "zoned": ["2001-05-06T02:00:00+02:00", "1999-12-31T01:00:00+01:00", "2000-01-01T00:00:00+00:00"],
            "mixed": ["2001-05-06T02:00:00+02:00", "1999-12-31T05:00:00+05:00", "2000-01-01T00:00:00+00:00"],
            "town": ["b", "a" if shift == 0 else "z", "b"],
            "code": [7, 2, 7 + shift],
            "ill": [True, False, None],
        }
    )


def test_every_domain_is_what_the_tables_hold_together() -> None:
    schema = to_measure()
    seen = observe(schema, conform(table(), schema), conform(table(5), schema))
    got: dict[str, Any] = {
        name: getattr(column, "bounds", None) or getattr(column, "categories", None)
        for name, column in seen.columns.items()
    }
    assert got == {
        "whole": (-2, 8),
        "real": (0.5, 7.5),
        "weight": (0.5, 1.25),
        "day": (dt.date(1999, 12, 31), dt.date(2001, 5, 6)),
        "wall": (dt.datetime(1999, 12, 31), dt.datetime(2001, 5, 6, 7, 8, 9)),
        "zoned": (dt.datetime(1999, 12, 31), dt.datetime(2001, 5, 6)),
        "mixed": (dt.datetime(1999, 12, 31), dt.datetime(2001, 5, 6)),
        "town": ("a", "b", "z"),
        "code": (2, 7, 12),
        "ill": None,
    }
    assert seen.measured == ()


def test_what_comes_out_is_a_schema_that_the_table_fits() -> None:
    schema = to_measure()
    rows = conform(table(), schema)
    seen = observe(schema, rows)
    assert Schema.model_validate(seen.model_dump(mode="json")) == seen
    assert violations(rows, seen) == []
    pd.testing.assert_frame_equal(conform(table(), seen), rows)
    pd.testing.assert_frame_equal(conform(table(), seen, outside="clamp"), rows)


def test_a_schema_with_nothing_to_measure_comes_back_itself() -> None:
    schema = build_schema({"status": "declared", "columns": {"ill": {"kind": "boolean"}}})
    assert observe(schema, pd.DataFrame({"ill": [True]})) is schema


@pytest.mark.parametrize("rows", [0, 4])
@pytest.mark.parametrize("outer", [False, True])
def test_columns_without_a_value_still_get_a_domain_with_codes(rows: int, outer: bool) -> None:
    schema = to_measure()
    if outer:
        limits: dict[str, Any] = {
            "whole": (5, 9), "real": (-9.0, -5.0), "day": (dt.date(2000, 1, 1), dt.date(2001, 1, 1))
        }  # fmt: skip
        narrowed = {name: schema.columns[name].model_copy(update={"bounds": ends}) for name, ends in limits.items()}
        schema = schema.model_copy(update={"columns": {**schema.columns, **narrowed}})
    empty = conform(
        pd.DataFrame({name: [None] * rows for name in schema.columns}, dtype=object), schema, outside="clamp"
    )
    seen = observe(schema, empty)
    assert Schema.model_validate(seen.model_dump(mode="json")) == seen
    for discretizer in (Discretizer.by_schema(seen), Discretizer.by_quantiles(seen, empty)):
        rng = np.random.default_rng(0)
        codes = np.column_stack([rng.integers(0, size, 50) for size in discretizer.sizes.values()])
        assert len(discretizer.decode(codes, rng)) == 50
        assert discretizer.decode(discretizer.encode(empty), rng).isna().all(axis=None)
