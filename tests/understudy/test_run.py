"""`understudy run`: exit codes, what is clamped and split, and real tables end to end."""

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from evaluate.result_io import evaluation_from
from synth.declare import declare_schema
from synth.errors import JobError
from synth.infer import infer_schema
from synth.schema import Schema
from synth.schema_file import write_schema
from synth.table import read_table
from tests.understudy.conftest import run_command

LENIENT = {
    "name": "lenient", "version": 1, "audience": "tests",
    "rules": [
        {"measure": "validity.rows", "limit": 0.5, "why": "any table of ours is valid"},
        {"measure": "privacy.copies.people", "limit": 0.5, "why": "no table of ours is a copy"},
    ],
}  # fmt: skip


def write_policy(workspace: Any, **changes: Any) -> str:
    import tomli_w

    (workspace.folder / "policy.toml").write_text(tomli_w.dumps({**LENIENT, **changes}))
    return "policy.toml"


def run(workspace: Any, *arguments: str) -> Any:
    return workspace.run("run", workspace.folder / "job.toml", "--out", workspace.folder / "out", *arguments)


@pytest.mark.parametrize(("named", "code"), [({"release": "independent"}, 1), ({}, 0)])
def test_the_exit_code_is_the_verdict_on_the_table_to_release(workspace: Any, named: dict[str, str], code: int) -> None:
    policy = write_policy(workspace, rules=[{"measure": "statement.epsilon", "limit": 0.5, "why": "w"}])
    workspace.write_job(policy=policy, evaluation={"measures": ["validity"]}, **named)
    ran = run(workspace, "--json")
    assert (ran.exit_code, ran.json["exit_code"]) == (code, code), ran.stderr
    assert ran.json["candidates"][0]["verdict"] == "FAIL"


MISTYPED = {"kind": "integer", "bounds": [18, 30]}
CLAMPED = "alues outside the schema were clamped"  # the report's sentence begins with a capital


