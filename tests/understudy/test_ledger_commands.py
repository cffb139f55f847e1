"""`understudy ledger`: from the first total to a damaged row, and releases priced anew by their books."""

import json
import math
import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from evaluate.text import at_most
from synth.dp import schedule as schedules
from synth.dp.events import Event, GaussianEvent, SelectionEvent, StabilityEvent
from synth.dp.ledger import Request, open_ledger
from synth.dp.renyi_curve import RdpCurve
from synth.dp.schedule import Schedule, TradeOff
from synth.dp.schedule_file import read_books
from synth.generators.registry import generator
from synth.schema import build_schema
from tests.synth.dp.plans import to_toml
from tests.understudy.conftest import Ran, Workspace
from tests.understudy.test_pages import is_like

SECRET = "correct-horse-battery"


@pytest.fixture
def url(tmp_path: Path) -> Path:
    return tmp_path / "books.db"


def opened(workspace: Workspace, url: Path, *more: object) -> Ran:
    return workspace.run("ledger", "open", "patients", "--epsilon", 3, "--n-units", 900, "--ledger", url, *more)


def spend(url: Path, token: str = "t", rho: float = 0.01) -> str:
    """The hash of the entry."""
    curve = RdpCurve.of_rho(rho)
    return open_ledger(url).reserve([Request(token, "patients", "row", "mst, seed 0", curve, "s")])[0].entry


def test_a_total_is_opened_shown_and_spent(workspace: Workspace, url: Path) -> None:
    ran = opened(workspace, url)
    assert ran.exit_code == 0 and "epsilon=3 at delta=1e-06" in ran.stdout
    spend(url)
    ran = workspace.run("ledger", "show", "--ledger", url)
    assert "A ledger counts more than the epsilon that a release claims alone (PLD)" in ran.stdout
    (kept_rows,) = workspace.run("ledger", "show", "--ledger", url, "--json").json["holdings"]
    assert (kept_rows["dataset"], kept_rows["unit"], kept_rows["n_releases"]) == ("patients", "row", 1)
    assert kept_rows["left_epsilon"] == kept_rows["epsilon"] - kept_rows["spent_epsilon"] > 0


REFUSED: dict[str, tuple[tuple[object, ...], str]] = {
    "a ledger that is not there": (("show",), "there is no ledger"),
    "no number of units": (("open", "patients", "--epsilon", 1), "needs its n_units"),
    "no number": (("open", "patients", "--n-units", 900, "--epsilon", "nan"), "the total epsilon=nan must"),
    "a large delta": (("open", "a", "--n-units", 9, "--epsilon", 1, "--delta", 0.5), "the total delta=0.5 must"),
    "an inferred schema": (("open", "a", "--epsilon", 1, "--schema", "schema.toml"), "needs a declared schema"),
}


@pytest.mark.parametrize("which", REFUSED)
def test_what_is_refused_makes_no_ledger(workspace: Workspace, url: Path, which: str) -> None:
    words, text = REFUSED[which]
    schema = workspace.write_schema(status="inferred")
    ran = workspace.run("ledger", *(schema if word == "schema.toml" else word for word in words), "--ledger", url)
    assert ran.exit_code == 2 and text in ran.stderr and ran.stderr.count("\n") == 1
    assert not url.exists()


def test_a_ledger_must_be_named_and_a_total_cannot_be_changed(workspace: Workspace, url: Path) -> None:
    ran = workspace.run("ledger", "show")
    assert ran.exit_code == 2 and "no ledger is named" in ran.stderr
    opened(workspace, url)
    ran = opened(workspace, url)
    assert ran.exit_code == 2 and "promised once" in ran.stderr


def test_a_declared_schema_says_what_to_open(workspace: Workspace, url: Path) -> None:
    schema = workspace.write_schema(dataset="patients")
    ran = workspace.run("ledger", "open", "--schema", schema, "--epsilon", 1, "--ledger", url, "--json")
    assert ran.exit_code == 0, ran.stderr
    assert [ran.json[key] for key in ("dataset", "unit", "n_units")] == ["patients", "row", 900]
    ran = workspace.run("ledger", "open", "others", "--schema", schema, "--epsilon", 1, "--ledger", url)
    assert ran.exit_code == 2 and "contradicts the schema, which says 'patients'" in ran.stderr


