from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from evaluate.result import Estimate
from evaluate.sampling import shuffle_columns
from evaluate.tables import Real, Tables
from evaluate.utility import models, study, tstr
from evaluate.utility.models import FORMS, predictors
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


@pytest.fixture(scope="module", autouse=True)
def fewer_trees():
    """Boosting as it is, but quick."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(models.BOOSTING, "max_iter", 40)
        patch.setattr(study, "N_SPLITS", {"linear": (3, 3), "boosting": (2, 2)})
        yield


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
    return Tables(schema, schema, train[names], fresh[names], control[names], shuffled, 0, synthetic=synthetic[names])


def gaps(given: Tables) -> dict[str, Estimate]:
    """What either model loses."""
    return {form: tstr.gap_of(form, study.study_of(given)) for form in FORMS}


def by_name(measurement):
    return {estimate.measure: estimate for estimate in measurement.estimates}


@pytest.mark.statistical
@pytest.mark.parametrize("target", TARGETS)
def test_an_independent_sample_serves_as_well_as_the_training_table_and_noise_does_not(target):
    found = by_name(tstr.measure(given := tables(target)))
    for form, gap in gaps(given).items():
        score = found[f"utility.tstr.{form}"]
        assert gap.value == pytest.approx(score.reference - score.value)
        assert gap.low <= 0.05 and gap.value < 0.15
        assert score.value > score.floor + 0.1


def test_shuffled_columns_fall_behind():
    train = tables("binary").train
    # With 442 rows to learn from, what another draw of them would change is in the interval: it reaches down to zero.
    for gap in gaps(tables("binary", shuffle_columns(train, np.random.default_rng(1)))).values():
        assert gap.value > 0.05
        assert gap.low <= gap.floor <= gap.high


def test_a_target_in_other_units_falls_behind():
    grams = tables("amount").synthetic
    found = gaps(tables("amount", grams.assign(amount=grams["amount"] * 1000)))
    assert found["linear"].low > 0.3
    assert found["boosting"].low > 0.3


def test_weights_identifiers_and_the_target_predict_nothing():
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
    partial = Tables(given.schema, given.schema, train, given.fresh, given.control, given.shuffled, 0, synthetic=train)
    score = by_name(tstr.measure(partial))["utility.tstr.linear"]
    assert 0.5 < score.value < by_name(tstr.measure(given))["utility.tstr.linear"].value


def test_without_a_target_or_a_predictor_nothing_is_measured():
    assert {f.message for f in tstr.measure(tables(None)).failures} == {"the schema names no target"}
    given = tables("binary")
    alone = build_schema({"status": "inferred", "columns": {"binary": COLUMNS["binary"]}, "target": "binary"})
    frames = (frame[["binary"]] for frame in (given.train, given.fresh, given.control, given.synthetic))
    train, fresh, control, synthetic = frames
    bare = Tables(alone, alone, train, fresh, control, train, 0, synthetic=synthetic)
    assert [f.reason for f in tstr.measure(bare).failures] == ["skipped"] * 3


def test_a_synthetic_table_without_any_target_value_is_a_failure():
    empty = tables("binary").synthetic.assign(binary=None)
    assert len(tstr.measure(tables("binary", empty)).failures) == 3


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


def test_the_figure_holds_both_models():
    figure = tstr.measure(tables("amount")).figures["utility"]
    assert (figure["target"], figure["task"], figure["metric"]) == ("amount", "regression", "r2")
    assert [model["model"] for model in figure["models"]] == ["linear", "boosting"]
    assert {"tstr", "trtr", "fresh", "floor", "gap", "low", "high"} < set(figure["models"][0])


def test_the_training_table_as_synthetic_loses_nothing():
    given = tables("binary")
    for gap in gaps(tables("binary", given.train)).values():
        assert gap.value == gap.low == gap.high == 0


def test_the_reference_is_what_two_real_tables_of_one_count_differ_by():
    given = tables("binary")
    short = replace(given, fresh=given.fresh.iloc[:120].reset_index(drop=True))
    made = study.study_of(short)
    assert len(made.sides["matched"].truth) == len(made.sides["fresh"].truth) < len(made.sides["trtr"].truth)
    scores = [made.drawn("linear", side, made.score)[0] for side in ("matched", "fresh")]
    assert gaps(short)["linear"].reference == pytest.approx(scores[0] - scores[1])


def test_models_are_fitted_once_for_the_same_tables():
    given = tables("binary")
    assert study.study_of(given) is study.study_of(given)


@pytest.mark.slow
def test_models_of_real_rows_serve_every_synthetic_table_beside_them():
    given = tables("flag", entity="who")
    real = Real.prepare(given.train, given.holdout, given.schema)
    first, second = (real.beside(given.synthetic.head(n)) for n in (400, 300))
    again = real.beside(given.synthetic.tail(400).reset_index(drop=True))
    found = [study.study_of(each).models["boosting"] for each in (first, again, second)]
    for side in ("trtr", "fresh", "matched", "floor"):
        assert found[0][side] is found[1][side]
    assert found[0]["tstr"] is not found[1]["tstr"]
    assert found[0]["trtr"] is not found[2]["trtr"]  # of fewer rows
    moved = replace(first, train=first.train.head(400))
    assert study.study_of(moved).models["boosting"]["trtr"] is not found[0]["trtr"]


def test_halves_hold_whole_entities():
    made = tables("binary", entity="who")
    side = study.TaskRows.of(made.train, study.Task.of(made, "binary"), made)
    first, second = side.halves(np.random.default_rng(0))
    assert set(first.rows["who"]).isdisjoint(second.rows["who"])
    assert len(first.truth) + len(second.truth) == len(side.truth)


def test_the_interval_holds_both_sources_of_chance():
    rng = np.random.default_rng(0)
    drawn = np.r_[0.0, rng.normal(0, 0.3, 4_000)]
    # Halves differ by what rows to learn from change: of a mean with variance v, half a difference squared is v.
    halves = np.repeat(rng.normal(0, 0.4, (4_000, 2, 1)) * np.sqrt(2), 101, axis=2)
    halves[:, 1] = -halves[:, 0]
    low, high = study.interval(drawn, halves)
    spread = np.hypot(0.3, 0.4 * np.sqrt(2))
    assert high == -low == pytest.approx(1.96 * spread, rel=0.05)


def _simulated(names: list[str], n_replicates: int, spoil: float) -> dict[str, np.ndarray]:
    """Value and interval of some numbers over fresh draws of every table, shape (n_replicates, 3).

    Where one is of models without the columns that give the target away, there is such a column.
    """
    found: dict[str, list[tuple[float, ...]]] = {name: [] for name in names}
    for seed in range(n_replicates):
        rng = np.random.default_rng([seed, 11])
        rows = population(1_600, rng)
        train, fresh, control, synthetic = (rows.iloc[i * 400 : (i + 1) * 400].reset_index(drop=True) for i in range(4))
        n_bad = int(spoil * len(synthetic))
        bad = shuffle_columns(synthetic.iloc[:n_bad].reset_index(drop=True), rng)
        synthetic = pd.concat([bad, synthetic.iloc[n_bad:]], ignore_index=True)
        schema = tables("flag").schema
        sides = [frame[list(schema.kept)] for frame in (train, fresh, control, synthetic)]
        if tstr.GAP in names:
            told = {**COLUMNS["flag"], "dtype": "boolean"}
            schema = build_schema({**schema.model_dump(), "columns": {**schema.model_dump()["columns"], "told": told}})
            sides = [frame.assign(told=frame["flag"]) for frame in sides]
        drawn = Tables(schema, schema, *sides[:3], shuffle_columns(sides[0], rng), seed, synthetic=sides[3])
        numbers = by_name(tstr.measure(drawn))
        for name, listed in found.items():
            listed.append((numbers[name].value, numbers[name].low, numbers[name].high))
    return {name: np.array(listed) for name, listed in found.items()}


@pytest.mark.slow
@pytest.mark.parametrize("spoil", [0.0, 0.4])
@pytest.mark.parametrize(
    ("names", "n_replicates"),
    [
        (["utility.tstr.linear"], 1_000),
        (["utility.tstr.boosting"], 300),
        ([tstr.GAP], 300),
    ],
)
def test_the_intervals_of_scores_and_gaps_cover_what_they_say(names, n_replicates, spoil, monkeypatch):
    monkeypatch.setattr(study, "N_SPLITS", {"linear": (8, 8), "boosting": (4, 4)})
    for name, rows in _simulated(names, n_replicates, spoil).items():
        covered = np.mean((rows[:, 1] <= rows[:, 0].mean()) & (rows[:, 0].mean() <= rows[:, 2]))
        # Somewhat wide near zero, where what rows to learn from change is next to nothing and cannot be told from it.
        least = 0.93 if n_replicates == 1_000 else 0.93 - 2.4 * np.sqrt(0.93 * 0.07 / n_replicates)
        assert least <= covered <= 0.995, (name, covered)
