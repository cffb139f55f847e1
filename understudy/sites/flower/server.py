"""The server's end of a channel over Flower: a SuperLink of its own, and one run on it for as long as it is open."""

import io
import json
import secrets
import threading
import time
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from flwr.app.metadata import Metadata
from flwr.common.constant import HEARTBEAT_PATIENCE, SUPERLINK_NODE_ID
from flwr.proto.control_pb2 import RegisterNodeRequest, StartRunRequest
from flwr.proto.fab_pb2 import Fab
from flwr.proto.node_pb2 import NodeInfo
from flwr.proto.runtime_pb2 import (
    AcquireTaskRequest,
    GetNodesRequest,
    PullAppMessagesRequest,
    PullTaskInputRequest,
    PushAppMessagesRequest,
    SendTaskHeartbeatRequest,
)
from flwr.supercore.control.control_http_client import ControlHttpClient
from flwr.supercore.interceptors import RuntimeTokenHttpInterceptor, RuntimeVersionHttpInterceptor
from flwr.supercore.interceptors.http.utils import add_headers
from flwr.supercore.runtime import RuntimeHttpClient

from synth.errors import JobError
from understudy.sites.channel import ChannelError, Recorder, Traffic, TrafficCount, check_sites
from understudy.sites.flower import process
from understudy.sites.flower.admission import TOKEN_HEADER
from understudy.sites.flower.credentials import ServerFiles
from understudy.sites.flower.messages import END, REQUEST, connected, message, new_name, payload_of, tree

START_S = 60.0
"""Seconds within which the SuperLink must have started."""
SILENCE_S = 8.0
"""Seconds without a heartbeat after which a site counts as gone; it sends one every second, on a busy machine late.
A process that ends is told of at once."""
LOOK_AT_SITES_EVERY_S = 0.5
"""Seconds between two looks at which sites are online, while replies are waited for."""
BATCH_BYTES = 32 * 2**20
"""Bytes of requests above which they go in several calls."""
TASK_HEARTBEAT_S = 10.0
"""Seconds between two heartbeats of the run."""
END_NODES_S = 5.0
"""Seconds that sites have to leave at the end of the run."""


@dataclass(frozen=True)
class _Sent:
    """A request under way: its site, and when that joined, since it forgets the request if it joins again."""

    site: str
    joined_at: str


