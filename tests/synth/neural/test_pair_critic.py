"""The critic of pairs: gradients, norms and sums against autograd a row at a time, its noise, and what it learns.

A check is a function without arguments, so that a fault can be planted under it; a mutant that survives its check means
that the check guards nothing.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from synth.dp.events import SubsampledGaussianEvent
from synth.dp.mechanisms import InjectedNoise, Steps, SystemNoise
from synth.neural import dp_ctgan as dp_ctgan_networks
from synth.neural.batches import Batch, UnitIndex
from synth.neural.dp_ctgan import LEAST_RATE, SCORE_WEIGHT, PairCritic, PrivateCtganSpec, PrivateCtganTraining
from synth.neural.dp_sgd import Clipping, StepRelease, noisy_mean
from synth.neural.networks import Spans
from synth.transforms.layout import Encoded, Layout, Span
from tests.synth.neural.toy import CPU, EXPECTED, LAYOUT, N_UNITS, Purse, flat_state, training, units

EVERYONE = range(N_UNITS)
BOUNDS = (0.5, 1.0, 2.0)
ROUNDING = 1e-5
"""Of sums over 30 units in single precision."""
TAILS = (1e-7, 1 - 1e-7)
"""Where the statistical check alarms: once in five million runs by chance."""
SIGMA, N_REPEATS = 1.5, 200
WIDE = Layout(tuple(Span(f"c{index}", 8, True) for index in range(5)))


def critic_of(
    table: UnitIndex, *, max_grad_norm: float = 1.0, pass_units: int = N_UNITS, layout: Layout = LAYOUT
) -> PairCritic:
    return PairCritic(table, Spans(layout), Clipping(max_grad_norm, EXPECTED, pass_units))


def relaxed(layout: Layout = LAYOUT, n: int = 6, seed: int = 0) -> Tensor:
    """Rows as a generator makes them: no zeros and no ones."""
    logits = torch.randn(n, layout.n_codes, generator=torch.Generator().manual_seed(seed))
    return Spans(layout).softmax(2 * logits)


def places_of_pairs(layout: Layout = LAYOUT) -> list[tuple[int, int]]:
    """The pairs of codes of two columns, the earlier column's first, in the order of their codes."""
    column = np.repeat(np.arange(len(layout.sizes)), layout.sizes)
    return [(i, j) for i, j in combinations(range(layout.n_codes), 2) if column[i] != column[j]]


def of_pairs(square: Tensor, layout: Layout = LAYOUT) -> np.ndarray:
    return np.array([square[i, j].item() for i, j in places_of_pairs(layout)])


def by_autograd(codes: Iterable[int], layout: Layout = LAYOUT) -> np.ndarray:
    """A row's gradient: of the sum of the weights on its pairs, by all weights."""
    weights = torch.zeros(layout.n_codes, layout.n_codes, dtype=torch.float64, requires_grad=True)
    places = [code + offset for code, offset in zip(codes, layout.offsets.tolist(), strict=True)]
    score = torch.stack([weights[i, j] for i, j in combinations(places, 2)]).sum()
    return of_pairs(torch.autograd.grad(score, weights)[0], layout)


def unit_gradient(table: UnitIndex, unit: int) -> np.ndarray:
    """The sum over a unit's rows, where one row has a norm of 1."""
    first = unit if table.first_row is None else table.first_row[unit]
    n_rows = table.n_rows[unit]
    rows = [by_autograd(row.tolist()) for row in table.codes[first : first + n_rows]]
    summed: np.ndarray = np.sum([np.zeros(len(places_of_pairs())), *rows], axis=0)
    return summed / math.sqrt(3)


def clipped(gradient: np.ndarray, max_grad_norm: float) -> np.ndarray:
    return gradient * min(1.0, max_grad_norm / max(float(np.linalg.norm(gradient)), 1e-12))


def asked_for(table: UnitIndex, sampled: Sequence[int], **settings: Any) -> np.ndarray:
    """The one sum that a step hands to the budget."""
    purse = Purse([sampled])
    critic_of(table, **settings).step(purse, relaxed(), torch.zeros(0))
    assert len(purse.totals) == 1
    assert purse.bounds == [settings.get("max_grad_norm", 1.0)]
    return purse.totals[0]


