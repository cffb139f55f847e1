"""Sets of columns that tell a target together: scores beside brute force, candidates, and a fit that follows one."""

from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest

from synth.domain import Discretizer
from synth.domain.counts import CodedTable
from synth.dp.budget import Budget
from synth.dp.mechanisms import InjectedNoise
from synth.generators.fitting.parity import (
    LEAST_COLUMNS,
    MOST_COLUMNS,
    MOST_SETS,
    MOST_TOGETHER,
    ParitySearch,
    blocks_of,
    is_searched,
)
from synth.generators.latent_class import MANY_COLUMNS, LatentClass
from synth.marginals import LatentClasses
from synth.schema import Schema, build_schema
from tests.synth.generators.pinned import Pinned

N_ROWS, CUT = 3000, 62.0


def schema_of(n_flags: int = 5, target: str | None = "y") -> Schema:
    columns: dict[str, Any] = {f"b{index}": {"kind": "boolean"} for index in range(n_flags)}
    columns |= {"x": {"kind": "integer", "bounds": [0, 99]}}
    columns |= {"y": {"kind": "categorical", "categories": ["u", "v", "w"], "missing": True}}
    return build_schema({"status": "declared", "n_units": N_ROWS, "target": target, "columns": columns})


def exclusive_or() -> pd.DataFrame:
    """The target is the exclusive or of three flags and whether a number is above a bound off its middle."""
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({f"b{index}": rng.random(N_ROWS) < 0.5 for index in range(5)})
    frame["x"] = rng.integers(0, 100, N_ROWS)
    frame["y"] = np.where(odd(frame), "u", "v")
    return frame


def odd(frame: pd.DataFrame) -> np.ndarray:
    flags = [frame[name].to_numpy(dtype=bool) for name in ("b0", "b2", "b4")]
    return np.asarray(np.logical_xor.reduce([*flags, frame["x"].to_numpy(dtype=float) >= CUT]))