class FlowerChannel:
    """A `Channel` to sites in processes of their own, on this machine or others.

    Use it as a context manager: it starts a SuperLink on entry, and ends the run and the SuperLink on exit. Sites may
    join from then on, with `serve_site`; a site that left may join again with its key.
    """

    def __init__(
        self,
        files: ServerFiles,
        site_keys: Mapping[str, Path],
        folder: Path,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        recorder: Recorder | None = None,
    ) -> None:
        self._files, self._folder, self._host, self._port = files, folder, host, port
        self._keys = {site: path.read_bytes() for site, path in sorted(site_keys.items())}
        if len(set(self._keys.values())) < len(self._keys):
            raise JobError("each site has a key of its own, and two of them share one; make another for one of the two")
        self._count = TrafficCount(self.sites, recorder)
        self._token = secrets.token_hex(32)
        self._site_of: dict[int, str] = {}
        self._run_id = 0
        self._closing = threading.Event()

    @property
    def sites(self) -> tuple[str, ...]:
        """Names of the sites, sorted."""
        return tuple(self._keys)

    @property
    def traffic(self) -> dict[str, Traffic]:
        """Payloads counted so far, by site."""
        return self._count.by_site

    @property
    def address(self) -> str:
        """Host and port that sites on this machine join at; others call the host by its name."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self._host, self._host)  # noqa: S104 - as the caller chose
        return f"[{host}]:{self._port}" if ":" in host else f"{host}:{self._port}"

    @property
    def superlink_pid(self) -> int:
        """The SuperLink's process, a child of this one."""
        return self._link.process.pid

    def __enter__(self) -> "FlowerChannel":
        """The same, with its SuperLink started and its run begun."""
        self._link = process.start("understudy.sites.flower.superlink", self._folder, "superlink")
        try:
            self._await_link()
            with self._answering():
                self._begin_run()
        except BaseException:
            self._link.close()
            raise
        threading.Thread(target=self._keep_run, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Tell the sites that the run is over, and end the SuperLink."""
        with suppress(httpx.HTTPError, ChannelError):
            self._end_nodes()
        self._closing.set()
        self._client.close()
        self._link.close()

    def wait_for_sites(self, timeout_s: float) -> None:
        """Wait until every site has joined."""
        until = time.monotonic() + timeout_s
        while missing := self._missing():
            if time.monotonic() >= until:
                raise ChannelError(
                    f"every site joins before the run starts, and missing={', '.join(missing)} did not within"
                    f" {timeout_s:g} s; start them with address={self.address}, or leave them out"
                )
            time.sleep(LOOK_AT_SITES_EVERY_S / 4)

    def ask(self, requests: Mapping[str, bytes], timeout_s: float) -> dict[str, bytes]:
        """Replies by site; a site that failed, is late or is gone has none."""
        check_sites(requests, self.sites)
        until = time.monotonic() + timeout_s
        with self._answering():
            return self._replies(self._send(requests, REQUEST, timeout_s), until)

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """Turn the failure of a call to the SuperLink into an error of the channel."""
        try:
            yield
        except httpx.HTTPError as error:
            raise ChannelError(f"the SuperLink does not answer as it should; log={self._link.log} says why") from error

    def _await_link(self) -> None:
        config = {
            "host": self._host,
            "port": self._port,
            "certificate": str(self._files.certificate.resolve()),
            "key": str(self._files.key.resolve()),
            "token": self._token,
            "keys": [key.decode() for key in self._keys.values()],
        }
        with suppress(OSError):
            self._link.pipe.send_bytes(json.dumps(config).encode())
        port = process.wait_for(self._link.pipe, START_S)
        if port is None:
            raise ChannelError(
                f"the SuperLink did not start at host={self._host}, port={self._port}; log={self._link.log} says why"
            )
        self._port = int(port)

    def _begin_run(self) -> None:
        """Register the sites, begin a run whose bundle holds no code, and take the ServerApp's place in it."""
        ours = [RuntimeVersionHttpInterceptor("understudy"), _ServerToken(self._token)]
        ca = self._files.ca
        with connected(ControlHttpClient, self.address, ca, ours) as control:
            for site, key in self._keys.items():
                response = control.RegisterNode(RegisterNodeRequest(public_key=key, name=site))
                self._site_of[response.node_id] = site
            self._run_id = control.StartRun(StartRunRequest(fab=Fab(content=_empty_bundle()))).run_id
        with connected(RuntimeHttpClient, self.address, ca, ours) as anyone:
            task = anyone.AcquireTask(AcquireTaskRequest(supported_task_types=["flwr-serverapp"]))
        self._client = connected(RuntimeHttpClient, self.address, ca, [*ours, RuntimeTokenHttpInterceptor(task.token)])
        self._client.PullTaskInput(PullTaskInputRequest())

    def _keep_run(self) -> None:
        """Tell the SuperLink from time to time that the run goes on."""
        while not self._closing.wait(TASK_HEARTBEAT_S):
            with suppress(httpx.HTTPError, RuntimeError):
                self._client.SendTaskHeartbeat(SendTaskHeartbeatRequest())

    def _missing(self) -> list[str]:
        with self._answering():
            return sorted(set(self.sites) - set(self._online()))

    def _online(self) -> dict[str, NodeInfo]:
        """Sites that have joined and sent a heartbeat lately, as Flower knows them."""
        now = time.time()
        return {
            self._site_of[node.node_id]: node
            for node in self._client.GetNodes(GetNodesRequest()).nodes
            if node.node_id in self._site_of and now - _last_heartbeat(node) < SILENCE_S
        }

    def _send(self, requests: Mapping[str, bytes], kind: str, ttl_s: float) -> dict[str, _Sent]:
        """Requests under way by the names of their messages."""
        online = self._online()
        sent: dict[str, _Sent] = {}
        for batch in _batches({site: requests[site] for site in sorted(set(requests) & set(online))}):
            messages = {
                site: message(self._metadata(online[site].node_id, kind, ttl_s), payload)
                for site, payload in batch.items()
            }
            response = self._client.PushMessages(
                PushAppMessagesRequest(
                    messages_list=list(messages.values()), message_object_trees=map(tree, messages.values())
                )
            )
            taken = set(response.message_ids)
            for site, made in messages.items():
                if made.metadata.message_id in taken:
                    sent[made.metadata.message_id] = _Sent(site, online[site].last_activated_at)
        if kind == REQUEST:
            for one in sent.values():
                self._count.request(one.site, requests[one.site])
        return sent

    def _metadata(self, node_id: int, kind: str, ttl_s: float) -> Metadata:
        return Metadata(
            run_id=self._run_id,
            message_id=new_name(),
            src_node_id=SUPERLINK_NODE_ID,
            dst_node_id=node_id,
            reply_to_message_id="",
            group_id="",
            created_at=time.time(),
            ttl=ttl_s,
            message_type=kind,
        )

    def _replies(self, sent: dict[str, _Sent], until: float) -> dict[str, bytes]:
        pending, replies = dict(sent), {}
        looked = time.monotonic()
        while pending and time.monotonic() < until:
            for received in self._client.PullMessages(PullAppMessagesRequest(message_ids=list(pending))).messages_list:
                one = pending.pop(received.metadata.reply_to_message_id, None)
                payload = None if one is None else payload_of(received)
                if one is not None and payload is not None:
                    self._count.reply(one.site, payload)
                    replies[one.site] = payload
            if time.monotonic() - looked >= LOOK_AT_SITES_EVERY_S:
                looked = time.monotonic()
                self._drop_gone(pending)
        return replies

    def _drop_gone(self, pending: dict[str, _Sent]) -> None:
        """Take off the requests to sites that are gone, or that have joined again since."""
        online = self._online()
        for name, one in list(pending.items()):
            node = online.get(one.site)
            if node is None or node.last_activated_at != one.joined_at:
                del pending[name]

    def _end_nodes(self) -> None:
        """Tell every site that is online to leave, and wait until it has."""
        online = dict.fromkeys(self._online(), b"")
        self._send(online, END, END_NODES_S)
        until = time.monotonic() + END_NODES_S
        while self._online() and time.monotonic() < until:
            time.sleep(0.05)


def _batches(requests: Mapping[str, bytes]) -> Iterator[dict[str, bytes]]:
    """Requests in groups small enough for one call each; a request that is not is a group of its own."""
    batch: dict[str, bytes] = {}
    for site, payload in requests.items():
        if batch and sum(map(len, batch.values())) + len(payload) > BATCH_BYTES:
            yield batch
            batch = {}
        batch[site] = payload
    if batch:
        yield batch


class _ServerToken:
    """The server's token, added to its requests."""

    def __init__(self, token: str) -> None:
        self._token = token

    def intercept(self, context: Any, call_next: Any) -> Any:
        """Add the token to a request."""
        add_headers(context.request, {TOKEN_HEADER: self._token})
        return call_next(context)


def _last_heartbeat(node: NodeInfo) -> float:
    """The moment of a site's last heartbeat, by the clock of this machine, on which the SuperLink runs too."""
    return float(node.online_until - HEARTBEAT_PATIENCE * node.heartbeat_interval)


def _empty_bundle() -> bytes:
    """A bundle without code, since a run on Flower must have one."""
    config = (
        '[project]\nname = "query"\nversion = "1.0.0"\n'
        '[tool.flwr.app]\npublisher = "understudy"\nconfig = {}\n'
        '[tool.flwr.app.components]\nserverapp = "none:none"\nclientapp = "none:none"\n'
    )
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as bundle:
        bundle.writestr("pyproject.toml", config)
    return file.getvalue()
