"""Neural generators: a network trained on encoded rows, by DP-SGD where epsilon is set. CTGAN and TVAE.

CTGAN is a generator against a critic of packed rows, on conditions; DP-SGD is then on the critic. TVAE is an encoder
and a decoder, both trained by DP-SGD.

Source: Xu et al. 2019 (1907.00503); Kingma & Welling 2014 (1312.6114) for TVAE.
"""

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from synth.dp.budget import Budget
from synth.dp.events import GaussianEvent, PlannedEvents, SubsampledGaussianEvent, gaussian_of_rho
from synth.errors import BudgetError, TableError
from synth.generators.base import PrivateGenerator
from synth.generators.fitting.columns import COLUMNS, Merging
from synth.generators.fitting.private_fit import PrivateFit, start
from synth.generators.fitting.training_data import NetworkRows, PrivateRows, units_of
from synth.generators.models.neural_model import NeuralModel, require_torch
from synth.progress import Progress, quiet
from synth.schema import Schema
from synth.transforms.columns import CHUNK_ROWS
from synth.transforms.encoding import BinnedEncoding
from synth.transforms.layout import Layout
from synth.transforms.mode_encoding import ModalEncoding

if TYPE_CHECKING:
    from synth.neural.batches import UnitIndex
    from synth.neural.dp_ctgan import PrivateCtganTraining
    from synth.neural.sampling import CtganNetwork, TvaeNetwork
    from synth.neural.training import Course
    from synth.neural.tvae import PrivateTvaeTraining

STEPS = "steps of DP-SGD"  # their name in a statement
EXPECTED_BATCH = (256, 4096)
"""Units that a step's sample holds at least and at most, as expected, where the sampling rate is not set."""
PLAIN_ONLY = ("epochs", "batch_size", "pac", "precision")
PRIVATE_ONLY = ("steps", "sampling_rate", "max_grad_norm", "n_bins", "columns_share", "dp_backend", "critic")
Widths = Annotated[tuple[Annotated[int, Field(ge=1, le=8192)], ...], Field(min_length=1, max_length=32)]


@dataclass(frozen=True)
class NeuralEvents(PlannedEvents):
    """One-way histograms and the steps of DP-SGD."""

    columns: GaussianEvent
    steps: SubsampledGaussianEvent