def test_values_that_were_clamped_are_told_inside_and_nowhere_else_however_often_a_run_is_resumed(
    workspace: Any, table: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = table()
    frame.loc[:8, "town"] = "Atlantis"
    workspace.write_table(frame)
    columns = tomllib.loads((workspace.folder / "schema.toml").read_text())["columns"]
    workspace.write_schema(columns={**columns, "age": MISTYPED})
    workspace.write_job(
        policy=write_policy(workspace), generators={"independent": {"epsilon": 1.0}}, release="independent",
        evaluation={"measures": ["validity", "privacy.copies"]}, released_numbers={"epsilon": 1.0},
    )  # fmt: skip
    told = (
        f"{CLAMPED}, or became missing where they cannot be read: 'age' {(frame['age'] > 30).mean():.0%}, 'town' 1.0%"
    )

    def stop(*_: object) -> None:
        raise JobError("stopped here")

    for where in ("understudy.run.run._join", "understudy.run.run._write"):
        with monkeypatch.context() as patch:
            patch.setattr(where, stop)
            cut = run(workspace)
        assert (cut.exit_code, cut.stderr.count(told)) == (2, 1), cut.stderr
    ran = run(workspace, "--json")
    assert (ran.exit_code, ran.stderr.count(told)) == (0, 1), ran.stderr
    out = workspace.folder / "out"
    evaluation = evaluation_from((out / "evaluation.json").read_text())
    ages = [each for each in evaluation.candidates[0].estimates if each.subject == ("age",)]
    assert ages[0].reference < 0.9 < ages[0].value == 1.0, "real rows are judged as they were before they were clamped"
    warnings = evaluation.provenance.warnings
    assert told in warnings[0]
    assert len([text for text in warnings if CLAMPED in text]) == 1
    assert CLAMPED in (out / "report.html").read_text()
    assert "Atlantis" not in ran.stdout + ran.stderr + "".join(warnings)
    public = [path for path in (out / "to-hand-on").rglob("*") if path.is_file()]
    assert {"report-to-hand-on.html", "model-card.yaml", "released.json"} <= {path.name for path in public}
    for path in (*public, out / "metrics.public.prom"):
        assert "were clamped" not in path.read_text(), path


def test_without_a_folder_the_plan_is_shown_and_nothing_runs(workspace: Any) -> None:
    workspace.write_job(generators={"independent": {}, "mst": {"epsilon": 1.0}}, release="mst")
    before = sorted(workspace.folder.iterdir())
    ran = workspace.run("run", workspace.folder / "job.toml")
    assert ran.exit_code == 0
    assert "Generator mst: mst, epsilon 1, delta 1e-06, named for release" in ran.stdout
    assert sorted(workspace.folder.iterdir()) == before


@pytest.mark.parametrize(("generators", "keyed"), [({"mst": {"epsilon": 1.0}}, True), ({"mst": {}}, False)])
def test_a_job_that_promises_something_splits_by_keyed_hash_and_says_so(
    workspace: Any, table: Any, monkeypatch: pytest.MonkeyPatch, generators: dict[str, Any], keyed: bool
) -> None:
    from understudy.run import stages

    sides, original = [], stages.split
    monkeypatch.setattr(stages, "split", lambda plan, real: sides.append(original(plan, real)) or sides[-1])
    workspace.write_job(generators=generators, evaluation={"measures": ["validity"]})
    for turn in range(2):
        frame = table(900, 0)
        others = frame.index[5:400]
        frame.loc[others, "ill"] ^= bool(turn)  # the target of others changes: a stratified draw would move
        workspace.write_table(frame)
        out = workspace.folder / f"out{turn}"
        assert workspace.run("run", workspace.folder / "job.toml", "--out", out).exit_code == 0
    text = json.loads((workspace.folder / "out0" / "evaluation.json").read_text())["provenance"]["split"]
    assert text.startswith("keyed hash" if keyed else "stratified draw")

    def people(rows: pd.DataFrame) -> set[tuple[str, ...]]:
        return {tuple(row) for row in rows[["age", "income"]].astype(float).round(6).astype(str).to_numpy()}

    still = people(frame.drop(index=others)) - people(frame.loc[others])
    first, second = (people(side.holdout.frame()) & still for side in sides)
    assert (first == second) == keyed


TARGETS = {"adult": "income", "insurance": "charges", "airbnb_nyc": "price", "diabetes_hospital": "readmitted"}
UNITS = {"adult": 48_842, "insurance": 1_338, "airbnb_nyc": 48_895, "diabetes_hospital": 71_518}


def declared(path: Path) -> Schema:
    name = path.name.removesuffix(".csv.gz")
    entity = "patient_nbr" if name == "diabetes_hospital" else None
    return declare_schema(infer_schema(read_table(path), target=TARGETS[name], entity=entity), n_units=UNITS[name])


@pytest.mark.slow  # every measure of a real table
@pytest.mark.parametrize("name", ["insurance", "adult", "airbnb_nyc", "diabetes_hospital"])
def test_a_private_run_on_a_real_table_ends_in_a_report(
    name: str, shared_table: Callable[[str], Path], tmp_path: Path
) -> None:
    path = shared_table(f"{name}.csv.gz")
    write_schema(declared(path), tmp_path / "schema.toml")
    job = f'[table]\npath = "{path}"\nschema = "schema.toml"\n[generators.mst]\nepsilon = 1.0\n'
    (tmp_path / "job.toml").write_text(job)
    ran = run_command("run", tmp_path / "job.toml", "--out", tmp_path / "out")
    assert ran.exit_code == 0, ran.stderr
    out = tmp_path / "out"
    assert {p.name for p in out.iterdir()} >= {"report.html", "evaluation.json", "verdict.json", "synthetic", "models"}
    (candidate,) = json.loads((out / "evaluation.json").read_text())["candidates"]
    assert candidate["statement"]["epsilon"] <= 1.0
    assert {f["reason"] for f in candidate["failures"]} <= {"skipped", "not applicable"}
    schema = declared(path)
    synthetic = read_table(out / "synthetic" / "mst.csv", schema)
    assert list(synthetic.columns) == list(schema.kept)
