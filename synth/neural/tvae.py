"""TVAE's training, one step at a time: without privacy, or with DP-SGD.

Under DP-SGD every gradient of encoder and decoder is of real rows. One noisy sum holds all of it, though only the
decoder is kept.

Source: Xu et al. 2019 (1907.00503), section 4.4; settings and losses without privacy are those of the library `ctgan`.

Source: Abadi et al. 2016 (1607.00133).
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from synth.neural.dp_sgd import Backend, Clipping, ClipTally, StepRelease, clipped_sums_by, noisy_mean, write_gradients
from synth.neural.encoding import Encoded, Layout
from synth.neural.networks import (
    Decoder,
    Encoder,
    Precision,
    Spans,
    averaged,
    is_finite,
    products_in,
    released_shares,
    widened,
)
from synth.neural.sampling import TvaeNetwork, match_one_way
from synth.neural.training import DeviceRows, Epochs, UnitIndex, restore, secret_generator, states_of

FIRST_DEVIATION, LEAST_DEVIATION, MOST_DEVIATION = 0.1, 0.01, 1.0  # of a scalar around what the decoder says of it


@dataclass(frozen=True)
class TvaeSpec:
    d_latent: int = 128
    encoder_widths: tuple[int, ...] = (128, 128)
    decoder_widths: tuple[int, ...] = (128, 128)
    rate: float = 1e-3
    decay: float = 1e-5
    reconstruction_weight: float = 2.0
    batch_size: int = 500
    precision: Precision = "float32"


class TvaeTraining:
    """TVAE on a table: everything is on the device, and a step never waits for it. `encoded`: *Sensitive*.

    Learned with the networks: `deviations` of the scalars around what the decoder says, shape (n_scalars,).
    """

    def __init__(self, spec: TvaeSpec, encoded: Encoded, layout: Layout, device: torch.device) -> None:
        self.spec, self.layout, self.device = spec, layout, device
        self.rows = DeviceRows(encoded, layout, device)
        self.encoder = Encoder(layout.width, spec.encoder_widths, spec.d_latent).to(device)
        self.decoder = Decoder(spec.d_latent, spec.decoder_widths, layout.width).to(device)
        self.deviations = nn.Parameter(torch.full((len(layout.scalars),), FIRST_DEVIATION, device=device))
        self._epochs = Epochs(len(encoded), spec.batch_size, device)
        weights = [*self.encoder.parameters(), *self.decoder.parameters(), self.deviations]
        self._adam = torch.optim.Adam(weights, spec.rate, weight_decay=spec.decay, fused=True)

    @property
    def n_steps_per_epoch(self) -> int:
        return self._epochs.n_steps

    def step(self) -> dict[str, Tensor]:
        """A step of encoder, decoder and deviations; its losses, detached and 0-d."""
        index, weights = self._epochs.draw()
        codes, scalars = self.rows.take(index)
        rows = self.rows.encoded(codes, scalars)
        with products_in(self.spec.precision, self.device):
            mean, log_variance = map(widened, self.encoder(rows))
        latent = torch.addcmul(mean, torch.randn_like(mean), (0.5 * log_variance).exp())
        with products_in(self.spec.precision, self.device):
            logits = widened(self.decoder(latent))
        by_row = reconstruction_losses(logits, codes, scalars, self.deviations, self.rows.spans)
        reconstruction = self.spec.reconstruction_weight * torch.dot(by_row, weights)
        divergence = torch.dot(divergences(mean, log_variance), weights)
        self._adam.zero_grad()
        (reconstruction + divergence).backward()
        self._adam.step()
        with torch.no_grad():
            self.deviations.clamp_(LEAST_DEVIATION, MOST_DEVIATION)
        return {"reconstruction": reconstruction.detach(), "divergence": divergence.detach()}

    def network(self) -> TvaeNetwork:
        return TvaeNetwork(self.layout, self.decoder.cpu().eval(), self.deviations.detach().cpu())

    def state(self) -> dict[str, Any]:
        more = {"deviations": self.deviations.detach().clone(), "epochs": self._epochs.state()}
        return {**states_of(self._parts()), **more}

    def load(self, state: Mapping[str, Any]) -> None:
        restore(self._parts(), state)
        with torch.no_grad():
            self.deviations.copy_(state["deviations"])
        self._epochs.load(state["epochs"])

    def _parts(self) -> dict[str, Any]:
        return {"encoder": self.encoder, "decoder": self.decoder, "adam": self._adam}


def reconstruction_losses(logits: Tensor, codes: Tensor, scalars: Tensor, deviations: Tensor, spans: Spans) -> Tensor:
    """The negative log-likelihood of each row under the decoder, but for a constant; shape (n,)."""
    of_codes, of_scalars = logits.split([spans.n_codes, len(deviations)], 1)
    likelihoods = spans.nll(of_codes, codes).sum(1)
    errors = (scalars - torch.tanh(of_scalars)) / deviations
    return likelihoods + errors.square().sum(1) / 2 + deviations.log().sum()


def divergences(mean: Tensor, log_variance: Tensor) -> Tensor:
    """The Kullback-Leibler divergence of each row's latent position from a standard normal one; shape (n,).

    Source: Kingma, Welling 2014 (1312.6114), appendix B.
    """
    return (mean.square() + log_variance.exp() - log_variance - 1).sum(1) / 2


RAREST_SHARE = 1e-5  # below this a released share is noise


@dataclass(frozen=True)
class PrivateTvaeSpec:
    """Training parameters; all of them public."""

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
    """TVAE in training; real rows are read by a step's clipped sum alone. `units`, `tally`: *Sensitive*.

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
        self.spec, self._layout, self._units = spec, layout, units.to(device)
        self._spans = Spans(layout).to(device)
        self._shares = released_shares(one_way, layout)
        self._encoder = Encoder(layout.width, spec.encoder_widths, spec.d_latent).to(device)
        self._decoder = Decoder(spec.d_latent, spec.decoder_widths, layout.width).to(device)
        with torch.no_grad():  # a decoder that starts at the released marginals has only the rest to learn
            self._decoder.output.bias.copy_(self._shares.clamp_min(RAREST_SHARE).log())
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

    def network(self) -> TvaeNetwork:
        """What rows are drawn from, matched to the released marginals."""
        network = TvaeNetwork(self._layout, self.decoder.cpu().eval(), torch.zeros(0))
        match_one_way(network, self._shares)
        return network

    def step(self, steps: StepRelease) -> None:
        self._move(self.gradient(steps))
        self._follow()

    def gradient(self, steps: StepRelease) -> Tensor:
        """One step's noisy gradient at the weights as they are; shape (d,), float64."""
        return noisy_mean(steps, len(self._units), self._clipping, self._clipped_sum)

    def update(self, steps: StepRelease, n_steps: int, start: Tensor) -> Tensor:
        """The distance that some steps move other weights by, shape (d,); Adam goes on from its last moments.
        `start`: weights to begin from, shape (d,).
        """
        self.put(start)
        for _ in range(n_steps):
            self._move(self.gradient(steps))
        return self.weights - start

    def absorb(self, update: Tensor, n_steps: int) -> None:
        """Move the weights by a mean of updates of so many steps, and the averaged decoder along."""
        self.put(self.weights + update)
        self._follow(n_steps)

    @property
    def weights(self) -> Tensor:
        """A copy of the weights in training, shape (d,)."""
        return nn.utils.parameters_to_vector(self._parameters).detach().clone()

    @property
    def d_update(self) -> int:
        return sum(parameter.numel() for parameter in self._parameters)

    def put(self, weights: Tensor) -> None:
        with torch.no_grad():
            nn.utils.vector_to_parameters(weights.clone(), self._parameters)

    def _move(self, gradient: Tensor) -> None:
        write_gradients(self._parameters, gradient)
        self._optimizer.step()

    def _follow(self, n_steps: int = 1) -> None:
        averaged(self.decoder, self._decoder, self.spec.ema**n_steps)

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
        return is_finite(self._encoder, self._decoder)

    def state(self) -> dict[str, Any]:
        """All that a checkpoint needs: weights that noise has made releasable, and nothing of the table."""
        return states_of(self._parts())

    def load(self, state: Mapping[str, Any]) -> None:
        restore(self._parts(), state)

    def _parts(self) -> dict[str, Any]:
        return {
            "encoder": self._encoder,
            "decoder": self._decoder,
            "average": self.decoder,
            "optimizer": self._optimizer,
        }
