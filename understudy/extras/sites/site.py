"""A site: its rows stay here, and it answers queries of its job by noisy counts under masks.

A site trusts nobody to keep its budget. It plans the schedule of the job itself, and charges each query to it. It draws
its share of the noise, and keeps each noisy answer before it is sent. The same query again gets the same answer: noise
is not drawn twice. It refuses a query beyond its schedule.

**Networks.** Each site trains by DP-SGD on its own rows, and the server takes the mean of their moves. A unit is at one
site. Its epsilon is that of the histograms, which are sums of all sites, and of the steps of its own site. These have
the full noise of their event at each site: their guarantee rests neither on the aggregation nor on other sites.

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
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from synth.domain import Discretizer
from synth.domain.counts import Coarsening
from synth.dp.budget import Budget
from synth.dp.events import Event, GaussianEvent, SubsampledGaussianEvent
from synth.dp.mechanisms import SystemNoise
from synth.errors import BudgetError
from synth.generators.fitting.private_fit import COLUMNS, SIZES
from synth.generators.fitting.training_data import PrivateRows, TrainingTable, bound_contributions, counted_rows
from synth.generators.neural_generator import PrivateNetwork
from synth.neural.encoding import BinnedEncoding
from synth.output import read_state, whole_file
from synth.schema import Schema
from synth.schema.residual_schema import in_rows_alone
from synth.table.rows import Rows
from synth.validation import Frozen
from understudy.extras.sites.channel import SitesError, pack, unpack
from understudy.extras.sites.job import SitesInputs
from understudy.extras.sites.secure_aggregation import AggregationPlan, SiteAggregation

if TYPE_CHECKING:
    from synth.dp.mechanisms import Steps

ROUND = "round"  # the name of a site's last round among its answers
UNIT, MOST = 2.0**32, 2.0**10
"""Whole numbers to 1 in an update; size at which a number is cut, so that sums of two million sites are exact."""
FULL_NOISE = (
    "Steps of training have the full stated noise at each site: a site's updates are protected against the server and "
    "all other sites, whatever they pool. Of the updates the server sees their sum."
)
OTHER_JOB = (
    "the server's job is not that of this site: schema, generator, training, seed, policy, rows, sites, colluding or "
    "dropouts differ; use the same job file"
)
BOOKS, DRAWN = "books.json", "[!.]*.npz"  # files of a site's answers
ANEW = "begin anew at all sites: remove the unfinished folder beside each output (what was reserved stays spent)"
LEAST_SHARE_SIGMA = 2.5
"""Standard deviation of a site's share of noise at least, in rows: with less, a sum of shares is no Gaussian."""
MOST_CELLS = 50_000_000  # numbers of one answer at most (400 MB): what `NoiseShare` says of a sum of shares rests on it


class NoiseShare(SystemNoise):
    """A site's share of discrete Gaussian noise: that of so many honest sites together is what an event states.

    The sum of n discrete Gaussians of standard deviation s is no discrete Gaussian. Yet the logarithm of its mass is
    within 10 n exp(-pi^2 s^2) of one at every point. With s of at least `LEAST_SHARE_SIGMA` this is below 2e-23 for a
    thousand sites. Over a hundred million cells it adds less than 1e-14 to epsilon, and accountants round by more.

    Source: Kairouz, Liu, Steinke 2021 (2102.06387), Corollary 12.
    """

    def __init__(self, n_honest: int) -> None:
        super().__init__()
        self._n_honest = n_honest

    def gaussian(self, values: np.ndarray, sigma: float) -> np.ndarray:
        return super().gaussian(values, share_of(sigma, self._n_honest))


def share_of(sigma: float, n_honest: int) -> float:
    """Standard deviation of a site's share of noise; more than its part where that would be too little.

    >>> share_of(10.0, 4), share_of(1.0, 4)
    (5.0, 2.5)
    """
    return max(sigma / math.sqrt(n_honest), LEAST_SHARE_SIGMA)


