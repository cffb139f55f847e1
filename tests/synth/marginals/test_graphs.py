"""Graphical models beside brute force: trees, factors, conditioning, sampling and zeros."""

import itertools
import json
from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load, save

from synth.generators.models.constraints import affordable
from synth.marginals import Measurement
from synth.marginals.distributions import MarkovRandomField
from synth.marginals.estimation import estimate
from synth.marginals.factor import Clique, Factor
from synth.marginals.junction_tree import JunctionTree, cells_with_one_more, junction_tree, maximal_cliques
from synth.marginals.latent_class_estimation import ChowLiuTree, CoarseCodes
from synth.marginals.sampling import round_counts, sample, sample_given

N = 20_000
GROUPED_DOMAIN = {"a": 3, "b": 6, "c": 4, "d": 2}
GROUPS = np.array([0, 1, 0, 2, 1, 2])
"""Coarse codes of "b", which are no neighbors."""
COARSE = {"B": CoarseCodes("b", GROUPS)}


@pytest.fixture(scope="module")
def codes() -> dict[str, np.ndarray]:
    """ "a" and "c" follow "b", and "d" follows "c"; within a coarse code of "b" nothing bears on the fine one."""
    rng = np.random.default_rng(0)
    b = rng.choice(6, N, p=[0.3, 0.1, 0.05, 0.25, 0.1, 0.2])

    def following(known: np.ndarray, size: int) -> np.ndarray:
        return np.where(rng.random(N) < 0.8, known % size, rng.integers(0, size, N))

    c = following(GROUPS[b], 4)
    return {"a": following(GROUPS[b], 3), "b": b, "c": c, "d": following(c, 2)}


def counted_in_groups(codes: dict[str, np.ndarray], clique: tuple[str, ...], sigma: float = 1.0) -> Measurement:
    columns = [GROUPS[codes["b"]] if name == "B" else codes[name] for name in clique]
    counts = np.zeros([3 if name == "B" else GROUPED_DOMAIN[name] for name in clique])
    np.add.at(counts, tuple(columns), 1.0)
    return Measurement(clique, counts, sigma)


def tree_of(codes: dict[str, np.ndarray]) -> ChowLiuTree:
    cliques = [tuple("B" if name == "b" else name for name in pair) for pair in combinations(GROUPED_DOMAIN, 2)]
    # One pair the other way around: the order in a clique means nothing.
    cliques = [clique[::-1] if clique == ("B", "c") else clique for clique in cliques]
    one_way = [counted_in_groups(codes, (name,)) for name in GROUPED_DOMAIN]
    return ChowLiuTree(GROUPED_DOMAIN, COARSE, one_way, [counted_in_groups(codes, clique) for clique in cliques])


def test_the_edges_are_the_pairs_that_hang_together(codes: dict[str, np.ndarray]) -> None:
    edges = tree_of(codes).edges
    assert {frozenset(edge) for edge in edges} == {frozenset("ab"), frozenset("bc"), frozenset("cd")}
    drawn = {"a"}
    for parent, child in edges:  # each after the one that it is drawn given
        assert parent in drawn
        drawn.add(child)
    assert drawn == {*GROUPED_DOMAIN}


def test_rows_have_the_pairs_of_the_tree(codes: dict[str, np.ndarray]) -> None:
    """Within 5 standard errors of both tables; pairs off the tree follow through it, and fine codes their shares."""
    rows = tree_of(codes).rows(N, np.random.default_rng(1))
    assert rows.shape == (N, 4)
    drawn = dict(zip(GROUPED_DOMAIN, rows.T, strict=True))
    for pair in combinations(GROUPED_DOMAIN, 2):
        expected, result = counted_in_groups(codes, pair).values, counted_in_groups(drawn, pair).values
        assert (np.abs(result - expected) < 5 * np.sqrt(2 * expected) + 5).all(), pair


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


DOMAIN = {"a": 2, "b": 3, "c": 4, "d": 2, "e": 3}
NAMES = tuple(DOMAIN)


def with_zeros(model: MarkovRandomField, rng: np.random.Generator) -> MarkovRandomField:
    """The model with about a third of the cells of one pair of attributes ruled out, never all of them."""
    shut = np.where(rng.random((DOMAIN["b"], DOMAIN["c"])) < 0.35, -np.inf, 0.0)
    shut[0, 0] = 0.0
    return MarkovRandomField(DOMAIN, (*model.potentials, Factor(("b", "c"), shut)), model.total)


