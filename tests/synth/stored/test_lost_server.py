"""A server that goes away in the middle: one sentence, nothing half-done, and the next start works."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from synth.errors import TableError
from synth.generators.marginal_generator import Independent
from synth.schema import build_schema
from synth.stored import StoredTable, open_table
from synth.stored.connection import patient
from tests.synth.postgres import PASSWORD, Server, running

ONE = build_schema({"status": "declared", "n_units": 9, "columns": {"x": {"kind": "integer", "bounds": [0, 9]}}})
COUNTING = """
import sys
from tests.synth.stored.test_lost_server import _endless, open_table
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
