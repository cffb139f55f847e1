"""Training of TVAE without privacy, one step at a time.

Source: Xu et al. 2019 (1907.00503), section 4.4; settings and losses are those of the library `ctgan`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from synth.neural.batches import DeviceRows, Epochs
from synth.neural.checkpoint import restore, states_of
from synth.neural.networks import Decoder, Encoder, Precision, Spans, products_in, widened
from synth.transforms.layout import Encoded, Layout

FIRST_DEVIATION, LEAST_DEVIATION, MOST_DEVIATION = 0.1, 0.01, 1.0
"""Of a scalar around what the decoder says of it."""


@dataclass(frozen=True)
class TvaeSpec:
    """How TVAE is trained.

    Attributes:
        d_latent: width of the latent space.
        encoder_widths: of its hidden layers.
        decoder_widths: of its hidden layers.
        rate: learning rate.
        decay: of all weights.
        reconstruction_weight: of the reconstruction, as against the divergence.
        batch_size: rows a step.
        precision: of the networks' products; bfloat16 is faster where a processor has it, and much
            slower where it has not.
    """

    d_latent: int = 128
    encoder_widths: tuple[int, ...] = (128, 128)
    decoder_widths: tuple[int, ...] = (128, 128)
    rate: float = 1e-3
    decay: float = 1e-5
    reconstruction_weight: float = 2.0
    batch_size: int = 500
    precision: Precision = "float32"


class TvaeTraining:
    """TVAE on a table: everything is on the device, and a step never waits for it.

    Attributes:
        encoder: trained along.
        decoder: what is trained.
        deviations: of the scalars around what the decoder says, learned, shape (n_scalars,).
        n_steps_per_epoch: steps that go through all rows once.

    Args:
        spec: how.
        encoded: *Sensitive*. The table, at least one row.
        layout: its layout.
        device: where.
    """

    def __init__(self, spec: TvaeSpec, encoded: Encoded, layout: Layout, device: torch.device) -> None:
        self.spec, self.device = spec, device
        self.rows = DeviceRows(encoded, layout, device)
        self.encoder = Encoder(layout.width, spec.encoder_widths, spec.d_latent).to(device)
        self.decoder = Decoder(spec.d_latent, spec.decoder_widths, layout.width).to(device)
        self.deviations = nn.Parameter(torch.full((len(layout.scalars),), FIRST_DEVIATION, device=device))
        self._epochs = Epochs(len(encoded), spec.batch_size, device)
        weights = [*self.encoder.parameters(), *self.decoder.parameters(), self.deviations]
        self._adam = torch.optim.Adam(weights, spec.rate, weight_decay=spec.decay, fused=True)

    @property
    def n_steps_per_epoch(self) -> int:
        """Steps that go through all rows once; the last is filled up with rows that weigh nothing."""
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

    def state(self) -> dict[str, Any]:
        """A copy of all that training goes on from, but for the state of torch's generators."""
        more = {"deviations": self.deviations.detach().clone(), "epochs": self._epochs.state()}
        return {**states_of(self._parts()), **more}

    def load(self, state: Mapping[str, Any]) -> None:
        """Goes on from a state of the same spec, layout and number of rows."""
        restore(self._parts(), state)
        with torch.no_grad():
            self.deviations.copy_(state["deviations"])
        self._epochs.load(state["epochs"])

    def _parts(self) -> dict[str, Any]:
        return {"encoder": self.encoder, "decoder": self.decoder, "adam": self._adam}


def reconstruction_losses(logits: Tensor, codes: Tensor, scalars: Tensor, deviations: Tensor, spans: Spans) -> Tensor:
    """How unlikely the decoder holds each row to be, but for a constant; shape (n,).

    Args:
        logits: as the decoder gives them, shape (n, width).
        codes: int64 of shape (n, n_spans).
        scalars: shape (n, n_scalars).
        deviations: shape (n_scalars,).
        spans: of the layout.
    """
    of_codes, of_scalars = logits.split([spans.n_codes, len(deviations)], 1)
    likelihoods = spans.nll(of_codes, codes).sum(1)
    errors = (scalars - torch.tanh(of_scalars)) / deviations
    return likelihoods + errors.square().sum(1) / 2 + deviations.log().sum()


def divergences(mean: Tensor, log_variance: Tensor) -> Tensor:
    """The Kullback-Leibler divergence of each row's place in the latent space from a standard normal one; shape (n,).

    Source: Kingma, Welling 2014 (1312.6114), appendix B.
    """
    return (mean.square() + log_variance.exp() - log_variance - 1).sum(1) / 2
