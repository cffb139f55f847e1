"""Servers and sites in processes of their own, for tests. As a program: `site FOLDER NAME ADDRESS`, `server FOLDER`."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from understudy.extras.sites import flower, joining
from understudy.extras.sites.credentials import make_server_files, make_site_files
from understudy.extras.sites.flower import FlowerChannel
from understudy.extras.sites.joining import serve_site

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
            case [b"hold", path]:
                Path(path.decode()).touch()
                while Path(path.decode()).exists():
                    time.sleep(0.01)
            case [b"fail", text]:
                raise RuntimeError(text.decode())
            case [b"count", _]:
                return b"%d" % self.n_requests
            case [b"pid", _]:
                return b"%d" % os.getpid()
        return request[::-1]


class Network:
    """A server's files, its sites' keys, and the processes that were started with them."""

    def __init__(self, folder: Path, sites: tuple[str, ...] = SITES) -> None:
        self.folder, self.sites = folder, sites
        make_server_files(folder)
        for name in sites:
            make_site_files(folder, name)
        self.received: list[tuple[str, str, bytes]] = []

    def channel(self, port: int = 0) -> FlowerChannel:
        record = lambda *payload: self.received.append(payload)  # noqa: E731
        return FlowerChannel(self.folder, self.sites, port=port, recorder=record)

    def start_site(self, name: str, address: str) -> "subprocess.Popen[bytes]":
        return run_driver("site", str(self.folder), name, address)


def run_driver(*arguments: str) -> "subprocess.Popen[bytes]":
    root = str(Path(__file__).parents[3])
    command = [sys.executable, "-m", "tests.extras.sites.networks", *arguments]
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": root})


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
    sites: dict[str, subprocess.Popen[bytes]] = {}
    try:
        with network.channel() as channel:
            sites |= {name: network.start_site(name, channel.address) for name in network.sites}
            assert channel.wait(len(sites), JOIN_S)
            yield channel, sites
    finally:
        with ended(*sites.values()):
            pass


def until(true: Callable[[], bool], within_s: float) -> bool:
    end = time.monotonic() + within_s
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def main(kind: str, at: str, *more: str) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    folder = Path(at)
    flower.HEARTBEAT_S = joining.HEARTBEAT_S = 10  # the least that Flower takes
    if kind == "site":
        name, address = more

        def say(sentence: str) -> None:
            with (folder / f"{name}.said").open("a") as file:
                file.write(f"{sentence}\n")

        serve_site(Obedient(), folder / "ca.pem", folder / f"{name}.key", address, wait_s=JOIN_S, say=say)
        return
    with FlowerChannel(folder, [path.stem for path in folder.glob("*.pub")]) as channel:
        (folder / "address").write_text(channel.address)
        with suppress(KeyboardInterrupt):
            time.sleep(600)


if __name__ == "__main__":
    main(*sys.argv[1:])
