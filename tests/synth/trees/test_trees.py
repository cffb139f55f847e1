"""Conditional distributions by trees, and the columns that they give one after another."""

import copy
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.stats import spearmanr
from threadpoolctl import threadpool_limits

from synth.domain.coded_rows import CodedRows, Evidence
from synth.domain.discretizer import Discretizer
from synth.schema import Schema, build_schema
from synth.trees import SequentialTrees, fit_sequence
from synth.trees.conditional import (
    Boosters,
    Conditional,
    Marginal,
    TrainingColumn,
    conditional_from_arrays,
    conditional_to_arrays,
    draw_codes,
    fit_conditional,
)
from synth.trees.forest import Forest, Growth, forests_from_arrays, forests_to_arrays
from tests.damaging import damaged
from tests.synth.domain.test_domain import read_off
from tests.synth.evidence import constant

GROWTH = Growth(80, 20)
SIZE = 6
N_DRAWS = 20_000
NEW = np.array([[-1.5, 0], [-0.2, 1], [0.3, 2], [1.5, 3]], dtype=np.float32)


def learned(n: int = 4000, *, size: int = SIZE, refined: bool = False, ordered: bool = False) -> TrainingColumn:
    """Codes by a number and by a category of four; the last code is never there.

    Where there are ranks, they rise with the number, which says less of the codes.
    """
    rng = np.random.default_rng(0)
    x, word = rng.normal(size=n), rng.integers(0, 4, n)
    noise = rng.normal(0, size / 4 if refined else 0.5, n)
    codes = np.clip(np.floor((x + 2) / 4 * (size - 1) + noise + 0.5 * (word == 2)), 0, size - 2)
    ranks = np.clip(0.5 + 0.25 * x + 0.1 * rng.normal(size=n), 0, 1) if refined else None
    rows = np.column_stack([x, word]).astype(np.float32)
    scores = codes + (0 if ranks is None else 0.9 * ranks) if ordered or refined else None
    widths = None if ranks is None else np.zeros(n)
    return TrainingColumn(rows, {1: 4}, codes.astype(np.int32), size, scores, ranks, widths, np.ones(n))


def fitted_conditional(column: TrainingColumn, growth: Growth = GROWTH) -> Conditional:
    with threadpool_limits(1):
        return fit_conditional(column, growth, np.random.default_rng(1))


@pytest.fixture(scope="module")
def plain() -> Conditional:
    return fitted_conditional(learned(12_000), Growth(200, 20))


@pytest.fixture(scope="module")
def number() -> Conditional:
    """More codes than a number may have without a stack, and ranks within them."""
    return fitted_conditional(learned(size=20, refined=True))


@pytest.fixture(scope="module")
def marginal() -> Conditional:
    return fitted_conditional(learned(30))


@pytest.fixture(params=["plain", "number", "marginal"])
def conditional(request: pytest.FixtureRequest) -> Conditional:
    made: Conditional = request.getfixturevalue(request.param)
    return made


def asked(conditional: Conditional, n_times: int = 1) -> np.ndarray:
    """Features of four rows, each so many times, the mean of a stack the same each time."""
    return np.repeat(conditional.features(NEW, np.random.default_rng(2)), n_times, axis=0)


def shares(codes: np.ndarray, size: int) -> np.ndarray:
    """How often each code is drawn for each of the four rows, shape (4, size)."""
    return np.stack([np.bincount(part, minlength=size) for part in np.split(codes, len(NEW))]) / (len(codes) / len(NEW))


def test_the_kinds_are_those_that_are_tested(plain: Conditional, number: Conditional, marginal: Conditional) -> None:
    assert isinstance(plain.distribution, Boosters)
    assert (plain.stack, plain.refinement) == (None, None)
    assert number.stack is not None
    assert number.refinement is not None
    assert isinstance(marginal.distribution, Marginal)


def test_draws_are_as_frequent_as_the_table_says(conditional: Conditional) -> None:
    table = conditional.distribution.table(asked(conditional))
    np.testing.assert_allclose(table.sum(axis=1), 1)
    drawn = conditional.distribution.draw(asked(conditional, N_DRAWS), np.random.default_rng(3))
    size = table.shape[1]
    assert (np.abs(shares(drawn, size) - table) <= 5 * np.sqrt(table * (1 - table) / N_DRAWS) + 1e-4).all()
    assert (table[:, -1] == 0).all()
    assert drawn.dtype == np.int32


