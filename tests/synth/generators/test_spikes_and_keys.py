"""Frequent values that a fit measures, and how rows are dealt to the entities of a key."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from synth.dp.budget import Budget
from synth.dp.events import StabilityEvent
from synth.dp.mechanisms import NoNoise
from synth.errors import ModelError, SchemaError
from synth.generators import registry
from synth.generators.base import PrivateGenerator
from synth.generators.fitting.columns import measure_domain
from synth.generators.fitting.training_data import TrainingTable
from synth.generators.marginal_generator import Independent
from synth.generators.models.postprocess import deal, finish
from synth.infer import infer_schema
from synth.schema import Schema, build_schema
from synth.schema.kinds.number import MOST_SPIKES
from synth.table import conform
from tests.chunks import in_chunks

N_ROWS = 5_000
HEAVY, OF_ONE = 123_457, 777_777
ASKED: dict[str, Any] = {"measure_spikes": True}


def schema_of(x: dict[str, Any] | None = None, **changes: Any) -> Schema:
    amount = {"kind": "integer", "bounds": [0, 10**6], **ASKED} if x is None else x
    columns = {"x": amount, "side": {"kind": "categorical", "categories": ["a", "b"]}, **changes.pop("columns", {})}
    return build_schema({"status": "declared", "n_units": N_ROWS, "columns": columns, **changes})


def table(heavy: float = HEAVY, share: float = 0.08) -> pd.DataFrame:
    """Amounts that hardly repeat, but for one."""
    rng = np.random.default_rng(0)
    amounts = rng.integers(0, 10**6, N_ROWS).astype(float)
    amounts[: round(share * N_ROWS)] = heavy
    return pd.DataFrame({"x": amounts, "side": rng.choice(["a", "b"], N_ROWS)})


def measured(frame: pd.DataFrame, schema: Schema, *, exact: bool = True, epsilon: float = 1.0) -> Any:
    """The column after its domain is measured, without noise unless said."""
    schedule = Independent(epsilon=epsilon).schedule(schema)
    assert schedule is not None
    rows = TrainingTable.of(conform(frame, schema, outside="clamp", part=True), schema)
    found = measure_domain(rows, schema, Budget(schedule, NoNoise()) if exact else Budget(schedule))
    assert found.measured == found.spikes_measured == ()
    assert build_schema(found.model_dump()) == found
    return found.columns["x"]


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["independent", "mst", "aim", "latent_class"])
def test_a_heavy_value_is_named_and_drawn_as_often_as_it_is_there(name: str) -> None:
    shares = []
    for schema in (schema_of(), schema_of({"kind": "integer", "bounds": [0, 10**6]})):
        generator = registry.generator(name, epsilon=1.0, delta=1e-6)
        model = generator.fit(table(), schema)
        assert model.schema.spikes_measured == ()
        shares.append((model.sample(N_ROWS, seed=0)["x"] == HEAVY).mean())
    # Noise of the columns' cells is about 8 rows; that of drawing 19.
    assert shares[0] == pytest.approx(0.08, abs=0.025)
    assert shares[1] < 0.005


@pytest.mark.statistical
def test_a_value_of_one_unit_is_not_named() -> None:
    k, who = 20, {"who": {"kind": "identifier", "bounds": [0, 9999]}}
    frame = table(HEAVY, 0.5).assign(who=np.arange(N_ROWS) % 1_000)
    frame.loc[frame["who"] == 999, "x"] = OF_ONE
    schema = schema_of(columns=who, entity="who", max_rows_per_unit=k)
    for _ in range(20):
        assert OF_ONE not in measured(frame, schema, exact=False, epsilon=4.0).spikes
    for _ in range(20):
        assert set(measured(table(), schema_of(), exact=False, epsilon=4.0).spikes) == {HEAVY}


def test_values_are_named_from_the_threshold_on() -> None:
    schedule = Independent(epsilon=1.0).schedule(schema_of())
    assert schedule is not None
    event = next(event for event in schedule.events if isinstance(event, StabilityEvent))
    assert event.what == "frequent values of column 'x'"
    assert (event.count, event.sensitivity) == (1, 1)
    frame = pd.DataFrame({"x": [5] * event.threshold + [7] * (event.threshold - 1), "side": "a"})
    assert measured(frame, schema_of()).spikes == (5,)


@pytest.mark.parametrize(
    ("column", "cell", "value"),
    [
        ({"kind": "integer", "bounds": [0, 10]}, 10**9, 10),  # clamped, as the fit reads it
        ({"kind": "integer", "bounds": [0, 10]}, 2.6, 3),
        ({"kind": "real", "bounds": [-1, 1], "decimals": 2}, 0.12499999, 0.12),
        ({"kind": "real", "bounds": [-1, 1]}, -0.0, 0.0),
        ({"kind": "real", "bounds": [-1, 1]}, 0.1 + 0.2, 0.1 + 0.2),
        ({"kind": "weight", "bounds": [0, 5], "decimals": 1}, 1.5, 1.5),
    ],
)
def test_a_cell_is_counted_as_the_fit_reads_it(column: dict[str, Any], cell: float, value: float) -> None:
    frame = pd.DataFrame({"x": [cell] * 1_000, "side": "a"})
    found = measured(frame, schema_of({**column, **ASKED}))
    assert found.spikes == (value,)
    assert str(found.spikes[0]) == str(value)


@pytest.mark.parametrize(
    ("column", "cell"),
    [
        ({"kind": "real", "bounds": [0.005, 1], "decimals": 2}, 0.0),  # clamped to a bound that is no value
        ({"kind": "integer", "bounds": [0, 2**63 - 1]}, 2**60),  # where float64 holds only some whole numbers
        ({"kind": "integer", "bounds": [0, 9], "missing": True}, None),
    ],
)
def test_what_is_no_value_of_the_column_is_not_named(column: dict[str, Any], cell: Any) -> None:
    frame = pd.DataFrame({"x": pd.Series([cell] * 1_000, dtype=object), "side": "a"})
    assert measured(frame, schema_of({**column, **ASKED})).spikes == ()


def test_bounds_are_measured_first_and_values_named_within_them() -> None:
    column = {"kind": "real", "decimals": 0, "measure": True, **ASKED}
    frame = table(40.0, 0.5)
    frame.loc[N_ROWS // 2 :, "x"] = np.random.default_rng(1).integers(1, 64, N_ROWS // 2)
    frame.loc[N_ROWS - 1, "x"] = 1e14
    found = measured(frame, schema_of(column))
    assert found.bounds[1] < 1_000
    assert found.spikes == (40.0,)


def test_the_most_frequent_values_are_named_where_they_are_too_many() -> None:
    values = np.repeat(np.arange(MOST_SPIKES + 30), np.arange(MOST_SPIKES + 30) + 1_000)
    found = measured(pd.DataFrame({"x": values, "side": "a"}), schema_of())
    assert found.spikes == tuple(range(30, MOST_SPIKES + 30))


@pytest.mark.parametrize("kind", ["integer", "real"])
def test_a_fit_without_epsilon_reads_off_what_infer_would_propose(kind: str) -> None:
    amounts = table(share=0.02)["x"] + (0.0 if kind == "integer" else 0.25)
    frame = pd.DataFrame({"x": amounts.astype("int64") if kind == "integer" else amounts})
    proposed: Any = infer_schema(frame).columns["x"]
    assert proposed.spikes == (amounts.iloc[0],)
    content = {**dict(proposed), "spikes": (), **ASKED}
    schema = build_schema({"status": "declared", "columns": {"x": content}})
    assert Independent().fit(frame, schema).schema.columns["x"] == proposed
    few = {"x": {"kind": "integer", "bounds": [0, 10**6], **ASKED}}
    schema = build_schema({"status": "declared", "columns": few})
    found: Any = Independent().fit(pd.DataFrame({"x": [1, 500_000, 999_999] * 50}), schema).schema.columns["x"]
    assert found.spikes == (1, 500_000, 999_999)


@pytest.mark.parametrize("bounds", [{"bounds": [0, 10**6]}, {"measure": True}], ids=["declared", "measured"])
@pytest.mark.parametrize("epsilon", [1.0, None])
def test_frequent_values_are_the_same_whatever_the_chunks(bounds: dict[str, Any], epsilon: float | None) -> None:
    schema, generator = schema_of({"kind": "real", "decimals": 1, **bounds, **ASKED}), Independent(epsilon=epsilon)
    schedule = generator.schedule(schema)
    for size in (7, None):
        rows = in_chunks(table(), schema, size)
        found = generator.fit(rows, schema, budget=schedule and Budget(schedule, NoNoise())).schema
        assert found.columns["x"].spikes == (HEAVY,)  # type: ignore[union-attr]


def test_what_is_computed_is_not_measured() -> None:
    computed = {"y": {"kind": "integer", "bounds": [0, 2 * 10**6], **ASKED}}
    with pytest.raises(SchemaError, match="column='y' is computed, and what is computed is not measured"):
        schema_of(columns=computed, constraints=[{"kind": "formula", "column": "y", "expression": "x + x"}])


def test_a_schedule_for_listed_values_is_refused_where_they_are_to_be_measured() -> None:
    generator = Independent(epsilon=1.0)
    assert isinstance(generator, PrivateGenerator)
    other = schema_of({"kind": "integer", "bounds": [0, 10**6], "spikes": [HEAVY]})
    schedule = generator.schedule(other)
    assert schedule is not None
    with pytest.raises(Exception, match="not on the schedule"):
        generator.fit(table(), schema_of(), budget=Budget(schedule))


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
    table = finish(drawn, schema("who", "visit"), (0.2, 0.3, 0.5), np.random.default_rng(0))
    assert not table.duplicated(["who", "visit"]).any()
    assert (table["who"] != table["who"].shift()).sum() == table["who"].nunique()
    pd.testing.assert_frame_equal(
        *(t.sort_values(["visit", "sex"], ignore_index=True)[["visit", "sex"]] for t in (drawn, table)),
        check_dtype=False,
    )


def test_a_fitted_generator_keeps_the_key_of_its_entities() -> None:
    made = schema("who", "visit")
    train = rows(40).assign(who=[f"P-{i // 3:04d}" for i in range(300)])
    table = registry.generator("independent").fit(train, made, seed=0).sample(300, seed=1)
    assert table["who"].duplicated().any()
    assert not table.dropna().duplicated(["who", "visit"]).any()
