"""Whether the 95% intervals of the gated figures contain what they estimate, by simulation.

What an interval should contain is the expectation of its figure: near zero, where the synthetic rows are a fresh
sample, and away from it, where they follow the population in part, or not at all.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from evaluate.fidelity import columns, pairs
from evaluate.tables import Tables, shuffle_columns
from synth.schema import Schema

GATED = ("columns.tvd.excess", "pairs.tvd.excess", "pairs.tvd.floor_share", "pairs.association.kept")
SIZES = (500, 250)
"""Rows of train, and of the fresh and the synthetic sample."""

Draw = Callable[[pd.DataFrame, np.random.Generator], pd.DataFrame]
Simulate = Callable[[int, Draw], dict[str, np.ndarray]]


@pytest.fixture
def simulate(population: Callable[..., pd.DataFrame], tables_of: Callable[..., Tables], tables: Tables) -> Simulate:
    """Value, low and high of each gated figure in many replicates; shape (replicates where it was measured, 3)."""
    schema: Schema = tables.schema

    def run(n_replicates: int, draw: Draw) -> dict[str, np.ndarray]:
        found: dict[str, list[tuple[float | None, ...]]] = {name: [] for name in GATED}
        for replicate in range(n_replicates):
            rng = np.random.default_rng([replicate, 17])
            train, fresh = (population(n, rng) for n in SIZES)
            drawn = tables_of(train, fresh, draw(train, rng), schema, replicate)
            for estimate in (*columns.measure(drawn).estimates, *pairs.measure(drawn).estimates):
                if estimate.measure in found:
                    found[estimate.measure].append((estimate.value, estimate.low, estimate.high))
        return {name: np.array(rows) for name, rows in found.items()}

    return run


def coverage(rows: np.ndarray, truth: float | None = None) -> float:
    """How many intervals contain the truth, which is the mean of all values unless known."""
    expected = rows[:, 0].mean() if truth is None else truth
    return float(((rows[:, 1] <= expected) & (expected <= rows[:, 2])).mean())


def least(n: int, share: float = 0.95) -> float:
    """The smallest coverage that n replicates of a true one of `share` show, all but 1 in 1,000 times."""
    return share - 3.1 * float(np.sqrt(share * (1 - share) / n))


@pytest.fixture(params=["a fresh sample", "half an association", "shuffled columns"])
def draw(request: pytest.FixtureRequest, population: Callable[..., pd.DataFrame]) -> Draw:
    kind: str = request.param
    if kind == "a fresh sample":
        return lambda train, rng: population(SIZES[1], rng)
    if kind == "half an association":
        return lambda train, rng: population(SIZES[1], rng, strength=0.6, tilt=0.2)
    return lambda train, rng: shuffle_columns(train, rng)


def test_intervals_of_gated_figures_contain_their_expectation(simulate: Simulate, draw: Draw) -> None:
    for measure, rows in simulate(60, draw).items():
        assert coverage(rows) >= least(len(rows)), measure


@pytest.mark.slow
def test_intervals_of_gated_figures_contain_their_expectation_in_95_of_100_cases(
    simulate: Simulate, draw: Draw
) -> None:
    for measure, rows in simulate(600, draw).items():
        assert len(rows) >= 200, measure
        assert coverage(rows) >= max(0.92, least(len(rows))), measure


@pytest.mark.slow
def test_the_excess_of_a_fresh_sample_is_zero_on_average(
    simulate: Simulate, population: Callable[..., pd.DataFrame]
) -> None:
    found = simulate(300, lambda train, rng: population(SIZES[1], rng))
    for measure in GATED[:2]:
        values = found[measure][:, 0]
        assert abs(values.mean()) < 3.3 * values.std() / np.sqrt(len(values))
        assert coverage(found[measure], 0.0) >= 0.92
