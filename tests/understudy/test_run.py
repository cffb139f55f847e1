"""`understudy run`, end to end: what it leaves, what its exit code says, and that nothing half-done is ever left."""

import json
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from evaluate.result_io import evaluation_from
from synth.errors import JobError
from synth.generators.registry import load_model

LENIENT = {
    "name": "lenient", "version": 1, "audience": "tests",
    "rules": [
        {"measure": "validity.rows", "limit": 0.5, "why": "any table of ours is valid"},
        {"measure": "privacy.copies.people", "limit": 0.5, "why": "no table of ours is a copy"},
    ],
}  # fmt: skip
FAST = ["validity", "fidelity.columns", "fidelity.pairs", "privacy.copies"]


def write_policy(workspace: Any, **changes: Any) -> str:
    import tomli_w

    (workspace.folder / "policy.toml").write_text(tomli_w.dumps({**LENIENT, **changes}))
    return "policy.toml"


def run(workspace: Any, *arguments: str) -> Any:
    return workspace.run("run", workspace.folder / "job.toml", "--out", workspace.folder / "out", *arguments)


@pytest.mark.parametrize(
    ("measure", "released", "code"),
    [
        ("validity.rows", True, 0), ("statement.epsilon", True, 1), ("privacy.membership.auc", True, 3),
        ("statement.epsilon", False, 0),
    ],
)  # fmt: skip
def test_the_exit_code_is_the_verdict_on_the_table_to_release(
    workspace: Any, measure: str, released: bool, code: int
) -> None:
    rule = {"measure": measure, "limit": 0.5, "why": "w"}
    policy = write_policy(workspace, rules=[rule, LENIENT["rules"][1]])
    named = {"release": "independent"} if released else {}
    workspace.write_job(policy=policy, evaluation={"measures": ["validity", "privacy.copies"]}, **named)
    ran = run(workspace, "--json")
    assert (ran.exit_code, ran.json["exit_code"]) == (code, code), ran.stderr
    verdict = {1: "FAIL", 3: "INCONCLUSIVE"}.get(code, "FAIL" if not released else "PASS")
    assert ran.json["candidates"][0]["verdict"] == verdict


@pytest.mark.parametrize(
    ("clause", "epsilon", "code"),
    [(None, None, 2), (None, 1.0, 0), ("clamp", None, 0), ("refuse", 1.0, 2)],
)
def test_values_outside_the_bounds_are_clamped_where_a_fit_is_private_or_the_job_says_so(
    workspace: Any, table: Any, clause: str | None, epsilon: float | None, code: int
) -> None:
    frame = table()
    frame.loc[3, "age"] = 130
    workspace.write_table(frame)
    path = {"path": "table.csv", "schema": "schema.toml"} | ({} if clause is None else {"outside": clause})
    asked = {} if epsilon is None else {"epsilon": epsilon}
    workspace.write_job(table=path, generators={"independent": asked}, evaluation={"measures": ["validity"]})
    assert run(workspace).exit_code == code


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
    assert "Generator independent: independent, no formal guarantee" in ran.stdout
    assert f"nothing was run. To run it: understudy run {workspace.folder / 'job.toml'} --out job" in ran.stdout
    assert sorted(workspace.folder.iterdir()) == before


def test_an_interrupted_run_leaves_nothing(workspace: Any, table: Any) -> None:
    workspace.write_table(table(60_000, 1))
    workspace.write_schema(n_units=60_000)
    # A fit of seconds: a finished one would be kept.
    workspace.write_job(generators={"aim": {"n_bins": 500, "max_model_mb": 500.0}})
    before = workspace.listing()
    process = subprocess.Popen(
        [sys.executable, "-m", "understudy", "run", "job.toml", "--out", "out"],
        cwd=workspace.folder, stderr=subprocess.PIPE, text=True,
        # A shell that runs the tests in the background has told its children to ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert process.stderr is not None
    next(line for line in process.stderr if line.startswith("fit"))
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert "Traceback" not in stderr
    assert workspace.listing() == before


def test_the_demo_fits_its_schema() -> None:
    from synth.schema_file import read_schema
    from synth.table import read_table
    from understudy.data.source import embedded_table
    from understudy.job.spec import read_job

    examples = Path(__file__).parents[2] / "examples"
    job = read_job(examples / "fair.toml")
    assert job.table.source is not None
    schema = read_schema(examples / job.table.schema_path)
    assert read_table(embedded_table(job.table.source), schema).shape == (6366, 9)
    assert schema.n_units == 6366
    assert job.release in job.generators


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


def test_a_job_weighs_columns_and_the_model_says_so(workspace: Any) -> None:
    name, weights = "aim", {"income": 3.0, "age": 0.5}
    workspace.write_job(
        generators={name: {"epsilon": 1.0, "rounds": 1, "workload": weights}},
        release=name, evaluation={"measures": ["validity"], "audit": True, "time_limit_s": 1.0},
    )  # fmt: skip
    ran = run(workspace)
    assert ran.exit_code in (0, 1, 3), ran.stderr
    out = workspace.folder / "out"
    parameters = load_model(out / "models" / name).parameters
    assert parameters["workload"] == weights
    (candidate,) = evaluation_from((out / "evaluation.json").read_text()).candidates
    assert candidate.generator.parameters["workload"] == weights
    assert candidate.audit is not None
    for card in (out / "cards" / f"{name}.yaml", out / "to-hand-on" / "model-card.yaml"):
        assert yaml.safe_load(card.read_text())["made"]["parameters"]["workload"] == weights
