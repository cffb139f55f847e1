"""The examples for other places do what they say: pipelines with the gate, hooks of pre-commit."""

import os
import re
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
import tomli_w
import yaml

from evaluate.result import Estimate
from tests.understudy.test_gate import LEAKY, POLICY, QUIET, evaluation

ROOT = Path(__file__).parents[2]
CI = ROOT / "examples" / "ci"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["name"]


def environment() -> dict[str, str]:
    """The commands of this very environment and checkout, as a pipeline finds them installed."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "GIT_CONFIG_GLOBAL": os.devnull}


def of_github() -> tuple[list[str], dict[str, Any]]:
    """The commands of the workflow, and the step that shows their findings."""
    steps = yaml.safe_load((CI / "github.yml").read_text())["jobs"]["gate"]["steps"]
    (shown,) = (step for step in steps if "junit" in step.get("uses", ""))
    assert "cancelled()" in shown["if"]  # a step without it would not run after a FAIL
    return [step["run"] for step in steps if "run" in step], shown["with"]


def of_gitlab() -> tuple[list[str], dict[str, Any]]:
    """The commands of the job, and what it keeps."""
    job = yaml.safe_load((CI / "gitlab.yml").read_text())["release-gate"]
    assert job["artifacts"]["when"] == "always"
    assert "allow_failure" not in job
    return [*job["before_script"], *job["script"]], {"report_paths": job["artifacts"]["reports"]["junit"]}


@pytest.mark.parametrize(
    ("pipeline", "estimate", "code", "marks"),
    [(of_github, QUIET, 0, []), (of_gitlab, LEAKY, 1, ["failure"])],
    ids=["PASS", "FAIL"],
)
def test_a_pipeline_ends_by_the_verdict_and_leaves_what_it_shows(
    pipeline: Any, estimate: Estimate, code: int, marks: list[str], tmp_path: Path
) -> None:
    (tmp_path / "evaluation.json").write_text(evaluation(estimate).to_json())
    (tmp_path / "policy.toml").write_text(tomli_w.dumps(POLICY))
    commands, shown = pipeline()
    assert commands == of_github()[0] == of_gitlab()[0]  # so that each stands for the other
    assert commands[0] == f"python -m pip install {PROJECT}"
    script = "\n".join(commands[1:])  # both servers run the lines of a script by a shell that stops at the first fault
    ended = subprocess.run(["bash", "-eo", "pipefail", "-c", script], cwd=tmp_path, env=environment(), check=False)
    assert ended.returncode == code
    cases = ET.parse(tmp_path / shown["report_paths"]).iter("testcase")
    assert [child.tag for case in cases for child in case if child.tag in ("failure", "error")] == marks


def test_files_of_settings_are_checked_without_a_table_and_every_fault_is_named(workspace: Any) -> None:
    folder = workspace.folder
    (folder / "table.csv").unlink()
    (folder / "policy.toml").write_text(tomli_w.dumps(POLICY))
    good = [folder / name for name in ("job.toml", "schema.toml", "policy.toml")]
    ran = workspace.run("check", *good)
    assert ran.exit_code == 0
    assert [line.rpartition(": a ")[2] for line in ran.stdout.splitlines()] == [
        "job that can be used", "schema that can be used", "policy that can be used",
    ]  # fmt: skip
    (folder / "policy.toml").write_text(tomli_w.dumps({**POLICY, "version": 0}))
    (folder / "schema.toml").write_text("columns = 3")  # which spoils the job, too
    ran = workspace.run("check", *good, folder / "none.toml")
    assert ran.exit_code == 2
    assert ran.stdout == ""
    text = ran.stderr.splitlines()
    assert [line.split(": ")[:2] for line in text] == [["Error", str(path)] for path in (*good, folder / "none.toml")]
    assert workspace.run("check", *good, "--json").json["faults"].keys() == {str(path) for path in good}


@pytest.mark.parametrize("name", ["schema.toml", "patients.schema.toml", "jobs/job.toml", "policy.toml"])
def test_the_hook_looks_at_files_of_these_names(name: str) -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert re.search(hook["files"], name)
    assert not re.search(hook["files"], name.replace(".toml", ".txt"))
    assert not re.search(hook["files"], "pyproject.toml")
