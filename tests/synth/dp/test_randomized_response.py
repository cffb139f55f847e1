"""Answers that respondents randomize: their cost at delta 0 and above, in a ledger and in files."""

import math

import numpy as np
import pytest
from dp_accounting import NeighboringRelation, dp_event
from dp_accounting.pld import PLDAccountant

from synth.dp.accounting import epsilon_pld, epsilon_pure, epsilon_rdp, rdp_curve
from synth.dp.budget import Budget
from synth.dp.events import GaussianEvent, LaplaceEvent, RandomizedResponseEvent, event_of
from synth.dp.renyi_curve import ORDERS
from synth.dp.schedule import Schedule
from synth.dp.schedule_file import _books, to_toml
from synth.errors import BudgetError


def test_pure_losses_add_up_at_delta_0() -> None:
    events = (RandomizedResponseEvent("a", 0.25, count=4), RandomizedResponseEvent("b", 1.5))
    schedule = Schedule(events, 0.0)
    assert schedule.epsilon == schedule.epsilon_rdp == 2.5
    assert schedule.groups == {2: 5.0, 5: 12.5, 10: 25.0}
    assert epsilon_pure([*events, LaplaceEvent("c", 2.0)]) == 3.0
    assert epsilon_pure([*events, GaussianEvent("c", 2.0)]) is None
    assert epsilon_pld([*events, GaussianEvent("c", 2.0)], 0.0) == math.inf


@pytest.mark.parametrize(("epsilon", "count"), [(0.1, 1), (1.0, 1), (1.0, 5), (4.0, 2)])
def test_at_a_delta_above_0_accountants_agree_with_the_library(epsilon: float, count: int) -> None:
    events = [RandomizedResponseEvent("answers", epsilon, count)]
    accountant = PLDAccountant(neighboring_relation=NeighboringRelation.REPLACE_ONE)
    # A binary answer is told by 1 - noise / 2, so that its loss is log((2 - noise) / noise).
    noise = 2 / (1 + math.exp(epsilon))
    for _ in range(count):  # the library takes several at once for one
        accountant.compose(dp_event.RandomizedResponseDpEvent(noise, 2))
    ours, theirs = epsilon_pld(events, 1e-4), accountant.get_epsilon(1e-4)
    assert ours == pytest.approx(theirs, abs=2e-3 * count)
    assert ours <= min(count * epsilon, epsilon_rdp(events, 1e-4) * 1.001)


def test_in_a_ledger_an_answer_costs_its_renyi_divergence() -> None:
    curve = rdp_curve([RandomizedResponseEvent("answers", 1.0)])
    p, q = math.e / (1 + math.e), 1 / (1 + math.e)
    by_hand = [math.log(p**a * q ** (1 - a) + q**a * p ** (1 - a)) / (a - 1) for a in ORDERS if a < 100]
    np.testing.assert_allclose(curve.divergences[: len(by_hand)], by_hand, rtol=1e-9)
    assert max(curve.divergences) <= 1.0 + 1e-12
    assert curve.delta == 0


def test_the_trade_off_of_an_answer_is_that_of_a_coin() -> None:
    found = Schedule((RandomizedResponseEvent("answers", 1.0),), 0.0).trade_off
    assert found.detections(0.1) == pytest.approx(0.1 * math.e, rel=0.01)
    assert found.right_guesses == pytest.approx(math.e / (1 + math.e), rel=1e-3)


def test_a_plan_of_answers_is_written_and_read_back() -> None:
    import tomllib

    event = RandomizedResponseEvent("answers", 0.7, count=3)
    assert event_of("answers", event.mechanism, {"epsilon": 0.7}, 3) == event
    schedule = Schedule((event,), 1e-6)
    assert _books(tomllib.loads(to_toml(schedule)), "plan").schedule == schedule


def test_a_budget_does_not_draw_answers_that_are_not_planned() -> None:
    budget = Budget(Schedule((RandomizedResponseEvent("answers", 0.7),), 0.0))
    with pytest.raises(BudgetError, match="no further release"):
        budget.respond([], RandomizedResponseEvent("answers", 1.4))