def after_one_step(table: UnitIndex, steps: StepRelease, **settings: Any) -> np.ndarray:
    """The weights, which are the first step's gradient whole."""
    critic = critic_of(table, **settings)
    critic.step(steps, relaxed(settings.get("layout", LAYOUT)), torch.zeros(0))
    return of_pairs(critic.weights, settings.get("layout", LAYOUT))


def agreeing(n_same: int, k: int = 3) -> UnitIndex:
    """Two units, whose first has equal rows."""
    rows = [0] * n_same + [1]
    return UnitIndex(units().codes[rows], np.array([0, n_same]), np.array([n_same, 1]), k)


def a_row_has_the_gradient_of_its_score() -> None:
    critic = critic_of(units())
    for codes in units().codes.long():
        row = critic._spans.one_hot(codes[None])
        found = critic._gradient(row, torch.ones(1)).numpy()
        assert np.abs(found - by_autograd(codes.tolist())).max() == 0
        assert np.linalg.norm(found) / critic._row_norm == pytest.approx(1.0, abs=1e-12)
        assert critic._norms(row[None]).item() == pytest.approx(1.0, abs=1e-6)


def a_units_norm_is_that_of_its_summed_gradient() -> None:
    for k in (1, 3):
        table = units(k)
        critic = critic_of(table)
        batch = table.batch(np.arange(len(table)), N_UNITS)
        rows = critic._spans.one_hot(batch.codes) * batch.mask[:, None]
        found = critic._norms(rows.view(N_UNITS, k, -1)).numpy()
        norms = [np.linalg.norm(unit_gradient(table, unit)) for unit in EVERYONE]
        assert np.abs(found - norms).max() < 1e-6


def a_unit_moves_the_sum_by_no_more_than_the_bound() -> None:
    for k in (1, 3):
        table = units(k)
        for bound in BOUNDS:
            whole = asked_for(table, EVERYONE, max_grad_norm=bound, pass_units=12)
            for gone in EVERYONE:
                others = [unit for unit in EVERYONE if unit != gone]
                moved = np.linalg.norm(whole - asked_for(table, others, max_grad_norm=bound, pass_units=12))
                norm = np.linalg.norm(unit_gradient(table, gone))
                assert moved <= bound + ROUNDING
                assert moved == pytest.approx(min(norm, bound), abs=ROUNDING)


def equal_rows_of_a_unit_are_summed_before_they_are_clipped() -> None:
    for n_same in (2, 3):
        for bound in BOUNDS:
            found = asked_for(agreeing(n_same), [0], max_grad_norm=bound)
            assert np.linalg.norm(found) == pytest.approx(min(n_same, bound), abs=ROUNDING)


def what_the_budget_is_asked_for_is_the_clipped_sum_of_real_rows() -> None:
    for k in (1, 3):
        table = units(k)
        for bound in BOUNDS:
            for sampled in ([4], range(0, 30, 3), EVERYONE):
                expected = sum(clipped(unit_gradient(table, unit), bound) for unit in sampled)
                found = asked_for(table, sampled, max_grad_norm=bound)
                assert (found.shape, found.dtype) == ((26,), np.dtype(np.float64))
                assert np.abs(found - expected).max() < ROUNDING


def a_sample_above_the_pass_is_summed_whole() -> None:
    for k in (1, 3):
        whole = asked_for(units(k), EVERYONE)
        for size in (1, 7, 10, 29):
            assert np.abs(asked_for(units(k), EVERYONE, pass_units=size) - whole).max() < ROUNDING


def padding_and_units_without_rows_add_nothing() -> None:
    full = units(3)
    for k in (1, 3):
        assert not asked_for(units(k), []).any()
        assert np.abs(asked_for(units(k), [2]) - asked_for(units(k), [2], pass_units=1)).max() == 0
    hollow = UnitIndex(full.codes, full.first_row, full.n_rows * (np.arange(N_UNITS) % 2), 3)
    assert not asked_for(hollow, range(0, N_UNITS, 2)).any()
    odd = range(1, N_UNITS, 2)
    assert np.abs(asked_for(hollow, EVERYONE) - asked_for(full, odd)).max() < ROUNDING
    nobody = UnitIndex(full.codes[:0], np.zeros(2, np.int64), np.zeros(2, np.int64), 3)
    assert not asked_for(nobody, [0, 1]).any()


