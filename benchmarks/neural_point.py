"""What the neural benchmark measures in one process: a point, and what counts seconds and memory."""

import os
import resource
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

BATCH = 500
"""Rows of a step, unless a private fit sets its own."""
NETWORKS = ("ctgan", "tvae")
LIBRARY = "ctgan."
"""Before a class of the library `ctgan`; any other name is of our registry or of a private peer."""


@dataclass(frozen=True)
class Point:
    """What is measured.

    Attributes:
        task: one of those that `neural_task` knows.
        generator: of our registry, a class of the library `ctgan`, or a private peer.
        epochs: of a fit without privacy.
        epsilon: of a private fit; none trains without privacy.
        seed: of the fit and the sample; a private fit takes it for the sample alone.
        threads: of every library that has them.
        rows: of a made table.
        limit_s: seconds after which a peer's own process is stopped.
        device: of the networks; auto is the GPU where there is one.
        backend: that clips the gradients of a private TVAE. Empty: as it comes.
    """

    task: str
    generator: str = ""
    epochs: int = 0
    epsilon: float | None = None
    seed: int = 0
    threads: int = 1
    rows: int = 0
    limit_s: float = 600.0
    device: Literal["auto", "cpu", "cuda"] = "auto"
    backend: str = ""

    @property
    def name(self) -> str:
        """The same for repeats of a point, whatever their seed and epsilon."""
        options = {"epochs": self.epochs, "rows": self.rows, "threads": self.threads}
        counts = [f"{n} {what}" for what, n in options.items() if n]
        asked = [self.backend] * bool(self.backend) + [f"on {self.device}"] * (self.device != "auto")
        return ", ".join([f"{self.task} {self.generator}".strip(), *counts, *asked])


class Watch:
    """Seconds, and processor seconds of this process and its children, since it was made or last read."""

    def __init__(self) -> None:
        self._before = time.perf_counter(), _used_s()

    def read(self) -> tuple[float, float]:
        """Seconds and processor seconds; counting starts anew."""
        now = time.perf_counter(), _used_s()
        passed = now[0] - self._before[0], now[1] - self._before[1]
        self._before = now
        return passed


def peak_mib() -> float:
    """Most memory that the process has held so far; Linux counts it in KiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _used_s() -> float:
    """Processor seconds of this process, of children that ended and of those that live (a pool's workers)."""
    times = os.times()
    ticks = 0
    for listed in Path("/proc/self/task").glob("*/children"):
        for pid in listed.read_text().split():
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
    return time.process_time() + times.children_user + times.children_system + ticks / os.sysconf("SC_CLK_TCK")
