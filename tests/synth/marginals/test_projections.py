import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from synth.marginals.factor import Clique, axes_beside, broadcast_shape
from synth.marginals.inference import Projections

DOMAIN = {"a": 2, "b": 3, "c": 4, "d": 2, "e": 3}
HELD = tuple(DOMAIN)
SUBSETS: list[Clique] = [clique for size in range(6) for clique in itertools.combinations(HELD, size)]


@given(st.lists(st.sampled_from(SUBSETS), unique=True, max_size=12))
def test_every_marginal_is_the_one_summed_at_once(cliques: list[Clique]) -> None:
    table = np.random.default_rng(0).normal(size=tuple(DOMAIN.values()))
    projections = Projections.of(DOMAIN, HELD, cliques)
    tables = projections.down(table)
    assert projections.index.keys() == set(cliques)
    for clique in cliques:
        np.testing.assert_allclose(tables[projections.index[clique]], table.sum(axis=axes_beside(HELD, clique)))


@given(st.lists(st.sampled_from(SUBSETS), unique=True, max_size=12))
def test_on_the_way_back_every_part_is_spread_over_the_table(cliques: list[Clique]) -> None:
    rng = np.random.default_rng(1)
    parts = {clique: np.asarray(rng.normal(size=[DOMAIN[name] for name in clique])) for clique in cliques}
    spread = np.zeros(tuple(DOMAIN.values()))
    for clique, part in parts.items():
        spread = spread + part.reshape(broadcast_shape(clique, part.shape, HELD))
    found = Projections.of(DOMAIN, HELD, cliques).up(parts)
    np.testing.assert_allclose(np.broadcast_to(found, spread.shape), spread)


def test_the_table_is_read_a_few_times_however_many_marginals_there_are() -> None:
    pairs = list(itertools.combinations(HELD, 2))
    projections = Projections.of(DOMAIN, HELD, [*pairs, *((name,) for name in HELD)])
    assert sum(projection.source == 0 for projection in projections.projections) < len(HELD)
