"""Evidence that is the same in every row, for tests of autoregressive models."""

from collections.abc import Mapping

import numpy as np

from synth.domain.discretizer import CodedRows, Discretizer, Evidence


def constant(
    discretizer: Discretizer, n: int, codes: Mapping[int, int], ranks: Mapping[int, float] | None = None
) -> Evidence:
    """So many rows that know codes, and ranks within them, by place; of a refined column the middle unless told."""
    rows = np.zeros((n, len(discretizer.attributes)), dtype=np.int32, order="F")
    for position, code in codes.items():
        rows[:, position] = code
    known = {position: 0.5 for position in codes if discretizer.attributes[position].is_refined} | dict(ranks or {})
    coded = CodedRows(rows, {position: np.full(n, rank) for position, rank in known.items()}, np.zeros(n))
    return Evidence(coded, frozenset(codes))
