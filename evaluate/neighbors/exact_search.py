"""Nearest-neighbor search: exact, in blocks of targets times chunks of the pool, never all pairs in memory.

Rows are at distance zero if and only if they are equal, which keys decide, not floats. A GPU takes the products where
there is one and PyTorch is installed; distances that are given are computed again in double precision either way.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from evaluate.neighbors.space import SpaceRows
from evaluate.tables import Tables

LEAST_POOL = 16_384
"""Rows of a pool below which moving them costs more than it saves."""
DRIVER = Path("/dev/nvidiactl")
"""The device file of a machine with CUDA; looked for first, as importing PyTorch takes seconds."""


@cache
def device() -> str | None:
    """Name of the device, as PyTorch has it; `None` where there is no GPU."""
    if not DRIVER.exists() or find_spec("torch") is None:
        return None
    import torch

    return "cuda" if torch.cuda.is_available() else None


def on_gpu(pool: np.ndarray, starts: np.ndarray, k: int) -> Callable[[np.ndarray], np.ndarray] | None:
    """The search for candidates of a block of points on the GPU; `None` without GPU, or with too little work for one.

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


LEAST = 1e-6
"""Distance of two rows that differ by less than the space can tell."""
BLOCK_ROWS, CHUNK_ROWS = 512, 32_768
GROUP_ROWS = 64
"""Rows of the pool whose least distance is looked at first, where several neighbors are wanted."""


@dataclass(frozen=True)
class Neighbors:
    """The nearest rows of a pool, for each target. *Sensitive* where the rows are.

    Attributes:
        distances: ascending, shape (n, k), float64; zero if and only if the rows are equal.
        positions: of these rows in the pool, shape (n, k).
    """

    distances: np.ndarray
    positions: np.ndarray

    def joined(self, other: "Neighbors") -> "Neighbors":
        """The neighbors of these targets and then of the other ones, in the same pool."""
        distances = np.concatenate([self.distances, other.distances])
        return Neighbors(distances, np.concatenate([self.positions, other.positions]))


def nearest(targets: SpaceRows, pool: SpaceRows, k: int = 1) -> np.ndarray:
    """Distances from each target to its k nearest rows of the pool, as `search` finds them; shape (n, k)."""
    return search(targets, pool, k).distances


def search(targets: SpaceRows, pool: SpaceRows, k: int = 1) -> Neighbors:
    """The k nearest rows of the pool to each target.

    Args:
        targets: shape (n,) rows.
        pool: at least k rows.
        k: how many.
    """
    chunks = np.array_split(np.arange(len(pool)), -(-len(pool) // CHUNK_ROWS))
    chunks = chunks if min(map(len, chunks)) >= k else [np.arange(len(pool))]
    starts = np.array([chunk[0] for chunk in chunks])
    smallest = on_gpu(pool.points, starts, k) or _on_cpu([pool.points[chunk] for chunk in chunks], starts, k)
    parts = []
    for start in range(0, len(targets), BLOCK_ROWS):
        block = targets.points[start : start + BLOCK_ROWS]
        parts.append(_exact(block, pool.points, smallest(block), k))
    if not parts:
        return Neighbors(np.zeros((0, k)), np.zeros((0, k), dtype=np.int64))
    distances, positions = (np.concatenate(part) for part in zip(*parts, strict=True))
    return _with_twins(Neighbors(np.maximum(distances, LEAST), positions), targets.keys, pool.keys)


def kept_search(tables: Tables, key: Hashable, find: Callable[[], Neighbors]) -> Neighbors:
    """As `find` of real rows alone, found once for all synthetic tables beside them.

    Args:
        tables: *Sensitive*. Keep it.
        key: what it goes by.
        find: searches among real rows.
    """
    return tables.kept_of_real.once(("neighbors", key), find)


def _on_cpu(chunks: list[np.ndarray], starts: np.ndarray, k: int) -> Callable[[np.ndarray], np.ndarray]:
    """For a block of points, positions of k candidates in each chunk of the pool; shape (len(block), k * n_chunks)."""
    augmented = [_augmented(chunk) for chunk in chunks]

    def smallest(block: np.ndarray) -> np.ndarray:
        doubled = np.column_stack([-2.0 * block, np.ones(len(block), dtype=np.float32)])
        found = [start + _smallest(doubled @ rows.T, k) for start, rows in zip(starts, augmented, strict=True)]
        return np.hstack(found)

    return smallest


def _augmented(points: np.ndarray) -> np.ndarray:
    """The points with their squared norm as one more coordinate: one matrix product then ranks the distances."""
    return np.column_stack([points, np.einsum("ij,ij->i", points, points)])


def _smallest(scores: np.ndarray, k: int) -> np.ndarray:
    """Columns of the k smallest scores in each row, in any order; shape (n, k)."""
    n, width = scores.shape
    if k == 1:
        return np.asarray(scores.argmin(axis=1))[:, None]
    n_groups = width // GROUP_ROWS
    if n_groups <= 2 * k:
        return np.asarray(np.argpartition(scores, k - 1, axis=1)[:, :k])
    # The k smallest lie in the k groups that have the smallest minima, and among the few that fill no group.
    grouped = scores[:, : n_groups * GROUP_ROWS].reshape(n, GROUP_ROWS, n_groups)
    groups = np.argpartition(grouped.min(axis=1), k - 1, axis=1)[:, :k]
    members = (groups[:, :, None] + n_groups * np.arange(GROUP_ROWS)).reshape(n, -1)
    rest = np.broadcast_to(np.arange(n_groups * GROUP_ROWS, width), (n, width - n_groups * GROUP_ROWS))
    members = np.hstack([members, rest])
    best = np.argpartition(np.take_along_axis(scores, members, axis=1), k - 1, axis=1)[:, :k]
    return np.take_along_axis(members, best, axis=1)


def _exact(block: np.ndarray, pool: np.ndarray, candidates: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Distances to the k nearest candidates in double precision, ascending, and their positions in the pool.

    Equal distances are equal in every digit kept; of these the row that stands first in the pool comes first.
    """
    gaps = block[:, None, :].astype(np.float64) - pool[candidates]
    distances = np.round(np.sqrt(np.einsum("ijk,ijk->ij", gaps, gaps)), 7)
    order = np.lexsort((candidates, distances), axis=1)[:, :k]
    return np.take_along_axis(distances, order, axis=1), np.take_along_axis(candidates, order, axis=1)


def _with_twins(found: Neighbors, keys: np.ndarray, pool: np.ndarray) -> Neighbors:
    """Distance zero, and the position of an equal row, for as many of the neighbors as equal the target."""
    order = np.argsort(pool, kind="stable")
    ranked = pool[order]
    first, after = (np.searchsorted(ranked, keys, side) for side in ("left", "right"))
    distances, positions = found.distances.copy(), found.positions.copy()
    for rank in range(distances.shape[1]):
        equal = after - first > rank
        distances[equal, rank] = 0.0
        positions[equal, rank] = order[first[equal] + rank]
    return Neighbors(distances, positions)
