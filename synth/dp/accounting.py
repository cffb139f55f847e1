"""What a plan of events costs: PLD is the claim, RDP the check that must be at least as large."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from synth.dp.events import Event, GaussianEvent, SelectionEvent

INTERVAL = 1e-4
"""Width of the grid on which privacy losses are composed; the composition is pessimistic at any width."""


def epsilon_pld(events: Sequence[Event], delta: float) -> float:
    """Epsilon of all events together by privacy loss distributions, at `delta`.

    Valid for a schedule fixed in advance: no event's parameter may depend on another's outcome.

    >>> round(epsilon_pld([GaussianEvent("counts", sigma=10.0)], 1e-6), 3)
    0.397
    """
    composed = None
    for event in events:
        one = _loss_gaussian(event) if isinstance(event, GaussianEvent) else _loss_selection(event)
        many = one.self_compose(event.count) if event.count > 1 else one
        composed = many if composed is None else composed.compose(many)
    return 0.0 if composed is None else float(composed.get_epsilon_for_delta(delta))


def epsilon_rdp(events: Sequence[Event], delta: float) -> float:
    """Epsilon of all events together by Renyi differential privacy, at `delta`: never below the truth."""
    from dp_accounting import ZCDpEvent
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant(orders=np.r_[1.01, np.linspace(1.1, 11, 100), np.geomspace(11.1, 4096, 200)].tolist())
    for event in events:
        accountant.compose(ZCDpEvent(event.rho))
    return float(accountant.get_epsilon(delta)) if events else 0.0


def selection_delta(x: np.ndarray, epsilon: float) -> np.ndarray:
    """The exact privacy curve of a bounded-range mechanism: delta at every privacy loss `x`.

    Source: Dong, Durfee, Rogers 2020, Lemma 3.4 (maximized over the mechanism's offset).

    >>> selection_delta(np.array([1.0]), 1.0).tolist()
    [0.0]
    """
    inside = np.clip(x, -epsilon, epsilon)
    curve = np.expm1((inside - epsilon) / 2) ** 2 / -math.expm1(-epsilon)
    return np.where(x < -epsilon, -np.expm1(x), np.where(x > epsilon, 0.0, curve))


def _loss_gaussian(event: GaussianEvent) -> Any:
    from dp_accounting.pld import privacy_loss_distribution

    return privacy_loss_distribution.from_discrete_gaussian_mechanism(
        event.sigma, sensitivity=event.sensitivity, value_discretization_interval=INTERVAL
    )


def _loss_selection(event: SelectionEvent) -> Any:
    from dp_accounting.pld import pld_pmf, privacy_loss_distribution

    top = math.ceil(event.epsilon / INTERVAL)
    grid = np.arange(-top, top + 1)
    deltas = np.minimum.accumulate(selection_delta(grid * INTERVAL, event.epsilon))
    pmf = pld_pmf.create_pmf_pessimistic_connect_dots(INTERVAL, grid, deltas)
    return privacy_loss_distribution.PrivacyLossDistribution(pmf)
