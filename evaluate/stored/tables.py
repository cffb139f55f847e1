"""Real and synthetic tables where they are stored: what is known of all their rows, and what samples were drawn.

Everything that needs rows works on seeded samples, whole entities, that are drawn there and fetched. Of the synthetic
table more is fetched than of the real ones: an attack finds a leak only in what it searches.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evaluate.sides import Side
from evaluate.stored.draws import Drawer
from evaluate.stored.sides import StoredSides
from synth.stored import StoredTable
from synth.stored.drawing import DrawnRows


@dataclass(frozen=True, eq=False)
class StoredReal:
    """The real table of an evaluation where it is stored.

    Attributes:
        sides: *Sensitive*. Train and holdout.
        sample_rows: rows of either side that are drawn at most.
        n_rows: rows of "train" and "holdout".
        n_sampled: rows of their samples.
        twins: *Sensitive*. Of all rows, counts of those of train that stand there once, and of those of the holdout
            that stand in train, at all or once.
        fresh_in_train: *Sensitive*. How many rows of all of train equal each row of `Real.fresh`; shape (n_fresh,).
        sampled_holdout: *Sensitive*. The rows of the holdout that were drawn, where they are.
        control_positions: *Sensitive*. The position among these of each row of `Real.control`; shape (n_control,).
    """

    sides: StoredSides
    sample_rows: int
    n_rows: Mapping[Side, int]
    n_sampled: Mapping[Side, int]
    twins: Mapping[str, int] = field(repr=False)
    fresh_in_train: np.ndarray = field(repr=False)
    sampled_holdout: DrawnRows = field(repr=False)
    control_positions: np.ndarray = field(repr=False)

    @property
    def facts(self) -> dict[str, Any]:
        """Rows of either side and equal ones among them, all counted there; and rows of samples that are not all."""
        n_train, n_holdout, across = self.n_rows["train"], self.n_rows["holdout"], self.twins["holdout_in_train"]
        counted = {
            "train_rows": n_train,
            "holdout_rows": n_holdout,
            "duplicates_across": {"count": across, "share": across / n_holdout},
            "duplicate_share_train": 1.0 - self.twins["train_alone"] / n_train,
        }
        cut = {f"{side}_rows": n for side, n in self.n_sampled.items() if n < self.n_rows[side]}
        return {**counted, "sampled": cut} if cut else counted


@dataclass(frozen=True, eq=False)
class StoredTables:
    """The tables of an evaluation where they are stored.

    Attributes:
        real: *Sensitive*. The real sides.
        offered: the synthetic table.
        n_offered: its rows.
        n_sampled: rows of the sample that attacks search.
        drawer: what draws its rows.
    """

    real: StoredReal
    offered: StoredTable
    n_offered: int
    n_sampled: int
    drawer: Drawer = field(repr=False)

    @property
    def train(self) -> StoredTable:
        """*Sensitive*. The rows the generator saw."""
        return self.real.sides.train

    @property
    def holdout(self) -> StoredTable:
        """*Sensitive*. Rows it did not see."""
        return self.real.sides.holdout

    def drawn(self, side: Side, limit: int | None) -> DrawnRows:
        """The first rows of one table in its seeded order: what `Tables.order` of all rows gives; drawn once.

        Args:
            side: "train", "synthetic" or "holdout".
            limit: so many rows at most; none: all.
        """
        drawer = self.drawer if side == "synthetic" else self.real.sides.drawer(side)
        return drawer.first(limit)

    @property
    def searched(self) -> float:
        """The share of the synthetic table that attacks search."""
        return self.n_sampled / self.n_offered
