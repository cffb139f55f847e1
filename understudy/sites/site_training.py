"""A site's part in a training: steps of DP-SGD on its own rows, from the server's weights on.

A site charges the steps of a round before the first, and keeps the round's answer before it is sent. The same round
again gets the same answer. A round that was begun and whose answer was lost stays spent, and is not taken again: the
site sits it out. A site that is started again begins the moments of Adam anew.

Each site trains by Adam with moments of its own, which stay here. Sites count alike in the mean of what they moved the
weights by. With epsilon that is nearly a mean by size, though no size is asked for or paid for. A site's gradient is a
sum over its sample with noise that is the same everywhere. Adam divides by the root of its second moment, which is
mostly noise. So a small site, of which most is noise, moves the weights as little as its rows can. Without epsilon Adam
would divide sizes out. Each site then multiplies its update by its share of the rows, and the secure sum is the mean by
size.

Source: McMahan, Moore, Ramage, Hampson, Aguera y Arcas 2017 (1602.05629) for FedAvg; Li et al. 2020 (1812.06127) for
FedProx.

Source: Tang, Shpilevskiy, Lecuyer 2024 (2312.14334) for noise in Adam's second moment under DP-SGD.

DEVIATES: with epsilon a mean of sites, not of rows: a weight by the number of rows would tell that number.
"""

import json
import os
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from synth.domain import Discretizer
from synth.dp.budget import Budget
from synth.errors import BudgetError
from synth.generators.fitting.training_data import PrivateRows, TrainingTable
from synth.output import whole_file
from synth.transforms.encoding import BinnedEncoding
from understudy.sites.job import SitesInputs
from understudy.sites.messages import SitesError
from understudy.sites.training_plan import (
    TrainingPlan,
    TrainingQuery,
    fixed_point,
    trained_generator,
    unpacked_arrays,
)

if TYPE_CHECKING:
    from synth.dp.mechanisms import Steps

ROUND = "round.kept"
"""The file of a site's last round."""
MOST_CODES_BYTES = 1 << 28
"""Of the codes of all columns, as text."""
MOST_EXPECTED = 10.0
"""Times what the schema has a sample hold: what the server may take for it at most. Memory depends on it."""


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

    @property
    def number(self) -> int:
        """Of the round; -1 before the first."""
        return json.loads(self.asked)["number"] if self.asked else -1

    def begin(self, asked: str, n_steps: int) -> None:
        """Note that a round's steps are spent."""
        self.asked, self.n_begun, self.values = asked, self.n_begun + n_steps, np.zeros(0, dtype=np.int64)
        self._write()

    def finish(self, values: NDArray[np.int64]) -> None:
        """Keep the round's answer."""
        self.values = values
        self._write()

    def _write(self) -> None:
        if self.path is None:
            return
        with whole_file(self.path) as beside, beside.open("wb") as file:
            np.savez(file, asked=np.array(self.asked), n_begun=np.array(self.n_begun), values=self.values)
            file.flush()
            os.fsync(file.fileno())


