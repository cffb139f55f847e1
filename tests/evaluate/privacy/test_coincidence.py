from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from evaluate.privacy.coincidence import CERTAIN, Alone, Coincidences, chance_of_sides

HITS = st.integers(0, 400)


@settings(max_examples=40)
@given(HITS, HITS, st.integers(400, 5000), st.integers(400, 5000))
def test_the_lower_end_is_above_zero_where_the_exact_binomial_test_is_certain(train, holdout, n_train, n_holdout):
    value, low, high = Coincidences(train, holdout, n_train, n_holdout).copied()
    chance = stats.binom.sf(train - 1, train + holdout, n_train / (n_train + n_holdout))
    assert 0.0 <= low <= value <= high <= train
    assert abs(chance - CERTAIN) < 1e-9 or (low > 0) == (chance < CERTAIN)


@given(HITS, HITS, st.floats(0, 50), st.integers(1, 20))
def test_more_comparisons_and_better_fits_never_narrow_the_interval(train, holdout, twins, n_comparisons):
    result = Coincidences(train, holdout, 1000, 1000, twins, 2000, 1000)
    assert result.copied(n_comparisons)[1] <= result.copied()[1]
    assert result.copied(n_comparisons)[2] >= result.copied()[2]
    assert result.copied(1, 1.2)[1] <= result.copied()[1]


@pytest.mark.parametrize("copied", [0, 30])
@pytest.mark.parametrize("chance", [3.0, 200.0])
def test_the_interval_covers_how_many_were_copied(copied, chance):
    """Of 3,000 honest tables with copies: none too low in more than `CERTAIN`, 95 of 100 covered; five errors."""
    rng, n, share = np.random.default_rng(0), 3000, 0.7
    train, holdout = rng.poisson(chance * share, n), rng.poisson(chance * (1 - share), n)
    ends = np.array([Coincidences(t + copied, h, 7000, 3000).copied() for t, h in zip(train, holdout, strict=True)])
    assert np.mean(ends[:, 1] > copied) <= CERTAIN + 5 * (CERTAIN / n) ** 0.5
    assert np.mean((ends[:, 1] <= copied) & (copied <= ends[:, 2])) >= 0.95


def test_twins_tell_of_few_copies_that_a_small_holdout_could_not():
    alone = Coincidences(10, 0, 1000, 500)
    assert alone.copied()[1] == 0.0
    assert Coincidences(10, 0, 1000, 500, 1, 1500, 1000).copied()[1] > 0.0
    assert Coincidences(10, 0, 1000, 500, 40, 1500, 1000).copied()[1] == 0.0
    assert Coincidences(10, 1, 1000, 500, 1, 1500, 1000).copied()[1] == 0.0


def test_a_table_that_was_cleared_of_twins_says_nothing_by_having_none():
    """Distinct real rows beside independent ones that meet them by chance: at most 2 of 1,000 are doubted."""
    rng, n = np.random.default_rng(2), 4_000
    doubted = [
        Coincidences(t, h, 6000, 1500, 0, 7500, 1000).copied()[1] > 0
        for t, h in zip(rng.poisson(6.0, n), rng.poisson(1.5, n), strict=True)
    ]
    assert np.mean(doubted) <= 0.002


@pytest.mark.parametrize("concentrated", [1.0, 5.0, 25.0])
def test_a_generator_that_meets_rows_more_often_than_reality_is_not_taken_for_a_copy(concentrated):
    """Reality has next to no twins, the generator many times as many; at most 2 in 100 are doubted."""
    rng, n, real = np.random.default_rng(1), 4_000, 0.5
    twins = rng.poisson(real, n)
    hits = [rng.poisson(2 * real * concentrated * share, n) for share in (0.5, 0.5)]
    doubted = [
        Coincidences(t, h, 1000, 1000, w, 2000, 2000).copied()[1] > 0 for t, h, w in zip(*hits, twins, strict=True)
    ]
    assert np.mean(doubted) <= (0.002 if concentrated == 1.0 else 0.02)


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 7)), max_size=40), st.sets(st.integers(0, 12), min_size=1))
def test_what_one_unit_has_alone_is_what_counting_by_hand_finds(rows, synthetic):
    rows = sorted(rows, key=lambda row: row[1])
    content, units = (np.array([row[i] for row in rows], dtype=np.int64) for i in (0, 1))
    alone = Alone.of(content, units, units < 4)
    owners = Counter(content for content, _ in set(rows))
    expected = {content: unit for content, unit in rows if owners[content] == 1}
    assert dict(zip(alone.content.tolist(), alone.units.tolist(), strict=True)) == expected
    assert alone.twins == sum(n == 2 for n in owners.values())
    result = alone.coincidences(alone.hit_by(np.array(sorted(synthetic))), len(synthetic))
    hit = {unit for content, unit in expected.items() if content in synthetic}
    assert (result.train, result.holdout) == (sum(u < 4 for u in hit), sum(u >= 4 for u in hit))
    assert result.n_train == len({u for u in expected.values() if u < 4})


def test_the_chance_of_so_much_weight_on_train_is_about_that_of_all_ways_to_deal_the_sides():
    weights = np.exp(np.random.default_rng(0).normal(size=14))
    ways = (np.arange(2**14)[:, None] >> np.arange(14)) & 1
    chances, sums = np.prod(np.where(ways, 0.6, 0.4), axis=1), ways @ weights
    for way in np.argsort(sums)[-(2**12) :: 97]:
        exact = float(chances[sums >= sums[way] - 1e-9].sum())
        on_train = ways[way].astype(bool)
        assert exact * 0.9 <= chance_of_sides(weights[on_train], weights[~on_train], 1.5) <= 4 * exact + 0.01
