"""Constraints on the command line: how many rows were rejected, what a run keeps of it, and how refusals read."""

import json
import tomllib
from typing import Any

import pandas as pd
import pytest

CONSTRAINTS: list[dict[str, Any]] = [{"kind": "inequality", "low": "age", "high": "income"}]


@pytest.fixture
def constrained(workspace: Any) -> Any:
    workspace.write_schema(constraints=CONSTRAINTS)
    return workspace


def fit_and_sample(workspace: Any, *more: object) -> Any:
    folder = workspace.folder
    fitted = workspace.run(
        "fit", folder / "table.csv", "--schema", folder / "schema.toml", "--generator", "independent", "--out",
        folder / "model",
    )  # fmt: skip
    assert fitted.exit_code == 0, fitted.stderr
    return workspace.run("sample", folder / "model", "--rows", 200, "--seed", 1, "--out", folder / "s.csv", *more)


def test_sample_says_how_many_rows_it_rejected(constrained: Any) -> None:
    ran = fit_and_sample(constrained, "--json")
    assert ran.exit_code == 0, ran.stderr
    rejected = ran.json["rejected"]
    assert rejected > 0
    drawn = pd.read_csv(constrained.folder / "s.csv")
    assert len(drawn) == 200
    assert not (drawn["age"] > drawn["income"]).any()
    told = constrained.run(
        "sample", constrained.folder / "model", "--rows", 200, "--seed", 1, "--out", constrained.folder / "t.csv"
    )
    assert f"Constraints: {rejected:,} rows that broke a constraint were rejected" in told.stdout + told.stderr


def test_sample_says_nothing_of_it_where_the_schema_has_no_constraints(workspace: Any) -> None:
    ran = fit_and_sample(workspace, "--json")
    assert ran.json["rejected"] is None
    assert "onstraint" not in ran.stderr


def test_sampling_that_accepts_nothing_ends_with_the_constraint_and_leaves_no_table(workspace: Any) -> None:
    columns = tomllib.loads((workspace.folder / "schema.toml").read_text(encoding="utf-8"))["columns"]
    columns["income"]["missing"] = False
    workspace.write_schema(columns=columns, constraints=[{**CONSTRAINTS[0], "low": "income", "high": "age"}])
    table = pd.read_csv(workspace.folder / "table.csv").assign(income=195.0)
    workspace.write_table(table)
    ran = fit_and_sample(workspace)
    assert ran.exit_code == 2
    assert "most of them break that 'income' is at most 'age'" in ran.stderr
    assert not (workspace.folder / "s.csv").exists()


def test_a_run_keeps_the_constraints_and_says_what_they_cost(constrained: Any) -> None:
    folder = constrained.folder
    ran = constrained.run("run", folder / "job.toml", "--out", folder / "out")
    assert ran.exit_code in (0, 1), ran.stderr
    assert "rows that broke a constraint were rejected and drawn again" in ran.stdout + ran.stderr
    drawn = pd.read_csv(folder / "out" / "synthetic" / "independent.csv")
    assert not (drawn["age"] > drawn["income"]).any()
    evaluation = json.loads((folder / "out" / "evaluation.json").read_text(encoding="utf-8"))
    assert evaluation["schema"]["constraints"][0]["low"] == "age"
    rejected = evaluation["candidates"][0]["n_rejected_rows"]
    assert f"independent: {rejected:,} rows" in ran.stdout + ran.stderr
    assert "rows_rejected_for_constraints" not in evaluation["candidates"][0]["generator"]
    assert f"rows rejected for constraints: {rejected:,}" in (folder / "out" / "report.html").read_text(
        encoding="utf-8"
    )
    found = [e for e in evaluation["candidates"][0]["estimates"] if e["measure"] == "validity.constraint"]
    assert [(e["subject"], e["value"]) for e in found] == [(["age", "income"], 1.0)]


def test_declaring_shows_the_constraints_that_are_asserted(workspace: Any) -> None:
    path = workspace.write_schema(status="inferred", constraints=CONSTRAINTS)
    ran = workspace.run("schema", "declare", path, "--force", "--out", path)
    assert ran.exit_code == 0, ran.stderr
    assert "'age' is at most 'income'" in " ".join(ran.stdout.split())


def test_a_constraint_that_does_not_fit_is_refused_before_the_table_is_read(workspace: Any) -> None:
    path = workspace.write_schema(constraints=[{**CONSTRAINTS[0], "high": "town"}])
    ran = workspace.run("schema", "check", workspace.folder / "no_table.csv", "--schema", path)
    assert ran.exit_code == 2
    assert "constraints.0: column='town' is of kind categorical, which has no order" in " ".join(ran.stderr.split())
