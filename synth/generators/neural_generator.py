"""Neural generators: a network trained on encoded rows. CTGAN and TVAE, each with a sister whose fits have an epsilon.

CTGAN is a generator against a critic, on conditions; DP-SGD is then on the critic. TVAE is an encoder and a decoder,
both trained by DP-SGD.

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
from synth.dp.events import GaussianEvent, NamedEvents, SubsampledGaussianEvent, gaussian_of_rho
from synth.errors import BudgetError
from synth.generators.base import Generator, PrivateGenerator
from synth.generators.fitting.private_fit import COLUMNS, Merging, rows_and_shares, start
from synth.generators.fitting.training_data import PrivateRows, estimate_units
from synth.generators.models.fitted import NeuralModel, require_torch
from synth.neural.encoding import CHUNK_ROWS, BinnedEncoding, Encoded, Layout, ModalEncoding
from synth.progress import Progress, quiet
from synth.schema import Schema
from synth.table.spool import Disk

if TYPE_CHECKING:
    from synth.neural.sampling import CtganNetwork, TvaeNetwork
    from synth.neural.training import Course, UnitIndex

STEPS = "steps of DP-SGD"  # their name in a statement
EXPECTED_BATCH = (256, 4096)
"""Units that a step's sample holds at least and at most, as expected, where the sampling rate is not set."""
Widths = Annotated[tuple[Annotated[int, Field(ge=1, le=8192)], ...], Field(min_length=1, max_length=32)]
WIDTHS = "Layers; `None`: the usual ones."


class NetworkGenerator(Generator):
    """What a fit without epsilon and one with it have in common."""

    resumes: ClassVar[bool] = True
    private: ClassVar[bool] = True
    learning_rate: float | None = Field(default=None, gt=0, le=1, description="`None`: the usual one.")
    d_latent: int | None = Field(default=None, ge=1, le=4096, description="Width of the noise; `None`: the usual one.")
    device: Literal["auto", "cpu", "cuda"] = Field(default="auto", description="auto: the GPU where there is one.")

    @classmethod
    def model_class(cls) -> type[NeuralModel]:
        return NeuralModel

    def check(self, schema: Schema) -> None:
        super().check(schema)
        require_torch()
        if self.device == "cuda":
            from synth.neural.training import device_of

            device_of(self.device)

    def _asked(self, *names: str, **renamed: str) -> dict[str, Any]:
        """The parameters that are not left to their usual values, under the names that a specification has."""
        asked = {theirs: getattr(self, ours) for theirs, ours in {**{name: name for name in names}, **renamed}.items()}
        return {name: value for name, value in asked.items() if value is not None}

    def _course(self, place: Path | None, progress: Progress, **known: Any) -> "Course":
        """The course of a training, known by all that it depends on (of a private one but the rows themselves)."""
        from synth.neural.training import CheckpointFolder, Course

        if place is not None:
            place.mkdir(parents=True, exist_ok=True)
        content = json.dumps({"generator": self.name, **self.parameters(), **known}, sort_keys=True)
        digest = hashlib.sha256(content.encode()).hexdigest()
        return Course(self.name, digest, None if place is None else CheckpointFolder(place), progress)


class PlainNetwork(NetworkGenerator):
    """A network that is trained for some epochs, and promises nothing."""

    draws_components: ClassVar[bool]  # of a number's mixture, by their posterior
    epochs: int = Field(default=300, ge=1, le=100_000, description="Passes over the table.")
    batch_size: int = Field(default=500, ge=2, le=1_000_000, description="Rows of a step.")
    precision: Literal["float32", "bfloat16"] = Field(
        default="float32", description="Of products; bfloat16 is faster where the processor has it."
    )

    def fit_rows(
        self, train: Any, schema: Schema, *, seed: int = 0, progress: Progress = quiet, place: Path | None = None
    ) -> NeuralModel:
        self.check(schema)
        import torch

        from synth.neural import training as loop
        from synth.neural.sampling import match_one_way

        table, schema, shares = rows_and_shares(train, schema)
        rng = np.random.default_rng(seed)
        progress("encoding", None)
        # What does not fit into memory of encoded rows is kept in a file without a name, in `place` or beside the
        # system's temporary files.
        columns = table.columns(place)
        encoding = ModalEncoding.fit(columns, schema, rng)
        encoded = encoding.apply(columns, rng if self.draws_components else None)
        device, seed = loop.device_of(self.device), int(rng.integers(2**63))
        rows = [_digest(encoded.codes), _digest(encoded.scalars)]
        sizes = encoding.layout.sizes
        course = self._course(place, progress, sizes=sizes, seed=seed, rows=rows)
        with loop.seeded(seed, device):
            training = self._training(encoded, encoding.layout, columns.disk, device)
            loop.train(training, self.epochs, course)
            network = training.network()
            # DEVIATES: the paper's networks draw single columns as they come out of training.
            counts = (np.bincount(codes, minlength=size) for codes, size in zip(encoded.codes.T, sizes, strict=True))
            match_one_way(network, torch.from_numpy(np.concatenate([*counts]) / max(len(encoded), 1)))
        return NeuralModel(self.name, schema, None, len(table), encoding, network, shares, self.parameters())

    def _training(self, encoded: Encoded, layout: Layout, disk: Disk, device: Any) -> Any:
        raise NotImplementedError


