"""What a schedule costs, worked out beside it: rho as on paper, epsilon with `dp-accounting`'s own interface.

Nothing of `synth.dp.accounting` is used here. A choice by the exponential mechanism of bounded range e has the curve
delta(x) = (1 - exp((x - e) / 2))^2 / (1 - exp(-e)) (Dong, Durfee, Rogers 2020, Lemma 3.4). Its slope in exp(x) says how
the privacy loss x is spread over [-e, e]: with a density in proportion to exp(-x / 2) under one neighbour and to
exp(x / 2) under the other. Cut into narrow strips, these are two probability mass functions, which `dp-accounting`
composes with the Gaussian noise.
"""

import math
from functools import reduce

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, SelfComposedDpEvent, ZCDpEvent
from dp_accounting.pld import privacy_loss_distribution as pld
from dp_accounting.rdp import RdpAccountant
from scipy import stats

from synth.dp.events import GaussianEvent, SelectionEvent, StabilityEvent
from synth.dp.schedule import Schedule
from synth.generators import registry
from synth.generators.base import PrivateGenerator
from synth.generators.mst import Mst
from synth.schema import Schema, build_schema

EPSILON, DELTA = 1.0, 1e-6
GRID = 2e-5
"""Losses are rounded up to this, once an event: far less than a thousandth of epsilon over a whole schedule."""
STRIPS = 4001
NAMES = ("independent", "mst", "aim", "latent_class")


def several_rows_each(schema: Schema) -> Schema:
    """The same columns with three rows of a unit at most, so that a forgotten k would show."""
    columns = {name: column.model_dump(mode="json", exclude_unset=True) for name, column in schema.columns.items()}
    content = {"status": "declared", "n_units": 100_000, "entity": "id", "max_rows_per_unit": 3, "columns": columns}
    return build_schema(content)


def with_frequent_values(schema: Schema) -> Schema:
    """The same columns, with the frequent values of two of them to be measured."""
    spiked = {name: schema.columns[name].model_copy(update={"measure_spikes": True}) for name in ("gain", "weight")}
    return schema.model_copy(update={"columns": {**schema.columns, **spiked}})


@pytest.fixture(scope="module", params=["rows", "entities", "frequent values", "frequent values of entities"])
def unit_schema(request: pytest.FixtureRequest, schema: Schema) -> Schema:
    wide = schema.model_copy(update={"n_units": 100_000})
    asked = with_frequent_values(wide) if "frequent" in request.param else wide
    return several_rows_each(asked) if "entities" in request.param else asked


@pytest.fixture(scope="module", params=NAMES)
def schedule(request: pytest.FixtureRequest, unit_schema: Schema) -> Schedule:
    generator = registry.generator(request.param, epsilon=EPSILON, delta=DELTA)
    assert isinstance(generator, PrivateGenerator)
    found = generator.schedule(unit_schema)
    assert found is not None
    return found


def rho_on_paper(schedule: Schedule) -> float:
    """Bun & Steinke 2016: count k^2 / (2 sigma^2); Cesar & Rogers 2021: count e^2 / 8."""
    costs = []
    for event in schedule.events:
        if isinstance(event, GaussianEvent | StabilityEvent):
            costs.append(event.count * event.sensitivity**2 / (2 * event.sigma**2))
        else:
            assert isinstance(event, SelectionEvent), "an event that this sum does not know"
            costs.append(event.count * event.epsilon**2 / 8)
    return sum(costs)


def named_alone(schedule: Schedule) -> float:
    """The chance that a value is named which one unit alone holds: with c of its k rows in each, k / c times a tail."""
    total = 0.0
    for event in schedule.events:
        if isinstance(event, StabilityEvent):
            k = event.sensitivity
            tails = [k / c * stats.norm.sf((event.threshold - c - 0.5) / event.sigma) for c in range(1, k + 1)]
            total += event.count * max(tails)
    return total


def choice_loss(epsilon: float) -> pld.PrivacyLossDistribution:
    """One choice, as two mass functions over strips of its privacy loss."""
    edges = np.linspace(-epsilon, epsilon, STRIPS + 1)
    without, with_unit = -np.diff(np.exp(-edges / 2)), np.diff(np.exp(edges / 2))
    lower = dict(enumerate(np.log(without / without.sum())))
    upper = dict(enumerate(np.log(with_unit / with_unit.sum())))
    return pld.from_two_probability_mass_functions(lower, upper, value_discretization_interval=GRID)


def epsilon_by_losses(schedule: Schedule) -> float:
    """PLD of continuous Gaussian noise, which the discrete one equals at these sizes, and of the choices."""
    parts = []
    for event in schedule.events:
        if isinstance(event, GaussianEvent | StabilityEvent):
            one = pld.from_gaussian_mechanism(event.sigma, event.sensitivity, value_discretization_interval=GRID)
        else:
            assert isinstance(event, SelectionEvent)
            one = choice_loss(event.epsilon)
        parts.append(one.self_compose(event.count))
    whole = reduce(lambda many, one: many.compose(one), parts)
    return float(whole.get_epsilon_for_delta(schedule.delta - named_alone(schedule)))


