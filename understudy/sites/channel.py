"""The channel from the server to its sites: requests out, replies back, and a count of all that went through it."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from synth.errors import BadInput, JobError, nearest

Direction = Literal["request", "reply"]
Recorder = Callable[[str, Direction, bytes], None]
"""A reader of every payload: the site's name, the direction and the payload."""


class ChannelError(BadInput, ConnectionError):
    """A channel that gave out or never came up; what was asked has no reply, and asking again needs a new channel."""


class Channel(Protocol):
    """The server's way to its sites."""

    @property
    def sites(self) -> tuple[str, ...]:
        """Names of the sites, sorted."""
        ...

    @property
    def traffic(self) -> Mapping[str, "Traffic"]:
        """Payloads counted so far, by site."""
        ...

    def ask(self, requests: Mapping[str, bytes], timeout_s: float) -> Mapping[str, bytes]:
        """Replies by site; a site that failed, is late or is gone has none."""
        ...


class Respondent(Protocol):
    """A site's answer to one request: it holds its state (table, budget) for the whole run."""

    def answer(self, request: bytes) -> bytes:
        """The reply to one request."""
        ...


@dataclass(frozen=True)
class Traffic:
    """Payloads between the server and one site, without what their transport adds."""

    n_requests: int = 0
    n_replies: int = 0
    request_bytes: int = 0
    reply_bytes: int = 0

    def with_request(self, size_bytes: int) -> "Traffic":
        """The same and one request more."""
        return Traffic(self.n_requests + 1, self.n_replies, self.request_bytes + size_bytes, self.reply_bytes)

    def with_reply(self, size_bytes: int) -> "Traffic":
        """The same and one reply more."""
        return Traffic(self.n_requests, self.n_replies + 1, self.request_bytes, self.reply_bytes + size_bytes)


class TrafficCount:
    """The running count of payloads by site, which a recorder may read along with."""

    def __init__(self, sites: tuple[str, ...], recorder: Recorder | None = None) -> None:
        self._by_site = {site: Traffic() for site in sites}
        self._recorder = recorder

    @property
    def by_site(self) -> dict[str, Traffic]:
        """The count so far, by site."""
        return dict(self._by_site)

    def request(self, site: str, payload: bytes) -> None:
        """Count a request."""
        self._by_site[site] = self._by_site[site].with_request(len(payload))
        if self._recorder is not None:
            self._recorder(site, "request", payload)

    def reply(self, site: str, payload: bytes) -> None:
        """Count a reply."""
        self._by_site[site] = self._by_site[site].with_reply(len(payload))
        if self._recorder is not None:
            self._recorder(site, "reply", payload)


class LocalChannel:
    """A channel to respondents in this process, asked one after another.

    >>> class Echo:
    ...     def answer(self, request: bytes) -> bytes:
    ...         return request * 2
    >>> channel = LocalChannel({"north": Echo()})
    >>> channel.ask({"north": b"ab"}, timeout_s=1.0)
    {'north': b'abab'}
    >>> channel.traffic["north"]
    Traffic(n_requests=1, n_replies=1, request_bytes=2, reply_bytes=4)
    """

    def __init__(self, respondents: Mapping[str, Respondent], recorder: Recorder | None = None) -> None:
        self._respondents = dict(respondents)
        self._count = TrafficCount(self.sites, recorder)

    @property
    def sites(self) -> tuple[str, ...]:
        """Names of the sites, sorted."""
        return tuple(sorted(self._respondents))

    @property
    def traffic(self) -> dict[str, Traffic]:
        """Payloads counted so far, by site."""
        return self._count.by_site

    def ask(self, requests: Mapping[str, bytes], timeout_s: float) -> dict[str, bytes]:
        """Replies by site; a site whose answer raises or takes longer than its time has none."""
        check_sites(requests, self.sites)
        replies = {}
        for site in sorted(requests):
            self._count.request(site, requests[site])
            began = time.monotonic()
            reply = _answer(self._respondents[site], requests[site])
            if reply is not None and time.monotonic() - began <= timeout_s:
                self._count.reply(site, reply)
                replies[site] = reply
        return replies


def check_sites(asked: Iterable[str], known: tuple[str, ...]) -> None:
    """Refuse requests to sites that the channel does not have."""
    for site in asked:
        if site not in known:
            raise JobError(f"a request goes to a known site, and site={site!r} is none; {nearest(site, known)}")


def _answer(respondent: Respondent, request: bytes) -> bytes | None:
    try:
        return respondent.answer(request)
    except Exception:  # noqa: BLE001 - any failure of a site is one thing to the server: no reply
        return None
