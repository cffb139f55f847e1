"""DP-SGD for networks of linear layers: each unit's gradient clipped exactly, without ever holding one.

Of a linear layer with input a and gradient b by its output, a unit's weight gradient is a sum over its rows of outer
products. The squared norm follows from the inner products of the rows alone. With one row it is |b|^2 (|a|^2 + 1), bias
included. So one backward pass gives every norm, and one product the clipped sum. Opacus is the other backend: clipped
sums from its per-unit gradients, for any layer. They are the reference of the exact sums.

Real rows are read by nothing but the sum that `noisy_mean` hands to the steps that a budget has charged. A `ClipTally`
counts how often clipping scales a unit's gradient down. It reads norms of real units, and no noise covers it. So it is
for whoever may see numbers computed from real rows, and reaches no model, statement, checkpoint or training log.

Source: Abadi et al. 2016 (1607.00133), Algorithm 1; Goodfellow 2015 (1510.01799) for the norms; Lee & Kifer 2021
(2009.03106) for clipping by them; Yousefpour et al. 2021 (2109.12298) for Opacus.
"""

import importlib.util
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from synth.extras import missing_extra

NORM_TOLERANCE = 1e-5  # by how much a norm may pass the bound, as a share of it, and still count as one that is on it


class ClipTally:
    """Units that were sampled, and how many of them were clipped. *Sensitive.*"""

    def __init__(self) -> None:
        self._n_units = 0
        self._n_clipped: Tensor | int = 0

    def sampled(self, n_units: int) -> None:
        """Count the units of a sample; padding is none."""
        self._n_units += n_units

    def see(self, norms: Tensor, max_grad_norm: float) -> None:
        """Count the norms above the bound, shape (n,); the device is not waited for, and padding has a norm of 0.

        A norm that is no number counts as above: nothing is left of such a gradient.
        """
        self._n_clipped = self._n_clipped + (~(norms <= max_grad_norm * (1 + NORM_TOLERANCE))).sum()

    def taken(self) -> tuple[int, int]:
        """Clipped units and sampled ones since this was last asked."""
        counts = int(self._n_clipped), self._n_units
        self._n_clipped, self._n_units = 0, 0
        return counts


ROOM = 2.0**-21
"""How far below the bound gradients in single precision are clipped, as a share of it: rounding factors and products
may add as much to a unit's own gradient. What rounding does to the sum of all units is not in it: statements say so."""
ROUNDING = 2.0**-22
"""Of the rows' norms together: how much larger the norm of a unit of several rows is taken to be, in quadrature."""
Losses = Callable[[], Tensor]
Backend = Literal["exact", "opacus"]
LARGEST_NORM = 1e18  # beyond it squares and factors leave what single precision can hold; NaN is beyond it, too


class StepRelease(Protocol):
    """The draws that one step of DP-SGD takes from a budget; `synth.dp.mechanisms.Steps` has them."""

    def sample(self, n_units: int) -> NDArray[np.int64]:
        """A Poisson sample of the units."""

    def release(self, total: NDArray[np.float64], max_grad_norm: float) -> NDArray[np.float64]:
        """The sum with noise."""


ClippedSums = Callable[[Losses, int, float], Tensor]
"""The sum of all units' gradients by all parameters, each clipped; shape (d,), float64. It takes the losses, the number
of units and the bound. Losses (*sensitive*) call the networks and give each row's, shape (n_units * k,), a unit's rows
side by side; 0 for padding. No row's loss may depend on another unit's rows."""


