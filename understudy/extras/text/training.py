"""Training of a language model on texts: epochs without privacy, DP-SGD over units with it.

With privacy a unit is all texts of one entity. They are in a step's sample together, and their summed gradient is
clipped as one. The number of steps is public, and nothing looks at a loss.
"""

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from synth.neural.dp_sgd import Clipping, ClipTally, OpacusSums, StepRelease, noisy_mean, write_gradients
from synth.neural.networks import is_finite
from synth.neural.training import Epochs, UnitIndex
from understudy.extras.text.decoder import Decoder

ROWS_A_PASS = 64  # texts that are read at once


def losses(decoder: Decoder, sequences: Tensor, n_prompt: int) -> Tensor:
    """The negative log-likelihood of each text given its prompt, of all its tokens in nats, shape (n,).
    `sequences`: *Sensitive*. Shape (n, T), int64.
    """
    mask, tokens = sequences > 0, (sequences - 1).clamp_min(0)
    asked = tokens[:, n_prompt:]
    logits = decoder(tokens[:, :-1], mask[:, :-1], asked.shape[1])
    of_tokens = functional.cross_entropy(logits.flatten(0, 1), asked.flatten(), reduction="none").view_as(asked)
    return (of_tokens * mask[:, n_prompt:].float()).sum(1)


@torch.no_grad()
def losses_of(decoder: Decoder, sequences: NDArray[np.int32], n_prompt: int) -> NDArray[np.float64]:
    """The same of a whole table, per token; shape (n,). `sequences`: *Sensitive*. Shape (n, T)."""
    nats, device = np.zeros(len(sequences)), next(trainable(decoder)).device
    for at in range(0, len(sequences), ROWS_A_PASS):
        part = trimmed(torch.from_numpy(sequences[at : at + ROWS_A_PASS]).to(device).long())
        nats[at : at + ROWS_A_PASS] = losses(decoder, part, n_prompt).double().cpu().numpy()
    per_token: NDArray[np.float64] = nats / np.maximum((sequences[:, n_prompt:] > 0).sum(1), 1)
    return per_token


def trimmed(sequences: Tensor) -> Tensor:
    """The sequences without ranks on the right where none has a token: for what promises nothing."""
    return sequences[:, : int((sequences > 0).any(0).nonzero().max()) + 1]


class _ByAdam:
    """The weights and moments of a training, which a checkpoint keeps, at the end of an epoch or a stretch."""

    def __init__(self, decoder: Decoder, n_prompt: int, kind: type[torch.optim.Optimizer], rate: float) -> None:
        self._decoder, self._n_prompt, self._parameters = decoder, n_prompt, list(trainable(decoder))
        self._optimizer = kind(self._parameters, lr=rate)

    def state(self) -> dict[str, Any]:
        weights = {name: value.detach().clone() for name, value in named(self._decoder)}
        return {"weights": weights, "optimizer": copy.deepcopy(self._optimizer.state_dict())}

    def load(self, state: Mapping[str, Any]) -> None:
        put(self._decoder, state["weights"])
        self._optimizer.load_state_dict(copy.deepcopy(state["optimizer"]))


class TextTraining(_ByAdam):
    """Training without privacy. `sequences`: *Sensitive*. Shape (n, T)."""

    def __init__(
        self, decoder: Decoder, sequences: NDArray[np.int32], n_prompt: int, batch_size: int, rate: float
    ) -> None:
        super().__init__(decoder, n_prompt, torch.optim.AdamW, rate)
        device = self._parameters[0].device
        self._sequences = torch.from_numpy(sequences).to(device)
        self._batches = Epochs(len(sequences), batch_size, device)

    @property
    def n_steps_per_epoch(self) -> int:
        return self._batches.n_steps

    def step(self) -> dict[str, Tensor]:
        rows, weights = self._batches.draw()
        # One divisor for all: divided by its own tokens, a short text would weigh as much as a long one, and too many
        # short ones would be written.
        nats = losses(self._decoder, trimmed(self._sequences[rows].long()), self._n_prompt)
        loss = (nats * weights).sum() / (self._sequences.shape[1] - self._n_prompt)
        self._optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self._parameters, 1.0)
        self._optimizer.step()
        return {"loss": loss.detach()}


