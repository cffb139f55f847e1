"""CTGAN: its training beside the library's, its conditional sampler, and its training with differential privacy."""

import inspect
import math
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from ctgan import CTGAN
from ctgan.data_transformer import SpanInfo
from ctgan.synthesizers.ctgan import Discriminator
from scipy.stats import chisquare
from torch import Tensor, nn

from synth.dp.events import SubsampledGaussianEvent
from synth.dp.mechanisms import InjectedNoise, Steps
from synth.neural.ctgan import FARTHEST, ConditionIndex, CtganSpec, CtganTraining, Numbers, kept_share
from synth.neural.dp_ctgan import LEAST_RATE, PrivateCtganSpec, PrivateCtganTraining
from synth.neural.encoding import Encoded, Layout, ModalEncoding, Span
from synth.neural.modes import Modes
from synth.neural.networks import ReleasedConditions
from synth.neural.training import DeviceRows, UnitIndex
from synth.schema import build_schema
from synth.table import conform
from tests.synth.neural import toy
from tests.synth.neural.toy import (
    CLOSE,
    CPU,
    EVERYONE,
    EXPECTED,
    LAYOUT,
    MIXED,
    N_UNITS,
    ONE_WAY,
    Purse,
    relaxed,
    units,
)

SMALL = CtganSpec(d_latent=8, generator_widths=(16, 16), critic_widths=(16, 16), batch_size=20, pac=5)
FALSE_ALARM = 1e-5
"""Of each chi-square test below; seeds are fixed."""


def _training(layout: Layout = MIXED, n: int = 100, spec: CtganSpec = SMALL, seed: int = 0) -> CtganTraining:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return CtganTraining(spec, toy.rows_of(layout, n), layout, CPU)


def test_the_settings_but_for_packs_are_the_librarys() -> None:
    theirs = {name: item.default for name, item in inspect.signature(CTGAN).parameters.items()}
    spec = CtganSpec()
    assert (spec.d_latent, spec.batch_size) == (theirs["embedding_dim"], theirs["batch_size"])
    assert spec.generator_widths == theirs["generator_dim"]
    assert spec.critic_widths == theirs["discriminator_dim"]
    assert (spec.generator_rate, spec.critic_rate) == (theirs["generator_lr"], theirs["discriminator_lr"])
    assert spec.decay == theirs["generator_decay"] == theirs["discriminator_decay"]
    assert spec.critic_steps == theirs["discriminator_steps"]


def test_the_condition_loss_is_the_librarys() -> None:
    training = _training()
    conditions, column = training.conditions.draw(20)
    logits = torch.randn(20, MIXED.width).requires_grad_()
    theirs = CTGAN()
    infos = [[SpanInfo(3, "softmax")], [SpanInfo(1, "tanh"), SpanInfo(4, "softmax")], [SpanInfo(2, "softmax")]]
    theirs._transformer = SimpleNamespace(output_info_list=infos)
    hot, mask = training.conditions.one_hot(conditions), nn.functional.one_hot(column, 2)
    # Theirs has a column's scalar before its modes, ours has all scalars last.
    expected = theirs._cond_loss(logits[:, [0, 1, 2, 9, 3, 4, 5, 6, 7, 8]], hot, mask)
    ours = training.condition_loss(logits, conditions)
    torch.testing.assert_close(ours, expected, **CLOSE)
    torch.testing.assert_close(torch.autograd.grad(ours, logits), torch.autograd.grad(expected, logits), **CLOSE)


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
    gradients = torch.autograd.grad(penalized, [layer.weight for layer in critic.layers])
    theirs_too = torch.autograd.grad(expected + penalty, [layer.weight for layer in layers])
    torch.testing.assert_close(gradients, theirs_too, **CLOSE)


