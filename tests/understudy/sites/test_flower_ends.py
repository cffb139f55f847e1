"""The ends of processes of a channel over Flower: no reply from the dead, and nothing is left behind."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="the extra `sites` is not installed")

from tests.understudy.sites.networks import JOIN_S, Network, children, ended, is_alive, joined, run_driver, until

pytestmark = pytest.mark.statistical


def test_a_killed_site_has_no_reply_within_seconds_and_may_join_again(tmp_path: Path) -> None:
    network = Network(tmp_path, ("north", "south"))
    with joined(network) as (channel, sites):
        threading.Timer(1.0, sites["north"].kill).start()
        began = time.monotonic()
        assert channel.ask({"north": b"sleep:60", "south": b"ab"}, 60.0) == {"south": b"ba"}
        assert time.monotonic() - began < 30.0
        assert channel.ask({"north": b"x", "south": b"y"}, 30.0) == {"south": b"y"}
        with ended(network.start_site("north", channel.address)):
            channel.wait_for_sites(JOIN_S)
            assert channel.ask({"north": b"count:"}, 30.0) == {"north": b"1"}


def test_a_site_whose_machine_falls_silent_has_no_reply_within_seconds(tmp_path: Path) -> None:
    network = Network(tmp_path, ("north", "south"))
    with joined(network) as (channel, sites), ExitStack() as awake:
        stopped = [sites["north"].pid, *children(sites["north"].pid)]
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
            awake.callback(os.kill, pid, signal.SIGCONT)
        began = time.monotonic()
        assert channel.ask({"north": b"x", "south": b"ab"}, 60.0) == {"south": b"ba"}
        assert time.monotonic() - began < 30.0


def test_sites_leave_when_the_channel_closes(tmp_path: Path) -> None:
    network = Network(tmp_path, ("north", "south"))
    before = set(children(os.getpid()))
    with network.channel() as channel:
        sites = [network.start_site(name, channel.address) for name in network.keys]
        channel.wait_for_sites(JOIN_S)
    assert [site.wait(30) for site in sites] == [0, 0]
    assert set(children(os.getpid())) <= before


def test_a_site_whose_supernode_is_killed_has_no_reply_within_seconds_and_says_so(tmp_path: Path) -> None:
    network = Network(tmp_path, ("north", "south"))
    with joined(network) as (channel, sites):
        (supernode,) = children(sites["north"].pid)
        threading.Timer(0.5, os.kill, (supernode, signal.SIGKILL)).start()
        began = time.monotonic()
        assert channel.ask({"north": b"sleep:2", "south": b"ab"}, 60.0) == {"south": b"ba"}
        assert time.monotonic() - began < 30.0
        assert sites["north"].wait(30) == 1
        assert is_alive(sites["south"].pid)


def test_no_process_outlives_a_server_or_a_site_that_is_killed(tmp_path: Path) -> None:
    with served(tmp_path) as (server, sites):
        (supernode,), (superlink,) = children(sites[0].pid), children(server.pid)
        sites[0].kill()
        assert until(lambda: not is_alive(supernode), 30)
        server.kill()
        assert until(lambda: not is_alive(superlink), 30)
        assert sites[1].wait(60) == 1  # it asks for ten seconds whether the server is there again


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT])
def test_no_process_outlives_a_server_or_a_site_that_is_told_to_end(tmp_path: Path, end: signal.Signals) -> None:
    with served(tmp_path) as (server, sites):
        (supernode,), (superlink,) = children(sites[0].pid), children(server.pid)
        sites[0].send_signal(end)
        assert until(lambda: not is_alive(supernode), 30)
        server.send_signal(end)
        assert until(lambda: not is_alive(superlink), 30)


@contextmanager
def served(folder: Path) -> Iterator[tuple["subprocess.Popen[bytes]", list["subprocess.Popen[bytes]"]]]:
    """A server in a process of its own, with two sites at it."""
    network = Network(folder, ("north", "south"))
    server = run_driver("server_driver.py", str(folder), *network.keys)
    with ended(server):
        address = folder / "address"
        assert until(lambda: address.exists() and address.read_text() != "", 60)
        sites = [network.start_site(name, address.read_text()) for name in network.keys]
        with ended(*sites):
            assert until((folder / "ready").exists, 60)
            yield server, sites