class NeuralGenerator(PrivateGenerator):
    """A network: trained for some epochs without epsilon, for some steps of DP-SGD with it."""

    resumes: ClassVar[bool] = True
    usual_rate: ClassVar[float]
    """Share of the units in a step's sample, of tables that are neither small nor large."""
    epochs: int = Field(default=300, ge=1, le=100_000, description="Without epsilon: passes over the table.")
    batch_size: int = Field(default=500, ge=2, le=1_000_000, description="Without epsilon: rows of a step.")
    precision: Literal["float32", "bfloat16"] = Field(
        default="float32", description="Without epsilon: of products; bfloat16 is faster where the processor has it."
    )
    learning_rate: float | None = Field(default=None, gt=0, le=1, description="`None`: the usual one.")
    d_latent: int | None = Field(default=None, ge=1, le=4096, description="Width of the noise; `None`: the usual one.")
    steps: int = Field(default=1000, ge=1, le=1_000_000, description="With epsilon: steps of DP-SGD.")
    sampling_rate: float | Literal["auto"] = Field(
        default="auto", description="With epsilon: probability of a unit to be in a step's sample, in (0, 1]."
    )
    max_grad_norm: float = Field(
        default=1.0, ge=1e-6, le=1e6, description="With epsilon: L2 norm a unit's gradient is clipped to."
    )
    n_bins: int = Field(default=24, ge=2, le=1000, description="With epsilon: codes of a number or time, about.")
    columns_share: float = Field(
        default=0.15, gt=0, lt=1, description="With epsilon: share of the budget for one-way histograms, about."
    )
    dp_backend: Literal["exact", "opacus"] = Field(
        default="exact", description="With epsilon: how gradients are clipped; opacus: by the library, slower."
    )
    device: Literal["auto", "cpu", "cuda"] = Field(default="auto", description="auto: the GPU where there is one.")

    @classmethod
    def model_class(cls) -> type[NeuralModel]:
        return NeuralModel

    @model_validator(mode="after")
    def _applies(self) -> Self:
        """A parameter that would have no effect is refused."""
        idle = [name for name in self._idle if name in self.model_fields_set]
        if idle:
            how, remedy = ("without", "with") if self.promises else ("with", "without")
            raise ValueError(f"{idle[0]} is of a fit {how} epsilon, and this is one {remedy} it; leave it out")
        if self.sampling_rate != "auto" and not 0 < self.sampling_rate <= 1:
            raise ValueError(f"sampling_rate={self.sampling_rate:g} is a probability in (0, 1]; choose one")
        return self

    @property
    def _idle(self) -> tuple[str, ...]:
        return PLAIN_ONLY if self.promises else PRIVATE_ONLY

    def parameters(self) -> dict[str, Any]:
        return {name: value for name, value in super().parameters().items() if name not in self._idle}

    def check(self, schema: Schema) -> None:
        super().check(schema)
        require_torch()
        if self.device == "cuda":
            from synth.neural.training import device_of

            device_of(self.device)
        if self.dp_backend == "opacus":
            from synth.neural.dp_sgd import require_opacus

            require_opacus()

    def plan(self, schema: Schema) -> Callable[[float], NeuralEvents]:
        """One-way histograms at their share, and the steps of DP-SGD for about the rest.

        A step's own share is worked out as if samples were small and noise large; what is spent is accounted exactly.
        """
        k, n_columns = schema.max_rows_per_unit, len(schema.modeled)
        rate = sampling_rate("sampling_rate", self.sampling_rate, schema, self.usual_rate, EXPECTED_BATCH)

        def events(rho: float) -> NeuralEvents:
            noise_multiplier = rate * math.sqrt(self.steps / (2 * (1 - self.columns_share) * rho))
            return NeuralEvents(
                gaussian_of_rho(COLUMNS, self.columns_share * rho, count=n_columns, sensitivity=k),
                SubsampledGaussianEvent(STEPS, noise_multiplier, rate, self.steps),
            )

        return events

    def fit_rows(
        self,
        train: Any,
        schema: Schema,
        *,
        seed: int = 0,
        progress: Progress = quiet,
        budget: Budget | None = None,
        place: Path | None = None,
    ) -> NeuralModel:
        """A model of the training table.
        `train`: *Sensitive*. Real rows. What does not fit into memory of the encoded ones is kept in a file without a
        name, in `place` or beside the system's temporary files.
        """
        fit = start(self, train, schema, budget, progress, seed)
        if not self.promises and len(fit.train) == 0:
            raise TableError("a fit needs rows, and the table has none; give it a larger one")
        shares, n_rows = fit.entity_shares()
        encoding: BinnedEncoding | ModalEncoding
        encoding, network = self._private(fit, shares, place) if self.promises else self._plain(fit, place)
        return NeuralModel(
            self.name, fit.schema, fit.statement(), n_rows, encoding, network, shares, self.parameters()
        )  # fmt: skip

    def _plain(self, fit: PrivateFit, place: Path | None) -> tuple[ModalEncoding, "CtganNetwork | TvaeNetwork"]:
        fit.progress("encoding", None)
        columns = fit.train.columns(place)
        encoding = ModalEncoding.fit(columns, fit.schema, fit.rng)
        rows = NetworkRows(encoding.apply(columns, fit.rng), encoding.layout, columns.disk)
        return encoding, self._seeded(fit, rows, place)

    def _private(
        self, fit: PrivateFit, shares: tuple[float, ...] | None, place: Path | None
    ) -> tuple[BinnedEncoding, "CtganNetwork | TvaeNetwork"]:
        merging, events = Merging(self.n_bins, spikes_apart=True), fit.planned(self.plan(fit.schema))
        discretizer, one_way = fit.columns(events.columns, merging)
        encoding = BinnedEncoding(discretizer)
        fit.progress("encoding", None)
        columns = fit.train.columns(place)
        rows = PrivateRows(
            encoding.apply(columns, fit.rng),
            encoding.layout,
            columns.disk,
            None if fit.schema.entity is None else fit.train.entities(),
            fit.schema.max_rows_per_unit,
            [measurement.values for measurement in one_way],
            units_of(one_way, shares),
            events.steps,
            fit.budget,
        )
        return encoding, self._seeded(fit, rows, place)

    def _seeded(self, fit: PrivateFit, rows: NetworkRows, place: Path | None) -> "CtganNetwork | TvaeNetwork":
        """The trained network, ready to draw from; torch's own generators are left as they were."""
        from synth.neural.training import CheckpointFolder, Course, device_of, seeded, train_privately

        device = device_of(self.device)
        if place is not None:
            place.mkdir(parents=True, exist_ok=True)
        seed = int(fit.rng.integers(2**63))
        folder = None if place is None else CheckpointFolder(place)
        course = Course(self.name, self._digest(rows, seed), folder, fit.progress)
        if isinstance(rows, PrivateRows):
            # A seed of the user's reaches nothing of a private fit, though all that this one draws is public: what is
            # drawn for rows comes from a generator of its own.
            with seeded(None, device):
                training = self.private_training(
                    rows.units(), rows.layout, rows.one_way, rows.expected_batch, rows.event.count, device
                )  # fmt: skip
                train_privately(training, rows.event, rows.budget, course)
                return self.private_network(training, rows.layout, rows.one_way)
        with seeded(seed, device):
            return self._train(rows, course, device)

    def _digest(self, rows: NetworkRows, seed: int) -> str:
        """The identity of a checkpoint: all that training depends on, of a private one but the rows themselves."""
        known: dict[str, Any] = {"generator": self.name, **self.parameters(), "sizes": rows.layout.sizes}
        if isinstance(rows, PrivateRows):
            known["one_way"] = [counts.tolist() for counts in rows.one_way]
        else:
            known["seed"] = seed
            parts = (rows.encoded.codes, rows.encoded.scalars)
            known["rows"] = [_digest(part) for part in parts]
        return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()

    def _train(self, rows: NetworkRows, course: "Course", device: Any) -> "CtganNetwork | TvaeNetwork":
        raise NotImplementedError

    def private_training(
        self,
        units: "UnitIndex",
        layout: Layout,
        one_way: Sequence[np.ndarray],
        expected_batch: float,
        n_steps: int,
        device: Any,
    ) -> Any:
        """The training with DP-SGD, at its start. `units`: *Sensitive*. The table."""
        raise NotImplementedError

    def private_network(
        self, training: Any, layout: Layout, one_way: Sequence[np.ndarray]
    ) -> "CtganNetwork | TvaeNetwork":
        raise NotImplementedError


