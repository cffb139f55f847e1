"""Sites in processes of their own, for tests. As a program: FOLDER NAME ADDRESS of a site."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from understudy.extras.sites import flower
from understudy.extras.sites.channel import make_server_files, make_site_files
from understudy.extras.sites.flower import FlowerChannel, serve_site

SITES = ("north", "south", "west")
JOIN_S = 60.0


class Obedient:
    """Answers a request by its first word; anything else it turns round."""

    def __init__(self) -> None:
        self.n_requests = 0

    def answer(self, request: bytes) -> bytes:
        self.n_requests += 1
        match request.split(b":", 1):
            case [b"sleep", seconds]:
                time.sleep(float(seconds))
            case [b"fail", text]:
                raise RuntimeError(text.decode())
            case [b"count", _]:
                return b"%d" % self.n_requests
            case [b"pid", _]:
                return b"%d" % os.getpid()
        return request[::-1]


class Network:
    def __init__(self, folder: Path, sites: tuple[str, ...] = SITES) -> None:
        self.folder, self.sites = folder, sites
        make_server_files(folder)
        for name in sites:
            make_site_files(folder, name)
        self.received: list[tuple[str, str, bytes]] = []

    def channel(self) -> FlowerChannel:
        record = lambda *payload: self.received.append(payload)  # noqa: E731
        return FlowerChannel(self.folder, self.sites, recorder=record)

    def start_site(self, name: str, address: str) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "tests.extras.sites.networks", str(self.folder), name, address]
        return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])})


@contextmanager
def ended(*processes: "subprocess.Popen[bytes]") -> Iterator[None]:
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


@contextmanager
def joined(network: Network) -> Iterator[tuple[FlowerChannel, dict[str, "subprocess.Popen[bytes]"]]]:
    sites: dict[str, subprocess.Popen[bytes]] = {}
    try:
        with network.channel() as channel:
            sites |= {name: network.start_site(name, channel.address) for name in network.sites}
            assert channel.wait(len(sites), JOIN_S)
            yield channel, sites
    finally:
        with ended(*sites.values()):
            pass


def main(folder: str, name: str, address: str) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    flower.HEARTBEAT_S = 10  # the least that Flower takes
    files = Path(folder)
    serve_site(Obedient(), files / "ca.pem", files / f"{name}.key", address, wait_s=JOIN_S)


if __name__ == "__main__":
    main(*sys.argv[1:])
