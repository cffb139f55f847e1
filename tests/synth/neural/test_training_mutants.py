"""A table of lies that private training could tell, each planted in turn, each beside the check that must catch it.

Every check passes on the code as it is. A mutant that survives its check means that the check guards nothing.
"""

import random
import secrets
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from synth.dp.events import SubsampledGaussianEvent
from synth.dp.mechanisms import Steps, SystemNoise
from synth.neural import dp_ctgan as dp_ctgan_networks
from synth.neural import dp_sgd
from synth.neural import tvae as dp_tvae
from synth.neural.batches import N_WORDS, WORDS_AT, Batch, UnitIndex
from synth.neural.dp_ctgan import NetworkCritic, PrivateCtganTraining
from synth.neural.dp_sgd import Clipping, StepRelease, write_gradients
from synth.neural.tvae import PrivateTvaeTraining
from tests.synth.neural.toy import (
    EXPECTED,
    KINDS,
    LAYOUT,
    N_UNITS,
    Purse,
    draws_of,
    flat_state,
    gradient,
    private_networks,
    sum_of,
    training,
    units,
    without,
)

TAILS = (1e-7, 1 - 1e-7)
"""Where a statistical check alarms: once in five million runs by chance."""
ROUNDING = 1e-5
SIGMA, N_REPEATS, N_COORDINATES = 1.5, 200, 2_000


def system_steps(n_steps: int, sampling_rate: float = 1.0) -> Steps:
    return Steps(SubsampledGaussianEvent("gradients", SIGMA, sampling_rate, n_steps), n_steps, SystemNoise())


def residual(kind: str, steps: StepRelease, n_repeats: int) -> np.ndarray:
    """What steps of learning rate 0 on all units write more than the step without noise; shape (n_repeats, d)."""
    still: dict[str, Any] = {"rate": 0.0} if kind == "tvae" else {"critic_rate": 0.0, "generator_rate": 0.0}
    trained = training(kind, units(), max_grad_norm=2.0, **still)

    def written(source: StepRelease) -> Tensor:
        torch.manual_seed(7)
        trained.step(source)
        return gradient(trained)

    clean = written(Purse([range(N_UNITS)]))
    noise: np.ndarray = torch.stack([written(steps) - clean for _ in range(n_repeats)]).numpy()
    return noise * EXPECTED


def noise_of_a_step_has_its_scale() -> None:
    noise = residual("tvae", system_steps(N_REPEATS), N_REPEATS)[:, :N_COORDINATES]
    assert noise.shape == (N_REPEATS, N_COORDINATES)
    low, high = stats.chi2(noise.size).ppf(TAILS)
    assert low < np.square(noise / (SIGMA * 2.0)).sum() < high


def noise_is_new_in_every_step_and_fit() -> None:
    for kind in KINDS:
        fits = []
        for _ in range(2):
            np.random.seed(0)  # noqa: NPY002 - noise that listened to it would come out twice the same
            random.seed(0)
            fits.append(residual(kind, system_steps(3), 3))
        first, second = fits
        for one, other in ((first[0], second[0]), (first[0], first[1]), (first[1], second[0])):
            assert abs(np.corrcoef(one, other)[0, 1]) < 0.3


def what_is_drawn_for_rows_is_new_in_every_step_and_fit() -> None:
    for kind in KINDS:
        still: dict[str, Any] = {"rate": 0.0} if kind == "tvae" else {"critic_rate": 0.0, "generator_rate": 0.0}
        purse = Purse([range(N_UNITS)])
        for _ in range(2):
            trained = training(kind, units(), **still)
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
            return losses(codes, noise)  # type: ignore[no-any-return]

        trained._losses = listening  # type: ignore[method-assign]
        for _ in range(2):
            trained.step(Purse([range(N_UNITS)]))
    every = torch.cat(latents)
    assert len(every) >= 4 * N_UNITS
    assert len(every.unique(dim=0)) == len(every)


