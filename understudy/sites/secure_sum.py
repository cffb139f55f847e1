"""Secure sums: queries to all sites, and the sums of their noisy answers, which is all that the server sees."""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synth.errors import BadInput
from understudy.sites.channel import Channel, ChannelError
from understudy.sites.job import SitesInputs
from understudy.sites.messages import CountQuery, SitesError, pack, unpack
from understudy.sites.server_aggregation import ServerAggregation
from understudy.sites.site import ROUNDS_A_PLAN, plan_of
from understudy.sites.training_plan import TrainingQuery

ATTEMPTS = 3
"""Rounds that a sum is asked for, where sites are lost between their answer and the unmasking."""


@dataclass(frozen=True)
class SumRecord:
    """One sum as the server saw it."""

    what: str
    n_numbers: int
    answered: tuple[str, ...]


@dataclass
class SecureSums:
    """The server's side of a run: each query is answered by the sum of all sites, or not at all."""

    channel: Channel
    inputs: SitesInputs
    records: list[SumRecord] = field(default_factory=list)
    _aggregation: ServerAggregation | None = None
    _round: int = 0

    def ask(
        self, query: CountQuery | TrainingQuery, what: str, length: int, body: bytes = b""
    ) -> tuple[NDArray[np.int64], tuple[str, ...]]:
        """The sum of the sites' noisy answers, shape (length,), and the sites in it."""
        is_clear = isinstance(query, TrainingQuery) and not self.inputs.job.training.secure
        once = self._in_the_clear if is_clear else self._once
        for _ in range(ATTEMPTS):
            try:
                total, answered = once(query, length, body)
            except ChannelError:
                raise
            except BadInput as error:
                reason = error
                self._aggregation = None  # keys are exchanged anew with the sites that are left
                continue
            self.records.append(SumRecord(what, length, answered))
            return total, answered
        raise SitesError(
            f"no sum of {what!r} came together: {reason}; start the sites again, and the same command goes on"
        )

    def _once(
        self, query: CountQuery | TrainingQuery, length: int, body: bytes
    ) -> tuple[NDArray[np.int64], tuple[str, ...]]:
        aggregation = self._ready()
        number, self._round = self._round, self._round + 1
        aggregation.begin(number, length)
        asked = {"task": query.task, "round": number, "query": query.model_dump(mode="json")}
        self._collect(self._each(aggregation.partners, asked, lambda _: body), aggregation.take_masked)
        unmask = aggregation.unmask_request()
        replies = self._each(aggregation.answered, {"task": "unmask"}, lambda _: unmask)
        self._collect(replies, aggregation.take_unmasking)
        return aggregation.total(), aggregation.answered

    def _in_the_clear(
        self, query: CountQuery | TrainingQuery, length: int, body: bytes
    ) -> tuple[NDArray[np.int64], tuple[str, ...]]:
        """The sum of answers that travel as they are: the server sees each."""
        vectors: dict[str, NDArray[np.int64]] = {}

        def take(site: str, reply: bytes) -> None:
            _, vector = unpack(reply)
            if len(vector) != 8 * length:
                raise SitesError(f"site={site!r} answers with another length than length={length}; go on without it")
            vectors[site] = np.frombuffer(vector, dtype="<i8")

        asked = {"task": query.task, "query": query.model_dump(mode="json")}
        self._collect(self._each(self.channel.sites, asked, lambda _: body), take)
        if len(vectors) < self.inputs.job.threshold:
            raise SitesError(f"sites={len(vectors)} answered, and threshold={self.inputs.job.threshold}; wait for more")
        return np.sum(list(vectors.values()), axis=0, dtype=np.int64), tuple(sorted(vectors))

    def _ready(self) -> ServerAggregation:
        """A set-up with a round left, made if need be."""
        if self._aggregation is not None and self._round < ROUNDS_A_PLAN:
            return self._aggregation
        run, answer_ids = secrets.token_hex(16), self._answer_ids()
        made = ServerAggregation(plan_of(self.inputs, run, answer_ids))
        asked = {"task": "advertise", "run": run, "answer_ids": answer_ids}
        self._collect(self._each(tuple(answer_ids), asked), made.take_advertisement)
        keys = made.keys()
        self._collect(self._each(tuple(answer_ids), {"task": "share"}, lambda _: keys), made.take_shares)
        self._each(made.partners, {"task": "receive"}, made.shares_for)
        self._aggregation, self._round = made, 0
        return made

    def _answer_ids(self) -> dict[str, str]:
        """The names of the answers of all sites that are there, by which sites know each other's."""
        answer_ids: dict[str, str] = {}

        def take(site: str, reply: bytes) -> None:
            answer_id = unpack(reply)[0].get("answer_id")
            if not isinstance(answer_id, str):
                raise SitesError(f"site={site!r} has no answers to add; go on without it")
            answer_ids[site] = answer_id

        self._collect(self._each(self.channel.sites, {"task": "hello"}), take)
        return answer_ids

    def _each(
        self,
        sites: tuple[str, ...],
        content: Mapping[str, Any],
        body: Callable[[str], bytes] = lambda _: b"",
    ) -> Mapping[str, bytes]:
        asked = {"job": self.inputs.digest, **content}
        requests = {site: pack(asked, body(site)) for site in sites}
        return self.channel.ask(requests, self.inputs.job.timeout_s)

    def _collect(self, replies: Mapping[str, bytes], take: Callable[[str, bytes], None]) -> None:
        """Take the replies of sites; one that makes no sense is as good as none."""
        for site, reply in sorted(replies.items()):
            try:
                take(site, reply)
            except BadInput:
                continue
