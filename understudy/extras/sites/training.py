"""Networks over several sites: each trains by DP-SGD on its own rows, and the server takes the mean of their moves.

A unit is at one site. Its epsilon is that of the histograms, which are sums of all sites, and of the steps of its own
site. These have the full noise of their event at each site: their guarantee rests neither on the aggregation nor on
other sites.

Each site trains by Adam with moments of its own, and sites count alike in the mean. That is nearly a mean by size,
though no size is asked for or paid for: a gradient is a sum over a site's sample with noise that is the same
everywhere, and Adam divides by the root of its second moment, which is mostly noise. So a small site moves the weights
as little as its rows can. Of a critic of pairs, which no weight has a part in, the server takes the mean of gradients.

Source: McMahan et al. 2017 (1602.05629) for FedAvg; Li et al. 2020 (1812.06127) for FedProx; Hardy, Le Merrer, Sericola
2019 (1811.03850) for a generator at the server and critics at the sites; Tang, Shpilevskiy, Lecuyer 2024 (2312.14334)
for noise in Adam's second moment.

DEVIATES: a mean of sites, not of rows: a weight by their number would tell it.
"""

import hashlib
import io
import json
import math
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from synth.domain import Discretizer
from synth.dp.budget import Budget
from synth.dp.events import SubsampledGaussianEvent
from synth.errors import BudgetError, ModelError
from synth.generators.fitting.histograms import Merging
from synth.generators.fitting.private_fit import start
from synth.generators.fitting.training_data import PrivateRows, TrainingTable, units_of
from synth.generators.models.neural_model import NeuralModel
from synth.generators.neural_generator import NeuralGenerator
from synth.output import read_state
from synth.progress import Progress, quiet
from synth.schema.counted import in_rows_alone
from synth.transforms.encoding import BinnedEncoding
from synth.validation import Frozen
from understudy.extras.sites.job import SitesInputs
from understudy.extras.sites.messages import SitesError, write_arrays

if TYPE_CHECKING:
    from synth.dp.mechanisms import Steps
    from understudy.extras.sites.secure_sum import SecureSums

ROUND, DROPPED = "round.kept", "dropped.json"
"""The files of a site's last round, and of who dropped out."""
UNIT, MOST = 2.0**32, 2.0**10
"""Whole numbers to 1 in an update; size at which a number is cut, so that sums of two million sites are exact."""
MOST_CODES_BYTES = 1 << 28
MOST_EXPECTED = 10.0
"""Times what the schema has a sample hold, what the server may take for it: memory depends on it."""
FULL_NOISE = (
    "Steps of training have the full stated noise at each site: a site's updates are protected against the server and "
    "all other sites, whatever they pool. Of the updates the server sees their sum."
)


def trained(inputs: SitesInputs) -> NeuralGenerator:
    """The generator whose networks the sites train."""
    assert isinstance(inputs.generator, NeuralGenerator)  # as all are that a job names and that do not count
    return inputs.generator


class TrainingQuery(Frozen):
    """A round of steps that is asked for, and the event that pays. Weights and codes come beside it.

    They follow from what was released before. Whatever they are, a unit's gradient is clipped and noised, so that a
    site need not trust them.
    """

    number: Annotated[int, Field(ge=0, strict=True)]
    event: Annotated[int, Field(ge=0, strict=True)]
    n_steps: Annotated[int, Field(ge=1, strict=True)]
    expected_batch: Annotated[float, Field(gt=0, le=1e12, allow_inf_nan=False, description="Of all sites together.")]
    digest: Annotated[str, Field(description="SHA-256 of what comes beside.")]

    task: ClassVar[str] = "train"


def packed_arrays(weights: NDArray[np.float32], codes: bytes) -> tuple[bytes, str]:
    """A round's weights and codes as bytes, and their digest."""
    file = io.BytesIO()
    np.savez(file, weights=weights, codes=np.frombuffer(codes, dtype=np.uint8))
    return file.getvalue(), hashlib.sha256(file.getvalue()).hexdigest()