def an_empty_sample_has_its_noise_and_its_step() -> None:
    critic = critic_of(units())
    purse = Purse([[]], answer=lambda total, bound: total + 50.0)
    critic.step(purse, relaxed(), torch.zeros(0))
    assert len(purse.totals) == 1
    assert int(critic._weights.n_done) == 1
    assert of_pairs(critic.weights).min() > 5


def the_noisy_sum_is_divided_by_the_expected_batch() -> None:
    # Whatever was drawn, and however many units there are: with the same answer to the sum, the same step.
    of_fakes = of_pairs((relaxed().T @ relaxed()) / 6)
    for n_units in (N_UNITS, 90):
        for sampled in (range(3), range(8), range(20)):
            purse = Purse([sampled], answer=lambda total, bound: np.arange(len(total)) * 10.0)
            found = after_one_step(units(n_units=n_units), purse, max_grad_norm=2.0)
            expected = np.arange(26) * 10.0 * math.sqrt(3) / EXPECTED - of_fakes
            assert np.abs(found - expected).max() < ROUNDING * np.abs(expected).max()


def noise_of_a_step_has_its_scale() -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 8, (N_UNITS, 5)).astype(np.int32)
    table = UnitIndex.of(Encoded(codes, np.zeros((N_UNITS, 0), dtype=np.float32)))
    steps = Steps(SubsampledGaussianEvent("gradients", SIGMA, 1.0, N_REPEATS), N_REPEATS, SystemNoise())
    settings: dict[str, Any] = {"max_grad_norm": 2.0, "layout": WIDE}
    clean = after_one_step(table, Purse([EVERYONE]), **settings)
    noise = np.stack([after_one_step(table, steps, **settings) - clean for _ in range(N_REPEATS)])
    # A standard error of the scale is 0.2%: the alarm is raised by 1.1% too little or too much.
    noise *= EXPECTED / math.sqrt(10)
    assert noise.shape == (N_REPEATS, 640)
    low, high = stats.chi2(noise.size).ppf(TAILS)
    assert low < np.square(noise / (SIGMA * 2.0)).sum() < high


def nothing_but_the_released_sum_depends_on_the_table() -> None:
    # Bit for bit, generator included: tables of any content and size, samples of any size and number of passes.
    def answer(total: np.ndarray, bound: float) -> np.ndarray:
        return np.asarray(np.sin(np.arange(len(total)) * 0.7) * 3)

    samples: tuple[list[Sequence[int]], ...] = ([range(10), range(8)], [range(12), []], [[]], [range(60), range(2)])
    for k in (1, 3):
        states = []
        tables = (units(k), units(k, seed=5), units(k, seed=9), units(k, seed=9, n_units=90))
        for table, sampled in zip(tables, samples, strict=True):
            trained = training("ctgan", table, max_rows=20, critic="pairs")
            purse = Purse(sampled, answer)
            for _ in range(6):
                trained.step(purse)
            states.append(flat_state(trained))
        assert all(torch.equal(states[0], state) for state in states[1:])


def the_weights_come_to_the_difference_of_two_way_marginals() -> None:
    # Four samples in turn that are the whole table, and two batches of fakes: up to step 200 the weights are the mean
    # of what they were shown.
    table, batches = units(n_units=32), [relaxed(seed=1), relaxed(seed=2)]
    critic = PairCritic(table, Spans(LAYOUT), Clipping(1.0, 8.0, 32))
    purse = Purse([range(start, 32, 4) for _ in range(100) for start in range(4)])
    shares = np.mean([by_autograd(row.tolist()) for row in table.codes], axis=0)
    difference = shares - of_pairs(torch.stack([batch.T @ batch / 6 for batch in batches]).mean(0))
    for step in range(400):
        critic.step(purse, batches[step % 2], torch.zeros(0))
        if step == 199:
            assert np.abs(of_pairs(critic.weights) - difference).max() < ROUNDING
    # Then the last steps count for a little more: by 1 / 200 each at most.
    assert np.abs(of_pairs(critic.weights) - difference).max() < 4 * LEAST_RATE
    assert critic.weights.count_nonzero() == np.count_nonzero(of_pairs(critic.weights))


