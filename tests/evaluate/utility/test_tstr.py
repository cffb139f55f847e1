from typing import Any

import numpy as np
import pandas as pd
import pytest

from evaluate.tables import Tables, shuffle_columns
from evaluate.utility import tstr
from synth.schema import build_schema

COLUMNS: dict[str, Any] = {
    "group": {"kind": "categorical", "categories": ["p", "q", "r"], "missing": True},
    "x": {"kind": "real", "bounds": [-100, 100], "missing": True},
    "day": {"kind": "date", "bounds": ["2000-01-01", "2030-01-01"], "missing": True},
    "never": {"kind": "real", "bounds": [0, 1], "missing": True},
    "same": {"kind": "real", "bounds": [0, 1], "missing": True},
    "wt": {"kind": "weight", "bounds": [0, 100]},
    "who": {"kind": "identifier", "bounds": [0, 10**6]},
    "binary": {"kind": "categorical", "categories": ["no", "yes"], "missing": True},
    "flag": {"kind": "boolean", "missing": True},
    "three": {"kind": "categorical", "categories": [1, 2, 3]},
    "amount": {"kind": "real", "bounds": [0, 1e9], "missing": True},
}
TARGETS = ("binary", "flag", "three", "amount")


def population(n: int, rng: np.random.Generator) -> pd.DataFrame:
    code, x = rng.integers(0, 3, n), rng.standard_normal(n)
    signal = x + code + rng.standard_normal(n)
    days = pd.Series(np.datetime64("2020-01-01", "us") + rng.integers(0, 900, n) * np.timedelta64(1, "D"))
    binary = np.where(signal > 1, "yes", "no").astype(object)
    binary[rng.random(n) < 0.1] = None
    return pd.DataFrame(
        {
            "group": np.array(["p", "q", "r"], dtype=object)[code],
            "x": np.where(rng.random(n) < 0.1, np.nan, x),
            "day": days.astype("datetime64[us]"),
            "never": np.nan,
            "same": np.where(x > 2, np.nan, 0.5),
            "wt": np.where(binary == "yes", 90.0, 1.0),
            "who": pd.array(np.arange(n) // 2, dtype="Int64"),
            "binary": binary,
            "flag": pd.array(signal > 0, dtype="boolean"),
            "three": pd.array(1 + np.digitize(signal, [0.3, 1.7]), dtype="Int64"),
            "amount": np.exp(signal),
        }
    )


def tables(target: str | None, synthetic: pd.DataFrame | None = None, *, n: int = 500, **roles: object) -> Tables:
    frame = population(4 * n, np.random.default_rng(0))
    train, fresh, control, other = (frame.iloc[i * n : (i + 1) * n].reset_index(drop=True) for i in range(4))
    kept = {**COLUMNS, **{name: {**COLUMNS[name], "drop": True} for name in TARGETS if name != target}}
    schema = build_schema({"status": "inferred", "columns": kept, "target": target, **roles})
    names = list(schema.kept)
    synthetic = other if synthetic is None else synthetic
    shuffled = shuffle_columns(train[names], np.random.default_rng(0))
    return Tables(
        schema, schema, train[names], fresh[names], control[names], synthetic[names], synthetic[names], shuffled, seed=0
    )


def by_name(measurement):
    return {estimate.measure: estimate for estimate in measurement.estimates}


@pytest.mark.parametrize("target", TARGETS)
def test_an_independent_sample_serves_as_well_as_the_training_table_and_noise_does_not(target):
    found = by_name(tstr.measure(tables(target)))
    for form in ("linear", "boosting"):
        gap, score = found[f"utility.gap.{form}"], found[f"utility.tstr.{form}"]
        assert gap.value == pytest.approx(score.reference - score.value)
        assert gap.low <= 0.05 and gap.value < 0.15
        assert score.value > score.floor + 0.1


def test_shuffled_columns_fall_behind():
    train = tables("binary").train
    found = by_name(tstr.measure(tables("binary", shuffle_columns(train, np.random.default_rng(1)))))
    # With 442 rows to learn from, what another draw of them would change is in the interval: it reaches down to zero.
    for form in ("linear", "boosting"):
        gap = found[f"utility.gap.{form}"]
        assert gap.value > 0.05
        assert gap.low <= gap.floor <= gap.high


def test_a_target_in_other_units_falls_behind():
    grams = tables("amount").synthetic
    found = by_name(tstr.measure(tables("amount", grams.assign(amount=grams["amount"] * 1000))))
    assert found["utility.gap.linear"].low > 0.3
    assert found["utility.gap.boosting"].low > 0.3


def test_weights_identifiers_and_the_target_predict_nothing():
    from evaluate.utility.features import predictors

    assert predictors(tables("binary").schema) == ("day", "group", "never", "same", "x")


def test_a_synthetic_table_of_one_class_scores_as_chance():
    only = tables("binary").synthetic.assign(binary="no")
    measurement = tstr.measure(tables("binary", only))
    found = by_name(measurement)
    assert found["utility.tstr.linear"].value == found["utility.tstr.boosting"].value == 0.5
    assert "lack a class" in found["utility.tstr.linear"].note


def test_a_synthetic_table_that_lacks_a_class_is_scored_on_all_of_them():
    full = tables("three").synthetic
    fewer = full[full["three"] != 3].reset_index(drop=True)
    found = by_name(tstr.measure(tables("three", fewer)))
    assert 0.5 < found["utility.tstr.linear"].value < found["utility.tstr.linear"].reference
    assert "lack a class" in found["utility.tstr.linear"].note


def test_a_class_that_training_rows_lack_counts_as_chance():
    given = tables("three")
    train = given.train.assign(three=given.train["three"].clip(upper=2))
    partial = Tables(
        given.schema, given.schema, train, given.fresh, given.control, train, train, given.shuffled, seed=0
    )
    score = by_name(tstr.measure(partial))["utility.tstr.linear"]
    assert 0.5 < score.value < by_name(tstr.measure(given))["utility.tstr.linear"].value


def test_without_a_target_or_a_predictor_nothing_is_measured():
    assert {f.message for f in tstr.measure(tables(None)).failures} == {"the schema names no target"}
    given = tables("binary")
    alone = build_schema({"status": "inferred", "columns": {"binary": COLUMNS["binary"]}, "target": "binary"})
    frames = (frame[["binary"]] for frame in (given.train, given.fresh, given.control, given.synthetic))
    train, fresh, control, synthetic = frames
    bare = Tables(alone, alone, train, fresh, control, synthetic, synthetic, train, seed=0)
    assert [f.reason for f in tstr.measure(bare).failures] == ["skipped"] * 4


def test_a_synthetic_table_without_any_target_value_is_a_failure():
    empty = tables("binary").synthetic.assign(binary=None)
    assert len(tstr.measure(tables("binary", empty)).failures) == 4


@pytest.mark.parametrize("target", ["binary", "amount"])
def test_a_synthetic_table_of_one_repeated_row_teaches_nothing(target):
    row = tables(target).synthetic.dropna(subset=[target]).iloc[[0]]
    found = by_name(tstr.measure(tables(target, pd.concat([row] * 50, ignore_index=True))))
    assert found["utility.tstr.boosting"].value <= 0.5


def test_predictors_that_do_not_vary_leave_the_target_unexplained():
    same = tables("amount").synthetic.assign(group="p", x=0.0, same=0.5, day=pd.Timestamp("2020-01-01"))
    same["day"] = same["day"].astype("datetime64[us]")
    found = by_name(tstr.measure(tables("amount", same)))
    assert -0.2 < found["utility.tstr.linear"].value <= 0


def test_the_order_of_rows_does_not_matter():
    given = tables("binary", entity="who")
    again = Tables(
        given.schema,
        given.declared,
        *(f.sample(frac=1, random_state=1).reset_index(drop=True) for f in (given.train, given.fresh, given.control)),
        given.offered, given.synthetic, given.shuffled, given.seed,
    )  # fmt: skip
    first, second = (by_name(tstr.measure(t))["utility.tstr.linear"] for t in (given, again))
    assert first.value == pytest.approx(second.value, abs=1e-9)


def test_the_figure_holds_both_models():
    figure = tstr.measure(tables("amount")).figures["utility"]
    assert (figure["target"], figure["task"], figure["metric"]) == ("amount", "regression", "r2")
    assert [model["model"] for model in figure["models"]] == ["linear", "boosting"]
    assert {"tstr", "trtr", "fresh", "floor", "gap", "low", "high"} < set(figure["models"][0])
