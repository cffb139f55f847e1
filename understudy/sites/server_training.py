"""The server's part in a training: histograms by sums, rounds of steps at the sites, and the model that comes of them.

Of weights that sites train, the server takes the mean of what sites moved them by. Of a critic of pairs, which no
weight has a part in, it takes the mean of gradients, and trains the generator itself.

Source: McMahan, Moore, Ramage, Hampson, Aguera y Arcas 2017 (1602.05629).

Source: Hardy, Le Merrer, Sericola 2019 (1811.03850) for a generator at the server and critics at the sites.
"""

import hashlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from synth.domain import Discretizer
from synth.errors import ModelError
from synth.generators.fitting.histograms import Merging
from synth.generators.fitting.private_fit import PrivateFit, start
from synth.generators.fitting.training_data import units_of
from synth.generators.models.neural_model import NeuralModel
from synth.generators.neural_generator import NeuralEvents, NeuralGenerator
from synth.marginals import Measurement
from synth.progress import Progress, quiet
from synth.schema.counted import in_rows_alone
from synth.transforms.encoding import BinnedEncoding
from understudy.sites.remote_table import RemoteRows, RemoteTable, SitesBudget
from understudy.sites.secure_sum import SecureSums
from understudy.sites.training_plan import (
    UNIT,
    TrainingPlan,
    TrainingQuery,
    packed_arrays,
    trained_generator,
    training_plan,
)

if TYPE_CHECKING:
    from synth.neural.training import Course


def fit_network(
    sums: SecureSums, budget: SitesBudget, *, progress: Progress = quiet, place: Path | None = None
) -> NeuralModel:
    """A model of the rows of all sites."""
    from synth.neural.training import device_of, seeded

    inputs = sums.inputs
    plan, generator = training_plan(inputs), trained_generator(inputs)
    if plan.is_private:
        fit = start(generator, RemoteTable(), inputs.counted, budget, progress)
    else:
        rows: Any = RemoteRows(inputs.counted)  # counts as a `TrainingTable` does
        fit = PrivateFit(rows, inputs.counted, budget, promises=False, progress=progress)
    events = fit.planned(generator.plan(inputs.counted))
    shares, n_rows = _entity_shares(fit, inputs.schema.n_units)
    measured = _measured(fit, generator, events)
    device = device_of(generator.device)
    with seeded(None, device):
        training = _Training(sums, budget, plan, measured, place)
        network = training.run(units_of(measured.one_way, shares), device, progress)
    encoding, statement = BinnedEncoding(measured.discretizer), fit.statement()
    schema = in_rows_alone(inputs.schema)
    return NeuralModel(generator.name, schema, statement, n_rows, encoding, network, shares, generator.parameters())


@dataclass(frozen=True)
class _Measured:
    """The codes of columns, and how often each occurs, as released."""

    discretizer: Discretizer
    one_way: tuple[Measurement, ...]


def _measured(fit: PrivateFit, generator: NeuralGenerator, events: NeuralEvents) -> _Measured:
    merging = Merging(generator.n_bins, spikes_apart=True)
    return _Measured(*fit.columns(events.columns, merging))


def _entity_shares(fit: PrivateFit, n_units: int | None) -> tuple[tuple[float, ...] | None, int]:
    """Shares of entities with 1, 2, ..., k rows, and the public row count."""
    if fit.schema.entity is None and n_units is not None:
        return None, n_units
    return fit.entity_shares()


@dataclass(frozen=True)
class _State:
    """All that a checkpoint keeps: networks, and who dropped out; nothing that the sites did not show."""

    training: Any
    budget: SitesBudget

    def state(self) -> dict[str, Any]:
        return {"training": self.training.state(), "dropped": sorted(self.budget.dropped)}

    def load(self, state: Mapping[str, Any]) -> None:
        self.training.load(state["training"])
        self.budget.dropped |= set(state["dropped"])


class _Training:
    """Rounds of training, from a checkpoint on where there is one."""

    def __init__(
        self, sums: SecureSums, budget: SitesBudget, plan: TrainingPlan, measured: _Measured, place: Path | None
    ) -> None:
        self._sums, self._budget, self._plan, self._place = sums, budget, plan, place
        self._generator = trained_generator(sums.inputs)
        self._encoding = BinnedEncoding(measured.discretizer)
        self._one_way = [each.values for each in measured.one_way]
        self._codes = zlib.compress(json.dumps(measured.discretizer.to_plain()).encode())

    def run(self, n_units: float, device: Any, progress: Progress) -> Any:
        """The trained network, ready to draw from."""
        from synth.neural.batches import UnitIndex
        from synth.neural.training import save_checkpoint, take_up
        from synth.transforms.layout import Encoded

        layout, event = self._encoding.layout, self._plan.event
        expected = event.sampling_rate * n_units
        nobody = UnitIndex.of(Encoded.zeros(0, layout))
        training = self._generator.private_training(nobody, layout, self._one_way, expected, event.count, device)
        course, state = self._course(progress), _State(training, self._budget)
        done, _ = take_up(state, course)
        for number in range(done, self._plan.n_rounds):
            progress(f"round {number + 1:,} of {self._plan.n_rounds:,}", number / self._plan.n_rounds)
            if course.place is not None:  # asked again after a new start, the round is the same one
                save_checkpoint(state, number, course.digest, course.place)
            self._round(training, number, expected)
        return self._generator.private_network(training, layout, self._one_way)

    def _course(self, progress: Progress) -> "Course":
        from synth.neural.training import CheckpointFolder, Course

        known = [self._sums.inputs.digest, [counts.tolist() for counts in self._one_way]]
        digest = hashlib.sha256(json.dumps(known).encode()).hexdigest()
        if self._place is not None:
            self._place.mkdir(parents=True, exist_ok=True)
        folder = None if self._place is None else CheckpointFolder(self._place)
        return Course(self._generator.name, digest, folder, progress)

    def _round(self, training: Any, number: int, expected: float) -> None:
        from torch import from_numpy

        n_steps, weights = self._plan.steps_of(number), training.weights
        body, digest = packed_arrays(weights.cpu().numpy(), self._codes)
        place = self._plan.schedule.events.index(self._plan.event)
        query = TrainingQuery(number=number, event=place, n_steps=n_steps, expected_batch=expected, digest=digest)
        total, answered = self._sums.ask(query, self._plan.event.what, training.d_update, body)
        self._budget.dropped |= set(self._sums.inputs.names) - set(answered)
        mean = from_numpy(total / (UNIT * len(answered)))
        moved = self._plan.server_rate * mean.to(weights) if len(weights) else mean
        training.absorb(moved, n_steps)
        if not training.finite:
            raise ModelError(
                f"training of generator={self._generator.name!r} diverged at round={number}: its numbers are no longer "
                "finite; lower learning_rate"
            )
