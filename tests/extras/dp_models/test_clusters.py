"""Groups found with DP beside those of a synthetic table."""

import pytest

from evaluate.utility import clusters
from tests.evaluate.utility.conftest import schema_of
from tests.evaluate.utility.test_clusters import planted, shuffled
from tests.evaluations import stated
from understudy.extras.dp_models import groups

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


def test_without_an_epsilon_or_public_bounds_nothing_is_found_with_dp(make):
    inferred = schema_of().model_copy(update={"status": "inferred"})
    for tables, words in ((make(), "no privacy claim"), (make(inferred, claim=CLAIM), "inferred")):
        result = groups.measure(tables)
        assert not result.estimates and {f.measure for f in result.failures} == {COST}
        assert all(words in f.message and f.reason == "skipped" for f in result.failures)
