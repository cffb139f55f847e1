"""The commands of the page on sites, between processes that call each other by a host name."""

import os
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
import tomli_w

pytest.importorskip("flwr", reason="the extra `sites` is not installed")

from tests.extras.sites.conftest import QUICK
from tests.extras.sites.networks import ended
from tests.understudy.conftest import SCHEMA, small_table
from understudy.extras.sites.channel import make_server_files, make_site_files

NAMES = ("east", "north", "south")
HOST = socket.gethostname()  # A name of this machine that is not `localhost`


@pytest.mark.slow  # four processes that each import the package
def test_the_documented_commands_make_one_table_by_a_host_name(tmp_path: Path) -> None:
    (tmp_path / "schema.toml").write_text(tomli_w.dumps({**SCHEMA, "n_units": 1200, "dataset": "towns"}))
    job = {"schema": "schema.toml", "generator": {"name": "mst", "epsilon": 1.0}, **QUICK}
    (tmp_path / "job.toml").write_text(tomli_w.dumps({**job, "sites": {name: {} for name in NAMES}}))
    make_server_files(tmp_path / "keys", [HOST])
    for rank, name in enumerate(NAMES):
        small_table(1200).iloc[rank::3].to_csv(tmp_path / f"{name}.csv", index=False)
        make_site_files(tmp_path / "keys", name)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3]), "HOME": str(tmp_path)}
    server = f"server job.toml --keys keys --out result --host 0.0.0.0 --port {port} --wait-s 300"
    at = f"--server {HOST}:{port} --ca keys/ca.pem"
    commands = {"server": server} | {
        name: f"join job.toml --site {name} --table {name}.csv {at} --key keys/{name}.key --out at-{name}"
        for name in NAMES
    }
    with ExitStack() as stack:
        processes = {}
        for name, words in commands.items():
            log = stack.enter_context((tmp_path / f"{name}.log").open("wb"))
            command = [sys.executable, "-m", "understudy", "sites", *words.split()]
            processes[name] = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=log, stderr=log)
            stack.enter_context(ended(processes[name]))
        codes = {name: process.wait(300) for name, process in processes.items()}
    assert codes.pop("server") in (0, 1, 3), (tmp_path / "server.log").read_text()
    assert set(codes.values()) == {0}, (tmp_path / "east.log").read_text()
    table = (tmp_path / "result" / "synthetic.csv").read_bytes()
    assert {(tmp_path / f"at-{name}" / "synthetic.csv").read_bytes() for name in NAMES} == {table}
    assert not [path for path in tmp_path.iterdir() if path.name.startswith((".result", ".at-"))]
