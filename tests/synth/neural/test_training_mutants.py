"""Lies that private training could tell, each planted in turn, each beside the check that must catch it.

Every check passes on the code as it is. A mutant that survives its check means that the check guards nothing.
"""

import math
import random
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from synth.dp.events import SubsampledGaussianEvent
from synth.dp.mechanisms import Steps, SystemNoise
from synth.neural import dp_ctgan, dp_sgd, tvae
from synth.neural.dp_ctgan import LEAST_RATE, PairCritic, PrivateCtganTraining
from synth.neural.dp_sgd import Clipping, StepRelease
from synth.neural.encoding import Layout, Span
from synth.neural.networks import Spans
from synth.neural.training import N_WORDS, WORDS_AT, Batch, UnitIndex
from synth.neural.tvae import PrivateTvaeTraining
from tests.synth.neural.toy import (
    EVERYONE,
    EXPECTED,
    KINDS,
    LAYOUT,
    N_UNITS,
    Purse,
    by_autograd,
    critic_of,
    flat_state,
    of_pairs,
    reader,
    relaxed,
    still,
    sum_of,
    training,
    unit_gradient,
    units,
    without,
)

TAILS = (1e-7, 1 - 1e-7)
"""Where a statistical check alarms: once in five million runs by chance."""
ROUNDING = 1e-5
BOUNDS = (0.5, 1.0, 2.0)
SIGMA, N_REPEATS = 1.5, 100
WIDE = Layout(tuple(Span(f"c{index}", 8, True) for index in range(5)))


def system_steps(n_steps: int, sampling_rate: float = 1.0) -> Steps:
    return Steps(SubsampledGaussianEvent("gradients", SIGMA, sampling_rate, n_steps), n_steps, SystemNoise())


def noise_of(kind: str, n_repeats: int) -> np.ndarray:
    """What steps on all units get more than the step without noise; shape (n_repeats, d)."""
    if kind == "tvae":
        trained = training("tvae", units(), max_grad_norm=2.0)
        assert isinstance(trained, PrivateTvaeTraining)
        source: Any = still(trained)
    else:
        source = critic_of(units(layout=WIDE), max_grad_norm=2.0, layout=WIDE)
    clean, steps = source.gradient(Purse([EVERYONE])), system_steps(n_repeats)
    noise: np.ndarray = torch.stack([source.gradient(steps) - clean for _ in range(n_repeats)]).numpy()
    return noise * EXPECTED


def noise_of_a_step_has_its_scale() -> None:
    for kind in KINDS:
        noise = noise_of(kind, N_REPEATS)[:, :2_000]
        assert noise.shape[1] > 600
        # A standard error of the scale is 0.3% at most: the alarm is raised by 1.5% too little or too much.
        low, high = stats.chi2(noise.size).ppf(TAILS)
        assert low < np.square(noise / (SIGMA * 2.0)).sum() < high


def noise_is_new_in_every_step_and_fit() -> None:
    for kind in KINDS:
        fits = []
        for _ in range(2):
            np.random.seed(0)  # noqa: NPY002 - noise that listened to it would come out twice the same
            random.seed(0)
            torch.manual_seed(0)
            fits.append(noise_of(kind, 3))
        (a, b, _), (c, _, _) = fits
        for first, other in ((a, c), (a, b), (b, c)):
            assert abs(np.corrcoef(first, other)[0, 1]) < 0.3


def what_is_drawn_for_rows_is_new_in_every_step_and_fit() -> None:
    purse = Purse([EVERYONE])
    for _ in range(2):
        trained = training("tvae", units(), rate=0.0)
        for _ in range(2):
            torch.manual_seed(3)
            trained.step(purse)
    # The same networks on the same rows.
    assert len({total.tobytes() for total in purse.totals}) == 4