def what_is_drawn_for_rows_hangs_on_more_than_a_seed() -> None:
    # A seed, of which torch takes 32 bits, is spread over the state word by word (Matsumoto & Nishimura 1998).
    for kind in KINDS:
        state = draws_of(training(kind, units())).get_state()
        words = state[WORDS_AT : WORDS_AT + 8 * N_WORDS].view(torch.int64).numpy().astype(np.uint64)
        assert words.max() < 2**32
        before = words[:-1] ^ (words[:-1] >> np.uint64(30))
        follows = (np.uint64(1_812_433_253) * before + np.arange(1, N_WORDS, dtype=np.uint64)) % np.uint64(2**32)
        assert (words[1:] == follows).sum() < 3


def a_unit_of_great_gradient_moves_the_sum_by_no_more_than_the_bound() -> None:
    everyone = list(range(N_UNITS))
    for kind in KINDS:
        for k in (1, 3):
            table = units(k)
            for steepness in (1.0, 1000.0):
                whole = sum_of(kind, table, everyone, steepness, max_rows=12 * k)
                for gone in (0, 9, 29):
                    others = without(table, gone)
                    moved = np.linalg.norm(whole - sum_of(kind, others, everyone, steepness, max_rows=12 * k))
                    assert moved <= 1 + ROUNDING


def the_rows_of_a_unit_are_summed_before_they_are_clipped() -> None:
    # Each of three equal rows has the same gradient, of norm above the bound.
    table = units(3)
    three = UnitIndex(table.codes[[0, 0, 0]], np.array([0]), np.array([3]), 3)
    for kind in KINDS:
        assert np.linalg.norm(sum_of(kind, three, [0])) <= 1 + ROUNDING


def a_gradient_that_is_not_finite_counts_as_nothing() -> None:
    everyone = list(range(N_UNITS))
    for kind in KINDS:
        assert np.isfinite(sum_of(kind, units(), everyone, float("nan"))).all()
        assert not sum_of(kind, units(), everyone, float("inf")).any()


def padding_adds_nothing() -> None:
    for kind in KINDS:
        for k in (1, 3):
            assert not sum_of(kind, units(k), []).any()


def units_are_sampled_by_poissons_law_at_the_rate_that_is_charged() -> None:
    n, rate, n_steps = 100, 0.1, 4_000
    steps, sampled = system_steps(n_steps, rate), []

    def clipped_sum(chosen: np.ndarray) -> Tensor:
        sampled.append(chosen)
        return torch.zeros(1, dtype=torch.float64)

    for _ in range(n_steps):
        dp_sgd.noisy_mean(steps, n, Clipping(1.0, n * rate, n), clipped_sum)
    assert len(sampled) == n_steps
    sizes = np.array([len(chosen) for chosen in sampled])
    edges = np.arange(4, 18)
    law = stats.binom(n, rate)
    expected = n_steps * np.diff(np.r_[0.0, law.cdf(edges), 1.0])
    found = np.bincount(np.searchsorted(edges, sizes), minlength=len(expected))
    assert stats.chisquare(found, expected).pvalue > TAILS[0]
    times = np.bincount(np.concatenate(sampled), minlength=n)
    statistic = np.square((times - n_steps * rate) / np.sqrt(n_steps * rate * (1 - rate))).sum()
    assert stats.chi2(n).cdf(statistic) < TAILS[1]
    assert stats.chi2(n).cdf(statistic) > TAILS[0]


def a_sample_above_the_pass_is_summed_whole() -> None:
    everyone = range(N_UNITS)
    for kind in KINDS:
        for k in (1, 3):
            whole = sum_of(kind, units(k), everyone, still=True, max_rows=N_UNITS * k)
            passes = sum_of(kind, units(k), everyone, still=True, max_rows=10 * k)
            assert np.linalg.norm(whole - passes) < ROUNDING * np.linalg.norm(whole)


def the_sum_is_divided_by_the_expected_batch() -> None:
    # Whatever was drawn: with the same answer to the sum, the same step.
    for kind in KINDS:
        written = []
        for sampled in (range(3), range(8), range(20)):
            trained = training(kind, units())
            torch.manual_seed(3)
            trained.step(Purse([sampled], answer=lambda total, bound: np.full_like(total, 1e4)))
            written.append(gradient(trained).median().item())
        assert written == pytest.approx([1e4 / EXPECTED] * 3, rel=1e-3)


