import itertools
import json
from collections.abc import Callable

import numpy as np
import pytest
from safetensors.numpy import load, save

from synth.errors import ModelError
from synth.marginals.estimation import estimate
from synth.marginals.factor import Factor
from synth.marginals.markov_random_field import MarkovRandomField
from synth.marginals.measurement import Measurement

DOMAIN = {"a": 2, "b": 3, "c": 4, "d": 2, "e": 3}
EVERY_CLIQUE = [clique for size in range(6) for clique in itertools.combinations(DOMAIN, size)]


def test_every_marginal_in_and_out_of_the_tree_is_that_of_the_enumerated_joint(
    cliques, random_model, brute_force, projected
) -> None:
    model = random_model(cliques)
    joint = brute_force(model) * model.total
    for clique in EVERY_CLIQUE:
        expected = projected(joint, DOMAIN, clique)
        np.testing.assert_allclose(model.marginal(clique), expected, rtol=1e-9, atol=1e-9, err_msg=str(clique))


def test_a_marginal_has_its_axes_in_the_order_asked_for(random_model: Callable[..., MarkovRandomField]) -> None:
    model = random_model([("a", "b"), ("b", "c"), ("d", "e")])
    np.testing.assert_allclose(model.marginal(("c", "b")), model.marginal(("b", "c")).T)
    np.testing.assert_allclose(model.marginal(("e", "c", "a")), model.marginal(("a", "c", "e")).transpose(2, 1, 0))


def test_structural_zeros_stay_empty_and_the_rest_is_exact(brute_force, projected) -> None:
    forbidden = np.array([[0.3, -np.inf, -np.inf], [-np.inf, 0.1, -0.4]])
    shut = np.array([[0.0, 1.0, 0.5, -np.inf], [-np.inf] * 4, [0.2, -1.0, -np.inf, 0.0]])
    model = MarkovRandomField(DOMAIN, [Factor(("a", "b"), forbidden), Factor(("b", "c"), shut)], total=100)
    joint = brute_force(model) * 100
    for clique in EVERY_CLIQUE:
        np.testing.assert_allclose(model.marginal(clique), projected(joint, DOMAIN, clique), atol=1e-9)


def test_potentials_of_any_height_neither_overflow_nor_underflow() -> None:
    rng = np.random.default_rng(3)
    table = rng.normal(size=(2, 3))
    high = MarkovRandomField(DOMAIN, [Factor(("a", "b"), table + 1e5), Factor(("b",), np.full(3, -3e5))], total=1)
    usual = MarkovRandomField(DOMAIN, [Factor(("a", "b"), table)], total=1)
    np.testing.assert_allclose(high.marginal(("a", "b")), usual.marginal(("a", "b")), rtol=1e-9)


def test_a_rare_separator_value_keeps_its_conditional() -> None:
    likely = Factor(("a",), np.array([0.0, -600.0]))
    pair = Factor(("a", "b"), np.array([[0.0, 0.0, 0.0], [-500.0, -500.0 + np.log(2), -500.0]]))
    model = MarkovRandomField(DOMAIN, [pair, Factor(("a", "c"), np.zeros((2, 4))), likely], total=1)
    child = next(i for i, clique in enumerate(model.tree.cliques) if clique == ("a", "b"))
    np.testing.assert_allclose(model.beliefs.conditionals[child][1], [0.25, 0.5, 0.25])


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 0.0), (np.float32, 1e-5)])
def test_a_model_survives_safetensors(cliques, random_model, dtype, tolerance) -> None:
    model = random_model(cliques)
    description, arrays = model.to_arrays(dtype)
    assert all(array.dtype == dtype for array in arrays.values())
    back = MarkovRandomField.from_arrays(json.loads(json.dumps(description)), load(save(arrays)))
    assert (back.domain, back.total) == (model.domain, model.total)
    for clique in [("a", "b"), ("a", "e"), ("c",)]:
        np.testing.assert_allclose(back.marginal(clique), model.marginal(clique), rtol=tolerance, atol=0)


@pytest.mark.parametrize(
    "description",
    [
        "[]",
        "{}",
        '{"domain": [["a", 2]], "cliques": [["a"]]}',
        '{"domain": [["a", 2]], "cliques": [["a"], ["a"]], "total": 5}',
        '{"domain": [["a", 3]], "cliques": [["a"]], "total": 5}',
        '{"domain": [["a", 2]], "cliques": [["b"]], "total": 5}',
        '{"domain": [["a", 2]], "cliques": [["a"]], "total": -5}',
        '{"domain": [["a", 2]], "cliques": [["a"]], "total": "NaN"}',
    ],
)
def test_arrays_that_do_not_fit_their_description_are_refused(description: str) -> None:
    with pytest.raises(ModelError):
        MarkovRandomField.from_arrays(json.loads(description), {"potential.0": np.zeros(2)})


def test_a_model_that_contradicts_itself_is_refused() -> None:
    with pytest.raises(ValueError, match="total"):
        MarkovRandomField(DOMAIN, [], total=0)
    with pytest.raises(ValueError, match="fits the domain"):
        MarkovRandomField(DOMAIN, [Factor(("a",), np.zeros(3))], total=1)
    with pytest.raises(ValueError, match="finite"):
        MarkovRandomField(DOMAIN, [Factor(("a",), np.array([0.0, np.nan]))], total=1)
    with pytest.raises(ValueError, match="at least one code"):
        MarkovRandomField({"a": 0}, [], total=1)


@pytest.mark.parametrize("clique", [("a", "a"), ("z",)])
def test_a_marginal_of_attributes_that_are_not_there_is_refused(random_model, clique) -> None:
    with pytest.raises(ValueError, match="each once"):
        random_model([("a", "b")]).marginal(clique)


def test_nothing_shows_a_count_when_it_is_printed() -> None:
    """Without a privacy budget the measurements are exact counts, and a log shows what is printed."""
    measurement = Measurement(("a",), np.array([12345.0, 54321.0]), 1.0)
    model = estimate({"a": 2}, [measurement])
    shown = f"{measurement!r} {model!r} {model.potentials[0]!r} {model.beliefs!r}"
    assert not any(number in shown for number in ("12345", "54321", "66666"))
