"""Stored tables give the numbers, draws and faults of the same rows in memory."""

import datetime as dt
import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from evaluate.sampling import (
    entity_codes,
)
from synth.domain import Discretizer
from synth.domain.constraint_checks import broken
from synth.dp.budget import Budget
from synth.dp.mechanisms import NoNoise
from synth.errors import TableError
from synth.generators.aim import Aim
from synth.generators.fitting.training_data import HeldTable
from synth.generators.latent_class import LatentClass
from synth.generators.marginal_generator import Independent
from synth.generators.mst import Mst
from synth.row_hash import content_keys, seeded_order
from synth.row_hash import content_sums as content_sums_held
from synth.schema import Schema, build_schema
from synth.split import split_table
from synth.stored.constraint_checks import Laws, placed
from synth.stored.decode import Reader
from synth.stored.row_hash import KEY, POSITION, UNIT, content_sums, draw_rows, with_keys
from synth.stored.violations import counted_faults, looked, violations_of
from synth.table import conform, faulty_rows, violations
from tests.synth.stored.conftest import COLUMNS, LEFT_OPEN, N_ROWS, every_kind


def test_every_cell_is_read_as_in_memory(put: Any, kinds: Schema) -> None:
    both = put(every_kind())
    held, stored = HeldTable(conform(both.held, kinds, outside="clamp"), kinds), both.stored.training(kinds)
    attributes = Discretizer.by_schema(kinds).attributes
    assert len(stored) == len(held)
    for attribute, here, there in zip(
        attributes, held.cell_counts(attributes), stored.cell_counts(attributes), strict=True
    ):
        np.testing.assert_array_equal(here, there, err_msg=attribute.name)


def test_every_exact_value_of_a_number_is_counted_as_in_memory(put: Any, kinds: Schema) -> None:
    both = put(every_kind())
    held, stored = HeldTable(conform(both.held, kinds, outside="clamp"), kinds), both.stored.training(kinds)
    numbers = [name for name in kinds.modeled if kinds.columns[name].is_number]
    assert len(numbers) > 2
    for name in numbers:
        counts = held.value_counts(name)
        assert sum(counts.values()) > 0
        assert stored.value_counts(name) == counts, name


def test_cells_that_are_worked_out_there_are_the_same(put: Any, kinds: Schema, monkeypatch: Any) -> None:
    monkeypatch.setattr("synth.stored.table.MANY_VALUES", 0)
    both = put(every_kind())
    held, stored = HeldTable(conform(both.held, kinds, outside="clamp"), kinds), both.stored.training(kinds)
    attributes = Discretizer.by_schema(kinds).attributes
    for here, there in zip(held.cell_counts(attributes), stored.cell_counts(attributes), strict=True):
        np.testing.assert_array_equal(here, there)


def test_counts_of_codes_together_are_the_same(put: Any, kinds: Schema) -> None:
    both = put(every_kind())
    held, stored = HeldTable(conform(both.held, kinds, outside="clamp"), kinds), both.stored.training(kinds)
    codes = Discretizer.by_schema(kinds)
    cliques = [
        clique
        for k in (1, 2, 3)
        for clique in itertools.combinations(codes.columns, k)
        if math.prod(codes.sizes[name] for name in clique) < 20_000
    ][:70]
    cliques.append(("yes", "word")[::-1])
    for clique, here, there in zip(
        cliques, held.coded(codes).each(cliques), stored.coded(codes).each(cliques), strict=True
    ):
        np.testing.assert_array_equal(here, there, err_msg=str(clique))


def test_both_sides_of_a_split_are_the_same_rows(put: Any, kinds: Schema) -> None:
    both = put(every_kind())
    here = split_table(both.held, kinds, holdout_share=0.3, seed=5, private=True)
    train, holdout = both.stored.split(kinds, holdout_share=0.3, seed=5)
    assert (len(train), len(holdout)) == (len(here.train), len(here.holdout))
    codes = Discretizer.by_schema(kinds)
    for side, rows in ((train, here.train), (holdout, here.holdout)):
        np.testing.assert_array_equal(
            side.training(kinds).coded(codes).counts(("level", "code")),
            HeldTable(rows, kinds).coded(codes).counts(("level", "code")),
        )


