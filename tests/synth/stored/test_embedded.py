"""The embedded engine's folder holds real rows: it goes with its process, however that ends, or with the next start."""

import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from synth.errors import TableError
from synth.stored import open_table
from synth.stored.connection import CATALOG, LOCK, embedded
from synth.stored.errors import told

ENDLESS = """
import sys
from synth.stored.connection import embedded
from synth.stored.errors import told
with embedded() as connection, told("rows"):
    rows = connection.create_table("written", connection.read_parquet(sys.argv[1]))
    for _ in range(5):
        rows = rows.cross_join(rows.view()).select(x=rows["x"])
    print("started", flush=True)
    connection.to_pyarrow(rows.aggregate(n=rows["x"].sum()))
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files go."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.parquet"
    duckdb.execute("COPY (SELECT range % 7 AS x, md5(range::VARCHAR) AS y FROM range(300000)) TO $1", [str(path)])
    return path


@pytest.fixture
def counting(rows: Path) -> Iterator[Any]:
    """A process in the middle of a query that does not end by itself."""
    words = [sys.executable, "-c", textwrap.dedent(ENDLESS), str(rows)]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:  # fmt: skip
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.5)
        assert process.poll() is None
        yield process
        process.kill()


def folders(place: Path) -> list[Path]:
    return [path for path in place.iterdir() if path.is_dir()]


def test_a_folder_goes_with_its_block(place: Path) -> None:
    with embedded():
        assert len(folders(place)) == 1
    assert folders(place) == []


def test_a_killed_process_leaves_a_folder_that_the_next_removes(place: Path, counting: Any) -> None:
    (left,) = folders(place)
    counting.kill()
    counting.wait()
    assert left.is_dir()
    with embedded():
        assert not left.exists()


def test_a_folder_whose_owner_lives_stays(place: Path, counting: Any) -> None:
    (left,) = folders(place)
    with embedded():
        assert (left / LOCK).is_file()


def test_folders_of_others_stay(place: Path) -> None:
    for name in ("understudy-empty", "understudy-other", "other"):
        (place / name).mkdir()
    (place / "understudy-other" / "notes.txt").write_text("mine")
    (place / "other" / f"{CATALOG}.duckdb").touch()
    (place / "other" / LOCK).touch()
    (place / "understudy-link").symlink_to(place / "other")
    before = sorted(place.rglob("*"))
    with embedded():
        pass
    assert sorted(place.rglob("*")) == before


def test_ctrl_c_ends_a_query_and_removes_the_folder(place: Path, counting: Any) -> None:
    counting.send_signal(signal.SIGINT)
    _, said = counting.communicate(timeout=60)
    assert counting.returncode != 0 and said.splitlines()[-1] == "KeyboardInterrupt"
    assert folders(place) == []


def test_other_runtime_errors_stay_what_they_are() -> None:
    with pytest.raises(RuntimeError, match="of another"), told("rows"):
        raise RuntimeError("of another")


def test_a_place_for_temporary_files_that_is_full_or_closed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/proc/nowhere")
    with pytest.raises(TableError, match="TMPDIR"), embedded():
        pass


def test_too_little_memory_is_told_by_its_setting(rows: Path) -> None:
    with (
        pytest.raises(TableError, match="give a larger memory_mb") as error,
        open_table(rows, memory_mb=1, threads=1) as stored,
    ):
        stored.place.fetch(stored.rows.group_by("y").agg(n=stored.rows.count()))
    assert "\n" not in str(error.value)


def test_a_full_disk_is_told(place: Path, rows: Path) -> None:
    with (
        pytest.raises(TableError, match="disk of the temporary files is full"),
        open_table(rows, memory_mb=100) as stored,
    ):
        stored.place.connection.settings["max_temp_directory_size"] = "1MB"
        stored.place.connection.settings["threads"] = 1
        wide = stored.rows.cross_join(stored.rows.view().limit(20)).select("x", "y")
        stored.place.fetch(wide.order_by("y").limit(5_000_000))
    assert folders(place) == []


def test_tables_are_compressed_where_they_are_written(place: Path, rows: Path) -> None:
    with open_table(rows) as stored:
        written = stored.place.written(stored.rows)
        kinds = stored.place.connection.raw_sql(f"SELECT compression FROM pragma_storage_info('{written.get_name()}')")
        assert {kind for (kind,) in kinds.fetchall()} != {"Uncompressed"}
    assert [path.name for path in place.iterdir()] == ["rows.parquet"]
