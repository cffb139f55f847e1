"""The commands that take one step of a job, on tables that stay where they are stored."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.understudy.conftest import Workspace
from tests.understudy.stored.conftest import NAMED, Put, named_table
from understudy.bundle.verification import Demand, verify

MEASURES = ("validity", "fidelity.columns", "fidelity.pairs", "privacy.copies", "privacy.distance")


def with_schema(workspace: Workspace) -> tuple[str, Path]:
    return "--schema", workspace.write_schema(**NAMED)


def evaluated(workspace: Workspace, out: str, train: object, holdout: object, *synthetic: object) -> dict[str, Any]:
    given = [word for one in synthetic for word in ("--synthetic", one)]
    asked = [word for name in MEASURES for word in ("--measure", name)]
    path = workspace.folder / out
    ran = workspace.run(
        "evaluate", "--train", train, "--holdout", holdout, *given, *with_schema(workspace), *asked, "--out", path
    )
    assert ran.exit_code == 0, ran.stderr
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def numbers(content: dict[str, Any]) -> dict[tuple[str, ...], list[float]]:
    """What was measured, by name and subject; what is not there is no number."""
    (candidate,) = content["candidates"]
    found = {}
    for one in candidate["estimates"]:
        known = (one[key] for key in ("value", "low", "high", "reference", "floor", "n"))
        found[one["measure"], *one["subject"]] = [np.nan if number is None else float(number) for number in known]
    return found


def at(workspace: Workspace, address: str) -> str:
    return address if "://" in address else str(workspace.folder / address)


@pytest.mark.parametrize("place", ["folder", "database"])
def test_an_evaluation_gives_the_same_numbers_where_tables_are_stored(
    workspace: Workspace, put: Put, place: Any
) -> None:
    parts = [named_table(600), named_table(900, seed=1).iloc[600:], named_table(500, seed=2)]
    held = [workspace.write_table(part, f"{name}.parquet") for name, part in zip(("a", "b", "c"), parts, strict=True)]
    stored = [at(workspace, put(part, place)) for part in parts[:2]]
    (workspace.folder / "c").mkdir()
    workspace.write_table(parts[2], "c/part.parquet")
    one = evaluated(workspace, "held.json", *held)
    other = evaluated(workspace, "stored.json", *stored, workspace.folder / "c")
    assert one["candidates"][0]["name"] == other["candidates"][0]["name"] == "c"
    assert one["provenance"]["fingerprints"] == other["provenance"]["fingerprints"]
    found, expected = numbers(other), numbers(one)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=1e-9, nan_ok=True), name
    assert other["provenance"]["attempts"]["evaluations"] == 2  # of one table, wherever it is


def test_the_bundle_of_an_offered_folder_is_of_that_folder_and_no_other(workspace: Workspace, put: Put) -> None:
    train, holdout, offered = (put(named_table(600, seed), "folder") for seed in range(3))
    synthetic = workspace.folder / offered
    evaluated(workspace, "e.json", workspace.folder / train, workspace.folder / holdout, synthetic)
    arguments = ("gate", workspace.folder / "e.json", "--synthetic", synthetic)
    ran = workspace.run(*arguments, "--bundle", workspace.folder / "bundle")
    assert ran.exit_code in (1, 3), ran.stderr
    bundle = workspace.folder / "bundle"
    assert sorted(path.name for path in (bundle / "synthetic" / offered).iterdir()) == ["a.parquet", "b.parquet"]
    assert verify(bundle, Demand()).is_sound
    card = workspace.run(
        "card", workspace.folder / "e.json", "--candidate", offered, "--table", synthetic, "--public",
        "--out", workspace.folder / "card.md",
    )  # fmt: skip
    assert card.exit_code == 0 and "600" in (workspace.folder / "card.md").read_text()
    (synthetic / "c.parquet").write_bytes((synthetic / "a.parquet").read_bytes())
    refused = workspace.run(*arguments, "--bundle", workspace.folder / "other")
    assert refused.exit_code == 2 and "is not an evaluated table" in refused.stderr
    assert not (workspace.folder / "other").exists()


def test_a_folder_is_split_into_folders_as_a_file_is_split_into_files(workspace: Workspace, put: Put) -> None:
    frame = named_table()
    options = (*with_schema(workspace), "--seed", 3)
    for given, out in ((put(frame, "file"), "held"), (put(frame, "folder"), "stored")):
        ran = workspace.run("split", workspace.folder / given, *options, "--out", workspace.folder / out)
        assert ran.exit_code == 0, ran.stderr
    for side in ("train", "holdout"):
        held = pd.read_parquet(workspace.folder / "held" / f"{side}.parquet")
        stored = pd.read_parquet(workspace.folder / "stored" / side)
        assert sorted(held["who"]) == sorted(stored["who"]) and list(held.columns) == list(stored.columns)


def test_a_split_that_needs_the_rows_in_memory_is_refused(workspace: Workspace, put: Put) -> None:
    given = workspace.folder / put(named_table(), "folder")
    ran = workspace.run(
        "split", given, *with_schema(workspace), "--stratified", "--out", workspace.folder / "parts"
    )  # fmt: skip
    assert ran.exit_code == 2 and "--stratified" in ran.stderr and not (workspace.folder / "parts").exists()


@pytest.mark.parametrize("place", ["folder", "database"])
def test_a_stored_table_is_checked_against_its_schema(workspace: Workspace, put: Put, place: Any) -> None:
    schema = with_schema(workspace)
    ran = workspace.run("schema", "check", at(workspace, put(named_table(), place)), *schema)
    assert ran.exit_code == 0, ran.stderr
    ran = workspace.run("schema", "check", at(workspace, put(named_table().assign(age=7), place)), *schema)
    assert ran.exit_code == 2 and "column='age'" in ran.stderr


def test_advice_reads_the_names_of_columns_alone(workspace: Workspace, put: Put) -> None:
    given = workspace.folder / put(named_table(), "folder")
    held = workspace.folder / put(named_table(), "file")
    options = (*with_schema(workspace), "--epsilon", 1)
    assert workspace.run("advise", given, *options).stdout == workspace.run("advise", held, *options).stdout
    other = workspace.folder / put(named_table().drop(columns="age"), "folder")
    ran = workspace.run("advise", other, *options)
    assert ran.exit_code == 2 and "'age'" in ran.stderr


def test_a_schema_is_inferred_on_a_file_alone(workspace: Workspace, put: Put) -> None:
    given = workspace.folder / put(named_table(), "folder")
    ran = workspace.run("schema", "infer", given, "--out", workspace.folder / "inferred.toml")
    assert ran.exit_code == 2 and "name a file of sampled rows" in ran.stderr


def test_a_network_learns_from_a_stored_table(workspace: Workspace, put: Put) -> None:
    given = workspace.folder / put(named_table(), "folder")
    ran = workspace.run(
        "fit", given, *with_schema(workspace), "--generator", "tvae", "--set", "epochs=1", "--out",
        workspace.folder / "model", "--engine", "stored",
    )  # fmt: skip
    assert ran.exit_code == 0, ran.stderr
    assert (workspace.folder / "model").is_dir()
