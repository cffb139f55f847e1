"""DP-SGD over texts, beside plain autograd; and lies about it, each beside the check that must catch it.

Every check passes on the code as it is. A mutant that survives its check means that the check guards nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from synth.neural import dp_sgd
from synth.neural.training import UnitIndex
from tests.extras.text.tiny import canonical, clipped, coded, decoder, gradient_of_unit, units_of
from tests.synth.neural.toy import Purse, Recorded, without
from tests.text_tables import TEXT
from understudy.extras.text import training as language_training
from understudy.extras.text.language_models import Decoder, SmallDecoder, losses, losses_of, trimmed
from understudy.extras.text.tokens import sequences_of
from understudy.extras.text.training import ROWS_A_PASS, PrivateTextTraining, TextTraining, has_gradients_by_text

VOCABULARY = coded()
N_PROMPT = VOCABULARY.n_prompt
K, EXPECTED = 3, 6.0
OWNERS = np.repeat(np.arange(12), np.r_[np.tile([1, 2, 3], 4)])
N_UNITS = 12


def texts_of(n: int, seed: int = 1, max_tokens: int = 12) -> np.ndarray:
    """Sequences of texts of unequal length, some of them missing."""
    rows = canonical(n, seed)
    rows[TEXT] = [None if rank % 7 == 6 else text[: 1 + rank % 14] for rank, text in enumerate(rows[TEXT])]
    return sequences_of(VOCABULARY, rows, TEXT, max_tokens=max_tokens, length=99)


SEQUENCES = texts_of(len(OWNERS))


def table() -> UnitIndex:
    return units_of(SEQUENCES, OWNERS, K)


def private(units: UnitIndex, max_grad_norm: float = 1.0, rate: float = 0.0, scale: float = 1.0) -> PrivateTextTraining:
    """The same decoder every time, its weights so many times as large."""
    model = decoder(VOCABULARY)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(scale)
    return PrivateTextTraining(model, units, N_PROMPT, EXPECTED, max_grad_norm, rate)


def asked_for(trained: PrivateTextTraining, sampled: Sequence[int]) -> np.ndarray:
    purse = Purse([sampled])
    trained.step(purse)
    assert len(purse.totals) == 1
    return purse.totals[0]


def gradients() -> list[np.ndarray]:
    return [gradient_of_unit(decoder(VOCABULARY), SEQUENCES[unit == OWNERS], N_PROMPT) for unit in range(N_UNITS)]


def what_the_budget_is_asked_for_is_the_clipped_sum_over_units() -> None:
    of_units = gradients()
    norms = [float(np.linalg.norm(gradient)) for gradient in of_units]
    bound = float(np.median(norms))
    for sampled in (range(N_UNITS), [2], [1, 5, 11]):
        total = asked_for(private(table(), bound), sampled)
        expected = clipped([of_units[unit] for unit in sampled], bound)
        assert np.abs(total - expected).max() < 1e-4 * bound


def a_unit_moves_the_sum_by_no_more_than_the_bound() -> None:
    for scale in (1.0, 30.0):
        whole = asked_for(private(table(), scale=scale), range(N_UNITS))
        for gone in (0, 2, 7):
            others = asked_for(private(without(table(), gone), scale=scale), range(N_UNITS))
            assert np.linalg.norm(whole - others) <= 1 + 1e-5


def the_texts_of_a_unit_are_clipped_together() -> None:
    # Three equal texts have equal gradients, each of a norm above the bound.
    same = units_of(SEQUENCES[[4, 4, 4]], np.zeros(3), K)
    assert np.linalg.norm(asked_for(private(same, 0.01), [0])) == pytest.approx(0.01, rel=1e-4)


def a_sample_above_the_pass_is_summed_whole() -> None:
    n = 3 * ROWS_A_PASS
    many = units_of(texts_of(n), np.arange(n), 1)
    parts = [asked_for(private(many), range(start, start + 16)) for start in range(0, n, 16)]
    whole = asked_for(private(many), range(n))
    assert np.abs(whole - np.sum(parts, axis=0)).max() < 1e-4


def an_empty_sample_has_its_sum_and_its_step() -> None:
    trained = private(table(), rate=0.1)
    before = {name: value.clone() for name, value in trained._decoder.trained.items()}
    purse = Purse([[]], answer=lambda total, bound: total + 1.0)
    trained.step(purse)
    assert not purse.totals[0].any()
    assert all(bool((value != before[name]).any()) for name, value in trained._decoder.trained.items())


def the_sum_is_divided_by_the_expected_batch() -> None:
    for sampled in (range(2), range(9)):
        trained = private(table())
        trained.step(Purse([sampled], answer=lambda total, bound: np.full_like(total, 12.0)))
        parts = [p.grad for p in trained._parameters if p.grad is not None]
        assert torch.cat([part.flatten() for part in parts]).unique().tolist() == [12.0 / EXPECTED]


TABLES = (
    (SEQUENCES, OWNERS), (texts_of(40, 5), np.arange(40) // 3),
    (np.where(np.arange(SEQUENCES.shape[1]) > N_PROMPT + 1, 0, SEQUENCES), OWNERS),
)  # fmt: skip
"""Of other rows, of another number of units, and of texts that are all short."""


def shapes_and_operations_are_the_same_for_all_tables_and_samples() -> None:
    seen = []
    for sequences, owners in TABLES:
        for sampled in (range(4), [0], []):
            trained = private(units_of(sequences, owners, K))
            with Recorded() as recorded:
                asked_for(trained, sampled)
            seen.append([each for each in recorded.ran if each[0] != "index_select"])
    assert all(each == other for each, other in pairwise(seen))


def nothing_but_the_noisy_sum_reaches_the_weights() -> None:
    states = []
    for sequences, owners in TABLES:
        trained = private(units_of(sequences, owners, K), rate=0.05)
        purse = Purse([range(9), [], range(4)], answer=lambda total, bound: np.sin(np.arange(len(total)) * 0.7))
        for _ in range(6):
            trained.step(purse)
        assert len(purse.totals) == 6
        states.append(torch.cat([value.flatten() for value in trained.state()["weights"].values()]))
    assert all(torch.equal(states[0], state) for state in states[1:])


Check = Callable[[], None]
CHECKS: tuple[Check, ...] = (
    what_the_budget_is_asked_for_is_the_clipped_sum_over_units, a_unit_moves_the_sum_by_no_more_than_the_bound,
    the_texts_of_a_unit_are_clipped_together, a_sample_above_the_pass_is_summed_whole,
    an_empty_sample_has_its_sum_and_its_step, the_sum_is_divided_by_the_expected_batch,
    shapes_and_operations_are_the_same_for_all_tables_and_samples, nothing_but_the_noisy_sum_reaches_the_weights,
)  # fmt: skip

_step, _clipped_sum = PrivateTextTraining.step, PrivateTextTraining._clipped_sum
_of, _mean, _sums = UnitIndex.of, dp_sgd.noisy_mean, dp_sgd.OpacusSums.__call__


def _unclipped(squared: Tensor, max_grad_norm: float) -> Tensor:
    return torch.ones_like(squared)


def _clipped_by_text(self: Any, texts: Any, n_units: int, max_grad_norm: float) -> Tensor:
    return _sums(self, texts, n_units * K, max_grad_norm)


def _units_split(cls: Any, encoded: Any, entity_ids: Any = None, max_rows_per_unit: int = 1) -> UnitIndex:
    return replace(_of(encoded), max_rows_per_unit=max_rows_per_unit, first_row=np.arange(len(encoded)))


def _longest_in_batch(model: Decoder, sequences: Tensor, n_prompt: int) -> Tensor:
    shorter = trimmed(sequences) if bool((sequences > 0).any()) else sequences[:, : n_prompt + 1]
    return losses(model, shorter, n_prompt)


def _losses_of_all(model: Decoder, sequences: Tensor, n_prompt: int) -> Tensor:
    """A row's loss as a share of all that the batch has: it depends on the others."""
    of_rows = losses(model, sequences, n_prompt)
    return of_rows / of_rows.sum().clamp_min(1e-9)


