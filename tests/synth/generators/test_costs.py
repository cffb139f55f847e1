"""Costs of fits: rho and epsilon on paper, fixed costs, and the choice of `auto`."""

from functools import reduce
from typing import Any

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from evaluate.privacy.audit.white_box import audit
from synth.dp.events import GaussianEvent, SelectionEvent, StabilityEvent
from synth.dp.schedule import Schedule
from synth.generators import registry
from synth.generators.aim import Aim
from synth.generators.auto import FEW_COLUMNS, Auto
from synth.generators.base import PrivateGenerator
from synth.generators.fitting.private_fit import (
    MOST_DOMAIN_SHARE,
    RANGE_SHARE,
    STEPS_SHARE,
    domain_events,
    domain_shares,
)
from synth.generators.latent_class import LatentClass
from synth.generators.marginal_generator import Independent
from synth.generators.trees import Trees
from synth.schema import Schema, build_schema

EPSILON, DELTA = 1.0, 1e-6
GRID = 2e-5
"""Losses are rounded up to this, once an event: far less than a thousandth of epsilon over a whole schedule."""
STRIPS = 4001
NAMES = ("independent", "mst", "aim", "latent_class", *(name for name in ("pategan",) if name in registry.names()))


def several_rows_each(schema: Schema) -> Schema:
    """The same columns with three rows of a unit at most, so that a forgotten k would show."""
    columns = {name: column.model_dump(mode="json", exclude_unset=True) for name, column in schema.columns.items()}
    content = {"status": "declared", "n_units": 100_000, "entity": "id", "max_rows_per_unit": 3, "columns": columns}
    return build_schema(content)


def with_frequent_values(schema: Schema) -> Schema:
    """The same columns, with the frequent values of two of them to be measured."""
    spiked = {name: schema.columns[name].model_copy(update={"measure_spikes": True}) for name in ("gain", "weight")}
    return schema.model_copy(update={"columns": {**schema.columns, **spiked}})


@pytest.fixture(scope="module")
def unit_schema(schema: Schema) -> Schema:
    return several_rows_each(with_frequent_values(schema.model_copy(update={"n_units": 100_000})))


@pytest.fixture(scope="module", params=NAMES)
def schedule(request: pytest.FixtureRequest, unit_schema: Schema) -> Schedule:
    generator = registry.generator(request.param, epsilon=EPSILON, delta=DELTA)
    assert isinstance(generator, PrivateGenerator)
    result = generator.schedule(unit_schema)
    assert result is not None
    return result


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
            loss = pld.from_gaussian_mechanism(event.sigma, event.sensitivity, value_discretization_interval=GRID)
        else:
            assert isinstance(event, SelectionEvent)
            loss = choice_loss(event.epsilon)
        parts.append(loss.self_compose(event.count))
    whole = reduce(lambda many, part: many.compose(part), parts)
    return float(whole.get_epsilon_for_delta(schedule.delta - named_alone(schedule)))


def test_rho_is_what_the_sum_on_paper_says(schedule: Schedule) -> None:
    assert schedule.rho == pytest.approx(rho_on_paper(schedule), rel=1e-12)


def test_epsilon_is_what_dp_accounting_says_of_the_same_events(schedule: Schedule) -> None:
    assert schedule.epsilon == pytest.approx(epsilon_by_losses(schedule), rel=1e-3)


def test_the_whole_budget_is_planned_and_no_more(schedule: Schedule) -> None:
    assert 0.995 * EPSILON <= schedule.epsilon <= EPSILON
    assert schedule.delta == DELTA


@pytest.mark.parametrize("name", ["mst", "aim"])
def test_noisy_pairs_take_twice_the_share_of_choices_and_pairs_with_the_target_the_larger_part(
    schema: Schema, name: str
) -> None:
    generator = registry.generator(name, epsilon=EPSILON, delta=DELTA, choices="noisy_pairs")
    assert isinstance(generator, PrivateGenerator)
    schedule = generator.schedule(schema.model_copy(update={"n_units": 100_000}))
    assert schedule is not None and not any(isinstance(event, SelectionEvent) for event in schedule.events)
    rho = rho_on_paper(schedule)
    assert schedule.rho == pytest.approx(rho, rel=1e-12)
    # Of .2, .1 and .7 choices are doubled: .2 of 1.1. Of aim: 2 x .1 of what .15 for columns leaves.
    pairs = 0.2 / 1.1 if name == "mst" else 0.2 * 0.85
    result = {event.what: event for event in schedule.events}
    focused, others = result["coarse pairs with the target or a sensitive column"], result["coarse pairs of columns"]
    assert (focused.count, others.count) == (8, 28)
    assert focused.rho == pytest.approx(0.3 * pairs * rho)
    assert others.rho == pytest.approx(0.7 * pairs * rho)


def schema(n_units: int, k: int = 1, n_numbers: int = 1, n_lists: int = 0, n_spiked: int = 0) -> Schema:
    numbers = {f"x{index}": {"kind": "real", "measure": True} for index in range(n_numbers)}
    lists = {f"c{index}": {"kind": "categorical", "measure": True} for index in range(n_lists)}
    who = {"who": {"kind": "identifier", "bounds": [0, 10**6]}} if k > 1 else {}
    entity = {"entity": "who", "max_rows_per_unit": k} if k > 1 else {}
    spiked = {f"s{index}": {"kind": "real", "bounds": [0, 1], "measure_spikes": True} for index in range(n_spiked)}
    columns = {**who, **numbers, **lists, **spiked}
    return build_schema({"status": "declared", "n_units": n_units, "columns": columns, **entity})


