"""Run by a test: a fit on a stored table in a process of its own, and what memory it took.

Prints a line of JSON: anonymous memory of the process in MB before the fit and at most, bytes of the arrays on the
disk, and seconds. Pages of mapped files are no part of it: the system takes them back whenever others need the room.
"""

import json
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from synth.generators.neural_generator import NeuralGenerator
from synth.generators.registry import generator
from synth.schema import Schema, build_schema
from synth.stored import open_table
from synth.transforms import columns as memmap_storage

N_NUMBERS, N_CATEGORIES = 8, 7
WIDE = {"tvae": {"encoder_widths": (32,), "decoder_widths": (32,)}, "ctgan": {"generator_widths": (32,)}}


def schema_of(n_rows: int) -> Schema:
    """Eight numbers and seven columns of categories."""
    columns: dict[str, Any] = {}
    for i in range(N_NUMBERS):
        columns[f"n{i}"] = {"kind": "real", "bounds": [-10.0, 10.0], "missing": i % 2 == 0}
    for i in range(N_CATEGORIES):
        columns[f"c{i}"] = {"kind": "categorical", "categories": [f"k{j}" for j in range(3 + 3 * i)]}
    return build_schema({"status": "declared", "n_units": n_rows, "columns": columns})


def write_rows(path: Path, n_rows: int) -> None:
    """A Parquet file of such rows, written some at a time."""
    rng = np.random.default_rng(0)
    with pq.ParquetWriter(path, _some(rng, 1).schema) as writer:
        for start in range(0, n_rows, 500_000):
            writer.write_table(_some(rng, min(500_000, n_rows - start)))


def _some(rng: np.random.Generator, n: int) -> pa.Table:
    columns: dict[str, Any] = {}
    for i in range(N_NUMBERS):
        numbers = rng.normal(i - 3, 1 + i / 3, n).clip(-10, 10)
        columns[f"n{i}"] = pa.array(numbers, mask=(rng.random(n) < 0.1) & (i % 2 == 0))
    for i in range(N_CATEGORIES):
        columns[f"c{i}"] = pa.array(np.array([f"k{j}" for j in range(3 + 3 * i)])[rng.integers(0, 3 + 3 * i, n)])
    return pa.table(columns)


def _anonymous_mb() -> int:
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) // 1024


class _Watch:
    """The most anonymous memory, looked at often."""

    def __init__(self) -> None:
        self.before = self.most = _anonymous_mb()
        self.n_bytes = 0
        threading.Thread(target=self._look, daemon=True).start()

    def _look(self) -> None:
        while True:
            self.most = max(self.most, _anonymous_mb())
            time.sleep(0.02)


def main(path: str, name: str, kind: str, n_rows: int, memory_mb: int) -> None:
    """One fit."""
    import opendp.prelude
    import sklearn.mixture
    import torch

    torch.set_num_threads(1)
    assert opendp.prelude and sklearn.mixture
    schema, watch, plain = schema_of(n_rows), _Watch(), memmap_storage._mapped

    def counted(file: Any, dtype: Any, shape: Any) -> Any:
        made = plain(file, dtype, shape)
        watch.n_bytes += made.nbytes
        return made

    memmap_storage._mapped = counted
    settings = {"epsilon": 1.0, "steps": 20} if kind == "private" else {"epochs": 1, "batch_size": 10_000}
    made = generator(name, **settings, d_latent=8, **WIDE[name])
    assert isinstance(made, NeuralGenerator)
    started = time.monotonic()
    with open_table(path, memory_mb=memory_mb, threads=1) as stored, tempfile.TemporaryDirectory() as folder:
        made.fit(stored, schema, place=Path(folder))
    found = {"before_mb": watch.before, "most_mb": watch.most, "mapped_mb": watch.n_bytes // 2**20}
    sys.stdout.write(json.dumps({**found, "seconds": round(time.monotonic() - started, 1)}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
