"""A step of CTGAN: the library's losses, tables at the edges, and a step that never waits for its device."""

import inspect
from collections.abc import Iterator
from dataclasses import asdict, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from ctgan import CTGAN
from ctgan.data_transformer import SpanInfo
from ctgan.synthesizers.ctgan import Discriminator
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from synth.errors import JobError, ModelError
from synth.neural.ctgan import CtganSpec, CtganTraining, kept_share
from synth.neural.networks import GeneratorNetwork
from synth.transforms.layout import Encoded, Layout, Span

CPU = torch.device("cpu")
CLOSE = {"atol": 1e-6, "rtol": 1e-6}
SMALL = CtganSpec(d_latent=8, generator_widths=(16, 16), critic_widths=(16, 16), batch_size=20, pac=5)
MIXED = Layout((Span("a", 3, whole=True), Span("x", 4, whole=False), Span("b", 2, whole=True)), ("x",))
LAYOUTS = {
    "mixed": MIXED,
    "no column to ask by": Layout((Span("x", 4, whole=False), Span("y", 1, whole=False)), ("x", "y")),
    "no scalars": Layout((Span("a", 3, whole=True), Span("b", 2, whole=True))),
    "one column of categories": Layout((Span("a", 3, whole=True),)),
    "one column of one category": Layout((Span("a", 1, whole=True),)),
    "one column of numbers": Layout((Span("x", 1, whole=False),), ("x",)),
}


def _table(layout: Layout, n: int = 100) -> Encoded:
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(0, size, n) for size in layout.sizes], 1).astype(np.int32)
    return Encoded(codes, rng.uniform(-1, 1, (n, len(layout.scalars))).astype(np.float32))


def _training(layout: Layout = MIXED, n: int = 100, spec: CtganSpec = SMALL, seed: int = 0) -> CtganTraining:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return CtganTraining(spec, _table(layout, n), layout, CPU)


def _steps(training: CtganTraining, n: int, seed: int = 1) -> list[dict[str, Tensor]]:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return [training.step() for _ in range(n)]


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


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("n", [1, 7, 100])
def test_any_table_trains(name: str, n: int) -> None:
    training = _training(LAYOUTS[name], n)
    before = [weight.clone() for weight in (*training.generator.parameters(), *training.critic.parameters())]
    losses = _steps(training, 3)
    after = [*training.generator.parameters(), *training.critic.parameters()]
    assert all(loss.isfinite() for step in losses for loss in step.values())
    assert all(weight.isfinite().all() for weight in after)
    assert sum(not torch.equal(a, b) for a, b in zip(before, after, strict=True)) > len(after) // 2
    assert training.n_steps_per_epoch == max(n // 20, 1)


def test_losses_are_detached_numbers_of_critic_and_generator() -> None:
    (losses,) = _steps(_training(), 1)
    assert set(losses) == {"critic", "generator"}
    assert all(loss.ndim == 0 and not loss.requires_grad for loss in losses.values())


def test_a_step_is_the_same_under_the_same_seed_and_another_under_another() -> None:
    first, second, third = (_training() for _ in range(3))
    losses = _steps(first, 5), _steps(second, 5), _steps(third, 5, seed=2)
    assert losses[0] == losses[1] != losses[2]
    for a, b in zip(first.generator.parameters(), second.generator.parameters(), strict=True):
        assert torch.equal(a, b)


def test_training_goes_on_bit_for_bit_from_a_state() -> None:
    training, other = _training(), _training(seed=5)
    _steps(training, 4)
    state = training.state()
    expected = _steps(training, 4, seed=3)
    # The state is a copy: neither training on nor another training that loads it changes it.
    for _ in range(2):
        other.load(state)
        assert _steps(other, 4, seed=3) == expected
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
        _steps(training, 1, seed=step)
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


@pytest.mark.parametrize("name", ["mixed", "no column to ask by"])
def test_rows_are_drawn_from_the_average_with_statistics_of_its_own(name: str) -> None:
    training = _training(LAYOUTS[name], spec=replace(SMALL, batch_size=500))
    _steps(training, 5)
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
    _steps(training, 2)
    taken = {name: training.state()[name]["state"][0]["step"].item() for name in ("critic_adam", "generator_adam")}
    assert taken == {"critic_adam": 6, "generator_adam": 2}


def test_a_step_of_the_generator_leaves_the_critic_no_gradient_of_its_own() -> None:
    training = _training()
    training._generator_step()
    assert all(weight.grad is None for weight in training.critic.parameters())


class Recorded(TorchDispatchMode):
    """The operations that run, and the shapes they run on."""

    def __init__(self) -> None:
        super().__init__()
        self.ran: list[tuple[str, tuple[tuple[int, ...], ...]]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        shapes = tuple(tuple(arg.shape) for arg in args if isinstance(arg, Tensor))
        self.ran.append((func.overloadpacket.__name__, shapes))
        return func(*args, **(kwargs or {}))


WAITS = {"_local_scalar_dense", "nonzero", "masked_select", "_unique2", "equal", "is_nonzero"}
"""Operations that a device must have finished before the next can be given to it."""


@pytest.mark.parametrize("name", ["mixed", "no column to ask by", "no scalars"])
def test_every_step_runs_the_same_operations_on_the_same_shapes_and_waits_for_none(name: str) -> None:
    training = _training(LAYOUTS[name])
    _steps(training, 1)  # the optimizers make their state
    runs = []
    for _ in range(3):
        with Recorded() as recorded:
            training.step()
        runs.append(recorded.ran)
    assert runs[0] == runs[1] == runs[2]
    assert not WAITS & {name for name, _ in runs[0]}


def test_products_in_bfloat16_change_losses_by_their_rounding_alone_and_weights_stay_float32() -> None:
    half = _training(spec=replace(SMALL, precision="bfloat16"))
    (exact,), (rounded,) = _steps(_training(), 1), _steps(half, 1)
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
