"""The benchmark of a whole evaluation: it runs on any table and counts its rows."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks import whole_evaluation
from evaluate.metrics import MODULES


def test_every_measure_is_run_on_the_rows_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=400).round(1)
    frame = pd.DataFrame({"x": x, "y": (x + rng.normal(size=400)).round(1), "z": np.where(x > 0, "a", "b")})
    frame.to_csv(tmp_path / "made.csv", index=False)
    options = [str(tmp_path / "made.csv"), "--target", "z", "--rows", "200", "--holdout", "100"]
    whole_evaluation.main([*options, "--here"])
    found = json.loads(capsys.readouterr().out)
    assert (found["train"], found["holdout"], found["columns"]) == (200, 100, 3)
    assert set(MODULES) <= set(found["wall_s"])
    assert found["cpu_s"] > 0
