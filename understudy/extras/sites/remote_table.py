"""A table that stays at its sites: the server's generators ask it for counts, and get sums with noise.

A count of such a table is pending: it has a shape and no numbers, and whatever would read its numbers fails. A budget
turns pending counts into sums.
"""

import hashlib
import json
import math
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from synth.domain import Attribute, Discretizer
from synth.domain.counts import Coarsening
from synth.dp.budget import Budget
from synth.dp.events import GaussianEvent, LaplaceEvent
from synth.dp.noise_journal import Journal
from synth.dp.schedule import Schedule
from synth.dp.statement import PrivacyStatement
from synth.errors import BadInput, BudgetError, ModelError, TableError
from synth.generators.fitting.private_fit import Merging, start
from synth.generators.fitting.training_data import RowsElsewhere, estimate_units
from synth.generators.models.fitted import NeuralModel
from synth.neural.encoding import BinnedEncoding
from synth.output import read_state
from synth.progress import Progress, quiet
from synth.schema import Schema
from synth.schema.residual_schema import in_rows_alone
from understudy.extras.sites.channel import Channel, ChannelError, SitesError, pack, unpack
from understudy.extras.sites.job import SitesInputs
from understudy.extras.sites.secure_aggregation import sum_of_sites
from understudy.extras.sites.site import FULL_NOISE, UNIT, CountQuery, TrainingQuery, plan_of, steps_of, trained

Sum = tuple[NDArray[np.int64], tuple[str, ...]]  # numbers, and the sites in them
DROPPED = "dropped.json"  # the file of who dropped out of a training
ATTEMPTS = 3  # tries at one sum, where sites are lost between their answer and the unmasking


@dataclass(frozen=True, eq=False)
class PendingCounts:
    """Counts that no budget has paid for yet: a shape, and no numbers."""

    kind: str
    shape: tuple[int, ...]
    clique: tuple[str, ...] = ()
    table: "RemoteCounts | None" = None

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise TableError("counts of several sites have no numbers before a budget has paid for them")


@dataclass(frozen=True, eq=False)
class RemoteCounts:
    """The rows of all sites in the codes of a discretizer, as far as counting goes."""

    discretizer: Discretizer
    coarsening: Coarsening

    @property
    def domain(self) -> Mapping[str, int]:
        return self.coarsening.domain(self.discretizer.sizes)

    def counts(self, clique: Sequence[str]) -> Any:
        return PendingCounts("cliques", tuple(self.domain[name] for name in clique), tuple(clique), self)

    def each(self, cliques: Sequence[Sequence[str]]) -> Iterator[Any]:
        return map(self.counts, cliques)

    def coarse(self, coarsening: "Coarsening") -> "RemoteCounts":
        return replace(self, coarsening=coarsening)


@dataclass(frozen=True)
class RemoteRows(RowsElsewhere):
    """The table of all sites, where it is: it has no rows here, and all its counts are pending."""

    schema: Schema

    def training(self, schema: Schema, *, in_order: bool = False) -> "RemoteRows":
        return RemoteRows(schema)

    def under(self, schema: Schema) -> Self:
        return replace(self, schema=schema)

    def cell_counts(self, attributes: Sequence[Attribute]) -> Iterator[Any]:
        table = self.coded(Discretizer(tuple(attributes)))
        return (PendingCounts("cells", (each.n_cells,), (each.name,), table) for each in attributes)

    def coded(self, discretizer: Discretizer) -> RemoteCounts:
        return RemoteCounts(discretizer, Coarsening({}))

    def rows_per_entity(self) -> Any:
        return PendingCounts("sizes", (self.schema.max_rows_per_unit,))