@pytest.mark.parametrize(
    "generator",
    [Independent(epsilon=1.0), Mst(epsilon=1.0), Aim(epsilon=1.0, rounds=3), LatentClass(epsilon=1.0, n_classes=40)],
    ids=lambda generator: generator.name,
)
def test_a_model_is_the_same_where_noise_is_none(put: Any, generator: Any) -> None:
    names = ("whole", "word", "level", "seen")
    schema = build_schema({"status": "declared", "n_units": N_ROWS, "columns": {name: COLUMNS[name] for name in names}})
    both = put(every_kind()[list(names)])
    models = [
        generator.fit(rows, schema, budget=Budget(generator.schedule(schema), NoNoise()))
        for rows in (both.held, both.stored)
    ]
    (plain, arrays), (others, other_arrays) = (model.distribution.to_arrays() for model in models)
    assert plain == others and models[0].discretizer.to_plain() == models[1].discretizer.to_plain()
    for name, array in arrays.items():
        np.testing.assert_allclose(array, other_arrays[name], rtol=1e-9)


def test_a_measured_domain_is_the_same(put: Any) -> None:
    columns = {
        "whole": {"kind": "integer", "measure": True, "measure_spikes": True},
        "seen": {"kind": "datetime", "measure": True, "missing": True, "precision": "min"},
        "word": {"kind": "categorical", "measure": True, "missing": True},
        "level": {"kind": "categorical", "measure": True, "whole_numbers": True},
    }
    schema = build_schema({"status": "declared", "n_units": N_ROWS, "columns": columns})
    both, generator = put(every_kind()[list(columns)]), Independent(epsilon=8.0)
    found = [
        generator.fit(rows, schema, budget=Budget(generator.schedule(schema), NoNoise())).schema
        for rows in (both.held, both.stored)
    ]
    assert found[0] == found[1]


def test_an_entity_contributes_as_many_rows_as_in_memory(put: Any) -> None:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {"who": rng.choice([*(f"P{i:04d}" for i in range(300)), "", None], 2_000), "x": rng.integers(0, 9, 2_000)}
    )
    schema = build_schema(
        {
            "status": "declared", "n_units": 300, "entity": "who", "max_rows_per_unit": 3,
            "columns": {"who": COLUMNS["who"], "x": {"kind": "integer", "bounds": [0, 9]}},
        }
    )  # fmt: skip
    both = put(frame)
    stored = both.stored.training(schema)
    sizes = frame[frame["who"].notna() & (frame["who"] != "")].groupby("who").size().clip(upper=3)
    np.testing.assert_array_equal(stored.rows_per_entity(), np.bincount(sizes, minlength=4)[1:])
    assert len(stored) == sizes.sum()


def with_row_ids() -> pd.DataFrame:
    """Rows of every kind, some of them twice, each with a number of its own that is not learned."""
    frame = every_kind()
    frame = pd.concat([frame, frame.head(200), frame.head(100)], ignore_index=True)
    return frame.assign(who=[f"P{i:04d}" for i in range(len(frame))])


def drawn(rows: Any, schema: Schema, **options: Any) -> pd.DataFrame:
    found = draw_rows(rows, schema, **options)
    frame = found.place.fetch(found.rows.order_by(POSITION)).to_pandas()
    assert frame[POSITION].tolist() == list(range(found.n))
    assert frame[UNIT].max() + 1 == found.n_units
    return frame


def test_every_row_has_the_key_that_it_has_in_memory(put: Any, kinds: Schema) -> None:
    both = put(every_kind())
    there = both.stored.place.fetch(with_keys(both.stored, kinds).select("who", KEY)).to_pandas().set_index("who")[KEY]
    here = content_keys(conform(both.held, kinds, outside="clamp"), kinds)
    assert there.loc[both.held["who"]].tolist() == [f"{key:016x}" for key in here]


