"""A small table, its schema, a job, the real command line, and one finished run that all tests may look at."""

import json
import os
import shutil
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tomli_w
from filelock import FileLock
from typer.testing import CliRunner

from tests.understudy.driving import SCRIPT, Driver, serving

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


def run_command(*arguments: object) -> Ran:
    from understudy.cli import app

    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return Ran(result.exit_code, result.stdout, result.stderr)


@dataclass(frozen=True)
class Workspace:
    """A folder with a table, its schema and a job; commands run through the real command line."""

    folder: Path

    def run(self, *arguments: object) -> Ran:
        return run_command(*arguments)

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


def drop_environment(patch: pytest.MonkeyPatch, key: Path) -> None:
    """No test touches the key of whoever runs it, spends their budget, signs as them or asks their register."""
    patch.setenv("UNDERSTUDY_KEY_FILE", str(key))
    for name in ("LEDGER", "SIGN_KEY", "SIGN_KEY_PASSPHRASE", "REGISTER"):
        patch.delenv(f"UNDERSTUDY_{name}", raising=False)


@pytest.fixture(autouse=True)
def own_key(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path_factory.mktemp("key") / "fingerprint.key"
    drop_environment(monkeypatch, path)
    return path


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    space = Workspace(tmp_path)
    space.write_table(small_table())
    space.write_schema()
    space.write_job()
    return space


@pytest.fixture
def table() -> Callable[..., pd.DataFrame]:
    return small_table


@contextmanager
def quick_models() -> Iterator[None]:
    """Models of utility that learn in few steps: how well they serve is not what is tested."""
    from evaluate.utility import models, study

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study, "N_SPLITS", {"linear": (2, 2), "boosting": (2, 2)})
        patch.setitem(models.BOOSTING, "max_iter", 8)
        yield


@contextmanager
def made_once(factory: pytest.TempPathFactory, name: str) -> Iterator[tuple[Path, bool]]:
    """A folder that all processes of a suite share, and whether it is still to be filled, under a lock."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    with FileLock(f"{folder}.lock"):
        is_new = not (folder / "made").exists()
        if is_new:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        yield folder, is_new
        (folder / "made").touch()


def shared_run(factory: pytest.TempPathFactory, name: str, run: Callable[[Path], Ran]) -> tuple[Workspace, Ran]:
    """A command that is carried out in such a folder, and what it came to; tests only look at it."""
    with made_once(factory, name) as (folder, is_new), pytest.MonkeyPatch.context() as patch:
        drop_environment(patch, folder / "fingerprint.key")
        kept = folder / "ran.json"
        if is_new:
            kept.write_text(json.dumps(asdict(run(folder))), encoding="utf-8")
        return Workspace(folder), Ran(**json.loads(kept.read_text(encoding="utf-8")))


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Workspace, Ran]:
    """One signed run of two tables, one of them private, paid for and named for release."""
    from tests.understudy.planted import carry_out

    return shared_run(tmp_path_factory, "finished", lambda folder: carry_out(Workspace(folder)))


@pytest.fixture(scope="session")
def finished_out(finished: tuple[Workspace, Ran]) -> Path:
    return finished[0].folder / "out"


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """The process that runs the command line and kills it."""
    with serving(tmp_path_factory.mktemp("key"), SCRIPT) as process:
        yield Driver(process)
