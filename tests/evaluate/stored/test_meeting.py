"""Tables of one database are counted there; others meet in one engine, which takes no more than was granted."""

import gc
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import ibis
import pandas as pd
import pyarrow as pa
import pytest

from evaluate.privacy import copies, quasi_identifiers
from evaluate.stored.keys import at_home, meeting_place
from evaluate.tables import Real
from synth.errors import TableError
from synth.schema import build_schema
from synth.stored import StoredTable, open_table
from synth.stored.connection import PREFIX, work_folder
from tests.evaluate.stored.conftest import COLUMNS, rows, sides
from tests.synth.postgres import Server


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def put(
    server: Server, opened: ExitStack, frames: dict[str, pd.DataFrame], *, memory_mb: int = 700
) -> dict[str, StoredTable]:
    """Tables of one database, each reached by an address of its own."""
    url = server.url(server.create())
    connection = ibis.connect(url)
    for name, frame in frames.items():
        connection.create_table(name, pa.Table.from_pandas(frame))
    connection.disconnect()
    return {name: opened.enter_context(open_table(f"{url}#{name}", memory_mb=memory_mb, threads=1)) for name in frames}


def test_no_digest_leaves_a_database_that_holds_all_tables(
    server: Server, opened: ExitStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["age", "region", "smoker"]  # few, for short queries
    frames = {name: frame[names] for name, frame in sides().items()}
    columns = {name: COLUMNS[name] for name in names}
    schema = build_schema({"status": "declared", "columns": columns, "quasi_identifiers": names[:2]})
    stored = put(server, opened, frames)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))  # where nothing can be written
    with pytest.raises(TableError, match="no folder can be made"), work_folder():
        pass
    real = Real.prepare_stored(stored["train"], stored["holdout"], schema, outside="clamp")
    tables = real.beside_stored(stored["synthetic"])
    for measure in (copies.measure, quasi_identifiers.measure):
        assert measure(tables).estimates


def test_a_table_at_home_is_the_same_table(server: Server, opened: ExitStack) -> None:
    stored = put(server, opened, {"one": rows(60, 0), "other": rows(50, 1)})
    one, other = stored["one"], stored["other"]
    part = StoredTable(other.place, other.rows.filter(other.rows["age"] > 30), other.slot)
    moved = at_home(part, one)
    assert moved.place.connection is one.place.connection and moved.place.shown == other.place.shown
    assert len(moved) == len(part)
    both = one.rows.union(moved.rows)
    assert one.place.number(both.count()) == len(one) + len(part)


def test_tables_of_two_databases_meet_in_one_engine_of_the_memory_that_was_granted(
    server: Server, opened: ExitStack
) -> None:
    one, other = (put(server, opened, {"table": rows(60, seed)})["table"] for seed in (0, 1))
    assert at_home(other, one) is other
    kept: dict[object, object] = {}
    place = meeting_place((one, other), kept=kept)
    assert place.backend == "duckdb" and (place.memory_mb, place.threads) == (700, 1)
    limit = place.connection.con.sql("select current_setting('memory_limit'), current_setting('threads')").fetchone()
    assert limit == (place.connection.con.sql("select format_bytes(700000000)").fetchone()[0], 1)
    assert meeting_place((one, other), one, kept=kept) is place
    assert meeting_place((one, one), other, kept=kept) is place


def test_files_meet_in_the_engine_of_a_real_side(
    opened: ExitStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    stored = {}
    for seed, name in enumerate(("train", "holdout", "first", "second")):
        rows(60, seed).to_parquet(tmp_path / f"{name}.parquet")
        stored[name] = opened.enter_context(open_table(tmp_path / f"{name}.parquet", threads=1))
    n_engines, kept = len(list(tmp_path.glob(f"{PREFIX}*"))), dict[object, object]()
    real = stored["train"], stored["holdout"]
    for name in ("first", "second"):
        assert meeting_place(real, stored[name], kept=kept) is stored["train"].place
    gc.collect()
    assert len(list(tmp_path.glob(f"{PREFIX}*"))) == n_engines
