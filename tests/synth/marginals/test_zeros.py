import numpy as np
import pytest

from synth.errors import ModelError
from synth.generators.models.constraints import affordable
from synth.marginals import Factor, Measurement, estimate
from synth.marginals.factor import Clique

DOMAIN = {"a": 2, "b": 3, "c": 4}


def closed(clique: Clique, *cells: tuple[int, ...]) -> Factor:
    """A factor that rules some cells out."""
    table = np.zeros([DOMAIN[name] for name in clique])
    for cell in cells:
        table[cell] = -np.inf
    return Factor(clique, table)


@pytest.mark.parametrize("clique", [("a", "b"), ("b", "a")])
def test_what_is_ruled_out_has_no_mass_whatever_was_measured(clique: Clique) -> None:
    zero = closed(clique, (1, 1))
    measured = [Measurement(("a", "b"), np.full((2, 3), 50.0), 1.0)]
    model = estimate(DOMAIN, measured, zeros=[zero])
    table = model.marginal(clique)
    assert table[1, 1] == 0
    assert table.sum() == pytest.approx(300, rel=1e-6)
    assert np.isfinite(table).all()
    # The other five cells share out the whole evenly, as a least-squares fit of equal counts does.
    assert np.delete(table.ravel(), 1 * table.shape[1] + 1) == pytest.approx(60, rel=1e-3)


def test_zeros_survive_a_warm_start_without_being_counted_twice() -> None:
    measured = [Measurement(("a", "b"), np.array([[90.0, 0.0, 10.0], [40.0, 30.0, 30.0]]), 1.0)]
    zero = closed(("a", "b"), (0, 1))
    cold = estimate(DOMAIN, measured, zeros=[zero], n_iterations=5000, tolerance=1e-12)
    warm = estimate(DOMAIN, measured, zeros=[zero], warm_start=cold, n_iterations=5000, tolerance=1e-12)
    assert len(warm.potentials) == len(cold.potentials) == 1
    np.testing.assert_allclose(warm.marginal(("a", "b")), cold.marginal(("a", "b")), atol=1e-3)


def test_zeros_need_no_measurement_to_hold() -> None:
    model = estimate(DOMAIN, [], total=10.0, zeros=[closed(("a", "c"), (0, 0), (0, 1), (0, 2), (0, 3))])
    assert model.marginal(("a",)).tolist() == pytest.approx([0.0, 10.0])


def test_zeros_that_do_not_fit_are_left_out_and_later_ones_that_do_are_kept() -> None:
    pair, triple, other = closed(("a", "b"), (0, 0)), closed(("a", "b", "c"), (0, 0, 0)), closed(("c",), (0,))
    assert affordable([pair, triple, other], DOMAIN, max_cells=10) == (pair, other)
    assert affordable([pair, triple, other], DOMAIN, max_cells=100) == (pair, triple, other)


def test_zeros_that_together_leave_nothing_are_refused() -> None:
    first, rest = closed(("a", "b"), (0, 0), (0, 1), (0, 2)), closed(("a", "c"), *[(1, code) for code in range(4)])
    for measurements in ([], [Measurement(("a",), np.array([50.0, 50.0]), 1.0)]):
        with pytest.raises(ModelError, match="these 2 leave nothing"):
            estimate(DOMAIN, measurements, total=100.0, zeros=[first, rest])


def test_a_zero_on_an_unknown_attribute_is_refused() -> None:
    with pytest.raises(ValueError, match="'z'"):
        estimate(DOMAIN, [], total=10.0, zeros=[Factor(("z",), np.array([0.0, -np.inf]))])
