"""Trained networks as named arrays, and back."""

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from synth.neural.drawing import CtganNetwork, TvaeNetwork
from synth.neural.networks import Decoder, Generator
from synth.transforms.layout import Layout

Module = TypeVar("Module", bound=nn.Module)
NETWORK, SHARES, DEVIATIONS = "network.", "shares.", "deviations"


def to_arrays(network: CtganNetwork | TvaeNetwork) -> dict[str, NDArray[Any]]:
    """Everything that rows are drawn from, by name."""
    if isinstance(network, CtganNetwork):
        extra = {f"{SHARES}{place}": share for place, share in enumerate(network.shares)}
        return {**_weights(network.generator), **extra}
    return {**_weights(network.decoder), DEVIATIONS: network.deviations.numpy()}


def from_arrays(arrays: Mapping[str, NDArray[Any]], layout: Layout) -> CtganNetwork | TvaeNetwork:
    """A network from what `to_arrays` gave; its widths are those of the arrays.

    Args:
        arrays: by name.
        layout: of the rows.

    Raises:
        ValueError: arrays are missing, are not finite, or do not fit each other or the layout.
    """
    if not all(np.isfinite(array).all() for array in arrays.values()):
        raise ValueError("weights are finite numbers")
    weights = {name.removeprefix(NETWORK): array for name, array in arrays.items() if name.startswith(NETWORK)}
    hidden = [f"layers.{place}.weight" for place in range(len(weights))]
    widths = [len(weights[name]) for name in hidden if name in weights]
    d_in = weights["layers.0.weight"].shape[1]
    if DEVIATIONS in arrays:
        deviations = torch.from_numpy(arrays[DEVIATIONS])
        if deviations.shape != (len(layout.scalars),):
            raise ValueError("there is one deviation for each scalar")
        return TvaeNetwork(layout, _filled(Decoder(d_in, widths, layout.width), weights), deviations)
    return CtganNetwork(layout, _filled(Generator(d_in, widths, layout.width), weights), _shares(arrays, layout))


def _shares(arrays: Mapping[str, NDArray[Any]], layout: Layout) -> tuple[NDArray[np.float64], ...]:
    sizes = [span.size for span in layout.spans if span.whole]
    shares = tuple(arrays[f"{SHARES}{place}"].astype(np.float64) for place in range(len(sizes)))
    for share, size in zip(shares, sizes, strict=True):
        if share.shape != (size,) or (share < 0).any() or share.sum() <= 0:
            raise ValueError("there is a share for each code that a condition may name")
    return shares


def _weights(network: nn.Module) -> dict[str, NDArray[Any]]:
    return {f"{NETWORK}{name}": tensor.detach().cpu().numpy() for name, tensor in network.state_dict().items()}


def _filled(network: Module, weights: Mapping[str, NDArray[Any]]) -> Module:
    try:
        network.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()})
    except RuntimeError as error:
        raise ValueError("weights fit the network") from error
    network.eval().requires_grad_(False)
    return network
