"""Whom membership attacks are about, and the nearest rows around them: found once, shared by all attacks.

Members are a seeded sample of the training rows, non-members of the control rows, one row of each entity, so that
targets are independent and intervals are right. Twins in training and control rows make both look alike.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from evaluate.neighbors import Neighbors, Rows, kept_search, search, space_of
from evaluate.sampling import drawn_order, learned_keys, one_per_entity
from evaluate.tables import Tables

N_SYNTHETIC, N_FRESH = 16, 8
"""Neighbors of a target that are looked for among the synthetic rows and in the attacker's own sample."""
MANY_PAIRS = 6e9
"""Of targets and synthetic rows: beyond so many, fewer targets are attacked."""
LEAST_TARGETS = 2_000


@dataclass(frozen=True)
class Targets:
    """Targets of one side, and what lies around them. *Sensitive*.

    Attributes:
        positions: in the table, shape (n,), in seeded random order.
        rows: in the space.
        synthetic: their nearest synthetic rows.
        fresh: their nearest rows of the attacker's own sample.
    """

    positions: np.ndarray
    rows: Rows
    synthetic: Neighbors
    fresh: Neighbors

    def __len__(self) -> int:
        return len(self.positions)

    def joined(self, other: "Targets") -> "Targets":
        """These targets and then the other ones; positions are then those of two tables."""
        synthetic, fresh = self.synthetic.joined(other.synthetic), self.fresh.joined(other.fresh)
        return Targets(np.r_[self.positions, other.positions], self.rows.joined(other.rows), synthetic, fresh)


def targets_of(tables: Tables) -> tuple[Targets, Targets]:
    """Members and controls, with their neighbors.

    Args:
        tables: *Sensitive*. As `Tables.prepare` gives them.
    """
    if "targets" not in tables.kept:
        space = space_of(tables)
        members = _side("train", tables.train, space.train, tables)
        tables.kept["targets"] = members, _side("control", tables.control, space.control, tables)
    found: tuple[Targets, Targets] = tables.kept["targets"]
    return found


def n_targets_of(tables: Tables) -> int:
    """How many targets of a side are attacked at most: all that were asked for, fewer beside millions of rows."""
    if tables.n_targets is None:
        return max(len(tables.train), len(tables.control))
    affordable = int(MANY_PAIRS / (2 * len(tables.synthetic)))
    return min(tables.n_targets, max(affordable, LEAST_TARGETS))


def _side(name: str, frame: pd.DataFrame, rows: Rows, tables: Tables) -> Targets:
    space, n = space_of(tables), n_targets_of(tables)
    order = drawn_order(learned_keys(frame, tables.schema), tables.seed)
    positions = one_per_entity(order, frame, tables.schema)[:n]
    chosen = rows.take(positions)
    k_synthetic, k_fresh = min(N_SYNTHETIC, len(space.synthetic)), min(N_FRESH, len(space.fresh))
    synthetic = search(chosen, space.synthetic, k_synthetic)
    fresh = kept_search(tables, (name, "fresh", n), lambda: search(chosen, space.fresh, k_fresh))
    return Targets(positions, chosen, synthetic, fresh)
