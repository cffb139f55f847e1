"""What holds for every command: help, options that stand anywhere, output for machines, internal errors."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from understudy.cli import app

MOST_COMMANDS = 32


def below(command: Any, name: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of each command and of each group of them."""
    yield name
    for word, inner in getattr(command, "commands", {}).items():
        yield from below(inner, (*name, word))


COMMANDS = sorted(below(get_command(app)))


def test_the_commands_are_few() -> None:
    groups = {name[:-1] for name in COMMANDS if name}
    assert len([name for name in COMMANDS if name not in groups]) <= MOST_COMMANDS


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_help_has_an_example(workspace: Any, command: tuple[str, ...]) -> None:
    ran = workspace.run(*command, "--help")
    assert ran.exit_code == 0
    assert "Example: understudy" in ran.stdout


def test_help_imports_none_of_the_heavy_libraries() -> None:
    script = (
        "import sys\nimport understudy.cli\n"
        "heavy = {'pandas', 'numpy', 'torch', 'sklearn', 'sdv', 'scipy', 'pydantic', 'opendp', 'dp_accounting'}\n"
        "print(*(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


def test_the_installed_command_answers() -> None:
    command = Path(sys.executable).parent / "understudy"
    done = subprocess.run([command, "--version"], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("understudy ")


def test_json_stands_anywhere_and_is_one_object_of_an_error_too_and_quiet_says_nothing(workspace: Any) -> None:
    arguments = ["schema", "check", workspace.folder / "table.csv", "--schema", workspace.folder / "schema.toml"]
    for ran in (workspace.run("--json", *arguments), workspace.run(*arguments, "--json")):
        assert (ran.exit_code, ran.json["fits"], "The table fits" in ran.stderr) == (0, True, True)
    quiet = workspace.run(*arguments, "-q")
    assert (quiet.exit_code, quiet.stdout, quiet.stderr) == (0, "", "")
    wrong = workspace.run("run", "none.toml", "--out", workspace.folder / "out", "--json")
    assert wrong.exit_code == wrong.json["exit_code"] == 2 and wrong.json["error"] in wrong.stderr


def test_an_internal_error_is_4_and_tells_no_value(workspace: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("zebrafish")

    monkeypatch.setattr("understudy.run.stages.split_table", broken)
    before = workspace.listing()
    ran = workspace.run("run", workspace.folder / "job.toml", "--out", workspace.folder / "out", "-q")
    assert ran.exit_code == 4 and "KeyError" in ran.stderr and "zebrafish" not in ran.stderr
    assert len(ran.stderr.splitlines()) == 1 and workspace.listing() == before


def test_another_package_named_evaluate_is_named_in_one_sentence(tmp_path: Path) -> None:
    """Hugging Face's `evaluate` comes first on the path, and would end the process if it were imported."""
    other = tmp_path / "evaluate"
    other.mkdir()
    (other / "__init__.py").write_text("raise SystemExit('imported')\n")
    script = "from understudy.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", script, "generators"],
        capture_output=True, text=True, check=False, cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "pip uninstall evaluate" in done.stderr
