"""`understudy sample` into a folder: any number of rows, and the same command goes on where one ended."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from synth.generators.models.chunked_output import write_rows
from synth.generators.registry import load_model

ROWS = ("--rows", 2400, "--rows-a-file", 20)


@pytest.fixture
def model(workspace: Any) -> Path:
    folder: Path = workspace.folder
    ran = workspace.run(
        "fit", folder / "table.csv", "--schema", folder / "schema.toml", "--generator", "independent", "--out",
        folder / "model",
    )  # fmt: skip
    assert ran.exit_code == 0, ran.stderr
    return folder / "model"


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def started(model: Path, out: Path, *more: object) -> "subprocess.Popen[str]":
    """The command in a process of its own."""
    command = [sys.executable, "-m", "understudy", "sample", model, *ROWS, "--out", out, *more]
    return subprocess.Popen(
        [str(word) for word in command], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip


def ended(process: "subprocess.Popen[str]", out: Path, how: signal.Signals, *, after_files: int) -> str:
    """What a process says that is sent a signal once so many files are there."""
    hidden = out.parent / f".{out.name}.parts" / "table"
    end = time.monotonic() + 120
    while len(list(hidden.glob("part-*"))) < after_files:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.002)
    os.kill(process.pid, how)
    return process.communicate(timeout=60)[1]


def test_an_out_without_a_suffix_is_a_folder_of_parquet_files(workspace: Any, model: Path) -> None:
    out = workspace.folder / "many"
    ran = workspace.run("sample", model, "--rows", 100, "--rows-a-file", 40, "--seed", 3, "--out", out, "--json")
    assert ran.exit_code == 0, ran.stderr
    assert ran.json == {
        "synthetic": str(out), "generator": "independent", "rows": 100, "rejected": None, "given": None, "files": 3,
        "seed": 3,
    }  # fmt: skip
    assert [len(pd.read_parquet(path)) for path in sorted(out.iterdir())] == [33, 33, 34]
    again = workspace.run("sample", model, "--rows", 100, "--out", out)
    assert again.exit_code == 2
    assert "must be new" in again.stderr
    forced = workspace.run("sample", model, "--rows", 50, "--out", out, "--force")
    assert forced.exit_code == 0, forced.stderr
    assert f"{out} (1 file)" in forced.stdout
    assert len(pd.read_parquet(out)) == 50


def test_without_a_seed_the_one_that_is_told_gives_the_same_table(workspace: Any, model: Path) -> None:
    folder = workspace.folder
    seed = workspace.run("sample", model, "--rows", 50, "--out", folder / "one", "--json").json["seed"]
    other = workspace.run("sample", model, "--rows", 50, "--out", folder / "two", "--json").json["seed"]
    assert seed != other
    assert workspace.run("sample", model, "--rows", 50, "--out", folder / "three", "--seed", seed).exit_code == 0
    assert content(folder / "one") == content(folder / "three") != content(folder / "two")


@pytest.mark.parametrize(
    ("out", "more", "message"),
    [
        ("made.csv", ["--rows-a-file", 5], "--rows-a-file is for a folder"),
        ("made.xlsx", [], "must be a file of .csv, .csv.gz, .parquet"),
        ("job.toml/made", [], "is a file"),
        ("model", ["--force"], "holds nothing but part-*.parquet"),
        ("made", ["--given", "town=Atlantis"], "must be one of"),
    ],
)
def test_what_cannot_be_written_is_refused_in_one_sentence(
    workspace: Any, model: Path, out: str, more: list[object], message: str
) -> None:
    before = sorted(path.name for path in workspace.folder.iterdir())
    ran = workspace.run("sample", model, "--rows", 10, "--out", workspace.folder / out, *more)
    assert ran.exit_code == 2
    assert message in ran.stderr
    assert sum(line.startswith("Error: ") for line in ran.stderr.splitlines()) == 1
    assert sorted(path.name for path in workspace.folder.iterdir()) == before


@pytest.mark.statistical
def test_interrupted_terminated_and_killed_it_goes_on_with_the_seed_it_drew(workspace: Any, model: Path) -> None:
    out = workspace.folder / "many"
    for how, code, after_files in (
        (signal.SIGINT, 130, 3), (signal.SIGTERM, 143, 8), (signal.SIGKILL, -9, 14),
    ):  # fmt: skip
        process = started(model, out)
        said = ended(process, out, how, after_files=after_files)
        assert process.returncode == code, said
        assert not out.exists()
        if how != signal.SIGKILL:
            assert re.search(r"; \d+ of 120 files are kept, and the same command goes on from there\.$", said.strip())
    other = workspace.run("sample", model, "--rows", 2401, "--rows-a-file", 20, "--out", out)
    assert other.exit_code == 2
    assert re.search(
        r"Error: unfinished rows stand in the way of '.*many', \d+ files of them, and they are of another rows "
        r"\(rows=2400\); finish them with what they were begun with, name another folder, or throw them away with "
        r"--force\.$",
        other.stderr.strip(),
    )
    ran = workspace.run("sample", model, *ROWS, "--out", out, "--json")
    assert ran.exit_code == 0, ran.stderr
    write_rows(load_model(model), workspace.folder / "same", 2400, seed=ran.json["seed"], rows_a_file=20)
    assert content(out) == content(workspace.folder / "same")
    assert not (workspace.folder / ".many.parts").exists()
