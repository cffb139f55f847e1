"""The atoms of a column of numbers: values that many rows hold, or that few others stand beside."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
N_DRAWN = 5_000
"""Values that are looked at for frequent ones, and that a mixture is fitted on."""
ATOM_SHARE = 0.05
"""Share of the values from which on one of them is a mode of its own."""
FEW_VALUES = 24
"""So many distinct values, besides the frequent ones, are modes of their own each."""


def find_atoms(present: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Values that are modes of their own, ascending, and all rows that hold none of them.

    What is left beside the frequent values is made of atoms too where it is of few values: a scale from 1 to 5, or the
    one value that only a few rows of a million hold.

    Args:
        present: *Sensitive*. None of them missing, shape (n,).
        rng: source of the draws that are looked at instead of all values.
    """
    drawn = draw(present, rng)
    distinct, counts = np.unique(drawn, return_counts=True)
    frequent = distinct[counts >= ATOM_SHARE * len(drawn)]
    rest = _without(present, frequent)
    seen = np.unique(draw(rest, rng))
    if len(seen) > FEW_VALUES:
        return frequent, rest
    rest = _without(rest, seen)
    unseen = np.unique(draw(rest, rng))
    atoms = np.union1d(frequent, seen)
    if len(unseen) > FEW_VALUES:
        return atoms, rest
    return np.union1d(atoms, unseen), _without(rest, unseen)


def draw(values: Array, rng: np.random.Generator) -> Array:
    """Some of the values, without repetition; all of them where there are no more.

    Args:
        values: *Sensitive*. Shape (n,).
        rng: source of the draw.
    """
    return rng.choice(values, N_DRAWN, replace=False) if len(values) > N_DRAWN else values


def _without(values: Array, taken: Array) -> Array:
    return values[~np.isin(values, taken)]
