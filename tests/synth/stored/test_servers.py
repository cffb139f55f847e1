"""Neural fits on stored tables, servers that are lost, and the embedded engine's folder of real rows."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

from synth.domain import Discretizer
from synth.domain.discretizer import regroup
from synth.dp.budget import Budget
from synth.dp.mechanisms import NoNoise
from synth.dp.noise_journal import Journal
from synth.errors import JobError, TableError
from synth.generators.fitting.training_data import HeldTable, Owned, TrainingTable, owned_columns_of
from synth.generators.marginal_generator import Independent
from synth.generators.neural_generator import NeuralGenerator
from synth.generators.registry import generator
from synth.schema import Schema, build_schema
from synth.schema.kinds import CategoricalColumn
from synth.stored import StoredTable, open_table
from synth.stored.connection import CATALOG, LOCK, embedded, patient
from synth.stored.errors import told
from synth.stored.table import StoredRows, in_order
from synth.table import conform
from synth.transforms.columns import Disk, HeldColumns
from synth.transforms.encoding import BinnedEncoding
from synth.transforms.mode_encoding import ModalEncoding
from tests.synth.postgres import PASSWORD, Server, running
from tests.synth.stored.conftest import COLUMNS, N_ROWS, every_kind
from tests.synth.stored.measured_fit import write_rows

SMALL: dict[str, dict[str, Any]] = {
    "tvae": {"encoder_widths": (16,), "decoder_widths": (16,), "d_latent": 4},
    "ctgan": {"generator_widths": (16,), "critic_widths": (16,), "d_latent": 4},
}
PRIVATE = {"tvae": SMALL["tvae"], "ctgan": {**SMALL["ctgan"], "critic": "network"}}
VISITS = build_schema({
    "status": "declared", "n_units": 300, "entity": "who", "max_rows_per_unit": 3,
    "columns": {"who": COLUMNS["who"], "x": {"kind": "integer", "bounds": [0, 9]}, "word": COLUMNS["word"]},
})  # fmt: skip


def _visits(most: int) -> pd.DataFrame:
    """Visits of 300 patients, up to so many each, and some of nobody."""
    rng = np.random.default_rng(1)
    who = np.repeat([f"P{i:04d}" for i in range(300)], rng.integers(1, most + 1, 300)).astype(object)
    who = rng.permutation(np.append(who, [None, "", None]))
    return pd.DataFrame({"who": who, "x": rng.integers(0, 9, len(who)), "word": rng.choice(["a", "b", None], len(who))})


def _bins(schema: Schema) -> Discretizer:
    """Codes as a private fit merges them: a few cells each, every third category unknown."""
    made = []
    for attribute in Discretizer.by_schema(schema).attributes:
        cells = np.arange(attribute.n_cells - 2)
        is_category = isinstance(attribute.column, CategoricalColumn)
        made.append(regroup(attribute, np.where(cells % 3 == 2, -1, cells) if is_category else cells // 7))
    return Discretizer(tuple(made))


def _sorted(codes: np.ndarray) -> list[list[int]]:
    return sorted(np.asarray(codes).tolist())


def _encoded_privately(train: TrainingTable, schema: Schema, tmp_path: Path) -> tuple[np.ndarray, Owned | None]:
    bins = _bins(schema)
    columns, _, owned = owned_columns_of(train, bins, schema, tmp_path)
    return BinnedEncoding(bins).apply(columns, np.random.default_rng(0)).codes, owned


def test_rows_of_a_private_fit_have_the_codes_that_they_have_in_memory(put: Any, kinds: Schema, tmp_path: Path) -> None:
    both = put(every_kind())
    held = HeldTable(conform(both.held, kinds, outside="clamp"), kinds)
    here, there = (_encoded_privately(one, kinds, tmp_path) for one in (held, both.stored.training(kinds)))
    assert here[1] is None and there[1] is None
    assert len(there[0]) == N_ROWS and _sorted(here[0]) == _sorted(there[0])
    assert not list(tmp_path.glob("tmp*"))


def test_rows_of_an_entity_stand_together(put: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("synth.stored.table.CHUNK_ROWS", 64)  # so that an entity's rows lie on both sides of a cut
    both = put(_visits(3))
    codes, owned = _encoded_privately(both.stored.training(VISITS), VISITS, tmp_path)
    assert owned is not None and owned.first_row is not None
    found = sorted(_sorted(rows) for rows in np.split(codes, owned.first_row[1:]))
    bins = _bins(VISITS)
    held = conform(both.held, VISITS, outside="clamp")
    expected = sorted(_sorted(bins.encode(rows)) for _, rows in held.groupby("who"))
    assert found == expected and len(found) == 300


def test_an_entity_of_many_rows_gives_the_same_ones_at_every_read(put: Any, tmp_path: Path) -> None:
    stored = put(_visits(9)).stored.training(VISITS)
    (first, owned), (second, _) = (_encoded_privately(stored, VISITS, tmp_path) for _ in range(2))
    assert _sorted(first) == _sorted(second)
    counts = stored.coded(_bins(VISITS)).counts(("x", "word"))
    here = np.zeros_like(counts)
    np.add.at(here, (first[:, 0], first[:, 1]), 1)
    np.testing.assert_array_equal(here, counts)
    assert owned is not None and owned.first_row is not None
    assert np.diff(owned.first_row, append=len(first)).max() == 3


def _kept(frame: pd.DataFrame, schema: Schema, order: np.ndarray) -> HeldColumns:
    return HeldColumns(conform(frame, schema, outside="clamp").iloc[order].reset_index(drop=True))


def _order(columns: HeldColumns, discretizer: Discretizer) -> np.ndarray:
    """The rows by what they hold, missing ones first."""
    read = [np.concatenate(list(columns.parts(attribute))).astype(float) for attribute in discretizer.attributes]
    return np.lexsort([np.where(np.isnan(column), -np.inf, column) for column in reversed(read)])


def test_without_epsilon_rows_come_by_what_they_hold_and_are_encoded_as_in_memory(
    put: Any, kinds: Schema, tmp_path: Path
) -> None:
    both, discretizer = put(every_kind()), Discretizer.by_schema(kinds)
    order = _order(_kept(both.held, kinds, np.arange(N_ROWS)), discretizer)
    held = _kept(both.held, kinds, order)
    filed = in_order(StoredRows(both.stored.place, both.stored.rows, kinds), discretizer, Disk(tmp_path)).columns
    for attribute in discretizer.attributes:
        here, there = (np.concatenate(list(one.parts(attribute))) for one in (held, filed))
        np.testing.assert_array_equal(here, there, err_msg=attribute.name)
    here_encoding, there_encoding = (ModalEncoding.fit(one, kinds, np.random.default_rng(1)) for one in (held, filed))
    assert here_encoding.to_plain() == there_encoding.to_plain()
    here_rows, there_rows = (here_encoding.apply(one, np.random.default_rng(2)) for one in (held, filed))
    np.testing.assert_array_equal(here_rows.codes, there_rows.codes)
    np.testing.assert_array_equal(here_rows.scalars, there_rows.scalars)


@pytest.mark.slow
@pytest.mark.parametrize("name", PRIVATE)
def test_a_private_fit_gives_rows_of_the_same_kind(put: Any, name: str, tmp_path: Path) -> None:
    both = put(_visits(5))
    chosen = generator(name, epsilon=4.0, steps=10, **PRIVATE[name])
    assert isinstance(chosen, NeuralGenerator)
    model = chosen.fit(both.stored, VISITS, place=tmp_path / "fit")
    held = chosen.fit(both.held, VISITS)
    assert model.statement is not None and held.statement is not None
    assert model.statement.events == held.statement.events
    made = model.sample(50, seed=0)
    assert len(conform(made, VISITS)) == 50
    assert sorted(path.name for path in (tmp_path / "fit").iterdir()) == ["log.jsonl"]


def test_columns_are_measured_as_in_memory(put: Any) -> None:
    both, chosen = put(_visits(3)), generator("tvae", epsilon=4.0, steps=2, **PRIVATE["tvae"])
    assert isinstance(chosen, NeuralGenerator)
    schedule = chosen.schedule(VISITS)
    assert schedule is not None
    models: list[Any] = [
        chosen.fit(rows, VISITS, budget=Budget(schedule, NoNoise())) for rows in (both.held, both.stored)
    ]
    assert models[0].encoding.to_plain() == models[1].encoding.to_plain()
    assert models[0].entity_shares == models[1].entity_shares


def _sound(frame: pd.DataFrame) -> tuple[pd.DataFrame, Schema]:
    """Rows that break no rule of their schema, in the order in which a fit without epsilon reads them."""
    columns = {name: {**COLUMNS[name], "missing": True} for name in ("whole", "real", "word", "seen", "level")}
    schema = build_schema({"status": "declared", "columns": columns})
    rows = conform(frame[list(columns)], schema, outside="clamp")
    rows = rows.assign(word=rows["word"].where(rows["word"].isin(COLUMNS["word"]["categories"])))
    rows = rows.assign(level=rows["level"].where(rows["level"].isin([0, 1, 2])))
    order = _order(HeldColumns(rows), Discretizer.by_schema(schema))
    return rows.iloc[order].reset_index(drop=True), schema


@pytest.mark.parametrize("name", SMALL)
def test_without_epsilon_a_model_is_the_one_of_memory(put: Any, name: str) -> None:
    frame, schema = _sound(every_kind())
    both = put(frame.sample(frac=1, random_state=0, ignore_index=True))
    chosen = generator(name, epochs=2, batch_size=500, **SMALL[name])
    here, there = chosen.fit(frame, schema, seed=3), chosen.fit(both.stored, schema, seed=3)
    assert here.statement is None and there.statement is None and there.default_rows == N_ROWS
    pd.testing.assert_frame_equal(here.sample(300, seed=0), there.sample(300, seed=0))


def test_without_epsilon_a_row_that_breaks_a_rule_is_refused(put: Any) -> None:
    frame, schema = _sound(every_kind())
    both = put(frame.assign(whole=frame["whole"].where(frame.index != 77, 151)))
    with pytest.raises(TableError, match="whole"):
        generator("tvae", epochs=1).fit(both.stored, schema)


def test_a_fit_goes_on_from_its_checkpoint(put: Any, tmp_path: Path) -> None:
    frame, schema = _sound(every_kind())
    both, said = put(frame), []
    chosen = generator("tvae", epochs=2, **SMALL["tvae"])
    assert isinstance(chosen, NeuralGenerator)
    models = [
        chosen.fit(both.stored, schema, place=tmp_path, progress=lambda what, _: said.append(what)) for _ in range(2)
    ]
    assert said.count("epoch 2 of 2") == 1 and said.count("going on after 2") == 1
    pd.testing.assert_frame_equal(*(model.sample(50, seed=0) for model in models))


def test_a_private_fit_goes_on_from_its_checkpoint(put: Any, tmp_path: Path) -> None:
    both, chosen = put(_visits(5)), generator("tvae", epsilon=4.0, steps=40, **PRIVATE["tvae"])
    assert isinstance(chosen, NeuralGenerator)
    schedule, said = chosen.schedule(VISITS), []
    assert schedule is not None
    for _ in range(2):
        with Journal(tmp_path / "journal.jsonl") as journal:
            chosen.fit(
                both.stored, VISITS, place=tmp_path / "fit", progress=lambda what, _: said.append(what),
                budget=Budget(schedule, journal=journal),
            )  # fmt: skip
    assert said.count("going on after 40") == 1


@pytest.mark.slow
def test_memory_does_not_grow_with_the_table(tmp_path: Path) -> None:
    found = []
    for n_rows in (500_000, 2_000_000):
        write_rows(tmp_path / "rows.parquet", n_rows)
        asked = [str(tmp_path / "rows.parquet"), "tvae", "plain", str(n_rows), "150"]
        command = [sys.executable, "-m", "tests.synth.stored.measured_fit", *asked]
        ran = subprocess.run(command, capture_output=True, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
        found.append(json.loads(ran.stdout.splitlines()[-1]))
    few, many = found
    assert many["mapped_mb"] > 300
    assert many["most_mb"] - few["most_mb"] < 0.5 * (many["mapped_mb"] - few["mapped_mb"])
    assert many["most_mb"] < 1_000


def test_sdv_says_what_to_do_with_a_stored_table(put: Any, kinds: Schema) -> None:
    pytest.importorskip("sdv", reason="the extra `sdv` is not installed")
    both = put(every_kind())
    for name in ("sdv.gaussian_copula", "sdv.ctgan", "sdv.tvae"):
        with pytest.raises(JobError, match="sample"):
            generator(name).fit(both.stored, kinds)


ONE = build_schema({"status": "declared", "n_units": 9, "columns": {"x": {"kind": "integer", "bounds": [0, 9]}}})
COUNTING = """
import sys
from tests.synth.stored.test_servers import _endless, open_table
with open_table(sys.argv[1]) as stored:
    print("started", flush=True)
    _endless(stored)
