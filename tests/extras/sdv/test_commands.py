"""SDV's metadata on the command line."""

import json
import tomllib
from typing import Any

import pytest


def test_a_schema_goes_to_sdv_and_back(workspace: Any) -> None:
    folder = workspace.folder
    ran = workspace.run("schema", "convert", folder / "schema.toml", "--table", "people", "--out", folder / "m.json")
    assert ran.exit_code == 0, ran.stderr
    assert "Lost: the metadata has no place for target" in ran.stdout + ran.stderr
    metadata = json.loads((folder / "m.json").read_text(encoding="utf-8"))
    assert metadata["METADATA_SPEC_VERSION"] == "V2"
    assert metadata["tables"]["people"]["columns"]["age"]["range_max"] == 90
    back = workspace.run("schema", "convert", folder / "m.json", "--out", folder / "back.toml", "--json")
    assert back.exit_code == 0, back.stderr
    assert back.json["lost"] == []
    content = tomllib.loads((folder / "back.toml").read_text(encoding="utf-8"))
    assert content["status"] == "inferred"
    assert content["columns"] == tomllib.loads((folder / "schema.toml").read_text(encoding="utf-8"))["columns"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["convert", "table.csv"], "the metadata is no JSON"),
        (["convert", "nothing.json"], "the metadata cannot be read"),
    ],
)
def test_what_cannot_be_exchanged_is_refused_and_nothing_is_written(
    workspace: Any, arguments: list[str], words: str
) -> None:
    command, name, *more = arguments
    ran = workspace.run("schema", command, workspace.folder / name, *more, "--out", workspace.folder / "out")
    assert ran.exit_code == 2
    assert words in " ".join(ran.stderr.split())
    assert not (workspace.folder / "out").exists()
