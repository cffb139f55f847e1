"""`understudy sample` and `impute`: into files and folders, on conditions, balanced, and within constraints."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from synth.generators import registry
from synth.schema import build_schema
from synth.table import conform
from tests.understudy.conftest import SCHEMA, SECRET, Ran, Workspace, small_table

LAW = {"kind": "inequality", "low": "age", "high": "income"}


def saved(folder: Path, name: str, frame: pd.DataFrame, **changes: Any) -> Path:
    """A small model of a table in a folder."""
    quick: dict[str, Any] = {"trees": {"rounds": 20}}
    schema = build_schema({**SCHEMA, **changes})
    registry.generator(name, **quick.get(name, {})).fit(conform(frame, schema), schema, seed=0).save(folder / name)
    return folder / name


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Models of the small table by their generators."""
    folder = tmp_path_factory.mktemp("models")
    return {name: saved(folder, name, small_table()) for name in ("trees", "mst", "independent")}


def sample(workspace: Workspace, model: Path, *options: object, out: str = "made.csv", rows: int = 120) -> Ran:
    return workspace.run("sample", model, "--rows", rows, "--seed", 1, "--out", workspace.folder / out, *options)


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_an_out_without_a_suffix_is_a_folder_of_parquet_files(workspace: Workspace, models: dict[str, Path]) -> None:
    out, model = workspace.folder / "many", models["trees"]
    options = ("--rows-a-file", 40, "--balance", "ill", "--json")
    ran = sample(workspace, model, *options, out="many")
    assert ran.exit_code == 0, ran.stderr
    assert (ran.json["rows"], ran.json["files"], ran.json["seed"], ran.json["given"]) == (120, 3, 1, "weights")
    parts = [pd.read_parquet(path)["ill"].value_counts().to_dict() for path in sorted(out.iterdir())]
    assert parts == [{True: 20, False: 20}] * 3
    again = sample(workspace, model, out="many")
    assert again.exit_code == 2 and "must be new" in again.stderr
    assert f"{out} (1 file)" in sample(workspace, model, "--force", out="many", rows=50).stdout
    assert len(pd.read_parquet(out)) == 50


def test_without_a_seed_the_one_that_is_told_gives_the_same_table(
    workspace: Workspace, models: dict[str, Path]
) -> None:
    command, folder = ("sample", models["independent"], "--rows", 50, "--out"), workspace.folder
    seed, other = (workspace.run(*command, folder / name, "--json").json["seed"] for name in ("one", "two"))
    assert seed != other
    assert workspace.run(*command, folder / "three", "--seed", seed).exit_code == 0
    assert content(folder / "one") == content(folder / "three") != content(folder / "two")


def test_a_table_is_balanced_over_all_categories_or_by_shares(workspace: Workspace, models: dict[str, Path]) -> None:
    def counts(column: str, *options: object) -> dict[Any, int]:
        ran = sample(workspace, models["trees"], "--force", *options)
        assert ran.exit_code == 0, ran.stderr
        return dict(pd.read_csv(workspace.folder / "made.csv")[column].value_counts())

    assert counts("town", "--balance", "town") == {"North": 30, "South": 30, "East": 30, SECRET: 30}
    shares = ("--balance", "town=North:0.75", "--balance", "town=East:0.25", "--given", "ill=True")
    assert counts("town", *shares) == {"North": 90, "East": 30}
    assert set(pd.read_csv(workspace.folder / "made.csv")["ill"]) == {True}
    assert counts("age", "--balance", "age=30:1", "--balance", "age=70:2") == {30: 40, 70: 80}