@given(
    st.integers(1, 10**8), st.integers(1, 5), st.integers(0, 8), st.integers(0, 8), st.integers(0, 8),
    st.floats(1e-6, 10),
)  # fmt: skip
@settings(max_examples=20)
def test_the_events_cost_the_shares_and_state_their_sensitivity(
    n_units: int, k: int, n_numbers: int, n_lists: int, n_spiked: int, rho: float
) -> None:
    declared = schema(n_units, k, n_numbers + 1, n_lists, n_spiked)
    shares, events = domain_shares(declared), domain_events(declared, rho, 1e-9)
    beside = {what: share for what, share in shares.items() if what.startswith(("range", "steps"))}
    assert sum(shares.values()) - sum(beside.values()) <= MOST_DOMAIN_SHARE * (1 + 1e-12)
    assert len(shares) - len(beside) == n_numbers + 1 + n_lists + n_spiked
    for what, share in beside.items():
        bounds = shares["bounds of " + what[what.index("column") :]]
        assert share == pytest.approx((RANGE_SHARE if what.startswith("range") else STEPS_SHARE) * bounds)
    for (what, share), event in zip(shares.items(), events, strict=True):
        assert isinstance(event, GaussianEvent | StabilityEvent)
        assert (event.count, event.sensitivity) == (1, k)
        assert event.rho == pytest.approx(share * rho)
        assert event.what == what


def schema_of_sizes(n_numbers: int, n_categories: int, n_units: int, n_levels: int = 101) -> Schema:
    """Numbers and categories, all of two levels but one."""
    columns: dict[str, Any] = {f"n{i}": {"kind": "integer", "bounds": [0, 99]} for i in range(n_numbers)}
    columns |= {f"c{i}": {"kind": "categorical", "categories": ["a", "b"]} for i in range(n_categories)}
    if n_categories:
        columns["c0"]["categories"] = [f"level{i}" for i in range(n_levels)]
    return build_schema({"status": "declared", "n_units": n_units, "columns": columns})


@pytest.mark.parametrize(
    ("numbers", "categories", "n_levels", "n_units", "epsilon", "kind"),
    [
        (FEW_COLUMNS - 1, 0, 0, 50_000, 1.0, Aim),
        (FEW_COLUMNS, 0, 0, 50_000, 1.0, LatentClass),
        (FEW_COLUMNS, 0, 0, 50_000, None, Trees),
        (4, 20, 101, 6_000, 1.0, LatentClass),
        (4, 20, 101, 600, 1.0, LatentClass),
        (4, 20, 101, 200, 1.0, Independent),
        (20, 4, 101, 600, 0.1, Independent),
        (1, 0, 0, 50_000, 1.0, Independent),
    ],
)
def test_the_generator_is_that_which_public_facts_speak_for(
    numbers: int, categories: int, n_levels: int, n_units: int, epsilon: float | None, kind: type
) -> None:
    chosen = Auto(epsilon=epsilon).chosen(schema_of_sizes(numbers, categories, n_units, n_levels))
    assert isinstance(chosen, kind)
    assert getattr(chosen, "epsilon", None) == epsilon


@pytest.mark.parametrize("k", [1, 4])
def test_limits_are_of_the_signal_which_several_rows_of_an_entity_divide(k: int) -> None:
    """The generator changes where units in standard deviations of noise do."""
    columns = schema_of_sizes(4, 20, 100).model_dump(mode="json")["columns"]
    content = {"status": "declared", "columns": {"who": {"kind": "identifier", "bounds": [0, 10**9]}, **columns}}
    first = {**content, "entity": "who", "max_rows_per_unit": k}
    per_unit = Auto(epsilon=1.0, delta=1e-8).signal(build_schema({**first, "n_units": 10**6})) / 10**6
    names = []
    for signal in (4.9, 5.1):
        schema = build_schema({**first, "n_units": round(signal / per_unit)})
        names.append(Auto(epsilon=1.0, delta=1e-8).chosen(schema).name)
    assert names == ["independent", "latent_class"]
    single = build_schema({**content, "entity": "who", "max_rows_per_unit": 1, "n_units": 10**6})
    assert Auto(epsilon=1.0, delta=1e-8).signal(single) == pytest.approx(k * per_unit * 10**6)


def test_the_schedule_is_that_of_the_generator_chosen() -> None:
    for schema in (schema_of_sizes(3, 0, 9_000), schema_of_sizes(12, 0, 9_000)):
        auto = Auto(epsilon=2.0, delta=1e-6)
        assert auto.schedule(schema) == auto.chosen(schema).schedule(schema)


def test_an_audit_is_of_the_generator_that_the_schema_chooses_not_of_that_of_its_stand_in() -> None:
    schema = schema_of_sizes(12, 0, 50_000)
    result = audit(Auto(epsilon=3.0, delta=1e-6), schema, n_fits=2)
    assert {"choices of marginals", "marginals that were chosen"} <= {*result.covered, *result.not_covered}
