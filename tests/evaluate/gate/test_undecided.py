"""What would decide a rule: rows, if this real table can have so many; else an epsilon that proves it, or a person."""

import math

import pytest

from evaluate.audit_result import MEASURE as AUDITED
from evaluate.estimate import NO_HOLDOUT, UNASKED
from evaluate.fidelity import detection
from evaluate.gate.decision import (
    CANNOT,
    DELTA,
    SAMPLED,
    UNSEARCHED,
    Finding,
    finding_of,
    most_of,
    proving_epsilons,
    ways_out,
)
from evaluate.gate.policy import Rule
from evaluate.metrics import CATALOG, COMPARED, GATEABLE, KEPT, TEST, THREE, UNJUDGED
from evaluate.result import Candidate, Estimate, Failure
from evaluate.tables import N_ROWS
from evaluate.utility import study
from synth.dp.events import GaussianEvent
from synth.dp.schedule import Schedule, TradeOff
from tests.evaluations import facts

REAL = facts(train_rows=4_265, holdout_rows=2_101)
AUC, GAP = "privacy.membership.auc", "utility.gap.boosting.without"


def left_open(measure: str, n: int, n_needed: int, note: str = "") -> Finding:
    """A finding on an interval that decides at `n_needed`, where it has shrunk by the root of that over n."""
    half = 0.1 * math.sqrt(n / n_needed)
    limit = 0.55 + half if GATEABLE[measure] == "lower" else 0.55 - half
    estimate = Estimate(measure, 0.55, n, GATEABLE[measure], low=0.45, high=0.65, note=note)
    return finding_of(Candidate("t", (estimate,)), Rule(measure=measure, limit=limit, why="because"), real=REAL)


def test_it_is_known_of_every_number_with_an_interval_what_it_counts() -> None:
    without = {AUDITED, UNJUDGED, "statement.epsilon", "statement.delta"}
    assert {name for name in GATEABLE if CATALOG[name].counted is None} == without
    assert all(number.gateable or number.counted is None for number in CATALOG.values())


@pytest.mark.parametrize(
    ("measure", "n", "n_needed", "rows", "answer"),
    [
        ("columns.tvd.excess", 2_101, 4_000, "rows of the holdout", "The real table has 6,366 rows in all, so that"),
        ("columns.tvd.excess", 2_101, 6_370, "rows of the holdout", "the real table has 6,366 rows in all."),
        ("columns.tvd.excess", 500, 2_000, "rows of the holdout", "sampling more synthetic rows is enough"),
        ("columns.tvd.excess", 2_101, 60_000, "rows of the holdout", "the measure takes 50,000 of them at most"),
        ("validity.rows", 4_265, 10**6, "synthetic rows.", "Sampling more of them is enough."),
        (AUC, 5_317, 160_000, "training rows and held-out rows", "6,366 rows in all."),
        ("privacy.singling_out.multivariate", 5_745, 9_000, "attempts of the attack, not rows", ""),
        ("columns.tvd.released.mean", 3_000, 9_000, "a larger epsilon narrows it too", ""),
    ],
)  # fmt: skip
def test_the_rows_are_named_and_it_is_said_where_the_table_cannot_have_so_many(measure, n, n_needed, rows, answer):
    finding = left_open(measure, n, n_needed)
    clause = finding.reason
    assert f"about n = {n_needed:,} instead of {n:,} would decide" in clause
    assert "Counted are " in clause and rows in clause and answer in clause and clause.endswith(".")
    never = answer.endswith(("in all.", "at most"))
    assert clause.startswith(CANNOT) == finding.undecidable == never
    assert finding.n_needed == (None if never else n_needed)


def test_where_samples_were_searched_a_larger_one_is_what_decides() -> None:
    drawn = f"{SAMPLED}100 of 4,265 training rows"
    assert left_open("columns.tvd.excess", 500, 2_000, drawn).reason.count("a larger sample_rows draws more") == 1
    unseen = left_open(AUC, 5_317, 6_000, f"{drawn}; {UNSEARCHED}")
    assert "search more (sample_rows) or release fewer rows" in unseen.reason and unseen.n_needed is None


def test_ways_out_are_an_epsilon_that_proves_and_a_named_person() -> None:
    near, lost = Rule(measure=AUC, limit=0.6, why="w"), Rule(measure=GAP, limit=0.2, why="w")
    assert "epsilon 0.4, or about 1.5 of Gaussian noise, proves it; or" in ways_out(near)
    assert f"proves '{AUC}'; or a named person waives each" in ways_out(near, lost)
    assert ways_out(lost) == "No epsilon proves it; a named person may waive it."
    assert proving_epsilons(AUC, 0.5001) is None


def test_what_measures_take_at_most_is_what_they_take() -> None:
    most = {COMPARED: N_ROWS, KEPT: N_ROWS, THREE: detection.MAX_ROWS, TEST: study.MAX_ROWS}
    assert {counted: counted.most for counted in most} == most


@pytest.mark.parametrize(
    ("measure", "limit"),
    [(AUC, 0.6), (AUC, 0.55), *((f"privacy.membership.tpr_at_{rate}", 3 * rate) for rate in (0.001, 0.01))],
)
def test_at_the_epsilon_that_is_named_the_claim_proves_the_rule_and_a_tenth_above_it_does_not(measure, limit):
    epsilons = proving_epsilons(measure, limit)
    assert epsilons is not None
    any_noise, gaussian = epsilons
    assert any_noise < gaussian

    def judged(epsilon: float, noise: bool) -> Finding:
        curve = TradeOff.of_claim(epsilon, DELTA)
        if noise:  # of the sigma that comes to this epsilon
            curve = Schedule((GaussianEvent("counts", _sigma(epsilon)),), DELTA).trade_off
        assert most_of(curve, measure) is not None
        return finding_of(Candidate("t", ()), Rule(measure=measure, limit=limit, why="w"), limit=curve)

    for epsilon, noise in ((any_noise, False), (gaussian, True)):
        assert judged(epsilon, noise).proven is not None
        assert judged(1.1 * epsilon, noise).proven is None


def _sigma(epsilon: float) -> float:
    low, high = 0.1, 100.0
    while high > 1.001 * low:
        middle = math.sqrt(low * high)
        low, high = (
            (middle, high) if Schedule((GaussianEvent("a", middle),), DELTA).epsilon > epsilon else (low, middle)
        )
    return high


@pytest.mark.parametrize(
    ("reason", "message", "stuck"),
    [
        ("skipped", "it needs 1,000 held-out rows", True),
        ("skipped", UNASKED, False),
        ("skipped", NO_HOLDOUT, False),
        ("skipped", "the schema names no column to predict", False),
        ("failed", "it broke down", False),
        ("timed out", "it was late", False),
    ],
)
def test_what_a_table_has_too_few_rows_for_cannot_be_decided_and_what_was_not_run_can(reason, message, stuck):
    rule = Rule(measure="privacy.membership.tpr_at_0.001", limit=0.006, why="w")
    failure = Failure(rule.measure, reason, message)  # type: ignore[arg-type]
    finding = finding_of(Candidate("t", (), (failure,)), rule)
    assert finding.outcome == "INCONCLUSIVE" and message in finding.reason
    assert finding.undecidable == stuck
