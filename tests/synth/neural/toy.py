"""A small table, both private trainings on it, and a purse that shows what they ask for."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from synth.neural.batches import UnitIndex
from synth.neural.dp_ctgan import NetworkCritic, PrivateCtganSpec, PrivateCtganTraining
from synth.neural.tvae import PrivateTvaeSpec, PrivateTvaeTraining
from synth.transforms.layout import Encoded, Layout, Span

LAYOUT = Layout((Span("x", 4, True), Span("y", 3, True), Span("z", 2, True)))
ONE_WAY = [np.array([20.0, 5.0, 10.0, 10.0]), np.array([-2.0, 30.0, 15.0]), np.array([9.0, 36.0])]
N_UNITS, EXPECTED = 30, 8.0
MIXED = Layout((Span("a", 3, whole=True), Span("x", 4, whole=False), Span("b", 2, whole=True)), ("x",))
LAYOUTS = {
    "mixed": MIXED,
    "scalars in every column": Layout((Span("x", 4, whole=False), Span("y", 1, whole=False)), ("x", "y")),
    "no scalars": Layout((Span("a", 3, whole=True), Span("b", 2, whole=True))),
    "one column of categories": Layout((Span("a", 3, whole=True),)),
    "one column of one category": Layout((Span("a", 1, whole=True),)),
    "one column of numbers": Layout((Span("x", 1, whole=False),), ("x",)),
}
CPU = torch.device("cpu")
KINDS = ("ctgan", "tvae")
Training = PrivateCtganTraining | PrivateTvaeTraining


def rows_of(layout: Layout, n: int) -> Encoded:
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(0, size, n) for size in layout.sizes], 1).astype(np.int32)
    return Encoded(codes, rng.uniform(-1, 1, (n, len(layout.scalars))).astype(np.float32))


def seeded_steps(training: Any, n: int, seed: int = 1) -> list[dict[str, Tensor]]:
    """The losses of so many steps without privacy."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return [training.step() for _ in range(n)]


def units(k: int = 1, seed: int = 0, n_units: int = N_UNITS) -> UnitIndex:
    """Units with 1 to k rows each."""
    rng = np.random.default_rng(seed)
    owner = np.repeat(np.arange(n_units), rng.integers(1, k + 1, n_units))
    codes = np.stack([rng.integers(0, size, len(owner)) for size in LAYOUT.sizes], axis=1).astype(np.int32)
    return UnitIndex.of(Encoded(codes, np.zeros((len(owner), 0), dtype=np.float32)), owner if k > 1 else None, k)


def training(kind: str, table: UnitIndex, max_rows: int = 8192, **settings: Any) -> Training:
    """The same networks every time: torch's generator is seeded."""
    torch.manual_seed(0)
    settings |= {"max_rows_per_pass": max_rows}
    if kind == "tvae":
        tvae = PrivateTvaeSpec(**{"encoder_widths": (28, 28), "decoder_widths": (24, 24), "d_latent": 3, **settings})
        return PrivateTvaeTraining(tvae, table, LAYOUT, ONE_WAY, EXPECTED, CPU)
    small: dict[str, Any] = {"generator_widths": (16, 16), "critic_widths": (24, 24), "d_latent": 4}
    ctgan = PrivateCtganSpec(**{"critic": "network", **small, **settings})
    return PrivateCtganTraining(ctgan, table, LAYOUT, ONE_WAY, EXPECTED, 40, CPU)


def private_networks(trained: Training) -> list[nn.Module]:
    """The networks whose gradient on real rows is taken."""
    if isinstance(trained, PrivateTvaeTraining):
        return [trained._encoder, trained._decoder]
    assert isinstance(trained.critic, NetworkCritic)
    return [trained.critic.network]


def draws_of(trained: Training) -> torch.Generator:
    """Where what is drawn for rows comes from."""
    return trained._draws if isinstance(trained, PrivateTvaeTraining) else trained.critic._draws  # type: ignore[attr-defined]


def without(table: UnitIndex, unit: int) -> UnitIndex:
    """The table with a unit's rows gone and its place kept, so that the others draw what they drew."""
    return replace(table, n_rows=np.where(np.arange(len(table)) == unit, 0, table.n_rows))


def gradient(trained: Training) -> Tensor:
    """What the last step wrote, flat and in double precision."""
    parameters = [parameter for network in private_networks(trained) for parameter in network.parameters()]
    return torch.cat([parameter.grad.flatten() for parameter in parameters if parameter.grad is not None]).double()


class Purse:
    """Gives the samples it is told to, and sums as `answer` has them; keeps the sums it was given.

    Args:
        samples: of each step, in turn; the last for all that follow.
        answer: what a sum becomes; none: it stays.
    """

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
    kind: str, table: UnitIndex, sampled: Sequence[int], steepness: float = 1.0, *, still: bool = False, **settings: Any
) -> np.ndarray:
    """What one step hands to the budget, of networks with weights so many times as large; still: no latent noise."""
    trained = training(kind, table, **settings)
    if still and isinstance(trained, PrivateTvaeTraining):
        torch.nn.init.zeros_(trained._encoder.log_variance.weight)
        torch.nn.init.constant_(trained._encoder.log_variance.bias, -60.0)
    with torch.no_grad():
        for network in private_networks(trained)[-1:]:
            for parameter in network.parameters():
                parameter.mul_(steepness)
    torch.manual_seed(1)
    draws_of(trained).manual_seed(1)
    purse = Purse([sampled])
    trained.step(purse)
    assert len(purse.totals) == 1
    return purse.totals[0]


def flat_state(trained: Training) -> Tensor:
    """All numbers of a training's state."""
    found: list[Tensor] = []

    def collect(part: Any) -> None:
        if isinstance(part, Tensor):
            found.append(part.detach().flatten().double())
        elif isinstance(part, dict):
            for value in part.values():
                collect(value)

    collect(trained.state())
    return torch.cat(found)


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
