"""Rows have equal keys where they are equal, to the last digit, and nowhere else; orders rest on keys alone."""

import numpy as np
import pandas as pd
import pytest

from synth.row_hash import content_keys, content_sums, tickets
from synth.schema import Schema, build_schema
from synth.table import conform


def schema_of(**columns: object) -> Schema:
    return build_schema({"status": "declared", "columns": columns})


ANY = {
    "x": {"kind": "real", "bounds": [-1e15, 1e15], "missing": True},
    "word": {"kind": "categorical", "categories": ["a", "b"], "missing": True},
    "name": {"kind": "identifier", "template": "P####", "missing": True},
    "mail": {"kind": "personal", "personal": "email", "missing": True},
}


def table(**changed: object) -> pd.DataFrame:
    rows = {"x": [0.5, np.nan, -3.0], "word": ["a", "b", None], "name": ["P1", "P2", None], "mail": ["m", None, "n"]}
    return conform(pd.DataFrame({**rows, **changed}), schema_of(**ANY), outside="clamp")


def test_floats_are_told_apart_to_the_last_digit() -> None:
    near = [x for start in (0.5, -1.0, 3.3, 12345.678, -9.9e14) for x in (start, float(np.nextafter(start, 2e15)))]
    frame = pd.DataFrame({"x": [*near, 0.0, -0.0, np.nan, np.nan]})
    keys = content_keys(frame, schema_of(x=ANY["x"]))
    assert len(set(keys[: len(near)].tolist())) == len(near)
    assert keys[-4] == keys[-3] and keys[-2] == keys[-1] != keys[-3]


def test_numbers_of_a_few_decimals_are_equal_whatever_noise_they_carry() -> None:
    column = {"kind": "real", "bounds": [0.0, 10.0], "decimals": 1}
    keys = content_keys(pd.DataFrame({"x": [0.1 + 0.2, 0.3, 0.4]}), schema_of(x=column))
    assert keys[0] == keys[1] != keys[2]


@pytest.mark.parametrize("bounds", [[-1e300, 1e300], [0.0, 1e-300], [0.0, 0.0], [5.0, 5.0]])
def test_bounds_of_any_size_give_keys(bounds: list[float]) -> None:
    places = np.linspace(*bounds, 50)
    keys = content_keys(pd.DataFrame({"x": places}), schema_of(x={"kind": "real", "bounds": bounds}))
    assert len(np.unique(keys)) == len(np.unique(places))


def test_whole_numbers_and_times_beyond_float64_have_the_keys_of_their_floats() -> None:
    columns = {"n": {"kind": "integer", "bounds": [-(2**63), 2**63 - 1]}}
    frame = pd.DataFrame({"n": pd.array([2**62, 2**62 + 4096, 2**63 - 1, -(2**63)], dtype="Int64")})
    assert len(np.unique(content_keys(frame, schema_of(**columns)))) == 4


def test_rows_without_a_learned_column_are_all_equal() -> None:
    frame = conform(pd.DataFrame({"name": ["P1", "P2"]}), schema_of(name=ANY["name"]))
    assert len(set(content_keys(frame, schema_of(name=ANY["name"])).tolist())) == 1


def test_tickets_depend_on_seed_key_and_count_alone() -> None:
    keys = np.array([1, 1, 2], dtype=np.uint64)
    found = tickets(keys, np.array([0, 1, 0]), 7)
    assert len(set(found.tolist())) == 3
    assert tickets(keys[::-1], np.array([0, 1, 0]), 7).tolist() == [found[2], found[1], found[0]]
    assert tickets(keys, np.array([0, 1, 0]), 8).tolist() != found.tolist()


@pytest.mark.parametrize(
    "changed",
    [
        {"x": [0.5, np.nan, -3.0000000000000004]}, {"x": [0.5, 0.0, -3.0]}, {"word": ["a", "b", "a"]},
        {"word": ["b", "a", None]}, {"name": ["P1", "P2", "-"]}, {"name": ["P1", "P2 ", None]},
        {"name": ["P1", "P3", None]}, {"mail": ["M", None, "n"]}, {"name": ["P1|1:m", "P2", None]},
    ],
)  # fmt: skip
def test_sums_tell_any_changed_cell(changed: dict[str, object]) -> None:
    assert content_sums(table(**changed), schema_of(**ANY)) != content_sums(table(), schema_of(**ANY))


def test_sums_are_the_same_in_any_order_and_tell_repeated_rows() -> None:
    schema, rows = schema_of(**ANY), table()
    turned = rows.iloc[::-1, ::-1].reset_index(drop=True)
    assert content_sums(turned, schema) == content_sums(rows, schema)
    assert content_sums(pd.concat([rows, rows.head(1)], ignore_index=True), schema) != content_sums(rows, schema)
    assert content_sums(rows.head(0), schema).n_rows == 0
