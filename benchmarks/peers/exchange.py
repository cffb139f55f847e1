"""What a peer's script is given and what it gives back, as files in one folder; it runs where the project is not.

``train.csv`` holds whole-number codes and ``task.json`` the rest; ``synthetic.csv`` and ``result.json`` come back.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from evaluated import measured, write_result


@dataclass(frozen=True)
class Task:
    """What to do.

    Attributes:
        mechanism: ``mst``, ``aim`` or another of the library.
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
    """Fit and sample, both measured, imports and reading left out; what they cost and a model tells is written last."""
    task = read_task(folder)
    frames: list[pd.DataFrame] = []
    models: list[Any] = []
    fitted = measured(lambda: models.append(fit(task)))
    sampled = measured(lambda: frames.append(sample(models[0], task)))
    frames[0][list(task.train.columns)].to_csv(folder / "synthetic.csv", index=False)
    cost = {"fit_s": fitted["wall_s"], "fit_cpu_s": fitted["cpu_s"], "sample_s": sampled["wall_s"]}
    cost |= {"cpu_s": fitted["cpu_s"] + sampled["cpu_s"], "peak_mib": sampled["peak_mib"]}
    write_result(folder, {**cost, **({} if tell is None else tell(models[0]))}, packages)
