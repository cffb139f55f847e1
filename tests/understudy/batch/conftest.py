"""A folder with a table, a schema, a ledger and several small jobs."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from synth.dp.ledger import open_ledger
from tests.understudy.conftest import Workspace


@dataclass(frozen=True)
class Jobs:
    """Jobs in a folder, and what became of them."""

    folder: Path

    @property
    def out(self) -> Path:
        return self.folder / "all"

    def write(self, name: str, epsilon: float | None = 0.5, **changes: Any) -> Path:
        """One small job; with an epsilon it is paid for by the folder's ledger."""
        private = {} if epsilon is None else {"ledger": {"url": "ledger.db"}}
        generators = {"independent": {} if epsilon is None else {"epsilon": epsilon}}
        content = {"generators": generators, "evaluation": {"measures": ["validity"]}, **private, **changes}
        return Workspace(self.folder).write_job(**content).rename(self.folder / f"{name}.toml")

    @property
    def states(self) -> dict[str, str]:
        content = json.loads((self.out / "summary.json").read_text())
        return {job["job"]: job["state"] for job in content["jobs"]}


@pytest.fixture
def jobs(workspace: Any) -> Jobs:
    (workspace.folder / "job.toml").unlink()
    workspace.write_schema(dataset="patients")
    open_ledger(workspace.folder / "ledger.db").open("patients", unit="row", epsilon=30.0, n_units=900)
    return Jobs(workspace.folder)
