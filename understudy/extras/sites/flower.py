"""The channel to sites over Flower (``flwr``), and all that touches Flower's internals.

::

    server's process: FlowerChannel ── HTTPS, Flower's Fleet API ── site's process: serve_site, Respondent

Flower ships the code of an app from the server to its nodes. A site must run no code near its rows that a server sent,
so neither end runs an app. The server's process holds Flower's state, writes messages into it, and serves the Fleet API
alone. A site pulls messages, hands their bytes to its respondent, and never asks for a bundle. A payload goes inside
its message, which saves seven calls by which Flower's apps push and pull the parts of one.
"""

import asyncio
import logging
import os
import secrets
import socket
import ssl
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

os.environ["FLWR_TELEMETRY_ENABLED"] = "0"  # read when Flower is imported: it reports to nobody

import anyio
import httpx
import uvicorn
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from fastapi import FastAPI
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.app.error import Error
from flwr.app.message import make_message
from flwr.app.metadata import Metadata
from flwr.common import constant
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.fleet_pb2 import ActivateNodeRequest, DeactivateNodeRequest, PullMessagesRequest, PushMessagesRequest
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest
from flwr.proto.message_pb2 import ObjectTree
from flwr.proto.node_pb2 import Node
from flwr.server.superlink.linkstate.in_memory_linkstate import InMemoryLinkState
from flwr.supercore import constant as core
from flwr.supercore.error import http_error_translator
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.supercore.primitives.asymmetric import public_key_to_bytes
from flwr.supercore.protobuf.translation import ProtobufTranslationMiddleware
from flwr.superlink.federation.noop_federation_manager import NoOpFederationManager
from flwr.superlink.routers.fleet.node_auth import NodeAuthMiddleware
from flwr.superlink.routers.fleet.router import router as fleet
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware

from synth.errors import JobError
from understudy.extras.sites.channel import Channel, ChannelError, Recorder, Respondent

logging.getLogger("flwr").setLevel(logging.CRITICAL)  # what goes wrong is raised, or is no reply

REQUEST, END = "query.request", "query.end"  # kinds of messages: one that the site answers; the end of the run
# Seconds: for which a site promises the next sign of life, and it sends one three times as often; after which without
# any it counts as gone, while one that works for hours sends them all the same; for which its question for messages is
# held until there is one; after which a call that moves no byte has failed, more than a loaded server needs.
HEARTBEAT_S, HOLD_S, CALL_S = 45, 10.0, 300.0
SILENCE_S = constant.HEARTBEAT_PATIENCE * HEARTBEAT_S
RETRY_S, END_S = 1.0, 5.0  # seconds between two tries to join; seconds that sites have to leave at the end
_REFUSED = {
    401: "the server did not accept the site's signature; the clocks of both must agree within 5 minutes",
    403: "the server does not know this site's public key; give it the key, and start it again",
}


class _State(InMemoryLinkState):  # type: ignore[misc]
    """Flower's state, where both ends wait for messages in place of asking many times a second."""

    def __init__(self) -> None:
        super().__init__(NoOpFederationManager(), ObjectStoreFactory(core.FLWR_IN_MEMORY_DB_NAME).store())
        self.changed = threading.Condition(self.lock)
        self.is_closing = False

    def store_message_ins(self, message: Message) -> Any:
        with self.changed:
            self.changed.notify_all()
            return super().store_message_ins(message)

    def store_message_res(self, message: Message) -> Any:
        with self.changed:
            self.changed.notify_all()
            return super().store_message_res(message)

    def get_message_ins(self, node_id: int, limit: int | None, **more: Any) -> Any:
        until = time.monotonic() + HOLD_S
        with self.changed:
            while not (messages := super().get_message_ins(node_id, limit, **more)) and not self.is_closing:
                if not self.changed.wait(until - time.monotonic()):
                    break
            return messages

    def _cleanup_expired_task_tokens_locked(self) -> None:
        """The run's task is this process: it sends itself no signs of life."""


