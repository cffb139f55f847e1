"""Whether the 95% intervals of the numbers that rules may name hold what they estimate, by simulation.

What an interval should hold is the expectation of its number: near zero, where the synthetic rows are a fresh sample or
close to one, and away from it, where they follow the population in part, or not at all. Decisions rest on intervals, so
how often they err is counted on the same draws.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

from evaluate.fidelity import columns, pairs, triples
from evaluate.gate.policy import Policy, Rule
from evaluate.gate.verdict import judge_candidate
from evaluate.metrics import CATALOG
from evaluate.result import Candidate, Estimate
from evaluate.sampling import shuffle_columns
from evaluate.tables import Tables
from synth.schema import Schema

MEASURES = {"fidelity.columns": columns, "fidelity.pairs": pairs, "fidelity.triples": triples}
OF_THE_POPULATION = (
    "columns.tail.excess.worst", "columns.spikes.kept.worst", "columns.lattice.kept.worst",
    "columns.categories.kept.worst",
)  # fmt: skip
"""Simulated on their own: they estimate differences and ratios of shares, not an expected distance."""
SIZES = (1_000, 400)
"""Rows of train, and of the fresh and the synthetic sample."""
MANY = 8
"""Distances that a mean is over for its noise to be normal; there are ten pairs and ten triples, and five columns."""

Draw = Callable[[pd.DataFrame, np.random.Generator], pd.DataFrame]
Key = tuple[str, tuple[str, ...]]


@dataclass(frozen=True)
class Simulation:
    """All estimates of each gated number over many replicates."""

    found: dict[Key, list[Estimate]]

    def coverage(self, key: Key) -> float:
        """How many intervals hold the expectation, which is the mean of all values."""
        rows = np.array([(e.value, e.low, e.high) for e in self.found[key]])
        expected = rows[:, 0].mean()
        return float(((rows[:, 1] <= expected) & (expected <= rows[:, 2])).mean())

    def outcomes(self, key: Key) -> dict[str, float]:
        """How often a rule passes and fails whose limit is what the number comes to."""
        limit = float(np.mean([estimate.value for estimate in self.found[key]]))
        policy = Policy(name="p", version=1, audience="a", rules=(Rule(measure=key[0], limit=limit, why="because"),))
        verdicts = [judge_candidate(Candidate("c", (estimate,)), policy).verdict for estimate in self.found[key]]
        return {outcome: verdicts.count(outcome) / len(verdicts) for outcome in ("PASS", "FAIL")}  # type: ignore[arg-type]


@pytest.fixture(scope="module", params=["a fresh sample", "nearly one", "half an association", "shuffled columns"])
def draw(request: pytest.FixtureRequest, population: Callable[..., pd.DataFrame]) -> Draw:
    kind: str = request.param
    if kind == "shuffled columns":
        return lambda train, rng: shuffle_columns(train, rng)
    bent = {
        "a fresh sample": {}, "nearly one": {"strength": 0.9, "tilt": 0.05},
        "half an association": {"strength": 0.6, "tilt": 0.2},
    }[kind]  # fmt: skip
    return lambda train, rng: population(SIZES[1], rng, **bent)


@pytest.fixture(scope="module")
def simulate(
    population: Callable[..., pd.DataFrame], tables_of: Callable[..., Tables], schema: Schema, draw: Draw
) -> Callable[[int], Simulation]:
    def run(n_replicates: int) -> Simulation:
        found: dict[Key, list[Estimate]] = {}
        for replicate in range(n_replicates):
            rng = np.random.default_rng([replicate, 17])
            train, fresh = (population(n, rng) for n in SIZES)
            tables = tables_of(train, fresh, draw(train, rng), schema, replicate)
            for estimate in _estimates(tables):
                found.setdefault((estimate.measure, estimate.subject), []).append(estimate)
        return Simulation(found)

    return run


def _estimates(tables: Tables) -> Iterator[Estimate]:
    for module in MEASURES.values():
        for estimate in module.measure(tables).estimates:
            if CATALOG[estimate.measure].gateable and estimate.measure not in OF_THE_POPULATION:
                yield estimate


@pytest.fixture(scope="module")
def few(simulate: Callable[[int], Simulation]) -> Simulation:
    return simulate(20)


@pytest.fixture(scope="module")
def thousand(simulate: Callable[[int], Simulation]) -> Simulation:
    return simulate(1_000)


def bounds(key: Key) -> tuple[float, float]:
    """The coverage that a number is held to: see "How the intervals are made" in the documentation."""
    measure, subject = key
    if measure.endswith(".worst"):
        return 0.93, 1.0
    if measure == "pairs.dependence.floor_share":  # a square, wide near zero
        return 0.93, 1.0
    return (0.93, 0.99) if subject or measure.startswith("columns.") else (0.93, 0.97)


@pytest.mark.statistical
def test_every_number_that_a_rule_may_name_is_simulated(few: Simulation) -> None:
    gated = {name for name, number in CATALOG.items() if number.gateable and number.by in MEASURES}
    assert {measure for measure, _ in few.found} | set(OF_THE_POPULATION) == gated


def test_intervals_hold_their_expectation(few: Simulation) -> None:
    for key in few.found:
        # Less than this would show in 1 of 1,000 simulations of so few replicates at a coverage of 93%.
        assert few.coverage(key) >= 0.93 - 3.1 * np.sqrt(0.93 * 0.07 / 20), key


@pytest.mark.slow
def test_intervals_hold_their_expectation_in_95_of_100_cases(thousand: Simulation) -> None:
    beside = {}
    for key, estimates in thousand.found.items():
        assert len(estimates) >= 950, key
        low, high = bounds(key)
        coverage = thousand.coverage(key)
        if not low - 0.005 <= coverage <= high + 0.005:
            beside[key] = coverage
    assert not beside


@pytest.mark.slow
def test_where_the_truth_is_on_the_limit_a_rule_errs_as_rarely_as_it_says(thousand: Simulation) -> None:
    for key in thousand.found:
        if key[1] or key[0].endswith(".worst"):
            continue
        outcomes = thousand.outcomes(key)
        # 2.5% on either side; the noise of a figure near zero is not symmetric.
        assert outcomes["PASS"] <= 0.055, key
        assert outcomes["FAIL"] <= 0.055, key
        assert sum(outcomes.values()) <= 0.075, key


@pytest.mark.slow
def test_the_excess_of_a_fresh_sample_is_zero_on_average(
    population: Callable[..., pd.DataFrame], tables_of: Callable[..., Tables], schema: Schema
) -> None:
    found: dict[str, list[float]] = {}
    for replicate in range(400):
        rng = np.random.default_rng([replicate, 18])
        train, fresh, synthetic = (population(n, rng) for n in (SIZES[0], SIZES[1], SIZES[1]))
        for estimate in _estimates(tables_of(train, fresh, synthetic, schema, replicate)):
            if estimate.measure.endswith(".excess") and not estimate.subject:
                found.setdefault(estimate.measure, []).append(estimate.value)
    for measure, values in found.items():
        # A z of 3.4 comes once in several hundred such tests.
        assert abs(np.mean(values)) < 3.4 * np.std(values) / np.sqrt(len(values)), measure


def test_the_bootstrap_of_a_total_variation_covers_nothing_where_the_excess_does() -> None:
    """The textbook's percentile bootstrap, on 400 cells and 26,000 rows that follow the same shares."""
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.ones(400))

    def distance(first: np.ndarray, second: np.ndarray) -> float:
        return float(np.abs(first / first.sum() - second / second.sum()).sum() / 2)

    real, synthetic = rng.multinomial(26_000, shares), rng.multinomial(26_000, shares)
    again = [
        distance(rng.multinomial(26_000, real / 26_000), rng.multinomial(26_000, synthetic / 26_000))
        for _ in range(200)
    ]
    low = np.quantile(again, 0.025)
    assert low > distance(real, synthetic) > 0.03