def an_empty_sample_has_its_noise_and_its_step() -> None:
    for kind in KINDS:
        trained = training(kind, units())
        before = [network.state_dict() for network in private_networks(trained)]
        before = [{name: value.clone() for name, value in state.items()} for state in before]
        purse = Purse([[]], answer=lambda total, bound: total + 1.0)
        trained.step(purse)
        assert len(purse.totals) == 1
        for network, state in zip(private_networks(trained), before, strict=True):
            assert all(bool((value != state[name]).any()) for name, value in network.state_dict().items())
        assert gradient(trained).abs().min() > 0


def what_the_budget_is_asked_for_is_the_sum_over_real_rows() -> None:
    # Against autograd, a row at a time: the critic's scores with their conditions.
    trained = training("ctgan", units(), max_grad_norm=2.0)
    assert isinstance(trained, PrivateCtganTraining)
    n, codes = 20, units().codes[:20].long()
    columns: list[Tensor] = []
    of_rows = trained.conditions.of_rows

    def listening(codes: Tensor, column: Tensor) -> Tensor:
        columns.append(column)
        return of_rows(codes, column)

    trained.conditions.of_rows = listening  # type: ignore[method-assign]
    weights = {name: value.clone() for name, value in trained.critic.network.state_dict().items()}
    purse = Purse([range(n)])
    trained.step(purse)
    trained.critic.network.load_state_dict(weights)
    rows = torch.cat([trained.maker.spans.one_hot(codes), of_rows(codes, columns[0][:n])], 1)
    expected = np.zeros_like(purse.totals[0])
    for row in rows:
        parts = torch.autograd.grad(-trained.critic.network(row[None]).sum(), list(trained.critic.network.parameters()))
        flat = torch.cat([part.flatten() for part in parts]).double().numpy()
        expected += flat * min(1.0, 2.0 / np.linalg.norm(flat))
    assert purse.bounds == [2.0]
    assert np.abs(purse.totals[0] - expected).max() < 1e-4


def nothing_but_the_released_sum_depends_on_the_table() -> None:
    # Bit for bit: with the same answers to the sums, tables of any content and size, with samples of any size and any
    # number of passes, end in the same weights.
    def answer(total: np.ndarray, bound: float) -> np.ndarray:
        return np.asarray(np.sin(np.arange(len(total)) * 0.7) * 3)

    tables = (units(), units(seed=5), units(seed=9, n_units=90))
    samples: tuple[list[Sequence[int]], ...] = ([range(10), range(8)], [range(12), []], [range(60), range(2)])
    for kind in KINDS:
        states = []
        for table, sampled in zip(tables, samples, strict=True):
            trained = training(kind, table, max_rows=20)
            purse = Purse(sampled, answer)
            for _ in range(6):
                trained.step(purse)
            states.append(flat_state(trained))
        assert all(torch.equal(states[0], state) for state in states[1:])


Check = Callable[[], None]
CHECKS: tuple[Check, ...] = (
    noise_of_a_step_has_its_scale, noise_is_new_in_every_step_and_fit,
    what_is_drawn_for_rows_is_new_in_every_step_and_fit, every_row_has_a_latent_draw_of_its_own,
    what_is_drawn_for_rows_hangs_on_more_than_a_seed,
    a_unit_of_great_gradient_moves_the_sum_by_no_more_than_the_bound,
    the_rows_of_a_unit_are_summed_before_they_are_clipped, a_gradient_that_is_not_finite_counts_as_nothing,
    padding_adds_nothing, units_are_sampled_by_poissons_law_at_the_rate_that_is_charged,
    a_sample_above_the_pass_is_summed_whole, the_sum_is_divided_by_the_expected_batch,
    an_empty_sample_has_its_noise_and_its_step, what_the_budget_is_asked_for_is_the_sum_over_real_rows,
    nothing_but_the_released_sum_depends_on_the_table,
)  # fmt: skip