@pytest.mark.parametrize("zeros", [False, True])
def test_every_marginal_is_that_of_the_joint(cliques, zeros, random_model, brute_force, projected, rng) -> None:
    model = random_model(cliques)
    model = with_zeros(model, rng) if zeros else model
    joint = brute_force(model)
    for clique in [*[(name,) for name in NAMES], ("a", "e"), ("c", "b", "d"), *model.tree.cliques]:
        expected = projected(joint / joint.sum(), DOMAIN, clique)
        np.testing.assert_allclose(model.marginal(clique) / model.total, expected, atol=1e-12)


def assert_is_a_junction_tree(tree: JunctionTree, cliques: Sequence[Clique]) -> None:
    assert all(tree.home(clique) is not None for clique in cliques)
    assert set().union(*tree.cliques) == set(DOMAIN)
    assert tree.parents[0] == -1
    assert all(0 <= parent < child for child, parent in enumerate(tree.parents) if child)
    sets = [set(clique) for clique in tree.cliques]
    assert not any(first < other for first in sets for other in sets)
    for name in DOMAIN:  # running intersection: the cliques that hold a name hang together, so one only is its top
        tops = [i for i, clique in enumerate(sets) if name in clique and name not in tree.separators[i]]
        assert len(tops) == 1


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


SOME_CLIQUE = st.lists(st.sampled_from("abcde"), unique=True, max_size=3).map(tuple)


@given(st.lists(SOME_CLIQUE, max_size=6), SOME_CLIQUE)
def test_the_cells_of_a_tree_with_one_more_clique_are_known_without_building_it(
    cliques: list[Clique], one_more: Clique
) -> None:
    assert cells_with_one_more(DOMAIN, cliques)(one_more) == junction_tree(DOMAIN, [*cliques, one_more]).n_cells


EVERY_CLIQUE = [clique for size in range(6) for clique in itertools.combinations(DOMAIN, size)] + [
    ("c", "b"),
    ("e", "c", "a"),
]


def test_every_marginal_in_and_out_of_the_tree_is_that_of_the_enumerated_joint(
    cliques, random_model, brute_force, projected
) -> None:
    model = random_model(cliques)
    joint = brute_force(model) * model.total
    for clique in EVERY_CLIQUE:
        expected = projected(joint, DOMAIN, clique)
        np.testing.assert_allclose(model.marginal(clique), expected, rtol=1e-9, atol=1e-9, err_msg=str(clique))


def test_structural_zeros_stay_empty_and_the_rest_is_exact(brute_force, projected) -> None:
    forbidden = np.array([[0.3, -np.inf, -np.inf], [-np.inf, 0.1, -0.4]])
    shut = np.array([[0.0, 1.0, 0.5, -np.inf], [-np.inf] * 4, [0.2, -1.0, -np.inf, 0.0]])
    model = MarkovRandomField(DOMAIN, [Factor(("a", "b"), forbidden), Factor(("b", "c"), shut)], total=100)
    joint = brute_force(model) * 100
    for clique in EVERY_CLIQUE:
        np.testing.assert_allclose(model.marginal(clique), projected(joint, DOMAIN, clique), atol=1e-9)


def test_potentials_of_any_height_neither_overflow_nor_underflow() -> None:
    rng = np.random.default_rng(3)
    table = rng.normal(size=(2, 3))
    high = MarkovRandomField(DOMAIN, [Factor(("a", "b"), table + 1e5), Factor(("b",), np.full(3, -3e5))], total=1)
    usual = MarkovRandomField(DOMAIN, [Factor(("a", "b"), table)], total=1)
    np.testing.assert_allclose(high.marginal(("a", "b")), usual.marginal(("a", "b")), rtol=1e-9)


