"""A table as a network is trained on it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from synth.dp.events import SubsampledGaussianEvent
from synth.marginals import Measurement
from synth.marginals.measurement import estimate_total
from synth.transforms.layout import Encoded, Layout


@dataclass(frozen=True)
class Rows:
    """A table as a network is trained on it.

    Attributes:
        encoded: *Sensitive*. The rows.
        layout: of a row.
    """

    encoded: Encoded
    layout: Layout


@dataclass(frozen=True)
class PrivateRows(Rows):
    """A table as a network is trained on it with a guarantee.

    Attributes:
        encoded: *Sensitive*. The rows.
        layout: of a row.
        entities: *Sensitive*. Whose each row is, shape (n,); none where the unit is a row.
        max_rows_per_unit: k.
        one_way: released counts of the codes of each span.
        n_units: released, about.
        event: the steps that are paid for.
    """

    entities: np.ndarray | None
    max_rows_per_unit: int
    one_way: Sequence[np.ndarray]
    n_units: float
    event: SubsampledGaussianEvent

    @property
    def expected_batch(self) -> float:
        """Units of a sample, about."""
        return self.event.sampling_rate * self.n_units


def units_of(one_way: Sequence[Measurement], shares: Sequence[float] | None) -> float:
    """About how many units there are, from what was released: rows by the histograms, over rows per unit."""
    rows_per_unit = 1.0 if shares is None else sum(size * share for size, share in enumerate(shares, start=1))
    return max(estimate_total(one_way) / rows_per_unit, 1.0)
