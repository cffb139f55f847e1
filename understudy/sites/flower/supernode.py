"""A site's child process: a SuperNode that hands requests to the site's process and replies to the SuperLink.

It runs nothing that comes from the server: it never asks for the run's bundle, and a payload is bytes to it. It ends
with the site's process, and tells the SuperLink that the site has left.
"""

import json
import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

import httpx
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from flwr.app.metadata import Metadata
from flwr.common.constant import HEARTBEAT_MIN_INTERVAL
from flwr.proto.fleet_pb2 import (
    ActivateNodeRequest,
    DeactivateNodeRequest,
    PullMessagesRequest,
    PushMessagesRequest,
)
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest
from flwr.proto.node_pb2 import Node
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
from flwr.supercore.primitives.asymmetric import public_key_to_bytes
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from understudy.sites.flower.messages import END, connected, message, new_name, payload_of, tree
from understudy.sites.flower.process import ASKED, ENDED, JOINED, LOST, REFUSED, REPLY, parent_connection

HEARTBEAT_EVERY_S = 1.0
"""Seconds between two heartbeats."""
LOST_AFTER_S = 10.0
"""Seconds for which a server that does not answer is asked again."""
RETRY_EVERY_S = 0.5
"""Seconds between two tries of a call."""
SHORTEST_HOLD_S = 0.2
"""Seconds between two empty pulls at least, should the SuperLink not hold them."""

T = TypeVar("T")


class NodeExit(Exception):
    """The end of the process, and the message about it to the site's process."""


