import numpy as np
import pytest

from synth.errors import ModelError
from synth.marginals.factor import Factor
from synth.marginals.markov_random_field import MarkovRandomField, condition
from synth.marginals.sampling import sample

DOMAIN = {"a": 2, "b": 3, "c": 4, "d": 2, "e": 3}
NAMES = tuple(DOMAIN)


def with_zeros(model: MarkovRandomField, rng: np.random.Generator) -> MarkovRandomField:
    """The model with about a third of the cells of one pair of attributes ruled out, never all of them."""
    shut = np.where(rng.random((DOMAIN["b"], DOMAIN["c"])) < 0.35, -np.inf, 0.0)
    shut[0, 0] = 0.0
    return MarkovRandomField(DOMAIN, (*model.potentials, Factor(("b", "c"), shut)), model.total)


def given(joint: np.ndarray, evidence: dict[str, np.ndarray]) -> np.ndarray:
    """The joint distribution under evidence, cell by cell."""
    for name, weights in evidence.items():
        shape = [1] * len(NAMES)
        shape[NAMES.index(name)] = -1
        joint = joint * weights.reshape(shape)
    return joint / joint.sum()


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("names", [("a",), ("c", "e"), ("b", "c"), NAMES])
def test_every_marginal_is_that_of_the_joint_given_the_evidence(
    cliques, names, zeros, random_model, brute_force, projected, rng
) -> None:
    model = random_model(cliques)
    model = with_zeros(model, rng) if zeros else model
    for _ in range(3):
        evidence = {name: rng.random(DOMAIN[name]) * (rng.random(DOMAIN[name]) < 0.6) for name in names}
        for name, weights in evidence.items():
            weights[0] = 0.7  # some cell stays open, since (0, 0) of b and c does
            assert weights.shape == (DOMAIN[name],)
        expected = given(brute_force(model), evidence)
        conditioned = condition(model, evidence)
        assert conditioned.total == model.total
        for clique in [*[(name,) for name in NAMES], ("a", "e"), ("c", "b", "d"), *model.tree.cliques]:
            np.testing.assert_allclose(
                conditioned.marginal(clique) / model.total, projected(expected, DOMAIN, clique), atol=1e-12
            )


def test_what_is_ruled_out_is_never_drawn(cliques, random_model, rng) -> None:
    evidence = {"c": np.array([0.0, 1.0, 0.0, 0.0]), "e": np.array([1.0, 0.0, 1.0])}
    codes = sample(condition(random_model(cliques), evidence), 500, rng)
    assert set(codes[:, NAMES.index("c")]) == {1}
    assert set(codes[:, NAMES.index("e")]) <= {0, 2}


def test_no_evidence_leaves_the_model_as_it_is(random_model) -> None:
    model = random_model([("a", "b")])
    assert condition(model, {}) is model


def test_only_proportions_of_the_weights_matter(random_model) -> None:
    model, weights = random_model([("a", "b"), ("b", "c")]), np.array([0.5, 0.0, 2.0])
    small, large = (condition(model, {"b": weights * scale}).marginal(("a", "c")) for scale in (1e-250, 1e250))
    np.testing.assert_allclose(small, large, rtol=1e-9)


@pytest.mark.parametrize("link", [[("b", "c")], [("b", "a"), ("a", "c")]])
def test_evidence_of_no_mass_is_refused_however_far_apart_its_attributes_are(link) -> None:
    """Of b and c only equal codes go together: directly, or through an attribute between them."""
    factors = [Factor(clique, np.where(np.eye(*[DOMAIN[name] for name in clique]), 0.0, -np.inf)) for clique in link]
    model = MarkovRandomField(DOMAIN, factors, 10.0)
    one, other = np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0, 0.0, 0.0])
    assert condition(model, {"b": one}).marginal(("c",))[0] == pytest.approx(10.0)
    with pytest.raises(ModelError, match=r"no mass .*\['b', 'c'\]"):
        condition(model, {"b": one, "c": other})
    with pytest.raises(ModelError, match="no mass"):
        condition(model, {"d": np.zeros(2)})


@pytest.mark.parametrize(
    ("evidence", "message"),
    [
        ({"z": np.ones(2)}, "attribute='z'"),
        ({"a": np.ones(3)}, r"shape=\(3,\)"),
        ({"a": np.array([1.0, -0.1])}, "at least 0"),
        ({"a": np.array([1.0, np.nan])}, "finite"),
    ],
)
def test_evidence_that_fits_no_attribute_is_refused(evidence, message, random_model) -> None:
    with pytest.raises(ValueError, match=message):
        condition(random_model([("a", "b")]), evidence)
