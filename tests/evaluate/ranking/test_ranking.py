"""Tables of one source are not told apart, a worse one is, and no number decides alone."""

import itertools
import json
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from evaluate.comparison import ComparisonTerms, PairResult, VendorRanking
from evaluate.ranking import figures, ranking
from evaluate.ranking.figures import FIGURES, SHARE, DependenceLost, ReplicatedFigures, Score
from evaluate.ranking.ranking import compared, places, ranked
from evaluate.result import Candidate, Failure
from evaluate.result_io import evaluation_from
from evaluate.sampling import shuffle_columns
from evaluate.tables import Real
from synth.schema import Schema, build_schema
from tests.evaluations import evaluation_of

FIDELITY = {SHARE: FIGURES[SHARE]}


def told(*better: tuple[str, str, str | None]) -> list[PairResult]:
    """Comparisons of two names by a figure each, with the one that is better."""
    return [
        PairResult(f"figure {at}", first, second, None, None, None, None, None, who, "")
        for at, (first, second, who) in enumerate(better)
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
        assert one.p is not None
        assert one.p_adjusted is not None
        assert one.p_adjusted >= one.p


def test_the_same_table_twice_differs_by_nothing(figures_of: dict[str, ReplicatedFigures]) -> None:
    found = compared({"one": figures_of["one"], "renamed": figures_of["one"]})
    assert {one.better for one in found} == {None}
    assert {one.difference for one in found} == {0.0}


def test_the_order_in_which_tables_are_named_changes_nothing(figures_of: dict[str, ReplicatedFigures]) -> None:
    forward, backward = ranked(figures_of), ranked(dict(reversed(figures_of.items())))
    for one in forward.order:
        other = next(o for o in backward.order if o.name == one.name)
        assert (one.place, sorted(one.behind)) == (other.place, sorted(other.behind))


def dependence(figures: ReplicatedFigures) -> DependenceLost:
    found = figures.found[SHARE]
    assert isinstance(found, DependenceLost)
    return found


def moved(one: DependenceLost, by: float) -> DependenceLost:
    """The same table, whose relations are farther off by so much of the way to shuffled columns."""
    squares = one.squares
    shift = np.array([by, 0.0, 0.0, 0.0]) * squares.beyond_noise[-1]
    return DependenceLost(replace(squares, square=squares.square + shift))


def test_what_half_samples_of_real_rows_do_to_both_tables_cancels(figures_of: dict[str, ReplicatedFigures]) -> None:
    one, other = (dependence(figures_of[name]) for name in ("one", "other"))
    assert one.less(other).error <= np.hypot(*(half_width(each) for each in (one, other)))


def half_width(one: DependenceLost) -> float:
    low, high = one.squares.interval()
    return (high - low) / 2


def test_being_closer_to_train_than_a_fresh_real_sample_is_no_merit(figures_of: dict[str, ReplicatedFigures]) -> None:
    fresh = dependence(figures_of["one"])
    near, far = moved(fresh, -1.0 - fresh.value), moved(fresh, 0.5 - fresh.value)
    assert near.value == pytest.approx(-1.0)
    assert near.less(moved(near, 0.5)).p == 1.0
    assert far.less(near).value == pytest.approx(0.5)


def test_being_farther_off_than_shuffled_columns_is_no_worse(figures_of: dict[str, ReplicatedFigures]) -> None:
    worse = dependence(figures_of["worse"])
    assert moved(worse, 2.0).less(moved(worse, 3.0)).p == 1.0
    name = "utility.tstr.linear"
    score = figures_of["worse"].found[name]
    assert isinstance(score, Score)
    useless = replace(score, drawn=score.floor - 0.3, halves=score.halves - 2.0)
    assert useless.less(replace(useless, drawn=score.floor - 0.1)).p == 1.0


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


def test_a_table_that_breaks_a_rule_on_fidelity_stands_behind_those_that_keep_them_all() -> None:
    keeps = {"kept": True, "broken": False, "open": None}
    found = places(list(keeps), told(("kept", "broken", "broken"), ("broken", "open", "broken")), keeps)
    assert {one.name: one.behind for one in found} == {"kept": (), "broken": ("kept",), "open": ("broken",)}


def test_shuffled_columns_are_never_ahead_of_a_table_with_much_noise(
    world: Callable[[int, int, int], Real], population: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pairs of the noisy table are farther from train than those of shuffled columns; its relations are nearer."""
    fidelity_alone(monkeypatch)
    for seed in range(3):
        real = world(seed, 600, 400)
        noisy = population(np.random.default_rng(seed), 600, 0.4)
        noisy = noisy.assign(letter=np.where(np.arange(600) < 250, "f", noisy["letter"]))
        tables = {"noisy": noisy, "shuffled": shuffle_columns(real.train, np.random.default_rng(seed))}
        order = {one.name: one for one in ranked(
            {name: ReplicatedFigures.of(real.beside(table)) for name, table in tables.items()}
        ).order}  # fmt: skip
        assert order["shuffled"].behind == ("noisy",)


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
    assert {one.better for one in content.comparisons} <= {None}
    json.dumps(asdict(content), allow_nan=False)


def test_a_table_of_few_entities_is_behind_one_that_can_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    fidelity_alone(monkeypatch)
    columns = {"who": {"kind": "identifier", "bounds": [0, 9999]}, **{x: {"kind": "boolean"} for x in "ab"}}
    content = {"status": "declared", "entity": "who", "max_rows_per_unit": 500, "columns": columns}

    def rows(seed: int, first: int, n_entities: int) -> pd.DataFrame:
        a = np.random.default_rng(seed).random(400) < 0.5
        return pd.DataFrame({"who": first + np.arange(400) * n_entities // 400, "a": a, "b": a})

    real = Real.prepare(rows(1, 0, 200), rows(2, 1000, 200), build_schema(content))
    found = {name: ReplicatedFigures.of(real.beside(rows(3, 5000, n))) for name, n in (("many", 200), ("few", 2))}
    assert [one.better for one in compared(found)] == ["many"]


def test_a_ranking_survives_its_file(figures_of: dict[str, ReplicatedFigures], schema: Schema) -> None:
    terms = ComparisonTerms(rows=9, rows_asked=None, train_rows=9, seed=0, policy="internal")
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
