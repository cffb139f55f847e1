"""Conditional distributions by trees, and the columns that they give one after another."""

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr
from threadpoolctl import threadpool_limits

from synth.domain.discretizer import CodedRows, Discretizer, Evidence
from synth.schema import Schema, build_schema
from synth.trees import SequentialTrees, fit_sequence
from synth.trees.conditional import Conditional, TrainingColumn, draw_codes, fit_conditional
from synth.trees.forest import Growth
from tests.synth.domain.test_domain import read_off
from tests.synth.evidence import constant

GROWTH = Growth(80, 20)
SIZE = 6
N_DRAWS = 20_000
NEW = np.array([[-1.5, 0], [-0.2, 1], [0.3, 2], [1.5, 3]], dtype=np.float32)


def learned(n: int = 4000, *, size: int = SIZE, refined: bool = False) -> TrainingColumn:
    """Codes by a number and by a category of four; the last code is never there.

    Where there are ranks, they rise with the number, which says less of the codes.
    """
    rng = np.random.default_rng(0)
    x, word = rng.normal(size=n), rng.integers(0, 4, n)
    noise = rng.normal(0, size / 4 if refined else 0.5, n)
    codes = np.clip(np.floor((x + 2) / 4 * (size - 1) + noise + 0.5 * (word == 2)), 0, size - 2)
    ranks = np.clip(0.5 + 0.25 * x + 0.1 * rng.normal(size=n), 0, 1) if refined else None
    rows = np.column_stack([x, word]).astype(np.float32)
    scores = None if ranks is None else codes + 0.9 * ranks
    widths = None if ranks is None else np.zeros(n)
    return TrainingColumn(rows, {1: 4}, codes.astype(np.int32), size, scores, ranks, widths, np.ones(n))


def fitted_conditional(column: TrainingColumn, growth: Growth = GROWTH) -> Conditional:
    with threadpool_limits(1):
        return fit_conditional(column, growth, np.random.default_rng(1))


@pytest.fixture(scope="module")
def plain() -> Conditional:
    return fitted_conditional(learned())


@pytest.fixture(scope="module")
def number() -> Conditional:
    """More codes than a number may have without a stack, and ranks within them."""
    return fitted_conditional(learned(size=20, refined=True))


@pytest.fixture(scope="module")
def marginal() -> Conditional:
    return fitted_conditional(learned(30))


@pytest.fixture(params=["plain", "number", "marginal"])
def conditional(request: pytest.FixtureRequest) -> Conditional:
    drawn: Conditional = request.getfixturevalue(request.param)
    return drawn


def asked(conditional: Conditional, n_times: int = 1) -> np.ndarray:
    """Features of four rows, each so many times, the mean of a stack the same each time."""
    return np.repeat(conditional.features(NEW, np.random.default_rng(2)), n_times, axis=0)


def shares(codes: np.ndarray, size: int) -> np.ndarray:
    """How often each code is drawn for each of the four rows, shape (4, size)."""
    return np.stack([np.bincount(part, minlength=size) for part in np.split(codes, len(NEW))]) / (len(codes) / len(NEW))


def test_draws_are_as_frequent_as_the_table_says(conditional: Conditional) -> None:
    table = conditional.distribution.table(asked(conditional))
    np.testing.assert_allclose(table.sum(axis=1), 1)
    drawn = conditional.distribution.draw(asked(conditional, N_DRAWS), np.random.default_rng(3))
    size = table.shape[1]
    assert (np.abs(shares(drawn, size) - table) <= 5 * np.sqrt(table * (1 - table) / N_DRAWS) + 1e-4).all()
    assert (table[:, -1] == 0).all()
    assert drawn.dtype == np.int32


def test_codes_that_are_closed_are_not_drawn_and_the_others_share_their_chances(conditional: Conditional) -> None:
    table = conditional.distribution.table(asked(conditional))
    size = table.shape[1]
    likeliest = table.argmax(axis=1)
    is_open = np.arange(size) != likeliest[:, np.newaxis]
    drawn = draw_codes(
        conditional.distribution, asked(conditional, N_DRAWS), np.repeat(is_open, N_DRAWS, axis=0),
        np.random.default_rng(4),
    )  # fmt: skip
    expected = table * is_open
    expected /= expected.sum(axis=1, keepdims=True)
    drawn = shares(drawn, size)
    assert (drawn[~is_open] == 0).all()
    assert (np.abs(drawn - expected) <= 5 * np.sqrt(expected * (1 - expected) / N_DRAWS) + 1e-4).all()


