"""The channel from the server to its sites: requests out, replies back."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from synth.errors import BadInput, JobError, nearest

Recorder = Callable[[str, str, bytes], None]
"""A reader of every payload: the site's name, "request" or "reply", and the payload."""


class ChannelError(BadInput, ConnectionError):
    """A channel that gave out or never came up; asking again needs a new one."""


class Respondent(Protocol):
    """A site's answers: it holds its state (table, budget) for the whole run."""

    def answer(self, request: bytes) -> bytes: ...


class Channel:
    """The server's way to its sites, whose names are sorted."""

    def __init__(self, sites: Iterable[str], recorder: Recorder | None = None) -> None:
        self.sites = tuple(sorted(sites))
        self.record: Recorder = recorder or (lambda *_: None)

    @property
    def present(self) -> tuple[str, ...]:
        return self.sites

    def ask(self, requests: Mapping[str, bytes], timeout_s: float) -> dict[str, bytes]:
        """Replies by site; a site that failed, is late or is gone has none."""
        raise NotImplementedError

    def wait(self, n_sites: int, timeout_s: float) -> bool:
        until = time.monotonic() + timeout_s
        while len(self.present) < n_sites:
            if time.monotonic() >= until:
                return False
            time.sleep(0.1)
        return True

    def check(self, asked: Iterable[str]) -> None:
        for site in asked:
            if site not in self.sites:
                raise JobError(f"a request goes to a known site: site={site!r}; {nearest(site, self.sites)}")


class LocalChannel(Channel):
    """A channel to respondents in this process, asked one after another.

    >>> class Echo:
    ...     def answer(self, request: bytes) -> bytes:
    ...         return request * 2
    >>> LocalChannel({"north": Echo()}).ask({"north": b"ab"}, timeout_s=1.0)
    {'north': b'abab'}
    """

    def __init__(self, respondents: Mapping[str, Respondent], recorder: Recorder | None = None) -> None:
        super().__init__(respondents, recorder)
        self._respondents = dict(respondents)

    def ask(self, requests: Mapping[str, bytes], timeout_s: float) -> dict[str, bytes]:
        self.check(requests)
        replies = {}
        for site in sorted(requests):
            self.record(site, "request", requests[site])
            began = time.monotonic()
            try:
                reply = self._respondents[site].answer(requests[site])
            except Exception:  # noqa: BLE001, S112 - any failure of a site is one thing to the server: no reply
                continue
            if time.monotonic() - began <= timeout_s:
                self.record(site, "reply", reply)
                replies[site] = reply
        return replies
