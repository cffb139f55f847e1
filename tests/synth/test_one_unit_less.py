"""One unit less in the table is one unit less on one side, and no other moves, whatever the chunks.

A row is really gone here, not blanked: whatever rests on places or on the number of rows would show.
"""

import itertools
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synth import split
from synth.domain import Discretizer, dp_bounds
from synth.dp.budget import Budget
from synth.dp.schedule import Schedule
from synth.generators.base import PrivateGenerator, compose
from synth.generators.fitting import private_fit
from synth.generators.fitting.private_fit import start
from synth.generators.fitting.training_data import TrainingTable, bound_contributions
from synth.generators.marginal_generator import Mst
from synth.progress import quiet
from synth.schema import Schema, build_schema
from synth.split import split_table
from synth.table import conform
from synth.table.rows import Rows
from tests.chunks import SIZES, in_chunks

POOLS: dict[str, list[Any]] = {
    "whole": [None, 0, 1, 2, 7],
    # Places that differ in their last digits, or only beyond all digits of a bound of 1.
    "real": [None, 0.0, -0.0, 5e-324, -5e-324, 1e-40, 0.1, float(np.nextafter(0.1, 1)), -1.0, 3.0],
    "wide": [None, 0.0, 0.05, float(np.nextafter(0.05, 1)), -2.5, 1e12],
    "cents": [None, 0.1, 0.10000000000000002, 0.3, -4.25],
    "day": [None, pd.Timestamp("2020-02-29"), pd.Timestamp("2020-03-01"), pd.Timestamp("1950-01-01")],
    "listed": [None, "a", "b", "unlisted"],
    "word": [None, "a", "B", "b ", "1|-"],
    "yes": [None, True, False],
    "mail": [None, "x@example.org", "x@example.org|"],
}
"""Few values each, so that rows are often equal, or nearly."""
COLUMNS: dict[str, dict[str, Any]] = {
    "whole": {"kind": "integer", "bounds": [0, 5], "measure_spikes": True, "missing": True},
    "real": {"kind": "real", "bounds": [-1.0, 1.0], "measure_spikes": True, "missing": True},
    "wide": {"kind": "real", "measure": True, "measure_spikes": True, "missing": True},
    "cents": {"kind": "real", "bounds": [-5.0, 5.0], "decimals": 2, "measure_spikes": True, "missing": True},
    "day": {"kind": "date", "bounds": ["2000-01-01", "2030-01-01"], "missing": True},
    "listed": {"kind": "categorical", "categories": ["a", "b"], "missing": True},
    "word": {"kind": "categorical", "measure": True, "missing": True},
    "yes": {"kind": "boolean", "missing": True},
    "mail": {"kind": "personal", "personal": "email", "missing": True},
}
WHO: dict[str, Any] = {"kind": "identifier", "bounds": [0, 99]}
EDGES = np.array([-1e15, -1.0, 0.0, 5e-16, 0.05, float(np.nextafter(0.05, 1)), 1.0, 1e15])


@st.composite
def tables(draw: st.DrawFn, most_rows: int = 12) -> tuple[pd.DataFrame, Schema]:
    """A table of few rows from small pools, of a few kinds of columns, with entities or without."""
    learned = st.sampled_from(sorted({*COLUMNS} - {"mail"}))
    names = draw(st.lists(learned, min_size=1, max_size=3, unique=True)) + draw(st.sampled_from([[], ["mail"]]))
    k = draw(st.sampled_from([0, 1, 3]))
    pools = {name: POOLS[name] for name in names} | ({"who": [None, 0, 1, 2]} if k else {})
    rows = draw(st.lists(st.tuples(*map(st.sampled_from, pools.values())), min_size=1, max_size=most_rows))
    frame = pd.DataFrame({name: pd.Series([row[at] for row in rows], dtype=object) for at, name in enumerate(pools)})
    columns = {name: COLUMNS[name] for name in names} | ({"who": WHO} if k else {})
    entity = {"entity": "who", "max_rows_per_unit": k} if k else {}
    schema = build_schema({"status": "declared", "n_units": 20, "columns": columns, **entity})
    return conform(frame, schema, outside="clamp", part=True), schema


