"""The neighboring tables of an audit: a target that shares no value with the other rows, and the schema's own unit."""

from typing import Any

from evaluate.privacy.audit.neighboring_tables import N_ROWS, Worlds
from synth.generators.marginal_generator import Independent
from synth.schema import Schema, build_schema

COLUMNS: dict[str, Any] = {
    "town": {"kind": "categorical", "categories": ["North", "South", "East"]},
    "ill": {"kind": "boolean"},
}
EVERY_KIND: dict[str, Any] = {
    **COLUMNS,
    "age": {"kind": "integer", "bounds": [18, 90]},
    "income": {"kind": "real", "bounds": [0.0, 200.0], "decimals": 1, "missing": True},
    "weight": {"kind": "weight", "bounds": [0.5, 2.0]},
    "born": {"kind": "date", "bounds": ["1930-01-01", "2005-12-31"]},
    "seen": {"kind": "datetime", "bounds": ["2020-01-01T00:00:00", "2024-01-01T00:00:00"], "precision": "s"},
    "zoned": {"kind": "datetime", "bounds": ["2020-01-01T00:00:00", "2024-01-01T00:00:00"], "timezone": "UTC"},
    "code": {"kind": "categorical", "categories": [7, 9]},
    "one": {"kind": "categorical", "categories": ["only"]},
    "never": {"kind": "categorical", "categories": [], "missing": True},
    "flag": {"kind": "integer", "bounds": [0, 1]},
    "unknown": {"kind": "categorical", "measure": True},
    "wide": {"kind": "real", "measure": True},
}


def schema_of(columns: dict[str, Any] = COLUMNS, **more: Any) -> Schema:
    return build_schema({"status": "declared", "n_units": 1_000, "columns": columns, **more})


def entities(k: int) -> Schema:
    who = {"who": {"kind": "identifier", "bounds": [0, 10**6]}}
    return schema_of({**COLUMNS, **who}, entity="who", max_rows_per_unit=k)


def test_a_stand_in_covers_every_kind_of_column_and_its_target_is_alone_in_each() -> None:
    schema = schema_of(EVERY_KIND)
    worlds = Worlds.stand_in(schema)
    assert len(worlds.rows) == N_ROWS
    assert worlds.target.shape == (1, len(schema.learned))
    for name in schema.learned:
        shared = worlds.rows[name].isin(worlds.target[name].tolist())
        assert bool(shared.any()) == (name in {"one", "never"}), name  # one value has no other
    Independent(epsilon=1.0).fit(worlds.table(present=True), worlds.schema)


def test_a_stand_in_has_the_unit_of_the_schema_and_a_target_with_more_rows_than_count() -> None:
    worlds = Worlds.stand_in(entities(4))
    assert worlds.schema.max_rows_per_unit == 4
    assert len(set(worlds.target["who"])) == 1
    assert len(worlds.target) == 12
    assert not worlds.rows["who"].isin(worlds.target["who"]).any()
