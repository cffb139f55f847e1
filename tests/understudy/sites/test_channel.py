"""The channel within one process: replies, the lack of one, and the count of what went through."""

import time

import pytest

from synth.errors import JobError
from understudy.sites.channel import LocalChannel, Traffic


class Counting:
    """Answers with the number of requests so far; fails or is late where it is asked to."""

    def __init__(self) -> None:
        self.n_requests = 0

    def answer(self, request: bytes) -> bytes:
        self.n_requests += 1
        if request == b"fail":
            raise RuntimeError("a secret")
        if request == b"late":
            time.sleep(1.0)
        return b"%d" % self.n_requests


def test_sites_are_sorted_and_each_keeps_its_state() -> None:
    channel = LocalChannel({"south": Counting(), "north": Counting()})
    assert channel.sites == ("north", "south")
    assert channel.ask({"south": b"", "north": b""}, 1.0) == {"north": b"1", "south": b"1"}
    assert channel.ask({"south": b""}, 1.0) == {"south": b"2"}


def test_a_site_that_fails_or_is_late_has_no_reply_and_is_asked_again() -> None:
    channel = LocalChannel({"north": Counting(), "south": Counting(), "west": Counting()})
    assert channel.ask({"north": b"fail", "south": b"late", "west": b""}, 0.5) == {"west": b"1"}
    assert set(channel.ask(dict.fromkeys(channel.sites, b""), 10.0)) == {"north", "south", "west"}


def test_all_that_goes_through_is_counted_and_read_along() -> None:
    read: list[tuple[str, str, bytes]] = []
    channel = LocalChannel({"north": Counting()}, lambda *payload: read.append(payload))
    channel.ask({"north": b"abc"}, 1.0)
    channel.ask({"north": b"fail"}, 1.0)
    assert channel.traffic == {"north": Traffic(n_requests=2, n_replies=1, request_bytes=7, reply_bytes=1)}
    assert read == [("north", "request", b"abc"), ("north", "reply", b"1"), ("north", "request", b"fail")]


def test_a_request_to_an_unknown_site_is_refused_before_any_is_sent() -> None:
    north = Counting()
    with pytest.raises(JobError, match="site='nort' is none; did you mean 'north'"):
        LocalChannel({"north": north}).ask({"north": b"", "nort": b""}, 1.0)
    assert north.n_requests == 0
