"""The autoregressive network: what it learns of a known table, in both orders, and what it draws of it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch

from synth.errors import ModelError
from synth.progress import quiet
from tests.synth.neural.test_networks import put, spoilt
from understudy.extras.arn.network import (
    UNDRAWN,
    AutoregressiveNetwork,
    Order,
    draw,
    from_arrays,
    to_arrays,
    units_of,
)
from understudy.extras.arn.training import ArnSpec, fit_network, one_cycle

CPU = torch.device("cpu")
SIZES, LEADERS = (3, 4, 2, 5), (None, None, 1, None)
ORDERS: tuple[Order, ...] = ("fixed", "any")
SMALL: dict[str, Any] = {"d_state": 32, "d_hidden": 24, "batch_size": 128, "rate": 1e-2, "decay": 0.01}
N = 6_000
SLACK = 0.04
"""Total variation that 6,000 rows drawn from 6,000 may be off, by chance and by what is left to learn."""
Arrays = dict[str, np.ndarray]


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Products of this size only wait for each other on more, above all where tests run side by side."""
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(n_threads)


def table(n: int = N, seed: int = 0) -> np.ndarray:
    """The second column depends on the first, the third is a finer code of the second, the last is of the first two."""
    rng = np.random.default_rng(seed)
    first = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    second = (first + rng.choice(4, n, p=[0.7, 0.1, 0.1, 0.1])) % 4
    third = (rng.random(n) < np.array([0.9, 0.1, 0.5, 0.2])[second]).astype(int)
    last = np.where(rng.random(n) < 0.8, (2 * first + second) % 5, rng.integers(0, 5, n))
    return np.stack([first, second, third, last], 1).astype(np.int32)


def fit(order: Order, seed: int = 0, **settings: Any) -> AutoregressiveNetwork:
    spec = ArnSpec(**{"order": order, "epochs": 8 if order == "fixed" else 30, **SMALL, **settings})
    return fit_network(table(), SIZES, LEADERS, spec, CPU, seed, quiet)


@cache
def network(order: Order) -> AutoregressiveNetwork:
    return fit(order)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def rows(order: Order, n: int = N, seed: int = 0, known: Sequence[int] = (), **more: Any) -> np.ndarray:
    """Rows that hold 1 in the columns that are known."""
    asked = np.isin(np.arange(4), known)
    return draw(network(order), np.ones((n, 4), dtype=np.int32), asked, generator(seed), **more)[0]


def tvd(a: np.ndarray, b: np.ndarray, columns: Sequence[int]) -> float:
    sizes = [SIZES[column] for column in columns]
    shares = [
        np.bincount(np.ravel_multi_index(tuple(x[:, list(columns)].T), sizes), minlength=np.prod(sizes)) / len(x)
        for x in (a, b)
    ]
    return float(np.abs(shares[0] - shares[1]).sum() / 2)


@pytest.mark.statistical
@pytest.mark.parametrize("order", ORDERS)
def test_pairs_of_columns_are_learned(order: Order) -> None:
    drawn = rows(order)
    assert drawn.dtype == np.int32
    assert drawn.shape == (N, 4)
    for pair in combinations(range(4), 2):
        assert tvd(drawn, table(seed=1), pair) < SLACK + 0.01


@pytest.mark.parametrize("known", [(0,), (3,), (1, 2), (1, 2, 3)])
def test_any_condition_gives_the_conditional_distribution(known: tuple[int, ...]) -> None:
    drawn = rows("any", known=known)
    real = table(60_000, seed=1)
    real = real[(real[:, list(known)] == 1).all(1)]
    # Rare conditions are learned from few rows: their shares are off by a standard error.
    n_learned = (table()[:, list(known)] == 1).all(1).sum()
    assert (drawn[:, list(known)] == 1).all()
    for column in set(range(4)) - set(known):
        assert tvd(drawn, real, [column]) < SLACK + 0.02 + 0.3 / np.sqrt(n_learned)