@pytest.mark.parametrize("limit", [None, 700])
def test_rows_come_in_the_order_that_they_have_in_memory(put: Any, kinds: Schema, limit: int | None) -> None:
    both = put(with_row_ids())
    held = conform(both.held, kinds, outside="clamp")
    there = drawn(both.stored, kinds, seed=5, limit=limit)
    order = seeded_order(held, kinds, 5)[:limit]
    # Equal rows are told apart by nothing, so that any of them may stand for another.
    keys = pd.Series(content_keys(held, kinds), index=both.held["who"])
    assert keys.loc[there["who"]].tolist() == keys.iloc[order].tolist()
    assert there["who"].is_unique and there[UNIT].tolist() == there[POSITION].tolist()
    assert drawn(both.stored, kinds, seed=6, limit=limit)["who"].tolist() != there["who"].tolist()


@pytest.mark.parametrize("limit", [None, 300])
def test_entities_are_numbered_as_in_memory(put: Any, limit: int | None) -> None:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"who": rng.choice([f"P{i:04d}" for i in range(200)], 900), "x": rng.integers(0, 9, 900)})
    schema = build_schema(
        {
            "status": "declared", "entity": "who",
            "columns": {"who": COLUMNS["who"], "x": {"kind": "integer", "bounds": [0, 9]}},
        }
    )  # fmt: skip
    both = put(frame)
    there, order = drawn(both.stored, schema, seed=2, limit=limit), seeded_order(frame, schema, 2)[:limit]
    assert there["who"].tolist() == frame["who"].iloc[order].tolist()
    assert there["x"].tolist() == frame["x"].iloc[order].tolist()
    assert there[UNIT].tolist() == pd.factorize(entity_codes(frame, schema)[order])[0].tolist()


@pytest.mark.parametrize("has_entities", [False, True])
def test_rows_that_differ_in_their_texts_alone_come_as_in_memory(put: Any, has_entities: bool) -> None:
    rng = np.random.default_rng(2)
    notes = np.array([None, "It is late.", "Caf\u00e9 closed", "zebra", "10", " a"], dtype=object)
    who = rng.choice([f"P{i:04d}" for i in range(60)], 600)
    frame = pd.DataFrame({"who": who, "x": rng.integers(0, 3, 600), "note": rng.choice(notes, 600)})
    columns = {"who": COLUMNS["who"], "x": {"kind": "integer", "bounds": [0, 2]},
               "note": {"kind": "text", "learn": True, "length": 40, "missing": True}}  # fmt: skip
    of_rows = {"entity": "who"} if has_entities else {}
    if not has_entities:
        frame, columns = frame.drop(columns="who"), {name: column for name, column in columns.items() if name != "who"}
    schema = build_schema({"status": "declared", "columns": columns, **of_rows})
    both = put(frame)
    held = conform(frame, schema)
    there, order = drawn(both.stored, schema, seed=3, limit=250), seeded_order(held, schema, 3)[:250]
    kept = list(schema.kept)
    here = held[kept].iloc[order].reset_index(drop=True)
    assert there[kept].astype(object).where(there[kept].notna(), None).to_numpy().tolist() == (
        here.astype(object).where(here.notna(), None).to_numpy().tolist()
    )


def test_sums_of_all_rows_are_those_of_memory(put: Any) -> None:
    more: dict[str, Any] = {
        "mail": {"kind": "personal", "personal": "email", "missing": True},
        "seen_as": {"kind": "categorical", "measure": True, "missing": True},
        "grade": {"kind": "categorical", "measure": True, "whole_numbers": True},
        "length": {"kind": "real", "measure": True, "missing": True},
    }
    schema = build_schema({"status": "declared", "n_units": 10_000, "columns": {**COLUMNS, **more}})
    frame = with_row_ids()
    frame = frame.assign(mail=frame["word"], seen_as=frame["word"], grade=frame["level"], length=frame["real"])
    both = put(frame)
    here = content_sums_held(conform(both.held, schema, outside="clamp"), schema)
    there = content_sums(both.stored, schema)
    assert there == here
    fewer = replace(both.stored, rows=both.stored.rows.filter(both.stored.rows["who"] != "P0001"))
    assert content_sums(fewer, schema) != here


