"""Renyi curves, which add up over releases, and the filter that says whether one more may be added.

Plain Python on purpose, and apart from `accounting` for that: whoever only keeps a ledger imports nothing heavy.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

ORDERS: tuple[float, ...] = tuple(1 + 0.05 * 1.18**step for step in range(64))
"""The orders of every curve, from 1.05 to about 1,700; a ledger holds curves on these, so they never change."""

CONVERSION_SHARE = 0.75
"""Share of a filter's delta for turning a curve into epsilon; the rest is for the mechanisms' own deltas."""
FAVORITE_SHARE = 0.5
"""Share of that for the order that suits Gaussian noise best; the other orders divide what remains."""


@dataclass(frozen=True)
class RdpCurve:
    """The cost of releases: a Renyi divergence at each of `ORDERS`, plus the deltas of the mechanisms themselves.

    Attributes:
        divergences: one bound for each order, shape (len(ORDERS),); never negative, infinite where none holds.

    Source: Mironov 2017 (1702.07476).

    >>> one = RdpCurve.of_rho(0.01)
    >>> round((one + one).epsilon(1e-6), 3) == round(RdpCurve.of_rho(0.02).epsilon(1e-6), 3)
    True
    """

    divergences: tuple[float, ...]
    delta: float = 0.0

    def __post_init__(self) -> None:
        if len(self.divergences) != len(ORDERS):
            raise ValueError(f"a curve has {len(ORDERS)} orders, not {len(self.divergences)}; use those of ORDERS")
        # Written so that NaN, which compares as false, is refused.
        if not all(divergence >= 0 for divergence in self.divergences) or not 0 <= self.delta < 1:
            raise ValueError("a curve's divergences are zero or more and its delta lies in [0, 1)")

    def __add__(self, other: "RdpCurve") -> "RdpCurve":
        pairs = zip(self.divergences, other.divergences, strict=True)
        return RdpCurve(tuple(a + b for a, b in pairs), self.delta + other.delta)

    @classmethod
    def zero(cls) -> "RdpCurve":
        return cls((0.0,) * len(ORDERS))

    @classmethod
    def of_rho(cls, rho: float) -> "RdpCurve":
        """The curve of zero-concentrated differential privacy: rho times the order (Bun & Steinke 2016)."""
        return cls(tuple(rho * order for order in ORDERS))

    @classmethod
    def total(cls, curves: Iterable["RdpCurve"]) -> "RdpCurve":
        return sum(curves, cls.zero())

    def epsilon(self, delta: float) -> float:
        """Epsilon at `delta` in all, infinite where the deltas of the mechanisms alone exceed it.

        Valid where what was released did not depend on what came out before; across releases see `RdpFilter`.

        >>> round(RdpCurve.of_rho(0.02).epsilon(1e-6), 3)
        0.9
        """
        rest = delta - self.delta
        if rest <= 0:
            return math.inf
        return max(0.0, min(d + _conversion(order, rest) for d, order in zip(self.divergences, ORDERS, strict=True)))


def _conversion(order: float, delta: float) -> float:
    """The summand that turns a Renyi divergence into an epsilon (Canonne, Kamath, Steinke 2020, Proposition 12)."""
    return math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)


@dataclass(frozen=True)
class RdpFilter:
    """A privacy filter: a total for releases chosen one after the other, each in sight of the earlier ones.

    A filter on one order fixed in advance is valid (Feldman & Zrnic 2021, 2008.11193; Whitehouse et al. 2023,
    2203.05481). Here any order may be the one that admits, so the filter's delta is divided among the orders
    beforehand. By the first order that still admits them, releases fall into one of finitely many events. On each of
    these, the filter of that order alone would have done the same. The deltas of the parts add up to the whole.

    >>> RdpFilter(1.0, 1e-6).admits(RdpCurve.of_rho(0.02)), RdpFilter(1.0, 1e-6).admits(RdpCurve.of_rho(0.03))
    (True, False)
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        if not (0 < self.epsilon < math.inf and 0 < self.delta < 1):
            raise ValueError(f"a filter needs a finite epsilon above 0 and a delta in (0, 1), not {self}")

    def admits(self, curve: RdpCurve) -> bool:
        return self.spent(curve) <= self.epsilon

    def spent(self, curve: RdpCurve) -> float:
        """The epsilon that everything released has come to under this filter; 0 for nothing, infinite beyond delta."""
        if curve.delta > (1 - CONVERSION_SHARE) * self.delta:
            return math.inf
        if not any(curve.divergences):
            return 0.0
        ends = (d + cost for d, cost in zip(curve.divergences, self._costs, strict=True))
        return max(0.0, min(ends))

    @cached_property
    def _costs(self) -> tuple[float, ...]:
        whole = CONVERSION_SHARE * self.delta
        even = [_conversion(order, whole) for order in ORDERS]
        # Gaussian noise has divergence rho times the order: the best order is the one that leaves it the largest rho.
        rooms = [(self.epsilon - cost) / order for cost, order in zip(even, ORDERS, strict=True)]
        favorite = rooms.index(max(rooms))
        others = whole * (1 - FAVORITE_SHARE) / (len(ORDERS) - 1)
        shares = (whole * FAVORITE_SHARE if index == favorite else others for index in range(len(ORDERS)))
        return tuple(_conversion(order, share) for order, share in zip(ORDERS, shares, strict=True))