def _digest(rows: NDArray[Any]) -> str:
    """The digest of an array's numbers, row by row, some at a time."""
    digest = hashlib.sha256()
    for first in range(0, len(rows), CHUNK_ROWS):
        digest.update(np.ascontiguousarray(rows[first : first + CHUNK_ROWS]).data)
    return digest.hexdigest()


@dataclass(frozen=True)
class NetworkEvents(NamedEvents):
    """One-way histograms and the steps of DP-SGD."""

    columns: GaussianEvent
    steps: SubsampledGaussianEvent


class PrivateNetwork(NetworkGenerator, PrivateGenerator):
    """A network that is trained for some steps of DP-SGD, on codes that released histograms tell."""

    usual_rate: ClassVar[float]  # share of the units in a step's sample, of tables that are neither small nor large
    steps: int = Field(default=1000, ge=1, le=1_000_000, description="Steps of DP-SGD.")
    sampling_rate: float | Literal["auto"] = Field(
        default="auto", description="Probability of a unit to be in a step's sample, in (0, 1]."
    )
    max_grad_norm: float = Field(default=1.0, ge=1e-6, le=1e6, description="L2 norm a unit's gradient is clipped to.")
    n_bins: int = Field(default=24, ge=2, le=1000, description="Codes of a number or time, about.")
    columns_share: float = Field(
        default=0.15, gt=0, lt=1, description="Share of the budget for one-way histograms, about."
    )

    @model_validator(mode="after")
    def _is_rate(self) -> Self:
        if self.sampling_rate != "auto" and not 0 < self.sampling_rate <= 1:
            raise ValueError(f"sampling_rate={self.sampling_rate:g} is a probability in (0, 1]; choose one")
        return self

    def own_events(self, schema: Schema) -> Callable[[float], NetworkEvents]:
        """One-way histograms at their share, and the steps of DP-SGD for about the rest.

        A step's own share is worked out as if samples were small and noise large; what is spent is accounted exactly.
        """
        k, n_columns = schema.max_rows_per_unit, len(schema.modeled)
        rate = sampling_rate("sampling_rate", self.sampling_rate, schema, self.usual_rate, EXPECTED_BATCH)

        def events(rho: float) -> NetworkEvents:
            noise_multiplier = rate * math.sqrt(self.steps / (2 * (1 - self.columns_share) * rho))
            return NetworkEvents(
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
        fit = start(self, train, schema, budget, progress)  # a seed of the user's reaches nothing of a private fit
        shares, n_rows = fit.entity_shares()
        events = fit.scheduled_events(self.own_events(fit.schema))
        discretizer, one_way = fit.columns(events.columns, Merging(self.n_bins, spikes_apart=True))
        encoding = BinnedEncoding(discretizer)
        progress("encoding", None)
        columns = fit.train.columns(place)
        rows = PrivateRows(
            encoding.apply(columns),
            encoding.layout,
            None if fit.schema.entity is None else fit.train.entities(),
            fit.schema.max_rows_per_unit,
            [measurement.values for measurement in one_way],
            estimate_units(one_way, shares),
            events.steps,
            fit.budget,
        )
        network = self._trained(rows, place, progress)
        own = self.parameters()
        return NeuralModel(self.name, fit.schema, fit.statement(), n_rows, encoding, network, shares, own)

    def _trained(self, rows: PrivateRows, place: Path | None, progress: Progress) -> "CtganNetwork | TvaeNetwork":
        from synth.neural.training import device_of, seeded, train_privately

        device, layout = device_of(self.device), rows.layout
        one_way = [counts.tolist() for counts in rows.one_way]
        course = self._course(place, progress, sizes=layout.sizes, one_way=one_way)
        # A seed of the user's reaches nothing of a private fit, though all that this one draws is public: what is drawn
        # for rows comes from a generator of its own.
        with seeded(None, device):
            training = self.training(rows.units(), layout, rows.one_way, rows.expected_batch, device)
            train_privately(training, rows.event, rows.budget, course)
            return training.network()  # type: ignore[no-any-return]

    def training(
        self, units: "UnitIndex", layout: Layout, one_way: Sequence[np.ndarray], expected_batch: float, device: Any
    ) -> Any:
        """The training with DP-SGD, at its start. `units`: *Sensitive*. The table."""
        kind, spec = self._specified()
        return kind(spec, units, layout, one_way, expected_batch, device)

    def _specified(self) -> tuple[Any, Any]:
        """The class of its training, and the specification."""
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


class Ctgan(PlainNetwork):
    """Conditional tabular GAN."""

    name: ClassVar[str] = "ctgan"
    # DEVIATES: the paper draws a component. Those of a heavy tail overlap, so that a drawn one tells little of the
    # value, and generated tails come out heavier.
    draws_components: ClassVar[bool] = False
    # DEVIATES: the paper's critic judges packs of 10. On few rows it then learns no relations within them in time.
    pac: int = Field(default=1, ge=1, le=1000, description="Rows that the critic judges together.")
    generator_widths: Widths | None = Field(default=None, description=WIDTHS)
    critic_widths: Widths | None = Field(default=None, description=WIDTHS)

    @classmethod
    def with_epsilon(cls) -> type[Generator]:
        return PrivateCtgan

    @model_validator(mode="after")
    def _packs(self) -> Self:
        if self.batch_size % self.pac:
            raise ValueError(f"batch_size={self.batch_size} is no multiple of pac={self.pac}; give one that is")
        return self

    def _training(self, encoded: Encoded, layout: Layout, disk: Disk, device: Any) -> Any:
        from synth.neural.ctgan import CtganSpec, CtganTraining

        shape = ("d_latent", "generator_widths", "critic_widths")
        asked = self._asked(*shape, generator_rate="learning_rate", critic_rate="learning_rate")
        spec = CtganSpec(batch_size=self.batch_size, pac=self.pac, precision=self.precision, **asked)
        return CtganTraining(spec, encoded, layout, device, disk)


MOST_CODES = 8192
"""Of a private critic: a quarter of a gigabyte of weights, and half a gigabyte for the indices of the pairs."""


class PrivateCtgan(PrivateNetwork):
    """Conditional tabular GAN by DP-SGD, on a critic of pairs of columns."""

    name: ClassVar[str] = "ctgan"
    usual_rate: ClassVar[float] = 0.03
    steps: int = Field(default=2000, ge=1, le=1_000_000, description="Steps of DP-SGD, on the critic.")
    generator_widths: Widths | None = Field(default=None, description=WIDTHS)

    def check(self, schema: Schema) -> None:
        super().check(schema)
        n_codes = 0
        for column in (schema.columns[name] for name in schema.modeled):  # `other` and `missing` are codes, too
            n_lines = self.n_bins + len(getattr(column, "spikes", ()))  # guessed where the domain is to be measured
            n_codes += (len(getattr(column, "categories", ())) or 2 * n_lines) + 2
        if n_codes > MOST_CODES:
            raise BudgetError(
                f"the critic weighs every pair of codes, and codes={n_codes:,} are more than {MOST_CODES:,}; drop "
                "columns, merge categories, declare fewer spikes, or lower n_bins"
            )

    def _specified(self) -> tuple[Any, Any]:
        from synth.neural.dp_ctgan import PrivateCtganSpec, PrivateCtganTraining

        asked = self._asked("d_latent", "generator_widths", generator_rate="learning_rate")
        return PrivateCtganTraining, PrivateCtganSpec(max_grad_norm=self.max_grad_norm, n_steps=self.steps, **asked)


TVAE_SHAPE = ("d_latent", "encoder_widths", "decoder_widths")


class Tvae(PlainNetwork):
    """Tabular variational autoencoder."""

    name: ClassVar[str] = "tvae"
    # Code and scalar are independent given the latent position: a scalar that a neighbor's code was meant for must do.
    draws_components: ClassVar[bool] = True
    encoder_widths: Widths | None = Field(default=None, description=WIDTHS)
    decoder_widths: Widths | None = Field(default=None, description=WIDTHS)

    @classmethod
    def with_epsilon(cls) -> type[Generator]:
        return PrivateTvae

    def _training(self, encoded: Encoded, layout: Layout, disk: Disk, device: Any) -> Any:
        from synth.neural.tvae import TvaeSpec, TvaeTraining

        asked = self._asked(*TVAE_SHAPE, rate="learning_rate")
        spec = TvaeSpec(batch_size=self.batch_size, precision=self.precision, **asked)
        return TvaeTraining(spec, encoded, layout, device)


class PrivateTvae(PrivateNetwork):
    """Tabular variational autoencoder by DP-SGD."""

    name: ClassVar[str] = "tvae"
    usual_rate: ClassVar[float] = 0.04
    encoder_widths: Widths | None = Field(default=None, description=WIDTHS)
    decoder_widths: Widths | None = Field(default=None, description=WIDTHS)
    dp_backend: Literal["exact", "opacus"] = Field(
        default="exact", description="How gradients are clipped; opacus: by the library, slower."
    )

    def check(self, schema: Schema) -> None:
        super().check(schema)
        if self.dp_backend == "opacus":
            from synth.neural.dp_sgd import require_opacus

            require_opacus()

    def _specified(self) -> tuple[Any, Any]:
        from synth.neural.tvae import PrivateTvaeSpec, PrivateTvaeTraining

        asked = self._asked(*TVAE_SHAPE, rate="learning_rate")
        return PrivateTvaeTraining, PrivateTvaeSpec(max_grad_norm=self.max_grad_norm, backend=self.dp_backend, **asked)
