"""Frequent values that a fit measures."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from synth.dp.budget import Budget
from synth.dp.events import StabilityEvent
from synth.dp.mechanisms import NoNoise
from synth.generators import registry
from synth.generators.fitting.private_fit import measure_domain
from synth.generators.fitting.training_data import TrainingTable
from synth.generators.marginal_generator import Independent
from synth.infer import infer_schema
from synth.schema import Schema, build_schema
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
    result = measure_domain(rows, schema, Budget(schedule, NoNoise()) if exact else Budget(schedule))
    assert result.measured == result.spikes_measured == ()
    assert build_schema(result.model_dump()) == result
    return result.columns["x"]


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["mst", "latent_class"])
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
    for _ in range(8):
        assert OF_ONE not in measured(frame, schema, exact=False, epsilon=4.0).spikes
    for _ in range(8):
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
    result = measured(frame, schema_of({**column, **ASKED}))
    assert result.spikes == (value,)
    assert str(result.spikes[0]) == str(value)


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
    result: Any = Independent().fit(pd.DataFrame({"x": [1, 500_000, 999_999] * 50}), schema).schema.columns["x"]
    assert result.spikes == (1, 500_000, 999_999)


@pytest.mark.parametrize("bounds", [{"bounds": [0, 10**6]}, {"measure": True}], ids=["declared", "measured"])
@pytest.mark.parametrize("epsilon", [1.0, None])
def test_frequent_values_are_the_same_whatever_the_chunks(bounds: dict[str, Any], epsilon: float | None) -> None:
    schema, generator = schema_of({"kind": "real", "decimals": 1, **bounds, **ASKED}), Independent(epsilon=epsilon)
    schedule = generator.schedule(schema)
    for size in (700, None):
        rows = in_chunks(table(), schema, size)
        result = generator.fit(rows, schema, budget=schedule and Budget(schedule, NoNoise())).schema
        assert result.columns["x"].spikes == (HEAVY,)  # type: ignore[union-attr]