# ruff: noqa: E501


N = 12
BACKENDS_COUNTED = [
    "duckdb",
    pytest.param("postgres", marks=pytest.mark.slow),
    pytest.param("pyspark", marks=[pytest.mark.slow, *LEFT_OPEN]),
]
"""Faults are counted and found by the same query, which PostgreSQL takes seconds to be asked."""


def _rows(cells: dict[str, list[Any]], dtypes: dict[str, str]) -> pd.DataFrame:
    return pd.DataFrame(
        {name: pd.Series((values * N)[:N], dtype=dtypes.get(name, "object")) for name, values in cells.items()}
    )


TYPED: list[tuple[dict[str, Any], list[Any], str]] = [
    ({"kind": "integer", "bounds": [0, 5]}, [1, 2, 5], "int64"),
    ({"kind": "integer", "bounds": [0, 5]}, [1, 6, -1], "int64"),
    ({"kind": "integer", "bounds": [0, 5]}, [1, None, 2], "Int64"),
    ({"kind": "integer", "bounds": [0, 5]}, [1.0, 2.5, 9.0, np.inf, np.nan], "float64"),
    ({"kind": "integer", "bounds": [0, 1]}, [True, False], "boolean"),
    ({"kind": "integer", "bounds": [0, 5]}, ["1", "2.5", "x", "inf", "1e400", "9", "", "?", "9" * 30], "object"),
    ({"kind": "integer", "bounds": [0, 5]}, [dt.datetime(2020, 1, 1)], "datetime64[us]"),
    ({"kind": "real", "bounds": [0, 5]}, [1.0, 5.1, np.inf, np.nan, -0.0], "float64"),
    ({"kind": "real", "bounds": [0, 5], "decimals": 2}, [1.0, 1.25, 1.005, 4.999], "float64"),
    ({"kind": "real", "bounds": [0, 5], "decimals": 2}, [1.0, 1.25, 0.1, 3.3], "float32"),
    ({"kind": "real", "bounds": [0, 5], "decimals": 1}, ["1.25", ".5", "1e0", "nan", "-inf", " 1"], "object"),
    ({"kind": "boolean"}, [True, None], "boolean"),
    ({"kind": "boolean", "tokens": ["n", "y"]}, ["n", "y", "N", ""], "object"),
    ({"kind": "boolean"}, [0, 1, 2], "int64"),
    ({"kind": "categorical", "categories": ["a", "Ä"]}, ["a", "Ä", "b", "A\u0308", None, "?"], "object"),
    ({"kind": "categorical", "categories": ["1", "2"]}, [1, 2, 3], "int64"),
    ({"kind": "categorical", "categories": ["1", "2"]}, [1.0, 2.0], "float64"),
    ({"kind": "categorical", "categories": ["True", "False"]}, [True, False], "boolean"),
    ({"kind": "categorical", "categories": [1, 2]}, [1, 2, 3], "int64"),
    ({"kind": "categorical", "categories": [1, 2]}, ["1", "2.5", "3", "x", "2.0"], "object"),
    ({"kind": "categorical", "measure": True}, ["a", "b", None], "object"),
    ({"kind": "date", "bounds": ["2020-01-01", "2020-12-31"]}, ["2020-02-29", "2021-02-29", "2021-01-01", "", "x"], "object"),
    ({"kind": "date", "bounds": ["2020-01-01", "2020-12-31"]}, [dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, 1)], "datetime64[us]"),
    ({"kind": "date", "bounds": ["2020-01-01", "2020-12-31"], "format": "%d.%m.%Y"}, ["1.2.2020", "2020-02-01", "1.1.2021"], "object"),
    ({"kind": "date", "bounds": ["2020-01-01", "2020-12-31"], "format": "%Y%m%dT000000"}, ["20200201T000000", "20200201T010000", "2020111T000000", "20200230T000000", "20210101T000000"], "object"),
    ({"kind": "date", "bounds": ["2020-01-01", "2020-12-31"], "format": "%-m/%-d/%Y"}, ["1/2/2020", "01/02/2020", "13/2/2020", "1/1/2021"], "object"),
    ({"kind": "date", "bounds": ["2020-01-01", "2020-12-31"], "format": "%Y-%m"}, ["2020-02", "2020-13", "2021-01", "2020-02-01"], "object"),
    ({"kind": "date", "bounds": ["2020-01-01", "2020-12-31"], "format": "%Y-%m-%d 00:00:00"}, ["2020-02-01 00:00:00", "2020-02-01 07:00:00", "2020-02-01"], "object"),
    ({"kind": "date", "bounds": ["2020-01-01", "2020-12-31"]}, [1, 2], "int64"),
    ({"kind": "datetime", "bounds": ["2020-01-01T00:00:00", "2020-12-31T00:00:00"], "precision": "min"},
     ["2020-01-01T10:00", "2020-01-01T10:00:30", "2020-01-01T10:00Z", "2019-01-01", "2020-13-01"], "object"),
    ({"kind": "datetime", "bounds": ["2020-01-01T00:00:00", "2020-12-31T00:00:00"], "timezone": "mixed"},
     ["2020-01-01T10:00+02:00", "2020-01-01T10:00:30", "2020-01-01T10:00Z", "2019-12-31T23:00-02:00"], "object"),
    ({"kind": "datetime", "bounds": ["2020-01-01T00:00:00", "2020-12-31T00:00:00"], "precision": "h"},
     [dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, 1, 1), dt.datetime(1969, 1, 1)], "datetime64[us]"),
    ({"kind": "identifier", "template": "A##"}, ["a", "b", None], "object"),
    ({"kind": "identifier", "bounds": [0, 10**6]}, list(range(N)), "int64"),
    ({"kind": "identifier", "bounds": [0, 10]}, ["01", "1", "7", "x"], "object"),
    ({"kind": "personal", "personal": "name"}, ["Ann", None], "object"),
]  # fmt: skip


