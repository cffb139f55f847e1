"""Costs of fits: rho and epsilon on paper, forecasts, fixed costs, and the choice of `auto`."""

import itertools
import math
import time
from functools import reduce
from typing import Any

import numpy as np
import pandas as pd
import pytest
from dp_accounting import GaussianDpEvent, SelfComposedDpEvent, ZCDpEvent
from dp_accounting.pld import privacy_loss_distribution as pld
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import synth
from evaluate.privacy.audit.white_box import audit
from synth.domain import Discretizer
from synth.dp.events import GaussianEvent, SelectionEvent, StabilityEvent
from synth.dp.schedule import Schedule
from synth.errors import BudgetError, JobError
from synth.generators import registry
from synth.generators.aim import Aim
from synth.generators.auto import FEW_COLUMNS, Auto
from synth.generators.base import PrivateGenerator
from synth.generators.fitting.columns import MOST_DOMAIN_SHARE, domain_events, domain_shares, with_overhead
from synth.generators.forecast import ASSUMED_CATEGORIES, assumed, outlook
from synth.generators.latent_class import LatentClass
from synth.generators.marginal_generator import Independent
from synth.generators.models.marginal_model import MarginalModel
from synth.generators.mst import Mst
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


def test_half_of_the_rest_for_choices_is_refused_where_noisy_pairs_double_it() -> None:
    assert registry.generator("aim", choices_share=0.5)
    with pytest.raises(JobError, match=r"leaves nothing to measure; choose a share below 0\.5"):
        registry.generator("aim", choices_share=0.5, choices="noisy_pairs")


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
    found = {event.what: event for event in schedule.events}
    focused, others = found["coarse pairs with the target or a sensitive column"], found["coarse pairs of columns"]
    assert (focused.count, others.count) == (8, 28)
    assert focused.rho == pytest.approx(0.3 * pairs * rho)
    assert others.rho == pytest.approx(0.7 * pairs * rho)


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


N_ROWS = 4000
GENERATORS = (Independent, Mst, Aim, LatentClass)


def schema_of(n_units: int = N_ROWS, **changes: Any) -> Schema:
    columns: dict[str, Any] = {
        "age": {"kind": "integer", "bounds": [0, 99]},
        "income": {"kind": "real", "bounds": [0, 1000], "decimals": 2},
        "town": {"kind": "categorical", "categories": ["a", "b", "c", "d", "e", "f"]},
        "ill": {"kind": "boolean"},
        "grade": {"kind": "integer", "bounds": [0, 4]},
        "day": {"kind": "date", "bounds": ["2020-01-01", "2020-12-31"]},
        **changes.pop("columns", {}),
    }
    return build_schema({"status": "declared", "n_units": n_units, "columns": columns, **changes})


def table(n_rows: int = N_ROWS) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    age = rng.integers(0, 100, n_rows)
    return pd.DataFrame(
        {
            "age": age,
            "income": np.clip(age * 5 + rng.normal(0, 50, n_rows), 0, 1000).round(2),
            "town": rng.choice(list("abcdef"), n_rows),
            "ill": rng.random(n_rows) < age / 120,
            "grade": age // 20,
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 366, n_rows), unit="D"),
        }
    )


@pytest.mark.parametrize("kind", GENERATORS)
def test_codes_are_those_of_the_schema_at_most(kind: Any) -> None:
    found = outlook(kind(epsilon=1.0), schema_of())
    bins = kind(epsilon=1.0).n_bins
    assert found.sizes == {"age": bins + 2, "income": bins + 2, "town": 8, "ill": 4, "grade": 7, "day": bins + 2}


def test_declared_bins_are_kept_whatever_their_number() -> None:
    binned = {"age": {"kind": "integer", "bounds": [0, 99], "bins": [0, 50, 60, 99]}}
    assert outlook(Mst(epsilon=1.0, n_bins=2), schema_of(columns=binned)).sizes["age"] == 5


