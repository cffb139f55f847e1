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
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from flwr.supercore.constant import FLEET_HTTP_PUBLIC_KEY_HEADER

FLEET = "/v1/fleet/"
"""Start of the paths of Flower's API for sites."""
SITE_PULLS, SITE_PUSHES = "/v1/fleet/pull-messages", "/v1/fleet/push-messages"
"""Paths at which a site asks for requests and sends replies."""
SERVER_PULLS, SERVER_PUSHES = "/v1/runtime/pull-messages", "/v1/runtime/push-messages"
"""Paths at which the server asks for replies and sends requests."""
TOKEN_HEADER = "understudy-token"  # noqa: S105 - its name, not its value
"""Header with the server's token."""
PUBLIC_KEY = FLEET_HTTP_PUBLIC_KEY_HEADER.encode()
"""Flower's header with the public key of a site, in base64."""
SITE_WAITS_S = 8.0
"""Seconds that a site's question for messages is held; below the time limits of both ends."""
SERVER_WAITS_S = 0.25
"""The same for the server's question for replies; in between it looks after its sites."""


class Mailbox:
    """The count of messages sent in one direction, for those who wait for more."""

    def __init__(self, wait_s: float) -> None:
        self._wait_s = wait_s
        self._n_sent = 0
        self._sent = asyncio.Event()
        self._n_sent_at_empty_pull: dict[bytes, int] = {}  # by who pulled

    def notify(self) -> None:
        """Wake those who wait: there may be something for them."""
        self._n_sent += 1
        self._sent.set()
        self._sent = asyncio.Event()

    async def wait(self, who: bytes) -> int:
        """The number of messages sent, once it is larger than at the last empty pull of the same, or time is up."""
        if self._n_sent_at_empty_pull.get(who) == self._n_sent:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._sent.wait(), self._wait_s)
        return self._n_sent

    def record_pull(self, who: bytes, n_sent: int, is_empty: bool) -> None:
        """Record whether a pull brought a message."""
        if is_empty:
            self._n_sent_at_empty_pull[who] = n_sent
        else:
            self._n_sent_at_empty_pull.pop(who, None)  # there may be more


class Admission:
    """An ASGI application in front of Flower's."""

    def __init__(self, app: Any, token: str, keys: Iterable[bytes]) -> None:
        self._app = app
        self._token = token.encode()
        self._keys = frozenset(b64encode(key) for key in keys)
        self._requests, self._replies = Mailbox(SITE_WAITS_S), Mailbox(SERVER_WAITS_S)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request, or have Flower answer it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path, headers = scope["path"], dict(scope["headers"])
        if not self._is_admitted(path, headers):
            await _refuse(send)
            return
        if path == SITE_PULLS:
            await self._pull(scope, receive, send, self._requests, headers[PUBLIC_KEY])
            return
        if path == SERVER_PULLS:
            await self._pull(scope, receive, send, self._replies, b"server")
            return
        await self._app(scope, receive, send)
        if path == SERVER_PUSHES:
            self._requests.notify()
        if path == SITE_PUSHES:
            self._replies.notify()

    def _is_admitted(self, path: str, headers: Mapping[bytes, bytes]) -> bool:
        """True for a request to the sites' API that names a registered key, and for any other with the token."""
        if path.startswith(FLEET):
            return headers.get(PUBLIC_KEY, b"") in self._keys
        return hmac.compare_digest(headers.get(TOKEN_HEADER.encode(), b""), self._token)

    async def _pull(self, scope: Any, receive: Any, send: Any, mailbox: Mailbox, who: bytes) -> None:
        n_sent, size = await mailbox.wait(who), 0

        async def counted(event: Any) -> None:
            nonlocal size
            size += len(event.get("body", b""))
            await send(event)

        await self._app(scope, receive, counted)
        mailbox.record_pull(who, n_sent, size == 0)


async def _refuse(send: Any) -> None:
    await send({"type": "http.response.start", "status": 403, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})
