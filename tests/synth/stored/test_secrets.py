"""User, password and parameters of an address are in no message, no chained error, no log and no output."""

import logging
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from synth.errors import MissingExtra, TableError
from synth.stored import open_table
from synth.stored.address import parsed
from tests.synth.postgres import PASSWORD, Server

USER, SECRET, PARAMETER = "annaquagga", "zebrafish77", "okapi99"
WHO = f"{USER}:{SECRET}"
LOGGERS = ("", "ibis", "duckdb", "psycopg", "sqlglot", "py4j", "pyspark", "asyncio")

Refused = Callable[[str], str]


@pytest.fixture
def refused(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> Refused:
    """Opens an address that cannot be opened; gives all that was said anywhere."""

    def told(address: str) -> str:
        for name in LOGGERS:
            caplog.set_level(logging.DEBUG, logger=name)
        with pytest.raises((TableError, MissingExtra)) as raised, open_table(address) as stored:
            len(stored)
        assert "\n" not in str(raised.value)
        shown = "".join(traceback.format_exception(raised.value))
        return "\n".join([shown, *_chained(raised.value), caplog.text, *capfd.readouterr()])

    return told


@pytest.mark.parametrize(
    "address",
    [
        f"postgresql://{WHO}@127.0.0.1:1/d?application_name={PARAMETER}#t",
        f"postgresql://{WHO}@nowhere.invalid/d?sslkey={PARAMETER}#t",
        f"postgresql://{WHO}@127.0.0.1:1/d?{PARAMETER}={PARAMETER}#t",
        f"postgresql://{WHO}@127.0.0.1:1/d?sslmode={PARAMETER}#t",
        f"postgresql://{WHO}@127.0.0.1:port/d?password={PARAMETER}#t",
        f"postgresql://{WHO}@127.0.0.1:1/d?password={PARAMETER}",
        f"postgresql:///d?host=127.0.0.1&port=1&user={USER}&password={SECRET}#t",
        f"postgresql://{USER}:12#{SECRET}@127.0.0.1:1/d#t",
        f"postgresql://{USER}:12/{SECRET}@127.0.0.1:1/d#t",
        f"postgresql://{USER}:{SECRET}?fish@127.0.0.1:1/d#t",
        f"postgresql://{USER}:12[{SECRET}@127.0.0.1:1/d#t",
        f"postgresql://{WHO}@127.0.0.1:{PARAMETER}/d#t",
        f"mysql://{WHO}@127.0.0.1:1/d?password={PARAMETER}#t",
        f"snowflake://{WHO}@account/d/s?warehouse={PARAMETER}#t",
        f"nonsense://{WHO}@127.0.0.1/d?password={PARAMETER}#t",
        f"sqlite://{WHO}@/nowhere.db?key={PARAMETER}#t",
        f"duckdb://{WHO}@/nowhere.db?key={PARAMETER}#t",
        f"duckdb:///nowhere.db?motherduck_token={PARAMETER}#t",
        f"duckdb:///nowhere.db;motherduck_token={PARAMETER}#t",
        f"duckdb://{SECRET}#t",
        f"postgresql://{WHO}@127.0.0.1:1/d#t?password={PARAMETER}",
        f"postgresql://{WHO}@127.0.0.1:1/d#t&password={PARAMETER}",
        f"postgresql://{WHO}@127.0.0.1:1/d#t%3Fpassword%3D{PARAMETER}",
        f"postgresql://{WHO}@127.0.0.1:1/d;password={PARAMETER}#t",
        f"postgresql://{WHO}@127.0.0.1:1/d&password={PARAMETER}#t",
        f"mssql://db;password={PARAMETER}/c#t",
        f"mssql://127.0.0.1:1;password={PARAMETER}/c#t",
        f"nonsense://db/c#password={PARAMETER}",
    ],
)
def test_what_cannot_be_opened_tells_no_secret(refused: Refused, address: str) -> None:
    said = refused(address)
    assert [secret for secret in (USER, SECRET, PARAMETER) if secret in _without_source(said)] == []


@given(st.text("ab1@:/?#&=;[]%. \\", max_size=6), st.sampled_from(["postgresql", "mysql", "duckdb", "nonsense"]))
@example("@", "postgresql")
def test_no_part_of_a_password_is_shown_whatever_is_in_it(odd: str, scheme: str) -> None:
    address = f"{scheme}://ann:zebra{odd}fish@db.example/clinic#visits"
    for given_address in (address, address.replace("://", ":/"), address.partition("://")[2]):
        try:
            said = parsed(given_address).shown
        except TableError as error:
            said = str(error)
        assert "zebra" not in said, (said, odd)
        assert "fish" not in said, (said, odd)


@pytest.mark.parametrize(
    ("user", "password", "database", "table"),
    [
        (USER, SECRET, "postgres", "t"),
        ("keeper", SECRET, "postgres", "t"),
        ("keeper", PASSWORD, "nowhere", "t"),
        ("keeper", PASSWORD, "postgres", "nowhere"),
        ("keeper", PASSWORD, "postgres", "pg_authid.nowhere"),
        ("reader", PASSWORD, "postgres", "hidden"),
    ],
)
def test_a_server_that_refuses_tells_no_secret(
    server: Server, refused: Refused, user: str, password: str, database: str, table: str
) -> None:
    import psycopg

    with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
        for query in (
            "DROP TABLE IF EXISTS hidden", "DROP ROLE IF EXISTS reader", "CREATE TABLE hidden (x text)",
            f"CREATE ROLE reader LOGIN PASSWORD '{PASSWORD}'", f"INSERT INTO hidden VALUES ('{PARAMETER}')",
        ):  # fmt: skip
            connection.execute(query)  # type: ignore[call-overload]
    url = f"postgresql://{user}:{password}@127.0.0.1:{server.port}/{database}?application_name={PARAMETER}#{table}"
    said = _without_source(refused(url))
    assert [secret for secret in (user, password, PARAMETER) if secret in said] == []


def test_a_cell_that_cannot_be_read_is_not_told(server: Server, refused: Refused) -> None:
    """The server's message quotes the cell."""
    import psycopg

    with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
        connection.execute("DROP VIEW IF EXISTS broken; DROP TABLE IF EXISTS cells")
        connection.execute(f"CREATE TABLE cells AS SELECT '{SECRET}' AS x")  # type: ignore[call-overload]
        connection.execute("CREATE VIEW broken AS SELECT x::integer AS x FROM cells WHERE x::integer > 0")
    assert SECRET not in _without_source(refused(f"{server.url('postgres')}#broken"))


@pytest.mark.parametrize(
    "content", [f"x,y\n1,{SECRET}\xff\n".encode("latin-1"), f'x,y\n1,"{SECRET}\n'.encode(), f"{SECRET}".encode()]
)
@pytest.mark.parametrize("name", ["rows.parquet", "rows.csv.gz"])
def test_a_damaged_file_tells_no_cell(tmp_path: Path, refused: Refused, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    assert SECRET not in _without_source(refused(str(tmp_path / name)))


def _chained(error: BaseException | None) -> list[str]:
    """The errors that led to an error, also those that a traceback does not show."""
    if error is None:
        return []
    return [repr(error), *_chained(error.__cause__), *_chained(error.__context__)]


def _without_source(said: str) -> str:
    """Without the lines of this file, which a traceback shows and which name the secrets."""
    return "\n".join(line for line in said.splitlines() if "open_table(address)" not in line)