@pytest.mark.statistical
@pytest.mark.parametrize("kind", GENERATORS)
def test_more_epsilon_never_raises_an_expected_error(kind: Any) -> None:
    """But that aim shares a larger budget among more marginals, so that its pairs compare where these are as many."""
    found = [outlook(kind(epsilon=float(epsilon)), schema_of()) for epsilon in np.geomspace(0.05, 3, 8)]
    for less, more in itertools.pairwise(found):
        assert more.column < less.column
        if less.tree is not None and more.tree is not None and less.n_marginals == more.n_marginals:
            assert more.tree.error <= less.tree.error


def test_a_wide_table_has_an_outlook_and_no_more_rounds_than_a_narrow_one() -> None:
    wide = {f"x{index}": {"kind": "real", "bounds": [0, 1]} for index in range(300)}
    schema = build_schema({"status": "declared", "n_units": N_ROWS, "columns": wide})
    found = outlook(Aim(epsilon=1.0), schema)
    narrow = build_schema({"status": "declared", "n_units": N_ROWS, "columns": dict(list(wide.items())[:40])})
    assert found.n_marginals <= Aim(epsilon=1.0).n_rounds(narrow)
    assert np.isfinite([found.seconds, found.memory_mb]).all()


def test_numbers_are_paired_by_coarse_codes_and_categories_by_all_of_theirs() -> None:
    towns = {"kind": "categorical", "categories": [f"t{index}" for index in range(40)]}
    numbers = {"kind": "real", "bounds": [0, 1]}
    for column, codes in ((towns, 42), (numbers, 10)):
        schema = build_schema({"status": "declared", "n_units": N_ROWS, "columns": dict.fromkeys("ab", column)})
        pair = outlook(Aim(epsilon=1.0), schema).pair
        assert pair is not None
        assert pair.codes == (codes, codes)


def test_noise_of_a_pair_falls_with_epsilon_over_the_whole_range() -> None:
    for kind in (Mst, Aim):
        weak, strong = (outlook(kind(epsilon=epsilon), schema_of()).tree for epsilon in (3.0, 0.05))
        assert weak is not None
        assert strong is not None
        assert weak.error < strong.error / 5


def test_the_error_of_a_pair_is_half_the_mean_absolute_noise_over_its_cells() -> None:
    found = outlook(Mst(epsilon=1.0), schema_of())
    assert found.tree is not None
    assert found.tree.codes == (34, 4)
    rng = np.random.default_rng(1)
    noise = rng.normal(0, found.tree.sigma, (2000, 34 * 4))
    drawn = np.abs(noise).sum(axis=1) / 2 / N_ROWS
    assert found.tree.error == pytest.approx(drawn.mean(), abs=4 * drawn.std() / np.sqrt(2000))


@pytest.mark.statistical
def test_the_error_of_a_column_bounds_that_of_a_real_fit_and_is_near_it() -> None:
    """Ten fits, on the column whose cells are its codes; what noise moves is a mean over six cells each."""
    schema, frame = schema_of(), table()
    generator = Independent(epsilon=1.0)
    found = outlook(generator, schema)
    exact = Discretizer.by_schema(schema)
    errors = []
    for _ in range(10):
        model = generator.fit(frame, schema)
        town = model.distribution.marginal(("town",))
        shares = np.bincount(exact.encode(frame)[:, 2], minlength=8) / N_ROWS
        errors.append(np.abs(town / town.sum() - shares).sum() / 2)
    # `other` and `missing` cannot occur and are held at zero, so that six of eight codes are noisy.
    assert found.columns["town"] / 3 < np.mean(errors) < found.columns["town"]


def test_a_column_to_measure_takes_of_the_budget_and_has_an_assumed_domain() -> None:
    measured = {"town": {"kind": "categorical", "measure": True}, "age": {"kind": "integer", "measure": True}}
    schema = schema_of(columns=measured)
    found, declared = outlook(Mst(epsilon=1.0), schema), outlook(Mst(epsilon=1.0), assumed(schema))
    assert found.assumed == ("age", "town")
    assert found.sizes["town"] == ASSUMED_CATEGORIES + 2
    assert found.sizes == declared.sizes
    assert declared.columns["ill"] < found.columns["ill"]