def test_chances_are_those_of_the_rows_nearby(plain: Conditional) -> None:
    column = learned(200_000)
    table = plain.distribution.table(asked(plain))
    for row, (x, word) in enumerate(NEW):
        near = (np.abs(column.rows[:, 0] - x) < 0.1) & (column.rows[:, 1] == word)
        real = np.bincount(column.codes[near], minlength=SIZE) / near.sum()
        assert np.abs(real - table[row]).sum() / 2 < 0.12


def test_codes_that_are_closed_are_not_drawn_and_the_others_share_their_chances(conditional: Conditional) -> None:
    table = conditional.distribution.table(asked(conditional))
    size = table.shape[1]
    likeliest = table.argmax(axis=1)
    is_open = np.arange(size) != likeliest[:, np.newaxis]
    drawn = draw_codes(
        conditional.distribution, asked(conditional, N_DRAWS), np.repeat(is_open, N_DRAWS, axis=0),
        np.random.default_rng(4),
    )  # fmt: skip
    expected = table * is_open
    expected /= expected.sum(axis=1, keepdims=True)
    made = shares(drawn, size)
    assert (made[~is_open] == 0).all()
    assert (np.abs(made - expected) <= 5 * np.sqrt(expected * (1 - expected) / N_DRAWS) + 1e-4).all()


def test_a_row_to_which_no_code_of_any_chance_is_open_is_drawn_as_if_all_were(conditional: Conditional) -> None:
    table = conditional.distribution.table(asked(conditional))
    is_open = np.zeros((len(NEW) * 500, table.shape[1]), dtype=bool)
    is_open[:, -1] = True  # which no row has
    drawn = draw_codes(conditional.distribution, asked(conditional, 500), is_open, np.random.default_rng(5))
    assert (drawn < table.shape[1] - 1).all()
    made = shares(drawn, table.shape[1])
    assert np.abs(made - table).max() < 5 * np.sqrt(0.25 / 500)


def test_ranks_within_codes_follow_the_features(number: Conditional) -> None:
    assert number.refinement is not None
    column, rng = learned(4000, size=20, refined=True), np.random.default_rng(6)
    rows = number.features(column.rows, rng)
    ranks = number.refinement.draw(rows, column.codes, rng)
    assert ((ranks >= 0) & (ranks <= 1)).all()
    x = column.rows[:, 0]
    n_compared = 0
    for code in np.flatnonzero(column.counts >= 200):
        held = column.codes == code
        assert column.ranks is not None
        real, made = (spearmanr(x[held], each[held]).statistic for each in (column.ranks, ranks))
        assert made > real - 0.2
        assert ranks[held].mean() == pytest.approx(column.ranks[held].mean(), abs=0.05)
        assert ranks[held].std() == pytest.approx(column.ranks[held].std(), rel=0.3)
        n_compared += real > 0.4
    assert n_compared > 3


def test_values_of_few_wide_cells_fill_their_code_beside_codes_of_one_cell() -> None:
    """Whole numbers, some codes of which are one of them: the pooled ranks were a peak in the middle of each code."""
    n, rng = 6000, np.random.default_rng(0)
    codes, cells = rng.integers(0, 8, n), rng.integers(0, 4, n)
    several = codes % 2 == 0
    ranks, widths = np.where(several, (cells + 0.5) / 4, 0.5), np.where(several, 0.25, 1.0)
    column = TrainingColumn(rng.normal(size=(n, 1)).astype(np.float32), {}, codes.astype(np.int32), 8, codes + ranks,
                            ranks, widths, np.ones(n))  # fmt: skip
    refinement = fitted_conditional(column).refinement
    assert refinement is not None
    drawn = refinement.draw(column.rows, column.codes, rng)[several]
    assert np.bincount(np.minimum(drawn * 4, 3).astype(int), minlength=4) / several.sum() == pytest.approx(
        0.25, abs=0.03
    )


