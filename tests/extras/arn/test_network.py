"""The autoregressive network: what it learns of a known table, in both orders, and what it draws of it."""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from synth.errors import ModelError
from synth.generators.models.fitted import AutoregressiveModel
from synth.generators.models.given import GIVEN
from synth.progress import quiet
from tests.synth.generators.chain import CHAIN, chain
from understudy.extras.arn.generator import Arn, ArnDistribution, RankLevels
from understudy.extras.arn.network import UNDRAWN, ArnSpec, AutoregressiveNetwork, Order, draw, fit_network

CPU = torch.device("cpu")
SIZES, LEADERS = (3, 4, 2, 5), (None, None, 1, None)
ORDERS: tuple[Order, ...] = ("fixed", "any")
SMALL: dict[str, Any] = {"d_state": 32, "d_hidden": 24, "batch_size": 128, "rate": 1e-2, "decay": 0.01}
N = 6_000
SLACK = 0.04  # total variation that 6,000 rows drawn from 6,000 may be off


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
    spec = ArnSpec(**{"order": order, "epochs": 8 if order == "fixed" else 20, **SMALL, **settings})
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


@pytest.mark.parametrize("known", [(0,), (1, 2), (1, 2, 3)])
def test_any_condition_gives_the_conditional_distribution(known: tuple[int, ...]) -> None:
    drawn = rows("any", known=known)
    real = table(60_000, seed=1)
    real = real[(real[:, list(known)] == 1).all(1)]
    # Rare conditions are learned from few rows: their shares are off by a standard error.
    n_learned = (table()[:, list(known)] == 1).all(1).sum()
    assert (drawn[:, list(known)] == 1).all()
    for column in set(range(4)) - set(known):
        assert tvd(drawn, real, [column]) < SLACK + 0.02 + 0.3 / np.sqrt(n_learned)


@pytest.mark.parametrize("known", [(3,), (0, 2)])
def test_log_weights_make_a_fixed_order_answer_any_condition(known: tuple[int, ...]) -> None:
    asked = np.isin(np.arange(4), known)
    drawn, weights = draw(network("fixed"), np.ones((20_000, 4), dtype=np.int32), asked, generator())
    chosen = np.random.default_rng(0).choice(len(drawn), 20_000, p=np.exp(weights) / np.exp(weights).sum())
    real = table(60_000, seed=1)
    real = real[(real[:, list(known)] == 1).all(1)]
    for column in set(range(4)) - set(known):
        assert tvd(drawn[chosen], real, [column]) < SLACK + 0.02


@pytest.mark.parametrize("order", ORDERS)
def test_a_mask_sees_the_codes_so_far_and_is_kept(order: Order) -> None:
    seen: dict[int, set[int]] = {}

    def mask(column: int, codes: np.ndarray) -> np.ndarray | None:
        seen[column] = {column for column in range(4) if (codes[:, column] != UNDRAWN).all()}
        assert (codes[:, sorted(set(range(4)) - seen[column])] == UNDRAWN).all()
        return None if column != 3 else np.arange(5) > codes[:, :1] + 1

    drawn = rows(order, 1_000, known=(1, 2), mask=mask)
    assert (drawn[:, 3] > drawn[:, 0] + 1).all()
    steps = {0: set(), 1: {0}, 2: {0, 1}, 3: {0, 1, 2}} if order == "fixed" else {0: {1, 2}, 3: {0, 1, 2}}
    assert seen == steps


def test_training_that_diverges_makes_no_network() -> None:
    with pytest.raises(ModelError, match="diverged"):
        fit("fixed", rate=1e30)


@pytest.mark.statistical
@pytest.mark.parametrize("order", ORDERS)
def test_a_small_table_of_independent_columns_is_not_learned_by_heart(order: Order) -> None:
    codes = np.random.default_rng(0).integers(0, 10, (1_000, 8))
    fitted = fit_network(codes[:200], (10,) * 8, (None,) * 8, ArnSpec.for_rows(200, order), CPU, 0, quiet)
    own, other = (float(fitted(torch.from_numpy(part)).mean()) for part in (codes[:200], codes[200:]))
    entropy = 8 * np.log(10)
    assert other < 1.05 * entropy
    assert own > 0.8 * entropy


def test_a_loss_is_the_negative_log_likelihood_of_the_columns_in_turn() -> None:
    fitted = fit("fixed", epochs=1)
    codes = torch.from_numpy(table(40)).long()
    with torch.no_grad():
        losses = fitted(codes)
        expected, state = torch.zeros(40), torch.zeros(40, 32)
        for column in range(4):
            expected -= fitted.logits(column, state).log_softmax(1)[torch.arange(40), codes[:, column]]
            state = state + fitted.embeddings[fitted.rows_of(column)][codes[:, column]]
    torch.testing.assert_close(losses, expected)


@pytest.fixture(scope="module")
def fixed() -> AutoregressiveModel:
    return Arn(order="fixed", epochs=12).fit(chain(), CHAIN, seed=0)


def distribution_of(model: AutoregressiveModel) -> ArnDistribution:
    assert isinstance(model.distribution, ArnDistribution)
    return model.distribution


def test_a_fixed_order_weighs_rows_where_what_is_given_does_not_come_first(fixed: AutoregressiveModel) -> None:
    assert fixed.sample(100, seed=1, given={"first": "b"}).attrs[GIVEN] == "exact"
    drawn = fixed.sample(2_000, seed=1, given={"last": "y"})
    assert drawn.attrs[GIVEN] == "weights"
    assert (drawn["last"] == "y").all()
    real = chain(100_000, seed=3).query("last == 'y'")
    assert (drawn["first"] == "b").mean() == pytest.approx((real["first"] == "b").mean(), abs=0.05)


@pytest.mark.parametrize("n_levels", [1, 12])
def test_levels_of_ranks_keep_the_mass_of_cells(fixed: AutoregressiveModel, n_levels: int) -> None:
    distribution = distribution_of(fixed)
    attribute = distribution.discretizer.attributes[1]
    levels, rng = RankLevels(attribute, n_levels), np.random.default_rng(0)
    n = 200_000
    cells = rng.choice(attribute.n_cells, n, p=attribute.mass / attribute.mass.sum())
    codes, ranks = attribute.group[cells].astype(np.int32), attribute.middle_ranks[cells]
    expected = levels.of(codes, ranks)
    assert levels.is_open[codes, expected].all()
    drawn = levels.draw(codes, expected.astype(np.int32), rng)
    np.testing.assert_array_equal(levels.of(codes, drawn), expected)
    counts = [np.bincount(each, minlength=attribute.n_cells) for each in (cells, attribute.ranked(codes, drawn))]
    assert (np.abs(counts[0] - counts[1]) <= 6 * np.sqrt(counts[0] + 1)).all()