_floats, _sample, _clipped_sums = SystemNoise.floats, SystemNoise.sample, dp_sgd.clipped_sums
_factors, _batch, _mean = dp_sgd.clip_factors, UnitIndex.batch, dp_sgd.noisy_mean
_ctgan_step, _public = PrivateCtganTraining.step, NetworkCritic._public_gradient
_init = PrivateCtganTraining.__init__
_latent_sum, _tvae_losses = PrivateTvaeTraining._clipped_sum, PrivateTvaeTraining._losses


def _noise_times(factor: float) -> Callable[..., np.ndarray]:
    return lambda self, values, sigma: _floats(self, values, sigma * factor)


def _seeded(self: SystemNoise, values: np.ndarray, sigma: float) -> np.ndarray:
    return np.asarray(values + np.random.default_rng(0).normal(0, sigma, values.shape))


def _from_numpys_global_state(self: SystemNoise, values: np.ndarray, sigma: float) -> np.ndarray:
    return np.asarray(values + np.random.normal(0, sigma, values.shape))  # noqa: NPY002 - the lie


def _from_torchs_global_state(self: SystemNoise, values: np.ndarray, sigma: float) -> np.ndarray:
    return np.asarray(values + sigma * torch.randn(len(values), dtype=torch.float64).numpy())


def _same_key(self: SystemNoise) -> np.random.Generator:
    return self.__dict__.setdefault("kept", np.random.Generator(np.random.Philox(key=1)))  # type: ignore[no-any-return]


def _unclipped(squared: Tensor, max_grad_norm: float) -> Tensor:
    return torch.where(squared.isfinite(), 1.0, 0.0).double()


def _infinity_left_in(squared: Tensor, max_grad_norm: float) -> Tensor:
    return torch.where(squared.isfinite(), _factors(squared, max_grad_norm), 1.0)


def _clipped_per_layer(
    losses: Tensor, records: Sequence[Any], n_units: int, max_grad_norm: float
) -> tuple[list[Tensor], Tensor]:
    gradients = torch.autograd.grad(losses.sum(), [record.outputs for record in records])
    sums, squared = [], torch.zeros(n_units, dtype=torch.float64)
    for record, gradient_of_layer in zip(records, gradients, strict=True):
        inputs, given = dp_sgd._of_units(record.inputs, gradient_of_layer, n_units)
        of_layer = dp_sgd._squared_norms(inputs, given)
        squared += of_layer
        scaled = (given * _factors(of_layer, max_grad_norm)[:, None, None].to(given.dtype)).flatten(0, 1)
        sums += [scaled.T @ inputs.flatten(0, 1), scaled.sum(0)]
    return sums, squared.sqrt()


def _rows_one_by_one(
    losses: Tensor, records: Sequence[Any], n_units: int, max_grad_norm: float
) -> tuple[list[Tensor], Tensor]:
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
        self.steps, self.n_sampled = steps, 0

    def sample(self, n_units: int) -> np.ndarray:
        sampled = self.steps.sample(n_units)
        self.n_sampled = len(sampled)
        return sampled

    def release(self, total: np.ndarray, max_grad_norm: float) -> np.ndarray:
        return self.steps.release(total, max_grad_norm)


def _by_the_actual_batch(steps: StepRelease, n_units: int, clipping: Clipping, clipped_sum: Any) -> Tensor:
    remembering = _Remembering(steps)
    mean = _mean(remembering, n_units, clipping, clipped_sum)
    return mean * clipping.expected_batch / max(remembering.n_sampled, 1)


def _empty_skipped(steps: StepRelease, n_units: int, clipping: Clipping, clipped_sum: Any) -> Tensor:
    sampled = steps.sample(n_units)
    total: Tensor = clipped_sum(sampled[: clipping.pass_units])
    if not len(sampled):
        return torch.zeros_like(total)
    return torch.from_numpy(steps.release(total.numpy(), clipping.max_grad_norm) / clipping.expected_batch)


