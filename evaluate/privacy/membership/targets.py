"""Targets of membership attacks and their nearest rows, searched once for all attacks.

Members are a seeded sample of the training rows, non-members of the control rows. Where rows have an entity, a target
is an entity with all its rows. Its score is that of the row that the attack is surest of: one row that was copied
gives the whole entity away. Targets are independent, so that intervals are right. Of an entity with many rows
`ROWS_EACH` are looked at, and on neither side more than any entity of the other has. A table that was cut to a few rows
of each is thus not told by that. Twins in training and control rows make both look alike.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from evaluate.neighbors import Neighbors, Rows, kept_search, search, space_of
from evaluate.privacy.exact import exact_of
from evaluate.sampling import drawn_order, entity_codes, learned_keys
from evaluate.tables import Tables
from synth.schema import Schema

N_SYNTHETIC, N_FRESH = 16, 8
"""Neighbors of a target that are looked for among the synthetic rows and in the attacker's own sample."""
MANY_PAIRS = 6e9
"""Of targets and synthetic rows: beyond so many, fewer targets are attacked."""
LEAST_TARGETS = 2_000
ROWS_EACH = 4
"""Rows of one entity that are looked at, at most."""
MOST_ROWS = 2
"""Rows of all targets at most, as a multiple of how many targets are attacked."""


@dataclass(frozen=True)
class Targets:
    """Rows of the targets of one side, and what lies around them. *Sensitive*.

    Attributes:
        positions: in the table, shape (n,), in seeded random order of the targets, rows of one target side by side.
        rows: in the space.
        exact: codes that are equal for equal values, shape (d, n), as `evaluate.privacy.exact` gives them.
        synthetic: their nearest synthetic rows.
        fresh: their nearest rows of the attacker's own sample.
        first: where the rows of each target begin, ascending, shape (n_targets,).
    """

    positions: np.ndarray
    rows: Rows
    exact: np.ndarray
    synthetic: Neighbors
    fresh: Neighbors
    first: np.ndarray

    def __len__(self) -> int:
        return len(self.first)

    def surest(self, scores: np.ndarray) -> np.ndarray:
        """Of each target the highest score of its rows; shape (n_targets,).

        Args:
            scores: of all rows, shape (n,).
        """
        return np.maximum.reduceat(scores, self.first) if len(self.first) else scores

    def joined(self, other: "Targets") -> "Targets":
        """These targets and then the other ones; positions are then those of two tables."""
        synthetic, fresh = self.synthetic.joined(other.synthetic), self.fresh.joined(other.fresh)
        exact, first = np.hstack([self.exact, other.exact]), np.r_[self.first, other.first + len(self.positions)]
        return Targets(
            np.r_[self.positions, other.positions], self.rows.joined(other.rows), exact, synthetic, fresh, first
        )  # fmt: skip


def targets_of(tables: Tables) -> tuple[Targets, Targets]:
    """Members and controls, with their neighbors.

    Args:
        tables: *Sensitive*. As `Tables.prepare` gives them.
    """
    if "targets" not in tables.kept:
        space, exact = space_of(tables), exact_of(tables)
        each = min(ROWS_EACH, *(_most_rows(frame, tables.schema) for frame in (tables.train, tables.control)))
        tables.kept["targets"] = (
            _side("train", tables.train, space.train, exact.train, each, tables),
            _side("control", tables.control, space.control, exact.control, each, tables),
        )
    found: tuple[Targets, Targets] = tables.kept["targets"]
    return found


def n_targets_of(tables: Tables) -> int:
    """How many targets of a side are attacked at most: all that were asked for, fewer beside millions of rows."""
    if tables.n_targets is None:
        return max(len(tables.train), len(tables.control))
    return affordable_targets(tables.n_targets, len(tables.synthetic))


def affordable_targets(n_targets: int, n_synthetic: int) -> int:
    """Targets of a side that are attacked beside so many synthetic rows, of those that were asked for.

    >>> affordable_targets(8_000, 50_000), affordable_targets(8_000, 500_000), affordable_targets(8_000, 10**7)
    (8000, 6000, 2000)
    """
    return min(n_targets, max(int(MANY_PAIRS / (2 * n_synthetic)), LEAST_TARGETS))


def _side(name: str, frame: pd.DataFrame, rows: Rows, exact: np.ndarray, each: int, tables: Tables) -> Targets:
    space, n = space_of(tables), n_targets_of(tables)
    order = drawn_order(learned_keys(frame, tables.schema), tables.seed)
    positions, first = _of_entities(order, frame, tables.schema, n, each)
    chosen = rows.take(positions)
    k_synthetic, k_fresh = min(N_SYNTHETIC, len(space.synthetic)), min(N_FRESH, len(space.fresh))
    synthetic = search(chosen, space.synthetic, k_synthetic)
    fresh = kept_search(tables, (name, "fresh", n), lambda: search(chosen, space.fresh, k_fresh))
    return Targets(positions, chosen, exact[:, positions], synthetic, fresh, first)


def _of_entities(
    order: np.ndarray, frame: pd.DataFrame, schema: Schema, n: int, each: int
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Rows of the first targets of an order, side by side, and where those of each begin.

    Args:
        order: positions of all rows.
        frame: *Sensitive*. The table.
        schema: names the entity.
        n: targets at most.
        each: rows of one target at most.
    """
    if schema.entity is None:
        return order[:n], np.arange(min(n, len(order)))
    targets = pd.factorize(entity_codes(frame, schema)[order])[0]  # numbered as they come
    rows = np.argsort(targets, kind="stable")
    starts = np.searchsorted(targets[rows], np.arange(targets.max(initial=-1) + 1))
    sizes = np.minimum(np.diff(np.r_[starts, len(rows)]), each)
    sizes = sizes[: max(1, min(n, int(np.searchsorted(np.cumsum(sizes), MOST_ROWS * n, "right"))))]
    first = np.cumsum(sizes) - sizes
    of_target = np.arange(sizes.sum()) - np.repeat(first, sizes)
    return order[rows[np.repeat(starts[: len(sizes)], sizes) + of_target]], first


def _most_rows(frame: pd.DataFrame, schema: Schema) -> int:
    """The most rows that one entity has; 1 where rows have none."""
    return 1 if schema.entity is None else int(np.bincount(entity_codes(frame, schema)).max(initial=1))
