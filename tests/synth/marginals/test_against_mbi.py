"""The same noisy measurements into our estimation and into `mbi`'s, the reference: the same distribution out.

Both minimize the same convex loss over the same exponential family, so that they must meet at the optimum; each is run
until it is there. How far apart two marginals are is the sum of the absolute differences of all their cells, as a share
of the total. The grid of clique sets, with why each is there, is in conftest.py.

`mbi` comes with the `dev` extra; where it is absent these tests are skipped: ``make test`` installs it. It
runs in a process of its own: JAX warns of, and may hang on, every fork of a process that it was imported into.
"""

import importlib.util
import itertools
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from synth.marginals.distributions import MarkovRandomField
from synth.marginals.estimation import estimate
from synth.marginals.factor import Clique, Measurement

pytestmark = [
    pytest.mark.statistical,  # the oracle compiles for a quarter of a minute
    pytest.mark.skipif(importlib.util.find_spec("mbi") is None, reason="mbi, the oracle, is not installed"),
]
DOMAIN = {"a": 2, "b": 3, "c": 4, "d": 2, "e": 3}
NAMES = tuple(DOMAIN)
SHARE_OF_TOTAL = 1e-3
"""What is asked of a fit that stops when it gains little."""
AT_THE_OPTIMUM = 1e-5
"""What is asked where both have converged; found 1e-7 and less."""
N_ITERATIONS = 20_000

Table = NDArray[np.float64]
Project = Callable[[Table, Mapping[str, int], Clique], Table]
Oracle = Callable[[Sequence[Measurement]], tuple[float, list[Table]]]
"""Measurements to `mbi`'s total and its marginals of what was measured, the joint distribution last."""


@pytest.fixture(scope="module")
def mbi() -> Iterator[Oracle]:
    command = [sys.executable, "-W", "ignore", str(Path(__file__).with_name("mbi_answers.py"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        to, back = process.stdin, process.stdout

        def ask(measurements: Sequence[Measurement]) -> tuple[float, list[Table]]:
            known = [(first.clique, first.values, first.sigma) for first in measurements]
            pickle.dump((DOMAIN, known), to)
            to.flush()
            total, tables = pickle.load(back)
            return total, tables

        yield ask


def distance(ours: Table, theirs: Table) -> float:
    return float(np.abs(ours - theirs).sum() / theirs.sum())


def measured(
    joint: Table, projected: Project, cliques: Sequence[Clique], rng: np.random.Generator
) -> list[Measurement]:
    """Noise of a different size on each clique, so that their weights matter; some counts fall below zero."""
    sigmas = itertools.cycle([5.0, 2.0, 10.0])
    tables = [(clique, projected(joint, DOMAIN, clique), sigma) for clique, sigma in zip(cliques, sigmas, strict=False)]
    return [Measurement(clique, table + rng.normal(0, sigma, table.shape), sigma) for clique, table, sigma in tables]


def at_the_optimum(measurements: Sequence[Measurement]) -> MarkovRandomField:
    return estimate(DOMAIN, measurements, n_iterations=N_ITERATIONS, tolerance=1e-12)


def test_the_same_measurements_give_the_same_marginals_in_the_tree_and_out_of_it(
    mbi: Oracle, cliques: list[Clique], random_joint: Table, projected: Project, rng: np.random.Generator
) -> None:
    measurements = measured(random_joint, projected, cliques, rng)
    ours, (total, theirs) = at_the_optimum(measurements), mbi(measurements)
    assert ours.total == pytest.approx(total)
    assert distance(estimate(DOMAIN, measurements).marginal(NAMES), theirs[-1]) < SHARE_OF_TOTAL  # as a fit stops
    for clique, table in zip(cliques, theirs, strict=False):
        assert distance(ours.marginal(clique), table) < AT_THE_OPTIMUM, clique
    for clique in itertools.chain.from_iterable(itertools.combinations(NAMES, order) for order in range(6)):
        assert distance(ours.marginal(clique), projected(theirs[-1], DOMAIN, clique)) < AT_THE_OPTIMUM, clique


def test_cells_that_are_measured_more_surely_than_others_weigh_the_same(
    mbi: Oracle, random_joint: Table, projected: Project, rng: np.random.Generator
) -> None:
    measurements = measured(random_joint, projected, [("a", "b"), ("b", "c")], rng)
    table = projected(random_joint, DOMAIN, ("c",))
    sigmas = np.array([0.5, 4.0, 20.0, 8.0])  # as where cells were merged, or cannot occur
    measurements.append(Measurement(("c",), table + rng.normal(0, sigmas), sigmas))
    total, theirs = mbi(measurements)
    # Its total leaves out what has a weight for each cell, ours does not.
    ours = estimate(DOMAIN, measurements, total=total, n_iterations=N_ITERATIONS, tolerance=1e-12)
    assert distance(ours.marginal(NAMES), theirs[-1]) < AT_THE_OPTIMUM


@pytest.mark.parametrize("fault", ["sigma", "clique"])
def test_a_fault_in_what_is_estimated_is_seen(
    mbi: Oracle, fault: str, random_joint: Table, projected: Project, rng: np.random.Generator
) -> None:
    cliques: list[Clique] = [("a", "b"), ("b", "c"), ("a", "c")]
    measurements = measured(random_joint, projected, cliques, rng)
    first = measurements[0]
    wrong = Measurement(first.clique, first.values, 10 * float(np.max(first.sigma)))
    changed = [wrong, *measurements[1:]] if fault == "sigma" else measurements[1:]
    _, theirs = mbi(measurements)
    assert distance(at_the_optimum(changed).marginal(NAMES), theirs[-1]) > 5 * SHARE_OF_TOTAL
