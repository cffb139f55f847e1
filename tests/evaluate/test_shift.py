"""Whether train and holdout are of one population, and what a verdict makes of it, also from a damaged file."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from evaluate.catalog import GATEABLE
from evaluate.engine import evaluate, real_facts
from evaluate.fidelity.two_samples import shift_of
from evaluate.finding import finding_of
from evaluate.policy import Policy, Rule
from evaluate.result import Candidate, Estimate, Evaluation, EvaluationError
from evaluate.result_reading import evaluation_from
from evaluate.shift import ALONE, KEY, LEVEL, Shift, rests_on_holdout
from evaluate.tables import Real
from evaluate.verdict import judge
from synth.schema import build_schema
from synth.split import split_table

SCHEMA = {
    "status": "declared",
    "target": "ill",
    "columns": {
        "age": {"kind": "integer", "bounds": [0, 120]},
        "income": {"kind": "real", "bounds": [0, 1e6], "decimals": 1, "missing": True},
        "town": {"kind": "categorical", "categories": list("abcdefgh")},
        "ill": {"kind": "boolean"},
    },
}
AUC, COPIED = "privacy.membership.auc", "privacy.copies.unique.excess"
ALIKE = Shift(n_train=100, n_holdout=100, auc=0.5, low=0.4, high=0.6, p_value=0.5)
OTHER = Shift(n_train=100, n_holdout=100, auc=0.9, low=0.8, high=0.95, p_value=1e-9)
UNKNOWN = Shift(untested="it broke down")


def population(n: int, rng: np.random.Generator) -> pd.DataFrame:
    age = rng.integers(18, 90, n)
    income = np.round(rng.lognormal(3 + age / 90, 0.5), 1)
    town = np.array(list("abcdefgh"))[np.minimum(rng.geometric(0.3, n), 8) - 1]
    frame = pd.DataFrame({"age": age, "income": income, "town": town, "ill": rng.random(n) < age / 120})
    frame.loc[rng.random(n) < 0.1, "income"] = np.nan
    return frame


def shift(train: pd.DataFrame, holdout: pd.DataFrame, **schema: Any) -> Shift:
    return shift_of(Real.prepare(train, holdout, build_schema({**SCHEMA, **schema}), outside="clamp"))


def alarms(n_splits: int, n_rows: int) -> tuple[int, np.ndarray]:
    """How many splits of one population are said to differ, and the classifier's p-values."""
    found = []
    for seed in range(n_splits):
        rows = population(n_rows, np.random.default_rng([seed, 1]))
        if seed % 2:
            found.append(shift(rows[: n_rows // 3], rows[n_rows // 3 :]))
        else:
            split = split_table(rows, build_schema(SCHEMA), holdout_share=0.3, seed=seed)  # stratified on the target
            found.append(shift(split.train, split.holdout))
    return sum(one.differs for one in found), np.array([one.p_value for one in found])


def test_samples_of_one_population_are_not_said_to_differ() -> None:
    n_alarms, p_values = alarms(10, 400)
    assert n_alarms == 0
    assert p_values.min() > 1e-3
    assert 0.1 < p_values.mean() < 0.9


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_at_most_one_honest_split_in_a_thousand_is_said_to_differ() -> None:
    n_alarms, p_values = alarms(1_500, 400)
    assert n_alarms <= 4  # 1,500 times LEVEL is .75, and five or more come once in a thousand
    for share in (0.01, 0.05, 0.5):
        assert (p_values <= share).mean() <= share + 3.3 * np.sqrt(share * (1 - share) / len(p_values))


def test_entities_of_many_equal_rows_are_counted_once() -> None:
    for seed in range(3):
        rng = np.random.default_rng(seed)
        people = population(160, rng).assign(person=np.arange(160))
        rows = people.loc[people.index.repeat(rng.integers(1, 12, 160))].reset_index(drop=True)
        inside = rows["person"].isin(rng.permutation(people["person"])[:60])
        columns = {**SCHEMA["columns"], "person": {"kind": "identifier", "bounds": [0, 999]}}  # type: ignore[dict-item]
        found = shift(rows[~inside], rows[inside], columns=columns, entity="person", max_rows_per_unit=12)
        assert (found.n_train, found.n_holdout) == (100, 60)
        assert not found.differs


def test_a_column_that_moved_is_named_and_columns_that_no_longer_hang_together_are_seen() -> None:
    rng = np.random.default_rng(3)
    train, holdout = population(1_500, rng), population(1_000, rng)
    older = shift(train, holdout.assign(age=holdout["age"] + 6))
    assert older.differs
    assert [one.column for one in older.columns] == ["age"]
    assert "'age' (D = 0.1" in older.sentence or "'age' (D = 0.0" in older.sentence
    gone = holdout["income"].where(rng.random(1_000) < 0.9)
    assert [(one.column, one.statistic) for one in shift(train, holdout.assign(income=gone)).columns] == [
        ("income", "V")
    ]
    apart = shift(train, holdout.assign(age=holdout["age"].sample(frac=1, random_state=0).to_numpy()))
    assert apart.differs
    assert not apart.columns
    assert apart.low > 0.5


def test_the_order_of_rows_changes_nothing() -> None:
    rng = np.random.default_rng(5)
    train, holdout = population(300, rng), population(200, rng)
    assert shift(train, holdout) == shift(train[::-1], holdout.sample(frac=1, random_state=1))


def candidate(*found: Estimate) -> Candidate:
    return Candidate("c", found)


def estimate(measure: str, low: float, high: float) -> Estimate:
    return Estimate(measure, (low + high) / 2, 1000, GATEABLE[measure], low=low, high=high)


def outcome(given: Candidate, measure: str, limit: float, real: dict[str, Any] | None) -> tuple[str, str]:
    rule = Rule(measure=measure, limit=limit, why="w")
    verdict = judge(given, Policy(name="p", version=1, audience="a", rules=(rule,)), real=real)
    return verdict.verdict, verdict.findings[0].reason


@pytest.mark.parametrize("measure", sorted(name for name in GATEABLE if name.startswith("privacy.")))
def test_what_rests_on_a_holdout_of_another_population_is_inconclusive_and_what_does_not_stands(measure: str) -> None:
    good, bad = ((0.9, 1.0), (0.0, 0.1)) if GATEABLE[measure] == "higher" else ((0.0, 0.1), (0.9, 1.0))
    for ends, plain in ((good, "PASS"), (bad, "FAIL"), ((0.1, 0.9), "INCONCLUSIVE")):
        given = candidate(estimate(measure, *ends))
        assert outcome(given, measure, 0.5, None)[0] == plain
        assert outcome(given, measure, 0.5, {KEY: ALIKE.model_dump()})[0] == plain
        other, why = outcome(given, measure, 0.5, {KEY: OTHER.model_dump()})
        if rests_on_holdout(measure):
            assert other == "INCONCLUSIVE"
            assert "0.900" in why
            for unknown in ({}, {KEY: UNKNOWN.model_dump()}):  # what is not known turns no FAIL around, and passes none
                assert outcome(given, measure, 0.5, unknown)[0] == {"PASS": "INCONCLUSIVE"}.get(plain, plain)
        else:
            assert other == plain
            assert outcome(given, measure, 0.5, {})[0] == plain


def test_no_rule_on_fidelity_and_no_measure_that_is_not_there_is_questioned() -> None:
    given, real = candidate(estimate("columns.tvd.excess", 0.0, 0.1)), {KEY: OTHER.model_dump()}
    assert outcome(given, "columns.tvd.excess", 0.5, real)[0] == "PASS"
    assert "not run" in outcome(given, AUC, 0.5, real)[1]
    assert all(name in GATEABLE or name == "privacy.black_box.epsilon" for name in ALONE)


def test_copies_fail_beside_any_holdout_unless_twins_explain_them() -> None:
    given = candidate(estimate("privacy.copies.unique", 0.06, 0.08), estimate(COPIED, 0.055, 0.085))
    assert finding_of(given, Rule(measure=COPIED, limit=0.05, why="w")).outcome == "FAIL"
    other = {KEY: OTHER.model_dump()}
    for twins, expected in ((0.0, "FAIL"), (0.005, "FAIL"), (0.02, "INCONCLUSIVE"), (None, "INCONCLUSIVE")):
        assert outcome(given, COPIED, 0.05, {**other, "duplicate_share_train": twins})[0] == expected, twins


@pytest.fixture(scope="module")
def found() -> Evaluation:
    """An honest table, beside a holdout of people who are older."""
    rng = np.random.default_rng(7)
    train, holdout, synthetic = (population(n, rng) for n in (900, 700, 900))
    holdout["age"] = holdout["age"] + 15
    schema = build_schema(SCHEMA)
    return evaluate(train, holdout, synthetic, schema, measures=["privacy.membership"], outside="clamp")


def test_an_evaluation_says_which_columns_differ_and_a_file_keeps_it(found: Evaluation) -> None:
    assert evaluation_from(found.to_json()) == found
    kept = Shift.of(found.real)
    assert kept.differs
    assert "age" in [one.column for one in kept.columns]
    assert kept.warnings == (kept.sentence,)
    text, why = outcome(found.candidates[0], AUC, 0.5, dict(found.real))
    assert text == "INCONCLUSIVE"
    assert "'age'" in why
    assert not Shift.of({KEY: ALIKE.model_dump()}).warnings


@pytest.mark.parametrize(
    "change",
    [
        {"p_value": 2.0}, {"p_value": None}, {"auc": 0.99, "high": 0.98}, {"n_train": 0}, {"n_train": 1.5}, {"more": 1},
        {"columns": "age"}, {"columns": [{"column": "age"}]}, {"untested": "it is not known"}, {"low": float("nan")},
    ],
)  # fmt: skip
def test_a_damaged_test_is_refused_and_never_a_verdict(found: Evaluation, change: dict[str, Any]) -> None:
    content = json.loads(found.to_json())
    content["real"][KEY].update(change)
    with pytest.raises(EvaluationError, match=r"damaged|not an evaluation"):
        evaluation_from(json.dumps(content))


def test_nothing_is_tested_where_nothing_asked_for_rests_on_it(found: Evaluation) -> None:
    rng = np.random.default_rng(1)
    real = Real.prepare(population(100, rng), population(100, rng), build_schema(SCHEMA))
    assert Shift.of(real_facts(real, ["validity"])).untested
    assert not Shift.of(real_facts(real)).untested
    few = replace(real, train=real.train.head(10))
    assert "at least" in Shift.of(real_facts(few)).untested
    assert LEVEL <= 1e-3


@pytest.mark.slow
def test_another_year_of_the_same_survey_is_seen(shared_table: Any) -> None:
    from synth.infer import infer_schema

    years = [
        pd.read_csv(shared_table(f"nist_ma{year}.csv.gz"), keep_default_na=False, na_values=[""])
        for year in (2019, 2018)
    ]
    schema = infer_schema(pd.concat(years, ignore_index=True))
    other = shift_of(Real.prepare(*years, schema, outside="clamp"))
    assert other.differs
    assert other.auc > 0.6
    assert {"PWGTP", "WGTP"} <= {one.column for one in other.columns}
    same = shift_of(Real.prepare(years[0][::2], years[0][1::2], schema, outside="clamp"))
    assert not same.differs
