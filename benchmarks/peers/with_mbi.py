"""`mbi`'s estimation on measurements that a folder holds: ``python with_mbi.py FOLDER``.

Mirror descent as it comes: 1,000 steps in float32. The first call compiles a program for these cliques; the second
finds it compiled, which no fit does that has new cliques. Where the task names a loss to reach, in float64 instead
(float32 stalls before the optimum), compiled, twice as many steps each time until it is there.
"""

import json
import sys
import time
from pathlib import Path

import jax
import mbi
import numpy as np
from mbi.marginal_loss import WeightedQuery

N_STEPS, MOST_STEPS = 1000, 64_000
NEAR = 1.001
"""A loss this many times ours counts as ours."""


def main(folder: Path) -> None:
    """Estimate, time and work the loss out."""
    task = json.loads((folder / "task.json").read_text())
    jax.config.update("jax_enable_x64", task["until"] is not None)
    arrays = np.load(folder / "measurements.npz")
    measurements = [
        (tuple(clique), arrays[f"values.{index}"].ravel(), arrays[f"sigma.{index}"].ravel())
        for index, clique in enumerate(task["cliques"])
    ]
    domain = mbi.Domain(tuple(task["sizes"]), tuple(task["sizes"].values()))
    measured = [measurement(*each) for each in measurements]

    def run(n_steps: int) -> tuple[float, float]:
        started = time.perf_counter()
        model = mbi.estimation.MirrorDescent().estimate(domain, measured, known_total=task["total"], iters=n_steps)
        marginals = [
            np.asarray(model.project(clique).datavector()) for clique, _, _ in measurements
        ]  # waits for the end
        seconds = time.perf_counter() - started
        terms = [
            ((mine - values) / sigma) ** 2 for mine, (_, values, sigma) in zip(marginals, measurements, strict=True)
        ]
        return seconds, sum(float(np.sum(term)) for term in terms) / 2

    first_s, _ = run(N_STEPS)
    n_steps = N_STEPS
    seconds, loss = run(n_steps)
    if task["until"] is None:
        result = {"first_s": first_s, "second_s": seconds, "peer_loss": loss}
    else:
        while loss > NEAR * task["until"] and n_steps < MOST_STEPS:
            n_steps *= 2
            seconds, loss = run(n_steps)
        result = {"equal_s": seconds if loss <= NEAR * task["until"] else None, "equal_steps": n_steps}
    (folder / "result.json").write_text(json.dumps(result))


def measurement(clique: tuple[str, ...], values: np.ndarray, sigma: np.ndarray) -> mbi.LinearMeasurement:
    """One standard deviation for all cells as it is, one for each cell as a weighted query."""
    if sigma.size == 1:
        return mbi.LinearMeasurement(values, clique, float(sigma[0]))
    return mbi.LinearMeasurement(values / sigma, clique, 1.0, WeightedQuery(1 / sigma))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
