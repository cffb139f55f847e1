"""`understudy randomize`, `collect` and `survey`: reports without a table, and refusals that leave nothing."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

from evaluate.audit_result import EXCEEDS, NO_FAULT
from evaluate.result_io import evaluation_from
from tests.extras.local.test_survey import schema_of
from tests.understudy.test_audit import FAST, MEASURE, offered
from understudy.extras.local.generator import Local
from understudy.extras.local.oracles import DirectEncoding

if TYPE_CHECKING:
    from conftest import Workspace

_direct = DirectEncoding.randomize
SCHEMA = """status = "declared"
n_units = 900
[columns.age]
kind = "integer"
bounds = [0, 59]
[columns.job]
kind = "categorical"
categories = ["clerk", "cook"]
"""


@pytest.fixture
def survey(workspace: "Workspace") -> "Workspace":
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(0, 60, 900), "job": rng.choice(["clerk", "cook"], 900, p=[0.8, 0.2])})
    frame.to_csv(workspace.folder / "answers.csv", index=False)
    (workspace.folder / "survey.toml").write_text(SCHEMA)
    return workspace


def randomized(survey: "Workspace", *more: object) -> Any:
    folder = survey.folder
    return survey.run(
        "randomize", folder / "answers.csv", "--schema", folder / "survey.toml", "--out", folder / "reports", *more
    )


def test_reports_become_a_model_and_a_table_without_the_answers(survey: "Workspace") -> None:
    ran = randomized(survey, "--epsilon", 6, "--pairs", "age:job", "--json")
    assert ran.exit_code == 0
    assert (ran.json["statement"]["epsilon"], ran.json["statement"]["trust"]) == (6.0, "local")
    assert "has seen the answers already" in ran.stderr
    (survey.folder / "answers.csv").unlink()
    made = survey.run("survey", "--reports", survey.folder / "reports", "--out", survey.folder / "model", "--json")
    assert made.exit_code == 0
    clerks = made.json["columns"][1]["shares"][0]
    assert clerks["low"] < clerks["share"] < clerks["high"]
    assert abs(clerks["share"] - 0.8) < 0.15
    sampled = survey.run("sample", survey.folder / "model", "--rows", 300, "--out", survey.folder / "made.csv")
    assert sampled.exit_code == 0
    assert list(pd.read_csv(survey.folder / "made.csv").columns) == ["age", "job"]
    account = survey.run("ledger", "show", "--release", survey.folder / "model", "--json")
    assert account.exit_code == 0
    assert account.json["epsilon"] == 6.0


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--epsilon", 0), "epsilon"),
        (("--epsilon", 1, "--pairs", "age"), "pair=age:"),
        (("--epsilon", 1, "--pairs", "age:nose"), "nose"),
        (("--epsilon", 1, "--pairs", "none", "--pairs", "age:job"), "pair=none:"),
    ],
)
def test_what_cannot_be_asked_ends_with_2_and_leaves_nothing(
    survey: "Workspace", more: tuple[object, ...], said: str
) -> None:
    before = sorted(path.name for path in survey.folder.iterdir())
    ran = randomized(survey, *more)
    assert ran.exit_code == 2
    assert said in ran.stderr
    assert sorted(path.name for path in survey.folder.iterdir()) == before


def test_a_table_that_does_not_fit_or_damaged_reports_leave_nothing(survey: "Workspace") -> None:
    path = survey.folder / "answers.csv"
    path.write_text("age,job\n10,clerk\n20,spy\n")
    ran = randomized(survey, "--epsilon", 1)
    assert ran.exit_code == 2 and "spy" not in ran.stderr
    assert not (survey.folder / "reports").exists()
    assert randomized(survey, "--epsilon", 1, "--clamp").exit_code == 0
    lines = survey.folder / "reports" / "reports.csv"
    lines.write_text(lines.read_text() + "0,1\n")
    made = survey.run("survey", "--reports", survey.folder / "reports", "--out", survey.folder / "model")
    assert made.exit_code == 2 and "no sound reports" in made.stderr
    assert not (survey.folder / "model").exists()


def test_a_fit_is_paid_by_a_ledger_and_audited_by_its_reports(survey: "Workspace") -> None:
    folder, url = survey.folder, survey.folder / "ledger.sqlite"
    schema = folder / "survey.toml"
    schema.write_text('dataset = "answers"\n' + SCHEMA)
    opened = survey.run("ledger", "open", "answers", "--schema", schema, "--epsilon", 3, "--ledger", url)
    assert opened.exit_code == 0, opened.stderr
    for number, code in ((1, 0), (2, 2)):
        out = folder / f"model {number}"
        asked = ("--generator", "local", "--epsilon", 2, "--ledger", url, "--clamp", "--out", out, "--json")
        ran = survey.run("fit", folder / "answers.csv", "--schema", schema, *asked)
        assert ran.exit_code == code, ran.stderr
        assert out.exists() == (code == 0)
    audited = survey.run("audit", "--model", folder / "model 1")
    assert audited.exit_code == 0, audited.stderr
    said = " ".join(audited.stdout.split())
    for words in (
        "reports of respondents",
        "Reports to each question: no fault found",
        "Answers of one respondent: no",
    ):
        assert words in said
    assert said.endswith("This is no proof of the claim.")


def test_a_survey_is_a_plan_or_a_model_of_reports(survey: "Workspace") -> None:
    for asked in ((), ("--epsilon", 1), ("--reports", "r"), ("--epsilon", 1, "--reports", "r", "--out", "m")):
        ran = survey.run("survey", *asked)
        assert ran.exit_code == 2 and "name two" in ran.stderr


def test_a_survey_says_how_many_respondents_it_takes(survey: "Workspace") -> None:
    ran = survey.run("survey", "--schema", survey.folder / "survey.toml", "--epsilon", 1, "--json")
    assert ran.exit_code == 0
    job = next(one for one in ran.json["questions"] if one["question"] == ["job"])
    assert job["respondents"]["0.01"] == pytest.approx(4 * job["respondents"]["0.02"], rel=1e-3)
    by_width = ran.json["n_respondents"] * (job["half_width"] / 0.01) ** 2
    assert job["respondents"]["0.01"] == pytest.approx(by_width, rel=1e-3)
    assert json.dumps(ran.json["answers_each"]) == "1"


def test_a_local_claim_is_audited_in_a_run_and_its_table_can_pass(workspace: "Workspace") -> None:
    workspace.write_job(
        release="local", generators={"local": {"epsilon": 4.0}}, evaluation={"measures": FAST, "audit": True}
    )
    out: Path = workspace.folder / "out"
    ran = workspace.run("run", workspace.folder / "job.toml", "--out", out)
    assert ran.exit_code in (0, 1, 3), ran.stderr
    (found,) = evaluation_from((out / "evaluation.json").read_text()).candidates
    assert found.audit is not None
    assert (found.audit.verdict, found.audit.attacked, found.audit.epsilon) == (NO_FAULT, "reports", 4.0)
    (judged,) = json.loads((out / "verdict.json").read_text())["candidates"]
    assert {f["rule"]["measure"]: f["outcome"] for f in judged["findings"]}[MEASURE] == "PASS"
    report = (out / "report.html").read_text()
    assert "Audit of the reports of respondents: no fault found; lower bound" in report
    assert "not audited" not in report


def test_a_local_claim_that_is_disproved_fails(workspace: "Workspace", monkeypatch: pytest.MonkeyPatch) -> None:
    def doubled(self: DirectEncoding, cells: np.ndarray, words: Any) -> np.ndarray:
        return _direct(replace(self, epsilon=2 * self.epsilon), cells, words)

    monkeypatch.setattr(DirectEncoding, "randomize", doubled)
    folder, model = workspace.folder, workspace.folder / "model"
    schema = ("--schema", folder / "schema.toml")
    table = pd.read_csv(folder / "table.csv")
    for name, rows in (("train", table[:500]), ("holdout", table[500:])):
        rows.to_csv(folder / f"{name}.csv", index=False)
    fit = ("fit", folder / "train.csv", *schema, "--generator", "local", "--epsilon", 2, "--out", model)
    assert workspace.run(*fit).exit_code == 0
    assert workspace.run("sample", model, "--rows", 300, "--out", folder / "made.csv").exit_code == 0
    ran, found, outcome = offered(workspace, "--model", model)
    assert outcome == "FAIL"
    assert found.audit is not None and found.audit.verdict == EXCEEDS
    assert "the audit disproves the privacy statement of made" in ran.stderr


def test_few_respondents_are_warned_of() -> None:
    schema = schema_of(900)
    (said,) = Local(epsilon=1.0).cautions(schema)
    assert said.startswith("n_units=900 is few for respondents who randomize")
    assert not Local(epsilon=8.0).cautions(schema_of(100_000))
    assert not Local().cautions(schema)
