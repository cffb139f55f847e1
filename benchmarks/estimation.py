"""The estimation alone: the measurements of one private fit, given to ours and to `mbi`'s, both from nothing."""

import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peer import HERE, run_script
from benchmarks.runs import Estimation
from synth.marginals import Measurement
from synth.marginals.distributions import MarkovRandomField
from synth.marginals.estimation import estimate
from synth.marginals.factor import merge


@dataclass(frozen=True, eq=False)
class Problem:
    """What a fit gave to its last estimation.

    Attributes:
        sizes: number of codes of each attribute.
        measurements: all of them.
    """

    sizes: Mapping[str, int]
    measurements: Sequence[Measurement]


@contextmanager
def estimations() -> Iterator[list[Problem]]:
    """What generators, imported before, estimate meanwhile; the list grows as they do."""
    seen: list[Problem] = []

    def watched(domain: Mapping[str, int], measurements: Sequence[Measurement], **more: Any) -> MarkovRandomField:
        seen.append(Problem(domain, list(measurements)))
        return estimate(domain, measurements, **more)

    names = [name for name in sys.modules if name.startswith("synth.generators.")]
    places = [module for module in map(sys.modules.__getitem__, names) if vars(module).get("estimate") is estimate]
    for module in places:
        vars(module)["estimate"] = watched
    try:
        yield seen
    finally:
        for module in places:
            vars(module)["estimate"] = estimate


def compare(name: str, epsilon: float, problem: Problem, limit_s: float) -> Estimation:
    """Seconds and loss of both; repeated measurements of a clique are merged first, structural zeros left out of both.

    Args:
        name: of the generator whose fit it was.
        epsilon: of the fit.
        problem: what to estimate.
        limit_s: seconds after which `mbi` is stopped.
    """
    merged = [measurement for measurement in merge(problem.measurements, problem.sizes) if measurement.clique]
    started = time.perf_counter()
    ours = estimate(problem.sizes, merged)
    _ = ours.beliefs
    ours_s = time.perf_counter() - started
    done = Estimation(name, epsilon, len(merged), ours_s, sum(_loss(ours, measurement) for measurement in merged))
    with tempfile.TemporaryDirectory() as position:
        folder = Path(position)
        cliques = [list(measurement.clique) for measurement in merged]
        arrays: dict[str, Any] = {f"values.{index}": measurement.values for index, measurement in enumerate(merged)}
        arrays |= {f"sigma.{index}": np.asarray(measurement.sigma) for index, measurement in enumerate(merged)}
        np.savez(folder / "measurements.npz", **arrays)
        for until in (None, done.ours_loss):
            task = {"sizes": dict(problem.sizes), "total": ours.total, "cliques": cliques, "until": until}
            (folder / "task.json").write_text(json.dumps(task))
            failure = run_script(Path(sys.executable), HERE / "peers" / "with_mbi.py", folder, limit_s)
            if failure is not None:
                return replace(done, failure=failure)
            done = replace(done, **json.loads((folder / "result.json").read_text()))
    return done


def _loss(model: MarkovRandomField, measurement: Measurement) -> float:
    return float(np.sum(((model.marginal(measurement.clique) - measurement.values) / measurement.sigma) ** 2)) / 2