def test_a_rare_separator_value_keeps_its_conditional() -> None:
    likely = Factor(("a",), np.array([0.0, -600.0]))
    pair = Factor(("a", "b"), np.array([[0.0, 0.0, 0.0], [-500.0, -500.0 + np.log(2), -500.0]]))
    model = MarkovRandomField(DOMAIN, [pair, Factor(("a", "c"), np.zeros((2, 4))), likely], total=1)
    child = next(i for i, clique in enumerate(model.tree.cliques) if clique == ("a", "b"))
    np.testing.assert_allclose(model.beliefs.conditionals[child][1], [0.25, 0.5, 0.25])


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 0.0), (np.float32, 1e-5)])
def test_a_model_survives_safetensors(cliques, random_model, dtype, tolerance) -> None:
    model = random_model(cliques)
    description, arrays = model.to_arrays(dtype)
    assert all(array.dtype == dtype for array in arrays.values())
    back = MarkovRandomField.from_arrays(json.loads(json.dumps(description)), load(save(arrays)))
    assert (back.domain, back.total) == (model.domain, model.total)
    for clique in [("a", "b"), ("a", "e"), ("c",)]:
        np.testing.assert_allclose(back.marginal(clique), model.marginal(clique), rtol=tolerance, atol=0)


def test_nothing_shows_a_count_when_it_is_printed() -> None:
    """Without a privacy budget the measurements are exact counts, and a log shows what is printed."""
    measurement = Measurement(("a",), np.array([12345.0, 54321.0]), 1.0)
    model = estimate({"a": 2}, [measurement])
    shown = f"{measurement!r} {model!r} {model.potentials[0]!r} {model.beliefs!r}"
    assert not any(number in shown for number in ("12345", "54321", "66666"))


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


def test_no_rows_are_an_empty_table(random_model, rng) -> None:
    model = random_model([("a", "b"), ("c",)])
    assert sample(model, 0, rng).shape == (0, len(DOMAIN))
    drawn = sample_given(model, {"a": np.zeros(0, dtype=np.int32)}, rng)
    assert {name: len(codes) for name, codes in drawn.items()} == dict.fromkeys(DOMAIN.keys() - {"a"}, 0)


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


SMALL_DOMAIN = {"a": 2, "b": 3, "c": 4}


def closed(clique: Clique, *cells: tuple[int, ...]) -> Factor:
    """A factor that rules some cells out."""
    table = np.zeros([SMALL_DOMAIN[name] for name in clique])
    for cell in cells:
        table[cell] = -np.inf
    return Factor(clique, table)


@pytest.mark.parametrize("clique", [("a", "b"), ("b", "a")])
def test_what_is_ruled_out_has_no_mass_whatever_was_measured(clique: Clique) -> None:
    zero = closed(clique, (1, 1))
    measured = [Measurement(("a", "b"), np.full((2, 3), 50.0), 1.0)]
    model = estimate(SMALL_DOMAIN, measured, zeros=[zero])
    table = model.marginal(clique)
    assert table[1, 1] == 0
    assert table.sum() == pytest.approx(300, rel=1e-6)
    assert np.isfinite(table).all()
    # The other five cells share out the whole evenly, as a least-squares fit of equal counts does.
    assert np.delete(table.ravel(), 1 * table.shape[1] + 1) == pytest.approx(60, rel=1e-3)


def test_zeros_survive_a_warm_start_without_being_counted_twice() -> None:
    measured = [Measurement(("a", "b"), np.array([[90.0, 0.0, 10.0], [40.0, 30.0, 30.0]]), 1.0)]
    zero = closed(("a", "b"), (0, 1))
    cold = estimate(SMALL_DOMAIN, measured, zeros=[zero], n_iterations=5000, tolerance=1e-12)
    warm = estimate(SMALL_DOMAIN, measured, zeros=[zero], warm_start=cold, n_iterations=5000, tolerance=1e-12)
    assert len(warm.potentials) == len(cold.potentials) == 1
    np.testing.assert_allclose(warm.marginal(("a", "b")), cold.marginal(("a", "b")), atol=1e-3)


def test_zeros_that_do_not_fit_are_left_out_and_later_ones_that_do_are_kept() -> None:
    pair, triple, other = closed(("a", "b"), (0, 0)), closed(("a", "b", "c"), (0, 0, 0)), closed(("c",), (0,))
    assert affordable([pair, triple, other], SMALL_DOMAIN, max_cells=10) == (pair, other)
    assert affordable([pair, triple, other], SMALL_DOMAIN, max_cells=100) == (pair, triple, other)
