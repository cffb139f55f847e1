"""Three people's ways from a table to a report: a notebook, one command, and a private release as README has it."""

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.understudy.conftest import small_table

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_notebook_goes_from_a_frame_to_a_report_in_five_lines(
    library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (lines,) = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    assert len([line for line in lines.splitlines() if line and not line.startswith(("import", "print"))]) <= 5
    monkeypatch.chdir(tmp_path)
    small_table(300)[["age", "ill"]].to_csv("patients.csv", index=False)
    lines = lines.replace("pandas", library)
    names: dict[str, Any] = {}
    exec(compile(lines, "README.md", "exec"), names)
    shown = capsys.readouterr()
    assert [line.split()[:2] for line in shown.err.splitlines()[1:3]] == [["age", "integer"], ["ill", "boolean"]]
    assert "Column distance beyond noise" in shown.out
    assert re.search("^synthetic: (PASS|FAIL|INCONCLUSIVE) under policy internal", shown.out, re.MULTILINE)
    assert max(len(line) for line in shown.out.splitlines()) < 400
    assert type(names["synthetic"]).__module__.startswith(library)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "under policy internal" in page or "internal" in page