def test_a_smallest_leaf_of_more_units_tells_fewer_rows_apart() -> None:
    column = learned(4000, refined=True)
    fine, coarse = (fitted_conditional(column, Growth(10, leaf)).refinement for leaf in (20, 400))
    assert fine is not None
    assert coarse is not None
    leaves = coarse.tree.leaves(np.column_stack([column.rows, column.codes]).astype(np.float32))
    assert np.bincount(leaves).min() >= 400
    assert fine.tree.n_leaves > coarse.tree.n_leaves > 1


def test_categories_stand_in_the_order_of_the_values_that_go_with_them() -> None:
    places = fitted_conditional(learned(ordered=True), Growth(10, 20)).places[1]
    assert sorted(places) == [0, 1, 2, 3]
    assert places[2] == 3


def taken_apart(conditional: Conditional) -> tuple[dict[str, Any], dict[str, np.ndarray], list[Forest]]:
    forests: list[Forest] = []
    content, arrays = conditional_to_arrays(conditional, forests)
    return content, {name: np.array(array) for name, array in arrays.items()}, forests


def test_a_conditional_comes_back_from_its_parts(conditional: Conditional) -> None:
    content, arrays, forests = taken_apart(conditional)
    kept = forests_from_arrays(forests_to_arrays(forests))
    size = conditional.distribution.table(asked(conditional)).shape[1]
    again = conditional_from_arrays(content, arrays, kept, size, NEW.shape[1])
    np.testing.assert_array_equal(asked(again), asked(conditional))
    one, other = (each.distribution.table(asked(each)) for each in (conditional, again))
    np.testing.assert_array_equal(one, other)
    if conditional.refinement is not None:
        assert again.refinement is not None
        codes = np.array([0, 5, 9, 12], dtype=np.int32)
        shapes = [each.refinement.of_rows(asked(each), codes) for each in (conditional, again)]  # type: ignore[union-attr]
        np.testing.assert_array_equal(*shapes)