def _as_large_as_the_sample(self: PrivateTextTraining, sampled: np.ndarray) -> Tensor:
    self._clipping = replace(self._clipping, pass_units=max(len(sampled), 1))
    return _clipped_sum(self, sampled)


def _first_pass_alone(self: Any, n_units: int, clipping: Any, clipped_sum: Any) -> Tensor:
    return _mean(self, n_units, replace(clipping, n_passes=1), lambda s: clipped_sum(s) * float(0 in s))


def _by_the_sample(steps: Any, n_units: int, clipping: Any, clipped_sum: Any) -> Tensor:
    sizes = []

    def counted(sampled: np.ndarray) -> Tensor:
        sizes.append(len(sampled))
        return clipped_sum(sampled)  # type: ignore[no-any-return]

    return _mean(steps, n_units, clipping, counted) * clipping.expected_batch / max(sum(sizes), 1)


def _empty_skipped(steps: Any, n_units: int, clipping: Any, clipped_sum: Any) -> Tensor:
    def or_zero(sampled: np.ndarray) -> Tensor:
        total: Tensor = clipped_sum(sampled)
        sizes.append(len(sampled))
        return total

    sizes: list[int] = []
    mean = _mean(steps, n_units, clipping, or_zero)
    return mean if sum(sizes) else mean * 0.0


def _real_loss(self: PrivateTextTraining) -> float:
    codes = self._units.codes.numpy().astype(np.int32)
    return float(losses_of(self._decoder, codes, self._n_prompt).mean())


