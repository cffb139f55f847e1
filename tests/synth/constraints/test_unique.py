"""Values that never repeat: what is refused, which rows repeat, and that sampling keeps it within its bounds."""

import datetime as dt
import tomllib
from typing import Any

import numpy as np
import pandas as pd
import pytest

from synth.constraints import Unique
from synth.declare import assertions, declare_schema, measurable
from synth.domain.constraint_checks import broken, repeated
from synth.errors import ModelError, SchemaError
from synth.generators import registry
from synth.generators.models.constraints import MAX_OVERSAMPLED, REJECTED, draw_lawful
from synth.schema import Schema, build_schema
from synth.schema_file import to_toml

CONTENT: dict[str, Any] = {
    "status": "declared",
    "n_units": 300,
    "columns": {
        "id": {"kind": "identifier", "template": "A##"},
        "store": {"kind": "categorical", "categories": ["a", "b", "c"]},
        "day": {"kind": "integer", "bounds": [1, 100]},
        "sold": {"kind": "real", "bounds": [0, 9], "decimals": 1, "missing": True},
        "at": {
            "kind": "datetime", "bounds": ["2020-01-01T00:00:00", "2020-01-02T00:00:00"], "timezone": "mixed",
        },
    },
}  # fmt: skip


def schema(*columns: str, **more: Any) -> Schema:
    return build_schema({**CONTENT, "constraints": [{"kind": "unique", "columns": columns, **more}]})


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ([], ["constraints.0.columns", "at least 1"]),
        (["store", "store"], ["columns repeat", "name each once"]),
        (["stor"], ["'stor' is not a column", "'store'"]),
        (["id"], ["'id' is of kind identifier", "take it out"]),
    ],
)
def test_a_key_that_cannot_be_is_refused_in_one_clear_sentence(columns: list[str], words: list[str]) -> None:
    with pytest.raises(SchemaError) as refused:
        schema(*columns)
    assert all(word in str(refused.value) for word in words), str(refused.value)


def test_a_schema_file_carries_keys_and_declaring_asserts_them() -> None:
    made = schema("store", "day")
    assert build_schema(tomllib.loads(to_toml(made))) == made
    assert ("table", "'store' and 'day' never repeat together, wherever none of them is missing, and this is public "
            "knowledge, not read off this table") in assertions(made)  # fmt: skip
    assert str(schema("day").constraints[0]) == "'day' never repeats"


def test_all_rows_that_repeat_each_other_break_a_key_and_a_missing_part_is_never_compared() -> None:
    rows = pd.DataFrame({"store": ["a", "b", "a", "a", "b"], "sold": [1.0, 1.0, 1.0, np.nan, np.nan]})
    made = schema("store", "sold")
    assert broken(rows, made.constraints[0], made.columns).tolist() == [True, False, True, False, False]
    unique = Unique(columns=("store", "sold"))
    assert repeated(rows, unique, made.columns, keep="first").tolist() == [False, False, True, False, False]


def test_one_instant_with_two_offsets_repeats() -> None:
    noon = dt.datetime(2020, 1, 1, 12, tzinfo=dt.UTC)
    same = noon.astimezone(dt.timezone(dt.timedelta(hours=2)))
    rows = pd.DataFrame({"at": pd.Series([noon, same, noon + dt.timedelta(hours=1)], dtype=object)})
    made = schema("at")
    assert broken(rows, made.constraints[0], made.columns).tolist() == [True, True, False]


def test_whole_numbers_beyond_float64_are_told_apart() -> None:
    made = build_schema({"status": "declared", "columns": {"n": {"kind": "integer", "bounds": [0, 2**62]}}})
    rows = pd.DataFrame({"n": pd.array([2**60, 2**60 + 1], dtype="Int64")})
    assert not broken(rows, Unique(columns=("n",)), made.columns).any()


def drawer(seed: int = 0, calls: list[int] | None = None) -> Any:
    rng = np.random.default_rng(seed)

    def draw(n: int) -> pd.DataFrame:
        if calls is not None:
            calls.append(n)
        return pd.DataFrame({
            "store": rng.choice(["a", "b", "c"], n, p=[0.8, 0.15, 0.05]),
            "day": pd.array(rng.integers(1, 101, n), dtype="Int64"),
            "sold": rng.integers(0, 90, n) / 10,
            "at": [dt.datetime(2020, 1, 1, tzinfo=dt.UTC)] * n,
        })  # fmt: skip

    return draw


def test_drawn_rows_never_repeat_though_every_value_is_needed() -> None:
    calls: list[int] = []
    table = draw_lawful(drawer(calls=calls), 300, schema("store", "day"))
    assert len(table) == 300
    assert not table.duplicated(["store", "day"]).any()
    assert table["store"].value_counts().to_dict() == {"a": 100, "b": 100, "c": 100}
    assert table.attrs[REJECTED] > 0
    assert max(calls) <= max(MAX_OVERSAMPLED * 300, 20_000)


def test_more_rows_than_there_are_values_are_refused_before_anything_is_drawn() -> None:
    calls: list[int] = []
    with pytest.raises(ModelError, match="there are 300 values for rows=301; ask for fewer rows"):
        draw_lawful(drawer(calls=calls), 301, schema("store", "day"))
    assert calls == []


def test_values_that_may_be_missing_need_no_room() -> None:
    content = {**CONTENT["columns"], "day": {**CONTENT["columns"]["day"], "bounds": [1, 2], "missing": True}}
    made = build_schema({**CONTENT, "columns": content, "constraints": [{"kind": "unique", "columns": ["day"]}]})
    table = draw_lawful(lambda n: drawer()(n).assign(day=pd.array([pd.NA] * n, dtype="Int64")), 50, made)
    assert len(table) == 50


def test_a_model_that_draws_too_few_values_ends_in_a_sentence_that_names_the_key() -> None:
    with pytest.raises(ModelError, match="most of them break that 'day' never repeats"):
        draw_lawful(lambda n: drawer()(n).assign(day=pd.array([7] * n, dtype="Int64")), 5, schema("day"))


def test_a_fitted_generator_keeps_a_key() -> None:
    made = schema("store", "day")
    train = drawer(1)(200).assign(id=[f"{'AB'[i // 100]}{i % 100:02d}" for i in range(200)])
    model = registry.generator("independent").fit(train, made, seed=0)
    table = model.sample(200, seed=1)
    assert not table.duplicated(["store", "day"]).any()
    assert not table["id"].duplicated().any()


def test_a_declared_schema_holds_no_proposal() -> None:
    with pytest.raises(SchemaError, match=r"constraints\.0 is a proposal.*take its key proposed out"):
        schema("store", "day", proposed="no row repeats another")


def test_declaring_asserts_proposals_and_drops_those_that_tell_values_of_what_is_measured() -> None:
    listed = {"kind": "fixed_combinations", "columns": ["store", "day"], "combinations": [["a", 1]], "proposed": "so"}
    key = {"kind": "unique", "columns": ["store", "day"], "proposed": "so"}
    inferred = build_schema({**CONTENT, "status": "inferred", "constraints": [listed, key]})
    assert {"store", "day"} <= set(measurable(inferred))
    declared = declare_schema(inferred, measure=["store"])
    assert declared.constraints == (Unique(columns=("store", "day")),)
    assert [c.proposed for c in declare_schema(inferred).constraints] == [None, None]
    assert "store" not in measurable(declare_schema(inferred))
