"""CTGAN: its training, its conditional sampler, and its gradients with differential privacy."""

import inspect
from collections.abc import Iterator
from dataclasses import asdict, replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from ctgan import CTGAN
from ctgan.data_transformer import SpanInfo
from ctgan.synthesizers.ctgan import Discriminator
from scipy import stats
from scipy.stats import chisquare
from torch import Tensor, nn

from synth.errors import JobError, ModelError
from synth.neural.batches import UnitIndex
from synth.neural.ctgan import ConditionIndex, CtganSpec, CtganTraining, kept_share
from synth.neural.dp_ctgan import PrivateCtganSpec, PrivateCtganTraining
from synth.neural.networks import GeneratorNetwork
from synth.neural.released import ReleasedConditions
from synth.transforms.layout import Encoded, Layout, Span
from tests.synth.neural import toy
from tests.synth.neural.toy import CPU, LAYOUT, MIXED, ONE_WAY, WAITS, Purse, Recorded, sum_of, training, units

CLOSE = {"atol": 1e-6, "rtol": 1e-6}
SMALL = CtganSpec(d_latent=8, generator_widths=(16, 16), critic_widths=(16, 16), batch_size=20, pac=5)


def _training(layout: Layout = MIXED, n: int = 100, spec: CtganSpec = SMALL, seed: int = 0) -> CtganTraining:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return CtganTraining(spec, toy.rows_of(layout, n), layout, CPU)


def test_the_settings_are_the_librarys() -> None:
    theirs = {name: item.default for name, item in inspect.signature(CTGAN).parameters.items()}
    spec = CtganSpec()
    assert (spec.d_latent, spec.batch_size, spec.pac) == (theirs["embedding_dim"], theirs["batch_size"], theirs["pac"])
    assert spec.generator_widths == theirs["generator_dim"]
    assert spec.critic_widths == theirs["discriminator_dim"]
    assert (spec.generator_rate, spec.critic_rate) == (theirs["generator_lr"], theirs["discriminator_lr"])
    assert spec.decay == theirs["generator_decay"] == theirs["discriminator_decay"]
    assert spec.critic_steps == theirs["discriminator_steps"]


@pytest.mark.parametrize(("batch_size", "pac"), [(500, 7), (1, 1), (0, 1), (10, 0), (10, 20)])
def test_a_batch_that_is_no_whole_number_of_packs_is_refused(batch_size: int, pac: int) -> None:
    with pytest.raises(JobError, match=f"batch_size={batch_size}, pac={pac}; give a batch_size that"):
        CtganSpec(batch_size=batch_size, pac=pac)


def test_a_critic_without_a_step_is_refused() -> None:
    with pytest.raises(JobError, match="critic_steps=0; give at least 1"):
        CtganSpec(critic_steps=0)


@pytest.mark.parametrize("exponent", [-0.5, float("nan")])
def test_an_average_that_forgets_the_last_generators_is_refused(exponent: float) -> None:
    with pytest.raises(JobError, match=f"average_exponent={exponent:g}; give at least 0"):
        CtganSpec(average_exponent=exponent)


def test_the_condition_loss_is_the_librarys() -> None:
    training = _training()
    conditions, column = training.conditions.draw(20)
    ours_of = torch.randn(20, MIXED.width).requires_grad_()
    theirs = CTGAN()
    one_column = lambda size: [SpanInfo(size, "softmax")]  # noqa: E731
    infos = [one_column(3), [SpanInfo(1, "tanh"), SpanInfo(4, "softmax")], one_column(2)]
    theirs._transformer = SimpleNamespace(output_info_list=infos)
    hot, mask = training.conditions.one_hot(conditions), nn.functional.one_hot(column, 2)
    # Theirs has a column's scalar before its modes, ours has all scalars last.
    expected = theirs._cond_loss(ours_of[:, [0, 1, 2, 9, 3, 4, 5, 6, 7, 8]], hot, mask)
    found = training.condition_loss(ours_of, conditions)
    torch.testing.assert_close(found, expected, **CLOSE)
    torch.testing.assert_close(torch.autograd.grad(found, ours_of), torch.autograd.grad(expected, ours_of), **CLOSE)


