"""A budget is not spent on what is expected to FAIL, unless somebody who was told says so."""

from typing import Any

import pytest
from typer.testing import CliRunner

from evaluate.gate.policy import load_policy
from synth.dp.ledger import open_ledger
from synth.generators.outlook import BEYOND, MEAN, WORST
from tests.understudy.conftest import Workspace
from understudy.cli import app, jobs
from understudy.run.plan import make_plan
from understudy.run.preflight import RULES

EXPECTED = "expected to FAIL policy 'internal' by noise alone"


def arguments(workspace: Workspace, command: str, *more: str) -> list[str]:
    """A private fit, or a job with one, of the 900 rows of a workspace; paid by a ledger."""
    folder = workspace.folder
    workspace.write_schema(dataset="patients")
    open_ledger(folder / "ledger.db").open("patients", unit="row", epsilon=3.0, n_units=900)
    fit = ("fit", "table.csv", "--schema", "schema.toml", "--generator", "independent", "--epsilon", "0.03", "--clamp")
    workspace.write_job(
        generators={"independent": {"epsilon": 0.03}}, ledger={"url": "ledger.db"}, release="independent",
        evaluation={"measures": ["validity", "fidelity.columns"]},
    )  # fmt: skip
    paths = {"table.csv", "schema.toml", "job.toml"}
    asked = (*fit, "--ledger", str(folder / "ledger.db")) if command == "fit" else ("run", "job.toml")
    return [*(str(folder / part) if part in paths else part for part in asked), "--out", str(folder / "out"), *more]


def spent(workspace: Workspace) -> int:
    return len(open_ledger(workspace.folder / "ledger.db").history())


@pytest.mark.parametrize("command", ["fit", "run"])
def test_nobody_to_ask_is_a_refusal_that_spends_nothing_and_names_what_costs_less(
    workspace: Workspace, command: str
) -> None:
    asked = arguments(workspace, command)
    before, listing = spent(workspace), workspace.listing()
    ran = workspace.run(*asked)
    assert ran.exit_code == 2
    (error,) = [line for line in ran.stderr.splitlines() if line.startswith("Error: ")]
    assert EXPECTED in error and "Before that, set about epsilon=" in error and "add --yes" in error
    assert "'town'" in error or "'income'" in error
    assert (spent(workspace), workspace.listing()) == (before, listing)
    ran = workspace.run(*asked, "--yes", "--json")
    assert ran.exit_code in ([0] if command == "fit" else [1, 3]), ran.stderr  # by chance it is not known to FAIL
    assert any(EXPECTED in warning for warning in ran.json["warnings"])
    assert spent(workspace) > before


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 2), ("", 2)])
def test_a_person_is_asked_before_a_fit(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, answer: str, code: int
) -> None:
    asked, before = arguments(workspace, "fit"), spent(workspace)
    monkeypatch.setattr(jobs, "is_terminal", lambda: True)
    ran = CliRunner().invoke(app, asked, input=f"{answer}\n")
    assert ran.exit_code == code, ran.stderr
    assert "Spend the budget on it all the same? [y/N]" in ran.stderr
    assert (spent(workspace) > before) == (code == 0)


def test_what_may_be_released_is_asked_for_and_what_is_paid_is_not(workspace: Workspace) -> None:
    arguments(workspace, "run")
    strong, weak, measures = {"epsilon": 8.0}, {"epsilon": 0.1}, {"measures": ["fidelity.columns"]}
    generators = {"strong": {"generator": "independent", **strong}, "weak": {"generator": "independent", **weak}}

    def in_vain(release: str | None, evaluation: Any = measures) -> tuple[str, ...]:
        named = {} if release is None else {"release": release}
        workspace.write_job(generators=generators, evaluation=evaluation, **named)
        return make_plan(workspace.folder / "job.toml", workspace.folder / "elsewhere").in_vain

    assert in_vain("strong") == in_vain(None) == ()
    (why,) = in_vain("weak")
    assert why.startswith(f"generators.weak: {EXPECTED}")
    assert in_vain("weak", {"measures": ["validity"]}) == ()  # what is not measured does not FAIL


def test_limits_that_python_warns_by_are_those_of_the_mildest_policy() -> None:
    rules = {rule.measure: rule.failing for rule in load_policy("internal").rules}
    assert [rules[RULES[name]] for name in ("worst", "mean", "tail")] == [WORST, MEAN, BEYOND]
