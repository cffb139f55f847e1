"""Admission to a SuperLink: sites by their keys, the server by its token, nobody else.

Flower's open-source SuperLink has its three APIs at one address and authenticates sites alone: whoever reaches the
address could register a key of their own, start a run or stop ours. Here every request that does not come from a site
carries the server's token. A request of a site names a registered key before its body is read; Flower then verifies
its signature.

A site that asks for messages waits here until the server has sent some, so that neither end asks in vain many times
a second.
"""

import asyncio
import hmac
from base64 import b64encode
from collections.abc import Iterable
from typing import Any

from flwr.supercore.constant import FLEET_HTTP_PUBLIC_KEY_HEADER

FLEET = "/v1/fleet/"
PULL = "/v1/fleet/pull-messages"
SENT = "/understudy/sent"
"""The path by which the server tells that it has sent messages."""
TOKEN_HEADER = "understudy-token"  # noqa: S105 - its name, not its value
HOLD_S = 8.0
"""Seconds that a site's request for messages waits; below the time limits of both ends."""


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
        self._n_sent = 0
        self._sent = asyncio.Event()
        self._in_vain: dict[bytes, int] = {}  # by key: how much had been sent when a site asked and there was nothing

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
            await _respond(send, 403)
        elif path == SENT:
            self._n_sent += 1
            self._sent.set()
            self._sent = asyncio.Event()
            await _respond(send, 204)
        elif path == PULL:
            await self._pull(scope, receive, send, key)
        else:
            await self._app(scope, receive, send)

    async def _pull(self, scope: Any, receive: Any, send: Any, key: bytes) -> None:
        if self._in_vain.get(key) == self._n_sent:
            try:
                await asyncio.wait_for(self._sent.wait(), HOLD_S)
            except TimeoutError:
                pass
        n_sent, size = self._n_sent, 0

        async def counted(event: Any) -> None:
            nonlocal size
            size += len(event.get("body", b""))
            await send(event)

        await self._app(scope, receive, counted)
        if size:
            self._in_vain.pop(key, None)  # there may be more
        else:
            self._in_vain[key] = n_sent


async def _respond(send: Any, status: int) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})
