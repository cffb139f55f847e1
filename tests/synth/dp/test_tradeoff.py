"""What statements say of tests, of groups, of delta and of both relations: each sentence with its computation."""

import itertools
import math
from dataclasses import replace

import dp_accounting
import numpy as np
import pytest
from dp_accounting import NeighboringRelation
from dp_accounting.pld import PLDAccountant, privacy_loss_distribution
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, optimize, stats

from synth.dp.accounting import (
    MOST_POINTS,
    composed_loss,
    epsilon_pld,
    n_points,
    rdp_curve,
    sampled_group_loss,
    selection_delta,
)
from synth.dp.events import (
    Event,
    GaussianEvent,
    LaplaceEvent,
    SelectionEvent,
    StabilityEvent,
    SubsampledGaussianEvent,
    gaussian_tail,
)
from synth.dp.renyi_curve import ORDERS
from synth.dp.schedule import GROUPS, Schedule
from synth.dp.tradeoff import TradeOff, trade_off
from synth.generators.registry import generator
from synth.schema import build_schema

DELTA = 1e-6
ADULT = build_schema({
    "status": "declared", "n_units": 32_561,
    "columns": {f"column {i}": {"kind": "categorical", "categories": list("abcdefgh")} for i in range(15)},
})  # fmt: skip


