"""PATE-GAN: a network that learns from noisy votes of teachers on disjoint sets of units.

One-way histograms give the encoding, as with `ctgan` and `tvae`. Then come rounds of labels: in each, teachers vote on
so many generated rows, and the counts of votes are released with whole Gaussian noise. A unit has one teacher, so that
it moves each count by 1 at most, and the counts of a round by the root of their number, whatever rows it has. That cost
depends on no data. `teachers` has the rest, and the errors of published programs that it avoids.

Source: Jordon, Yoon, van der Schaar 2019; Papernot et al. 2018 (1802.08908).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from synth.dp.budget import Budget
from synth.dp.events import GaussianEvent, NamedEvents, ceil_sqrt, gaussian_of_rho
from synth.generators.base import PrivateGenerator
from synth.generators.fitting.private_fit import COLUMNS, Merging, PrivateFit, start
from synth.generators.models.fitted import NeuralModel, require_torch
from synth.generators.neural_generator import Widths
from synth.neural.encoding import BinnedEncoding
from synth.progress import Progress, quiet
from synth.schema import Schema

if TYPE_CHECKING:
    from synth.neural.sampling import CtganNetwork

VOTES = "votes of teachers on generated rows"  # their name in a statement
UNITS_PER_TEACHER = 4
"""Units of a teacher, about, where the number of teachers is not set.

Noise on a count does not grow with teachers. So under noise many weak ones say more than few good ones."""
MOST_TEACHERS = 20_000  # teachers at most, where their number is not set


@dataclass(frozen=True)
class PateGanEvents(NamedEvents):
    columns: GaussianEvent
    votes: GaussianEvent


class PateGan(PrivateGenerator):
    """Noisy votes of teachers; behind `aim`: TSTR .738 against .862 on HMEQ at 3 to 9 times the CPU."""

    name: ClassVar[str] = "pategan"
    composes: ClassVar[bool] = False
    n_teachers: Annotated[int, Field(ge=1, le=100_000)] | Literal["auto"] = Field(
        default="auto", description="Disjoint sets of units, a teacher for each; auto: by n_units."
    )
    rounds: int = Field(default=30, ge=1, le=10_000, description="Of votes; more rounds, more noise in each.")
    labels_per_round: int = Field(
        default=256, ge=1, le=1024, description="Generated rows that are voted on in a round; best a square number."
    )
    rounds_kept: int = Field(
        default=6, ge=1, le=100, description="The last rounds that the student learns from; costs no epsilon."
    )
    generator_steps: int = Field(default=40, ge=1, le=100_000, description="Of the network after each round.")
    learning_rate: float = Field(default=4e-3, gt=0, le=1, description="Of the network.")
    d_latent: int = Field(default=64, ge=1, le=4096, description="Width of the noise.")
    generator_widths: Widths = Field(default=(128, 128), description="Layers of the network.")
    n_bins: int = Field(default=24, ge=2, le=1000, description="Codes of a number or time, about.")
    columns_share: float = Field(default=0.15, gt=0, lt=1, description="Share of the budget for one-way histograms.")

    @classmethod
    def model_class(cls) -> type[NeuralModel]:
        return NeuralModel

    def check(self, schema: Schema) -> None:
        super().check(schema)
        require_torch()

    def cautions(self, schema: Schema) -> tuple[str, ...]:
        behind = "PATE-GAN is behind aim: TSTR .738 against .862 on HMEQ at epsilon 1, at 3 to 9 times the CPU"
        return (*super().cautions(schema), behind)

    def own_events(self, schema: Schema) -> Callable[[float], PateGanEvents]:
        """One-way histograms at their share, and the rounds of votes for the rest.

        A round releases `labels_per_round` counts, and a unit moves each by 1: together by the root of their number.
        """
        k, n_columns = schema.max_rows_per_unit, len(schema.modeled)
        moved = ceil_sqrt(self.labels_per_round)

        def events(rho: float) -> PateGanEvents:
            return PateGanEvents(
                gaussian_of_rho(COLUMNS, self.columns_share * rho, count=n_columns, sensitivity=k),
                gaussian_of_rho(VOTES, (1 - self.columns_share) * rho, count=self.rounds, sensitivity=moved),
            )

        return events

    def fit_rows(
        self, train: Any, schema: Schema, *, seed: int = 0, progress: Progress = quiet, budget: Budget | None = None
    ) -> NeuralModel:
        fit = start(self, train, schema, budget, progress, seed)
        shares, n_rows = fit.entity_shares()
        events = fit.scheduled_events(self.own_events(fit.schema))
        discretizer, one_way = fit.columns(events.columns, Merging(self.n_bins, spikes_apart=True))
        encoding = BinnedEncoding(discretizer)
        network = self._network(fit, encoding, [measurement.values for measurement in one_way], events.votes)
        return NeuralModel(
            self.name, fit.schema, fit.statement(), n_rows, encoding, network, shares, self.parameters()
        )  # fmt: skip

    def _network(
        self, fit: PrivateFit, encoding: BinnedEncoding, one_way: list[NDArray[np.float64]], votes: GaussianEvent
    ) -> "CtganNetwork":
        import torch

        from synth.neural.networks import released_shares
        from synth.neural.sampling import CtganNetwork, match_one_way
        from synth.neural.training import seeded
        from understudy.extras.pate.teachers import Teachers, train

        rng = fit.rng
        fit.progress("encoding", None)
        codes = encoding.apply(fit.train.columns(None)).codes
        n_units = fit.schema.n_units or len(fit.train)
        usual = min(max(n_units // UNITS_PER_TEACHER, 1), MOST_TEACHERS)
        n_teachers = usual if self.n_teachers == "auto" else self.n_teachers
        entities = None if fit.schema.entity is None else fit.train.entities()
        teachers = Teachers.dealt(codes, entities, n_teachers, rng.bytes(16))
        del codes

        def tell(done: int) -> None:
            fit.progress(f"round {done:,} of {self.rounds:,}", done / self.rounds)

        with seeded(int(rng.integers(2**63)), torch.device("cpu")):
            generator = train(
                self, teachers, encoding.layout, one_way, lambda counts: fit.budget.release(counts, votes),
                votes.sigma if fit.promises else 0.0, tell,
            )  # fmt: skip
            shares = released_shares(one_way, encoding.layout)
            asked_for = np.split(shares.numpy(), encoding.layout.offsets[1:])
            network = CtganNetwork(encoding.layout, generator.eval(), asked_for)
            match_one_way(network, shares)
        return network