def every_row_has_a_latent_draw_of_its_own() -> None:
    latents: list[Tensor] = []
    for _ in range(2):
        trained = training("tvae", units(3))
        assert isinstance(trained, PrivateTvaeTraining)
        losses = trained._losses

        def listening(codes: Tensor, noise: Tensor, losses: Any = losses) -> Tensor:
            latents.append(noise)
            return losses(codes, noise)

        trained._losses = listening
        for _ in range(2):
            trained.step(Purse([EVERYONE]))
    every = torch.cat(latents)
    assert len(every) >= 4 * N_UNITS
    assert len(every.unique(dim=0)) == len(every)


def what_is_drawn_for_rows_hangs_on_more_than_a_seed() -> None:
    # A seed, of which torch takes 32 bits, is spread over the state word by word (Matsumoto & Nishimura 1998).
    trained = training("tvae", units())
    assert isinstance(trained, PrivateTvaeTraining)
    state = trained._draws.get_state()
    words = state[WORDS_AT : WORDS_AT + 8 * N_WORDS].view(torch.int64).numpy().astype(np.uint64)
    assert words.max() < 2**32
    before = words[:-1] ^ (words[:-1] >> np.uint64(30))
    follows = (np.uint64(1_812_433_253) * before + np.arange(1, N_WORDS, dtype=np.uint64)) % np.uint64(2**32)
    assert (words[1:] == follows).sum() < 3


def a_unit_moves_the_sum_by_no_more_than_the_bound() -> None:
    for k in (1, 3):
        table = units(k)
        for steepness in (1.0, 1000.0):  # of great gradients, too
            whole = sum_of("tvae", table, EVERYONE, steepness, max_rows=12 * k)
            for gone in (0, 9, 29):
                moved = whole - sum_of("tvae", without(table, gone), EVERYONE, steepness, max_rows=12 * k)
                assert np.linalg.norm(moved) <= 1 + ROUNDING
        for bound in BOUNDS:
            whole = sum_of("ctgan", table, EVERYONE, max_grad_norm=bound, max_rows=12 * k)
            for gone in EVERYONE:
                others = sum_of("ctgan", without(table, gone), EVERYONE, max_grad_norm=bound, max_rows=12 * k)
                moved, norm = np.linalg.norm(whole - others), np.linalg.norm(unit_gradient(table, gone))
                assert moved == pytest.approx(min(norm, bound), abs=ROUNDING)


def rounding_takes_no_unit_beyond_the_bound() -> None:
    for kind, steepness, allowed in (("ctgan", 1.0, 1e-14), ("tvae", 1.0, 0.0), ("tvae", 1000.0, 0.0)):
        for k in (1, 3):
            table, norms = units(k), []
            for bound in BOUNDS:
                for unit in range(0, N_UNITS, 3):
                    total = sum_of(kind, table, [unit], steepness, max_grad_norm=bound)
                    norms.append(math.sqrt(math.fsum(total**2)) / bound)
            assert 1 - ROUNDING < max(norms) <= 1 + allowed


def products_in_half_precision_take_no_unit_beyond_the_bound() -> None:
    for kind in KINDS:
        for bound in BOUNDS:
            table, norms = units(), []
            for unit in range(0, N_UNITS, 3):
                with torch.autocast("cpu", torch.bfloat16):  # as whoever calls a fit may have set it
                    norms.append(np.linalg.norm(sum_of(kind, table, [unit], 1000.0, max_grad_norm=bound)) / bound)
            assert max(norms) <= 1 + 1e-14


def the_rows_of_a_unit_are_summed_before_they_are_clipped() -> None:
    # Each of two or three equal rows has the same gradient, of norm above the bound.
    codes = units().codes
    for n_same in (2, 3):
        alike = UnitIndex(codes[[0] * n_same + [1]], np.array([0, n_same]), np.array([n_same, 1]), 3)
        assert np.linalg.norm(sum_of("tvae", alike, [0])) <= 1 + ROUNDING
        for bound in BOUNDS:
            norm = np.linalg.norm(sum_of("ctgan", alike, [0], max_grad_norm=bound))
            assert norm == pytest.approx(min(n_same, bound), abs=ROUNDING)


def a_gradient_that_is_not_finite_counts_as_nothing() -> None:
    assert np.isfinite(sum_of("tvae", units(), EVERYONE, float("nan"))).all()
    assert not sum_of("tvae", units(), EVERYONE, float("inf")).any()