class Rows:
    """Rows as a fit counts them."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame

    def coded(self, discretizer: Discretizer) -> CodedTable:
        return CodedTable(discretizer.sizes, discretizer.encode(self._frame[list(discretizer.columns)]))


def search_of(frame: pd.DataFrame, n_classes: int = 3000) -> tuple[ParitySearch, LatentClasses]:
    """A search, and a model of even, independent columns."""
    discretizer = Discretizer.by_schema(schema_of())
    masses = {name: np.append(np.full(size - 2, 10.0), [0.0, 0.0]) for name, size in discretizer.sizes.items()}
    tables = [np.tile(mass[:, np.newaxis] / mass.sum(), 2) for mass in masses.values()]
    model = LatentClasses(discretizer.sizes, np.array([0.4, 0.6]), tables, N_ROWS)
    return ParitySearch(Rows(frame), "y", discretizer, masses, n_classes), model


def test_scores_are_sums_of_products_of_signs_but_for_what_is_public() -> None:
    """Model and table beside brute force: rows of the table, and all cells of two classes."""
    frame = exclusive_or()[:40]
    search, model = search_of(frame)
    named = dict(zip(search.codes, search.discretizer.encode(frame).T, strict=True))
    distances = []
    for index in range(sum(map(len, search.sets))):
        signs = search.clique(index)
        chances, value = 0.0, np.ones(len(frame))
        by_class = np.ones(2)
        for name, number in signs.items():
            of_code = np.array([(-1.0) ** bin(number & code).count("1") for code in search.codes[name]])
            value *= of_code[named[name]]
            by_class *= of_code @ dict(zip(model.domain, model.tables, strict=True))[name]
        chances = float(model.shares @ by_class)
        distances.append(abs(value.sum() - model.total * chances))
    # Sets of one size have the same taken off.
    n_columns = np.array([len(search.clique(index)) for index in range(len(distances))])
    taken = np.array(distances) - search.scores(model, 2.0, 1.0)
    for size in np.unique(n_columns):
        np.testing.assert_allclose(taken[n_columns == size], taken[n_columns == size][0], atol=1e-3)
    assert (np.diff([taken[n_columns == size][0] for size in np.unique(n_columns)]) > 0).all()


def test_candidates_are_all_sets_with_the_target_and_three_columns_or_more() -> None:
    search, _ = search_of(exclusive_or())
    others = [name for name in search.codes if name != "y"]
    sets = {tuple(search.clique(index)) for index in range(sum(map(len, search.sets)))}
    assert sets == {("y", *s) for n in range(LEAST_COLUMNS, len(others) + 1) for s in combinations(others, n)}
    # A class has one cell of a set: with few classes only small sets are looked for, or none.
    few, _ = search_of(exclusive_or(), n_classes=200)
    assert {len(few.clique(index)) - 1 for index in range(sum(map(len, few.sets)))} == {3}
    none, model = search_of(exclusive_or(), n_classes=20)
    assert len(none.scores(model, 1.0, 1.0)) == 0


@pytest.mark.parametrize("n_columns", [3, MOST_TOGETHER, MOST_TOGETHER + 1, MOST_COLUMNS])
def test_any_three_columns_are_counted_together_and_blocks_are_few(n_columns: int) -> None:
    names = [f"c{index}" for index in range(n_columns)]
    blocks = blocks_of(names)
    together = {frozenset(three) for block in blocks for three in combinations(block, 3)}
    assert together == {frozenset(three) for three in combinations(names, 3)}
    assert len(blocks) <= 300 and sum(2 ** len(block) for block in blocks) <= 20 * MOST_SETS


def test_tables_without_a_target_or_with_too_few_or_many_columns_are_not_searched() -> None:
    assert is_searched(schema_of())
    assert not is_searched(schema_of(target=None))
    assert not is_searched(schema_of(n_flags=1))
    assert is_searched(schema_of(n_flags=MOST_COLUMNS - 1)) and not is_searched(schema_of(n_flags=MOST_COLUMNS))
    for schema, n_choices in ((schema_of(), 6), (schema_of(target=None), 0)):
        events = LatentClass(epsilon=1.0, rounds=5).row_events(schema)(0.01)
        assert sum(event.count for event in events if event.what == MANY_COLUMNS) == n_choices
        assert sum(event.rho or 0.0 for event in events) == pytest.approx(0.01)


def test_the_set_that_tells_the_target_comes_first_and_is_cut_where_it_is() -> None:
    search, model = search_of(exclusive_or())
    scores = search.scores(model, 5.0, 20.0)
    best = search.clique(int(np.argmax(scores)))
    assert set(best) == {"y", "b0", "b2", "b4", "x"}
    splits, distances = search.splits(best, model)
    cut = splits[int(np.argmax(distances))]["x"][:-2]
    above = np.flatnonzero(cut != cut[0])[0]
    assert abs(above / len(cut) * 100 - CUT) < 4 and (np.diff(np.flatnonzero(cut != cut[0])) == 1).all()


@pytest.mark.parametrize("gone", [0, 17])
def test_one_row_moves_no_score_by_more_than_one(gone: int) -> None:
    frame = exclusive_or()[:50]
    (search, model), (less, _) = search_of(frame), search_of(frame.drop(index=gone))
    moved = np.abs(search.scores(model, 2.0, 1.0) - less.scores(model, 2.0, 1.0))
    assert moved.max() == pytest.approx(1.0)
    best = search.clique(0)
    moved = np.abs(search.splits(best, model)[1] - less.splits(best, model)[1])
    assert moved.max() == pytest.approx(1.0)


def test_a_fit_follows_what_four_columns_tell_together() -> None:
    frame, schema = exclusive_or(), schema_of()
    shares = []
    for rounds in (0, 6):
        generator = LatentClass(epsilon=3.0, n_classes=600, rounds=rounds)
        schedule = generator.schedule(schema)
        assert schedule is not None
        model = generator.fit(frame, schema, budget=Budget(schedule, InjectedNoise(np.random.default_rng(1))))
        rows = model.sample(N_ROWS, seed=1)
        shares.append(float(np.mean(odd(rows) == (rows["y"] == "u"))))
    assert abs(shares[0] - 0.5) < 0.06
    assert shares[1] > 0.9


def most_moved() -> float:
    """How far one row moves what a fit asks, in what is paid for; the set of columns is among it."""
    frame, schema = exclusive_or()[:400], schema_of()
    generator = LatentClass(epsilon=9.0, n_classes=300, rounds=2)
    schedule = generator.schedule(schema)
    assert schedule is not None
    whole = Pinned(schedule)
    generator.fit(frame, schema, budget=whole)
    assert [draw.event.what for draw in whole.draws].count(MANY_COLUMNS) >= 2
    less = Pinned(schedule, whole)
    generator.fit(frame.drop(index=7).reset_index(drop=True), schema, budget=less)
    return max(whole.differences(less))


_scores, _splits, _release, _counts = ParitySearch.scores, ParitySearch.splits, Budget.release, ParitySearch.counts


def _followed_without_choice(
    self: LatentClass, fit: Any, choice: Any, event: Any, parity: ParitySearch, estimation: Any
) -> int:
    """The best set, by its exact score."""
    clique = parity.clique(int(np.argmax(parity.scores(estimation.model(), event.sigma, 1.0))))
    codes = {name: parity.codes[name] for name in clique}
    (counts,) = parity.counts([tuple(codes)], codes)
    estimation.follow(codes, fit.budget.release(counts, event).astype(float), event.sigma, fit.rng)
    return 1


def _unpaid_where_many(self: Budget, exact: np.ndarray, event: Any) -> np.ndarray:
    return exact if exact.ndim > 3 else _release(self, exact, event)


def _split_twice_as_far(self: ParitySearch, *arguments: Any) -> Any:
    splits, distances = _splits(self, *arguments)
    return splits, 2 * distances


FAULTS: dict[str, tuple[Any, str, Any]] = {
    "scores that move twice as far": (ParitySearch, "scores", lambda self, *args: 2 * _scores(self, *args)),
    "splits that move twice as far": (ParitySearch, "splits", _split_twice_as_far),
    "counts that move twice as far": (
        ParitySearch, "counts", lambda self, *args: [2 * counts for counts in _counts(self, *args)],
    ),
    "a choice that is not paid": (LatentClass, "_follow", _followed_without_choice),
    "a marginal that is not paid": (Budget, "release", _unpaid_where_many),
}  # fmt: skip


def test_one_row_moves_what_is_asked_of_many_columns_by_what_is_paid() -> None:
    assert most_moved() == pytest.approx(1.0)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_what_is_asked_of_many_columns_shows(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, attribute, planted = FAULTS[fault]
    monkeypatch.setattr(owner, attribute, planted)
    with pytest.raises(AssertionError):
        assert most_moved() <= 1 + 1e-9
