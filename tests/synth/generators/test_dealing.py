"""Keys within an entity: rows change hands until no entity holds a value twice, and nothing else changes."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from synth.errors import ModelError, SchemaError
from synth.generators import registry
from synth.generators.models.postprocess import add_unlearned, deal
from synth.schema import Schema, build_schema

COLUMNS: dict[str, Any] = {
    "who": {"kind": "identifier", "template": "P-####"},
    "visit": {"kind": "integer", "bounds": [1, 500], "missing": True},
    "sex": {"kind": "categorical", "categories": ["f", "m"]},
}


def schema(*columns: str, **more: Any) -> Schema:
    content = {"status": "declared", "n_units": 500, "entity": "who", "max_rows_per_unit": 3, "columns": COLUMNS}
    return build_schema({**content, "constraints": [{"kind": "unique", "columns": columns}], **more})


def rows(n_values: int, n: int = 300, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    visit = pd.array(rng.integers(1, n_values + 1, n), dtype="Int64")
    return pd.DataFrame({"visit": visit, "sex": rng.choice(["f", "m"], n)})


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (["who"], "an entity may have several rows"),
        (["other", "visit"], "column='other' is of kind identifier, which never repeats by itself"),
    ],
)
def test_a_key_holds_more_than_the_entity_and_no_other_identifier(columns: list[str], words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        schema(*columns, columns={**COLUMNS, "other": {"kind": "identifier", "template": "##"}})


def test_rows_are_dealt_for_one_key() -> None:
    keys = [{"kind": "unique", "columns": ["who", name]} for name in ("visit", "sex")]
    with pytest.raises(SchemaError, match=r"constraints\.1 is a second key"):
        schema("who", "visit", constraints=keys)


@pytest.mark.parametrize("n_values", [400, 20, 3])
def test_no_entity_holds_a_value_twice_and_sizes_stay(n_values: int) -> None:
    owner = np.repeat(np.arange(100), 3)
    drawn = rows(n_values)
    if n_values == 3:  # every entity needs each of the three values
        drawn["visit"] = pd.array(np.random.default_rng(0).permutation(np.tile([1, 2, 3], 100)), dtype="Int64")
    dealt = deal(drawn, owner, schema("who", "visit"), np.random.default_rng(1))
    assert not drawn.assign(who=dealt).duplicated(["who", "visit"]).any()
    assert (np.bincount(dealt) == 3).all()


def test_rows_change_hands_among_entities_that_agree_only() -> None:
    drawn = rows(30).sort_values("sex").reset_index(drop=True)
    owner = np.repeat(np.arange(150), 2)
    first_m = int((drawn["sex"] == "f").sum())
    owner[first_m:] += first_m % 2  # no entity has both
    made = schema("who", "visit", constant_in_entity=["sex"])
    dealt = deal(drawn, owner, made, np.random.default_rng(1))
    table = drawn.assign(who=dealt)
    assert not table.duplicated(["who", "visit"]).any()
    assert len(table.drop_duplicates(["who", "sex"])) == len(table.drop_duplicates("who"))


def test_a_missing_part_repeats_nothing_and_nothing_changes_without_a_key() -> None:
    drawn = rows(5).assign(visit=pd.array([pd.NA] * 300, dtype="Int64"))
    owner = np.repeat(np.arange(100), 3)
    assert deal(drawn, owner, schema("who", "visit"), np.random.default_rng(0)) is owner
    assert deal(rows(1), owner, schema("visit"), np.random.default_rng(0)) is owner


def test_what_no_way_of_dealing_keeps_is_said() -> None:
    with pytest.raises(ModelError, match="cannot be dealt to entities so that 'who' and 'visit' never repeat together"):
        deal(rows(2), np.repeat(np.arange(100), 3), schema("who", "visit"), np.random.default_rng(0))


def test_rows_of_an_entity_stay_together_and_rows_stay_whole() -> None:
    drawn = rows(10)
    table = add_unlearned(drawn, schema("who", "visit"), (0.2, 0.3, 0.5), np.random.default_rng(0))
    assert not table.duplicated(["who", "visit"]).any()
    assert (table["who"] != table["who"].shift()).sum() == table["who"].nunique()
    pd.testing.assert_frame_equal(
        *(t.sort_values(["visit", "sex"], ignore_index=True)[["visit", "sex"]] for t in (drawn, table))
    )


def test_a_fitted_generator_keeps_the_key_of_its_entities() -> None:
    made = schema("who", "visit")
    train = rows(40).assign(who=[f"P-{i // 3:04d}" for i in range(300)])
    table = registry.generator("independent").fit(train, made, seed=0).sample(300, seed=1)
    assert table["who"].duplicated().any()
    assert not table.dropna().duplicated(["who", "visit"]).any()
