"""TVAE: a variational autoencoder of rows; private by DP-SGD on all of it.

Source: Xu et al. 2019 (1907.00503), section 4.4; Kingma & Welling 2014 (1312.6114).
"""

from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from synth.generators.fitting.neural_data import NetworkRows, PrivateRows
from synth.generators.neural_generator import NeuralGenerator, Widths, asked

if TYPE_CHECKING:
    from synth.neural.sampling import TvaeNetwork
    from synth.neural.training import Course

SHAPE = ("d_latent", "encoder_widths", "decoder_widths")


class Tvae(NeuralGenerator):
    """Tabular variational autoencoder."""

    name: ClassVar[str] = "tvae"
    usual_rate: ClassVar[float] = 0.04
    encoder_widths: Widths | None = Field(default=None, description="Layers; `None`: the usual ones.")
    decoder_widths: Widths | None = Field(default=None, description="Layers; `None`: the usual ones.")

    def _train(self, rows: NetworkRows, course: "Course", device: Any) -> "TvaeNetwork":
        from synth.neural.sampling import TvaeNetwork
        from synth.neural.training import train
        from synth.neural.tvae import TvaeSpec, TvaeTraining

        wanted = asked(self, *SHAPE, rate="learning_rate")
        spec = TvaeSpec(batch_size=self.batch_size, precision=self.precision, **wanted)
        training = TvaeTraining(spec, rows.encoded, rows.layout, device)
        train(training, self.epochs, course)
        return TvaeNetwork(rows.layout, training.decoder.cpu().eval(), training.deviations.detach().cpu())

    def _train_privately(self, rows: PrivateRows, course: "Course", device: Any) -> "TvaeNetwork":
        from torch import zeros

        from synth.neural.released import released_shares
        from synth.neural.sampling import TvaeNetwork, match_one_way
        from synth.neural.training import train_privately
        from synth.neural.tvae import PrivateTvaeSpec, PrivateTvaeTraining

        wanted = asked(self, *SHAPE, rate="learning_rate")
        spec = PrivateTvaeSpec(max_grad_norm=self.max_grad_norm, backend=self.dp_backend, **wanted)
        training = PrivateTvaeTraining(spec, rows.units(), rows.layout, rows.one_way, rows.expected_batch, device)
        train_privately(training, rows.event, rows.budget, course)
        network = TvaeNetwork(rows.layout, training.decoder.cpu().eval(), zeros(0))
        match_one_way(network, released_shares(rows.one_way, rows.layout))
        return network