@pytest.mark.parametrize("known", [(3,), (1, 3), (0, 2)])
def test_log_weights_make_a_fixed_order_answer_any_condition(known: tuple[int, ...]) -> None:
    asked = np.isin(np.arange(4), known)
    drawn, weights = draw(network("fixed"), np.ones((20_000, 4), dtype=np.int32), asked, generator())
    chosen = np.random.default_rng(0).choice(len(drawn), 20_000, p=np.exp(weights) / np.exp(weights).sum())
    real = table(60_000, seed=1)
    real = real[(real[:, list(known)] == 1).all(1)]
    for column in set(range(4)) - set(known):
        assert tvd(drawn[chosen], real, [column]) < SLACK + 0.02


def test_columns_known_first_and_networks_of_any_order_weigh_nothing() -> None:
    ones = np.ones((50, 4), dtype=np.int32)
    assert not draw(network("fixed"), ones, [True, True, False, False], generator())[1].any()
    assert not draw(network("any"), ones, [False, False, False, True], generator())[1].any()
    assert draw(network("fixed"), ones, [False, True, False, False], generator())[1].all()


def test_a_row_known_in_full_comes_back_as_it_is() -> None:
    for order in ORDERS:
        codes, weights = draw(network(order), table(30), [True] * 4, generator())
        np.testing.assert_array_equal(codes, table(30))
        assert not weights.any()


@pytest.mark.parametrize("order", ORDERS)
def test_codes_that_are_not_allowed_are_not_drawn(order: Order) -> None:
    drawn = rows(order, 2_000, allowed={1: np.array([False, True, True, False])})
    assert set(drawn[:, 1]) == {1, 2}


@pytest.mark.parametrize("order", ORDERS)
def test_a_mask_sees_the_codes_so_far_and_is_kept(order: Order) -> None:
    seen: dict[int, set[int]] = {}

    def mask(column: int, codes: np.ndarray) -> np.ndarray | None:
        seen[column] = {place for place in range(4) if (codes[:, place] != UNDRAWN).all()}
        assert (codes[:, sorted(set(range(4)) - seen[column])] == UNDRAWN).all()
        return None if column != 3 else np.arange(5) > codes[:, :1] + 1

    drawn = rows(order, 1_000, known=(1, 2), mask=mask)
    assert (drawn[:, 3] > drawn[:, 0] + 1).all()
    steps = {0: set(), 1: {0}, 2: {0, 1}, 3: {0, 1, 2}} if order == "fixed" else {0: {1, 2}, 3: {0, 1, 2}}
    assert seen == steps


def test_a_mask_that_leaves_nothing_gives_way_before_what_is_allowed_does() -> None:
    never = lambda column, codes: np.zeros((len(codes), SIZES[column]), dtype=bool)  # noqa: E731
    drawn = rows("any", 500, allowed={3: np.array([True, False, False, False, True])}, mask=never)
    assert set(drawn[:, 3]) == {0, 4}
    assert len(np.unique(drawn[:, 0])) == 3


def test_a_known_code_that_a_mask_excludes_weighs_minus_infinity() -> None:
    allowed = {3: np.array([True, False, True, True, True])}
    known = [False, False, False, True]
    weights = draw(network("fixed"), np.ones((20, 4), dtype=np.int32), known, generator(), allowed=allowed)[1]
    assert (weights == -np.inf).all()


