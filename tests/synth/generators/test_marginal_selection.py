import itertools

import numpy as np
import pytest

from synth.domain.counts import MARK, CoarseCounts, Coarsening, CodedTable
from synth.generators.fitting.marginal_selection import Search, Workload
from synth.marginals import Clique, Factor, MarkovRandomField

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


@pytest.mark.parametrize("weight", [0.001, 1.0, 1000.0])
def test_one_row_moves_no_score_by_more_than_one_whatever_the_weights(weight: float) -> None:
    rng = np.random.default_rng(4)
    codes = rng.integers(0, SIZE, (500, N_COLUMNS))
    groups = {"c0": np.arange(SIZE) // 6}
    workload = Workload({**dict.fromkeys(DOMAIN, 1.0), "c0": weight, "c1": 0.3}, 3)
    found = []
    for rows in (codes, codes[:-1]):
        table = CoarseCounts(CodedTable(DOMAIN, rows), Coarsening(groups))
        model = MarkovRandomField(table.domain, [Factor.uniform(table.domain, (name,)) for name in table.domain], 500)
        search = Search(table, workload, (), 20_000, 1e6, 1000)
        candidates = search.candidates(model, 1.0)
        found.append(search.scores(model, candidates, SIGMA, np.random.default_rng(1)))
    # The heaviest candidate is moved by the whole row: no weight costs the choice a part of its scale.
    assert np.abs(found[0] - found[1]).max() == pytest.approx(1.0)


def test_a_coarse_attribute_weighs_as_its_column_does() -> None:
    codes = np.random.default_rng(4).integers(0, SIZE, (500, N_COLUMNS))
    table = CoarseCounts(CodedTable(DOMAIN, codes), Coarsening({"c0": np.arange(SIZE) // 6}))
    model = MarkovRandomField(table.domain, [Factor.uniform(table.domain, (name,)) for name in table.domain], 500)
    pairs = [("c1", "c0" + MARK), ("c1", "c2")]
    plain, heavy = (
        Search(table, Workload({**dict.fromkeys(DOMAIN, 1.0), "c0": weight}, 2), (), 20_000, 1e6, 1000).scores(
            model, pairs, 0.0, np.random.default_rng(1)
        )
        for weight in (1.0, 3.0)
    )
    assert heavy / plain == pytest.approx([1.0, 0.5])
