import numpy as np
import pytest

from synth.marginals.measurement import Measurement, estimate_total, merge

DOMAIN = {"a": 2, "b": 3}


def test_repeated_measurements_average_by_inverse_variance(rng: np.random.Generator) -> None:
    first, second = rng.normal(size=(2, 3)), rng.normal(size=(2, 3))
    (merged,) = merge([Measurement(("a", "b"), first, 1.0), Measurement(("b", "a"), second.T, 2.0)], DOMAIN)
    np.testing.assert_allclose(merged.values, (first + second / 4) / (1 + 1 / 4))
    np.testing.assert_allclose(merged.sigma, np.sqrt(1 / (1 + 1 / 4)))


def test_repeated_measurements_average_cell_by_cell_where_sigmas_differ_by_cell(rng: np.random.Generator) -> None:
    values, sigmas = rng.normal(size=(3, 2, 3)), rng.uniform(0.5, 3, size=(2, 2, 3))
    (merged,) = merge(
        [
            Measurement(("a", "b"), values[0], sigmas[0]),
            Measurement(("a", "b"), values[1].ravel(), sigmas[1].ravel()),
            Measurement(("a", "b"), values[2], 1.5),
        ],
        DOMAIN,
    )
    precisions = np.stack([sigmas[0] ** -2, sigmas[1] ** -2, np.full((2, 3), 1.5**-2)])
    np.testing.assert_allclose(merged.values, (values * precisions).sum(axis=0) / precisions.sum(axis=0))
    np.testing.assert_allclose(merged.sigma, precisions.sum(axis=0) ** -0.5)


def test_flat_values_mean_the_same_as_shaped_ones() -> None:
    values = np.arange(6.0).reshape(3, 2)
    flat, shaped = Measurement(("b", "a"), values.ravel(), 1.0), Measurement(("b", "a"), values, 1.0)
    np.testing.assert_array_equal(flat.ordered(DOMAIN).values, values.T)
    np.testing.assert_array_equal(shaped.ordered(DOMAIN).values, values.T)


def test_the_total_weighs_each_sum_by_its_variance() -> None:
    narrow, wide = Measurement(("a",), [60.0, 50.0], 1.0), Measurement(("a", "b"), np.full(6, 20.0), 3.0)
    assert estimate_total([narrow, wide]) == pytest.approx((110 / 2 + 120 / 54) / (1 / 2 + 1 / 54))


def test_the_total_is_at_least_one() -> None:
    assert estimate_total([Measurement(("a",), [-60.0, 5.0], 10.0)]) == 1.0
    assert estimate_total([]) == 1.0


def test_inputs_are_not_changed() -> None:
    values = np.array([1.0, 2.0])
    merge([Measurement(("a",), values, 1.0), Measurement(("a",), values, 1.0)], DOMAIN)
    np.testing.assert_array_equal(values, [1.0, 2.0])


@pytest.mark.parametrize(
    ("clique", "values", "sigma"),
    [
        (("a", "a"), np.zeros((2, 2)), 1.0),
        (("a",), [0.0, np.nan], 1.0),
        (("a",), [0.0, 1.0], 0.0),
        (("a",), [0.0, 1.0], -1.0),
        (("a",), [0.0, 1.0], np.inf),
        (("a",), [0.0, 1.0], [1.0, 1.0, 1.0]),
    ],
)
def test_a_measurement_that_cannot_be_is_refused(clique, values, sigma) -> None:
    with pytest.raises(ValueError, match="clique="):
        Measurement(clique, values, sigma)


@pytest.mark.parametrize(("clique", "n_cells"), [(("a",), 3), (("z",), 2), (("a", "b"), 5)])
def test_a_measurement_that_does_not_fit_the_domain_is_refused(clique, n_cells) -> None:
    with pytest.raises(ValueError, match="domain"):
        merge([Measurement(clique, np.zeros(n_cells), 1.0)], DOMAIN)


def test_a_transposed_table_is_refused_where_its_shape_shows_it() -> None:
    with pytest.raises(ValueError, match="fit the domain"):
        merge([Measurement(("a", "b"), np.zeros((3, 2)), 1.0)], DOMAIN)
