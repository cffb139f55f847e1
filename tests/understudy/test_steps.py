"""The steps of a job, one command at a time, and what they say of a copy, of real rows and of shuffled columns."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from evaluate.result_io import evaluation_from
from tests.understudy.conftest import Ran, Workspace, quick_models, small_table


def done(ran: Ran) -> Ran:
    assert ran.exit_code == 0, ran.stderr
    return ran


@pytest.fixture
def parts(workspace: Workspace) -> Workspace:
    """A table in train.csv and holdout.csv, and rows of the same kind in made.csv."""
    for name, n_rows, seed in (("train", 300, 0), ("holdout", 150, 1), ("made", 150, 2)):
        workspace.write_table(small_table(n_rows, seed), f"{name}.csv")
    return workspace


def evaluate(workspace: Workspace, *options: object, schema: bool = True, holdout: bool = True) -> Ran:
    folder = workspace.folder
    return workspace.run(
        "evaluate", "--train", folder / "train.csv", *(("--holdout", folder / "holdout.csv") if holdout else ()),
        *(("--schema", folder / "schema.toml") if schema else ()), "--out", folder / "evaluation.json", *options,
    )  # fmt: skip


def offer(workspace: Workspace, *options: object) -> Ran:
    return evaluate(workspace, "--synthetic", workspace.folder / "made.csv", *options)


def candidate(workspace: Workspace) -> Any:
    return evaluation_from((workspace.folder / "evaluation.json").read_text()).candidates[0]


def test_a_copy_fails_on_privacy_shuffled_columns_on_fidelity_and_fresh_real_rows_on_nothing(
    workspace: Workspace,
) -> None:
    folder, rng, frame = workspace.folder, np.random.default_rng(0), small_table(1600)
    workspace.write_schema(n_units=1600)
    sides = {"train": frame[:800], "holdout": frame[800:1200], "fresh": frame[1200:], "copy": frame[:800]}
    shuffled = {name: rng.permutation(column.to_numpy()) for name, column in frame[:800].items()}
    for name, rows in {**sides, "shuffled": pd.DataFrame(shuffled)}.items():
        workspace.write_table(rows, f"{name}.csv")
    tables = [part for name in ("copy", "shuffled", "fresh") for part in ("--synthetic", folder / f"{name}.csv")]
    measures = ("validity", "fidelity.columns", "fidelity.pairs", "privacy.copies", "privacy.membership")
    done(evaluate(workspace, *tables, *(part for name in measures for part in ("--measure", name))))
    outcomes = {}
    for name, codes in (("copy", (1,)), ("shuffled", (1,)), ("fresh", (0, 3))):
        ran = workspace.run("gate", folder / "evaluation.json", "--candidate", name, "--json")
        assert ran.exit_code in codes, name
        findings = ran.json["candidates"][0]["findings"]
        outcomes[name] = [f["rule"]["measure"].split(".")[0] for f in findings if f["outcome"] == "FAIL"]
    assert "privacy" in outcomes["copy"] and {"columns", "pairs"} & {*outcomes["shuffled"]} and not outcomes["fresh"]
    assert workspace.run("gate", folder / "evaluation.json").exit_code == 1  # the worst, where none is named
    done(workspace.run("report", folder / "evaluation.json", "--policy", "internal", "--out", folder / "r.html"))
    assert "shuffled" in (folder / "r.html").read_text()


def test_a_model_goes_from_fit_to_sample_to_evidence(workspace: Workspace) -> None:
    folder, schema = workspace.folder, ("--schema", workspace.folder / "schema.toml")
    done(workspace.run("split", folder / "table.csv", *schema, "--out", folder / "parts"))
    for side in ("train", "holdout"):
        (folder / f"{side}.csv").write_bytes((folder / "parts" / f"{side}.csv").read_bytes())
    fit = ("fit", folder / "train.csv", *schema, "--generator", "mst", "--epsilon", 3, "--set", "n_bins=16")
    fitted = done(workspace.run(*fit, "--out", folder / "model", "--json"))
    assert 0 < fitted.json["statement"]["epsilon"] <= 3
    sample = ("sample", folder / "model", "--rows", 200)
    tables = []
    for name, seed in (("made", ("--seed", 4)), ("same", ("--seed", 4)), ("fresh", ()), ("other", ())):
        ran = done(workspace.run(*sample, *seed, "--out", folder / f"{name}.csv", "--json"))
        tables.append((folder / f"{name}.csv").read_text())
    assert ran.json["rows"] == 200 == len(pd.read_csv(folder / "made.csv"))
    assert tables[0] == tables[1] and len(set(tables)) == 3
    quick = ("--model", folder / "model", "--measure", "validity", "--no-audit", "--json")
    (sentence,) = done(offer(workspace, *quick)).json["warnings"]
    assert "is not verified" in sentence
    judged = workspace.run("gate", folder / "evaluation.json", "--policy", "public", "--json")
    outcomes = {f["rule"]["measure"]: f["outcome"] for f in judged.json["candidates"][0]["findings"]}
    assert outcomes["statement.epsilon"] != "INCONCLUSIVE" == outcomes["privacy.membership.auc"]
    (folder / "train.csv").rename(folder / "kept.csv")
    (folder / "holdout.csv").rename(folder / "train.csv")
    (folder / "kept.csv").rename(folder / "holdout.csv")
    swapped = offer(workspace, *quick, "--force")
    assert swapped.exit_code == 2
    assert "was fitted on the rows of the holdout; swap the two sides" in swapped.stderr


def test_evaluate_takes_a_target_and_as_many_rows_as_it_is_told(parts: Workspace) -> None:
    with quick_models():
        done(offer(parts, "--measure", "utility.tstr", "--target", "town"))
    assert candidate(parts).figures["utility"]["target"] == "town"
    for targets, n in (("100", 175), ("all", 375)):
        done(offer(parts, "--measure", "privacy.membership", "--targets", targets, "--force"))
        assert candidate(parts).find("privacy.membership.auc").n == n
    before = (parts.folder / "evaluation.json").read_bytes()
    for options, clause in (
        (("--target", "nobody"), "nobody"), (("--target", "ill", "--task", "regression"), "needs numbers or times"),
        (("--targets", "99"), "targets: 99 is neither a number"), (("--targets", "many"), "targets: 'many' is neither"),
    ):  # fmt: skip
        refused = offer(parts, *options, "--force")
        assert (refused.exit_code, clause in refused.stderr) == (2, True), refused.stderr
    refused = offer(parts)
    assert refused.exit_code == 2 and "an output file must be new" in refused.stderr
    assert (parts.folder / "evaluation.json").read_bytes() == before


def test_a_table_is_evaluated_and_judged_without_a_holdout_and_a_schema(parts: Workspace) -> None:
    folder = parts.folder
    tables = ("--synthetic", folder / "made.csv", "--measure", "validity", "--measure", "privacy.membership")
    ran = done(evaluate(parts, *tables, schema=False, holdout=False))
    assert "No holdout was given" in ran.stderr
    content = json.loads((folder / "evaluation.json").read_text())
    assert (content["real"]["train_rows"], content["real"]["holdout_rows"]) == (300, 0)
    assert content["schema"]["status"] == "inferred"
    assert set(content["provenance"]["fingerprints"]) == {"table", "train"}
    judged = parts.run("gate", folder / "evaluation.json")
    assert judged.exit_code == 3
    assert "privacy.membership.auc: INCONCLUSIVE" in judged.stdout and "no holdout was given" in judged.stdout
    done(parts.run("report", folder / "evaluation.json", "--out", folder / "report.html"))
    assert "none held out" in (folder / "report.html").read_text()


def test_real_values_outside_the_schema_are_clamped_where_that_is_asked(parts: Workspace) -> None:
    folder, schema = parts.folder, ("--schema", parts.folder / "schema.toml")
    frame = small_table(300)
    frame.loc[3, "age"], frame.loc[7, "town"] = 200, "nowhere"
    parts.write_table(frame, "train.csv")
    sides = ("--real", folder / "train.csv", "--holdout", folder / "holdout.csv")
    tables = ("--train", *sides[1:], "--synthetic", folder / "made.csv", "--measure", "validity")
    for command, codes in (
        (("split", folder / "train.csv", *schema, "--out", folder / "parts"), (0,)),
        (("evaluate", *tables, *schema, "--out", folder / "evaluation.json"), (0,)),
        (
            ("compare", folder / "made.csv", *sides, *schema, "--measure", "privacy.copies", "--out", folder / "c"),
            (0, 3),
        ),
    ):
        refused = parts.run(*command)
        assert refused.exit_code == 2 and "--clamp" in refused.stderr and "200" not in refused.stderr
        assert not Path(str(command[-1])).exists()
        clamped = parts.run(*command, "--clamp", "--json")
        assert clamped.exit_code in codes, clamped.stderr
        assert command[0] == "split" or "clamped" in " ".join(clamped.json["warnings"])
    rows = pd.concat([pd.read_csv(folder / "parts" / f"{side}.csv") for side in ("train", "holdout")])
    assert (len(rows), rows["age"].max()) == (300, 90)


def test_more_units_than_declared_are_told_to_whoever_clamps_and_to_nobody_else(parts: Workspace) -> None:
    parts.write_schema(n_units=250)
    fit = (
        "fit",
        parts.folder / "train.csv",
        "--schema",
        parts.folder / "schema.toml",
        "--generator",
        "independent",
        "--yes",
    )
    refused = parts.run(*fit, "--epsilon", 1, "--out", parts.folder / "model")
    assert refused.exit_code == 2 and "more rows than n_units=250" in refused.stderr
    told = done(parts.run(*fit, "--epsilon", 1, "--clamp", "--out", parts.folder / "model", "--json"))
    assert "more rows than n_units=250" in told.stderr and "300" not in told.stderr
    assert "more rows" not in told.stdout
    saved = [path.read_bytes() for path in (parts.folder / "model").rglob("*") if path.is_file()]
    assert saved and not [content for content in saved if b"more rows" in content]
    parts.write_schema(n_units=300)
    quiet = done(parts.run(*fit, "--epsilon", 1, "--clamp", "--out", parts.folder / "other"))
    assert "more rows" not in quiet.stderr