class SiteTraining:
    """A site's answers to rounds of training.

    Args:
        rows: *Sensitive*. The site's, contributions bounded.
    """

    def __init__(
        self,
        inputs: SitesInputs,
        plan: TrainingPlan,
        rows: TrainingTable,
        budget: Budget,
        folder: Path | None,
        before_draws: Callable[[], None] = lambda: None,
    ) -> None:
        self._inputs, self._plan, self._rows, self._budget, self._folder = inputs, plan, rows, budget, folder
        self._kept = KeptRound(None if folder is None else folder / ROUND)
        self._before_draws = before_draws
        self._training: tuple[tuple[bytes, float], Any] | None = None
        self._n_units = 0

    def answer(self, query: TrainingQuery, body: bytes) -> NDArray[np.int64]:
        """The update of a round's steps, in fixed point; shape (d,)."""
        asked = query.model_dump_json()
        if asked == self._kept.asked:
            if not len(self._kept.values):
                raise SitesError(
                    f"round={query.number} was begun here before, and its answer was lost; its steps stay spent, and "
                    "this site waits for the next round"
                )
            return self._kept.values
        self._check(query)
        training, start = self._started(query, body)
        self._before_draws()
        self._kept.begin(asked, query.n_steps)
        self._kept.finish(fixed_point(self._update(query, training, start)))
        return self._kept.values

    def _started(self, query: TrainingQuery, body: bytes) -> tuple[Any, Any]:
        """The network on the site's rows, and the weights that a round begins with."""
        from torch import from_numpy

        arrays = unpacked_arrays(body, query)
        training = self._ready(arrays["codes"].tobytes(), query.expected_batch / len(self._inputs.names))
        start = from_numpy(arrays["weights"].astype(np.float32)).to(training.weights)
        if start.shape != training.weights.shape or not bool(start.isfinite().all()):
            raise SitesError(f"round={query.number} comes with weights that do not fit the network; correct the server")
        return training, start

    def _update(self, query: TrainingQuery, training: Any, start: Any) -> NDArray[np.float64]:
        """The move of the weights by a round's steps, shape (d,)."""
        updates: list[NDArray[np.float64]] = []

        def work(steps: "Steps") -> str:
            update = training.update(steps, query.n_steps, start, self._plan.proximal)
            updates.append(update.double().cpu().numpy() * self._weight(query))
            return ""

        self._budget.step(self._plan.event, query.n_steps, work)
        if not np.isfinite(updates[0]).all():
            raise SitesError("a site's numbers are no longer finite, so that it has no answer; lower learning_rate")
        return updates[0]

    def _weight(self, query: TrainingQuery) -> float:
        """In the mean over sites: 1 with epsilon, else by the number of units. *Sensitive*."""
        if self._plan.is_private:
            return 1.0
        n_all = query.expected_batch / self._plan.event.sampling_rate
        return self._n_units * len(self._inputs.names) / n_all

    def _check(self, query: TrainingQuery) -> None:
        """Refuse a round that is out of turn or not paid for."""
        if query.number <= self._kept.number:
            raise SitesError(f"round={query.number} was another one before, or is over; begin a new run")
        events = self._plan.schedule.events
        if query.event >= len(events) or events[query.event] != self._plan.event:
            raise SitesError(f"event={query.event} of the schedule does not pay for steps; correct the server")
        if self._kept.n_begun + query.n_steps > self._plan.event.count:
            raise BudgetError(f"the budget holds no further step of {self._plan.event.what!r}; plan it before drawing")
        n_units = self._inputs.schema.n_units
        assert n_units is not None  # else there were no plan
        if query.expected_batch > MOST_EXPECTED * self._plan.event.sampling_rate * n_units:
            raise SitesError(f"expected_batch={query.expected_batch:g} is far beyond n_units; correct the server")

    def _ready(self, codes: bytes, expected_batch: float) -> Any:
        """The network on the site's rows in these codes, made where it is not there yet."""
        if self._training is None or self._training[0] != (codes, expected_batch):
            self._training = (codes, expected_batch), self._made(_discretizer(codes, self._inputs), expected_batch)
        return self._training[1]

    def _made(self, discretizer: Discretizer, expected_batch: float) -> Any:
        from synth.neural.training import device_of

        generator, schema = trained_generator(self._inputs), self._inputs.counted
        encoding = BinnedEncoding(discretizer)
        columns = self._rows.columns(self._folder)
        encoded = encoding.apply(columns, np.random.default_rng(0))
        entities = None if schema.entity is None else self._rows.entities()
        even = [np.ones(size) for size in encoding.layout.sizes]
        event, k = self._plan.event, schema.max_rows_per_unit
        rows = PrivateRows(encoded, encoding.layout, columns.disk, entities, k, even, 0.0, event, self._budget)
        device, units = device_of(generator.device), rows.units()
        self._n_units = len(units)
        return generator.private_training(units, rows.layout, even, expected_batch, event.count, device)


def _discretizer(codes: bytes, inputs: SitesInputs) -> Discretizer:
    """The codes that the server sent."""
    try:
        plain = zlib.decompressobj().decompress(codes, MOST_CODES_BYTES)
        return Discretizer.from_plain(json.loads(plain), inputs.counted)
    except (zlib.error, ValueError, TypeError, KeyError, OverflowError):
        raise SitesError(
            "a round is refused, since its codes are not those of the schema's columns; correct the server"
        ) from None
