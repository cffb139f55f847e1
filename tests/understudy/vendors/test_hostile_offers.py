"""What vendors deliver harms nobody: neither the command that reads it, nor whoever opens what it writes."""

import gzip
import os
from pathlib import Path

import pandas as pd
import pytest

from reports.exports.csv import safe
from tests.understudy.conftest import Workspace
from tests.understudy.vendors.conftest import N_TRAIN, people, run
from understudy.vendors.submission import Asked

QUICK = ("--measure", "validity", "--measure", "privacy.copies", "--rows", 100)


@pytest.mark.statistical
def test_one_table_of_each_kind_of_harm_stops_no_honest_one(desk: Path) -> None:
    people(N_TRAIN, 5).to_csv(desk / "honest.csv", index=False)
    with gzip.open(desk / "bomb.csv.gz", "wb", compresslevel=1) as file:
        file.write(b"age,income,weight,town,ill\n")
        for _ in range(16):
            file.write(b"0" * (1 << 20))
    os.mkfifo(desk / "pipe.csv")
    (desk / "folder.csv").mkdir()
    (desk / "absent.csv").symlink_to(desk / "nowhere.csv")
    (desk / "wide.csv").write_text(",".join(f"c{i}" for i in range(200_000)) + "\n")
    (desk / "sheet.csv").write_bytes(b"PK\x03\x04")
    people(N_TRAIN, 6).to_csv(desk / "twice.csv.gz", index=False, compression=None)
    absurd = pd.DataFrame({name: ["1e999", "nan", "=1+1", "9" * 400] * 100 for name in people(1, 0).columns})
    absurd.to_csv(desk / "absurd.csv", index=False)
    people(N_TRAIN, 7).drop(columns=["ill"]).to_csv(desk / "no_target.csv", index=False)
    pd.DataFrame({"x": range(N_TRAIN)}).to_csv(desk / "other.csv", index=False)
    names = [
        "bomb.csv.gz", "pipe.csv", "folder.csv", "wide.csv", "sheet.csv", "twice.csv.gz", "absurd.csv", "no_target.csv",
        "other.csv", "absent.csv", "honest.csv",
    ]  # fmt: skip
    result = run(desk, names, *QUICK)
    assert result.exit_code == 3, result.stderr
    standings = {each["name"]: each["standing"] for each in result.ranking["vendors"]}
    assert standings.pop("honest") == "ranked"
    assert standings.pop("absurd") == "disqualified"
    assert standings.pop("no_target") == "incomplete"
    assert set(standings.values()) == {"not evaluated"}
    reasons = [each["reason"] for each in result.ranking["vendors"] if each["standing"] == "not evaluated"]
    assert all(reason and "\n" not in reason and "internal error" not in reason for reason in reasons)


def test_evaluate_gives_up_a_bomb_in_a_sentence(workspace: Workspace) -> None:
    rows = pd.read_csv(workspace.folder / "table.csv")
    with gzip.open(workspace.folder / "bomb.csv.gz", "wb", compresslevel=1) as file:
        file.write(f"{','.join(rows.columns)}\n".encode())
        for _ in range(80):
            file.write(b"0" * (1 << 20))
    train, holdout = (workspace.write_table(rows[part::2], f"{part}.csv") for part in (0, 1))
    result = workspace.run(
        "evaluate", "--train", train, "--holdout", holdout, "--synthetic", workspace.folder / "bomb.csv.gz",
        "--schema", workspace.folder / "schema.toml", "--out", workspace.folder / "evaluation.json",
    )  # fmt: skip
    assert result.exit_code == 2
    assert "once it is uncompressed" in result.stderr


@pytest.mark.parametrize("cell", ["=1+1", "-1+1", "@A1", "\t=1", " =1", "\n=1", "|cmd", "\uff1d1"])
def test_what_a_spreadsheet_would_run_gets_an_apostrophe(cell: str) -> None:
    assert safe(cell) == f"'{cell}"
    assert [safe(value) for value in (-1.5, None, "acme", "a=b")] == [-1.5, None, "acme", "a=b"]


@pytest.mark.parametrize("labels", [("a",), ("a", "A"), ("a", "../b"), None])
def test_labels_that_do_not_name_one_table_each_are_refused(labels: tuple[str, ...] | None) -> None:
    from synth.errors import JobError

    path = Path()
    with pytest.raises(JobError, match="label"):
        Asked(path, path, path, (Path("x/a/t.csv"), Path("y/a/t.parquet")), labels=labels).named()
