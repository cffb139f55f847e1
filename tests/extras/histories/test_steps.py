"""Steps that are ruled out: declared, they cost nothing and hold in every synthetic row, whatever the noise."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from benchmarks.history_tables import patients, patients_schema
from synth.generators import registry
from synth.generators.base import PrivateGenerator, compose, fit_model
from synth.row_order import broken_in, histories_of
from synth.schema import Schema, build_schema
from synth.table import conform

RULED_OUT: dict[str, dict[str, Any]] = {
    "stays": {"stays": ["dead"]},
    "last": {"last": ["dead"]},
    "never": {"never": [["dead", "ill"], ["dead", "ward"], ["dead", "well"], ["well", "dead"]]},
}


def schema_with(**steps: Any) -> Schema:
    content = patients_schema(1500).model_dump(mode="json")
    rules = [{"kind": "steps", "column": "state", **steps}] if steps else []
    return build_schema({**content, "constraints": [*content["constraints"], *rules]})


def after(rows: pd.DataFrame, schema: Schema) -> tuple[np.ndarray, np.ndarray]:
    table = conform(rows, schema, part=True)
    now, before = histories_of(table, schema).pairs
    return table["state"].to_numpy()[before], table["state"].to_numpy()[now]


@pytest.mark.parametrize(("name", "rule"), [("mst", "never"), ("trees", "last")])
def test_no_synthetic_row_takes_a_step_that_is_ruled_out(name: str, rule: str) -> None:
    schema, more = schema_with(**RULED_OUT[rule]), {"epsilon": 0.7} if name == "mst" else {"rounds": 10}
    rows = fit_model(registry.generator(name, **more), patients(1500), schema).sample(3000, seed=0)
    before, now = after(rows, schema)
    dead = now[before == "dead"]
    assert set(dead) <= (set() if rule == "last" else {"dead"})
    assert not (rule == "never" and ((before == "well") & (now == "dead")).any())
    assert not broken_in(conform(rows, schema, part=True), schema.constraints[-1], schema).any()


def test_they_cost_no_budget() -> None:
    plain, ruled = schema_with(), schema_with(stays=["dead"])
    schedules = []
    for schema in (plain, ruled):
        generator = compose(registry.generator("mst", epsilon=0.7), schema)
        assert isinstance(generator, PrivateGenerator)
        schedules.append(generator.schedule(schema))
    assert schedules[0] == schedules[1]


REFUSED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"stays": ["gone"]}, {}, "steps name a value that is no category of column='state'"),
    ({"column": "age", "stays": [30]}, {}, "steps are of categories that are declared: column='age'"),
    ({"stays": ["dead"]}, {"order": None, "nondecreasing_in_entity": []}, "the schema names no order"),
]


@pytest.mark.parametrize(("steps", "change", "message"), REFUSED, ids=[refused[2] for refused in REFUSED])
def test_steps_that_say_nothing_are_refused(steps: dict[str, Any], change: dict[str, Any], message: str) -> None:
    content = patients_schema(1500).model_dump(mode="json") | change
    with pytest.raises(ValueError, match=message):
        build_schema({**content, "constraints": [{"kind": "steps", "column": "state", **steps}]})


def test_rows_given_with_their_entity_are_whole_histories() -> None:
    schema = schema_with()
    model = fit_model(registry.generator("trees", rounds=10), patients(600), schema)
    asked = pd.DataFrame({"who": ["P-000002", "P-000001", "P-000002", "P-000002"], "sex": ["m", "f", "m", "m"]})
    rows = model.sample(given=asked, seed=0)
    assert rows["who"].tolist() == asked["who"].tolist()
    assert rows["sex"].tolist() == asked["sex"].tolist()
    assert rows.loc[rows["who"] == "P-000002", "day"].is_monotonic_increasing
    for wrong, message in [
        (asked.assign(sex=["m", "f", "f", "m"]), "given='sex' varies within an entity"),
        (asked[["sex"]], "add the column 'who'"),
        (asked.assign(state="ill"), "column='state' is not in constant_in_entity"),
        (pd.concat([asked] * 40), "entities of more rows than histories have"),
    ]:
        with pytest.raises(ValueError, match=message):
            model.sample(given=wrong)


def test_what_nearly_all_entities_keep_is_kept_as_often() -> None:
    rng = np.random.default_rng(0)
    who, rank = np.repeat(np.arange(1200), 4), np.tile(np.arange(4), 1200)
    group = rng.integers(0, 2, 1200)
    changes = (rng.random(1200) < 0.03)[who] & (rank >= 2)
    names = np.array(["a", "b"], dtype=object)
    table = pd.DataFrame({"who": who, "day": rank, "group": names[group[who] ^ changes]})
    table["size"] = rng.integers(0, 50, len(table))
    columns: dict[str, Any] = {"who": {"kind": "identifier", "bounds": [0, 10**6]}}
    columns |= {name: {"kind": "integer", "bounds": [0, 50]} for name in ("day", "size")}
    columns["group"] = {"kind": "categorical", "categories": [*names]}
    schema = build_schema({"status": "inferred", "entity": "who", "order": "day", "columns": columns})
    synthetic = fit_model(registry.generator("trees", rounds=30), table, schema).sample(seed=1)
    shares = [
        (rows.groupby("who")["group"].agg(lambda of_one: len({*of_one})) > 1).mean() for rows in (table, synthetic)
    ]
    assert abs(shares[0] - shares[1]) < 0.012, shares