def test_ranks_within_codes_follow_the_features(number: Conditional) -> None:
    assert number.refinement is not None
    column, rng = learned(4000, size=20, refined=True), np.random.default_rng(6)
    rows = number.features(column.rows, rng)
    ranks = number.refinement.draw(rows, column.codes, rng)
    assert ((ranks >= 0) & (ranks <= 1)).all()
    x = column.rows[:, 0]
    n_compared = 0
    for code in np.flatnonzero(column.counts >= 200):
        rows_of_code = column.codes == code
        assert column.ranks is not None
        real, drawn = (spearmanr(x[rows_of_code], each[rows_of_code]).statistic for each in (column.ranks, ranks))
        assert drawn > real - 0.2
        assert ranks[rows_of_code].mean() == pytest.approx(column.ranks[rows_of_code].mean(), abs=0.05)
        assert ranks[rows_of_code].std() == pytest.approx(column.ranks[rows_of_code].std(), rel=0.3)
        n_compared += real > 0.4
    assert n_compared > 3


def test_values_of_few_wide_cells_fill_their_code_beside_codes_of_one_cell() -> None:
    """Whole numbers, some codes of which are one of them: the pooled ranks were a peak in the middle of each code."""
    n, rng = 6000, np.random.default_rng(0)
    codes, cells = rng.integers(0, 8, n), rng.integers(0, 4, n)
    several = codes % 2 == 0
    ranks, widths = np.where(several, (cells + 0.5) / 4, 0.5), np.where(several, 0.25, 1.0)
    column = TrainingColumn(rng.normal(size=(n, 1)).astype(np.float32), {}, codes.astype(np.int32), 8, codes + ranks,
                            ranks, widths, np.ones(n))  # fmt: skip
    refinement = fitted_conditional(column).refinement
    assert refinement is not None
    drawn = refinement.draw(column.rows, column.codes, rng)[several]
    assert np.bincount(np.minimum(drawn * 4, 3).astype(int), minlength=4) / several.sum() == pytest.approx(
        0.25, abs=0.03
    )


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
    cells = {index: each.cells(frame[each.name]) for index, each in enumerate(discretizer.attributes)}
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


def test_a_dependence_of_three_columns_is_learned_and_numbers_follow_it(trees: SequentialTrees) -> None:
    """Any two of the first three say next to nothing of the parity; all three do."""
    drawn, real = decoded(trees, 20_000), table(200_000, seed=1)
    joint = [frame.value_counts(["a", "b", "c"], normalize=True).sort_index() for frame in (drawn, real)]
    assert (joint[0] - joint[1]).abs().sum() / 2 < 0.04
    for word in ("even", "odd"):
        quantiles = [frame.loc[frame["c"] == word, "x"].quantile([0.05, 0.25, 0.5, 0.75]) for frame in (drawn, real)]
        assert (quantiles[0] - quantiles[1]).abs().max() < 1.0


def test_a_number_that_is_given_weighs_rows_by_its_code_and_its_place_within_it(trees: SequentialTrees) -> None:
    attribute = trees.discretizer.attributes[X]
    cell = int(attribute.cells(pd.Series([66.0]))[0])
    code = int(attribute.group[cell])
    assert attribute.is_refined
    result = []
    for ranks in (None, {X: float(attribute.middle_ranks[cell])}):
        known = constant(trees.discretizer, 10_000, {X: code}, ranks)
        if ranks is None and known.rows is not None:
            known.rows.ranks.clear()  # type: ignore[attr-defined]
        rows = trees.draw(10_000, np.random.default_rng(0), known)
        assert (rows.codes[:, X] == code).all()
        result.append(np.array([np.exp(rows.log_weights[rows.codes[:, C] == c]).mean() for c in (0, 1)]))
    real, edges = table(200_000, seed=1), attribute.edges
    assert edges is not None
    real_code, is_odd = attribute.codes(real["x"]) == code, real["c"] == "odd"
    np.testing.assert_allclose(result[0], [real_code[~is_odd].mean(), real_code[is_odd].mean()], atol=0.03)
    assert result[1][0] < 0.05 * result[1][1]
    low, high = attribute.rank_intervals[cell].tolist()
    assert result[1][1] == pytest.approx(result[0][1] * (high - low), rel=0.5)


