"""The steps of a job, one command at a time, and what they say of a copy, of real rows and of shuffled columns."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from synth.generators.registry import load_model


def done(ran: Any) -> Any:
    assert ran.exit_code == 0, ran.stderr
    return ran


@pytest.fixture
def parts(workspace: Any, table: Any) -> Path:
    """Train and holdout of a table of two thousand rows."""
    workspace.write_table(table(2400))
    workspace.write_schema(n_units=2400)
    folder: Path = workspace.folder
    done(
        workspace.run(
            "split", folder / "table.csv", "--schema", folder / "schema.toml", "--holdout-share", 0.5, "--out",
            folder / "parts",
        )
    )  # fmt: skip
    return folder / "parts"


def gate(workspace: Any, parts: Path, offered: pd.DataFrame, *, policy: str = "internal") -> tuple[Any, dict[str, str]]:
    """The run of `gate` on an offered table, and the outcome of every rule by measure."""
    folder = workspace.folder
    offered.to_csv(folder / "offered.csv", index=False)
    done(
        workspace.run(
            "evaluate", "--train", parts / "train.csv", "--holdout", parts / "holdout.csv", "--synthetic",
            folder / "offered.csv", "--schema", folder / "schema.toml", "--out", folder / "evaluation.json", "--force",
        )
    )  # fmt: skip
    ran = workspace.run("gate", folder / "evaluation.json", "--policy", policy, "--json")
    findings = ran.json["candidates"][0]["findings"]
    return ran, {f["rule"]["measure"]: f["outcome"] for f in findings}


def test_a_copy_of_the_training_table_fails_on_privacy(workspace: Any, parts: Path) -> None:
    ran, outcomes = gate(workspace, parts, pd.read_csv(parts / "train.csv"))
    assert ran.exit_code == 1
    assert "FAIL" in [outcome for measure, outcome in outcomes.items() if measure.startswith("privacy.")]


def test_half_of_the_holdout_fails_nothing(workspace: Any, parts: Path) -> None:
    """The evaluation is given the other half, as it would be of any honest offer."""
    holdout = pd.read_csv(parts / "holdout.csv").sample(frac=1, random_state=0)
    half = len(holdout) // 2
    holdout[half:].to_csv(parts / "holdout.csv", index=False)
    ran, outcomes = gate(workspace, parts, holdout[:half])
    assert "FAIL" not in outcomes.values(), outcomes
    assert ran.exit_code in (0, 3)


def test_shuffled_columns_fail_on_fidelity(workspace: Any, parts: Path) -> None:
    rng = np.random.default_rng(0)
    train = pd.read_csv(parts / "train.csv")
    shuffled = pd.DataFrame({name: rng.permutation(column.to_numpy()) for name, column in train.items()})
    ran, outcomes = gate(workspace, parts, shuffled)
    assert ran.exit_code == 1
    assert "FAIL" in [outcome for measure, outcome in outcomes.items() if measure.startswith(("columns.", "pairs."))]


def test_a_model_goes_from_fit_to_sample_to_evidence(workspace: Any, parts: Path) -> None:
    folder = workspace.folder
    fitted = done(
        workspace.run(
            "fit", parts / "train.csv", "--schema", folder / "schema.toml", "--generator", "mst", "--epsilon", 3,
            "--set", "n_bins=16", "--out", folder / "model", "--json",
        )
    )  # fmt: skip
    assert fitted.json["statement"]["epsilon"] <= 3
    assert load_model(folder / "model").statement is not None
    out = folder / "made.csv"
    sampled = done(workspace.run("sample", folder / "model", "--rows", 500, "--seed", 1, "--out", out, "--json"))
    assert sampled.json["rows"] == 500 == len(pd.read_csv(out))
    measured = workspace.run(
        "evaluate", "--train", parts / "train.csv", "--holdout", parts / "holdout.csv", "--synthetic", out,
        "--schema", folder / "schema.toml", "--model", folder / "model", "--measure", "validity",
        "--out", folder / "evaluation.json",
    )  # fmt: skip
    done(measured)
    swapped = workspace.run(
        "evaluate", "--train", parts / "holdout.csv", "--holdout", parts / "train.csv", "--synthetic", out,
        "--schema", folder / "schema.toml", "--model", folder / "model", "--measure", "validity",
        "--out", folder / "swapped.json",
    )  # fmt: skip
    assert swapped.exit_code == 2
    assert "was fitted on the rows of the holdout; swap the two sides" in swapped.stderr
    judged = workspace.run("gate", folder / "evaluation.json", "--policy", "public", "--json")
    outcomes = {f["rule"]["measure"]: f["outcome"] for f in judged.json["candidates"][0]["findings"]}
    assert outcomes["statement.epsilon"] != "INCONCLUSIVE"
    assert outcomes["privacy.membership.auc"] == "INCONCLUSIVE"
    done(
        workspace.run(
            "report",
            folder / "evaluation.json",
            "--policy",
            "public",
            "--policy",
            "internal",
            "--out",
            folder / "r.html",
        )
    )
    assert "made" in (folder / "r.html").read_text()


def test_rows_are_sampled_on_condition(workspace: Any) -> None:
    folder, out = workspace.folder, workspace.folder / "made.csv"
    done(
        workspace.run(
            "fit", folder / "table.csv", "--schema", folder / "schema.toml", "--generator", "mst", "--out",
            folder / "model",
        )
    )  # fmt: skip
    sample = ["sample", folder / "model", "--rows", 40, "--out", out, "--force"]
    names = load_model(folder / "model").schema.modeled
    real = pd.read_csv(folder / "table.csv", dtype=str, keep_default_na=False)
    wanted = {name: next(value for value in real[name] if value) for name in names[:2]}
    done(workspace.run(*sample, *[part for name in wanted for part in ("--given", f"{name}={wanted[name]}")]))
    made = pd.read_csv(out, dtype=str, keep_default_na=False)
    assert {name: set(made[name]) for name in wanted} == {name: {value} for name, value in wanted.items()}
    for option, message in (("nobody=3", "is not a column"), (names[0], "column=value")):
        ran = workspace.run(*sample, "--given", option)
        assert ran.exit_code == 2
        assert message in ran.stderr


def test_the_same_seed_samples_the_same_table_and_none_a_fresh_one(workspace: Any) -> None:
    folder = workspace.folder
    done(
        workspace.run(
            "fit", folder / "table.csv", "--schema", folder / "schema.toml", "--generator", "independent", "--out",
            folder / "model",
        )
    )  # fmt: skip
    texts = []
    for index, seed in enumerate((["--seed", 4], ["--seed", 4], [], [])):
        out = folder / f"{index}.csv"
        done(workspace.run("sample", folder / "model", "--rows", 50, *seed, "--out", out))
        texts.append(out.read_text())
    assert texts[0] == texts[1]
    assert len(set(texts)) == 3


def test_the_worst_of_several_verdicts_is_the_exit_code_unless_one_is_named(workspace: Any, parts: Path) -> None:
    folder = workspace.folder
    train = pd.read_csv(parts / "train.csv")
    train.apply(lambda column: column.sample(frac=1, random_state=len(column.name)).to_numpy()).to_csv(
        folder / "good.csv", index=False
    )
    train.assign(town="Nowhere").to_csv(folder / "bad.csv", index=False)
    done(
        workspace.run(
            "evaluate", "--train", parts / "train.csv", "--holdout", parts / "holdout.csv", "--synthetic",
            folder / "good.csv", "--synthetic", folder / "bad.csv", "--schema", folder / "schema.toml",
            "--measure", "validity", "--measure", "privacy.copies", "--out", folder / "e.json",
        )
    )  # fmt: skip
    (folder / "valid.toml").write_text(
        'name = "valid"\nversion = 1\naudience = "tests"\n'
        '[[rules]]\nmeasure = "validity.rows"\nlimit = 0.9\nwhy = "tests"\n'
        '[[rules]]\nmeasure = "privacy.copies.people"\nlimit = 0.5\nwhy = "tests"\n'
    )
    arguments = ["gate", folder / "e.json", "--policy", folder / "valid.toml"]
    assert workspace.run(*arguments).exit_code == 1
    assert workspace.run(*arguments, "--candidate", "good").exit_code == 0
    shown = workspace.run(*arguments)
    assert "validity.rows" in shown.stdout
    assert "bad: FAIL" in shown.stdout


def test_a_schema_goes_from_inferred_to_declared_to_checked(workspace: Any) -> None:
    folder = workspace.folder
    inferred, declared = folder / "inferred.toml", folder / "declared.toml"
    done(workspace.run("schema", "infer", folder / "table.csv", "--target", "ill", "--out", inferred))
    assert 'status = "inferred"' in inferred.read_text()
    shown = done(workspace.run("schema", "declare", inferred, "--n-units", 900, "--out", declared))
    for name in ("age", "income", "town", "ill", "table"):
        assert name in shown.stdout
    assert "n_units = 900" in declared.read_text()
    done(workspace.run("schema", "check", folder / "table.csv", "--schema", declared))


def test_check_names_every_column_that_does_not_fit(workspace: Any, table: Any) -> None:
    frame = table()
    frame.loc[0, "age"] = 987654
    frame.loc[1, "town"] = "zebrafish2"
    workspace.write_table(frame)
    arguments = ["schema", "check", workspace.folder / "table.csv", "--schema", workspace.folder / "schema.toml"]
    ran = workspace.run(*arguments)
    assert ran.exit_code == 2
    assert "age" in ran.stdout
    assert "town" in ran.stdout
    assert "987654" not in ran.stdout + ran.stderr
    assert "zebrafish2" not in ran.stdout + ran.stderr
    as_json = workspace.run(*arguments, "--json")
    assert as_json.exit_code == 2
    assert {v["column"] for v in as_json.json["violations"]} == {"age", "town"}


def test_the_generators_are_listed_with_their_parameters(workspace: Any) -> None:
    shown = done(workspace.run("generators"))
    listed = done(workspace.run("generators", "--json")).json["generators"]
    assert {"independent", "mst", "sdv.gaussian_copula", "sdv.ctgan", "sdv.tvae"} <= set(listed)
    assert "epsilon" in listed["mst"]["properties"]
    assert "epochs" in shown.stdout


def test_an_evaluation_that_is_there_is_replaced_by_force_alone(workspace: Any, parts: Path) -> None:
    folder = workspace.folder
    (folder / "evaluation.json").write_text("kept")
    asked = (
        "evaluate", "--train", parts / "train.csv", "--holdout", parts / "holdout.csv", "--synthetic",
        parts / "holdout.csv", "--schema", folder / "schema.toml", "--measure", "validity",
        "--out", folder / "evaluation.json",
    )  # fmt: skip
    ran = workspace.run(*asked)
    assert ran.exit_code == 2
    assert "an output file must be new" in ran.stderr
    assert "evaluate ..." not in ran.stderr
    assert (folder / "evaluation.json").read_text() == "kept"
    done(workspace.run(*asked, "--force"))
    assert (folder / "evaluation.json").read_text() != "kept"


def test_a_split_clamps_values_outside_the_schema_where_that_is_asked(workspace: Any, table: Any) -> None:
    frame = table(400)
    frame.loc[3, "age"] = 200
    workspace.write_table(frame)
    folder = workspace.folder
    given = ("split", folder / "table.csv", "--schema", folder / "schema.toml", "--out", folder / "parts")
    refused = workspace.run(*given)
    assert refused.exit_code == 2
    assert "--clamp" in refused.stderr
    assert "200" not in refused.stderr
    assert not (folder / "parts").exists()
    done(workspace.run(*given, "--clamp"))
    sides = [pd.read_csv(folder / "parts" / f"{side}.csv") for side in ("train", "holdout")]
    assert sum(map(len, sides)) == 400
    assert pd.concat(sides)["age"].max() == 90


def test_an_evaluation_and_a_comparison_clamp_real_values_where_that_is_asked(
    workspace: Any, parts: Path, table: Any
) -> None:
    folder = workspace.folder
    train = pd.read_csv(parts / "train.csv")
    train["age"] += 60 * (np.arange(len(train)) < 5)
    train.loc[7, "town"] = "nowhere"
    train.to_csv(parts / "train.csv", index=False)
    table(400, seed=9).to_csv(folder / "made.csv", index=False)
    given = (
        "evaluate", "--train", parts / "train.csv", "--holdout", parts / "holdout.csv", "--synthetic",
        folder / "made.csv", "--schema", folder / "schema.toml", "--measure", "validity", "--out",
        folder / "evaluation.json", "--json",
    )  # fmt: skip
    refused = workspace.run(*given)
    assert refused.exit_code == 2
    assert "--clamp" in refused.stderr
    assert not (folder / "evaluation.json").exists()
    assert "clamped" in " ".join(done(workspace.run(*given, "--clamp")).json["warnings"])
    compared = (
        "compare", folder / "made.csv", "--real", parts / "train.csv", "--holdout", parts / "holdout.csv",
        "--schema", folder / "schema.toml", "--measure", "privacy.copies", "--out", folder / "compared", "--json",
    )  # fmt: skip
    assert workspace.run(*compared).exit_code == 2
    told = workspace.run(*compared, "--clamp")
    assert told.exit_code in (0, 3), told.stderr
    assert "clamped" in " ".join(told.json["warnings"])
