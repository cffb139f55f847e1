"""Real tables, end to end: from a file to a verdict, without anybody tuning anything."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from synth.declare import declare_schema
from synth.infer import infer_schema
from synth.schema import Schema
from synth.schema_file import write_schema
from synth.table import read_table
from tests.understudy.conftest import run_command

TARGETS = {"adult": "income", "insurance": "charges", "airbnb_nyc": "price", "diabetes_hospital": "readmitted"}
UNITS = {"adult": 48_842, "insurance": 1_338, "airbnb_nyc": 48_895, "diabetes_hospital": 71_518}


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
    path = shared_table(f"{name}.csv.gz")
    write_schema(declared(path), tmp_path / "schema.toml")
    job = f'[table]\npath = "{path}"\nschema = "schema.toml"\n[generators.mst]\nepsilon = 1.0\n'
    (tmp_path / "job.toml").write_text(job)
    ran = run_command("run", tmp_path / "job.toml", "--out", tmp_path / "out")
    assert ran.exit_code == 0, ran.stderr
    out = tmp_path / "out"
    assert {p.name for p in out.iterdir()} >= {"report.html", "evaluation.json", "verdict.json", "synthetic", "models"}
    (candidate,) = json.loads((out / "evaluation.json").read_text())["candidates"]
    assert candidate["statement"]["epsilon"] <= 1.0
    assert {f["reason"] for f in candidate["failures"]} <= {"skipped", "not applicable"}
    schema = declared(path)
    synthetic = read_table(out / "synthetic" / "mst.csv", schema)
    assert list(synthetic.columns) == list(schema.kept)
