"""Whether the 95% intervals of gated whole-row figures hold their expectation, by simulation.

Near zero the synthetic rows are a fresh sample, half way they follow the population in part, and far off they are the
training rows with their columns shuffled.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from evaluate.fidelity import detection
from evaluate.metrics import CATALOG
from evaluate.sampling import shuffle_columns
from evaluate.tables import Tables

SIZES = (500, 250)
"""Rows of train, and of the fresh and the synthetic sample."""
UPPER = 0.97

Draw = Callable[[pd.DataFrame, np.random.Generator], pd.DataFrame]
Row = tuple[float, float | None, float | None]


@pytest.fixture(params=["near zero", "half way", "far"])
def setting(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    return kind


@pytest.fixture
def simulate(
    setting: str, population: Callable[..., pd.DataFrame], tables_of: Callable[..., Tables], tables: Tables
) -> Callable[..., dict[str, np.ndarray]]:
    """Value, low and high of figures in many replicates; shape (n_replicates, 3)."""

    def synthetic(train: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
        if setting == "near zero":
            return population(SIZES[1], rng)
        if setting == "half way":
            return population(SIZES[1], rng, strength=0.6, tilt=0.2)
        return shuffle_columns(train, rng)

    def run(n_replicates: int, of: Callable[[Tables], dict[str, Row]]) -> dict[str, np.ndarray]:
        found: dict[str, list[Row]] = {}
        for replicate in range(n_replicates):
            rng = np.random.default_rng([replicate, 17])
            train, fresh = (population(n, rng) for n in SIZES)
            for name, row in of(tables_of(train, fresh, synthetic(train, rng), tables.schema, replicate)).items():
                found.setdefault(name, []).append(row)
        return {name: np.array(rows, dtype=float) for name, rows in found.items()}

    return run


def gated(measure: Callable[[Tables], object]) -> Callable[[Tables], dict[str, Row]]:
    """The figures of a measure that a rule may rest on."""

    def of(tables: Tables) -> dict[str, Row]:
        estimates = getattr(measure(tables), "estimates", ())
        return {e.measure: (e.value, e.low, e.high) for e in estimates if CATALOG[e.measure].gateable}

    return of


def coverage(rows: np.ndarray) -> float:
    """How many intervals contain the mean of all values."""
    expected = rows[:, 0].mean()
    return float(((rows[:, 1] <= expected) & (expected <= rows[:, 2])).mean())


def slack(n: int, share: float) -> float:
    """By how much the coverage that n replicates show is off, all but 1 in 1,000 times."""
    return 3.3 * float(np.sqrt(share * (1 - share) / n))


def check(found: dict[str, np.ndarray], setting: str, least: float) -> None:
    for name, rows in found.items():
        seen, most = coverage(rows), UPPER
        assert seen >= least - slack(len(rows), least), (name, seen)
        assert seen <= most + slack(len(rows), most), (name, seen)


@pytest.mark.parametrize("setting", ["half way"])
def test_intervals_hold_their_expectation(simulate, setting):
    check(simulate(25, gated(detection.measure)), setting, 0.93)


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_intervals_hold_their_expectation_in_95_of_100_cases(simulate, setting):
    check(simulate(1_000, gated(detection.measure)), setting, 0.93)


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("setting", ["near zero"])
def test_the_excess_of_a_fresh_sample_is_zero_on_average(simulate, setting):
    for name, rows in simulate(150, gated(detection.measure)).items():
        values = rows[:, 0]
        assert abs(values.mean()) < 3.3 * values.std() / np.sqrt(len(values)), name
