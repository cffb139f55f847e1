import math

import numpy as np
import pytest

from evaluate.tables import StatedClaim
from synth.dp.accounting import epsilon_pld
from synth.dp.events import GaussianEvent
from synth.dp.mechanisms import InjectedNoise, NoNoise
from tests.evaluate.utility.conftest import schema_of
from understudy.extras.dp_models import pate as pate_alternative
from understudy.extras.dp_models.comparison import Problem, UnitRows
from understudy.extras.dp_models.pate import N_SHOWN, Pate, PateEvents, planned

CLAIM = StatedClaim(epsilon=10.0, delta=1e-5, n_units=600)
SCORE, GAP = pate_alternative.MEASURES
pytestmark = pytest.mark.usefixtures("linear_only")


@pytest.fixture(scope="module")
def tables(make):
    return make(claim=CLAIM)


@pytest.fixture(scope="module")
def found(tables):
    return {e.measure: e for e in pate_alternative.measure(tables).estimates}


def test_a_student_of_private_teachers_learns_the_target(found):
    assert found[SCORE].floor + 0.1 < found[SCORE].value <= found[SCORE].reference + 0.02
    assert found[SCORE].low < found[SCORE].value < found[SCORE].high
    assert found[GAP].direction == "lower"
    assert "24 teachers" in found[SCORE].note


@pytest.mark.slow
def test_less_privacy_makes_a_better_student(make):
    strict = pate_alternative.measure(make(claim=StatedClaim(0.05, 1e-5, 600))).estimates[0]
    loose = pate_alternative.measure(make(claim=StatedClaim(50.0, 1e-5, 600))).estimates[0]
    assert strict.value < loose.value - 0.02


def test_it_is_skipped_where_the_other_alternative_is_and_where_the_target_is_a_number(make):
    for tables, said in (
        (make(), "no privacy claim"),
        (make(schema_of(None), claim=CLAIM), "no target"),
        (make(schema_of("amount"), claim=CLAIM), "vote on classes"),
    ):
        measurement = pate_alternative.measure(tables)
        assert not measurement.estimates
        assert {f.measure for f in measurement.failures} == {SCORE, GAP}
        assert all(said in f.message for f in measurement.failures)


@pytest.mark.parametrize(("n_classes", "moved"), [(2, math.isqrt(N_SHOWN)), (3, math.ceil(math.sqrt(2 * N_SHOWN)))])
@pytest.mark.parametrize("k", [1, 4])
def test_both_releases_together_cost_the_claim_and_no_more(n_classes, moved, k):
    claim = StatedClaim(1.0, 1e-5, 2_000, max_rows_per_unit=k)
    events = planned(claim, n_classes)
    assert (events.sums.sensitivity, events.votes.sensitivity) == (k, moved)
    # Two Gaussian mechanisms are as one whose mu is the root of the sum of squares (Dong, Roth, Su 2019).
    mu = math.hypot(k / events.sums.sigma, moved / events.votes.sigma)
    assert 0.99 < epsilon_pld([GaussianEvent("both", 1 / mu, 1, whole=False)], 1e-5) <= 1.0005
    assert events.sums.rho == pytest.approx((events.sums.rho + events.votes.rho) / 10)


def pate_of(tables, n_teachers):
    problem = Problem.of(tables, 9)
    n_classes = len(problem.target.classes)
    return Pate(problem.space, n_classes, planned(tables.claim, n_classes), n_teachers), problem.units


@pytest.fixture(scope="module", params=["rows", "entities"])
def dealt(request, tables, make):
    """Teachers, some units with the teacher of each, and made-up rows."""
    if request.param == "entities":
        schema = schema_of(entity="who", max_rows_per_unit=2)
        tables = make(schema, claim=StatedClaim(10.0, 1e-5, 300, max_rows_per_unit=2))
    pate, units = pate_of(tables, 6)
    units, rng = units.subset(np.arange(40)), np.random.default_rng(0)
    shown = pate.made_up(units.X.sum(axis=0, dtype=np.float64), rng)
    return pate, units, rng.integers(6, size=40), shown


