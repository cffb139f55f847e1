"""Rows dealt at random to entities are a case of self-tests: histories that such rows keep are found out."""

from functools import cache

import pytest

from evaluate.engine import _run
from evaluate.gate.checks import BROKEN, CAME_OUT, NOT_APPLICABLE, checks_of
from evaluate.gate.policy import load_policy, shipped
from evaluate.metrics import MODULES
from evaluate.real_facts import RealFacts
from evaluate.result import Estimate, SelfTest
from evaluate.self_tests import self_tests_of
from evaluate.tables import MetricResult, Real
from tests.extras.histories.markov import SCHEMA, markov
from understudy.extras.histories.fidelity import NAME, WORST, deal_rows

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
