"""Evidence for a rule: the signs that tell it from chance."""

import numpy as np
import pandas as pd

ENOUGH = 30.0  # rows (or pairs of rows) that would break a rule by chance where a table that keeps it says something


def percent(share: float) -> str:
    """A share in words, to the percent.

    >>> percent(0.342), percent(0.0004)
    ('34%', 'less than 1%')
    """
    return f"{share:.0%}" if share >= 0.005 else "less than 1%"


def coded(series: pd.Series) -> tuple[np.ndarray, pd.Index]:
    """The number of each row's value among the distinct ones in order, -1 where missing, and these values.
    `series`: *Sensitive*. A canonical column, shape (n,).
    """
    codes, values = pd.factorize(series, sort=True)
    return codes, pd.Index(values)


def twins(codes: np.ndarray) -> float:
    """The chance that two different rows hold one value.
    `codes`: *Sensitive*. The value of each row as a code from 0, shape (n,), at least two rows.

    >>> twins(np.array([0, 0, 1, 1])), twins(np.arange(9))
    (0.3333333333333333, 0.0)
    """
    counts = np.bincount(codes).astype(np.float64)
    n = len(codes)
    return float((counts * (counts - 1)).sum() / (n * (n - 1)))
