"""Jobs of several sites that cannot be carried out are refused in a sentence, before any row is read."""

from pathlib import Path
from typing import Any

import pytest
import tomli_w
from typer.testing import CliRunner

from synth.errors import BadInput
from tests.extras.sites.conftest import NAMES, SitesHome
from tests.understudy.conftest import SCHEMA, SECRET
from understudy.cli import app
from understudy.console import BAD_INPUT
from understudy.data.source import find_table
from understudy.extras.sites.channel import SitesError, pack
from understudy.extras.sites.participant import Participant
from understudy.extras.sites.site import CountQuery, Site

MST = {"name": "mst", "epsilon": 1.0}
SITES: dict[str, Any] = {name: {} for name in NAMES}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "two sites": ({"sites": {"a": {}, "b": {}}}, "name three or more"),
    "a name that names no file": ({"sites": {**SITES, "../x": {}}}, "rename one"),
    "all collude": ({"colluding": 3}, "have to hide each other"),
    "half drop out": ({"colluding": 0, "dropouts": 2}, "lower one of the two"),
    "two sums with a colluder's help": ({"sites": {**SITES, "x": {}}, "dropouts": 2}, "two sums of the same answers"),
    "exact distances": ({"generator": {**MST, "choices": "exponential"}}, "needs exact distances in one place"),
    "no epsilon": ({"generator": {"name": "mst"}}, "set one"),
    "trees": ({"generator": {"name": "trees"}}, "choose one"),
    "no generator": ({"generator": {"epsilon": 1.0}}, "choose one"),
    "a parameter of another": ({"generator": {**MST, "steps": 3}}, "generator: "),
    "a measure that is none": ({"measures": ["fidelity.colums"]}, "did you mean"),
    "a key that is none": ({"coluding": 1}, "colluding"),
    "training of counts": ({"training": {"local_steps": 2}}, "takes no steps; leave it out"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_job_that_cannot_be_carried_out_is_refused(sites_home: SitesHome, case: str) -> None:
    changed, reason = REFUSED[case]
    content = {"schema": "schema.toml", "generator": MST, "sites": SITES, **changed}
    (sites_home.home / "job.toml").write_text(tomli_w.dumps(content))
    with pytest.raises(BadInput, match=reason):
        _ = sites_home.inputs


def test_a_domain_that_would_be_measured_is_refused(sites_home: SitesHome) -> None:
    measured = {**SCHEMA["columns"], "town": {"kind": "categorical", "measure": True}}
    (sites_home.home / "schema.toml").write_text(tomli_w.dumps({**SCHEMA, "columns": measured}))
    with pytest.raises(BadInput, match="columns=town are to be measured"):
        sites_home.write(MST)


def test_a_site_of_another_name_and_an_output_that_is_taken_are_refused(sites_home: SitesHome, tmp_path: Path) -> None:
    inputs, table = sites_home.write(MST), find_table(str(sites_home.home / "east.csv"))
    with pytest.raises(BadInput, match="site='eats' is none of the job's"):
        Participant("eats", inputs, table, tmp_path / "new", None)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    with pytest.raises(BadInput, match="taken"):
        Participant("east", inputs, table, tmp_path / "taken", None)


def test_unfinished_work_of_another_job_does_not_stop_the_corrected_one(sites_home: SitesHome) -> None:
    sites_home.write(MST)
    with sites_home.participants() as sites:
        sites["east"].work.write_state({**sites["east"].work.state, "more": 1})
    sites_home.write({"name": "independent", "epsilon": 0.5})
    assert sites_home.run().n_sums == 1


def draw(home: SitesHome, **more: Any) -> None:
    """Every site answers, and the run is cut short."""
    inputs = home.write({"name": "independent", "epsilon": 1.0})
    with home.participants(**more) as sites:
        for site in sites.values():
            site.site.noisy(CountQuery(number=0, event=0, kind="cells"))
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


def test_a_ledger_without_a_dataset_is_refused_first(sites_home: SitesHome) -> None:
    sites_home.write(MST)
    (sites_home.home / "schema.toml").write_text(tomli_w.dumps({**SCHEMA, "n_units": 1600}))
    content = {"schema": "schema.toml", "generator": MST, "sites": {**SITES, "east": {"ledger": "east.db"}}}
    (sites_home.home / "job.toml").write_text(tomli_w.dumps(content))
    with pytest.raises(BadInput, match='add dataset = "NAME"'):
        _ = sites_home.inputs


def test_check_knows_a_job_of_several_sites(sites_home: SitesHome) -> None:
    sites_home.write(MST)
    job = sites_home.home / "job.toml"
    checked = CliRunner().invoke(app, ["check", str(job)])
    assert checked.exit_code == 0 and "a job of several sites that can be used" in checked.output
    job.write_text(job.read_text().replace("mst", "trees"))
    checked = CliRunner().invoke(app, ["check", str(job)])
    assert checked.exit_code == BAD_INPUT and "not generator.name='trees'" in checked.output
    assert "colluding" in CliRunner().invoke(app, ["check", "--json-schema", "sites"]).output


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


def test_a_table_that_does_not_fit_names_no_value_of_it(sites_home: SitesHome) -> None:
    inputs = sites_home.write(MST)
    (sites_home.home / "bad.csv").write_text(f"age,town\n1,{SECRET}\n")
    site = Participant("east", inputs, find_table(str(sites_home.home / "bad.csv")), sites_home.home / "out-east", None)
    with pytest.raises(BadInput) as refused, site.at_work():
        pass
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    "changed", [{"seed": 1}, {"rows": 10}, {"policy": "public"}, {"dropouts": 1, "colluding": 0}], ids=str
)
def test_sites_that_hold_other_jobs_do_not_answer_each_other(sites_home: SitesHome, changed: dict[str, Any]) -> None:
    site = Site("east", sites_home.write(MST), sites_home.table("east"))
    other = sites_home.write(MST, **changed)
    with pytest.raises(SitesError, match="generator, training, seed, policy, rows"):
        site.answer(pack({"job": other.digest, "task": "hello"}))


@pytest.mark.parametrize("words", [
    ["run", "nothing.toml", "--out", "x"], ["server", "nothing.toml", "--keys", "k", "--out", "x"],
    ["keys", "--out", "k"], ["keys", "--out", "k", "--site", "a", "--host", "b"],
])  # fmt: skip
def test_bad_input_ends_with_exit_code_2(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(app, ["sites", *words]).exit_code == BAD_INPUT
    assert not any(tmp_path.iterdir())