def test_frequent_values_to_measure_take_of_the_budget_and_of_the_time_alone() -> None:
    asked = {"income": {"kind": "real", "bounds": [0, 1000], "decimals": 2, "measure_spikes": True}}
    schema = schema_of(columns=asked)
    found, declared = outlook(Mst(epsilon=1.0), schema), outlook(Mst(epsilon=1.0), schema_of())
    assert found.assumed == ()
    assert found.sizes == declared.sizes == outlook(Mst(epsilon=1.0), assumed(schema)).sizes
    assert found.n_marginals == declared.n_marginals
    assert declared.columns["ill"] < found.columns["ill"] < 1.1 * declared.columns["ill"]
    assert found.seconds > declared.seconds


@pytest.mark.parametrize("kind", ["integer", "real", "date", "datetime", "weight"])
def test_every_kind_that_can_be_measured_has_an_outlook(kind: str) -> None:
    assert outlook(Mst(epsilon=1.0), schema_of(columns={"age": {"kind": kind, "measure": True}})).sizes["age"] > 2


def test_noise_grows_with_the_rows_of_a_unit() -> None:
    columns = {"id": {"kind": "identifier", "template": "####"}}
    one, five = (
        outlook(Mst(epsilon=1.0), schema_of(columns=columns, entity="id", max_rows_per_unit=k)) for k in (1, 5)
    )
    assert one.tree is not None
    assert five.tree is not None
    assert five.tree.sigma == pytest.approx(5 * one.tree.sigma, rel=0.01)


def test_one_column_has_no_pair() -> None:
    schema = build_schema({"status": "declared", "n_units": 100, "columns": {"ill": {"kind": "boolean"}}})
    for kind in GENERATORS:
        found = outlook(kind(epsilon=1.0), schema)
        assert (found.tree, found.pair, found.triple, found.n_marginals) == (None, None, None, 0)


def test_no_epsilon_has_no_outlook() -> None:
    with pytest.raises(BudgetError, match="an outlook needs an epsilon"):
        outlook(Mst(), schema_of())


def test_a_wide_table_costs_more_than_a_narrow_one() -> None:
    wide = {f"c{i}": {"kind": "categorical", "categories": ["a", "b", "c"]} for i in range(60)}
    for kind in GENERATORS:
        narrow, broad = (outlook(kind(epsilon=1.0), schema_of(columns=columns)) for columns in ({}, wide))
        assert narrow.seconds < broad.seconds
        assert narrow.memory_mb < broad.memory_mb


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Mst, Aim])
def test_seconds_are_within_a_factor_of_three_of_a_fit(kind: Any) -> None:
    """Process time; a factor of six below, since libraries and prices of schedules are there already."""
    schema, generator = schema_of(40_000), kind(epsilon=1.0)
    frame = table(40_000)
    Independent(epsilon=1.0).fit(frame, schema)
    expected = outlook(generator, schema).seconds
    started = time.process_time()
    generator.fit(frame, schema)
    took = time.process_time() - started
    assert took / 3 < expected < 6 * took


BOUNDS, SPIKES = "bounds of column 'x0'", "frequent values of column 's0'"


def schema(n_units: int, k: int = 1, n_numbers: int = 1, n_lists: int = 0, n_spiked: int = 0) -> Schema:
    numbers = {f"x{place}": {"kind": "real", "measure": True} for place in range(n_numbers)}
    lists = {f"c{place}": {"kind": "categorical", "measure": True} for place in range(n_lists)}
    who = {"who": {"kind": "identifier", "bounds": [0, 10**6]}} if k > 1 else {}
    entity = {"entity": "who", "max_rows_per_unit": k} if k > 1 else {}
    spiked = {f"s{place}": {"kind": "real", "bounds": [0, 1], "measure_spikes": True} for place in range(n_spiked)}
    columns = {**who, **numbers, **lists, **spiked}
    return build_schema({"status": "declared", "n_units": n_units, "columns": columns, **entity})


