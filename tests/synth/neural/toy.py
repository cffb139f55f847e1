"""A small table, both private trainings on it, and a purse that shows what they ask for."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from synth.neural.dp_ctgan import PairCritic, PrivateCtganSpec, PrivateCtganTraining
from synth.neural.dp_sgd import Clipping
from synth.neural.encoding import Encoded, Layout, Span
from synth.neural.networks import Spans
from synth.neural.training import UnitIndex
from synth.neural.tvae import PrivateTvaeSpec, PrivateTvaeTraining

LAYOUT = Layout((Span("x", 4, True), Span("y", 3, True), Span("z", 2, True)))
ONE_WAY = [np.array([20.0, 5.0, 10.0, 10.0]), np.array([-2.0, 30.0, 15.0]), np.array([9.0, 36.0])]
N_UNITS, EXPECTED = 30, 8.0
EVERYONE = range(N_UNITS)
MIXED = Layout((Span("a", 3, whole=True), Span("x", 4, whole=False), Span("b", 2, whole=True)), ("x",))
CPU = torch.device("cpu")
KINDS = ("ctgan", "tvae")
CLOSE = {"atol": 1e-6, "rtol": 1e-6}
Training = PrivateCtganTraining | PrivateTvaeTraining


def encoded(codes: np.ndarray, n_scalars: int = 0) -> Encoded:
    return Encoded(codes.astype(np.int32), np.zeros((len(codes), n_scalars), np.float32))


def rows_of(layout: Layout, n: int) -> Encoded:
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(0, size, n) for size in layout.sizes], 1).astype(np.int32)
    return Encoded(codes, rng.uniform(-1, 1, (n, len(layout.scalars))).astype(np.float32))


def seeded_steps(training: Any, n: int, seed: int = 1) -> list[dict[str, Tensor]]:
    """The losses of so many steps without privacy."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return [training.step() for _ in range(n)]


def units(k: int = 1, seed: int = 0, n_units: int = N_UNITS, layout: Layout = LAYOUT) -> UnitIndex:
    """Units with 1 to k rows each."""
    rng = np.random.default_rng(seed)
    owner = np.repeat(np.arange(n_units), rng.integers(1, k + 1, n_units))
    codes = np.stack([rng.integers(0, size, len(owner)) for size in layout.sizes], axis=1)
    return UnitIndex.of(encoded(codes), owner if k > 1 else None, k)


def training(kind: str, table: UnitIndex, max_rows: int = 8192, **settings: Any) -> Training:
    """The same networks every time: torch's generator is seeded."""
    torch.manual_seed(0)
    settings |= {"max_rows_per_pass": max_rows}
    if kind == "tvae":
        tvae = PrivateTvaeSpec(**{"encoder_widths": (28, 28), "decoder_widths": (24, 24), "d_latent": 3, **settings})
        return PrivateTvaeTraining(tvae, table, LAYOUT, ONE_WAY, EXPECTED, CPU)
    ctgan = PrivateCtganSpec(**{"generator_widths": (16, 16), "d_latent": 4, "n_steps": 40, **settings})
    return PrivateCtganTraining(ctgan, table, LAYOUT, ONE_WAY, EXPECTED, CPU)


def reader(trained: Training) -> Any:
    """The part of a training that reads real rows."""
    return trained if isinstance(trained, PrivateTvaeTraining) else trained.critic


def still(trained: PrivateTvaeTraining) -> PrivateTvaeTraining:
    """Without latent noise, so that gradients are the same each time."""
    torch.nn.init.zeros_(trained._encoder.log_variance.weight)
    torch.nn.init.constant_(trained._encoder.log_variance.bias, -60.0)
    return trained


def without(table: UnitIndex, unit: int) -> UnitIndex:
    """The table with a unit's rows gone and its number kept, so that the others draw what they drew."""
    return replace(table, n_rows=np.where(np.arange(len(table)) == unit, 0, table.n_rows))


class Purse:
    """Gives the samples it is told to, the last for all that follow, and sums as `answer` has them, or as they are."""

    def __init__(
        self, samples: Sequence[Sequence[int]], answer: Callable[[np.ndarray, float], np.ndarray] | None = None
    ) -> None:
        self._samples, self._answer = list(samples), answer
        self.totals: list[np.ndarray] = []
        self.bounds: list[float] = []

    def sample(self, n_units: int) -> np.ndarray:
        sampled = self._samples.pop(0) if len(self._samples) > 1 else self._samples[0]
        return np.array(sampled, dtype=np.int64)

    def release(self, total: np.ndarray, max_grad_norm: float) -> np.ndarray:
        self.totals.append(total.copy())
        self.bounds.append(max_grad_norm)
        return total if self._answer is None else self._answer(total, max_grad_norm)


