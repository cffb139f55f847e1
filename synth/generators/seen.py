"""What the parts of a table hold where nothing may repeat, on disk: 8 bytes a value, one part in memory at a time."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from synth.output import whole_file


@dataclass(frozen=True)
class SeenOnDisk:
    """The values of the parts before one, and its own for those after it: a `synth.part.Seen`.

    Two values that share their 64 bits count as one. That makes a generator draw another value and nothing else.

    Attributes:
        folder: where they are kept.
        index: of the part, from 0.
    """

    folder: Path
    index: int

    def among(self, place: str, hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Which of the values a part before holds; shape (n,)."""
        distinct, places = np.unique(hashes, return_inverse=True)
        found = np.zeros(len(distinct), dtype=bool)
        for index in range(self.index):
            known = np.load(self._path(place, index), allow_pickle=False)
            if len(known):
                at = np.minimum(np.searchsorted(known, distinct), len(known) - 1)
                found |= known[at] == distinct
        return found[places]

    def add(self, place: str, hashes: NDArray[np.uint64]) -> None:
        """Note values of this part, for those after it."""
        self.folder.mkdir(exist_ok=True)
        with whole_file(self._path(place, self.index)) as beside:
            np.save(beside, np.sort(hashes))

    def _path(self, place: str, index: int) -> Path:
        name = hashlib.blake2b(place.encode(errors="surrogatepass"), digest_size=8).hexdigest()
        return self.folder / f"{index:05d}-{name}.npy"
