"""Tables of one source are not told apart, a worse one is, and no number decides alone."""

import itertools
import json
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest

from evaluate.comparison import ComparisonTerms, VendorRanking
from evaluate.ranking import figures, ranking
from evaluate.ranking.figures import FIGURES, MeanDistance, ReplicatedFigures, Score
from evaluate.ranking.ranking import PairComparison, compared, places, ranked
from evaluate.result import Candidate, Failure
from evaluate.result_io import evaluation_from
from evaluate.tables import Real
from synth.schema import Schema
from tests.evaluations import evaluation_of

FIDELITY = {name: direction for name, direction in FIGURES.items() if "tvd" in name}


def told(*better: tuple[str, str, str | None]) -> list[PairComparison]:
    """Comparisons of two names by a figure each, with the one that is better."""
    return [
        PairComparison(f"figure {at}", first, second, None, None, who) for at, (first, second, who) in enumerate(better)
    ]


@pytest.mark.statistical
def test_two_samples_of_one_source_are_not_told_apart_and_a_worse_table_is(
    figures_of: dict[str, ReplicatedFigures],
) -> None:
    found = ranked(figures_of)
    order = {one.name: one for one in found.order}
    assert order["one"].letters == order["other"].letters == "a"
    assert order["worse"].letters == "b"
    assert order["worse"].behind == ("one", "other")
    assert [order[name].place for name in ("one", "other", "worse")] == [1, 1, 3]


def test_every_figure_is_compared_for_every_pair(figures_of: dict[str, ReplicatedFigures]) -> None:
    found = compared(figures_of)
    pairs = {(one.figure, one.first, one.second) for one in found}
    assert pairs == {(name, *pair) for name in FIGURES for pair in itertools.combinations(figures_of, 2)}
    for one in found:
        assert one.difference is not None
        assert one.p_adjusted is not None
        assert one.p_adjusted >= one.difference.p


def test_the_same_table_twice_differs_by_nothing(figures_of: dict[str, ReplicatedFigures]) -> None:
    found = compared({"one": figures_of["one"], "renamed": figures_of["one"]})
    assert {one.better for one in found} == {None}
    assert {one.difference.value for one in found if one.difference} == {0.0}


def test_the_order_in_which_tables_are_named_changes_nothing(figures_of: dict[str, ReplicatedFigures]) -> None:
    forward, backward = ranked(figures_of), ranked(dict(reversed(figures_of.items())))
    for one in forward.order:
        other = next(o for o in backward.order if o.name == one.name)
        assert (one.place, sorted(one.behind)) == (other.place, sorted(other.behind))


def test_what_real_rows_do_to_both_tables_cancels(figures_of: dict[str, ReplicatedFigures]) -> None:
    one, other = (figures_of[name].found["columns.tvd.mean"] for name in ("one", "other"))
    assert isinstance(one, MeanDistance)
    assert isinstance(other, MeanDistance)
    shift = np.random.default_rng(0).normal(0, 1, one.replicates.shape[1])
    moved = [replace(of, replicates=of.replicates + shift) for of in (one, other)]
    assert moved[0].less(moved[1]).error == pytest.approx(one.less(other).error)


def test_being_closer_to_train_than_a_fresh_real_sample_is_no_merit() -> None:
    rng = np.random.default_rng(0)
    fresh = 0.1 + rng.normal(0, 1e-3, 47)
    copied, near, far = (
        MeanDistance(np.stack([at + rng.normal(0, 1e-3, 47), fresh, fresh + 1]), 9) for at in (0, 0.09, 0.2)
    )
    assert copied.less(near).value == 0.0
    assert copied.less(near).p == 1.0
    assert far.less(copied).value == pytest.approx(0.1, abs=0.01)


def test_scores_are_compared_on_the_same_draws(figures_of: dict[str, ReplicatedFigures]) -> None:
    one, other = (figures_of[name].found["utility.tstr.linear"] for name in ("one", "other"))
    assert isinstance(one, Score)
    assert isinstance(other, Score)
    apart = replace(other, drawn=np.roll(other.drawn, 7))
    paired, unpaired = one.less(other), one.less(replace(apart, drawn=np.r_[other.drawn[:1], apart.drawn[1:]]))
    assert paired.error < unpaired.error