def a_state_that_is_loaded_goes_on_as_the_first_would_have() -> None:
    first, purse = training("ctgan", units(), critic="pairs"), Purse([range(10)])
    for _ in range(5):
        first.step(purse)
    second = training("ctgan", units(), critic="pairs")
    second.load(first.state())
    for trained in (first, second):
        torch.manual_seed(5)
        for _ in range(3):
            trained.step(purse)
    assert torch.equal(flat_state(first), flat_state(second))
    assert int(second.state()["critic"]["n_done"]) == 8


Check = Callable[[], None]
CHECKS: tuple[Check, ...] = (
    a_row_has_the_gradient_of_its_score, a_units_norm_is_that_of_its_summed_gradient,
    a_unit_moves_the_sum_by_no_more_than_the_bound, equal_rows_of_a_unit_are_summed_before_they_are_clipped,
    what_the_budget_is_asked_for_is_the_clipped_sum_of_real_rows, a_sample_above_the_pass_is_summed_whole,
    padding_and_units_without_rows_add_nothing, an_empty_sample_has_its_noise_and_its_step,
    the_noisy_sum_is_divided_by_the_expected_batch, noise_of_a_step_has_its_scale,
    nothing_but_the_released_sum_depends_on_the_table, the_weights_come_to_the_difference_of_two_way_marginals,
    a_state_that_is_loaded_goes_on_as_the_first_would_have,
)  # fmt: skip

_init, _step, _gradient, _norms = PairCritic.__init__, PairCritic.step, PairCritic._gradient, PairCritic._norms
_batch, _floats = UnitIndex.batch, SystemNoise.floats


def _both_triangles(self: PairCritic, table: UnitIndex, spans: Spans, clipping: Clipping) -> None:
    _init(self, table, spans, clipping)
    self._pairs = (spans.span_of[:, None] != spans.span_of[None, :]).nonzero().T


def _pairs_of_one_column_too(self: PairCritic, table: UnitIndex, spans: Spans, clipping: Clipping) -> None:
    _init(self, table, spans, clipping)
    self._pairs = (spans.span_of[:, None] <= spans.span_of[None, :]).nonzero().T


def _not_scaled(self: PairCritic, table: UnitIndex, spans: Spans, clipping: Clipping) -> None:
    _init(self, table, spans, clipping)
    self._row_norm = 1.0


def _rows_one_by_one(self: PairCritic, sampled: np.ndarray) -> Tensor:
    batch = self._units.batch(sampled, self._clipping.pass_units)
    rows = self._spans.one_hot(batch.codes) * batch.mask[:, None]
    factors = torch.full((len(rows),), min(1.0, self._clipping.max_grad_norm))
    return self._gradient(rows, factors).double() / self._row_norm


def _no_norm(self: PairCritic, rows: Tensor) -> Tensor:
    return torch.zeros(len(rows))


def _norm_of_one_row(self: PairCritic, rows: Tensor) -> Tensor:
    return _norms(self, rows[:, :1])


def _norm_of_rows_that_share_nothing(self: PairCritic, rows: Tensor) -> Tensor:
    return torch.stack([_norms(self, row[:, None]).square() for row in rows.unbind(1)]).sum(0).sqrt()


def _padding_counts(self: UnitIndex, chosen: np.ndarray, size: int) -> Batch:
    batch = _batch(self, chosen, size)
    return batch._replace(mask=torch.ones_like(batch.mask))


def _truncated(steps: StepRelease, n_units: int, clipping: Clipping, clipped_sum: Any) -> Tensor:
    total: Tensor = clipped_sum(steps.sample(n_units)[: clipping.pass_units])
    return torch.from_numpy(steps.release(total.numpy(), clipping.max_grad_norm) / clipping.expected_batch)


