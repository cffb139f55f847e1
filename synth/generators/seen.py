"""What the parts of a table hold where nothing may repeat, on disk, one part in memory at a time.

Of numbers that are taken in an order it is how many; of other values 8 bytes each.
"""

import hashlib
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from synth.output import whole_file


@dataclass(frozen=True)
class SeenOnDisk:
    """What the parts before one hold, and its own for those after it: a `synth.part.Seen`.

    Two values that share their 64 bits count as one. That makes a generator draw another value and nothing else.

    Attributes:
        folder: where they are kept.
        index: of the part, from 0; those before it are made.
    """

    folder: Path
    index: int

    def taken(self, place: str) -> int:
        """How many numbers the parts before have taken."""
        return int(self._path(place, self.index - 1, "txt").read_text(encoding="ascii")) if self.index else 0

    def take(self, place: str, n: int) -> None:
        """Note how many numbers this part and those before it have taken, for those after it."""
        with self._written(place, "txt") as beside:
            beside.write_text(str(n), encoding="ascii")

    def among(self, place: str, hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Which of the values a part before holds; shape (n,)."""
        distinct, places = np.unique(hashes, return_inverse=True)
        found = np.zeros(len(distinct), dtype=bool)
        for index in range(self.index):
            known = np.load(self._path(place, index, "npy"), allow_pickle=False)
            if len(known):
                at = np.minimum(np.searchsorted(known, distinct), len(known) - 1)
                found |= known[at] == distinct
        return found[places]

    def add(self, place: str, hashes: NDArray[np.uint64]) -> None:
        """Note values of this part, for those after it."""
        with self._written(place, "npy") as beside:
            np.save(beside, np.sort(hashes))

    def _written(self, place: str, suffix: str) -> AbstractContextManager[Path]:
        self.folder.mkdir(exist_ok=True)
        return whole_file(self._path(place, self.index, suffix))

    def _path(self, place: str, index: int, suffix: str) -> Path:
        name = hashlib.blake2b(place.encode(errors="surrogatepass"), digest_size=8).hexdigest()
        return self.folder / f"{index:05d}-{name}.{suffix}"