@dataclass(frozen=True)
class Clipping:
    """The public numbers of one step."""

    max_grad_norm: float
    expected_batch: float
    pass_units: int
    n_passes: int = 1

    @classmethod
    def planned(cls, max_grad_norm: float, expected_batch: float, rows_per_unit: int, max_rows: int) -> "Clipping":
        """With passes that hold nearly every sample: six standard deviations above the expected one.

        >>> Clipping.planned(1.0, 100.0, rows_per_unit=1, max_rows=1000).pass_units
        160
        >>> clipping = Clipping.planned(1.0, 100.0, rows_per_unit=5, max_rows=100)
        >>> clipping.pass_units, clipping.n_passes
        (20, 8)
        """
        wanted = math.ceil(expected_batch + 6 * math.sqrt(expected_batch))
        n_passes = math.ceil(wanted / max(1, max_rows // rows_per_unit))
        return cls(max_grad_norm, expected_batch, math.ceil(wanted / n_passes), n_passes)


def noisy_mean(
    steps: StepRelease, n_real_units: int, clipping: Clipping, clipped_sum: Callable[[NDArray[np.int64]], Tensor]
) -> Tensor:
    """One step's gradient: a Poisson sample's clipped sum with noise, by the expected batch; shape (d,), float64.

    An empty sample takes its passes, of padding, and its noise like any other.
    `n_real_units`: *Sensitive*. Units in the table: not the declared number, nor the estimated one of the divisor.
    `clipped_sum`: *Sensitive*. The sum over at most `pass_units` units, shape (d,), float64.
    """
    sampled, size = steps.sample(n_real_units), clipping.pass_units
    n_padded = max(len(sampled), clipping.n_passes * size)
    total = sum(clipped_sum(sampled[start : start + size]) for start in range(0, n_padded, size))
    noisy = steps.release(total.cpu().numpy(), clipping.max_grad_norm)
    return torch.from_numpy(noisy / clipping.expected_batch).to(total.device)


def write_gradients(parameters: Sequence[nn.Parameter], flat: Tensor) -> None:
    """Put a flat gradient, shape (d,), in place of the gradients that the parameters have."""
    parts = flat.split([parameter.numel() for parameter in parameters])
    for parameter, part in zip(parameters, parts, strict=True):
        parameter.grad = part.view_as(parameter).to(parameter.dtype)


def clip_factors(squared_norms: Tensor, max_grad_norm: float) -> Tensor:
    """The factors of each unit's gradient, shape (n_units,) both: 0 where the norm is not finite or far too large."""
    norms = squared_norms.sqrt()
    return torch.where(norms < LARGEST_NORM, (max_grad_norm / norms.clamp_min(1e-12)).clamp_max(1.0), 0.0)


def keeps_digits(factors: Tensor) -> bool:
    """True if products with such factors keep single precision, for which `ROOM` is meant. Whoever calls a fit may have
    set torch to multiply in TF32 or bfloat16, for the process or for the device.
    """
    if torch.is_autocast_enabled(factors.device.type):
        return False
    try:
        return bool(torch.get_float32_matmul_precision() == "highest")
    except RuntimeError:  # its older and its newer settings contradict each other
        return False


def _lowered(max_grad_norm: float, gradients: Tensor) -> float:
    """The bound that norms in double precision are clipped to, for gradients that are scaled in their own."""
    return max_grad_norm if gradients.dtype == torch.float64 else (1 - ROOM) * max_grad_norm


@dataclass(frozen=True, eq=False)
class LinearRecord:
    """The inputs of a linear layer, shape (n, d_in), and its outputs, shape (n, d_out)."""

    layer: nn.Linear
    inputs: Tensor
    outputs: Tensor


@contextmanager
def recorded(layers: Sequence[nn.Linear]) -> Iterator[list[LinearRecord]]:
    """What passes some linear layers within."""
    records: list[LinearRecord] = []

    def keep(layer: nn.Linear, inputs: tuple[Tensor], outputs: Tensor) -> None:
        records.append(LinearRecord(layer, inputs[0].detach(), outputs))

    handles = [layer.register_forward_hook(keep) for layer in layers]
    try:
        yield records
    finally:
        for handle in handles:
            handle.remove()


class ExactSums:
    """Clipped sums by `clipped_sums`."""

    def __init__(self, *networks: nn.Module, tally: ClipTally | None = None) -> None:
        self._layers = [m for network in networks for m in network.modules() if isinstance(m, nn.Linear)]
        self._tally = tally
        self._parameters = [parameter for network in networks for parameter in network.parameters()]
        if {id(p) for p in self._parameters} != {id(p) for layer in self._layers for p in (layer.weight, layer.bias)}:
            raise ValueError("exact clipping takes linear layers with biases only; set backend='opacus' for others")

    def __call__(self, losses: Losses, n_units: int, max_grad_norm: float) -> Tensor:
        with recorded(self._layers) as records:
            of_rows = losses()
        if sorted(id(record.layer) for record in records) != sorted(map(id, self._layers)):
            raise ValueError(f"each of n_layers={len(self._layers)} must be passed once; call each network once")
        sums, norms = clipped_sums(of_rows, records, n_units, max_grad_norm)
        if self._tally is not None:
            self._tally.see(norms, max_grad_norm)
        passed = [p for record in records for p in (record.layer.weight, record.layer.bias)]
        of_parameter = {id(p): part for p, part in zip(passed, sums, strict=True)}
        return torch.cat([of_parameter[id(p)].flatten().double() for p in self._parameters])


def clipped_sums(
    losses: Tensor, records: Sequence[LinearRecord], n_units: int, max_grad_norm: float
) -> tuple[list[Tensor], Tensor]:
    """The sum of all units' gradients, each scaled to a norm of at most `max_grad_norm`: for each record the weight's
    and the bias's sum, and every unit's norm before clipping, shape (n_units,).
    `losses`: *Sensitive*. Of each row, shape (n_units * k,), rows of a unit side by side; 0 for padding.
    """
    gradients = torch.autograd.grad(losses.sum(), [record.outputs for record in records])
    layers = [_of_units(record.inputs, gradient, n_units) for record, gradient in zip(records, gradients, strict=True)]
    squared = torch.stack([_squared_norms(inputs, gradient) for inputs, gradient in layers]).sum(0)
    factors = clip_factors(squared, _lowered(max_grad_norm, layers[0][1]))[:, None, None]
    all_count = bool((factors > 0).all())
    sums = []
    for inputs, gradient in layers:
        scaled = gradient * factors.to(gradient.dtype)
        if not all_count:  # 0 times infinity is not 0
            scaled, inputs = (torch.where(factors > 0, part, 0.0) for part in (scaled, inputs))
        scaled = scaled.flatten(0, 1)
        sums += [scaled.T @ inputs.flatten(0, 1), scaled.sum(0)]
    return sums, squared.sqrt()


def _of_units(inputs: Tensor, gradient: Tensor, n_units: int) -> tuple[Tensor, Tensor]:
    """A layer's inputs and gradients by its outputs, shape (n_units, k, width)."""
    inputs, gradient = (part.reshape(n_units, -1, part.shape[1]) for part in (inputs, gradient))
    if inputs.shape[1] == 1 and keeps_digits(gradient):
        return inputs, gradient
    # Rows of a unit that cancel could leave something above the bound that looks like nothing in single precision.
    return inputs.double(), gradient.double()


def _squared_norms(inputs: Tensor, gradient: Tensor) -> Tensor:
    """Of each unit's gradient in one layer with a bias, float64, shape (n_units,)."""
    if inputs.shape[1] == 1:  # added up in double precision: a norm that is too small would be clipped too little
        of_output, of_input = (part.double().square().sum((1, 2)) for part in (gradient, inputs))
        return of_output * (of_input + 1)
    squared = ((gradient @ gradient.mT) * (inputs @ inputs.mT + 1)).sum((1, 2))
    # What rounding may take away where rows cancel: a norm that is too large is clipped too much, which is allowed.
    at_most = (gradient.norm(dim=2) * (inputs.square().sum(2) + 1).sqrt()).sum(1)
    return squared.clamp_min(0.0) + (ROUNDING * at_most).square()


class OpacusSums:
    """Clipped sums by Opacus' hooks, which are on the networks during a call and at no other time."""

    def __init__(self, *networks: nn.Module, tally: ClipTally | None = None) -> None:
        require_opacus()
        self._tally = tally
        self._networks = nn.ModuleList(networks)

    def __call__(self, losses: Losses, n_units: int, max_grad_norm: float) -> Tensor:
        parameters = [parameter for parameter in self._networks.parameters() if parameter.requires_grad]
        gradients = [parameter.grad for parameter in parameters]  # which stay as they are
        self._networks.zero_grad()  # or a backward pass would add to them
        of_units = self._of_rows(losses, parameters)
        if len(of_units[0]) > n_units:
            of_units = [of_rows.view(n_units, -1, *of_rows.shape[1:]).sum(1) for of_rows in of_units]
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient
        norms = [torch.linalg.vector_norm(part.flatten(1), dim=1, dtype=torch.float64) for part in of_units]
        squared = torch.stack(norms).square().sum(0)
        if not keeps_digits(of_units[0]):
            of_units = [part.double() for part in of_units]
        if self._tally is not None:
            self._tally.see(squared.sqrt(), max_grad_norm)
        factors = clip_factors(squared, _lowered(max_grad_norm, of_units[0]))
        counts = factors > 0
        if not bool(counts.all()):  # 0 times infinity is not 0
            of_units = [torch.where(counts.view(-1, *[1] * (part.ndim - 1)), part, 0.0) for part in of_units]
        return torch.cat([(factors.to(part.dtype) @ part.flatten(1)).double() for part in of_units])

    def _of_rows(self, losses: Losses, parameters: Sequence[nn.Parameter]) -> list[Tensor]:
        """The gradient of each row's loss by each parameter, shape (n_rows, ...)."""
        from opacus import GradSampleModule

        hooked = GradSampleModule(self._networks, batch_first=True, loss_reduction="sum")
        try:
            with warnings.catch_warnings():
                # The first layer's input is data, by which nobody takes a gradient.
                warnings.filterwarnings("ignore", message="Full backward hook is firing", category=UserWarning)
                losses().sum().backward()
            return [parameter.grad_sample for parameter in parameters]
        finally:
            hooked.to_standard_module()


def require_opacus() -> None:
    """Refuse work that needs Opacus where it is not installed."""
    if importlib.util.find_spec("opacus") is None:
        raise missing_extra("dp_backend='opacus'", "neural")


def clipped_sums_by(backend: Backend, *networks: nn.Module, tally: ClipTally | None = None) -> ClippedSums:
    """The clipped sums of some networks: `"exact"`, for linear layers and the faster, or `"opacus"`."""
    return OpacusSums(*networks, tally=tally) if backend == "opacus" else ExactSums(*networks, tally=tally)
