"""What every private fit pays beside its plan: shares of rho from public facts, and events that say what was drawn."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synth.dp.events import GaussianEvent, StabilityEvent
from synth.generators.overhead import MOST_DOMAIN_SHARE, domain_events, domain_shares, with_overhead
from synth.schema import Schema, build_schema


def schema(n_units: int, k: int = 1, n_numbers: int = 1, n_lists: int = 0) -> Schema:
    numbers = {f"x{place}": {"kind": "real", "measure": True} for place in range(n_numbers)}
    lists = {f"c{place}": {"kind": "categorical", "measure": True} for place in range(n_lists)}
    who = {"who": {"kind": "identifier", "bounds": [0, 10**6]}} if k > 1 else {}
    entity = {"entity": "who", "max_rows_per_unit": k} if k > 1 else {}
    columns = {**who, **numbers, **lists}
    return build_schema({"status": "declared", "n_units": n_units, "columns": columns, **entity})


def test_the_share_of_bounds_shrinks_as_units_grow_and_what_they_stand_out_by_grows() -> None:
    sizes = (100, 400, 1_338, 10_000, 50_000, 10**6)
    shares = [domain_shares(schema(n))["x0"] for n in sizes]
    assert shares == sorted(shares, reverse=True)
    assert shares[1] == pytest.approx(0.25)
    assert shares[4] == pytest.approx(0.01)
    signals = [n * share**0.5 for n, share in zip(sizes, shares, strict=True)]
    assert signals == sorted(signals)
    # Noise is k times as large: an entity of k rows counts as a k-th of a unit.
    assert domain_shares(schema(3_000, k=3)) == domain_shares(schema(1_000))


@given(
    st.integers(1, 10**8), st.integers(1, 5), st.integers(0, 8), st.integers(0, 8), st.floats(1e-6, 10)
)  # fmt: skip
@settings(max_examples=40)
def test_the_events_cost_the_shares_and_state_their_sensitivity(
    n_units: int, k: int, n_numbers: int, n_lists: int, rho: float
) -> None:
    declared = schema(n_units, k, n_numbers + 1, n_lists)
    shares, events = domain_shares(declared), domain_events(declared, rho, 1e-9)
    assert sum(shares.values()) <= MOST_DOMAIN_SHARE * (1 + 1e-12)
    for (name, share), event in zip(shares.items(), events, strict=True):
        assert isinstance(event, GaussianEvent | StabilityEvent)
        assert (event.count, event.sensitivity) == (1, k)
        assert event.rho == pytest.approx(share * rho)
        assert repr(name) in event.what


def test_the_shares_do_not_depend_on_epsilon() -> None:
    plan = with_overhead(lambda rho: [GaussianEvent("plan", (1 / (2 * rho)) ** 0.5)], schema(5_000), 1e-6)
    for rho in (1e-4, 1.0):
        assert sum(event.rho or 0.0 for event in plan(rho)) == pytest.approx(rho)
        assert (plan(rho)[0].rho or 0.0) / rho == pytest.approx(domain_shares(schema(5_000))["x0"])
