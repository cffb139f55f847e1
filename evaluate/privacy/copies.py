"""Synthetic rows that stand in the training table, beside how many of a fresh real sample's rows do.

Equal means equal in every learned column, to the last digit, missing equal to missing. In a table whose rows repeat,
honest rows coincide too: only the excess over fresh rows speaks of copying, and where every row repeats, only
`evaluate.privacy.multiset` does.
"""

import numpy as np

from evaluate.intervals import clustered, newcombe
from evaluate.privacy.multiset import measure_multiset
from evaluate.result import Estimate
from evaluate.sampling import entity_codes, learned_keys
from evaluate.tables import Measurement, Tables


def measure(tables: Tables) -> Measurement:
    """Shares of copied rows, their excess over fresh rows, and how far the row counts keep from the training table's.

    Estimates: `privacy.copies`, `privacy.copies.excess`, `privacy.copies.unique` (rows that occur once in the training
    table: the ones that single somebody out), `privacy.copies.unique.excess`, `privacy.multiset`.
    """
    train = learned_keys(tables.train, tables.schema)
    distinct, counts = np.unique(train, return_counts=True)
    estimates: list[Estimate] = []
    for measure_name, targets in (("privacy.copies", distinct), ("privacy.copies.unique", distinct[counts == 1])):
        estimates += _shares(measure_name, targets, tables)
    multiset = measure_multiset(tables)
    return Measurement((*estimates, *multiset.estimates), multiset.failures)


def _shares(name: str, targets: np.ndarray, tables: Tables) -> list[Estimate]:
    """The share of synthetic rows among some training rows, and its excess over the same share of fresh rows."""
    rows = [np.isin(learned_keys(frame, tables.schema), targets) for frame in (tables.synthetic, tables.fresh)]
    frames = (tables.synthetic, tables.fresh)
    synthetic, fresh = (clustered(r, entity_codes(f, tables.schema)) for r, f in zip(rows, frames, strict=True))
    n = len(tables.synthetic)
    excess = newcombe(synthetic, fresh)
    among = "a training row that occurs once" if name.endswith("unique") else "a training row"
    return [
        Estimate(
            name, synthetic[0], n, "lower", low=synthetic[1], high=synthetic[2], reference=fresh[0],
            note=f"share of synthetic rows equal to {among} in every learned column",
        ),
        Estimate(
            f"{name}.excess", excess[0], n, "lower", low=excess[1], high=excess[2], reference=0.0,
            note=f"share of synthetic rows equal to {among}, less the same share of fresh real rows",
        ),
    ]  # fmt: skip
