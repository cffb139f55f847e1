"""Tables of one source are not told apart, a worse one is, and letters say which are."""

import itertools
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluate import ranking
from evaluate.comparison import PairResult
from evaluate.intervals import holm, letters
from evaluate.ranking import FIGURES, SHARE, DependenceLost, ReplicatedFigures, compared, places, ranked
from evaluate.result import Failure
from evaluate.sampling import shuffle_columns
from evaluate.tables import Real
from evaluate.utility import models, study
from synth import infer_schema
from synth.schema import Schema


def drawn(rng: np.random.Generator, n: int, off: float = 0.0) -> pd.DataFrame:
    """Rows of one population; `off` loosens what ties its columns."""
    age = rng.integers(18, 91, n)
    income = np.clip(20 + age * (1 - off) + rng.normal(0, 15, n), 0, 200).round(1)
    town = np.where(income > 90, "north", np.where(income > 60, "south", "east"))
    ill = rng.random(n) < (age - 10) / 100 * (1 - off) + off / 2
    letter = rng.choice(list("abcdef"), n, p=[0.4, 0.3, 0.1, 0.1, 0.05, 0.05])
    return pd.DataFrame({"age": age, "income": income, "town": town, "ill": ill, "letter": letter})


@cache
def schema() -> Schema:
    return infer_schema(drawn(np.random.default_rng(99), 20_000), target="ill")


def world(seed: int, n_train: int, n_holdout: int) -> Real:
    rng = np.random.default_rng([seed, 0])
    train, holdout = drawn(rng, n_train), drawn(rng, n_holdout)
    return Real.prepare(train, holdout, schema(), seed=seed, outside="clamp")


@pytest.fixture(scope="module")
def figures_of() -> dict[str, ReplicatedFigures]:
    """Two fresh real samples, and one that is clearly worse."""
    real, result = world(3, 400, 300), {}
    with pytest.MonkeyPatch.context() as patch:
        # How often tables are split in halves says how wide an interval is, which these tests do not look at.
        patch.setattr(study, "N_SPLITS", {"linear": (2, 2), "boosting": (2, 2)})
        patch.setitem(models.BOOSTING, "max_iter", 20)
        for name, seed, off in (("one", 1, 0.0), ("other", 2, 0.0), ("worse", 3, 0.9)):
            tables = real.beside(drawn(np.random.default_rng(seed), 400, off))
            result[name] = ReplicatedFigures.of(tables)
            tables.kept.clear()
    return result


def told(*better: tuple[str, str, str | None]) -> list[PairResult]:
    """Comparisons of two names by a figure each, with the one that is better."""
    return [
        PairResult(f"figure {at}", first, second, None, None, None, None, None, who, "")
        for at, (first, second, who) in enumerate(better)
    ]


@pytest.mark.statistical
def test_two_samples_of_one_source_are_not_told_apart_and_a_worse_table_is(figures_of):
    result = ranked(figures_of)
    order = {each.name: each for each in result.order}
    assert order["one"].letters == order["other"].letters == "a"
    assert order["worse"].letters == "b"
    assert order["worse"].behind == ("one", "other")
    assert [order[name].place for name in ("one", "other", "worse")] == [1, 1, 3]


def dependence(figures: ReplicatedFigures) -> DependenceLost:
    result = figures.measured[SHARE]
    assert isinstance(result, DependenceLost)
    return result


def moved(each: DependenceLost, by: float) -> DependenceLost:
    """The same table, whose relations are farther off by so much of the way to shuffled columns."""
    squares = each.squares
    shift = np.array([by, 0.0, 0.0, 0.0]) * squares.beyond_noise[-1]
    return DependenceLost(replace(squares, square=squares.square + shift))


def test_being_closer_to_train_than_a_fresh_real_sample_is_no_merit(figures_of: dict[str, ReplicatedFigures]) -> None:
    fresh = dependence(figures_of["one"])
    near, far = moved(fresh, -1.0 - fresh.value), moved(fresh, 0.5 - fresh.value)
    assert near.value == pytest.approx(-1.0)
    assert near.less(moved(near, 0.5)).p == 1.0
    assert far.less(near).value == pytest.approx(0.5)