def test_the_critics_loss_and_its_gradients_are_the_librarys_without_dropout() -> None:
    training = _training()
    critic = training.critic.double().eval()
    width = MIXED.width + training.conditions.width
    theirs = Discriminator(width, SMALL.critic_widths, SMALL.pac).double().eval()
    layers = [layer for layer in theirs.seq if isinstance(layer, nn.Linear)]
    for mine, yours in zip(critic.layers, layers, strict=True):
        yours.load_state_dict(mine.state_dict())
    fake, real = torch.rand(2, 20, width, dtype=torch.float64)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        penalty = theirs.calc_gradient_penalty(real, fake.clone().requires_grad_(), "cpu", SMALL.pac, SMALL.penalty)
        torch.manual_seed(0)
        shares = torch.rand(20 // SMALL.pac, 1).double()
    expected = -(theirs(real).mean() - theirs(fake).mean())
    loss, penalized = training.penalized(torch.cat([fake, real]), shares)
    torch.testing.assert_close((loss, penalized), (expected, expected + penalty), **CLOSE)
    found = torch.autograd.grad(penalized, [layer.weight for layer in critic.layers])
    torch.testing.assert_close(
        found, torch.autograd.grad(expected + penalty, [layer.weight for layer in layers]), **CLOSE
    )


@pytest.mark.parametrize("name", toy.LAYOUTS)
@pytest.mark.parametrize("n", [1, 7, 100])
def test_any_table_trains(name: str, n: int) -> None:
    training = _training(toy.LAYOUTS[name], n)
    before = [weight.clone() for weight in (*training.generator.parameters(), *training.critic.parameters())]
    losses = toy.seeded_steps(training, 3)
    after = [*training.generator.parameters(), *training.critic.parameters()]
    assert all(loss.isfinite() for step in losses for loss in step.values())
    assert all(weight.isfinite().all() for weight in after)
    assert sum(not torch.equal(a, b) for a, b in zip(before, after, strict=True)) > len(after) // 2
    assert training.n_steps_per_epoch == max(n // 20, 1)


def test_losses_are_detached_numbers_of_critic_and_generator() -> None:
    (losses,) = toy.seeded_steps(_training(), 1)
    assert set(losses) == {"critic", "generator"}
    assert all(loss.ndim == 0 and not loss.requires_grad for loss in losses.values())


def test_training_goes_on_bit_for_bit_from_a_state() -> None:
    training, other = _training(), _training(seed=5)
    toy.seeded_steps(training, 4)
    state = training.state()
    expected = toy.seeded_steps(training, 4, seed=3)
    # The state is a copy: neither training on nor another training that loads it changes it.
    for _ in range(2):
        other.load(state)
        assert toy.seeded_steps(other, 4, seed=3) == expected
    _same(training.state(), other.state())


def _same(a: Any, b: Any) -> None:
    if isinstance(a, dict):
        assert a.keys() == b.keys()
        for key in a:
            _same(a[key], b[key])
    else:
        assert torch.equal(a, b) if isinstance(a, Tensor) else a == b


def test_a_state_without_an_average_is_refused_and_changes_nothing() -> None:
    training, other = _training(), _training(seed=5)
    earlier = {name: part for name, part in training.state().items() if name not in ("average", "n_done")}
    before = other.state()
    with pytest.raises(ModelError, match="earlier version; remove it"):
        other.load(earlier)
    _same(other.state(), before)


def test_the_average_weighs_every_generator_by_its_step() -> None:
    training, exponent, n = _training(), SMALL.average_exponent, 12
    on_the_way = []
    for step in range(n):
        toy.seeded_steps(training, 1, seed=step)
        on_the_way.append({name: weight.detach().double() for name, weight in _state(training.generator).items()})
    ends = (np.arange(n + 1) / n) ** (exponent + 1)
    for name, weight in _state(training.average).items():
        expected = sum(share * one[name] for share, one in zip(np.diff(ends), on_the_way, strict=True))
        torch.testing.assert_close(weight.double(), expected, **CLOSE)
    assert not torch.equal(training.average.output.weight, training.generator.output.weight)


def _state(network: nn.Module) -> dict[str, Tensor]:
    """A copy of weights and statistics, but for counters."""
    return {name: value.clone() for name, value in network.state_dict().items() if value.is_floating_point()}


def test_the_average_reaches_back_over_a_share_of_all_steps() -> None:
    for n in (100, 10_000):
        shares = np.cumprod([kept_share(step, 17.0) for step in range(n, 0, -1)])
        ago = (np.r_[1.0, shares[:-1]] - shares) @ np.arange(n) / n
        assert ago == pytest.approx(1 / 19, abs=2 / n)


@pytest.mark.parametrize("name", ["mixed", "scalars in every column"])
def test_rows_are_drawn_from_the_average_with_statistics_of_its_own(name: str) -> None:
    training = _training(toy.LAYOUTS[name], spec=replace(SMALL, batch_size=500))
    toy.seeded_steps(training, 5)
    before = training.state()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        made = training.sampled_generator()
        with torch.no_grad():
            rows = torch.cat([training._inputs(training._conditions()[1]) for _ in range(40)])
            inner = [norm(layer(part)) for layer, norm, part in _hidden(made, rows)]
    _same(training.state(), before)
    assert not any(module.training for module in made.modules())
    for weight, averaged, last in zip(
        made.parameters(), training.average.parameters(), training.generator.parameters(), strict=True
    ):
        assert torch.equal(weight, averaged)
        assert not torch.equal(weight, last)
    for values, norm in zip(inner, made.norms, strict=True):
        standard = (values - norm.bias) / norm.weight
        # Means and deviations of 50,000 rows against those of 20,000: four standard errors are .034 and .024.
        torch.testing.assert_close(standard.mean(0), torch.zeros(16), atol=0.04, rtol=0)
        torch.testing.assert_close(standard.std(0), torch.ones(16), atol=0.04, rtol=0)


def _hidden(network: GeneratorNetwork, rows: Tensor) -> Iterator[tuple[nn.Module, nn.Module, Tensor]]:
    """Each layer, its norm, and what comes to it."""
    for layer, norm in zip(network.layers, network.norms, strict=True):
        yield layer, norm, rows
        rows = torch.cat([torch.relu(norm(layer(rows))), rows], 1)


def test_the_critic_takes_as_many_steps_as_the_spec_says() -> None:
    training = _training(spec=replace(SMALL, critic_steps=3))
    toy.seeded_steps(training, 2)
    taken = {name: training.state()[name]["state"][0]["step"].item() for name in ("critic_adam", "generator_adam")}
    assert taken == {"critic_adam": 6, "generator_adam": 2}


def test_a_step_of_the_generator_leaves_the_critic_no_gradient_of_its_own() -> None:
    training = _training()
    training._generator_step()
    assert all(weight.grad is None for weight in training.critic.parameters())


@pytest.mark.parametrize("name", ["mixed", "scalars in every column", "no scalars"])
def test_every_step_runs_the_same_operations_on_the_same_shapes_and_waits_for_none(name: str) -> None:
    training = _training(toy.LAYOUTS[name])
    toy.seeded_steps(training, 1)  # the optimizers make their state
    runs = []
    for _ in range(3):
        with Recorded() as recorded:
            training.step()
        runs.append(recorded.ran)
    assert runs[0] == runs[1] == runs[2]
    assert not WAITS & {name for name, _ in runs[0]}


def test_products_in_bfloat16_change_losses_by_their_rounding_alone_and_weights_stay_float32() -> None:
    half = _training(spec=replace(SMALL, precision="bfloat16"))
    (exact,), (rounded,) = toy.seeded_steps(_training(), 1), toy.seeded_steps(half, 1)
    for name in exact:
        # Eight bits of a factor: scores of about 1 and less differ in the third digit, but do differ.
        assert rounded[name].item() == pytest.approx(exact[name].item(), abs=0.02)
    assert rounded != exact
    assert all(loss.dtype == torch.float32 for loss in rounded.values())
    weights = [*half.generator.parameters(), *half.critic.parameters()]
    assert all(weight.dtype == torch.float32 for weight in weights)


@pytest.mark.statistical
def test_a_dependence_between_two_columns_is_learned() -> None:
    rng = np.random.default_rng(0)
    codes = np.repeat(rng.choice(3, (2000, 1), p=[0.5, 0.3, 0.2]), 2, axis=1).astype(np.int32)
    layout = Layout((Span("a", 3, whole=True), Span("same", 3, whole=True)))
    spec = CtganSpec(8, (32,), (32,), 4e-3, 4e-3, batch_size=200, pac=4)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        training = CtganTraining(spec, Encoded(codes, np.zeros((2000, 0), np.float32)), layout, CPU)
        for _ in range(250):
            training.step()
        with torch.no_grad():
            logits = training._logits(training._conditions()[1])
        drawn = training.rows.spans.draw(logits)
    # A third would agree by chance, and so do they before training.
    assert (drawn[:, 0] == drawn[:, 1]).float().mean() > 0.9
    assert len(drawn.unique()) == 3


def test_a_spec_is_plain_data() -> None:
    assert CtganSpec(**asdict(SMALL)) == SMALL


SAMPLED = Layout((Span("a", 4, whole=True), Span("number", 3, whole=False), Span("b", 3, whole=True)), ("number",))
FALSE_ALARM = 1e-5
"""Of each chi-square test below; seeds are fixed."""
N_DRAWS = 40_000


def _rare(n: int = 300) -> Encoded:
    """Code 2 of `a` and the last of `b` never occur; the first of `b` does once, in row 17."""
    rng = np.random.default_rng(0)
    a = rng.choice([0, 1, 3], n, p=[0.9, 0.08, 0.02])
    b = np.ones(n, dtype=np.int64)
    b[17] = 0
    codes = np.stack([a, rng.integers(0, 3, n), b], 1).astype(np.int32)
    return Encoded(codes, np.zeros((n, 1), np.float32))


@pytest.fixture
def conditions() -> ConditionIndex:
    return ConditionIndex.of(_rare(), SAMPLED, CPU)


def _drawn(conditions: ConditionIndex, n: int = N_DRAWS) -> tuple[Tensor, Tensor]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return conditions.draw(n)


def test_conditions_name_the_codes_of_whole_spans_only(conditions: ConditionIndex) -> None:
    assert conditions.width == 7
    assert conditions.spans.tolist() == [0, 2]
    assert conditions.span_of.tolist() == [0, 0, 0, 0, 2, 2, 2]
    assert conditions.place_of.tolist() == [0, 1, 2, 3, 7, 8, 9]


def test_columns_are_drawn_evenly_and_codes_by_the_logarithm_of_how_often_they_occur(
    conditions: ConditionIndex,
) -> None:
    drawn, column = _drawn(conditions)
    weights = torch.log1p(conditions.n_rows.double())
    shares = torch.cat([part / part.sum() / 2 for part in weights.split([4, 3])])
    found = torch.bincount(drawn, minlength=7)
    assert found[shares == 0].sum() == 0
    assert chisquare(found[shares > 0], (shares * N_DRAWS)[shares > 0]).pvalue > FALSE_ALARM
    assert torch.equal(conditions.spans[column], conditions.span_of[drawn])


@pytest.mark.parametrize("share", [0.0, 1 - 2.0**-53])
def test_no_code_that_never_occurs_is_asked_for_at_either_end(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    conditions = ConditionIndex.of(_rare(), SAMPLED, CPU)
    monkeypatch.setattr(torch, "rand", lambda n, **like: torch.full((n,), share, **like))
    drawn, column = conditions.draw(100)
    assert set(column.tolist()) == {0, 1}
    assert torch.equal(conditions.spans[column], conditions.span_of[drawn])
    assert (conditions.n_rows[drawn] > 0).all()
    rows = conditions.matching(drawn)
    assert ((rows >= 0) & (rows < 300)).all()


def test_rows_meet_what_was_asked_of_them(conditions: ConditionIndex) -> None:
    table, (drawn, _) = _rare(), _drawn(conditions)
    rows = conditions.matching(drawn)
    found = torch.from_numpy(table.codes)[rows].gather(1, conditions.span_of[drawn][:, None]).squeeze(1)
    offsets = torch.from_numpy(SAMPLED.offsets)[conditions.span_of[drawn]]
    assert torch.equal(found + offsets, conditions.place_of[drawn])


@pytest.mark.parametrize("condition", [0, 1, 3, 5])
def test_every_row_that_meets_a_condition_is_as_likely(condition: int, conditions: ConditionIndex) -> None:
    place = int(conditions.place_of[condition])
    span = int(conditions.span_of[condition])
    meet = np.flatnonzero(_rare().codes[:, span] == place - SAMPLED.offsets[span])
    with torch.random.fork_rng():
        torch.manual_seed(1)
        rows = conditions.matching(torch.full((N_DRAWS,), condition))
    found = np.bincount(rows.numpy(), minlength=300)
    assert found.sum() == found[meet].sum()
    assert chisquare(found[meet]).pvalue > FALSE_ALARM


def test_the_one_row_of_a_rare_code_always_answers_for_it(conditions: ConditionIndex) -> None:
    assert conditions.matching(torch.full((50,), 4)).unique().tolist() == [17]


def test_one_hot_rows_say_their_conditions(conditions: ConditionIndex) -> None:
    hot = conditions.one_hot(torch.arange(7))
    assert torch.equal(hot, torch.eye(7))


def test_a_table_without_whole_spans_has_no_conditions() -> None:
    layout = Layout((Span("number", 3, whole=False),), ("number",))
    encoded = Encoded(np.zeros((5, 1), np.int32), np.zeros((5, 1), np.float32))
    conditions = ConditionIndex.of(encoded, layout, CPU)
    assert conditions.width == 0
    assert len(conditions.rows) == 0


def test_a_column_of_one_code_always_asks_for_it() -> None:
    layout = Layout((Span("only", 1, whole=True),))
    conditions = ConditionIndex.of(Encoded(np.zeros((5, 1), np.int32), np.zeros((5, 0), np.float32)), layout, CPU)
    assert conditions.draw(20)[0].unique().tolist() == [0]
    assert set(conditions.matching(torch.zeros(200, dtype=torch.int64)).tolist()) == set(range(5))


@pytest.mark.parametrize("at_once", [1, 7, 100, 300, 1000])
def test_rows_are_sorted_alike_however_many_at_once(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("synth.neural.ctgan.SORTED_ROWS", at_once)
    found = ConditionIndex.of(_rare(), SAMPLED, CPU)
    expected = [np.argsort(_rare().codes[:, index], kind="stable") for index in SAMPLED.whole]
    assert found.rows.tolist() == np.concatenate(expected).tolist()
    counts = [np.bincount(_rare().codes[:, index], minlength=SAMPLED.sizes[index]) for index in SAMPLED.whole]
    assert found.n_rows.tolist() == np.concatenate(counts).tolist()


@pytest.mark.parametrize("k", [1, 3])
def test_overflow_changes_the_passes_and_not_the_sum(k: int) -> None:
    everyone = range(30)
    one_pass = sum_of("ctgan", units(k), everyone, max_rows=90)
    for max_rows in (3, 12, 31):  # the number of fakes is bounded by it, too, but they are no part of the sum
        found = sum_of("ctgan", units(k), everyone, max_rows=max_rows)
        assert found.shape == one_pass.shape
        if max_rows > 8:
            np.testing.assert_allclose(found, one_pass, rtol=0, atol=1e-5)


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
