"""Nine deliveries of one real table, honest ones and others, compared once for all tests."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tomli_w
from pydantic import TypeAdapter

from evaluate import ranking
from evaluate.comparison import VendorRanking
from evaluate.result import Evaluation
from evaluate.result_io import evaluation_from
from synth.generators.registry import generator
from synth.schema import build_schema
from synth.table import text_files
from tests.understudy.conftest import Ran, quick_models, run_command, shared_run

N_TRAIN, N_HOLDOUT = 600, 400
MEASURES = ("validity", "fidelity.columns", "utility.tstr", "privacy.copies", "privacy.membership")
SCHEMA: dict[str, Any] = {
    "format": 1, "status": "declared", "n_units": 2_000, "target": "ill",
    "columns": {
        "age": {"kind": "integer", "bounds": [18, 90]},
        "income": {"kind": "real", "bounds": [0.0, 200.0], "decimals": 1},
        "weight": {"kind": "real", "bounds": [30.0, 150.0], "decimals": 2},
        "town": {"kind": "categorical", "categories": ["North", "South", "East"]},
        "ill": {"kind": "boolean"},
    },
}  # fmt: skip
HOSTILE = "=cmd|' /C calc'!A0"
"""What a spreadsheet would run."""


def people(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 91, n)
    income = np.clip(20 + age + rng.normal(0, 15, n), 0, 200).round(1)
    weight = np.clip(rng.normal(75, 15, n) + age / 10, 30, 150).round(2)
    town = np.where(income > 90, "North", np.where(income > 60, "South", "East"))
    ill = rng.random(n) < (age - 10) / 100
    return pd.DataFrame({"age": age, "income": income, "weight": weight, "town": town, "ill": ill})


@dataclass(frozen=True)
class Compared:
    """A comparison that ran through the real command line."""

    folder: Path
    exit_code: int
    stdout: str
    stderr: str

    @property
    def out(self) -> Path:
        return self.folder / "out"

    @property
    def evaluation(self) -> Evaluation:
        return evaluation_from((self.out / "evaluation.json").read_text(encoding="utf-8"))

    @property
    def ranking(self) -> dict[str, Any]:
        """The comparison as plain data, with the parts of its order beside the others."""
        result = self.evaluation.ranking
        assert result is not None
        content: dict[str, Any] = TypeAdapter(VendorRanking).dump_python(result, mode="json")
        return {**content, **content["order"]}

    def vendor(self, name: str) -> dict[str, Any]:
        return next(dict(each) for each in self.ranking["vendors"] if each["name"] == name)

    @property
    def json(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self.stdout)
        return content


def run(folder: Path, tables: list[str], *options: object) -> Compared:
    """`understudy compare` on files of a folder."""
    real = ["--real", folder / "train.csv", "--holdout", folder / "holdout.csv", "--schema", folder / "schema.toml"]
    arguments = ["compare", *(folder / name for name in tables), *real, "--out", folder / "out", "--json", *options]
    result = run_command(*arguments)
    return Compared(folder, result.exit_code, result.stdout, result.stderr)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a real table in two parts, and its schema; tables are ranked by one figure that is quick."""
    monkeypatch.setattr(ranking, "FIGURES", {"pairs.dependence.floor_share": "lower"})
    monkeypatch.setattr(text_files, "LEAST_BYTES", 1 << 20)
    return furnished(tmp_path)


def furnished(folder: Path) -> Path:
    people(N_TRAIN, 1).to_csv(folder / "train.csv", index=False)
    people(N_HOLDOUT, 2).to_csv(folder / "holdout.csv", index=False)
    (folder / "schema.toml").write_text(tomli_w.dumps(SCHEMA), encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def market(tmp_path_factory: pytest.TempPathFactory) -> Compared:
    """Two of our generators, a cheat of each kind, and files that are off."""
    workspace, ran = shared_run(tmp_path_factory, "market", compared_market)
    return Compared(workspace.folder, ran.exit_code, ran.stdout, ran.stderr)


def compared_market(folder: Path) -> Ran:
    furnished(folder)
    train, schema = people(N_TRAIN, 1), build_schema(SCHEMA)
    for label, name, parameters in (("independent", "independent", {}), ("mst", "mst", {"epsilon": 5.0})):
        model = generator(name, **parameters).fit(train, schema, seed=1)
        model.sample(N_TRAIN, seed=2).to_csv(folder / f"{label}.csv", index=False)
    honest = people(N_TRAIN, 7)
    cheat = pd.concat([honest[30:], train[100:130]]).sample(frac=1.0, random_state=0)
    cheat.to_parquet(folder / "cheat.parquet", index=False)
    # Ten times the rows, among them every training row: a share of one in ten, and nothing is left of the real table.
    pd.concat([people(9 * N_TRAIN, 8), train]).to_csv(folder / "diluted.csv.gz", index=False)
    leaked = pd.concat([people(N_HOLDOUT, 2), people(N_TRAIN - N_HOLDOUT, 9)])
    leaked.to_csv(folder / "leaked.csv", index=False)
    pd.DataFrame([honest.iloc[0]] * N_TRAIN).to_csv(folder / "constant.csv", index=False)
    renamed = pd.read_csv(folder / "mst.csv").sample(frac=1.0, random_state=1)
    renamed.assign(**{HOSTILE: "+1"}).to_csv(folder / "renamed.csv", index=False)
    people(N_TRAIN, 10).drop(columns=["weight"]).to_csv(folder / "incomplete.csv", index=False)
    (folder / "empty.csv").write_text("")
    claims = {
        "mst": {"epsilon": 5.0, "delta": 1e-6},
        "cheat": {"epsilon": 0.1, "says": "=1+1 <script>alert(1)</script>"},
    }
    (folder / "claims.toml").write_text(tomli_w.dumps(claims), encoding="utf-8")
    tables = [
        "independent.csv", "mst.csv", "cheat.parquet", "diluted.csv.gz", "leaked.csv", "constant.csv",
        "renamed.csv", "incomplete.csv", "empty.csv",
    ]  # fmt: skip
    chosen = [part for measure in MEASURES for part in ("--measure", measure)]
    with quick_models():
        compared = run(folder, tables, "--claims", folder / "claims.toml", *chosen)
    return Ran(compared.exit_code, compared.stdout, compared.stderr)
