"""Networks over several sites: each trains by DP-SGD on its own rows, and the server takes the mean of their moves.

A unit is at one site. Its epsilon is that of the histograms, which are sums of all sites, and of the steps of its own
site. These have the full noise of their event at each site: their guarantee rests neither on the aggregation nor on
other sites.

Each site trains by Adam with moments of its own, and sites count alike in the mean. That is nearly a mean by size, for
which nobody pays: Adam divides a gradient by the root of its second moment, which is mostly noise, the same everywhere.
So a small site moves the weights as little as its rows can. Of the critic of `ctgan`, whose gradients no weight
has a part in, the server takes the mean of gradients.

What comes of it lies between the largest site alone and all rows in one place: on five sites of Adult, 549 MB for TSTR
.85 of .87 (docs/how-to/sites.md); `aim` over sites has .90 for 1 MB a site.

Source: McMahan et al. 2017 (1602.05629) for FedAvg; Hardy, Le Merrer, Sericola 2019 (1811.03850) for a generator at the
server and critics at the sites; Tang, Shpilevskiy, Lecuyer 2024 (2312.14334) for noise in Adam's second moment.

DEVIATES: a mean of sites, not of rows: a weight by their number would tell it.
"""

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from synth.domain import Discretizer
from synth.dp.budget import Budget
from synth.dp.events import SubsampledGaussianEvent
from synth.errors import BudgetError, ModelError
from synth.generators.fitting.private_fit import Merging, start
from synth.generators.fitting.training_data import PrivateRows, TrainingTable, units_of
from synth.generators.models.fitted import NeuralModel
from synth.generators.neural_generator import PrivateNetwork
from synth.neural.encoding import BinnedEncoding
from synth.output import read_state
from synth.progress import Progress, quiet
from synth.schema.counted import in_rows_alone
from synth.validation import Frozen
from understudy.extras.sites.channel import SitesError
from understudy.extras.sites.job import SitesInputs

if TYPE_CHECKING:
    from synth.dp.mechanisms import Steps
    from understudy.extras.sites.remote_table import SecureSums
    from understudy.extras.sites.site import NoisyAnswers

ROUND, DROPPED = "round", "dropped.json"
"""The name of a site's last round among its answers, and the server's file of who dropped out."""
UNIT, MOST = 2.0**32, 2.0**10
"""Whole numbers to 1 in an update; size at which a number is cut, so that sums of two million sites are exact."""
FULL_NOISE = (
    "Steps of training have the full stated noise at each site: a site's updates are protected against the server and "
    "all other sites, whatever they pool. Of the updates the server sees their sum."
)


class TrainingQuery(Frozen):
    """A round of steps that is asked for; the last event of the schedule pays. Weights, as float32, come beside it.

    They follow from what was released before. Whatever they are, a unit's gradient is clipped and noised, so that a
    site need not trust them.
    """

    number: Annotated[int, Field(ge=0, strict=True)]
    expected_batch: Annotated[float, Field(gt=0, le=1e12, allow_inf_nan=False, description="Of all sites together.")]
    discretizer: dict[str, Any]
    digest: Annotated[str, Field(description="SHA-256 of the weights.")]

    task: ClassVar[str] = "train"


def trained(inputs: SitesInputs) -> tuple[PrivateNetwork, SubsampledGaussianEvent]:
    event = inputs.schedule.events[-1]
    return cast("PrivateNetwork", inputs.generator), cast("SubsampledGaussianEvent", event)


def steps_of(inputs: SitesInputs, number: int) -> int:
    """Steps in a round: those before it have as many as a round may have, whether they were taken or not."""
    local, n_steps = inputs.job.training.local_steps, trained(inputs)[1].count
    return max(0, min(local, n_steps - number * local))


