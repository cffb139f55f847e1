"""The commands that take one step of a job, on tables that stay where they are stored."""

import errno
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import synth.stored.opening as opening
import tomli_w

import understudy.evaluate_external as offered_module
from synth.errors import OutputError
from synth.schema import build_schema
from tests.understudy.conftest import Workspace
from tests.understudy.stored.conftest import NAMED, Put, named_table, write_job
from understudy.bundle.verification import Demand, verify
from understudy.data.source import find_table
from understudy.data.split_files import Cut, part

MEASURES = ("validity", "fidelity.columns", "fidelity.pairs", "privacy.copies", "privacy.distance")


LARGE = {"train": 900, "holdout": 700, "synthetic": 3_000}
"""Rows of tables of which samples of 100 are no more than a part."""


def with_schema(workspace: Workspace) -> tuple[str, Path]:
    return "--schema", workspace.write_schema(**NAMED)


def evaluated(
    workspace: Workspace, out: str, train: object, holdout: object, *synthetic: object,
    measures: tuple[str, ...] = MEASURES, options: tuple[object, ...] = (),
) -> dict[str, Any]:  # fmt: skip
    given = [word for one in synthetic for word in ("--synthetic", one)]
    asked = [*[word for name in measures for word in ("--measure", name)], *options]
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
        "card", workspace.folder / "e.json", "--candidate", offered, "--table", synthetic, "--to-hand-on",
        "--out", workspace.folder / "card.md",
    )  # fmt: skip
    assert card.exit_code == 0 and "600" in (workspace.folder / "card.md").read_text()
    (synthetic / "c.parquet").write_bytes((synthetic / "a.parquet").read_bytes())
    refused = workspace.run(*arguments, "--bundle", workspace.folder / "other")
    assert refused.exit_code == 2 and "is not an evaluated table" in refused.stderr
    assert not (workspace.folder / "other").exists()


def test_what_a_writer_leaves_beside_the_parts_of_a_table_is_no_part_of_it(workspace: Workspace, put: Put) -> None:
    train, holdout, offered = (put(named_table(600, seed), "folder") for seed in range(3))
    synthetic = workspace.folder / offered
    (synthetic / "_SUCCESS").touch()
    (synthetic / ".a.parquet.crc").write_bytes(b"crc")
    evaluated(workspace, "e.json", workspace.folder / train, workspace.folder / holdout, synthetic)
    ran = workspace.run(
        "gate", workspace.folder / "e.json", "--synthetic", synthetic, "--bundle", workspace.folder / "bundle"
    )
    assert ran.exit_code in (1, 3), ran.stderr
    kept = workspace.folder / "bundle" / "synthetic" / offered
    assert sorted(path.name for path in kept.iterdir()) == ["a.parquet", "b.parquet"]