def of_mst(epsilon: float) -> Schedule:
    schedule: Schedule = generator("mst", epsilon=epsilon, delta=DELTA).schedule(ADULT)  # type: ignore[attr-defined]
    return schedule


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Balle & Wang 2018, Theorem 8, solved for epsilon."""

    def excess(epsilon: float) -> float:
        tail = stats.norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * stats.norm.cdf(-mu / 2 - epsilon / mu)
        return float(tail - delta)

    return float(optimize.brentq(excess, 0, 600))


# ---- Both relations.

KINDS = {
    "Gaussian": (GaussianEvent("a", 5.0, whole=False), dp_accounting.GaussianDpEvent(5.0)),
    "Laplace": (LaplaceEvent("a", 5.0, whole=False), dp_accounting.LaplaceDpEvent(5.0)),
    "discrete Laplace": (LaplaceEvent("a", 5.0), dp_accounting.dp_event.DiscreteLaplaceDpEvent(1 / 5.0, 1)),
    "steps": (
        SubsampledGaussianEvent("a", 4.0, 0.02),
        dp_accounting.PoissonSampledDpEvent(0.02, dp_accounting.GaussianDpEvent(4.0)),
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_unit_that_is_blanked_out_or_really_removed_costs_the_same(kind: str) -> None:
    event, theirs = KINDS[kind]
    for relation in (NeighboringRelation.REPLACE_SPECIAL, NeighboringRelation.ADD_OR_REMOVE_ONE):
        accountant = PLDAccountant(relation).compose(theirs, 10)
        assert accountant.get_epsilon(DELTA) == pytest.approx(epsilon_pld([replace(event, count=10)], DELTA), rel=1e-3)
        if kind != "discrete Laplace":  # which dp-accounting has no Renyi curve of
            check = RdpAccountant(ORDERS[:12], relation).compose(theirs, 10).rdp
            assert check == pytest.approx(rdp_curve([replace(event, count=10)]).divergences[:12], rel=1e-6)


def test_counts_noisy_choices_and_names_are_the_same_of_a_row_that_is_blanked_out_and_of_one_that_is_gone() -> None:
    # What is released is a function of counts, and none of them tells an empty slot from none.
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 6, 200)
    blanked = np.bincount(np.where(np.arange(200) == 17, 6, codes), minlength=7)[:6]  # 6: an empty slot
    gone, kept = np.bincount(np.delete(codes, 17), minlength=6), np.bincount(codes, minlength=6)
    assert (blanked == gone).all() and np.abs(kept - gone).sum() == 1
    # So the pair of worlds is one pair, and a choice between noisy scores moves by their sensitivity in either.
    epsilon, grid = 0.5, np.linspace(-0.6, 0.6, 25)
    p, q = (np.exp(epsilon / 2 * counts) / np.exp(epsilon / 2 * counts).sum() for counts in (kept, gone))
    for one, other in ((p, q), (q, p)):
        actual = np.maximum(one[:, None] - np.exp(grid) * other[:, None], 0).sum(axis=0)
        assert (actual <= selection_delta(grid, epsilon) + 1e-12).all()


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("sigma", "rate"),
    [(4.0, 0.03), *(pytest.param(*one, marks=SLOW) for one in itertools.product((0.7, 1.0, 6.0), (0.003, 0.03, 0.3)))],
)
def test_one_answer_for_another_costs_no_more_than_a_group_of_two(sigma: float, rate: float) -> None:
    # One row out and another in move a release by twice the sensitivity at most, as two units do. Of samples it is
    # computed: at every epsilon the pair of a replaced unit is told apart less well than that of two units.
    replaced = privacy_loss_distribution.from_gaussian_mechanism(
        sigma, sampling_prob=rate, value_discretization_interval=2e-3, use_connect_dots=True,
        neighboring_relation=NeighboringRelation.REPLACE_ONE,
    )  # fmt: skip
    two, epsilons = sampled_group_loss(sigma, rate, 2, 2e-3), [0.0, *np.geomspace(1e-3, 5, 60).tolist()]
    one, other = (np.array(loss.get_delta_for_epsilon(epsilons)) for loss in (replaced, two))
    assert (one <= other * 1.01 + 1e-9).all()


def test_one_answer_at_the_stated_delta_is_not_protected_by_twice_epsilon() -> None:
    one = gaussian_epsilon(0.24, DELTA)
    assert gaussian_epsilon(2 * 0.24, DELTA) > 2 * one * 1.02


# ---- Delta.


@pytest.mark.parametrize(("epsilon", "times"), [(0.1, 149), (1.0, 20), (3.0, 8)])
def test_delta_is_not_the_chance_that_the_loss_exceeds_epsilon(epsilon: float, times: int) -> None:
    loss, step = composed_loss(of_mst(epsilon).events), 0.01 * epsilon
    low, delta, high = loss.get_delta_for_epsilon([epsilon - step, epsilon, epsilon + step])
    exceeds = delta - (high - low) / (2 * step)  # the slope of the curve is delta less that chance
    assert exceeds / DELTA == pytest.approx(times, rel=0.06)


# ---- What any test finds.


@pytest.mark.parametrize("mu", [0.05, 0.237, 1.0, 3.0])
def test_the_limit_of_gaussian_noise_is_that_of_the_best_test(mu: float) -> None:
    limit = trade_off((GaussianEvent("a", 1 / mu, whole=False),))
    for rate in (1e-4, 0.001, 0.01, 0.1, 0.5, 0.9):
        best = stats.norm.cdf(stats.norm.ppf(rate) + mu)  # Dong, Roth, Su 2022, equation (6)
        assert best - 1e-9 <= limit.detections(rate) <= best * 1.001 + 1e-6
    assert limit.right_guesses == pytest.approx(stats.norm.cdf(mu / 2), rel=1e-4)


def test_at_epsilon_one_no_test_finds_more_than_two_percent_at_one_percent_of_false_alarms() -> None:
    assert of_mst(1.0).trade_off.detections(0.01) == pytest.approx(0.0184, abs=2e-4)
    assert TradeOff.of_claim(1.0, DELTA).detections(0.01) == pytest.approx(0.0272, abs=1e-4)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_randomized_response_reaches_the_limit_of_a_pair(epsilon: float) -> None:
    right = math.exp(epsilon) / (1 + math.exp(epsilon))
    limit = TradeOff.of_claim(epsilon, 0.0)
    assert limit.detections(1 - right) == pytest.approx(right)
    assert limit.right_guesses == pytest.approx(right)
    assert TradeOff.of_claim(epsilon, 0.01).detections(0.0) == pytest.approx(0.01)


@pytest.mark.parametrize("shift", [1, 3])
def test_no_test_of_two_noisy_counts_and_a_choice_beats_their_limit(shift: int) -> None:
    points = np.arange(-160, 161)
    scale, spread = 4.0, 0.4
    inside, outside = (np.exp(-np.abs(points - moved) / scale) for moved in (shift, 0))
    choice = np.array([math.exp(spread), 1.0]) / (1 + math.exp(spread)), np.array([0.5, 0.5])
    present, absent = (
        np.multiply.outer(np.multiply.outer(noise, noise), picked).ravel() / noise.sum() ** 2
        for noise, picked in ((inside, choice[0]), (outside, choice[1]))
    )
    order = np.argsort(-present / absent)  # Neyman-Pearson: the likeliest of a member first
    found, wrong = np.cumsum(present[order]), np.cumsum(absent[order])
    events = (LaplaceEvent("counts", scale, shift, count=2), SelectionEvent("choice", spread))
    limit = trade_off(events).curve(wrong[::97])
    assert (found[::97] <= limit + 1e-7).all()
    # The choice is priced for the worst mechanism of its range, which this is not.
    assert (limit - found[::97]).max() < 0.1


EVENTS = st.one_of(
    st.builds(GaussianEvent, st.just("a"), st.floats(3, 100), st.integers(1, 3), st.integers(1, 8)),
    st.builds(LaplaceEvent, st.just("b"), st.floats(4, 100), st.integers(1, 3), st.integers(1, 8)),
    st.builds(SelectionEvent, st.just("c"), st.floats(0.01, 0.6), st.integers(1, 8)),
    st.builds(StabilityEvent.of_rho, st.just("d"), st.floats(1e-3, 0.05), st.floats(1e-8, 2e-7), st.integers(1, 3)),
)


@given(plan=st.lists(EVENTS, min_size=1, max_size=2))
@settings(max_examples=5, deadline=None)
def test_the_limit_of_events_lies_between_guessing_and_that_of_their_claim(plan: list[Event]) -> None:
    schedule, rates = Schedule(tuple(plan), DELTA), np.linspace(0, 1, 101)
    limit = schedule.trade_off.curve(rates)
    assert (limit >= rates).all() and (np.diff(limit) >= -1e-12).all() and (np.diff(limit, 2) <= 1e-9).all()
    # Between two pairs of the curve it allows a little more than the claim, which may lie there.
    claimed = TradeOff.of_claim(schedule.epsilon, DELTA).curve(rates)
    assert (limit <= claimed * 1.01 + 2e-6).all()


# ---- Groups.


def test_two_rows_and_ten_are_protected_by_what_the_accountant_says() -> None:
    schedule = of_mst(1.0)
    assert schedule.groups[2] == pytest.approx(2.12, rel=0.01)
    assert schedule.groups[10] == pytest.approx(13.5, rel=0.02)
    assert schedule.groups[10] > 10 * schedule.epsilon * 1.3


@pytest.mark.parametrize("size", GROUPS)
@pytest.mark.parametrize("whole", [True, False])
def test_a_group_costs_what_gaussian_noise_of_its_sensitivity_costs(size: int, whole: bool) -> None:
    event = GaussianEvent("a", 40.0, 2, count=9, whole=whole)
    expected = gaussian_epsilon(size * 2 * 3 / 40.0, DELTA)
    assert epsilon_pld([event], DELTA, size) == pytest.approx(expected, rel=5e-3)


@pytest.mark.parametrize("size", GROUPS)
def test_a_group_costs_its_number_of_pure_losses(size: int) -> None:
    for event in (LaplaceEvent("a", 20.0), LaplaceEvent("a", 20.0, whole=False), SelectionEvent("a", 0.05)):
        assert epsilon_pld([event], 1e-12, size) == pytest.approx(size * 0.05, abs=2e-3)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_values_of_a_group_alone_are_named_no_more_often_than_its_own_delta(size: int) -> None:
    event = StabilityEvent("a", sigma=3.0, threshold=14, sensitivity=2, count=2)
    n_rows = 2 * size

    def partitions(rest: int, most: int) -> list[tuple[int, ...]]:
        if rest == 0:
            return [()]
        return [(one, *more) for one in range(min(rest, most), 0, -1) for more in partitions(rest - one, one)]

    named = [float(gaussian_tail(14 - np.array(part), 3.0).sum()) for part in partitions(n_rows, n_rows)]
    assert 2 * max(named) <= event.own_delta(size) * (1 + 1e-12) <= 2 * n_rows * max(named)
    assert math.isinf(epsilon_pld([event], DELTA, 7))  # all rows in one value reach the threshold


@pytest.mark.parametrize(("sigma", "rate", "size"), [(1.0, 0.1, 2), (0.8, 0.3, 5), (2.0, 0.02, 10), (1.5, 1.0, 3)])
def test_a_sampled_group_loses_what_its_densities_say(sigma: float, rate: float, size: int) -> None:
    counts = np.arange(size + 1)
    grid = np.linspace(-12 * sigma, 12 * sigma + size, 40_001)
    some = stats.norm.pdf(grid[:, None], counts, sigma) @ stats.binom.pmf(counts, size, rate)
    none = stats.norm.pdf(grid, 0, sigma)
    loss = sampled_group_loss(sigma, rate, size, 5e-3)
    for epsilon in (0.1, 0.5, 2.0):
        pairs = ((some, none), (none, some))
        expected = max(integrate.simpson(np.maximum(a - math.exp(epsilon) * b, 0.0), x=grid) for a, b in pairs)
        assert loss.get_delta_for_epsilon(epsilon) == pytest.approx(expected, rel=2e-3, abs=1e-7)


def test_a_sampled_group_is_that_of_dp_accounting() -> None:
    one = privacy_loss_distribution.from_gaussian_mechanism(1.0, sampling_prob=0.05, value_discretization_interval=1e-2)
    two = privacy_loss_distribution.from_mixture_gaussian_mechanism(
        1.0, [0.0, 1.0, 2.0], stats.binom.pmf([0, 1, 2], 2, 0.05).tolist(), value_discretization_interval=1e-2
    )
    for size, theirs in ((1, one), (2, two)):
        ours = sampled_group_loss(1.0, 0.05, size, 1e-2)
        epsilons = [0.05, 0.2, 1.0, 3.0]
        expected = theirs.get_delta_for_epsilon(epsilons)
        assert np.allclose(ours.get_delta_for_epsilon(epsilons), expected, 1e-6, 1e-14)
        epsilon = ours.self_compose(300).get_epsilon_for_delta(DELTA)
        assert epsilon == pytest.approx(theirs.self_compose(300).get_epsilon_for_delta(DELTA), rel=1e-5)


@pytest.mark.parametrize("size", GROUPS)
def test_no_group_costs_more_than_what_follows_from_single_units(size: int) -> None:
    # m steps of (epsilon, delta) come to (m epsilon, delta (e^(m epsilon) - 1) / (e^epsilon - 1)), at every epsilon.
    events = (SubsampledGaussianEvent("steps", 3.0, 0.02, 500), GaussianEvent("counts", 60.0, count=5))
    epsilons = np.linspace(0.05, 6.0, 120)
    deltas = np.asarray(composed_loss(events).get_delta_for_epsilon(epsilons.tolist()))
    whole = deltas * np.expm1(size * epsilons) / np.expm1(epsilons)
    bounds = size * epsilons[whole <= DELTA]
    found = epsilon_pld(events, DELTA, size)
    assert epsilon_pld(events, DELTA) < found <= (bounds.min() if len(bounds) else math.inf) * 1.001


def test_a_group_that_no_accountant_resolves_has_no_bound() -> None:
    loud = GaussianEvent("a", 0.05, count=40, whole=False)
    assert n_points([loud], 10) > MOST_POINTS
    assert math.isinf(epsilon_pld([loud], DELTA, 10))


@pytest.mark.parametrize("sigma", [1.0, 4.0, 30.0])
def test_the_area_under_the_curve_is_that_of_discrete_gaussian_noise_and_never_below(sigma: float) -> None:
    places = np.arange(-int(12 * sigma), int(12 * sigma) + 2)
    out, member = (weights / weights.sum() for weights in (stats.norm.pdf(places, at, sigma) for at in (0, 1)))
    exact = float(member @ (np.cumsum(out) - out / 2))  # a later count ranks higher, and an equal one half
    assert exact <= trade_off((GaussianEvent("a", sigma),)).area <= exact + 1e-3
