"""`ledger show --release`: books priced anew, claims compared, and the worked example of the manual held true."""

import json
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from evaluate.text import at_most
from synth.dp import schedule as schedules
from synth.dp.events import Event, GaussianEvent, SelectionEvent, StabilityEvent
from synth.dp.schedule import Schedule
from synth.dp.schedule_file import read_books, to_toml
from synth.dp.tradeoff import TradeOff
from synth.generators.registry import generator
from synth.schema import build_schema

if TYPE_CHECKING:
    from conftest import Ran, Workspace

DOCS = Path(__file__).parents[2] / "docs/explanation/privacy.md"
EVENTS: tuple[Event, ...] = (
    GaussianEvent("histograms", 25.0, count=9),
    SelectionEvent("pairs", 0.1, 8),
    StabilityEvent("jobs", 20.0, 110),
)
SCHEDULE = Schedule(EVENTS, 1e-6)


def stated(schedule: Schedule = SCHEDULE, **changes: Any) -> dict[str, Any]:
    """A statement as a run writes it, or one that lies."""
    events = [record.__dict__ for record in (event.record() for event in schedule.events)]
    result = {"epsilon": schedule.epsilon, "delta": schedule.delta, "events": events, "ledger": None, "private": True}
    return {**result, **changes}


def accounted(workspace: "Workspace", statement: dict[str, Any] | None, *more: object) -> "Ran":
    path = workspace.folder / "evaluation.json"
    path.write_text(json.dumps({"candidates": [{"name": "mst", "statement": statement}]}), encoding="utf-8")
    return workspace.run("ledger", "show", "--release", path, *more)


def of_total(workspace: "Workspace", path: Path, epsilon: float, *more: object) -> "Ran":
    """A release priced beside a total of its delta."""
    ledger, delta = workspace.folder / f"{epsilon}.db", read_books(path).schedule.delta
    total = ("--epsilon", epsilon, "--delta", delta, "--n-units", 9000)
    assert workspace.run("ledger", "open", "patients", *total, "--ledger", ledger).exit_code == 0
    return workspace.run("ledger", "show", "patients", "--ledger", ledger, "--release", path, *more)


def words(text: str) -> list[str]:
    return [word for word in text.split() if set(word) != {"─"}]


def test_the_worked_example_of_the_documentation_is_true(workspace: "Workspace") -> None:
    page = DOCS.read_text(encoding="utf-8")
    (plan,), (shown,) = (re.findall(rf"```{kind}\n(.*?)```", page, re.DOTALL) for kind in ("toml", "text"))
    path = workspace.folder / "release.toml"
    path.write_text(plan, encoding="utf-8")
    ran = of_total(workspace, path, 3)
    assert ran.exit_code == 0
    assert words(ran.stdout) == words(shown)
    rho = 9 * (1 / 25) ** 2 / 2 + 8 * 0.1**2 / 8 + 8 * (1 / 25) ** 2 / 2
    assert math.isclose(rho, 0.0236)
    assert f"**{rho + 2 * math.sqrt(rho * math.log(1 / 1e-6)):.3f}**" in page
    small = of_total(workspace, path, 1, "--json").json["in_ledger"]
    assert small["epsilon"] > small["total_epsilon"]
    assert f"Of a total of 1 it would take {small['epsilon']:.3f}" in " ".join(page.split())


@pytest.mark.parametrize("epsilon", [1.0, 10.0])
def test_what_the_documentation_says_of_tests_and_groups_is_true(epsilon: float) -> None:
    columns = {f"column {i}": {"kind": "categorical", "categories": list("abcdefgh")} for i in range(15)}
    schema = build_schema({"status": "declared", "n_units": 32_561, "columns": columns})
    schedule = generator("mst", epsilon=epsilon, delta=1e-6).schedule(schema)  # type: ignore[attr-defined]
    claim, limit = TradeOff.of_claim(epsilon, 1e-6), schedule.trade_off
    shares = [claim.detections(0.01), limit.detections(0.01), limit.right_guesses]
    page = " ".join(DOCS.read_text(encoding="utf-8").split())
    assert f"| {epsilon:g} | {' | '.join(at_most(share) for share in shares)} |" in page
    if epsilon == 1.0:
        two, five, ten = schedule.groups.values()
        assert f"{two:.2f} for two rows, {five:.1f} for five and {ten:.1f} for ten" in page


