from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from evaluate.privacy import vulnerable
from evaluate.privacy.membership_attacks import targets_of
from evaluate.result import Failure
from synth.schema import build_schema

SIZES = (2000, 1000, 1500, 2000)


def by_name(measurement):
    return {
        one.measure.removeprefix("privacy.vulnerable."): one for one in (*measurement.estimates, *measurement.failures)
    }


def with_roles(tables, **roles):
    schema = build_schema({**tables.schema.model_dump(), **roles})
    return replace(tables, schema=schema, declared=schema)


def outliers_leaked(tables):
    """The most isolated training rows stand in the synthetic table, and nobody else."""
    members, _ = targets_of(tables)
    far = np.argsort(-members.fresh.distances.mean(axis=1))[:60]
    leaked = tables.train.iloc[members.positions[far]]
    rows = pd.concat([tables.synthetic.iloc[60:], leaked], ignore_index=True)
    return replace(tables, synthetic=rows)


def test_a_leak_of_outliers_shows_among_the_isolated_where_the_average_hides_it(draw, make):
    tables = outliers_leaked(draw(make["mixed"], SIZES, seed=1))
    found = by_name(vulnerable.measure(tables))
    assert found["isolated.auc"].low > 0.55
    assert found["isolated.tpr_at_0.01"].low > 0.05
    assert found["isolated.auc"].n < 0.15 * (SIZES[0] + SIZES[2])


@pytest.mark.statistical
def test_honest_tables_raise_no_alarm(population, draw):
    for seed, sizes in enumerate([(2400, 600, 600, 1000), (1200, 1200, 1200, 1000), (600, 1200, 1200, 1000)]):
        found = by_name(vulnerable.measure(draw(population, sizes, seed=seed)))
        for name in ("isolated.auc", "rare.auc"):
            assert isinstance(found[name], Failure) or found[name].low <= 0.51, name


def test_members_and_controls_are_picked_alike(population, draw):
    """Whom the attacker takes for exposed must not depend on who was in the training table."""
    tables = draw(population, SIZES, seed=2)
    sides = targets_of(tables)
    for picked in (vulnerable._isolated(sides, tables), vulnerable._rare(sides, tables)):
        members, controls = (side.mean() for side in picked)
        error = (members * (1 - members) / len(picked[0]) + controls * (1 - controls) / len(picked[1])) ** 0.5
        assert abs(members - controls) <= 4 * error


def test_quasi_identifiers_say_which_rows_are_rare(draw, make):
    tables = with_roles(draw(make["mixed"], SIZES, seed=1), quasi_identifiers=("c0", "c1"))
    members, _ = vulnerable._rare(targets_of(tables), tables)
    cells = tables.fresh.groupby(["c0", "c1"], dropna=False).size()
    rows = tables.train.iloc[targets_of(tables)[0].positions]
    counts = [cells.get((a, b), 0) for a, b in zip(rows["c0"], rows["c1"], strict=True)]
    assert np.mean(np.array(counts)[members]) < np.mean(counts) / 2


def test_groups_of_sensitive_columns_are_attacked_one_by_one(draw, make):
    tables = with_roles(draw(make["mixed"], SIZES, seed=1), sensitive=("flag",))
    leaked = tables.train[tables.train["flag"].fillna(False).astype(bool)].head(400)
    rows = pd.concat([tables.synthetic.iloc[len(leaked) :], leaked], ignore_index=True)
    measurement = vulnerable.measure(replace(tables, synthetic=rows))
    worst = by_name(measurement)["group.auc"]
    assert worst.subject == ("flag",)
    assert worst.low > 0.6
    assert worst.note.endswith("True")
    assert {one["group"] for one in measurement.figures["vulnerable"]} >= {"flag: True", "flag: False"}


def test_too_few_rows_are_a_failure_with_a_reason(draw, make):
    found = by_name(vulnerable.measure(with_roles(draw(make["mixed"], (60, 40, 40, 60), seed=1), sensitive=("c0",))))
    assert {type(one) for one in found.values()} == {Failure}


@pytest.mark.slow
def test_the_alarm_rate_is_the_stated_one(draw, make):
    """At most 2.5 in 100 honest tables; 200 of them, four standard errors."""
    alarms = []
    for seed in range(200):
        found = by_name(vulnerable.measure(draw(make["mixed"], (1200, 800, 800, 1000), seed=seed)))
        alarms.append([found[name].low > 0.5 for name in ("isolated.auc", "rare.auc")])
    assert (np.mean(alarms, axis=0) <= 0.025 + 4 * (0.025 * 0.975 / 200) ** 0.5).all()
