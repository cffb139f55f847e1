"""What every measure promises, whatever it measures: landmarks, the same numbers for the same tables, and no NaN."""

from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn import ensemble

from evaluate import metrics
from evaluate.engine import measure_candidate
from evaluate.gate.policy import Policy, Rule, load_policy, shipped
from evaluate.gate.verdict import judge_candidate
from evaluate.metrics import CATALOG, MODULES
from evaluate.result import Candidate, Estimate
from evaluate.sampling import shuffle_columns
from evaluate.tables import MetricResult, Real, Tables
from evaluate.utility import models, study
from synth.schema import Schema, build_schema
from tests.evaluate.people import MIXED, SCHEMA, rows

LANDMARKED = ("validity", "fidelity", "utility")
"""Families whose numbers have an interval and both landmarks."""


@pytest.fixture(scope="module", autouse=True)
def few_models():
    """What holds of any number of models: fewer trees, and tables split in halves twice."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(models.BOOSTING, "max_iter", 20)
        few = partial(ensemble.HistGradientBoostingClassifier, max_iter=20)
        patch.setattr(ensemble, "HistGradientBoostingClassifier", few)
        patch.setattr(study, "N_SPLITS", {"linear": (2, 2), "boosting": (2, 2)})
        yield


@cache
def measured(kind: str) -> Candidate:
    """All measures of one of the tables that all tests share; of some, those that have a floor."""
    floored = [name for name in MODULES if name.startswith(("fidelity", "utility"))]
    return measure_candidate(kind, prepared(kind), measures=floored if kind in ("train", "shuffled") else None)


@cache
def real() -> Real:
    return Real.prepare(rows(300, 0), rows(240, 1), SCHEMA)


@cache
def prepared(kind: str) -> Tables:
    train, honest = rows(300, 0), rows(300, 2)
    if kind == "turned":
        return Tables.prepare(*(turned(frame) for frame in (train, rows(240, 1), honest)), SCHEMA)
    shuffled = shuffle_columns(train, np.random.default_rng(3))
    return real().beside({"honest": honest, "train": train, "shuffled": shuffled}[kind])


def turned(frame: pd.DataFrame) -> pd.DataFrame:
    """The same rows in another order, their columns in another order, equal values in other dtypes."""
    frame = frame.sample(frac=1.0, random_state=7)[list(frame.columns[::-1])]
    return frame.assign(
        age=frame["age"].astype("float64"),
        income=frame["income"].astype(object),
        region=frame["region"].astype("category"),
        smoker=frame["smoker"].astype("boolean"),
        since=frame["since"].dt.strftime("%Y-%m-%d"),
    )


def estimates(kind: str) -> dict[tuple[str, tuple[str, ...]], Estimate]:
    return {(e.measure, e.subject): e for e in measured(kind).estimates}


def test_every_number_is_in_the_catalog_with_an_interval_around_it_and_both_landmarks() -> None:
    assert not [f for f in measured("honest").failures if f.reason not in ABSENT]
    for estimate in measured("honest").estimates:
        entry = CATALOG[estimate.measure]
        assert entry.direction == estimate.direction and estimate.n > 0, estimate
        assert estimate.low is not None and estimate.high is not None, estimate
        assert entry.range[0] <= estimate.low <= estimate.value <= estimate.high <= entry.range[1], estimate
        if entry.by.split(".")[0] in LANDMARKED:
            assert estimate.reference is not None and estimate.floor is not None, estimate


def test_rows_columns_and_dtypes_in_another_order_change_nothing() -> None:
    first, second = estimates("honest"), estimates("turned")
    assert first.keys() == second.keys()
    for key, estimate in first.items():
        for part in ("value", "low", "high", "reference", "floor"):
            assert getattr(second[key], part) == pytest.approx(getattr(estimate, part), abs=1e-9), (key, part)


def test_identical_tables_score_better_than_shuffled_ones() -> None:
    best, worst = estimates("train"), estimates("shuffled")
    for key in best.keys() & worst.keys():
        entry = CATALOG[key[0]]
        if entry.gateable and not key[1] and not key[0].startswith(("columns.", "joint.repeats.")):
            better = best[key].value - worst[key].value
            assert better * (1 if entry.direction == "higher" else -1) > 0, key


def test_an_exact_copy_fails_under_every_policy_whatever_its_dtypes() -> None:
    tables = real().beside(turned(rows(300, 0)))
    copy = measure_candidate("copy", tables, measures=["privacy.copies", "privacy.membership"])
    for policy in shipped():
        failed = {
            each.rule.measure for each in judge_candidate(copy, load_policy(policy)).findings if each.outcome == "FAIL"
        }
        assert any(name.startswith("privacy.") for name in failed), policy


@pytest.mark.parametrize("broken", ["value", "low", "reference"])
def test_nan_never_wins(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(tables: Tables) -> MetricResult:
        numbers = {"value": 0.0, "low": 0.0, "high": 0.0, "reference": 0.0, broken: float("nan")}
        return MetricResult((Estimate("columns.tvd.excess", n=10, direction="lower", **numbers),))

    monkeypatch.setattr("evaluate.fidelity.columns.measure", measure)
    result = measure_candidate("a", prepared("honest"), measures=["fidelity.columns"])
    assert not result.estimates
    assert "fidelity.columns" in {failure.measure for failure in result.failures}
    rule = Rule(measure="columns.tvd.excess", limit=1.0, why="because")
    policy = Policy(name="p", version=1, audience="a", rules=(rule,))
    assert judge_candidate(result, policy).verdict == "INCONCLUSIVE"


ABSENT = {"skipped", "not applicable"}
"""Reasons why there is no number that are no fault."""
KINDS = {
    "all categorical": ("region", "smoker"), "one number": ("income",), "dates": ("since",),
    "missing": ("age", "region", "smoker"), "constant": ("age", "region", "smoker"),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_narrow_constant_and_missing_columns_give_numbers_or_a_reason(kind: str) -> None:
    columns = {name: {**MIXED[name], "missing": True} for name in KINDS[kind]}
    frames = [rows(100, seed)[[*columns]] for seed in range(3)]
    if kind in ("missing", "constant"):
        frames = [frame.assign(age=None if kind == "missing" else 0) for frame in frames]
    tables = Tables.prepare(*frames, build_schema({"status": "declared", "columns": columns}))
    result = measure_candidate(kind, tables)
    told = {each.measure for each in (*result.estimates, *result.failures)}
    assert {CATALOG[name].by if name in CATALOG else name for name in told} >= {*MODULES} - {"fidelity.looks"}
    assert all(failure.reason in ABSENT and failure.message for failure in result.failures)


def test_no_number_is_declared_twice() -> None:
    modules = {**metrics._of_every_evaluation(), **metrics._on_request()}
    names = [metric.name for by, module in modules.items() for metric in metrics.declared(by, module)]
    assert len(set(names)) == len(names)


OTHERS: dict[str, dict[str, Any]] = {
    "weight": {"kind": "weight"}, "seen": {"kind": "datetime", "timezone": "Europe/Paris"},
    "code": {"kind": "categorical", "whole_numbers": True}, "huge": {"kind": "real"},
    "never": {"kind": "real", "missing": True},
}  # fmt: skip


def undeclared() -> Schema:
    """A schema of columns of every kind whose domain nobody declared."""
    columns = {name: {part: content for part, content in column.items() if part not in ("bounds", "categories")}
               | {"measure": True} for name, column in {**MIXED, **OTHERS}.items()}  # fmt: skip
    columns["smoker"].pop("measure")
    return build_schema({"status": "declared", "target": "region", "columns": columns})


def of_every_kind(n: int, seed: int) -> pd.DataFrame:
    rng, frame = np.random.default_rng(seed), rows(n, seed)
    seen = (frame["since"] + pd.to_timedelta(rng.integers(0, 10**6, n), unit="s")).dt.tz_localize("UTC")
    code, huge = rng.choice([3, 5, 12], n), rng.choice([0.0, 1e15, -1e15, 1e-300], n)
    return frame.assign(weight=rng.uniform(0.5, 2, n), seen=seen, code=code, huge=huge, never=np.nan)


def test_every_measure_runs_on_columns_of_every_kind_and_domains_are_of_the_real_tables() -> None:
    train, holdout = of_every_kind(150, 0), of_every_kind(100, 1).assign(age=99)
    synthetic = of_every_kind(150, 2).assign(code=77)
    synthetic.loc[:9, "region"], synthetic.loc[:9, "age"] = "elsewhere", 500
    tables = Tables.prepare(train, holdout, synthetic, undeclared())
    age, code = (tables.schema.columns[name].model_dump() for name in ("age", "code"))
    assert age["bounds"] == (train["age"].min(), 99) and code["categories"] == (3, 5, 12)
    candidate = measure_candidate("a", tables)
    assert {failure.reason for failure in candidate.failures} <= ABSENT
    assert {failure.subject for failure in candidate.failures} == {(), ("never",)}
    assert all(find is not None for find in map(candidate.find, ("columns.tvd.excess", "pairs.tvd.excess")))
