"""CTGAN and TVAE, ours and the library `ctgan`'s: seconds, arithmetic, quality, privacy, memory, and private peers.

``python -m benchmarks.neural TABLE --out neural.json``, where TABLE is UCI's ``adult.data``. Every measurement is a
process of its own and is written as soon as it is done; what the file holds is not done again, so that a run can be cut
and taken up. ``python -m benchmarks.neural --out neural.json`` only draws the tables; ``--only`` takes some parts.
"""

import argparse
import datetime
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path

from benchmarks.neural_peers import PRIVATE_PEERS
from benchmarks.neural_point import LIBRARY, NETWORKS, Point
from benchmarks.neural_table import draw
from benchmarks.runs import Results, Run

PEERS = ("ctgan.CTGAN", "ctgan.TVAE")
GENERATORS = tuple(name for pair in zip(NETWORKS, PEERS, strict=True) for name in pair)
DEVICES = ("auto", "cpu", "cuda")
CLIPPED = "tvae"
"""The network whose gradients are clipped, in two ways; a row's gradient of CTGAN's critic has one norm."""
EPSILONS, PEER_EPSILONS = (10.0, 3.0, 1.0), (1.0, 3.0)
SCORING_S = 300.0
"""A peer that is stopped leaves time to say so, and one that is not, to be scored."""
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "LOKY_MAX_CPU_COUNT")
"""What holds libraries to a number of threads, and the pool of the library's encoding to as many processes."""


def main(arguments: Sequence[str]) -> None:
    options = _options(arguments)
    results = Results(options.out)
    if options.table is not None:
        results.about = _machine() | results.about
        if options.again:
            results.runs = [run for run in results.runs if run.failure is None]
        for part in options.only:
            for point in PARTS[part](options):
                _once(results, point, options)
    print(draw(results))


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks.neural", description=__doc__)
    parser.add_argument("table", nargs="?", type=Path, help="adult.data; none only draws what --out holds")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="parts; unless said, all")
    parser.add_argument("--generators", nargs="+", default=list(GENERATORS), help=f"unless said, {GENERATORS}")
    parser.add_argument("--epochs", type=int, default=20, help="of fits that are timed")
    parser.add_argument("--quality-epochs", type=int, default=100, help="of fits that are scored")
    parser.add_argument("--repeats", type=int, default=3, help="of fits that are timed")
    parser.add_argument("--seeds", type=int, default=3, help="of fits that are scored")
    parser.add_argument("--threads", type=int, default=1, help="of timed fits")
    parser.add_argument("--device", choices=DEVICES, default="auto", help="of networks; auto is the GPU where one is")
    parser.add_argument("--rows", type=int, default=10_000_000, help="of the table whose memory is measured")
    parser.add_argument("--limit-s", type=float, default=3600.0, help="seconds of one fit at most")
    parser.add_argument("--again", action="store_true", help="measure once more what failed")
    parser.add_argument("--out", type=Path, help="JSON file of the results, read and continued")
    return parser.parse_args(arguments)


def _fit_time(options: argparse.Namespace) -> Iterator[Point]:
    """Ours and theirs in turn, so that a busier hour slows both; then what the arithmetic alone would take."""
    for seed in range(options.repeats):
        for name in options.generators:
            yield Point("fit", name, epochs=options.epochs, seed=seed, threads=options.threads, device=options.device)
        for name in options.generators:
            if name.lower().endswith("ctgan"):  # both networks of a maker get the same encoding
                yield Point("encode", name, seed=seed, threads=options.threads)
    yield Point("matmul", threads=options.threads, device=options.device)
    for name in options.generators:
        yield Point("flops", name)


def _quality(options: argparse.Namespace) -> Iterator[Point]:
    for seed in range(options.seeds):
        for name in options.generators:
            yield Point("quality", name, epochs=options.quality_epochs, seed=seed, device=options.device)


def _epsilon(options: argparse.Namespace) -> Iterator[Point]:
    """Private fits; those without privacy are the part `quality`'s."""
    for seed in range(options.seeds):
        for epsilon in EPSILONS:
            for name in _ours(options):
                yield Point("quality", name, epsilon=epsilon, seed=seed, device=options.device)


def _private_time(options: argparse.Namespace) -> Iterator[Point]:
    """Whole private fits by each way to clip gradients."""
    for seed in range(options.repeats):
        for name in _ours(options):
            for way in ("", "opacus") if name == CLIPPED else ("",):
                yield Point(
                    "fit", name, epsilon=1.0, seed=seed, threads=options.threads, device=options.device, backend=way
                )


def _overhead(options: argparse.Namespace) -> Iterator[Point]:
    for seed in range(options.repeats):
        yield Point("overhead", CLIPPED, seed=seed, threads=options.threads, device=options.device)


def _memory(options: argparse.Namespace) -> Iterator[Point]:
    for name in _ours(options):
        yield Point("memory", name, rows=options.rows)


def _peers(options: argparse.Namespace) -> Iterator[Point]:
    for epsilon in PEER_EPSILONS:
        for name in PRIVATE_PEERS:
            yield Point("peer", name, epsilon=epsilon, limit_s=options.limit_s)


def _ours(options: argparse.Namespace) -> list[str]:
    return [name for name in options.generators if not name.startswith(LIBRARY)]


PARTS: Mapping[str, Callable[[argparse.Namespace], Iterator[Point]]] = {
    "fit-time": _fit_time,
    "quality": _quality,
    "epsilon": _epsilon,
    "private-time": _private_time,
    "overhead": _overhead,
    "memory": _memory,
    "peers": _peers,
}


def _once(results: Results, point: Point, options: argparse.Namespace) -> None:
    """Do a measurement unless it is there, and say so."""
    if results.has(point.name, point.epsilon, point.seed):
        return
    run = _measure(point, options.table, options.limit_s + SCORING_S)
    results.add(run)
    seconds = "" if run.fit_s is None else f"{run.fit_s:.1f} s, {run.fit_cpu_s:.1f} CPU s"
    print(f"{point.name}, epsilon {point.epsilon}, run {point.seed}: {run.failure or seconds}", file=sys.stderr)


def _measure(point: Point, table: Path, limit_s: float) -> Run:
    """One point in a process of its own; what goes wrong is a result too."""
    run = Run(point.name, point.epsilon, point.seed)
    command = [sys.executable, "-m", "benchmarks.neural_task", json.dumps(vars(point)), str(table.resolve())]
    environment = {**os.environ, **dict.fromkeys(THREADS, str(point.threads))}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=limit_s, env=environment, cwd=Path(__file__).parent.parent
        )
    except subprocess.TimeoutExpired:
        return replace(run, failure=f"stopped after {limit_s:.0f} s")
    if done.returncode == 0:
        return replace(run, **json.loads(done.stdout.splitlines()[-1]))
    return replace(run, failure=f"failed: {(done.stderr.strip().splitlines() or ['nothing was said'])[-1][:100]}")


def _machine() -> dict[str, object]:
    import torch

    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    versions = {name: metadata.version(name) for name in ("torch", "ctgan")}
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    gpu = {"gpu": torch.cuda.get_device_name()} if torch.cuda.is_available() else {}
    return {"cpu": model, **gpu, "neural_versions": versions, "date": date}


if __name__ == "__main__":
    main(sys.argv[1:])
