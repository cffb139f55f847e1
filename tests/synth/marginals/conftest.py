"""Small domains on which everything can be counted cell by cell, and a grid of clique sets that have broken engines."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from synth.marginals.distributions import MarkovRandomField
from synth.marginals.factor import Clique, Factor

DOMAIN = {"a": 2, "b": 3, "c": 4, "d": 2, "e": 3}

CLIQUE_SETS: dict[str, list[Clique]] = {
    "tree": [("a", "b"), ("b", "c"), ("b", "d"), ("d", "e")],  # what MST measures: already triangulated
    "loop": [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")],  # needs a fill-in edge; messages would go round
    "disconnected": [("a", "b"), ("c", "d")],  # pieces joined by empty separators, and e in no clique at all
    "repeated": [("a", "b"), ("b", "a"), ("a", "b")],  # the same cells three times, once with axes swapped
    "nested": [("a", "b", "c"), ("a", "c"), ("b",), ("c", "b")],  # small cliques live in a large one's home
    "one attribute": [("c",)],  # a tree of cliques of one, no separator has an attribute
    "empty": [],  # nothing known: uniform
    "empty clique": [(), ("a", "b")],  # measures only the number of rows
    "triples": [("a", "b", "c"), ("c", "d", "e")],  # a separator beside two unshared attributes on either side
    "triples overlapping": [("a", "b", "c"), ("b", "c", "d"), ("a", "e")],  # a separator of two attributes
    "complete": [("a", "b"), ("a", "c"), ("b", "c"), ("d", "e"), ("a", "e")],  # a triangle no measurement covers
    "out of order": [("e", "a"), ("d", "b", "a")],  # axes that are not in the domain's order
    "all": [("a", "b", "c", "d", "e")],  # one clique, no message at all
}

Joint = NDArray[np.float64]


@pytest.fixture(params=CLIQUE_SETS, ids=lambda name: name.replace(" ", "_"))
def cliques(request: pytest.FixtureRequest) -> list[Clique]:
    return CLIQUE_SETS[request.param]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20240607)


@pytest.fixture
def random_model(rng: np.random.Generator) -> Callable[[Sequence[Clique]], MarkovRandomField]:
    def build(cliques: Sequence[Clique]) -> MarkovRandomField:
        potentials = [Factor(clique, rng.normal(0, 2, [DOMAIN[name] for name in clique])) for clique in cliques]
        return MarkovRandomField(DOMAIN, potentials, total=1000.0)

    return build


@pytest.fixture
def brute_force() -> Callable[[MarkovRandomField], Joint]:
    """The full joint distribution, every cell enumerated."""

    def enumerate_cells(model: MarkovRandomField) -> Joint:
        names = tuple(model.domain)
        log_joint = sum((factor.aligned(names) for factor in model.potentials), np.zeros(tuple(model.domain.values())))
        joint = np.exp(log_joint - log_joint.max())
        return np.asarray(joint / joint.sum())

    return enumerate_cells


@pytest.fixture
def projected() -> Callable[[Joint, Mapping[str, int], Clique], Joint]:
    """A joint table summed onto a clique, axes in the clique's order."""

    def project(joint: Joint, domain: Mapping[str, int], clique: Clique) -> Joint:
        names = list(domain)
        kept = [name for name in names if name in clique]
        table = joint.sum(axis=tuple(axis for axis, name in enumerate(names) if name not in clique))
        return np.transpose(table, [kept.index(name) for name in clique])

    return project


@pytest.fixture
def random_joint(rng: np.random.Generator) -> Joint:
    """Counts of 1000 rows with real dependence among all attributes and no empty cell."""
    weights = rng.gamma(0.7, size=tuple(DOMAIN.values())) + 0.02
    return np.asarray(weights * (1000 / weights.sum()))
