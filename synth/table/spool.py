"""Room for what a table is worked on with: in memory while it is little, then in a file that nobody else can open.

The files have no name. They are gone with the last user, or with the process, however that ends. Where a file system
has no such files, they have a name that their owner alone can open. It is removed at once and before anything is
written: a process that is killed in between leaves an empty file.
"""

import math
import os
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike, NDArray

from synth.errors import OutputError

MOST_IN_MEMORY = 1 << 25  # bytes up to which arrays are kept in memory
_WRITTEN_BYTES = 1 << 24


class Spool:
    """*Sensitive*. Arrow arrays that are put away and read again as often as asked, each by its number."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self._file: Any = None
        self._arrays: list[pa.Array] = []
        self._places: list[tuple[int, int]] = []
        self._n_bytes = 0

    def add(self, array: pa.Array) -> int:
        self._arrays.append(array)
        self._n_bytes += array.nbytes + (array.dictionary.nbytes if isinstance(array, pa.DictionaryArray) else 0)
        if self._file is None:
            if self._n_bytes <= MOST_IN_MEMORY:
                return len(self._arrays) - 1
            self._file = nameless_file(_folder(self.folder))
            weakref.finalize(self, self._file.close)
        for each in self._arrays:
            self._write(each)
        self._arrays.clear()
        return len(self._places) - 1

    def read(self, number: int) -> pa.Array:
        if self._file is None:
            return self._arrays[number]
        # Read, not mapped: pages of a mapped file count as the memory of the process.
        start, size = self._places[number]
        with pa.ipc.open_stream(pa.py_buffer(os.pread(self._file.fileno(), size, start))) as stream:
            return stream.read_next_batch().column(0)

    def _write(self, array: pa.Array) -> None:
        batch, sink = pa.RecordBatch.from_arrays([array], ["x"]), pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        block, last = sink.getvalue(), self._places[-1] if self._places else (0, 0)
        write(self._file, np.frombuffer(block, np.uint8), _folder(self.folder))
        self._places.append((sum(last), block.size))


@dataclass(frozen=True)
class Disk:
    """The maker of arrays that are as long as a table: in memory while they are small, else on the disk of a folder."""

    folder: Path | None = None

    def __call__(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Zeros; column by column in memory, as encodings fill them."""
        n_bytes = math.prod(shape) * np.dtype(dtype).itemsize
        if n_bytes <= MOST_IN_MEMORY:  # a file of nothing cannot be mapped
            return np.zeros(shape, dtype, order="F")
        folder = _folder(self.folder)
        with nameless_file(folder) as file:
            # A page of a mapped file for which there is no room would end the process with a signal.
            for start in range(0, n_bytes, _WRITTEN_BYTES):
                write(file, np.zeros(min(_WRITTEN_BYTES, n_bytes - start), np.uint8), folder)
            return np.asarray(np.memmap(file, dtype, "r+", shape=shape))


TEMPORARY = Disk()  # where the system's temporary files are


def _folder(folder: Path | None) -> Path:
    if folder is None:
        return Path(tempfile.gettempdir())
    with _told(folder):
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def nameless_file(folder: Path) -> Any:
    with _told(folder):
        return tempfile.TemporaryFile(dir=folder, buffering=0)


def write(file: Any, block: NDArray[np.uint8], folder: Path) -> None:
    with _told(folder):
        while len(block):
            block = block[file.write(block.data) :]


@contextmanager
def _told(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else type(error).__name__
        raise OutputError(
            f"the rows that are read cannot be kept on the disk of folder={str(folder)!r} ({reason}); "
            "make room there, or set TMPDIR to a folder on another disk"
        ) from None