def test_the_whole_code_and_all_codes_are_certain(trees: SequentialTrees) -> None:
    """Weights of all values of a column come to one."""
    total = np.zeros(2000)
    for code in range(trees.discretizer.attributes[C].size):
        total += np.exp(
            trees.draw(2000, np.random.default_rng(3), constant(trees.discretizer, 2000, {C: code})).log_weights
        )
    np.testing.assert_allclose(total, 1)


def test_what_does_not_go_together_is_never_drawn(trees: SequentialTrees) -> None:
    sizes = [attribute.size for attribute in trees.discretizer.attributes]
    together = np.ones((sizes[B], sizes[A]), dtype=bool)
    together[1, 0] = False
    allowed = np.arange(sizes[C]) != 1
    rows = trees.draw(5000, np.random.default_rng(0), Evidence(zeros=(((C,), allowed), ((B, A), together))))
    assert not ((rows.codes[:, B] == 1) & (rows.codes[:, A] == 0)).any()
    assert ((rows.codes[:, B] == 0) & (rows.codes[:, A] == 1)).any()
    assert (rows.codes[:, C] == 0).all()
    alone = Evidence(zeros=(((A,), np.arange(sizes[A]) == 1),))
    assert (trees.draw(500, np.random.default_rng(0), alone).codes[:, A] == 1).all()


def test_models_of_more_threads_and_of_plain_data_draw_the_same_rows(trees: SequentialTrees) -> None:
    content, arrays = trees.to_arrays()
    again = SequentialTrees.from_arrays(json.loads(json.dumps(content)), arrays, trees.discretizer)
    for other in (again, fitted(table(), n_threads=3)):
        pd.testing.assert_frame_equal(decoded(other, 500), decoded(trees, 500))
    with pytest.raises(ValueError, match="order"):
        SequentialTrees.from_arrays({**content, "order": [0, 1, 2, 2]}, arrays, trees.discretizer)


def test_zones_on_a_map_keep_their_neighbors() -> None:
    """Zones in a square lie on no line: a second direction tells those apart that the first one holds for alike."""
    rng, n, side = np.random.default_rng(0), 8000, 6
    names = [f"z{i}" for i in range(side * side)]
    schema = build_schema({
        "status": "declared",
        "columns": {name: {"kind": "categorical", "categories": names} for name in ("start", "end")},
    })  # fmt: skip
    start = rng.integers(0, side, (n, 2))
    end = np.clip(start + rng.integers(-1, 2, (n, 2)), 0, side - 1)
    words = np.array(names, dtype=object)[rng.permutation(side * side)]
    frame = pd.DataFrame({name: words[at @ [side, 1]] for name, at in (("start", start), ("end", end))})
    trees = fitted(frame, schema)
    assert trees.conditionals[1].places[0].shape[1] == 3
    drawn = decoded(trees, 8000)
    where = {word: np.array(divmod(at, side)) for at, word in enumerate(words)}
    steps = np.array([np.abs(where[a] - where[b]).max() for a, b in zip(drawn["start"], drawn["end"], strict=True)])
    assert (steps <= 1).mean() > 0.8


def test_a_column_follows_the_weekday_of_a_date() -> None:
    rng, n = np.random.default_rng(0), 4000
    day = pd.Timestamp("2023-01-02") + pd.to_timedelta(rng.integers(0, 100, n), unit="D")
    schema = build_schema({
        "status": "declared",
        "columns": {
            "day": {"kind": "date", "bounds": ["2023-01-01", "2023-12-31"]},
            "open": {"kind": "categorical", "categories": ["no", "yes"]},
        },
    })  # fmt: skip
    texts = np.array(["no", "yes"], dtype=object)
    frame = pd.DataFrame({"day": day, "open": texts[(day.weekday < 5) * 1]})
    drawn = decoded(fitted(frame, schema), 4000)
    assert ((drawn["day"].dt.weekday < 5) == (drawn["open"] == "yes")).mean() > 0.95
