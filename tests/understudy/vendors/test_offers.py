"""What a vendor delivers is cut to the same rows for all, and to the columns that it has."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from synth.errors import TableError
from synth.schema import Schema, build_schema
from synth.table.limits import SizeLimits
from tests.understudy.vendors.conftest import SCHEMA, people
from understudy.vendors.submission import DeliveredTable, compared_rows, formulas, look_at, sampled, without

VISITS: dict[str, Any] = {
    "format": 1,
    "status": "declared",
    "n_units": 500,
    "entity": "person",
    "max_rows_per_unit": 3,
    "constant_in_entity": ["age"],
    "sensitive": ["ill"],
    "quasi_identifiers": ["age", "day"],
    "parties": [["age"], ["day", "ill"]],
    "target": "ill",
    "columns": {
        "person": {"kind": "identifier", "bounds": [0, 999]},
        "age": {"kind": "integer", "bounds": [0, 99]},
        "day": {"kind": "integer", "bounds": [0, 1000]},
        "left": {"kind": "integer", "bounds": [0, 2000]},
        "ill": {"kind": "boolean"},
    },
    "constraints": [{"kind": "inequality", "low": "day", "high": "left"}],
}


@pytest.fixture
def schema() -> Schema:
    return build_schema(SCHEMA)


def offered(name: str, n_rows: int, schema: Schema) -> DeliveredTable:
    return DeliveredTable(name, Path(name), "", "", n_rows, (), (), schema)


def test_all_get_the_rows_of_the_smallest_and_never_more_than_train_has(schema: Schema) -> None:
    few, some, many = (offered(str(n), n, schema) for n in (99, 700, 9_000))
    assert compared_rows([some, many], 1_000, None) == (700, {})
    assert compared_rows([many], 1_000, None) == (1_000, {})
    n_rows, left_out = compared_rows([few, some], 1_000, None)
    assert (n_rows, [*left_out]) == (700, ["99"])  # far too small


def test_a_sample_depends_on_what_rows_hold_and_not_on_their_order(schema: Schema) -> None:
    frame = people(500, 1)
    shuffled = frame.sample(frac=1.0, random_state=0)
    first, second = (sampled(each, schema, 100, 3) for each in (frame, shuffled))
    assert len(first) == 100
    key = ["age", "income", "weight"]
    assert first.sort_values(key).to_numpy().tolist() == second.sort_values(key).to_numpy().tolist()


def test_whole_entities_are_drawn() -> None:
    people_of = np.repeat(np.arange(200), 3)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "person": people_of, "age": people_of % 90, "day": rng.integers(0, 1000, 600), "left": 1_000,
            "ill": rng.random(600) < 0.5,
        }
    )  # fmt: skip
    drawn = sampled(frame, build_schema(VISITS), 150, 0)
    sizes = drawn["person"].value_counts()
    assert len(drawn) == 150
    assert (sizes == 3).sum() >= len(sizes) - 1


@pytest.mark.parametrize("gone", [("person",), ("age", "left"), ("person", "ill", "day")])
def test_a_schema_without_columns_is_consistent(gone: tuple[str, ...]) -> None:
    for order in ({}, {"order": "day", "nondecreasing_in_entity": ["left"]}):
        result = without(build_schema({**VISITS, **order}), gone)
        assert set(result.kept) == set(VISITS["columns"]) - set(gone)


def test_the_same_rows_are_known_in_any_order_and_format(schema: Schema, tmp_path: Path) -> None:
    frame = people(200, 1)
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.sample(frac=1.0, random_state=1)[frame.columns[::-1]].to_parquet(tmp_path / "b.parquet", index=False)
    frame.assign(more=1).to_csv(tmp_path / "c.csv.gz", index=False)
    people(200, 2).to_csv(tmp_path / "d.csv", index=False)
    names = ("a.csv", "b.parquet", "c.csv.gz", "d.csv")
    contents = [look_at(name, tmp_path / name, schema, SizeLimits()).content for name in names]
    assert contents[0] == contents[1] == contents[2] != contents[3]


def test_a_file_that_was_exchanged_meanwhile_is_refused(schema: Schema, tmp_path: Path) -> None:
    people(100, 1).to_csv(tmp_path / "a.csv", index=False)
    result = look_at("a", tmp_path / "a.csv", schema, SizeLimits())
    people(100, 2).to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(TableError, match="changed"):
        result.read(SizeLimits())


def test_cells_that_a_spreadsheet_would_run_are_counted_whatever_column_they_stand_in() -> None:
    names = ["North", "=South", "-"]
    town = {"kind": "categorical", "categories": names}
    schema = build_schema({**SCHEMA, "columns": {**SCHEMA["columns"], "town": town}})
    table = people(6, 1).assign(town="=South", note=["=HYPERLINK(1)", "@SUM(A1)", "-1.5", "+2", "plain", None])
    assert formulas(table, schema) == 2
    assert formulas(table.assign(town="=North"), schema) == 2 + 6
    assert formulas(table.rename(columns={"note": "=note"}), schema) == 2 + 1
    assert formulas(people(6, 1), schema) == 0
