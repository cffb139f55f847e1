"""Real tables, end to end: from a file to a verdict, without anybody tuning anything."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from evaluate.engine import evaluate
from evaluate.gate.policy import load_policy
from evaluate.gate.verdict import judge_candidate
from evaluate.sampling import (
    shuffle_columns,
)
from synth.declare import declare_schema
from synth.infer import infer_schema
from synth.schema import Schema
from synth.schema_file import write_schema
from synth.split import split_table
from synth.table import conform, read_table
from understudy.cli import app

TARGETS = {"adult": "income", "insurance": "charges", "airbnb_nyc": "price", "diabetes_hospital": "readmitted"}
UNITS = {"adult": 48_842, "insurance": 1_338, "airbnb_nyc": 48_895, "diabetes_hospital": 71_518}
PRIVACY, FIDELITY = "privacy.", ("columns.", "pairs.")


def declared(path: Path) -> Schema:
    name = path.name.removesuffix(".csv.gz")
    entity = "patient_nbr" if name == "diabetes_hospital" else None
    return declare_schema(infer_schema(read_table(path), target=TARGETS[name], entity=entity), n_units=UNITS[name])


@pytest.mark.parametrize(
    "name",
    ["insurance", *(pytest.param(n, marks=pytest.mark.slow) for n in ("adult", "airbnb_nyc", "diabetes_hospital"))],
)
def test_a_private_run_on_a_real_table_ends_in_a_report(
    name: str, shared_table: Callable[[str], Path], tmp_path: Path
) -> None:
    from typer.testing import CliRunner

    path = shared_table(f"{name}.csv.gz")
    write_schema(declared(path), tmp_path / "schema.toml")
    job = f'[table]\npath = "{path}"\nschema = "schema.toml"\n[generators.mst]\nepsilon = 1.0\n'
    (tmp_path / "job.toml").write_text(job)
    result = CliRunner().invoke(app, ["run", str(tmp_path / "job.toml"), "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.stderr
    out = tmp_path / "out"
    assert {p.name for p in out.iterdir()} >= {"report.html", "evaluation.json", "verdict.json", "synthetic", "models"}
    (candidate,) = json.loads((out / "evaluation.json").read_text())["candidates"]
    assert candidate["statement"]["epsilon"] <= 1.0
    assert {f["reason"] for f in candidate["failures"]} <= {"skipped", "not applicable"}
    schema = declared(path)
    synthetic = read_table(out / "synthetic" / "mst.csv", schema)
    assert list(synthetic.columns) == list(schema.kept)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["insurance", "adult"])
def test_a_copy_fails_privacy_half_the_holdout_fails_nothing_and_shuffled_columns_fail_fidelity(
    name: str, shared_table: Callable[[str], Path]
) -> None:
    path = shared_table(f"{name}.csv.gz")
    schema = declared(path)
    sides = split_table(read_table(path, schema), schema, seed=0)
    half = sides.holdout.sample(frac=0.5, random_state=0).reset_index(drop=True)
    tables = {
        "copy": sides.train,
        "half": half,
        "shuffled": shuffle_columns(sides.train, np.random.default_rng(0)),
    }
    evaluation = evaluate(sides.train, tables, holdout=sides.holdout, schema=schema)
    policy = load_policy("internal")
    failed = {
        candidate.name: {f.rule.measure for f in judge_candidate(candidate, policy).findings if f.outcome == "FAIL"}
        for candidate in evaluation.candidates
    }
    assert any(measure.startswith(PRIVACY) for measure in failed["copy"])
    assert failed["half"] == set()
    assert any(measure.startswith(FIDELITY) for measure in failed["shuffled"])


def test_structural_missingness_and_dates_survive_a_fit_without_epsilon(shared_table: Callable[[str], Path]) -> None:
    import synth

    path = shared_table("airbnb_nyc.csv.gz")
    schema = declared(path)
    real = read_table(path, schema)
    synthetic = conform(synth.fit(real, schema, "mst").sample(20_000, seed=0), schema)
    gone = synthetic["last_review"].isna()
    assert gone.mean() == pytest.approx(real["last_review"].isna().mean(), abs=0.02)
    assert (gone == synthetic["reviews_per_month"].isna()).mean() > 0.97
    assert (synthetic["last_review"].dropna().dt.normalize() == synthetic["last_review"].dropna()).all()
