"""The benchmark of verdicts: what it draws, what the docs show of it, and that it runs on any table."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks import three_tables, verdicts
from benchmarks.sides import Sides
from benchmarks.spoiled_tables import TABLES, make
from benchmarks.three_tables import subscribers

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


def made_table(n: int) -> pd.DataFrame:
    """One of everything that cases need: numbers, groups, classes, missing cells, a dependency."""
    rng = np.random.default_rng(1)
    x, group = rng.normal(size=n).round(2), rng.choice(list("abcdef"), n, p=[0.46, 0.25, 0.14, 0.06, 0.05, 0.04])
    return pd.DataFrame({
        "x": x, "y": (x + rng.normal(size=n)).round(2), "z": np.where(x > 0, "a", "b"), "group": group,
        "area": np.array(list("uvwwvu"))[pd.factorize(group, sort=True)[0]], "k": 1, "coin": rng.choice(list("hf"), n),
        "gap": pd.Series(x * 100).round().where(rng.random(n) > 0.1),
        "class": np.where(rng.random(n) < 0.8, np.where(x > -1, "p", "q"), "p"),
    })  # fmt: skip


def test_every_case_changes_the_table_and_keeps_its_columns() -> None:
    table = made_table(900)
    sides = Sides.of(table, 300, 0)
    for name, (must, _) in TABLES.items():
        spoiled = make(name, sides, np.random.default_rng(2))
        assert not isinstance(spoiled, str), f"{name}: {spoiled}"
        assert list(spoiled.columns)[: len(table.columns)] == list(table.columns), name
        assert must == "honest" or not spoiled.equals(sides.fresh), name
        assert len(spoiled) >= 250, name


def test_a_case_that_says_nothing_of_a_table_is_left_out_with_its_reason(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    pd.DataFrame({name: rng.choice(list("ab"), 600) for name in "uvw"}).to_csv(tmp_path / "coarse.csv", index=False)
    out = tmp_path / "out.json"
    verdicts.main([str(tmp_path), "--cases", "values of 1 column", "one column x 1.1", "--out", str(out)])
    assert json.loads(out.read_text())["tables"]["coarse"]["0"] == {
        "values of 1 column": {"left_out": "no column has values that one person alone has"},
        "one column x 1.1": {"left_out": "no number of many values"},
    }


def test_leaks_and_ruins_that_pass_are_named() -> None:
    cases = {"copy": "FFF", "1% copies": "?FF", "5% copies": "P??", "2% copies": "FPF", "fresh real rows": "PP?"}
    found = {case: {"verdicts": marks, "against": {"partner": ["x 1 [0, 2]"]}} for case, marks in cases.items()}
    assert list(verdicts.holes({"t": {"0": found}})) == [
        "2% copies | t 0 | internal F, partner P | x 1 [0, 2]", "5% copies | t 0 | internal P, partner ? | x 1 [0, 2]",
    ]  # fmt: skip


def test_tables_that_a_program_draws_are_the_same_each_time_and_as_they_are_described() -> None:
    coarse, claims, trial = subscribers(2_000), three_tables.claims(2_000), three_tables.trial(4_000)
    assert coarse.equals(subscribers(2_000))
    assert subscribers().drop_duplicates().shape[0] < 4_000
    assert (claims["paid"] == 0).mean() > 0.1
    assert claims["amount"].max() > 20 * claims["amount"].median()
    arm, gene, response = (trial[name] == trial[name].iloc[0] for name in ("arm", "gene", "response"))
    assert max(abs(np.corrcoef(side, response)[0, 1]) for side in (arm, gene)) < 0.05
    assert abs(np.corrcoef(arm ^ gene, response)[0, 1]) > 0.5


def test_ruins_of_columns_leave_entities_alone() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=300).round(2)
    frame = pd.DataFrame({"who": np.arange(300) // 2 + 10_000, "x": x, "y": (x + rng.normal(size=300)).round(2)})
    sides = Sides.of(frame, 100, 0, "who")
    assert not set(sides.train["who"]) & set(sides.fresh["who"])
    for name in ("values of 1 column", "one column ruined", "one column x 1,000", "15% at the maximum", "sorted"):
        spoiled = make(name, sides, np.random.default_rng(2))
        assert not isinstance(spoiled, str), name
        assert spoiled["who"].tolist() == sides.fresh["who"].tolist(), name
        assert not spoiled.equals(sides.fresh), name
