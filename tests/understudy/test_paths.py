"""Three people's ways to a report, as README has them: a notebook, one command, and a private release."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.understudy.conftest import small_table
from tests.understudy.pages import ROOT, blocks, client, sandbox, shell

__all__ = ["client", "sandbox"]  # fixtures


@pytest.mark.parametrize("library", ["polars"])  # the first tutorial has it with pandas
def test_a_notebook_goes_from_a_table_to_a_report_in_five_lines(
    library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (lines,) = (block.text for block in blocks(ROOT / "README.md") if block.language == "python")
    assert sum(bool(re.match("(?!import|print).", line)) for line in lines.splitlines()) == 5
    monkeypatch.chdir(tmp_path)
    small_table(300)[["age", "ill"]].rename(columns={"ill": "readmitted"}).to_csv("patients.csv", index=False)
    names: dict[str, Any] = {}
    exec(compile(lines.replace("pandas", library), "README.md", "exec"), names)
    shown = capsys.readouterr()
    assert [line.split()[:2] for line in shown.err.splitlines()[1:3]] == [["age", "integer"], ["readmitted", "boolean"]]
    assert "Column distance beyond noise" in shown.out
    assert re.search("^synthetic: (PASS|FAIL|INCONCLUSIVE) under policy internal", shown.out, re.MULTILINE)
    assert type(names["synthetic"]).__module__.startswith(library)
    assert Path("report.html").read_text(encoding="utf-8").startswith("<!doctype html>")


@pytest.mark.tutorial
def test_commands_go_from_a_file_to_a_report_and_to_a_private_release_as_they_are_written(sandbox: Path) -> None:
    """But for `make`; a verdict, which a small table decides as it likes, is no error."""
    shell("python patients.py 900")
    shell("head -451 patients.csv > train.csv && (head -1 patients.csv && tail -450 patients.csv) > holdout.csv")
    shell("python -c \"import pandas as pd; t = pd.read_csv('holdout.csv').iloc[::-1]; t.to_parquet('beta.parquet')\"")
    shell("(head -1 train.csv && tail -400 train.csv) > acme.csv")
    for block in blocks(ROOT / "README.md"):
        if block.title:
            Path(block.title).write_text(block.text, encoding="utf-8")
        elif block.language == "sh" and "make demo" not in block.text:
            for line in block.text.splitlines():
                shell(f"{line.partition('#')[0]} || {{ code=$?; [ $code = 1 ] || [ $code = 3 ]; }}")
    assert Path("tried-patients/report.html").exists()
    assert Path("result/to-hand-on/auto.csv").exists()
