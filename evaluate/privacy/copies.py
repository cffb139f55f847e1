"""Synthetic rows that stand in the training table, beside how many of a fresh real sample's rows do.

Equal means equal in every learned column, to the last digit, missing equal to missing. In a table whose rows repeat,
honest rows coincide too: only what held-out people do not share speaks of copying (`evaluate.privacy.coincidence`), and
where every row repeats, only `evaluate.privacy.multiset` does.
"""

import numpy as np

from evaluate.intervals import clustered
from evaluate.privacy.coincidence import Alone
from evaluate.privacy.copy_shares import MEASURES, people, shares
from evaluate.privacy.multiset import measure_multiset
from evaluate.result import Estimate
from evaluate.sampling import entity_codes, learned_keys
from evaluate.tables import Measurement, Tables


def measure(tables: Tables) -> Measurement:
    """People and rows that are copied, beyond chance, and how far the row counts keep from the training table's.

    Estimates: `privacy.copies.people`, `privacy.copies`, `privacy.copies.excess`, `privacy.copies.unique` (rows that
    occur once in the training table: the ones that single somebody out), `privacy.copies.unique.excess`,
    `privacy.multiset`.

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
    multiset, people = measure_multiset(tables), _people(tables, keys[0])
    return Measurement((people, *estimates, *multiset.estimates), multiset.failures)


def _people(tables: Tables, synthetic: np.ndarray) -> Estimate:
    """People of train who are copied beyond coincidence, by rows that nobody else has."""
    content = np.concatenate([learned_keys(frame, tables.schema) for frame in (tables.train, tables.holdout)])
    train, holdout = (entity_codes(frame, tables.schema) for frame in (tables.train, tables.holdout))
    n_people = int(train.max(initial=-1)) + 1
    units = np.concatenate([train, holdout + n_people])
    order = np.argsort(units, kind="stable")
    alone = Alone.of(content[order], units[order], order < len(train))
    return people(alone.coincidences(alone.hit_by(synthetic), len(synthetic)), n_people)
