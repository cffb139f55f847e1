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


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
def test_every_spelling_of_a_server_names_it(server: Server, scheme: str) -> None:
    url = server.url(server.create())
    assert len(opened(url.replace("postgresql", scheme)).holdings()) == 1


@pytest.mark.parametrize(
    "url",
    [
        "",
        " ",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///file:x?mode=memory&uri=true",
        f"mysql://ann:{PASSWORD}@host/db",
        f"ann:{PASSWORD}@host/db",
        f"postgresql:/ann:{PASSWORD}@host/db",
        f"postgresql://ann:{PASSWORD}@host:port/db",
        f"postgresql+asyncpg://ann:{PASSWORD}@host/db",
        "a\0b",
    ],
)
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
                said = parsed(f"{scheme}://{rest}").shown
            except LedgerError as error:
                said = str(error)
            assert "zebra" not in said, (said, password)
            assert "fish" not in said, (said, password)


def test_a_password_with_escapes_reaches_the_server_as_it_is() -> None:
    assert parsed("postgresql://ann:p%40ss%2F@db.example/books").url.password == "p@ss/"


def test_secrets_in_an_address_are_not_shown() -> None:
    address = parsed(f"postgresql://ann:{PASSWORD}@db.example:5433/books?password={PASSWORD}&sslpassword=x")
    ledger = open_ledger(f"postgresql://ann:{PASSWORD}@db.example:5433/books")
    assert address.shown == "postgresql://db.example:5433/books"
    assert repr(ledger) == "Ledger('postgresql://db.example:5433/books')"
    assert PASSWORD not in repr(address) + repr(ledger)


def test_reading_makes_no_ledger(tmp_path: Path, ask: Ask) -> None:
    path = tmp_path / "none.db"
    ledger = open_ledger(path)
    reads = (ledger.holdings, ledger.history, ledger.verify)
    for operation in (*reads, lambda: ledger.reserve([ask("a")]), lambda: ledger.use("a")):
        with refused("there is no ledger at .*understudy ledger open"):
            operation()
    assert not path.exists()
    path.touch()
    with refused("the database has none"):
        ledger.holdings()


def test_reading_makes_no_table_on_a_server(server: Server, ask: Ask) -> None:
    url = server.url(server.create())
    ledger = open_ledger(url)
    for operation in (ledger.holdings, ledger.verify, lambda: ledger.reserve([ask("a")])):
        with refused("the database has none"):
            operation()
    with parsed(url).engine().connect() as connection:
        assert sa.inspect(connection).get_table_names() == []


def test_an_open_that_is_refused_leaves_no_table(tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path / "ledger.db")
    with refused("epsilon"):
        ledger.open("adult", unit="row", epsilon=-1, n_units=1000)
    assert not (tmp_path / "ledger.db").exists()


def test_places_that_cannot_hold_a_file_are_refused(tmp_path: Path) -> None:
    with refused("is a folder"):
        opened(tmp_path)
    with refused("does not exist"):
        opened(tmp_path / "none" / "ledger.db")


def test_a_closed_folder_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir()
    opened(folder / "ledger.db")
    # The first ledger is for the interpreter, which may lie where only root can read, to import all it needs.
    code = (
        "import os, sys; from synth.dp.ledger import open_ledger; from synth.errors import LedgerError\n"
        "def opened(path): open_ledger(path).open('b', unit='row', epsilon=1.0, n_units=10)\n"
        "opened(sys.argv[2]); os.geteuid() or (os.setgid(65534), os.setuid(65534))\n"
        "try: opened(sys.argv[1])\n"
        "except LedgerError as refusal: print(refusal)"
    )
    for parent in list(tmp_path.parents)[:-2]:
        parent.chmod(parent.stat().st_mode | 0o055)
    tmp_path.chmod(0o755)
    (folder / "ledger.db").chmod(0o444)
    folder.chmod(0o555)
    for name in ("ledger.db", "new.db"):
        words = [sys.executable, "-c", code, folder / name, tmp_path / f"first-{name}"]
        done = subprocess.run(words, capture_output=True, text=True)
        assert "permissions of the file and its folder" in done.stdout, done


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("not a database, by far\n" * 100)
    with refused("not a SQLite database"):
        opened(text)
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE bookmarks (url TEXT)")
    connection.close()
    with refused("of another program"):
        opened(other)
    with refused("the database has none"):
        open_ledger(other).holdings()


def test_a_table_of_another_shape_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with sqlite3.connect(path) as connection:
        connection.execute(f"CREATE TABLE {TABLE} (seq INTEGER, words TEXT)")
    connection.close()
    for operation in (open_ledger(path).holdings, open_ledger(path).verify, lambda: opened(path)):
        with refused("not a ledger of this version"):
            operation()


def test_a_damaged_file_is_told(tmp_path: Path, ask: Ask) -> None:
    path = tmp_path / "ledger.db"
    ledger = opened(path)
    ledger.reserve([ask(f"t{number}", 1e-6) for number in range(20)])
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    path.write_bytes(bytes(content))
    with refused("damaged|cannot be used"):
        open_ledger(path).verify()