def test_a_figure_that_only_one_table_has_counts_for_it(figures_of: dict[str, ReplicatedFigures]) -> None:
    name = "utility.tstr.linear"
    failure = Failure(name, "skipped", "a table has no row with a target that occurs in real rows")
    result = {each: figures_of["worse"].measured[each] for each in FIGURES if each != name}
    lacking = ReplicatedFigures(result, {name: failure})
    (item,) = [c for c in compared({"one": figures_of["one"], "lacking": lacking}) if c.figure == name]
    assert item.better == "one"
    assert item.difference is None
    assert "no row with a target" in item.reason


def test_a_table_is_ahead_only_where_no_figure_speaks_against_it() -> None:
    split = places(["x", "y"], told(("x", "y", "x"), ("x", "y", "y")))
    assert [each.place for each in split] == [1, 1]
    assert {each.letters for each in split} == {"a"}
    clear = places(["x", "y"], told(("x", "y", "y"), ("x", "y", None)))
    assert [(each.name, each.place) for each in clear] == [("y", 1), ("x", 2)]


@given(st.sets(st.sampled_from([(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)])))
def test_no_table_stands_before_one_that_it_is_behind(ahead: set[tuple[int, int]]) -> None:
    pairs = [(str(first), str(second)) for first, second in ahead]
    result = {each.name: each for each in places(list("3210"), told(*((*pair, pair[0]) for pair in pairs)))}
    assert all(result[other].place < each.place for each in result.values() for other in each.behind)


def test_a_table_that_breaks_a_rule_on_fidelity_stands_behind_those_that_keep_them_all() -> None:
    keeps = {"kept": True, "broken": False, "open": None}
    result = places(list(keeps), told(("kept", "broken", "broken"), ("broken", "open", "broken")), keeps)
    assert {each.name: each.behind for each in result} == {"kept": (), "broken": ("kept",), "open": ("broken",)}


def test_shuffled_columns_are_never_ahead_of_a_table_with_much_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs of the noisy table are farther from train than those of shuffled columns; its relations are nearer."""
    monkeypatch.setattr(ranking, "FIGURES", {SHARE: FIGURES[SHARE]})  # models take long to fit
    for seed in range(2):
        real = world(seed, 600, 400)
        noisy = drawn(np.random.default_rng(seed), 600, 0.4)
        noisy = noisy.assign(letter=np.where(np.arange(600) < 250, "f", noisy["letter"]))
        tables = {"noisy": noisy, "shuffled": shuffle_columns(real.train, np.random.default_rng(seed))}
        result = {name: ReplicatedFigures.of(real.beside(table)) for name, table in tables.items()}
        order = {each.name: each for each in ranked(result).order}
        assert order["shuffled"].behind == ("noisy",)


NAMES = ["a", "b", "c", "d", "e", "f"]
PAIRS = list(itertools.combinations(NAMES, 2))


@given(st.sets(st.sampled_from(PAIRS)))
def test_letters_say_exactly_which_tables_are_told_apart(apart: set[tuple[str, str]]) -> None:
    shown = letters(NAMES, sorted(apart))
    for pair in PAIRS:
        assert bool(set(shown[pair[0]]) & set(shown[pair[1]])) == (pair not in apart)


@given(st.sets(st.sampled_from(PAIRS)))
def test_no_letter_says_what_another_says_too(apart: set[tuple[str, str]]) -> None:
    shown = letters(NAMES, sorted(apart))
    groups = [{name for name in NAMES if letter in shown[name]} for letter in set("".join(shown.values()))]
    assert not any(each < other for each in groups for other in groups)


@given(st.lists(st.floats(0, 1), max_size=8))
def test_adjusted_p_values_lie_between_plain_ones_and_bonferroni(p: list[float]) -> None:
    for plain, adjusted in zip(p, holm(p), strict=True):
        assert plain <= adjusted <= min(1.0, plain * len(p)) + 1e-12
