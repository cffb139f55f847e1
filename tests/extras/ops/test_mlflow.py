"""A finished run on an MLflow server: what is sent, what never is, and that no server changes what a run comes to."""

import json
import os
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evaluate.gate.policy import load_policy
from evaluate.gate.verdict import judge
from evaluate.result import Candidate, Estimate, GeneratorRecord
from tests.evaluations import SCHEMA, evaluation_of, stated
from understudy.bundle.evidence import Delivery
from understudy.extras.ops.mlflow_record import Mlflow, Run, _send, runs_of
from understudy.job.spec import JobError, build_job

AUC, COLUMNS = "privacy.membership.auc", "columns.tvd.excess"
MEASURED = Estimate(AUC, 0.512345, 900, "lower", low=0.48, high=0.53)
KEY = Estimate(COLUMNS, 0.0671, 900, "lower")
PLACE = "http://127.0.0.1:9"  # nobody listens there
LIVED = "Ueckermuende"  # In a real row, which the internal report shows
CLAMPED = "'age' 74% of cells"  # of a warning that is read off real rows


def job_of(**tracking: Any) -> Any:
    content = {
        "seed": 4711, "table": {"path": "t.csv", "schema": "s.toml"}, "generators": {"mst": {"epsilon": 1.0}},
        "release": "mst", "tracking": {"mlflow": PLACE, **tracking},
    }  # fmt: skip
    return build_job(content)


def record(folder: Path, content: str, *, inferred: bool = False, **known: Any) -> list[Run]:
    """The runs of an evaluation of one private table, as its output lies in a folder."""
    generator = GeneratorRecord.of("mst", {"epsilon": 1.0, "shares": [0.2] * 200})
    shown = {"column": "town", "masked": False, "real": [LIVED], "synthetic": ["Ulm"]}
    figures = {"looks": {"rows": {"columns": [shown]}}}
    table = Candidate("mst", (MEASURED, KEY), statement=stated(**known), generator=generator, figures=figures)
    evaluation = evaluation_of(
        table, run_id="abc", schema_sha256="5" * 64, release="mst", split="keyed", seed=4711, warnings=(CLAMPED,)
    )
    if inferred:
        evaluation = replace(evaluation, schema=SCHEMA.model_copy(update={"status": "inferred"}))
    policy, job = load_policy("internal"), job_of(content=content)
    delivery = Delivery(evaluation, judge(evaluation, [policy]), policy, "Patients", "mst")
    public, inner = ("to-hand-on/README.md", "to-hand-on/mst.csv"), ("report.html", "evaluation.json", "job.toml")
    for name in (*inner, *public, "synthetic/mst.csv"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")
    (folder / "verdict.json").write_text(json.dumps({"verdict_to_hand_on": "PASS"}))
    return runs_of(job.tracking, job, delivery, folder)


def sent(runs: list[Run]) -> set[str]:
    return {Path(name).name for run in runs for name in (*run["files"], *run["texts"])}


def test_by_default_nothing_is_sent_that_was_computed_from_real_rows(tmp_path: Path) -> None:
    assert Mlflow(mlflow=PLACE).content == "public"
    runs = record(tmp_path, "public")
    parent, child = runs
    assert sent(runs) == {"README.md"}  # neither table nor model
    assert child["metrics"]["claim.epsilon"] == child["metrics"]["fit.epsilon"] == 1.0
    assert child["params"]["generator"] == "mst"
    assert parent["tags"]["understudy.to_hand_on.verdict"].startswith("PASS of the rules that can be shown")
    assert parent["params"]["schema_sha256"] == "5" * 64
    text = json.dumps(runs)
    assert not any(hidden in text for hidden in ("4711", AUC, COLUMNS, CLAMPED, "0.5123"))
    for run, hidden in ((parent, "understudy.verdict"), (child, "understudy.verdict")):
        assert run["tags"][hidden] is None
    assert (parent["params"]["seed"], parent["params"]["split_seed"]) == (None, None)
    # Limits that were read off the table are not told by their hash.
    assert record(tmp_path, "public", inferred=True)[0]["params"]["schema_sha256"] is None


def test_what_reads_real_rows_is_sent_only_where_the_job_says_so(tmp_path: Path) -> None:
    runs = record(tmp_path, "internal")
    parent, child = runs
    assert child["metrics"][AUC] == 0.512345
    assert child["metrics"][COLUMNS] == 0.0671
    assert child["tags"]["understudy.verdict"] == parent["tags"]["understudy.verdict"] == "INCONCLUSIVE"
    assert parent["params"]["seed"] == 4711
    assert "Internal: this file holds numbers computed from real rows" in parent["tags"]["mlflow.note.content"]
    assert sent(runs) == {"report.html", "evaluation.json", "verdict.json", "job.toml", "README.md"}
    assert "<html" in parent["texts"]["report.html"]
    assert LIVED not in json.dumps(runs)


def test_a_void_claim_has_no_epsilon(tmp_path: Path) -> None:
    runs = record(tmp_path, "public", private=False)
    assert runs[1]["tags"]["understudy.guarantee"] == "void"
    assert not any("epsilon" in name for name in runs[1]["metrics"])
    assert sent(runs) == set()


@pytest.mark.parametrize(
    "address",
    ["http://ann:s3cret@host:5000", "https://s3cret@host", "ann:s3cret@host", "http://host?token=s3cret",
     "http://host/#s3cret", "file:///s3cret"],
)  # fmt: skip
def test_an_address_that_is_none_or_holds_credentials_is_refused_and_not_repeated(address: str) -> None:
    with pytest.raises(JobError, match="the address of an MLflow server is like") as refused:
        job_of(mlflow=address)
    assert "s3cret" not in str(refused.value)


def test_a_record_that_cannot_be_made_is_told_and_raises_nothing(tmp_path: Path) -> None:
    before = dict(os.environ)
    delivery = Delivery(evaluation_of(), (), load_policy("internal"), "Patients", None)
    told = job_of().tracking.track(job_of(), delivery, tmp_path / "absent")
    assert (told.server, told.url) == (PLACE, None)
    assert "was not tracked, or not as a whole, at MLflow's http://127.0.0.1:9 (FileNotFoundError)" in told.failure
    assert dict(os.environ) == before


@pytest.mark.slow  # MLflow takes seconds to import
def test_a_store_holds_a_parent_and_a_run_for_each_candidate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    asked = Mlflow.model_construct(mlflow=f"sqlite:///{tmp_path}/runs.db", experiment="clinic", content="internal")
    with warnings.catch_warnings(action="ignore"):
        _send(asked, record(tmp_path / "out", "internal"), tmp_path / "out")
        client = mlflow.MlflowClient(tracking_uri=asked.mlflow)
        (experiment,) = [each for each in client.search_experiments() if each.name == "clinic"]
        runs = {run.info.run_name: run for run in client.search_runs([experiment.experiment_id])}
    parent, child = runs["Patients"], runs["mst"]
    assert {run.info.status for run in runs.values()} == {"FINISHED"}
    assert child.data.tags["mlflow.parentRunId"] == parent.info.run_id
    assert child.data.metrics["claim.epsilon"] == 1.0
    theirs = {name for run in runs.values() for name in run.data.tags if not name.startswith("understudy.")}
    assert theirs == {"mlflow.runName", "mlflow.parentRunId", "mlflow.note.content"}  # no user, no command line
    files = {file.path for file in client.list_artifacts(parent.info.run_id)}
    assert {"report.html", "evaluation.json"} <= files
    assert not any("synthetic" in path or "csv" in path for path in files)
