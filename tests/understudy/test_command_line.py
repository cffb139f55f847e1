"""What holds for every command: help, options that stand anywhere, output for machines and people, errors."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from evaluate.text import loss, typed_loss
from understudy.cli import app
from understudy.console import Console

MOST_COMMANDS = 33


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


@pytest.mark.parametrize("n", [1, 60, 74, 75, 76, 77, 78, 79, 80, 81, 300])
def test_a_table_in_a_file_has_one_line_for_each_row(n: int, capsys: Any) -> None:
    sentence = "w " * (n // 2) + "end"
    Console().table(("name", "kind", "what it says"), [("a", "longer", sentence), ("b", "c", "short")])
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith(" a "))
    assert line.rstrip().endswith(sentence)


def test_what_a_hostile_name_holds_moves_no_cursor_in_any_way_of_saying_it(capsys: Any) -> None:
    hostile, console = "a\x1b[2J\u202eb\udcff\n", Console(json=True)
    console.say(hostile)
    console.warn(hostile)
    console.table(("a", "b"), [(hostile, [hostile, "c"])])
    console.result({hostile: hostile})
    text = capsys.readouterr()
    for line in (text.out + text.err).split("\n"):
        assert not line or line.isprintable(), line


@pytest.mark.parametrize("epsilon", [0.8083544281560413, 0.8, 1.0001, 9.994, 12.34, 0.0123456])
def test_a_claim_is_quoted_in_three_digits_that_never_understate_it(epsilon: float) -> None:
    assert typed_loss(epsilon) == loss(epsilon)
    assert float(loss(epsilon)) >= epsilon