def padding_and_units_without_rows_add_nothing() -> None:
    full = units(3)
    hollow = replace(full, n_rows=full.n_rows * (np.arange(N_UNITS) % 2))
    nobody = UnitIndex(full.codes[:0], np.zeros(2, np.int64), np.zeros(2, np.int64), 3)
    for kind in KINDS:
        for table, sampled in ((units(), []), (full, []), (hollow, range(0, N_UNITS, 2)), (nobody, [0, 1])):
            assert not sum_of(kind, table, sampled).any()


def units_are_sampled_by_poissons_law_at_the_rate_that_is_charged() -> None:
    n, rate, n_steps = 100, 0.1, 4_000
    steps, sampled = system_steps(n_steps, rate), []

    def clipped_sum(chosen: np.ndarray) -> Tensor:
        sampled.append(chosen)
        return torch.zeros(1, dtype=torch.float64)

    for _ in range(n_steps):
        dp_sgd.noisy_mean(steps, n, Clipping(1.0, n * rate, n), clipped_sum)
    assert len(sampled) == n_steps
    edges, law = np.arange(4, 18), stats.binom(n, rate)
    expected = n_steps * np.diff(np.r_[0.0, law.cdf(edges), 1.0])
    sizes = np.bincount(np.searchsorted(edges, [len(chosen) for chosen in sampled]), minlength=len(expected))
    assert stats.chisquare(sizes, expected).pvalue > TAILS[0]
    times = np.bincount(np.concatenate(sampled), minlength=n)
    statistic = np.square((times - n_steps * rate) / np.sqrt(n_steps * rate * (1 - rate))).sum()
    assert TAILS[0] < stats.chi2(n).cdf(statistic) < TAILS[1]


def a_sample_above_the_pass_is_summed_whole() -> None:
    for kind in KINDS:
        for k in (1, 3):
            whole = sum_of(kind, units(k), EVERYONE, is_still=True, max_rows=N_UNITS * k)
            for size in (3, 10):
                passes = sum_of(kind, units(k), EVERYONE, is_still=True, max_rows=size * k)
                assert np.linalg.norm(whole - passes) < ROUNDING * np.linalg.norm(whole)


def the_noisy_sum_is_divided_by_the_expected_batch() -> None:
    # Whatever was drawn, and however many units there are.
    for kind in KINDS:
        for n_units, sampled in ((N_UNITS, range(3)), (N_UNITS, range(20)), (90, range(8))):
            source = reader(training(kind, units(n_units=n_units)))
            mean = source.gradient(Purse([sampled], answer=lambda total, bound: np.full_like(total, 1e4)))
            assert mean.numpy() == pytest.approx(1e4 / EXPECTED, rel=1e-9)


def an_empty_sample_has_its_noise_and_its_step() -> None:
    for kind in KINDS:
        trained = training(kind, units())
        source, purse = reader(trained), Purse([[]], answer=lambda total, bound: total + 50.0)
        before = source.weights.clone()
        trained.step(purse)
        assert len(purse.totals) == 1
        assert not torch.equal(source.weights, before)
        assert source.gradient(purse).min() > 5


def what_the_budget_is_asked_for_is_the_clipped_sum_of_real_rows() -> None:
    for k in (1, 3):
        table = units(k)
        for bound in BOUNDS:
            for sampled in ([4], range(0, 30, 3)):
                gradients = [unit_gradient(table, unit) for unit in sampled]
                expected = sum(g * min(1.0, bound / max(float(np.linalg.norm(g)), 1e-12)) for g in gradients)
                purse = Purse([sampled])
                critic_of(table, max_grad_norm=bound).step(purse, relaxed())
                assert purse.bounds == [bound]
                assert purse.totals[0].dtype == np.float64
                assert np.abs(purse.totals[0] - expected).max() < ROUNDING