def epsilon_by_moments(schedule: Schedule) -> float:
    """RDP of Gaussian noise, and of the choices as zCDP."""
    accountant = RdpAccountant()
    for event in schedule.events:
        if isinstance(event, GaussianEvent | StabilityEvent):
            each = GaussianDpEvent(event.sigma / event.sensitivity)
            accountant.compose(SelfComposedDpEvent(each, event.count))
        else:
            assert isinstance(event, SelectionEvent)
            accountant.compose(ZCDpEvent(event.epsilon**2 / 8), event.count)
    return float(accountant.get_epsilon(schedule.delta - named_alone(schedule)))


def test_rho_is_what_the_sum_on_paper_says(schedule: Schedule) -> None:
    assert schedule.rho == pytest.approx(rho_on_paper(schedule), rel=1e-12)


def test_epsilon_is_what_dp_accounting_says_of_the_same_events(schedule: Schedule) -> None:
    assert schedule.epsilon == pytest.approx(epsilon_by_losses(schedule), rel=1e-3)


def test_the_frequent_values_of_each_column_are_an_event_of_their_own(unit_schema: Schema, schedule: Schedule) -> None:
    named = [event for event in schedule.events if isinstance(event, StabilityEvent)]
    assert [event.what for event in named] == [f"frequent values of column {n!r}" for n in unit_schema.spikes_measured]
    # .03 of rho a column up to 5,000 units of one row each, and 2% of delta for both.
    n_units = 100_000 / unit_schema.max_rows_per_unit
    for event in named:
        assert event.rho == pytest.approx(0.03 * (5_000 / n_units) ** (2 / 3) * rho_on_paper(schedule))
        assert event.sensitivity == unit_schema.max_rows_per_unit
    stated, by_hand = sum(event.delta for event in named), named_alone(schedule)
    # Of large noise a bound of the tail is stated, a few percent above it.
    assert by_hand <= stated <= 1.06 * by_hand
    assert stated <= 0.02 * DELTA


def test_the_whole_budget_is_planned_and_no_more(schedule: Schedule) -> None:
    assert 0.995 * EPSILON <= schedule.epsilon <= EPSILON
    assert schedule.delta == DELTA


def test_a_coarser_accountant_says_no_less(schedule: Schedule) -> None:
    assert epsilon_by_moments(schedule) >= schedule.epsilon


@pytest.mark.parametrize("shares", [None, (1 / 3, 1 / 3, 1 / 3)], ids=["as it comes", "as in the paper"])
def test_mst_spends_its_stated_shares_on_columns_choices_and_pairs(
    schema: Schema, shares: tuple[float, float, float] | None
) -> None:
    more = {} if shares is None else {"shares": shares}
    generator = registry.generator("mst", epsilon=EPSILON, delta=DELTA, **more)
    assert isinstance(generator, Mst)
    schedule = generator.schedule(schema.model_copy(update={"n_units": 100_000}))
    assert schedule is not None
    n_columns = len(schema.learned)
    assert [event.count for event in schedule.events] == [n_columns, n_columns - 1, n_columns - 1]
    for event, share in zip(schedule.events, generator.shares, strict=True):
        assert event.rho == pytest.approx(share * rho_on_paper(schedule))


def test_latent_classes_spend_their_stated_shares_on_columns_pairs_by_weight_choices_and_what_was_chosen(
    schema: Schema,
) -> None:
    shares = {"columns_share": 0.15, "pairs_share": 0.6, "choices_share": 0.1}
    generator = registry.generator("latent_class", epsilon=EPSILON, delta=DELTA, rounds=7, focus=3.0, **shares)
    assert isinstance(generator, PrivateGenerator)
    schedule = generator.schedule(schema.model_copy(update={"n_units": 100_000}))
    assert schedule is not None
    # 9 columns make 36 pairs, and 8 of them hold the target, which weighs 1 + 3; .15 is for columns, then .6 for pairs.
    rest = 1 - 0.15
    of_weights = 28 * 1 + 8 * 4
    expected = {
        "one-way histograms of the columns": (9, 0.15),
        "pairs of columns of weight 1": (28, 0.6 * rest * 28 / of_weights),
        "pairs of columns of weight 4": (8, 0.6 * rest * 32 / of_weights),
        "choices of marginals": (7, 0.1 * 0.4 * rest),
        "marginals that were chosen": (7, 0.9 * 0.4 * rest),
    }
    assert {event.what: event.count for event in schedule.events} == {what: n for what, (n, _) in expected.items()}
    for event in schedule.events:
        assert event.rho == pytest.approx(expected[event.what][1] * rho_on_paper(schedule)), event.what
    # A pair with the target costs four times as much, and has half the noise.
    light, heavy = (event for event in schedule.events if event.what.startswith("pairs"))
    assert isinstance(light, GaussianEvent)
    assert isinstance(heavy, GaussianEvent)
    assert light.sigma == pytest.approx(2 * heavy.sigma)


def test_a_single_choice_costs_its_own_epsilon_at_no_delta_and_less_at_some() -> None:
    curve = choice_loss(0.5)
    assert curve.get_epsilon_for_delta(0.0) == pytest.approx(0.5, abs=1e-3)
    x = 0.2
    expected = (1 - math.exp((x - 0.5) / 2)) ** 2 / (1 - math.exp(-0.5))
    assert curve.get_delta_for_epsilon(x) == pytest.approx(expected, rel=1e-2)
