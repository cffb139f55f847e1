"""A job on a table that stays where it is stored: what it leaves, and what ends it."""

import hashlib
import json
import tomllib
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest

from synth.dp.ledger import open_ledger
from synth.schema import build_schema
from tests.understudy.conftest import Workspace
from tests.understudy.stored.conftest import NAMED, Put, named_table, write_job
from understudy import provenance
from understudy.bundle.verification import Demand, verify
from understudy.data.load import opened
from understudy.data.source import find_table

STORED = ["folder", "database"]
SPLIT = {"holdout_share": 0.4}


def evaluation_of(workspace: Workspace, out: str = "out") -> dict[str, Any]:
    content: dict[str, Any] = json.loads((workspace.folder / out / "evaluation.json").read_text())
    return content


def run(workspace: Workspace, *more: object) -> Any:
    return workspace.run("run", workspace.folder / "job.toml", "--out", workspace.folder / "out", *more)


@pytest.mark.parametrize("place", STORED)
def test_a_run_leaves_a_bundle_whose_tables_are_folders_of_parts(workspace: Workspace, put: Put, place: Any) -> None:
    write_job(
        workspace,
        put(named_table(), place),
        release="independent",
        generators={"independent": {"epsilon": 1.0, "rows": 600}},
    )
    ran = run(workspace)
    assert ran.exit_code in (1, 3), ran.stderr  # no audit, no attack: nothing passes
    out = workspace.folder / "out"
    (part,) = (out / "synthetic" / "independent").iterdir()
    (public,) = (out / "to-hand-on" / "independent").iterdir()
    assert part.name == public.name == "part-00000.parquet"
    assert pq.read_table(part).num_rows == 600
    assert "600" in (out / "to-hand-on" / "README.md").read_text()
    assert verify(out, Demand()).is_sound
    assert not [path for path in workspace.folder.iterdir() if path.name.startswith(".")]
    found = evaluation_of(workspace)
    assert {e["measure"] for e in found["candidates"][0]["estimates"]} >= {"validity.rows", "columns.tvd.mean"}
    assert found["provenance"]["split"].startswith("keyed hash")
    line = f"{hashlib.sha256(part.read_bytes()).hexdigest()}  {part.name}\n"
    known = found["provenance"]["files_sha256"]
    assert known["synthetic/independent"] == hashlib.sha256(line.encode()).hexdigest()
    assert "synthetic/independent/part-00000.parquet" not in known


@pytest.mark.parametrize("harm", ["changed", "added", "removed"])
def test_a_part_that_is_harmed_is_noticed(workspace: Workspace, put: Put, harm: str) -> None:
    write_job(workspace, put(named_table(), "folder"), release="independent")
    assert run(workspace).exit_code in (1, 3)
    out = workspace.folder / "out"
    part = out / "synthetic" / "independent" / "part-00000.parquet"
    if harm == "changed":
        part.write_bytes(part.read_bytes()[:-1] + b"x")
    elif harm == "added":
        part.with_name("part-00001.parquet").write_bytes(part.read_bytes())
    else:
        part.unlink()
    assert workspace.run("verify", out).exit_code == 1


def test_the_same_table_has_one_fingerprint_wherever_it_is(workspace: Workspace, put: Put, own_key: Path) -> None:
    schema, key, prints = build_schema(NAMED), provenance.fingerprint_key(own_key), set()
    for place in ("folder", "database"):
        with opened(find_table(put(named_table(), place), workspace.folder)) as table:
            prints.add(provenance.fingerprint(table, schema, key))
    from synth.table import conform

    held = conform(named_table().sample(frac=1.0, random_state=0), schema)
    assert prints == {provenance.fingerprint(held, schema, key)}
    other = held.assign(who=[f"Q{place:04d}" for place in range(len(held))])
    assert provenance.fingerprint(other, schema, key) not in prints


@pytest.mark.parametrize("place", STORED)
def test_a_ledger_pays_for_the_fits_of_a_run_and_for_a_single_one(workspace: Workspace, put: Put, place: Any) -> None:
    address = put(named_table(), place)
    books = open_ledger(workspace.folder / "ledger.db")
    books.open("patients", unit="row", epsilon=5.0, n_units=900)
    write_job(workspace, address, ledger={"url": "ledger.db"})
    ran = run(workspace, "--json")
    assert ran.exit_code == 0 and ran.json["ledger"]["reserved_epsilon"].keys() == {"independent"}
    where = address if "://" in address else workspace.folder / address
    ran = workspace.run(
        "fit", where, "--schema", workspace.folder / "schema.toml", "--generator", "independent", "--epsilon", 1,
        "--clamp", "--ledger", workspace.folder / "ledger.db", "--out", workspace.folder / "model",
    )  # fmt: skip
    assert ran.exit_code == 0, ran.stderr
    assert "another table" not in ran.stderr  # the ledger knows it again
    kinds = [entry.kind for entry in books.history()]
    assert (kinds.count("used"), kinds.count("committed")) == (2, 2)


@pytest.mark.slow
def test_two_processes_have_a_connection_each(workspace: Workspace, put: Put) -> None:
    generators = {"independent": {"epsilon": 1.0}, "mst": {"epsilon": 1.0}}
    write_job(workspace, put(named_table(), "database"), generators=generators, workers=2, table={"memory_mb": 400})
    ran = run(workspace)
    assert ran.exit_code == 0, ran.stderr
    assert {one["name"] for one in evaluation_of(workspace)["candidates"]} == set(generators)


