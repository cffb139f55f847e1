from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synth.marginals.factor import Clique
from synth.marginals.junction_tree import JunctionTree, cells_with_one_more, junction_tree, maximal_cliques

DOMAIN = {"a": 2, "b": 3, "c": 4, "d": 2, "e": 3}


def assert_is_a_junction_tree(tree: JunctionTree, cliques: Sequence[Clique]) -> None:
    assert all(tree.home(clique) is not None for clique in cliques)
    assert set().union(*tree.cliques) == set(DOMAIN)
    assert tree.parents[0] == -1
    assert all(0 <= parent < child for child, parent in enumerate(tree.parents) if child)
    sets = [set(clique) for clique in tree.cliques]
    assert not any(one < other for one in sets for other in sets)
    for name in DOMAIN:  # running intersection: the cliques that hold a name hang together, so one only is its top
        tops = [i for i, clique in enumerate(sets) if name in clique and name not in tree.separators[i]]
        assert len(tops) == 1


def test_every_clique_set_gives_a_junction_tree(cliques: list[Clique]) -> None:
    assert_is_a_junction_tree(junction_tree(DOMAIN, cliques), cliques)


@given(st.lists(st.lists(st.sampled_from("abcde"), unique=True, max_size=3).map(tuple), max_size=8))
def test_any_cliques_give_a_junction_tree(cliques: list[Clique]) -> None:
    assert_is_a_junction_tree(junction_tree(DOMAIN, cliques), cliques)


def test_a_tree_of_pairs_is_kept_as_it_is() -> None:
    pairs = [("a", "b"), ("b", "c"), ("b", "d"), ("d", "e")]
    assert sorted(junction_tree(DOMAIN, pairs).cliques) == sorted(pairs)


def test_a_loop_is_cut_where_it_costs_least() -> None:
    domain = {"a": 2, "b": 100, "c": 3, "d": 100}
    loop = [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")]
    assert sorted(maximal_cliques(domain, loop)) == [("a", "b", "c"), ("a", "c", "d")]
    assert junction_tree(domain, loop).n_cells == 2 * 2 * 100 * 3


def test_pieces_are_joined_by_empty_separators() -> None:
    tree = junction_tree(DOMAIN, [("a", "b"), ("c", "d")])
    assert len(tree.cliques) == 3
    assert tree.separators == ((), (), ())


def test_a_domain_without_attributes_has_one_empty_clique() -> None:
    tree = junction_tree({}, [()])
    assert tree.cliques == ((),)
    assert tree.n_cells == 1


def test_a_clique_outside_the_domain_is_refused() -> None:
    with pytest.raises(ValueError, match="'z'"):
        junction_tree(DOMAIN, [("a", "z")])


def test_the_same_cliques_give_the_same_tree() -> None:
    rng = np.random.default_rng(5)
    cliques = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e")]
    shuffled = [cliques[i] for i in rng.permutation(4)]
    assert set(junction_tree(DOMAIN, cliques).cliques) == set(junction_tree(DOMAIN, shuffled).cliques)


SOME_CLIQUE = st.lists(st.sampled_from("abcde"), unique=True, max_size=3).map(tuple)


@given(st.lists(SOME_CLIQUE, max_size=6), SOME_CLIQUE)
def test_the_cells_of_a_tree_with_one_more_clique_are_known_without_building_it(
    cliques: list[Clique], one_more: Clique
) -> None:
    assert cells_with_one_more(DOMAIN, cliques)(one_more) == junction_tree(DOMAIN, [*cliques, one_more]).n_cells