class PrivateTextTraining(_ByAdam):
    """Training by DP-SGD, with each unit's gradient clipped, by Opacus' gradients of single texts.
    `units`: *Sensitive*. Sequences by unit. `tally`: *Sensitive*. How many units were clipped.
    """

    def __init__(
        self, decoder: Decoder, units: UnitIndex, n_prompt: int, expected_batch: float, max_grad_norm: float,
        rate: float,
    ) -> None:  # fmt: skip
        super().__init__(decoder, n_prompt, torch.optim.Adam, rate)
        self._units = units.to(self._parameters[0].device)
        self.tally = ClipTally()
        self._clipped = OpacusSums(decoder, tally=self.tally)
        self._clipping = Clipping.planned(max_grad_norm, expected_batch, units.max_rows_per_unit, ROWS_A_PASS)

    def step(self, steps: StepRelease) -> None:
        write_gradients(self._parameters, noisy_mean(steps, len(self._units), self._clipping, self._clipped_sum))
        self._optimizer.step()

    def _clipped_sum(self, sampled: NDArray[np.int64]) -> Tensor:
        # The divisor of all texts is public: it changes what is clipped, and nothing of the bound on it.
        size, most = self._clipping.pass_units, self._units.codes.shape[1] - self._n_prompt
        self.tally.sampled(len(sampled))
        batch = self._units.batch(sampled, size)
        return self._clipped(
            lambda: torch.where(batch.mask, losses(self._decoder, batch.codes, self._n_prompt) / most, 0.0),
            size,
            self._clipping.max_grad_norm,
        )

    @property
    def finite(self) -> bool:
        return is_finite(self._decoder)


TOLERANCE = 1e-3  # what rounding may make of gradients, as a share


def has_gradients_by_text(decoder: Decoder, size: int, n_prompt: int, n_text: int) -> bool:
    """True if Opacus' gradients of single texts are those of autograd, one text after another.

    It has a rule for each layer, and takes the first axis of its input for texts. A model that lays its tokens out in
    another way, or in which texts see each other, would not be clipped by unit. The texts tried are made up.
    """
    tokens = torch.randint(1, size + 1, (4, n_prompt + n_text), generator=torch.Generator().manual_seed(0))
    tokens[0, : n_prompt // 2], tokens[1, n_prompt + 2 :], tokens[3] = 0, 0, 0
    parameters, bound = list(trainable(decoder)), 1e-3
    units, expected = tokens.to(parameters[0].device).view(2, 2, -1), torch.zeros(())
    try:
        for unit in units:
            of_texts = [torch.autograd.grad(losses(decoder, text[None], n_prompt).sum(), parameters) for text in unit]
            gradient = torch.stack([torch.cat([part.flatten() for part in each]).double() for each in of_texts]).sum(0)
            expected = expected + gradient * (bound / gradient.norm().clamp_min(1e-12)).clamp_max(1.0)
        sums = OpacusSums(decoder)(lambda: losses(decoder, units.flatten(0, 1), n_prompt), 2, bound)
    except (RuntimeError, IndexError, ValueError, NotImplementedError):
        return False
    return bool((sums - expected).norm() <= TOLERANCE * bound)


def named(decoder: Decoder) -> Iterator[tuple[str, nn.Parameter]]:
    return ((name, p) for name, p in decoder.named_parameters() if p.requires_grad)


def trainable(decoder: Decoder) -> Iterator[nn.Parameter]:
    return (parameter for _, parameter in named(decoder))


def put(decoder: Decoder, weights: Mapping[str, Tensor]) -> None:
    if {name: value.shape for name, value in weights.items()} != {name: p.shape for name, p in named(decoder)}:
        raise ValueError("the weights are of another model")
    decoder.load_state_dict(weights, strict=False)