def test_a_claim_that_agrees_passes_and_a_larger_one_too_of_a_release_and_of_a_plan(workspace: "Workspace") -> None:
    ran = accounted(workspace, stated())
    assert ran.exit_code == 0 and "mst: PASS" in ran.stdout and "agrees" in ran.stdout
    ran = accounted(workspace, stated(epsilon=1.01 * SCHEDULE.epsilon))
    assert ran.exit_code == 0 and "is larger than" in ran.stdout
    path = workspace.folder / "plan.toml"
    for factor, code in ((0.99, 1), (0.9995, 0), (2.0, 0)):
        path.write_text(f"{to_toml(SCHEDULE)}\n[claim]\nepsilon = {factor * SCHEDULE.epsilon!r}\n", encoding="utf-8")
        assert workspace.run("ledger", "show", "--release", path).exit_code == code
    path.write_text(to_toml(SCHEDULE), encoding="utf-8")
    result = workspace.run("ledger", "show", "--release", path, "--json").json
    assert result["epsilon"] == SCHEDULE.epsilon < result["epsilon_rdp"] < result["epsilon_by_hand"]
    assert result["epsilon_by_hand"] < result["epsilon_basic"]


LIES: dict[str, tuple[dict[str, Any], str]] = {
    "epsilon": ({"epsilon": 0.99 * SCHEDULE.epsilon}, "the claim epsilon="),
    "half the noise": (
        {"events": [{**stated()["events"][0], "noise": {"sigma": 12.5}}, *stated()["events"][1:]]},
        "is smaller than what the events cost",
    ),
    "left out": ({"events": [{**stated()["events"][0], "count": 90}]}, "is smaller than what the events cost"),
    "rho": ({"events": [{**stated()["events"][0], "rho": 1e-4}]}, "'histograms' is said to cost rho=0.0001"),
    "own delta": ({"events": [{**stated()["events"][2], "delta": 0.0}]}, "'jobs' is said to cost delta=0"),
    "delta": ({"delta": 1e-8}, "is smaller than what the events cost"),
    "void": ({"private": False}, "the statement is void"),
    "ledger": ({"ledger": {"epsilon": 0.5, "total_epsilon": 3.0, "total_delta": 1e-6}}, "the ledger's part"),
}


@pytest.mark.parametrize("name", LIES)
def test_a_claim_that_lies_is_caught(workspace: "Workspace", name: str) -> None:
    lie, sentence = LIES[name]
    if name == "delta":
        lie = {**lie, "events": stated()["events"][:2]}
    ran = accounted(workspace, stated(**lie))
    assert ran.exit_code == 1
    assert "mst: FAIL" in ran.stdout and sentence in ran.stdout and "PASS" not in ran.stdout


def test_a_fit_and_its_ledger_are_priced_from_what_they_left(workspace: "Workspace") -> None:
    workspace.write_schema(dataset="small")
    ledger = workspace.folder / "books.db"
    workspace.run("ledger", "open", "small", "--epsilon", 3, "--n-units", 900, "--ledger", ledger)
    model = workspace.folder / "model"
    options = ("--schema", workspace.folder / "schema.toml", "--generator", "independent", "--epsilon", 1)
    ran = workspace.run("fit", workspace.folder / "table.csv", *options, "--ledger", ledger, "--out", model, "--clamp")
    assert ran.exit_code == 0, ran.stderr
    result = workspace.run("ledger", "show", "--release", model, "--json").json
    statement = json.loads((model / "model.json").read_text(encoding="utf-8"))["statement"]
    assert result["exit_code"] == 0 and result["claim"] == {"epsilon": statement["epsilon"], "agrees": True}
    assert result["in_ledger"]["epsilon"] == pytest.approx(statement["ledger"]["epsilon"], rel=1e-9)
    assert result["in_ledger"]["total_epsilon"] == 3
    assert workspace.run("ledger", "show", "--release", model / "model.json").exit_code == 0


def test_accountants_that_disagree_are_not_believed(workspace: "Workspace", monkeypatch: pytest.MonkeyPatch) -> None:
    path = workspace.folder / "plan.toml"
    path.write_text(to_toml(Schedule((GaussianEvent("counts", 10.0),), 1e-6)), encoding="utf-8")
    monkeypatch.setattr(schedules, "epsilon_pld", lambda events, delta: 3.0)
    ran = workspace.run("ledger", "show", "--release", path)
    assert ran.exit_code == 2 and ran.stderr.count("\n") == 1
    assert "the accountants disagree" in ran.stderr
