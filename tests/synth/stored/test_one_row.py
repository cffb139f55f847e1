"""What one row can change: its own count, and no other's, however names are spelled, paths written, texts collated."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import psycopg
import pytest

from synth.schema import Schema, build_schema
from synth.stored import StoredTable, open_table
from tests.synth.postgres import Server

SPELLED = ["7", "07", "+7", "007", "0007", "7.0", "7e0", ".7E1"]
K = 2


@pytest.fixture
def owned() -> Schema:
    return build_schema(
        {
            "status": "declared", "n_units": 21, "entity": "who", "max_rows_per_unit": K,
            "columns": {
                "who": {"kind": "identifier", "bounds": [0, 1000]},
                "x": {"kind": "categorical", "categories": ["0", "1"]},
            },
        }
    )  # fmt: skip


@pytest.mark.parametrize("backend", ["csv", "postgres"])
def test_an_entity_spelled_in_several_ways_has_k_rows(
    backend: str, owned: Schema, tmp_path: Path, server: Server
) -> None:
    rows = [(who, "1") for who in SPELLED for _ in range(3)] + [(str(who), "0") for who in range(10, 30)]
    with _table(backend, rows, tmp_path, server) as stored:
        kept = stored.training(owned)
        n = stored.place.number(kept.rows.filter(kept.rows["x"] == "1").count())
        assert n == K
        assert kept.rows_per_entity().tolist() == [20, 1]


def test_names_that_a_collation_takes_for_one_are_two(server: Server) -> None:
    schema = build_schema(
        {
            "status": "declared", "n_units": 9, "entity": "who",
            "columns": {
                "who": {"kind": "identifier", "template": "@@@"},
                "word": {"kind": "categorical", "measure": True},
            },
        }
    )  # fmt: skip
    with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
        for query in (
            "CREATE COLLATION IF NOT EXISTS blind (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
            "DROP TABLE IF EXISTS collated",
            "CREATE TABLE collated (who text COLLATE blind, word text COLLATE blind)",
            "INSERT INTO collated VALUES ('ANN', 'ANN'), ('ann', 'ann'), ('bob', 'ann')",
        ):
            connection.execute(query)
    with open_table(server.url("postgres") + "#collated") as stored:
        kept = stored.training(schema)
        assert len(kept) == 3
        assert kept.rows_per_entity().tolist() == [3]
        assert kept.category_counts("word") == {"ANN": 1, "ann": 2}


def test_sides_do_not_depend_on_how_a_path_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = build_schema({"status": "declared", "columns": {"x": {"kind": "integer", "bounds": [0, 999]}}})
    folder = tmp_path / "rows [1]*"
    folder.mkdir()
    for part in ("a", "b"):
        _write(folder / f"{part}.parquet", "SELECT i AS x FROM range(500) r(i)")
    monkeypatch.chdir(tmp_path)
    sides = []
    for written in (str(folder), folder.name, f"./{folder.name}", f"../{tmp_path.name}/{folder.name}", f"{folder}/"):
        with open_table(written) as stored:
            train, _ = stored.split(schema, holdout_share=0.3, seed=1)
            sides.append(sorted(stored.place.fetch(train.rows.select("x")).column(0).to_pylist()))
    assert all(side == sides[0] for side in sides)
    assert 600 < len(sides[0]) < 800


def test_a_path_is_no_pattern(tmp_path: Path) -> None:
    for folder, value in (("v1", "'another'"), ("v[1]", "'named'")):
        (tmp_path / folder).mkdir()
        _write(tmp_path / folder / "t.parquet", f"SELECT {value} AS y")
    with open_table(tmp_path / "v[1]" / "t.parquet") as stored:
        assert stored.place.fetch(stored.rows.select("y")).column(0).to_pylist() == ["named"]


def test_the_name_of_a_folder_is_no_cell(tmp_path: Path) -> None:
    (tmp_path / "y=b").mkdir()
    _write(tmp_path / "y=b" / "t.parquet", "SELECT 'a' AS y")
    with open_table(tmp_path / "y=b" / "t.parquet") as stored:
        assert stored.place.fetch(stored.rows.select("y")).column(0).to_pylist() == ["a"]


def test_a_duckdb_database_is_only_read_and_spills_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "rows.db"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE t AS SELECT i AS x FROM range(10) r(i)")
    with open_table(f"duckdb://{path}#t", memory_mb=200, threads=1) as stored:
        engine = stored.place.connection.con
        beside, threads = (
            engine.execute(f"SELECT current_setting('{name}')").fetchone()[0] for name in ("temp_directory", "threads")
        )
        attached = engine.execute("SELECT path, readonly FROM duckdb_databases()").fetchall()
        assert (str(path), True) in attached
        assert threads == 1
        assert Path(beside).stat().st_mode & 0o077 == 0
        assert Path(beside).parent != tmp_path
        assert stored.place.shown == f"duckdb://{path}#t"
    assert [one.name for one in tmp_path.iterdir()] == ["rows.db"]


@contextmanager
def _table(backend: str, rows: list[tuple[str, str]], folder: Path, server: Server) -> Iterator[StoredTable]:
    if backend == "csv":
        path = folder / "rows.csv"
        path.write_text("\n".join(["who,x", *(",".join(row) for row in rows)]) + "\n", encoding="utf-8")
        with open_table(path) as stored:
            yield stored
        return
    with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS spelled")
        connection.execute("CREATE TABLE spelled (who text, x text)")
        connection.cursor().executemany("INSERT INTO spelled VALUES (%s, %s)", rows)
    with open_table(server.url("postgres") + "#spelled") as stored:
        yield stored


def _write(path: Path, query: str) -> None:
    relation = duckdb.sql(query)
    relation.write_parquet(str(path))