def test_followers_come_directly_after_their_leaders_in_training() -> None:
    leaders = (None, None, 1, 0, 2)
    assert units_of(leaders) == (0, 1, 1, 0, 1)
    many = AutoregressiveNetwork((2,) * 5, leaders, "any", d_state=5)
    many.embeddings.data[1::2] = torch.eye(5)  # the state tells which columns are before
    torch.manual_seed(0)
    before = many.states(torch.ones(400, 5, dtype=torch.int64)).detach().transpose(0, 1).numpy().astype(bool)
    others = [place for place in range(5) if place not in (1, 2, 4)]
    assert before[:, 2, 1].all()
    assert before[:, 4, [1, 2]].all()
    assert before[:, 3, 0].all()
    assert not before[:, 1, [2, 4]].any()
    for follower in (2, 4):
        np.testing.assert_array_equal(before[:, follower][:, others], before[:, 1][:, others])
    assert 300 < before[:, 1, 0].sum() < 390  # by place it is before, and in a random order half the time
    assert 60 < before[:, 0, 1].sum() < 200
    assert (before.sum(2).max(1) == 4).all()  # a last column has all others before it


@pytest.mark.parametrize("order", ORDERS)
def test_the_same_seed_gives_the_same_rows_and_another_gives_others(order: Order) -> None:
    state = torch.get_rng_state()
    first, again, other = rows(order, 200), rows(order, 200), rows(order, 200, seed=1)
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    assert torch.equal(torch.get_rng_state(), state)


def test_the_same_seed_trains_the_same_network_and_leaves_torchs_own_generator_alone() -> None:
    state = torch.get_rng_state()
    first, again, other = (to_arrays(fit("any", seed, epochs=1)) for seed in (1, 1, 2))
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert not np.array_equal(first["heads"], other["heads"])
    assert torch.equal(torch.get_rng_state(), state)


def test_no_rows_are_no_rows() -> None:
    assert rows("fixed", 0).shape == rows("any", 0).shape == (0, 4)


@pytest.mark.parametrize("n", [1, 5, 130])
@pytest.mark.parametrize("order", ORDERS)
def test_small_and_wide_tables_train(order: Order, n: int) -> None:
    codes = np.random.default_rng(0).integers(0, 2, (n, 60))
    codes[:, 0] = 0
    spec = ArnSpec(order, epochs=1, d_state=8, d_hidden=4)
    made = fit_network(codes, [1] + [2] * 59, [None] * 60, spec, CPU, 0, quiet)
    assert not made.training
    assert draw(made, codes, [False] * 60, generator())[0].shape == (n, 60)


@pytest.mark.parametrize("order", ORDERS)
def test_a_network_comes_back_from_its_arrays_and_draws_the_same_rows(order: Order) -> None:
    arrays = to_arrays(network(order))
    state = torch.get_rng_state()
    after = from_arrays(arrays, SIZES, LEADERS, order)
    assert torch.equal(torch.get_rng_state(), state)
    drawn = draw(after, np.zeros((300, 4), dtype=np.int32), [False] * 4, generator())[0]
    np.testing.assert_array_equal(drawn, rows(order, 300))


