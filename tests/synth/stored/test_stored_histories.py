"""Histories of stored tables: numbered, bounded, taken apart and counted as the same rows in memory."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ibis
import numpy as np
import pandas as pd
import pytest

from benchmarks.history_tables import patients, patients_schema
from synth.domain import Discretizer
from synth.domain.discretizer import Attribute, regroup
from synth.errors import TableError
from synth.generators.autoregressive_generator import LearnedRows
from synth.generators.fitting.training_data import (
    HeldTable,
    TrainingTable,
    bound_contributions,
    histories_apart,
)
from synth.generators.models.history_model import HistoryModel
from synth.generators.registry import generator
from synth.generators.trees import Trees
from synth.histories.layout import HistoryLayout
from synth.schema import Schema, build_schema
from synth.stored import StoredTable, histories, open_table
from synth.table import conform
from tests.synth.generators import test_private_histories as private

K, N = 4, 400
TIED = 2
"""A seed of rows of one entity at one time that are not alike."""
COLUMNS: dict[str, Any] = {
    "who": {"kind": "identifier", "template": "P###"},
    "code": {"kind": "identifier", "template": "###"},
    "group": {"kind": "categorical", "categories": ["a", "b"], "missing": True},
    "day": {"kind": "date", "bounds": ["2019-06-01", "2021-01-01"]},
    "seen": {"kind": "datetime", "bounds": ["2019-12-28T00:00:00", "2021-01-20T00:00:00"], "precision": "min"},
    "total": {"kind": "integer", "bounds": [0, 90]},
    "paid": {"kind": "real", "bounds": [-5.0, 50.0], "decimals": 2},
    "size": {"kind": "real", "bounds": [-100.0, 100.0]},
    "yes": {"kind": "boolean", "missing": True},
    "level": {"kind": "categorical", "categories": [0, 1, 2], "missing": True},
    "value": {"kind": "integer", "bounds": [-5, 40], "missing": True},
}  # fmt: skip


def schema(order: str, **keys: Any) -> Schema:
    content: dict[str, Any] = {
        "status": "declared", "n_units": N, "entity": "who", "max_rows_per_unit": K, "order": order,
        "constant_in_entity": ["group"], "nondecreasing_in_entity": ["seen", "total", "paid", "size"],
        "missing_values": ["?"], "columns": COLUMNS,
    }  # fmt: skip
    return build_schema(content | keys)


def hostile(seed: int = 0) -> pd.DataFrame:
    """Rows of entities in no order, no two of an entity at one time; cells missing, unknown, beyond bounds, unread."""
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(90), rng.integers(1, 10, 90))
    n = len(who)
    turn = pd.Series(who).groupby(who).cumcount().to_numpy()
    day = pd.Series(np.datetime64("2019-12-01", "us") + (rng.integers(0, 60, n) + 60 * turn) * np.timedelta64(1, "D"))
    codes = np.array(["7", "10", "9", "x", "Ä", "100", "0010x", None, "a"], dtype=object)
    frame = pd.DataFrame({
        "who": [f"P{number:03d}" for number in who],
        "code": codes[(turn + who) % len(codes)],
        "group": rng.choice(np.array(["a", "b", "z", "?", None], dtype=object), n),
        "day": day.where(turn != rng.integers(0, 9, 90)[who], pd.NaT),
        "seen": pd.Timestamp("2019-12-25") + pd.to_timedelta(rng.integers(0, 400 * 86400, n), unit="s"),
        "total": rng.choice(np.array(["3", "17", "90", "200", "-4", "x", "?", "2.5", None], dtype=object), n),
        "paid": np.round(rng.normal(20, 20, n), 3),
        "size": np.where(rng.random(n) < 0.3, np.nan, rng.normal(0, 80, n)),
        "yes": pd.array(rng.random(n) < 0.5, dtype="boolean"),
        "level": rng.choice(np.array(["0", "1", "2", "7", None], dtype=object), n),
        "value": pd.array(rng.integers(-9, 50, n), dtype="Int64"),
    })  # fmt: skip
    frame.loc[::11, "seen"], frame.loc[::7, "yes"], frame.loc[::13, "value"] = pd.NaT, pd.NA, pd.NA
    frame.loc[::29, "who"] = None
    return frame.sample(frac=1, random_state=seed).reset_index(drop=True)


def assert_alike(held: TrainingTable, stored: TrainingTable, of: Schema) -> None:
    """All counts of cells, and of codes in pairs, are equal."""
    codes = Discretizer.by_schema(of)
    counts = [rows.cell_counts(codes.attributes) for rows in (held, stored)]
    for attribute, here, there in zip(codes.attributes, *counts, strict=True):
        np.testing.assert_array_equal(here, there, err_msg=attribute.name)
        assert here.sum() > 0
    small = Discretizer(tuple(_merged(each, 4) for each in codes.attributes))
    pairs = list(itertools.combinations(small.columns, 2))
    for pair, one, two in zip(pairs, held.coded(small).each(pairs), stored.coded(small).each(pairs), strict=True):
        np.testing.assert_array_equal(one, two, err_msg=str(pair))


def _merged(attribute: Attribute, n: int) -> Attribute:
    cells = attribute.n_cells - 2
    return attribute if attribute.edges is None else regroup(attribute, np.arange(cells) * n // cells)


def parts(rows: Any, under: Schema, layout: HistoryLayout) -> Iterator[tuple[TrainingTable, Schema]]:
    """First and later rows of a private fit's table."""
    if isinstance(rows, StoredTable):
        train: TrainingTable = rows.training(under, in_order=True)
    else:
        bounded = bound_contributions(conform(rows, under, outside="clamp"), under, in_order=True)
        train = HeldTable(bounded, under)
    first, later = histories_apart(train.under(layout.schema), layout, checked=False)
    yield first, layout.first_rows
    yield later, layout.later_rows


