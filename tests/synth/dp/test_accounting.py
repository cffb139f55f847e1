"""Accounting beside reference accountants, and each sentence of a statement with its computation."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import dp_accounting
import dp_accounting.rdp
import numpy as np
import pytest
from dp_accounting import NeighboringRelation, dp_event
from dp_accounting.pld import PLDAccountant, privacy_loss_distribution
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, optimize, special, stats

from synth.dp.accounting import (
    MOST_POINTS,
    composed_loss,
    discrete_gaussian_loss,
    epsilon_pld,
    epsilon_pure,
    epsilon_rdp,
    n_points,
    rdp_curve,
    sampled_group_loss,
    selection_delta,
)
from synth.dp.budget import Budget
from synth.dp.events import (
    Event,
    GaussianEvent,
    LaplaceEvent,
    NamedEvents,
    RandomizedResponseEvent,
    SelectionEvent,
    StabilityEvent,
    SubsampledGaussianEvent,
    gaussian_of_rho,
    gaussian_tail,
)
from synth.dp.mechanisms import NoNoise
from synth.dp.renyi_curve import ORDERS, RdpFilter
from synth.dp.schedule import GROUPS, LEAST_DELTA, EventsOfRho, Schedule, TradeOff, calibrate, resolve_delta, trade_off
from synth.errors import BudgetError
from synth.generators.registry import generator
from synth.schema import Schema, build_schema


def test_the_selection_curve_bounds_two_outcomes_of_a_real_exponential_mechanism() -> None:
    # Any exponential mechanism with bounded range epsilon stays below the curve: random scores, random moves.
    rng = np.random.default_rng(0)
    epsilon, grid = 1.0, np.linspace(-1.5, 1.5, 61)
    for _ in range(200):
        scores = rng.normal(0, 3, 6)
        moved = scores + rng.uniform(-1, 1, 6)
        p, q = (np.exp(epsilon / 2 * s) / np.exp(epsilon / 2 * s).sum() for s in (scores, moved))
        actual = np.maximum(p[:, None] - np.exp(grid) * q[:, None], 0).sum(axis=0)
        assert (actual <= selection_delta(grid, epsilon) + 1e-12).all()


EVENTS = st.one_of(
    st.builds(GaussianEvent, st.just("a"), st.floats(3, 100), st.integers(1, 3), st.integers(1, 8)),
    st.builds(GaussianEvent, st.just("b"), st.floats(1, 50), st.floats(0.1, 1), st.integers(1, 8), st.just(False)),
    st.builds(LaplaceEvent, st.just("c"), st.floats(2, 100), st.integers(1, 3), st.integers(1, 8)),
    st.builds(LaplaceEvent, st.just("d"), st.floats(1, 50), st.floats(0.1, 1), st.integers(1, 8), st.just(False)),
    st.builds(SelectionEvent, st.just("e"), st.floats(0.01, 1.0), st.integers(1, 8)),
    st.builds(StabilityEvent.of_rho, st.just("f"), st.floats(1e-4, 0.05), st.floats(1e-8, 3e-7), st.integers(1, 3)),
    st.builds(SubsampledGaussianEvent, st.just("g"), st.floats(0.8, 4), st.floats(0.005, 0.2), st.integers(1, 300)),
)


def assert_ordered(plan: list[Event]) -> None:
    claim, check, curve = epsilon_pld(plan, 1e-6), epsilon_rdp(plan, 1e-6), rdp_curve(plan)
    assert claim <= check * 1.001 + 1e-9
    # The ledger's orders are fewer, and a filter pays for being adaptive: both can only add.
    assert check <= curve.epsilon(1e-6) * 1.001
    assert curve.epsilon(1e-6) <= RdpFilter(max(1.0, check), 1e-6).spent(curve) * 1.001


PLANS = st.lists(EVENTS, min_size=1, max_size=3)


@given(plan=PLANS)
@settings(max_examples=6, deadline=None)
def test_the_claim_never_exceeds_the_check_nor_the_ledgers_price(plan: list[Event]) -> None:
    assert_ordered(plan)


@pytest.mark.slow
@given(plan=PLANS)
@settings(max_examples=40, deadline=None)
def test_the_claim_of_many_plans_never_exceeds_the_check_nor_the_ledgers_price(plan: list[Event]) -> None:
    assert_ordered(plan)


FEW: tuple[Event, ...] = (
    LaplaceEvent("a", 12.0), LaplaceEvent("a", 12.0, whole=False), SelectionEvent("a", 0.1),
    RandomizedResponseEvent("a", 0.1),
)  # fmt: skip


@pytest.mark.parametrize("count", [1, 4, 16])
@pytest.mark.parametrize("event", FEW, ids=lambda event: event.mechanism)
def test_few_pure_losses_are_claimed_by_the_grid_no_higher_than_the_check_and_their_sum(
    event: Event, count: int
) -> None:
    for more in ((), (GaussianEvent("b", 2000.0),)):
        for delta in (1e-8, 1e-4):
            plan = (replace(event, count=count), *more)
            claim = Schedule(plan, delta).epsilon  # which refuses accountants that disagree
            assert claim <= epsilon_rdp(plan, delta) * 1.001
            assert more or claim <= (epsilon_pure(plan) or 0.0)


def test_accountants_that_disagree_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("synth.dp.schedule.epsilon_rdp", lambda events, delta: epsilon_rdp(events, delta) / 2)
    with pytest.raises(BudgetError, match="the accountants disagree"):
        _ = Schedule((GaussianEvent("a", 40.0),), 1e-6).epsilon


def test_a_subsampled_run_costs_what_the_reference_accountants_say() -> None:
    # n = 32,561, batches of 500, 100 epochs, noise multiplier 1, delta 1e-5.
    rate = 500 / 32_561
    steps = SubsampledGaussianEvent("steps", noise_multiplier=1.0, sampling_rate=rate, count=round(100 / rate))
    assert epsilon_pld([steps], 1e-5) == pytest.approx(8.008, rel=0.01)
    assert epsilon_rdp([steps], 1e-5) == pytest.approx(8.680, rel=0.01)
    # Zero-out has the numbers of add/remove; replacing one unit by another costs far more, and is not what is claimed.
    replaced = PLDAccountant(NeighboringRelation.REPLACE_ONE)
    step = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(1.0))
    assert replaced.compose(step, steps.count).get_epsilon(1e-5) == pytest.approx(14.14, rel=0.01)


@pytest.mark.slow
def test_opacus_is_a_third_opinion_on_a_subsampled_run() -> None:
    prv = pytest.importorskip("opacus.accountants", reason="opacus is not installed").PRVAccountant()
    prv.history = [(1.0, 500 / 32_561, 6512)]
    assert prv.get_epsilon(1e-5, eps_error=0.01) == pytest.approx(8.019, rel=0.01)
    assert prv.get_epsilon(1e-5, eps_error=0.01) == pytest.approx(
        epsilon_pld([SubsampledGaussianEvent("steps", 1.0, 500 / 32_561, 6512)], 1e-5), rel=0.01
    )


@pytest.mark.parametrize(("scale", "sensitivity"), [(0.7, 2), (3.0, 7), (20.0, 1)])
def test_renyi_divergences_of_laplace_noise_are_their_definition(scale: float, sensitivity: int) -> None:
    points = np.arange(-4000, 4000)
    mass = np.exp(-np.abs(points) / scale) / np.exp(-np.abs(points) / scale).sum()
    moved = np.exp(-np.abs(points - sensitivity) / scale) / np.exp(-np.abs(points) / scale).sum()
    real = dp_accounting.rdp.RdpAccountant(list(ORDERS)).compose(dp_accounting.LaplaceDpEvent(scale / sensitivity)).rdp
    whole_curve = rdp_curve([LaplaceEvent("a", scale, sensitivity)]).divergences
    real_curve = rdp_curve([LaplaceEvent("a", scale, sensitivity, whole=False)]).divergences
    assert real_curve == pytest.approx(real, rel=1e-9)
    kept = (mass > 0) & (moved > 0)
    logs = np.log(mass[kept]), np.log(moved[kept])
    for order, result in zip(ORDERS, whole_curve, strict=True):
        direct = special.logsumexp(order * logs[0] + (1 - order) * logs[1]) / (order - 1)
        assert result == pytest.approx(direct, rel=1e-6, abs=1e-12)


RHO = 0.002
JOINT: tuple[tuple[Event, ...], ...] = (
    (GaussianEvent("histograms", 440.0, count=15),),
    (LaplaceEvent("sizes", 67.0),),
    (
        gaussian_of_rho("columns", RHO / 3, count=15, sensitivity=1),
        SelectionEvent.of_rho("pairs", RHO / 3, 14),
        gaussian_of_rho("tree", RHO / 3, count=14, sensitivity=1),
    ),
    (SubsampledGaussianEvent("steps", 1.92, 500 / 32_561, 1302),),
)


def test_histograms_laplace_noise_marginals_and_dp_sgd_are_cheaper_together_than_one_by_one() -> None:
    together = [event for part in JOINT for event in part]
    assert epsilon_pld(together, 1e-6) == pytest.approx(1.41, rel=0.01)
    assert epsilon_rdp(together, 1e-6) == pytest.approx(1.53, rel=0.01)
    # Each with a quarter of delta, and added up: what generators that keep separate books would have to claim.
    assert sum(epsilon_pld(part, 1e-6 / 4) for part in JOINT) == pytest.approx(1.80, rel=0.01)


@pytest.mark.parametrize(
    ("sigma", "sensitivity", "interval"), [(3.3, 1, 1e-3), (2.0, 5, 1e-3), (300.0, 2, 1e-6), (5000.3, 7, 1e-6)]
)
def test_the_loss_of_the_discrete_gaussian_is_that_of_dp_accounting(
    sigma: float, sensitivity: int, interval: float
) -> None:
    theirs = privacy_loss_distribution.from_discrete_gaussian_mechanism(
        sigma, sensitivity, value_discretization_interval=interval, use_connect_dots=True
    )
    ours = discrete_gaussian_loss(sigma, sensitivity, interval)
    epsilons = np.linspace(-6, 6, 25) * sensitivity / sigma + sensitivity**2 / (2 * sigma**2)
    assert np.allclose(ours.get_delta_for_epsilon(epsilons), theirs.get_delta_for_epsilon(epsilons), 1e-9, 1e-14)


@pytest.mark.parametrize(("sigma", "sensitivity"), [(0.33, 3), (10.0, 40)])
def test_the_loss_of_a_shift_by_several_sigma_is_bounded_as_its_definition_says(sigma: float, sensitivity: int) -> None:
    reach = math.ceil(30 * sigma) + 2 * sensitivity
    points = np.arange(-reach, reach + 1)
    logs = [-((points - shift) ** 2) / (2 * sigma**2) for shift in (0, sensitivity)]
    first, other = (log - special.logsumexp(log) for log in logs)
    loss = discrete_gaussian_loss(sigma, sensitivity, 1e-3)
    for epsilon in (0.5, 1.0, 1.5) * np.array(sensitivity**2 / (2 * sigma**2)):
        delta = np.exp(first[first > other + epsilon]).sum() - np.exp(epsilon + other[first > other + epsilon]).sum()
        assert loss.get_delta_for_epsilon(epsilon) == pytest.approx(delta, rel=3e-2, abs=1e-12)
        assert loss.get_delta_for_epsilon(epsilon) >= delta * (1 - 1e-9)


def of_entities(n_columns: int, k: int, rounds: int) -> EventsOfRho:
    """Histograms, choices and marginals of entities with k rows each."""

    def plan(rho: float) -> list[Event]:
        events: list[Event] = [gaussian_of_rho("sizes", 0.05 * rho, count=1, sensitivity=1)]
        events.append(gaussian_of_rho("columns", 0.25 * rho, count=n_columns, sensitivity=k))
        for part in range(rounds):
            share = 0.7 * rho / 2**part if part == rounds - 1 else 0.7 * rho / 2 ** (part + 1)
            events.append(SelectionEvent.of_rho(f"choice {part}", 0.1 * share, 1))
            events.append(gaussian_of_rho(f"pairs {part}", 0.9 * share, count=1, sensitivity=k))
        return events

    return plan


@pytest.mark.parametrize("delta", [1e-6, pytest.param(LEAST_DELTA, marks=pytest.mark.statistical)])
@pytest.mark.parametrize("epsilon", [0.001, 1.0, 99.9])
@pytest.mark.parametrize(("n_columns", "k"), [(1, 1), (60, 3)])
def test_calibration_inverts_accounting_from_below(n_columns: int, k: int, epsilon: float, delta: float) -> None:
    schedule = calibrate(of_entities(n_columns, k, 3), epsilon, delta)
    assert epsilon * 0.999 <= schedule.epsilon <= epsilon


def schema(n_units: int | None = 1000, status: str = "declared") -> Schema:
    return build_schema({"status": status, "n_units": n_units, "columns": {"a": {"kind": "boolean"}}})


def one_count(rho: float) -> list[Event]:
    return [gaussian_of_rho("a", rho, count=1, sensitivity=1)]


@dataclass(frozen=True)
class Planned(NamedEvents):
    event: GaussianEvent


REFUSALS: list[tuple[str, Callable[[], object], str]] = [
    *((f"epsilon {e}", lambda e=e: calibrate(one_count, e, 1e-6), "epsilon=") for e in (0.0, 1e9, math.nan)),
    ("no room", lambda: calibrate(lambda rho: [StabilityEvent("a", 1.0, 2)], 1.0, 1e-6), "leaves no room"),
    *((f"delta {d}", lambda d=d: calibrate(one_count, 1.0, d), "set delta to 1e-12 or more") for d in (9e-13, 5e-324)),
    *((f"small delta {d}", lambda d=d: resolve_delta(d, schema(100)), "set delta to 1e-12") for d in (9e-13, 5e-324)),
    *((f"large delta {d}", lambda d=d: resolve_delta(d, schema()), "delta=") for d in (0.0, -1e-9, 1e-3)),
    *((f"units beyond {d}", lambda d=d: resolve_delta(d, schema(2 * 10**11)), "n_units=") for d in ("auto", 1e-12)),
    ("many units", lambda: resolve_delta("auto", schema(5 * 10**10)), "set delta to 1e-12"),
    ("no units", lambda: resolve_delta("auto", schema(None)), "n_units"),
    ("inferred", lambda: resolve_delta("auto", schema(1000, "inferred")), "declare"),
    ("a delta lost in releases", lambda: Schedule((GaussianEvent("a", 9.0, count=10**6),), 1e-12).epsilon, "too small"),
    ("another event", lambda: Schedule((GaussianEvent("a", 9.0),), 1e-6).required("a", SelectionEvent), "plan it"),
    ("journal of no noise", lambda: Budget(Schedule((), 1e-6), NoNoise(), object()), "injected"),
    *((f"{len(left)} events", lambda left=left: Planned(GaussianEvent("a", 9.0)).of(left), "events of this plan")
      for left in ([], [GaussianEvent("a", 9.0)] * 2, [SelectionEvent("a", 0.1)])),
]  # fmt: skip


@pytest.mark.parametrize(("call", "clause"), [case[1:] for case in REFUSALS], ids=[case[0] for case in REFUSALS])
def test_what_cannot_be_promised_is_refused(call: Callable[[], object], clause: str) -> None:
    with pytest.raises(BudgetError, match=clause):
        call()


def test_delta_auto_follows_the_number_of_units() -> None:
    assert resolve_delta("auto", schema(1000)) == 1e-6
    assert resolve_delta("auto", schema(10**6)) == pytest.approx(10**-7.2)
    assert resolve_delta("auto", schema(9 * 10**9)) >= LEAST_DELTA == resolve_delta(1e-12, schema(5 * 10**10))


@pytest.mark.parametrize("share", [0.3, 0.01])
def test_a_search_ends_at_the_last_cost_that_has_an_epsilon(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    full, asked = calibrate(one_count, 1.0, 1e-6).rho or 0.0, list[float]()

    def cut(events: list[Event], delta: float) -> float:
        asked.append(sum(event.rho or 0.0 for event in events))
        return math.inf if asked[-1] > share * full else epsilon_pld(events, delta)

    # Infinite from some cost on, though the target would allow more: it is neither missed by far nor looked for long.
    monkeypatch.setattr("synth.dp.schedule.epsilon_pld", cut)
    assert calibrate(one_count, 1.0, 1e-6).rho == pytest.approx(share * full, rel=1e-3)
    assert len(asked) < 30


@pytest.mark.statistical
def test_a_delta_that_so_many_releases_drown_in_rounding_is_refused() -> None:
    many = GaussianEvent("sums", sigma=20_000.0, count=1_000_000, whole=False)
    with pytest.raises(BudgetError, match="too small to be accounted for"):
        _ = Schedule((many,), 1e-12).epsilon
    # All releases together are one with a thousandth of the noise: what is refused would be claimed far off (on which
    # side depends on how a processor rounds), and at the least delta that is allowed it is not.
    first = GaussianEvent("sums", sigma=20.0, whole=False)
    assert epsilon_pld([many], 1e-12) != pytest.approx(epsilon_pld([first], 1e-12), rel=0.05)
    assert Schedule((many,), 5e-10).epsilon == pytest.approx(Schedule((first,), 5e-10).epsilon, rel=2e-3)


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


@pytest.mark.parametrize(("sigma", "rate"), [(4.0, 0.03), (0.7, 0.3)])
def test_one_answer_for_another_costs_no_more_than_a_group_of_two(sigma: float, rate: float) -> None:
    # One row out and another in move a release by twice the sensitivity at most, as two units do. Of samples it is
    # computed: at every epsilon the pair of a replaced unit is told apart less well than that of two units.
    replaced = privacy_loss_distribution.from_gaussian_mechanism(
        sigma, sampling_prob=rate, value_discretization_interval=2e-3, use_connect_dots=True,
        neighboring_relation=NeighboringRelation.REPLACE_ONE,
    )  # fmt: skip
    two, epsilons = sampled_group_loss(sigma, rate, 2, 2e-3), [0.0, *np.geomspace(1e-3, 5, 60).tolist()]
    first, other = (np.array(loss.get_delta_for_epsilon(epsilons)) for loss in (replaced, two))
    assert (first <= other * 1.01 + 1e-9).all()


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
    result, wrong = np.cumsum(present[order]), np.cumsum(absent[order])
    events = (LaplaceEvent("counts", scale, shift, count=2), SelectionEvent("choice", spread))
    limit = trade_off(events).curve(wrong[::97])
    assert (result[::97] <= limit + 1e-7).all()
    # The choice is priced for the worst mechanism of its range, which this is not.
    assert (limit - result[::97]).max() < 0.1


COMPARED_EVENTS = st.one_of(
    st.builds(GaussianEvent, st.just("a"), st.floats(3, 100), st.integers(1, 3), st.integers(1, 8)),
    st.builds(LaplaceEvent, st.just("b"), st.floats(4, 100), st.integers(1, 3), st.integers(1, 8)),
    st.builds(SelectionEvent, st.just("c"), st.floats(0.01, 0.6), st.integers(1, 8)),
    st.builds(StabilityEvent.of_rho, st.just("d"), st.floats(1e-3, 0.05), st.floats(1e-8, 2e-7), st.integers(1, 3)),
)


@given(plan=st.lists(COMPARED_EVENTS, min_size=1, max_size=2))
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
        return [(first, *more) for first in range(min(rest, most), 0, -1) for more in partitions(rest - first, first)]

    named = [float(gaussian_tail(14 - np.array(part), 3.0).sum()) for part in partitions(n_rows, n_rows)]
    assert 2 * max(named) <= event.own_delta(size) * (1 + 1e-12) <= 2 * n_rows * max(named)
    assert math.isinf(epsilon_pld([event], DELTA, 7))  # all rows in one value reach the threshold
    loud = GaussianEvent("a", 0.05, count=40, whole=False)
    assert n_points([loud], 10) > MOST_POINTS and math.isinf(
        epsilon_pld([loud], DELTA, 10)
    )  # no accountant resolves it


@pytest.mark.parametrize(("sigma", "rate", "size"), [(0.8, 0.3, 5), (2.0, 0.02, 10), (1.5, 1.0, 3)])
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


@pytest.mark.parametrize("size", GROUPS)
def test_no_group_costs_more_than_what_follows_from_single_units(size: int) -> None:
    # m steps of (epsilon, delta) come to (m epsilon, delta (e^(m epsilon) - 1) / (e^epsilon - 1)), at every epsilon.
    events = (SubsampledGaussianEvent("steps", 3.0, 0.02, 500), GaussianEvent("counts", 60.0, count=5))
    epsilons = np.linspace(0.05, 6.0, 120)
    deltas = np.asarray(composed_loss(events).get_delta_for_epsilon(epsilons.tolist()))
    whole = deltas * np.expm1(size * epsilons) / np.expm1(epsilons)
    bounds = size * epsilons[whole <= DELTA]
    result = epsilon_pld(events, DELTA, size)
    assert epsilon_pld(events, DELTA) < result <= (bounds.min() if len(bounds) else math.inf) * 1.001


@pytest.mark.parametrize("sigma", [1.0, 4.0, 30.0])
def test_the_area_under_the_curve_is_that_of_discrete_gaussian_noise_and_never_below(sigma: float) -> None:
    places = np.arange(-int(12 * sigma), int(12 * sigma) + 2)
    out, member = (weights / weights.sum() for weights in (stats.norm.pdf(places, at, sigma) for at in (0, 1)))
    exact = float(member @ (np.cumsum(out) - out / 2))  # a later count ranks higher, and an equal one half
    assert exact <= trade_off((GaussianEvent("a", sigma),)).area <= exact + 1e-3


# ---- Answers that respondents randomize.


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
    limit = Schedule((RandomizedResponseEvent("answers", 1.0),), 0.0).trade_off
    assert limit.detections(0.1) == pytest.approx(0.1 * math.e, rel=0.01)
    assert limit.right_guesses == pytest.approx(math.e / (1 + math.e), rel=1e-3)
