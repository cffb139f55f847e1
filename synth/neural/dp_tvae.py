"""DP-TVAE: one step of training TVAE with DP-SGD.

Encoder and decoder are trained together and every gradient is of real rows, so that one noisy sum holds all of it,
though only the decoder is kept.

Source: Xu et al. 2019 (1907.00503), section 4.4; Abadi et al. 2016 (1607.00133).
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synth.neural.batches import UnitIndex, secret_generator
from synth.neural.checkpoint import restore, states_of
from synth.neural.dp_sgd import Backend, Clipping, ClipTally, StepRelease, noisy_mean, write_gradients
from synth.neural.networks import Decoder, Encoder, Spans, is_finite
from synth.neural.opacus_backend import clipped_sums_by
from synth.neural.released import averaged, released_shares
from synth.neural.tvae import divergences
from synth.transforms.layout import Layout

RAREST_SHARE = 1e-5
"""Below this a released share is noise."""


@dataclass(frozen=True)
class PrivateTvaeSpec:
    """What is set before training; all of it public.

    Attributes:
        d_latent: width of the latent space; few dimensions, as noise hides the rest.
        encoder_widths: of its hidden layers.
        decoder_widths: of its hidden layers.
        rate: Adam's learning rate.
        divergence_weight: of the latent distribution's divergence from the prior; at 1 it wins over what noise leaves
            of the likelihood, and the decoder ignores its input.
        max_grad_norm: bound on a unit's gradient over both networks.
        ema: what a step leaves of the averaged decoder.
        max_rows_per_pass: rows in memory at a time.
        backend: who clips.
    """

    d_latent: int = 16
    encoder_widths: tuple[int, ...] = (128, 128)
    decoder_widths: tuple[int, ...] = (128, 128)
    rate: float = 4e-3
    divergence_weight: float = 0.1
    max_grad_norm: float = 1.0
    ema: float = 0.99
    max_rows_per_pass: int = 8192
    backend: Backend = "exact"


class PrivateTvaeTraining:
    """TVAE in training; real rows are read by a step's clipped sum alone.

    Args:
        spec: settings.
        units: *Sensitive*. The table.
        layout: of its rows; spans alone.
        one_way: released counts of each span's codes.
        expected_batch: sampling rate times the number of units, as released.
        device: where it is trained.

    Attributes:
        decoder: the average of the decoders on the way, to sample from.
        tally: *Sensitive*. How many units were clipped.

    Source: of `decoder`, Polyak & Juditsky 1992; De et al. 2022 (2204.13650) for DP-SGD.
    """

    def __init__(
        self,
        spec: PrivateTvaeSpec,
        units: UnitIndex,
        layout: Layout,
        one_way: Sequence[NDArray[np.floating]],
        expected_batch: float,
        device: torch.device,
    ) -> None:
        self.spec, self._units = spec, units.to(device)
        self._spans = Spans(layout).to(device)
        shares = released_shares(one_way, layout)
        self._encoder = Encoder(layout.width, spec.encoder_widths, spec.d_latent).to(device)
        self._decoder = Decoder(spec.d_latent, spec.decoder_widths, layout.width).to(device)
        with torch.no_grad():  # a decoder that starts at the released marginals has only the rest to learn
            self._decoder.output.bias.copy_(shares.clamp_min(RAREST_SHARE).log())
            self._decoder.output.weight.mul_(0.1)
        self.decoder = copy.deepcopy(self._decoder).requires_grad_(False)
        self._parameters = [*self._encoder.parameters(), *self._decoder.parameters()]
        self._optimizer = torch.optim.Adam(self._parameters, spec.rate, fused=True)
        self._draws = secret_generator(device)
        self.tally = ClipTally()
        self._clipped = clipped_sums_by(spec.backend, self._encoder, self._decoder, tally=self.tally)
        self._clipping = Clipping.planned(
            spec.max_grad_norm, expected_batch, units.max_rows_per_unit, spec.max_rows_per_pass
        )

    def step(self, steps: StepRelease) -> None:
        """Take one step of DP-SGD.

        Args:
            steps: what the budget has charged.
        """
        gradient = noisy_mean(steps, len(self._units), self._clipping, self._clipped_sum)
        write_gradients(self._parameters, gradient)
        self._optimizer.step()
        averaged(self.decoder, self._decoder, self.spec.ema)

    def _clipped_sum(self, sampled: NDArray[np.int64]) -> Tensor:
        size = self._clipping.pass_units
        self.tally.sampled(len(sampled))
        batch = self._units.batch(sampled, size)
        noise = torch.randn(len(batch.codes), self.spec.d_latent, generator=self._draws, device=self._draws.device)

        def losses() -> Tensor:
            of_rows = self._losses(batch.codes, noise)
            return torch.where(batch.mask, of_rows, 0.0)

        return self._clipped(losses, size, self.spec.max_grad_norm)

    def _losses(self, codes: Tensor, noise: Tensor) -> Tensor:
        """The negative evidence lower bound of each row, shape (n,)."""
        mean, log_variance = self._encoder(self._spans.one_hot(codes))
        logits = self._decoder(mean + noise * (log_variance / 2).exp())
        divergence = self.spec.divergence_weight * divergences(mean, log_variance)
        return divergence + self._spans.nll(logits, codes).sum(1)

    @property
    def finite(self) -> bool:
        """Whether all weights are finite numbers."""
        return is_finite(self._encoder, self._decoder)

    def state(self) -> dict[str, Any]:
        """All that a checkpoint needs: weights that noise has made releasable, and nothing of the table."""
        return states_of(self._parts())

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` gave."""
        restore(self._parts(), state)

    def _parts(self) -> dict[str, Any]:
        return {
            "encoder": self._encoder,
            "decoder": self._decoder,
            "average": self.decoder,
            "optimizer": self._optimizer,
        }