DAMAGE: dict[str, Callable[[dict[str, Any], dict[str, Any]], Any]] = {
    "another kind": lambda content, _: content.update(kind="pickle"),
    "no kind": lambda content, _: content.pop("kind"),
    "a booster that is not there": lambda content, _: content["boosters"].__setitem__(0, 10_000),
    "a booster below zero": lambda content, _: content["boosters"].__setitem__(0, -1),
    "a booster that is a flag": lambda content, _: content["boosters"].__setitem__(0, True),
    "a booster too few": lambda content, _: content["boosters"].pop(),
    "a booster of other features": lambda content, _: content["boosters"].__setitem__(0, content["stack"][0]),
    "an empty stack": lambda content, _: content.update(stack=[]),
    "a stack of something": lambda content, _: content.update(stack=3),
    "a refinement of several trees": lambda content, _: content.update(refinement=content["boosters"][0]),
    "shapes that are negative": lambda _, arrays: arrays.update(shapes=-arrays["shapes"]),
    "shapes that are no numbers": lambda _, arrays: arrays.update(shapes=arrays["shapes"] * np.nan),
    "shapes of other leaves": lambda _, arrays: arrays.update(shapes=arrays["shapes"][1:]),
    "no shapes": lambda _, arrays: arrays.pop("shapes"),
    "a code twice": lambda _, arrays: arrays["order"].__setitem__(1, arrays["order"][0]),
    "a code beyond": lambda _, arrays: arrays["order"].__setitem__(0, 20),
    "a code below zero": lambda _, arrays: arrays["order"].__setitem__(0, -1),
    "codes of 64 bits": lambda _, arrays: arrays.update(order=arrays["order"].astype(np.int64)),
    "a node that halves nothing": lambda _, arrays: arrays["nodes"].__setitem__((0, 1), 0),
    "nodes in disorder": lambda _, arrays: arrays.update(nodes=arrays["nodes"][::-1].copy()),
    "a node too few": lambda _, arrays: arrays.update(nodes=arrays["nodes"][:-1]),
    "log-odds that are no number": lambda _, arrays: arrays["log_odds"].__setitem__(0, np.nan),
    "log-odds of other nodes": lambda _, arrays: arrays.update(log_odds=arrays["log_odds"][1:]),
    "places that are no numbers": lambda _, arrays: arrays.update(place1=np.full(4, np.nan)),
    "places in a table": lambda _, arrays: arrays.update(place1=np.zeros((2, 2))),
    "places of no column": lambda _, arrays: arrays.update(placex=np.zeros(4)),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_parts_are_refused(damage: str, number: Conditional) -> None:
    content, arrays, forests = taken_apart(number)
    conditional_from_arrays(content, arrays, forests, 20, NEW.shape[1])
    DAMAGE[damage](content, arrays)
    with pytest.raises((ValueError, KeyError, TypeError)):
        conditional_from_arrays(content, arrays, forests, 20, NEW.shape[1])


@pytest.mark.parametrize("counts", [[1.0, -1.0, 3.0], [0.0, 0.0, 0.0], [1.0, 2.0], [1.0, np.nan, 1.0]])
def test_damaged_counts_are_refused(counts: list[float]) -> None:
    with pytest.raises(ValueError, match=r"codes|type"):
        conditional_from_arrays({"kind": "marginal"}, {"counts": np.array(counts)}, [], 3, 0)


N = 4000
SCHEMA = build_schema({
    "status": "declared",
    "columns": {
        "a": {"kind": "categorical", "categories": ["p", "q"]},
        "b": {"kind": "categorical", "categories": ["p", "q"]},
        "c": {"kind": "categorical", "categories": ["even", "odd"]},
        "x": {"kind": "real", "bounds": [0.0, 100.0], "decimals": 2},
    },
})  # fmt: skip
A, B, C, X = range(4)


def table(n: int = N, seed: int = 0) -> pd.DataFrame:
    """`b` is `a` in three rows of four, `c` is whether both are alike nine times in ten, and `x` is far up by `c`."""
    rng = np.random.default_rng(seed)
    a = rng.random(n) < 0.4
    b = a ^ (rng.random(n) < 0.25)
    c = a ^ b ^ (rng.random(n) < 0.1)
    x = np.round(20 + 40 * c + rng.gamma(3, 3, n).clip(0, 19.9), 2)
    letters = np.array(["p", "q"], dtype=object)
    words = np.array(["even", "odd"], dtype=object)
    return pd.DataFrame({"a": letters[a * 1], "b": letters[b * 1], "c": words[c * 1], "x": x})


def coded(frame: pd.DataFrame, schema: Schema = SCHEMA) -> tuple[CodedRows, Discretizer]:
    discretizer = read_off(schema, frame)
    cells = {place: each.cells(frame[each.name]) for place, each in enumerate(discretizer.attributes)}
    return CodedRows.of(discretizer, cells), discretizer


def fitted(frame: pd.DataFrame, schema: Schema = SCHEMA, **more: Any) -> SequentialTrees:
    rows, discretizer = coded(frame, schema)
    order = range(len(discretizer.attributes))
    return fit_sequence(rows, discretizer, np.ones(len(frame)), order, Growth(), 5, **more)


@pytest.fixture(scope="module")
def trees() -> SequentialTrees:
    return fitted(table())


def decoded(trees: SequentialTrees, n: int, evidence: Evidence | None = None) -> pd.DataFrame:
    rng = np.random.default_rng(7)
    return trees.draw(n, rng, evidence).decoded(trees.discretizer, rng)


def test_a_dependence_of_three_columns_is_learned(trees: SequentialTrees) -> None:
    """Any two of the last three say next to nothing of the parity; all three do."""
    made, real = decoded(trees, 20_000), table(200_000, seed=1)
    shares = [frame.groupby(["a", "b"])["c"].value_counts(normalize=True).sort_index() for frame in (made, real)]
    assert (shares[0] - shares[1]).abs().max() < 0.05
    joint = [frame.value_counts(["a", "b", "c"], normalize=True).sort_index() for frame in (made, real)]
    assert (joint[0] - joint[1]).abs().sum() / 2 < 0.04


def test_a_number_follows_the_columns_before_it_and_its_own_distribution(trees: SequentialTrees) -> None:
    made, real = decoded(trees, 20_000), table(200_000, seed=1)
    for word in ("even", "odd"):
        quantiles = [frame.loc[frame["c"] == word, "x"].quantile([0.05, 0.25, 0.5, 0.75]) for frame in (made, real)]
        assert (quantiles[0] - quantiles[1]).abs().max() < 1.0


def test_a_column_follows_a_number_within_its_codes() -> None:
    """Halves of each code of the number go with other words."""
    schema = build_schema({
        "status": "declared",
        "columns": {
            "x": {"kind": "real", "bounds": [0.0, 100.0], "decimals": 2},
            "half": {"kind": "categorical", "categories": ["lower", "upper"]},
        },
    })  # fmt: skip
    x = np.round(np.random.default_rng(0).uniform(0, 100, 6000), 2)
    words = np.array(["lower", "upper"], dtype=object)
    frame = pd.DataFrame({"x": x, "half": words[(x % 25 >= 12.5) * 1]})
    discretizer = read_off(schema, frame, n_bins=4)
    cells = {place: each.cells(frame[each.name]) for place, each in enumerate(discretizer.attributes)}
    assert len(np.unique(discretizer.attributes[0].codes(frame["x"]))) <= 5
    trees = fit_sequence(CodedRows.of(discretizer, cells), discretizer, np.ones(len(x)), (0, 1), Growth(), 5)
    made = decoded(trees, 6000)
    assert ((made["x"] % 25 >= 12.5) == (made["half"] == "upper")).mean() > 0.85


def test_a_column_that_is_given_first_weighs_nothing_and_the_others_follow_it(trees: SequentialTrees) -> None:
    rows = trees.draw(10_000, np.random.default_rng(0), constant(trees.discretizer, 10_000, {A: 1}))
    assert (rows.codes[:, A] == 1).all()
    assert (rows.log_weights == 0).all()
    assert (rows.codes[:, B] == 1).mean() == pytest.approx(0.75, abs=0.04)
    assert (
        trees.draw(100, np.random.default_rng(0), constant(trees.discretizer, 100, {B: 0, A: 1})).log_weights == 0
    ).all()


def test_a_column_that_is_given_later_weighs_rows_by_its_chance_given_those_before(trees: SequentialTrees) -> None:
    rows = trees.draw(10_000, np.random.default_rng(0), constant(trees.discretizer, 10_000, {B: 1}))
    assert (rows.codes[:, B] == 1).all()
    assert (rows.codes[:, A] == 1).mean() == pytest.approx(0.4, abs=0.04)
    for code, chance in ((0, 0.25), (1, 0.75)):
        np.testing.assert_allclose(np.exp(rows.log_weights[rows.codes[:, A] == code]), chance, atol=0.04)
    both = trees.draw(10_000, np.random.default_rng(0), constant(trees.discretizer, 10_000, {A: 0, C: 1}))
    weights = np.exp(both.log_weights)
    for code, chance in ((0, 0.1), (1, 0.9)):
        np.testing.assert_allclose(weights[both.codes[:, B] == code], chance, atol=0.05)


def test_a_number_that_is_given_weighs_rows_by_its_code_and_its_place_within_it(trees: SequentialTrees) -> None:
    attribute = trees.discretizer.attributes[X]
    cell = int(attribute.cells(pd.Series([66.0]))[0])
    code = int(attribute.group[cell])
    assert attribute.is_refined
    found = []
    for ranks in (None, {X: float(attribute.middle_ranks[cell])}):
        known = constant(trees.discretizer, 10_000, {X: code}, ranks)
        if ranks is None and known.rows is not None:
            known.rows.ranks.clear()  # type: ignore[attr-defined]
        rows = trees.draw(10_000, np.random.default_rng(0), known)
        assert (rows.codes[:, X] == code).all()
        found.append(np.array([np.exp(rows.log_weights[rows.codes[:, C] == c]).mean() for c in (0, 1)]))
    real, edges = table(200_000, seed=1), attribute.edges
    assert edges is not None
    real_code, is_odd = attribute.codes(real["x"]) == code, real["c"] == "odd"
    np.testing.assert_allclose(found[0], [real_code[~is_odd].mean(), real_code[is_odd].mean()], atol=0.03)
    assert found[1][0] < 0.05 * found[1][1]
    low, high = attribute.rank_intervals[cell].tolist()
    assert found[1][1] == pytest.approx(found[0][1] * (high - low), rel=0.5)


def test_the_whole_code_and_all_codes_are_certain(trees: SequentialTrees) -> None:
    """Weights of all values of a column come to one."""
    total = np.zeros(2000)
    for code in range(trees.discretizer.attributes[C].size):
        total += np.exp(
            trees.draw(2000, np.random.default_rng(3), constant(trees.discretizer, 2000, {C: code})).log_weights
        )
    np.testing.assert_allclose(total, 1)


def test_what_does_not_go_together_is_never_drawn(trees: SequentialTrees) -> None:
    sizes = [attribute.size for attribute in trees.discretizer.attributes]
    together = np.ones((sizes[B], sizes[A]), dtype=bool)
    together[1, 0] = False
    allowed = np.arange(sizes[C]) != 1
    rows = trees.draw(5000, np.random.default_rng(0), Evidence(zeros=(((C,), allowed), ((B, A), together))))
    assert not ((rows.codes[:, B] == 1) & (rows.codes[:, A] == 0)).any()
    assert ((rows.codes[:, B] == 0) & (rows.codes[:, A] == 1)).any()
    assert (rows.codes[:, C] == 0).all()
    alone = Evidence(zeros=(((A,), np.arange(sizes[A]) == 1),))
    assert (trees.draw(500, np.random.default_rng(0), alone).codes[:, A] == 1).all()


def arrays_of(trees: SequentialTrees) -> dict[str, NDArray[Any]]:
    return trees.to_arrays()[1]


def assert_same(one: SequentialTrees, other: SequentialTrees) -> None:
    assert one.to_arrays()[0] == other.to_arrays()[0]
    for name, array in arrays_of(one).items():
        np.testing.assert_array_equal(array, arrays_of(other)[name], err_msg=name)


def test_the_number_of_threads_changes_nothing(trees: SequentialTrees) -> None:
    assert_same(trees, fitted(table(), n_threads=3))


ALONE = """
import numpy as np
from threadpoolctl import threadpool_info
from synth.trees import Growth
from tests.synth.trees.test_trees import fitted, table

seen, boosted = set(), Growth.boosted

def watched(*arguments):
    made = boosted(*arguments)
    seen.update(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "openmp")
    return made

Growth.boosted = watched
fitted(table(600))
assert seen == {1}, seen
"""


def test_each_column_is_learned_on_one_thread_from_the_first_on() -> None:
    """In a process that has not loaded the library yet; sums on several threads are not the same everywhere."""
    done = subprocess.run(
        [sys.executable, "-c", ALONE], capture_output=True, text=True, cwd=Path(__file__).parents[3],
        env={**os.environ, "OMP_NUM_THREADS": "3"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


class Dictionary:
    """Columns that are kept in memory."""

    def __init__(self) -> None:
        self.columns: dict[int, Conditional] = {}
        self.n_saved = 0

    def load(self, place: int, size: int, n_features: int) -> Conditional | None:
        return self.columns.get(place)

    def save(self, place: int, conditional: Conditional) -> None:
        self.columns[place] = conditional
        self.n_saved += 1


def test_a_fit_goes_on_from_kept_columns_and_tells_how_far_it_is(trees: SequentialTrees) -> None:
    kept, told = Dictionary(), list[float]()
    kept.columns = {A: trees.conditionals[A], C: trees.conditionals[C]}
    assert_same(trees, fitted(table(), kept=kept, tell=told.append))
    assert kept.n_saved == 2
    assert told == [0.25, 0.5, 0.75, 1.0]


def test_trees_come_back_from_arrays(trees: SequentialTrees) -> None:
    again = SequentialTrees.from_arrays(*trees.to_arrays(), trees.discretizer)
    assert_same(trees, again)
    pd.testing.assert_frame_equal(decoded(again, 500), decoded(trees, 500))


@pytest.mark.parametrize(
    "order", [[0, 1, 2], [0, 1, 2, 2], [0, 1, 2, 4], [-1, 0, 1, 2], [3, 2, 1, 0], [0, 1, 2, 3, 3]], ids=str
)
def test_another_order_is_refused(order: list[int], trees: SequentialTrees) -> None:
    content, arrays = trees.to_arrays()
    with pytest.raises((ValueError, KeyError)):
        SequentialTrees.from_arrays({**content, "order": order}, arrays, trees.discretizer)


def test_damaged_plain_data_are_refused_or_sampled() -> None:
    """Whatever is no tree is refused with an error that loading expects, and nothing else breaks."""
    trees = fitted(table(600))
    content, arrays = trees.to_arrays()
    n_refused = 0
    for seed in range(150):
        try:
            made = SequentialTrees.from_arrays(damaged(content, seed), arrays, trees.discretizer)
        except (KeyError, ValueError, TypeError, IndexError, AttributeError, OverflowError):
            n_refused += 1
            continue
        assert len(decoded(made, 50)) == 50
    assert n_refused > 50


def test_damaged_arrays_are_refused_or_sampled() -> None:
    trees = fitted(table(600))
    content, arrays = trees.to_arrays()
    rng, n_refused = np.random.default_rng(0), 0
    for _ in range(200):
        broken = copy.deepcopy(arrays)
        name = rng.choice(sorted(broken))
        array = broken[name]
        if array.size == 0:
            continue
        array.flat[rng.integers(array.size)] = rng.choice([-1, 0, 1, 2, 7, 10**6])
        try:
            made = SequentialTrees.from_arrays(content, broken, trees.discretizer)
        except (KeyError, ValueError, TypeError, IndexError, OverflowError):
            n_refused += 1
            continue
        drawn = made.draw(50, np.random.default_rng(0))
        for place, attribute in enumerate(trees.discretizer.attributes):
            assert (drawn.codes[:, place] < attribute.size).all()
    assert n_refused > 30


def test_a_word_of_many_categories_keeps_its_dependence() -> None:
    """Numbers of categories say nothing of likeness: even and odd ones go together."""
    rng = np.random.default_rng(0)
    names = [f"w{i}" for i in range(30)]
    schema = build_schema({
        "status": "declared",
        "columns": {name: {"kind": "categorical", "categories": names} for name in ("w", "v")},
    })  # fmt: skip
    w = rng.integers(0, 30, 6000)
    v = (rng.integers(0, 15, 6000) * 2 + w % 2) % 30
    frame = pd.DataFrame({"w": np.array(names, dtype=object)[w], "v": np.array(names, dtype=object)[v]})
    made = decoded(fitted(frame, schema), 6000)
    same = made["w"].str[1:].astype(int) % 2 == made["v"].str[1:].astype(int) % 2
    assert same.mean() > 0.9


def test_zones_on_a_map_keep_their_neighbors() -> None:
    """Zones in a square lie on no line: a second direction tells those apart that the first one holds for alike."""
    rng, n, side = np.random.default_rng(0), 8000, 6
    names = [f"z{i}" for i in range(side * side)]
    schema = build_schema({
        "status": "declared",
        "columns": {name: {"kind": "categorical", "categories": names} for name in ("start", "end")},
    })  # fmt: skip
    start = rng.integers(0, side, (n, 2))
    end = np.clip(start + rng.integers(-1, 2, (n, 2)), 0, side - 1)
    words = np.array(names, dtype=object)[rng.permutation(side * side)]
    frame = pd.DataFrame({name: words[at @ [side, 1]] for name, at in (("start", start), ("end", end))})
    trees = fitted(frame, schema)
    assert trees.conditionals[1].places[0].shape[1] == 3
    made = decoded(trees, 8000)
    where = {word: np.array(divmod(at, side)) for at, word in enumerate(words)}
    steps = np.array([np.abs(where[a] - where[b]).max() for a, b in zip(made["start"], made["end"], strict=True)])
    assert (steps <= 1).mean() > 0.8


def test_a_column_follows_the_weekday_of_a_date() -> None:
    rng, n = np.random.default_rng(0), 4000
    day = pd.Timestamp("2023-01-02") + pd.to_timedelta(rng.integers(0, 100, n), unit="D")
    schema = build_schema({
        "status": "declared",
        "columns": {
            "day": {"kind": "date", "bounds": ["2023-01-01", "2023-12-31"]},
            "open": {"kind": "categorical", "categories": ["no", "yes"]},
        },
    })  # fmt: skip
    texts = np.array(["no", "yes"], dtype=object)
    frame = pd.DataFrame({"day": day, "open": texts[(day.weekday < 5) * 1]})
    made = decoded(fitted(frame, schema), 4000)
    assert ((made["day"].dt.weekday < 5) == (made["open"] == "yes")).mean() > 0.95
