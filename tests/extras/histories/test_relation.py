"""Two related tables: joined and taken apart, drawn with keys that match, and each entity by itself."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from synth.errors import SchemaError, TableError
from synth.generators.base import fit_model
from synth.generators.registry import generator
from synth.schema import Schema
from tests.extras.histories.related_tables import MEAN_VISITS, MOST_VISITS, changed, pair, schemas, stays_ill, visits_of
from understudy.extras.histories.relation import Relation

Pair = tuple[pd.DataFrame, pd.DataFrame]


@pytest.fixture(scope="module")
def real() -> Pair:
    return pair(1500)


@pytest.fixture(scope="module")
def drawn(real: Pair) -> Pair:
    relation = Relation(*schemas())
    parents, rows = relation.joined(*real)
    of_parents = fit_model(generator("trees"), parents, relation.parents, seed=1)
    of_rows: Any = fit_model(generator("trees"), rows, relation.rows, seed=2)
    return relation.sample(of_parents, of_rows, seed=3)


def test_parents_get_their_numbers_of_rows_and_rows_their_parents_columns() -> None:
    patients = pd.DataFrame({"who": ["P-000001", "P-000002", "P-000003"], "sex": ["f", "m", "f"], "age": [30, 40, 50]})
    visits = pair(100)[1].iloc[:3].assign(who=["P-000003", "P-000001", "P-000003"])
    relation = Relation(*schemas())
    parents, rows = relation.joined(patients, visits)
    assert parents[relation.count].tolist() == [1, 0, 2]
    assert rows["sex"].tolist() == ["f", "f", "f"]
    assert rows["age"].tolist() == [50, 30, 50]
    assert relation.rows.constant_in_entity == ("sex", "age")
    apart = relation.split(parents, rows)
    assert [list(table.columns) for table in apart] == [["who", "sex", "age"], ["who", "day", "ill", "weight"]]


@pytest.mark.parametrize("sex", ["f", "m"])
def test_how_many_rows_there_are_depends_on_the_parent_s_column(real: Pair, drawn: Pair, sex: str) -> None:
    means = []
    for patients, visits in (real, drawn):
        means.append(float(visits_of(patients, visits)[patients["sex"] == sex].mean()))
    assert abs(means[0] - means[1]) < 5 * np.sqrt(2 * MEAN_VISITS[sex] / 700)


def test_how_rows_go_on_depends_on_the_parent_s_column(real: Pair, drawn: Pair) -> None:
    apart = [stays_ill(*tables, "f") - stays_ill(*tables, "m") for tables in (real, drawn)]
    assert apart[0] > 0.5
    assert apart[1] > 0.25  # of shuffled rows it is 0


def test_each_part_of_both_tables_is_made_from_one_entity_s_own_rows() -> None:
    """Brute force over neighbors: one entity less is one less in both tables, and nothing else changes."""
    patients, visits = pair(12, seed=4)
    twice = pd.concat([patients, patients.iloc[:2].assign(age=77)], ignore_index=True)
    loose = visits.iloc[:3].assign(who=["P-000900", "P-000900", "P-000901"])
    strewn = pd.concat([visits, loose, visits.iloc[[0] * 12]], ignore_index=True)
    relation = Relation(*schemas(12), private=True)
    whole = relation.joined(twice, strewn, outside="clamp")
    assert whole[0]["who"].is_unique
    assert whole[0][relation.count].max() == MOST_VISITS
    for who in [*patients["who"], "P-000900", "P-000901"]:
        without = relation.joined(twice[twice["who"] != who], strewn[strewn["who"] != who], outside="clamp")
        for all_of, rest in zip(whole, without, strict=True):
            pd.testing.assert_frame_equal(all_of[all_of["who"] != who].reset_index(drop=True), rest)


def test_a_private_join_does_not_stop_for_a_row_unless_that_is_asked_for() -> None:
    patients, visits = pair(20, seed=1)
    kept = patients.iloc[1:]
    loose = visits.assign(who=[patients["who"].iloc[0], "P-000900", *visits["who"].iloc[2:]])
    relation = Relation(*schemas(20), private=True)
    parents, rows = relation.joined(kept, loose)
    assert parents["who"].tolist() == kept["who"].tolist()
    assert len(rows) == loose["who"].isin(kept["who"]).sum() < len(loose)
    with pytest.raises(TableError, match="every row has a parent"):
        relation.joined(kept, loose, outside="refuse")


def test_rows_without_a_parent_and_parents_with_one_key_are_refused_without_an_epsilon(real: Pair) -> None:
    patients, visits = real
    relation = Relation(*schemas())
    with pytest.raises(TableError, match="every row has a parent: column='who'") as refused:
        relation.joined(patients.iloc[1:], visits.assign(who=patients["who"].iloc[0]))
    assert patients["who"].iloc[0] not in str(refused.value)
    with pytest.raises(TableError, match="column='who'"):
        relation.joined(patients.iloc[[0, *range(len(patients))]], visits)


def _with(schema: Schema, name: str, column: dict[str, Any]) -> dict[str, Any]:
    return {"columns": {**schema.columns, name: column}}


@pytest.mark.parametrize(
    ("of_parents", "of_rows", "message"),
    [
        ({"entity": "who", "max_rows_per_unit": 3}, {}, "one level of parents"),
        ({}, {"constant_in_entity": ("ill",)}, "stands in the table of parents"),
        ({}, _with(schemas()[1], "age", {"kind": "integer", "bounds": [0, 9]}), "column='age' is in both"),
        (_with(schemas()[0], "who", {"kind": "identifier", "bounds": [0, 9]}), {}, "of one kind in both tables"),
    ],
)
def test_schemas_that_do_not_fit_together_are_refused(
    of_parents: dict[str, Any], of_rows: dict[str, Any], message: str
) -> None:
    parents, rows = schemas()
    with pytest.raises(SchemaError, match=message):
        Relation(changed(parents, **of_parents), changed(rows, **of_rows))