def largest_moves(pate, units, teacher, shown, voting):
    """The most that one unit moves the sums of features, and all counts of votes, in L2."""
    sums, counts = units.X.sum(axis=0, dtype=np.float64), voting(pate, units, teacher, shown)
    moves = []
    for gone in range(len(units)):
        left = np.delete(np.arange(len(units)), gone)
        fewer = units.subset(left)
        moved = counts - voting(pate, fewer, teacher[left], shown)
        assert np.abs(moved).max() <= 1
        moves.append((np.linalg.norm(sums - fewer.X.sum(axis=0, dtype=np.float64)), np.linalg.norm(moved)))
    return np.max(moves, axis=0)


def test_no_unit_moves_a_release_by_more_than_is_paid_for(dealt):
    pate = dealt[0]
    sums, votes = largest_moves(*dealt, Pate.votes)
    assert 0 < sums <= pate.events.sums.sensitivity * (1 + 1e-6)
    assert 0 < votes <= pate.events.votes.sensitivity


def _shared(pate, units, teacher, shown):
    """Every teacher sees all rows."""
    return pate.n_teachers * pate._ballot(units.X, units.y, shown)


def test_teachers_that_share_rows_are_caught(dealt):
    with pytest.raises(AssertionError):
        largest_moves(*dealt, _shared)


def test_made_up_rows_hold_no_real_one_and_have_the_shares_that_were_released(dealt):
    pate, units, _, shown = dealt
    scale = math.sqrt(len(pate.space.columns) + 1)
    width = pate.space.columns[0].width
    released = units.X.sum(axis=0)[:width] / units.X.sum(axis=0)[:width].sum()
    drawn = (shown[:, :width] * scale).mean(axis=0)
    assert np.abs(drawn - released).max() < 4.5 * np.sqrt(0.25 / N_SHOWN)
    assert np.allclose((shown * scale).sum(axis=1), len(pate.space.columns) + 1)


class Watching(NoNoise):
    """No noise, and a record of how much was asked for."""

    def __init__(self):
        self.sigmas = []

    def gaussian(self, values, sigma):
        self.sigmas.append(sigma)
        return values


def test_a_fit_draws_the_noise_that_is_planned_and_nothing_else(dealt):
    pate, units, *_ = dealt
    noise = Watching()
    pate.fit(units, noise, np.random.default_rng(0))
    assert noise.sigmas == [pate.events.sums.sigma, pate.events.votes.sigma]


def test_a_fit_looks_at_nothing_but_its_two_releases(dealt):
    class Deaf(NoNoise):
        def gaussian(self, values, sigma):
            return np.ones(values.shape, dtype=values.dtype)

    pate, units, *_ = dealt
    other = UnitRows(units.X[::-1].copy(), units.y, units.first, units.size)
    one, two = (pate.fit(rows, Deaf(), np.random.default_rng(0)) for rows in (units, other))
    np.testing.assert_array_equal(one, two)


def test_of_fewer_units_the_noise_is_less_in_proportion():
    events = planned(CLAIM, 2)
    assert isinstance(events.scaled(0.5), PateEvents)
    assert [half.sigma / whole.sigma for half, whole in zip(events.scaled(0.5), events, strict=True)] == [0.5, 0.5]


@pytest.mark.slow
def test_without_noise_it_comes_close_to_a_model_of_real_rows(tables):
    pate, units = pate_of(tables, 24)
    problem = Problem.of(tables, 9)
    found, weights = problem.study, pate.fit(units, NoNoise(), np.random.default_rng(0))
    score = found.score(problem.target.decode(problem.test @ weights), found.blocks[0])[0]
    noisy = pate.fit(units, InjectedNoise(np.random.default_rng(1)), np.random.default_rng(0))
    assert score > found.drawn("linear", "trtr", found.score)[0] - 0.1
    assert not np.allclose(noisy, weights)
