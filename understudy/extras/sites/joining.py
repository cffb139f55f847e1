"""A site's process at a server: it joins, answers, and where the server is gone, waits for it and joins again."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import httpx

from understudy.extras.sites.channel import ChannelError, Respondent
from understudy.extras.sites.flower import HEARTBEAT_S, RETRY_S, SILENCE_S, FlowerNode

_REFUSED = {
    401: "the server did not accept the site's signature; the clocks of both must agree within 5 minutes",
    403: "the server does not know this site's public key; give it the key, and start it again",
}


def serve_site(
    respondent: Respondent,
    ca: Path,
    key: Path,
    address: str,
    *,
    wait_s: float,
    say: Callable[[str], None] = lambda _: None,
    on_failure: Callable[[Exception], None] = lambda _: None,
) -> None:
    """Answer the requests of a server until it ends its run.

    An exception of the respondent reaches `on_failure` here and is no reply to the server, which learns nothing of it.
    """

    def answer(request: bytes) -> bytes | None:
        try:
            return respondent.answer(request)
        except Exception as error:  # noqa: BLE001 - any failure of a site is one thing to the server: no reply
            on_failure(error)
            return None

    with closing(FlowerNode(ca, key, address)) as node:
        while True:
            _join(node, address, wait_s, say)
            say("Joined.")
            with suppress(httpx.HTTPError), _alive(node):
                while node.answer_one(answer):
                    pass
                return
            say(f"The server at {address} is gone; this site joins again once it is back, within {wait_s:g} s.")


def _join(node: FlowerNode, address: str, wait_s: float, say: Callable[[str], None]) -> None:
    """Join as soon as the server is there and knows of no other process with this key."""
    until, told = time.monotonic() + wait_s, ""
    while True:
        try:
            return node.join()
        except httpx.HTTPStatusError as error:
            if error.response.status_code in _REFUSED:
                raise ChannelError(f"at address={address} {_REFUSED[error.response.status_code]}") from None
            ends = f"a process with its key ends, or is silent for {SILENCE_S:g} s"
            reason = f"it holds this site for present until {ends}"
        except httpx.HTTPError as error:
            if "CERTIFICATE_VERIFY_FAILED" in str(error):
                raise ChannelError(
                    f"the server's certificate is not signed by the site's CA, or is not for the host of {address}; "
                    "compare the two files, or make one for that name (`understudy sites server --new-certificate`)"
                ) from None
            reason = f"it does not answer ({type(error).__name__})"
        if time.monotonic() >= until:
            raise ChannelError(
                f"no server could be joined at address={address} within wait_s={wait_s:g}: {reason}; see that it runs "
                "and that the address is its own, or wait longer (--wait-s)"
            )
        if reason != told:
            say(f"Waiting for the server at {address}: {reason}.")
            told = reason
        time.sleep(RETRY_S)


@contextmanager
def _alive(node: FlowerNode) -> Iterator[None]:
    """Signs of life as long as the block lasts, and a leave at its end."""
    over, leaving = threading.Event(), threading.Lock()

    def show_life() -> None:
        while not over.wait(HEARTBEAT_S / 3):
            with leaving, suppress(httpx.HTTPError):  # one after the leave would be another joining
                if not over.is_set():
                    node.show_life()

    threading.Thread(target=show_life, daemon=True).start()
    try:
        yield
    finally:
        over.set()
        with leaving, suppress(httpx.HTTPError):
            node.leave()
