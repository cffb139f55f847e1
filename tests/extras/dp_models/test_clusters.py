"""Groups found with DP beside those of a synthetic table."""

from dataclasses import replace

import numpy as np
import pytest

from evaluate.tables import Tables
from evaluate.utility import clusters
from evaluate.utility.k_means import GroupSpace, Points
from synth.schema import build_schema
from tests.evaluate.utility.conftest import COLUMNS, reordered, schema_of, values
from tests.evaluate.utility.test_clusters import PLANTED, planted, planted_rows, shuffled
from tests.evaluations import stated
from understudy.extras.dp_models import groups
from understudy.extras.dp_models.groups import public_space

COST = groups.GAP
CLAIM = stated(epsilon=10.0, delta=1e-5, n_units=600)
PLANTED_CLAIM = stated(epsilon=10.0, delta=1e-5, n_units=1_000)


def measured(tables):
    return {e.measure: e for e in groups.measure(tables).estimates}


def explained(tables):
    return next(e.value for e in clusters.measure(tables).estimates if e.measure == clusters.EXPLAINED)


@pytest.fixture(scope="module")
def fresh():
    return measured(planted(claim=PLANTED_CLAIM))


def test_planted_groups_are_found_with_dp(fresh):
    assert fresh[COST].floor > 0.2
    assert fresh[COST].low <= fresh[COST].value <= fresh[COST].high


def test_against_a_useless_table_finding_groups_directly_wins():
    tables = planted(lambda train, _: shuffled(train), PLANTED_CLAIM)
    useless = measured(tables)
    assert useless[COST].low > 0.1
    assert f"alternative ({useless[COST].value + explained(tables):.3f})" in useless[COST].note


@pytest.mark.statistical
def test_less_privacy_finds_more_of_the_groups():
    strict, loose = (measured(planted(claim=stated(epsilon=e, delta=1e-5, n_units=1_000)))[COST] for e in (0.1, 50.0))
    assert strict.value < loose.value - 0.2


def test_without_an_epsilon_or_public_bounds_nothing_is_found_with_dp(make):
    inferred = schema_of().model_copy(update={"status": "inferred"})
    for tables, said in ((make(), "no privacy claim"), (make(inferred, claim=CLAIM), "inferred")):
        result = groups.measure(tables)
        assert not result.estimates and {f.measure for f in result.failures} == {COST}
        assert all(said in f.message and f.reason == "skipped" for f in result.failures)


def test_the_order_of_rows_and_columns_does_not_matter(make):
    found, again = values(groups.measure(make(claim=CLAIM))), values(groups.measure(reordered(make(claim=CLAIM))))
    assert again == {key: pytest.approx(value, abs=1e-9) for key, value in found.items()}


def test_a_column_whose_domain_is_to_be_measured_is_seen_by_plain_k_means_alone(make):
    columns = {**COLUMNS, "x": {"kind": "real", "measure": True, "missing": True}}
    declared = build_schema({"status": "declared", "n_units": 600, "columns": columns, "target": "y"})
    tables = replace(make(claim=CLAIM), declared=declared)
    names = [[c.name for c in space.columns] for space in (GroupSpace.of(tables), public_space(tables))]
    assert names == [["group", "hours", "sex", "x", "y"], ["group", "hours", "sex", "y"]]
    found = measured(tables)
    assert f"alternative ({found[COST].value + explained(tables):.3f})" not in found[COST].note


def test_rows_of_an_entity_are_one_unit_and_their_groups_are_found_with_dp():
    content = PLANTED.model_dump(mode="json", exclude_unset=True)
    columns = {**content["columns"], "who": {"kind": "identifier", "bounds": [0, 9_999]}}
    schema = build_schema({**content, "columns": columns, "n_units": 500, "entity": "who", "max_rows_per_unit": 2})
    frames = [
        planted_rows(n, seed).assign(who=1_000 * seed + np.arange(n) // 2)
        for n, seed in ((1_000, 0), (600, 1), (1_000, 2))
    ]
    claim = stated(epsilon=10.0, delta=1e-5, n_units=500, max_rows_per_unit=2)
    tables = replace(Tables.prepare(*frames, schema), claim=claim)
    points = Points.of(tables.train, public_space(tables), tables)
    assert np.bincount(points.units).tolist() == [2] * 500
    found = measured(tables)
    assert found[COST].floor > 0.5


def test_of_many_units_a_sample_is_learned_from_with_the_noise_that_all_allow(fresh, monkeypatch):
    every = fresh[COST]
    monkeypatch.setattr(groups, "MAX_UNITS", 500)
    sampled = measured(planted(claim=PLANTED_CLAIM))[COST]
    assert sampled.value == pytest.approx(every.value, abs=0.15)
    assert sampled.note.split(":")[1] == every.note.split(":")[1]
