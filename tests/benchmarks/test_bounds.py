"""The benchmark of measured bounds: results are kept, and drawn again without running anything."""

import json
from pathlib import Path

import pandas as pd
import pytest

from benchmarks import bounds


def test_results_are_drawn_again_without_running_anything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = bounds.Bounded("visits", "day", 0.5, "simulation", clamped=[0.0, 0.6, 0.7, 0.1], ratio=[1.0, 2.0, 3.0, 40.0])
    far = [bounds.Distance("visits", 1.0, "measured", seed, 0.01 * (seed + 1)) for seed in range(3)]
    path = tmp_path / "bounds.json"
    path.write_text(json.dumps({"clamped": [vars(one)], "distances": [vars(distance) for distance in far]}))
    bounds.main(["--out", str(path)])
    first, second = capsys.readouterr().out.splitlines()
    assert "more than half clamped in 0.500" in first
    assert "median 2.50, largest 40" in first
    assert second == "visits, epsilon 1, measured: mean column distance 0.0200 (0.0100, 0.0200, 0.0300)"


@pytest.mark.slow
def test_bounds_of_a_table_are_measured_and_kept(tmp_path: Path) -> None:
    table, path = tmp_path / "visits.csv", tmp_path / "bounds.json"
    pd.DataFrame({"cost": [round(5 + row / 7, 2) for row in range(200)]}).to_csv(table, index=False)
    arguments = ["--clamped", f"{table}:cost", "--epsilons", "3", "--fits", "0", "--simulations", "2"]
    bounds.main([*arguments, "--out", str(path)])
    kept = json.loads(path.read_text())["clamped"]
    assert [one["table"] for one in kept] == ["visits", "signed amounts", "dated visits"]
    assert all(len(one["clamped"]) == len(one["ratio"]) == 2 for one in kept)
