"""`understudy randomize`, `collect` and `survey`: reports without a table, and refusals that leave nothing."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

if TYPE_CHECKING:
    from conftest import Workspace

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


def collected(survey: "Workspace", *more: object) -> Any:
    folder = survey.folder
    asked = ("--schema", folder / "survey.toml", "--reports", folder / "reports", "--out", folder / "model")
    return survey.run("survey", *asked, *more)


def test_reports_become_a_model_and_a_table_without_the_answers(survey: "Workspace") -> None:
    ran = randomized(survey, "--epsilon", 6, "--pairs", "age:job", "--json")
    assert ran.exit_code == 0
    assert (ran.json["statement"]["epsilon"], ran.json["statement"]["trust"]) == (6.0, "local")
    assert "has seen the answers already" in ran.stderr
    (survey.folder / "answers.csv").unlink()
    ran_survey = collected(survey, "--epsilon", 6, "--pairs", "age:job", "--json")
    assert ran_survey.exit_code == 0
    assert (ran_survey.json["n_respondents"], ran_survey.json["left_out"]) == (900, {})
    clerks = ran_survey.json["columns"][1]["shares"][0]
    assert clerks["low"] < clerks["share"] < clerks["high"]
    assert abs(clerks["share"] - 0.8) < 0.15
    sampled = survey.run("sample", survey.folder / "model", "--rows", 300, "--out", survey.folder / "made.csv")
    assert sampled.exit_code == 0
    assert list(pd.read_csv(survey.folder / "made.csv").columns) == ["age", "job"]


def test_a_table_that_does_not_fit_leaves_nothing(survey: "Workspace") -> None:
    path = survey.folder / "answers.csv"
    path.write_text("age,job\n10,clerk\n20,spy\n")
    ran = randomized(survey, "--epsilon", 1)
    assert ran.exit_code == 2 and "spy" not in ran.stderr
    assert not (survey.folder / "reports").exists()
    assert randomized(survey, "--epsilon", 1, "--clamp").exit_code == 0


def test_reports_that_count_nothing_are_told_by_reason_and_never_shown(survey: "Workspace") -> None:
    assert randomized(survey, "--epsilon", 1).exit_code == 0
    path = survey.folder / "reports" / "reports.jsonl"
    path.write_text(path.read_text() + path.read_text().partition("\n")[0] + "\nzebrafish\n")
    ran = collected(survey, "--epsilon", 1)
    assert ran.exit_code == 0 and "zebrafish" not in ran.stdout + ran.stderr
    assert "Respondents: 900. Reports left out: 1 that are no report, 1 sent again." in " ".join(ran.stdout.split())
    other = collected(survey, "--epsilon", 2, "--out", survey.folder / "other")
    assert other.exit_code == 2 and "901 of another survey" in other.stderr
    assert not (survey.folder / "other").exists()


def test_a_question_that_nobody_answered_has_no_share(survey: "Workspace") -> None:
    asked = ("--epsilon", 20, "--answers", 1, "--pairs", "none")
    assert randomized(survey, *asked).exit_code == 0
    path = survey.folder / "reports" / "reports.jsonl"
    path.write_text(next(line for line in path.read_text().splitlines() if '{"0"' in line))
    age, job = collected(survey, *asked, "--json").json["columns"]
    assert (age["n_reports"], job["n_reports"]) == (1, 0)
    assert all(row["low"] <= row["share"] <= row["high"] for row in age["shares"])
    assert {row[key] for row in job["shares"] for key in ("share", "low", "high")} == {None}
    ran = collected(survey, *asked, "--out", survey.folder / "again")
    assert "Questions that nobody answered: 1 of 2." in " ".join(ran.stdout.split())


def test_a_page_is_written_alone(survey: "Workspace") -> None:
    schema, page = survey.folder / "survey.toml", survey.folder / "survey.html"
    asked = ("randomize", "--schema", schema, "--epsilon", 1, "--page", page)
    assert survey.run(*asked, "--json").json["page"] == str(page)
    assert "Randomize my answers" in page.read_text()
    for more in ((survey.folder / "answers.csv",), ("--out", survey.folder / "reports"), ("--clamp",)):
        ran = survey.run(*asked, *more)
        assert ran.exit_code == 2 and "name either" in ran.stderr
    schema.write_text(SCHEMA + '[columns.half]\nkind = "integer"\nbounds = [0, 30]\nmodeled = {expression = "age"}\n')
    ran = survey.run(*asked)
    assert ran.exit_code == 2 and "columns=half are modeled" in ran.stderr


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
    audited = survey.run("audit", "--model", folder / "model 1", "--confidence", 0.9999)
    assert audited.exit_code == 0, audited.stdout
    assert "Reports to each question: no fault found" in " ".join(audited.stdout.split())