def test_the_critic_sees_every_number_on_its_line_and_a_missing_one_as_the_mean() -> None:
    rng = np.random.default_rng(0)
    real = {"kind": "real", "bounds": [0, 1e9], "decimals": 2}
    kinds = {
        "open": {**real, "missing": True},
        "scale": {"kind": "integer", "bounds": [0, 9]},
        "far": {**real, "scale": "log"},
    }
    schema = build_schema({"status": "declared", "columns": {**kinds, "b": {"kind": "boolean"}}})
    frame = pd.DataFrame({
        "b": rng.random(900) < 0.5,
        "open": np.where(rng.random(900) < 0.2, np.nan, np.r_[np.full(200, 7.0), rng.uniform(0, 5e8, 700).round(2)]),
        "scale": rng.integers(0, 10, 900),
        "far": rng.lognormal(5, 3, 900).clip(0, 1e9).round(2),
    })  # fmt: skip
    table = conform(frame, schema)
    encoding = ModalEncoding.fit(table, schema, rng)
    encoded, layout = encoding.apply(table), encoding.layout
    rows = DeviceRows(encoded, layout, CPU)
    seen = Numbers(encoded, layout)(rows.encoded(*rows.take(torch.arange(900)))).numpy()
    names = [span.column for span in layout.spans if span.line]
    assert sorted(names) == ["far", "open", "scale"]
    for name, values in zip(names, seen.T, strict=True):
        modes = encoding.columns[encoding.discretizer.columns.index(name)]
        assert isinstance(modes, Modes)
        missing = frame[name].isna().to_numpy()
        line = modes._line(frame[name][~missing].to_numpy(dtype=np.float64))
        slope, start = np.polyfit(line, values[~missing], 1)
        # Values beyond a component's reach are cut off there, and no others.
        assert np.median(np.abs(values[~missing] - slope * line - start)) < 1e-3
        assert values[~missing].mean() == pytest.approx(0, abs=0.1)
        assert values[~missing].std() == pytest.approx(1, abs=0.1)
        assert not values[missing].any()
    lonely = Layout((Span("x", 3, True, ((0.0, 0.0), (1.0, 0.0), (1e9, 0.0))),))
    encoded = toy.encoded(np.repeat([[0], [1], [2]], [500, 500, 1], axis=0))
    assert Numbers(encoded, lonely)(torch.eye(3))[2].item() == FARTHEST


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


def test_the_average_weighs_every_generator_by_its_step() -> None:
    training, exponent, n = _training(), SMALL.average_exponent, 12
    on_the_way = []
    for step in range(n):
        toy.seeded_steps(training, 1, seed=step)
        on_the_way.append(_floats(training.generator))
    ends = (np.arange(n + 1) / n) ** (exponent + 1)
    for name, weight in _floats(training.average).items():
        expected = sum(share * weights[name] for share, weights in zip(np.diff(ends), on_the_way, strict=True))
        torch.testing.assert_close(weight, expected, **CLOSE)
    assert not torch.equal(training.average.output.weight, training.generator.output.weight)
    for n in (100, 10_000):  # it reaches back over a share of all steps
        shares = np.cumprod([kept_share(step, 17.0) for step in range(n, 0, -1)])
        ago = (np.r_[1.0, shares[:-1]] - shares) @ np.arange(n) / n
        assert ago == pytest.approx(1 / 19, abs=2 / n)


def _floats(network: nn.Module) -> dict[str, Tensor]:
    """Weights and statistics, but for counters."""
    return {name: value.double() for name, value in network.state_dict().items() if value.is_floating_point()}


def test_rows_are_drawn_from_the_average_with_statistics_of_its_own() -> None:
    training = _training(spec=replace(SMALL, batch_size=500))
    toy.seeded_steps(training, 5)
    before = training.state()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = training.network()
        generator = network.generator
        with torch.no_grad():
            rows = torch.cat([training._inputs(training._conditions()[1]) for _ in range(40)])
            inner = []
            for layer, norm in zip(generator.layers, generator.norms, strict=True):
                inner.append(norm(layer(rows)))
                rows = torch.cat([torch.relu(inner[-1]), rows], 1)
    _same(training.state(), before)
    assert not any(module.training for module in generator.modules())
    assert all(map(torch.equal, generator.parameters(), training.average.parameters()))
    assert not any(map(torch.equal, generator.parameters(), training.generator.parameters()))
    for values, norm in zip(inner, generator.norms, strict=True):
        standard = (values - norm.bias) / norm.weight
        # Means and deviations of 50,000 rows against those of 20,000: four standard errors are .034 and .024.
        torch.testing.assert_close(standard.mean(0), torch.zeros(16), atol=0.04, rtol=0)
        torch.testing.assert_close(standard.std(0), torch.ones(16), atol=0.04, rtol=0)


def test_every_step_runs_the_same_operations_on_the_same_shapes_and_waits_for_none() -> None:
    training = _training()
    toy.seeded_steps(training, 1)  # the optimizers make their state
    runs = []
    for _ in range(3):
        with toy.Recorded() as recorded:
            training.step()
        runs.append(recorded.ran)
    assert runs[0] == runs[1] == runs[2]
    assert not toy.WAITS & {name for name, _ in runs[0]}


