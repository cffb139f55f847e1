"""What is measured next: candidates and their scores, weights of a workload, and noisy pairs."""

import itertools
from itertools import combinations, permutations
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synth.domain import Discretizer
from synth.domain.counts import MARK, CoarseCounts, Coarsening, CodedTable
from synth.dp.budget import Budget
from synth.dp.mechanisms import NoNoise, SystemNoise
from synth.dp.schedule import Schedule
from synth.generators.fitting.selection import (
    MOST_CANDIDATES,
    ClassSearch,
    NoisyPairs,
    Search,
    Workload,
    distance_of,
    noisy_pair_events,
)
from synth.marginals import Clique, Factor, MarkovRandomField, Measurement, estimate
from synth.marginals.latent_class_estimation import ClassEstimation, CoarseCodes
from synth.schema import build_schema

N_ROWS, SIGMA = 600, 6.0

DOMAIN = {"a": 12, "b": 3, "c": 6, "d": 2}

GROUPS = {"a": np.arange(12) // 4, "c": np.array([0, 1, 0, 1, 2, 2])}

COARSENING = Coarsening(GROUPS)


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


def test_counts_are_those_of_each_candidate() -> None:
    merged = np.column_stack([codes_of(), GROUPS["a"][codes_of()[:, 0]], GROUPS["c"][codes_of()[:, 2]]])
    table = CodedTable({**DOMAIN, "a" + MARK: 3, "c" + MARK: 3}, merged)
    for clique, counts in zip(searching().cliques, searching().counts, strict=True):
        np.testing.assert_array_equal(counts, table.counts(clique))


@pytest.mark.parametrize("weight", [0.001, 1.0, 1000.0])
def test_one_row_moves_no_score_by_more_than_one_whatever_the_weights(weight: float) -> None:
    model = estimation()
    scores = [searching({"a": weight}, codes=codes_of()[:n]).scores(model, SIGMA) for n in (N_ROWS, N_ROWS - 1)]
    # Single precision rounds the counts that the model expects, the same for both.
    assert np.abs(scores[0] - scores[1]).max() <= 1 + 1e-4
    assert np.abs(scores[0] - scores[1]).max() > 0.9


PAIRS_SCHEMA = build_schema({
    "status": "declared", "n_units": N_ROWS, "target": "d",
    "columns": {
        "a": {"kind": "categorical", "categories": [str(i) for i in range(10)]},
        "b": {"kind": "categorical", "categories": ["0", "1", "2"]},
        "c": {"kind": "categorical", "categories": [str(i) for i in range(10)]},
        "d": {"kind": "boolean"},
    },
})  # fmt: skip


def noisy_pairs(codes: pd.DataFrame, noise: Any) -> NoisyPairs:
    """All pairs of four columns, with noise or without."""
    discretizer = Discretizer.by_schema(PAIRS_SCHEMA)
    events = noisy_pair_events(0.5, PAIRS_SCHEMA)
    table = CodedTable(discretizer.sizes, discretizer.encode(codes))
    one_way = [Measurement((n,), np.arange(size, 0.0, -1.0), 1.0) for n, size in discretizer.sizes.items()]
    return NoisyPairs.measure(
        table, PAIRS_SCHEMA, discretizer, one_way, events, Budget(Schedule(tuple(events), 1e-6), noise)
    )


def related_rows(n_rows: int = N_ROWS) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    a = rng.integers(0, 10, n_rows)
    return pd.DataFrame({
        "a": a.astype(str), "b": rng.integers(0, 3, n_rows).astype(str), "c": (9 - a).astype(str), "d": a > 4,
    }).astype({"d": "boolean"})  # fmt: skip


def test_one_row_is_in_one_cell_of_each_noisy_pair() -> None:
    rows = related_rows(40)
    whole = noisy_pairs(rows, NoNoise())
    for left_out in range(len(rows)):
        part = noisy_pairs(rows.drop(index=left_out).reset_index(drop=True), NoNoise())
        for pair, counts in whole.released.items():
            moved = counts - part.released[pair]
            assert sorted(moved.ravel().tolist())[-2:] == [0.0, 1.0] and moved.sum() == 1


def test_noise_alone_shows_no_pair_and_what_hangs_together_is_far_from_independence() -> None:
    noisy = noisy_pairs(related_rows(20_000), SystemNoise())
    distances = {}
    for pair, counts in noisy.released.items():
        independent = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / counts.sum()
        distances[pair] = noisy.distance(pair, independent)
    told = {("a", "c"), ("a", "d"), ("c", "d")}
    assert min(distances[pair] for pair in told) > 5_000
    assert max(distance for pair, distance in distances.items() if pair not in told) < 500
    assert distance_of(("a", "c", "d"), distances) == pytest.approx(sum(distances[pair] for pair in told))


def columns_of(search: Search) -> list[tuple[str, np.ndarray]]:
    return [(name, search.counts((name,))) for name in search.table.domain]


@pytest.mark.statistical
def test_the_model_stays_within_its_limit_and_the_limit_grows_with_the_budget_used() -> None:
    rng = np.random.default_rng(3)
    domain = {f"c{index}": 10 for index in range(6)}
    codes = rng.integers(0, 10, (2000, 6))
    search = Search(CodedTable(domain, codes), Workload(dict.fromkeys(domain, 1.0), 3), (), 1000, 1500.0, 1000)
    singles = [Measurement((name,), codes_of.astype(float), 1.0) for name, codes_of in columns_of(search)]
    model = estimate(domain, singles)
    half, whole = search.candidates(model, 0.5), search.candidates(model, 1.0)
    assert {len(clique) for clique in half} == {1, 2}
    assert {len(clique) for clique in whole} == {1, 2, 3}
    for clique in whole:
        assert (
            estimate(domain, [*singles, Measurement(clique, search.counts(clique).astype(float), 1.0)]).tree.n_cells
            <= 1500
        )


def test_a_wide_table_offers_triples_only_where_two_columns_are_joined() -> None:
    domain = {f"c{index}": 2 for index in range(40)}
    codes = np.random.default_rng(4).integers(0, 2, (100, 40))
    search = Search(CodedTable(domain, codes), Workload(dict.fromkeys(domain, 1.0), 3), (), 1000, 1e6, 100)
    singles = [Measurement((name,), counted.astype(float), 1.0) for name, counted in columns_of(search)]
    before = search.candidates(estimate(domain, singles), 1.0)
    assert len(before) == 40 + 40 * 39 // 2 < MOST_CANDIDATES
    pair = Measurement(("c3", "c7"), search.counts(("c3", "c7")).astype(float), 1.0)
    after = search.candidates(estimate(domain, [*singles, pair]), 1.0)
    assert set(after) - set(before) == {
        tuple(sorted({"c3", "c7", name}, key=list(domain).index)) for name in domain if name not in ("c3", "c7")
    }


def test_what_may_be_measured_next_does_not_depend_on_the_rows() -> None:
    domain = {f"c{index}": 5 for index in range(5)}
    rng = np.random.default_rng(6)
    tables = [rng.integers(0, 5, (500, 5)), np.zeros((1, 5), dtype=np.int64)]
    released = estimate(domain, [Measurement(("c0", "c1"), rng.normal(20, 5, (5, 5)), 5.0)])
    workload = Workload(dict.fromkeys(domain, 1.0), 3)
    offered = [
        Search(CodedTable(domain, codes), workload, (), 100, 400.0, 100).candidates(released, 0.9) for codes in tables
    ]
    assert offered[0] == offered[1]


N_COLUMNS, SIZE, N_LARGE, NOISE = 6, 24, 200_000, 40.0

EQUAL_SIZES = {f"c{index}": SIZE for index in range(N_COLUMNS)}

CLIQUES: list[Clique] = [c for degree in (1, 2, 3) for c in itertools.combinations(EQUAL_SIZES, degree)]


def scores_of(codes: np.ndarray, n_draws: int) -> dict[Clique, float]:
    """Of a model of even, independent columns."""
    table = CodedTable(EQUAL_SIZES, codes)
    model = MarkovRandomField(EQUAL_SIZES, [Factor.uniform(EQUAL_SIZES, (name,)) for name in EQUAL_SIZES], N_LARGE)
    search = Search(table, Workload(dict.fromkeys(EQUAL_SIZES, 1.0), 3), (), 20_000, 1e6, n_draws)
    result = search.scores(model, CLIQUES, NOISE, np.random.default_rng(1))
    return dict(zip(CLIQUES, result.tolist(), strict=True))


def test_in_a_large_table_of_independent_columns_nothing_is_worth_measuring_but_for_chance() -> None:
    codes = np.random.default_rng(0).integers(0, SIZE, (N_LARGE, N_COLUMNS))
    for clique, score in scores_of(codes, 20_000).items():
        # The table itself is a draw from even columns, which leaves an error that the score rightly sees.
        by_chance = np.sqrt(2 / np.pi) * (np.sqrt(N_LARGE * SIZE ** len(clique)) - NOISE * SIZE ** len(clique))
        drawing = np.sqrt(2 / np.pi) * np.sqrt(N_LARGE / 20_000 * N_LARGE * SIZE ** len(clique))
        assert score < by_chance + 0.25 * drawing, clique


def test_in_a_large_table_the_pair_that_hangs_together_comes_first() -> None:
    codes = np.random.default_rng(0).integers(0, SIZE, (N_LARGE, N_COLUMNS))
    copied = np.random.default_rng(1).random(N_LARGE) < 0.2
    codes[copied, 1] = codes[copied, 0]
    scores = scores_of(codes, 20_000)
    assert max(scores, key=scores.__getitem__) == ("c0", "c1")


@pytest.mark.parametrize("weight", [0.001, 1.0, 1000.0])
def test_one_row_moves_no_score_of_a_search_by_more_than_one_whatever_the_weights(weight: float) -> None:
    rng = np.random.default_rng(4)
    codes = rng.integers(0, SIZE, (500, N_COLUMNS))
    groups = {"c0": np.arange(SIZE) // 6}
    workload = Workload({**dict.fromkeys(EQUAL_SIZES, 1.0), "c0": weight, "c1": 0.3}, 3)
    result = []
    for rows in (codes, codes[:-1]):
        table = CoarseCounts(CodedTable(EQUAL_SIZES, rows), Coarsening(groups))
        model = MarkovRandomField(table.domain, [Factor.uniform(table.domain, (name,)) for name in table.domain], 500)
        search = Search(table, workload, (), 20_000, 1e6, 1000)
        candidates = search.candidates(model, 1.0)
        result.append(search.scores(model, candidates, NOISE, np.random.default_rng(1)))
    # The heaviest candidate is moved by the whole row: no weight costs the choice a part of its scale.
    assert np.abs(result[0] - result[1]).max() == pytest.approx(1.0)


UNEQUAL_SIZES = {"a": 2, "b": 3, "c": 50, "d": 2}


@given(st.lists(st.floats(1e-6, 1000.0), min_size=4, max_size=4), st.integers(1, 4))
def test_no_weights_take_a_clique_above_one(weights: list[float], degree: int) -> None:
    workload = Workload(dict(zip(UNEQUAL_SIZES, weights, strict=True)), degree)
    result = [
        workload.weight(clique) for order in range(1, degree + 1) for clique in permutations(UNEQUAL_SIZES, order)
    ]
    assert max(result) == 1.0
