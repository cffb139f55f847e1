"""A folder with a table, a schema, a ledger and several small jobs, and the process that runs batches of them."""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w

from synth.dp.accounting import rdp_curve
from synth.dp.ledger import open_ledger
from tests.understudy.driving import answer, charged, draws, serving
from understudy.bundle.verification import Demand, verify

DRIVER = Path(__file__).parent / "driver.py"


@dataclass(frozen=True)
class Jobs:
    """Jobs in a folder, and what became of them."""

    folder: Path

    @property
    def out(self) -> Path:
        return self.folder / "all"

    def write(self, name: str, epsilon: float | None = 0.5, **changes: Any) -> Path:
        """One small job; with an epsilon it is paid for by the folder's ledger."""
        content: dict[str, Any] = {
            "table": {"path": "table.csv", "schema": "schema.toml"},
            "split": {"holdout_share": 0.4},
            "generators": {"independent": {} if epsilon is None else {"epsilon": epsilon}},
            "evaluation": {"audit": False, "measures": ["validity"]},
            **({} if epsilon is None else {"ledger": {"url": "ledger.db"}}),
            **changes,
        }
        path = self.folder / f"{name}.toml"
        path.write_text(tomli_w.dumps(content), encoding="utf-8")
        return path

    @property
    def summary(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.out / "summary.json").read_text())
        return content

    @property
    def states(self) -> dict[str, str]:
        return {job["job"]: job["state"] for job in self.summary["jobs"]}

    def assert_paid_exactly(self) -> None:
        """The ledger holds what all draws together cost, no more and no less."""
        cost = rdp_curve(draws(self.folder)).divergences
        np.testing.assert_allclose(charged(self.folder).divergences, cost, rtol=1e-9)

    def assert_whole_or_absent(self, names: list[str]) -> None:
        """Every job's output is not there, or is all there."""
        for name in names:
            out = self.out / name
            if out.exists():
                evaluation = json.loads((out / "evaluation.json").read_text())
                content = evaluation["provenance"]["files_sha256"]
                assert {"synthetic/independent.csv", "models/independent/model.json"} <= set(content)
                missing = [n for n in ("report.html", "verdict.json", "job.toml", *content) if not (out / n).is_file()]
                assert not missing
                assert verify(out, Demand()).problems == ()


@dataclass(frozen=True)
class Batches:
    """The process that runs batches and kills them."""

    process: "subprocess.Popen[str]"

    def run(self, jobs: Jobs, *arguments: object, plan: dict[str, Any] | None = None) -> int:
        """The exit status of one batch, minus the signal where it was killed."""
        options = ["batch", *map(str, arguments), "--out", "all"]
        return int(answer(self.process, {"folder": str(jobs.folder), "arguments": options, "plan": plan}))


@pytest.fixture(scope="session")
def batches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Batches]:
    with serving(tmp_path_factory.mktemp("key"), DRIVER) as process:
        yield Batches(process)


@pytest.fixture
def jobs(workspace: Any) -> Jobs:
    (workspace.folder / "job.toml").unlink()
    workspace.write_schema(dataset="patients")
    open_ledger(workspace.folder / "ledger.db").open("patients", unit="row", epsilon=30.0, n_units=900)
    return Jobs(workspace.folder)
