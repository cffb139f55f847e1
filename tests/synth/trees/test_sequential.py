"""Columns one after another: their dependences, what is given of them, and a fit that goes on or is damaged."""

import copy
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from synth.domain.coded_rows import CodedRows, Evidence
from synth.domain.discretizer import Discretizer
from synth.schema import Schema, build_schema
from synth.trees import Growth, SequentialTrees, fit_sequence
from synth.trees.conditional import Conditional
from tests.damaging import damaged
from tests.synth.domain.test_quantile_grid import read_off

N = 4000
SCHEMA = build_schema({
    "status": "declared",
    "columns": {
        "a": {"kind": "categorical", "categories": ["p", "q"]},
        "b": {"kind": "categorical", "categories": ["p", "q"]},
        "c": {"kind": "categorical", "categories": ["even", "odd"]},
        "x": {"kind": "real", "bounds": [0.0, 100.0], "decimals": 2},
    },
})  # fmt: skip
A, B, C, X = range(4)


def table(n: int = N, seed: int = 0) -> pd.DataFrame:
    """`b` is `a` in three rows of four, `c` is whether both are alike nine times in ten, and `x` is far up by `c`."""
    rng = np.random.default_rng(seed)
    a = rng.random(n) < 0.4
    b = a ^ (rng.random(n) < 0.25)
    c = a ^ b ^ (rng.random(n) < 0.1)
    x = np.round(20 + 40 * c + rng.gamma(3, 3, n).clip(0, 19.9), 2)
    letters = np.array(["p", "q"], dtype=object)
    words = np.array(["even", "odd"], dtype=object)
    return pd.DataFrame({"a": letters[a * 1], "b": letters[b * 1], "c": words[c * 1], "x": x})


def coded(frame: pd.DataFrame, schema: Schema = SCHEMA) -> tuple[CodedRows, Discretizer]:
    discretizer = read_off(schema, frame)
    cells = {place: each.cells(frame[each.name]) for place, each in enumerate(discretizer.attributes)}
    return CodedRows.of(discretizer, cells), discretizer


def fitted(frame: pd.DataFrame, schema: Schema = SCHEMA, **more: Any) -> SequentialTrees:
    rows, discretizer = coded(frame, schema)
    order = range(len(discretizer.attributes))
    return fit_sequence(rows, discretizer, np.ones(len(frame)), order, Growth(), 5, **more)


@pytest.fixture(scope="module")
def trees() -> SequentialTrees:
    return fitted(table())


def decoded(trees: SequentialTrees, n: int, evidence: Evidence | None = None) -> pd.DataFrame:
    rng = np.random.default_rng(7)
    return trees.draw(n, rng, evidence).decoded(trees.discretizer, rng)


def test_a_dependence_of_three_columns_is_learned(trees: SequentialTrees) -> None:
    """Any two of the last three say next to nothing of the parity; all three do."""
    made, real = decoded(trees, 20_000), table(200_000, seed=1)
    shares = [frame.groupby(["a", "b"])["c"].value_counts(normalize=True).sort_index() for frame in (made, real)]
    assert (shares[0] - shares[1]).abs().max() < 0.05
    joint = [frame.value_counts(["a", "b", "c"], normalize=True).sort_index() for frame in (made, real)]
    assert (joint[0] - joint[1]).abs().sum() / 2 < 0.04


def test_a_number_follows_the_columns_before_it_and_its_own_distribution(trees: SequentialTrees) -> None:
    made, real = decoded(trees, 20_000), table(200_000, seed=1)
    for word in ("even", "odd"):
        quantiles = [frame.loc[frame["c"] == word, "x"].quantile([0.05, 0.25, 0.5, 0.75]) for frame in (made, real)]
        assert (quantiles[0] - quantiles[1]).abs().max() < 1.0


def test_a_column_follows_a_number_within_its_codes() -> None:
    """Halves of each code of the number go with other words."""
    schema = build_schema({
        "status": "declared",
        "columns": {
            "x": {"kind": "real", "bounds": [0.0, 100.0], "decimals": 2},
            "half": {"kind": "categorical", "categories": ["lower", "upper"]},
        },
    })  # fmt: skip
    x = np.round(np.random.default_rng(0).uniform(0, 100, 6000), 2)
    words = np.array(["lower", "upper"], dtype=object)
    frame = pd.DataFrame({"x": x, "half": words[(x % 25 >= 12.5) * 1]})
    discretizer = read_off(schema, frame, n_bins=4)
    cells = {place: each.cells(frame[each.name]) for place, each in enumerate(discretizer.attributes)}
    assert len(np.unique(discretizer.attributes[0].codes(frame["x"]))) <= 5
    trees = fit_sequence(CodedRows.of(discretizer, cells), discretizer, np.ones(len(x)), (0, 1), Growth(), 5)
    made = decoded(trees, 6000)
    assert ((made["x"] % 25 >= 12.5) == (made["half"] == "upper")).mean() > 0.85


