"""What README, docs and examples tell a reader to do: links, commands, options, files and jobs are there."""

import os
import re
import shlex
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tomli_w
import typer
import yaml

from tests.understudy.test_gate import LEAKY, POLICY, evaluation
from understudy.cli import app
from understudy.job.spec import read_job

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"(?<!!)\[[^]\n]*(?:\n[^]\n]*)?\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def anchors(page: Path) -> set[str]:
    """The headings of a page, as GitHub names them."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def commands(page: Path) -> Iterator[list[str]]:
    """The words after `understudy` of every command in a block of shell."""
    text = page.read_text()
    blocks = [block for language, block in FENCE.findall(text) if language in ("sh", "console")]
    blocks += re.findall(r"(?:^    .*\n)+", FENCE.sub("", text), re.MULTILINE)
    for line in "\n".join(blocks).replace("\\\n", " ").splitlines():
        result = re.match(r"\s*(?:\$ )?understudy (.*)", line)
        if result:
            yield shlex.split(result[1], comments=True)


def options_of(words: list[str]) -> set[str]:
    """The options of the command that these words call."""
    command: Any = typer.main.get_command(app)
    known = {"--quiet", "--json", "--debug", "--help", "--version"}
    for word in words:
        if not hasattr(command, "commands"):
            break
        if not word.startswith("-"):
            command = command.commands[word]
    return known | {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_link_leads_to_a_page_and_a_heading_that_are_there(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), target


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_command_has_the_options_that_it_is_shown_with(page: Path) -> None:
    for words in commands(page):
        shown = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert shown <= options_of(words), shlex.join(words)


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "docs/reference/job.md"], ids=name)
def test_the_first_job_that_is_shown_is_one(page: Path, tmp_path: Path) -> None:
    jobs = (block for language, block in FENCE.findall(page.read_text()) if language == "toml" and "[table]" in block)
    job_path = tmp_path / "job.toml"
    job_path.write_text(next(jobs))
    assert read_job(job_path).policy == tomllib.loads(job_path.read_text())["policy"]


@pytest.mark.parametrize("page", [ROOT / "CONTRIBUTING.md", ROOT / "docs/explanation/architecture.md"], ids=name)
def test_every_file_that_is_named_is_there(page: Path) -> None:
    result = re.findall(r"`((?:synth|evaluate|reports|understudy|tests)/[\w/]+(?:\.py|/)?)`", page.read_text())
    assert len(result) > 15
    missing = [
        each for each in result if not ((ROOT / each).exists() or (ROOT / f"{each}.py").exists() or "NAME" in each)
    ]
    assert missing == []


def test_commands_are_found_in_blocks_of_both_kinds() -> None:
    """Guards the tests above: a page of which no command was read would pass."""
    assert sum(1 for _ in commands(ROOT / "README.md")) >= 6
    assert sum(1 for _ in commands(ROOT / "docs/how-to/bundle.md")) >= 6


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


def test_a_pipeline_ends_by_the_verdict_and_leaves_what_it_shows(tmp_path: Path) -> None:
    (tmp_path / "evaluation.json").write_text(evaluation(LEAKY).to_json())
    (tmp_path / "policy.toml").write_text(tomli_w.dumps(POLICY))
    commands, shown = of_gitlab()
    others, beside = of_github()
    assert (commands, shown["report_paths"]) == (others, beside["report_paths"])  # so that each stands for the other
    assert commands[0] == f"python -m pip install {PROJECT}"
    script = "\n".join(commands[1:])  # both servers run the lines of a script by a shell that stops at the first fault
    ended = subprocess.run(["bash", "-eo", "pipefail", "-c", script], cwd=tmp_path, env=environment(), check=False)
    assert ended.returncode == 1
    cases = ET.parse(tmp_path / shown["report_paths"]).iter("testcase")
    assert [child.tag for case in cases for child in case if child.tag in ("failure", "error")] == ["failure"]


def test_files_of_settings_are_checked_without_a_table_and_every_fault_is_named(workspace: Any) -> None:
    folder = workspace.folder
    (folder / "table.csv").unlink()
    (folder / "policy.toml").write_text(tomli_w.dumps(POLICY))
    good = [folder / name for name in ("job.toml", "schema.toml", "policy.toml")]
    ran = workspace.run("check", *good)
    assert ran.exit_code == 0
    kinds = [line.rpartition(": a ")[2].partition(" ")[0] for line in ran.stdout.splitlines()]
    assert kinds == ["job", "schema", "policy"]
    (folder / "policy.toml").write_text(tomli_w.dumps({**POLICY, "version": 0}))
    (folder / "schema.toml").write_text("columns = 3")  # which spoils the job, too
    ran = workspace.run("check", *good, folder / "none.toml")
    assert (ran.exit_code, ran.stdout) == (2, "")
    text = ran.stderr.splitlines()
    assert [line.split(": ")[:2] for line in text] == [["Error", str(path)] for path in (*good, folder / "none.toml")]
    assert workspace.run("check", *good, "--json").json["faults"].keys() == {str(path) for path in good}
