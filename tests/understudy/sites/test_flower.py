"""The channel over Flower, with real processes and TLS on loopback."""

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="the extra `sites` is not installed")

import httpx
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from flwr.proto.control_pb2 import RegisterNodeRequest, StopRunRequest
from flwr.proto.fleet_pb2 import ActivateNodeRequest, PullMessagesRequest
from flwr.proto.node_pb2 import Node
from flwr.proto.runtime_pb2 import AcquireTaskRequest
from flwr.supercore.control.control_http_client import ControlHttpClient
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from synth.errors import JobError
from tests.understudy.sites.networks import SITES, Network, children, joined
from understudy.sites.channel import ChannelError, Traffic
from understudy.sites.flower.credentials import ServerFiles, SiteFiles, make_server_files, make_site_files
from understudy.sites.flower.messages import connected
from understudy.sites.flower.server import FlowerChannel
from understudy.sites.flower.site import serve_site


class Never:
    """A respondent that nobody may ask."""

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


def signed_by(files: SiteFiles) -> list[object]:
    key = load_pem_private_key(files.key.read_bytes(), None)
    return [RuntimeVersionHttpInterceptor("SuperNode"), NodeAuthHttpInterceptor(key, key.public_key())]


def status_of(call: Callable[[], object]) -> int:
    with pytest.raises(httpx.HTTPStatusError) as refused:
        call()
    return refused.value.response.status_code


def ends_of(pid: int) -> set[str]:
    """Addresses at the other ends of a process's sockets over IP, as hexadecimal numbers."""
    sockets = set()
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            sockets.add(str(file.readlink()))
    tables = [Path(f"/proc/{pid}/net/{kind}").read_text() for kind in ("tcp", "tcp6", "udp", "udp6")]
    lines = [line.split() for table in tables for line in table.splitlines()[1:]]
    return {line[2].split(":")[0] for line in lines if f"socket:[{line[9]}]" in sockets}


def test_every_site_answers_and_all_that_goes_through_is_counted(network: Network, channel: FlowerChannel) -> None:
    before = channel.traffic
    network.received.clear()
    requests = {"north": b"abc", "south": b"abc", "west": b""}
    assert channel.sites == SITES
    assert channel.ask(requests, 30.0) == {"north": b"cba", "south": b"cba", "west": b""}
    was, now = before["north"], channel.traffic["north"]
    assert now == Traffic(was.n_requests + 1, was.n_replies + 1, was.request_bytes + 3, was.reply_bytes + 3)
    assert sorted(network.received) == sorted(
        [(name, "request", payload) for name, payload in requests.items()]
        + [(name, "reply", payload[::-1]) for name, payload in requests.items()]
    )


def test_a_site_keeps_its_state_and_its_process_from_one_request_to_the_next(channel: FlowerChannel) -> None:
    counts = [int(channel.ask({"north": b"count:"}, 30.0)["north"]) for _ in range(3)]
    assert counts == [counts[0], counts[0] + 1, counts[0] + 2]
    pids = {channel.ask({"north": b"pid:"}, 30.0)["north"] for _ in range(2)}
    assert len(pids) == 1


def test_a_site_that_fails_has_no_reply_and_its_error_stays_with_it(network: Network, channel: FlowerChannel) -> None:
    network.received.clear()
    assert channel.ask({"north": b"fail:zebrafish", "south": b"x"}, 30.0) == {"south": b"x"}
    assert channel.ask({"north": b"y"}, 30.0) == {"north": b"y"}
    assert ("north", "reply") not in {(site, direction) for site, direction, payload in network.received[:3]}
    log = (network.folder / "server" / "superlink.log").read_text()
    assert "zebrafish" not in log
    assert "ActivateNode" in log


def test_a_late_site_has_no_reply_and_never_begins_what_was_asked_meanwhile(
    channel: FlowerChannel, tmp_path: Path
) -> None:
    before = int(channel.ask({"north": b"count:"}, 30.0)["north"])
    held = tmp_path / "held"  # made by the site when it begins, and removed here when it may answer
    while not held.exists():
        assert channel.ask({"north": b"hold:%s" % bytes(held)}, 0.5) == {}
    assert channel.ask({"north": b"sleep:0", "south": b"x"}, 3.0) == {"south": b"x"}
    held.unlink()
    assert int(channel.ask({"north": b"count:"}, 30.0)["north"]) == before + 2  # the one that was held, and this one


def test_messages_of_twenty_megabytes_arrive(channel: FlowerChannel) -> None:
    payloads = {"north": os.urandom(20_000_000), "south": os.urandom(14_000_000)}  # more than one call takes
    assert channel.ask(payloads, 60.0) == {name: payload[::-1] for name, payload in payloads.items()}


def test_a_request_to_an_unknown_site_is_refused_before_any_is_sent(channel: FlowerChannel) -> None:
    before = channel.traffic
    with pytest.raises(JobError, match="did you mean 'north'"):
        channel.ask({"north": b"", "nort": b""}, 1.0)
    assert channel.traffic == before


def test_a_site_with_an_unknown_key_does_not_join(network: Network, channel: FlowerChannel, tmp_path: Path) -> None:
    stranger = make_site_files(tmp_path, "stranger", network.files.ca)
    with pytest.raises(ChannelError, match="does not know this site's public key"):
        serve_site(Never(), stranger, channel.address, tmp_path)


