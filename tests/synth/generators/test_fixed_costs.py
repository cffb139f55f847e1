"""What every private fit pays beside its plan: shares of rho from public facts, and events that say what was drawn."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synth.dp.events import GaussianEvent, StabilityEvent
from synth.generators.fitting.fixed_costs import MOST_DOMAIN_SHARE, domain_events, domain_shares, with_overhead
from synth.schema import Schema, build_schema

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
