"""Servers and sites in processes of their own, for tests."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from understudy.sites.flower.credentials import make_server_files, make_site_files
from understudy.sites.flower.server import FlowerChannel

HERE = Path(__file__).parent
SITES = ("north", "south", "west")
JOIN_S = 60.0


class Network:
    """A server's files, its sites' keys, and the processes that were started with them."""

    def __init__(self, folder: Path, sites: tuple[str, ...] = SITES) -> None:
        self.folder = folder
        self.files = make_server_files(folder)
        self.keys = {name: make_site_files(folder, name, self.files.ca) for name in sites}
        self.received: list[tuple[str, str, bytes]] = []

    def channel(self) -> FlowerChannel:
        public = {name: files.public_key for name, files in self.keys.items()}
        return FlowerChannel(
            self.files, public, self.folder / "server", recorder=lambda *payload: self.received.append(payload)
        )

    def start_site(self, name: str, address: str) -> "subprocess.Popen[bytes]":
        return run_driver("site_driver.py", str(self.folder), name, address)


def run_driver(name: str, *arguments: str) -> "subprocess.Popen[bytes]":
    root = str(HERE.parents[2])
    return subprocess.Popen([sys.executable, str(HERE / name), *arguments], env={**os.environ, "PYTHONPATH": root})


@contextmanager
def ended(*processes: "subprocess.Popen[bytes]") -> Iterator[None]:
    """No process of a test outlives it."""
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


@contextmanager
def joined(network: Network) -> Iterator[tuple[FlowerChannel, dict[str, "subprocess.Popen[bytes]"]]]:
    """An open channel at which every site is."""
    with network.channel() as channel:
        sites = {name: network.start_site(name, channel.address) for name in network.keys}
        with ended(*sites.values()):
            channel.wait_for_sites(JOIN_S)
            yield channel, sites


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_alive(pid: int) -> bool:
    with suppress(FileNotFoundError, ProcessLookupError):
        return ") Z" not in Path(f"/proc/{pid}/stat").read_text()
    return False


def until(true: Callable[[], bool], within_s: float) -> bool:
    end = time.monotonic() + within_s
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True
