"""Self-tests on tables of many kinds: they come out where the measures work, and alarm where one is broken."""

import itertools
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from evaluate import self_tests
from evaluate.engine import _run, evaluate, evaluate_beside
from evaluate.gate.checks import BROKEN, CAME_OUT, NOT_APPLICABLE, checks_of
from evaluate.gate.policy import load_policy
from evaluate.metrics import GATEABLE, MODULES
from evaluate.result import CASES, Candidate, Estimate, SelfTest
from evaluate.result_io import evaluation_from
from evaluate.self_tests import COLUMNS, COPIES, MAX_ROWS, MEMBERSHIP, PAIRS, self_tests_of
from evaluate.tables import MetricResult, Real, Tables
from synth.infer import infer_schema
from synth.schema import build_schema

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
    made = {"id": [f"p{one}" for one in person], "dose": np.round(hidden + rng.normal(size=n), 2)}
    return pd.DataFrame({**made, "pain": np.round(2 * hidden + rng.normal(size=n), 2)})


def real_of(make: Callable[[int, int], pd.DataFrame], n_train: int, n_holdout: int, entity: str | None = None) -> Real:
    train, holdout = make(n_train, 1), make(n_holdout, 2)
    schema = infer_schema(pd.concat([train, holdout], ignore_index=True), entity=entity)
    return Real.prepare(train, holdout, schema)


def self_tested(real: Real, measures: Iterable[str] = ASKED) -> tuple[SelfTest, ...]:
    return self_tests_of(real, list(measures), lambda name, tables: _run(name, tables, None)[0])


def outcomes(tests: Iterable[SelfTest], policy: str = "internal") -> dict[str, str]:
    return {one.case: one.outcome for one in checks_of(tests, load_policy(POLICIES / f"{policy}.toml"))}


@pytest.fixture(scope="module")
def ordinary() -> tuple[SelfTest, ...]:
    return self_tested(real_of(population, 1200, 900))


@pytest.mark.parametrize("policy", SHIPPED)
def test_all_cases_come_out_on_an_ordinary_table(ordinary: tuple[SelfTest, ...], policy: str) -> None:
    assert set(outcomes(ordinary, policy).values()) == {CAME_OUT}


def test_a_self_test_keeps_numbers_that_a_rule_may_name_and_nothing_to_draw(ordinary: tuple[SelfTest, ...]) -> None:
    for test in ordinary:
        assert test.candidate is not None
        assert test.candidate.figures == {}
        assert all(GATEABLE[estimate.measure] == estimate.direction for estimate in test.candidate.estimates)


@pytest.mark.parametrize(
    ("make", "sizes", "entity", "silent"),
    [
        (population, (60, 45), None, {"honest", "some copies"}),
        (answers, (400, 200), None, {"copy", "some copies", "shuffled"}),
        (noise, (800, 400), None, {"some copies", "shuffled"}),
        (visits, (2000, 1000), "id", set()),
    ],
)
def test_tables_of_which_a_case_says_nothing_are_told_from_broken_measures(
    make: Callable[[int, int], pd.DataFrame], sizes: tuple[int, int], entity: str | None, silent: set[str]
) -> None:
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


def test_a_table_of_one_column_has_nothing_to_shuffle() -> None:
    tests = {
        test.case: test for test in self_tested(real_of(lambda n, seed: population(n, seed)[["balance"]], 300, 200))
    }
    assert "Fewer than two columns" in tests["shuffled"].absent
    assert outcomes(tests.values())["copy"] == CAME_OUT


def planted(*estimates: Estimate) -> Callable[[Tables], MetricResult]:
    return lambda tables: MetricResult(estimates)


def test_an_attack_that_sees_nothing_and_copies_that_are_not_counted_are_found_out(monkeypatch) -> None:
    blind = Estimate("privacy.membership.auc", 0.5, 500, "lower", low=0.48, high=0.52, reference=0.5)
    uncounted = Estimate("privacy.copies.people", 0.0, 500, "lower", low=0.0, high=0.01, reference=0.0)
    monkeypatch.setattr(f"{MODULES[MEMBERSHIP]}.measure", planted(blind))
    monkeypatch.setattr(f"{MODULES[COPIES]}.measure", planted(uncounted))
    tests = self_tested(real_of(population, 400, 400))
    found = outcomes(tests)
    assert {case for case, outcome in found.items() if outcome == BROKEN} == {"copy", "some copies"}


def test_pairs_that_are_never_told_from_real_ones_are_found_out(monkeypatch) -> None:
    near = Estimate("pairs.dependence.floor_share", 0.0, 500, "lower", low=-0.05, high=0.05, reference=0.0, floor=1.0)
    monkeypatch.setattr(f"{MODULES[PAIRS]}.measure", planted(near))
    found = outcomes(self_tested(real_of(population, 200, 100)))
    assert found["shuffled"] == BROKEN and found["sorted"] == BROKEN