def _schema(missing: bool) -> Schema:
    columns = {f"k{i}": {**column, "missing": missing} for i, (column, _, _) in enumerate(TYPED)}
    return build_schema({"status": "declared", "missing_values": ["?"], "columns": columns})


def _typed_rows() -> pd.DataFrame:
    return _rows(
        {f"k{i}": cells for i, (_, cells, _) in enumerate(TYPED)}, {f"k{i}": t for i, (_, _, t) in enumerate(TYPED)}
    )


@pytest.mark.parametrize("missing", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_every_fault_is_found_as_in_memory(put: Any, missing: bool) -> None:
    frame, schema = _typed_rows(), _schema(missing)
    here = [str(v) for v in violations(frame, schema) if "values only" not in v.rule]
    assert [str(v) for v in violations_of(put(frame).stored, schema)] == here


@pytest.mark.parametrize("put", BACKENDS_COUNTED, indirect=True)
def test_no_fault_is_counted_more_often_than_there_are_faulty_rows_nor_all_together_less(put: Any) -> None:
    frame, schema = _typed_rows(), _schema(missing=True)
    both = put(frame)
    for name, found in counted_faults(both.stored, schema).items():
        alone = schema.model_copy(update={"columns": {name: schema.columns[name]}})
        n_faulty = int(faulty_rows(frame, alone).sum())
        assert max(found.counts.values(), default=0) <= n_faulty <= sum(found.counts.values()), name


LAWFUL = {
    name: COLUMNS[name] for name in ("who", "whole", "gone", "real", "fine", "word", "day", "seen", "yes", "level")
}


def _lawful() -> tuple[pd.DataFrame, Schema]:
    """Rows that keep their schema."""
    schema = build_schema({"status": "declared", "n_units": 3_000, "columns": LAWFUL})
    frame = conform(every_kind()[list(LAWFUL)], schema, outside="clamp")
    frame["word"] = frame["word"].where(frame["word"].isin(["a", "b"]), "Ä")
    frame["level"] = frame["level"].clip(upper=2)
    frame["level"] = frame["level"].astype("int64")
    return frame, schema


@pytest.mark.parametrize("generator", [Independent(), Mst(), Aim(rounds=3)])
def test_a_fit_without_epsilon_is_the_same(put: Any, generator: Any) -> None:
    frame, schema = _lawful()
    names = ("who", "whole", "word", "level", "seen")
    schema = schema.model_copy(update={"columns": {name: schema.columns[name] for name in names}})
    both = put(frame[list(names)])
    models = [generator.fit(rows, schema) for rows in (both.held, both.stored)]
    (plain, arrays), (others, other_arrays) = (model.distribution.to_arrays() for model in models)
    assert plain == others and models[0].discretizer.to_plain() == models[1].discretizer.to_plain()
    assert models[1].statement is None
    for name, array in arrays.items():
        np.testing.assert_allclose(array, other_arrays[name], rtol=1e-9)


def test_domains_that_are_not_declared_are_read_off(put: Any) -> None:
    frame, _ = _lawful()
    columns = {
        "whole": {"kind": "integer", "measure": True},
        "real": {"kind": "real", "measure": True, "missing": True},
        "day": {"kind": "date", "measure": True, "missing": True},
        "seen": {"kind": "datetime", "measure": True, "missing": True, "precision": "min"},
        "word": {"kind": "categorical", "measure": True, "missing": True},
        "level": {"kind": "categorical", "measure": True, "whole_numbers": True},
    }
    schema = build_schema({"status": "declared", "columns": columns})
    both = put(frame[list(columns)])
    found = [Independent().fit(rows, schema).schema for rows in (both.held, both.stored)]
    assert found[0] == found[1]


def test_entities_keep_all_their_rows(put: Any) -> None:
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"who": rng.choice([f"P{i:04d}" for i in range(50)], 600), "x": rng.integers(0, 9, 600)})
    columns = {"who": COLUMNS["who"], "x": {"kind": "integer", "bounds": [0, 9]}}
    schema = build_schema({"status": "declared", "entity": "who", "max_rows_per_unit": 3, "columns": columns})
    both = put(frame)
    here, there = (Independent().fit(rows, schema) for rows in (both.held, both.stored))
    assert (here.entity_shares, here.default_rows) == (there.entity_shares, there.default_rows)