class CountQuery(Frozen):
    """Counts that are asked for together, and the event that pays for them.

    The server sends the codes, which follow from what was released before. A count of any codes has the same
    sensitivity, so that a site need not trust them.
    """

    number: Annotated[int, Field(ge=0, strict=True, description="Place among all queries of the run.")]
    event: Annotated[int, Field(ge=0, strict=True, description="Place of the event in the schedule.")]
    kind: Literal["sizes", "cells", "cliques"]
    discretizer: dict[str, Any] = Field(default_factory=dict)
    groups: dict[str, list[int]] = Field(default_factory=dict)
    cliques: tuple[tuple[str, ...], ...] = ()

    task: ClassVar[str] = "mask"

    def counts(self, rows: TrainingTable, schema: Schema) -> list[NDArray[np.int64]]:
        """The exact counts at a site, of its rows with contributions bounded. *Sensitive*."""
        if self.kind == "sizes":
            return [rows.rows_per_entity()]
        # What is refused must not depend on the rows: a refusal has no noise.
        try:
            discretizer = Discretizer.from_plain(self.discretizer, schema)
            coarsening = Coarsening({name: np.asarray(each, dtype=np.int64) for name, each in self.groups.items()})
            groups, domain = coarsening.groups, coarsening.domain(discretizer.sizes)
            codes = [math.prod(domain[name] for name in clique) for clique in self.cliques]
            n_cells = sum([each.n_cells for each in discretizer.attributes] if self.kind == "cells" else codes)
            are_codes = all(g.shape == (discretizer.sizes[name],) and g.min() == 0 for name, g in groups.items())
        except (ValueError, TypeError, KeyError, OverflowError):
            are_codes, n_cells = False, 0
        if not are_codes or not 0 < n_cells <= MOST_CELLS:
            raise SitesError(
                "a query is refused: its codes are not those of the schema's columns, or its marginals have not 1 to "
                f"{MOST_CELLS:,} cells in all; correct the server"
            )
        if self.kind == "cells":
            return list(rows.cell_counts(discretizer.attributes))
        return list(rows.coded(discretizer).coarse(coarsening).each(self.cliques))


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


