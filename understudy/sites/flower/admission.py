"""Admission to a SuperLink: sites by their keys, the server by its token, nobody else.

Flower's open-source SuperLink has its three APIs at one address and authenticates sites alone: whoever reaches the
address could register a key of their own, start a run or stop ours. Here every request that does not come from a site
carries the server's token. A request of a site names a registered key before its body is read; Flower then verifies
its signature.

Both ends can only ask Flower for messages. A question to which there is no answer yet waits here until there may be
one, so that nobody asks in vain many times a second.
"""

import asyncio
import hmac
from base64 import b64encode
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from flwr.supercore.constant import FLEET_HTTP_PUBLIC_KEY_HEADER

FLEET = "/v1/fleet/"
SITE_PULLS, SITE_PUSHES = "/v1/fleet/pull-messages", "/v1/fleet/push-messages"
SERVER_PULLS, SERVER_PUSHES = "/v1/runtime/pull-messages", "/v1/runtime/push-messages"
TOKEN_HEADER = "understudy-token"  # noqa: S105 - its name, not its value
SITE_WAITS_S = 8.0
"""Seconds that a site's question for messages is held; below the time limits of both ends."""
SERVER_WAITS_S = 0.25
"""The same for the server's question for replies; in between it looks after its sites."""


class Mail:
    """What has been sent in one direction, for those who wait for it."""

    def __init__(self, wait_s: float) -> None:
        self._wait_s = wait_s
        self._n_sent = 0
        self._sent = asyncio.Event()
        self._in_vain: dict[bytes, int] = {}  # by who asked: how much had been sent when there was nothing for them

    def tell(self) -> None:
        """Wake those who wait: there may be something for them."""
        self._n_sent += 1
        self._sent.set()
        self._sent = asyncio.Event()

    async def wait(self, who: bytes) -> int:
        """Wait for more than there was when the same asked in vain, and return how much has been sent."""
        if self._in_vain.get(who) == self._n_sent:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._sent.wait(), self._wait_s)
        return self._n_sent

    def note(self, who: bytes, n_sent: int, found: bool) -> None:
        """Remember whether there was something for those who asked."""
        if found:
            self._in_vain.pop(who, None)  # there may be more
        else:
            self._in_vain[who] = n_sent


class Admission:
    """An ASGI application in front of Flower's.

    Args:
        app: Flower's.
        token: the server's.
        keys: public keys of the sites, in PEM.
    """

    def __init__(self, app: Any, token: str, keys: Iterable[bytes]) -> None:
        self._app = app
        self._token = token.encode()
        self._keys = frozenset(b64encode(key) for key in keys)
        self._requests, self._replies = Mail(SITE_WAITS_S), Mail(SERVER_WAITS_S)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request, or have Flower answer it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path, headers = scope["path"], dict(scope["headers"])
        key = headers.get(FLEET_HTTP_PUBLIC_KEY_HEADER.encode(), b"")
        if path.startswith(FLEET):
            admitted = key in self._keys
        else:
            admitted = hmac.compare_digest(headers.get(TOKEN_HEADER.encode(), b""), self._token)
        if not admitted:
            await _refuse(send)
        elif path == SITE_PULLS:
            await self._pull(scope, receive, send, (self._requests, key))
        elif path == SERVER_PULLS:
            await self._pull(scope, receive, send, (self._replies, b"server"))
        else:
            await self._app(scope, receive, send)
            if path == SERVER_PUSHES:
                self._requests.tell()
            elif path == SITE_PUSHES:
                self._replies.tell()

    async def _pull(self, scope: Any, receive: Any, send: Any, box: tuple[Mail, bytes]) -> None:
        mail, who = box
        n_sent, size = await mail.wait(who), 0

        async def counted(event: Any) -> None:
            nonlocal size
            size += len(event.get("body", b""))
            await send(event)

        await self._app(scope, receive, counted)
        mail.note(who, n_sent, size > 0)


async def _refuse(send: Any) -> None:
    await send({"type": "http.response.start", "status": 403, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})