@pytest.mark.parametrize("order", ["day", "code"])
def test_first_and_later_rows_are_those_of_memory_whatever_the_cells(put: Any, order: str) -> None:
    under, both = schema(order), put(hostile())
    # Bounds that a budget measured: gains are taken before values are clamped to these, as in memory.
    narrow = under.columns["total"].model_copy(update={"bounds": (5, 30)})
    known = under.model_copy(update={"columns": {**under.columns, "total": narrow}})
    layout = HistoryLayout(known, K, reads_domains=False)
    for (held, of), (stored, _) in zip(parts(both.held, under, layout), parts(both.stored, under, layout), strict=True):
        assert len(held) == len(stored) > 50
        assert_alike(held, stored, of)


def visits_of_a_day() -> tuple[pd.DataFrame, dict[str, Any]]:
    """Three visits of each entity on one day, in no order, and columns that tell them apart, with their schema."""
    rng = np.random.default_rng(0)
    who = np.repeat(np.arange(60), 3)
    frame = pd.DataFrame({
        "who": [f"P{number:03d}" for number in who], "day": pd.Timestamp("2020-03-01") + pd.to_timedelta(who, unit="D"),
        "visit": np.tile([1, 2, 3], 60), "ever": rng.integers(0, 9, 180), "score": rng.integers(0, 9, 180),
    })  # fmt: skip
    number = {"kind": "integer", "bounds": [0, 9]}
    columns = {"who": COLUMNS["who"], "day": COLUMNS["day"], "visit": number, "ever": number, "score": number}
    return frame.sample(frac=1, random_state=0).reset_index(drop=True), columns


def test_rows_of_one_order_follow_each_other_by_what_never_falls_as_in_memory(put: Any) -> None:
    frame, columns = visits_of_a_day()
    both = put(frame)
    # Two columns that contradict each other: the first one of the schema counts, however the list has them.
    under = schema("day", columns=columns, constant_in_entity=[], nondecreasing_in_entity=["ever", "visit"])
    layout = HistoryLayout(under, K, reads_domains=False)
    for (held, of), (stored, _) in zip(parts(both.held, under, layout), parts(both.stored, under, layout), strict=True):
        assert_alike(held, stored, of)
    growing = schema("day", columns=columns, constant_in_entity=[], nondecreasing_in_entity=["visit"])
    for rows in (both.held, both.stored):
        assert isinstance(Trees(rounds=2).fit(rows, growing), HistoryModel)