@dataclass
class KeptRound:
    """The last round of a site, on the disk before a step of it is taken and before its answer is sent."""

    path: Path | None
    asked: str = ""
    n_begun: int = 0
    values: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def __post_init__(self) -> None:
        if self.path is not None and self.path.exists():
            with np.load(self.path, allow_pickle=False) as kept:
                self.asked, self.n_begun, self.values = str(kept["asked"]), int(kept["n_begun"]), kept["values"]

    def begin(self, asked: str, n_steps: int) -> None:
        self.asked, self.n_begun, self.values = asked, self.n_begun + n_steps, np.zeros(0, dtype=np.int64)
        self._write()

    def finish(self, values: NDArray[np.int64]) -> None:
        self.values = values
        self._write()

    def _write(self) -> None:
        write_arrays(self.path, asked=np.array(self.asked), n_begun=np.array(self.n_begun), values=self.values)


@dataclass
class SiteTraining:
    """A site's answers to rounds of training on its rows, whose contributions are bounded. *Sensitive*."""

    inputs: SitesInputs
    rows: TrainingTable
    budget: Budget
    folder: Path | None
    before_draws: Callable[[], None]

    def __post_init__(self) -> None:
        self.kept = KeptRound(None if self.folder is None else self.folder / ROUND)
        self.event = cast("SubsampledGaussianEvent", self.inputs.schedule.events[-1])
        self._training: tuple[tuple[bytes, float], Any] | None = None

    def answer(self, query: TrainingQuery, body: bytes) -> NDArray[np.int64]:
        """The move of the weights by a round's steps in fixed point, shape (d,); asked again, the same."""
        from torch import from_numpy

        asked, event = query.model_dump_json(), self.event
        if asked == self.kept.asked:
            if not len(self.kept.values):
                raise SitesError(
                    f"round={query.number} was begun and its answer was lost; it stays spent, and is not taken"
                )
            return self.kept.values
        self._check(query)
        if hashlib.sha256(body).hexdigest() != query.digest:
            raise SitesError(f"round={query.number} comes with other weights than it names; send it again")
        try:
            with np.load(io.BytesIO(body), allow_pickle=False) as arrays:
                weights, codes = arrays["weights"].astype(np.float32), arrays["codes"].tobytes()
            plain = zlib.decompressobj().decompress(codes, MOST_CODES_BYTES)
            discretizer = Discretizer.from_plain(json.loads(plain), self.inputs.counted)
        except (zlib.error, zipfile.BadZipFile, OSError, EOFError, ValueError, TypeError, KeyError, OverflowError):
            raise SitesError(f"round={query.number} has codes or weights that are none; correct the server") from None
        key = (codes, query.expected_batch)
        if self._training is None or self._training[0] != key:
            self._training = key, self._network(discretizer, query.expected_batch / len(self.inputs.names))
        training = self._training[1]
        begin = from_numpy(weights).to(training.weights)
        if begin.shape != training.weights.shape or not bool(begin.isfinite().all()):
            raise SitesError(f"round={query.number} comes with weights that do not fit the network; correct the server")
        moved: list[NDArray[np.float64]] = []

        def work(steps: "Steps") -> str:
            update = training.update(steps, query.n_steps, begin, self.inputs.job.training.proximal)
            moved.append(update.double().cpu().numpy())
            return ""

        self.before_draws()
        self.kept.begin(asked, query.n_steps)
        self.budget.step(event, query.n_steps, work)
        if not np.isfinite(moved[0]).all():
            raise SitesError("a site's numbers are no longer finite, so that it has no answer; lower learning_rate")
        self.kept.finish(np.rint(np.clip(moved[0], -MOST, MOST) * UNIT).astype(np.int64))
        return self.kept.values

    def _check(self, query: TrainingQuery) -> None:
        """Refuse a round that is out of turn or not paid for."""
        if query.number <= (json.loads(self.kept.asked)["number"] if self.kept.asked else -1):
            raise SitesError(f"round={query.number} was another one before, or is over; begin a new run")
        events, event = self.inputs.schedule.events, self.event
        if query.event >= len(events) or events[query.event] != event:
            raise SitesError(f"event={query.event} of the schedule does not pay for steps; correct the server")
        if self.kept.n_begun + query.n_steps > event.count:
            raise BudgetError(f"the budget holds no further step of {event.what!r}; plan it before drawing")
        if query.expected_batch > MOST_EXPECTED * event.sampling_rate * (self.inputs.schema.n_units or 0):
            raise SitesError(f"expected_batch={query.expected_batch:g} is far beyond n_units; correct the server")

    def _network(self, discretizer: Discretizer, expected_batch: float) -> Any:
        from synth.neural.training import device_of

        generator, schema, event = trained(self.inputs), self.inputs.counted, self.event
        encoding, columns = BinnedEncoding(discretizer), self.rows.columns(self.folder)
        encoded, even = encoding.apply(columns, np.random.default_rng(0)), [np.ones(n) for n in encoding.layout.sizes]
        entities = None if schema.entity is None else self.rows.entities()
        k, disk = schema.max_rows_per_unit, columns.disk
        rows = PrivateRows(encoded, encoding.layout, disk, entities, k, even, 0.0, event, self.budget)
        device = device_of(generator.device)
        return generator.private_training(rows.units(), rows.layout, even, expected_batch, event.count, device)


