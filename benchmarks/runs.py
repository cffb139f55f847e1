"""What was measured, kept as JSON after every run, so that a table is drawn again without running anything."""

import datetime
import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

NOT_INSTALLED = "not installed (make bench-peers)"
PACKAGES = ("numpy", "pandas", "scikit-learn", "opendp", "dp-accounting")


@dataclass(frozen=True)
class Run:
    """One fit, sample and score.

    Attributes:
        name: of the generator or landmark.
        epsilon: none for landmarks.
        seed: of the sample, and of what is not noise.
        fit_s: seconds, noise drawing included.
        fit_cpu_s: processor seconds of the same, which other work on the machine does not lengthen as much.
        sample_s: seconds for as many rows as the train part has.
        scores: figures by name.
        failure: why there is none; none where there are.
        versions: of a peer's packages.
    """

    name: str
    epsilon: float | None = None
    seed: int = 0
    fit_s: float | None = None
    fit_cpu_s: float | None = None
    sample_s: float | None = None
    scores: dict[str, float] = field(default_factory=dict)
    failure: str | None = None
    versions: dict[str, str] | None = None


@dataclass(frozen=True)
class Estimation:
    """Our estimation and `mbi`'s on the same measurements.

    Attributes:
        name: of the generator whose measurements they are.
        epsilon: of its fit.
        n_measurements: how many.
        ours_s: seconds of ours.
        ours_loss: what both minimize, of ours.
        first_s: seconds of `mbi`'s first call, compiling included.
        second_s: seconds of its second call on the same cliques.
        peer_loss: of `mbi`'s, after the steps it takes unless told.
        equal_s: seconds, compiled and in float64, of as many steps as bring it to our loss; none where no number does.
        equal_steps: the last number tried.
        failure: why there is none.
    """

    name: str
    epsilon: float
    n_measurements: int = 0
    ours_s: float | None = None
    ours_loss: float | None = None
    first_s: float | None = None
    second_s: float | None = None
    peer_loss: float | None = None
    equal_s: float | None = None
    equal_steps: int = 0
    failure: str | None = None


def read_kept(path: Path | None, empty: Any) -> Any:
    """The results that a file holds, which are not measured again; `empty` where there is no file."""
    return json.loads(path.read_text(encoding="utf-8")) if path is not None and path.exists() else empty


def keep(path: Path | None, content: Any) -> None:
    """Write results to their file, if they have one."""
    if path is not None:
        path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def about(**more: Any) -> dict[str, Any]:
    """Where and when results were measured."""
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    return {"python": platform.python_version(), "cores": os.cpu_count(), "date": date, **more}


class Results:
    """All runs so far; those that a file holds are not done again.

    Args:
        path: the file; none keeps nothing.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        content = read_kept(path, {})
        self.about: dict[str, Any] = content.get("about") or _about()
        self.runs = [Run(**run) for run in content.get("runs", [])]
        self.estimations = [Estimation(**each) for each in content.get("estimations", [])]

    def has(self, name: str, epsilon: float | None, seed: int) -> bool:
        """Whether a run is there already; a peer that failed once is not tried with another seed, unless by now it is
        installed.
        """
        tried = [run for run in self.named(name, epsilon) if not (run.failure or "").endswith(NOT_INSTALLED)]
        return any(run.seed == seed or run.failure is not None for run in tried)

    def add(self, result: "Run | Estimation") -> None:
        """Keep a run, at once."""
        if isinstance(result, Run):
            self.runs = [run for run in self.runs if not _same(run, result)] + [result]
        else:
            self.estimations.append(result)
        estimations = [asdict(each) for each in self.estimations]
        keep(self._path, {"about": self.about, "runs": [asdict(run) for run in self.runs], "estimations": estimations})

    def named(self, name: str, epsilon: float | None) -> Sequence[Run]:
        """The runs of one row of the table."""
        return [run for run in self.runs if (run.name, run.epsilon) == (name, epsilon)]


def _same(run: Run, other: Run) -> bool:
    return (run.name, run.epsilon, run.seed) == (other.name, other.epsilon, other.seed)


def _about() -> dict[str, Any]:
    versions = {name: metadata.version(name) for name in PACKAGES}
    return {"cores": os.cpu_count(), "python": platform.python_version(), "versions": versions}
