"""`understudy try`: a table alone gives a report, files that reproduce it, and no assertion that nobody made."""

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

from evaluate.result_io import evaluation_from
from tests.understudy.conftest import SECRET, Ran, Workspace, quick_models, run_command, shared_run, small_table
from understudy.cli import app, jobs
from understudy.quickstart import QuickStart

JUDGED = (0, 1, 3)


@pytest.fixture(scope="session")
def tried(tmp_path_factory: pytest.TempPathFactory) -> tuple[Workspace, Ran]:
    def carry_out(folder: Path) -> Ran:
        table = small_table(400).assign(price=[f"{n}:{7 * n}/{n % 11} #{n}" for n in range(400)])
        path = Workspace(folder).write_table(table)
        with quick_models():
            return run_command("try", path, "--target", "ill", "--out", folder / "out")

    return shared_run(tmp_path_factory, "tried", carry_out)


def test_a_table_alone_gives_a_report_a_verdict_its_reason_and_the_next_steps(tried: tuple[Workspace, Any]) -> None:
    workspace, ran = tried
    out = workspace.folder / "out"
    assert ran.exit_code in JUDGED, ran.stderr
    assert (out / "report.html").is_file()
    assert len(pd.read_csv(out / "synthetic" / "auto.csv")) > 0
    text = ran.stdout
    reasons = [line for line in text.splitlines() if line.startswith("auto: ") and "against a limit of" in line]
    assert bool(reasons) == (ran.exit_code != 0)
    assert "on a terminal, without --yes and with `--epsilon 1 --out DIR`" in text
    assert "no formal guarantee" in text
    assert "numbers nor times as they are written: 'price'. To keep them, write kind = " in text
    assert SECRET not in ran.stdout + ran.stderr


def test_its_files_do_the_same_again(tried: tuple[Workspace, Any], tmp_path: Path) -> None:
    workspace, ran = tried
    out, again = workspace.folder / "out", tmp_path / "again"
    with quick_models():
        assert workspace.run("run", out / "job.toml", "--out", again).exit_code == ran.exit_code
    for name in ("synthetic/auto.csv", "schema.toml", "job.toml"):
        assert (out / name).read_bytes() == (again / name).read_bytes()
    each, two = (evaluation_from((path / "evaluation.json").read_text()) for path in (out, again))
    assert each.candidates[0].estimates == two.candidates[0].estimates


@pytest.mark.parametrize(
    ("more", "clause"),
    [(("--target", "nobody"), "nobody"), (("--epsilon", "1", "--yes"), "needs a person who says what is public")],
)
def test_wrong_use_is_one_sentence_and_leaves_nothing(workspace: Any, more: tuple[str, ...], clause: str) -> None:
    before = workspace.listing()
    ran = workspace.run("try", workspace.folder / "table.csv", "--out", workspace.folder / "out", *more)
    assert ran.exit_code == 2
    assert clause in ran.stderr
    assert workspace.listing() == before


def asked(workspace: Any, monkeypatch: pytest.MonkeyPatch, *answers: str) -> Any:
    """The command on a terminal where somebody gives these answers."""
    monkeypatch.setattr(jobs, "is_terminal", lambda: True)
    named = ("--epsilon", "1", "--target", "ill", "--out", str(workspace.folder / "out"))
    arguments = ["try", str(workspace.folder / "table.csv"), *named]
    return CliRunner().invoke(app, arguments, input="".join(f"{answer}\n" for answer in answers))


@pytest.mark.statistical
def test_with_epsilon_a_person_declares_line_by_line(workspace: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = asked(workspace, monkeypatch, "900", "age", "income", "y", "y")
    assert ran.exit_code in JUDGED, ran.stderr
    for line in jobs.WHAT_IS_DECLARED:
        assert line in ran.stderr
    assert "column 'age': every value is a whole number from" in ran.stderr
    schema = tomllib.loads((workspace.folder / "out" / "schema.toml").read_text())
    assert "constraints" not in schema
    assert (schema["status"], schema["n_units"]) == ("declared", 900)
    columns = schema["columns"]
    assert [columns[name].get("measure") for name in ("age", "income", "town")] == [None, True, True]
    assert SECRET not in (workspace.folder / "out" / "schema.toml").read_text()
    content = json.loads((workspace.folder / "out" / "evaluation.json").read_text())
    assert 0 < content["candidates"][0]["statement"]["epsilon"] <= 1.0


@pytest.mark.parametrize(
    ("answers", "clause"),
    [
        (("900", "age", "none", "n"), "is not declared"),
        (("900", "agee", "age", "none", "n"), "'agee' is no column that can be named here"),
    ],
)
def test_what_nobody_declares_is_not_fitted(
    workspace: Any, monkeypatch: pytest.MonkeyPatch, answers: tuple[str, ...], clause: str
) -> None:
    ran = asked(workspace, monkeypatch, *answers)
    assert ran.exit_code == 2
    assert clause in ran.stderr
    assert not (workspace.folder / "out").exists()


def test_with_epsilon_nothing_is_chosen_by_the_number_of_rows(
    tmp_path: Path, table: Callable[..., pd.DataFrame], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("understudy.quickstart.FEW_ROWS", 300)
    table(301).to_csv(tmp_path / "t.csv", index=False)
    frame = pd.read_csv(tmp_path / "t.csv")
    written = []
    for rows in (frame, frame[:300]):
        rows.to_csv(tmp_path / "t.csv", index=False)
        start = QuickStart.of(str(tmp_path / "t.csv"))
        written.append(start.declared(n_units=400, public=frozenset(), epsilon=1.0).job)
    assert written[0] == written[1]
