"""k-means with DP: each fault that would break its claim stands beside the check that must catch it."""

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from evaluate.tables import Tables
from evaluate.utility import clusters
from evaluate.utility.clusters import GroupSpace, Points, ScaledColumn, k_means, squared_distances
from synth.dp.budget import Budget
from synth.dp.mechanisms import NoNoise, SystemNoise
from synth.dp.schedule import Schedule
from synth.schema import build_schema
from tests.evaluate.utility.conftest import schema_of
from tests.evaluate.utility.test_clusters import planted as planted_tables
from tests.evaluate.utility.test_clusters import shuffled
from tests.evaluations import stated
from understudy.extras.dp_models import groups
from understudy.extras.dp_models import groups as module
from understudy.extras.dp_models.groups import DpLloyd, inside, planned, public_space

EPSILON, DELTA, ROWS_PER_UNIT = 1.0, 1e-6, 3
COLUMNS = {
    "a": {"kind": "categorical", "categories": ["p", "q", "r"]},
    "b": {"kind": "boolean"},
    "c": {"kind": "real", "bounds": [-1, 1]},
    "who": {"kind": "identifier", "bounds": [0, 10**6]},
}
SCHEMA = build_schema(
    {"status": "declared", "n_units": 40, "columns": COLUMNS, "entity": "who", "max_rows_per_unit": ROWS_PER_UNIT}
)