def test_an_attack_that_accuses_everybody_is_found_out(monkeypatch) -> None:
    alarm = Estimate("privacy.membership.auc", 0.9, 500, "lower", low=0.88, high=0.92, reference=0.5)
    monkeypatch.setattr(f"{MODULES[MEMBERSHIP]}.measure", planted(alarm))
    assert outcomes(self_tested(real_of(population, 200, 100)))["honest"] == BROKEN


@pytest.mark.parametrize("asked", [("validity",), ("utility.tstr", "privacy.singling_out")])
def test_nothing_is_measured_where_no_telling_measure_was_asked_for(asked: tuple[str, ...], monkeypatch) -> None:
    def never(*given: object) -> object:
        raise AssertionError

    monkeypatch.setattr(self_tests, "_sampled", never)
    tests = self_tested(real_of(population, 200, 100), asked)
    assert set(outcomes(tests).values()) == {NOT_APPLICABLE}
    assert all("none was asked for" in test.absent for test in tests)


def test_only_the_measures_that_were_asked_for_run() -> None:
    ran: list[str] = []

    def run(name: str, tables: Tables) -> MetricResult:
        ran.append(name)
        return MetricResult()

    tests = self_tests_of(real_of(population, 200, 100), [COPIES, "validity"], run)
    assert set(ran) == {COPIES}
    assert {test.case for test in tests if test.candidate is None} == {"shuffled", "sorted"}


def sizes_of(real: Real) -> list[dict[str, int]]:
    """Rows of every table that a measure is given."""
    seen: list[dict[str, int]] = []

    def run(name: str, tables: Tables) -> MetricResult:
        seen.append({"train": len(tables.train), "synthetic": len(tables.synthetic), "holdout": len(tables.holdout)})
        return MetricResult()

    self_tests_of(real, ASKED, run)
    return seen


@pytest.mark.parametrize("sizes", [(9000, 4000), (9000, 200), (300, 9000)])
def test_at_most_two_thousand_rows_are_used_in_all(sizes: tuple[int, int]) -> None:
    for seen in sizes_of(real_of(population, *sizes)):
        assert max(seen.values()) <= MAX_ROWS // 2
        assert seen["train"] + 2 * seen["holdout"] <= MAX_ROWS


def test_entities_are_taken_whole() -> None:
    real = real_of(visits, 9000, 6000, entity="id")
    everywhere = pd.concat([real.train, real.fresh, real.control])["id"].value_counts()
    seen: list[pd.Series] = []

    def run(name: str, tables: Tables) -> MetricResult:
        rows = [tables.train, tables.fresh, tables.control]
        seen.extend(frame["id"].value_counts() for frame in rows)
        assert len(tables.train) > 900
        return MetricResult()

    self_tests_of(real, ASKED, run)
    for counts in seen:
        assert (counts == everywhere[counts.index]).all()


def test_one_large_entity_leaves_nothing_to_sample() -> None:
    def alone(n: int, seed: int) -> pd.DataFrame:
        return visits(n, seed).assign(id=f"p{seed}")

    train, holdout = alone(3000, 1), alone(3000, 2)
    holdout["id"] = ["h1"] * 1500 + ["h2"] * 1500
    schema = infer_schema(pd.concat([train, holdout]), entity="id")
    tests = self_tested(Real.prepare(train, holdout, schema))
    assert all("entities are kept whole" in test.absent for test in tests)


@pytest.mark.parametrize("n_people", [2, 3, 4, 6])
def test_a_holdout_of_a_few_large_entities_ends_in_reasons(n_people: int) -> None:
    train, holdout = visits(400, 1), visits(120, 2)
    holdout["id"] = [f"h{place % n_people}" for place in range(120)]
    real = Real.prepare(train, holdout, infer_schema(pd.concat([train, holdout]), entity="id"))
    assert len(outcomes(self_tested(real, [COPIES]))) == len(CASES)


def test_a_wide_table_is_looked_at_by_some_of_its_pairs() -> None:
    def wide(n: int, seed: int) -> pd.DataFrame:
        rng = np.random.default_rng(seed)
        hidden = rng.normal(size=(n, 1))
        return pd.DataFrame((hidden + rng.normal(size=(n, 60))).round(2)).rename(columns="x{}".format)

    learned: dict[str, int] = {}

    def run(name: str, tables: Tables) -> MetricResult:
        learned[name] = len(tables.schema.learned)
        return MetricResult()

    self_tests_of(real_of(wide, 60, 80), ASKED, run)
    assert learned == {COPIES: 60, COLUMNS: 60, PAIRS: self_tests.MAX_COLUMNS, MEMBERSHIP: self_tests.MAX_COLUMNS}