class SuperNode:
    """A site on a SuperLink, from its joining to its leaving."""

    def __init__(self, pipe: Connection, config: dict[str, Any]) -> None:
        key = load_pem_private_key(Path(config["key"]).read_bytes(), None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise NodeExit(REFUSED + b"the key of a site is one of a NIST curve, and this one is not")
        self._pipe = pipe
        self._public_key = public_key_to_bytes(key.public_key())
        self._client = connected(
            FleetHttpClient,
            config["address"],
            Path(config["ca"]),
            [RuntimeVersionHttpInterceptor("SuperNode"), NodeAuthHttpInterceptor(key, key.public_key())],
        )
        self._join_s = float(config["join_s"])
        self._node = Node()
        self._answers: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._has_left = False
        self._n_empty_pulls = 0
        self._leaving = threading.Lock()

    def run(self) -> None:
        """Join, hand requests over until the run or the site's process ends, and leave."""
        threading.Thread(target=self._read_answers, daemon=True).start()
        self._join()
        threading.Thread(target=self._send_heartbeats, daemon=True).start()
        self._pipe.send_bytes(JOINED)
        try:
            while True:
                self._serve_one()
        finally:
            self.leave()

    def leave(self) -> None:
        """Tell the SuperLink that the site has left."""
        with self._leaving:
            if self._node.node_id and not self._has_left:
                with suppress(httpx.HTTPError):
                    self._client.DeactivateNode(DeactivateNodeRequest(node_id=self._node.node_id))
            self._has_left = True

    def _join(self) -> None:
        """Join, as soon as the server is there and knows of no other process with this key.

        After a process was killed the SuperLink holds its site for present for up to twenty seconds.
        """
        request = ActivateNodeRequest(public_key=self._public_key, heartbeat_interval=HEARTBEAT_MIN_INTERVAL)
        until = time.monotonic() + self._join_s
        while True:
            try:
                self._node = Node(node_id=self._client.ActivateNode(request).node_id)
                return
            except httpx.HTTPError as error:
                reason = _refusal(error)
                if time.monotonic() >= until or _is_final(error):
                    raise NodeExit(REFUSED + reason.encode()) from error
            time.sleep(RETRY_EVERY_S)

    def _read_answers(self) -> None:
        """Pass on what the site's process says; once that is gone, leave and end."""
        try:
            while True:
                self._answers.put(self._pipe.recv_bytes())
        except (EOFError, OSError):
            self.leave()
            os._exit(0)

    def _send_heartbeats(self) -> None:
        request = SendNodeHeartbeatRequest(node=self._node, heartbeat_interval=HEARTBEAT_MIN_INTERVAL)
        while True:
            # A heartbeat after the leave would be another joining. That the server is gone shows where messages are
            # pulled.
            with self._leaving, suppress(httpx.HTTPError):
                if self._has_left:
                    return
                self._client.SendNodeHeartbeat(request)
            time.sleep(HEARTBEAT_EVERY_S)

    def _serve_one(self) -> None:
        began = time.monotonic()
        response = _retry(lambda: self._client.PullMessages(PullMessagesRequest(node=self._node)))
        if not response.messages_list:
            # The first question is answered at once, the next is held until there is something for this site.
            self._n_empty_pulls += 1
            if self._n_empty_pulls > 1:
                time.sleep(max(0.0, SHORTEST_HOLD_S - (time.monotonic() - began)))
            return
        self._n_empty_pulls = 0
        asked, came = response.messages_list[0], time.monotonic()
        if asked.metadata.message_type == END:
            raise NodeExit(ENDED)
        request = payload_of(asked)
        if request is None:
            return
        self._pipe.send_bytes(ASKED + request)
        answer = self._answers.get()
        self._reply(asked.metadata, answer[1:] if answer[:1] == REPLY else None, time.monotonic() - came)

    def _reply(self, asked: Any, payload: bytes | None, took_s: float) -> None:
        """Send a reply, dated by the server's clock and this one's count of seconds; too late, it is dropped."""
        if took_s >= asked.ttl:
            return
        metadata = Metadata(
            run_id=asked.run_id,
            message_id=new_name(),
            src_node_id=self._node.node_id,
            dst_node_id=asked.src_node_id,
            reply_to_message_id=asked.message_id,
            group_id="",
            created_at=asked.created_at + took_s,
            ttl=asked.ttl - took_s,
            message_type=asked.message_type,
        )
        reply = message(metadata, payload)
        request = PushMessagesRequest(
            node=self._node,
            messages_list=[reply],
            message_object_trees=[tree(reply)],
            clientapp_runtime_list=[took_s],
        )
        _retry(lambda: self._client.PushMessages(request))


def _retry(call: Callable[[], T]) -> T:
    """The result of a call, made again while the server cannot be reached."""
    until = time.monotonic() + LOST_AFTER_S
    while True:
        try:
            return call()
        except httpx.TransportError as error:
            if time.monotonic() >= until:
                raise NodeExit(LOST + _refusal(error).encode()) from error
        except httpx.HTTPError as error:
            raise NodeExit(LOST + _refusal(error).encode()) from error
        time.sleep(RETRY_EVERY_S)


def _is_final(error: httpx.HTTPError) -> bool:
    """True where asking again cannot help: a key or a certificate that is not the right one."""
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code in (401, 403)
    return "CERTIFICATE_VERIFY_FAILED" in str(error)


def _refusal(error: httpx.HTTPError) -> str:
    """The reason for an error in words that say what to do."""
    if isinstance(error, httpx.HTTPStatusError):
        status = error.response.status_code
        if status == 403:
            return "the server does not know this site's public key; give it the key, and start it again"
        if status == 401:
            return "the server did not accept the site's signature; the clocks of both must agree within 5 minutes"
        return f"the server refused with status={status}; another process may have joined with the same key"
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        return "the server's certificate is not signed by the site's CA, or is for another host; compare the two files"
    return f"the server does not answer ({type(error).__name__}); it must be running, and the address must be its own"


def main() -> None:
    """Be a SuperNode for the parent process."""
    pipe = parent_connection(sys.argv[1])
    with suppress(EOFError, OSError):
        try:
            SuperNode(pipe, json.loads(pipe.recv_bytes())).run()
        except NodeExit as end:
            pipe.send_bytes(end.args[0])


if __name__ == "__main__":
    main()
