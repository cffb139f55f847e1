"""What the report draws of a column: its bins or categories, with the shares of training and synthetic rows."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from evaluate.fidelity import contingency
from evaluate.figures import LARGEST
from synth.columns import DateColumn, DatetimeColumn
from synth.domain import Attribute

MAX_LABELS = 60
"""Categories that the figure of a column shows at most; the rarest are shown as one."""


def figure_of(attribute: Attribute, counts: Sequence[np.ndarray], tvd: float) -> dict[str, Any]:
    """One column as plain data.

    Args:
        attribute: how it was made codes.
        counts: *Sensitive*. Of codes, for training and synthetic rows; each of shape (n_replicates, size).
        tvd: total variation between the two.
    """
    train, synthetic = (contingency.shares(table)[0] for table in counts)
    labels = attribute.labels()
    figure: dict[str, Any] = {"column": attribute.name, "kind": attribute.column.kind, "labels": labels}
    figure |= {"edges": _edges(attribute), "train": train.tolist(), "synthetic": synthetic.tolist()}
    if attribute.edges is None and attribute.size > MAX_LABELS:
        figure |= _shortened(labels, train, synthetic)
    return {**figure, "tvd": tvd}


def _shortened(labels: list[str], train: np.ndarray, synthetic: np.ndarray) -> dict[str, Any]:
    """Labels and shares with the categories that are rarest in the training table as one."""
    new = contingency.merged_codes(train, MAX_LABELS)
    shown = [labels[int(np.flatnonzero(new == code)[0])] for code in range(MAX_LABELS)]
    shown[-3] = f"{len(labels) - MAX_LABELS + 1} rarer ones"
    merged = (np.bincount(new, weights=shares, minlength=MAX_LABELS).tolist() for shares in (train, synthetic))
    return dict(zip(("labels", "train", "synthetic"), (shown, *merged), strict=True))


def _edges(attribute: Attribute) -> list[float] | list[str] | None:
    """Edges of the bins: numbers, or dates and times as ISO texts."""
    if attribute.edges is None:
        return None
    if isinstance(attribute.column, DateColumn | DatetimeColumn):
        unit = "D" if isinstance(attribute.column, DateColumn) else "us"
        stamps = np.ceil(attribute.edges).astype(np.int64).astype(f"datetime64[{unit}]")
        return [str(stamp) for stamp in stamps]
    return [float(edge) for edge in np.clip(attribute.edges, -LARGEST, LARGEST)]
