"""Clipped sums from per-unit gradients that Opacus computes: the reference of the exact ones, and for any layer.

Source: Yousefpour et al. 2021 (2109.12298).
"""

import warnings

import torch
from torch import Tensor, nn

from synth.neural.dp_sgd import ClippedSums, ExactSums, Losses, clip_factors


class OpacusSums:
    """Clipped sums by Opacus' hooks, which are on the networks during a call and at no other time.

    Args:
        networks: of layers that Opacus has a rule for, in training mode.
    """

    def __init__(self, *networks: nn.Module) -> None:
        self._networks = nn.ModuleList(networks)

    def __call__(self, losses: Losses, n_units: int, max_grad_norm: float) -> Tensor:
        """As `ClippedSums` says; gradients that the parameters hold stay as they are."""
        parameters = list(self._networks.parameters())
        held = [parameter.grad for parameter in parameters]
        self._networks.zero_grad()  # or a backward pass would add to what is held
        of_units = [rows.reshape(n_units, -1, *rows.shape[1:]).sum(1) for rows in self._of_rows(losses)]
        for parameter, gradient in zip(parameters, held, strict=True):
            parameter.grad = gradient
        squared = torch.stack([part.double().square().flatten(1).sum(1) for part in of_units]).sum(0)
        factors = clip_factors(squared, max_grad_norm)
        finite = [torch.where(_beside(factors > 0, part), part, 0.0) for part in of_units]
        sums = [torch.tensordot(factors.to(part.dtype), part, dims=1) for part in finite]
        return torch.cat([part.flatten().double() for part in sums])

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


def clipped_sums_by(backend: str, *networks: nn.Module) -> ClippedSums:
    """The clipped sums of some networks: `"exact"`, for linear layers and the faster, or `"opacus"`."""
    return OpacusSums(*networks) if backend == "opacus" else ExactSums(*networks)


def _beside(of_units: Tensor, part: Tensor) -> Tensor:
    """Shape (n_units,), to one that broadcasts to (n_units, ...)."""
    return of_units.view(-1, *[1] * (part.ndim - 1))
