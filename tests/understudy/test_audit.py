"""The audit and shadow models in a run, in an offer and alone: a claim that breaks cannot be overlooked."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pydantic import TypeAdapter

from evaluate.audit_result import EXCEEDS, NO_FAULT, TOO_WEAK, Audit
from evaluate.privacy.audit.canaries import StandIn
from evaluate.result import Candidate, Estimate, Evaluation, Failure
from evaluate.result_io import evaluation_from
from synth.dp.ledger import open_ledger
from synth.dp.mechanisms import SystemNoise
from tests.understudy.conftest import SECRET, Workspace, small_table

FAST = ["validity", "fidelity.columns"]
COLUMNS = {"ill": {"kind": "boolean"}, "town": {"kind": "categorical", "categories": ["North", "South", "East"]}}
"""Two columns: fits of them are fast, and an audit makes many."""
MEASURE = "privacy.audit.excess"
_gaussian = SystemNoise.gaussian


def half(self: SystemNoise, values: np.ndarray, sigma: float) -> np.ndarray:
    return _gaussian(self, values, sigma / 2)


def run(
    workspace: Workspace, ledger: dict[str, str] | None = None, **evaluation: Any
) -> tuple[Any, Evaluation, str, dict[str, dict[str, str]]]:
    """What the command said, the evaluation, the report, and outcomes by candidate and measure."""
    workspace.write_schema(columns=COLUMNS, dataset="people")
    workspace.write_table(small_table()[["ill", "town"]].replace({"town": {SECRET: "East"}}))
    workspace.write_job(
        release="independent",
        generators={"independent": {"epsilon": 3.0}, "exact": {"generator": "independent"}},
        evaluation={"measures": FAST, **evaluation},
        **({"ledger": ledger} if ledger else {}),
    )
    out: Path = workspace.folder / "out"
    ran = workspace.run("run", workspace.folder / "job.toml", "--out", out)
    assert ran.exit_code in (0, 1, 3), ran.stderr
    judged = json.loads((out / "verdict.json").read_text())["candidates"]
    outcomes = {c["candidate"]: {f["rule"]["measure"]: f["outcome"] for f in c["findings"]} for c in judged}
    return ran, evaluation_from((out / "evaluation.json").read_text()), (out / "report.html").read_text(), outcomes


def test_a_run_audits_every_claim_and_the_report_shows_it(workspace: Workspace) -> None:
    _, evaluation, report, outcomes = run(workspace, audit=True)
    private, exact = evaluation.candidates
    assert private.audit is not None and private.audit.verdict == NO_FAULT
    assert private.audit.epsilon == pytest.approx(3.0, rel=0.01)
    assert private.audit.delta == private.statement.delta  # type: ignore[union-attr]
    assert outcomes["independent"][MEASURE] == "PASS"
    assert "Audit of the measurement log: no fault found; lower bound" in report
    # Where nothing is claimed nothing is audited, and no rule asks for it.
    assert exact.audit is exact.find(MEASURE) is None
    assert MEASURE not in outcomes["exact"]


def test_a_claim_that_is_disproved_cannot_be_overlooked(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SystemNoise, "gaussian", half)
    ran, evaluation, report, outcomes = run(workspace, audit=True)
    assert evaluation.candidates[0].audit.verdict == EXCEEDS  # type: ignore[union-attr]
    assert (ran.exit_code, outcomes["independent"][MEASURE]) == (1, "FAIL")
    cover = report[: report.index("Side by side")]
    assert "The audit speaks against the privacy statement." in cover and "disputed by its audit" in cover
    disproved = "he audit disproves the privacy statement of independent"
    card, summary = ((workspace.folder / "out" / name).read_text() for name in ("cards/independent.md", "summary.md"))
    for shown in (ran.stderr, " ".join(evaluation.provenance.warnings), report, summary, card):
        assert disproved in shown and "evaluate" in shown


def test_a_claim_that_is_not_audited_or_whose_audit_fails_never_passes(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran, evaluation, report, outcomes = run(workspace, audit=False)
    assert evaluation.candidates[0].audit is evaluation.candidates[0].find(MEASURE) is None
    assert outcomes["independent"][MEASURE] == "INCONCLUSIVE" and MEASURE not in outcomes["exact"]
    assert ran.exit_code != 0
    assert "not audited" in report and "It was not run, so nothing is known." in report
    (workspace.folder / "out").rename(workspace.folder / "first")
    monkeypatch.setattr(StandIn, "weights", lambda *_: None)
    _, evaluation, report, outcomes = run(workspace, audit=True)
    assert isinstance(evaluation.candidates[0].find(MEASURE), Failure)
    assert evaluation.candidates[0].find("validity.rows") is not None
    assert outcomes["independent"][MEASURE] == "INCONCLUSIVE"
    assert "audit failed" in report and "not audited" not in report


@pytest.fixture
def fitted(workspace: Workspace) -> Workspace:
    """A model with a claim, and a table of it beside the two sides of the real one."""
    folder = workspace.folder
    table = pd.read_csv(folder / "table.csv")
    for name, rows in (("train", table[:500]), ("holdout", table[500:])):
        workspace.write_table(rows, f"{name}.csv")
    fit = ("fit", folder / "train.csv", "--schema", folder / "schema.toml", "--generator", "independent")
    assert workspace.run(*fit, "--epsilon", 3, "--out", folder / "model").exit_code == 0
    sample = ("sample", folder / "model", "--rows", 300, "--seed", 1, "--out", folder / "made.csv")
    assert workspace.run(*sample).exit_code == 0
    return workspace


def offered(workspace: Any, *more: object) -> tuple[Any, Candidate, str]:
    """What `evaluate` said of the table, what it wrote, and the outcome of the rule about the audit."""
    folder = workspace.folder
    ran = workspace.run(
        "evaluate", "--train", folder / "train.csv", "--holdout", folder / "holdout.csv", "--synthetic",
        folder / "made.csv", "--schema", folder / "schema.toml", "--measure", "validity", "--force", *more,
        "--out", folder / "evaluation.json",
    )  # fmt: skip
    assert ran.exit_code == 0, ran.stderr
    judged = workspace.run("gate", folder / "evaluation.json", "--policy", "public", "--json").json
    outcomes = {f["rule"]["measure"]: f["outcome"] for f in judged["candidates"][0]["findings"]}
    (candidate,) = evaluation_from((folder / "evaluation.json").read_text()).candidates
    return ran, candidate, outcomes.get(MEASURE, "")


def test_a_table_that_is_offered_with_its_model_has_its_claim_audited(
    fitted: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ("--model", fitted.folder / "model")
    ran, candidate, outcome = offered(fitted, *model)
    assert candidate.audit is not None and candidate.statement is not None
    assert (outcome, candidate.audit.verdict, "disproves" in ran.stderr) == ("PASS", NO_FAULT, False)
    assert candidate.audit.epsilon == pytest.approx(candidate.statement.epsilon, rel=0.01)
    assert offered(fitted, *model, "--no-audit")[2] == "INCONCLUSIVE"
    monkeypatch.setattr(SystemNoise, "gaussian", half)
    ran, _, outcome = offered(fitted, *model)
    assert (outcome, "the audit disproves the privacy statement of made" in ran.stderr) == ("FAIL", True)


def test_a_model_whose_claim_cannot_be_audited_is_inconclusive_and_says_why(fitted: Workspace) -> None:
    path = fitted.folder / "model" / "model.json"
    content = json.loads(path.read_text())
    for parameters, clause in (
        (None, "this one holds none"), ({"epsilon": 30.0}, "its parameters are for epsilon=30"),
        ({"epsilon": 3.0, "delta": 1e-9}, "at delta=1e-09"),
    ):  # fmt: skip
        path.write_text(json.dumps({**content, "parameters": parameters}))
        _, candidate, outcome = offered(fitted, "--model", fitted.folder / "model")
        failure = candidate.find(MEASURE)
        assert outcome == "INCONCLUSIVE" and isinstance(failure, Failure) and clause in failure.message


# By itself.


@pytest.fixture
def schema(workspace: Workspace) -> Path:
    return workspace.write_schema(columns=COLUMNS, dataset="people")


def test_the_command_says_what_would_have_shown_and_what_was_not_looked_at(workspace: Workspace, schema: Path) -> None:
    claim, out = ("audit", "--generator", "mst", "--epsilon", 1, "--schema", schema), workspace.folder / "audit.json"
    ran = workspace.run(*claim, "--out", out, "--confidence", 0.95, "--time-limit-s", 2, "--json")
    assert (ran.exit_code, ran.json["verdict"]) == (0, NO_FAULT)
    assert ran.json == json.loads(out.read_text())
    content = {name: value for name, value in ran.json["white_box"].items() if name != "verdict"}
    audit = TypeAdapter(Audit).validate_json(json.dumps(content))
    assert audit.epsilon == pytest.approx(1.0, rel=0.01) and audit.bound < audit.epsilon and audit.confidence == 0.95
    lines = " ".join(ran.stderr.split())
    assert "It does not look at: choices of column pairs; what only the real table would bring out: " in lines
    assert "it would have shown half the noise in 10 of 10 such audits." in lines
    assert "This is no proof of the claim." in lines


def test_the_exit_code_is_what_an_audit_shows(
    workspace: Workspace, schema: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = ("audit", "--generator", "independent", "--epsilon", 3, "--schema", schema, "--time-limit-s")
    weak = workspace.run(*claim, 0.001)
    assert (weak.exit_code, TOO_WEAK in weak.stdout) == (3, True)
    monkeypatch.setattr(SystemNoise, "gaussian", lambda self, values, sigma: values)
    exact = workspace.run(*claim, 2)
    assert (exact.exit_code, EXCEEDS in exact.stdout) == (1, True)


def test_a_model_is_audited_by_its_own_claim_as_histories_where_it_has_any(workspace: Workspace) -> None:
    columns = {
        "who": {"kind": "identifier", "bounds": [0, 999]}, "time": {"kind": "integer", "bounds": [0, 60]},
        "state": {"kind": "categorical", "categories": ["x", "y", "z"]},
    }  # fmt: skip
    schema = workspace.write_schema(
        columns=columns, target="state", dataset="visits", n_units=400, entity="who", max_rows_per_unit=3, order="time"
    )
    rng, who = np.random.default_rng(0), np.repeat(np.arange(100), 4)
    frame = pd.DataFrame({"who": who, "time": rng.integers(0, 61, 400), "state": rng.choice(["x", "y", "z"], 400)})
    table, model = workspace.write_table(frame, "visits.csv"), workspace.folder / "model"
    fit = ("fit", table, "--schema", schema, "--generator", "mst", "--epsilon", 3, "--set", "n_iterations=5")
    assert workspace.run(*fit, "--out", model).exit_code == 0
    ran = workspace.run("audit", "--model", model, "--time-limit-s", 0.1, "--json")
    assert (ran.exit_code, ran.json["generator"]["epsilon"]) == (3, 3.0)  # so few fits are too weak to say
    audit = ran.json["white_box"]
    assert "stand-in of histories" in audit["ran_on"]
    assert {what.rsplit(", ", 1)[1] for what in audit["covered"]} == {"first rows", "later rows"}
    assert [what for what in audit["not_covered"] if "rows" in what and "choices" in what]
    assert not any(check["fault"] for check in audit["checks"])


AUC = "privacy.shadow.auc"


def test_a_run_that_asks_for_shadow_models_reports_them_and_the_ledger_holds_its_own_fit_alone(
    workspace: Workspace,
) -> None:
    ledger = open_ledger(workspace.folder / "ledger.db")
    ledger.open("people", unit="row", epsilon=5.0, n_units=900)
    _, evaluation, *_ = run(workspace, ledger={"url": "ledger.db"}, audit=False, shadow_models=4)
    for candidate in evaluation.candidates:
        estimate = candidate.find(AUC)
        assert isinstance(estimate, Estimate) and "4 shadow models" in estimate.note
    assert [entry.kind for entry in ledger.history()] == ["opened", "reserved", "used", "committed"]


def test_an_offered_table_is_attacked_through_its_model(fitted: Workspace) -> None:
    options = ("--model", fitted.folder / "model", "--no-audit", "--shadow-models", 4)
    estimate = offered(fitted, *options)[1].find(AUC)
    assert isinstance(estimate, Estimate) and estimate.low is not None and estimate.low < 0.6
