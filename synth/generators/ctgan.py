"""CTGAN: a generator against a critic of packed rows, on conditions; private by DP-SGD on the critic.

Source: Xu et al. 2019 (1907.00503).
"""

from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from synth.errors import BudgetError
from synth.generators.fitting.neural_data import NetworkRows, PrivateRows
from synth.generators.neural_generator import NeuralGenerator, Widths, asked
from synth.schema import Schema

if TYPE_CHECKING:
    from synth.neural.sampling import CtganNetwork
    from synth.neural.training import Course

MOST_CODES = 8192
"""Of a critic of pairs: a quarter of a gigabyte of weights, and half a gigabyte for the places of the pairs."""
SHAPE = ("d_latent", "generator_widths", "critic_widths")


class Ctgan(NeuralGenerator):
    """Conditional tabular GAN."""

    name: ClassVar[str] = "ctgan"
    usual_rate: ClassVar[float] = 0.03
    pac: int = Field(default=10, ge=1, le=1000, description="Without epsilon: rows that the critic judges together.")
    steps: int = Field(default=2000, ge=1, le=1_000_000, description="With epsilon: steps of DP-SGD, on the critic.")
    generator_widths: Widths | None = Field(default=None, description="Layers; `None`: the usual ones.")
    critic_widths: Widths | None = Field(default=None, description="Layers; `None`: the usual ones.")
    critic: Literal["pairs", "network"] = Field(
        default="pairs", description="With epsilon: what tells real rows from fakes; network: as in the paper."
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        """Parameters that contradict each other, or have no effect, are refused."""
        of_network = [name for name in ("dp_backend", "critic_widths") if name in self.model_fields_set]
        if self.promises and self.critic == "pairs" and of_network:
            raise ValueError(f'{of_network[0]} is of a network, and critic="pairs" is none; set critic="network"')
        if not self.promises and self.batch_size % self.pac:
            raise ValueError(f"batch_size={self.batch_size} is no multiple of pac={self.pac}; give one that is")
        return self

    def parameters(self) -> dict[str, Any]:
        """The parameters that have an effect, as plain data."""
        idle = ("dp_backend", "critic_widths") if self.promises and self.critic == "pairs" else ()
        return {name: value for name, value in super().parameters().items() if name not in idle}

    def check(self, schema: Schema) -> None:
        """Refuse a fit that the schema or the installation rules out.

        Raises:
            SchemaError: free text is kept.
            BudgetError: epsilon is set, and the schema is not declared, names no n_units, does not allow the delta, or
                has too many codes for a critic of pairs.
            MissingExtra: PyTorch or Opacus is not installed.
            JobError: there is no such device.
        """
        super().check(schema)
        n_codes = sum(self._most_codes(schema.columns[name]) for name in schema.modeled)
        if self.promises and self.critic == "pairs" and n_codes > MOST_CODES:
            raise BudgetError(
                f'critic="pairs" weighs every pair of codes, and codes={n_codes:,} are more than {MOST_CODES:,}; '
                'drop columns, merge categories, declare fewer spikes, lower n_bins, or set critic="network"'
            )

    def _most_codes(self, column: Any) -> int:
        """Codes of a column at most, `other` and `missing` among them; guessed where its domain is to be measured."""
        known = getattr(column, "categories", ())
        n_spikes = len(getattr(column, "spikes", ()))
        return len(known) + 2 if known else 2 * (self.n_bins + n_spikes) + 2

    def _train(self, rows: NetworkRows, course: "Course", device: Any) -> "CtganNetwork":
        from synth.neural.ctgan import CtganSpec, CtganTraining
        from synth.neural.sampling import CtganNetwork
        from synth.neural.training import train

        wanted = asked(self, *SHAPE, generator_rate="learning_rate", critic_rate="learning_rate")
        spec = CtganSpec(batch_size=self.batch_size, pac=self.pac, precision=self.precision, **wanted)
        training = CtganTraining(spec, rows.encoded, rows.layout, device, rows.room)
        train(training, self.epochs, course)
        return CtganNetwork(rows.layout, training.sampled_generator().cpu(), training.conditions.frequencies())

    def _train_privately(self, rows: PrivateRows, course: "Course", device: Any) -> "CtganNetwork":
        from synth.neural.dp_ctgan import PrivateCtganSpec, PrivateCtganTraining
        from synth.neural.released import released_shares
        from synth.neural.sampling import CtganNetwork, match_one_way
        from synth.neural.training import train_privately

        wanted = asked(self, *SHAPE, generator_rate="learning_rate", critic_rate="learning_rate")
        spec = PrivateCtganSpec(critic=self.critic, max_grad_norm=self.max_grad_norm, backend=self.dp_backend, **wanted)
        training = PrivateCtganTraining(
            spec, rows.units(), rows.layout, rows.one_way, rows.expected_batch, rows.event.count, device
        )  # fmt: skip
        train_privately(training, rows.event, rows.budget, course)
        shares = released_shares(rows.one_way, rows.layout)
        asked_for = np.split(shares.numpy(), rows.layout.offsets[1:])
        network = CtganNetwork(rows.layout, training.generator.cpu().eval(), asked_for)
        match_one_way(network, shares)
        return network
