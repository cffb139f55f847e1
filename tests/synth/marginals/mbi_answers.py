"""`mbi`'s estimation in a process of its own, which JAX fills with threads: measurements in, distributions out.

Messages are pickled through standard input and output: a dictionary of sizes and a list of (clique, values, sigma) for
a pair of the total and a list of marginals, the joint distribution last.
"""

import pickle
import sys
from typing import Any

import jax
import mbi
import numpy as np
from mbi.marginal_loss import WeightedQuery

MOST_STEPS = 20_000


def answer(sizes: dict[str, int], known: list[tuple[tuple[str, ...], Any, Any]]) -> tuple[float, list[Any]]:
    """The total, and the marginals of what was measured and of all attributes, at the optimum."""
    names = tuple(sizes)
    measurements = [measurement(*first) for first in known]
    domain = mbi.Domain(names, tuple(sizes.values()))
    estimator = mbi.estimation.MirrorDescent()
    model = estimator.estimate(domain, measurements, known_total=None, iters=MOST_STEPS, tol=1e-12, patience=5)
    # The joint is by variable elimination, which no clique of the tree helps.
    cliques = [*(clique for clique, _, _ in known), names]
    tables = [model.project(clique).transpose(clique).datavector(flatten=False) for clique in cliques]
    return float(model.total), [np.asarray(table, dtype=np.float64) for table in tables]


def measurement(clique: tuple[str, ...], values: Any, sigma: Any) -> mbi.LinearMeasurement:
    """One standard deviation for all cells as it is, one for each cell as a weighted query."""
    if np.ndim(sigma) == 0:
        return mbi.LinearMeasurement(values.ravel(), clique, float(sigma))
    weights = 1 / sigma.ravel()
    return mbi.LinearMeasurement(values.ravel() * weights, clique, 1.0, WeightedQuery(weights))


def main() -> None:
    """Answer until the input ends."""
    jax.config.update("jax_enable_x64", True)  # type: ignore[no-untyped-call]
    out, sys.stdout = sys.stdout.buffer, sys.stderr
    while True:
        try:
            question = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        pickle.dump(answer(*question), out)
        out.flush()


if __name__ == "__main__":
    main()
