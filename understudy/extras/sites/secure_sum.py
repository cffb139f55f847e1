"""Secure sums: queries to all sites, and the sums of their noisy answers, which is all that the server sees."""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synth.errors import BadInput
from understudy.extras.sites.channel import Channel, ChannelError
from understudy.extras.sites.job import SitesInputs
from understudy.extras.sites.messages import CountQuery, SitesError, pack, unpack
from understudy.extras.sites.server_aggregation import ServerAggregation
from understudy.extras.sites.site import ROUNDS_A_PLAN, plan_of
from understudy.extras.sites.training import TrainingQuery

ATTEMPTS = 3
"""Rounds that a sum is asked for, where sites are lost between their answer and the unmasking."""


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
    _aggregation: ServerAggregation | None = None
    _round: int = 0

    def ask(
        self, query: CountQuery | TrainingQuery, what: str, length: int, body: bytes = b""
    ) -> tuple[NDArray[np.int64], tuple[str, ...]]:
        """The sum of the sites' noisy answers, shape (length,), and the sites in it."""
        threshold, n_waits, reason = self.inputs.job.threshold, 0, ""
        for _ in range(ATTEMPTS):
            while (missing := self._missing()) and len(self.channel.sites) - len(missing) < threshold:
                gone = f"sites={', '.join(missing)} are missing, and a sum needs {threshold} of all"
                self.say(f"{gone}; waiting up to {self.wait_s:g} s for them to join again.")
                if n_waits == ATTEMPTS or not self.channel.wait(threshold, self.wait_s):
                    raise SitesError(
                        f"no sum of {what!r} came together: {gone} and did not join again within wait_s="
                        f"{self.wait_s:g}; start them again, and the same command goes on"
                    )
                n_waits += 1
            try:
                total, answered = self._once(query, length, body)
            except ChannelError:
                raise
            except BadInput as error:
                reason, self._aggregation = str(error), None  # keys are exchanged anew with the sites that are left
                continue
            self.n_sums += 1
            return total, answered
        raise SitesError(
            f"no sum of {what!r} came together: {reason}; what sites refused, they say where they run; then the same "
            "command goes on"
        )

    def _missing(self) -> list[str]:
        return sorted(set(self.channel.sites) - set(self.channel.present))

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

    def _ready(self) -> ServerAggregation:
        """A set-up with a round left, made if need be."""
        if self._aggregation is not None and self._round < ROUNDS_A_PLAN:
            return self._aggregation
        answer_ids: dict[str, str] = {}

        def take(site: str, reply: bytes) -> None:
            answer_id = unpack(reply)[0].get("answer_id")
            if not isinstance(answer_id, str):
                raise SitesError(f"site={site!r} has no answers to add; go on without it")
            answer_ids[site] = answer_id

        self._collect(self._each(self.channel.sites, {"task": "hello"}), take)
        run = secrets.token_hex(16)
        made = ServerAggregation(plan_of(self.inputs, run, answer_ids))
        asked = {"task": "advertise", "run": run, "answer_ids": answer_ids}
        self._collect(self._each(tuple(answer_ids), asked), made.take_advertisement)
        keys = made.keys()
        self._collect(self._each(tuple(answer_ids), {"task": "share"}, lambda _: keys), made.take_shares)
        self._each(made.partners, {"task": "receive"}, made.shares_for)
        self._aggregation, self._round = made, 0
        return made

    def _each(
        self, sites: tuple[str, ...], content: Mapping[str, Any], body: Callable[[str], bytes] = lambda _: b""
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
