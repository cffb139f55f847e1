"""Jobs of several sites, what is refused before any row is read, their commands, and whole runs in this process."""

import json
from typing import Any

import pytest
import tomli_w
from typer.testing import CliRunner

pytest.importorskip("flwr", reason="needs the extra `sites`")

from synth.errors import BadInput
from tests.extras.sites.conftest import NAMES, QUICK, SitesHome, cells_query
from tests.understudy.conftest import SCHEMA
from understudy.cli import app
from understudy.console import BAD_INPUT
from understudy.extras.sites.channel import SitesError, pack
from understudy.extras.sites.site import Site

MST = {"name": "mst", "epsilon": 1.0}
SITES: dict[str, Any] = {name: {} for name in NAMES}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a name that names no file": ({"sites": {**SITES, "../x": {}}}, "rename one"),
    "all collude": ({"colluding": 3}, "have to hide each other"),
    "two sums with a colluder's help": ({"sites": {**SITES, "x": {}}, "dropouts": 2}, "two sums of the same answers"),
    "exact distances": ({"generator": {**MST, "choices": "exponential"}}, "needs exact distances in one place"),
    "a domain to measure": ({"schema": "measured.toml"}, "columns=town are to be measured"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_job_that_cannot_be_carried_out_is_refused(sites_home: SitesHome, case: str) -> None:
    changed, reason = REFUSED[case]
    content = {"schema": "schema.toml", "generator": MST, "sites": SITES, **changed}
    measured = {**SCHEMA["columns"], "town": {"kind": "categorical", "measure": True}}
    (sites_home.home / "measured.toml").write_text(tomli_w.dumps({**SCHEMA, "columns": measured}))
    (sites_home.home / "job.toml").write_text(tomli_w.dumps(content))
    with pytest.raises(BadInput, match=reason):
        _ = sites_home.inputs


def draw(home: SitesHome, **more: Any) -> None:
    """Every site answers, and the run is cut short."""
    inputs = home.write({"name": "independent", "epsilon": 1.0})
    with home.participants(**more) as sites:
        for site in sites.values():
            site.site.noisy(cells_query(home))
    assert inputs.by_sums


@pytest.mark.parametrize("changed", ["job", "table"])
def test_noise_is_not_drawn_anew_where_no_ledger_counts_it(sites_home: SitesHome, changed: str) -> None:
    draw(sites_home)
    if changed == "job":
        sites_home.write({"name": "independent", "epsilon": 0.5})
    else:
        sites_home.table("east").head(200).to_csv(sites_home.home / "east.csv", index=False)
    kept = {path: path.read_bytes() for path in sites_home.home.glob(".at-east*/answers/*.npz")}
    with pytest.raises(BadInput, match="name another --out"), sites_home.participants():
        pass
    assert kept and {path: path.read_bytes() for path in kept} == kept


def test_a_ledger_pays_for_what_a_corrected_job_draws_anew(sites_home: SitesHome) -> None:
    sites_home.open_ledgers(5.0)
    draw(sites_home, ledger=True)
    sites_home.write({"name": "independent", "epsilon": 0.5})
    sites_home.run(ledger=True)
    kinds = [entry.kind for entry in sites_home.ledger_entries("east")]
    assert kinds == ["reserved", "used", "reserved", "used", "committed"]


def test_a_site_of_few_rows_takes_part_and_judges_nothing(sites_home: SitesHome) -> None:
    # A refusal would tell the server and all other sites on which side of a limit its number of rows is.
    sites_home.table("east").head(60).to_csv(sites_home.home / "east.csv", index=False)
    sites_home.write({"name": "independent", "epsilon": 1.0})
    outcome = sites_home.run()
    assert outcome.verdicts["east"] == "INCONCLUSIVE" and outcome.verdicts["north"] != "not heard"
    assert "reason" in (sites_home.home / "at-east" / "verdict.json").read_text()


def test_a_ledger_that_has_no_room_refuses_before_anything_is_answered(sites_home: SitesHome) -> None:
    sites_home.open_ledgers(1.5)
    sites_home.write({"name": "independent", "epsilon": 1.0})
    sites_home.run(ledger=True, outs="first", out="server-1")
    with pytest.raises(BadInput, match="epsilon"), sites_home.participants(ledger=True, outs="second"):
        pass


def test_sites_that_hold_other_jobs_do_not_answer_each_other(sites_home: SitesHome) -> None:
    site = Site("east", sites_home.write(MST), sites_home.table("east"))
    other = sites_home.write(MST, seed=1)
    with pytest.raises(SitesError, match="generator, training, seed, policy, rows"):
        site.answer(pack({"job": other.digest, "task": "hello"}))


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
