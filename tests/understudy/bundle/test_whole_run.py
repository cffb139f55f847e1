"""Real runs and gates through the command line: what they seal, and that nothing of real rows is in what may leave."""

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tomli_w
from typer.testing import CliRunner

from evaluate.result_io import evaluation_from
from tests.understudy.conftest import Workspace
from understudy.provenance import sha256
from understudy.run import pool as making
from understudy.run import run as carrying_out

N_ROWS = 7919
SCHEMA: dict[str, Any] = {
    "format": 1, "status": "declared", "n_units": 8200, "dataset": "planted", "target": "ill",
    "columns": {
        "name": {"kind": "identifier", "template": "AAAAAAaa####"},
        "age": {"kind": "integer", "bounds": [18, 90]},
        "income": {"kind": "real", "bounds": [0.0, 200.0], "decimals": 10},
        "ill": {"kind": "boolean"},
    },
}  # fmt: skip
POLICY = {
    "name": "lenient", "version": 4, "audience": "tests", "valid_days": 30,
    "rules": [
        {"measure": "validity.rows", "limit": 0.5, "why": "any table of ours is valid"},
        {"measure": "privacy.copies.people", "limit": 0.5, "why": "no table of ours is a copy"},
    ],
}  # fmt: skip


WAIVER = {
    "policy": "lenient", "version": 4, "candidate": "independent", "measure": "validity.rows", "owner": "A. Lind",
    "reason": "known", "until": date(2999, 1, 1),
}  # fmt: skip
TEXTS = (".json", ".html", ".toml", ".yaml", ".md", ".csv", ".xml", ".prom")
COLUMNS = ("columns.tvd", "columns.tvd.excess", "columns.ks", "columns.wasserstein", "columns.chi2")


def planted() -> pd.DataFrame:
    """Real rows whose names and incomes are nowhere else."""
    rng = np.random.default_rng(0)
    names = [f"QZEBRAqz{i:04d}" for i in rng.permutation(N_ROWS)]
    income = np.clip(rng.normal(60, 20, N_ROWS), 0, 200).round(10)
    ages = rng.integers(18, 91, N_ROWS)
    return pd.DataFrame({"name": names, "age": ages, "income": income, "ill": rng.random(N_ROWS) < 0.3})


def write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(tomli_w.dumps(content), encoding="utf-8")