@pytest.mark.statistical
def test_a_dependence_between_two_columns_is_learned() -> None:
    rng = np.random.default_rng(0)
    codes = np.repeat(rng.choice(3, (2000, 1), p=[0.5, 0.3, 0.2]), 2, axis=1)
    layout = Layout((Span("a", 3, whole=True), Span("same", 3, whole=True)))
    spec = CtganSpec(8, (32,), (32,), 4e-3, 4e-3, batch_size=200, pac=4)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        training = CtganTraining(spec, toy.encoded(codes), layout, CPU)
        for _ in range(250):
            training.step()
        drawn = toy.drawn_codes(training.network(), 1000)
    # A third would agree by chance, and so do they before training.
    assert (drawn[:, 0] == drawn[:, 1]).mean() > 0.9
    assert len(np.unique(drawn)) == 3


SAMPLED = Layout((Span("a", 4, whole=True), Span("number", 3, whole=False), Span("b", 3, whole=True)), ("number",))
N_DRAWS = 40_000


def _rare(n: int = 300) -> Encoded:
    """Code 2 of `a` and the last of `b` never occur; the first of `b` does once, in row 17."""
    rng = np.random.default_rng(0)
    a = rng.choice([0, 1, 3], n, p=[0.9, 0.08, 0.02])
    b = np.ones(n, dtype=np.int64)
    b[17] = 0
    return toy.encoded(np.stack([a, rng.integers(0, 3, n), b], 1), 1)


@pytest.fixture
def conditions() -> ConditionIndex:
    return ConditionIndex.of(_rare(), SAMPLED, CPU)


def test_columns_are_drawn_evenly_and_codes_by_the_logarithm_of_how_often_they_occur(
    conditions: ConditionIndex,
) -> None:
    assert conditions.code_of.tolist() == [0, 1, 2, 3, 7, 8, 9]
    torch.manual_seed(0)
    drawn, column = conditions.draw(N_DRAWS)
    weights = torch.log1p(conditions.n_rows.double())
    shares = torch.cat([part / part.sum() / 2 for part in weights.split([4, 3])])
    counts = torch.bincount(drawn, minlength=7)
    assert counts[shares == 0].sum() == 0
    assert chisquare(counts[shares > 0], (shares * N_DRAWS)[shares > 0]).pvalue > FALSE_ALARM
    assert torch.equal(conditions.spans[column], conditions.span_of[drawn])
    rows = conditions.matching(drawn)
    codes = torch.from_numpy(_rare().codes)[rows].gather(1, conditions.span_of[drawn][:, None]).squeeze(1)
    offsets = torch.from_numpy(SAMPLED.offsets)[conditions.span_of[drawn]]
    assert torch.equal(codes + offsets, conditions.code_of[drawn])
    assert torch.equal(conditions.one_hot(torch.arange(7)), torch.eye(7))


@pytest.mark.parametrize("share", [0.0, 1 - 2.0**-53])
def test_no_code_that_never_occurs_is_asked_for_at_either_end(
    share: float, conditions: ConditionIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "rand", lambda n, **like: torch.full((n,), share, **like))
    drawn, column = conditions.draw(100)
    assert set(column.tolist()) == {0, 1}
    assert (conditions.n_rows[drawn] > 0).all()
    rows = conditions.matching(drawn)
    assert ((rows >= 0) & (rows < 300)).all()


@pytest.mark.parametrize("condition", [0, 3, 4])
def test_every_row_that_meets_a_condition_is_as_likely(condition: int, conditions: ConditionIndex) -> None:
    span = int(conditions.span_of[condition])
    meet = np.flatnonzero(_rare().codes[:, span] == int(conditions.code_of[condition]) - SAMPLED.offsets[span])
    torch.manual_seed(1)
    rows = conditions.matching(torch.full((N_DRAWS,), condition))
    counts = np.bincount(rows.numpy(), minlength=300)
    assert counts.sum() == counts[meet].sum()
    assert len(meet) == 1 or chisquare(counts[meet]).pvalue > FALSE_ALARM


# With differential privacy


