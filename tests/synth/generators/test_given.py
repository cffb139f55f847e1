"""`sample(given=table)`: a row for each row given, its cells exactly, the others by the model's own distribution."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from synth.errors import JobError
from synth.generators import registry
from synth.generators.models.known_rows import GIVEN, WAYS
from synth.generators.models.model import Model
from synth.schema import Schema, build_schema
from synth.table import violations
from tests.synth.generators.test_contract import QUICK

NAMES = [name for name in registry.names() if not name.startswith("sdv.") and name != "auto"]
CHAIN = build_schema(
    {
        "status": "declared", "n_units": 4000,
        "columns": {
            "first": {"kind": "categorical", "categories": ["a", "b", "c"]},
            "amount": {"kind": "real", "bounds": [0, 30], "decimals": 1},
            "last": {"kind": "categorical", "categories": ["x", "y"], "missing": True},
        },
    }
)  # fmt: skip
FLOWS = build_schema(
    {
        "status": "declared", "n_units": 4000,
        "columns": {
            "id": {"kind": "identifier", "bounds": [0, 10**6]},
            "low": {"kind": "integer", "bounds": [0, 9]},
            "high": {"kind": "integer", "bounds": [0, 9]},
            "sum": {"kind": "integer", "bounds": [0, 18]},
            "late": {"kind": "boolean"},
        },
        "constraints": [
            {"kind": "inequality", "low": "low", "high": "high"},
            {"kind": "formula", "column": "sum", "expression": "low + high"},
        ],
    }
)  # fmt: skip


def chain(n: int = 4000) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    first = rng.integers(0, 3, n)
    amount = np.clip(np.round(10 * first + 5 + rng.normal(0, 2, n), 1), 0, 30)
    last = np.where(rng.random(n) < 0.85, np.array(["x", "y", None], dtype=object)[first], "x")
    return pd.DataFrame({"first": np.array(["a", "b", "c"], dtype=object)[first], "amount": amount, "last": last})


def flows(n: int = 4000) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    ends = np.sort(rng.integers(0, 10, (n, 2)), axis=1)
    late = rng.random(n) < np.where(ends[:, 1] - ends[:, 0] > 4, 0.9, 0.1)
    return pd.DataFrame(
        {"id": np.arange(n), "low": ends[:, 0], "high": ends[:, 1], "sum": ends.sum(axis=1), "late": late}
    )


MADE: dict[tuple[str, str], Model] = {}


def model(name: str, table: str) -> Model:
    if (name, table) not in MADE:
        rows, schema = (chain(), CHAIN) if table == "chain" else (flows(), FLOWS)
        MADE[name, table] = registry.generator(name, **QUICK.get(name, {})).fit(rows, schema, seed=0)
    return MADE[name, table]


def as_list(values: pd.Series) -> list[Any]:
    return values.astype(object).where(values.notna(), None).tolist()


GIVEN_ROWS = pd.DataFrame({"last": ["y", None, "x", "y", np.nan, "y"], "first": ["b", "c", "a", "b", "c", "a"]})


@pytest.mark.parametrize("name", NAMES)
def test_every_row_given_has_one_with_its_cells_in_its_order(name: str) -> None:
    made = model(name, "chain").sample(given=GIVEN_ROWS.set_index(pd.Index([9, 9, 3, 1, 0, 2])), seed=1)
    assert made.index.equals(pd.RangeIndex(6))
    assert list(made.columns) == ["first", "amount", "last"]
    assert as_list(made["last"]) == ["y", None, "x", "y", None, "y"]
    assert as_list(made["first"]) == ["b", "c", "a", "b", "c", "a"]
    assert made.attrs[GIVEN] in WAYS
    assert violations(pd.concat([made] * 10, ignore_index=True), CHAIN) == []
    again = model(name, "chain").sample(given=GIVEN_ROWS, seed=1)
    pd.testing.assert_frame_equal(made, again)
    assert len(model(name, "chain").sample(given=GIVEN_ROWS.head(0))) == 0


@pytest.mark.parametrize("name", NAMES)
def test_the_other_columns_have_the_models_own_distribution_given_these(name: str) -> None:
    """A model is compared with the rows of its joint distribution that hold the same; 6,000 of each kind, or so."""
    free = model(name, "chain").sample(20_000, seed=2)
    kinds = free["last"].astype(object).where(free["last"].notna(), "none")
    held = kinds.value_counts()
    given = pd.DataFrame({"last": [None if kind == "none" else kind for kind in held.index for _ in range(1500)]})
    given = given.iloc[np.random.default_rng(0).permutation(len(given))]
    made = model(name, "chain").sample(given=given, seed=3)
    for kind, n in held.items():
        if n < 400:
            continue
        one, other = free[kinds == kind], made[as_list(made["last"]) == np.array(None if kind == "none" else kind)]
        shares = [
            rows["first"].value_counts(normalize=True).reindex(["a", "b", "c"], fill_value=0) for rows in (one, other)
        ]
        assert np.abs(shares[0] - shares[1]).sum() / 2 < 0.08, kind
        grid = np.linspace(0, 30, 31)
        cumulative = [np.searchsorted(np.sort(rows["amount"]), grid) / len(rows) for rows in (one, other)]
        assert np.abs(cumulative[0] - cumulative[1]).max() < 0.08, kind


@pytest.mark.parametrize("name", NAMES)
def test_constraints_hold_beside_what_is_given_and_the_rest_follows(name: str) -> None:
    given = pd.DataFrame({"high": [3, 9, 0, 9] * 300, "late": [True, False, True, True] * 300})
    made = model(name, "flows").sample(given=given, seed=1)
    assert made["high"].tolist() == given["high"].tolist()
    assert made["late"].tolist() == given["late"].tolist()
    assert (made["low"] <= made["high"]).all()
    assert (made["low"] + made["high"] == made["sum"]).all()
    assert made["id"].is_unique
    free = model(name, "flows").sample(20_000, seed=2)
    for late in (False, True):
        same = free[(free["high"] == 9) & (free["late"] == late)]
        if len(same) > 400:
            cells = made[(made["high"] == 9) & (made["late"] == late)]
            cumulative = [np.searchsorted(np.sort(rows["low"]), np.arange(10)) / len(rows) for rows in (same, cells)]
            # A network of any order learns its conditionals apart from its joint distribution, here for two epochs.
            assert np.abs(cumulative[0] - cumulative[1]).max() < (0.25 if name == "arn" else 0.15)


REFUSED: list[tuple[Any, str]] = [
    (pd.DataFrame({"agge": [3]}), "given='agge' is not a column"),
    (pd.DataFrame({"first": ["a", "z"]}), "given='first' must be one of its 3 categories"),
    (pd.DataFrame({"first": ["a", None]}), "given='first' is never missing"),
    (pd.DataFrame({"amount": [31.0]}), "given='amount' must be of kind real and within 0.0 and 30.0"),
]
OF_FLOWS: list[tuple[Any, str]] = [
    (pd.DataFrame({"sum": [3]}), "given='sum' is computed by a formula; give its operands: low, high"),
    (pd.DataFrame({"id": [3]}), "given='id' is of kind identifier, which no model learns"),
    (pd.DataFrame({"low": [3, 7], "high": [4, 2]}), "no rows that meet what is given"),
]


@pytest.mark.parametrize("name", ["mst", "trees", "ctgan"])
def test_what_no_row_can_hold_is_refused_without_its_cells(name: str) -> None:
    for table, refused in (("chain", REFUSED), ("flows", OF_FLOWS)):
        for given, message in refused:
            with pytest.raises(JobError) as caught:
                model(name, table).sample(given=given)
            assert message in str(caught.value)
            assert "'z'" not in str(caught.value)
    with pytest.raises(JobError, match="rows=3, and given has 6 rows"):
        model(name, "chain").sample(3, given=GIVEN_ROWS)


def test_a_private_model_reads_nothing_but_what_is_given() -> None:
    made = registry.generator("mst", epsilon=2.0).fit(chain(), CHAIN)
    statement = made.statement
    assert statement is not None
    rows = made.sample(given=pd.DataFrame({"first": ["c"] * 500 + ["a"] * 500}), seed=0)
    assert made.statement == statement
    assert rows["amount"].head(500).mean() > rows["amount"].tail(500).mean() + 10


def test_values_of_rows_and_shares_of_a_column_go_together() -> None:
    given = pd.DataFrame({"first": ["a", "c"] * 500})
    made = model("trees", "chain").sample(given=given, balance={"last": {"x": 1, "y": 3}}, seed=0)
    assert made["first"].tolist() == given["first"].tolist()
    assert (made["last"] == "y").mean() == pytest.approx(0.75, abs=0.01)


def test_polars_and_other_frames_are_given_too() -> None:
    polars = pytest.importorskip("polars")
    made = model("mst", "chain").sample(given=polars.DataFrame({"first": ["a", "b"]}), seed=0)
    assert made["first"].tolist() == ["a", "b"]


def schema_of_entities() -> Schema:
    return build_schema(
        {
            "status": "declared", "n_units": 300, "entity": "who", "max_rows_per_unit": 4,
            "constant_in_entity": ["sex"],
            "columns": {
                "who": {"kind": "identifier", "bounds": [0, 10**6]},
                "sex": {"kind": "categorical", "categories": ["f", "m"]},
                "visit": {"kind": "integer", "bounds": [0, 9]},
            },
        }
    )  # fmt: skip


def test_rows_of_entities_stay_in_the_order_given_and_agree_in_what_is_constant() -> None:
    rng = np.random.default_rng(0)
    who = np.repeat(np.arange(300), 3)
    frame = pd.DataFrame({"who": who, "sex": np.array(["f", "m"])[who % 2], "visit": rng.integers(0, 10, 900)})
    made = registry.generator("trees", rounds=10).fit(frame, schema_of_entities(), seed=0)
    given = pd.DataFrame({"sex": rng.choice(["f", "m"], 200), "visit": rng.integers(0, 10, 200)})
    rows = made.sample(given=given, seed=0)
    assert rows["visit"].tolist() == given["visit"].tolist()
    assert rows["sex"].tolist() == given["sex"].tolist()
    assert len(rows[["who", "sex"]].drop_duplicates()) == rows["who"].nunique()