@pytest.mark.parametrize("bad", ["whole", "word", "who", "extra", "absent"])
def test_a_table_that_breaks_its_schema_is_refused_in_the_same_words(put: Any, bad: str) -> None:
    frame, schema = _lawful()
    if bad == "extra":
        frame = frame.assign(extra=1)
    elif bad == "absent":
        frame = frame.drop(columns="level")
    else:
        frame.loc[7, bad] = {"whole": 10**6, "word": "z", "who": frame["who"][0]}[bad]
    both, said = put(frame), []
    for rows in (both.held, both.stored):
        with pytest.raises(TableError) as error:
            Independent().fit(rows, schema)
        said.append(str(error.value))
    assert said[0] == said[1]


def test_combinations_of_many_columns_are_found_as_in_memory(put: Any) -> None:
    n_columns, n_values, rng = 12, 200, np.random.default_rng(4)
    names = [f"k{place}" for place in range(n_columns)]
    known = [f"v{value}" for value in range(n_values)]
    columns: dict[str, Any] = {name: {"kind": "categorical", "categories": known} for name in names[:-2]}
    columns |= {names[-2]: {"kind": "integer", "bounds": [0, n_values]}, names[-1]: {"kind": "boolean"}}
    listed = [[known[place]] * (n_columns - 2) + [place, bool(place % 2)] for place in range(n_values)]
    schema = build_schema(
        {
            "status": "declared",
            "columns": {name: {**column, "missing": True} for name, column in columns.items()},
            "constraints": [{"kind": "fixed_combinations", "columns": names, "combinations": listed}],
        }
    )
    rows = [list(listed[place]) for place in rng.integers(0, n_values, 60)]
    for place in range(0, 40):
        rows[place][place % n_columns] = None if place % 5 == 0 else rows[-1][place % n_columns]
    frame = pd.DataFrame(rows, columns=names).astype({names[-2]: "Int64", names[-1]: "boolean"})
    (constraint,) = schema.constraints
    here = broken(conform(frame, schema), constraint, schema.columns)
    assert 5 < here.sum() < 40
    stored = put(frame.assign(i=range(len(frame)))).stored
    table, places = placed(stored, Reader.of(stored.place.backend, schema), [constraint], schema.columns)
    laws = Laws(table.rows, Reader.of(stored.place.backend, schema), schema.columns, places)
    asked = table.rows.select(i="i", broken=laws.broken(constraint)).order_by("i")
    np.testing.assert_array_equal(table.place.fetch(asked).column(1).to_numpy(zero_copy_only=False), here)
    assert "k0" not in repr(laws).replace(repr(schema.columns), "")


