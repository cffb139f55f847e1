"""`understudy run`, end to end: what it leaves, what its exit code says, and that nothing half-done is ever left."""

import json
import os
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
from understudy.data.load import clamped
from understudy.provenance import sha256

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


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Any:
    """One run with `independent` and a private `mst`, shared by the tests that only look at it."""
    conftest: Any = sys.modules[
        request.config.pluginmanager.getplugin(str(Path(__file__).parent / "conftest.py")).__name__
    ]
    workspace = conftest.Workspace(tmp_path_factory.mktemp("finished"))
    workspace.write_table(conftest.small_table())
    workspace.write_schema()
    workspace.write_job(
        name="Small", seed=3, release="mst", policy="internal",
        generators={"independent": {"rows": 300}, "mst": {"epsilon": 2.0}},
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UNDERSTUDY_KEY_FILE", str(workspace.folder / "fingerprint.key"))
        return workspace, run(workspace)


def test_a_run_leaves_one_whole_folder(finished: Any) -> None:
    workspace, ran = finished
    out = workspace.folder / "out"
    assert ran.exit_code in (0, 1, 3), ran.stderr
    assert {str(p.relative_to(out)) for p in out.rglob("*") if p.is_file()} == {
        "report.html", "evaluation.json", "verdict.json", "job.toml", "schema.toml",
        "synthetic/independent.csv", "synthetic/mst.csv",
        "models/independent/model.json", "models/independent/arrays.safetensors",
        "models/mst/model.json", "models/mst/arrays.safetensors",
        "summary.md", "metrics.public.prom", "metrics.internal.prom", "junit.xml",
        "cards/independent.yaml", "cards/independent.md", "cards/mst.yaml", "cards/mst.md",
        "policy.toml", "manifest.json", "manifest.json.sig",
        *(f"to-hand-on/{name}" for name in ("mst.csv", "report-to-hand-on.html", "model-card.yaml", "README.md",
                                            "croissant.json", "schema.toml", "manifest.json", "manifest.json.sig")),
    }  # fmt: skip
    assert not [p for p in workspace.folder.iterdir() if p.name.startswith(".")]


def test_the_last_lines_are_the_verdict_and_where_the_report_is(finished: Any) -> None:
    workspace, ran = finished
    verdict, report = ran.stdout.splitlines()[-2:]
    assert verdict.startswith("mst: ")
    assert report == f"Report: {workspace.folder / 'out' / 'report.html'}"


def test_the_exit_code_is_the_verdict_on_the_table_to_release(finished: Any) -> None:
    workspace, ran = finished
    content = json.loads((workspace.folder / "out" / "verdict.json").read_text())
    assert {"PASS": 0, "FAIL": 1, "INCONCLUSIVE": 3}[content["verdict"]] == ran.exit_code
    assert [c["candidate"] for c in content["candidates"]] == ["independent", "mst"]


def test_the_evaluation_says_where_it_came_from(finished: Any) -> None:
    workspace, _ = finished
    out = workspace.folder / "out"
    evaluation = evaluation_from((out / "evaluation.json").read_text())
    said = evaluation.provenance
    assert said.job_sha256 == sha256(out / "job.toml") == sha256(workspace.folder / "job.toml")
    assert said.schema_sha256 == sha256(out / "schema.toml")
    assert said.files_sha256["synthetic/mst.csv"] == sha256(out / "synthetic" / "mst.csv")
    assert said.fingerprints["table"].startswith("hmac-sha256:")
    assert {"python", "understudy", "numpy", "opendp"} <= set(said.versions)
    assert said.split.startswith("keyed hash")


def test_every_candidate_carries_its_specification_its_statement_and_its_time(finished: Any) -> None:
    workspace, _ = finished
    evaluation = evaluation_from((workspace.folder / "out" / "evaluation.json").read_text())
    independent, mst = evaluation.candidates
    assert independent.statement is None
    assert mst.statement is not None
    assert 0 < mst.statement.epsilon <= 2.0
    assert mst.generator.parameters["epsilon"] == 2.0
    assert {"fit", "sample", "validity"} <= set(mst.seconds)


def test_the_synthetic_table_has_the_rows_that_the_job_or_the_model_says(finished: Any) -> None:
    workspace, _ = finished
    out = workspace.folder / "out"
    assert len(pd.read_csv(out / "synthetic" / "independent.csv")) == 300
    assert len(pd.read_csv(out / "synthetic" / "mst.csv")) == 900  # n_units, which is public; train is smaller
    assert load_model(out / "models" / "mst").default_rows == 900


def test_the_key_of_the_fingerprint_is_in_no_output(finished: Any) -> None:
    workspace, _ = finished
    key = (workspace.folder / "fingerprint.key").read_bytes()
    for path in (p for p in (workspace.folder / "out").rglob("*") if p.is_file()):
        content = path.read_bytes()
        assert key not in content
        assert key.hex().encode() not in content


def test_no_line_of_the_run_holds_a_cell_value(finished: Any) -> None:
    _, ran = finished
    assert "zebrafish" not in ran.stdout + ran.stderr


def test_the_exit_code_is_0_where_nothing_is_named_for_release(workspace: Any) -> None:
    strict = [{"measure": "statement.epsilon", "limit": 1.0, "why": "a guarantee is needed"}]
    workspace.write_job(policy=write_policy(workspace, rules=strict), evaluation={"measures": FAST})
    ran = run(workspace, "--json")
    assert ran.exit_code == 0, ran.stderr
    assert ran.json["candidates"][0]["verdict"] == "FAIL"


@pytest.mark.parametrize(("limit", "code"), [(0.5, 0), (None, 1), ("unmeasured", 3)])
def test_the_exit_codes_of_the_three_verdicts(workspace: Any, limit: Any, code: int) -> None:
    rules = {
        0.5: {"measure": "validity.rows", "limit": 0.5, "why": "w"},
        None: {"measure": "statement.epsilon", "limit": 1.0, "why": "w"},
        "unmeasured": {"measure": "privacy.membership.auc", "limit": 0.6, "why": "w"},
    }
    policy = write_policy(workspace, rules=[rules[limit], LENIENT["rules"][1]])
    workspace.write_job(policy=policy, release="independent", evaluation={"measures": ["validity", "privacy.copies"]})
    ran = run(workspace, "--json")
    assert (ran.exit_code, ran.json["exit_code"]) == (code, code), ran.stderr


def test_the_same_job_gives_the_same_tables_and_numbers(workspace: Any) -> None:
    workspace.write_job(seed=5, evaluation={"measures": FAST})
    outs = [workspace.folder / name for name in ("first", "second")]
    for out in outs:
        assert workspace.run("run", workspace.folder / "job.toml", "--out", out).exit_code == 0
    first, second = ((out / "synthetic" / "independent.csv").read_bytes() for out in outs)
    assert first == second
    one, two = (evaluation_from((out / "evaluation.json").read_text()) for out in outs)
    assert one.candidates[0].estimates == two.candidates[0].estimates
    assert one.provenance.fingerprints["table"] == two.provenance.fingerprints["table"]


def test_parquet_in_is_parquet_out(workspace: Any, table: Any) -> None:
    workspace.write_table(table(), "table.parquet")
    workspace.write_job(table={"path": "table.parquet", "schema": "schema.toml"}, evaluation={"measures": ["validity"]})
    assert run(workspace).exit_code == 0
    made = pd.read_parquet(workspace.folder / "out" / "synthetic" / "independent.parquet")
    assert made.dtypes.astype(str).to_dict()["ill"] == "bool"


@pytest.mark.parametrize(
    ("said", "epsilon", "code"),
    [(None, None, 2), (None, 1.0, 0), ("clamp", None, 0), ("refuse", 1.0, 2)],
)
def test_values_outside_the_bounds_are_clamped_where_a_fit_is_private_or_the_job_says_so(
    workspace: Any, table: Any, said: str | None, epsilon: float | None, code: int
) -> None:
    frame = table()
    frame.loc[3, "age"] = 130
    workspace.write_table(frame)
    place = {"path": "table.csv", "schema": "schema.toml"} | ({} if said is None else {"outside": said})
    asked = {} if epsilon is None else {"epsilon": epsilon}
    workspace.write_job(table=place, generators={"independent": asked}, evaluation={"measures": ["validity"]})
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

    for place in ("understudy.run.run._join", "understudy.run.run._write"):
        with monkeypatch.context() as patch:
            patch.setattr(place, stop)
            cut = run(workspace)
        assert (cut.exit_code, cut.stderr.count(told)) == (2, 1), cut.stderr
    ran = run(workspace, "--json")
    assert (ran.exit_code, ran.stderr.count(told)) == (0, 1), ran.stderr
    out = workspace.folder / "out"
    evaluation = evaluation_from((out / "evaluation.json").read_text())
    ages = [one for one in evaluation.candidates[0].estimates if one.subject == ("age",)]
    assert ages[0].reference < 0.9 < ages[0].value == 1.0, "real rows are judged as they were before they were clamped"
    warnings = evaluation.provenance.warnings
    assert told in warnings[0]
    assert len([said for said in warnings if CLAMPED in said]) == 1
    assert CLAMPED in (out / "report.html").read_text()
    assert "Atlantis" not in ran.stdout + ran.stderr + "".join(warnings)
    public = [path for path in (out / "to-hand-on").rglob("*") if path.is_file()]
    assert {"report-to-hand-on.html", "model-card.yaml", "released.json"} <= {path.name for path in public}
    for path in (*public, out / "metrics.public.prom"):
        assert "were clamped" not in path.read_text(), path


def test_a_job_whose_table_fits_says_nothing_of_clamping(finished: Any) -> None:
    workspace, ran = finished
    assert "clamped" not in ran.stdout + ran.stderr
    for name in ("evaluation.json", "report.html"):
        assert CLAMPED not in (workspace.folder / "out" / name).read_text()


def test_a_warning_of_clamping_names_the_five_largest_shares() -> None:
    said = clamped({"a": 0.0002, "b": 0.25, "c": 0.7432, "d": 0.12, "e": 0.013, "f": 0.0001, "g": 0.00005})
    assert ": 'c' 74%, 'b' 25%, 'd' 12%, 'e' 1.3%, 'a' <0.1% of cells, and 2 more columns," in said
    assert ": 'a' 50% of cells, counted" in clamped({"a": 0.5})


def test_without_a_folder_the_plan_is_shown_and_nothing_runs(workspace: Any) -> None:
    workspace.write_job(generators={"independent": {}, "mst": {"epsilon": 1.0}}, release="mst")
    before = sorted(workspace.folder.iterdir())
    ran = workspace.run("run", workspace.folder / "job.toml")
    assert ran.exit_code == 0
    assert "Generator mst: mst, epsilon 1, delta 1e-06, named for release" in ran.stdout
    assert "Generator independent: independent, no formal guarantee" in ran.stdout
    assert f"nothing was run. To run it: understudy run {workspace.folder / 'job.toml'} --out job" in ran.stdout
    assert sorted(workspace.folder.iterdir()) == before


def test_a_job_without_a_schema_says_how_to_write_one(workspace: Any) -> None:
    workspace.write_job(table={"path": "table.csv"})
    ran = run(workspace)
    assert ran.exit_code == 2
    assert "`understudy schema infer table.csv --out schema.toml`" in ran.stderr
    assert "`understudy try table.csv`" in ran.stderr


def test_a_constant_column_does_not_stop_a_run(workspace: Any, table: Any) -> None:
    workspace.write_table(table().assign(town="North"))
    measures = ["validity", "fidelity.columns", "fidelity.pairs", "privacy.copies"]
    workspace.write_job(generators={"independent": {}, "mst": {"epsilon": 1.0}}, evaluation={"measures": measures})
    ran = run(workspace)
    assert ran.exit_code == 0, ran.stderr


def test_the_report_shows_every_candidate(finished: Any) -> None:
    workspace, _ = finished
    page = (workspace.folder / "out" / "report.html").read_text()
    assert "Small" in page
    assert "independent" in page
    assert "no formal guarantee" in page.lower()


def test_an_error_in_the_middle_keeps_what_was_fitted_and_no_output(workspace: Any, table: Any) -> None:
    numbered = table(900, 0).assign(id=range(1, 901))
    columns = tomllib.loads((workspace.folder / "schema.toml").read_text())["columns"]
    workspace.write_table(numbered)
    workspace.write_schema(columns={**columns, "id": {"kind": "identifier", "bounds": [1, 1000]}})
    # There are only 1,000 identifiers: the second table cannot be drawn.
    workspace.write_job(generators={"independent": {}, "mst": {"rows": 2000}}, evaluation={"measures": ["validity"]})
    ran = run(workspace)
    assert ran.exit_code == 2
    assert "fit mst" in ran.stderr
    assert "the unfinished work is kept" in ran.stderr.splitlines()[-1]
    assert not (workspace.folder / "out").exists()
    again = run(workspace)
    assert again.exit_code == 2
    assert "fit independent" not in again.stderr  # which is finished


def heed_interrupts() -> None:
    """A shell that runs the tests in the background has told its children to ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize(
    ("signal_number", "code"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow)]
)
def test_an_interrupted_run_leaves_nothing(workspace: Any, table: Any, signal_number: int, code: int) -> None:
    workspace.write_table(table(60_000, 1))
    workspace.write_schema(n_units=60_000)
    # A fit of seconds: a finished one would be kept.
    workspace.write_job(generators={"aim": {"n_bins": 500, "max_model_mb": 500.0}})
    before = workspace.listing()
    process = subprocess.Popen(
        [sys.executable, "-m", "understudy", "run", "job.toml", "--out", "out"],
        cwd=workspace.folder, stderr=subprocess.PIPE, text=True, env={**os.environ},
        preexec_fn=heed_interrupts,
    )  # fmt: skip
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("fit"):
            break
    time.sleep(0.2)
    process.send_signal(signal_number)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == code, stderr
    assert "Traceback" not in stderr
    assert workspace.listing() == before


def test_the_example_of_the_documentation_is_a_job() -> None:
    from understudy.job.spec import build_job

    page = (Path(__file__).parents[2] / "docs/reference/job.md").read_text(encoding="utf-8")
    example = page.split("```toml\n", 1)[1].split("```", 1)[0]
    assert build_job(tomllib.loads(example)).release == "mst"


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


def test_the_json_schema_of_a_job_accepts_the_demo_and_refuses_an_unknown_key() -> None:
    import jsonschema

    from understudy.job.spec import job_json

    content = tomllib.loads((Path(__file__).parents[2] / "examples" / "fair.toml").read_text())
    jsonschema.validate(content, job_json())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**content, "polcy": "internal"}, job_json())


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
    said = json.loads((workspace.folder / "out0" / "evaluation.json").read_text())["provenance"]["split"]
    assert said.startswith("keyed hash" if keyed else "stratified draw")

    def people(rows: pd.DataFrame) -> set[tuple[str, ...]]:
        return {tuple(row) for row in rows[["age", "income"]].astype(float).round(6).astype(str).to_numpy()}

    still = people(frame.drop(index=others)) - people(frame.loc[others])
    first, second = (people(side.holdout.frame()) & still for side in sides)
    assert (first == second) == keyed


@pytest.mark.parametrize("name", ["aim", "latent_class"])
def test_a_job_weighs_columns_and_the_model_says_so(workspace: Any, name: str) -> None:
    weights = {"income": 3.0, "age": 0.5}
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