def _stopped_by_its_loss(self: PrivateTextTraining, steps: Any) -> None:
    """A step that makes the real loss worse ends the training."""
    best = self.__dict__.setdefault("best", [_real_loss(self)])
    if len(best) > 1 and best[-1] > best[-2]:
        return
    _step(self, steps)
    best.append(_real_loss(self))


def _rate_by_its_loss(self: PrivateTextTraining, steps: Any) -> None:
    self._optimizer.param_groups[0]["lr"] = 0.02 * _real_loss(self)
    _step(self, steps)


def _the_best_kept(self: PrivateTextTraining, steps: Any) -> None:
    """The weights of the smallest loss on real texts stay."""
    before, was = {name: value.detach().clone() for name, value in self._decoder.trained.items()}, _real_loss(self)
    _step(self, steps)
    if _real_loss(self) > was:
        self._decoder.put(before)


Plant = tuple[Any, str, Any]
MUTANTS: Sequence[tuple[str, Plant, Check]] = (
    ("clipping off", (dp_sgd, "clip_factors", _unclipped), CHECKS[0]),
    ("clipping off, of a steep decoder", (dp_sgd, "clip_factors", _unclipped), CHECKS[1]),
    ("each text clipped by itself", (dp_sgd.OpacusSums, "__call__", _clipped_by_text), CHECKS[2]),
    ("the texts of a unit in samples of their own", (UnitIndex, "of", classmethod(_units_split)), CHECKS[0]),
    ("losses that depend on the batch", (language_training, "losses", _losses_of_all), CHECKS[0]),
    ("a pass left out", (language_training, "noisy_mean", _first_pass_alone), CHECKS[3]),
    ("an empty sample without a step", (language_training, "noisy_mean", _empty_skipped), CHECKS[4]),
    ("divided by the sample", (language_training, "noisy_mean", _by_the_sample), CHECKS[5]),
    ("texts padded to the longest of the batch", (language_training, "losses", _longest_in_batch), CHECKS[6]),
    ("passes as large as the sample", (PrivateTextTraining, "_clipped_sum", _as_large_as_the_sample), CHECKS[6]),
    ("a loss that stops training", (PrivateTextTraining, "step", _stopped_by_its_loss), CHECKS[7]),
    ("a learning rate by the loss", (PrivateTextTraining, "step", _rate_by_its_loss), CHECKS[7]),
    ("the best weights kept", (PrivateTextTraining, "step", _the_best_kept), CHECKS[7]),
)


@pytest.mark.parametrize("check", CHECKS, ids=[check.__name__ for check in CHECKS])
def test_private_training_on_texts(check: Check) -> None:
    check()


@pytest.mark.parametrize(("plant", "check"), [m[1:] for m in MUTANTS], ids=[m[0] for m in MUTANTS])
def test_every_mutant_is_caught(plant: Plant, check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*plant)
    with pytest.raises(AssertionError):
        check()


def test_training_without_privacy_learns_the_texts_it_reads() -> None:
    torch.manual_seed(0)
    model = SmallDecoder(VOCABULARY.size, 16, 1, N_PROMPT + 13)
    training = TextTraining(model, SEQUENCES, N_PROMPT, 8, 0.02)
    assert training.n_steps_per_epoch == 3
    before = losses_of(model, SEQUENCES, N_PROMPT).mean()
    for _ in range(60):
        training.step()
    assert losses_of(model, SEQUENCES, N_PROMPT).mean() < before / 2


class Mixing(SmallDecoder):
    """Texts see each other: their logits are centered over the batch."""

    def forward(self, tokens: Tensor, mask: Tensor, n_last: int) -> Tensor:
        logits = super().forward(tokens, mask, n_last)
        return logits - logits.mean(0, keepdim=True)


class PlacesFirst(SmallDecoder):
    """The first axis of its last layer's input counts places, not texts."""

    def forward(self, tokens: Tensor, mask: Tensor, n_last: int) -> Tensor:
        hidden, _ = self._hidden(tokens, mask, None)
        logits: Tensor = self.head(hidden[:, -n_last:].transpose(0, 1)).transpose(0, 1)
        return logits


@pytest.mark.parametrize(("kind", "expected"), [(SmallDecoder, True), (Mixing, False), (PlacesFirst, False)])
def test_a_decoder_whose_gradients_are_not_those_of_single_texts_is_found_out(
    kind: type[SmallDecoder], expected: bool
) -> None:
    torch.manual_seed(0)
    model = kind(VOCABULARY.size, 16, 1, N_PROMPT + 13)
    assert has_gradients_by_text(model, VOCABULARY.size, N_PROMPT, 6) == expected
    assert all(parameter.grad is None for parameter in model.parameters())
