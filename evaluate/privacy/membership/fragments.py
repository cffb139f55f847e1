"""The membership attack by fragments: does one synthetic row hold several values of a target, whatever the rest of it?

The attacker is that of `evaluate.privacy.membership`. Where a generator repeats a few cells of a record and draws the
others anew, the synthetic row lies far from the record, so that attacks on the nearest rows look at the wrong ones.
This one looks a target up by each of its telling values instead, and wins where a row that shares one shares others.
"""

import numpy as np

from evaluate.neighbors import Rows, share_of, space_of
from evaluate.privacy.membership.targets import Targets
from evaluate.sampling import drawn_order, learned_keys
from evaluate.tables import Tables

MAX_KEYS = 12
"""Columns that rows are looked up by at most: those of most different values, which tell rows apart best."""
N_EACH = 2
"""Rows that are looked up by one value at most."""
OWN = 0.5
"""How much of what the attacker's own rows share with a target counts against it: all of it would, where few values
coincide, add more noise than it takes away."""


def fragments(targets: Targets, tables: Tables) -> np.ndarray:
    """How telling the values are that one synthetic row shares with a target, beside one of the attacker's own rows."""
    space = space_of(tables)
    # In a seeded random order: of many rows that share a value, chance says which are looked at.
    synthetic = space.synthetic.take(tables.order("synthetic"))
    fresh = space.fresh.take(drawn_order(learned_keys(tables.fresh, tables.schema), tables.seed))
    keys = _keys(fresh)
    shared, own = (_most_shared(targets.rows, pool, fresh, keys) for pool in (synthetic, fresh))
    return np.asarray(shared - OWN * own)


def _keys(known: Rows) -> list[str]:
    return sorted(known.columns, key=lambda name: (-len(np.unique(known.columns[name])), name))[:MAX_KEYS]


def _most_shared(targets: Rows, pool: Rows, known: Rows, keys: list[str]) -> np.ndarray:
    """The most that a row of the pool shares with each target, in nats; shape (len(targets),).

    A value that is shared counts by how few of the known rows have it, and one that is not shared counts nothing.

    Args:
        targets: shape (n,) rows.
        pool: rows.
        known: rows that frequencies are taken from.
        keys: columns to look rows of the pool up by.
    """
    found = np.hstack([_looked_up(targets.columns[name], pool.columns[name]) for name in keys])
    total = np.zeros(found.shape)
    for name, values in sorted(targets.columns.items()):
        telling = -np.log(share_of(values, known.columns[name]))
        total += np.where(values[:, None] == pool.columns[name][found], telling[:, None], 0.0)
    return np.asarray(total.max(axis=1))


def _looked_up(values: np.ndarray, pool: np.ndarray) -> np.ndarray:
    """Positions of a few rows of the pool that hold each value, or else of one close by; shape (n, N_EACH)."""
    order = np.argsort(pool, kind="stable")
    ranked = pool[order]
    first, after = (np.searchsorted(ranked, values, side)[:, None] for side in ("left", "right"))
    places = np.minimum(first + np.arange(N_EACH), np.maximum(after - 1, first))
    return np.asarray(order[np.minimum(places, len(pool) - 1)])