def test_a_sample_is_as_large_as_it_is_asked_for_and_whoever_reads_a_verdict_is_told(
    workspace: Workspace, put: Put
) -> None:
    parts = [workspace.folder / put(named_table(n, seed), "folder") for seed, n in enumerate(LARGE.values())]
    measures = ("validity", "privacy.membership", "utility.tstr")
    content = evaluated(workspace, "e.json", *parts, measures=measures, options=("--sample-rows", 100))
    said = "on seeded samples: 100 of 900 training, 100 of 700 held-out, 500 of 3,000 synthetic rows"
    notes = {one["measure"]: one["note"] for one in content["candidates"][0]["estimates"]}
    assert said in notes["privacy.membership.auc"] and "samples" not in notes["validity.rows"]
    rules = [
        {"measure": "utility.gap.linear", "limit": 9.0, "why": "It passes."},
        {"measure": "validity.rows", "limit": 0.0, "why": "It passes."},
        {"measure": "privacy.membership.auc", "limit": 0.51, "why": "It is not settled."},
    ]
    policy = workspace.folder / "policy.toml"
    policy.write_text(tomli_w.dumps({"name": "p", "version": 1, "audience": "tests", "rules": rules}))
    paths = {name: workspace.folder / name for name in ("junit.xml", "report.html", "bundle", "card.md")}
    gate = workspace.run(
        "gate", workspace.folder / "e.json", "--policy", policy, "--junit", paths["junit.xml"], "--synthetic", parts[2],
        "--bundle", paths["bundle"], "--json",
    )  # fmt: skip
    assert gate.exit_code == 3, gate.stderr
    passed, counted, open_ = gate.json["candidates"][0]["findings"]
    assert (passed["outcome"], counted["outcome"], open_["outcome"]) == ("PASS", "PASS", "INCONCLUSIVE")
    assert f"Measured {said}" in passed["reason"] and "Measured" not in counted["reason"]
    assert "search more (sample_rows)" in open_["reason"] and open_["n_needed"] is None
    assert f"against a limit of 9. Even the unfavorable end of its interval keeps the limit. Measured {said}" in (
        " ".join(gate.stderr.split())
    )
    card = workspace.run("card", workspace.folder / "e.json", "--candidate", parts[2].name, "--out", paths["card.md"])
    assert card.exit_code == 0, card.stderr
    told = [paths["junit.xml"], paths["bundle"] / "summary.md", paths["bundle"] / "report.html", paths["card.md"]]
    assert [said in path.read_text() for path in told] == [True] * 4


def test_samples_of_what_is_in_memory_are_refused(workspace: Workspace) -> None:
    files = [
        workspace.write_table(named_table(n, n), f"{name}.csv") for name, n in zip("abc", LARGE.values(), strict=True)
    ]
    given = ("--train", files[0], "--holdout", files[1], "--synthetic", files[2], *with_schema(workspace))
    ran = workspace.run("evaluate", *given, "--sample-rows", 500, "--out", workspace.folder / "e.json")
    assert ran.exit_code == 2 and "sample_rows=500" in ran.stderr
    write_job(workspace, "a.csv", evaluation={"sample_rows": 700})
    ran = workspace.run("run", workspace.folder / "job.toml", "--out", workspace.folder / "out")
    assert ran.exit_code == 2 and "sample_rows=700" in ran.stderr
    ran = workspace.run("evaluate", *given, "--memory-mb", 500, "--out", workspace.folder / "e.json")
    assert ran.exit_code == 2 and "memory_mb" in ran.stderr


