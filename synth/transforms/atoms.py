"""The atoms of a column of numbers: declared spikes, values that many rows hold, or that few others stand beside."""

import numpy as np

from synth.transforms.columns import Array, Values

ATOM_SHARE = 0.05
"""Share of the values from which on one of them is a mode of its own."""
FEW_VALUES = 24
"""So many distinct values, besides the frequent ones, are modes of their own each."""
MOST_VALUES, ROWS_A_VALUE = 128, 10
"""So many are it, too, where the column has as many times more values: they are codes, or a scale."""


def find_atoms(present: Values, spikes: Array, rng: np.random.Generator) -> tuple[Array, Values]:
    """Values that are modes of their own, ascending, and all rows that hold none of them.

    What is left beside the frequent values is made of atoms too where it is of few values: a scale from 1 to 5, or the
    one value that only a few rows of a million hold.

    Args:
        present: *Sensitive*. The column's values.
        spikes: declared, ascending; those that no row holds are no atoms.
        rng: source of the draws that are looked at instead of all values.
    """
    drawn = present.draw(rng)
    distinct, counts = np.unique(drawn, return_counts=True)
    frequent = np.union1d(distinct[counts >= ATOM_SHARE * len(drawn)], spikes[present.counts(spikes) > 0])
    rest = present.without(frequent)
    seen = np.unique(rest.draw(rng))
    if len(seen) > max(FEW_VALUES, min(MOST_VALUES, len(drawn) // ROWS_A_VALUE)):
        return frequent, rest
    rest = rest.without(seen)
    unseen = np.unique(rest.draw(rng))
    atoms = np.union1d(frequent, seen)
    if len(unseen) > FEW_VALUES:
        return atoms, rest
    return np.union1d(atoms, unseen), rest.without(unseen)
