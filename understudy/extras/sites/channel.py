"""The channel from the server to its sites: requests out, replies back; a message is a line of JSON, then bytes."""

import json
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from synth.errors import BadInput

Recorder = Callable[[str, str, bytes], None]
"""A reader of every payload: the site's name, "request" or "reply", and the payload."""


class ChannelError(BadInput, ConnectionError):
    """A channel that gave out or never came up; asking again needs a new one."""


class SitesError(BadInput):
    """A request, a reply or a run of several sites is refused; no noise was drawn for it, and no sum was shown."""


def pack(content: Mapping[str, Any], body: bytes = b"") -> bytes:
    """A message: its content as one line of JSON, then its body.

    >>> unpack(pack({"task": "share"}, b"keys"))
    ({'task': 'share'}, b'keys')
    """
    return json.dumps(dict(content), separators=(",", ":")).encode() + b"\n" + body


def unpack(message: bytes) -> tuple[dict[str, Any], bytes]:
    line, _, body = message.partition(b"\n")
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise SitesError("a message of several sites begins with a line of JSON, and this one does not; send it again")
    return content, body


class Respondent(Protocol):
    def answer(self, request: bytes) -> bytes: ...


class Channel:
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


class LocalChannel(Channel):
    def __init__(self, respondents: Mapping[str, Respondent], recorder: Recorder | None = None) -> None:
        super().__init__(respondents, recorder)
        self._respondents = respondents

    def ask(self, requests: Mapping[str, bytes], timeout_s: float) -> dict[str, bytes]:
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
