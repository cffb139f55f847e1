"""The server's part in a training: histograms by sums, rounds of steps at the sites, and the model that comes of them.

The server sees the mean of the sites' gradients, and takes Adam's step with it. Where each site takes one step a round,
and without noise, that is the training of one table with the rows of all sites. With noise there is more of it: each
site adds all of it.

Source: McMahan, Moore, Ramage, Hampson, Aguera y Arcas 2017 (1602.05629); Reddi et al. 2021 (2003.00295).

Source: Hardy, Le Merrer, Sericola 2019 (1811.03850) for a generator at the server and critics at the sites.
"""

import hashlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from synth.domain import Discretizer
from synth.errors import ModelError
from synth.generators.fitting.histograms import Merging
from synth.generators.fitting.private_fit import PrivateFit, start
from synth.generators.fitting.training_data import units_of
from synth.generators.models.neural_model import NeuralModel
from synth.generators.neural_generator import NeuralEvents, NeuralGenerator
from synth.marginals import Measurement
from synth.progress import Progress, quiet
from synth.transforms.encoding import BinnedEncoding
from understudy.sites.remote_table import RemoteRows, RemoteTable, SitesBudget
from understudy.sites.secure_sum import SecureSums
from understudy.sites.server_optimizer import ServerAdam
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
    """A model of the rows of all sites.

    Args:
        sums: to the sites of a job.
        budget: on the schedule of the job's training plan; pays for histograms. Sites pay for steps.
        progress: told what is being done.
        place: a folder of this fit's own for its checkpoint, made if need be; a fit that finds one there goes on.

    Raises:
        SitesError: too few sites are left; what was shown is kept, and the same fit goes on from there.
        ModelError: training diverged, or the checkpoint cannot be used; there is no model.
    """
    from synth.neural.training import device_of, seeded

    inputs = sums.inputs
    plan, generator = training_plan(inputs), trained_generator(inputs)
    if plan.is_private:
        fit = start(generator, RemoteTable(), inputs.schema, budget, progress)  # type: ignore[arg-type]
    else:
        fit = PrivateFit(RemoteRows(inputs.schema), inputs.schema, budget, promises=False)
    events = fit.planned(generator.plan(inputs.schema))
    shares, n_rows = _entity_shares(fit, inputs.schema.n_units)
    measured = _measured(fit, generator, events, progress)
    device = device_of(generator.device)
    with seeded(None, device):
        training = _Training(sums, budget, plan, measured, place)
        network = training.run(units_of(measured.one_way, shares), device, progress)
    encoding, statement = BinnedEncoding(measured.discretizer), fit.statement()
    return NeuralModel(generator.name, fit.schema, statement, n_rows, encoding, network, shares, generator.parameters())


@dataclass(frozen=True)
class _Measured:
    """The codes of columns, and how often each occurs, as released."""

    discretizer: Discretizer
    one_way: tuple[Measurement, ...]


def _measured(fit: PrivateFit, generator: NeuralGenerator, events: NeuralEvents, progress: Progress) -> _Measured:
    merging = Merging(generator.n_bins, spikes_apart=True)
    return _Measured(*fit.columns(events.columns, merging, lambda done: progress("measuring columns", done)))


def _entity_shares(fit: PrivateFit, n_units: int | None) -> tuple[tuple[float, ...] | None, int]:
    """Shares of entities with 1, 2, ..., k rows, and the public row count."""
    if fit.schema.entity is None and n_units is not None:
        return None, n_units
    return fit.entity_shares()


class _Learner:
    """A network at the server, which learns from the mean of the sites' gradients.

    Args:
        training: at its start, on no rows.
        adam: moves its weights; of a critic of pairs there are none, and the critic's own rule holds.
        budget: knows who dropped out.
    """

    def __init__(self, training: Any, adam: ServerAdam, budget: SitesBudget) -> None:
        self.training, self._adam, self._budget = training, adam, budget

    @property
    def weights(self) -> NDArray[np.float32]:
        """Of the network, shape (d,)."""
        return np.asarray(self.training.weights.cpu().numpy(), dtype=np.float32)

    def rates(self, n_steps: int) -> NDArray[np.float32]:
        """The distance that a gradient of 1 moves each weight in a step at a site, shape (d,)."""
        return self._adam.rates(n_steps).astype(np.float32)

    def learn(self, gradient: NDArray[np.float64], n_steps: int) -> None:
        """Take the mean of so many steps."""
        from torch import from_numpy

        if not len(self.weights):
            self.training.learn(from_numpy(gradient).to(self.training.pairs.weights.device), n_steps)
            return
        moved = self._adam.step(self.weights.astype(np.float64), gradient, n_steps)
        self.training.put(from_numpy(moved.astype(np.float32)))
        self.training.follow(n_steps)

    def state(self) -> dict[str, Any]:
        """All that a checkpoint needs: nothing that the sites did not show."""
        dropped = sorted(self._budget.dropped)
        return {"training": self.training.state(), "adam": self._adam.state(), "dropped": dropped}

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` gave."""
        self.training.load(state["training"])
        self._adam.load(state["adam"])
        self._budget.dropped |= set(state["dropped"])


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
        learner = _Learner(training, self._adam(training, expected), self._budget)
        course = self._course(progress)
        done, _ = take_up(learner, course)
        for number in range(done, self._plan.n_rounds):
            progress(f"round {number + 1:,} of {self._plan.n_rounds:,}", number / self._plan.n_rounds)
            if course.place is not None:  # asked again after a new start, the round is the same one
                save_checkpoint(learner, number, course.digest, course.place)
            self._round(learner, number, expected)
        return self._generator.private_network(training, layout, self._one_way)

    def _course(self, progress: Progress) -> "Course":
        from synth.neural.training import CheckpointFolder, Course

        known = [self._sums.inputs.digest, [counts.tolist() for counts in self._one_way]]
        digest = hashlib.sha256(json.dumps(known).encode()).hexdigest()
        if self._place is not None:
            self._place.mkdir(parents=True, exist_ok=True)
        folder = None if self._place is None else CheckpointFolder(self._place)
        return Course(self._generator.name, digest, folder, progress)

    def _adam(self, training: Any, expected: float) -> ServerAdam:
        n_sites, noise = len(self._sums.inputs.names), 0.0
        if self._plan.is_private:
            bound = self._plan.event.noise_multiplier * self._generator.max_grad_norm
            noise = n_sites * (bound / expected) ** 2
        return ServerAdam(getattr(training.spec, "rate", 0.0), n_sites, noise, len(training.weights))

    def _round(self, learner: _Learner, number: int, expected: float) -> None:
        n_steps = self._plan.steps_of(number)
        body, digest = packed_arrays(learner.weights, learner.rates(n_steps), self._codes)
        place = self._plan.schedule.events.index(self._plan.event)
        query = TrainingQuery(number=number, event=place, n_steps=n_steps, expected_batch=expected, digest=digest)
        total, answered = self._sums.ask(query, self._plan.event.what, learner.training.d_gradient, body)
        self._budget.dropped |= set(self._sums.inputs.names) - set(answered)
        learner.learn(total / (UNIT * len(answered) * n_steps), n_steps)
        if not learner.training.finite:
            raise ModelError(
                f"training of generator={self._generator.name!r} diverged at round={number}: its numbers are no longer "
                "finite; lower learning_rate"
            )
