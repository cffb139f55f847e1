"""Columns, pairs and triples of tables that stay where they are stored: the same numbers as in memory."""

import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evaluate.fidelity import columns, pairs, protocol, triples
from evaluate.fidelity import stored as stored_rows
from evaluate.result import Estimate
from evaluate.sampling import side_seed
from evaluate.tables import MetricResult, Tables
from synth.schema import Schema, build_schema
from synth.stored import StoredTable, open_table
from synth.stored.connection import StorageLocation
from synth.stored.row_hash import DrawnRows, draw_rows
from tests.synth.postgres import server  # noqa: F401
from tests.synth.stored.conftest import BACKENDS, spark  # noqa: F401

Store = Callable[[str, pd.DataFrame], StoredTable]
KINDS: dict[str, Any] = {
    "größe": {"kind": "real", "bounds": [-150.0, 150.0], "missing": True},
    "a b": {"kind": "integer", "bounds": [0, 150], "missing": True},
    "it's": {"kind": "real", "bounds": [-15.0, 15.0], "decimals": 2},
    "yes": {"kind": "boolean", "missing": True},
    "no": {"kind": "boolean"},
    '"word"': {"kind": "categorical", "categories": ["a", "A", "Ä", "ä", "a ", "\U0001f642"], "missing": True},
    "day": {"kind": "date", "bounds": ["1969-12-25", "1970-02-20"], "missing": True},
    "seen": {"kind": "datetime", "bounds": ["1969-12-25T00:00:00", "1970-02-20T00:00:00"], "precision": "min"},
    "zoned": {
        "kind": "datetime", "bounds": ["2021-03-20T00:00:00", "2021-04-10T00:00:00"], "timezone": "Europe/Paris",
        "precision": "us", "missing": True,
    },
    "constant": {"kind": "integer", "bounds": [0, 9]},
}  # fmt: skip
ENTITY: dict[str, Any] = {"who": {"kind": "identifier", "bounds": [0, 10**6]}}


def rows(n: int, seed: int, *, shift: float = 0.0) -> pd.DataFrame:
    """Columns that hang together, missing here and there."""
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=n) + shift
    words = np.array(["a", "A", "Ä", "ä", "a ", "\U0001f642", None], dtype=object)
    days = np.clip(20 + 8 * hidden + rng.normal(size=n), 0, 50).astype(int)
    seconds = rng.integers(0, 20 * 86_400, n)
    frame = pd.DataFrame(
        {
            "größe": np.clip(rng.normal(size=n) * 30 + hidden * 20, -150, 150),
            "a b": pd.array(np.clip(40 + 20 * hidden, 0, 150).astype(int), dtype="Int64"),
            "it's": np.round(np.clip(hidden * 3 + rng.normal(size=n), -15, 15), 2),
            "yes": pd.array(hidden + rng.normal(size=n) > 0, dtype="boolean"),
            "no": rng.random(n) < 0.4,
            '"word"': words[np.clip((hidden * 1.5 + 3 + rng.random(n)).astype(int), 0, 6)],
            "day": [dt.date(1969, 12, 26) + dt.timedelta(days=int(day)) for day in days],
            "seen": pd.Timestamp("1969-12-26") + pd.to_timedelta(days * 1440 + rng.integers(0, 1440, n), unit="min"),
            "zoned": (pd.Timestamp("2021-03-21") + pd.to_timedelta(seconds * 10**6 + 7, unit="us"))
            .tz_localize("UTC")
            .tz_convert("Europe/Paris"),
            "constant": 3,
        }
    )
    for index, name in enumerate(["größe", "a b", "yes", "day", "zoned"]):
        frame.loc[rng.random(n) < 0.05 + 0.03 * index, name] = None
    return frame


