import itertools

import numpy as np

from synth.domain.counting import CodedTable
from synth.generators.search import Search
from synth.marginals import Clique, Factor, MarkovRandomField, Workload

N_COLUMNS, SIZE, N_ROWS, SIGMA = 6, 24, 1_000_000, 40.0
DOMAIN = {f"c{index}": SIZE for index in range(N_COLUMNS)}
CLIQUES: list[Clique] = [c for degree in (1, 2, 3) for c in itertools.combinations(DOMAIN, degree)]


def scores_of(codes: np.ndarray, n_draws: int) -> dict[Clique, float]:
    """Of a model of even, independent columns."""
    table = CodedTable(DOMAIN, codes)
    model = MarkovRandomField(DOMAIN, [Factor.uniform(DOMAIN, (name,)) for name in DOMAIN], N_ROWS)
    search = Search(table, Workload(dict.fromkeys(DOMAIN, 1.0), 3), (), 20_000, 1e6, n_draws)
    found = search.scores(model, CLIQUES, SIGMA, np.random.default_rng(1))
    return dict(zip(CLIQUES, found.tolist(), strict=True))


def test_in_a_large_table_of_independent_columns_nothing_is_worth_measuring_but_for_chance() -> None:
    codes = np.random.default_rng(0).integers(0, SIZE, (N_ROWS, N_COLUMNS))
    for clique, score in scores_of(codes, 100_000).items():
        # The table itself is a draw from even columns, which leaves an error that the score rightly sees.
        by_chance = np.sqrt(2 / np.pi) * (np.sqrt(N_ROWS * SIZE ** len(clique)) - SIGMA * SIZE ** len(clique))
        drawing = np.sqrt(2 / np.pi) * np.sqrt(N_ROWS / 100_000 * N_ROWS * SIZE ** len(clique))
        assert score < by_chance + 0.25 * drawing, clique


def test_in_a_large_table_the_pair_that_hangs_together_comes_first() -> None:
    codes = np.random.default_rng(0).integers(0, SIZE, (N_ROWS, N_COLUMNS))
    copied = np.random.default_rng(1).random(N_ROWS) < 0.05
    codes[copied, 1] = codes[copied, 0]
    scores = scores_of(codes, 100_000)
    assert max(scores, key=scores.__getitem__) == ("c0", "c1")


def test_what_the_model_knows_at_once_is_compared_exactly() -> None:
    codes = np.random.default_rng(0).integers(0, SIZE, (N_ROWS, N_COLUMNS))
    few, many = (scores_of(codes, n_draws) for n_draws in (1_000, 50_000))
    assert all(few[name,] == many[name,] for name in DOMAIN)
    assert few["c0", "c1"] != many["c0", "c1"]
