"""The channel over Flower, with sites as real processes: replies, who is admitted, and ends of processes."""

import os
import signal
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="the extra `sites` is not installed")

import httpx
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from flwr.proto.fleet_pb2 import ActivateNodeRequest, PullMessagesRequest, RegisterNodeFleetRequest
from flwr.proto.node_pb2 import Node
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from tests.extras.sites.networks import JOIN_S, SITES, Network, ended, joined
from understudy.extras.sites.channel import ChannelError, make_server_files, make_site_files
from understudy.extras.sites.flower import FlowerChannel, serve_site


class Never:
    def answer(self, request: bytes) -> bytes:
        raise AssertionError(request)


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    folder = tmp_path_factory.mktemp("network")
    with pytest.MonkeyPatch.context() as patch:
        (folder / "home").mkdir()
        patch.setenv("HOME", str(folder / "home"))
        patch.delenv("FLWR_HOME", raising=False)
        yield Network(folder)


@pytest.fixture(scope="module")
def channel(network: Network) -> Iterator[FlowerChannel]:
    with joined(network) as (channel, _):
        yield channel


def client(network: Network, channel: FlowerChannel, key: Any, public: Any = None) -> FleetHttpClient:
    private = load_pem_private_key(key.read_bytes(), None)
    signing: Any = NodeAuthHttpInterceptor(private, public or private.public_key())  # type: ignore[arg-type]
    return FleetHttpClient(f"https://{channel.address}", interceptors=[signing], verify=trusting(network))


def trusting(network: Network) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=network.folder / "ca.pem")


def port_of(channel: FlowerChannel) -> int:
    return int(channel.address.split(":")[1])


def status_of(call: Callable[[], object]) -> int:
    with pytest.raises(httpx.HTTPStatusError) as refused:
        call()
    return refused.value.response.status_code


def test_every_site_answers_and_all_that_goes_through_is_read_along(network: Network, channel: FlowerChannel) -> None:
    network.received.clear()
    requests = {"north": b"abc", "south": b"abc", "west": b""}
    assert channel.sites == channel.present == SITES
    assert channel.ask(requests, 30.0) == {"north": b"cba", "south": b"cba", "west": b""}
    assert sorted(network.received) == sorted(
        [(name, "request", payload) for name, payload in requests.items()]
        + [(name, "reply", payload[::-1]) for name, payload in requests.items()]
    )


def test_a_site_that_fails_has_no_reply_and_goes_on(network: Network, channel: FlowerChannel) -> None:
    network.received.clear()
    assert channel.ask({"north": b"fail:zebrafish", "south": b"x"}, 30.0) == {"south": b"x"}
    assert channel.ask({"north": b"y"}, 30.0) == {"north": b"y"}
    assert ("north", "reply") not in {(site, direction) for site, direction, _ in network.received[:3]}


def test_who_may_not_join_is_told_why(network: Network, channel: FlowerChannel, tmp_path: Path) -> None:
    (stranger, _), (other_ca, *_) = make_site_files(tmp_path, "stranger"), make_server_files(tmp_path)
    ca, north, away = network.folder / "ca.pem", network.folder / "north.key", f"127.0.0.2:{port_of(channel)}"
    for ca_file, key, address, reason in (
        (ca, stranger, channel.address, "does not know this site's public key"),
        (other_ca, north, channel.address, "is not signed by the site's CA"),
        (ca, north, channel.address, "within wait_s=0.1: it holds this site for present"),
        (ca, north, away, "no server could be joined at .* within wait_s=0.1: it does not answer"),
    ):
        with pytest.raises(ChannelError, match=reason):
            serve_site(Never(), ca_file, key, address, wait_s=0.1)
    assert channel.ask({"north": b"ab"}, 30.0) == {"north": b"ba"}


def test_nobody_asks_for_another_without_its_signature(
    network: Network, channel: FlowerChannel, tmp_path: Path
) -> None:
    stranger, north = make_site_files(tmp_path, "stranger")[0], network.folder / "north.key"
    public, content = (
        load_pem_private_key(north.read_bytes(), None).public_key(),
        north.with_suffix(".pub").read_bytes(),
    )
    activate = ActivateNodeRequest(public_key=content, heartbeat_interval=10)
    with client(network, channel, stranger, public) as forged:
        assert status_of(lambda: forged.ActivateNode(activate)) == 401
    with client(network, channel, north) as site:
        of_south = PullMessagesRequest(node=Node(node_id=channel._nodes["south"]))
        assert status_of(lambda: site.PullMessages(of_south)) == 401
        own = RegisterNodeFleetRequest(public_key=content)
        assert status_of(lambda: site.RegisterNode(own)) == 412
    tls, admitted = trusting(network), {"flwr-public-key": next(iter(channel._admitted)).decode()}
    for path, headers in (
        *((path, admitted) for path in ("/", "/health", "/v1/control/stop-run", "/v1/runtime/acquire-task")),
        ("/v1/fleet/pull-messages", {}),
    ):
        url = f"https://{channel.address}{path}"
        assert httpx.post(url, headers=headers, verify=tls, trust_env=False).status_code == 403
    with pytest.raises(httpx.TransportError):  # without TLS nothing is answered
        httpx.get(f"http://{channel.address}/health", trust_env=False)


def test_no_process_of_a_channel_talks_to_another_machine(channel: FlowerChannel) -> None:
    sites = [int(pid) for pid in channel.ask(dict.fromkeys(SITES, b"pid:"), 30.0).values()]
    assert {end for pid in (os.getpid(), *sites) for end in ends_of(pid)} <= {"0100007F", "00000000"}


def ends_of(pid: int) -> set[str]:
    """Addresses at the other ends of a process's sockets over IP, as hexadecimal numbers."""
    sockets = set()
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            sockets.add(str(file.readlink()))
    tables = [Path(f"/proc/{pid}/net/{kind}").read_text() for kind in ("tcp", "tcp6", "udp", "udp6")]
    lines = [line.split() for table in tables for line in table.splitlines()[1:]]
    return {line[2].split(":")[0] for line in lines if f"socket:[{line[9]}]" in sockets}


@pytest.mark.statistical
def test_a_killed_or_silent_site_has_no_reply_in_time_and_may_join_again(tmp_path: Path) -> None:
    """Half a minute: Flower takes a site for present until it has been silent for so long."""
    network = Network(tmp_path, ("east", "north", "south"))
    with joined(network) as (channel, sites), ExitStack() as awake:
        os.kill(sites["east"].pid, signal.SIGSTOP)
        awake.callback(os.kill, sites["east"].pid, signal.SIGCONT)
        threading.Timer(1.0, sites["north"].kill).start()
        began = time.monotonic()
        assert channel.ask({"east": b"x", "north": b"sleep:60", "south": b"ab"}, 60.0) == {"south": b"ba"}
        assert time.monotonic() - began < 40
        assert channel.present == ("south",)
        with ended(network.start_site("north", channel.address)):
            assert channel.wait(2, JOIN_S)
            assert channel.ask({"north": b"count:"}, 30.0) == {"north": b"1"}
