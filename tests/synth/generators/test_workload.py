import math
from itertools import combinations, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synth.generators.fitting.marginal_selection import Workload

DOMAIN = {"a": 2, "b": 3, "c": 50, "d": 2}
EVEN = dict.fromkeys(DOMAIN, 1.0)


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_equal_weights_order_cliques_as_the_papers_sum_over_the_workload_does(degree: int) -> None:
    workload = Workload(EVEN, degree)
    for clique in workload.cliques(DOMAIN, math.inf):
        paper = sum(len({*clique} & {*marginal}) for marginal in combinations(DOMAIN, degree))
        assert workload.weight(clique) * paper_heaviest(degree) == pytest.approx(paper)


def paper_heaviest(degree: int) -> int:
    heaviest = tuple(DOMAIN)[:degree]
    return sum(len({*heaviest} & {*marginal}) for marginal in combinations(DOMAIN, degree))


def test_no_clique_of_the_closure_weighs_more_than_one() -> None:
    workload = Workload({"a": 1.0, "b": 5.0, "c": 101.0, "d": 2.0}, degree=3)
    weights = [workload.weight(clique) for clique in workload.cliques(DOMAIN, math.inf)]
    assert max(weights) == 1.0
    assert min(weights) > 0


@given(st.lists(st.floats(1e-6, 1000.0), min_size=4, max_size=4), st.integers(1, 4))
def test_no_weights_take_a_clique_above_one(weights: list[float], degree: int) -> None:
    workload = Workload(dict(zip(DOMAIN, weights, strict=True)), degree)
    found = [workload.weight(clique) for order in range(1, degree + 1) for clique in permutations(DOMAIN, order)]
    assert max(found) == 1.0


def test_cliques_with_too_many_cells_are_left_out_but_never_single_attributes() -> None:
    found = set(Workload(EVEN, degree=3).cliques(DOMAIN, max_cells=12))
    assert found == {("a",), ("b",), ("c",), ("d",), ("a", "b"), ("a", "d"), ("b", "d"), ("a", "b", "d")}


@pytest.mark.parametrize(("weights", "degree"), [({"a": 0.0}, 2), ({"a": math.nan}, 2), ({"a": 1.0}, 0)])
def test_what_is_no_workload_is_refused(weights: dict[str, float], degree: int) -> None:
    with pytest.raises(ValueError, match="finite weights above 0"):
        Workload(weights, degree)
