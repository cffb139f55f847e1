from typing import Any

import pandas as pd

from evaluate.result_reading import evaluation_from


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