def of_entities(frame: pd.DataFrame, first: int) -> pd.DataFrame:
    """The rows dealt to persons, of up to nine rows each, who miss values together."""
    person = first + np.sort(np.random.default_rng(first).integers(0, len(frame) // 4, len(frame)))
    return frame.assign(who=person, **{"a b": frame["a b"].mask(pd.Series(person % 5 == 0))})


@dataclass(frozen=True)
class Drawn:
    """The tables of an evaluation where they are stored, drawn as `evaluate.stored.tables` draws them."""

    train: StoredTable
    holdout: StoredTable
    offered: StoredTable
    schema: Schema
    seed: int
    found: dict[Any, DrawnRows] = field(default_factory=dict)

    def drawn(self, side: Any, limit: int | None) -> DrawnRows:
        table = {"train": self.train, "holdout": self.holdout, "synthetic": self.offered}[side]
        if (side, limit) not in self.found:
            self.found[side, limit] = draw_rows(table, self.schema, seed=side_seed(self.seed, side), limit=limit)
        return self.found[side, limit]


@pytest.fixture(params=BACKENDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """What stores a table by its name on one backend."""
    with ExitStack() as opened:

        def on_files(name: str, frame: pd.DataFrame) -> StoredTable:
            pq.write_table(pa.Table.from_pandas(frame), tmp_path / f"{name}.parquet")
            return opened.enter_context(open_table(tmp_path / f"{name}.parquet"))

        def on_a_server(name: str, frame: pd.DataFrame) -> StoredTable:
            import ibis
            import psycopg
            from psycopg import sql

            server = request.getfixturevalue("server")
            url = server.url(server.create())
            connection = ibis.connect(url)
            plain = [f"c{index}" for index in range(frame.shape[1])]
            connection.create_table(name, pa.Table.from_pandas(frame.set_axis(plain, axis=1)))
            connection.disconnect()
            with psycopg.connect(url) as session:
                for old, new in zip(plain, frame.columns, strict=True):
                    names = map(sql.Identifier, (name, old, new))
                    session.execute(sql.SQL("ALTER TABLE {} RENAME COLUMN {} TO {}").format(*names))
            return opened.enter_context(open_table(f"{url}#{name}"))

        def on_spark(name: str, frame: pd.DataFrame) -> StoredTable:
            connection = request.getfixturevalue("spark")
            pq.write_table(pa.Table.from_pandas(frame), tmp_path / f"{name}.parquet", coerce_timestamps="us")
            return StoredTable(
                StorageLocation(connection, "spark"), connection.read_parquet(str(tmp_path / f"{name}.parquet"))
            )

        yield {"duckdb": on_files, "postgres": on_a_server, "pyspark": on_spark}[request.param]


Frames = tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]


def both(store: Store, frames: Frames, schema: Schema, n_rows: int | None) -> tuple[Tables, Tables]:
    """The tables of an evaluation in memory, and the same where they are stored."""
    train, holdout, synthetic = frames
    held = replace(Tables.prepare(train, holdout, synthetic, schema, seed=3), n_rows=n_rows)
    there = {name: store(name, frame) for name, frame in zip(("train", "holdout", "offered"), frames, strict=True)}
    stored: Any = Drawn(**there, schema=held.schema, seed=3)
    return held, replace(held, stored=stored)


def assert_same(held: MetricResult, stored: MetricResult) -> None:
    """Equal to 1e-9, names, notes and figures included; of ranks the note says besides where the rows are from."""
    found = {(e.measure, e.subject): e for e in stored.estimates}
    assert [(e.measure, e.subject) for e in held.estimates] == list(found)
    assert held.failures == stored.failures
    for expected in held.estimates:
        other = found[expected.measure, expected.subject]
        assert numbers(other) == pytest.approx(numbers(expected), abs=1e-9, nan_ok=True), expected.measure
        assert other.n == expected.n
        sampled = f" On samples of {expected.n:,} rows that were drawn from the tables."
        assert (sampled in other.note) == expected.measure.startswith("pairs.spearman")
        assert other.note.replace(sampled, "") == expected.note
    assert flat(stored.figures) == pytest.approx(flat(held.figures), abs=1e-9, nan_ok=True)


def numbers(estimate: Estimate) -> list[float]:
    found = (estimate.value, estimate.low, estimate.high, estimate.reference, estimate.floor)
    return [np.nan if number is None else number for number in found]


def flat(content: Any, path: str = "") -> dict[str, float]:
    """The numbers of plain data by where they stand, texts as part of that."""
    if isinstance(content, Mapping):
        content = list(content.items())
    if isinstance(content, list | tuple):
        return {k: v for i, part in enumerate(content) for k, v in flat(part, f"{path}/{i}").items()}
    if isinstance(content, int | float) and not isinstance(content, bool):
        return {path: float(content)}
    return {f"{path}={content}": 0.0}


SCHEMA = build_schema({"status": "declared", "columns": KINDS})


@pytest.mark.parametrize("measure", [columns, pairs, triples], ids=["columns", "pairs", "triples"])
@pytest.mark.parametrize("n_rows", [None, 300], ids=["all rows", "a sample"])
def test_the_numbers_are_those_of_the_same_rows_in_memory(store: Store, measure: Any, n_rows: int | None) -> None:
    frames = rows(900, 0), rows(500, 1), rows(700, 2, shift=0.5)
    held, stored = both(store, frames, SCHEMA, n_rows)
    assert_same(measure.measure(held), measure.measure(stored))


def test_entities_stand_in_one_group_and_miss_values_together_alike(store: Store) -> None:
    frames = (
        of_entities(rows(900, 0), 0), of_entities(rows(600, 1), 1_000), of_entities(rows(700, 2, shift=0.3), 5_000)
    )  # fmt: skip
    schema = build_schema(
        {"status": "declared", "entity": "who", "columns": {**ENTITY, **KINDS}, "max_rows_per_unit": 30}
    )
    held, stored = both(store, frames, schema, None)
    for measure in (columns, pairs):
        assert_same(measure.measure(held), measure.measure(stored))


def test_values_that_are_too_many_are_counted_in_the_same_cells(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "MAX_VALUES", 100)
    monkeypatch.setattr(protocol, "LEVELS", 50)
    held, stored = both(store, (rows(900, 0), rows(500, 1), rows(700, 2, shift=0.5)), SCHEMA, None)
    found = columns.measure(held)
    assert sum("in cells" in estimate.note for estimate in found.estimates) > 4
    assert_same(found, columns.measure(stored))
    assert_same(triples.measure(held), triples.measure(stored))


@pytest.mark.slow
@pytest.mark.parametrize("store", ["postgres"], indirect=True)
def test_where_nothing_may_be_written_down_the_numbers_are_the_same(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_rows, "SMALL_ROWS", 0)
    held, stored = both(store, (rows(300, 0), rows(200, 1), rows(250, 2, shift=0.5)), SCHEMA, 150)
    for measure in (columns, pairs):
        assert_same(measure.measure(held), measure.measure(stored))


@pytest.mark.slow
def test_hundreds_of_categories_are_merged_alike(store: Store) -> None:
    names = [f"diagnosis {i}" for i in range(130)]
    column = {"kind": "categorical", "categories": names}
    schema = build_schema({"status": "declared", "columns": dict.fromkeys("abc", column)})
    rng = np.random.default_rng(4)
    weights = np.arange(130, 0, -1) / 8515
    frames = tuple(pd.DataFrame({name: rng.choice(names, n, p=weights) for name in "abc"}) for n in (900, 500, 700))
    held, stored = both(store, frames, schema, None)  # type: ignore[arg-type]
    for measure in (pairs, triples):
        assert_same(measure.measure(held), measure.measure(stored))


def test_a_handful_of_rows_has_no_interval_there_either(store: Store) -> None:
    held, stored = both(store, (rows(60, 0), rows(50, 1), rows(12, 2)), SCHEMA, None)
    for measure in (columns, pairs):
        found = measure.measure(stored)
        assert {estimate.low for estimate in found.estimates if estimate.measure.endswith("tvd.excess")} == {None}
        assert_same(measure.measure(held), found)