def nothing_but_the_released_sum_depends_on_the_table() -> None:
    # Bit for bit: with the same answers to the sums, tables of any content and size, with samples of any size and any
    # number of passes, end in the same weights.
    def answer(total: np.ndarray, bound: float) -> np.ndarray:
        return np.asarray(np.sin(np.arange(len(total)) * 0.7) * 3)

    samples: tuple[list[Sequence[int]], ...] = ([range(10), range(8)], [range(12), []], [range(60), range(2)])
    for kind in KINDS:
        for k in (1, 3):
            states = []
            tables = (units(k), units(k, seed=5), units(k, seed=9, n_units=90))
            for table, sampled in zip(tables, samples, strict=True):
                trained = training(kind, table, max_rows=20)
                purse = Purse(sampled, answer)
                for _ in range(6):
                    trained.step(purse)
                states.append(flat_state(trained))
            assert all(torch.equal(states[0], state) for state in states[1:])


def a_row_has_the_gradient_of_its_score() -> None:
    critic = critic_of(units())
    for codes in units().codes.long():
        row = critic._spans.one_hot(codes[None])
        gradient = critic._gradient(row, torch.ones(1)).numpy()
        assert np.abs(gradient - by_autograd(codes.tolist())).max() == 0
        assert np.linalg.norm(gradient) / critic._row_norm == pytest.approx(1.0, abs=1e-12)


def a_units_norm_is_that_of_its_summed_gradient() -> None:
    for k in (1, 3):
        table = units(k)
        critic, batch = critic_of(table), table.batch(np.arange(N_UNITS), N_UNITS)
        rows = critic._spans.one_hot(batch.codes) * batch.mask[:, None]
        norms = [np.linalg.norm(unit_gradient(table, unit)) for unit in EVERYONE]
        assert np.abs(critic._norms(rows.view(N_UNITS, k, -1)).numpy() - norms).max() < 1e-6


def the_weights_come_to_the_difference_of_two_way_marginals() -> None:
    # Of all rows, whose passes are a quarter each, and of the fakes of both turns.
    table, batches = units(n_units=32), [relaxed(n=8, seed=seed) for seed in (0, 1)]
    critic = PairCritic(table, Spans(LAYOUT), Clipping(1.0, 8.0, 32))
    purse = Purse([range(start, 32, 4) for _ in range(100) for start in range(4)])
    shares = np.mean([by_autograd(row.tolist()) for row in table.codes], axis=0)
    difference = shares - of_pairs(torch.stack([batch.T @ batch / 8 for batch in batches]).mean(0))
    for step in range(400):
        critic.step(purse, batches[step % 2])
        if step == 199:
            assert np.abs(of_pairs(critic.weights) - difference).max() < ROUNDING
    # Then the last steps count for a little more: by 1 / 200 each at most.
    assert np.abs(of_pairs(critic.weights) - difference).max() < 4 * LEAST_RATE
    assert critic.weights.count_nonzero() == np.count_nonzero(of_pairs(critic.weights))


def a_state_that_is_loaded_goes_on_as_the_first_would_have() -> None:
    for kind in KINDS:
        first, purse = training(kind, units()), Purse([range(10)])
        for _ in range(5):
            first.step(purse)
        second = training(kind, units())
        second.load(first.state())
        for trained in (first, second):
            torch.manual_seed(5)
            if isinstance(trained, PrivateTvaeTraining):
                trained._draws.manual_seed(5)
            for _ in range(3):
                trained.step(purse)
        assert torch.equal(flat_state(first), flat_state(second))


Check = Callable[[], None]
_floats, _sample, _clipped_sums = SystemNoise.floats, SystemNoise.sample, dp_sgd.clipped_sums
_factors, _batch, _mean = dp_sgd.clip_factors, UnitIndex.batch, dp_sgd.noisy_mean
_ctgan_step, _ctgan_init = PrivateCtganTraining.step, PrivateCtganTraining.__init__
_latent_sum, _tvae_losses = PrivateTvaeTraining._clipped_sum, PrivateTvaeTraining._losses
_critic_init, _critic_step = PairCritic.__init__, PairCritic.step
_pair_gradient, _pair_norms = PairCritic._gradient, PairCritic._norms