@contextmanager
def edited_meanwhile(folder: Path) -> Iterator[None]:
    """Everything that a run was given is another while it works, and as it was in the end."""
    kept = {path: path.read_text() for path in folder.glob("*.toml")}

    def make_all(*given: Any) -> None:
        for path, text in kept.items():
            path.write_text(f"{text}# edited meanwhile\n".replace("limit = 0.5", "limit = 0.999"))
        making.make_all(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(carrying_out, "make_all", make_all)
        yield
    assert all(path.read_text() != text for path, text in kept.items())
    for path, text in kept.items():
        path.write_text(text)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Workspace, Any]]:
    workspace = Workspace(tmp_path_factory.mktemp("run"))
    folder = workspace.folder
    workspace.write_table(planted())
    write(folder / "schema.toml", SCHEMA)
    write(folder / "lenient.toml", POLICY)
    write(folder / "answers.toml", {"waivers": [WAIVER]})
    workspace.write_job(
        name="Planted", seed=48_271_601, release="independent", policy="lenient.toml",
        generators={"independent": {"epsilon": 1.0}},
        evaluation={"measures": ["validity", "fidelity.columns", "fidelity.looks", "privacy.copies"]},
        released_numbers={"epsilon": 0.5}, waivers="answers.toml",
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UNDERSTUDY_KEY_FILE", str(folder / "fingerprint.key"))
        patch.delenv("UNDERSTUDY_LEDGER", raising=False)
        assert workspace.run("key", folder / "release.key").exit_code == 0
        asked = ("run", folder / "job.toml", "--out", folder / "out", "--sign-key", folder / "release.key", "--json")
        with edited_meanwhile(folder):
            done = workspace.run(*asked)
        yield workspace, done


@pytest.fixture
def out(ran: tuple[Workspace, Any], tmp_path: Path) -> Path:
    return Path(shutil.copytree(ran[0].folder / "out", tmp_path / "out"))


def command(*arguments: object) -> Any:
    from understudy.cli import app

    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def texts(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_a_run_leaves_a_bundle_that_verifies(ran: tuple[Workspace, Any]) -> None:
    workspace, done = ran
    assert done.exit_code == 0, done.stderr
    out = workspace.folder / "out"
    assert {
        "report.html", "evaluation.json", "verdict.json", "job.toml", "schema.toml", "policy.toml", "junit.xml",
        "manifest.json", "manifest.json.sig", "synthetic/independent.csv",
        "to-hand-on/independent.csv", "to-hand-on/report-to-hand-on.html", "to-hand-on/model-card.yaml",
        "to-hand-on/README.md", "to-hand-on/schema.toml", "to-hand-on/released.json",
        "to-hand-on/manifest.json", "to-hand-on/manifest.json.sig",
    } <= {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}  # fmt: skip
    found = command("verify", out, "--public-key", workspace.folder / "release.key.pub", "--json")
    assert found.exit_code == 0, found.stderr
    said = json.loads(found.stdout)
    assert said["verified"] is True
    assert done.json["manifest_sha256"] == said["manifest_sha256"]
    assert done.json["signer"] == said["signer"]
    about = said["about"]
    assert (about["verdict"], about["release"], about["dataset"], about["unit"]) == (
        "PASS",
        "independent",
        "planted",
        "row",
    )
    assert about["policy"] == {"name": "lenient", "version": 4, "audience": "tests"}
    assert about["valid_until"] == str(date.fromisoformat(about["made_at"][:10]) + timedelta(days=30))
    assert about["seeds"] == {"job": 48_271_601, "split": 48_271_601}
    assert "numpy" in about["versions"]
    assert said["to_hand_on"]["verified"] is True


def test_what_was_given_is_sealed_as_it_was_understood(ran: tuple[Workspace, Any]) -> None:
    folder, out = ran[0].folder, ran[0].folder / "out"
    given = {"policy": "lenient.toml", "waivers": "answers.toml", "job": "job.toml", "schema": "schema.toml"}
    known = evaluation_from((out / "evaluation.json").read_text()).provenance
    for name, file in given.items():
        assert sha256(out / f"{name}.toml") == sha256(folder / file) == getattr(known, f"{name}_sha256"), name
    finding, _ = json.loads((out / "verdict.json").read_text())["candidates"][0]["findings"]
    assert finding["rule"]["limit"] == 0.5


def test_the_public_folder_holds_nothing_that_was_read_off_real_rows(ran: tuple[Workspace, Any]) -> None:
    workspace, _ = ran
    out = workspace.folder / "out"
    public = texts(out / "to-hand-on")
    everything = "\n".join(public.values())
    around = "\n".join(text for name, text in public.items() if name != "independent.csv")
    around = re.sub(r'"size": \d+', "", around)  # of a file, in the manifest: a count by chance
    evaluation = evaluation_from((out / "evaluation.json").read_text())
    real = planted()
    assert not set(real["name"]) & set(re.findall(r"[A-Z]{6}[a-z]{2}\d{4}", everything))
    assert "ZEBRA" not in around
    incomes = {f"{income:.10f}".rstrip("0") for income in real["income"] if 0 < income < 200}
    assert not incomes & set(re.findall(r"\d+\.\d+", everything))
    inside = {
        str(path.relative_to(out)): path.read_text() for path in out.rglob("*") if path.suffix in TEXTS
    }  # fmt: skip
    showing = {name for name, text in inside.items() if incomes & set(re.findall(r"\d+\.\d+", text))}
    assert showing == {"evaluation.json", "report.html"}
    assert not any("ZEBRA" in text for text in inside.values())
    counts = [N_ROWS, evaluation.real.train_rows, evaluation.real.holdout_rows, int(real["ill"].sum())]
    published = json.loads(public["released.json"])["numbers"]
    noisy = {count for number in published for count in number["drawn"]}  # one in fifty is the real count by chance
    for count in set(counts) - noisy:
        for form in (f"{count}", f"{count:,}", f"{count:,}".replace(",", "\u202f"), f"{count:,}".replace(",", " ")):
            assert re.search(rf"(?<![\w.]){re.escape(form)}(?!\w)", around) is None, form
    assert len(public["independent.csv"].splitlines()) - 1 != N_ROWS
    for name, value in evaluation.provenance.fingerprints.items():
        assert value.partition(":")[2] not in everything, name
    assert "hmac" not in everything.lower()
    assert sha256(workspace.folder / "table.csv") not in everything


def test_the_public_folder_holds_no_seed_no_verdict_and_no_digest_of_what_stays_inside(
    ran: tuple[Workspace, Any],
) -> None:
    out = ran[0].folder / "out"
    everything = "\n".join(texts(out / "to-hand-on").values())
    assert "48271601" not in everything
    about = json.loads((out / "to-hand-on" / "manifest.json").read_text())["predicate"]["about"]
    assert about["verdict"] is None
    assert about["verdicts"] == {}
    assert about["seeds"] == {}
    assert "platform" not in about["versions"]
    inside = [path for path in out.rglob("*") if path.is_file() and "to-hand-on" not in path.relative_to(out).parts]
    shared = {sha256(path) for path in (out / "to-hand-on").iterdir()}
    assert not [path.name for path in inside if sha256(path) not in shared and sha256(path) in everything]
    estimates = evaluation_from((out / "evaluation.json").read_text()).candidates[0].estimates
    measured = [e for e in estimates if e.measure in COLUMNS and len(repr(e.value)) > 8]
    assert len(measured) > 5
    assert not [e.measure for e in measured if repr(e.value)[:8] in everything]


def test_signing_off_and_withdrawing_go_through_the_command_line(ran: tuple[Workspace, Any], out: Path) -> None:
    folder = ran[0].folder
    key, register = folder / "release.key", out.parent / "withdrawn.jsonl"
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).date()
    sealed = json.loads((out / "manifest.json").read_text())["predicate"]["about"]["policy"]
    for_whom = f"Signed off for: {sealed['audience']} (policy {sealed['name']}, version {sealed['version']})\n"
    public = list[str]()
    for number, name in enumerate(("A. Lind", "B. Ode"), start=1):
        mine = out.parent / f"{number}.key"
        who = ("--name", name, "--role", "officer", "--expires", tomorrow)
        made = json.loads(command("key", mine, "--json").stdout)
        assert json.loads(command("key", f"{mine}.pub", "--json").stdout)["fingerprint"] == made["fingerprint"]
        assert command("verify", out, "--require-sign-off").exit_code == 1
        refused = command("sign-off", out, *who)
        assert (refused.exit_code, "one person could write it under two names" in refused.stderr) == (2, True)
        done = command("sign-off", out, *who, "--key", mine, "--public-key", f"{key}.pub", *public, "--json")
        assert done.exit_code == 0, done.stderr
        signed = json.loads(done.stdout)["sign_off"]
        assert (signed["expires"], signed["signer"], signed["policy"]) == (str(tomorrow), made["fingerprint"], sealed)
        assert for_whom in done.stderr
        assert ("A second person has to sign it off" in done.stderr) == (number == 1)
        public += ["--sign-off-key", f"{mine}.pub"]
    checked = command("verify", out, "--public-key", f"{key}.pub", *public, "--require-sign-off")
    assert checked.exit_code == 0
    assert "'A. Lind' ('officer')" in checked.stdout
    assert for_whom in checked.stdout
    assert "VERIFIED" in checked.stdout
    copy = Path(shutil.copytree(out, out.parent / "copy"))
    who = ("--name", "A. Lind", "--role", "officer", "--reason", "misdeclared", "--register", register, "--key", key)
    assert command("withdraw", out, *who).exit_code == 0
    assert command("verify", copy).exit_code == 0
    gone = command("verify", copy, "--register", register)
    assert gone.exit_code == 1
    assert "WITHDRAWN" in gone.stdout
    assert "NOT VERIFIED" in gone.stdout


def test_a_gate_makes_the_same_bundle_of_the_evaluated_table_alone(ran: tuple[Workspace, Any], tmp_path: Path) -> None:
    folder = ran[0].folder
    out, bundle = folder / "out", tmp_path / "bundle"
    table, named = out / "synthetic" / "independent.csv", ("--policy", folder / "lenient.toml")
    given = ("--schema", out / "schema.toml", "--job", out / "job.toml", "--sign-key", folder / "release.key")
    done = command("gate", out / "evaluation.json", "--synthetic", table, "--bundle", bundle, *named, *given)
    assert done.exit_code == 0, done.stderr
    assert command("verify", bundle, "--public-key", folder / "release.key.pub").exit_code == 0
    said = json.loads((bundle / "manifest.json").read_text())["predicate"]["about"]
    assert (said["release"], said["verdict"]) == ("independent", "PASS")
    assert texts(bundle / "to-hand-on").keys() == texts(out / "to-hand-on").keys()
    for wrong in (
        ("--synthetic", folder / "table.csv"),
        ("--synthetic", table, "--schema", folder / "job.toml"),
        ("--synthetic", table, "--job", out / "schema.toml"),
        ("--synthetic", folder / "nothing.csv"),
        ("--synthetic", table, "--candidate", "other"),
        (),
    ):
        refused = command("gate", out / "evaluation.json", "--bundle", tmp_path / "no", *wrong)
        assert refused.exit_code == 2, wrong
        assert refused.stderr.count("\n") == 1, refused.stderr
    assert command("gate", out / "evaluation.json", "--synthetic", table, "--bundle", bundle).exit_code == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bundle"]


def test_a_table_that_was_made_here_is_published_byte_for_byte(ran: tuple[Workspace, Any]) -> None:
    out = ran[0].folder / "out"
    assert sha256(out / "to-hand-on" / "independent.csv") == sha256(out / "synthetic" / "independent.csv")


def test_evidence_that_counts_no_longer_is_not_sealed_anew(ran: tuple[Workspace, Any], tmp_path: Path) -> None:
    folder, table = ran[0].folder, ran[0].folder / "out" / "synthetic" / "independent.csv"
    evaluation = evaluation_from((folder / "out" / "evaluation.json").read_text())
    evaluation = replace(evaluation, provenance=replace(evaluation.provenance, evaluated_at="2020-01-01T00:00:00Z"))
    (tmp_path / "old.json").write_text(evaluation.to_json())
    named = ("--synthetic", table, "--bundle", tmp_path / "b", "--policy", folder / "lenient.toml")
    done = command("gate", tmp_path / "old.json", *named)
    assert done.exit_code == 2
    assert "counted until 2020-01-31" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["old.json"]


def test_what_a_public_text_counts_does_not_depend_on_the_rows(ran: tuple[Workspace, Any], tmp_path: Path) -> None:
    folder = ran[0].folder
    evaluation = json.loads((folder / "out" / "evaluation.json").read_text())
    assert evaluation["provenance"]["attempts"]["by_name"] == {
        name: evaluation["provenance"]["attempts"][name] for name in ("evaluations", "tables", "since")
    }
    public = []
    for rows in (1, 77):
        evaluation["provenance"]["attempts"]["evaluations"] = rows
        (tmp_path / "e.json").write_text(json.dumps(evaluation))
        bundle, table = tmp_path / f"b{rows}", folder / "out" / "synthetic" / "independent.csv"
        named = ("--synthetic", table, "--bundle", bundle, "--policy", folder / "lenient.toml")
        assert command("gate", tmp_path / "e.json", *named).exit_code == 0
        public.append(texts(bundle / "to-hand-on"))
    for name in ("README.md", "model-card.yaml", "report-to-hand-on.html"):
        assert public[0][name] == public[1][name]
        assert "declared name" in public[0][name]


def test_a_key_that_cannot_sign_stops_a_run_before_any_work(ran: tuple[Workspace, Any], tmp_path: Path) -> None:
    bad = tmp_path / "bad.key"
    bad.write_text("no key")
    done = command("run", ran[0].folder / "job.toml", "--out", tmp_path / "out", "--sign-key", bad)
    assert done.exit_code == 2
    assert done.stderr.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.key"]


def test_what_is_no_bundle_and_what_is_no_fingerprint_is_bad_input(out: Path, tmp_path: Path) -> None:
    assert command("verify", tmp_path / "nothing").exit_code == 2
    assert command("verify", tmp_path).exit_code == 2
    assert command("verify", out, "--signer", "abc").exit_code == 2
    assert command("verify", out, "--signer", "0" * 64).exit_code == 1
    assert command("verify", out, "--register", tmp_path / "nothing").exit_code == 2


def test_a_table_that_passes_inside_and_fails_in_public_is_not_signed_off(workspace: Workspace) -> None:
    folder, rule = workspace.folder, {"measure": "statement.epsilon", "limit": 0.5, "why": "so much and no more"}
    write(folder / "lenient.toml", {**POLICY, "rules": [rule, *POLICY["rules"]]})  # type: ignore[misc]
    write(folder / "answers.toml", {"waivers": [{**WAIVER, "measure": "statement.epsilon"}]})
    workspace.write_job(
        release="independent", policy="lenient.toml", generators={"independent": {"epsilon": 1.0}},
        evaluation={"measures": ["validity", "privacy.copies"]}, waivers="answers.toml",
    )  # fmt: skip
    ran = workspace.run("run", folder / "job.toml", "--out", folder / "out")
    assert ran.exit_code == 0, ran.stderr
    assert "counts until 2999-01-01, longer than the valid_days=30" in ran.stderr
    said = json.loads((folder / "out" / "verdict.json").read_text())
    assert (said["verdict"], said["verdict_to_hand_on"]) == ("PASS", "FAIL")
    assert "FAIL: <small>for <bdi>" in (folder / "out" / "to-hand-on" / "report-to-hand-on.html").read_text()
    assert workspace.run("key", folder / "lind.key").exit_code == 0
    who = ("--name", "A. Lind", "--role", "officer", "--key", folder / "lind.key")
    refused = workspace.run("sign-off", folder / "out", *who)
    assert refused.exit_code == 2
    assert "passes inside, but the report to hand on says FAIL" in refused.stderr
    assert not list((folder / "out").glob("sign-off*"))
    assert workspace.run("verify", folder / "out").exit_code == 0
    assert workspace.run("verify", folder / "out", "--require-sign-off").exit_code == 1
