"""What README and docs tell a reader to do: links lead somewhere, commands and options exist, jobs are jobs."""

import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

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
