"""The commands of several sites, and whole runs in this process."""

import json

import pytest
import tomli_w
from typer.testing import CliRunner

from tests.extras.sites.conftest import NAMES, QUICK, SitesHome
from understudy.cli import app
from understudy.console import BAD_INPUT

pytest.importorskip("flwr", reason="needs the extra `sites`")


def test_keys_are_made_and_never_replaced(sites_home: SitesHome) -> None:
    runner, home, keys = CliRunner(), sites_home.home, sites_home.home / "keys"
    sites_home.write({"name": "independent", "epsilon": 1.0})
    server = ["sites", "server", str(home / "job.toml"), "--keys", str(keys), "--out", "out"]
    first = runner.invoke(app, [*server, "--new-certificate", "127.0.0.1"])
    assert first.exit_code == BAD_INPUT and "a certificate or key is not there" in first.output
    site = ["sites", "join", str(home / "job.toml"), "--site", "north", "--table", "none.csv"]
    site += ["--server", "localhost:1", "--ca", str(keys / "not there.pem"), "--key", str(keys / "north.key")]
    site += ["--out", "at-north", "--new-key"]
    assert runner.invoke(app, site).exit_code == BAD_INPUT
    files = {path.name: path.read_bytes() for path in keys.iterdir()}
    assert set(files) == {"north.key", "north.pub", "ca.pem", "server.pem", "server.key"}
    assert (keys / "north.key").stat().st_mode & 0o077 == 0
    for again in ([*server, "--new-certificate", "127.0.0.1"], site):
        ran = runner.invoke(app, again)
        assert ran.exit_code == BAD_INPUT and "a new key is a new file" in ran.output
    assert {path.name: path.read_bytes() for path in keys.iterdir()} == files


def test_a_run_on_one_machine_leaves_the_outputs_of_all(sites_home: SitesHome) -> None:
    runner, home = CliRunner(), sites_home.home
    sites = {name: {"table": f"{name}.csv", "ledger": f"{name}.db"} for name in NAMES}
    content = {"schema": "schema.toml", "generator": {"name": "mst", "epsilon": 1.0}, **QUICK, "sites": sites}
    (home / "job.toml").write_text(tomli_w.dumps(content))
    command = ["sites", "run", str(home / "job.toml"), "--out", str(home / "result"), "--json"]
    refused = runner.invoke(app, command)
    assert refused.exit_code == BAD_INPUT and "there is no ledger" in refused.output
    sites_home.open_ledgers()
    ran = runner.invoke(app, command)
    told = json.loads(ran.stdout)
    assert ran.exit_code == told["exit_code"] and set(told["verdicts"]) == set(NAMES)
    assert all(verdict in ("PASS", "FAIL", "INCONCLUSIVE") for verdict in told["verdicts"].values())
    table = (home / "result" / "server" / "synthetic.csv").read_bytes()
    for name in NAMES:
        assert (home / "result" / "sites" / name / "synthetic.csv").read_bytes() == table
        entries = sites_home.ledger_entries(name)
        assert [entry.kind for entry in entries] == ["reserved", "used", "committed"]
        claim = json.loads(entries[-1].body)["note"]
        assert claim == {key: told["statement"][key] for key in ("epsilon", "delta")} and claim["epsilon"] <= 1
    folders = (home, home / "result", home / "result" / "sites")
    assert [path for folder in folders for path in folder.glob(".*")] == []
    again = runner.invoke(app, command)
    assert again.exit_code == BAD_INPUT and "must be new" in again.output
