"""`understudy evaluate` of real rows of which none were held out, under a schema that nobody wrote."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest


@pytest.fixture
def parts(workspace: Any) -> dict[str, Path]:
    table = pd.read_csv(workspace.folder / "table.csv")
    rows = {"real": table[:300], "made": table[300:600]}
    paths = {name: workspace.folder / f"{name}.csv" for name in rows}
    for name, frame in rows.items():
        frame.to_csv(paths[name], index=False)
    return paths


def test_a_table_is_evaluated_judged_and_shown_without_a_holdout_and_a_schema(
    workspace: Any, parts: dict[str, Path]
) -> None:
    out, page = workspace.folder / "evaluation.json", workspace.folder / "report.html"
    ran = workspace.run("evaluate", "--train", parts["real"], "--synthetic", parts["made"], "--out", out)
    assert ran.exit_code == 0, ran.stderr
    assert "No holdout was given" in ran.stderr
    content = json.loads(out.read_text())
    assert (content["real"]["train_rows"], content["real"]["holdout_rows"]) == (300, 0)
    assert content["schema"]["status"] == "inferred"
    assert set(content["provenance"]["fingerprints"]) == {"table", "train"}
    judged = workspace.run("gate", out)
    assert judged.exit_code == 3
    assert "privacy.membership.auc: INCONCLUSIVE" in judged.stdout and "no holdout was given" in judged.stdout
    assert workspace.run("report", out, "--policy", "internal", "--out", page).exit_code == 0
    assert "none held out" in page.read_text()


def test_shadow_models_need_a_holdout(workspace: Any, parts: dict[str, Path]) -> None:
    ran = workspace.run(
        "evaluate", "--train", parts["real"], "--synthetic", parts["made"], "--model", "model", "--shadow-models", "4",
        "--out", workspace.folder / "evaluation.json",
    )  # fmt: skip
    assert ran.exit_code == 2
    assert "pass --holdout" in ran.stderr
