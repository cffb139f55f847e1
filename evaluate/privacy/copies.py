"""Synthetic rows that stand in the training table, beside how many of a fresh real sample's rows do.

Equal means equal in every learned column, to the last digit, missing equal to missing. In a table whose rows repeat,
honest rows coincide too: only the excess over fresh rows speaks of copying, and where every row repeats, only
`evaluate.privacy.multiset` does.
"""

import numpy as np

from evaluate.intervals import clustered
from evaluate.privacy.copy_shares import MEASURES, shares
from evaluate.privacy.multiset import measure_multiset
from evaluate.result import Estimate
from evaluate.sampling import entity_codes, learned_keys
from evaluate.tables import Measurement, Tables


def measure(tables: Tables) -> Measurement:
    """Shares of copied rows, their excess over fresh rows, and how far the row counts keep from the training table's.

    Estimates: `privacy.copies`, `privacy.copies.excess`, `privacy.copies.unique` (rows that occur once in the training
    table: the ones that single somebody out), `privacy.copies.unique.excess`, `privacy.multiset`.

    Of tables that stay where they are stored, all rows are compared there.
    """
    if tables.stored is not None:
        from evaluate.privacy import stored_copies

        return stored_copies.measure(tables, tables.stored)
    distinct, counts = np.unique(learned_keys(tables.train, tables.schema), return_counts=True)
    frames, n = (tables.synthetic, tables.fresh), len(tables.synthetic)
    keys = [learned_keys(frame, tables.schema) for frame in frames]
    units = [entity_codes(frame, tables.schema) for frame in frames]
    estimates: list[Estimate] = []
    for name, targets in zip(MEASURES, (distinct, distinct[counts == 1]), strict=True):
        synthetic, fresh = (clustered(np.isin(k, targets), u) for k, u in zip(keys, units, strict=True))
        estimates += shares(name, synthetic, fresh, n)
    multiset = measure_multiset(tables)
    return Measurement((*estimates, *multiset.estimates), multiset.failures)