DAMAGES: dict[str, Callable[[Arrays], None]] = {
    "nothing": lambda arrays: arrays.clear(),
    "no layers": lambda arrays: arrays.__delitem__("layers"),
    "no heads": lambda arrays: arrays.__delitem__("heads"),
    "an array too many": lambda arrays: arrays.update(rows=np.zeros(3, dtype=np.float32)),
    "layers of two dimensions": put("layers", lambda array: array[0]),
    "empty layers": put("layers", lambda array: array[:, :0]),
    "layers of fewer columns": put("layers", lambda array: array[1:]),
    "narrower embeddings": put("embeddings", lambda array: array[:, 1:]),
    "fewer embeddings": put("embeddings", lambda array: array[1:]),
    "heads turned over": put("heads", np.transpose),
    "wider biases": put("head_biases", lambda array: np.append(array, array)),
    "a number": put("biases", lambda _: np.float32(1)),
    "doubles": put("heads", lambda array: array.astype(np.float64)),
    "texts": put("heads", lambda array: array.astype(str)),
    "NaN": put("layers", spoilt(np.nan)),
    "infinity": put("embeddings", spoilt(np.inf)),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_arrays_are_refused(damage: str) -> None:
    arrays = to_arrays(network("any"))
    DAMAGES[damage](arrays)
    with pytest.raises(ValueError, match=r"network|damaged"):
        from_arrays(arrays, SIZES, LEADERS, "any")


def test_arrays_of_other_columns_are_refused() -> None:
    for sizes, leaders in [((3, 4, 2, 6), LEADERS), ((3, 4, 2), (None,) * 3)]:
        with pytest.raises(ValueError):
            from_arrays(to_arrays(network("any")), sizes, leaders, "any")
    with pytest.raises(ValueError, match="order"):
        from_arrays(to_arrays(network("any")), SIZES, LEADERS, "no order")  # type: ignore[arg-type]


def test_training_that_diverges_makes_no_network() -> None:
    with pytest.raises(ModelError, match="diverged"):
        fit("fixed", rate=1e30)


def test_codes_that_lie_beside_each_other_learn_from_each_other() -> None:
    rng = np.random.default_rng(0)
    place = rng.integers(0, 60, 1_500)
    codes = np.stack([place, (place + rng.integers(-3, 4, 1_500)).clip(0, 59)], 1)
    losses = []
    for n_curves in (0, 8):
        spec = ArnSpec(epochs=15, n_curves=n_curves, **SMALL)
        made = fit_network(codes[:1_000], (60, 60), (None, None), spec, CPU, 0, quiet)
        losses.append(float(made(torch.from_numpy(codes[1_000:])).mean()))
    assert losses[1] < losses[0] - 0.1


@pytest.mark.parametrize("order", ORDERS)
def test_fewer_rows_take_more_passes_and_a_heavier_decay(order: Order) -> None:
    specs = [ArnSpec.for_rows(n_rows, order) for n_rows in (1, 1_000, 10_000, 50_000, 1_000_000)]
    assert sorted(specs, key=lambda spec: -spec.epochs) == specs
    assert sorted(specs, key=lambda spec: -spec.decay) == specs
    assert specs[-1].epochs > 0
    assert ArnSpec.for_rows(1_000, order, epochs=3) == replace(specs[1], epochs=3)
    assert ArnSpec.for_rows(10_000, order, n_units=1_000) == replace(specs[2], decay=specs[1].decay)


@pytest.mark.statistical
@pytest.mark.parametrize("order", ORDERS)
def test_a_small_table_of_independent_columns_is_not_learned_by_heart(order: Order) -> None:
    codes = np.random.default_rng(0).integers(0, 10, (1_000, 8))
    made = fit_network(codes[:200], (10,) * 8, (None,) * 8, ArnSpec.for_rows(200, order), CPU, 0, quiet)
    own, other = (float(made(torch.from_numpy(part)).mean()) for part in (codes[:200], codes[200:]))
    entropy = 8 * np.log(10)
    assert other < 1.05 * entropy
    assert own > 0.8 * entropy


def test_the_learning_rate_rises_and_falls_in_one_cycle() -> None:
    rates = [one_cycle(share) for share in np.linspace(0, 1, 101)]
    assert max(rates) == pytest.approx(1)
    peak = int(np.argmax(rates))
    assert 0 < peak < 50
    assert (np.diff(rates[: peak + 1]) > 0).all()
    assert (np.diff(rates[peak:]) < 0).all()
    assert rates[-1] < rates[0] / 100


def test_a_loss_is_the_negative_log_likelihood_of_the_columns_in_turn() -> None:
    made = fit("fixed", epochs=1)
    codes = torch.from_numpy(table(40)).long()
    with torch.no_grad():
        losses = made(codes)
        expected, state = torch.zeros(40), torch.zeros(40, 32)
        for column in range(4):
            expected -= made.logits(column, state).log_softmax(1)[torch.arange(40), codes[:, column]]
            state = state + made.embeddings[made.rows_of(column)][codes[:, column]]
    torch.testing.assert_close(losses, expected)
