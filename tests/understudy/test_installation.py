"""An installation without its extras, and the wheel in an empty environment."""

import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evaluate.dp_release import released_schedule
from synth.dp.budget import Budget
from synth.dp.mechanisms import NoNoise, SystemNoise
from synth.errors import MissingExtra
from synth.generators import registry
from synth.schema import Schema
from tests.understudy.conftest import SCHEMA
from understudy.cli import jobs

ROOT = Path(__file__).parents[2]
REFUSED = "needs the extra `private`; pip install 'understudy-tables[private]'"
PRIVATE = [name for name in registry.names() if registry.generator_class(name).private]
JUDGED = (0, 1, 3)


@pytest.fixture
def without_opendp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opendp", None)


@pytest.mark.usefixtures("without_opendp")
@pytest.mark.parametrize("name", PRIVATE)
def test_without_its_sampler_every_private_generator_is_refused_with_epsilon_alone(name: str) -> None:
    schema = Schema(**SCHEMA)
    with pytest.raises(MissingExtra, match="private noise is drawn by OpenDP alone") as raised:
        registry.generator(name, epsilon=1.0).check(schema)
    assert str(raised.value).endswith(REFUSED)
    registry.generator(name).check(schema)


@pytest.mark.usefixtures("without_opendp")
def test_without_its_sampler_no_private_noise_exists_and_exact_answers_do() -> None:
    schedule = released_schedule(Schema(**SCHEMA), 1.0, "auto")
    for draw in (SystemNoise, lambda: Budget(schedule)):
        with pytest.raises(MissingExtra, match="OpenDP"):
            draw()
    assert NoNoise().gaussian(np.arange(3), 1.0).tolist() == [0, 1, 2]


def test_a_sampler_that_cannot_draw_is_found_before_a_row_is_read_or_a_budget_is_reserved(workspace: Any) -> None:
    stub = workspace.folder / "stub"
    (stub / "opendp").mkdir(parents=True)
    (stub / "opendp" / "__init__.py").touch()
    (stub / "opendp-0.13.0.dist-info").mkdir()
    (stub / "opendp-0.13.0.dist-info" / "METADATA").write_text("Name: opendp\nVersion: 0.13.0\n")
    (workspace.folder / "table.csv").write_bytes(b'"never read')
    workspace.write_job(generators={"mst": {"epsilon": 1.0}}, ledger={"url": "budget.db"})
    ran = subprocess.run(
        [sys.executable, "-m", "understudy", "run", str(workspace.folder / "job.toml"), "--out", "out"],
        cwd=workspace.folder, env={**os.environ, "PYTHONPATH": f"{stub}{os.pathsep}{ROOT}"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 2
    assert "too old (version=0.13.0; at least 0.14 is needed); pip install --upgrade" in ran.stderr
    assert not (workspace.folder / "budget.db").exists()
    assert not (workspace.folder / "out").exists()


@pytest.mark.usefixtures("without_opendp")
def test_commands_refuse_epsilon_before_they_read_and_do_the_rest(
    workspace: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "is_terminal", lambda: True)
    folder = workspace.folder
    schema, fit = folder / "schema.toml", ("--generator", "mst", "--epsilon", "1", "--out", folder / "model")
    workspace.write_job(generators={"auto": {"epsilon": 1.0}, "trees": {}})
    whole = (folder / "table.csv").read_bytes()
    (folder / "table.csv").write_bytes(b'"never read')
    before = workspace.listing()
    for asked in (
        ("run", folder / "job.toml", "--out", folder / "out"),
        ("fit", folder / "table.csv", "--schema", schema, *fit),
        ("try", folder / "table.csv", "--epsilon", "1", "--out", folder / "out"),
        ("audit", "--generator", "mst", "--epsilon", "1", "--schema", schema),
    ):
        ran = workspace.run(*asked)
        assert ran.exit_code == 2, (asked, ran.stderr)
        assert len(ran.stderr.splitlines()) == 1, ran.stderr
        assert REFUSED in ran.stderr
    assert workspace.listing() == before
    (folder / "table.csv").write_bytes(whole)
    workspace.write_job(evaluation={"measures": ["validity"]})
    assert workspace.run("run", folder / "job.toml", "--out", folder / "out").exit_code in JUDGED


@pytest.mark.slow
def test_the_wheel_alone_gives_a_report_and_refuses_an_epsilon(workspace: Any, tmp_path: Path) -> None:
    """Installs from the index that `pip` is set to."""
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", tmp_path / "dist", ROOT],
        check=True, capture_output=True,
    )  # fmt: skip
    (wheel,) = (tmp_path / "dist").glob("understudy_tables-*.whl")
    venv.create(tmp_path / "venv", with_pip=True)
    programs = tmp_path / "venv" / "bin"
    subprocess.run([programs / "python", "-m", "pip", "install", "--quiet", wheel], check=True, capture_output=True)
    home = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def ran(*arguments: object) -> "subprocess.CompletedProcess[str]":
        asked = [str(programs / "understudy"), *(str(argument) for argument in arguments)]
        return subprocess.run(asked, capture_output=True, text=True, check=False, cwd=tmp_path, env=home)

    table = workspace.folder / "table.csv"
    tried = ran("try", table, "--target", "ill", "--out", tmp_path / "tried")
    assert tried.returncode in JUDGED, tried.stderr
    assert (tmp_path / "tried" / "report.html").is_file()
    workspace.write_job(generators={"mst": {"epsilon": 1.0}})
    refused = ran("run", workspace.folder / "job.toml", "--out", tmp_path / "refused")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1), refused.stderr
    assert REFUSED in refused.stderr
    assert not (tmp_path / "refused").exists()
