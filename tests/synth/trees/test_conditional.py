"""One column given others: draws follow the table of chances, ranks follow the features, damage is refused."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr
from threadpoolctl import threadpool_limits

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

GROWTH = Growth(160, 20)
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
    return TrainingColumn(rows, {1: 4}, codes.astype(np.int32), size, scores, ranks, np.ones(n))


def fitted(column: TrainingColumn, growth: Growth = GROWTH) -> Conditional:
    with threadpool_limits(1):
        return fit_conditional(column, growth, np.random.default_rng(1))


@pytest.fixture(scope="module")
def plain() -> Conditional:
    return fitted(learned(12_000), Growth(400, 20))


@pytest.fixture(scope="module")
def number() -> Conditional:
    """More codes than a number may have without a stack, and ranks within them."""
    return fitted(learned(size=20, refined=True))


@pytest.fixture(scope="module")
def marginal() -> Conditional:
    return fitted(learned(30))


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


def test_a_smallest_leaf_of_more_units_tells_fewer_rows_apart() -> None:
    column = learned(4000, refined=True)
    fine, coarse = (fitted(column, Growth(10, leaf)).refinement for leaf in (20, 400))
    assert fine is not None
    assert coarse is not None
    leaves = coarse.tree.leaves(np.column_stack([column.rows, column.codes]).astype(np.float32))
    assert np.bincount(leaves).min() >= 400
    assert fine.tree.n_leaves > coarse.tree.n_leaves > 1


def test_categories_stand_in_the_order_of_the_values_that_go_with_them() -> None:
    places = fitted(learned(ordered=True), Growth(10, 20)).places[1]
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