def test_a_site_does_not_join_a_server_of_another_authority(
    network: Network, channel: FlowerChannel, tmp_path: Path
) -> None:
    other = make_server_files(tmp_path)
    north = network.keys["north"]
    with pytest.raises(ChannelError, match="is not signed by the site's CA"):
        serve_site(Never(), SiteFiles(other.ca, north.key, north.public_key), channel.address, tmp_path)


def test_a_second_process_with_a_sites_key_does_not_take_its_place(
    network: Network, channel: FlowerChannel, tmp_path: Path
) -> None:
    with pytest.raises(ChannelError, match="another process may have joined with the same key"):
        serve_site(Never(), network.keys["north"], channel.address, tmp_path, join_s=1.0)
    assert channel.ask({"north": b"ab"}, 30.0) == {"north": b"ba"}


def test_a_client_without_tls_gets_nothing(channel: FlowerChannel) -> None:
    host, port = channel.address.split(":")
    with socket.create_connection((host, int(port)), timeout=5) as plain:
        plain.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        with suppress(ConnectionResetError):
            assert b"HTTP" not in plain.recv(1000)


def test_a_registered_key_alone_is_no_signature(network: Network, channel: FlowerChannel, tmp_path: Path) -> None:
    stranger = load_pem_private_key(make_site_files(tmp_path, "stranger", network.files.ca).key.read_bytes(), None)
    north = load_pem_private_key(network.keys["north"].key.read_bytes(), None).public_key()
    claims = [RuntimeVersionHttpInterceptor("SuperNode"), NodeAuthHttpInterceptor(stranger, north)]
    with connected(FleetHttpClient, channel.address, network.files.ca, claims) as client:
        request = ActivateNodeRequest(public_key=network.keys["north"].public_key.read_bytes(), heartbeat_interval=10)
        assert status_of(lambda: client.ActivateNode(request)) == 401


def test_a_site_cannot_fetch_what_another_is_sent(network: Network, channel: FlowerChannel) -> None:
    node_ids = {name: node_id for node_id, name in channel._site_of.items()}
    with connected(FleetHttpClient, channel.address, network.files.ca, signed_by(network.keys["north"])) as client:
        request = PullMessagesRequest(node=Node(node_id=node_ids["south"]))
        threading.Timer(0.5, channel.ask, ({"west": b""}, 30.0)).start()  # whoever asks waits until something is sent
        assert status_of(lambda: client.PullMessages(request)) == 401


def test_nobody_but_the_server_registers_keys_or_touches_the_run(network: Network, channel: FlowerChannel) -> None:
    ca, versions = network.files.ca, [RuntimeVersionHttpInterceptor("stranger")]
    key = network.keys["north"].public_key.read_bytes()
    with connected(ControlHttpClient, channel.address, ca, versions) as control:
        assert status_of(lambda: control.RegisterNode(RegisterNodeRequest(public_key=key))) == 403
        assert status_of(lambda: control.StopRun(StopRunRequest(run_id=1))) == 403
    with connected(RuntimeHttpClient, channel.address, ca, versions) as runtime:
        asked = AcquireTaskRequest(supported_task_types=["flwr-serverapp"])
        assert status_of(lambda: runtime.AcquireTask(asked)) == 403
    with connected(ControlHttpClient, channel.address, ca, signed_by(network.keys["north"])) as site:
        assert status_of(lambda: site.StopRun(StopRunRequest(run_id=1))) == 403


def test_keys_are_their_owners_alone_and_the_home_folder_stays_empty(network: Network, channel: FlowerChannel) -> None:
    channel.ask(dict.fromkeys(SITES, b"x"), 30.0)
    private = [network.files.key, *(files.key for files in network.keys.values())]
    assert {path.stat().st_mode & 0o777 for path in private} == {0o600}
    assert list((network.folder / "home").rglob("*")) == []


def test_no_process_of_a_channel_talks_to_another_machine(channel: FlowerChannel) -> None:
    channel.ask(dict.fromkeys(SITES, b"x"), 30.0)
    site = int(channel.ask({"north": b"pid:"}, 30.0)["north"])
    ends = {end for pid in (channel.superlink_pid, site, *children(site)) for end in ends_of(pid)}
    assert ends == {"0100007F", "00000000"}  # 127.0.0.1, and nobody: a socket that listens


def test_missing_sites_are_named(tmp_path: Path) -> None:
    with Network(tmp_path).channel() as channel, pytest.raises(ChannelError, match="missing=north, south, west did"):
        channel.wait_for_sites(0.5)


def test_two_sites_with_one_key_are_refused(tmp_path: Path) -> None:
    key = make_site_files(tmp_path, "north", tmp_path / "ca.pem").public_key
    with pytest.raises(JobError, match="two of them share one"):
        FlowerChannel(ServerFiles(tmp_path, tmp_path, tmp_path), {"north": key, "south": key}, tmp_path)


def test_a_channel_without_a_certificate_does_not_open_and_leaves_no_process(tmp_path: Path) -> None:
    network = Network(tmp_path, ("north",))
    network.files.certificate.write_text("none")
    before = set(children(os.getpid()))
    with pytest.raises(ChannelError, match="the SuperLink did not start"), network.channel():
        pass
    assert set(children(os.getpid())) <= before