def test_a_damaged_row_is_found_and_ends_in_1(workspace: Workspace, url: Path) -> None:
    opened(workspace, url)
    spend(url)
    assert workspace.run("ledger", "show", "--ledger", url).exit_code == 0
    with sqlite3.connect(url) as connection:
        connection.execute("DROP TRIGGER understudy_ledger_no_update")
        connection.execute("UPDATE understudy_ledger SET body = cast(x'0a1b5b334aff' AS TEXT) WHERE seq = 2")
    connection.close()
    ran = workspace.run("ledger", "show", "--ledger", url, "--json")
    assert ran.exit_code == ran.json["exit_code"] == 1 and not ran.json["whole"]
    assert {damage["seq"] for damage in ran.json["damages"]} == {2}
    ran = workspace.run("ledger", "show", "--ledger", url)
    assert ran.exit_code == 1 and "was altered" in ran.stdout
    # What a damaged row holds does not reach a terminal as it is.
    ran = workspace.run("ledger", "show", "--entries", "--ledger", url, "--json")
    assert "\x1b" not in ran.stdout and ran.json["holdings"] == []
    assert "(cannot" in workspace.run("ledger", "show", "--entries", "--ledger", url).stdout


def test_an_end_that_is_gone_is_found_by_a_hash_that_was_kept(workspace: Workspace, url: Path) -> None:
    opened(workspace, url)
    kept = spend(url)
    ran = workspace.run("ledger", "show", "--ledger", url, "--holds", kept)
    assert ran.exit_code == 0 and "holds that entry" in ran.stdout
    ran = workspace.run("ledger", "show", "--ledger", url, "--holds", kept[::-1])
    assert ran.exit_code == 1 and "no entry has the hash" in ran.stdout
    assert workspace.run("ledger", "show", "--ledger", url, "--holds", "abc").exit_code == 2


def test_no_password_is_ever_shown(workspace: Workspace) -> None:
    pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")
    url = f"postgresql://ann:{SECRET}@127.0.0.1:9/books?password={SECRET}"
    for words in (("show",), ("open", "a", "--epsilon", 1, "--n-units", 9)):
        ran = workspace.run("ledger", *words, "--ledger", url, "--json", "--debug")
        assert ran.exit_code == 2 and SECRET not in ran.stdout + ran.stderr
        assert "'postgresql://127.0.0.1:9/books' cannot be used" in ran.stderr


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


def accounted(workspace: Workspace, statement: dict[str, Any] | None, *more: object) -> Ran:
    path = workspace.folder / "evaluation.json"
    path.write_text(json.dumps({"candidates": [{"name": "mst", "statement": statement}]}), encoding="utf-8")
    return workspace.run("ledger", "show", "--release", path, *more)


def of_total(workspace: Workspace, path: Path, epsilon: float, *more: object) -> Ran:
    """A release priced beside a total of its delta."""
    ledger, delta = workspace.folder / f"{epsilon}.db", read_books(path).schedule.delta
    total = ("--epsilon", epsilon, "--delta", delta, "--n-units", 9000)
    assert workspace.run("ledger", "open", "patients", *total, "--ledger", ledger).exit_code == 0
    return workspace.run("ledger", "show", "patients", "--ledger", ledger, "--release", path, *more)


def words(text: str) -> list[str]:
    return [word for word in text.split() if set(word) != {"─"}]


def test_the_worked_example_of_the_documentation_is_true(workspace: Workspace) -> None:
    page = DOCS.read_text(encoding="utf-8")
    (plan,), (shown,) = (re.findall(rf"```{kind}\n(.*?)```", page, re.DOTALL) for kind in ("toml", "text"))
    path = workspace.folder / "release.toml"
    path.write_text(plan, encoding="utf-8")
    ran = of_total(workspace, path, 3)
    assert ran.exit_code == 0
    assert is_like(" ".join(words(shown)), " ".join(words(ran.stdout)))
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


def test_a_claim_that_agrees_passes_and_a_larger_one_too_of_a_release_and_of_a_plan(workspace: Workspace) -> None:
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
def test_a_claim_that_lies_is_caught(workspace: Workspace, name: str) -> None:
    lie, sentence = LIES[name]
    if name == "delta":
        lie = {**lie, "events": stated()["events"][:2]}
    ran = accounted(workspace, stated(**lie))
    assert ran.exit_code == 1
    assert "mst: FAIL" in ran.stdout and sentence in ran.stdout and "PASS" not in ran.stdout


def test_a_fit_and_its_ledger_are_priced_from_what_they_left(workspace: Workspace) -> None:
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


def test_accountants_that_disagree_are_not_believed(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    path = workspace.folder / "plan.toml"
    path.write_text(to_toml(Schedule((GaussianEvent("counts", 10.0),), 1e-6)), encoding="utf-8")
    monkeypatch.setattr(schedules, "epsilon_pld", lambda events, delta: 3.0)
    ran = workspace.run("ledger", "show", "--release", path)
    assert ran.exit_code == 2 and ran.stderr.count("\n") == 1
    assert "the accountants disagree" in ran.stderr
