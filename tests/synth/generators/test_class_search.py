"""The search of a latent class model: its candidates, its scores against brute force, and what it holds apart."""

import math
from itertools import combinations

import numpy as np
import pytest

from synth.domain.counts import MARK, CoarseCounts, Coarsening, CodedTable, fine
from synth.generators.fitting import marginal_selection
from synth.generators.fitting.marginal_selection import ClassSearch
from synth.marginals import Measurement
from synth.marginals.latent_class_estimation import ClassEstimation, CoarseCodes

N_ROWS, SIGMA = 600, 6.0
DOMAIN = {"a": 12, "b": 3, "c": 6, "d": 2}
GROUPS = {"a": np.arange(12) // 4, "c": np.array([0, 1, 0, 1, 2, 2])}
COARSENING = Coarsening(GROUPS)
MEAN_ABSOLUTE = np.sqrt(2 / np.pi)
"""Of a standard normal number."""


def codes_of(n_rows: int = N_ROWS) -> np.ndarray:
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(0, size, n_rows) for size in DOMAIN.values()], axis=1)
    codes[:, 2] = codes[:, 0] // 2  # what a and c have in common no model of single columns knows
    return codes


def searching(
    weights: dict[str, float] | None = None, max_cells: int = 4000, codes: np.ndarray | None = None
) -> ClassSearch:
    table = CoarseCounts(CodedTable(DOMAIN, codes_of() if codes is None else codes), COARSENING)
    return ClassSearch(table, {**dict.fromkeys(DOMAIN, 1.0), **(weights or {})}, max_cells)


def estimation() -> ClassEstimation:
    table = CodedTable(DOMAIN, codes_of())
    one_way = [Measurement((name,), table.counts((name,)).astype(float), 1.0) for name in DOMAIN]
    coarse = {name + MARK: CoarseCodes(name, groups) for name, groups in GROUPS.items()}
    started = ClassEstimation(DOMAIN, coarse, one_way, 4, np.random.default_rng(1))
    started.run(5, 1.0)
    return started


def test_candidates_are_pairs_by_fine_codes_and_triples_by_coarse_ones() -> None:
    a, c = "a" + MARK, "c" + MARK
    triples = [(a, "b", c), (a, "b", "d"), (a, c, "d"), ("b", c, "d")]
    assert searching().cliques == [*combinations(DOMAIN, 2), *triples]


def test_no_candidate_has_more_cells_than_are_allowed_and_one_is_left_always() -> None:
    cells = {clique: counts.size for clique, counts in zip(searching().cliques, searching().counts, strict=True)}
    assert searching(max_cells=30).cliques == [clique for clique, size in cells.items() if size <= 30]
    a, c = "a" + MARK, "c" + MARK
    assert searching(max_cells=1).cliques == [(a, "b"), (a, c), (a, "d"), ("b", c), ("b", "d"), (c, "d")]


def test_no_candidate_is_counted_by_more_fine_codes_than_memory_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = searching().cliques
    sizes = {clique: math.prod(DOMAIN[fine(name)] for name in clique) for clique in whole}
    limit = sorted(sizes.values())[-2]
    monkeypatch.setattr("synth.generators.fitting.marginal_selection.MOST_FINE_CELLS", limit)
    assert searching().cliques == [clique for clique in whole if sizes[clique] <= limit] != whole


def test_counts_are_those_of_each_candidate() -> None:
    merged = np.column_stack([codes_of(), GROUPS["a"][codes_of()[:, 0]], GROUPS["c"][codes_of()[:, 2]]])
    table = CodedTable({**DOMAIN, "a" + MARK: 3, "c" + MARK: 3}, merged)
    for clique, counts in zip(searching().cliques, searching().counts, strict=True):
        np.testing.assert_array_equal(counts, table.counts(clique))


@pytest.mark.parametrize("weights", [{}, {"b": 4.0}, {"a": 0.1, "d": 3.0}])
def test_a_score_is_the_weight_times_the_error_less_a_share_of_the_noise(weights: dict[str, float]) -> None:
    search, model = searching(weights), estimation()
    scores = search.scores(model, SIGMA)
    expected = []
    for clique, counts, of_model in zip(search.cliques, search.counts, model.expected(search.cliques), strict=True):
        error = float(np.abs(counts - of_model.astype(np.float64)).sum())
        expected.append(
            search._workload.weight(tuple(map(fine, clique))) * (error - 0.3 * MEAN_ABSOLUTE * SIGMA * counts.size)
        )
    assert scores == pytest.approx(expected)
    assert max(search._workload.weight(tuple(map(fine, clique))) for clique in search.cliques) <= 1


def test_what_hangs_together_comes_first() -> None:
    search = searching()
    assert search.cliques[int(np.argmax(search.scores(estimation(), SIGMA)))] == ("a", "c")


@pytest.mark.parametrize("weight", [0.001, 1.0, 1000.0])
def test_one_row_moves_no_score_by_more_than_one_whatever_the_weights(weight: float) -> None:
    model = estimation()
    scores = [searching({"a": weight}, codes=codes_of()[:n]).scores(model, SIGMA) for n in (N_ROWS, N_ROWS - 1)]
    # Single precision rounds the counts that the model expects, the same for both.
    assert np.abs(scores[0] - scores[1]).max() <= 1 + 1e-4
    assert np.abs(scores[0] - scores[1]).max() > 0.9


def test_candidates_are_apart_where_they_share_no_pair_of_columns() -> None:
    search = searching()
    for index, clique in enumerate(search.cliques):
        shared = [len(set(map(fine, clique)) & set(map(fine, other))) for other in search.cliques]
        np.testing.assert_array_equal(search.apart(index), np.array(shared) < 2)


def test_of_too_many_triples_those_of_the_heaviest_columns_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of four triples three hold a column; two columns are in all of them."""
    triples = [set(map(fine, clique)) for clique in searching({"b": 2.0}).cliques if len(clique) == 3]
    assert len(triples) == 4
    monkeypatch.setattr(marginal_selection, "MOST_TRIPLES", 3)
    assert [set(map(fine, c)) for c in searching({"b": 2.0}).cliques if len(c) == 3] == [t for t in triples if "b" in t]
    assert {len(clique) for clique in searching({"b": 2.0, "c": 2.0}).cliques} == {2}
    assert {len(clique) for clique in searching().cliques} == {2}
