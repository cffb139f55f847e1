"""Fidelity of histories: by hand, on spoiled histories of a known law, and under the policies that ship."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

from evaluate.engine import _run, measure_candidate
from evaluate.gate.policy import Policy, load_policy, shipped
from evaluate.gate.policy_checks import BROKEN, CAME_OUT, NOT_APPLICABLE, checks_of
from evaluate.gate.verdict import judge_candidate
from evaluate.metrics import MODULES
from evaluate.real_facts import RealFacts
from evaluate.result import Candidate, Estimate, SelfTest
from evaluate.self_tests import self_tests_of
from evaluate.tables import MetricResult, Real, Tables
from tests.extras.histories.markov import SCHEMA, dealt, markov
from understudy.extras.histories.fidelity import IMPOSSIBLE, METRICS, NAME, WORST, deal_rows

N = 1_200
GATED = tuple(metric.name for metric in METRICS if metric.name != IMPOSSIBLE)  # of 400 machines it has no number


@cache
def real() -> Real:
    return Real.prepare(markov(N, 0), markov(N // 2, 1, N), SCHEMA)


@cache
def honest() -> pd.DataFrame:
    return markov(N, 2, 3 * N)


@cache
def measured(spoiled: Callable[[pd.DataFrame], pd.DataFrame] | None = None) -> Candidate:
    table = honest() if spoiled is None else spoiled(honest())
    return measure_candidate("t", real().beside(table), measures=[NAME])


def number(candidate: Candidate, name: str, *subject: str) -> Estimate:
    estimate = candidate.find(name, subject)
    assert isinstance(estimate, Estimate), estimate
    return estimate


def facts(order: str | None = "day") -> RealFacts:
    return RealFacts(4_000, 2_000, 0, 0.0, 6, entity="machine", order=order)


def outcomes(candidate: Candidate, policy: Policy) -> dict[str, str]:
    verdict = judge_candidate(candidate, policy, real=facts())
    return {f.rule.measure: f.outcome for f in verdict.findings if f.rule.measure.startswith("histories.")}


def shuffled(table: pd.DataFrame) -> pd.DataFrame:
    return dealt(table, 5)


def moving(table: pd.DataFrame) -> pd.DataFrame:
    """One row in twenty at another site."""
    moved = np.random.default_rng(6).random(len(table)) < 0.05
    return table.assign(site=np.where(moved & (table["site"] != "east"), "east", table["site"]))


def impossible(table: pd.DataFrame, seed: int = 8) -> pd.DataFrame:
    """One step in twenty from hot goes to calm, which no machine ever does."""
    table = table.sort_values(["machine", "day"], kind="stable", ignore_index=True)
    after_hot = (table["state"].shift() == "hot") & (table["machine"].shift() == table["machine"])
    return table.assign(
        state=table["state"].mask(after_hot & (np.random.default_rng(seed).random(len(table)) < 0.05), "calm")
    )


def short(table: pd.DataFrame) -> pd.DataFrame:
    return table[table.groupby("machine").cumcount() < 2].reset_index(drop=True)


def slow(table: pd.DataFrame) -> pd.DataFrame:
    start = np.datetime64("2020-01-01")
    return table.assign(day=start + 2 * (table["day"] - start))


def half_dealt(table: pd.DataFrame) -> pd.DataFrame:
    """A few machines, fewer than the holdout has, so that all of their steps are compared; half of them dealt."""
    few = table[table["machine"] < 3 * N + N // 3].reset_index(drop=True)
    half = few["machine"] < 3 * N + N // 6
    both = pd.concat([dealt(few[half], 5), few[~half]], ignore_index=True)
    return both.drop_duplicates(["machine", "day"], ignore_index=True)  # which of two on a day is first is open


def steps_of(table: pd.DataFrame, name: str) -> pd.DataFrame:
    table = table.sort_values(["machine", "day"], kind="stable")
    before = table.groupby("machine")[name].shift()
    return pd.DataFrame({"before": before, "now": table[name]})[before.notna()]


def drawn(candidate: Candidate, column: str) -> dict[str, Any]:
    (figure,) = (each for each in candidate.figures["histories"]["transitions"] if each["columns"] == [column])
    return dict(figure)


def test_transitions_are_those_that_one_counts_by_hand() -> None:
    tables = (markov(N, 0), half_dealt(honest()))
    shares = [steps_of(table, "state").value_counts(normalize=True) for table in tables]
    by_hand = shares[0].sub(shares[1], fill_value=0.0).abs().sum() / 2
    assert by_hand > 0.05
    assert drawn(measured(half_dealt), "state")["tvd"] == pytest.approx(by_hand, abs=1e-12)


def test_fresh_histories_raise_no_alarm_under_any_policy() -> None:
    for name in shipped():
        assert "FAIL" not in outcomes(measured(), load_policy(name)).values()
        assert outcomes(measured(), load_policy(name))[WORST] == "PASS"


def test_histories_dealt_at_random_fail_every_policy() -> None:
    for name in shipped():
        assert outcomes(measured(shuffled), load_policy(name))[WORST] == "FAIL"
    worst = number(measured(shuffled), WORST)
    assert worst.value == pytest.approx(1.0, abs=0.1)
    assert worst.value == pytest.approx(worst.floor, abs=0.1)
    assert number(measured(), WORST).high < 0.05


@pytest.mark.parametrize(
    ("spoiled", "rule"),
    [
        (moving, IMPOSSIBLE), (impossible, IMPOSSIBLE),
        (short, "histories.lengths.excess"), (slow, "histories.gaps.excess"),
    ],
)  # fmt: skip
def test_what_is_spoiled_fails_and_is_not_told_of_fresh_histories(
    spoiled: Callable[[pd.DataFrame], pd.DataFrame], rule: str
) -> None:
    assert outcomes(measured(spoiled), load_policy("partner"))[rule] == "FAIL"
    assert outcomes(measured(), load_policy("partner"))[rule] == "PASS"


@pytest.mark.statistical
def test_intervals_hold_what_they_estimate() -> None:
    """A share of the histories is dealt at random: intervals hold the mean over repetitions in 96 to 100 of 100."""
    share = 0.3
    estimates: dict[str, list[Estimate]] = {name: [] for name in GATED}
    for seed in range(100):
        table = markov(400, 10 * seed + 2, 2_000)
        some = table["machine"] < 2_000 + 400 * share
        table.loc[some, "machine"] = np.random.default_rng(seed).permutation(table.loc[some, "machine"].to_numpy())
        tables = Tables.prepare(markov(400, 10 * seed), markov(400, 10 * seed + 1, 1_000), table, SCHEMA, seed=seed)
        measured_now = measure_candidate("t", tables, measures=[NAME])
        for name in GATED:
            estimates[name].append(number(measured_now, name))
    for name, each in estimates.items():
        mean = np.mean([estimate.value for estimate in each])
        covered = np.mean([estimate.low <= mean <= estimate.high for estimate in each])
        assert covered >= 0.96, (name, covered)
    # A share of histories that are dealt goes into the dependence by its square.
    assert np.mean([estimate.value for estimate in estimates[WORST]]) == pytest.approx(share**2, abs=0.02)


FACTS = RealFacts(400, 400, 0, 0.0, 6, entity="machine", order="day")


def self_tested(n: int) -> tuple[Real, tuple[SelfTest, ...]]:
    real = Real.prepare(markov(n, 0), markov(n, 1, n), SCHEMA)
    return real, self_tests_of(real, [NAME], lambda name, tables: _run(name, tables, None)[0])


@cache
def of_400() -> tuple[SelfTest, ...]:
    return self_tested(400)[1]


@pytest.mark.parametrize("policy", shipped())
def test_rows_dealt_at_random_to_entities_must_fail_on_histories(policy: str) -> None:
    checks = checks_of(of_400(), load_policy(policy), FACTS)
    assert [(check.case, check.outcome) for check in checks if check.outcome != NOT_APPLICABLE] == [("dealt", CAME_OUT)]


def test_histories_that_are_never_told_from_real_ones_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    near = Estimate(WORST, 0.0, 500, "lower", low=-0.05, high=0.05, reference=0.0, floor=1.0)
    monkeypatch.setattr(f"{MODULES[NAME]}.measure", lambda tables: MetricResult((near,)))
    real, tests = self_tested(100)
    policy = load_policy("partner")
    assert {each.case for each in checks_of(tests, policy, FACTS) if each.outcome == BROKEN} == {"dealt"}
    # Missing, as from another evaluation, it shows nothing; a table without an order has no such case.
    of_older = [each for each in tests if each.case != "dealt"]
    assert "dealt" in {each.case for each in checks_of(of_older, policy, FACTS) if each.outcome == BROKEN}
    assert "dealt" not in {each.case for each in checks_of(of_older, policy)}
    assert (deal_rows(real).groupby("machine").size() == real.train.groupby("machine").size()).all()
