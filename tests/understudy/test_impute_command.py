"""`understudy impute` and `understudy sample --balance`, through the real command line."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from synth.generators import registry
from synth.schema import Schema, build_schema
from synth.table import conform
from tests.understudy.conftest import SCHEMA, SECRET, Workspace, small_table

LAW = {"kind": "inequality", "low": "age", "high": "income"}


def saved(folder: Path, name: str, frame: pd.DataFrame, **changes: Any) -> Path:
    """A small model of a table in a folder."""
    quick: dict[str, Any] = {"latent_class": {"n_classes": 30, "rounds": 2}, "trees": {"rounds": 40}}
    schema: Schema = build_schema({**SCHEMA, **changes})
    made = registry.generator(name, **quick.get(name, {})).fit(conform(frame, schema), schema, seed=0)
    made.save(folder / name)
    return folder / name


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("classes"), "latent_class", small_table())


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("trees"), "trees", small_table())


@pytest.fixture
def holes(workspace: Workspace) -> Path:
    """A table of which a fifth of all cells is missing, also where the schema knows no missing value."""
    rng, frame = np.random.default_rng(1), small_table(120, seed=3)
    return workspace.write_table(frame.mask(rng.random(frame.shape) < 0.2), "holes.csv")


def test_missing_cells_are_filled_in_and_the_others_stay(workspace: Workspace, model: Path, holes: Path) -> None:
    out = workspace.folder / "filled.csv"
    ran = workspace.run("impute", model, holes, "--seed", 7, "--out", out, "--json")
    assert ran.exit_code == 0, ran.stderr
    before, after = pd.read_csv(holes), pd.read_csv(out)
    assert list(after.columns) == list(before.columns)
    assert not after.isna().to_numpy().any()
    for name in before:
        known = before[name].notna()
        assert after.loc[known, name].tolist() == before.loc[known, name].astype(after[name].dtype).tolist()
    n_missing = int(before.isna().to_numpy().sum())
    assert n_missing > 50
    assert ran.json == {
        "imputed": str(out), "generator": "latent_class", "rows": 120, "missing": n_missing, "unfilled": 0,
    }  # fmt: skip
    # A town goes with an income, so that it is told by it.
    told = before["town"].isna() & (before["income"] > 110)
    assert (after.loc[told, "town"] == "North").mean() > 0.7


def test_what_comes_out_is_called_real(workspace: Workspace, model: Path, holes: Path) -> None:
    ran = workspace.run("impute", model, holes, "--out", workspace.folder / "filled.csv")
    assert ran.exit_code == 0, ran.stderr
    assert "no guarantee covers it" in ran.stdout
    assert "cells were missing" in ran.stdout
    assert SECRET not in ran.stdout + ran.stderr


def test_the_same_seed_fills_in_the_same_cells_and_none_fresh_ones(
    workspace: Workspace, model: Path, holes: Path
) -> None:
    texts = []
    for index, seed in enumerate((["--seed", 4], ["--seed", 4], ["--seed", 5], [], [])):
        out = workspace.folder / f"{index}.csv"
        assert workspace.run("impute", model, holes, *seed, "--out", out).exit_code == 0
        texts.append(out.read_text())
    assert texts[0] == texts[1]
    assert len(set(texts)) == 4


def test_a_table_without_missing_cells_is_left_as_it_is(workspace: Workspace, model: Path) -> None:
    frame = small_table(50, seed=3).dropna()
    table = workspace.write_table(frame, "whole.parquet")
    out = workspace.folder / "filled.parquet"
    ran = workspace.run("impute", model, table, "--out", out, "--json")
    assert ran.exit_code == 0, ran.stderr
    assert ran.json["missing"] == 0
    after = pd.read_parquet(out)
    for name in frame:
        assert after[name].tolist() == frame[name].tolist()


def test_a_file_is_replaced_only_by_force(workspace: Workspace, model: Path, holes: Path) -> None:
    out = workspace.folder / "filled.csv"
    out.write_text("mine")
    ran = workspace.run("impute", model, holes, "--out", out)
    assert ran.exit_code == 2
    assert out.read_text() == "mine"
    assert workspace.run("impute", model, holes, "--out", out, "--force").exit_code == 0
    assert not pd.read_csv(out).isna().to_numpy().any()


@pytest.mark.parametrize("name", ["mst", "trees"])
def test_any_model_of_rows_fills_in(workspace: Workspace, holes: Path, name: str) -> None:
    made, out = saved(workspace.folder, name, small_table(300)), workspace.folder / "filled.csv"
    assert workspace.run("impute", made, holes, "--out", out).exit_code == 0
    assert not pd.read_csv(out).isna().to_numpy().any()


def test_a_table_that_does_not_fit_is_refused_unless_it_is_clamped(workspace: Workspace, model: Path) -> None:
    frame = small_table(60, seed=3)
    frame.loc[3, "age"], frame.loc[4, "town"] = 999, None
    table, out = workspace.write_table(frame, "odd.csv"), workspace.folder / "filled.csv"
    ran = workspace.run("impute", model, table, "--out", out)
    assert ran.exit_code == 2
    assert "'age'" in ran.stderr
    assert "999" not in ran.stderr
    assert not out.exists()
    assert workspace.run("impute", model, table, "--clamp", "--out", out).exit_code == 0
    after = pd.read_csv(out)
    assert after.loc[3, "age"] == 90
    assert not after["town"].isna().any()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (lambda model, holes, folder: (folder / "nothing", holes, "--out", folder / "f.csv"), "nothing"),
        (lambda model, holes, folder: (model, folder / "no.csv", "--out", folder / "f.csv"), "no.csv"),
        (lambda model, holes, folder: (model, holes, "--out", folder / "f.docx"), "f.docx"),
        (lambda model, holes, folder: (model, holes, "--out", folder / "f.csv", "--seed", -1), "seed"),
    ],
)
def test_what_is_not_there_or_cannot_be_written_is_refused(
    arguments: Callable[..., tuple[object, ...]], message: str, workspace: Workspace, model: Path, holes: Path
) -> None:
    before = workspace.listing()
    ran = workspace.run("impute", *arguments(model, holes, workspace.folder))
    assert ran.exit_code == 2
    assert message in ran.stderr.replace("\n", "")
    assert workspace.listing() == before


def test_rows_whose_constraints_no_draw_keeps_are_counted(workspace: Workspace) -> None:
    rng = np.random.default_rng(0)
    frame = small_table(600)
    frame["income"] = np.clip(frame["age"] + rng.integers(0, 60, 600), 0, 200).astype(float)
    made = saved(workspace.folder, "latent_class", frame, constraints=[LAW])
    rows = frame.head(40).copy()
    rows["age"] = rows["age"].astype("Int64")
    rows.loc[:9, "age"] = pd.NA
    rows.loc[3, "income"] = 5.0  # nobody is that young
    out = workspace.folder / "filled.csv"
    ran = workspace.run("impute", made, workspace.write_table(rows, "rows.csv"), "--seed", 1, "--out", out)
    assert ran.exit_code == 0, ran.stderr
    assert "1 rows keep missing cells" in ran.stdout
    after = pd.read_csv(out)
    assert np.flatnonzero(after["age"].isna()).tolist() == [3]
    assert (after["age"] <= after["income"]).drop(3).all()


def sampled(workspace: Workspace, model: Path, *options: object, rows: int = 120) -> Any:
    return workspace.run(
        "sample", model, "--rows", rows, "--seed", 1, "--out", workspace.folder / "made.csv", "--force", *options
    )


def counts(workspace: Workspace, column: str) -> dict[Any, int]:
    return dict(pd.read_csv(workspace.folder / "made.csv")[column].value_counts())


@pytest.mark.parametrize("name", ["model", "trees"])
def test_a_table_is_balanced_over_all_categories_or_by_shares(
    name: str, workspace: Workspace, request: pytest.FixtureRequest
) -> None:
    path = request.getfixturevalue(name)
    assert sampled(workspace, path, "--balance", "town").exit_code == 0
    assert counts(workspace, "town") == {"North": 30, "South": 30, "East": 30, SECRET: 30}
    assert sampled(workspace, path, "--balance", "ill").exit_code == 0
    assert counts(workspace, "ill") == {True: 60, False: 60}
    shares = ("--balance", "town=North:0.75", "--balance", "town=East:0.25")
    assert sampled(workspace, path, *shares, "--given", "ill=True").exit_code == 0
    assert counts(workspace, "town") == {"North": 90, "East": 30}
    assert counts(workspace, "ill") == {True: 120}
    assert sampled(workspace, path, "--balance", "age=30:1", "--balance", "age=70:2").exit_code == 0
    assert counts(workspace, "age") == {30: 40, 70: 80}


def test_how_rows_on_conditions_were_come_by_is_told(workspace: Workspace, trees: Path) -> None:
    leading = sampled(workspace, trees, "--given", "age=30")
    assert "Conditions: drawn exactly" in leading.stdout
    later = sampled(workspace, trees, "--balance", "town")
    assert "Conditions: rows were chosen by how likely" in later.stdout
    assert "Conditions" not in sampled(workspace, trees).stdout
    assert sampled(workspace, trees, "--balance", "town", "--json").json["given"] == "weights"


def test_a_folder_of_files_is_balanced(workspace: Workspace, trees: Path) -> None:
    out = workspace.folder / "made"
    ran = workspace.run(
        "sample", trees, "--rows", 200, "--rows-a-file", 100, "--seed", 1, "--balance", "ill", "--out", out, "--json"
    )
    assert ran.exit_code == 0, ran.stderr
    assert ran.json["files"] == 2
    for path in sorted(out.glob("*.parquet")):
        assert dict(pd.read_parquet(path)["ill"].value_counts()) == {True: 50, False: 50}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("nobody",), "write one such as --balance sex=F:0.5"),
        (("nobody=x:1",), "is not a column"),
        (("town=North",), "is not of the form column=value:share"),
        (("town=North:much",), "is not of the form column=value:share"),
        (("town=North:1", "town=North:2"), "is not of the form column=value:share"),
        (("town", "town=North:1"), "is not of the form column=value:share"),
        (("town=Nowhere:1",), "one of its 4 categories"),
        (("town=North:-1",), "at least 0"),
        (("town=North:nan",), "at least 0"),
        (("age",), "give the share of each value"),
        (("town", "ill"), "must be one column"),
    ],
    ids=str,
)
def test_a_balance_that_cannot_be_is_refused(
    options: tuple[str, ...], message: str, workspace: Workspace, trees: Path
) -> None:
    before = workspace.listing()
    ran = sampled(workspace, trees, *[part for option in options for part in ("--balance", option)])
    assert ran.exit_code == 2
    words = " ".join(ran.stderr.replace("│", " ").split())
    assert message in words
    assert workspace.listing() == before


def test_a_column_is_balanced_or_given_but_not_both(workspace: Workspace, trees: Path) -> None:
    ran = sampled(workspace, trees, "--balance", "town", "--given", "town=North")
    assert ran.exit_code == 2
    assert "not given" in " ".join(ran.stderr.split())
