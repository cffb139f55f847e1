"""Rules that a table is too small for, told from public numbers alone before anything is fitted."""

import numpy as np
import pandas as pd
import pytest

from evaluate.engine import evaluate
from evaluate.gate.policy import Policy, Rule
from evaluate.privacy.membership import Scores, area_estimate, rate_estimate
from evaluate.privacy.membership_attacks import targets_of
from evaluate.result import Estimate
from evaluate.tables import Real
from synth.dp.schedule import TradeOff
from synth.schema import build_schema
from understudy.run.preflight import Size, beyond_reach, could_pass, unfavorable

RARE, AUC = "privacy.membership.tpr_at_0.001", "privacy.membership.auc"
SMALL = Size(10_000, 0.2, 8_000)


def policy_of(*rules: tuple[str, float], severity: str = "fail") -> Policy:
    content = tuple(Rule(measure=m, limit=limit, why="w", severity=severity) for m, limit in rules)  # type: ignore[arg-type]
    return Policy(name="p", version=1, audience="a", rules=content)


def told(policy: Policy, size: Size, limit: TradeOff | None = None) -> list[str]:
    return list(beyond_reach(policy, {"a": size}, {"a": limit}))


@pytest.mark.parametrize("n_units", [3_000, 20_000])
def test_the_upper_end_is_what_an_attack_on_honest_rows_comes_to(n_units: int) -> None:
    size, rng = Size(n_units, 0.2, 8_000), np.random.default_rng(n_units)
    n_members, n_controls = size.sides
    scores = [(rng.random(n_members), rng.random(n_controls)) for _ in range(15)]
    areas = [area_estimate(AUC, [Scores.of(*each)], note="") for each in scores]
    width = np.mean([each.high - each.value for each in areas if each.high is not None])
    assert unfavorable(AUC, size) == pytest.approx(0.5 + width, rel=0.02)
    rates = [rate_estimate("privacy.membership.tpr_at_0.01", 0.01, {"a": each}) for each in scores]
    highs = [each.high for each in rates if isinstance(each, Estimate) and each.high is not None]
    if n_controls >= 100:
        assert unfavorable("privacy.membership.tpr_at_0.01", size) == pytest.approx(np.median(highs), rel=0.25)


def test_a_rule_that_a_table_is_too_small_for_is_told_with_what_would_decide() -> None:
    (text,) = told(policy_of((RARE, 0.006), (AUC, 0.6)), SMALL)
    assert "policy='p' asks for privacy.membership.tpr_at_0.001 of at most 0.006" in text
    assert "n_units=10000 is too small" in text and "units" in text.partition("what would decide: ")[2]
    assert told(policy_of((RARE, 0.006)), Size(400_000, 0.2, None)) == []
    assert told(policy_of((RARE, 0.006), severity="warn"), SMALL) == []
    (text,) = told(policy_of((RARE, 0.006)), Size(2_000, 0.2, 8_000))
    assert "it cannot be measured" in text
    (text,) = told(policy_of((RARE, 0.003)), Size(1_000_000, 0.2, 8_000))
    assert 'what would decide: targets = "all"' in text


def test_what_would_decide_does() -> None:
    for rule in (Rule(measure=RARE, limit=0.006, why="w"), Rule(measure=AUC, limit=0.55, why="w")):
        (text,) = told(policy_of((rule.measure, rule.limit)), Size(900, 0.2, 8_000))
        n_units = int(text.rpartition("about ")[2].removesuffix(" units").replace(",", ""))
        assert could_pass(rule, Size(n_units, 0.2, None if "all" in text else 8_000))
        assert not could_pass(rule, Size(n_units // 2, 0.2, None))


def test_a_rule_that_a_proof_decides_is_not_told() -> None:
    policy = policy_of((RARE, 0.006))
    assert told(policy, SMALL, TradeOff.of_claim(1.0, 1e-6)) == []
    assert told(policy, SMALL, TradeOff.of_claim(3.0, 1e-6)) != []
    limits = {"mine": TradeOff.of_claim(1.0, 1e-6), "other": None}
    (text,) = beyond_reach(policy, dict.fromkeys(limits, SMALL), limits)
    assert "generators.other" in text and "generators.mine" not in text


@pytest.mark.parametrize("rows_each", [1, 3])
def test_targets_are_counted_as_the_attack_does(rows_each: int) -> None:
    n_units, n_targets = 1_000, 150
    columns = {"who": {"kind": "identifier", "bounds": [0, 1_999]}, "x": {"kind": "real", "bounds": [0, 1]}}
    schema = build_schema({"status": "declared", "n_units": n_units, "entity": "who", "columns": columns})
    rng = np.random.default_rng(rows_each)

    def rows(first: int, n: int) -> pd.DataFrame:
        who = np.repeat(np.arange(first, first + n), rows_each)
        return pd.DataFrame({"who": who, "x": rng.random(len(who))})

    tables = Real.prepare(rows(0, 700), rows(700, 300), schema, targets=n_targets).beside(rows(1_000, 700))
    size = Size(n_units, 0.3, n_targets, rows_each=rows_each)
    assert tuple(map(len, targets_of(tables))) == size.sides


@pytest.mark.parametrize("n", [60, 500])
def test_shares_of_synthetic_rows_end_where_those_of_honest_rows_do(n: int) -> None:
    rng = np.random.default_rng(n)
    schema = build_schema({"status": "declared", "columns": {"x": {"kind": "real", "bounds": [0, 1]}}})
    train, holdout, fresh = (pd.DataFrame({"x": rng.random(size)}) for size in (100, 80, n))
    result = evaluate(
        train, {"a": fresh}, holdout=holdout, schema=schema, measures=["validity", "privacy.copies"]
    ).candidates[0]
    ends = {"validity.rows": "low", "privacy.copies.excess": "high", "privacy.copies.unique.excess": "high"}
    for measure, end in ends.items():
        assert unfavorable(measure, Size(7, 0.2, None, n_rows=n)) == pytest.approx(getattr(result.find(measure), end))
    # What is counted beyond chance has no such end: where nobody is hit, nobody is copied, in a table of any size.
    people = result.find("privacy.copies.people")
    assert isinstance(people, Estimate)
    assert (people.low, people.high) == (0.0, 0.0)
    assert unfavorable("privacy.copies.people", Size(7, 0.2, None, n_rows=n)) is None
