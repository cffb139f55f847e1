"""The benchmark of groups: a run on a small table, continued, and its table of results."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks import clusters
from benchmarks.clusters import WITH_DP
from evaluate.utility.clusters import EXPLAINED


def made(n_rows: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    group = rng.integers(0, 3, n_rows)
    columns = {name: np.array(list("abc"))[(group + i) % 3] for i, name in enumerate(("one", "two", "three"))}
    return pd.DataFrame(columns | {"x": (group + rng.normal(0, 0.1, n_rows)).round(2)})


def test_a_run_is_kept_and_not_done_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, out = tmp_path / "small.csv", tmp_path / "clusters.json"
    made().to_csv(table, index=False)
    arguments = [str(table), "--generators", "independent:5", "trees", "--seeds", "1", "--out", str(out)]
    clusters.main(arguments)
    first, shown = out.read_text(encoding="utf-8"), capsys.readouterr().out
    runs = json.loads(first)["runs"]
    assert list(runs) == ["small independent:5 0", "small trees 0"]
    numbers = [run["numbers"] for run in runs.values()]
    assert WITH_DP in numbers[0] and WITH_DP not in numbers[1]
    assert numbers[0][EXPLAINED]["reference"] == numbers[1][EXPLAINED]["reference"] > 0.9
    clusters.main([*arguments[:-2], "--out", str(out)])
    assert (out.read_text(encoding="utf-8"), capsys.readouterr().out) == (first, shown)
    assert "| `trees` |" in shown and "k-means with DP" in shown