@dataclass
class SiteTraining:
    """A site's answers to rounds of training on its rows, whose contributions are bounded. *Sensitive*.

    A round is on the disk before a step of it is taken, and before its answer is sent. Rounds come in order, so that
    their numbers tell what is spent.
    """

    inputs: SitesInputs
    rows: TrainingTable
    budget: Budget
    answers: "NoisyAnswers"
    before_draws: Callable[[], None]

    def __post_init__(self) -> None:
        self.network = lru_cache(1)(self._network)

    def answer(self, query: TrainingQuery, body: bytes) -> NDArray[np.int64]:
        from torch import from_numpy

        asked, event = query.model_dump_json(), trained(self.inputs)[1]
        last, kept = self.answers.kept.get(ROUND, ("", np.zeros(0, dtype=np.int64)))
        if last == asked:
            if not len(kept):
                raise SitesError(f"round={query.number} was begun and its answer was lost; it stays spent")
            return kept
        if last and query.number <= json.loads(last)["number"]:
            raise SitesError(f"round={query.number} was another one before, or is over; begin a new run")
        if not (n_steps := steps_of(self.inputs, query.number)):
            raise BudgetError(f"the budget holds no further step of {event.what!r}; plan it before drawing")
        if hashlib.sha256(body).hexdigest() != query.digest:
            raise SitesError(f"round={query.number} comes with other weights than it names; send it again")
        training = self.network(json.dumps(query.discretizer), query.expected_batch / len(self.inputs.names))
        if len(body) != 4 * len(training.weights) or not np.isfinite(weights := np.frombuffer(body, "<f4")).all():
            raise SitesError(f"round={query.number} comes with weights that do not fit the network; correct the server")
        begin = from_numpy(weights.copy()).to(training.weights)
        moved: list[NDArray[np.float64]] = []

        def work(steps: "Steps") -> str:
            moved.append(training.update(steps, n_steps, begin).double().cpu().numpy())
            return ""

        self.before_draws()
        self.answers.keep(ROUND, asked, np.zeros(0, dtype=np.int64))
        self.budget.step(event, n_steps, work)
        if not np.isfinite(moved[0]).all():
            raise SitesError("a site's numbers are no longer finite, so that it has no answer; lower learning_rate")
        self.answers.keep(ROUND, asked, np.rint(np.clip(moved[0], -MOST, MOST) * UNIT).astype(np.int64))
        return self.answers.kept[ROUND][1]

    def _network(self, plain: str, expected_batch: float) -> Any:
        from synth.neural.training import device_of

        (generator, event), schema = trained(self.inputs), self.inputs.counted
        try:
            encoding = BinnedEncoding(Discretizer.from_plain(json.loads(plain), schema))
        except (ValueError, TypeError, KeyError, OverflowError):
            raise SitesError("a round has codes that are not those of the schema; correct the server") from None
        columns, even = self.rows.columns(self.answers.folder), [np.ones(n) for n in encoding.layout.sizes]
        encoded = encoding.apply(columns, np.random.default_rng(0))
        entities = None if schema.entity is None else self.rows.entities()
        k = schema.max_rows_per_unit
        rows = PrivateRows(encoded, encoding.layout, entities, k, even, 0.0, event, self.budget)
        device = device_of(generator.device)
        return generator.training(rows.units(), rows.layout, even, expected_batch, device)


def fit_network(
    sums: "SecureSums", budget: Any, *, progress: Progress = quiet, folder: Path | None = None
) -> NeuralModel:
    """A model of the rows of all sites: histograms by sums, then rounds of steps at the sites.

    `budget`: the sites' (`SitesBudget`); `folder`: for checkpoints, which hold nothing that the sites did not show.
    """
    from torch import from_numpy

    from synth.neural.encoding import Encoded
    from synth.neural.training import CheckpointFolder, Course, UnitIndex, device_of, seeded, take_up
    from understudy.extras.sites.remote_table import RemoteRows

    inputs, (generator, event) = sums.inputs, trained(sums.inputs)
    fit = start(generator, RemoteRows(inputs.counted), inputs.counted, budget, progress)
    events = fit.planned(generator.plan(inputs.counted))
    shares, n_rows = fit.entity_shares()
    discretizer, measured = fit.columns(events.columns, Merging(generator.n_bins, spikes_apart=True))
    one_way, encoding, plain = [each.values for each in measured], BinnedEncoding(discretizer), discretizer.to_plain()
    device, layout = device_of(generator.device), encoding.layout
    expected = event.sampling_rate * units_of(measured, shares)
    known = json.dumps([inputs.digest, [counts.tolist() for counts in one_way]])
    at = None if folder is None else CheckpointFolder(folder)
    course = Course(generator.name, hashlib.sha256(known.encode()).hexdigest(), at, progress)
    rate, n_rounds = math.sqrt(len(inputs.names)), math.ceil(event.count / inputs.job.training.local_steps)
    budget.dropped |= set([] if folder is None else read_state(folder / DROPPED, []))
    with seeded(None, device):
        nobody = UnitIndex.of(Encoded.zeros(0, layout))
        training = generator.training(nobody, layout, one_way, expected, device)
        for number in range(take_up(training, course)[0], n_rounds):
            progress(f"round {number + 1:,} of {n_rounds:,}", number / n_rounds)
            if folder is not None and at is not None:  # asked again after a new start, the round is the same one
                (folder / DROPPED).write_text(json.dumps(sorted(budget.dropped)), encoding="utf-8")
                at.save(training, number, course.digest)
            n_steps, weights = steps_of(inputs, number), training.weights
            body = weights.cpu().numpy().astype("<f4").tobytes()
            digest = hashlib.sha256(body).hexdigest()
            query = TrainingQuery(number=number, expected_batch=expected, discretizer=plain, digest=digest)
            total, answered = sums.ask(query, event.what, training.d_update, body)
            budget.dropped |= set(inputs.names) - set(answered)
            mean = from_numpy(total / (UNIT * len(answered)))
            training.absorb(rate * mean.to(weights) if len(weights) else mean, n_steps)
            if not training.finite:
                raise ModelError(f"training diverged at round={number}: lower learning_rate")
        network = training.network()
    schema, statement = in_rows_alone(inputs.schema), fit.statement()
    return NeuralModel(generator.name, schema, statement, n_rows, encoding, network, shares, generator.parameters())