TIMES = {
    "kind": "datetime", "bounds": ["1960-01-01T00:00:00", "2400-01-01T00:00:00"], "missing": True, "precision": "us",
}  # fmt: skip
ORDERED: dict[str, Any] = {
    "day": {"kind": "date", "bounds": ["1960-01-01", "2400-01-01"], "missing": True},
    "time": TIMES,
    "later": TIMES,
    "utc": {**TIMES, "timezone": "UTC"},
    "instant": {**TIMES, "timezone": "UTC"},
}
ORDERS: list[dict[str, Any]] = [
    {"low": low, "high": high, "strict": strict, "by_day": by_day}
    for low, high in (("day", "time"), ("time", "day"), ("time", "later"), ("utc", "instant"))
    for strict in (False, True)
    for by_day in (False, True)
]


def _moments(seed: int, n: int = 200) -> pd.Series:
    """Times around midnights on either side of 1970, some missing."""
    rng = np.random.default_rng(seed)
    days = rng.choice([-3000, -1, 0, 1, 18_000, 150_000], n).astype(np.int64)
    within = rng.choice([0, 1, 12 * 3600 * 10**6, 24 * 3600 * 10**6 - 1], n)
    made = pd.Series((days * 24 * 3600 * 10**6 + within).astype("datetime64[us]"))
    made[rng.random(n) < 0.1] = pd.NaT
    return made


def test_orders_of_times_and_days_are_kept_by_the_same_rows_as_in_memory(put: Any) -> None:
    frame = pd.DataFrame(
        {
            "day": _moments(0).dt.floor("D"),
            "time": _moments(1),
            "later": _moments(2),
            "utc": _moments(3).dt.tz_localize("UTC"),
            "instant": _moments(4).dt.tz_localize("UTC"),
        }
    )
    constraints = [{"kind": "inequality", **order} for order in ORDERS]
    schema = build_schema({"status": "declared", "columns": ORDERED, "constraints": constraints})
    held = conform(frame, schema)
    here = {f"b{i}": broken(held, constraint, schema.columns) for i, constraint in enumerate(schema.constraints)}
    assert len({flags.tobytes() for flags in here.values()}) == len(ORDERS) - 4  # beside a date it is days either way
    stored = put(frame.assign(i=range(len(frame)))).stored
    reader = Reader.of(stored.place.backend, schema)
    table, places = placed(stored, reader, schema.constraints, schema.columns)
    laws = Laws(table.rows, reader, schema.columns, places)
    flags = {f"b{i}": laws.broken(constraint) for i, constraint in enumerate(schema.constraints)}
    fetched = table.place.fetch(table.rows.select(i="i", **flags).order_by("i"))
    for name, expected in here.items():
        np.testing.assert_array_equal(fetched[name].to_numpy(zero_copy_only=False), expected, err_msg=name)


def test_what_is_found_in_cells_is_not_shown(put: Any) -> None:
    schema = build_schema({"status": "declared", "columns": {"x": {"kind": "integer", "bounds": [0, 1]}}})
    seen = looked(put(pd.DataFrame({"x": [1, 7]})).stored, schema)
    assert repr(seen) == "{'x': Looked()}"
