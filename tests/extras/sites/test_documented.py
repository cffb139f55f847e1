"""The commands of the page on sites, between processes that call each other by a host name."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import tomli_w

pytest.importorskip("flwr", reason="the extra `sites` is not installed")

from tests.extras.sites.conftest import QUICK
from tests.extras.sites.networks import ended, until
from tests.understudy.conftest import SCHEMA, small_table
from understudy.extras.sites.credentials import make_server_files, make_site_files

NAMES = ("east", "north", "south")
HOST = socket.gethostname()  # A name of this machine that is not `localhost`


class Machines:
    """A server and three sites, each with files of its own, as far as the page has them exchange some."""

    def __init__(self, home: Path, **job: Any) -> None:
        self.home, table = home, small_table(1200)
        (home / "schema.toml").write_text(tomli_w.dumps({**SCHEMA, "n_units": 1200, "dataset": "towns"}))
        content = {"schema": "schema.toml", "generator": {"name": "mst", "epsilon": 1.0}, **QUICK, **job}
        (home / "job.toml").write_text(tomli_w.dumps({**content, "sites": {name: {} for name in NAMES}}))
        for rank, name in enumerate(NAMES):
            table.iloc[rank::3].to_csv(home / f"{name}.csv", index=False)
        make_server_files(home / "keys", [HOST])
        for name in NAMES:
            make_site_files(home / "keys", name)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]

    def start(self, log: str, *words: str) -> "subprocess.Popen[bytes]":
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3]), "HOME": str(self.home)}
        with (self.home / f"{log}.log").open("ab") as file:
            return subprocess.Popen(
                [sys.executable, "-m", "understudy", *words], cwd=self.home, env=environment, stdout=file, stderr=file
            )

    def server(self, wait_s: float = 300.0) -> "subprocess.Popen[bytes]":
        options = ("--host", "0.0.0.0", "--port", str(self.port), "--wait-s", str(wait_s))
        return self.start("server", "sites", "server", "job.toml", "--keys", "keys", "--out", "result", *options)

    def site(self, name: str) -> "subprocess.Popen[bytes]":
        files = ("--ca", "keys/ca.pem", "--key", f"keys/{name}.key", "--out", f"at-{name}")
        at = ("--server", f"{HOST}:{self.port}")
        return self.start(
            name, "sites", "join", "job.toml", "--site", name, "--table", f"{name}.csv", *at, *files
        )  # fmt: skip

    def said(self, name: str) -> str:
        return (self.home / f"{name}.log").read_text()

    @contextmanager
    def joined(self, wait_s: float = 300.0) -> Iterator[dict[str, "subprocess.Popen[bytes]"]]:
        """The server as "server" and all sites, of which the first have joined: the last is started by the caller."""
        processes = {"server": self.server(wait_s), **{name: self.site(name) for name in NAMES[:2]}}
        with ended(*processes.values()):
            for name in NAMES[:2]:
                assert until(lambda name=name: "Joined" in self.said(name), 120), self.said(name)  # type: ignore[misc]
            yield processes


@pytest.mark.slow
def test_the_documented_commands_make_one_table_by_a_host_name(tmp_path: Path) -> None:
    """Half a minute: four processes that each import the package."""
    machines = Machines(tmp_path)
    with machines.joined() as processes, ended(last := machines.site("south")):
        codes = {name: process.wait(300) for name, process in {**processes, "south": last}.items()}
    assert codes.pop("server") in (0, 1, 3), machines.said("server")
    assert set(codes.values()) == {0}, machines.said("east")
    table = (tmp_path / "result" / "synthetic.csv").read_bytes()
    assert {(tmp_path / f"at-{name}" / "synthetic.csv").read_bytes() for name in NAMES} == {table}
    assert not [path for path in tmp_path.iterdir() if path.name.startswith((".result", ".at-"))]