class FlowerChannel(Channel):
    """A `Channel` to sites in processes of their own, which join with `serve_site` as long as the block lasts."""

    def __init__(
        self, files: Path, sites: Iterable[str], *, host: str = "127.0.0.1", port: int = 0,
        recorder: Recorder | None = None,
    ) -> None:  # fmt: skip
        super().__init__(sites, recorder)
        self._files, self._host, self._port, self._state = files, host, port, _State()
        keys = {site: (files / f"{site}.pub").read_bytes() for site in self.sites}
        if len(set(keys.values())) < len(keys):
            raise JobError("each site has a key of its own, and two of them share one; make another for one of the two")
        self._admitted = {b64encode(key) for key in keys.values()}
        owner, state = (constant.NOOP_FLWR_AID, constant.NOOP_ACCOUNT_NAME), self._state
        self._nodes = {site: state.create_node(*owner, key, HEARTBEAT_S) for site, key in keys.items()}
        kind = core.TaskType.SERVER_APP
        self._run_id = state.create_run("none", "0", "0", {}, core.NOOP_FEDERATION_ID, None, owner[0], kind)
        task = state.get_run_info(run_ids=[self._run_id])[0].primary_task_id
        state.claim_task(task)
        state.activate_task(task)

    @property
    def address(self) -> str:
        return f"{self._host}:{self._port}"

    @property
    def present(self) -> tuple[str, ...]:
        return tuple(self._joined())

    def __enter__(self) -> "FlowerChannel":
        config = uvicorn.Config(
            self._app(), ssl_certfile=str(self._files / "server.pem"), ssl_keyfile=str(self._files / "server.key"),
            log_config=None, access_log=False, lifespan="off", ws="none", timeout_keep_alive=60,
            timeout_graceful_shutdown=1,
        )  # fmt: skip
        try:
            config.load()
            family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
            listener = socket.create_server((self._host, self._port), family=family, backlog=128)
        except OSError as error:  # of a certificate as well as of an address
            raise ChannelError(f"the server cannot listen at host={self._host}, port={self._port}: {error}") from None
        self._port, self._server = listener.getsockname()[1], uvicorn.Server(config)

        async def serve() -> None:
            # Each site may have a held question, a reply and a sign of life under way at once.
            anyio.to_thread.current_default_thread_limiter().total_tokens = 20 + 4 * len(self.sites)
            await self._server.serve(sockets=[listener])
            for connection in list(self._server.server_state.connections):
                connection.transport.abort()
            await asyncio.sleep(0)

        self._thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._send(dict.fromkeys(self._joined(), b""), END, END_S)
        until = time.monotonic() + END_S
        while self._joined() and time.monotonic() < until:
            time.sleep(0.05)
        with self._state.changed:
            self._state.is_closing = True
            self._state.changed.notify_all()
        self._server.should_exit = True
        self._thread.join(END_S)

    def _app(self) -> Any:
        """Flower's Fleet API, to which a request is admitted that names a registered key before its body is read.

        Flower then verifies the signature, and that a site asks for its own messages alone.
        """
        parts = [Middleware(BaseHTTPMiddleware, dispatch=http_error_translator)]
        parts += [Middleware(part) for part in (ProtobufTranslationMiddleware, NodeAuthMiddleware)]
        app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, middleware=parts)
        app.include_router(fleet)
        app.state.enable_supernode_auth = True
        app.state.linkstate_factory = SimpleNamespace(state=lambda: self._state)
        key_header = core.FLEET_HTTP_PUBLIC_KEY_HEADER.encode()

        async def admit(scope: Any, receive: Any, send: Any) -> None:
            is_known = dict(scope["headers"]).get(key_header) in self._admitted
            if is_known and scope["path"].startswith("/v1/fleet/"):
                await app(scope, receive, send)
                return
            await send({"type": "http.response.start", "status": 403, "headers": [(b"content-length", b"0")]})
            await send({"type": "http.response.body", "body": b""})

        return admit

    def _joined(self) -> dict[str, Any]:
        nodes = {node.node_id: node for node in self._state.get_node_info(statuses=[core.NodeStatus.ONLINE])}
        return {site: nodes[node].last_activated_at for site, node in self._nodes.items() if node in nodes}

    def _send(self, requests: Mapping[str, bytes], kind: str, ttl_s: float) -> dict[str, str]:
        sent = {}
        for site, payload in requests.items():
            ends = constant.SUPERLINK_NODE_ID, self._nodes[site]
            message = _message(payload, self._run_id, ends, kind, (time.time(), ttl_s))
            name, session = message.metadata.message_id, self._state.start_session(self._run_id)
            self._state.store_message_and_object_tree(message, ObjectTree(object_id=name), session)
            sent[name] = site
        return sent

    def ask(self, requests: Mapping[str, bytes], timeout_s: float) -> dict[str, bytes]:
        until, joined, state = time.monotonic() + timeout_s, self._joined(), self._state
        asked = {site: requests[site] for site in sorted(requests) if site in joined}
        for site, payload in asked.items():
            self.record(site, "request", payload)
        sent = self._send(asked, REQUEST, timeout_s + HOLD_S)
        pending, replies = dict(sent), dict[str, bytes]()
        while pending and (left := until - time.monotonic()) > 0:
            with state.changed:
                received = state.get_message_res(set(pending), self._run_id)
                if not received:
                    state.changed.wait(min(left, RETRY_S))
            for message in received:
                site, reply = pending.pop(message.metadata.reply_to_message_id), _payload(message)
                if reply is not None:
                    self.record(site, "reply", reply)
                    replies[site] = reply
            now = self._joined()  # one that has joined again since has forgotten what it was asked
            pending = {name: site for name, site in pending.items() if now.get(site) == joined[site]}
        state.delete_messages(set(sent))  # nobody begins what nobody waits for
        return replies


