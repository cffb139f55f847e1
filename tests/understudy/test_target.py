import tomllib
from typing import Any

import pandas as pd

from evaluate.result_io import evaluation_from
from understudy.job.spec import build_job


def test_evaluate_takes_a_target_and_refuses_one_that_is_no_column(workspace: Any) -> None:
    folder = workspace.folder
    table = pd.read_csv(folder / "table.csv")
    parts = {"train": table[:300], "holdout": table[300:450], "made": table[450:600]}
    for name, rows in parts.items():
        rows.to_csv(folder / f"{name}.csv", index=False)
    target = next(name for name in table.columns if 1 < table[name].nunique() < 6)
    given = (
        "evaluate", "--train", folder / "train.csv", "--holdout", folder / "holdout.csv", "--synthetic",
        folder / "made.csv", "--schema", folder / "schema.toml", "--measure", "utility.tstr",
        "--out", folder / "evaluation.json", "--force", "--target",
    )  # fmt: skip
    assert workspace.run(*given, target).exit_code == 0
    found = evaluation_from((folder / "evaluation.json").read_text())
    assert found.candidates[0].figures["utility"]["target"] == target
    refused = workspace.run(*given, "no such column")
    assert refused.exit_code != 0
    assert "no such column" in refused.stderr
    nonsense = workspace.run(*given, target, "--task", "regression")
    assert nonsense.exit_code == 2
    assert "task='regression' needs numbers or times" in nonsense.stderr


def test_a_job_says_how_its_target_is_predicted_and_nonsense_is_refused_before_anything_is_read(workspace: Any) -> None:
    job = build_job({**tomllib.loads(workspace.write_job().read_text()), "evaluation": {"task": "classification"}})
    assert job.evaluation.task == "classification"
    refused = workspace.run(
        "run", workspace.write_job(evaluation={"task": "regression"}), "--out", workspace.folder / "o"
    )
    assert refused.exit_code == 2
    assert "task='regression' needs numbers or times: target='ill' is of kind boolean" in refused.stderr
    assert not (workspace.folder / "o").exists()