@dataclass
class SecureSums:
    """The server's side of a run: each query is answered by the sum of all sites, or not at all.

    Where too few sites are there, it waits for `wait_s` seconds until sites have joined again.
    """

    channel: Channel
    inputs: SitesInputs
    wait_s: float = 0.0
    say: Callable[[str], None] = lambda _: None
    n_sums: int = 0

    def ask(self, query: CountQuery | TrainingQuery, what: str, length: int, body: bytes = b"") -> Sum:
        threshold, sites, reason = self.inputs.job.threshold, self.channel.sites, ""
        for _ in range(ATTEMPTS):
            missing = sorted(set(sites) - set(self.channel.present))
            if len(sites) - len(missing) < threshold:
                gone = f"sites={', '.join(missing)} are missing, and a sum needs {threshold} of all"
                self.say(f"{gone}; waiting up to {self.wait_s:g} s for them to join again.")
                if not self.channel.wait(threshold, self.wait_s):
                    raise SitesError(
                        f"no sum of {what!r} came together: {gone} and did not join again within wait_s="
                        f"{self.wait_s:g}; start them again, and the same command goes on"
                    )
            try:
                sum_and_sites = self._once(query, length, body)
                self.n_sums += 1
                return sum_and_sites
            except ChannelError:
                raise
            except BadInput as error:
                reason = str(error)
        raise SitesError(
            f"no sum of {what!r} came together: {reason}; what sites refused, they say where they run; then the same "
            "command goes on"
        )

    def _once(self, query: CountQuery | TrainingQuery, length: int, body: bytes) -> Sum:
        """A sum under keys of its own, of the sites that stay to its end."""
        run, answer_ids, asked = secrets.token_hex(16), dict[str, str](), query.model_dump(mode="json")
        for site, reply in sorted(self._send(dict.fromkeys(self.channel.sites, b""), task="hello").items()):
            with suppress(SitesError):  # a reply that makes no sense is as good as none
                if isinstance(answer_id := unpack(reply)[0].get("answer_id"), str):
                    answer_ids[site] = answer_id

        def ask(stage: str, messages: Mapping[str, bytes]) -> Mapping[str, bytes]:
            if stage == "advertise":
                return self._send(dict.fromkeys(answer_ids, b""), task=stage, run=run, answer_ids=answer_ids)
            if stage == "mask":
                with_body = {site: shares + b"\n" + body for site, shares in messages.items()}
                return self._send(with_body, task=query.task, query=asked)
            return self._send(messages, task=stage)

        return sum_of_sites(plan_of(self.inputs, run, answer_ids), length, ask)

    def _send(self, bodies: Mapping[str, bytes], **content: Any) -> Mapping[str, bytes]:
        requests = {site: pack({"job": self.inputs.digest, **content}, body) for site, body in bodies.items()}
        return self.channel.ask(requests, self.inputs.job.timeout_s)


