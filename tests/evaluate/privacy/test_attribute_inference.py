from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from evaluate.privacy import attribute_inference as inference
from evaluate.privacy.attribute_inference import Attacked, Secret, secret_of
from evaluate.result import Estimate
from evaluate.tables import MetricResult, Tables
from synth.schema import build_schema

WORST = "privacy.inference"
RATIOS = {"4:1": (400, 50, 50, 400), "1:1": (200, 100, 100, 200), "1:2": (200, 200, 200, 200)}
"""Rows of train, of both halves of the holdout, and of the synthetic table."""


def worst(measurement: MetricResult) -> Estimate:
    return next(one for one in measurement.estimates if one.measure == WORST)


def by_column(measurement: MetricResult) -> dict[str, list[float]]:
    """The advantage in each column, with the ends of its interval."""
    return {one["column"]: one["advantage"] for one in measurement.figures["inference"]["columns"]}


def with_roles(tables: Tables, **roles: object) -> Tables:
    schema = build_schema({**tables.schema.model_dump(), **roles})
    return replace(tables, schema=schema, declared=schema)


@pytest.mark.statistical
@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("name", ["all categorical", "all numeric", "mixed", "many duplicates"])
def test_an_independent_sample_raises_no_alarm(name, ratio, draw, make):
    found = inference.measure(draw(make[name], RATIOS[ratio], seed=5))
    assert worst(found).low <= 0
    assert worst(found).high > 0


@pytest.mark.slow
@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("name", ["all categorical", "all numeric", "mixed", "many duplicates"])
def test_false_alarms_keep_to_their_rate(name, ratio, draw, make):
    """Of 60 independent samples, no more alarm than 2.5% allow in 999 of 1000 runs."""
    lows = [worst(inference.measure(draw(make[name], RATIOS[ratio], seed=seed))).low for seed in range(60)]
    assert np.sum(np.array(lows) > 0) <= stats.binom.ppf(0.999, 60, 0.025)


@pytest.mark.slow
def test_fifty_columns_raise_no_more_false_alarms(draw, make):
    def wide(n: int, rng: np.random.Generator) -> pd.DataFrame:
        parts = [make["all categorical"](n, rng).add_prefix(f"{i}") for i in range(4)]
        return pd.concat([*parts, *(make["all numeric"](n, rng).add_prefix(f"{i}") for i in range(3))], axis=1)

    found = [worst(inference.measure(draw(wide, RATIOS["1:1"], seed=seed))).low for seed in range(20)]
    assert np.sum(np.array(found) > 0) <= stats.binom.ppf(0.999, 20, 0.025)
    assert worst(inference.measure(draw(wide, RATIOS["4:1"], seed=1, leak=1.0))).low > 0.3


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("name", ["all categorical", "all numeric", "mixed"])
def test_a_copy_of_the_training_table_is_an_alarm(name, ratio, draw, make):
    found = inference.measure(draw(make[name], RATIOS[ratio], seed=2, leak=1.0))
    assert worst(found).low > 0.2


def test_a_jittered_copy_is_an_alarm(draw, make):
    tables = draw(make["all numeric"], RATIOS["1:1"], seed=2, leak=1.0)
    noise = np.random.default_rng(0).normal(0, 0.02, tables.synthetic.shape)
    found = inference.measure(replace(tables, synthetic=tables.synthetic + noise))
    assert worst(found).low > 0.2


def test_a_few_copies_are_found_where_there_are_enough_targets(draw, make):
    found = inference.measure(draw(make["mixed"], (2000, 1000, 1000, 2000), seed=3, leak=0.2))
    assert worst(found).low > 0
    assert worst(found).value > worst(found).detectable


def test_the_worst_column_is_named_and_its_interval_is_that_of_the_largest_advantage(draw, make):
    found = inference.measure(draw(make["mixed"], RATIOS["1:1"], seed=2, leak=1.0))
    columns, total = by_column(found), worst(found)
    assert total.low == max(low for _, low, _ in columns.values())
    assert total.high == max(high for _, _, high in columns.values())
    assert total.value == next(value for name, (value, *_) in columns.items() if f"'{name}'" in total.note)


@pytest.mark.slow
def test_the_interval_under_a_leak_holds_the_largest_mean_advantage_of_any_column(draw, make):
    """In at least 93 of 100 evaluations."""
    found = [inference.measure(draw(make["mixed"], (300, 150, 150, 300), seed=seed, leak=0.3)) for seed in range(200)]
    columns = [by_column(one) for one in found]
    largest = max(np.mean([one[name][0] for one in columns]) for name in columns[0])
    assert np.mean([worst(one).low <= largest <= worst(one).high for one in found]) >= 0.93


def test_what_never_varies_is_no_secret(draw, make):
    found = inference.measure(draw(make["mixed"], RATIOS["1:1"], seed=0))
    assert {"same", "never"}.isdisjoint(by_column(found))
    assert "flag" in by_column(found)


def test_a_table_of_one_column_says_why_there_is_no_number(draw, make):
    found = inference.measure(draw(make["one column"], RATIOS["1:1"], seed=0))
    assert not found.estimates
    assert {failure.measure for failure in found.failures} == {WORST}
    assert {failure.reason for failure in found.failures} == {"skipped"}
    assert "one column" in found.failures[0].message


def test_where_no_column_varies_there_is_no_secret(evaluate_frames):
    frame = pd.DataFrame({"a": ["k"] * 60, "b": ["l"] * 60})
    found = inference.measure(evaluate_frames(frame, frame, frame, frame))
    assert not found.estimates
    assert "no column varies" in found.failures[0].message


