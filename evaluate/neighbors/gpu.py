"""The products of a search on a GPU, where there is one and PyTorch is installed; else nothing."""

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np

LEAST_POOL = 16_384
"""Rows of a pool below which moving them costs more than it saves."""
DRIVER = Path("/dev/nvidiactl")
"""What a machine with a usable CUDA device has; looked for first, as importing PyTorch takes seconds."""


@cache
def device() -> str | None:
    """Name of the device, as PyTorch has it; none where there is no GPU."""
    if not DRIVER.exists() or find_spec("torch") is None:
        return None
    import torch

    return "cuda" if torch.cuda.is_available() else None


def on_gpu(pool: np.ndarray, starts: np.ndarray, k: int) -> Callable[[np.ndarray], np.ndarray] | None:
    """What finds candidates for a block of points on the GPU; none where there is no GPU, or too little work for one.

    Args:
        pool: points, shape (n, d_space), float32.
        starts: where each chunk of the pool starts, from 0.
        k: candidates of each chunk.
    """
    found = device()
    return None if found is None or len(pool) < LEAST_POOL else candidates_on(found, pool, starts, k)


def candidates_on(device: str, pool: np.ndarray, starts: np.ndarray, k: int) -> Callable[[np.ndarray], np.ndarray]:
    """For a block of points, positions of k candidates in each chunk of the pool; shape (len(block), k * n_chunks).

    Args:
        device: as PyTorch names it.
        pool: as in `on_gpu`, like all others.
        starts: as there.
        k: as there.
    """
    import torch

    chunks = [torch.from_numpy(part).to(device) for part in np.split(pool, starts[1:])]
    norms = [chunk.square().sum(1) for chunk in chunks]

    def smallest(block: np.ndarray) -> np.ndarray:
        points = torch.from_numpy(block).to(device)
        found = []
        for start, chunk, norm in zip(starts, chunks, norms, strict=True):
            scores = torch.addmm(norm, points, chunk.T, alpha=-2.0)
            found.append(int(start) + scores.topk(k, dim=1, largest=False, sorted=False).indices)
        return np.asarray(torch.cat(found, dim=1).cpu().numpy())

    return smallest