def test_columns_that_name_each_other_are_parted_where_a_wide_table_is_narrowed() -> None:
    number = {"kind": "integer", "bounds": [0, 9]}
    columns = {"who": {"kind": "identifier", "template": "####", "rises_with": ["x0"]}}
    for i in range(self_tests.MAX_COLUMNS):
        columns |= {f"x{i}": number, f"y{i}": {**number, "modeled": {"expression": f"x{i}"}}}
        columns |= {
            f"{z}{i}": {**number, "part": {"column": f"z{i}", "form": "{}/{}", "place": "ab".index(z)}} for z in "ab"
        }
    schema = build_schema({"status": "declared", "entity": "who", "columns": columns})

    def rows(n: int, first: int) -> pd.DataFrame:
        values = np.random.default_rng(first).integers(0, 10, (n, len(columns) - 1))
        return pd.DataFrame(values, columns=[*columns][1:]).assign(who=[f"{first + i:04d}" for i in range(n)])

    tables = Tables.prepare(rows(60, 1), rows(60, 100), rows(60, 200), schema)
    narrow = self_tests._narrowed(tables).schema
    assert len(narrow.learned) == self_tests.MAX_COLUMNS and narrow.entity == "who"


def test_no_clock_decides_a_self_test_nor_any_other_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same tables and seed on a machine whose clock leaps by an hour whenever anybody looks at it."""
    real, tables = real_of(population, 200, 100), {"a": population(60, 9)}
    asked = [COPIES, MEMBERSHIP, COLUMNS, PAIRS, "utility.queries"]
    idle = evaluate_beside(real, tables, measures=asked)
    hours = itertools.count(1e6, 3600.0)
    for clock in ("monotonic", "perf_counter", "process_time", "time"):
        monkeypatch.setattr(time, clock, lambda: next(hours))
    busy = evaluate_beside(real_of(population, 200, 100), tables, measures=asked)
    assert busy.self_tests == idle.self_tests
    first, second = ([replace(one, seconds={}) for one in found.candidates] for found in (busy, idle))
    assert first == second
    assert not any(failure.reason == "timed out" for one in busy.candidates for failure in one.failures)


def test_self_tests_depend_on_the_seed_and_not_on_the_order_of_rows_and_columns() -> None:
    train, holdout = population(160, 1), population(100, 2)
    schema = infer_schema(pd.concat([train, holdout], ignore_index=True))
    turned = [frame.sample(frac=1.0, random_state=3)[list(frame.columns[::-1])] for frame in (train, holdout)]
    first, again, other = (
        self_tested(Real.prepare(*sides, schema, seed=seed), [COPIES, PAIRS])
        for sides, seed in (((train, holdout), 0), (turned, 0), ((train, holdout), 1))
    )
    assert first == again
    assert first != other


def test_every_evaluation_carries_its_self_tests_and_they_survive_json() -> None:
    train, holdout = population(160, 1), population(100, 2)
    schema = infer_schema(pd.concat([train, holdout], ignore_index=True))
    made = evaluate(train, population(50, 9), holdout=holdout, schema=schema, measures=[COPIES])
    assert [test.case for test in made.self_tests] == list(CASES)
    assert evaluation_from(made.to_json()).self_tests == made.self_tests


def test_an_evaluation_in_several_parts_tests_itself_once() -> None:
    real = real_of(population, 200, 100)
    tables = {"a": population(50, 9)}
    assert evaluate_beside(real, tables, measures=[COPIES], self_tested=False).self_tests == ()
    cases = [test.case for test in evaluate_beside(real, tables, measures=[COPIES]).self_tests]
    assert cases == list(CASES)


@pytest.mark.parametrize("name", ["insurance", pytest.param("adult", marks=pytest.mark.slow)])
def test_self_tests_come_out_on_real_tables(name: str, shared_table: Callable[[str], Path]) -> None:
    from synth.split import split_table
    from synth.table import read_table

    path = shared_table(f"{name}.csv.gz")
    schema = infer_schema(read_table(path))
    sides = split_table(read_table(path, schema), schema)
    tests = self_tested(Real.prepare(sides.train, sides.holdout, schema))
    for policy in SHIPPED:
        assert set(outcomes(tests, policy).values()) == {CAME_OUT}


def test_a_candidate_is_not_changed_by_the_self_tests() -> None:
    train, holdout = population(200, 1), population(100, 2)
    schema = infer_schema(pd.concat([train, holdout], ignore_index=True))
    real = Real.prepare(train, holdout, schema)
    with_tests, without = (
        evaluate_beside(real, {"a": population(50, 9)}, measures=[COPIES], self_tested=on).candidates[0]
        for on in (True, False)
    )

    def still(candidate: Candidate) -> Candidate:
        return replace(candidate, seconds={})

    assert still(with_tests) == still(without)
