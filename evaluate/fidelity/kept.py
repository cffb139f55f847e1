"""How much of the associations between columns is kept: the slope of a table's associations on the training table's."""

from dataclasses import replace

import numpy as np

from evaluate.fidelity.estimates import described
from evaluate.fidelity.samples import FRESH, SHUFFLED
from evaluate.intervals import HALVES, half_samples
from evaluate.result import Estimate, Failure

NAME = "pairs.association.kept"


def association_kept(found: np.ndarray, n: int) -> Estimate | Failure:
    """The sum of a_train * a_synthetic over the sum of a_train^2, over all pairs with an association a in train.

    Strong associations count most, and those that only noise shows hardly, so that it tells shuffled columns from real
    ones in tables too small for total variation. It sees what is lost, not what is made up: for that there is
    `pairs.association.mean`. Its interval is a jackknife's: it is a ratio, not a sum of absolute differences, and below
    500 rows half-samples cover too little.

    Args:
        found: *Sensitive*. Associations of training, synthetic, fresh and shuffled rows, NaN where undefined, which
            counts as none where train's is defined; shape (4, n_replicates, d, d).
        n: rows of the synthetic sample.
    """
    chosen = found[:, :, *np.triu_indices(found.shape[-1], k=1)]
    train, *others = np.nan_to_num(chosen[:, :, ~np.isnan(chosen[0, 0])], nan=0.0)
    strength = (train**2).sum(axis=1)
    if strength[0] <= 0.0:
        return Failure(NAME, "skipped", "no two columns of the training table hang together")
    if len(strength) == 1:
        return Failure(NAME, "skipped", "there are too few rows for an interval")
    slopes = _slopes(np.array([(train * other).sum(axis=1) for other in others]), strength)
    room = slopes[FRESH] - slopes[SHUFFLED]
    if half_samples(room[0], room[HALVES])[0] <= 0.0:
        return Failure(NAME, "skipped", "the columns of the training table are nearly independent")
    note = "1 keeps all associations of the training table, 0 none; noise there keeps a fresh real sample below 1."
    return replace(described(NAME, slopes, n, bounds=(-np.inf, np.inf), note=note), direction="higher")


def _slopes(products: np.ndarray, strength: np.ndarray) -> np.ndarray:
    """The ratio to first order around all rows, as half-samples add noise to the sum of squares."""
    slope = products[:, :1] / strength[0]
    return np.asarray(slope + (products - slope * strength) / strength[0])
