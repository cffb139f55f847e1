"""CTGAN: a generator against a critic of packed rows, on conditions; private by DP-SGD on the critic.

Source: Xu et al. 2019 (1907.00503).
"""

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from pydantic import Field

from synth.dp.budget import Budget
from synth.generators.neural import NeuralGenerator, PrivateRows, Rows, Widths, asked

if TYPE_CHECKING:
    from synth.neural.drawing import Network
    from synth.neural.training import Course

SHAPE = ("d_latent", "generator_widths", "critic_widths")


class Ctgan(NeuralGenerator):
    """Conditional tabular GAN."""

    name: ClassVar[str] = "ctgan"
    usual_rate: ClassVar[float] = 0.03
    pac: int = Field(default=10, ge=1, le=1000, description="Without epsilon: rows that the critic judges together.")
    steps: int = Field(default=2000, ge=1, le=1_000_000, description="With epsilon: steps of DP-SGD, on the critic.")
    generator_widths: Widths | None = Field(default=None, min_length=1, description="Layers; none: the usual ones.")
    critic_widths: Widths | None = Field(default=None, min_length=1, description="Layers; none: the usual ones.")

    def _train(self, rows: Rows, course: "Course", device: Any) -> "Network":
        from synth.neural.ctgan import CtganSpec, CtganTraining
        from synth.neural.drawing import CtganNetwork
        from synth.neural.training import train

        wanted = asked(self, *SHAPE, generator_rate="learning_rate", critic_rate="learning_rate")
        spec = CtganSpec(batch_size=self.batch_size, pac=self.pac, **wanted)
        training = CtganTraining(spec, rows.encoded, rows.layout, device)
        train(training, self.epochs, course)
        return CtganNetwork(rows.layout, training.generator.cpu().eval(), _frequencies(rows))

    def _train_privately(self, rows: PrivateRows, budget: Budget, course: "Course", device: Any) -> "Network":
        raise NotImplementedError


def _frequencies(rows: Rows) -> tuple[np.ndarray, ...]:
    """How often each code of a column that conditions may name occurs; each sums to one."""
    whole = [place for place, span in enumerate(rows.layout.spans) if span.whole]
    counts = [np.bincount(rows.encoded.codes[:, place], minlength=rows.layout.sizes[place]) for place in whole]
    return tuple(count / count.sum() for count in counts)
