"""What bounds a training: arithmetic against what the machine can do, memory of many rows, and the cost of DP-SGD."""

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

from benchmarks.adult_table import Adult
from benchmarks.neural_fits import fit_generator
from benchmarks.neural_point import BATCH, Point, Watch, peak_mib
from synth.table.rows import observe

N_COLUMNS, N_STEPS, N_ROUNDS = 15, 10, 3
"""Of the made table; steps that are timed together; how often, each way in turn."""


def flops_point(point: Point, adult: Adult) -> dict[str, Any]:
    """Floating-point operations in the matrix products of one epoch, counted as they are dispatched."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        fit_generator(point, adult, adult.train, epochs=1)
    gflop = counter.get_total_flops() / 1e9
    return {"scores": {"epoch_gflop": gflop, "step_gflop": gflop * BATCH / len(adult.train)}}


def matmul_point(point: Point, adult: Adult) -> dict[str, Any]:
    """Float32 operations a second in matrix products of large squares and of a layer's shapes, all threads busy."""
    import torch

    from synth.neural.training import device_of

    device, rates = device_of(point.device), {}
    for name, (rows, inner, columns) in {"square": (2048, 2048, 2048), "layer": (BATCH, 512, 256)}.items():
        left, right = torch.rand(rows, inner, device=device), torch.rand(inner, columns, device=device)
        gflop, n_busy = 2e-9 * rows * inner * columns, point.threads if device.type == "cpu" else 1
        repeats = max(1, int((20 if device.type == "cpu" else 2000) / gflop))
        used = min(_busy_seconds(lambda a=left, b=right: a @ b, repeats, device) for _ in range(N_ROUNDS))  # type: ignore[misc]
        rates[f"{name}_gflops"] = gflop * repeats * n_busy / used
    return {"scores": rates}


def _seconds(do: Callable[[], object], times: int) -> float:
    started = time.perf_counter()
    for _ in range(times):
        do()
    return time.perf_counter() - started


def _busy_seconds(do: Callable[[], object], times: int, device: Any) -> float:
    """Processor seconds, so that what else the machine does is none of them; of a GPU those of the clock."""
    import torch

    if device.type == "cpu":
        watch = Watch()
        _seconds(do, times)
        return watch.read()[1]
    torch.cuda.synchronize()
    started = time.perf_counter()
    _seconds(do, times)
    torch.cuda.synchronize()
    return time.perf_counter() - started


def memory_point(point: Point, adult: Adult) -> dict[str, Any]:
    """Peak memory of a made table, of its encoding, and of a few steps on it."""
    import torch

    from benchmarks.growth_table import make_table
    from synth.neural.ctgan import CtganSpec, CtganTraining
    from synth.neural.encoding import ModalEncoding
    from synth.neural.tvae import TvaeSpec, TvaeTraining
    from synth.table import conform

    table, schema = make_table(point.rows, N_COLUMNS)
    scores, rng, watch = {"table_mib": peak_mib()}, np.random.default_rng(0), Watch()
    rows = conform(table, schema, part=True)
    encoding = ModalEncoding.fit(rows, observe(schema, rows), rng)
    encoded = encoding.apply(rows)
    seconds, used = watch.read()
    scores |= {"encode_s": seconds, "encode_cpu_s": used, "encode_mib": peak_mib()}
    device, layout = torch.device("cpu"), encoding.layout
    training: Any = (
        CtganTraining(CtganSpec(), encoded, layout, device)
        if point.generator == "ctgan"
        else TvaeTraining(TvaeSpec(), encoded, layout, device)
    )
    scores["ready_s"] = watch.read()[0]
    scores["step_s"] = _seconds(training.step, N_STEPS) / N_STEPS
    scores |= {"peak_mib": peak_mib(), "encoded_mib": (encoded.codes.nbytes + encoded.scalars.nbytes) / 2**20}
    return {"fit_s": seconds, "fit_cpu_s": used, "scores": scores}


def overhead_point(point: Point, adult: Adult) -> dict[str, Any]:
    """Milliseconds a step with DP-SGD, by exact clipping and by Opacus, and of the same step without clip and noise."""
    from synth.neural.training import device_of

    device = device_of(point.device)
    steps = {way: private_step(adult, way, device) for way in ("private", "opacus", "plain")}
    times: dict[str, list[float]] = {way: [] for way in steps}
    for step in steps.values():
        _seconds(step, 2)  # first calls
    for _ in range(N_ROUNDS):
        for way, step in steps.items():
            times[way].append(_busy_seconds(step, N_STEPS, device) / N_STEPS)
    return {"scores": {f"{way}_ms": 1e3 * median(gradients) for way, gradients in times.items()}}


def private_step(adult: Adult, way: str, device: Any) -> Callable[[], None]:
    """A step of private TVAE on Adult's bins, at the usual sampling rate; counts stand in for released ones."""
    from synth.domain import Discretizer
    from synth.dp.events import SubsampledGaussianEvent
    from synth.dp.mechanisms import Steps, SystemNoise
    from synth.generators.neural_generator import PrivateTvae
    from synth.neural.encoding import BinnedEncoding
    from synth.neural.training import UnitIndex
    from synth.neural.tvae import PrivateTvaeSpec, PrivateTvaeTraining
    from synth.table import conform

    encoding = BinnedEncoding(Discretizer.by_schema(adult.binned))
    encoded = encoding.apply(conform(adult.train, adult.binned, part=True))
    layout, n_steps, rate = encoding.layout, 10_000, PrivateTvae.usual_rate
    one_way = [
        np.bincount(encoded.codes[:, position], minlength=size).astype(float)
        for position, size in enumerate(layout.sizes)
    ]
    spec = PrivateTvaeSpec(backend="opacus" if way == "opacus" else "exact")
    units = UnitIndex.of(encoded)
    training: Any = PrivateTvaeTraining(spec, units, layout, one_way, rate * len(encoded), device)
    release: Any = Steps(SubsampledGaussianEvent("steps", 1.0, rate, n_steps), n_steps, SystemNoise())
    if way == "plain":
        training._clipped = _unclipped([*training._encoder.parameters(), *training._decoder.parameters()])
        release = _Noiseless(release)
    return lambda: training.step(release)


def _unclipped(parameters: list[Any]) -> Callable[..., Any]:
    """Sums of gradients as `synth.neural.dp_sgd.ClippedSums` gives them, not clipped."""
    import torch

    def sums(losses: Callable[[], Any], n_units: int, max_grad_norm: float) -> Any:
        gradients = torch.autograd.grad(losses().sum(), parameters)
        return torch.cat([gradient.flatten().double() for gradient in gradients])

    return sums


class _Noiseless:
    """The same samples, and sums as they are."""

    def __init__(self, steps: Any) -> None:
        self._steps = steps

    def sample(self, n_units: int) -> Any:
        return self._steps.sample(n_units)

    def release(self, total: Any, max_grad_norm: float) -> Any:
        return total
