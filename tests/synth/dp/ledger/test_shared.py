"""Ledgers at an address: databases that fail, secrets that stay secret, and many processes at once."""

import json
import socket
import sqlite3
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import pytest
import sqlalchemy as sa
from hypothesis import example, given
from hypothesis import strategies as st

from synth.dp.ledger import Ledger, Request, open_ledger
from synth.dp.ledger import ledger as module
from synth.dp.ledger.store import TABLE, add, parsed
from synth.dp.renyi_curve import RdpCurve, RdpFilter
from synth.errors import LedgerError, MissingExtra

Ask = Callable[..., Request]
PASSWORD = "correct-horse-battery"
"""The server's; no message may ever hold it."""


class Server(Protocol):
    """The fixture of that name."""

    def url(self, database: str, password: str = PASSWORD) -> str: ...

    def create(self) -> str: ...


@contextmanager
def refused(words: str) -> Iterator[None]:
    """A block that ends in one sentence with these words, and in no secret wherever one looks."""
    with pytest.raises(LedgerError, match=words) as error:
        yield
    text = str(error.value)
    assert PASSWORD not in "".join(traceback.format_exception(error.value))
    assert "\n" not in text and not text.endswith(".") and "; " in text


def opened(url: str | Path, patience_s: float = 60.0) -> Ledger:
    ledger = open_ledger(url, patience_s)
    ledger.open("adult", unit="row", epsilon=1.0, n_units=30_000)
    return ledger


@pytest.mark.parametrize("form", ["{}", "sqlite:///{}", "sqlite+pysqlite:///{}"])
def test_a_path_and_its_url_name_the_same_file(tmp_path: Path, form: str) -> None:
    path = tmp_path / "a ledger.db"
    opened(path)
    assert len(open_ledger(form.format(path)).holdings()) == 1


@pytest.mark.parametrize("scheme", ["postgres", "postgresql+psycopg"])
def test_every_spelling_of_a_server_names_it(server: Server, scheme: str) -> None:
    url = server.url(server.create())
    assert len(opened(url.replace("postgresql", scheme)).holdings()) == 1


NO_LEDGER = [
    "", "sqlite://", "sqlite:///:memory:", "sqlite:///file:x?mode=memory&uri=true", "a\0b",
    f"mysql://ann:{PASSWORD}@host/db", f"ann:{PASSWORD}@host/db", f"postgresql:/ann:{PASSWORD}@host/db",
    f"postgresql://ann:{PASSWORD}@host:port/db", f"postgresql+asyncpg://ann:{PASSWORD}@host/db",
]  # fmt: skip


@pytest.mark.parametrize("url", NO_LEDGER)
def test_what_names_no_ledger_is_refused(url: str) -> None:
    with refused("a ledger"):
        open_ledger(url)


MARKED = st.text("ab1@:/?#&=;[]%. \\", max_size=6).map(lambda odd: f"zebra{odd}fish")


@given(MARKED, st.sampled_from(["", ":5433", ":port"]), st.sampled_from(["", "?a=b", "?password=zebra@fish"]))
@example("zebra@fish", "", "")
@example("zebra@a:1/fish", "", "")
def test_no_part_of_a_password_is_shown_whatever_is_in_it(password: str, port: str, query: str) -> None:
    for scheme in ("postgresql", "postgres", "mysql", "sqlite", "nonsense"):
        for rest in (f"ann:{password}@db.example{port}/books{query}", f"db.example/books?password={password}"):
            try:
                shown = parsed(f"{scheme}://{rest}").shown
            except LedgerError as error:
                shown = str(error)
            assert "zebra" not in shown and "fish" not in shown, (shown, password)


def test_an_address_is_shown_without_its_secrets_and_reaches_the_server_with_them() -> None:
    address = parsed(f"postgresql://ann:p%40ss%2F@db.example:5433/books?password={PASSWORD}&sslpassword=x")
    assert address.url.password == "p@ss/"
    assert address.shown == "postgresql://db.example:5433/books" and PASSWORD not in repr(address)
    assert repr(open_ledger(f"postgresql://ann:{PASSWORD}@db.example/b")) == "Ledger('postgresql://db.example/b')"


def test_reading_makes_no_ledger(url: str, ask: Ask) -> None:
    ledger = open_ledger(url)
    for operation in (ledger.holdings, ledger.verify, lambda: ledger.reserve([ask("a")]), lambda: ledger.use("a")):
        with refused("there is no ledger at .*understudy ledger open"):
            operation()
    path = parsed(url).path
    if path is None:
        with parsed(url).engine().connect() as connection:
            assert sa.inspect(connection).get_table_names() == []
    else:
        assert not path.exists()
        path.touch()
        with refused("the database has none"):
            ledger.holdings()


def test_files_that_are_no_ledger_are_refused(tmp_path: Path) -> None:
    text, other, shape = (tmp_path / name for name in ("notes.txt", "other.db", "shape.db"))
    text.write_text("not a database, by far\n" * 100)
    for path, columns in ((other, "bookmarks (url TEXT)"), (shape, f"{TABLE} (seq INTEGER, words TEXT)")):
        with sqlite3.connect(path) as connection:
            connection.execute(f"CREATE TABLE {columns}")
        connection.close()
    for path, words in (
        (tmp_path, "is a folder"),
        (tmp_path / "none" / "ledger.db", "does not exist"),
        (text, "not a SQLite database"),
        (other, "of another program"),
        (shape, "not a ledger of this version"),
    ):
        with refused(words):
            opened(path)