def _noise_times(factor: float) -> Callable[..., np.ndarray]:
    return lambda self, values, sigma: _floats(self, values, sigma * factor)


def _seeded(self: SystemNoise, values: np.ndarray, sigma: float) -> np.ndarray:
    return np.asarray(values + np.random.default_rng(0).normal(0, sigma, values.shape))


def _from_numpys_global_state(self: SystemNoise, values: np.ndarray, sigma: float) -> np.ndarray:
    return np.asarray(values + np.random.normal(0, sigma, values.shape))  # noqa: NPY002 - the lie


def _from_torchs_global_state(self: SystemNoise, values: np.ndarray, sigma: float) -> np.ndarray:
    return np.asarray(values + sigma * torch.randn(len(values), dtype=torch.float64).numpy())


def _same_key(self: SystemNoise) -> np.random.Generator:
    return self.__dict__.setdefault("kept", np.random.Generator(np.random.Philox(key=1)))


def _unclipped(squared: Tensor, max_grad_norm: float) -> Tensor:
    return torch.where(squared.isfinite(), 1.0, 0.0).double()


def _in_single_precision(self: PairCritic, rows: Tensor) -> Tensor:
    return _pair_norms(self, rows).float()


def _infinity_left_in(squared: Tensor, max_grad_norm: float) -> Tensor:
    return torch.where(squared.isfinite(), _factors(squared, max_grad_norm), 1.0)


def _clipped_per_layer(
    losses: Tensor, records: Sequence[Any], n_units: int, max_grad_norm: float
) -> tuple[list[Tensor], Tensor]:
    gradients = torch.autograd.grad(losses.sum(), [record.outputs for record in records])
    sums, squared = [], torch.zeros(n_units, dtype=torch.float64)
    for record, gradient_of_layer in zip(records, gradients, strict=True):
        inputs, gradient = dp_sgd._of_units(record.inputs, gradient_of_layer, n_units)
        of_layer = dp_sgd._squared_norms(inputs, gradient)
        squared += of_layer
        scaled = (gradient * _factors(of_layer, max_grad_norm)[:, None, None].to(gradient.dtype)).flatten(0, 1)
        sums += [scaled.T @ inputs.flatten(0, 1), scaled.sum(0)]
    return sums, squared.sqrt()


def _rows_one_by_one(losses: Tensor, records: Sequence[Any], n_units: int, max_grad_norm: float) -> Any:
    return _clipped_sums(losses, records, len(losses), max_grad_norm)


def _padding_counts(self: UnitIndex, chosen: np.ndarray, size: int) -> Batch:
    batch = _batch(self, chosen, size)
    return batch._replace(mask=torch.ones_like(batch.mask))


def _another_rate(self: SystemNoise, n_units: int, sampling_rate: float) -> np.ndarray:
    return _sample(self, n_units, sampling_rate * 1.1)


def _fixed_size(self: SystemNoise, n_units: int, sampling_rate: float) -> np.ndarray:
    return np.sort(np.random.default_rng().choice(n_units, round(n_units * sampling_rate), replace=False))


def _shuffled(self: SystemNoise, n_units: int, sampling_rate: float) -> np.ndarray:
    left = self.__dict__.setdefault("left", [])
    if not left:
        left.extend(np.array_split(np.random.default_rng().permutation(n_units), round(1 / sampling_rate)))
    return np.sort(left.pop())


class _Remembering:
    """Passes on what it is asked, and keeps how many units were sampled."""

    def __init__(self, steps: StepRelease) -> None:
        self.release, self._steps = steps.release, steps

    def sample(self, n_units: int) -> np.ndarray:
        sampled = self._steps.sample(n_units)
        self.n_sampled = len(sampled)
        return sampled


def _by_the_actual_batch(steps: StepRelease, n_units: int, clipping: Clipping, clipped_sum: Any) -> Tensor:
    remembering = _Remembering(steps)
    mean = _mean(remembering, n_units, clipping, clipped_sum)
    return mean * clipping.expected_batch / max(remembering.n_sampled, 1)


