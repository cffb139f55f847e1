"""A small table that is made here, its schema, a job, and the real command line."""

import json
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tomli_w
from typer.testing import CliRunner

SECRET = "zebrafish"
"""A cell value that no message may ever hold."""

SCHEMA: dict[str, Any] = {
    "format": 1,
    "status": "declared",
    "n_units": 900,
    "target": "ill",
    "columns": {
        "age": {"kind": "integer", "bounds": [18, 90]},
        "income": {"kind": "real", "bounds": [0.0, 200.0], "decimals": 1, "missing": True},
        "town": {"kind": "categorical", "categories": ["North", "South", "East", SECRET]},
        "ill": {"kind": "boolean"},
    },
}


def small_table(n_rows: int = 900, seed: int = 0) -> pd.DataFrame:
    """Four columns that hang together: income and illness by age, town by income."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 91, n_rows)
    income = np.clip(20 + age + rng.normal(0, 15, n_rows), 0, 200).round(1)
    town = np.where(income > 90, "North", np.where(income > 60, "South", np.where(income > 45, "East", SECRET)))
    ill = rng.random(n_rows) < (age - 10) / 100
    frame = pd.DataFrame({"age": age, "income": income, "town": town, "ill": ill})
    frame.loc[rng.random(n_rows) < 0.05, "income"] = np.nan
    return frame


@dataclass(frozen=True)
class Ran:
    """What one command came to."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self.stdout)
        return content


@dataclass(frozen=True)
class Workspace:
    """A folder with a table, its schema and a job; commands run through the real command line."""

    folder: Path

    def run(self, *arguments: object) -> Ran:
        from understudy.cli import app

        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        return Ran(result.exit_code, result.stdout, result.stderr)

    def write_schema(self, **changes: Any) -> Path:
        path = self.folder / "schema.toml"
        path.write_text(tomli_w.dumps({**SCHEMA, **changes}), encoding="utf-8")
        return path

    def write_table(self, frame: pd.DataFrame, name: str = "table.csv") -> Path:
        path = self.folder / name
        frame.to_parquet(path, index=False) if path.suffix == ".parquet" else frame.to_csv(path, index=False)
        return path

    def write_job(self, **changes: Any) -> Path:
        content: dict[str, Any] = {
            "table": {"path": "table.csv", "schema": "schema.toml"},
            "split": {"holdout_share": 0.4},
            "generators": {"independent": {}},
        }
        # An audit fits a stand-in a hundred times and more; the tests of audits ask for one.
        evaluation = {"audit": False, **changes.pop("evaluation", {})}
        path = self.folder / "job.toml"
        path.write_text(tomli_w.dumps({**content, **changes, "evaluation": evaluation}), encoding="utf-8")
        return path

    def read_job(self) -> dict[str, Any]:
        return tomllib.loads((self.folder / "job.toml").read_text(encoding="utf-8"))

    def listing(self) -> set[Path]:
        """Everything in the folder, hidden or not."""
        return set(self.folder.rglob("*"))


@pytest.fixture(autouse=True)
def own_key(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test touches the key of whoever runs it."""
    path = tmp_path_factory.mktemp("key") / "fingerprint.key"
    monkeypatch.setenv("UNDERSTUDY_KEY_FILE", str(path))
    return path


@pytest.fixture(autouse=True)
def no_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test spends the budget of whoever runs it."""
    monkeypatch.delenv("UNDERSTUDY_LEDGER", raising=False)


@pytest.fixture(autouse=True)
def no_signature(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test signs with the key of whoever runs it, or asks their register."""
    for name in ("UNDERSTUDY_SIGN_KEY", "UNDERSTUDY_SIGN_KEY_PASSPHRASE", "UNDERSTUDY_REGISTER"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    made = Workspace(tmp_path)
    made.write_table(small_table())
    made.write_schema()
    made.write_job()
    return made


@pytest.fixture
def table() -> Callable[..., pd.DataFrame]:
    return small_table
