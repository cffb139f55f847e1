"""One point of the neural benchmark, in a process of its own: one fit, encoding or count, and one line of JSON.

``python -m benchmarks.neural_point POINT TABLE``, where POINT is a JSON object of `Point`'s fields and TABLE is Adult's.
"""

import json
import os
import resource
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from threadpoolctl import threadpool_limits

from benchmarks.adult_table import DELTA, Adult, read_adult
from benchmarks.scoring import Scorer

BATCH = 500
"""Rows of a batch, unless a private fit sets its own."""
LIBRARY = "ctgan."
"""Before a class of the library `ctgan`; any other name is of our registry."""
GAP = "(missing)"
"""What the library gets where a category is missing, since it takes no gaps."""

Sample = Callable[[int, int], pd.DataFrame]
"""A table of so many rows, from a seed."""


@dataclass(frozen=True)
class Point:
    """What is measured.

    Attributes:
        task: one of `TASKS`.
        generator: of our registry, or a class of the library `ctgan`.
        epochs: of a fit.
        epsilon: of a private fit; none trains without privacy.
        seed: of the fit and the sample.
        threads: of every library that has them.
        rows: of a made table.
    """

    task: str
    generator: str = ""
    epochs: int = 0
    epsilon: float | None = None
    seed: int = 0
    threads: int = 1
    rows: int = 0

    @property
    def name(self) -> str:
        """The same for repeats of a point, whatever their seed and epsilon."""
        said = {"epochs": self.epochs, "rows": self.rows, "threads": self.threads}
        return ", ".join([f"{self.task} {self.generator}".strip(), *(f"{n} {what}" for what, n in said.items() if n)])


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


def fit_point(point: Point, adult: Adult) -> dict[str, Any]:
    """Seconds of one fit, encoding included; imports and first calls are not."""
    fit_generator(point, adult.train.head(2 * BATCH), adult, epochs=1)
    watch = Watch()
    fit_generator(point, adult.train, adult, point.epochs)
    seconds, used = watch.read()
    return {"fit_s": seconds, "fit_cpu_s": used, "scores": {"peak_mb": peak_mb()}}


def quality_point(point: Point, adult: Adult) -> dict[str, Any]:
    """One fit, a sample of as many rows, and its scores."""
    watch = Watch()
    sample, facts = fit_generator(point, adult.train, adult, point.epochs)
    seconds, used = watch.read()
    synthetic = sample(len(adult.train), point.seed)
    sample_s, _ = watch.read()
    facts["peak_mb"] = peak_mb()
    with threadpool_limits(1):  # many threads on few cores wait for each other most of the time
        facts |= vars(Scorer(adult.train, adult.test, adult.target).score(synthetic))
    return {"fit_s": seconds, "fit_cpu_s": used, "sample_s": sample_s, "scores": facts}


def encode_point(point: Point, adult: Adult) -> dict[str, Any]:
    """Seconds of the encoding alone, its fit included."""
    encode = _encode_library if point.generator.startswith(LIBRARY) else encode_ours
    encode(adult.train.head(2 * BATCH), adult)
    watch = Watch()
    encode(adult.train, adult)
    seconds, used = watch.read()
    return {"fit_s": seconds, "fit_cpu_s": used, "scores": {"peak_mb": peak_mb()}}


def flops_point(point: Point, adult: Adult) -> dict[str, Any]:
    """Floating-point operations in the matrix products of one epoch, counted as they are dispatched."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        fit_generator(point, adult.train, adult, epochs=1)
    gflop = counter.get_total_flops() / 1e9
    return {"scores": {"epoch_gflop": gflop, "step_gflop": gflop * BATCH / len(adult.train)}}


def matmul_point(point: Point, adult: Adult) -> dict[str, Any]:
    """Float32 matrix products a second: large squares, and the shapes of a network's layer."""
    import torch

    rates = {}
    for name, shape in {"square": (2048, 2048, 2048), "layer": (BATCH, 512, 256)}.items():
        left, right = torch.rand(shape[0], shape[1]), torch.rand(shape[1], shape[2])
        gflop = 2e-9 * shape[0] * shape[1] * shape[2]
        times = [_product_s(left, right, repeats=max(1, int(20 / gflop))) for _ in range(5)]
        rates[f"{name}_gflops"] = gflop / min(times)
    return {"scores": rates}


def _product_s(left: Any, right: Any, repeats: int) -> float:
    started = time.perf_counter()
    for _ in range(repeats):
        left @ right
    return (time.perf_counter() - started) / repeats


def fit_generator(point: Point, train: pd.DataFrame, adult: Adult, epochs: int) -> tuple[Sample, dict[str, float]]:
    """A fitted generator's sampling, and what its statement says in numbers."""
    if point.generator.startswith(LIBRARY):
        return _fit_library(point, train, epochs), {}
    return _fit_ours(point, train, adult, epochs)


def _fit_ours(point: Point, train: pd.DataFrame, adult: Adult, epochs: int) -> tuple[Sample, dict[str, float]]:
    from synth.generators.registry import generator

    privacy = {} if point.epsilon is None else {"epsilon": point.epsilon, "delta": DELTA}
    specification = generator(point.generator, epochs=epochs, **privacy)
    model: Any = specification.fit(train, adult.plain, seed=point.seed)
    return (lambda n, seed: model.sample(n, seed=seed)), {}


def _fit_library(point: Point, train: pd.DataFrame, epochs: int) -> Sample:
    import ctgan

    rows, texts = _for_library(train)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = getattr(ctgan, point.generator.removeprefix(LIBRARY))(epochs=epochs)
        model.set_random_state(point.seed)
        model.fit(rows, texts)
    return lambda n, _: model.sample(n).replace({name: {GAP: None} for name in texts})


def _for_library(train: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Rows without gaps, and the names of the columns with categories."""
    texts = list(train.select_dtypes(exclude="number").columns)
    return train.assign(**{name: train[name].fillna(GAP) for name in texts}), texts


def _encode_library(train: pd.DataFrame, adult: Adult) -> None:
    from ctgan.data_transformer import DataTransformer

    rows, texts = _for_library(train)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        transformer = DataTransformer()
        transformer.fit(rows, texts)
        transformer.transform(rows)


def encode_ours(train: pd.DataFrame, adult: Adult) -> None:
    import numpy as np

    from synth.observed import observe
    from synth.table import conform
    from synth.transforms.modal import ModalEncoding

    rng = np.random.default_rng(0)
    rows = conform(train, adult.plain, part=True)
    ModalEncoding.fit(rows, observe(adult.plain, rows), rng).apply(rows, rng)


def peak_mb() -> float:
    """Most memory that the process has held so far; Linux counts it in KiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def _used_s() -> float:
    """Processor seconds of this process, of children that ended and of those that live (a pool's workers)."""
    times = os.times()
    ticks = 0
    for child in Path("/proc/self/task").glob("*/children"):
        for pid in child.read_text().split():
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
    return time.process_time() + times.children_user + times.children_system + ticks / os.sysconf("SC_CLK_TCK")


TASKS = {
    "fit": fit_point,
    "quality": quality_point,
    "encode": encode_point,
    "flops": flops_point,
    "matmul": matmul_point,
}

if __name__ == "__main__":
    chosen = Point(**json.loads(sys.argv[1]))
    print(json.dumps(TASKS[chosen.task](chosen, read_adult(Path(sys.argv[2])))))