def _released(steps: StepRelease, total: Tensor, clipping: Clipping) -> Tensor:
    return torch.from_numpy(steps.release(total.numpy(), clipping.max_grad_norm) / clipping.expected_batch)


def _empty_skipped(steps: StepRelease, n_units: int, clipping: Clipping, clipped_sum: Any) -> Tensor:
    sampled = steps.sample(n_units)
    total: Tensor = clipped_sum(sampled[: clipping.pass_units])
    return _released(steps, total, clipping) if len(sampled) else torch.zeros_like(total)


def _truncated(steps: StepRelease, n_units: int, clipping: Clipping, clipped_sum: Any) -> Tensor:
    return _released(steps, clipped_sum(steps.sample(n_units)[: clipping.pass_units]), clipping)


class _Silent:
    """Has noise drawn, and forgets it."""

    def __init__(self, steps: StepRelease) -> None:
        self.sample, self._steps = steps.sample, steps

    def release(self, total: np.ndarray, max_grad_norm: float) -> np.ndarray:
        self._steps.release(total, max_grad_norm)
        return total


def _noise_forgotten(steps: StepRelease, n_units: int, clipping: Clipping, clipped_sum: Any) -> Tensor:
    return _mean(_Silent(steps), n_units, clipping, clipped_sum)


def _bound_said_too_small(steps: StepRelease, n_units: int, clipping: Clipping, clipped_sum: Any) -> Tensor:
    return _mean(steps, n_units, replace(clipping, max_grad_norm=0.95 * clipping.max_grad_norm), clipped_sum)


def _noise_on_fakes(self: PairCritic, steps: StepRelease, fakes: Tensor) -> None:
    real = self._clipped_sum(steps.sample(len(self._units))) / self._clipping.expected_batch
    of_fakes = self._gradient(fakes, torch.ones(len(fakes))).double() / self._row_norm
    steps.release(of_fakes.numpy(), self._clipping.max_grad_norm)
    self.learn(real, fakes)


def _generator_on_real_rows(self: PrivateCtganTraining, steps: StepRelease) -> None:
    # As if the marginals to match were the table's own.
    self.maker.conditions.shares = self.maker.spans.one_hot(self.critic._units.codes.long()).mean(0)
    _ctgan_step(self, steps)


def _exact_frequencies(self: PrivateCtganTraining, spec: Any, table: UnitIndex, layout: Any, *rest: Any) -> None:
    codes = table.codes.numpy()
    counts = [np.bincount(codes[:, index], minlength=size) * 1.0 for index, size in enumerate(LAYOUT.sizes)]
    _ctgan_init(self, spec, table, layout, counts, *rest[1:])


def _of_a_fixed_seed(device: torch.device) -> torch.Generator:
    return torch.Generator(device).manual_seed(20_240)


def _of_a_secret_seed(device: torch.device) -> torch.Generator:
    return torch.Generator(device).manual_seed(secrets.randbits(63))


def _seeded_before_every_sum(self: PrivateTvaeTraining, sampled: np.ndarray) -> Tensor:
    self._draws.manual_seed(int(sampled.sum()))
    return _latent_sum(self, sampled)


def _one_latent_for_all(self: PrivateTvaeTraining, codes: Tensor, noise: Tensor) -> Tensor:
    noise[:] = noise[:1].clone()
    return _tvae_losses(self, codes, noise)


def _pairs_where(keeps: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., None]:
    def init(self: PairCritic, table: UnitIndex, spans: Spans, clipping: Clipping) -> None:
        _critic_init(self, table, spans, clipping)
        self._pairs = keeps(spans.span_of[:, None], spans.span_of[None, :]).nonzero().T

    return init


def _not_scaled(self: PairCritic, table: UnitIndex, spans: Spans, clipping: Clipping) -> None:
    _critic_init(self, table, spans, clipping)
    self._row_norm = 1.0


def _pairs_of_rows_one_by_one(self: PairCritic, sampled: np.ndarray) -> Tensor:
    batch = self._units.batch(sampled, self._clipping.pass_units)
    rows = self._spans.one_hot(batch.codes) * batch.mask[:, None]
    factors = torch.full((len(rows),), min(1.0, self._clipping.max_grad_norm))
    return self._gradient(rows, factors).double() / self._row_norm