@pytest.mark.parametrize(("k", "max_grad_norm"), [(1, 1.0), (3, 2.0)])
def test_the_weights_are_a_decaying_average_of_noisy_pairs_less_the_fakes(k: int, max_grad_norm: float) -> None:
    # Against double precision, a step at a time, until the rate has come to its least and for a while longer.
    table, rng = units(k), np.random.default_rng(4)
    samples = [np.flatnonzero(rng.random(N_UNITS) < EXPECTED / N_UNITS).tolist() for _ in range(220)]
    noise = rng.normal(0, max_grad_norm, (220, 26))
    left = iter(noise)
    purse = Purse(samples, answer=lambda total, bound: np.asarray(total + next(left)))
    gradients = np.array([toy.unit_gradient(table, unit) for unit in EVERYONE])
    gradients *= np.minimum(1.0, max_grad_norm / np.linalg.norm(gradients, axis=1, keepdims=True))
    critic, weights = toy.critic_of(table, max_grad_norm=max_grad_norm, pass_units=9), np.zeros(26)
    for step, sampled in enumerate(samples):
        fakes = relaxed(n=5, seed=step)
        critic.step(purse, fakes)
        real = (gradients[sampled].sum(0) + noise[step]) * math.sqrt(3) / EXPECTED
        rate = max(LEAST_RATE, 1 / (step + 1))
        mass = real.sum() / 3 if k > 1 else 1.0  # clipped units of several rows weigh what they weigh
        weights = (1 - rate) * weights + rate * (real - mass * toy.of_pairs(fakes.T @ fakes / 5))
        assert np.abs(toy.of_pairs(critic.weights) - weights).max() < 1e-5


def test_the_generator_is_trained_once_in_so_many_critic_steps_at_a_falling_rate_and_averaged() -> None:
    trained = toy.training("ctgan", units(), critic_steps=3, n_steps=6)
    assert isinstance(trained, PrivateCtganTraining)
    weights, rates = [], []
    for _ in range(6):
        trained.step(Purse([range(10)]))
        rates.append(trained.maker._adam.param_groups[0]["lr"])
        weights.append((trained.maker.network.output.weight.clone(), trained.generator.output.weight.clone()))
    moved = [bool((a[0] != b[0]).any()) for a, b in pairwise(weights)]
    assert moved == [False, True, False, False, True]
    torch.testing.assert_close(weights[5][1], torch.lerp(weights[4][1], weights[5][0], 0.02))
    assert rates[0] == PrivateCtganSpec().generator_rate
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] < 0.1 * rates[0]


def test_conditions_follow_the_released_shares_and_never_name_a_code_without_one() -> None:
    torch.manual_seed(0)
    hot, column, chosen = ReleasedConditions(ONE_WAY, LAYOUT, CPU).draw(20_000)
    assert (hot.sum(1) == 1).all()
    assert (hot.argmax(1) == chosen).all()
    counts = np.bincount(chosen.numpy(), minlength=9)
    assert counts[4] == 0  # its noisy count is below 0
    assert chisquare(np.bincount(column.numpy())).pvalue > FALSE_ALARM
    for start, released in zip((0, 4, 7), ONE_WAY, strict=True):
        kept = np.maximum(released, 0) > 0
        drawn = counts[start : start + len(released)][kept]
        assert chisquare(drawn, drawn.sum() * released[kept] / released[kept].sum()).pvalue > FALSE_ALARM


def _trained(codes: np.ndarray, one_way: list[np.ndarray], rate: float) -> np.ndarray:
    """Codes that a private network draws after 300 steps on columns of binary or ternary codes."""
    layout = Layout(tuple(Span(f"c{index}", len(counts), True) for index, counts in enumerate(one_way)))
    torch.manual_seed(0)
    spec = PrivateCtganSpec(d_latent=4, generator_widths=(32, 32), ema=0.9, n_steps=300)
    trained = PrivateCtganTraining(spec, UnitIndex.of(toy.encoded(codes)), layout, one_way, rate * len(codes), CPU)
    steps = Steps(SubsampledGaussianEvent("steps", 1.5, rate, 300), 300, InjectedNoise(np.random.default_rng(0)))
    for _ in range(300):
        trained.step(steps)
    assert trained.finite
    return toy.drawn_codes(trained.network(), 1000)


def test_two_columns_that_agree_agree_in_what_is_drawn() -> None:
    x = np.random.default_rng(0).integers(0, 2, 400)
    drawn = _trained(np.stack([x, x], axis=1), [np.ones(2), np.ones(2)], 0.25)
    assert (drawn[:, 0] == drawn[:, 1]).mean() > 0.8  # by chance half


def test_a_table_of_one_column_has_no_pairs_and_trains_on_its_marginal() -> None:
    drawn = _trained(np.repeat([0, 2, 2, 1], 20)[:, None], [np.array([1.0, 0.0, 3.0])], 0.5)
    assert (drawn == 1).mean() < 0.1


@pytest.mark.parametrize("kind", toy.KINDS)
def test_weights_that_are_no_longer_finite_are_told(kind: str) -> None:
    trained = toy.training(kind, units())
    assert trained.finite
    trained.step(Purse([[]], answer=lambda total, bound: np.full_like(total, float("nan"))))
    assert not trained.finite