REFUSALS: dict[str, tuple[str, tuple[object, ...], str]] = {
    "files of a file": ("made.csv", ("--rows-a-file", 5), "--rows-a-file is for a folder"),
    "a folder of others": ("model", ("--force",), "holds nothing but part-*.parquet"),
    "an unknown value": ("made", ("--given", "town=Atlantis"), "must be one of"),
    "both": ("made.csv", ("--balance", "town", "--given", "town=North"), "not given"),
    "no share": ("made.csv", ("--balance", "town=North"), "is not of the form column=value:share"),
    "a share twice": (
        "made.csv", ("--balance", "town=North:1", "--balance", "town=North:2"), "is not of the form column=value:share",
    ),
    "a share of nothing": ("made.csv", ("--balance", "town=Nowhere:1"), "must be one of"),
    "a negative share": ("made.csv", ("--balance", "town=North:-1"), "at least 0"),
    "a number": ("made.csv", ("--balance", "age"), "give the share of each value"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSALS)
def test_what_cannot_be_sampled_or_written_is_refused(workspace: Workspace, models: dict[str, Path], case: str) -> None:
    out, options, clause = REFUSALS[case]
    (workspace.folder / "model").mkdir()
    (workspace.folder / "model" / "model.json").write_text("mine")
    before = workspace.listing()
    ran = sample(workspace, models["trees"], *options, out=out)
    assert (ran.exit_code, clause in " ".join(ran.stderr.split())) == (2, True), ran.stderr
    assert workspace.listing() == before


# Imputation.


def test_missing_cells_are_filled_in_and_the_others_stay(workspace: Workspace, models: dict[str, Path]) -> None:
    """A fifth of all cells is missing, also where the schema knows no missing value."""
    rng, frame = np.random.default_rng(1), small_table(120, seed=3)
    holes = workspace.write_table(frame.mask(rng.random(frame.shape) < 0.2), "holes.csv")
    out = workspace.folder / "filled.csv"
    impute = ("impute", models["mst"], holes, "--seed", 7, "--out", out)
    ran = workspace.run(*impute, "--json")
    assert ran.exit_code == 0, ran.stderr
    before, after = pd.read_csv(holes), pd.read_csv(out)
    assert list(after.columns) == list(before.columns) and not after.isna().to_numpy().any()
    for column in before:
        known = before[column].notna()
        assert after.loc[known, column].tolist() == before.loc[known, column].astype(after[column].dtype).tolist()
    n_missing = int(before.isna().to_numpy().sum())
    assert (ran.json["rows"], ran.json["missing"], ran.json["unfilled"]) == (120, n_missing, 0)
    # A town goes with an income, so that it is told by it.
    told = before["town"].isna() & (before["income"] > 110)
    assert (after.loc[told, "town"] == "North").mean() > 0.7
    first = out.read_bytes()
    assert workspace.run(*impute).exit_code == 2 and out.read_bytes() == first
    again = workspace.run(*impute, "--force")
    assert (again.exit_code, out.read_bytes() == first, "no guarantee covers it" in again.stdout) == (0, True, True)
    assert SECRET not in again.stdout + again.stderr


# Constraints.


def test_rows_whose_constraints_no_draw_keeps_are_counted(workspace: Workspace) -> None:
    rng, frame = np.random.default_rng(0), small_table(600)
    frame["income"] = np.clip(frame["age"] + rng.integers(0, 60, 600), 0, 200).astype(float)
    model = saved(workspace.folder, "mst", frame, constraints=[LAW])
    rows = frame.head(40).astype({"age": "Int64"})
    rows.loc[:9, "age"] = pd.NA
    rows.loc[3, "income"] = 5.0  # nobody is that young
    out = workspace.folder / "filled.csv"
    ran = workspace.run("impute", model, workspace.write_table(rows, "rows.csv"), "--seed", 1, "--out", out)
    assert ran.exit_code == 0, ran.stderr
    assert "1 rows keep missing cells" in ran.stdout
    after = pd.read_csv(out)
    assert np.flatnonzero(after["age"].isna()).tolist() == [3]
    assert (after["age"] <= after["income"]).drop(3).all()


def test_a_run_and_a_sample_keep_the_constraints_and_say_what_they_cost(workspace: Workspace) -> None:
    folder, out = workspace.folder, workspace.folder / "out"
    workspace.write_schema(constraints=[LAW])
    workspace.write_job(evaluation={"measures": ["validity"]})
    ran = workspace.run("run", folder / "job.toml", "--out", out)
    assert ran.exit_code in (0, 1), ran.stderr
    rows = pd.read_csv(out / "synthetic" / "independent.csv")
    assert not (rows["age"] > rows["income"]).any()
    (candidate,) = json.loads((out / "evaluation.json").read_text(encoding="utf-8"))["candidates"]
    rejected = candidate["n_rejected_rows"]
    assert rejected > 0
    assert f"independent: {rejected:,} rows that broke a constraint were rejected and drawn again" in ran.stdout
    assert f"rows rejected for constraints: {rejected:,}" in (out / "report.html").read_text(encoding="utf-8")
    kept = [e for e in candidate["estimates"] if e["measure"] == "validity.constraint"]
    assert [(e["subject"], e["value"]) for e in kept] == [(["age", "income"], 1.0)]
    assert sample(workspace, out / "models" / "independent", "--json").json["rejected"] > 0
