"""A site: its rows stay here, and it answers queries of its job by noisy counts under masks.

A site trusts nobody to keep its budget. It plans the schedule of the job itself, and charges each query to it. It draws
its share of the noise, and keeps each noisy answer before it is sent. The same query again gets the same answer: noise
is not drawn twice. It refuses a query beyond its schedule.
"""

import hashlib
import json
import math
import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synth.dp.budget import Budget
from synth.dp.events import Event, GaussianEvent
from synth.dp.mechanisms import NoNoise, SystemNoise
from synth.dp.schedule import Schedule
from synth.errors import BudgetError
from synth.generators.fitting.fixed_costs import SIZES
from synth.generators.fitting.histograms import COLUMNS
from synth.generators.fitting.training_data import TrainingTable, bound_contributions, counted_rows
from synth.output import read_state, whole_file
from synth.schema.counted import in_rows_alone
from synth.table.rows import Rows
from understudy.sites.job import SitesInputs
from understudy.sites.messages import CountQuery, SitesError, flat, pack, read_query, unpack
from understudy.sites.secure_aggregation import AggregationPlan
from understudy.sites.site_aggregation import SiteAggregation
from understudy.sites.site_training import SiteTraining
from understudy.sites.training_plan import TrainingQuery, read_training_query, training_plan

ROUNDS_A_PLAN = 32
"""Sums that one set-up of secure aggregation serves."""
LEAST_SHARE_SIGMA = 2.5
"""Standard deviation of a site's share of noise at least, in rows: with less, a sum of shares is no Gaussian."""


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
        """The values with the share."""
        return super().gaussian(values, share_of(sigma, self._n_honest))


def share_of(sigma: float, n_honest: int) -> float:
    """Standard deviation of a site's share of noise; more than its part where that would be too little.

    >>> share_of(10.0, 4), share_of(1.0, 4)
    (5.0, 2.5)
    """
    return max(sigma / math.sqrt(n_honest), LEAST_SHARE_SIGMA)


def check_sums(schedule: Schedule) -> None:
    """Refuse a schedule of anything but sums of counts."""
    for event in schedule.events:
        if not isinstance(event, GaussianEvent) or not event.whole:
            raise BudgetError(f"several sites release sums of counts, and {event.what!r} is none; choose another")


