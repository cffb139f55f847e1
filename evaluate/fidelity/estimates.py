"""Estimates from replicates: a distance beyond that of a fresh real sample of the same size, and the worst of many."""

from dataclasses import dataclass, replace

import numpy as np

from evaluate.fidelity.samples import FRESH, SHUFFLED, SYNTHETIC
from evaluate.intervals import WITHOUT, blended, jackknife
from evaluate.result import Estimate

NO_INTERVAL = "Too few rows for an interval."


def described(
    measure: str,
    replicates: np.ndarray,
    n: int,
    *,
    subject: tuple[str, ...] = (),
    bounds: tuple[float, float] = (0.0, 1.0),
    note: str = "",
) -> Estimate:
    """An estimate, lower is better, of synthetic, fresh and shuffled replicates (3, n), with its jackknife."""
    value, without = float(replicates[SYNTHETIC, 0]), replicates[SYNTHETIC, WITHOUT]
    low, high = None, None
    if len(without):
        low, high = jackknife(value, without, bounds=bounds)
    return Estimate(
        measure, value, n, "lower", subject=subject, low=low, high=high,
        reference=float(replicates[FRESH, 0]), floor=float(replicates[SHUFFLED, 0]),
        note=note if len(without) else f"{note} {NO_INTERVAL}".strip(),
    )  # fmt: skip


@dataclass(frozen=True)
class Distance:
    replicates: np.ndarray
    n: int
    n_distances: int = 1
    bound: float = 1.0

    def plain(self, measure: str, *, subject: tuple[str, ...] = (), note: str = "") -> Estimate:
        return described(measure, self.replicates, self.n, subject=subject, bounds=(0.0, self.bound), note=note)

    def excess(self, measure: str, *, subject: tuple[str, ...] = (), note: str = "", landmark: int = FRESH) -> Estimate:
        """Its excess over that of a fresh real sample of the same size, or of shuffled columns."""
        beyond, bounds = self.replicates - self.replicates[landmark], (-self.bound, self.bound)
        plain = described(measure, beyond, self.n, subject=subject, bounds=bounds, note=note)
        if plain.low is None:
            return plain
        low, high = blended(plain.value, beyond[SYNTHETIC], self.n_distances, bounds=bounds)
        return replace(plain, low=low, high=high)


def worst(measure: str, replicates: np.ndarray, n: int, names: list[tuple[str, ...]]) -> Estimate:
    """The largest excess of many distances, (n_distances, 3, n) replicates; its interval allows for the choice."""
    beyond = replicates - replicates[:, FRESH : FRESH + 1]
    position = int(np.argmax(beyond[:, SYNTHETIC, 0]))
    chosen = beyond[position]
    called = " and ".join(map(repr, names[position]))
    plain = described(measure, chosen, n, bounds=(-1.0, 1.0), note=f"The worst is {called}.")
    if plain.low is None:
        return plain
    low, high = blended(plain.value, chosen[SYNTHETIC], 1, bounds=(-1.0, 1.0), n_comparisons=len(names))
    return replace(plain, low=low, high=high)
