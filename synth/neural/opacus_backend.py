"""Opacus as the backend of DP-SGD: clipped sums from its per-unit gradients, for any layer.

They are the reference of the exact sums in `synth.neural.dp_sgd`.

Source: Yousefpour et al. 2021 (2109.12298).
"""

import importlib.util
import warnings

import torch
from torch import Tensor, nn

from synth.errors import MissingExtra
from synth.neural.dp_sgd import Backend, ClippedSums, ClipTally, ExactSums, Losses, clip_factors


class OpacusSums:
    """Clipped sums by Opacus' hooks, which are on the networks during a call and at no other time.

    Args:
        networks: of layers that Opacus has a rule for, in training mode.
        tally: told every unit's norm before clipping; none: nobody is.

    Raises:
        MissingExtra: Opacus is not installed; no real row was read.
    """

    def __init__(self, *networks: nn.Module, tally: ClipTally | None = None) -> None:
        require_opacus()
        self._tally = tally
        self._networks = nn.ModuleList(networks)

    def __call__(self, losses: Losses, n_units: int, max_grad_norm: float) -> Tensor:
        """As `ClippedSums` says; gradients that the parameters hold stay as they are."""
        parameters = list(self._networks.parameters())
        held = [parameter.grad for parameter in parameters]
        self._networks.zero_grad()  # or a backward pass would add to what is held
        of_units = [_summed(of_rows, n_units) for of_rows in self._of_rows(losses)]
        for parameter, gradient in zip(parameters, held, strict=True):
            parameter.grad = gradient
        norms = torch.stack([torch.linalg.vector_norm(part.flatten(1), dim=1).double() for part in of_units])
        squared = norms.square().sum(0)
        if self._tally is not None:
            self._tally.see(squared.sqrt(), max_grad_norm)
        factors = clip_factors(squared, max_grad_norm)
        counts = factors > 0
        if not bool(counts.all()):  # 0 times infinity is not 0
            of_units = [torch.where(counts.view(-1, *[1] * (part.ndim - 1)), part, 0.0) for part in of_units]
        return torch.cat([(factors.to(part.dtype) @ part.flatten(1)).double() for part in of_units])

    def _of_rows(self, losses: Losses) -> list[Tensor]:
        """The gradient of each row's loss by each parameter, shape (n_rows, ...)."""
        from opacus import GradSampleModule  # type: ignore[import-untyped]

        hooked = GradSampleModule(self._networks, batch_first=True, loss_reduction="sum")
        try:
            with warnings.catch_warnings():
                # The first layer's input is data, by which nobody takes a gradient.
                warnings.filterwarnings("ignore", message="Full backward hook is firing", category=UserWarning)
                losses().sum().backward()
            return [parameter.grad_sample for parameter in self._networks.parameters()]
        finally:
            hooked.to_standard_module()


def require_opacus() -> None:
    """Refuse work that needs Opacus where it is not installed.

    Raises:
        MissingExtra: it is not.
    """
    if importlib.util.find_spec("opacus") is None:
        raise MissingExtra("dp_backend='opacus' needs the extra 'neural'; pip install 'understudy[neural]'")


def clipped_sums_by(backend: Backend, *networks: nn.Module, tally: ClipTally | None = None) -> ClippedSums:
    """The clipped sums of some networks: `"exact"`, for linear layers and the faster, or `"opacus"`."""
    return OpacusSums(*networks, tally=tally) if backend == "opacus" else ExactSums(*networks, tally=tally)


def _summed(of_rows: Tensor, n_units: int) -> Tensor:
    """Gradients of rows, shape (n_units * k, ...), to those of units, shape (n_units, ...)."""
    return of_rows if len(of_rows) == n_units else of_rows.view(n_units, -1, *of_rows.shape[1:]).sum(1)
