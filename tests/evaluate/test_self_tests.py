"""Self-tests on tables of many kinds: they come out where the measures work, and alarm where one is broken."""

import itertools
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from evaluate.engine import _run, evaluate_beside
from evaluate.gate.policy import load_policy
from evaluate.gate.policy_checks import BROKEN, CAME_OUT, NOT_APPLICABLE, checks_of
from evaluate.metrics import MODULES
from evaluate.result import CASES, Estimate, SelfTest
from evaluate.self_tests import COLUMNS, COPIES, MEMBERSHIP, PAIRS, self_tests_of
from evaluate.tables import MetricResult, Real
from synth.infer import infer_schema

POLICIES = Path(__file__).parents[2] / "evaluate" / "policies"
SHIPPED = ("internal", "partner", "public")
ASKED = (COPIES, MEMBERSHIP, COLUMNS, PAIRS)


def population(n: int, seed: int) -> pd.DataFrame:
    """Rows of five columns that hang together."""
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=n)
    return pd.DataFrame(
        {
            "balance": np.round(hidden * 1000 + rng.normal(size=n) * 300, 2),
            "a b": np.where(rng.random(n) < 0.2, np.nan, np.round(hidden + rng.normal(size=n), 3)),
            '</script>"': np.where(hidden + rng.normal(size=n) * 0.5 > 0, "high", "low"),
            "flag": hidden + rng.normal(size=n) > 0,
            "level": np.clip(np.round(hidden * 2 + 5), 0, 10).astype(int),
        }
    )


def answers(n: int, seed: int) -> pd.DataFrame:
    """Three yes/no columns without any tie: every row has many twins."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame({name: np.where(rng.random(n) < 0.4, "yes", "no") for name in "abc"})


def noise(n: int, seed: int) -> pd.DataFrame:
    """Independent columns."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame({name: rng.normal(size=n).round(4) for name in "abcd"})


def visits(n: int, seed: int) -> pd.DataFrame:
    """Several rows of a person each."""
    rng = np.random.default_rng(seed)
    person = np.sort(rng.integers(0, max(n // 5, 1), n)) + seed * 10**6
    hidden = rng.normal(size=n // 5 + 1)[person - seed * 10**6]
    built = {"id": [f"p{each}" for each in person], "dose": np.round(hidden + rng.normal(size=n), 2)}
    return pd.DataFrame({**built, "pain": np.round(2 * hidden + rng.normal(size=n), 2)})


def real_of(make: Callable[[int, int], pd.DataFrame], n_train: int, n_holdout: int, entity: str | None = None) -> Real:
    train, holdout = make(n_train, 1), make(n_holdout, 2)
    schema = infer_schema(pd.concat([train, holdout], ignore_index=True), entity=entity)
    return Real.prepare(train, holdout, schema)


def self_tested(real: Real, measures: Iterable[str] = ASKED) -> tuple[SelfTest, ...]:
    return self_tests_of(real, list(measures), lambda name, tables: _run(name, tables, None)[0])


def outcomes(tests: Iterable[SelfTest], policy: str = "internal") -> dict[str, str]:
    return {each.case: each.outcome for each in checks_of(tests, load_policy(POLICIES / f"{policy}.toml"))}


@pytest.mark.parametrize(
    ("make", "sizes", "entity", "silent"),
    [
        (population, (1200, 900), None, set()),
        (population, (60, 45), None, {"honest", "some copies"}),
        (answers, (400, 200), None, {"copy", "some copies", "shuffled"}),
        (noise, (800, 400), None, {"some copies", "shuffled"}),
        (visits, (2000, 1000), "id", set()),
    ],
)
def test_tables_of_which_a_case_says_nothing_are_told_from_broken_measures(make, sizes, entity, silent):
    tests = self_tested(real_of(make, *sizes, entity=entity))
    for policy in SHIPPED:
        # So many copies of noise break the stricter limit of `public` alone.
        told = {"some copies"} if make is noise and policy == "public" else set()
        expected = {case: NOT_APPLICABLE if case in silent - told else CAME_OUT for case in CASES}
        assert outcomes(tests, policy) == expected


@pytest.mark.slow
@pytest.mark.parametrize("make", [population, answers, noise])
def test_self_tests_raise_no_false_alarm_over_seeds(make: Callable[[int, int], pd.DataFrame]) -> None:
    """Of 20 tables times three policies times three cases none is taken for broken."""
    for seed in range(20):
        train, holdout = make(400, 2 * seed), make(200, 2 * seed + 1)
        real = Real.prepare(train, holdout, infer_schema(pd.concat([train, holdout])), seed=seed)
        tests = self_tested(real)
        for policy in SHIPPED:
            assert BROKEN not in outcomes(tests, policy).values(), (seed, policy)


BLIND = Estimate("privacy.membership.auc", 0.5, 500, "lower", low=0.48, high=0.52, reference=0.5)
ALARM = Estimate("privacy.membership.auc", 0.9, 500, "lower", low=0.88, high=0.92, reference=0.5)
UNCOUNTED = Estimate("privacy.copies.people", 0.0, 500, "lower", low=0.0, high=0.01, reference=0.0)
NEAR = Estimate("pairs.dependence.floor_share", 0.0, 500, "lower", low=-0.05, high=0.05, reference=0.0, floor=1.0)


@pytest.mark.parametrize(
    ("planted", "broken"),
    [
        ({MEMBERSHIP: BLIND, COPIES: UNCOUNTED}, {"copy", "some copies"}),
        ({MEMBERSHIP: ALARM}, {"honest"}),
        ({PAIRS: NEAR}, {"shuffled", "sorted"}),
    ],
    ids=["an attack that sees nothing, and copies that are not counted", "an attack that accuses everybody",
         "pairs that are never told from real ones"],
)  # fmt: skip
def test_a_broken_measure_is_found_out(planted: dict[str, Estimate], broken: set[str], monkeypatch) -> None:
    for name, estimate in planted.items():
        monkeypatch.setattr(f"{MODULES[name]}.measure", lambda tables, estimate=estimate: MetricResult((estimate,)))
    result = outcomes(self_tested(real_of(population, 400, 400)))
    assert {case for case, outcome in result.items() if outcome == BROKEN} == broken


def test_no_clock_decides_a_self_test_nor_any_other_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same tables and seed on a machine whose clock leaps by an hour whenever anybody looks at it."""
    tables, asked = {"a": population(60, 9)}, [COPIES, MEMBERSHIP]
    idle = evaluate_beside(real_of(population, 200, 100), tables, measures=asked)
    hours = itertools.count(1e6, 3600.0)
    for clock in ("monotonic", "perf_counter", "process_time", "time"):
        monkeypatch.setattr(time, clock, lambda: next(hours))
    busy = evaluate_beside(real_of(population, 200, 100), tables, measures=asked)
    assert busy.self_tests == idle.self_tests
    first, second = ([replace(each, seconds={}) for each in result.candidates] for result in (busy, idle))
    assert first == second
    assert not any(failure.reason == "timed out" for each in busy.candidates for failure in each.failures)
