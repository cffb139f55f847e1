"""Seconds of one exchange between a server and its sites over Flower, with real processes and TLS on loopback.

Every site is a process that sends back what it is sent; nothing else is computed. The seconds are therefore those of
the transport. Processors' seconds are those of the server's process, which all messages pass.

Run as ``python -m benchmarks.sites_transport --sites 10 --bytes 1000000``.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from understudy.extras.sites.channel import make_server_files, make_site_files
from understudy.extras.sites.flower import FlowerChannel, serve_site

TIMEOUT_S = 120.0


class Echo:
    """A respondent that sends back what it is sent."""

    def answer(self, request: bytes) -> bytes:
        """The request."""
        return request


def main() -> None:
    """Print the median and the longest of some exchanges, after one that does not count."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sites", type=int, default=10)
    parser.add_argument("--bytes", type=int, default=1_000_000, help="of each request, and of each reply")
    parser.add_argument("--exchanges", type=int, default=20)
    parser.add_argument("--site", nargs=3, metavar=("FOLDER", "NAME", "ADDRESS"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.site:
        folder, name, address = Path(chosen.site[0]), chosen.site[1], chosen.site[2]
        serve_site(Echo(), folder / "ca.pem", folder / f"{name}.key", address, wait_s=TIMEOUT_S)
        return
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), chosen.sites, chosen.bytes, chosen.exchanges)


def measure(folder: Path, n_sites: int, n_bytes: int, n_exchanges: int) -> None:
    """Start the sites, exchange messages with all of them at once, and print what that took."""
    make_server_files(folder)
    names = [f"site{number}" for number in range(n_sites)]
    for name in names:
        make_site_files(folder, name)
    began = time.monotonic()
    with ExitStack() as until_the_end:
        channel = FlowerChannel(folder, names)
        until_the_end.enter_context(channel)
        up_s = time.monotonic() - began
        for name in names:
            command = [sys.executable, "-m", "benchmarks.sites_transport", "--site", str(folder), name, channel.address]
            site = subprocess.Popen(command)
            until_the_end.callback(site.kill)
        channel.wait(n_sites, TIMEOUT_S)
        joined_s = time.monotonic() - began
        exchange(channel, n_bytes)
        before = time.process_time()
        took = [exchange(channel, n_bytes) for _ in range(n_exchanges)]
        own_s = (time.process_time() - before) / n_exchanges
    print(f"sites {n_sites}, bytes each way {n_bytes:,}, exchanges {n_exchanges}, cores {os.cpu_count()}")
    print(f"server up after {up_s:.1f} s, all sites after {joined_s:.1f} s")
    print(f"an exchange: median {statistics.median(took):.3f} s, longest {max(took):.3f} s")
    print(f"of processors: {own_s:.3f} s; the machine's load {os.getloadavg()[0]:.1f}")


def exchange(channel: FlowerChannel, n_bytes: int) -> float:
    """Seconds until every site has sent back bytes of its own."""
    requests = {name: os.urandom(n_bytes) for name in channel.sites}
    began = time.monotonic()
    if channel.ask(requests, TIMEOUT_S) != requests:
        raise RuntimeError("a site did not send back what it was sent")
    return time.monotonic() - began


if __name__ == "__main__":
    main()