class NoisyAnswers:
    """Noisy answers of a site, on the disk before they are sent; in memory alone where there is no folder."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        # Queries and answers; these have no number where noise was drawn and lost.
        self.kept: dict[str, tuple[str, NDArray[np.int64]]] = {}
        # Its name, drawn once: whoever has other answers has another. Those of others; who was in which sum.
        new = {"id": secrets.token_hex(16), "peers": {}, "sums": {}}
        self.books: dict[str, Any] = new if folder is None else read_state(folder / BOOKS, new)
        if folder is not None:
            for path in folder.glob(DRAWN):
                with np.load(path, allow_pickle=False) as content:
                    self.kept[path.stem] = str(content["asked"]), content["values"]
        self._write()

    def keep(self, name: str, asked: str, values: NDArray[np.int64]) -> None:
        if self.folder is not None:
            with whole_file(self.folder / f"{name}.npz") as beside:
                np.savez(beside, asked=np.array(asked), values=values)
        self.kept[name] = asked, values

    def record_sum(self, asked: str, answered: tuple[str, ...]) -> None:
        """Record whose answers a sum will hold, on the disk before it is shown.

        The difference of two sums of the same answers is the answers of the sites in which they differ. It has no more
        noise than these sites added.
        """
        if tuple(self.books["sums"].setdefault(asked, list(answered))) != answered:
            raise SitesError(
                f"{asked} was shown in a sum of other sites, and a second sum would tell what these answered; start "
                f"again the sites that were there, or {ANEW}"
            )
        self._write()

    def check_peers(self, site: str, answer_ids: Any) -> None:
        """Refuse a sum of old answers of some sites and new ones of others; the answers of all are noted."""
        if not isinstance(answer_ids, dict) or answer_ids.get(site) != self.books["id"]:
            raise SitesError("the server does not know this site's answers; start the server again")
        peers = self.books["peers"]
        if other := sorted(name for name, answer_id in answer_ids.items() if peers.get(name, answer_id) != answer_id):
            raise SitesError(
                f"sites={', '.join(other)} began anew, and sums would mix their new answers with the old ones of this "
                f"site; go on with the work that they had, or {ANEW}"
            )
        peers.update(answer_ids)
        self._write()

    def _write(self) -> None:
        if self.folder is not None:
            with whole_file(self.folder / BOOKS) as beside:
                beside.write_text(json.dumps(self.books), encoding="utf-8")


@dataclass
class SiteTraining:
    """A site's answers to rounds of training on its rows, whose contributions are bounded. *Sensitive*.

    A round is on the disk before a step of it is taken, and before its answer is sent. Rounds come in order, so that
    their numbers tell what is spent.
    """

    inputs: SitesInputs
    rows: TrainingTable
    budget: Budget
    answers: NoisyAnswers
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
        self.budget.stretch(event, n_steps, work)
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
        encoded = encoding.apply(columns)
        entities = None if schema.entity is None else self.rows.entities()
        k = schema.max_rows_per_unit
        rows = PrivateRows(encoded, encoding.layout, entities, k, even, 0.0, event, self.budget)
        device = device_of(generator.device)
        return generator.training(rows.units(), rows.layout, even, expected_batch, device)


def trained(inputs: SitesInputs) -> tuple[PrivateNetwork, SubsampledGaussianEvent]:
    event = inputs.schedule.events[-1]
    return cast("PrivateNetwork", inputs.generator), cast("SubsampledGaussianEvent", event)


def steps_of(inputs: SitesInputs, number: int) -> int:
    """Steps in a round: those before it have as many as a round may have, whether they were taken or not."""
    local, n_steps = inputs.job.training.local_steps, trained(inputs)[1].count
    return max(0, min(local, n_steps - number * local))


class Site:
    def __init__(
        self, name: str, inputs: SitesInputs, train: Any, answers: NoisyAnswers | None = None, noise: Any = None,
        before_draws: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        schedule = inputs.schedule
        for event in schedule.events if inputs.by_sums else schedule.events[:-1]:
            if not isinstance(event, GaussianEvent) or not event.whole:
                raise BudgetError(f"several sites release sums of counts, and {event.what!r} is none; choose another")
        self.name, self.inputs, self._before_draws = name, inputs, before_draws
        rows = bound_contributions(Rows.of(train, inputs.schema), inputs.schema)
        self._rows = TrainingTable(counted_rows(rows, in_rows_alone(inputs.schema)))
        self._answers = answers or NoisyAnswers()
        self.budget = Budget(schedule, NoiseShare(inputs.job.n_honest) if noise is None else noise)
        self._spent: dict[Event, int] = {}
        for drawn, (asked, _) in self._answers.kept.items():
            if drawn != ROUND:
                self._spent.update([self._charged(CountQuery.model_validate_json(asked))])
        self._aggregation: SiteAggregation | None = None
        self._asked = ""

    @cached_property
    def training(self) -> SiteTraining:
        if self.inputs.by_sums:
            raise SitesError("the generator of this job is fitted to counts, and takes no steps; correct the server")
        return SiteTraining(self.inputs, self._rows, self.budget, self._answers, self._before_draws)

    def answer(self, request: bytes) -> bytes:
        content, body = unpack(request)
        if content.get("job") != self.inputs.digest:
            raise SitesError(OTHER_JOB)
        task, aggregation = content.get("task"), self._aggregation
        if task == "hello":
            return pack({"answer_id": self._answers.books["id"]})
        if task == "advertise":
            answer_ids = content.get("answer_ids")
            self._answers.check_peers(self.name, answer_ids)
            self._aggregation = SiteAggregation(plan_of(self.inputs, str(content.get("run")), answer_ids), self.name)
            return self._aggregation.advertise()
        if aggregation is None:
            raise SitesError(f"task={task!r} comes after keys are exchanged; begin with these")
        if task == "share":
            return aggregation.share(body)
        if task == "unmask":
            return aggregation.unmask(body, lambda answered: self._answers.record_sum(self._asked, answered))
        if task not in ("mask", "train"):
            raise SitesError(f"task={task!r} is unknown to this site; use the same version on both sides")
        try:
            query = (CountQuery if task == "mask" else TrainingQuery).model_validate(content.get("query"))
        except ValidationError:
            raise SitesError("a query has not the keys of one, or values of other types; correct the server") from None
        shares, _, body = body.partition(b"\n")
        aggregation.receive(shares)  # refused but once a sum: before noise is drawn, and before this one is named
        self._asked = f"{task}={query.number}"
        vector = self.noisy(query) if isinstance(query, CountQuery) else self.training.answer(query, body)
        return aggregation.mask(vector)

    def noisy(self, query: CountQuery) -> NDArray[np.int64]:
        """The site's noisy counts: those that were kept, else drawn, kept and given."""
        name, asked = f"{query.task}={query.number}", query.model_dump_json()
        before, kept = self._answers.kept.get(name, (asked, None))
        if before != asked:
            raise SitesError(f"{name} was another query before, and its noise is not drawn twice; {ANEW}")
        if kept is not None:
            return kept
        event, spent = self._charged(query)
        counts = query.counts(self._rows, self.inputs.counted)
        self._before_draws()
        self._spent[event] = spent
        values = np.concatenate([each.ravel() for each in self.budget.release_each(counts, event)])
        self._answers.keep(name, asked, values)
        return values

    def _charged(self, query: CountQuery) -> tuple[GaussianEvent, int]:
        """The event that pays for a query, and what is spent of it with this, an earlier start included."""
        events, n_columns = self.inputs.schedule.events, len(self.inputs.counted.modeled)
        event = events[query.event] if query.event < len(events) else None
        kind = {SIZES: "sizes", COLUMNS: "cells"}.get("" if event is None else event.what, "cliques")
        if not isinstance(event, GaussianEvent) or kind != query.kind:
            raise SitesError(
                f"query={query.number} asks for {query.kind}, and event={query.event} does not pay for these; correct "
                "the server"
            )
        n_releases = {"cells": n_columns, "sizes": 1, "cliques": len(query.cliques)}[query.kind]
        spent = self._spent.get(event, 0) + n_releases
        if spent > event.count:
            raise BudgetError(f"the budget holds no further release of {event.what!r}; plan it before drawing")
        return event, spent


def plan_of(inputs: SitesInputs, run: str, answer_ids: Any) -> AggregationPlan:
    answers = hashlib.sha256(json.dumps(answer_ids, sort_keys=True).encode()).hexdigest()
    return AggregationPlan(f"{inputs.digest}:{run}:{answers}", inputs.names, inputs.job.threshold)
