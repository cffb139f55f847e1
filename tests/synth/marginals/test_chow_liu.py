"""The Chow-Liu tree: the pairs that hang together most, and rows that follow it."""

from itertools import combinations

import numpy as np
import pytest

from synth.marginals import Measurement
from synth.marginals.latent_class_estimation import ChowLiuTree, CoarseCodes

N = 20_000
DOMAIN = {"a": 3, "b": 6, "c": 4, "d": 2}
GROUPS = np.array([0, 1, 0, 2, 1, 2])
"""Coarse codes of "b", which are no neighbors."""
COARSE = {"B": CoarseCodes("b", GROUPS)}


@pytest.fixture(scope="module")
def codes() -> dict[str, np.ndarray]:
    """ "a" and "c" follow "b", and "d" follows "c"; within a coarse code of "b" nothing bears on the fine one."""
    rng = np.random.default_rng(0)
    b = rng.choice(6, N, p=[0.3, 0.1, 0.05, 0.25, 0.1, 0.2])

    def following(given: np.ndarray, size: int) -> np.ndarray:
        return np.where(rng.random(N) < 0.8, given % size, rng.integers(0, size, N))

    c = following(GROUPS[b], 4)
    return {"a": following(GROUPS[b], 3), "b": b, "c": c, "d": following(c, 2)}


def counted(codes: dict[str, np.ndarray], clique: tuple[str, ...], sigma: float = 1.0) -> Measurement:
    columns = [GROUPS[codes["b"]] if name == "B" else codes[name] for name in clique]
    counts = np.zeros([3 if name == "B" else DOMAIN[name] for name in clique])
    np.add.at(counts, tuple(columns), 1.0)
    return Measurement(clique, counts, sigma)


def tree_of(codes: dict[str, np.ndarray]) -> ChowLiuTree:
    cliques = [tuple("B" if name == "b" else name for name in pair) for pair in combinations(DOMAIN, 2)]
    # One pair the other way around: the order in a clique means nothing.
    cliques = [clique[::-1] if clique == ("B", "c") else clique for clique in cliques]
    one_way = [counted(codes, (name,)) for name in DOMAIN]
    return ChowLiuTree(DOMAIN, COARSE, one_way, [counted(codes, clique) for clique in cliques])


def test_the_edges_are_the_pairs_that_hang_together(codes: dict[str, np.ndarray]) -> None:
    edges = tree_of(codes).edges
    assert {frozenset(edge) for edge in edges} == {frozenset("ab"), frozenset("bc"), frozenset("cd")}
    drawn = {"a"}
    for parent, child in edges:  # each after the one that it is drawn given
        assert parent in drawn
        drawn.add(child)
    assert drawn == {*DOMAIN}


def test_rows_have_the_pairs_of_the_tree(codes: dict[str, np.ndarray]) -> None:
    """Within 5 standard errors of both tables; pairs off the tree follow through it, and fine codes their shares."""
    rows = tree_of(codes).rows(N, np.random.default_rng(1))
    assert rows.shape == (N, 4)
    drawn = dict(zip(DOMAIN, rows.T, strict=True))
    for pair in combinations(DOMAIN, 2):
        expected, found = counted(codes, pair).values, counted(drawn, pair).values
        assert (np.abs(found - expected) < 5 * np.sqrt(2 * expected) + 5).all(), pair


def test_a_large_table_of_noise_is_no_edge() -> None:
    """Noise of a large table is further from independence than a weak relation, but no further than noise is."""
    rng = np.random.default_rng(2)
    domain = {"a": 40, "b": 40, "c": 2}
    codes = {"a": rng.integers(0, 40, N), "b": rng.integers(0, 40, N)}
    codes["c"] = np.where(rng.random(N) < 0.2, codes["a"] % 2, rng.integers(0, 2, N))
    codes["b"] = np.where(rng.random(N) < 0.1, codes["c"] * 20, codes["b"])

    def noisy(clique: tuple[str, ...]) -> Measurement:
        counts = np.zeros([domain[name] for name in clique])
        np.add.at(counts, tuple(codes[name] for name in clique), 1.0)
        return Measurement(clique, counts + rng.normal(0, 20, counts.shape), 20.0)

    tree = ChowLiuTree(
        domain, {}, [noisy((name,)) for name in domain], [noisy(pair) for pair in combinations(domain, 2)]
    )
    assert {frozenset(edge) for edge in tree.edges} == {frozenset("ac"), frozenset("bc")}
    # Cells below zero are none.
    assert tree.rows(50, rng).min() >= 0


def test_the_same_seed_gives_the_same_rows(codes: dict[str, np.ndarray]) -> None:
    one, same, other = (tree_of(codes).rows(100, np.random.default_rng(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()