def _norm_of_one_row(self: PairCritic, rows: Tensor) -> Tensor:
    return _pair_norms(self, rows[:, :1])


def _norm_of_rows_that_share_nothing(self: PairCritic, rows: Tensor) -> Tensor:
    return torch.stack([_pair_norms(self, row[:, None]).square() for row in rows.unbind(1)]).sum(0).sqrt()


def _moved_by_real_rows(self: PairCritic, steps: StepRelease, fakes: Tensor) -> None:
    _critic_step(self, steps, fakes)
    rows = self._spans.one_hot(self._units.codes.long())
    self.weights[self._pairs[0], self._pairs[1]] -= 0.01 * self._gradient(rows, torch.ones(len(rows))) / len(rows)


def _half_of_the_fakes(self: PairCritic, steps: StepRelease, fakes: Tensor) -> None:
    _critic_step(self, steps, fakes[: len(fakes) // 2])


def _last_pair_left_out(self: PairCritic, rows: Tensor, factors: Tensor) -> Tensor:
    return torch.cat([_pair_gradient(self, rows, factors)[:-1], torch.zeros(1)])


def _count_forgotten(self: PrivateCtganTraining) -> dict[str, Any]:
    kept = torch.nn.Module()
    kept.register_buffer("of_pairs", self.critic.weights)
    kept.register_buffer("n_done", torch.zeros((), dtype=torch.int64))
    return {**self.maker.parts(), "critic": kept}


Plant = tuple[Any, str, Any]
Named = tuple[str, Plant]


def _both(name: str, lie: Any) -> tuple[Named, Named]:
    """The lie in either training."""
    first, second = ((f"{name} in {module.__name__}", (module, "noisy_mean", lie)) for module in (tvae, dp_ctgan))
    return first, second


NOISE = SystemNoise, "floats"
MUTANTS: Mapping[Check, Sequence[Named]] = {
    noise_of_a_step_has_its_scale: [
        ("no noise", (*NOISE, _noise_times(0.0))),
        ("half the noise", (*NOISE, _noise_times(0.5))),
        ("noise 5% short", (*NOISE, _noise_times(0.95))),
        ("noise 7% long", (*NOISE, _noise_times(1.07))),
        *_both("noise forgotten", _noise_forgotten),
        *_both("a bound said 5% too small", _bound_said_too_small),
    ],
    noise_is_new_in_every_step_and_fit: [
        ("seeded noise", (*NOISE, _seeded)),
        ("noise from torch's own generator", (*NOISE, _from_torchs_global_state)),
        ("noise from a generator that a seed reaches", (*NOISE, _from_numpys_global_state)),
        ("the same key in every fit", (SystemNoise, "_generator", property(_same_key))),
    ],
    what_is_drawn_for_rows_is_new_in_every_step_and_fit: [
        ("draws for rows from a fixed seed", (tvae, "secret_generator", _of_a_fixed_seed)),
        ("draws for rows from torch's own generator", (tvae, "secret_generator", lambda _: torch.default_generator)),
        ("latent draws seeded by the sample", (PrivateTvaeTraining, "_clipped_sum", _seeded_before_every_sum)),
    ],
    every_row_has_a_latent_draw_of_its_own: [
        ("one latent draw for all rows", (PrivateTvaeTraining, "_losses", _one_latent_for_all)),
    ],
    what_is_drawn_for_rows_hangs_on_more_than_a_seed: [
        ("draws for rows from a seed of 32 bits", (tvae, "secret_generator", _of_a_secret_seed)),
    ],
    a_unit_moves_the_sum_by_no_more_than_the_bound: [
        ("clipping off", (dp_sgd, "clip_factors", _unclipped)),
        ("clipping per layer", (dp_sgd, "clipped_sums", _clipped_per_layer)),
        ("clipping of pairs off", (PairCritic, "_norms", lambda self, rows: torch.zeros(len(rows)))),
        ("the lower triangle released, too", (PairCritic, "__init__", _pairs_where(torch.ne))),
        ("codes of one column released, too", (PairCritic, "__init__", _pairs_where(torch.le))),
    ],
    rounding_takes_no_unit_beyond_the_bound: [
        ("norms of pairs in single precision", (PairCritic, "_norms", _in_single_precision)),
        ("no room for rounding", (dp_sgd, "ROOM", 0.0)),
    ],
    products_in_half_precision_take_no_unit_beyond_the_bound: [
        ("factors and products as torch was told", (dp_sgd, "keeps_digits", lambda _: True)),
    ],
    the_rows_of_a_unit_are_summed_before_they_are_clipped: [
        ("rows of a unit clipped one by one", (dp_sgd, "clipped_sums", _rows_one_by_one)),
        ("pairs of rows clipped one by one", (PairCritic, "_clipped_sum", _pairs_of_rows_one_by_one)),
        ("the norm of rows that share no pair", (PairCritic, "_norms", _norm_of_rows_that_share_nothing)),
    ],
    a_gradient_that_is_not_finite_counts_as_nothing: [
        ("gradients that are not finite left in", (dp_sgd, "clip_factors", _infinity_left_in)),
    ],
    padding_and_units_without_rows_add_nothing: [("padding that counts", (UnitIndex, "batch", _padding_counts))],
    units_are_sampled_by_poissons_law_at_the_rate_that_is_charged: [
        ("a sampler with another rate than is charged", (SystemNoise, "sample", _another_rate)),
        ("batches of a fixed size", (SystemNoise, "sample", _fixed_size)),
        ("a shuffled table cut into batches", (SystemNoise, "sample", _shuffled)),
    ],
    a_sample_above_the_pass_is_summed_whole: _both("truncation at overflow", _truncated),
    the_noisy_sum_is_divided_by_the_expected_batch: _both("dividing by the actual batch", _by_the_actual_batch),
    an_empty_sample_has_its_noise_and_its_step: _both("an empty batch skipped", _empty_skipped),
    what_the_budget_is_asked_for_is_the_clipped_sum_of_real_rows: [
        ("noise on the fakes in place of the real rows", (PairCritic, "step", _noise_on_fakes)),
        ("a row's norm left as it is", (PairCritic, "__init__", _not_scaled)),
    ],
    nothing_but_the_released_sum_depends_on_the_table: [
        ("a generator trained on real rows", (PrivateCtganTraining, "step", _generator_on_real_rows)),
        ("conditions from exact frequencies", (PrivateCtganTraining, "__init__", _exact_frequencies)),
        ("weights moved by real rows beside the sum", (PairCritic, "step", _moved_by_real_rows)),
    ],
    a_row_has_the_gradient_of_its_score: [("a pair left out", (PairCritic, "_gradient", _last_pair_left_out))],
    a_units_norm_is_that_of_its_summed_gradient: [
        ("the norm of several rows taken as one row's", (PairCritic, "_norms", _norm_of_one_row)),
    ],
    the_weights_come_to_the_difference_of_two_way_marginals: [
        ("half of the fakes left out", (PairCritic, "step", _half_of_the_fakes)),
    ],
    a_state_that_is_loaded_goes_on_as_the_first_would_have: [
        ("a count of steps not kept", (PrivateCtganTraining, "_parts", _count_forgotten)),
    ],
}  # fmt: skip
PLANTED = [pytest.param(plant, check, id=name) for check, named in MUTANTS.items() for name, plant in named]


@pytest.mark.parametrize("check", MUTANTS, ids=lambda check: check.__name__)
def test_the_code_as_it_is_passes(check: Check) -> None:
    check()


@pytest.mark.parametrize(("plant", "check"), PLANTED)
def test_a_planted_lie_is_caught(plant: Plant, check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*plant)
    with pytest.raises(AssertionError) as caught:
        check()
    # Caught by the check, that is: a mutant that only breaks the program proves nothing about it.
    assert any(str(entry.path) == __file__ and entry.name == check.__name__ for entry in caught.traceback[-2:])