def _by_the_actual_batch(steps: StepRelease, n_units: int, clipping: Clipping, clipped_sum: Any) -> Tensor:
    sampled = steps.sample(n_units)
    noisy = steps.release(clipped_sum(sampled).numpy(), clipping.max_grad_norm)
    return torch.from_numpy(noisy / max(len(sampled), 1))


def _empty_skipped(steps: StepRelease, n_units: int, clipping: Clipping, clipped_sum: Any) -> Tensor:
    sampled = steps.sample(n_units)
    total: Tensor = clipped_sum(sampled)
    if not len(sampled):
        return torch.zeros_like(total)
    return torch.from_numpy(steps.release(total.numpy(), clipping.max_grad_norm) / clipping.expected_batch)


def _noise_forgotten(steps: StepRelease, n_units: int, clipping: Clipping, clipped_sum: Any) -> Tensor:
    total: Tensor = clipped_sum(steps.sample(n_units))
    steps.release(total.numpy(), clipping.max_grad_norm)
    return total / clipping.expected_batch


def _bound_said_too_small(steps: StepRelease, n_units: int, clipping: Clipping, clipped_sum: Any) -> Tensor:
    said = Clipping(clipping.max_grad_norm * 0.95, clipping.expected_batch, clipping.pass_units)
    return noisy_mean(steps, n_units, said, clipped_sum)


def _noise_5_percent_short(self: SystemNoise, values: np.ndarray, sigma: float) -> np.ndarray:
    return _floats(self, values, 0.95 * sigma)


def _moved_by_real_rows(self: PairCritic, steps: StepRelease, fakes: Tensor, condition: Tensor) -> None:
    _step(self, steps, fakes, condition)
    rows = self._spans.one_hot(self._units.codes.long())
    self.weights[self._pairs[0], self._pairs[1]] -= 0.01 * self._gradient(rows, torch.ones(len(rows))) / len(rows)


