"""Associations against SciPy and against sums written out."""

import numpy as np
import pytest
from scipy import stats

from evaluate.fidelity.associations import correlation_ratio, cramers_v, moments, pair_moments, pearson, standardized
from evaluate.fidelity.encoded import replicated
from evaluate.intervals import N_GROUPS, replicate_groups

RNG = np.random.default_rng(11)
GROUPS = RNG.permutation(400) % N_GROUPS
KEPT = replicate_groups(N_GROUPS)[:, GROUPS].astype(bool)


def _numbers() -> np.ndarray:
    x = RNG.normal(size=(400, 3)) * [1.0, 1e6, 1e-6] + [0.0, 1e9, 5.0]
    x[:, 1] += x[:, 0] * 1e6
    x[RNG.random((400, 3)) < 0.2] = np.nan
    return x


def test_pearson_agrees_with_scipy_on_the_rows_where_both_are_present_in_every_replicate() -> None:
    x = _numbers()
    result = pearson(pair_moments(standardized(x), GROUPS, N_GROUPS))
    for replicate, kept in enumerate(KEPT):
        for a, b in ((0, 1), (0, 2), (1, 2)):
            both = kept & ~np.isnan(x[:, a]) & ~np.isnan(x[:, b])
            expected = stats.pearsonr(x[both, a], x[both, b]).statistic
            assert result[replicate, a, b] == pytest.approx(expected, abs=1e-9)
            assert result[replicate, b, a] == pytest.approx(expected, abs=1e-9)


def test_cramers_v_agrees_with_its_definition_on_scipys_chi_square() -> None:
    a, b = RNG.integers(0, 4, 400), RNG.integers(0, 6, 400)
    b = np.where(RNG.random(400) < 0.4, a, b)
    cells = np.bincount(GROUPS * 24 + a * 6 + b, minlength=N_GROUPS * 24)
    table = replicated(cells.reshape(N_GROUPS, 24)).reshape(-1, 4, 6)
    for replicate, kept in enumerate(KEPT):
        plain = np.zeros((4, 6))
        np.add.at(plain, (a[kept], b[kept]), 1)
        n = plain.sum()
        phi = max(stats.chi2_contingency(plain, correction=False).statistic / n - 3 * 5 / (n - 1), 0)
        expected = np.sqrt(phi / min(4 - 9 / (n - 1) - 1, 6 - 25 / (n - 1) - 1))
        assert cramers_v(table)[replicate] == pytest.approx(expected, abs=1e-9)


def test_the_correlation_ratio_agrees_with_sums_of_squares() -> None:
    codes = RNG.integers(0, 5, 400)
    number = codes * 0.7 + RNG.normal(size=400)
    number[RNG.random(400) < 0.1] = np.nan
    result = correlation_ratio(*moments(codes, 5, standardized(number[:, None]), GROUPS, N_GROUPS)[0])
    for replicate, kept in enumerate(KEPT):
        rows = kept & ~np.isnan(number)
        y, c = number[rows], codes[rows]
        within = sum(((y[c == k] - y[c == k].mean()) ** 2).sum() for k in np.unique(c))
        total = ((y - y.mean()) ** 2).sum()
        adjusted = 1 - within / total * (len(y) - 1) / (len(y) - len(np.unique(c)))
        assert result[replicate] == pytest.approx(np.sqrt(max(adjusted, 0)), abs=1e-9)