def test_a_column_that_is_given_first_weighs_nothing_and_the_others_follow_it(trees: SequentialTrees) -> None:
    rows = trees.draw(10_000, np.random.default_rng(0), Evidence({A: 1}))
    assert (rows.codes[:, A] == 1).all()
    assert (rows.log_weights == 0).all()
    assert (rows.codes[:, B] == 1).mean() == pytest.approx(0.75, abs=0.04)
    assert (trees.draw(100, np.random.default_rng(0), Evidence({B: 0, A: 1})).log_weights == 0).all()


def test_a_column_that_is_given_later_weighs_rows_by_its_chance_given_those_before(trees: SequentialTrees) -> None:
    rows = trees.draw(10_000, np.random.default_rng(0), Evidence({B: 1}))
    assert (rows.codes[:, B] == 1).all()
    assert (rows.codes[:, A] == 1).mean() == pytest.approx(0.4, abs=0.04)
    for code, chance in ((0, 0.25), (1, 0.75)):
        np.testing.assert_allclose(np.exp(rows.log_weights[rows.codes[:, A] == code]), chance, atol=0.04)
    both = trees.draw(10_000, np.random.default_rng(0), Evidence({A: 0, C: 1}))
    weights = np.exp(both.log_weights)
    for code, chance in ((0, 0.1), (1, 0.9)):
        np.testing.assert_allclose(weights[both.codes[:, B] == code], chance, atol=0.05)


def test_a_number_that_is_given_weighs_rows_by_its_code_and_its_place_within_it(trees: SequentialTrees) -> None:
    attribute = trees.discretizer.attributes[X]
    cell = int(attribute.cells(pd.Series([66.0]))[0])
    code = int(attribute.group[cell])
    assert attribute.is_refined
    found = []
    for interval in ((0.0, 1.0), attribute.rank_interval(cell)):
        rows = trees.draw(10_000, np.random.default_rng(0), Evidence({X: code}, {X: interval}))
        assert (rows.codes[:, X] == code).all()
        found.append(np.array([np.exp(rows.log_weights[rows.codes[:, C] == c]).mean() for c in (0, 1)]))
    real, edges = table(200_000, seed=1), attribute.edges
    assert edges is not None
    real_code, is_odd = attribute.codes(real["x"]) == code, real["c"] == "odd"
    np.testing.assert_allclose(found[0], [real_code[~is_odd].mean(), real_code[is_odd].mean()], atol=0.03)
    assert found[1][0] < 0.05 * found[1][1]
    low, high = attribute.rank_interval(cell)
    assert found[1][1] == pytest.approx(found[0][1] * (high - low), rel=0.5)


def test_the_whole_code_and_all_codes_are_certain(trees: SequentialTrees) -> None:
    """Weights of all values of a column come to one."""
    total = np.zeros(2000)
    for code in range(trees.discretizer.attributes[C].size):
        total += np.exp(trees.draw(2000, np.random.default_rng(3), Evidence({C: code})).log_weights)
    np.testing.assert_allclose(total, 1)


def test_what_does_not_go_together_is_never_drawn(trees: SequentialTrees) -> None:
    sizes = [attribute.size for attribute in trees.discretizer.attributes]
    together = np.ones((sizes[B], sizes[A]), dtype=bool)
    together[1, 0] = False
    allowed = np.arange(sizes[C]) != 1
    rows = trees.draw(5000, np.random.default_rng(0), Evidence(allowed={C: allowed}, zeros=(((B, A), together),)))
    assert not ((rows.codes[:, B] == 1) & (rows.codes[:, A] == 0)).any()
    assert ((rows.codes[:, B] == 0) & (rows.codes[:, A] == 1)).any()
    assert (rows.codes[:, C] == 0).all()
    alone = Evidence(zeros=(((A,), np.arange(sizes[A]) == 1),))
    assert (trees.draw(500, np.random.default_rng(0), alone).codes[:, A] == 1).all()


def arrays_of(trees: SequentialTrees) -> dict[str, NDArray[Any]]:
    return trees.to_arrays()[1]


def assert_same(one: SequentialTrees, other: SequentialTrees) -> None:
    assert one.to_arrays()[0] == other.to_arrays()[0]
    for name, array in arrays_of(one).items():
        np.testing.assert_array_equal(array, arrays_of(other)[name], err_msg=name)


def test_the_number_of_threads_changes_nothing(trees: SequentialTrees) -> None:
    assert_same(trees, fitted(table(), n_threads=3))