"""


@pytest.fixture(scope="module")
def own() -> Iterator[Server]:
    """A server that no other test uses."""
    with running() as one:
        _execute(one, "CREATE TABLE t AS SELECT i % 7 AS x FROM generate_series(1, 1000) AS i")
        yield one


def _execute(server: Server, query: str) -> None:
    import psycopg

    with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
        connection.execute(query)  # type: ignore[call-overload]


def _address(server: Server) -> str:
    return f"{server.url('postgres')}#t"


def _endless(stored: StoredTable) -> None:
    """A query that does not end by itself."""
    rows = stored.rows
    for _ in range(4):
        rows = rows.cross_join(stored.rows.view()).select(x=rows["x"])
    stored.place.number(rows.count())


def _later(do: Callable[[], object]) -> threading.Timer:
    timer = threading.Timer(1.0, do)
    timer.start()
    return timer


OTHERS = "FROM pg_stat_activity WHERE backend_type = 'client backend' AND state = 'active' AND pid <> pg_backend_pid()"


def _ended_by_another(server: Server) -> None:
    _execute(server, f"SELECT pg_terminate_backend(pid) {OTHERS}")


def _cancelled_by_another(server: Server) -> None:
    _execute(server, f"SELECT pg_cancel_backend(pid) {OTHERS}")


@pytest.mark.parametrize(
    ("happens", "said"),
    [
        (_ended_by_another, "was stopped or ended the query"),
        (_cancelled_by_another, "was stopped or ended the query"),
        (lambda server: server.control("-m", "fast", "restart"), "was stopped or ended the query"),
        (lambda server: server.control("-m", "immediate", "restart"), "connection was lost|was stopped"),
    ],
)
def test_a_query_that_is_cut_short_is_told(own: Server, happens: Callable[[Server], None], said: str) -> None:
    with pytest.raises(TableError, match=said) as error, open_table(_address(own)) as stored:
        timer = _later(lambda: happens(own))
        _endless(stored)
    timer.join()
    assert "start again: nothing was written" in str(error.value) and PASSWORD not in str(error.value)
    with open_table(_address(own)) as stored:
        assert len(stored) == 1000


def test_a_server_that_stopped_between_two_queries_is_told(own: Server) -> None:
    with pytest.raises(TableError, match=r"connection was lost|was stopped"), open_table(_address(own)) as stored:
        own.control("-m", "fast", "restart")
        Independent(epsilon=1.0).fit(stored, ONE)


def test_a_server_that_is_down_is_told(own: Server) -> None:
    own.control("-m", "fast", "stop")
    try:
        with pytest.raises(TableError, match="cannot be reached"), open_table(_address(own)):
            pass
    finally:
        own.control("start")


def test_ctrl_c_ends_the_query_on_the_server(own: Server) -> None:
    import psycopg

    words = [sys.executable, "-c", COUNTING, _address(own)]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:  # fmt: skip
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(1.0)
        os.kill(process.pid, signal.SIGINT)
        try:
            _, said = process.communicate(timeout=60)
        finally:
            process.kill()
    assert said.splitlines()[-1] == "KeyboardInterrupt"
    with psycopg.connect(own.url("postgres")) as connection:
        left = connection.execute(f"SELECT count(*) {OTHERS}")
        assert left.fetchone() == (0,)


def test_a_fit_that_was_cut_short_goes_well_the_next_time(own: Server) -> None:
    with pytest.raises(TableError), open_table(_address(own)) as stored:
        own.control("-m", "immediate", "restart")
        Independent(epsilon=1.0).fit(stored, ONE)
    with open_table(_address(own)) as stored:
        assert Independent(epsilon=1.0).fit(stored, ONE).schema == ONE


def test_a_server_that_says_nothing_is_given_up() -> None:
    pytest.importorskip("psycopg")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"postgresql://keeper:{PASSWORD}@127.0.0.1:{silent.getsockname()[1]}/d?connect_timeout=2#t"
        started = time.monotonic()
        with pytest.raises(TableError, match="cannot be reached") as error, open_table(address):
            pass
    assert time.monotonic() - started < 30 and PASSWORD not in str(error.value)


def test_a_server_whose_machine_is_silent_is_given_up_by_default() -> None:
    import psycopg

    found = psycopg.conninfo.conninfo_to_dict(patient("postgresql://ann:a%20b@db.example/clinic?options=-c%20x%3D1"))
    assert found["password"] == "a b" and found["options"] == "-c x=1"
    assert {"connect_timeout", "keepalives_idle", "tcp_user_timeout"} <= set(found)


KILLED = """
import os, signal, sys
import ibis
from pyspark.sql import SparkSession
from synth.errors import TableError
from synth.stored.connection import Place
from synth.stored import StoredTable

