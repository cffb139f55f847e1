from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from evaluate.sampling import shuffle_columns
from evaluate.tables import Tables
from evaluate.utility import clusters
from evaluate.utility.clusters import EXPLAINED
from synth.schema import build_schema

from .conftest import reordered, values


def measured(tables):
    return {e.measure: e for e in clusters.measure(tables).estimates}


@pytest.fixture(scope="module")
def found(make):
    return measured(make())


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


@pytest.fixture(scope="module")
def fresh():
    return measured(planted())


@pytest.fixture(scope="module")
def useless():
    return measured(planted(lambda train, _: shuffled(train)))


def test_a_fresh_real_sample_scores_as_training_rows_do(found):
    assert found[EXPLAINED].value == pytest.approx(found[EXPLAINED].reference, abs=0.03)
    assert found[EXPLAINED].low < found[EXPLAINED].reference < found[EXPLAINED].high
    assert found[EXPLAINED].value > found[EXPLAINED].floor


def test_shuffled_columns_score_at_the_floor(useless):
    assert useless[EXPLAINED].value == pytest.approx(useless[EXPLAINED].floor, abs=0.06)
    assert useless[EXPLAINED].high < useless[EXPLAINED].reference - 0.2


def test_planted_groups_are_found_again(fresh):
    assert fresh[EXPLAINED].value > 0.8
    assert fresh[EXPLAINED].value == pytest.approx(fresh[EXPLAINED].reference, abs=0.01)


def test_the_order_of_rows_and_columns_does_not_matter(make, found):
    again = values(clusters.measure(reordered(make())))
    assert again[EXPLAINED, ()] == pytest.approx(found[EXPLAINED].value, abs=1e-9)


def test_rows_that_are_all_the_same_have_no_groups():
    frame = planted_rows(100, 0).assign(**{f"c{i}": "p" for i in range(4)}, number=0.5)
    tables = Tables(PLANTED, PLANTED, frame, frame, frame, frame, 0, synthetic=frame)
    result = clusters.measure(tables)
    assert not result.estimates
    assert {f.message for f in result.failures} == {"the control rows are all the same"}