def test_a_ledger_that_others_keep_locked_is_told(url: str, ask: Ask) -> None:
    opened(url)
    ledger = open_ledger(url, patience_s=0.2)
    other = open_ledger(url)
    with other._store.writing(), refused("locked for too long.*the same token counts once"):
        ledger.reserve([ask("a")])
    ledger.reserve([ask("a")])


def test_a_full_disk_is_told(tmp_path: Path, ask: Ask) -> None:
    ledger = opened(tmp_path / "ledger.db")
    pages = 8

    def limit(connection: sqlite3.Connection, record: object) -> None:
        connection.execute(f"PRAGMA max_page_count = {pages}")

    sa.event.listen(ledger._store._engine, "connect", limit)
    with refused("its disk is full"):
        ledger.reserve([ask(f"t{number}", 1e-6) for number in range(100)])
    assert ledger.holdings()[0].n_releases == 0
    assert ledger.verify() == ()


def test_a_server_that_is_not_there_is_told() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    with refused("cannot be reached"):
        opened(f"postgresql://ann:{PASSWORD}@127.0.0.1:{port}/books")


def test_a_server_that_refuses_is_told(server: Server) -> None:
    with refused("user or password"):
        opened(server.url("postgres", password=f"{PASSWORD}-not"))
    with refused("cannot be reached or refused|no such database"):
        opened(server.url("none"))


def test_a_user_without_rights_is_told(server: Server) -> None:
    url = server.url(server.create())
    opened(url)
    with parsed(url).engine().connect() as connection, connection.begin():
        connection.execute(sa.text("CREATE ROLE guest LOGIN PASSWORD 'guest'"))
    with refused("may not read or write it"):
        open_ledger(url.replace(f"keeper:{PASSWORD}", "guest:guest")).holdings()


def test_a_server_that_ends_a_transaction_undoes_it(server: Server, ask: Ask) -> None:
    import psycopg

    url = server.url(server.create())
    ledger = opened(url)
    with refused("the server was stopped|cannot be reached"), ledger._writing() as pen:
        from synth.dp.ledger.ledger import _reserving

        pen.add(_reserving(ask("a")))
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
    assert ledger.holdings()[0].n_releases == 0
    ledger.reserve([ask("a")])
    assert ledger.verify() == ()


def test_a_default_isolation_of_the_database_changes_nothing(server: Server, ask: Ask) -> None:
    import psycopg

    name = server.create()
    with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE \"{name}\" SET default_transaction_isolation = 'repeatable read'")
    ledger = opened(server.url(name))
    with ledger._store.writing() as connection:
        assert connection.execute(sa.text("SHOW transaction_isolation")).scalar_one() == "read committed"
        assert connection.execute(sa.text("SHOW synchronous_commit")).scalar_one() == "on"


def test_a_server_without_its_extra_is_told_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtra, match="the extra `postgres`"):
        open_ledger("postgresql://host/books")


def test_the_ledger_imports_nothing_heavy() -> None:
    code = (
        "import sys, synth.dp.ledger; heavy = {'numpy', 'pandas', 'scipy', 'dp_accounting', 'torch', 'pydantic'}; "
        "sys.exit(', '.join(heavy & set(sys.modules)) or None)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


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
    rho, n_processes, count = 1e-4, 8, 50
    fits = n_that_fit(rho)
    assert 100 < fits < n_processes * count - 50
    granted = [token for tokens in hammer("race", url, n_processes, count, rho) for token in tokens]
    assert len(granted) == fits
    (held,) = ledger.holdings()
    assert held.n_releases == fits and held.spent_epsilon <= 1.0
    assert {entry.token for entry in ledger.history() if entry.kind == "reserved"} == set(granted)
    assert ledger.verify() == ()


@pytest.mark.statistical
def test_the_last_epsilon_has_one_winner(ledger: Ledger, url: str) -> None:
    n_rounds = 20
    for number in range(n_rounds):
        ledger.open(f"d{number}", unit="row", epsilon=1.0, n_units=30_000)
    assert n_that_fit(0.02) == 1
    first, second = hammer("duel", url, "reserve", n_rounds)
    assert all(one != other for one, other in zip(first, second, strict=True))


@pytest.mark.statistical
def test_a_reservation_has_one_user(ledger: Ledger, url: str, ask: Callable[..., Request]) -> None:
    n_rounds = 20
    ledger.reserve([ask(f"t{number}", 1e-5) for number in range(n_rounds)])
    first, second = hammer("duel", url, "use", n_rounds)
    assert all(one != other for one, other in zip(first, second, strict=True))


@pytest.mark.statistical
def test_what_was_acknowledged_outlives_a_kill_and_a_retry_counts_once(ledger: Ledger, url: str) -> None:
    times, longest_s = (200, 0.03) if url.startswith("sqlite") else (60, 0.1)
    counts = hammer("kill", url, times, longest_s)
    assert counts["reserved"] == counts["tried"] > times // 2 and counts["cut"] > times // 10
    assert ledger.verify() == ()
    assert ledger.holdings()[0].n_releases == counts["tried"]


def test_threads_of_one_process_may_share_a_ledger(ledger: Ledger, ask: Callable[..., Request]) -> None:
    rho = 0.001
    won: list[str] = []

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
    ledger: Ledger, url: str, ask: Callable[..., Request], monkeypatch: pytest.MonkeyPatch
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