session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
session.sparkContext.setLogLevel("OFF")
connection = ibis.pyspark.connect(session)
table = StoredTable(Place(connection, "spark"), connection.read_parquet(sys.argv[1]))
assert len(table) == 100
session.sparkContext._gateway.proc.kill()
session.sparkContext._gateway.proc.wait()
try:
    len(table)
except TableError as error:
    print(error)
sys.stdout.flush()
os._exit(0)
"""


@pytest.mark.slow
def test_a_spark_that_was_killed_is_told(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="the extra `spark` is not installed")
    path = tmp_path / "rows.parquet"
    duckdb.execute("COPY (SELECT range AS x FROM range(100)) TO $1 (FORMAT parquet)", [str(path)])
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], capture_output=True, text=True, timeout=300)
    assert (
        done.stdout.startswith("the table at 'spark' cannot be read where it is stored: ")
        and "\n" not in done.stdout.strip()
    )
    assert "connection was lost" in done.stdout


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


@pytest.fixture
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


@pytest.mark.usefixtures("place")
def test_other_runtime_errors_stay_what_they_are() -> None:
    with pytest.raises(RuntimeError, match="of another"), told("rows"):
        raise RuntimeError("of another")


@pytest.mark.usefixtures("place")
def test_a_place_for_temporary_files_that_is_full_or_closed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/proc/nowhere")
    with pytest.raises(TableError, match="TMPDIR"), embedded():
        pass


@pytest.mark.usefixtures("place")
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