ALONE = """
import numpy as np
from threadpoolctl import threadpool_info
from synth.trees import Growth
from tests.synth.trees.test_sequential import fitted, table

seen, boosted = set(), Growth.boosted

def watched(*arguments):
    made = boosted(*arguments)
    seen.update(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "openmp")
    return made

Growth.boosted = watched
fitted(table(600))
assert seen == {1}, seen
"""


def test_each_column_is_learned_on_one_thread_from_the_first_on() -> None:
    """In a process that has not loaded the library yet; sums on several threads are not the same everywhere."""
    done = subprocess.run(
        [sys.executable, "-c", ALONE], capture_output=True, text=True, cwd=Path(__file__).parents[3],
        env={**os.environ, "OMP_NUM_THREADS": "3"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


class Dictionary:
    """Columns that are kept in memory."""

    def __init__(self) -> None:
        self.columns: dict[int, Conditional] = {}
        self.n_saved = 0

    def load(self, place: int, size: int, n_features: int) -> Conditional | None:
        return self.columns.get(place)

    def save(self, place: int, conditional: Conditional) -> None:
        self.columns[place] = conditional
        self.n_saved += 1


def test_a_fit_goes_on_from_kept_columns_and_tells_how_far_it_is(trees: SequentialTrees) -> None:
    kept, told = Dictionary(), list[float]()
    kept.columns = {A: trees.conditionals[A], C: trees.conditionals[C]}
    assert_same(trees, fitted(table(), kept=kept, tell=told.append))
    assert kept.n_saved == 2
    assert told == [0.25, 0.5, 0.75, 1.0]


def test_trees_come_back_from_arrays(trees: SequentialTrees) -> None:
    again = SequentialTrees.from_arrays(*trees.to_arrays(), trees.discretizer)
    assert_same(trees, again)
    pd.testing.assert_frame_equal(decoded(again, 500), decoded(trees, 500))


@pytest.mark.parametrize(
    "order", [[0, 1, 2], [0, 1, 2, 2], [0, 1, 2, 4], [-1, 0, 1, 2], [3, 2, 1, 0], [0, 1, 2, 3, 3]], ids=str
)
def test_another_order_is_refused(order: list[int], trees: SequentialTrees) -> None:
    content, arrays = trees.to_arrays()
    with pytest.raises((ValueError, KeyError)):
        SequentialTrees.from_arrays({**content, "order": order}, arrays, trees.discretizer)


def test_damaged_plain_data_are_refused_or_sampled() -> None:
    """Whatever is no tree is refused with an error that loading expects, and nothing else breaks."""
    trees = fitted(table(600))
    content, arrays = trees.to_arrays()
    n_refused = 0
    for seed in range(150):
        try:
            made = SequentialTrees.from_arrays(damaged(content, seed), arrays, trees.discretizer)
        except (KeyError, ValueError, TypeError, IndexError, AttributeError, OverflowError):
            n_refused += 1
            continue
        assert len(decoded(made, 50)) == 50
    assert n_refused > 50


def test_damaged_arrays_are_refused_or_sampled() -> None:
    trees = fitted(table(600))
    content, arrays = trees.to_arrays()
    rng, n_refused = np.random.default_rng(0), 0
    for _ in range(200):
        broken = copy.deepcopy(arrays)
        name = rng.choice(sorted(broken))
        array = broken[name]
        if array.size == 0:
            continue
        array.flat[rng.integers(array.size)] = rng.choice([-1, 0, 1, 2, 7, 10**6])
        try:
            made = SequentialTrees.from_arrays(content, broken, trees.discretizer)
        except (KeyError, ValueError, TypeError, IndexError, OverflowError):
            n_refused += 1
            continue
        drawn = made.draw(50, np.random.default_rng(0))
        for place, attribute in enumerate(trees.discretizer.attributes):
            assert (drawn.codes[:, place] < attribute.size).all()
    assert n_refused > 30


def test_a_word_of_many_categories_keeps_its_dependence() -> None:
    """Numbers of categories say nothing of likeness: even and odd ones go together."""
    rng = np.random.default_rng(0)
    names = [f"w{i}" for i in range(30)]
    schema = build_schema({
        "status": "declared",
        "columns": {name: {"kind": "categorical", "categories": names} for name in ("w", "v")},
    })  # fmt: skip
    w = rng.integers(0, 30, 6000)
    v = (rng.integers(0, 15, 6000) * 2 + w % 2) % 30
    frame = pd.DataFrame({"w": np.array(names, dtype=object)[w], "v": np.array(names, dtype=object)[v]})
    made = decoded(fitted(frame, schema), 6000)
    same = made["w"].str[1:].astype(int) % 2 == made["v"].str[1:].astype(int) % 2
    assert same.mean() > 0.9
