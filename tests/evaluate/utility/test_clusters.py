from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from evaluate.sampling import shuffle_columns
from evaluate.tables import StatedClaim, Tables
from evaluate.utility import clusters
from evaluate.utility.clusters import AGREEMENT, COST, EXPLAINED, GAP, SCORE
from evaluate.utility.k_means import GroupSpace, Points
from synth.schema import build_schema

from .conftest import COLUMNS, reordered, schema_of, values

CLAIM = StatedClaim(epsilon=10.0, delta=1e-5, n_units=600)


def measured(tables):
    return {e.measure: e for e in clusters.measure(tables).estimates}


@pytest.fixture(scope="module")
def found(make):
    return measured(make(claim=CLAIM))


def shuffled(train):
    return shuffle_columns(train, np.random.default_rng(5))


PLANTED = build_schema(
    {
        "status": "declared",
        "n_units": 1_000,
        "columns": {f"c{i}": {"kind": "categorical", "categories": list("pqrstuvw")} for i in range(4)}
        | {"number": {"kind": "real", "bounds": [0, 1]}},
    }
)


def planted_rows(n, seed):
    """Rows of eight groups: in 19 of 20 cells a column says which."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 8, n)
    cells = {f"c{i}": np.where(rng.random(n) < 0.05, rng.integers(0, 8, n), (group + i) % 8) for i in range(4)}
    letters = np.array(list("pqrstuvw"), dtype=object)
    return pd.DataFrame({name: letters[codes] for name, codes in cells.items()} | {"number": group / 8})


def planted(synthetic=None, claim=None):
    train, holdout, other = (planted_rows(n, seed) for n, seed in ((1_000, 0), (600, 1), (1_000, 2)))
    offered = synthetic(train, other) if synthetic else other
    return replace(Tables.prepare(train, holdout, offered, PLANTED), claim=claim)


PLANTED_CLAIM = StatedClaim(10.0, 1e-5, 1_000)


@pytest.fixture(scope="module")
def fresh():
    return measured(planted(claim=PLANTED_CLAIM))


@pytest.fixture(scope="module")
def useless():
    return measured(planted(lambda train, _: shuffled(train), PLANTED_CLAIM))


def test_a_fresh_real_sample_scores_as_training_rows_do(found):
    assert found[EXPLAINED].value == pytest.approx(found[EXPLAINED].reference, abs=0.03)
    assert found[GAP].low < 0 < found[GAP].high
    assert found[EXPLAINED].value > found[EXPLAINED].floor


def test_shuffled_columns_score_at_the_floor(useless):
    assert useless[EXPLAINED].value == pytest.approx(useless[EXPLAINED].floor, abs=0.06)
    assert useless[EXPLAINED].high < useless[EXPLAINED].reference - 0.2
    assert useless[GAP].low > 0.2
    assert useless[AGREEMENT].value < useless[AGREEMENT].reference - 0.15


def test_planted_groups_are_found_again(fresh):
    assert fresh[EXPLAINED].value > 0.8
    assert fresh[AGREEMENT].value > 0.95
    assert fresh[GAP].value == pytest.approx(0.0, abs=0.01)


def test_planted_groups_are_found_with_dp(fresh):
    assert fresh[SCORE].value > fresh[SCORE].floor + 0.2
    assert fresh[SCORE].low <= fresh[SCORE].value <= fresh[SCORE].high


def test_against_a_useless_table_finding_groups_directly_wins(useless):
    assert useless[COST].low > 0.1
    assert useless[COST].value == pytest.approx(useless[SCORE].value - useless[EXPLAINED].value)


@pytest.mark.statistical
def test_less_privacy_finds_more_of_the_groups():
    strict, loose = (measured(planted(claim=StatedClaim(e, 1e-5, 1_000)))[SCORE] for e in (0.1, 50.0))
    assert strict.value < loose.value - 0.2


def test_the_order_of_rows_and_columns_does_not_matter(make, found):
    again = values(clusters.measure(reordered(make(claim=CLAIM))))
    for name in (EXPLAINED, GAP, AGREEMENT, SCORE, COST):
        assert again[name, ()] == pytest.approx(found[name].value, abs=1e-9)


def test_without_an_epsilon_nothing_is_found_with_dp(make):
    result = clusters.measure(make())
    assert {e.measure for e in result.estimates} == {EXPLAINED, GAP, AGREEMENT}
    assert {f.measure for f in result.failures} == {SCORE, COST}
    assert all("no privacy claim" in f.message and f.reason == "skipped" for f in result.failures)


def test_bounds_read_off_the_table_are_of_no_use_to_dp(make):
    result = clusters.measure(make(schema_of().model_copy(update={"status": "inferred"}), claim=CLAIM))
    assert {f.message for f in result.failures if "inferred" in f.message}
    assert {e.measure for e in result.estimates} == {EXPLAINED, GAP, AGREEMENT}


def test_a_column_whose_domain_is_to_be_measured_is_seen_by_plain_k_means_alone(make):
    columns = {**COLUMNS, "x": {"kind": "real", "measure": True, "missing": True}}
    declared = build_schema({"status": "declared", "n_units": 600, "columns": columns, "target": "y"})
    tables = replace(make(claim=CLAIM), declared=declared)
    names = [[c.name for c in GroupSpace.of(tables, public=public).columns] for public in (False, True)]
    assert names == [["group", "hours", "sex", "x", "y"], ["group", "hours", "sex", "y"]]
    found = measured(tables)
    assert found[COST].value != pytest.approx(found[SCORE].value - found[EXPLAINED].value)


def test_rows_of_an_entity_are_one_unit_and_their_groups_are_found_with_dp():
    content = PLANTED.model_dump(mode="json", exclude_unset=True)
    columns = {**content["columns"], "who": {"kind": "identifier", "bounds": [0, 9_999]}}
    schema = build_schema({**content, "columns": columns, "n_units": 500, "entity": "who", "max_rows_per_unit": 2})
    frames = [
        planted_rows(n, seed).assign(who=1_000 * seed + np.arange(n) // 2)
        for n, seed in ((1_000, 0), (600, 1), (1_000, 2))
    ]
    claim = StatedClaim(10.0, 1e-5, 500, max_rows_per_unit=2)
    tables = replace(Tables.prepare(*frames, schema), claim=claim)
    points = Points.of(tables.train, GroupSpace.of(tables, public=True), tables)
    assert np.bincount(points.units).tolist() == [2] * 500
    found = measured(tables)
    assert found[SCORE].value > found[SCORE].floor + 0.5
    assert found[EXPLAINED].low < found[EXPLAINED].value < found[EXPLAINED].high


def test_of_many_units_a_sample_is_learned_from_with_the_noise_that_all_allow(fresh, monkeypatch):
    every = fresh[SCORE]
    monkeypatch.setattr(clusters, "MAX_UNITS", 500)
    sampled = measured(planted(claim=PLANTED_CLAIM))[SCORE]
    assert sampled.value == pytest.approx(every.value, abs=0.15)
    assert sampled.note == every.note


def test_rows_that_are_all_the_same_have_no_groups():
    frame = planted_rows(100, 0).assign(**{f"c{i}": "p" for i in range(4)}, number=0.5)
    tables = Tables(PLANTED, PLANTED, frame, frame, frame, frame, frame, 0)
    result = clusters.measure(tables)
    assert not result.estimates
    assert {f.message for f in result.failures} == {"the control rows are all the same"}
