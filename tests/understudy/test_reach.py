"""Rules that a table is too small for, told from public numbers alone before anything is fitted."""

import numpy as np
import pytest

from evaluate.policy import Policy, Rule, load_policy
from evaluate.privacy.membership import area_estimate, rate_estimate
from evaluate.privacy.membership.rates import Scores
from evaluate.result import Estimate
from synth.dp.tradeoff import TradeOff
from understudy.reach import Size, beyond_reach, could_pass, highest

RARE, AUC = "privacy.membership.tpr_at_0.001", "privacy.membership.auc"
SMALL = Size(10_000, 0.2, 8_000)


def policy_of(*rules: tuple[str, float], severity: str = "fail") -> Policy:
    made = tuple(Rule(measure=m, limit=limit, why="w", severity=severity) for m, limit in rules)  # type: ignore[arg-type]
    return Policy(name="p", version=1, audience="a", rules=made)


def told(policy: Policy, size: Size, limit: TradeOff | None = None) -> list[str]:
    return list(beyond_reach(policy, size, {"a": limit}))


@pytest.mark.parametrize("n_units", [3_000, 20_000, 120_000])
def test_the_upper_end_is_what_an_attack_on_honest_rows_comes_to(n_units: int) -> None:
    size, rng = Size(n_units, 0.2, 8_000), np.random.default_rng(n_units)
    n_members, n_controls = size.sides
    scores = [(rng.random(n_members), rng.random(n_controls)) for _ in range(15)]
    areas = [area_estimate(AUC, [Scores.of(*one)], note="") for one in scores]
    width = np.mean([one.high - one.value for one in areas if one.high is not None])
    assert highest(AUC, size) == pytest.approx(0.5 + width, rel=0.02)
    rates = [rate_estimate("privacy.membership.tpr_at_0.01", 0.01, {"a": one}) for one in scores]
    highs = [one.high for one in rates if isinstance(one, Estimate) and one.high is not None]
    if n_controls >= 100:
        assert highest("privacy.membership.tpr_at_0.01", size) == pytest.approx(np.median(highs), rel=0.25)


def test_a_rule_that_a_table_is_too_small_for_is_told_with_what_would_decide() -> None:
    (said,) = told(policy_of((RARE, 0.006), (AUC, 0.6)), SMALL)
    assert "policy='p' asks for privacy.membership.tpr_at_0.001 of at most 0.006" in said
    assert "n_units=10000 is too small" in said and "units" in said.partition("what would decide: ")[2]
    assert told(policy_of((RARE, 0.006)), Size(400_000, 0.2, None)) == []
    assert told(policy_of((RARE, 0.006), severity="warn"), SMALL) == []
    (said,) = told(policy_of((RARE, 0.006)), Size(2_000, 0.2, 8_000))
    assert "it cannot be measured" in said
    (said,) = told(policy_of((RARE, 0.003)), Size(1_000_000, 0.2, 8_000))
    assert 'what would decide: targets = "all"' in said


def test_what_would_decide_does() -> None:
    for rule in (Rule(measure=RARE, limit=0.006, why="w"), Rule(measure=AUC, limit=0.55, why="w")):
        (said,) = told(policy_of((rule.measure, rule.limit)), Size(900, 0.2, 8_000))
        n_units = int(said.rpartition("about ")[2].removesuffix(" units").replace(",", ""))
        assert could_pass(rule, Size(n_units, 0.2, None if "all" in said else 8_000))
        assert not could_pass(rule, Size(n_units // 2, 0.2, None))


def test_a_rule_that_a_proof_decides_is_not_told() -> None:
    policy = policy_of((RARE, 0.006))
    assert told(policy, SMALL, TradeOff.of_claim(1.0, 1e-6)) == []
    assert told(policy, SMALL, TradeOff.of_claim(3.0, 1e-6)) != []
    limits = {"mine": TradeOff.of_claim(1.0, 1e-6), "other": None}
    (said,) = beyond_reach(policy, SMALL, limits)
    assert "generators.other" in said and "generators.mine" not in said


def test_shipped_policies_ask_nothing_of_a_large_table_that_it_could_not_show() -> None:
    for name in ("internal", "partner", "public"):
        assert told(load_policy(name), Size(500_000, 0.2, None)) == []