def test_memory_and_threads_reach_the_embedded_engine(
    workspace: Workspace, put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, told = workspace.folder / put(named_table(), "folder"), []
    asked = opening.embedded

    def noting(**named: Any) -> Any:
        told.append((named["memory_mb"], named["threads"]))
        return asked(**named)

    monkeypatch.setattr(opening, "embedded", noting)
    schema, may = with_schema(workspace), ("--memory-mb", 600, "--threads", 1)
    out = workspace.folder / "out"
    options = ("--train", given, "--holdout", workspace.folder / put(named_table(600, 1), "folder"))
    options = (*options, "--synthetic", given, *schema, "--measure", "validity")
    for command, expected in (
        (("schema", "check", given, *schema), [(600, 1)]),
        (("split", given, *schema, "--out", out / "a"), [(600, 1)]),
        (("fit", given, *schema, "--generator", "independent", "--out", out / "b"), [(600, 1)]),
        (("evaluate", *options, "--out", out / "c.json"), [(200, 1)] * 3),
    ):
        out.mkdir(exist_ok=True)
        told.clear()
        ran = workspace.run(*command, *may)
        assert ran.exit_code == 0, ran.stderr
        assert told == expected


@pytest.mark.parametrize("change", ["removed", "changed"])
def test_a_synthetic_folder_that_changes_while_it_is_measured_is_refused(
    workspace: Workspace, put: Put, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    train, holdout, offered = (workspace.folder / put(named_table(600, seed), "folder") for seed in range(3))
    original = offered_module.evaluate_beside

    def exchanged(*given: Any, **named: Any) -> Any:
        found = original(*given, **named)
        (offered / "a.parquet").unlink()
        if change == "changed":
            workspace.write_table(named_table(5), f"{offered.name}/a.parquet")
        return found

    monkeypatch.setattr(offered_module, "evaluate_beside", exchanged)
    given = ("--train", train, "--holdout", holdout, "--synthetic", offered, *with_schema(workspace))
    ran = workspace.run("evaluate", *given, "--measure", "validity", "--out", workspace.folder / "e.json")
    assert ran.exit_code == 2 and "must stay as it is while it is measured" in ran.stderr


def test_a_synthetic_table_in_a_database_is_named_by_its_rows_and_may_not_change(
    workspace: Workspace, put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    train, holdout = (workspace.folder / put(named_table(600, seed), "folder") for seed in range(2))
    offered = put(named_table(600, 2), "database")
    prints = [
        evaluated(workspace, f"{seed}.json", train, holdout, one, measures=("validity",))["provenance"]["fingerprints"]
        for seed, one in enumerate(
            (offered, put(named_table(600, 2), "database"), put(named_table(600, 3), "database"))
        )
    ]
    names = [found["synthetic/visits"] for found in prints]
    assert names[0] == names[1] != names[2] and names[0].startswith("hmac-sha256:")
    original = offered_module.evaluate_beside

    def exchanged(*given: Any, **named: Any) -> Any:
        import psycopg

        with psycopg.connect(offered.partition("#")[0], autocommit=True) as connection:
            connection.execute("UPDATE visits SET age = 19 WHERE who = 'P0007'")
        return original(*given, **named)

    monkeypatch.setattr(offered_module, "evaluate_beside", exchanged)
    given = ("--train", train, "--holdout", holdout, "--synthetic", offered, *with_schema(workspace))
    ran = workspace.run("evaluate", *given, "--measure", "validity", "--out", workspace.folder / "e.json")
    assert ran.exit_code == 2 and "must stay as it is while it is measured" in ran.stderr
    assert "keeper" not in ran.stderr
    assert not (workspace.folder / "e.json").exists()


def test_a_folder_is_clamped_as_a_file_is(workspace: Workspace, put: Put) -> None:
    frame = named_table()
    frame.loc[3, "age"], frame.loc[4, "income"], frame.loc[5, "town"] = 500, -7.26, "Nowhere"
    for given, out in ((put(frame, "file"), "held"), (put(frame, "folder"), "stored")):
        ran = workspace.run(
            "split", workspace.folder / given, *with_schema(workspace), "--clamp", "--out", workspace.folder / out
        )
        assert ran.exit_code == 0, ran.stderr
    for side in ("train", "holdout"):
        held = pd.read_parquet(workspace.folder / "held" / f"{side}.parquet").sort_values("who", ignore_index=True)
        stored = pd.read_parquet(workspace.folder / "stored" / side).sort_values("who", ignore_index=True)
        assert stored["age"].max() <= 90
        pd.testing.assert_frame_equal(held, stored)


@pytest.mark.parametrize("clamp", [(), ("--clamp",)])
def test_a_split_that_has_no_room_leaves_nothing(
    workspace: Workspace, put: Put, monkeypatch: pytest.MonkeyPatch, clamp: tuple[str, ...]
) -> None:
    given = workspace.folder / put(named_table(), "folder")

    def full(*given: Any, **named: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(pq, "write_table", full)
        schema = build_schema(NAMED)
        cut = Cut(0.2, 0, stratified=False, outside="clamp" if clamp else "refuse")
        with pytest.raises(OutputError, match="cannot be written"):
            part(find_table(str(given)), schema, cut, workspace.folder / "parts")
    assert not (workspace.folder / "parts").exists()


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