def sampling_rate(
    name: str, asked: float | Literal["auto"], schema: Schema, usual: float, expected_batch: tuple[int, int]
) -> float:
    """Probability of a unit to be in a step's sample. `expected_batch`: its units at least and at most, if "auto"."""
    n_units = schema.n_units
    if asked != "auto":
        if n_units is not None and asked * n_units < 1:
            raise BudgetError(
                f"{name}={asked:g} draws less than one unit a step, as expected; choose at least 1 / n_units = "
                f"{1 / n_units:.3g}"
            )
        return asked
    least, most = expected_batch
    return usual if n_units is None else min(1.0, min(max(usual * n_units, least), most) / n_units)


def _digest(rows: NDArray[Any]) -> str:
    """The digest of an array's numbers, row by row, some at a time."""
    digest = hashlib.sha256()
    for first in range(0, len(rows), CHUNK_ROWS):
        digest.update(np.ascontiguousarray(rows[first : first + CHUNK_ROWS]).data)
    return digest.hexdigest()


def asked(generator: NeuralGenerator, *names: str, **renamed: str) -> dict[str, Any]:
    """The parameters that are not left to their usual values, under the names that a network's specification has."""
    wanted = {**{name: name for name in names}, **renamed}
    found = {theirs: getattr(generator, ours) for theirs, ours in wanted.items()}
    return {name: value for name, value in found.items() if value is not None}


