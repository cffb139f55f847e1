"""CTGAN under DP-SGD: what reaches the budget, and what is learned."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy import stats

from synth.neural.batches import UnitIndex
from synth.neural.dp_ctgan import PrivateCtganSpec, PrivateCtganTraining
from synth.neural.released import ReleasedConditions
from synth.transforms.layout import Encoded, Layout, Span
from tests.synth.neural.toy import CPU, LAYOUT, ONE_WAY, Purse, draws_of, flat_state, sum_of, training, units, without

CASES = [(k, steep, most) for k in (1, 3) for steep in (1.0, 30.0) for most in (8192, 6)]


@pytest.mark.parametrize(("k", "steepness", "max_rows"), CASES)
def test_a_unit_moves_the_sum_by_no_more_than_the_bound(k: int, steepness: float, max_rows: int) -> None:
    table = units(k)
    everyone = list(range(len(table)))
    whole = sum_of("ctgan", table, everyone, steepness, max_rows=max_rows)
    for gone in (0, 7, 29):
        others = sum_of("ctgan", without(table, gone), everyone, steepness, max_rows=max_rows)
        assert 0 < np.linalg.norm(whole - others) <= 1.0 + 1e-5


@pytest.mark.parametrize("k", [1, 3])
def test_overflow_changes_the_passes_and_not_the_sum(k: int) -> None:
    everyone = range(30)
    one_pass = sum_of("ctgan", units(k), everyone, max_rows=90)
    for max_rows in (3, 12, 31):  # the number of fakes is bounded by it, too, but they are no part of the sum
        found = sum_of("ctgan", units(k), everyone, max_rows=max_rows)
        assert found.shape == one_pass.shape
        if max_rows > 8:
            np.testing.assert_allclose(found, one_pass, rtol=0, atol=1e-5)


def test_opacus_hands_over_the_same_sum() -> None:
    for k in (1, 3):
        exact, theirs = (sum_of("ctgan", units(k), range(20), backend=backend) for backend in ("exact", "opacus"))
        assert np.linalg.norm(exact - theirs) <= 1e-5 * np.linalg.norm(exact)


def test_a_state_that_is_loaded_goes_on_as_the_first_would_have() -> None:
    first = training("ctgan", units())
    purse = Purse([range(10)])
    for _ in range(3):
        first.step(purse)
    second = training("ctgan", units())
    second.load(first.state())
    for trained in (first, second):
        torch.manual_seed(5)
        draws_of(trained).manual_seed(5)
        trained.step(purse)
    assert (flat_state(first) == flat_state(second)).all()


def test_the_generator_is_trained_once_in_so_many_critic_steps_and_averaged() -> None:
    trained = training("ctgan", units(), critic_steps=3)
    assert isinstance(trained, PrivateCtganTraining)
    weights = []
    for _ in range(6):
        trained.step(Purse([range(10)]))
        weights.append((trained.maker.network.output.weight.clone(), trained.generator.output.weight.clone()))
    moved = [bool((a[0] != b[0]).any()) for a, b in pairwise(weights)]
    assert moved == [False, True, False, False, True]
    before, after = weights[4], weights[5]
    torch.testing.assert_close(after[1], torch.lerp(before[1], after[0], 0.02))


def test_rates_fall_along_a_schedule_fixed_in_advance() -> None:
    trained = training("ctgan", units())
    assert isinstance(trained, PrivateCtganTraining)
    rates = []
    for _ in range(40):
        trained.step(Purse([[]]))
        rates.append(trained.critic._adam.param_groups[0]["lr"])
    assert rates[0] == PrivateCtganSpec().critic_rate
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] < 0.05 * rates[0]


def test_conditions_follow_the_released_shares_and_never_name_a_code_without_one() -> None:
    torch.manual_seed(0)
    hot, column, chosen = ReleasedConditions(ONE_WAY, LAYOUT, CPU).draw(20_000)
    assert (hot.sum(1) == 1).all()
    assert (hot.argmax(1) == chosen).all()
    counts = np.bincount(chosen.numpy(), minlength=9)
    assert counts[4] == 0  # its noisy count is below 0
    assert stats.chisquare(np.bincount(column.numpy())).pvalue > 1e-7
    for start, released in zip((0, 4, 7), ONE_WAY, strict=True):
        kept = np.maximum(released, 0) > 0
        drawn = counts[start : start + len(released)][kept]
        assert stats.chisquare(drawn, drawn.sum() * released[kept] / released[kept].sum()).pvalue > 1e-7


def test_the_condition_of_a_row_is_its_own_value() -> None:
    conditions = ReleasedConditions(ONE_WAY, LAYOUT, CPU)
    codes = torch.tensor([[3, 1, 0], [0, 2, 1]])
    found = conditions.of_rows(codes, torch.tensor([0, 2])).argmax(1)
    assert found.tolist() == [3, 8]


def test_two_columns_that_agree_agree_in_what_is_drawn() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2, 400)
    table = UnitIndex.of(Encoded(np.stack([x, x], axis=1).astype(np.int32), np.zeros((400, 0), dtype=np.float32)))
    layout = Layout((Span("x", 2, True), Span("y", 2, True)))
    torch.manual_seed(0)
    spec = PrivateCtganSpec(d_latent=4, generator_widths=(32, 32), critic_widths=(32, 32), ema=0.9)
    trained = PrivateCtganTraining(spec, table, layout, [np.ones(2), np.ones(2)], 100.0, 300, CPU)
    purse = Purse([np.flatnonzero(rng.random(400) < 0.25).tolist() for _ in range(300)])
    for _ in range(300):
        trained.step(purse)
    condition, _, _ = trained.conditions.draw(1000)
    drawn = trained.maker.spans.draw(trained.generator(torch.cat([torch.randn(1000, 4), condition], 1)))
    assert (drawn[:, 0] == drawn[:, 1]).float().mean() > 0.9
