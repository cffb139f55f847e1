"""The audit as a part of a run: each private candidate's claim is tried, and one that breaks cannot be overlooked."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from evaluate.audit_result import EXCEEDS, NO_FAULT
from evaluate.privacy.audit.counts import N_CANARIES, StandIn
from evaluate.privacy.audit.white_box import N_FITS
from evaluate.result import Candidate, Evaluation, Failure
from evaluate.result_io import evaluation_from
from synth.dp.mechanisms import SystemNoise
from synth.errors import ModelError
from synth.generators.registry import load_model

FAST = ["validity", "fidelity.columns"]
MEASURE = "privacy.audit.excess"
_gaussian = SystemNoise.gaussian


def run(workspace: Any, **evaluation: Any) -> tuple[Any, Evaluation, str, dict[str, dict[str, str]]]:
    """What the command said, the evaluation, the report, and outcomes by candidate and measure."""
    workspace.write_job(
        release="independent",
        generators={"independent": {"epsilon": 3.0}, "exact": {"generator": "independent"}},
        evaluation={"measures": FAST, **evaluation},
    )
    out: Path = workspace.folder / "out"
    ran = workspace.run("run", workspace.folder / "job.toml", "--out", out)
    assert ran.exit_code in (0, 1, 3), ran.stderr
    judged = json.loads((out / "verdict.json").read_text())["candidates"]
    outcomes = {c["candidate"]: {f["rule"]["measure"]: f["outcome"] for f in c["findings"]} for c in judged}
    return ran, evaluation_from((out / "evaluation.json").read_text()), (out / "report.html").read_text(), outcomes


def test_a_run_audits_every_claim_and_the_report_shows_it(workspace: Any) -> None:
    ran, evaluation, report, outcomes = run(workspace, audit=True)
    private, exact = evaluation.candidates
    assert private.audit is not None
    assert private.audit.verdict == NO_FAULT
    assert private.audit.epsilon == pytest.approx(3.0, rel=0.01)
    assert private.audit.delta == private.statement.delta  # type: ignore[index]
    assert private.seconds["privacy.audit"] > 0
    assert outcomes["independent"][MEASURE] == "PASS"
    assert "Audit of the measurement log: no fault found; lower bound" in report
    assert "proves nothing beyond that no flaw of this kind was found" in report
    assert "not audited" not in report
    assert "The audit speaks against" not in report
    # Where nothing is claimed nothing is audited, and no rule asks for it.
    assert exact.audit is None
    assert exact.find(MEASURE) is None
    assert MEASURE not in outcomes["exact"]
    assert "disproves" not in ran.stderr


def test_a_claim_that_is_disproved_cannot_be_overlooked(workspace: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def half(self: SystemNoise, values: np.ndarray, sigma: float) -> np.ndarray:
        return _gaussian(self, values, sigma / 2)

    monkeypatch.setattr(SystemNoise, "gaussian", half)
    ran, evaluation, report, outcomes = run(workspace, audit=True)
    assert evaluation.candidates[0].audit.verdict == EXCEEDS  # type: ignore[union-attr]
    assert outcomes["independent"][MEASURE] == "FAIL"
    assert ran.exit_code == 1
    assert "the audit disproves the privacy statement of independent" in ran.stderr
    cover = report[: report.index("Side by side")]
    assert "The audit speaks against the privacy statement." in cover
    assert "disputed by its audit" in cover
    assert "FAIL</b>" in cover and ": no</p>" in cover
    # What was said while it ran stays with the evidence.
    said = "The audit disproves the privacy statement of independent"
    warned = " ".join(evaluation.provenance.warnings)
    assert said[1:] in warned
    assert "understudy audit --model DIR" in warned
    card = (workspace.folder / "out" / "cards" / "independent.md").read_text()
    for shown in (report, (workspace.folder / "out" / "summary.md").read_text(), card):
        assert said in shown
        assert "evaluate" in shown


def test_a_job_can_do_without_and_then_its_claims_never_pass(workspace: Any) -> None:
    ran, evaluation, report, outcomes = run(workspace, audit=False)
    assert evaluation.candidates[0].audit is None
    assert evaluation.candidates[0].find(MEASURE) is None
    assert outcomes["independent"][MEASURE] == "INCONCLUSIVE"
    assert MEASURE not in outcomes["exact"]
    assert ran.exit_code != 0
    assert "not audited" in report
    assert "It was not run, so nothing is known." in report


def test_an_audit_that_fails_leaves_the_rest_and_is_inconclusive(
    workspace: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StandIn, "weights", lambda *_: None)
    _, evaluation, report, outcomes = run(workspace, audit=True)
    found = evaluation.candidates[0].find(MEASURE)
    assert isinstance(found, Failure)
    assert evaluation.candidates[0].find("validity.rows") is not None
    assert outcomes["independent"][MEASURE] == "INCONCLUSIVE"
    assert "audit failed" in report
    assert "not audited" not in report


@pytest.fixture
def fitted(workspace: Any) -> Any:
    """A model with a claim, and a table of it beside the two sides of the real one."""
    folder = workspace.folder
    schema = ("--schema", folder / "schema.toml")
    table = pd.read_csv(folder / "table.csv")
    for name, rows in (("train", table[:500]), ("holdout", table[500:])):
        rows.to_csv(folder / f"{name}.csv", index=False)
    fit = ("fit", folder / "train.csv", *schema, "--generator", "independent", "--epsilon", 3)
    assert workspace.run(*fit, "--out", folder / "model").exit_code == 0
    sample = ("sample", folder / "model", "--rows", 300, "--seed", 1, "--out", folder / "made.csv")
    assert workspace.run(*sample).exit_code == 0
    return workspace


def offered(workspace: Any, *more: object) -> tuple[Any, Candidate, str]:
    """What `evaluate` said of the table, what it wrote, and the outcome of the rule about the audit."""
    folder = workspace.folder
    ran = workspace.run(
        "evaluate", "--train", folder / "train.csv", "--holdout", folder / "holdout.csv", "--synthetic",
        folder / "made.csv", "--schema", folder / "schema.toml", "--measure", "validity", *more,
        "--out", folder / "evaluation.json",
    )  # fmt: skip
    assert ran.exit_code == 0, ran.stderr
    judged = workspace.run("gate", folder / "evaluation.json", "--policy", "public", "--json").json
    outcomes = {f["rule"]["measure"]: f["outcome"] for f in judged["candidates"][0]["findings"]}
    (found,) = evaluation_from((folder / "evaluation.json").read_text()).candidates
    return ran, found, outcomes.get(MEASURE, "")


def test_a_table_that_is_offered_with_its_model_has_its_claim_audited(fitted: Any) -> None:
    ran, found, outcome = offered(fitted, "--model", fitted.folder / "model")
    assert outcome == "PASS"
    assert found.audit is not None
    assert found.audit.verdict == NO_FAULT
    assert found.audit.epsilon == pytest.approx(found.statement.epsilon, rel=0.01)  # type: ignore[index]
    assert found.audit.delta == found.statement.delta  # type: ignore[index]
    assert "disproves" not in ran.stderr


def test_an_offered_claim_that_is_disproved_is_said_at_once(fitted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def half(self: SystemNoise, values: np.ndarray, sigma: float) -> np.ndarray:
        return _gaussian(self, values, sigma / 2)

    monkeypatch.setattr(SystemNoise, "gaussian", half)
    ran, _, outcome = offered(fitted, "--model", fitted.folder / "model")
    assert outcome == "FAIL"
    assert "the audit disproves the privacy statement of made" in ran.stderr


def test_the_time_limit_of_an_evaluation_is_that_of_its_audit_too(fitted: Any) -> None:
    _, found, _ = offered(fitted, "--model", fitted.folder / "model", "--time-limit-s", 0.05)
    assert found.audit is not None
    assert found.audit.n_trials < N_FITS * N_CANARIES
    assert found.seconds["privacy.audit"] < 5


def test_a_claim_without_its_audit_is_inconclusive_where_the_audit_was_declined(fitted: Any) -> None:
    _, found, outcome = offered(fitted, "--model", fitted.folder / "model", "--no-audit")
    assert outcome == "INCONCLUSIVE"
    assert found.find(MEASURE) is None


def test_a_table_without_a_model_has_no_claim_and_no_rule_about_its_audit(fitted: Any) -> None:
    _, found, outcome = offered(fitted)
    assert outcome == ""
    assert found.audit is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"parameters": None}, "this one holds none"),
        ({"parameters": {"epsilon": None}}, "its parameters name none"),
        ({"parameters": {"epsilon": 30.0}}, "its parameters are for epsilon=30"),
        ({"parameters": {"epsilon": 3.0, "delta": 1e-9}}, "at delta=1e-09"),
        ({"parameters": {"epsilon": 3.0, "n_bin": 8}}, "n_bin"),
        ({"parameters": {"epsilon": 3.0, "name": "mst"}}, "name"),
    ],
)
def test_a_model_whose_claim_cannot_be_audited_is_inconclusive_and_says_why(
    fitted: Any, changes: dict[str, Any], said: str
) -> None:
    path = fitted.folder / "model" / "model.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    _, found, outcome = offered(fitted, "--model", fitted.folder / "model")
    failure = found.find(MEASURE)
    assert outcome == "INCONCLUSIVE"
    assert isinstance(failure, Failure)
    assert said in failure.message


def test_a_model_without_parameters_or_with_others_is_damaged(fitted: Any) -> None:
    path = fitted.folder / "model" / "model.json"
    content = json.loads(path.read_text())
    assert content.pop("parameters")["epsilon"] == 3.0
    for damaged in (content, {**content, "parameters": [3.0]}):
        path.write_text(json.dumps(damaged))
        with pytest.raises(ModelError, match="damaged"):
            load_model(fitted.folder / "model")


def test_the_claim_of_a_run_is_audited_again_without_a_new_fit(workspace: Any) -> None:
    _, before, _, _ = run(workspace, audit=True)
    folder = workspace.folder
    again = workspace.run("audit", "--model", folder / "out" / "models" / "independent", "--seed", 5)
    assert again.exit_code == 0, again.stderr
    schema, sides = ("--schema", folder / "schema.toml"), folder / "sides"
    split = ("split", folder / "table.csv", *schema, "--holdout-share", 0.4, "--seed", 0, "--out", sides)
    assert workspace.run(*split).exit_code == 0
    ran = workspace.run(
        "evaluate", "--train", sides / "train.csv", "--holdout", sides / "holdout.csv", *schema,
        "--measure", "validity", "--synthetic", folder / "out" / "synthetic" / "independent.csv", "--seed", 5,
        "--model", folder / "out" / "models" / "independent", "--out", folder / "again.json",
    )  # fmt: skip
    assert ran.exit_code == 0, ran.stderr
    after = evaluation_from((folder / "again.json").read_text())
    assert after.provenance.fingerprints == before.provenance.fingerprints
    assert after.candidates[0].audit is not None
    assert after.candidates[0].statement == before.candidates[0].statement
