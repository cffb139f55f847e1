"""The plan of a training over several sites: its rounds and steps, and what is drawn, with noise or without.

Training takes the steps that the generator plans, at every site. A unit is at one site. Its epsilon is that of the
histograms, which are sums of all sites, and of the steps of its own site. These have the full noise of their event at
each site: their guarantee does not rest on the aggregation, nor on the other sites.

Without epsilon the same events are drawn without noise. The server sees sums, and no row leaves a site; **no formal
guarantee** comes of that.

DEVIATES: without epsilon several sites train the networks of a fit with epsilon, on bins. The modes of numbers, which a
fit on one table finds, need values side by side.
"""

import hashlib
import io
import math
import zipfile
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from synth.dp.events import SubsampledGaussianEvent
from synth.dp.schedule import Schedule
from synth.errors import BudgetError, JobError
from synth.generators.fitting.private_fit import EXACT_DELTA, EXACT_RHO
from synth.generators.neural_generator import NeuralGenerator
from synth.validation import Frozen
from understudy.sites.job import BY_STEPS, SitesInputs
from understudy.sites.messages import SitesError

LOCAL_STEPS = 10
"""Steps that each site takes between two looks at the others, unless the job says otherwise."""
UNIT = 2.0**32
"""Whole numbers of a sum to 1 in an update."""
MOST = 2.0**10
"""Of a number of an update: larger ones are cut, so that the sum of two million sites is exact in 64 bits."""
COMMUNICATION_ONLY = (
    "Communication privacy only: the server sees sums of the sites' updates, and no row leaves a site. There is no "
    "formal guarantee: updates, sums and the model itself may give rows away."
)
"""Of a training without epsilon, wherever it is mentioned."""
IN_THE_CLEAR = (
    "Warning: updates travel without secure aggregation. Only the noise of a site's own steps protects them, and the "
    "server can tell which site learned what."
)
"""Of a training with epsilon whose updates are not summed securely."""
IN_THE_CLEAR_ONLY = (
    "No privacy: the server sees each site's exact updates, from which rows can be told, and there is no formal "
    "guarantee. No row itself leaves a site."
)
"""The same where updates are not summed securely."""


@dataclass(frozen=True)
class TrainingPlan:
    """The rounds of a training."""

    schedule: Schedule
    event: SubsampledGaussianEvent
    local_steps: int
    proximal: float
    is_private: bool
    server_rate: float

    @property
    def n_rounds(self) -> int:
        """Rounds there are."""
        return math.ceil(self.event.count / self.local_steps)

    def steps_of(self, round_index: int) -> int:
        """Steps of a round."""
        return min(self.local_steps, self.event.count - round_index * self.local_steps)


def trained_generator(inputs: SitesInputs) -> NeuralGenerator:
    """The generator that plans the steps: the job's, without epsilon with steps for its epochs."""
    generator = inputs.generator
    if not isinstance(generator, NeuralGenerator):
        raise JobError(f"several sites train {', '.join(BY_STEPS)}, and generator={generator.name!r} is none of them")
    if getattr(generator, "critic", "pairs") != "pairs":
        raise JobError('several sites train the critic of pairs alone, and critic="network" is another; leave it out')
    if generator.promises:
        return generator
    n_units = inputs.schema.n_units
    if n_units is None:
        raise BudgetError("several sites agree on the steps of a training by n_units; name n_units in the schema")
    rate = min(1.0, generator.batch_size / n_units)
    steps = max(1, round(generator.epochs / rate))
    return generator.model_copy(update={"steps": steps, "sampling_rate": rate})


