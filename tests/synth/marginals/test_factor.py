import numpy as np
import pytest

from synth.marginals.factor import Factor, log_sum_exp


def test_the_product_broadcasts_over_attributes_in_any_order(rng: np.random.Generator) -> None:
    left, right = rng.normal(size=(2, 3)), rng.normal(size=(4, 2))
    product = Factor(("a", "b"), left) + Factor(("c", "a"), right)
    assert product.attributes == ("a", "b", "c")
    np.testing.assert_allclose(product.log_values, left[:, :, np.newaxis] + right.T[:, np.newaxis, :])


@pytest.mark.parametrize("onto", [(), ("b",), ("c", "a"), ("a", "b", "c"), ("c", "b", "a")])
def test_a_marginal_sums_the_exponentials(rng: np.random.Generator, onto: tuple[str, ...]) -> None:
    values = rng.normal(size=(2, 3, 4))
    expected = np.einsum(np.exp(values), [0, 1, 2], ["abc".index(name) for name in onto])
    marginal = Factor(("a", "b", "c"), values).marginal(onto)
    assert marginal.attributes == onto
    np.testing.assert_allclose(np.exp(marginal.log_values), expected)


def test_sums_neither_overflow_nor_underflow_nor_choke_on_structural_zeros() -> None:
    lines = np.array([[1000.0, 1000.0], [-1000.0, -1000.0], [-np.inf, -np.inf], [-np.inf, 3.0]])
    np.testing.assert_allclose(log_sum_exp(lines, (1,)), [1000 + np.log(2), -1000 + np.log(2), -np.inf, 3.0])


def test_a_factor_with_an_attribute_twice_or_an_axis_too_few_is_refused() -> None:
    with pytest.raises(ValueError, match="once"):
        Factor(("a", "a"), np.zeros((2, 2)))
    with pytest.raises(ValueError, match="axis"):
        Factor(("a", "b"), np.zeros(2))