@contextmanager
def tiny_tables_and_one_key() -> Iterator[None]:
    """Sides may be small, and the coins that choose k rows of an entity are the same in two worlds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("synth.split.MIN_SIDE_ROWS", 0)
        patch.setattr("synth.generators.fitting.training_data.system_words", np.zeros)
        yield


def less_one(frame: pd.DataFrame, schema: Schema) -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
    """Each unit of a table, and the table without it."""
    owners = frame["who"].map(str) if schema.entity else pd.Series(range(len(frame)))
    for owner in owners.unique():
        gone = (owners == owner).to_numpy()
        yield frame[gone].reset_index(drop=True), frame[~gone].reset_index(drop=True)


def rows_of(frame: pd.DataFrame) -> Counter[tuple[str, ...]]:
    """The rows as a multiset, to the last digit; one zero."""
    plain = frame.astype(object).where(frame.notna(), None)
    return Counter(tuple(repr(0.0 if cell == 0 else cell) for cell in row) for row in plain.itertuples(index=False))


def counts_of(train: TrainingTable, schema: Schema) -> dict[str, Any]:
    """Every histogram that a fit could be read off these rows: cells, pairs, places, categories, values, sizes."""
    result: dict[str, Any] = {}
    known = {name: column for name, column in schema.columns.items() if not getattr(column, "measure", False)}
    narrow = schema.model_copy(update={"columns": known})
    codes = Discretizer.by_schema(narrow)
    for attribute, counts in zip(codes.attributes, train.cell_counts(codes.attributes), strict=True):
        result[attribute.name] = counts
    if pairs := list(itertools.combinations(codes.columns, 2)):
        counted = train.under(narrow).coded(codes).each(pairs)
        result |= {f"{pair}": counts.ravel() for pair, counts in zip(pairs, counted, strict=True)}
    if "word" in schema.columns:
        result["word"] = train.category_counts("word")
    if "wide" in schema.columns:
        wide: Any = schema.columns["wide"]
        for name, edges in (("wide", EDGES), ("wide by size", dp_bounds.public_edges(wide, 500.0))):
            result[name] = train.place_counts("wide", wide, partial(dp_bounds.histogram, edges=edges))
        steps = partial(dp_bounds.step_counts, sizes=[5, 10, 25, 50], unit=0.01)  # 0.05 is on one, -2.5 on all
        result["steps"] = train.place_counts("wide", wide, steps)
    result |= {f"values of {name}": train.value_counts(name) for name in schema.spikes_measured}
    if schema.entity:
        result["rows per entity"] = train.rows_per_entity()
    return result


def distance(before: Any, after: Any) -> float:
    """L2 between two columns."""
    if isinstance(before, dict):
        return float(np.sqrt(sum((before.get(v, 0) - after.get(v, 0)) ** 2 for v in {*before, *after})))
    return float(np.linalg.norm(before - after))


def assert_near(before: dict[str, Any], after: dict[str, Any], k: int) -> None:
    for name, counts in before.items():
        # An entity is in one cell of the histogram of entities by their rows.
        assert distance(counts, after[name]) <= (1 if name == "rows per entity" else k), name


def held(table: pd.DataFrame | Rows, schema: Schema) -> tuple[pd.DataFrame, dict[str, Any]]:
    train = Rows.of(split_table(table, schema, holdout_share=0.5, seed=1, private=True).train, schema)
    return train.frame(), counts_of(TrainingTable(bound_contributions(train, schema)), schema)


def one_unit_is_one_unit(built: tuple[pd.DataFrame, Schema]) -> None:
    frame, schema = built
    with tiny_tables_and_one_key():
        train, counts = held(frame, schema)
        for gone, rest in less_one(frame, schema):
            fewer, fewer_counts = held(rest, schema)
            assert not rows_of(fewer) - rows_of(train)
            assert rows_of(train) - rows_of(fewer) in (rows_of(gone), Counter())
            assert_near(counts, fewer_counts, schema.max_rows_per_unit)


@settings(max_examples=6)
@given(tables(most_rows=7))
def test_one_unit_less_is_one_unit_less_in_train_or_nothing(built: tuple[pd.DataFrame, Schema]) -> None:
    one_unit_is_one_unit(built)


@pytest.mark.slow
@settings(max_examples=300)
@given(tables())
def test_one_unit_less_is_one_unit_less_in_many_tables(built: tuple[pd.DataFrame, Schema]) -> None:
    one_unit_is_one_unit(built)


def people(unit: str) -> tuple[pd.DataFrame, Schema]:
    """Sixteen units, the last four of them alike, whose unit is a row, a row with a name, or an entity."""
    who = np.repeat(np.arange(16), 1 if unit != "entity" else 2)
    frame = pd.DataFrame({"whole": np.minimum(who, 12) % 6, "cents": np.minimum(who, 12) / 10})
    columns = {name: COLUMNS[name] for name in frame}
    named = {} if unit == "row" else {"who": WHO}
    entity = {"entity": "who", "max_rows_per_unit": 3} if unit == "entity" else {}
    schema = build_schema({"status": "declared", "n_units": 16, "columns": columns | named, **entity})
    return conform(frame.assign(who=who) if named else frame, schema, part=True), schema


def _by_position(rows: Any, _: Schema) -> Any:
    return [[str(position) for position in range(len(rows))]]


def _in_order(rows: Any, schema: Schema, share: float, seed: int) -> Any:
    return split._drawn(rows, schema.model_copy(update={"target": None}), share, seed)


@pytest.mark.parametrize("unit", ["row", "name", "entity"])
def test_a_split_by_position_or_drawn_in_order_is_caught(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    built = people(unit)
    one_unit_is_one_unit(built)
    for attribute, fault in (("row_names", _by_position), ("_keyed", _in_order)):
        with monkeypatch.context() as patch:
            patch.setattr(split, attribute, fault)
            if unit != "row" and fault is _by_position:  # names decide
                one_unit_is_one_unit(built)
                continue
            with pytest.raises(AssertionError):
                one_unit_is_one_unit(built)


@settings(max_examples=6)
@given(tables(), st.randoms(use_true_random=False))
def test_the_order_of_rows_has_no_say(built: tuple[pd.DataFrame, Schema], random: Any) -> None:
    frame, schema = built
    order = list(range(len(frame)))
    random.shuffle(order)
    with tiny_tables_and_one_key():
        sides = [
            split_table(rows, schema, holdout_share=0.5, seed=1, private=True).train
            for rows in (frame, frame.iloc[order].reset_index(drop=True))
        ]
    assert rows_of(sides[0]) == rows_of(sides[1])


@settings(max_examples=6)
@given(tables(most_rows=9))
def test_chunks_have_no_say(built: tuple[pd.DataFrame, Schema]) -> None:
    frame, schema = built
    with tiny_tables_and_one_key():
        for rows in [frame, *(rest for _, rest in itertools.islice(less_one(frame, schema), 1))]:
            train, counts = held(rows, schema)
            for size in (1, 7):
                fewer, counted = held(in_chunks(rows, schema, size), schema)
                assert rows_of(fewer) == rows_of(train)
                assert counted.keys() == counts.keys()
                assert all(distance(counted[name], counts[name]) == 0 for name in counts)


HISTORIES = build_schema({
    "status": "declared", "n_units": 20, "entity": "who", "max_rows_per_unit": 3, "order": "day",
    "columns": {
        "who": WHO, "day": {**COLUMNS["day"], "missing": False}, "word": COLUMNS["word"], "wide": COLUMNS["wide"],
    },
})  # fmt: skip


class Recorded(Budget):
    """Answers alike whatever is asked, and keeps what it is asked: counts, and what one unit may move them by."""

    def __init__(self) -> None:
        super().__init__(histories_schedule())
        self.asked: list[tuple[Any, float]] = []

    def release(self, exact: np.ndarray, event: Any) -> np.ndarray:
        self.asked.append((exact, event.sensitivity))
        return np.zeros_like(exact)

    def name_stable(self, counts: Any, event: Any) -> list[Any]:
        self.asked.append((counts, event.sensitivity))
        return []


def of_histories() -> PrivateGenerator:
    built = compose(Mst(epsilon=100.0, delta=1e-6), HISTORIES)
    assert isinstance(built, PrivateGenerator)
    return built


@cache
def histories_schedule() -> Schedule:
    generator, delta = of_histories(), 1e-6
    assert generator.in_order
    return Schedule(tuple(generator.all_events(HISTORIES, delta)(1.0)), delta)  # some noise: none is drawn


def measured_alike(size: int | None) -> None:
    """One history less moves what domains are measured from by no more than is paid for."""
    busy = [(0, pd.Timestamp("2020-03-01"), "a", 0.05)] * 9
    others = [(who, pd.Timestamp("2020-02-29"), "B", -2.5) for who in (None, None, 1, 1, 1, 1)]
    frame = conform(pd.DataFrame([*busy, *others], columns=list(HISTORIES.columns)), HISTORIES, outside="clamp")

    def asked(rows: pd.DataFrame) -> list[tuple[Any, float]]:
        budget = Recorded()
        start(of_histories(), in_chunks(rows, HISTORIES, size), HISTORIES, budget, quiet)
        return budget.asked

    with tiny_tables_and_one_key():
        whole = asked(frame)
        assert [stated for _, stated in whole] == [3] * 4  # categories, bounds, range and spikes
        for _, rest in less_one(frame, HISTORIES):
            for (before, stated), (after, _) in zip(whole, asked(rest), strict=True):
                assert distance(before, after) <= stated


@pytest.mark.parametrize("size", SIZES)
def test_one_history_less_moves_measured_domains_by_what_is_paid_for(size: int | None) -> None:
    measured_alike(size)


@pytest.mark.parametrize("size", SIZES)
def test_histories_whose_rows_are_not_bounded_are_caught(size: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private_fit, "bound_contributions", lambda train, schema, **_: train)
    with pytest.raises(AssertionError):
        measured_alike(size)
