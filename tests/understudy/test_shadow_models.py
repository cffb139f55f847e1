"""Shadow models in a run: only where somebody asks, and no ledger hears of them."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from evaluate.result import Candidate, Estimate
from evaluate.result_io import evaluation_from
from synth.dp.ledger import open_ledger

AUC = "privacy.shadow.auc"


def candidates(workspace: Any, **evaluation: Any) -> tuple[Any, tuple[Candidate, ...]]:
    workspace.write_job(
        generators={"plain": {"generator": "independent"}, "private": {"generator": "independent", "epsilon": 1.0}},
        ledger={"url": "ledger.db"},
        evaluation={"measures": ["validity"], **evaluation},
    )
    columns = {"ill": {"kind": "boolean"}, "town": {"kind": "categorical", "categories": ["North", "South", "East"]}}
    workspace.write_schema(columns=columns, dataset="people")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"ill": rng.random(300) < 0.2, "town": rng.choice(["North", "South", "East"], 300)})
    workspace.write_table(frame)
    out = workspace.folder / "out"
    ran = workspace.run("run", workspace.folder / "job.toml", "--out", out)
    return ran, evaluation_from((out / "evaluation.json").read_text()).candidates


@pytest.fixture
def ledger(workspace: Any) -> Any:
    result = open_ledger(str(workspace.folder / "ledger.db"))
    result.open("people", unit="row", epsilon=3.0, n_units=900)
    return result


def test_a_run_that_asks_for_them_reports_them_and_the_ledger_holds_its_own_fit_alone(
    workspace: Any, ledger: Any
) -> None:
    ran, result = candidates(workspace, shadow_models=4)
    assert "shadow models plain" in ran.stderr
    for candidate in result:
        estimate = candidate.find(AUC)
        assert isinstance(estimate, Estimate)
        assert "4 shadow models" in estimate.note
        assert candidate.seconds["privacy.shadow"] > 0
    assert [entry.kind for entry in ledger.history()] == ["opened", "reserved", "used", "committed"]


def test_an_offered_table_is_attacked_through_its_model(workspace: Any) -> None:
    parts, model, synthetic = (workspace.folder / name for name in ("parts", "model", "made.csv"))
    schema = workspace.folder / "schema.toml"
    workspace.run("split", workspace.folder / "table.csv", "--schema", schema, "--out", parts)
    workspace.run("fit", parts / "train.csv", "--schema", schema, "--generator", "independent", "--out", model)
    workspace.run("sample", model, "--rows", 200, "--seed", 1, "--out", synthetic)
    asked = (
        "evaluate", "--train", parts / "train.csv", "--holdout", parts / "holdout.csv", "--synthetic", synthetic,
        "--schema", schema, "--measure", "validity", "--shadow-models", 4, "--out", workspace.folder / "e.json",
    )  # fmt: skip
    refused = workspace.run(*asked)
    assert refused.exit_code == 2 and "pass --model" in refused.stderr
    assert workspace.run(*asked, "--model", model).exit_code == 0
    (candidate,) = evaluation_from((workspace.folder / "e.json").read_text()).candidates
    estimate = candidate.find(AUC)
    assert isinstance(estimate, Estimate) and estimate.low is not None and estimate.low < 0.6