def test_the_share_of_bounds_shrinks_as_units_grow_and_what_they_stand_out_by_grows() -> None:
    sizes = (100, 400, 1_338, 10_000, 50_000, 10**6)
    shares = [domain_shares(schema(n))[BOUNDS] for n in sizes]
    assert shares == sorted(shares, reverse=True)
    assert shares[1] == pytest.approx(0.25)
    assert shares[4] == pytest.approx(0.01)
    signals = [n * share**0.5 for n, share in zip(sizes, shares, strict=True)]
    assert signals == sorted(signals)
    # Noise is k times as large: an entity of k rows counts as a k-th of a unit.
    assert domain_shares(schema(3_000, k=3)) == domain_shares(schema(1_000))


def test_the_share_of_frequent_values_shrinks_as_units_grow_and_so_do_those_that_are_named() -> None:
    sizes = (100, 5_000, 30_000, 10**6)
    shares = [domain_shares(schema(n, n_numbers=0, n_spiked=1))[SPIKES] for n in sizes]
    assert shares[:2] == [0.03, 0.03]
    assert shares[1:] == sorted(shares[1:], reverse=True)
    events = [domain_events(schema(n, n_numbers=0, n_spiked=1), 0.02, 1e-8)[0] for n in sizes]
    named = [event.threshold / n for event, n in zip(events, sizes, strict=True) if isinstance(event, StabilityEvent)]
    assert named == sorted(named, reverse=True)
    assert named[1] < 0.04
    assert domain_shares(schema(30_000, 3, 0, n_spiked=1)) == domain_shares(schema(10_000, 1, 0, n_spiked=1))


def test_lists_of_categories_and_of_frequent_values_share_one_delta() -> None:
    events = domain_events(schema(5_000, n_lists=2, n_spiked=2), 0.02, 1e-8)
    assert [event.what for event in events] == [
        BOUNDS, "categories of column 'c0'", "categories of column 'c1'", SPIKES, "frequent values of column 's1'"
    ]  # fmt: skip
    assert events[0].delta == 0
    assert 0 < sum(event.delta for event in events) <= 1e-8
    assert all(event.delta <= 1e-8 / 4 for event in events)


@given(
    st.integers(1, 10**8), st.integers(1, 5), st.integers(0, 8), st.integers(0, 8), st.integers(0, 8),
    st.floats(1e-6, 10),
)  # fmt: skip
@settings(max_examples=40)
def test_the_events_cost_the_shares_and_state_their_sensitivity(
    n_units: int, k: int, n_numbers: int, n_lists: int, n_spiked: int, rho: float
) -> None:
    declared = schema(n_units, k, n_numbers + 1, n_lists, n_spiked)
    shares, events = domain_shares(declared), domain_events(declared, rho, 1e-9)
    assert sum(shares.values()) <= MOST_DOMAIN_SHARE * (1 + 1e-12)
    assert len(shares) == n_numbers + 1 + n_lists + n_spiked
    for (what, share), event in zip(shares.items(), events, strict=True):
        assert isinstance(event, GaussianEvent | StabilityEvent)
        assert (event.count, event.sensitivity) == (1, k)
        assert event.rho == pytest.approx(share * rho)
        assert event.what == what


