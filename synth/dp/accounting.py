"""What a plan of events costs: PLD is the claim, RDP the check that must be at least as large."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import special

from synth.dp.events import Event, GaussianEvent, SelectionEvent

FINENESS = 500
"""Grid points per standard deviation of the smallest privacy loss; the composition is pessimistic at any fineness."""


def epsilon_pld(events: Sequence[Event], delta: float) -> float:
    """Epsilon of all events together by privacy loss distributions, at `delta`.

    Valid for a schedule fixed in advance: no event's parameter may depend on another's outcome.

    >>> round(epsilon_pld([GaussianEvent("counts", sigma=10.0)], 1e-6), 3)
    0.397
    """
    composed = None
    interval = _interval(events)
    for event in events:
        one = _loss_gaussian(event, interval) if isinstance(event, GaussianEvent) else _loss_selection(event, interval)
        many = one.self_compose(event.count) if event.count > 1 else one
        composed = many if composed is None else composed.compose(many)
    return 0.0 if composed is None else float(composed.get_epsilon_for_delta(delta))


def epsilon_rdp(events: Sequence[Event], delta: float) -> float:
    """Epsilon of all events together by Renyi differential privacy, at `delta`: the check, never below the claim."""
    from dp_accounting.rdp import compute_epsilon

    if not events:
        return 0.0
    orders = np.concatenate([[1.01], np.linspace(1.1, 11, 100), np.geomspace(11.1, 4096, 200)])
    divergences = np.zeros(len(orders))
    for event in events:
        one = orders * event.rho / event.count if isinstance(event, GaussianEvent) else _selection_rdp(event, orders)
        divergences += event.count * one
    return float(compute_epsilon(orders, divergences, delta)[0])


def _interval(events: Sequence[Event]) -> float:
    """Width of the grid of privacy losses: fine against the smallest event, within what a composition can afford."""
    smallest = min((math.sqrt(2 * event.rho / event.count) for event in events), default=1.0)
    return float(np.clip(smallest / FINENESS, 1e-6, 1e-3))


def selection_delta(x: np.ndarray, epsilon: float) -> np.ndarray:
    """The exact privacy curve of a bounded-range mechanism: delta at every privacy loss `x`.

    Source: Dong, Durfee, Rogers 2020, Lemma 3.4 (maximized over the mechanism's offset).

    >>> selection_delta(np.array([1.0]), 1.0).tolist()
    [0.0]
    """
    inside = np.clip(x, -epsilon, epsilon)
    curve = np.expm1((inside - epsilon) / 2) ** 2 / -math.expm1(-epsilon)
    return np.where(x < -epsilon, -np.expm1(x), np.where(x > epsilon, 0.0, curve))


def _loss_gaussian(event: GaussianEvent, interval: float) -> Any:
    from dp_accounting.pld import privacy_loss_distribution

    return privacy_loss_distribution.from_discrete_gaussian_mechanism(
        event.sigma, sensitivity=event.sensitivity, value_discretization_interval=interval
    )


def _loss_selection(event: SelectionEvent, interval: float) -> Any:
    from dp_accounting.pld import pld_pmf, privacy_loss_distribution

    grid, deltas = _selection_grid(event, interval)
    pmf = pld_pmf.create_pmf_pessimistic_connect_dots(interval, grid, deltas)
    return privacy_loss_distribution.PrivacyLossDistribution(pmf)


def _selection_grid(event: SelectionEvent, interval: float) -> tuple[np.ndarray, np.ndarray]:
    top = math.ceil(event.epsilon / interval)
    grid = np.arange(-top, top + 1)
    return grid, np.minimum.accumulate(selection_delta(grid * interval, event.epsilon))


def _selection_rdp(event: SelectionEvent, orders: np.ndarray) -> np.ndarray:
    """Renyi divergences of the curve's own pair of distributions, shape (n_orders,).

    The curve bounds every mechanism of that range at once, so its divergence lies above epsilon^2 / 8 times the order;
    taking it from the curve keeps the two accountants comparable.
    """
    interval = event.epsilon / 4000
    grid, deltas = _selection_grid(event, interval)
    losses = grid * interval
    # The mass of the loss from its hockey-stick curve: d(delta)/d(e^x) is minus the mass of Q above x.
    above = -np.diff(deltas) / np.diff(np.exp(losses))
    mass_q = np.maximum(-np.diff(np.concatenate([[1.0], above, [0.0]])), 0.0)
    with np.errstate(divide="ignore"):
        log_mass = np.log(mass_q)
    return np.asarray(special.logsumexp(log_mass + orders[:, None] * losses, axis=1) / (orders - 1))
