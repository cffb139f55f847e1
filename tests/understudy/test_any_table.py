"""Jobs and commands on a file, a folder, a pattern of files and a database: one table, and the same numbers of it."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest

import understudy.evaluate_external as external
from evaluate import engine
from tests.understudy.conftest import Workspace
from tests.understudy.places import NAMED, Place, named_table, put, write_job
from understudy.bundle.verification import Demand, verify


def evaluated(workspace: Workspace, out: str, tables: list[str]) -> dict[str, Any]:
    train, holdout, synthetic = tables
    path, schema = workspace.folder / out, ("--schema", workspace.write_schema(**NAMED))
    measures = [word for name in ("validity", "fidelity.columns", "privacy.copies") for word in ("--measure", name)]
    options = ("--train", train, "--holdout", holdout, "--synthetic", synthetic, *schema, *measures, "--out", path)
    ran = workspace.run("evaluate", *options)
    assert ran.exit_code == 0, ran.stderr
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def numbers(content: dict[str, Any]) -> list[Any]:
    (candidate,) = content["candidates"]
    return [{key: value for key, value in each.items() if key != "note"} for each in candidate["estimates"]]


@pytest.mark.parametrize("source", ["file", "folder", "database"])
def test_a_run_leaves_a_table_of_the_kind_that_it_was_given(workspace: Workspace, source: Place) -> None:
    address = put(workspace, named_table(), source)
    write_job(workspace, address, release="independent", generators={"independent": {"epsilon": 1.0, "rows": 600}})
    out = workspace.folder / "out"
    ran = workspace.run("run", workspace.folder / "job.toml", "--out", out)
    assert ran.exit_code in (1, 3), ran.stderr  # no audit, no attack: nothing passes
    result = json.loads((out / "evaluation.json").read_text())
    (table,) = (out / "synthetic").iterdir()
    (part,) = [table] if source == "file" else table.iterdir()
    assert part.name == ("independent.parquet" if source == "file" else "part-00000.parquet")
    assert pq.read_table(part).num_rows == 600 and verify(out, Demand()).is_sound
    line = hashlib.sha256(part.read_bytes()).hexdigest()
    if source != "file":
        line = hashlib.sha256(f"{line}  {part.name}\n".encode()).hexdigest()
    assert result["provenance"]["files_sha256"][f"synthetic/{table.name}"] == line
    assert result["provenance"]["split"].startswith("keyed hash")


@pytest.mark.parametrize("source", ["pattern", "database"])
def test_an_evaluation_gives_the_same_numbers_wherever_tables_are(workspace: Workspace, source: Place) -> None:
    parts = [named_table(300), named_table(450, seed=1).iloc[300:], named_table(250, seed=2)]
    each = evaluated(workspace, "files.json", [put(workspace, part, "file") for part in parts])
    other = evaluated(workspace, "other.json", [put(workspace, part, source) for part in parts])
    assert numbers(each) == numbers(other)
    prints = [{side: e["provenance"]["fingerprints"][side] for side in ("train", "holdout")} for e in (each, other)]
    assert prints[0] == prints[1] and other["provenance"]["attempts"]["evaluations"] == 2


def test_the_bundle_of_an_offered_folder_is_of_that_folder_and_no_other(workspace: Workspace) -> None:
    tables = [put(workspace, named_table(300, seed), "folder") for seed in range(3)]
    synthetic = Path(tables[2])
    (synthetic / "_SUCCESS").touch()  # what a writer leaves beside the parts is no part
    evaluated(workspace, "e.json", tables)
    arguments = ("gate", workspace.folder / "e.json", "--synthetic", synthetic)
    ran = workspace.run(*arguments, "--bundle", workspace.folder / "bundle")
    assert ran.exit_code in (1, 3), ran.stderr
    kept = workspace.folder / "bundle" / "synthetic" / synthetic.name
    assert sorted(path.name for path in kept.iterdir()) == ["a.parquet", "b.parquet"]
    assert verify(workspace.folder / "bundle", Demand()).is_sound
    (synthetic / "c.parquet").write_bytes((synthetic / "a.parquet").read_bytes())
    refused = workspace.run(*arguments, "--bundle", workspace.folder / "other")
    assert refused.exit_code == 2 and "is not an evaluated table" in refused.stderr


@pytest.mark.parametrize("source", ["folder", "database"])
def test_a_synthetic_table_that_changes_while_it_is_measured_is_refused(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, source: Place
) -> None:
    *real, offered = (put(workspace, named_table(300, seed), source) for seed in range(3))
    original = engine.evaluate_beside

    def exchanged(*options: Any, **named: Any) -> Any:
        result = original(*options, **named)
        if source == "database":
            import duckdb

            with duckdb.connect(offered.removeprefix("duckdb://").partition("#")[0]) as connection:
                connection.execute("UPDATE visits SET age = 19 WHERE who = 'P0007'")
        else:
            named_table(5).to_parquet(Path(offered) / "a.parquet", index=False)
        return result

    monkeypatch.setattr(external, "evaluate_beside", exchanged)
    options = ("--train", real[0], "--holdout", real[1], "--synthetic", offered)
    schema = ("--schema", workspace.write_schema(**NAMED))
    ran = workspace.run("evaluate", *options, *schema, "--measure", "validity", "--out", workspace.folder / "e.json")
    assert ran.exit_code == 2 and "must stay as it is while it is measured" in ran.stderr
    assert not (workspace.folder / "e.json").exists()


@pytest.mark.parametrize("source", ["folder", "database"])
def test_a_table_is_split_alike_wherever_it_is(workspace: Workspace, source: Place) -> None:
    frame, schema = named_table(), ("--schema", workspace.write_schema(**NAMED))
    frame.loc[3, "age"], frame.loc[4, "income"] = 500, -7.26
    for options, out in (("file", "a"), (source, "b")):
        address = put(workspace, frame, options)  # type: ignore[arg-type]
        ran = workspace.run("split", address, *schema, "--clamp", "--seed", 3, "--out", workspace.folder / out)
        assert ran.exit_code == 0, ran.stderr
    for side in ("train", "holdout"):
        each = pd.read_parquet(workspace.folder / "a" / f"{side}.parquet")
        other = pd.read_parquet(workspace.folder / "b" / side)
        pd.testing.assert_frame_equal(each, other)


def test_every_command_takes_a_table_wherever_it_is(workspace: Workspace) -> None:
    address, schema = put(workspace, named_table(), "database"), ("--schema", workspace.write_schema(**NAMED))
    folder = workspace.folder
    for command in (
        ("schema", "infer", address, "--out", folder / "inferred.toml"),
        ("schema", "check", address, *schema),
        ("fit", address, *schema, "--generator", "independent", "--out", folder / "model"),
        ("randomize", address, *schema, "--epsilon", 1, "--out", folder / "reports"),
    ):
        ran = workspace.run(*command)
        assert ran.exit_code == 0, ran.stderr
    wrong = put(workspace, named_table().assign(age=7), "database")
    ran = workspace.run("schema", "check", wrong, *schema)
    assert ran.exit_code == 2 and "column='age'" in ran.stderr