MOST_CODES = 8192
"""Of a critic of pairs: a quarter of a gigabyte of weights, and half a gigabyte for the places of the pairs."""
CTGAN_SHAPE = ("d_latent", "generator_widths", "critic_widths")


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
        idle = ("dp_backend", "critic_widths") if self.promises and self.critic == "pairs" else ()
        return {name: value for name, value in super().parameters().items() if name not in idle}

    def check(self, schema: Schema) -> None:
        super().check(schema)
        n_codes = 0
        for column in (schema.columns[name] for name in schema.modeled):  # `other` and `missing` are codes, too
            n_lines = self.n_bins + len(getattr(column, "spikes", ()))  # guessed where the domain is to be measured
            n_codes += (len(getattr(column, "categories", ())) or 2 * n_lines) + 2
        if self.promises and self.critic == "pairs" and n_codes > MOST_CODES:
            raise BudgetError(
                f'critic="pairs" weighs every pair of codes, and codes={n_codes:,} are more than {MOST_CODES:,}; '
                'drop columns, merge categories, declare fewer spikes, lower n_bins, or set critic="network"'
            )

    def _train(self, rows: NetworkRows, course: "Course", device: Any) -> "CtganNetwork":
        from synth.neural.ctgan import CtganSpec, CtganTraining
        from synth.neural.sampling import CtganNetwork
        from synth.neural.training import train

        wanted = asked(self, *CTGAN_SHAPE, generator_rate="learning_rate", critic_rate="learning_rate")
        spec = CtganSpec(batch_size=self.batch_size, pac=self.pac, precision=self.precision, **wanted)
        training = CtganTraining(spec, rows.encoded, rows.layout, device, rows.disk)
        train(training, self.epochs, course)
        return CtganNetwork(rows.layout, training.sampled_generator().cpu(), training.conditions.frequencies())

    def private_training(
        self,
        units: "UnitIndex",
        layout: Layout,
        one_way: Sequence[np.ndarray],
        expected_batch: float,
        n_steps: int,
        device: Any,
    ) -> "PrivateCtganTraining":
        """The training with DP-SGD, at its start."""
        from synth.neural.dp_ctgan import PrivateCtganSpec, PrivateCtganTraining

        wanted = asked(self, *CTGAN_SHAPE, generator_rate="learning_rate", critic_rate="learning_rate")
        spec = PrivateCtganSpec(critic=self.critic, max_grad_norm=self.max_grad_norm, backend=self.dp_backend, **wanted)
        return PrivateCtganTraining(spec, units, layout, one_way, expected_batch, n_steps, device)

    def private_network(self, training: Any, layout: Layout, one_way: Sequence[np.ndarray]) -> "CtganNetwork":
        from synth.neural.released import released_shares
        from synth.neural.sampling import CtganNetwork, match_one_way

        shares = released_shares(one_way, layout)
        asked_for = np.split(shares.numpy(), layout.offsets[1:])
        network = CtganNetwork(layout, training.generator.cpu().eval(), asked_for)
        match_one_way(network, shares)
        return network


TVAE_SHAPE = ("d_latent", "encoder_widths", "decoder_widths")


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

        wanted = asked(self, *TVAE_SHAPE, rate="learning_rate")
        spec = TvaeSpec(batch_size=self.batch_size, precision=self.precision, **wanted)
        training = TvaeTraining(spec, rows.encoded, rows.layout, device)
        train(training, self.epochs, course)
        return TvaeNetwork(rows.layout, training.decoder.cpu().eval(), training.deviations.detach().cpu())

    def private_training(
        self,
        units: "UnitIndex",
        layout: Layout,
        one_way: Sequence[np.ndarray],
        expected_batch: float,
        n_steps: int,
        device: Any,
    ) -> "PrivateTvaeTraining":
        """The training with DP-SGD, at its start."""
        from synth.neural.tvae import PrivateTvaeSpec, PrivateTvaeTraining

        wanted = asked(self, *TVAE_SHAPE, rate="learning_rate")
        spec = PrivateTvaeSpec(max_grad_norm=self.max_grad_norm, backend=self.dp_backend, **wanted)
        return PrivateTvaeTraining(spec, units, layout, one_way, expected_batch, device)

    def private_network(self, training: Any, layout: Layout, one_way: Sequence[np.ndarray]) -> "TvaeNetwork":
        from torch import zeros

        from synth.neural.released import released_shares
        from synth.neural.sampling import TvaeNetwork, match_one_way

        network = TvaeNetwork(layout, training.decoder.cpu().eval(), zeros(0))
        match_one_way(network, released_shares(one_way, layout))
        return network
