from typing import Any

import pandas as pd
import pytest

from evaluate.options import N_TARGETS
from evaluate.result import Estimate
from evaluate.result_io import evaluation_from
from understudy.job.spec import EvaluationSpec


def test_a_job_attacks_as_many_rows_as_an_evaluation_does_by_itself() -> None:
    assert EvaluationSpec().n_targets == N_TARGETS
    assert EvaluationSpec(targets="all").n_targets is None


@pytest.mark.parametrize(("targets", "n"), [("100", 175), ("all", 375)])
def test_evaluate_attacks_as_many_rows_as_it_is_told(targets: str, n: int, workspace: Any) -> None:
    folder = workspace.folder
    table = pd.read_csv(folder / "table.csv")
    parts = {"train": table[:300], "holdout": table[300:450], "made": table[450:600]}
    for name, rows in parts.items():
        rows.to_csv(folder / f"{name}.csv", index=False)
    given = (
        "evaluate", "--train", folder / "train.csv", "--holdout", folder / "holdout.csv", "--synthetic",
        folder / "made.csv", "--schema", folder / "schema.toml", "--measure", "privacy.membership",
        "--out", folder / "evaluation.json", "--force", "--targets",
    )  # fmt: skip
    assert workspace.run(*given, targets).exit_code == 0
    found = evaluation_from((folder / "evaluation.json").read_text()).candidates[0].find("privacy.membership.auc")
    assert isinstance(found, Estimate)
    assert found.n == n
    for wrong in ("99", "many", "-5"):
        refused = workspace.run(*given, wrong)
        assert refused.exit_code == 2
        assert f"targets: {wrong if wrong.isdecimal() else repr(wrong)} is neither a number" in refused.stderr