@pytest.mark.parametrize("name", ["aim", "mst"])
def test_every_question_of_a_private_fit_is_that_of_memory(put: Any, name: str) -> None:
    frame = private.visits(0)
    # No two rows of an entity at one time, whose order would be by hashes of their own.
    frame["time"] = 5 * frame.groupby("who").cumcount()[::-1].to_numpy() + np.arange(len(frame)) % 5
    both = put(frame.drop_duplicates(["who", "time"]))
    asked = [private.questions(name, rows)[0] for rows in (both.held, both.stored)]
    assert len(asked[0]) == len(asked[1]) > 10
    for here, there in zip(*asked, strict=True):
        np.testing.assert_array_equal(here.exact, there.exact, err_msg=here.event.what)


def stored_questions(folder: Path) -> Any:
    """The questions of a fit on the rows in a file, keys alike in all of them."""

    def asked(name: str, frame: pd.DataFrame) -> Any:
        frame.to_parquet(folder / "rows.parquet", index=False)
        with open_table(folder / "rows.parquet", threads=1) as stored:
            return private.questions(name, stored)

    return asked


@pytest.mark.parametrize("name", [pytest.param("aim", marks=pytest.mark.slow), "mst"])
def test_one_entity_moves_every_stored_count_by_no_more_than_is_stated(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("synth.stored.table.os", SimpleNamespace(urandom=bytes))
    assert private.too_far(name, TIED, stored_questions(tmp_path)) == []


def _unbounded(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(StoredTable, "training", lambda self, schema, *, in_order: self.whole(schema, in_order=in_order))


def _by_place(patch: pytest.MonkeyPatch) -> None:
    def told(table: Any, schema: Any, columns: Any, name: str, key: str) -> Any:
        return table.rows.select(**columns, **{name: ibis.row_number()})

    patch.setattr(histories, "with_content", told)


def _across_entities(patch: pytest.MonkeyPatch) -> None:
    def window(group_by: Any = None, **more: Any) -> Any:
        return _window(**more) if more else _window(group_by=group_by)

    _window = ibis.window
    patch.setattr(histories.ibis, "window", window)


MUTANTS = (
    ("rows of an entity not bounded", _unbounded),
    ("rows of one order by their place in the file", _by_place),
    ("the row before may be another entity's", _across_entities),
)


@pytest.mark.slow
@pytest.mark.parametrize("plant", [m[1] for m in MUTANTS], ids=[m[0] for m in MUTANTS])
def test_a_lie_about_stored_histories_is_caught(plant: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("synth.stored.table.os", SimpleNamespace(urandom=bytes))
    plant(monkeypatch)
    assert private.too_far("mst", TIED, stored_questions(tmp_path)) != []


def learned(rows: Any) -> dict[str, LearnedRows]:
    """What `trees` learns from: first rows, and later ones."""
    seen: list[LearnedRows] = []
    learn = Trees._learn

    def kept(self: Trees, part: LearnedRows, *more: Any) -> Any:
        seen.append(part)
        return learn(self, part, *more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trees, "_learn", kept)
        model = Trees(rounds=2).fit(rows, patients_schema())
    assert isinstance(model, HistoryModel)
    assert len(model.sample(50, seed=1)) == 50
    first, later = seen
    return {"first": first, "later": later}


def test_rows_without_epsilon_are_learned_as_in_memory(put: Any) -> None:
    both = put(patients(300))
    here, there = learned(both.held), learned(both.stored)
    for name in here:
        one, other = here[name], there[name]
        assert one.schema == other.schema
        for mine, yours in zip(one.discretizer.attributes, other.discretizer.attributes, strict=True):
            np.testing.assert_array_equal(mine.group, yours.group, err_msg=mine.name)
        rows = [np.unique(each.rows.codes, axis=0, return_counts=True) for each in (one, other)]
        for part, same in zip(*rows, strict=True):
            np.testing.assert_array_equal(part, same)
        assert sorted(one.weights.tolist()) == pytest.approx(sorted(other.weights.tolist()))


@pytest.mark.parametrize("column", ["sex", "age"])
def test_histories_that_break_their_schema_are_refused_in_the_same_words(put: Any, column: str) -> None:
    table = patients(60).sort_values(["who", "day"], ignore_index=True)
    table[column] = table[column].to_numpy()[::-1]
    both, said = put(table), []
    for rows in (both.held, both.stored):
        with pytest.raises(TableError) as error:
            generator("trees").fit(rows, patients_schema())
        said.append(str(error.value))
    assert said[0] == said[1]
    assert "within an entity" in said[0]
