"""The examples for other places do what they say: pipelines with the gate, hooks of pre-commit, the container file."""

import os
import re
import shlex
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import tomli_w
import yaml

from evaluate.result import Estimate
from tests.understudy.test_gate import LEAKY, POLICY, QUIET, UNSURE, evaluation

ROOT = Path(__file__).parents[2]
CI = ROOT / "examples" / "ci"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["name"]
INSTALL = f"python -m pip install {PROJECT}"


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
    ("pipeline", "found", "code", "marks"),
    [(of_github, QUIET, 0, []), (of_gitlab, LEAKY, 1, ["failure"]), (of_github, UNSURE, 3, ["error"])],
    ids=["PASS", "FAIL", "INCONCLUSIVE"],
)
def test_a_pipeline_ends_by_the_verdict_and_leaves_what_it_shows(
    pipeline: Any, found: Estimate, code: int, marks: list[str], tmp_path: Path
) -> None:
    (tmp_path / "evaluation.json").write_text(evaluation(found).to_json())
    (tmp_path / "policy.toml").write_text(tomli_w.dumps(POLICY))
    commands, shown = pipeline()
    assert commands == of_github()[0] == of_gitlab()[0]  # so that each stands for the other
    assert commands[0] == INSTALL
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
    said = ran.stderr.splitlines()
    assert [line.split(": ")[:2] for line in said] == [["Error", str(path)] for path in (*good, folder / "none.toml")]
    assert workspace.run("check", *good, "--json").json["faults"].keys() == {str(path) for path in good}


def hooks() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    return found


@pytest.mark.parametrize("name", ["schema.toml", "patients.schema.toml", "jobs/job.toml", "policy.toml"])
def test_the_hook_looks_at_files_of_these_names(name: str) -> None:
    (hook,) = hooks()
    assert re.search(hook["files"], name)
    assert not re.search(hook["files"], name.replace(".toml", ".txt"))
    assert not re.search(hook["files"], "pyproject.toml")


@pytest.fixture
def repository(workspace: Any) -> Iterator[Path]:
    """A repository of a job and its schema, with the hook taken from a copy of ours."""
    folder, ours = workspace.folder, workspace.folder / "understudy.git"
    _git(workspace.folder, "init", "--quiet", str(ours))
    (ours / ".pre-commit-hooks.yaml").write_bytes((ROOT / ".pre-commit-hooks.yaml").read_bytes())
    _git(ours, "add", "."), _git(ours, "commit", "--quiet", "--message", "Hooks")
    head = _git(ours, "rev-parse", "HEAD").strip()
    config = {"repos": [{"repo": str(ours), "rev": head, "hooks": [{"id": hooks()[0]["id"]}]}]}
    _git(folder, "init", "--quiet")
    (folder / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config))
    _git(folder, "add", "job.toml", "schema.toml", ".pre-commit-config.yaml")
    yield folder


def _git(folder: Path, *arguments: str) -> str:
    who = {f"GIT_{role}_{what}": "a@b" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    ran = subprocess.run(
        ["git", *arguments], cwd=folder, env={**environment(), **who}, check=True, capture_output=True, text=True
    )
    return ran.stdout


@pytest.mark.slow
def test_pre_commit_lets_good_files_pass_and_stops_bad_ones(repository: Path, tmp_path: Path) -> None:
    def hooked() -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "pre_commit", "run", "--all-files"], cwd=repository, capture_output=True, text=True,
            env={**environment(), "PRE_COMMIT_HOME": str(tmp_path / "cache")}, check=False,
        )  # fmt: skip

    assert hooked().returncode == 0
    job = (repository / "job.toml").read_text()
    (repository / "job.toml").write_text(job.replace("[generators.independent]", "[generators.independant]"))
    ended = hooked()
    assert ended.returncode == 1
    assert "did you mean 'independent'?" in ended.stdout
    assert "exit code: 2" in ended.stdout


def instructions() -> list[tuple[str, str]]:
    """The instructions of the container file, each with its arguments."""
    text = (ROOT / "Containerfile").read_text().replace("\\\n", " ")
    lines = (line.strip() for line in text.splitlines())
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines if line and line[0] != "#")]


def test_the_image_runs_the_command_and_not_as_root() -> None:
    found: Mapping[str, str] = dict(instructions())
    assert set(found) <= {"FROM", "COPY", "RUN", "USER", "WORKDIR", "ENV", "VOLUME", "ENTRYPOINT", "CMD"}
    assert found["FROM"].startswith("python:3.")
    assert found["ENTRYPOINT"] == '["understudy"]'
    assert found["USER"] != "root"
    assert any(f"useradd --create-home --uid 1000 {found['USER']} " in rest for word, rest in instructions())
    assert [word for word, _ in instructions()].index("USER") < len(instructions()) - 1


@pytest.mark.slow
def test_the_wheel_that_the_image_copies_is_built_and_brings_the_command(tmp_path: Path) -> None:
    tracked = _git(ROOT, "ls-files", "-z").split("\0")[:-1]
    for name in tracked:  # a build leaves files beside its sources
        (tmp_path / "source" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "source" / name).write_bytes((ROOT / name).read_bytes())
    source = tmp_path / "source"
    build = re.search(r"python (-m build [^\n]+)", (ROOT / "Containerfile").read_text())
    assert build is not None
    command = [sys.executable, *shlex.split(build[1]), "--no-isolation"]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    (pattern, place) = next(rest.split() for word, rest in instructions() if word == "COPY")
    (wheel,) = source.glob(pattern)
    install = next(rest for word, rest in instructions() if word == "RUN" and "pip install" in rest)
    assert f"{place}*.whl" in install
    # Its libraries are those of this environment: the image's own come from an index.
    made = tmp_path / "made"
    subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", str(made)], check=True)
    asked = shlex.split(install.partition("&&")[0].replace(f"$(ls {place}*.whl)", str(wheel)))
    subprocess.run([made / "bin" / "python", *asked[1:], "--no-deps"], check=True, capture_output=True)
    libraries = os.pathsep.join(path for path in sys.path if path.endswith("site-packages"))
    kept = {
        **os.environ,
        "PYTHONPATH": f"{next((made / 'lib').glob('python*')) / 'site-packages'}{os.pathsep}{libraries}",
    }
    ran = subprocess.run(
        [made / "bin" / "understudy", "check", str(ROOT / "examples" / "fair.schema.toml")], env=kept, cwd=tmp_path,
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "a schema that can be used" in ran.stdout
