"""What a peer's script is given and what it gives back, as files in one folder; it runs where the project is not.

``train.csv`` holds whole-number codes and ``task.json`` the rest; ``synthetic.csv`` and ``result.json`` come back.
"""

import json
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import pandas as pd


@dataclass(frozen=True)
class Task:
    """What to do.

    Attributes:
        mechanism: ``mst`` or ``aim``.
        train: codes, one column an attribute.
        sizes: number of codes of each attribute.
        epsilon: of the guarantee.
        delta: of the guarantee.
        rho: the zCDP cost that epsilon and delta allow.
        model_mb: limit of the model's size.
        seed: for what is not noise.
    """

    mechanism: str
    train: pd.DataFrame
    sizes: dict[str, int]
    epsilon: float
    delta: float
    rho: float
    model_mb: float
    seed: int


def read_task(folder: Path) -> Task:
    """The task that a folder holds."""
    return Task(train=pd.read_csv(folder / "train.csv"), **json.loads((folder / "task.json").read_text()))


def perform(
    folder: Path,
    packages: list[str],
    fit: Callable[[Task], Any],
    sample: Callable[[Any, Task], pd.DataFrame],
    tell: Callable[[Any], dict[str, float]] | None = None,
) -> None:
    """Fit and sample, both timed, imports and reading left out; the result, and what a model tells, is written last."""
    task = read_task(folder)
    started, used = time.perf_counter(), time.process_time()
    model = fit(task)
    fitted, used = time.perf_counter(), time.process_time() - used
    synthetic = sample(model, task)
    sampled = time.perf_counter()
    synthetic[list(task.train.columns)].to_csv(folder / "synthetic.csv", index=False)
    versions = {name: metadata.version(name) for name in packages} | {"python": platform.python_version()}
    seconds = {"fit_s": fitted - started, "fit_cpu_s": used, "sample_s": sampled - fitted}
    facts = {} if tell is None else tell(model)
    (folder / "result.json").write_text(json.dumps({**seconds, "versions": versions, "facts": facts}))