def test_a_ledger_that_others_keep_locked_is_told(url: str, ask: Ask) -> None:
    opened(url)
    ledger = open_ledger(url, patience_s=0.2)
    other = open_ledger(url)
    with other._store.writing(), refused("locked for too long.*the same token counts once"):
        ledger.reserve([ask("a")])
    ledger.reserve([ask("a")])


def test_a_full_disk_is_told(tmp_path: Path, ask: Ask) -> None:
    ledger = opened(tmp_path / "ledger.db")
    sa.event.listen(ledger._store._engine, "connect", lambda c, _: c.execute("PRAGMA max_page_count = 8"))
    with refused("its disk is full"):
        ledger.reserve([ask(f"t{number}", 1e-6) for number in range(100)])
    assert ledger.holdings()[0].n_releases == 0 and ledger.verify() == ()


def test_a_server_that_refuses_is_told(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    url = server.url(server.create())
    opened(url)
    with parsed(url).engine().connect() as connection, connection.begin():
        connection.execute(sa.text("CREATE ROLE guest LOGIN PASSWORD 'guest'"))
    for address, words in (
        (f"postgresql://ann:{PASSWORD}@127.0.0.1:{port}/books", "cannot be reached"),
        (server.url("postgres", password=f"{PASSWORD}-not"), "user or password"),
        (url.replace(f"keeper:{PASSWORD}", "guest:guest"), "may not read or write it"),
    ):
        with refused(words):
            open_ledger(address).holdings()
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtra, match="the extra `postgres`"):
        open_ledger("postgresql://host/books")


def test_a_server_that_ends_a_transaction_undoes_it(server: Server, ask: Ask) -> None:
    import psycopg

    url = server.url(server.create())
    ledger, request = opened(url), ask("a")
    with refused("the server was stopped|cannot be reached"), ledger._writing() as pen:
        pen.add("reserved", (request.dataset, request.unit), "a", request.body)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
    assert ledger.holdings()[0].n_releases == 0
    ledger.reserve([ask("a")])
    assert ledger.verify() == ()


def test_a_default_isolation_of_the_database_changes_nothing(server: Server) -> None:
    import psycopg

    name = server.create()
    with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE \"{name}\" SET default_transaction_isolation = 'repeatable read'")
    with opened(server.url(name))._store.writing() as connection:
        assert connection.execute(sa.text("SHOW transaction_isolation")).scalar_one() == "read committed"
        assert connection.execute(sa.text("SHOW synchronous_commit")).scalar_one() == "on"


HAMMER = Path(__file__).with_name("hammer.py")


def hammer(*words: Any) -> Any:
    arguments = [words[0], *(json.dumps(word) for word in words[1:])]
    done = subprocess.run([sys.executable, HAMMER, *arguments], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def n_that_fit(rho: float) -> int:
    total, spent, n = RdpFilter(1.0, 1e-6), RdpCurve.zero(), 0
    while total.admits(spent := spent + RdpCurve.of_rho(rho)):
        n += 1
    return n


@pytest.mark.statistical
def test_a_race_of_many_grants_exactly_what_fits(ledger: Ledger, url: str) -> None:
    rho, n_processes, count = 2e-4, 4, 50
    fits = n_that_fit(rho)
    assert 50 < fits < n_processes * count - 25
    granted = [token for tokens in hammer("race", url, n_processes, count, rho) for token in tokens]
    (holding,) = ledger.holdings()
    assert len(granted) == fits == holding.n_releases and holding.spent_epsilon <= 1.0
    assert {entry.token for entry in ledger.history() if entry.kind == "reserved"} == set(granted)
    assert ledger.verify() == ()


@pytest.mark.statistical
@pytest.mark.parametrize("what", ["reserve", "use"])
def test_the_last_epsilon_has_one_winner_and_a_reservation_one_user(
    ledger: Ledger, url: str, ask: Ask, what: str
) -> None:
    for number in range(20):
        ledger.open(f"d{number}", unit="row", epsilon=1.0, n_units=30_000)
    ledger.reserve([ask(f"t{number}", 1e-5) for number in range(20)])
    assert n_that_fit(0.02) == 1
    first, second = hammer("duel", url, what, 20)
    assert all(single != other for single, other in zip(first, second, strict=True))


@pytest.mark.statistical
def test_what_was_acknowledged_outlives_a_kill_and_a_retry_counts_once(ledger: Ledger, url: str) -> None:
    times, longest_s = (100, 0.03) if url.startswith("sqlite") else (40, 0.1)
    counts = hammer("kill", url, times, longest_s)
    assert counts["reserved"] == counts["tried"] > times // 2 and counts["cut"] > times // 10
    assert ledger.verify() == ()
    assert ledger.holdings()[0].n_releases == counts["tried"]


def test_threads_of_one_process_may_share_a_ledger(ledger: Ledger, ask: Ask) -> None:
    rho, won = 0.001, list[str]()

    def work(name: str) -> None:
        for number in range(8):
            try:
                ledger.reserve([ask(f"{name}-{number}", rho)])
            except LedgerError:
                continue
            won.append(name)

    threads = [threading.Thread(target=work, args=(str(number),)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == min(32, n_that_fit(rho)) == ledger.holdings()[0].n_releases


def test_a_transaction_that_was_undone_leaves_no_trace(
    ledger: Ledger, url: str, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails_at_the_second(connection: Any, entry: Any) -> None:
        if entry.token == "b":
            raise KeyboardInterrupt
        add(connection, entry)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(module, "add", fails_at_the_second)
        ledger.reserve([ask("a"), ask("b")])
    with pytest.raises(LedgerError, match="never reserved"):
        ledger.use("a")
    ledger.reserve([ask("a")])
    assert open_ledger(url).verify() == () and open_ledger(url).holdings() == ledger.holdings()
