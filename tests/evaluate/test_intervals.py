import numpy as np
import pytest
from scipy import stats

from evaluate.intervals import (
    HALVES,
    N_GROUPS,
    WITHOUT,
    clopper_pearson,
    half_samples,
    jackknife,
    newcombe,
    replicate_groups,
    wilson,
)


def _replicated_mean(rows: np.ndarray) -> np.ndarray:
    """Brute force: the mean of the rows that stand in each replicate."""
    groups = np.arange(len(rows)) % N_GROUPS
    return np.array([rows[kept[groups] > 0].mean() for kept in replicate_groups(N_GROUPS)])


@pytest.mark.parametrize("n_rows", [16, 64, 1600])
def test_both_replications_give_the_textbook_interval_of_a_mean(n_rows: int) -> None:
    rows = np.random.default_rng(n_rows).normal(size=n_rows)
    replicates = _replicated_mean(rows)
    group_means = rows.reshape(-1, N_GROUPS).mean(axis=0)
    expected = stats.t.interval(0.95, N_GROUPS - 1, rows.mean(), stats.sem(group_means))
    assert jackknife(replicates[0], replicates[WITHOUT]) == pytest.approx(expected)
    assert half_samples(replicates[0], replicates[HALVES]) == pytest.approx(expected)


def test_half_samples_share_half_of_their_groups_and_complements_share_none() -> None:
    samples, complements = replicate_groups(N_GROUPS)[HALVES].reshape(2, -1, N_GROUPS)
    overlap = samples @ samples.T
    assert np.array_equal(overlap, np.where(np.eye(N_GROUPS - 1, dtype=bool), N_GROUPS / 2, N_GROUPS / 4))
    assert np.array_equal(samples + complements, np.ones_like(samples))


def test_half_samples_know_the_spread_of_a_distance_near_zero_where_the_jackknife_is_too_wide() -> None:
    rng = np.random.default_rng(3)
    groups = np.arange(320) % N_GROUPS
    kept = replicate_groups(N_GROUPS)[:, groups].astype(bool)
    values, halves, without = [], [], []
    for _ in range(200):
        rows = rng.normal(size=(320, 60))
        distances = np.array([np.abs(rows[rows_kept].mean(axis=0)).sum() for rows_kept in kept])
        values.append(distances[0])
        halves.append(np.diff(half_samples(distances[0], distances[HALVES]))[0])
        without.append(np.diff(jackknife(distances[0], distances[WITHOUT]))[0])
    width = 2 * stats.t.ppf(0.975, N_GROUPS - 1) * np.std(values)
    assert np.mean(halves) == pytest.approx(width, rel=0.15)
    assert np.mean(without) > 1.4 * width


@pytest.mark.parametrize(("k", "n"), [(0, 7), (3, 7), (7, 7), (40, 1000)])
def test_clopper_pearson_agrees_with_scipy(k: int, n: int) -> None:
    expected = stats.binomtest(k, n).proportion_ci(0.95, method="exact")
    assert clopper_pearson(k, n) == pytest.approx((expected.low, expected.high))


@pytest.mark.parametrize(
    ("counts", "expected"),
    [((56, 70, 48, 80), (0.0524, 0.3339)), ((9, 10, 3, 10), (0.1705, 0.8090)), ((10, 10, 0, 10), (0.6075, 1.0))],
)
def test_newcombe_gives_the_intervals_of_his_paper(counts: tuple[int, int, int, int], expected: object) -> None:
    k, n, l, m = counts  # noqa: E741 (k of n against l of m)
    result = newcombe(wilson(k / n, n), wilson(l / m, m))
    assert result[0] == pytest.approx(k / n - l / m)
    assert result[1:] == pytest.approx(expected, abs=1e-4)