def rows(n: int, seed: int = 0) -> pd.DataFrame:
    """Rows of units with four rows each, which are alike in every other unit; some are beyond the bounds."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "a": np.array(["p", "q", "r", None], dtype=object)[rng.integers(0, 4, n)],
            "b": pd.array(rng.random(n) < 0.5, dtype="boolean"),
            "c": np.where(rng.random(n) < 0.2, 50.0, rng.uniform(-1, 1, n)),
            "who": pd.array(np.arange(n) // 4, dtype="Int64"),
        }
    )
    rank = np.arange(n)
    return frame.iloc[np.where(rank // 4 % 2 == 0, rank // 4 * 4, rank)].reset_index(drop=True)


def tables_of(frame: pd.DataFrame) -> Tables:
    return Tables(SCHEMA, SCHEMA, frame, frame, frame, frame, 0, synthetic=frame)


def points() -> tuple[GroupSpace, Points]:
    tables = tables_of(rows(80))
    space = public_space(tables)
    return space, Points.of(tables.train, space, tables)


class Recorded(Budget):
    """A budget that a test reads: the exact and the released sums of each round, or of so many."""

    def __init__(self, schedule, noise=None, n_rounds=None):
        super().__init__(schedule, noise)
        self.exact, self.noisy, self.n_rounds = [], [], n_rounds

    def release(self, exact, event):
        self.exact.append(exact)
        self.noisy.append(super().release(exact, event))
        if len(self.exact) == self.n_rounds:
            raise StopIteration
        return self.noisy[-1]


def fitted(space, rows_of_space, noise, n_rounds=None):
    event = planned(EPSILON, DELTA, len(space.columns), ROWS_PER_UNIT)
    budget = Recorded(Schedule((event,), DELTA), noise, n_rounds)
    with suppress(StopIteration):
        DpLloyd(space, event, ROWS_PER_UNIT).fit(rows_of_space, budget)
    return event, budget


def the_plan_costs_what_was_claimed() -> bool:
    space, _ = points()
    return Schedule((planned(EPSILON, DELTA, len(space.columns), ROWS_PER_UNIT),), DELTA).epsilon <= EPSILON


def all_rounds_have_their_noise() -> bool:
    """The residual has the planned deviation, within five standard errors."""
    event, budget = fitted(*points(), SystemNoise())
    residual = np.concatenate([(n - e).ravel() for e, n in zip(budget.exact, budget.noisy, strict=True)])
    error = event.sigma / np.sqrt(2 * len(residual))
    return len(budget.noisy) == event.count and abs(residual.std() - event.sigma) < 5 * error


def no_unit_moves_the_sums_by_more_than_the_sensitivity() -> bool:
    """Brute force over units, in the first round, whose centers are public."""
    space, everyone = points()
    event, budget = fitted(space, everyone, NoNoise(), 1)
    without = [
        fitted(space, everyone.where(everyone.units != unit), NoNoise(), 1)[1].exact[0]
        for unit in range(int(everyone.units.max()) + 1)
    ]
    moves = [float(np.linalg.norm(budget.exact[0] - sums)) for sums in without]
    assert max(moves) > 0.9 * event.sensitivity  # a bound that nothing comes near shows nothing
    return max(moves) <= event.sensitivity


CHECKS = (
    the_plan_costs_what_was_claimed,
    all_rounds_have_their_noise,
    no_unit_moves_the_sums_by_more_than_the_sensitivity,
)


@pytest.mark.parametrize("check", CHECKS)
def test_the_claim_of_k_means_with_dp_holds(check):
    assert check()


def half_the_noise_planned(patch):
    exact = module.planned
    patch.setitem(globals(), "planned", lambda *claim: replace(exact(*claim), sigma=exact(*claim).sigma / 2))


def numbers_not_clamped(patch):
    def places(self, positions):
        low, high = -1.0, 1.0
        return np.zeros(len(positions), np.int64), (positions - low) / (high - low)

    patch.setattr(ScaledColumn, "_places", places)


def planted(owner, name, fault):
    return lambda patch: patch.setattr(owner, name, fault)


_gaussian, _moved = SystemNoise.gaussian, module.sensitivity
MUTANTS = {
    "no noise": (planted(Budget, "release", lambda self, exact, event: exact), all_rounds_have_their_noise),
    "half the noise": (
        planted(SystemNoise, "gaussian", lambda self, values, sigma: _gaussian(self, values, sigma / 2)),
        all_rounds_have_their_noise,
    ),
    "half the noise planned": (half_the_noise_planned, the_plan_costs_what_was_claimed),
    "half the sensitivity": (planted(module, "sensitivity", lambda n, most: _moved(n, most) // 2), CHECKS[-1]),
    "one row of a unit priced": (planted(module, "sensitivity", lambda n, most: _moved(n, most) // most), CHECKS[-1]),
    "all rows of a unit": (planted(module, "bounded", lambda points, most: points), CHECKS[-1]),
    "numbers not clamped": (numbers_not_clamped, CHECKS[-1]),
}


@pytest.mark.parametrize(("mutant", "check"), MUTANTS.values(), ids=MUTANTS)
def test_a_fault_is_caught(mutant, check, monkeypatch):
    mutant(monkeypatch)
    assert not check()


def test_without_noise_it_comes_near_to_k_means():
    space, everyone = points()
    event = planned(50.0, DELTA, len(space.columns), ROWS_PER_UNIT)
    quiet = replace(event, sigma=1e-3)
    centers = DpLloyd(space, quiet, 4).fit(everyone, Budget(Schedule((quiet,), DELTA), NoNoise()))
    best = squared_distances(everyone.X, k_means(everyone.X, 0)).min(axis=1).mean()
    assert squared_distances(everyone.X, centers).min(axis=1).mean() < 1.5 * best


def test_noisy_centers_come_back_to_the_nearest_distributions():
    space, _ = points()
    rng = np.random.default_rng(0)
    away = rng.normal(0.3, 1.0, (50, space.starts[-1]))
    near = inside(away, space.starts)
    assert near.min() >= 0
    for first, end in zip(space.starts[:-1], space.starts[1:], strict=True):
        part, target = near[:, first:end], away[:, first:end]
        assert part.sum(axis=1) == pytest.approx(1.0)
        corners = np.eye(end - first)
        # No corner lies on the far side of the plane through the nearest point: it is the nearest one.
        beyond = np.einsum("nd,nkd->nk", target - part, corners[None] - part[:, None])
        assert beyond.max() < 1e-9


COST = groups.GAP
CLAIM = stated(epsilon=10.0, delta=1e-5, n_units=600)
PLANTED_CLAIM = stated(epsilon=10.0, delta=1e-5, n_units=1_000)


def measured(tables):
    return {e.measure: e for e in groups.measure(tables).estimates}


def explained(tables):
    return next(e.value for e in clusters.measure(tables).estimates if e.measure == clusters.EXPLAINED)


@pytest.fixture(scope="module")
def fresh():
    return measured(planted_tables(claim=PLANTED_CLAIM))


def test_planted_groups_are_found_with_dp(fresh):
    assert fresh[COST].floor > 0.2
    assert fresh[COST].low <= fresh[COST].value <= fresh[COST].high


def test_against_a_useless_table_finding_groups_directly_wins():
    tables = planted_tables(lambda train, _: shuffled(train), PLANTED_CLAIM)
    useless = measured(tables)
    assert useless[COST].low > 0.1
    assert f"alternative ({useless[COST].value + explained(tables):.3f})" in useless[COST].note


def test_without_an_epsilon_or_public_bounds_nothing_is_found_with_dp(make):
    inferred = schema_of().model_copy(update={"status": "inferred"})
    for tables, words in ((make(), "no privacy claim"), (make(inferred, claim=CLAIM), "inferred")):
        result = groups.measure(tables)
        assert not result.estimates and {f.measure for f in result.failures} == {COST}
        assert all(words in f.message and f.reason == "skipped" for f in result.failures)
