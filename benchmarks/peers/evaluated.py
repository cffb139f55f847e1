"""Tables as they are, for a peer that evaluates or generates, and its cost; it runs where the project is not.

To evaluate, a folder holds ``train.csv``, ``holdout.csv``, ``synthetic.csv`` and the rest in ``task.json``;
``result.json`` comes back. To generate, it holds ``train.csv`` and ``task.json`` with the schema's columns;
``synthetic.csv`` comes back as well.
"""

import json
import platform
import resource
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import pandas as pd


@dataclass(frozen=True)
class Three:
    """The tables of an evaluation.

    Attributes:
        train: real rows that the generator saw.
        holdout: real rows that it did not see.
        synthetic: rows that it made.
    """

    train: pd.DataFrame
    holdout: pd.DataFrame
    synthetic: pd.DataFrame


def read_three(folder: Path) -> Three:
    """The tables of a folder."""
    return Three(*(read_csv(folder / f"{name}.csv") for name in ("train", "holdout", "synthetic")))


def read_csv(path: Path, texts: Iterable[str] = ()) -> pd.DataFrame:
    """A table whose empty cells alone are missing; columns named as texts are not read as numbers."""
    return pd.read_csv(path, keep_default_na=False, na_values=[""], dtype=dict.fromkeys(texts, str))


def read_task(folder: Path) -> dict[str, Any]:
    """What to do."""
    task: dict[str, Any] = json.loads((folder / "task.json").read_text())
    return task


def measured(run: Callable[[], object]) -> dict[str, float]:
    """What a run costs: processor seconds of all threads, seconds of the clock, and the process's peak MiB."""
    began = time.process_time(), time.perf_counter()
    run()
    ended = time.process_time(), time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"cpu_s": ended[0] - began[0], "wall_s": ended[1] - began[1], "peak_mib": peak}


def write_result(folder: Path, result: Mapping[str, Any], packages: list[str]) -> None:
    """Written last: a result is whole or not there."""
    versions = {name: metadata.version(name) for name in packages} | {"python": platform.python_version()}
    (folder / "result.json").write_text(json.dumps({**result, "versions": versions}))