def _truncated(steps: StepRelease, n_units: int, clipping: Clipping, clipped_sum: Any) -> Tensor:
    total: Tensor = clipped_sum(steps.sample(n_units)[: clipping.pass_units])
    return torch.from_numpy(steps.release(total.numpy(), clipping.max_grad_norm) / clipping.expected_batch)


def _noise_on_fakes(self: NetworkCritic, steps: StepRelease, made: Tensor, condition: Tensor) -> None:
    fakes = torch.cat([made, condition], 1)
    sampled = steps.sample(len(self._units))[: self._clipping.pass_units]
    real = self._clipped_sum(sampled) / self._clipping.expected_batch
    of_fakes = self._clipped_fakes(lambda: self.network(fakes), len(fakes), self._clipping.max_grad_norm)
    noisy = torch.from_numpy(steps.release(of_fakes.numpy(), self._clipping.max_grad_norm)) / len(fakes)
    write_gradients(self._parameters, real + noisy)
    self._adam.step()


def _generator_on_real_rows(self: PrivateCtganTraining, steps: StepRelease) -> None:
    # As if the marginals to match were the table's own.
    rows = self.maker.spans.one_hot(self.critic._units.codes.long())  # type: ignore[attr-defined]
    self.conditions.shares = rows.mean(0)
    _ctgan_step(self, steps)


def _penalty_on_real_rows(self: NetworkCritic, fakes: Tensor) -> Tensor:
    codes = self._units.codes[: len(fakes)].long()
    real = torch.cat([self._spans.one_hot(codes)] * 2, 1)
    return _public(self, torch.cat([real, fakes[len(real) :]]))


def _exact_frequencies(self: PrivateCtganTraining, spec: Any, table: UnitIndex, layout: Any, *rest: Any) -> None:
    codes = table.codes.numpy()
    counts = [np.bincount(codes[:, index], minlength=size) * 1.0 for index, size in enumerate(LAYOUT.sizes)]
    _init(self, spec, table, layout, counts, *rest[1:])


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


def _draws_of_the_public(device: torch.device) -> torch.Generator:
    return torch.default_generator


Plant = tuple[Any, str, Any]


def _both(lie: Any) -> tuple[Plant, ...]:
    return tuple((module, "noisy_mean", lie) for module in (dp_tvae, dp_ctgan_networks))


