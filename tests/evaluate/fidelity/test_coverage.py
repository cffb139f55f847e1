"""Whether the 95% intervals of the numbers that rules may name hold what they estimate, by simulation.

What an interval should hold is the expectation of its number: near zero, where the synthetic rows are a fresh sample or
close to one, and away from it, where they follow the population in part, or not at all. Decisions rest on intervals, so
how often they err is counted on the same draws.
"""

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pandas as pd
import pytest

from evaluate.gate.policy import Policy, Rule
from evaluate.gate.verdict import judge_candidate
from evaluate.metrics import CATALOG, measure_of
from evaluate.result import Candidate, Estimate
from evaluate.sampling import shuffle_columns
from evaluate.tables import Tables
from synth.schema import Schema

MEASURES = ("fidelity.columns", "fidelity.pairs", "fidelity.triples")
OF_THE_POPULATION = (
    "columns.tail.excess.worst", "columns.spikes.kept.worst", "columns.lattice.kept.worst",
    "columns.categories.kept.worst",
)  # fmt: skip
"""Simulated on their own: they estimate differences and ratios of shares, not an expected distance."""
KINDS: dict[str, dict[str, float] | None] = {
    "a fresh sample": {}, "nearly one": {"strength": 0.9, "tilt": 0.05},
    "half an association": {"strength": 0.6, "tilt": 0.2}, "shuffled columns": None,
}  # fmt: skip

Draw = Callable[[int, int, int], Tables]
Key = tuple[str, tuple[str, ...]]
Found = dict[Key, list[Estimate]]


@pytest.fixture(scope="module", params=KINDS)
def draw(
    request: pytest.FixtureRequest, population: Callable[..., pd.DataFrame], tables_of: Callable[..., Tables],
    schema: Schema,
) -> Draw:  # fmt: skip
    """Tables of so many training rows, and as many fresh as synthetic ones."""

    def drawn(replicate: int, n_train: int, n: int) -> Tables:
        rng, bent = np.random.default_rng([replicate, 17]), KINDS[request.param]
        train, fresh = population(n_train, rng), population(n, rng)
        offered = shuffle_columns(train, rng) if bent is None else population(n, rng, **bent)
        return tables_of(train, fresh, offered, schema, replicate)

    return drawn


def simulated(tables: Iterator[Tables], measures: Iterable[str] = MEASURES) -> Found:
    """All estimates of each gated number over many replicates."""
    result: Found = {}
    for each in tables:
        for measure in measures:
            for item in measure_of(measure)(each).estimates:
                if CATALOG[item.measure].gateable and item.measure not in OF_THE_POPULATION:
                    result.setdefault((item.measure, item.subject), []).append(item)
    return result


@pytest.fixture(scope="module")
def few(draw: Draw) -> Found:
    return simulated(draw(i, 1_000, 400) for i in range(20))


@pytest.fixture(scope="module")
def thousand(draw: Draw) -> Found:
    return simulated(draw(i, 1_000, 400) for i in range(1_000))


def coverage(estimates: list[Estimate]) -> float:
    """How many intervals hold the expectation, which is the mean of all values."""
    rows = np.array([(e.value, e.low, e.high) for e in estimates])
    expected = rows[:, 0].mean()
    return float(((rows[:, 1] <= expected) & (expected <= rows[:, 2])).mean())


def bounds(key: Key) -> tuple[float, float]:
    """The coverage that a number is held to: see "How the intervals are made" in the documentation."""
    measure, subject = key
    if measure.endswith(".worst") or measure == "pairs.dependence.floor_share":  # a square, wide near zero
        return 0.93, 1.0
    return (0.93, 0.99) if subject or measure.startswith("columns.") else (0.93, 0.97)


@pytest.mark.statistical
def test_every_number_that_a_rule_may_name_is_simulated(few: Found) -> None:
    gated = {name for name, number in CATALOG.items() if number.gateable and number.by in MEASURES}
    assert {measure for measure, _ in few} | set(OF_THE_POPULATION) == gated


@pytest.mark.statistical
def test_intervals_hold_their_expectation(few: Found) -> None:
    for key, estimates in few.items():
        # Less than this would show in 1 of 1,000 simulations of so few replicates at a coverage of 93%.
        assert coverage(estimates) >= 0.93 - 3.1 * np.sqrt(0.93 * 0.07 / 20), key


@pytest.mark.slow  # a thousand replicates: what the documentation states of coverage, to a percent
def test_intervals_hold_their_expectation_in_95_of_100_cases(thousand: Found) -> None:
    beside = {}
    for key, estimates in thousand.items():
        assert len(estimates) >= 950, key
        (low, high), covered = bounds(key), coverage(estimates)
        if not low - 0.005 <= covered <= high + 0.005:
            beside[key] = covered
    assert not beside


@pytest.mark.slow  # the same thousand
def test_where_the_truth_is_on_the_limit_a_rule_errs_as_rarely_as_it_says(thousand: Found) -> None:
    for (measure, subject), estimates in thousand.items():
        if subject or measure.endswith(".worst"):
            continue
        limit = float(np.mean([estimate.value for estimate in estimates]))
        policy = Policy(name="p", version=1, audience="a", rules=(Rule(measure=measure, limit=limit, why="because"),))
        verdicts = [judge_candidate(Candidate("c", (estimate,)), policy).verdict for estimate in estimates]
        passed, failed = (verdicts.count(outcome) / len(verdicts) for outcome in ("PASS", "FAIL"))  # type: ignore[arg-type]
        # 2.5% on either side; the noise of a figure near zero is not symmetric.
        assert max(passed, failed) <= 0.055 and passed + failed <= 0.075, measure


@pytest.mark.parametrize(
    "n",
    [
        pytest.param(25, marks=pytest.mark.statistical),
        pytest.param(1_000, marks=[pytest.mark.slow, pytest.mark.timeout(3_600)]),
    ],
    ids=["few", "thousand"],
)
@pytest.mark.parametrize("draw", ["half an association"], indirect=True)
def test_the_interval_of_a_classifiers_excess_holds_its_expectation(n: int, draw: Draw) -> None:
    for key, estimates in simulated((draw(i, 500, 250) for i in range(n)), ["fidelity.detection"]).items():
        # All but 1 in 1,000 times.
        covered = coverage(estimates)
        assert 0.93 - 3.3 * np.sqrt(0.93 * 0.07 / n) <= covered <= 0.97 + 3.3 * np.sqrt(0.97 * 0.03 / n), key
