"""Trained networks as named arrays, and back."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from synth.neural.networks import Decoder, GeneratorNetwork
from synth.neural.sampling import CtganNetwork, TvaeNetwork
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
        ValueError, KeyError: arrays are missing, are not finite, or do not fit each other or the layout; no network was
            made.
    """
    if not all(np.isfinite(array).all() for array in arrays.values()):
        raise ValueError("weights are finite numbers")
    weights = {name.removeprefix(NETWORK): array for name, array in arrays.items() if name.startswith(NETWORK)}
    others = set(arrays) - {NETWORK + name for name in weights}
    widths = _widths(weights)
    if DEVIATIONS in arrays:
        decoder = _filled(Decoder, (*widths, layout.width), weights)
        return TvaeNetwork(layout, decoder, _deviations(arrays, others, layout))
    generator = _filled(GeneratorNetwork, (*widths, layout.width), weights)
    shares = _shares(arrays, others, layout)
    if widths[0] <= sum(map(len, shares)):
        raise ValueError("a generator takes noise beside its condition")
    return CtganNetwork(layout, generator, shares)


def _widths(weights: Mapping[str, NDArray[Any]]) -> tuple[int, list[int]]:
    """Of the input, and of each hidden layer."""
    layers = [name for name in (f"layers.{place}.weight" for place in range(len(weights))) if name in weights]
    if not layers or any(weights[name].ndim != 2 or weights[name].size == 0 for name in layers):
        raise ValueError("a network has hidden layers, each a matrix")
    return weights["layers.0.weight"].shape[1], [len(weights[name]) for name in layers]


def _deviations(arrays: Mapping[str, NDArray[Any]], others: set[str], layout: Layout) -> torch.Tensor:
    deviations = arrays[DEVIATIONS].astype(np.float32)
    if others != {DEVIATIONS} or deviations.shape != (len(layout.scalars),) or (deviations < 0).any():
        raise ValueError("there is one deviation for each scalar")
    return torch.from_numpy(deviations)


def _shares(
    arrays: Mapping[str, NDArray[Any]], others: set[str], layout: Layout
) -> tuple[NDArray[np.float64], ...]:  # fmt: skip
    sizes = [layout.sizes[place] for place in layout.whole]
    names = [f"{SHARES}{place}" for place in range(len(sizes))]
    if others != set(names):
        raise ValueError("there are shares for each column that a condition may name")
    shares = tuple(arrays[name].astype(np.float64) for name in names)
    for share, size in zip(shares, sizes, strict=True):
        if share.shape != (size,) or (share < 0).any() or share.sum() <= 0:
            raise ValueError("there is a share for each code that a condition may name")
    return shares


def _weights(network: nn.Module) -> dict[str, NDArray[Any]]:
    return {f"{NETWORK}{name}": tensor.detach().cpu().numpy() for name, tensor in network.state_dict().items()}


def _filled(
    kind: Callable[..., Module], widths: tuple[int, list[int], int], weights: Mapping[str, NDArray[Any]]
) -> Module:
    with torch.device("meta"):  # no draw of first weights, so that torch's own generators are left as they were
        network = kind(*widths)
    network.to_empty(device="cpu")
    try:
        network.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()})
    except RuntimeError as error:
        raise ValueError("weights fit the network") from error
    if any((array < 0).any() for name, array in weights.items() if name.endswith("running_var")):
        raise ValueError("no variance is below zero")
    network.eval().requires_grad_(False)
    return network
