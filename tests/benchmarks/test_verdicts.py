"""The benchmark of verdicts: what it draws, what the docs show of it, and that it runs on any table."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks import verdicts
from benchmarks.spoiled_tables import TABLES, Sides

ROOT = Path(__file__).parents[2]


def test_the_docs_show_the_tables_that_the_results_give(capsys: pytest.CaptureFixture[str]) -> None:
    verdicts.main(["--out", str(ROOT / "benchmarks/verdicts.json")])
    drawn = capsys.readouterr().out
    assert drawn.strip()
    shown = (ROOT / "docs/reference/gate.md").read_text(encoding="utf-8")
    for table in drawn.strip().split("\n\n"):
        assert table in shown


def test_a_cell_is_the_verdict_furthest_from_right_of_each_policy() -> None:
    runs = {"fresh real rows": ["PP?", "P?F"], "copy": ["FFF", "PF?"]}
    tables = {"t": {str(i): {case: {"verdicts": marks[i], "ends": {}} for case, marks in runs.items()} for i in (0, 1)}}
    lines = list(verdicts._drawn_verdicts(tables))
    assert "| fresh real rows | honest | P?F |" in lines
    assert "| copy | leak | PF? |" in lines


def test_results_of_fewer_measures_are_drawn(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "earlier.json"
    ends = {"privacy.membership.auc": 0.52}
    runs = {"0": {"fresh real rows": {"verdicts": "PPP", "ends": ends}}}
    out.write_text(json.dumps({"tables": {"t": runs}}))
    verdicts.main(["--out", str(out)])
    drawn = capsys.readouterr().out
    assert "| `privacy.membership.auc` | 0.6 | 0.57 | 0.55 | 0.52 | 0.52 | t |" in drawn
    assert "| `validity.rows` |" not in drawn


def test_any_table_is_split_spoiled_and_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=900)
    frame = pd.DataFrame({"x": x, "y": x + rng.normal(size=900), "z": np.where(x > 0, "a", "b")})
    frame.to_csv(tmp_path / "made.csv", index=False)
    out = tmp_path / "out.json"
    verdicts.main([str(tmp_path), "--cases", "fresh real rows", "copy", "--rows", "300", "--out", str(out)])
    found = json.loads(out.read_text())["tables"]["made"]["0"]
    assert found["copy"]["verdicts"] == "FFF"
    assert "F" not in found["fresh real rows"]["verdicts"]
    assert "| copy | leak | FFF |" in capsys.readouterr().out


def test_every_ruin_changes_the_table_and_keeps_its_columns() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=300).round(2)
    frame = pd.DataFrame({"x": x, "y": (x + rng.normal(size=300)).round(2), "z": np.where(x > 0, "a", "b"), "k": 1})
    sides = Sides.of(frame, 100, 0)
    for name, (must, spoil) in TABLES.items():
        made = spoil(sides, np.random.default_rng(2))
        assert list(made.columns)[:4] == list(frame.columns), name
        # One row of 90 may already have the coarse cells of an outlier.
        assert must == "honest" or name == "outliers on a coarse table" or not made.equals(sides.fresh), name


def test_ruins_of_columns_leave_entities_alone() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=300).round(2)
    frame = pd.DataFrame({"who": np.arange(300) // 2 + 10_000, "x": x, "y": (x + rng.normal(size=300)).round(2)})
    sides = Sides.of(frame, 100, 0, "who")
    assert not set(sides.train["who"]) & set(sides.fresh["who"])
    for name in ("values of 1 column", "one column ruined", "one column x 1,000", "15% at the maximum", "sorted"):
        made = TABLES[name][1](sides, np.random.default_rng(2))
        assert made["who"].tolist() == sides.fresh["who"].tolist(), name
        assert not made.equals(sides.fresh), name
