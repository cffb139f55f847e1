import numpy as np
import pytest

from synth.marginals.factor import Factor
from synth.marginals.markov_random_field import MarkovRandomField
from synth.marginals.sampling import round_counts, sample

DOMAIN = {"a": 2, "b": 3, "c": 4, "d": 2, "e": 3}


def counted(codes, clique):
    columns = [codes[:, list(DOMAIN).index(name)] for name in clique]
    shape = tuple(DOMAIN[name] for name in clique)
    return np.bincount(np.ravel_multi_index(columns, shape), minlength=int(np.prod(shape))).reshape(shape)


def test_every_clique_is_off_by_rounding_only(cliques, random_model, rng) -> None:
    """A cell of a clique is within one count of its share of its group; errors of the groups above add up at most."""
    model = random_model(cliques)
    codes = sample(model, 100_000, rng)
    assert codes.shape == (100_000, 5)
    assert codes.dtype == np.int32
    for clique in model.tree.cliques:
        expected = model.marginal(clique) * 100
        assert np.abs(counted(codes, clique) - expected).max() < 2 * len(model.tree.cliques)


def test_one_way_marginals_of_a_group_of_one_are_within_one_count(rng) -> None:
    model = MarkovRandomField(DOMAIN, [Factor((name,), rng.normal(size=size)) for name, size in DOMAIN.items()], 1.0)
    codes = sample(model, 997, rng)
    for name in DOMAIN:
        assert np.abs(counted(codes, (name,)) - model.marginal((name,)) * 997).max() < 1


def independence_chi_squares(rng) -> np.ndarray:
    """Of 9,000 rows in which two attributes are independent in the model, in 40 draws; 3 degrees of freedom."""
    model = MarkovRandomField(DOMAIN, [Factor(("a",), np.array([0.0, 1.0])), Factor(("c",), np.arange(4.0))], 1.0)
    statistics = []
    for _ in range(40):
        table = counted(sample(model, 9000, rng), ("a", "c"))
        expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / 9000
        statistics.append(((table - expected) ** 2 / expected).sum())
    return np.array(statistics)


def test_what_is_independent_in_the_model_is_independent_in_the_rows_by_chance(rng, monkeypatch) -> None:
    """The mean is 3, as chance has it, within 5 standard errors."""
    monkeypatch.setattr("synth.marginals.sampling.EVEN_ROWS", 0)
    assert abs(independence_chi_squares(rng).mean() - 3) < 5 * np.sqrt(2 * 3 / 40)


def test_rows_of_a_small_table_are_spread_more_evenly_than_chance_would(rng) -> None:
    # 9,000 rows on 8 cells: an even spread misses by a count or two where chance misses by thirty.
    assert independence_chi_squares(rng).max() < 1


def test_an_even_spread_favors_no_cell(rng) -> None:
    model = MarkovRandomField({"a": 2, "b": 3}, [Factor(("a",), np.zeros(2)), Factor(("b",), np.zeros(3))], 1.0)
    tables = np.array([counted(sample(model, 7, rng), ("a", "b")) for _ in range(3000)])
    standard_error = tables.std(axis=0) / np.sqrt(len(tables))
    assert (np.abs(tables.mean(axis=0) - 7 / 6) < 5 * standard_error).all()


def test_unlinked_attributes_depend_only_through_what_links_them(random_model, rng) -> None:
    model = random_model([("a", "b"), ("b", "c")])
    expected = model.marginal(("a", "b", "c")) / 1000
    table = counted(sample(model, 400_000, rng), ("a", "b", "c")) / 400_000
    standard_error = np.sqrt(expected / 400_000) + 1 / 400_000
    assert (np.abs(table - expected) < 5 * standard_error).all()


def test_the_same_seed_gives_the_same_rows_and_another_gives_others(random_model) -> None:
    model = random_model([("a", "b"), ("b", "c"), ("d", "e")])
    draws = [sample(model, 500, np.random.default_rng(seed)) for seed in (1, 1, 2)]
    np.testing.assert_array_equal(draws[0], draws[1])
    assert (draws[0] != draws[2]).any()


def test_rows_come_in_no_order(random_model, rng) -> None:
    codes = sample(random_model([("a", "b"), ("c",)]), 10_000, rng)
    halves = [np.bincount(half[:, 2], minlength=4) for half in (codes[:5000], codes[5000:])]
    assert np.abs(halves[0] - halves[1]).max() < 5 * np.sqrt(10_000)


def test_structural_zeros_are_never_drawn(rng) -> None:
    shut = np.full((2, 3), -np.inf)
    shut[0, 1] = shut[1, 0] = 0.0
    model = MarkovRandomField(DOMAIN, [Factor(("a", "b"), shut), Factor(("b", "c"), rng.normal(size=(3, 4)))], 1.0)
    for n_rows in (1, 7, 1000):
        table = counted(sample(model, n_rows, rng), ("a", "b"))
        assert table[0, 1] + table[1, 0] == n_rows


@pytest.mark.parametrize("n_rows", [0, 1, 2])
def test_few_rows_are_drawn_too(cliques, random_model, rng, n_rows) -> None:
    codes = sample(random_model(cliques), n_rows, rng)
    assert codes.shape == (n_rows, 5)
    assert (codes >= 0).all()
    assert (codes < list(DOMAIN.values())).all()


def test_a_domain_without_attributes_has_rows_without_columns(rng) -> None:
    assert sample(MarkovRandomField({}, [], 1.0), 3, rng).shape == (3, 0)


def test_a_negative_number_of_rows_is_refused(random_model, rng) -> None:
    with pytest.raises(ValueError, match="n_rows=-1"):
        sample(random_model([]), -1, rng)


def test_rounded_counts_add_up_and_are_up_or_down(rng) -> None:
    expected = rng.gamma(0.3, size=(200, 30)) * (rng.random((200, 30)) < 0.7)
    n_rows = rng.integers(0, 500, size=200)
    counts = round_counts(expected, n_rows, rng)
    exact = expected * (n_rows / expected.sum(axis=1))[:, np.newaxis]
    np.testing.assert_array_equal(counts.sum(axis=1), n_rows)
    assert (np.abs(counts - exact) < 1 + 1e-9).all()
    assert (counts[expected == 0] == 0).all()


def test_rounded_counts_are_right_on_average(rng) -> None:
    """The mean of 20,000 roundings is within 5 standard errors of the expected counts."""
    expected = np.array([0.2, 0.05, 1.4, 0.0, 2.35])
    counts = round_counts(np.tile(expected, (20_000, 1)), np.full(20_000, 4), rng)
    assert (np.abs(counts.mean(axis=0) - expected) <= 5 * 0.5 / np.sqrt(20_000)).all()