def _half_of_the_fakes(self: PairCritic, steps: StepRelease, fakes: Tensor, condition: Tensor) -> None:
    _step(self, steps, fakes[: len(fakes) // 2], condition)


def _last_pair_left_out(self: PairCritic, rows: Tensor, factors: Tensor) -> Tensor:
    found = _gradient(self, rows, factors)
    return torch.cat([found[:-1], torch.zeros(1)])


def _count_forgotten(self: PairCritic) -> dict[str, Any]:
    kept = torch.nn.Module()
    kept.register_buffer("of_pairs", self.weights)
    kept.register_buffer("n_done", torch.zeros((), dtype=torch.int64))
    return {"critic": kept}


MUTANTS: Sequence[tuple[str, tuple[Any, str, Any], Check]] = (
    ("a pair left out", (PairCritic, "_gradient", _last_pair_left_out), a_row_has_the_gradient_of_its_score),
    ("clipping off", (PairCritic, "_norms", _no_norm), a_unit_moves_the_sum_by_no_more_than_the_bound),
    (
        "the norm of several rows taken as one row's",
        (PairCritic, "_norms", _norm_of_one_row),
        a_units_norm_is_that_of_its_summed_gradient,
    ),
    (
        "the norm of rows that share no pair",
        (PairCritic, "_norms", _norm_of_rows_that_share_nothing),
        equal_rows_of_a_unit_are_summed_before_they_are_clipped,
    ),
    (
        "rows of a unit clipped one by one",
        (PairCritic, "_clipped_sum", _rows_one_by_one),
        equal_rows_of_a_unit_are_summed_before_they_are_clipped,
    ),
    (
        "the lower triangle released, too",
        (PairCritic, "__init__", _both_triangles),
        a_unit_moves_the_sum_by_no_more_than_the_bound,
    ),
    (
        "codes of one column released, too",
        (PairCritic, "__init__", _pairs_of_one_column_too),
        a_unit_moves_the_sum_by_no_more_than_the_bound,
    ),
    (
        "a row's norm left as it is",
        (PairCritic, "__init__", _not_scaled),
        what_the_budget_is_asked_for_is_the_clipped_sum_of_real_rows,
    ),
    ("truncation at overflow", (dp_ctgan_networks, "noisy_mean", _truncated), a_sample_above_the_pass_is_summed_whole),
    ("padding that counts", (UnitIndex, "batch", _padding_counts), padding_and_units_without_rows_add_nothing),
    (
        "an empty batch skipped",
        (dp_ctgan_networks, "noisy_mean", _empty_skipped),
        an_empty_sample_has_its_noise_and_its_step,
    ),
    (
        "dividing by the actual batch",
        (dp_ctgan_networks, "noisy_mean", _by_the_actual_batch),
        the_noisy_sum_is_divided_by_the_expected_batch,
    ),
    ("noise forgotten", (dp_ctgan_networks, "noisy_mean", _noise_forgotten), noise_of_a_step_has_its_scale),
    ("noise 5% short", (SystemNoise, "floats", _noise_5_percent_short), noise_of_a_step_has_its_scale),
    (
        "a bound said 5% too small",
        (dp_ctgan_networks, "noisy_mean", _bound_said_too_small),
        noise_of_a_step_has_its_scale,
    ),
    (
        "weights moved by real rows beside the sum",
        (PairCritic, "step", _moved_by_real_rows),
        nothing_but_the_released_sum_depends_on_the_table,
    ),
    (
        "half of the fakes left out",
        (PairCritic, "step", _half_of_the_fakes),
        the_weights_come_to_the_difference_of_two_way_marginals,
    ),
    (
        "a count of steps not kept",
        (PairCritic, "parts", _count_forgotten),
        a_state_that_is_loaded_goes_on_as_the_first_would_have,
    ),
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_code_as_it_is_passes(check: Check) -> None:
    check()


@pytest.mark.parametrize(("plant", "check"), [m[1:] for m in MUTANTS], ids=[m[0] for m in MUTANTS])
def test_a_planted_fault_is_caught(plant: tuple[Any, str, Any], check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*plant)
    with pytest.raises(AssertionError) as caught:
        check()
    # Caught by the check, that is: a mutant that only breaks the program proves nothing about it.
    assert caught.traceback[-1].name == check.__name__


@pytest.mark.parametrize(("k", "max_grad_norm"), [(1, 0.5), (3, 1.0), (3, 3.0)])
def test_fakes_that_are_the_real_rows_leave_a_critic_with_nothing_to_tell(k: int, max_grad_norm: float) -> None:
    # Every unit's rows are alike, so that clipping weighs all units the same: whatever it leaves of them, the marginals
    # of the fakes are the real ones.
    rows = units().codes.repeat_interleave(k, dim=0)
    table = UnitIndex(rows, np.arange(N_UNITS) * k, np.full(N_UNITS, k), k)
    critic = PairCritic(table, Spans(LAYOUT), Clipping(max_grad_norm, N_UNITS, N_UNITS))
    critic.step(Purse([EVERYONE]), Spans(LAYOUT).one_hot(units().codes.long()), torch.zeros(0))
    assert np.abs(of_pairs(critic.weights)).max() < ROUNDING
    critic.step(Purse([EVERYONE]), relaxed(), torch.zeros(0))
    assert np.abs(of_pairs(critic.weights)).max() > 0.01


def test_scores_are_the_weights_of_the_pairs_that_a_row_holds() -> None:
    critic = critic_of(units())
    critic.step(Purse([EVERYONE]), relaxed(), torch.zeros(0))
    weights = critic.weights
    fakes = relaxed(seed=3).requires_grad_()
    scores = critic.scores(fakes, torch.zeros(0))
    assert not weights.requires_grad
    for row, score in zip(fakes.detach(), scores.tolist(), strict=True):
        expected = sum((weights[i, j] * row[i] * row[j]).item() for i, j in places_of_pairs())
        assert score == pytest.approx(SCORE_WEIGHT * expected, rel=1e-4)
    slope = torch.autograd.grad(scores.sum(), fakes)[0]
    expected_slope = SCORE_WEIGHT * fakes @ (weights + weights.T)
    assert (slope - expected_slope).abs().max() < 1e-4
    assert torch.equal(critic.weights, weights)


@pytest.mark.parametrize(("k", "max_grad_norm"), [(1, 1.0), (3, 2.0)])
def test_the_weights_are_a_decaying_average_of_noisy_pairs_less_the_fakes(k: int, max_grad_norm: float) -> None:
    # Against double precision, a step at a time, until the rate has come to its least and for a while longer.
    table, rng = units(k), np.random.default_rng(4)
    samples = [np.flatnonzero(rng.random(N_UNITS) < EXPECTED / N_UNITS).tolist() for _ in range(220)]
    noise = rng.normal(0, max_grad_norm, (220, 26))
    left = iter(noise)
    purse = Purse(samples, answer=lambda total, bound: np.asarray(total + next(left)))
    gradients = np.array([clipped(unit_gradient(table, unit), max_grad_norm) for unit in EVERYONE])
    critic, weights = critic_of(table, max_grad_norm=max_grad_norm, pass_units=9), np.zeros(26)
    for step, sampled in enumerate(samples):
        fakes = relaxed(n=5, seed=step)
        critic.step(purse, fakes, torch.zeros(0))
        real = (gradients[sampled].sum(0) + noise[step]) * math.sqrt(3) / EXPECTED
        rate = max(LEAST_RATE, 1 / (step + 1))
        mass = real.sum() / 3 if k > 1 else 1.0  # clipped units of several rows weigh what they weigh
        weights = (1 - rate) * weights + rate * (real - mass * of_pairs(fakes.T @ fakes / 5))
        assert np.abs(of_pairs(critic.weights) - weights).max() < ROUNDING


def test_two_columns_that_agree_agree_in_what_is_drawn() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2, 400)
    table = UnitIndex.of(Encoded(np.stack([x, x], axis=1).astype(np.int32), np.zeros((400, 0), dtype=np.float32)))
    layout = Layout((Span("x", 2, True), Span("y", 2, True)))
    torch.manual_seed(0)
    spec = PrivateCtganSpec(critic="pairs", d_latent=4, generator_widths=(32, 32), ema=0.9)
    trained = PrivateCtganTraining(spec, table, layout, [np.ones(2), np.ones(2)], 100.0, 300, CPU)
    steps = Steps(SubsampledGaussianEvent("gradients", SIGMA, 0.25, 300), 300, InjectedNoise(rng))
    for _ in range(300):
        trained.step(steps)
    condition, _, _ = trained.conditions.draw(1000)
    drawn = trained.maker.spans.draw(trained.generator(torch.cat([torch.randn(1000, 4), condition], 1)))
    assert (drawn[:, 0] == drawn[:, 1]).float().mean() > 0.8  # by chance half


def test_a_table_of_one_column_has_no_pairs_and_trains_on_its_marginal() -> None:
    codes = np.repeat([0, 2, 2, 1], 20).astype(np.int32)[:, None]
    table = UnitIndex.of(Encoded(codes, np.zeros((80, 0), dtype=np.float32)))
    layout = Layout((Span("x", 3, True),))
    torch.manual_seed(0)
    spec = PrivateCtganSpec(critic="pairs", d_latent=2, generator_widths=(16,), ema=0.9)
    trained = PrivateCtganTraining(spec, table, layout, [np.array([1.0, 0.0, 3.0])], 40.0, 300, CPU)
    steps = Steps(SubsampledGaussianEvent("gradients", SIGMA, 0.5, 300), 300, SystemNoise())
    for _ in range(300):
        trained.step(steps)
    assert trained.finite
    assert isinstance(trained.critic, PairCritic)
    assert not trained.critic.weights.any()
    condition, _, _ = trained.conditions.draw(1000)
    drawn = trained.maker.spans.draw(trained.generator(torch.cat([torch.randn(1000, 2), condition], 1)))
    assert (drawn == 1).float().mean() < 0.1


def _all_are(value: float, total: np.ndarray, bound: float) -> np.ndarray:
    return np.full_like(total, value)


def test_weights_that_are_no_longer_finite_are_told() -> None:
    for wrong in (float("nan"), float("inf")):
        trained = training("ctgan", units(), critic="pairs")
        assert trained.finite
        trained.step(Purse([[]], answer=partial(_all_are, wrong)))
        assert not trained.finite


def test_every_check_has_a_mutant() -> None:
    assert {check for _, _, check in MUTANTS} == set(CHECKS)