def test_engines_at_work_at_once_share_the_memory_and_each_has_enough_to_work(workspace: Workspace, put: Put) -> None:
    place = find_table(put(named_table(), "folder"), workspace.folder, memory_mb=900)
    assert [place.shared(n).memory_mb for n in (1, 2, 3, 100)] == [900, 450, 300, 100]


@pytest.mark.slow
def test_a_sweep_that_a_ledger_pays_for_runs_where_the_table_is_stored(workspace: Workspace, put: Put) -> None:
    open_ledger(workspace.folder / "ledger.db").open("patients", unit="row", epsilon=9.0, n_units=900)
    generators = {"independent": {"epsilon": [0.5, 1.0]}}
    write_job(workspace, put(named_table(), "folder"), generators=generators, ledger={"url": "ledger.db"})
    ran = run(workspace)
    assert ran.exit_code == 0, ran.stderr
    assert len(list((workspace.folder / "out" / "synthetic").iterdir())) == 2


def test_a_run_goes_on_where_it_was_cut_short_unless_the_table_has_changed(
    workspace: Workspace, put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    import understudy.run.stages as stages

    address = put(named_table(), "folder")
    open_ledger(workspace.folder / "ledger.db").open("patients", unit="row", epsilon=5.0, n_units=900)
    write_job(workspace, address, ledger={"url": "ledger.db"})
    with monkeypatch.context() as patch:
        patch.setattr(stages, "evaluate", interrupted)
        assert run(workspace).exit_code == 130
    model = workspace.folder / ".out.unfinished" / "result" / "models" / "independent" / "arrays.safetensors"
    before, file = model.read_bytes(), workspace.folder / address / "b.parquet"
    kept = file.read_bytes()
    pd.read_parquet(file).iloc[:-1].to_parquet(file, index=False)
    ran = run(workspace)
    assert ran.exit_code == 2 and "it is of another table" in ran.stderr
    file.write_bytes(kept)
    assert run(workspace).exit_code == 0
    assert (workspace.folder / "out" / "models" / "independent" / "arrays.safetensors").read_bytes() == before
    kinds = [entry.kind for entry in open_ledger(workspace.folder / "ledger.db").history()]
    assert (kinds.count("reserved"), kinds.count("used"), kinds.count("committed")) == (1, 1, 1)


def interrupted(*given: Any, **named: Any) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"generators": {"sdv.gaussian_copula": {}}}, "reads the whole table into memory"),
        ({"evaluation": {"shadow_models": 8}}, "leave it out"),
        ({"release": "independent", "released_numbers": {"epsilon": 1.0}}, "leave released_numbers out"),
        ({"table": {"engine": "memory"}}, 'leave engine = "memory" out'),
        ({"table": {"memory_mb": 5}}, "greater than or equal to 100"),
    ],
)
def test_what_cannot_be_had_of_such_a_table_is_refused_before_anything_is_read(
    workspace: Workspace, put: Put, changes: dict[str, Any], said: str
) -> None:
    write_job(workspace, put(named_table(), "folder"), **changes)
    before = workspace.listing()
    ran = run(workspace)
    assert ran.exit_code == 2 and said in ran.stderr and ran.stderr.count("\n") == 1
    assert workspace.listing() == before


def test_memory_of_an_engine_that_is_not_used_is_refused(workspace: Workspace, put: Put) -> None:
    write_job(workspace, put(named_table(), "file"), table={"memory_mb": 500})
    ran = run(workspace)
    assert ran.exit_code == 2 and "memory_mb" in ran.stderr


def test_a_file_stays_where_it_is_if_the_job_says_so(workspace: Workspace, put: Put) -> None:
    write_job(workspace, put(named_table(), "file"), table={"engine": "stored", "memory_mb": 300, "threads": 1})
    ran = run(workspace)
    assert ran.exit_code == 0, ran.stderr
    assert (workspace.folder / "out" / "synthetic" / "independent" / "part-00000.parquet").is_file()
    assert tomllib.loads((workspace.folder / "out" / "job.toml").read_text())["table"]["engine"] == "stored"


def test_a_value_outside_the_schema_stops_a_run_that_refuses_it(workspace: Workspace, put: Put) -> None:
    write_job(workspace, put(named_table().assign(age=300), "folder"), table={"outside": "refuse"})
    ran = run(workspace)
    assert ran.exit_code == 2 and "column='age'" in ran.stderr and "300" not in ran.stderr


@pytest.mark.parametrize("outside", ["clamp", "refuse"])
def test_a_run_that_clamps_where_the_table_is_stored_says_that_nobody_counts(
    workspace: Workspace, put: Put, outside: str
) -> None:
    write_job(workspace, put(named_table(), "folder"), table={"outside": outside})
    planned = workspace.run("run", workspace.folder / "job.toml")
    assert ("nobody counts them" in planned.stderr) == (outside == "clamp"), planned.stderr


def test_a_run_draws_samples_as_large_as_its_job_says_and_tells_of_them(workspace: Workspace, put: Put) -> None:
    asked = {"measures": ["utility.tstr"], "sample_rows": 100}
    generators = {"independent": {"rows": 2_000}}
    write_job(workspace, put(named_table(), "folder"), split=SPLIT, generators=generators, evaluation=asked)
    ran = run(workspace)
    assert ran.exit_code == 0, ran.stderr
    notes = {one["note"] for one in evaluation_of(workspace)["candidates"][0]["estimates"]}
    assert any("on seeded samples: 100 of " in note and "500 of 2,000 synthetic rows" in note for note in notes)
    assert "Measured on seeded samples: 100 of " in " ".join(ran.stdout.split())