@dataclass
class NoisyAnswers:
    """Noisy counts of a site by query, on the disk before they are sent; `None` in memory alone."""

    folder: Path | None
    _held: dict[int, tuple[str, NDArray[np.int64]]] = field(default_factory=dict)
    _in_memory: dict[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._held)

    def find(self, query: CountQuery) -> NDArray[np.int64] | None:
        """The answer that was kept; `None` where there is none."""
        asked = query.model_dump_json()
        if query.number not in self._held and self.folder is not None and self._path(query.number).exists():
            self._held[query.number] = self._read(query.number)
        if query.number not in self._held:
            return None
        kept, values = self._held[query.number]
        if kept != asked:
            raise SitesError(
                f"query={query.number} was another one before, and its noise is not drawn twice; begin a new run (what "
                "was reserved stays spent)"
            )
        return values

    def keep(self, query: CountQuery, values: NDArray[np.int64]) -> None:
        """Keep an answer, flushed to the disk."""
        asked = query.model_dump_json()
        if self.folder is not None:
            with whole_file(self._path(query.number)) as path, path.open("wb") as file:
                np.savez(file, asked=np.array(asked), values=values)
                file.flush()
                os.fsync(file.fileno())
        self._held[query.number] = (asked, values)

    def restored(self) -> list[CountQuery]:
        """The queries that were answered before, in order, read from the disk."""
        if self.folder is None:
            return []
        numbers = sorted(int(path.stem) for path in self.folder.glob("[0-9]*.npz"))
        self._held |= {number: self._read(number) for number in numbers}
        return [CountQuery.model_validate_json(self._held[number][0]) for number in numbers]

    def record_sum(self, asked: str, answered: tuple[str, ...]) -> None:
        """Record whose answers a sum will hold, on the disk before it is shown.

        The difference of two sums of the same answers is the answers of the sites in which they differ. It has no more
        noise than these sites added.
        """
        sums = self._file("sums.json", {})
        if tuple(sums.setdefault(asked, list(answered))) != answered:
            raise SitesError(
                f"{asked} was shown in a sum of other sites, and a second sum would tell what these answered; start "
                "again the sites that were there, or begin a new run (what was reserved stays spent)"
            )
        self._write("sums.json", sums)

    @property
    def answer_id(self) -> str:
        """The name of these answers, drawn once: whoever has other answers has another."""
        known = self._file("answer_id.json", {})
        if "own" not in known:
            known = {"own": secrets.token_hex(16)}
            self._write("answer_id.json", known)
        return str(known["own"])

    def check_peers(self, site: str, answer_ids: Any) -> None:
        """Refuse a sum of old answers of some sites and new ones of others; the answers of all are noted."""
        if not isinstance(answer_ids, dict) or answer_ids.get(site) != self.answer_id:
            raise SitesError("the server does not know this site's answers; start the server again")
        peers = self._file("peers.json", {})
        other = sorted(name for name, answer_id in answer_ids.items() if peers.get(name, answer_id) != answer_id)
        if other:
            raise SitesError(
                f"sites={', '.join(other)} began anew, and sums would mix their new answers with the old ones of this "
                "site; go on with the work that they had, or begin anew at all sites (what was reserved stays spent)"
            )
        self._write("peers.json", {**peers, **answer_ids})

    def _file(self, name: str, otherwise: Any) -> Any:
        if self.folder is None:
            return self._in_memory.get(name, otherwise)
        return read_state(self.folder / name, otherwise)

    def _write(self, name: str, content: Any) -> None:
        self._in_memory[name] = content
        if self.folder is not None:
            with whole_file(self.folder / name) as beside:
                beside.write_text(json.dumps(content), encoding="utf-8")

    def _read(self, number: int) -> tuple[str, NDArray[np.int64]]:
        with np.load(self._path(number), allow_pickle=False) as content:
            return str(content["asked"]), content["values"]

    def _path(self, number: int) -> Path:
        assert self.folder is not None
        return self.folder / f"{number}.npz"