def sum_of(
    kind: str, table: UnitIndex, sampled: Sequence[int], steepness: float = 1.0, *, is_still: bool = False, **more: Any
) -> np.ndarray:
    """What one step hands to the budget, of a decoder with weights so many times as large."""
    trained = training(kind, table, **more)
    if isinstance(trained, PrivateTvaeTraining):
        if is_still:
            still(trained)
        with torch.no_grad():
            for parameter in trained._decoder.parameters():
                parameter.mul_(steepness)
        trained._draws.manual_seed(1)
    purse = Purse([sampled])
    reader(trained).gradient(purse)
    assert len(purse.totals) == 1
    assert purse.bounds == [trained.spec.max_grad_norm]
    return purse.totals[0]


def critic_of(
    table: UnitIndex, *, max_grad_norm: float = 1.0, pass_units: int = N_UNITS, layout: Layout = LAYOUT
) -> PairCritic:
    return PairCritic(table, Spans(layout), Clipping(max_grad_norm, EXPECTED, pass_units))


def relaxed(layout: Layout = LAYOUT, n: int = 6, seed: int = 0) -> Tensor:
    """Rows as a generator makes them: no zeros and no ones."""
    logits = torch.randn(n, layout.n_codes, generator=torch.Generator().manual_seed(seed))
    return Spans(layout).softmax(2 * logits)


def pairs_of(layout: Layout = LAYOUT) -> list[tuple[int, int]]:
    """The pairs of codes of two columns, the earlier column's first, in the order of their codes."""
    column = np.repeat(np.arange(len(layout.sizes)), layout.sizes)
    return [(i, j) for i, j in combinations(range(layout.n_codes), 2) if column[i] != column[j]]


def of_pairs(square: Tensor, layout: Layout = LAYOUT) -> np.ndarray:
    return np.array([square[i, j].item() for i, j in pairs_of(layout)])


def by_autograd(codes: Iterable[int]) -> np.ndarray:
    """A row's gradient: of the sum of the weights on its pairs, by all weights."""
    weights = torch.zeros(LAYOUT.n_codes, LAYOUT.n_codes, dtype=torch.float64, requires_grad=True)
    indices = [code + offset for code, offset in zip(codes, LAYOUT.offsets.tolist(), strict=True)]
    score = torch.stack([weights[i, j] for i, j in combinations(indices, 2)]).sum()
    return of_pairs(torch.autograd.grad(score, weights)[0])


def unit_gradient(table: UnitIndex, unit: int) -> np.ndarray:
    """The sum over a unit's rows, where one row has a norm of 1."""
    batch = table.batch(np.array([unit]), 1)
    rows = [by_autograd(row.tolist()) for row in batch.codes[batch.mask]]
    return np.asarray(np.sum([np.zeros(len(pairs_of())), *rows], axis=0) / math.sqrt(3))


def flat_state(trained: Training) -> Tensor:
    """All numbers of a training's state."""
    tensors: list[Tensor] = []

    def collect(part: Any) -> None:
        if isinstance(part, Tensor):
            tensors.append(part.detach().flatten().double())
        elif isinstance(part, dict):
            for value in part.values():
                collect(value)

    collect(trained.state())
    return torch.cat(tensors)


def drawn_codes(network: Any, n: int) -> np.ndarray:
    from synth.neural.sampling import draw

    torch.manual_seed(1)
    return draw(network, n).codes


def weights_of(*networks: nn.Module) -> list[Tensor]:
    return [weight for network in networks for weight in network.parameters()]


class Recorded(TorchDispatchMode):
    """The operations that run, and the shapes they run on."""

    def __init__(self) -> None:
        super().__init__()
        self.ran: list[tuple[str, tuple[tuple[int, ...], ...]]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        shapes = tuple(tuple(arg.shape) for arg in args if isinstance(arg, Tensor))
        self.ran.append((func.overloadpacket.__name__, shapes))
        return func(*args, **(kwargs or {}))


WAITS = {"_local_scalar_dense", "nonzero", "masked_select", "_unique2", "equal", "is_nonzero"}
"""Operations that a device must have finished before the next can be given to it."""