MUTANTS: Sequence[tuple[str, tuple[Plant, ...], Check]] = (
    ("no noise", ((SystemNoise, "floats", _noise_times(0.0)),), noise_of_a_step_has_its_scale),
    ("half the noise", ((SystemNoise, "floats", _noise_times(0.5)),), noise_of_a_step_has_its_scale),
    ("noise 5% short", ((SystemNoise, "floats", _noise_times(0.95)),), noise_of_a_step_has_its_scale),
    ("noise 7% long", ((SystemNoise, "floats", _noise_times(1.07)),), noise_of_a_step_has_its_scale),
    ("seeded noise", ((SystemNoise, "floats", _seeded),), noise_is_new_in_every_step_and_fit),
    (
        "noise from torch's own generator",
        ((SystemNoise, "floats", _from_torchs_global_state),),
        noise_is_new_in_every_step_and_fit,
    ),
    (
        "noise from a generator that a seed reaches",
        ((SystemNoise, "floats", _from_numpys_global_state),),
        noise_is_new_in_every_step_and_fit,
    ),
    (
        "the same key in every fit",
        ((SystemNoise, "_generator", property(_same_key)),),
        noise_is_new_in_every_step_and_fit,
    ),
    (
        "draws for rows from a fixed seed",
        tuple((module, "secret_generator", _of_a_fixed_seed) for module in (dp_tvae, dp_ctgan_networks)),
        what_is_drawn_for_rows_is_new_in_every_step_and_fit,
    ),
    (
        "latent draws that are seeded by the sample",
        ((PrivateTvaeTraining, "_clipped_sum", _seeded_before_every_sum),),
        what_is_drawn_for_rows_is_new_in_every_step_and_fit,
    ),
    (
        "one latent draw for all rows",
        ((PrivateTvaeTraining, "_losses", _one_latent_for_all),),
        every_row_has_a_latent_draw_of_its_own,
    ),
    (
        "draws for rows from a seed of 32 bits",
        tuple((module, "secret_generator", _of_a_secret_seed) for module in (dp_tvae, dp_ctgan_networks)),
        what_is_drawn_for_rows_hangs_on_more_than_a_seed,
    ),
    (
        "clipping off",
        ((dp_sgd, "clip_factors", _unclipped),),
        a_unit_of_great_gradient_moves_the_sum_by_no_more_than_the_bound,
    ),
    (
        "clipping per layer",
        ((dp_sgd, "clipped_sums", _clipped_per_layer),),
        a_unit_of_great_gradient_moves_the_sum_by_no_more_than_the_bound,
    ),
    (
        "rows of a unit clipped one by one",
        ((dp_sgd, "clipped_sums", _rows_one_by_one),),
        the_rows_of_a_unit_are_summed_before_they_are_clipped,
    ),
    (
        "gradients that are not finite left in",
        ((dp_sgd, "clip_factors", _infinity_left_in),),
        a_gradient_that_is_not_finite_counts_as_nothing,
    ),
    ("padding that counts", ((UnitIndex, "batch", _padding_counts),), padding_adds_nothing),
    (
        "a sampler with another rate than is charged",
        ((SystemNoise, "sample", _another_rate),),
        units_are_sampled_by_poissons_law_at_the_rate_that_is_charged,
    ),
    (
        "batches of a fixed size",
        ((SystemNoise, "sample", _fixed_size),),
        units_are_sampled_by_poissons_law_at_the_rate_that_is_charged,
    ),
    (
        "a shuffled table cut into batches",
        ((SystemNoise, "sample", _shuffled),),
        units_are_sampled_by_poissons_law_at_the_rate_that_is_charged,
    ),
    ("truncation at overflow", _both(_truncated), a_sample_above_the_pass_is_summed_whole),
    ("dividing by the actual batch", _both(_by_the_actual_batch), the_sum_is_divided_by_the_expected_batch),
    ("an empty batch skipped", _both(_empty_skipped), an_empty_sample_has_its_noise_and_its_step),
    (
        "noise on the fakes in place of the real rows",
        ((NetworkCritic, "step", _noise_on_fakes),),
        what_the_budget_is_asked_for_is_the_sum_over_real_rows,
    ),
    (
        "a generator trained on real rows",
        ((PrivateCtganTraining, "step", _generator_on_real_rows),),
        nothing_but_the_released_sum_depends_on_the_table,
    ),
    (
        "a penalty on real rows",
        ((NetworkCritic, "_public_gradient", _penalty_on_real_rows),),
        nothing_but_the_released_sum_depends_on_the_table,
    ),
    (
        "conditions from exact frequencies",
        ((PrivateCtganTraining, "__init__", _exact_frequencies),),
        nothing_but_the_released_sum_depends_on_the_table,
    ),
    (
        "random numbers that count the passes",
        tuple((module, "secret_generator", _draws_of_the_public) for module in (dp_tvae, dp_ctgan_networks)),
        nothing_but_the_released_sum_depends_on_the_table,
    ),
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_code_as_it_is_passes(check: Check) -> None:
    check()


@pytest.mark.parametrize(("plants", "check"), [m[1:] for m in MUTANTS], ids=[m[0] for m in MUTANTS])
def test_a_planted_lie_is_caught(plants: tuple[Plant, ...], check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    for place, name, lie in plants:
        monkeypatch.setattr(place, name, lie)
    with pytest.raises(AssertionError) as caught:
        check()
    # Caught by the check, that is: a mutant that only breaks the program proves nothing about it.
    assert any(str(entry.path) == __file__ and entry.name == check.__name__ for entry in caught.traceback[-2:])


def test_every_check_has_a_mutant() -> None:
    assert {check for _, _, check in MUTANTS} == set(CHECKS)