class SitesBudget(Budget):
    """A budget whose draws are sums of the sites' noisy counts; it is never charged for a number that no site has."""

    def __init__(self, schedule: Schedule, sums: SecureSums, journal: Journal | None = None) -> None:
        super().__init__(schedule, journal=journal)
        self._sums = sums
        self._number = 0
        self._first_total: float | None = None
        self.dropped: set[str] = set()

    def release(self, exact: np.ndarray, event: GaussianEvent | LaplaceEvent) -> np.ndarray:
        return self.release_each([exact], event)[0]

    def release_each(self, exact: Sequence[np.ndarray], event: GaussianEvent | LaplaceEvent) -> list[np.ndarray]:
        """The sums of some counts over all sites, asked for together; spends as many of the event's releases."""
        pending = [each for each in exact if isinstance(each, PendingCounts)]
        if len(pending) < len(exact):
            raise BudgetError("a budget of several sites pays for pending counts, and got numbers; ask a remote table")
        number, self._number = self._number, self._number + 1
        if not pending:
            return []
        events = self.schedule.events  # an event that is none of them is refused by the sites
        asked: dict[str, Any] = {"number": number, "event": [*events, event].index(event), "kind": pending[0].kind}
        if (table := pending[0].table) is not None:
            groups = {name: group.tolist() for name, group in table.coarsening.groups.items()}
            asked |= {"discretizer": table.discretizer.to_plain(), "groups": groups}
            asked["cliques"] = [each.clique for each in pending]
        query = CountQuery.model_validate(asked)
        sizes = [each.size for each in pending]

        def draw() -> dict[str, Any]:
            total, answered = self._sums.ask(query, event.what, sum(sizes))
            return {"values": total.tolist(), "answered": list(answered)}

        drawn = self._charge_then_draw(event, draw, len(pending))
        gone = set(self._sums.inputs.names) - set(drawn["answered"])
        self.dropped |= gone
        parts = np.split(np.array(drawn["values"], dtype=np.int64), np.cumsum(sizes)[:-1])
        sums = [part.reshape(each.shape) for part, each in zip(parts, pending, strict=True)]
        return sums if query.kind == "sizes" else self._scaled(sums, whole=not gone)

    def _scaled(self, sums: list[np.ndarray], *, whole: bool) -> list[np.ndarray]:
        """Counts of the sites that are left, scaled to the total of the first sum; those of all sites as they are.

        Each of the counts has a total. Their mean is weighted by the inverse of their variances.
        """
        total = float(np.average([each.sum() for each in sums], weights=[1 / each.size for each in sums]))
        if self._first_total is None:
            self._first_total = total
        if whole or total <= 0:
            return sums
        return [np.rint(each * (self._first_total / total)).astype(np.int64) for each in sums]

    def statement(self, schema: Schema) -> PrivacyStatement:
        return stated(super().statement(schema), self._sums.inputs, self.dropped)


def stated(statement: PrivacyStatement, inputs: SitesInputs, dropped: Collection[str]) -> PrivacyStatement:
    """The same, with whom it holds against, and what it takes for granted."""
    job, n_sites = inputs.job, len(inputs.names)
    gone = f"No site dropped out; the guarantee allows for {job.dropouts}."
    if dropped:
        gone = (
            f"Sites dropped out on the way: {', '.join(sorted(dropped))}. The guarantee allowed for {job.dropouts}, "
            "and is the same; sums without them are of the sites that were left."
        )
    caveats = (
        "The server sees sums of the sites' noisy numbers, and no site's own: secure aggregation hides these.",
        f"It holds against a server that follows the protocol together with {job.colluding} of {n_sites} sites. These "
        f"may pool all that they see. Each sum has the stated noise from {job.n_honest} other sites that do not.",
        "It does not hold against a site for its own rows, nor against a server that replaces messages or keys; nobody "
        "checks that a site counts its rows truly.",
        gone,
        "A unit is taken to have rows at one site only: one with rows at m sites is protected as a group of m.",
        "A site may judge the table on its own rows, and the server hears the verdict: that is outside the guarantee.",
    )
    return replace(
        statement, trust="sites", caveats=(*caveats, *(() if inputs.by_sums else (FULL_NOISE,)), *statement.caveats)
    )


def fit_network(
    sums: SecureSums, budget: SitesBudget, *, progress: Progress = quiet, folder: Path | None = None
) -> NeuralModel:
    """A model of the rows of all sites: histograms by sums, then rounds of steps at the sites.

    Checkpoints in the folder hold nothing that the sites did not show.
    """
    from torch import from_numpy

    from synth.neural.encoding import Encoded
    from synth.neural.training import CheckpointFolder, Course, UnitIndex, device_of, seeded, take_up

    inputs, (generator, event) = sums.inputs, trained(sums.inputs)
    fit = start(generator, RemoteRows(inputs.counted), inputs.counted, budget, progress)
    events = fit.scheduled_events(generator.own_events(inputs.counted))
    shares, n_rows = fit.entity_shares()
    discretizer, measured = fit.columns(events.columns, Merging(generator.n_bins, spikes_apart=True))
    one_way, encoding, plain = [each.values for each in measured], BinnedEncoding(discretizer), discretizer.to_plain()
    device, layout = device_of(generator.device), encoding.layout
    expected = event.sampling_rate * estimate_units(measured, shares)
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
