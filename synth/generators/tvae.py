"""TVAE: a variational autoencoder of rows; private by DP-SGD on all of it.

Source: Xu et al. 2019 (1907.00503), section 4.4; Kingma & Welling 2014 (1312.6114).
"""

from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from synth.dp.budget import Budget
from synth.generators.neural import NeuralGenerator, PrivateRows, Rows, Widths, asked

if TYPE_CHECKING:
    from synth.neural.drawing import Network
    from synth.neural.training import Course


class Tvae(NeuralGenerator):
    """Tabular variational autoencoder."""

    name: ClassVar[str] = "tvae"
    usual_rate: ClassVar[float] = 0.04
    encoder_widths: Widths | None = Field(default=None, min_length=1, description="Layers; none: the usual ones.")
    decoder_widths: Widths | None = Field(default=None, min_length=1, description="Layers; none: the usual ones.")

    def _train(self, rows: Rows, course: "Course", device: Any) -> "Network":
        from synth.neural.drawing import TvaeNetwork
        from synth.neural.training import train
        from synth.neural.tvae import TvaeSpec, TvaeTraining

        wanted = asked(self, "d_latent", "encoder_widths", "decoder_widths", rate="learning_rate")
        training = TvaeTraining(TvaeSpec(batch_size=self.batch_size, **wanted), rows.encoded, rows.layout, device)
        train(training, self.epochs, course)
        return TvaeNetwork(rows.layout, training.decoder.cpu().eval(), training.deviations.detach().cpu())

    def _train_privately(self, rows: PrivateRows, budget: Budget, course: "Course", device: Any) -> "Network":
        raise NotImplementedError