def test_the_shares_do_not_depend_on_epsilon() -> None:
    plan = with_overhead(lambda rho: [GaussianEvent("plan", (1 / (2 * rho)) ** 0.5)], schema(5_000), 1e-6)
    for rho in (1e-4, 1.0):
        assert sum(event.rho or 0.0 for event in plan(rho)) == pytest.approx(rho)
        assert (plan(rho)[0].rho or 0.0) / rho == pytest.approx(domain_shares(schema(5_000))[BOUNDS])


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
        (4, 20, 101, 6_000, 1.0, Aim),  # most columns are categories, one of many levels, and pairs are noisy
        (4, 20, 100, 6_000, 1.0, LatentClass),
        (8, 16, 101, 6_000, 1.0, LatentClass),
        (4, 20, 101, 60_000, 1.0, LatentClass),
        (4, 20, 101, 600, 1.0, LatentClass),
        (4, 20, 101, 200, 1.0, Independent),
        (20, 4, 101, 600, 0.1, Independent),
        (1, 0, 0, 50_000, 1.0, Independent),
        (7, 14, 101, 6_000, 1.0, LatentClass),  # two thirds are categories, and no more
        (6, 15, 101, 6_000, 1.0, Aim),
        (5, 15, 101, 6_000, 1.0, LatentClass),  # twenty columns, and no more
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
    one = {**content, "entity": "who", "max_rows_per_unit": k}
    per_unit = Auto(epsilon=1.0, delta=1e-8).signal(build_schema({**one, "n_units": 10**6})) / 10**6
    names = []
    for signal in (4.9, 5.1, 49, 51, 399, 401):
        schema = build_schema({**one, "n_units": round(signal / per_unit)})
        names.append(Auto(epsilon=1.0, delta=1e-8).chosen(schema).name)
    assert names == ["independent", "latent_class", "latent_class", "aim", "aim", "latent_class"]
    single = build_schema({**content, "entity": "who", "max_rows_per_unit": 1, "n_units": 10**6})
    assert Auto(epsilon=1.0, delta=1e-8).signal(single) == pytest.approx(k * per_unit * 10**6)


def test_an_order_of_entities_of_one_row_tells_no_pairs() -> None:
    content = schema_of_sizes(8, 0, 50_000).model_dump(mode="json")
    keys = {
        "who": {"kind": "identifier", "bounds": [0, 10**9]},
        "when": {"kind": "date", "bounds": ["2020-01-01", "2021-01-01"]},
    }
    histories = {**content, "columns": {**keys, **content["columns"]}, "entity": "who", "order": "when"}
    for k, kind in ((1, LatentClass), (2, Aim)):
        assert isinstance(Auto(epsilon=1.0).chosen(build_schema({**histories, "max_rows_per_unit": k})), kind)


def test_the_schedule_is_that_of_the_generator_chosen() -> None:
    for schema in (schema_of_sizes(3, 0, 9_000), schema_of_sizes(12, 0, 9_000)):
        auto = Auto(epsilon=2.0, delta=1e-6)
        assert auto.schedule(schema) == auto.chosen(schema).schedule(schema)


def test_a_model_and_its_parameters_are_those_of_the_generator_chosen() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({f"n{i}": rng.integers(0, 100, 400) for i in range(3)})
    model = synth.fit(frame, schema_of_sizes(3, 0, 400), epsilon=1.0)
    assert isinstance(model, MarginalModel)
    assert model.name == "aim"
    assert model.parameters == Aim(epsilon=1.0).parameters()
    assert model.statement is not None
    assert model.statement.epsilon == pytest.approx(1.0, rel=1e-3)


def test_an_audit_is_of_the_generator_that_the_schema_chooses_not_of_that_of_its_stand_in() -> None:
    schema = schema_of_sizes(12, 0, 50_000)
    found = audit(Auto(epsilon=3.0, delta=1e-6), schema, n_fits=2)
    assert {"choices of marginals", "marginals that were chosen"} <= {*found.covered, *found.not_covered}


def test_one_column_of_many_values_is_fitted() -> None:
    frame = pd.DataFrame({"n0": np.random.default_rng(0).integers(0, 100, 2000)})
    for name in ("auto", "aim", "latent_class"):
        synthetic = synth.fit(frame, schema_of_sizes(1, 0, 2000), name, epsilon=1.0).sample(50, seed=0)
        assert synthetic["n0"].between(0, 99).all(), name
