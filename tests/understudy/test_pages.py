"""Pages as a reader follows them: README, the tutorials, and the page for people who know another library."""

import ast
import contextlib
import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.understudy.conftest import small_table
from tests.understudy.pages import ROOT, blocks, client, sandbox, shell

TUTORIALS = sorted((ROOT / "docs/tutorials").glob("*.md"))


def is_like(shown: str, told: str) -> bool:
    """True where a page shows an output: white space counts once, and `...` stands for anything."""
    pieces = (re.escape(" ".join(piece.split())) for piece in shown.split("..."))
    return re.fullmatch(".*".join(pieces), " ".join(told.split())) is not None


def python(text: str, names: dict[str, Any]) -> str:
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        exec(compile(text, "<tutorial>", "exec"), names)
    return told.getvalue()


@pytest.mark.tutorial
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_every_block_of_a_tutorial_does_what_the_page_says(page: Path, sandbox: Path) -> None:
    names: dict[str, Any] = {"__name__": "tutorial"}
    done = 0
    for block in blocks(page):
        if block.title:
            Path(block.title).write_text(block.text, encoding="utf-8")
            continue
        if block.language not in ("sh", "python"):
            continue
        told = shell(block.text) if block.language == "sh" else python(block.text, names)
        done += 1
        if block.output is not None and not is_like(block.output, told):
            pytest.fail(f"{page.name} shows\n{block.output}\nfor\n{block.text}\nwhich says\n{told}")
    assert done >= 3


def test_an_output_is_compared_but_for_dots_and_white_space() -> None:
    assert is_like("a  b\n...\nc ...\n", " a b\nc d")
    assert not is_like("a b\n...\nc", "a b\nc d")
    assert not is_like("0.9... of 3", "0.8 of 3")


def test_the_pages_are_found() -> None:
    """Guards the test above: a manual without tutorials would pass."""
    assert len(TUTORIALS) >= 5


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


PAGE = ROOT / "docs/how-to/coming-from.md"
OURS, SDV = "understudy", "SDV"


def code(*libraries: str) -> list[str]:
    """The Python of some libraries, in the order of the page; a block's first line names its library."""
    return [
        block.text for block in blocks(PAGE)
        if block.language == "python" and block.text.split()[1].strip(":") in libraries
    ]  # fmt: skip


def patients() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    age = rng.integers(18, 91, 600)
    town = rng.choice(["North", "South", "East"], 600)
    return pd.DataFrame(
        {"age": age, "income": rng.gamma(3, 20, 600).round(1), "town": town, "ill": rng.random(600) < age / 120}
    )


def carried_out(*libraries: str) -> dict[str, Any]:
    """The names that are left once the blocks ran one after the other, as in one notebook."""
    names: dict[str, Any] = {"real": patients()}
    for block in code(*libraries):
        exec(compile(block, PAGE.name, "exec"), names)
    return names


def test_all_code_of_the_page_is_python() -> None:
    result = code(OURS, SDV, "mostlyai", "ydata-synthetic")
    assert len(result) == 19
    for block in result:
        ast.parse(block)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_code_of_this_project_and_of_sdv_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = carried_out(OURS, SDV)
    assert (tmp_path / "report.html").is_file()
    assert names["verdict"].verdict in ("PASS", "FAIL", "INCONCLUSIVE")
    assert names["table"].find("privacy.membership.auc").value < 1
    assert names["private"].statement.epsilon == pytest.approx(1.0, abs=0.01)
    assert 0 <= names["report"].get_score() <= 1
