"""Tests of the density that is fitted to a noisy histogram."""

import numpy as np
import pytest

from synth.columns import IntegerColumn, RealColumn
from synth.domain import grid, numeric_scale
from synth.domain.density import expected_counts, posterior_means

INCOME = RealColumn(bounds=(0.0, 1e6), decimals=2, scale="log", spikes=(0.0, 1000.0))


def histogram(values: np.ndarray, column: numeric_scale.LineColumn) -> tuple[np.ndarray, np.ndarray]:
    edges = grid.public_grid(column)
    return edges, np.histogram(values, edges)[0]


def incomes(rng: np.random.Generator, n: int) -> np.ndarray:
    values = np.clip(rng.lognormal(8.0, 0.8, n), 0, 1e6).round(2)
    values[: n // 10] = 0.0
    values[n // 10 : n // 5] = 1000.0
    return values


@pytest.mark.parametrize("seed", range(3))
def test_a_smooth_density_is_nearer_than_noisy_counts_and_keeps_the_tail(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = incomes(rng, 20_000)
    edges, counts = histogram(values, INCOME)
    noisy = counts + rng.normal(0, 50.0, len(counts)).round()
    expected = expected_counts(noisy, 50.0, edges, INCOME, counts.sum())
    assert (expected >= 0).all()
    assert np.abs(expected - counts).sum() < np.abs(np.maximum(noisy, 0) - counts).sum() / 2
    beyond = edges[:-1] > np.quantile(values, 0.999)
    assert expected[beyond].sum() < 0.004 * len(values)
    assert np.maximum(noisy, 0)[beyond].sum() > 0.004 * len(values)  # clipped noise alone would fill the tail


def test_spikes_are_apart_from_the_density_around_them() -> None:
    rng = np.random.default_rng(0)
    edges, counts = histogram(incomes(rng, 20_000), INCOME)
    expected = expected_counts(counts + rng.normal(0, 50.0, len(counts)).round(), 50.0, edges, INCOME, counts.sum())
    spikes = np.flatnonzero(grid.spike_cells(edges, INCOME))
    assert len(spikes) == 2
    assert expected[spikes] == pytest.approx([2000.0, 2000.0], abs=200.0)
    beside = [spikes[1] - 1, spikes[1] + 1]
    assert expected[beside] == pytest.approx(counts[beside], abs=100.0)


def test_nothing_is_beside_spikes_that_hold_all() -> None:
    densities = RealColumn(bounds=(1000.0, 3000.0), decimals=1, spikes=(1000.0, 1457.2, 2195.3, 3000.0))
    rng = np.random.default_rng(3)
    edges, counts = histogram(rng.choice(densities.spikes, 5000), densities)
    noisy = counts + rng.normal(0, 50.0, len(counts)).round()
    expected = expected_counts(noisy, 50.0, edges, densities, counts.sum())
    assert (expected > 0).sum() == 4


def test_a_flat_end_stays_flat_where_the_counts_show_it() -> None:
    ages = IntegerColumn(bounds=(0, 94))
    rng = np.random.default_rng(5)
    edges, counts = histogram(rng.integers(0, 95, 20_000).astype(float), ages)
    expected = expected_counts(counts + rng.normal(0, 60.0, len(counts)).round(), 60.0, edges, ages, counts.sum())
    assert expected[:10].sum() == pytest.approx(counts[:10].sum(), rel=0.25)
    assert expected[-10:].sum() == pytest.approx(counts[-10:].sum(), rel=0.25)


def test_a_frequent_value_that_nobody_declared_is_found() -> None:
    ages = IntegerColumn(bounds=(0, 100))
    rng = np.random.default_rng(1)
    values = np.concatenate([rng.normal(40, 12, 5000).clip(0, 100).round(), np.full(1500, 65.0)])
    edges, counts = histogram(values, ages)
    expected = expected_counts(counts + rng.normal(0, 30.0, len(counts)).round(), 30.0, edges, ages, counts.sum())
    assert expected[65] == pytest.approx(counts[65], abs=120.0)
    assert expected[64] < 200.0


def test_more_values_lie_where_a_cell_holds_more_multiples_of_a_step() -> None:
    column = IntegerColumn(bounds=(0, 2000), steps=(100,), step_shares=(0.5,))
    edges = np.array([-0.5, 99.5, 149.5, 199.5, 2000.5])
    measure = numeric_scale.lattice_measure(edges, column)
    # Half of the values are multiples of 100: 0; 100; nobody; 200 to 2000. The rest is even, but for what lies on them.
    assert measure[2] < 0.6 * 50
    assert measure[1] > 1.4 * 50
    assert measure.sum() == pytest.approx(2001, rel=0.05)


@pytest.mark.parametrize("counts", [np.zeros(300), np.full(300, -40.0), np.r_[np.full(299, -40.0), 9e6]])
def test_noise_alone_has_a_density_too(counts: np.ndarray) -> None:
    column = RealColumn(bounds=(-5.0, 5.0))
    edges = np.linspace(-5.0, 5.0, 301)
    expected = expected_counts(counts, 40.0, edges, column, counts.sum())
    assert np.isfinite(expected).all()
    assert (expected >= 0).all()
    if counts.max() <= 0:
        assert expected.min() == pytest.approx(expected.max())  # even: sampling may need any cell


@pytest.mark.parametrize(
    "column",
    [
        RealColumn(bounds=(0.0, 0.0)),
        RealColumn(bounds=(0.0, 0.0), scale="log"),
        RealColumn(bounds=(1e15, 1e15 + 1)),
        RealColumn(bounds=(-1e308, 7e307), scale="log"),
        IntegerColumn(bounds=(-(2**63), 2**63 - 1), scale="log"),
    ],
)
def test_columns_at_the_ends_of_float64_have_a_density(column: numeric_scale.LineColumn) -> None:
    edges = grid.public_grid(column)
    counts = np.full(len(edges) - 1, 100.0)
    expected = expected_counts(counts, 5.0, edges, column, counts.sum())
    assert np.isfinite(expected).all()
    assert expected.sum() == pytest.approx(counts.sum(), rel=0.1)


@pytest.mark.parametrize("n_cells", [1, 2, 3, 4])
def test_few_cells_have_a_density(n_cells: int) -> None:
    column = IntegerColumn(bounds=(0, n_cells - 1))
    edges = grid.public_grid(column)
    counts = 1000.0 * np.arange(1, n_cells + 1)
    expected = expected_counts(counts, 5.0, edges, column, counts.sum())
    assert expected == pytest.approx(counts, abs=60.0)


@pytest.mark.parametrize("sigma", [0.01, 2.0, 30.0])
def test_posterior_means_are_near_the_counts_whatever_their_size(sigma: float) -> None:
    rng = np.random.default_rng(2)
    counts = np.r_[rng.lognormal(5.0, 3.0, 300), 90092, 4888, 5019].round()
    noisy = counts + rng.normal(0, sigma, len(counts))
    assert np.abs(posterior_means(noisy, sigma) - noisy).max() < 5 * sigma


def test_posterior_means_of_noise_about_zero_are_next_to_zero_and_large_counts_stay() -> None:
    rng = np.random.default_rng(0)
    noisy = rng.normal(0, 10.0, 200)
    noisy[:5] += 1000.0
    means = posterior_means(noisy, 10.0)
    assert means[:5] == pytest.approx(noisy[:5], abs=20.0)
    assert means[5:].sum() < 0.2 * np.maximum(noisy[5:], 0).sum()
    assert len(posterior_means(np.zeros(0), 1.0)) == 0
