from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from evaluate.sampling import shuffle_columns
from evaluate.tables import Tables
from evaluate.utility import clusters
from evaluate.utility.clusters import EXPLAINED
from synth.schema import build_schema


def measured(tables):
    return {e.measure: e for e in clusters.measure(tables).estimates}


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


def test_shuffled_columns_score_at_the_floor(useless):
    assert useless[EXPLAINED].value == pytest.approx(useless[EXPLAINED].floor, abs=0.06)
    assert useless[EXPLAINED].high < useless[EXPLAINED].reference - 0.2


def test_planted_groups_are_found_again(fresh):
    assert fresh[EXPLAINED].value > 0.8
    assert fresh[EXPLAINED].value == pytest.approx(fresh[EXPLAINED].reference, abs=0.01)