def training_plan(inputs: SitesInputs) -> TrainingPlan:
    """The plan of a job's training. No row is read."""
    settings, generator = inputs.job.training, trained_generator(inputs)
    if settings.proximal and generator.name == "ctgan":
        raise JobError(
            f"training.proximal={settings.proximal:g} pulls weights that sites move, and a critic of pairs moves none "
            "there; leave it out"
        )
    schedule = inputs.schedule
    if schedule is None:
        events = generator.whole_plan(inputs.counted, EXACT_DELTA)(EXACT_RHO)
        schedule, is_private = Schedule(tuple(events), EXACT_DELTA), False
    else:
        is_private = True
    event = schedule.events[-1]
    assert isinstance(event, SubsampledGaussianEvent)
    local_steps = settings.local_steps or LOCAL_STEPS
    if settings.rounds is not None:
        local_steps = math.ceil(event.count / settings.rounds)
    rate = math.sqrt(len(inputs.names)) if is_private else 1.0
    return TrainingPlan(schedule, event, min(local_steps, event.count), settings.proximal, is_private, rate)


class TrainingQuery(Frozen):
    """A round of steps that is asked for, and the event that pays. Weights and codes come beside it.

    The server sends weights and codes, which follow from what was released before. Whatever they are, a unit's
    gradient is clipped and noised, so that a site need not trust them.
    """

    number: Annotated[int, Field(ge=0, strict=True, description="Place among all rounds of the run.")]
    event: Annotated[int, Field(ge=0, strict=True, description="Place of the event in the schedule.")]
    n_steps: Annotated[int, Field(ge=1, strict=True, description="Steps of each site.")]
    expected_batch: Annotated[float, Field(gt=0, le=1e12, allow_inf_nan=False, description="Of all sites together.")]
    digest: Annotated[str, Field(description="SHA-256 of what comes beside.")]

    @property
    def task(self) -> str:
        """A task that a site is given."""
        return "train"


def read_training_query(content: Any) -> TrainingQuery:
    """A query from plain data."""
    try:
        return TrainingQuery.model_validate(content)
    except ValidationError:
        raise SitesError("a round is refused, since its query has other keys or values; correct the server") from None


def packed_arrays(weights: NDArray[np.float32], codes: bytes) -> tuple[bytes, str]:
    """A round's weights and codes as bytes, and their digest."""
    file = io.BytesIO()
    np.savez(file, weights=weights, codes=np.frombuffer(codes, dtype=np.uint8))
    content = file.getvalue()
    return content, hashlib.sha256(content).hexdigest()


def unpacked_arrays(content: bytes, query: TrainingQuery) -> dict[str, NDArray[np.generic]]:
    """A round's weights and codes from bytes."""
    if hashlib.sha256(content).hexdigest() != query.digest:
        raise SitesError(f"round={query.number} comes with other weights than it names; send it again")
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            return {name: arrays[name] for name in ("weights", "codes")}
    except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile):
        raise SitesError(f"round={query.number} comes with weights that cannot be read; correct the server") from None


def fixed_point(update: NDArray[np.float64]) -> NDArray[np.int64]:
    """Real numbers as whole ones, shape (d,) both, cut to the public range.

    >>> fixed_point(np.array([0.5, -1e9])).tolist() == [2**31, -(2**42)]
    True
    """
    return np.rint(np.clip(update, -MOST, MOST) * UNIT).astype(np.int64)


def training_caveats(inputs: SitesInputs) -> tuple[str, ...]:
    """Sentences on whom the guarantee of the steps holds against, for the statement."""
    shown = "their sum" if inputs.job.training.secure else "each site's own"
    full = (
        "Steps of training have the full stated noise at each site. So a site's updates are protected against the "
        f"server and all other sites, whatever they pool. Of the updates the server sees {shown}."
    )
    return (full, *training_cautions(inputs))


def training_cautions(inputs: SitesInputs) -> tuple[str, ...]:
    """Sentences on what a training does not protect, wherever it is mentioned; none where there is nothing to say."""
    if inputs.by_sums:
        return ()
    secure = inputs.job.training.secure
    if not inputs.generator.promises:
        return (COMMUNICATION_ONLY if secure else IN_THE_CLEAR_ONLY,)
    return () if secure else (IN_THE_CLEAR,)
