"""Identifiers that rise, row names, and measures whose name sounds like an identifier."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import synth
from synth import infer_schema
from synth.errors import SchemaError, TableNote
from synth.schema import build_schema

N = 400
RNG = np.random.default_rng(0)
STAMPS = pd.Series(pd.date_range("2021-01-01", periods=N, freq="7h"))
AMOUNTS = RNG.lognormal(3, 1, N).round(2)


def orders() -> pd.DataFrame:
    """Order numbers that rise with the time, in rows of no order, and references that rise with the rows."""
    frame = pd.DataFrame({"order_no": np.cumsum(RNG.integers(1, 9, N)), "at": STAMPS, "paid": AMOUNTS})
    frame = frame.sample(frac=1, random_state=0, ignore_index=True)
    return frame.assign(row=np.arange(1, N + 1), ref=[f"R-{i:05d}" for i in range(N)])


def test_identifiers_rise_with_the_time_or_the_rows_that_they_rose_with() -> None:
    schema = infer_schema(orders(), constraints=True)
    assert {name: schema.columns[name].rises_with for name in ("order_no", "row", "ref")} == {
        "order_no": ("at",), "row": (), "ref": (),
    }  # fmt: skip
    drawn = synth.fit(orders(), schema, "trees").sample(N, seed=0)
    assert drawn["order_no"].corr(drawn["at"].astype("int64"), method="spearman") > 0.999
    assert drawn["row"].tolist() == list(range(1, N + 1)) and drawn["ref"].is_monotonic_increasing
    declared = synth.declare_schema(schema, n_units=N)
    assert "ascending with at" in declared.columns["order_no"].asserted()


def test_numbers_rise_with_a_time_of_several_columns() -> None:
    parts = {"year": STAMPS.dt.year, "month": STAMPS.dt.month, "day": STAMPS.dt.day, "hour": STAMPS.dt.hour}
    column = infer_schema(pd.DataFrame({"No": np.arange(1, N + 1), **parts, "pm": AMOUNTS})).columns["No"]
    assert column.rises_with == ("month", "day", "hour") and column.consecutive


def test_identifiers_rise_with_what_is_computed_or_orders_an_entity() -> None:
    rng, n = np.random.default_rng(0), N
    total, part, when = np.sort(rng.integers(0, 9000, n)), rng.integers(0, 3000, n), rng.permutation(STAMPS)
    sums = {"id": range(n), "part": part, "rest": total - part, "total": total}
    table = pd.DataFrame({**sums, "when": when, "month": pd.Series(when).dt.month_name()})
    schema = infer_schema(table)
    assert schema.columns["id"].rises_with == ("total",) and schema.columns["month"].modeled.usual
    assert synth.fit(table, schema, "trees", rounds=5).sample(n, seed=0).sort_values("id").total.is_monotonic_increasing
    visits = pd.DataFrame({"who": [f"p{i // 5:04d}" for i in range(n)], "at": STAMPS, "x": part})
    schema = infer_schema(visits, entity="who", order="at")
    assert schema.columns["who"].rises_with == ("at",)
    starts = synth.fit(visits, schema, "trees", rounds=5).sample(n, seed=0).groupby("who")["at"].min()
    assert starts.is_monotonic_increasing


def test_a_schema_refuses_an_order_of_what_is_not_learned() -> None:
    columns = {"id": {"kind": "identifier", "bounds": [0, 99], "rises_with": ["when"]}}
    with pytest.raises(SchemaError, match="rises with 'when', which is no learned column"):
        build_schema({"status": "declared", "columns": columns})


def test_row_names_are_read_and_left_out(tmp_path: Path) -> None:
    orders().to_csv(tmp_path / "x.csv")
    with pytest.warns(TableNote, match="a proposed schema leaves out"):
        table = synth.read_table(tmp_path / "x.csv")
    assert "Unnamed: 0" in table and "Unnamed: 0" not in infer_schema(table).kept


@pytest.mark.parametrize("name", ["air_quality_index", "glycemic_index", "house_number", "lot_no", "index"])
def test_a_measure_is_no_identifier_by_its_name(name: str) -> None:
    values = RNG.lognormal(4, 0.5, N).astype(int)
    schema = infer_schema(pd.DataFrame({name: values, "visits": RNG.poisson(values)}))
    assert schema.columns[name].kind == "integer" and schema.entity is None