class FlowerNode:
    """A site at a server. Every call raises `httpx.HTTPError` where the server is gone or refuses it."""

    def __init__(self, ca: Path, key_file: Path, address: str) -> None:
        key: Any = load_pem_private_key(key_file.read_bytes(), None)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        tls.load_verify_locations(cafile=ca)
        client = FleetHttpClient(f"https://{address}", interceptors=[NodeAuthHttpInterceptor(key, key.public_key())])
        client.close()
        # Flower's client takes no setting for proxies, and one is not used for an address on this machine.
        may_use_proxy = not address.startswith(("127.", "localhost:", "[::1]"))
        client._client = httpx.Client(verify=tls, timeout=httpx.Timeout(CALL_S, connect=10), trust_env=may_use_proxy)
        self._client, self._public, self._node = client, public_key_to_bytes(key.public_key()), Node()

    def join(self) -> None:
        request = ActivateNodeRequest(public_key=self._public, heartbeat_interval=HEARTBEAT_S)
        self._node = Node(node_id=self._client.ActivateNode(request).node_id)

    def close(self) -> None:
        self._client.close()

    def leave(self) -> None:
        self._client.DeactivateNode(DeactivateNodeRequest(node_id=self._node.node_id))

    def show_life(self) -> None:
        self._client.SendNodeHeartbeat(SendNodeHeartbeatRequest(node=self._node, heartbeat_interval=HEARTBEAT_S))

    def answer_one(self, answer: Callable[[bytes], bytes | None]) -> bool:
        """Answer a request, if one comes within `HOLD_S`; false at the end of the run."""
        asked = self._client.PullMessages(PullMessagesRequest(node=self._node)).messages_list
        if not asked:
            return True
        about, came = asked[0].metadata, time.monotonic()
        if about.message_type == END:
            return False
        payload = answer(_payload(message_from_proto(asked[0])) or b"")
        took_s = time.monotonic() - came
        if took_s < about.ttl:  # dated by the server's clock and this one's count of seconds
            times = about.created_at + took_s, about.ttl - took_s
            ends = self._node.node_id, about.src_node_id
            reply = _message(payload, about.run_id, ends, REQUEST, times, about.message_id)
            trees = [ObjectTree(object_id=reply.metadata.message_id)]
            sent = {"messages_list": [message_to_proto(reply)], "message_object_trees": trees}
            self._client.PushMessages(PushMessagesRequest(node=self._node, **sent))
        return True


def _message(
    payload: bytes | None, run_id: int, ends: tuple[int, int], kind: str, times: tuple[float, float], reply_to: str = ""
) -> Message:
    """A message between two nodes, with the time it is dated by and the seconds that it lives."""
    about = Metadata(run_id, secrets.token_hex(32), *ends, reply_to, "", *times, kind)
    if payload is None:
        return make_message(about, error=Error(constant.ErrorCode.CLIENT_APP_RAISED_EXCEPTION))
    return make_message(about, RecordDict({"payload": ConfigRecord({"bytes": payload})}))


def _payload(received: Message) -> bytes | None:
    """The payload of a message; `None` where its sender failed, or it is none of ours."""
    if received.has_error():
        return None
    payload = received.content.config_records.get("payload", {}).get("bytes")
    return payload if isinstance(payload, bytes) else None


def serve_site(
    respondent: Respondent, ca: Path, key: Path, address: str, *, wait_s: float,
    say: Callable[[str], None] = lambda _: None, on_failure: Callable[[Exception], None] = lambda _: None,
) -> None:  # fmt: skip
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
