"""The audit as a part of a run: each private candidate's claim is tried, and one that breaks cannot be overlooked."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evaluate.privacy.audit import EXCEEDS, WITHIN
from evaluate.privacy.audit_stand_in import StandIn
from evaluate.result import Evaluation, Failure
from synth.dp.mechanisms import SystemNoise

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
    judged = json.loads((out / "verdict.json").read_text())["candidates"]
    outcomes = {c["candidate"]: {f["rule"]["measure"]: f["outcome"] for f in c["findings"]} for c in judged}
    return ran, Evaluation.from_json((out / "evaluation.json").read_text()), (out / "report.html").read_text(), outcomes


def test_a_run_audits_every_claim_and_the_report_shows_it(workspace: Any) -> None:
    ran, evaluation, report, outcomes = run(workspace, audit=True)
    private, exact = evaluation.candidates
    assert private.audit is not None
    assert private.audit["verdict"] == WITHIN
    assert private.audit["epsilon"] == pytest.approx(3.0, rel=0.01)
    assert private.audit["delta"] == private.statement["delta"]  # type: ignore[index]
    assert private.seconds["privacy.audit"] > 0
    assert outcomes["independent"][MEASURE] == "PASS"
    assert "Audit of the measurement log: lower bound" in report
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
    assert evaluation.candidates[0].audit["verdict"] == EXCEEDS  # type: ignore[index]
    assert outcomes["independent"][MEASURE] == "FAIL"
    assert ran.exit_code == 1
    assert "the audit disproves the privacy statement of independent" in ran.stderr
    cover = report[: report.index("Side by side")]
    assert "The audit speaks against the privacy statement." in cover
    assert "disputed by its audit" in cover
    assert "DO NOT RELEASE" in cover


def test_a_job_can_do_without_and_the_report_says_so(workspace: Any) -> None:
    _, evaluation, report, outcomes = run(workspace, audit=False)
    assert evaluation.candidates[0].audit is None
    assert MEASURE not in outcomes["independent"]
    assert "not audited" in report


def test_an_audit_that_fails_leaves_the_rest_and_is_inconclusive(
    workspace: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StandIn, "weight", lambda *_: None)
    _, evaluation, report, outcomes = run(workspace, audit=True)
    found = evaluation.candidates[0].find(MEASURE)
    assert isinstance(found, Failure)
    assert evaluation.candidates[0].find("validity.rows") is not None
    assert outcomes["independent"][MEASURE] == "INCONCLUSIVE"
    assert "not audited" in report