def fit_network(
    sums: "SecureSums", budget: Any, *, progress: Progress = quiet, folder: Path | None = None
) -> NeuralModel:
    """A model of the rows of all sites: histograms by sums, then rounds of steps at the sites.

    `budget`: the sites' (`SitesBudget`); `folder`: for checkpoints, which hold nothing that the sites did not show.
    """
    from torch import from_numpy

    from synth.neural.batches import UnitIndex
    from synth.neural.training import CheckpointFolder, Course, device_of, save_checkpoint, seeded, take_up
    from synth.transforms.layout import Encoded
    from understudy.extras.sites.remote_table import RemoteRows

    inputs = sums.inputs
    generator, schedule, n_units = trained(inputs), inputs.schedule, inputs.schema.n_units
    event = cast("SubsampledGaussianEvent", schedule.events[-1])
    fit = start(generator, RemoteRows(inputs.counted), inputs.counted, budget, progress)
    events = fit.planned(generator.plan(inputs.counted))
    assert n_units is not None  # else there were no schedule
    shares, n_rows = (None, n_units) if fit.schema.entity is None else fit.entity_shares()
    discretizer, measured = fit.columns(events.columns, Merging(generator.n_bins, spikes_apart=True))
    one_way, encoding = [each.values for each in measured], BinnedEncoding(discretizer)
    codes = zlib.compress(json.dumps(discretizer.to_plain()).encode())
    device, layout = device_of(generator.device), encoding.layout
    expected = event.sampling_rate * units_of(measured, shares)
    known = json.dumps([inputs.digest, [counts.tolist() for counts in one_way]])
    at = None if folder is None else CheckpointFolder(folder)
    course = Course(generator.name, hashlib.sha256(known.encode()).hexdigest(), at, progress)
    rate, place = math.sqrt(len(inputs.names)), schedule.events.index(event)
    local_steps = min(inputs.job.training.local_steps, event.count)
    n_rounds = math.ceil(event.count / local_steps)
    budget.dropped |= set([] if folder is None else read_state(folder / DROPPED, []))
    with seeded(None, device):
        nobody = UnitIndex.of(Encoded.zeros(0, layout))
        training = generator.private_training(nobody, layout, one_way, expected, event.count, device)
        for number in range(take_up(training, course)[0], n_rounds):
            progress(f"round {number + 1:,} of {n_rounds:,}", number / n_rounds)
            if folder is not None and at is not None:  # asked again after a new start, the round is the same one
                (folder / DROPPED).write_text(json.dumps(sorted(budget.dropped)), encoding="utf-8")
                save_checkpoint(training, number, course.digest, at)
            n_steps, weights = min(local_steps, event.count - number * local_steps), training.weights
            body, digest = packed_arrays(weights.cpu().numpy(), codes)
            query = TrainingQuery(number=number, event=place, n_steps=n_steps, expected_batch=expected, digest=digest)
            total, answered = sums.ask(query, event.what, training.d_update, body)
            budget.dropped |= set(inputs.names) - set(answered)
            mean = from_numpy(total / (UNIT * len(answered)))
            training.absorb(rate * mean.to(weights) if len(weights) else mean, n_steps)
            if not training.finite:
                raise ModelError(f"training diverged at round={number}: lower learning_rate")
        network = generator.private_network(training, layout, one_way)
    schema, statement = in_rows_alone(inputs.schema), fit.statement()
    return NeuralModel(generator.name, schema, statement, n_rows, encoding, network, shares, generator.parameters())
