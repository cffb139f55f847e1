"""The distance of dependence: against its definition, on tables that no rule may pass, and how often it is right."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd
import pytest

from benchmarks.ruined_tables import uniform
from benchmarks.spoiled_tables import spoiled_table
from evaluate.fidelity import dependence
from evaluate.fidelity.encoded import EncodedSamples
from evaluate.fidelity.samples import Samples
from evaluate.gate.policy import load_policy, shipped
from evaluate.intervals import HALVES, replicate_groups
from evaluate.result import Estimate, Failure
from evaluate.tables import Tables
from synth.schema import build_schema

Population = Callable[..., pd.DataFrame]


def limits_of(policy: str) -> dict[str, float]:
    """Limits that a shipped policy sets."""
    limits = {rule.measure: rule.limit for rule in load_policy(policy).rules}
    return {name: limits[name] for name in (dependence.SHARE, dependence.WORST)}


LIMITS = limits_of("public")


def measured(tables: Tables) -> dict[str, Estimate | Failure]:
    coded = EncodedSamples.of(tables, Samples.draw(tables).whole())
    return {each.measure: each for each in dependence.over_all_rows(coded)}


def outcome(result: Estimate | Failure, limit: float) -> str:
    if isinstance(result, Failure):
        return "INCONCLUSIVE"
    return "FAIL" if result.low > limit else "PASS" if result.high <= limit else "INCONCLUSIVE"


@pytest.fixture(scope="module")
def real(population: Population) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Training, held-out and fresh rows."""
    n, rng = 4_000, np.random.default_rng([4_000, 2])
    return tuple(population(size, rng, strength=0.95) for size in (n * 4 // 5, n // 5, n))  # type: ignore[return-value]


Ruin = Callable[[pd.DataFrame, np.random.Generator], pd.DataFrame]


def shuffled(name: str) -> Ruin:
    """One column in a random order."""
    return lambda rows, rng: rows.assign(**{name: rows[name].iloc[rng.permutation(len(rows))].array})


def noise(name: str) -> Ruin:
    """One column of values that are all alike."""
    return lambda rows, rng: rows.assign(**{name: uniform(rows[name], len(rows), rng)})


ALL = ("sorted", "comonotone", "anti-sorted", "shuffled")
ONE: dict[str, Ruin] = {
    "blocks": partial(spoiled_table, "blocks shuffled"),
    **{f"{name} shuffled": shuffled(name) for name in ("color", "flag", "length")},
    **{f"{name} noise": noise(name) for name in ("shape", "count")},
}


@pytest.mark.parametrize("ruin", [*ALL, *ONE])
def test_ruined_relations_break_a_limit_that_fresh_rows_keep(ruin, real, tables_of, schema):
    train, holdout, fresh = real
    rng = np.random.default_rng(3)
    ruined = ONE[ruin](fresh, rng) if ruin in ONE else spoiled_table(ruin, fresh, rng)
    result = measured(tables_of(train, holdout, ruined, schema))
    assert outcome(result[dependence.WORST], LIMITS[dependence.WORST]) == "FAIL", result[dependence.WORST]
    if ruin in (*ALL, "blocks"):
        assert outcome(result[dependence.SHARE], LIMITS[dependence.SHARE]) == "FAIL", result[dependence.SHARE]
    if ruin in ONE and ruin != "blocks":
        assert repr(ruin.split()[0]) in result[dependence.WORST].note  # type: ignore[union-attr]


def test_fresh_rows_keep_all_limits_and_are_near_zero(real, tables_of, schema):
    train, holdout, fresh = real
    result = measured(tables_of(train, holdout, fresh, schema))
    for policy in shipped():
        assert {outcome(result[name], limit) for name, limit in limits_of(policy).items()} == {"PASS"}, policy
    share = result[dependence.SHARE]
    assert isinstance(share, Estimate)
    assert share.floor == pytest.approx(1.0, abs=0.15)
    assert abs(share.value) < 0.1
    assert share.n == min(len(fresh), len(train))


@pytest.mark.parametrize("are_numbers", [(True, False), (False, True)])
def test_squares_are_those_of_joint_less_independent_shares(are_numbers: tuple[bool, bool]) -> None:
    rng, sizes = np.random.default_rng([*map(int, are_numbers)]), (4, 6)
    counts = rng.multinomial(40, rng.dirichlet(np.ones(24), (4, 1)), (4, 16))
    counts[:, :, ::6] = 0  # a code of the second column that nobody has
    indicators = []
    for size, is_number in zip(sizes, are_numbers, strict=True):
        is_code = np.eye(size)
        indicators.append([is_code[: i + 1].sum(0) if is_number and i < size - 2 else is_code[i] for i in range(size)])

    def covariances(cells: np.ndarray) -> np.ndarray:
        joint = cells.reshape(sizes) / cells.sum()
        return np.array(
            [a @ joint @ b - (a @ joint.sum(1)) * (b @ joint.sum(0)) for a in indicators[0] for b in indicators[1]]
        )

    whole = counts[0].sum(axis=0).reshape(sizes) / counts[0].sum()
    shares = [np.array(each) @ whole.sum(axis=1 - axis) for axis, each in enumerate(indicators)]
    scale = np.prod([(share * (1 - share)).sum() for share in shares]) ** 0.5
    parts = replicate_groups(16)[: HALVES.stop]
    train, *others = (np.array([covariances(part @ table) for part in parts]) / scale for table in counts)
    result = dependence.Squares.of_counts(tuple(counts), sizes, are_numbers)
    for i, side in enumerate((*(other - train for other in others), train)):
        moved = (side[1:16] - side[16:]) / 2
        np.testing.assert_allclose(result.square[i], side[0] @ side[0])
        np.testing.assert_allclose(result.slope[i], moved @ side[0], atol=1e-12)
        np.testing.assert_allclose(result.noise[i], moved @ moved.T, atol=1e-12)


def test_a_relation_that_no_correlation_sees_is_lost_all_the_same(tables_of: Callable[..., Tables]) -> None:
    columns = {name: {"kind": "real", "bounds": [-9, 99]} for name in ("x", "y", "z")}
    schema, rng = build_schema({"status": "declared", "columns": columns}), np.random.default_rng(4)

    def rows(n: int) -> pd.DataFrame:
        x = rng.normal(size=n).clip(-9, 9)
        return pd.DataFrame({"x": x, "y": (x**2 + rng.normal(size=n) / 4).clip(-9, 99), "z": rng.uniform(size=n)})

    train, holdout, fresh = rows(1_500), rows(500), rows(1_500)
    result = measured(tables_of(train, holdout, shuffled("y")(fresh, rng), schema))
    assert outcome(result[dependence.WORST], LIMITS[dependence.WORST]) == "FAIL"
    assert "'z'" not in result[dependence.WORST].note  # type: ignore[union-attr]
    assert "Of 2 of 3 columns" in result[dependence.WORST].note  # type: ignore[union-attr]