class Site:
    """A site's answers to the server of its job.

    Args:
        train: *Sensitive*. The site's rows: any table.
    """

    def __init__(
        self,
        name: str,
        inputs: SitesInputs,
        train: Any,
        answers: NoisyAnswers | None = None,
        noise: Any = None,
        before_draws: Callable[[], None] = lambda: None,
    ) -> None:
        plan = None if inputs.by_sums else training_plan(inputs)
        schedule = inputs.schedule if plan is None else plan.schedule
        if schedule is None:
            raise BudgetError("several sites add noise to what they show, and the generator has no epsilon; set one")
        check_sums(schedule if plan is None else replace(schedule, events=schedule.events[:-1]))
        self.name, self.inputs, self.schedule = name, inputs, schedule
        self._before_draws = before_draws
        self._rows = training_rows(train, inputs)
        self._answers = NoisyAnswers(None) if answers is None else answers
        exact = plan is not None and not plan.is_private
        shares = NoNoise() if exact else NoiseShare(inputs.job.n_honest)
        self._budget = Budget(schedule, shares if noise is None else noise)
        self._spent: dict[Event, int] = {}
        for query in self._answers.restored():
            self._spent |= self._charged(query)
        self._aggregation: SiteAggregation | None = None
        self._asked: dict[int, str] = {}
        folder = self._answers.folder
        self._training = (
            None if plan is None else SiteTraining(inputs, plan, self._rows, self._budget, folder, before_draws)
        )

    def answer(self, request: bytes) -> bytes:
        """The reply to one request."""
        content, body = unpack(request)
        if content.get("job") != self.inputs.digest:
            raise SitesError(
                "the server's job is not that of this site: schema, generator, training, seed, policy, rows, sites, "
                "colluding or dropouts differ; use the same job file"
            )
        task = content.get("task")
        if task == "hello":
            return pack({"answer_id": self._answers.answer_id})
        if task == "advertise":
            answer_ids = content.get("answer_ids")
            self._answers.check_peers(self.name, answer_ids)
            self._asked = {}
            self._aggregation = SiteAggregation(plan_of(self.inputs, str(content.get("run")), answer_ids), self.name)
            return self._aggregation.advertise()
        if task == "train" and not self.inputs.job.training.secure:
            vector = self._steps(read_training_query(content.get("query")), body)
            return pack({"trained": True}, vector.astype("<i8").tobytes())
        if self._aggregation is None:
            raise SitesError(f"task={task!r} comes after keys are exchanged; begin with these")
        return self._aggregated(self._aggregation, str(task), content, body)

    def _aggregated(self, aggregation: SiteAggregation, task: str, content: dict[str, Any], body: bytes) -> bytes:
        """The reply to a request of secure aggregation."""
        if task == "share":
            return aggregation.share(body)
        if task == "receive":
            aggregation.receive(body)
            return pack({"received": True})
        if task in ("mask", "train"):
            return self._masked(aggregation, content, body)
        if task == "unmask":
            request = aggregation.check_unmask(body)
            self._answers.record_sum(self._asked[request.round_index], tuple(sorted(request.answered)))
            return aggregation.unmask(body)
        raise SitesError(f"task={task!r} is unknown to this site; use the same version on both sides")

    def _masked(self, aggregation: SiteAggregation, content: dict[str, Any], body: bytes) -> bytes:
        """The site's noisy answer under masks."""
        number, read = content.get("round"), read_training_query if content["task"] == "train" else read_query
        query: CountQuery | TrainingQuery = read(content.get("query"))
        if type(number) is not int:
            raise SitesError("a vector is masked for a round, and the request names none; correct the server")
        aggregation.check_mask(number)
        vector = self._noisy(query) if isinstance(query, CountQuery) else self._steps(query, body)
        masked = aggregation.mask(number, vector)
        self._asked[number] = f"{query.task}={query.number}"
        return masked

    def _noisy(self, query: CountQuery) -> NDArray[np.int64]:
        """The site's noisy counts: those that were kept, else drawn, kept and given."""
        kept = self._answers.find(query)
        if kept is not None:
            return kept
        event, spent = self._event(query), self._charged(query)
        counts = query.counts(self._rows, self.inputs.counted)
        self._before_draws()
        self._spent |= spent
        values = flat(self._budget.release_each(counts, event))
        self._answers.keep(query, values)
        return values

    def _steps(self, query: TrainingQuery, body: bytes) -> NDArray[np.int64]:
        """The site's answer to a round of training."""
        if self._training is None:
            raise SitesError("the generator of this job is fitted to counts, and takes no steps; correct the server")
        return self._training.answer(query, body)

    def _event(self, query: CountQuery) -> GaussianEvent:
        """The event that pays for a query."""
        events = self.schedule.events
        event = events[query.event] if query.event < len(events) else None
        kind = {SIZES: "sizes", COLUMNS: "cells"}.get("" if event is None else event.what, "cliques")
        if not isinstance(event, GaussianEvent) or kind != query.kind:
            raise SitesError(
                f"query={query.number} asks for {query.kind}, and event={query.event} of the schedule does not pay for "
                "these; correct the server"
            )
        return event

    def _n_releases(self, query: CountQuery) -> int:
        return {"cells": len(self.inputs.counted.modeled), "sizes": 1, "cliques": len(query.cliques)}[query.kind]

    def _charged(self, query: CountQuery) -> dict[Event, int]:
        """What is spent of the query's event with it, releases of an earlier start included."""
        event = self._event(query)
        spent = self._spent.get(event, 0) + self._n_releases(query)
        if spent > event.count:
            raise BudgetError(f"the budget holds no further release of {event.what!r}; plan it before drawing")
        return {event: spent}


def plan_of(inputs: SitesInputs, run: str, answer_ids: Any) -> AggregationPlan:
    """The public facts of one set-up of secure aggregation."""
    answers = hashlib.sha256(json.dumps(answer_ids, sort_keys=True).encode()).hexdigest()
    return AggregationPlan(f"{inputs.digest}:{run}:{answers}", inputs.names, inputs.job.threshold, ROUNDS_A_PLAN)


def training_rows(train: Any, inputs: SitesInputs) -> TrainingTable:
    """The rows of a site, clamped and bounded as every private fit takes them. *Sensitive*."""
    rows = bound_contributions(Rows.of(train, inputs.schema), inputs.schema)
    return TrainingTable(counted_rows(rows, in_rows_alone(inputs.schema)))