def test_a_figure_that_only_one_table_has_counts_for_it(figures_of: dict[str, ReplicatedFigures]) -> None:
    name = "utility.tstr.linear"
    failure = Failure(name, "skipped", "a table has no row with a target that occurs in real rows")
    found = {of: figures_of["worse"].found[of] for of in FIGURES if of != name}
    lacking = ReplicatedFigures(found, {name: failure})
    (one,) = [c for c in compared({"one": figures_of["one"], "lacking": lacking}) if c.figure == name]
    assert one.better == "one"
    assert one.difference is None
    assert "no row with a target" in one.reason


def test_where_time_ran_out_nothing_is_said(figures_of: dict[str, ReplicatedFigures]) -> None:
    name = "utility.tstr.linear"
    found = {of: figures_of["one"].found[of] for of in FIGURES if of != name}
    late = ReplicatedFigures(found, {name: Failure(name, "timed out", "it did not end")})
    (one,) = [c for c in compared({"one": figures_of["one"], "late": late}) if c.figure == name]
    assert one.better is None


def test_a_table_is_ahead_only_where_no_figure_speaks_against_it() -> None:
    split = places(["x", "y"], told(("x", "y", "x"), ("x", "y", "y")))
    assert [one.place for one in split] == [1, 1]
    assert {one.letters for one in split} == {"a"}
    clear = places(["x", "y"], told(("x", "y", "y"), ("x", "y", None)))
    assert [(one.name, one.place) for one in clear] == [("y", 1), ("x", 2)]


def test_without_tables_there_is_no_order() -> None:
    assert ranked({}).order == ()


def test_too_few_rows_tell_nothing(
    world: Callable[[int, int, int], Real], population: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fidelity_alone(monkeypatch)
    real = world(1, 60, 60)
    rng = np.random.default_rng(0)
    found = {name: ReplicatedFigures.of(real.beside(population(rng, 8, off))) for name, off in (("x", 0.0), ("y", 1.0))}
    content = ranked(found)
    assert {one.better for one in content.comparisons if "tvd" in one.figure} == {None}
    json.dumps(asdict(content), allow_nan=False)


def test_a_ranking_survives_its_file(figures_of: dict[str, ReplicatedFigures], schema: Schema) -> None:
    terms = ComparisonTerms(rows=9, rows_asked=None, train_rows=9, seed=0, policy="internal", policy_version=1)
    ranking = VendorRanking(terms, (), ranked(figures_of), None)
    evaluation = replace(evaluation_of(Candidate("one", ())), ranking=ranking)
    assert evaluation_from(evaluation.to_json()).ranking == ranking


def told_apart(world: Callable[[int, int, int], Real], population: Any, seed: int, off: float) -> bool:
    real, rng = world(seed, 600, 400), np.random.default_rng([seed, 1])
    found = {name: ReplicatedFigures.of(real.beside(population(rng, 600, off))) for name in ("x", "y")}
    return any(one.better is not None for one in compared(found))


def fidelity_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models take long to fit; a simulation of distances alone is quick."""
    for module in (figures, ranking):
        monkeypatch.setattr(module, "FIGURES", FIDELITY)


def test_two_tables_of_one_source_are_seldom_told_apart_by_distances(
    world: Callable[[int, int, int], Real], population: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fidelity_alone(monkeypatch)
    # Of 5 at 5%, more than 2 happen in about 1 of 1,000 suites; the slow tests say it exactly.
    assert sum(told_apart(world, population, seed, 0.2) for seed in range(5)) <= 2


@pytest.mark.slow
@pytest.mark.parametrize("off", [0.0, 0.2])
def test_two_tables_of_one_source_are_told_apart_at_most_5_times_in_100_by_distances(
    world: Callable[[int, int, int], Real], population: Any, monkeypatch: pytest.MonkeyPatch, off: float
) -> None:
    fidelity_alone(monkeypatch)
    n = 200
    share = sum(told_apart(world, population, seed, off) for seed in range(n)) / n
    assert share <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / n)


@pytest.mark.slow
def test_two_tables_of_one_source_are_told_apart_at_most_5_times_in_100_by_all_figures(
    world: Callable[[int, int, int], Real], population: Any
) -> None:
    n = 40
    share = sum(told_apart(world, population, seed, 0.2) for seed in range(n)) / n
    assert share <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / n)