def test_one_row_of_an_entity_is_attacked():
    rng = np.random.default_rng(0)
    columns = {
        "who": {"kind": "identifier", "bounds": [0, 10**9]},
        **{name: {"kind": "integer", "bounds": [0, 50]} for name in "ab"},
    }
    schema = build_schema({"status": "declared", "entity": "who", "columns": columns})

    def rows(n: int, first: int) -> pd.DataFrame:
        people = pd.DataFrame({"a": rng.integers(0, 50, n), "b": rng.integers(0, 50, n)}).assign(
            who=first + np.arange(n)
        )
        return people.loc[np.repeat(np.arange(n), 5)].reset_index(drop=True)

    train, holdout, synthetic = rows(60, 0), rows(80, 1000), rows(60, 5000)
    tables = Tables.prepare(train, holdout, synthetic, schema)
    assert worst(inference.measure(tables)).n == 60 + tables.control["who"].nunique()


def test_values_are_found_within_their_tolerance_and_missing_ones_by_a_missing_guess():
    nan, empty = np.nan, np.zeros(0)
    secret = Secret(empty, empty, np.array([1.0]), empty, width=0.5, is_line=True)
    found = secret.found(np.array([1.0, 1.0, 1.0, nan, nan]), np.array([1.5, 1.6, nan, 1.0, nan]))
    assert found.tolist() == [True, False, False, False, True]


@pytest.mark.parametrize(
    ("is_line", "pool", "usual"),
    [
        (True, [1, 2, 9], 2.0), (True, [1, np.nan, np.nan], np.nan),
        (False, [3, 3, 1], 3.0), (False, [np.nan, np.nan, 1], np.nan),
    ],
)  # fmt: skip
def test_the_usual_value_is_the_median_or_the_majority(is_line, pool, usual):
    secret = Secret(np.zeros(0), np.zeros(0), np.array(pool, float), np.zeros(0), width=0.0, is_line=is_line)
    assert secret.usual == usual or (np.isnan(usual) and np.isnan(secret.usual))


def test_rare_values_are_the_least_frequent_categories_and_the_outermost_numbers():
    fresh = np.repeat([0.0, 1.0, 2.0, np.nan], [50, 42, 5, 3])
    categories = Secret(fresh, fresh, fresh, fresh, width=0.0, is_line=False)
    assert categories.is_rare(np.array([0.0, 1.0, 2.0, 7.0, np.nan])).tolist() == [False, False, True, True, True]
    fresh = np.arange(101.0)
    numbers = Secret(fresh, fresh, fresh, fresh, width=1.0, is_line=True)
    assert numbers.is_rare(np.array([2.0, 5.0, 50.0, 96.0, np.nan])).tolist() == [True, False, False, True, False]


def test_a_leak_of_rare_values_shows_among_them(evaluate_frames):
    rng = np.random.default_rng(0)

    def rows(n: int) -> pd.DataFrame:
        frame = pd.DataFrame({f"x{i}": rng.standard_normal(n) for i in range(3)})
        return frame.assign(illness=np.where(rng.random(n) < 0.08, "rare", "none"))

    train, fresh, control, synthetic = (rows(n) for n in (2000, 1000, 1000, 1900))
    leaked = train[train["illness"] == "rare"]
    found = inference.measure(evaluate_frames(train, fresh, control, pd.concat([synthetic, leaked])))
    drawn = next(one for one in found.figures["inference"]["columns"] if one["column"] == "illness")
    assert drawn["rare"]["advantage"][1] > 0.5
    assert drawn["advantage"][0] < 0.2


def test_the_attackers_own_sample_is_as_good_as_an_honest_table(draw, make):
    found = inference.measure(draw(make["all categorical"], (1000, 1000, 1000, 1000), seed=4))
    for one in found.figures["inference"]["columns"]:
        assert one["baseline"] == pytest.approx(one["control"][0], abs=0.08)
        assert one["baseline"] > one["majority"]


def test_an_attacker_who_knows_quasi_identifiers_only_is_drawn_beside(draw, make):
    tables = with_roles(draw(make["mixed"], RATIOS["1:1"], seed=2, leak=1.0), quasi_identifiers=["c0", "x0"])
    drawn = {one["column"]: one for one in inference.measure(tables).figures["inference"]["columns"]}
    assert drawn["c0"]["quasi_identifiers"] is None
    assert 0 < drawn["c1"]["quasi_identifiers"]["advantage"][1] <= drawn["c1"]["advantage"][0]


def test_a_large_synthetic_table_is_sampled_and_that_is_said(draw, make, monkeypatch):
    monkeypatch.setattr(inference, "MAX_POOL", 100)
    monkeypatch.setattr(inference, "MAX_POOL", 100)
    tables = draw(make["mixed"], RATIOS["1:1"], seed=0)
    assert "looks at 100 of the synthetic rows" in worst(inference.measure(tables)).note


def test_all_rows_are_attacked_where_that_is_asked_for(draw, make, monkeypatch):
    monkeypatch.setattr(inference, "N_TARGETS", 30)
    tables = draw(make["many duplicates"], RATIOS["1:1"], seed=0)
    assert len(Attacked.of(tables).members) == 30
    assert len(Attacked.of(replace(tables, n_targets=None)).members) == 200
    assert len(Attacked.of(replace(tables, n_targets=20)).controls) == 20


def test_levels_that_train_lacks_are_told_apart(evaluate_frames):
    frame = pd.DataFrame({"a": list("kl") * 30, "b": list("mn") * 30})
    odd, other = frame.assign(a="odd"), frame.assign(a="other")
    tables = evaluate_frames(frame, frame, odd, other)
    secret = secret_of("a", tables, Attacked.of(tables))
    assert not secret.found(secret.pool, secret.controls).any()
