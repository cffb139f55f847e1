"""`understudy sample` into a folder: any number of rows."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest


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
