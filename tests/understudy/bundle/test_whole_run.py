"""Bundles of real runs: verified, signed off, withdrawn, and made of a table from elsewhere."""

import json
import shutil
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from tests.understudy.conftest import Ran, Workspace
from tests.understudy.conftest import run_command as command
from tests.understudy.planted import POLICY, SEED, WAIVER, write_policy


@pytest.fixture
def out(finished_out: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished_out, tmp_path / "out"))


def texts(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_a_run_leaves_a_bundle_that_verifies(finished: tuple[Workspace, Ran]) -> None:
    folder, ran = finished[0].folder, finished[1].json
    checked = command("verify", folder / "out", "--public-key", folder / "release.key.pub", "--json")
    assert checked.exit_code == 0, checked.stderr
    content, about = checked.json, checked.json["about"]
    assert (content["verified"], content["to_hand_on"]["verified"]) == (True, True)
    assert (ran["manifest_sha256"], ran["signer"]) == (content["manifest_sha256"], content["signer"])
    known = [about[key] for key in ("verdict", "release", "dataset", "unit")]
    assert known == ["PASS", "independent", "planted", "row"]
    assert about["valid_until"] == str(date.fromisoformat(about["made_at"][:10]) + timedelta(days=30))
    assert about["seeds"] == {"job": SEED, "split": SEED}


def test_signing_off_and_withdrawing_go_through_the_command_line(finished: tuple[Workspace, Ran], out: Path) -> None:
    folder = finished[0].folder
    key, register = folder / "release.key", out.parent / "withdrawn.jsonl"
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).date()
    public = list[str]()
    for number, name in enumerate(("A. Lind", "B. Ode"), start=1):
        mine = out.parent / f"{number}.key"
        who = ("--name", name, "--role", "officer", "--expires", tomorrow)
        content = command("key", mine, "--json").json
        assert command("key", f"{mine}.pub", "--json").json["fingerprint"] == content["fingerprint"]
        assert command("verify", out, "--require-sign-off").exit_code == 1
        refused = command("sign-off", out, *who)
        assert (refused.exit_code, "one person could write it under two names" in refused.stderr) == (2, True)
        done = command("sign-off", out, *who, "--key", mine, "--public-key", f"{key}.pub", *public, "--json")
        assert done.exit_code == 0, done.stderr
        signed = done.json["sign_off"]
        assert (signed["expires"], signed["signer"]) == (str(tomorrow), content["fingerprint"])
        assert ("A second person has to sign it off" in done.stderr) == (number == 1)
        public += ["--sign-off-key", f"{mine}.pub"]
    checked = command("verify", out, "--public-key", f"{key}.pub", *public, "--require-sign-off")
    assert checked.exit_code == 0 and "'A. Lind' ('officer')" in checked.stdout
    copy = Path(shutil.copytree(out, out.parent / "copy"))
    who = ("--name", "A. Lind", "--role", "officer", "--reason", "misdeclared", "--register", register, "--key", key)
    assert command("withdraw", out, *who).exit_code == 0
    assert command("verify", copy).exit_code == 0
    gone = command("verify", copy, "--register", register)
    assert gone.exit_code == 1 and "WITHDRAWN" in gone.stdout and "NOT VERIFIED" in gone.stdout


def test_a_gate_makes_the_same_bundle_of_the_evaluated_table_alone(
    finished: tuple[Workspace, Ran], tmp_path: Path
) -> None:
    folder = finished[0].folder
    out, bundle = folder / "out", tmp_path / "bundle"
    table, named = out / "synthetic" / "independent.csv", ("--policy", folder / "lenient.toml")
    options = ("--schema", out / "schema.toml", "--job", out / "job.toml", "--sign-key", folder / "release.key")
    done = command("gate", out / "evaluation.json", "--synthetic", table, "--bundle", bundle, *named, *options)
    assert done.exit_code == 0, done.stderr
    assert command("verify", bundle, "--public-key", folder / "release.key.pub").exit_code == 0
    text = json.loads((bundle / "manifest.json").read_text())["predicate"]["about"]
    assert (text["release"], text["verdict"]) == ("independent", "PASS")
    assert texts(bundle / "to-hand-on").keys() == texts(out / "to-hand-on").keys()
    other = ("--synthetic", folder / "table.csv")
    for wrong in (other, ("--synthetic", table, "--job", out / "schema.toml"), ()):
        refused = command("gate", out / "evaluation.json", "--bundle", tmp_path / "no", *wrong)
        assert refused.exit_code == 2, wrong
        assert refused.stderr.count("\n") == 1, refused.stderr
    assert command("gate", out / "evaluation.json", "--synthetic", table, "--bundle", bundle).exit_code == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bundle"]


def test_what_a_public_text_counts_does_not_depend_on_the_rows(finished: tuple[Workspace, Ran], tmp_path: Path) -> None:
    folder = finished[0].folder
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


def test_a_table_that_passes_inside_and_fails_in_public_is_not_signed_off(workspace: Workspace) -> None:
    folder, rule = workspace.folder, {"measure": "statement.epsilon", "limit": 0.5, "why": "so much and no more"}
    policy, waiver = {**POLICY, "rules": [rule, *POLICY["rules"]]}, {**WAIVER, "measure": "statement.epsilon"}  # type: ignore[misc]
    write_policy(folder, policy, waiver)
    workspace.write_job(
        release="independent", policy="lenient.toml", generators={"independent": {"epsilon": 1.0}},
        evaluation={"measures": ["validity", "privacy.copies"]}, waivers="answers.toml",
    )  # fmt: skip
    ran = workspace.run("run", folder / "job.toml", "--out", folder / "out")
    assert ran.exit_code == 0, ran.stderr
    text = json.loads((folder / "out" / "verdict.json").read_text())
    assert (text["verdict"], text["verdict_to_hand_on"]) == ("PASS", "FAIL")
    assert workspace.run("key", folder / "lind.key").exit_code == 0
    who = ("--name", "A. Lind", "--role", "officer", "--key", folder / "lind.key")
    refused = workspace.run("sign-off", folder / "out", *who)
    assert refused.exit_code == 2 and "passes inside, but the report to hand on says FAIL" in refused.stderr
    assert not list((folder / "out").glob("sign-off*"))
