"""A real SQLite file and a real PostgreSQL server, each test with a ledger of its own."""

from collections.abc import Callable
from pathlib import Path

import pytest

from synth.dp.ledger import Ledger, Request, open_ledger
from synth.dp.ledger.store import TABLE
from synth.dp.renyi_curve import ORDERS, RdpCurve
from tests.synth.postgres import Server

sqlite_alone = pytest.mark.parametrize("url", ["sqlite"], indirect=True)
"""Tests of what no database has a part in."""


@pytest.fixture(scope="session")
def database(server: Server) -> str:
    """One for all tests, each of which begins without a ledger: a new one takes a while to make and to remove."""
    return server.url(server.create())


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a ledger that is not there yet."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'ledger.db'}"
    import psycopg

    address: str = request.getfixturevalue("database")
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(f"DROP TABLE IF EXISTS {TABLE}")
        connection.execute(f"DROP FUNCTION IF EXISTS {TABLE}_guard")
    return address


@pytest.fixture
def ledger(url: str) -> Ledger:
    """A ledger with a total of epsilon 1 for the dataset "adult", by row."""
    opened = open_ledger(url)
    opened.open("adult", unit="row", epsilon=1.0, delta=1e-6, n_units=30_000)
    return opened


@pytest.fixture
def ask() -> Callable[..., Request]:
    """A request under a token: rho 0.001 of "adult", by row, unless said otherwise."""

    def make(token: str, rho: float = 0.001, **changes: object) -> Request:
        content: dict[str, object] = {
            "dataset": "adult", "unit": "row", "what": "mst, seed 0",
            "curve": RdpCurve(tuple(rho * order for order in ORDERS)), "schedule_hash": "abc123",
        }  # fmt: skip
        return Request(token=token, **{**content, **changes})  # type: ignore[arg-type]

    return make
