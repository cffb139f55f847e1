"""A real PostgreSQL server on this machine, for a session of tests."""

import os
import shutil
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

PASSWORD = "correct-horse-battery"
"""A secret that no message may ever hold."""
UNPRIVILEGED = ("postgres", "nobody")


@dataclass(frozen=True)
class Server:
    """A PostgreSQL server on a port of this machine, and who may use it."""

    port: int
    bin: Path
    folder: Path
    user: str | None

    def control(self, *words: str) -> None:
        """What `pg_ctl` is told: to start, or to stop."""
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -k {self.folder} -c fsync=off -c max_connections=60"
        self.command(
            self.bin / "pg_ctl", "-D", self.folder / "data", "-w", "-o", options, "-l", self.folder / "log", *words
        )

    def command(self, *words: object) -> None:
        subprocess.run(
            list(map(str, words)), check=True, capture_output=True, user=self.user, cwd=self.folder, timeout=120
        )

    def url(self, database: str, password: str = PASSWORD) -> str:
        return f"postgresql://keeper:{password}@127.0.0.1:{self.port}/{database}"

    def create(self) -> str:
        import psycopg

        name = f"t{uuid.uuid4().hex}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"')
        return name


def _binaries() -> Path | None:
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    on_path = shutil.which("initdb")
    return installed[-1].parent if installed else Path(on_path).resolve().parent if on_path else None


def _user() -> str | None:
    """Whom to run the server as: PostgreSQL refuses root."""
    import pwd

    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return next((user for user in UNPRIVILEGED if user in known), "nobody")


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A server for this session; skipped, with the reason, where PostgreSQL or psycopg is not installed."""
    with running() as server:
        yield server


@contextmanager
def running() -> Iterator[Server]:
    """A server of its own; skipped where there can be none."""
    pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")
    bin = _binaries()
    if bin is None:
        pytest.skip("PostgreSQL is not installed on this machine")
    # A short path outside pytest's folders, which another user may not enter and whose length a socket does not allow.
    folder = Path(tempfile.mkdtemp(prefix="pg"))
    server = Server(_free_port(), bin, folder, _user())
    try:
        secret = folder / "password"
        secret.write_text(PASSWORD, encoding="utf-8")
        if server.user is not None:
            shutil.chown(folder, server.user)
            shutil.chown(secret, server.user)
        options = f"-D {folder}/data -U keeper -A scram-sha-256 --pwfile={secret} -E UTF8"
        server.command(bin / "initdb", *options.split())
        server.control("start")
        try:
            yield server
        finally:
            server.control("-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
