"""`understudy gate`: a verdict from the evaluation's file alone, with waivers, for people and for CI."""

import json
import os
import re
import sys
import tomllib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from evaluate.gate.policy import build_policy, build_waivers, check_waivers
from evaluate.real_facts import Shift
from evaluate.result import CASES, Candidate, Estimate, Evaluation, Failure, SelfTest
from tests.evaluations import SCHEMA, altered, facts
from understudy.cli import hold_descriptors
from understudy.evaluate_external import read_policy

AUC, COPIES, VALID = "privacy.membership.auc", "privacy.copies", "validity.rows"
NO_COPY = {"measure": "privacy.copies.people", "limit": 0.5, "why": "no table of ours is a copy"}
ABSENT = tuple(SelfTest(case, absent="It says nothing here.") for case in CASES)
LEAKY = Estimate(AUC, 0.9, 1000, "lower", low=0.85, high=0.95)
ALIKE = facts(shift=Shift(n_train=1000, n_holdout=1000, p_value=0.5))
QUIET = Estimate(AUC, 0.5, 1000, "lower", low=0.48, high=0.52)
UNSURE = Estimate(AUC, 0.6, 1000, "lower", low=0.5, high=0.7)
WHOLE = Estimate(VALID, 1.0, 1000, "higher", low=0.99, high=1.0)
POLICY = {
    "name": "house", "version": 2, "audience": "colleagues",
    "rules": [
        {"measure": AUC, "limit": 0.6, "why": "w"},
        {"measure": VALID, "limit": 0.9, "why": "w"},
        {"measure": COPIES, "limit": 0.9, "why": "w", "severity": "warn"},
    ],
}  # fmt: skip
WAIVER = {
    "policy": "house", "version": 2, "candidate": "c", "measure": AUC, "owner": "A. Owner", "reason": "agreed with all",
    "until": "2999-12-31",
}  # fmt: skip


def evaluation(*estimate: Estimate, self_tests: tuple[SelfTest, ...] = ABSENT, **candidates: Estimate) -> Evaluation:
    late = (Failure(COPIES, "timed out", "it was late"),)
    content = [Candidate("c", (*estimate, WHOLE), late)] if estimate else []
    content += [Candidate(name, (each, WHOLE), late) for name, each in candidates.items()]
    return Evaluation(tuple(content), ALIKE, SCHEMA, self_tests=self_tests)


class Desk:
    """A folder with an evaluation, a policy and waivers."""

    def __init__(self, workspace: Any) -> None:
        self.workspace, self.folder = workspace, workspace.folder
        (self.folder / "house.toml").write_text(tomli_w.dumps(POLICY))

    def gate(self, measured: Evaluation, *arguments: object) -> Any:
        (self.folder / "evaluation.json").write_text(measured.to_json())
        policy = ("--policy", self.folder / "house.toml")
        return self.workspace.run("gate", self.folder / "evaluation.json", *policy, *arguments)

    def waivers(self, *changes: dict[str, Any]) -> tuple[str, Path]:
        path: Path = self.folder / "waivers.toml"
        path.write_text(tomli_w.dumps({"waivers": [{**WAIVER, **change} for change in changes]}))
        return "--waivers", path


@pytest.fixture
def desk(workspace: Any) -> Desk:
    return Desk(workspace)


@pytest.mark.parametrize(("estimate", "code"), [(QUIET, 0), (LEAKY, 1), (UNSURE, 3)])
def test_the_exit_code_is_the_verdict(desk: Desk, estimate: Estimate, code: int) -> None:
    ran = desk.gate(evaluation(estimate))
    assert ran.exit_code == code
    assert "under policy house, for colleagues" in ran.stdout
    assert "self-test copy: not applicable. It says nothing here." in ran.stdout


@pytest.mark.parametrize("estimate", [QUIET, LEAKY])
def test_a_holdout_of_another_population_decides_nothing_and_is_said_first(desk: Desk, estimate: Estimate) -> None:
    columns = [{"column": "year", "statistic": "D", "value": 0.3, "p_value": 1e-12}]
    other = altered(ALIKE.shift, {"auc": 0.7, "high": 0.8, "p_value": 1e-12, "columns": columns})
    ran = desk.gate(replace(evaluation(estimate), real=replace(ALIKE, shift=other)))
    assert ran.exit_code == 3
    assert "not samples of one population" in ran.stderr and "'year' (D = 0.300)" in ran.stderr
    untested = desk.gate(replace(evaluation(estimate), real=facts()))
    assert untested.exit_code == (3 if estimate is QUIET else 1)


def test_a_waived_rule_does_not_count_and_the_table_says_who_answers(desk: Desk) -> None:
    ran = desk.gate(evaluation(LEAKY), *desk.waivers({}))
    assert ran.exit_code == 0
    assert "FAIL (waived)" in ran.stdout
    assert "By A. Owner, until 2999-12-31: agreed with all" in ran.stdout


@pytest.mark.parametrize(
    ("change", "clause"),
    [
        ({"policy": "huose"}, "did you mean 'house'?"),
        ({"version": 1}, "is at version 2"),
        ({"candidate": "d"}, "candidate='d', which is not here; known are: c"),
        ({"measure": "privacy.membership.auk"}, f"did you mean '{AUC}'?"),
        ({"measure": COPIES}, "only warns"),
        ({"untl": "2020-01-01"}, "did you mean 'until'?"),
    ],
)
def test_a_waiver_that_would_never_count_is_refused_in_one_sentence(desk: Desk, change: Any, clause: str) -> None:
    ran = desk.gate(evaluation(QUIET), *desk.waivers(change))
    assert ran.exit_code == 2
    assert clause in ran.stderr
    assert ran.stderr.count("\n") == 1
    assert "PASS" not in ran.stdout


def test_an_evaluation_without_self_tests_never_passes(desk: Desk) -> None:
    ran = desk.gate(evaluation(QUIET, self_tests=()))
    assert ran.exit_code == 3
    assert "self-test copy: did not come out. The evaluation holds no such self-test" in ran.stdout
    assert desk.gate(evaluation(LEAKY, self_tests=())).exit_code == 1


def test_the_examples_of_the_documentation_are_a_policy_and_waivers() -> None:
    text = (Path(__file__).parents[2] / "docs/reference/gate.md").read_text(encoding="utf-8")
    policy, content = (tomllib.loads(block) for block in re.findall("```toml\n(.+?)```", text, re.DOTALL))
    assert build_policy(policy).valid_days == 365
    waivers = build_waivers(content)
    assert waivers[0].owner.startswith("A. Moreau")
    check_waivers(waivers, [read_policy(waivers[0].policy)], ["mst"])


# Runs.


def test_a_run_uses_the_waivers_that_its_job_names(desk: Desk) -> None:
    policy = {
        **POLICY,
        "rules": [{"measure": "columns.tvd.excess", "limit": -0.5, "why": "w"}, POLICY["rules"][1], NO_COPY],
    }
    (desk.folder / "house.toml").write_text(tomli_w.dumps(policy))
    desk.waivers({"candidate": "independent", "measure": "columns.tvd.excess"})
    job = desk.workspace.write_job(
        policy="house.toml", waivers="waivers.toml", release="independent",
        evaluation={"measures": ["validity", "fidelity.columns", "privacy.copies"]},
    )  # fmt: skip
    out = desk.folder / "out"
    ran = desk.workspace.run("run", job, "--out", out)
    assert ran.exit_code == 0, ran.stderr
    content = json.loads((out / "verdict.json").read_text())
    assert [f["waived"] for f in content["candidates"][0]["findings"]] == [True, False, False]


def test_a_run_whose_self_tests_do_not_come_out_passes_nothing_and_says_so(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evaluate.engine.self_tests_of", lambda *arguments: ABSENT[:2])
    (desk.folder / "house.toml").write_text(tomli_w.dumps({**POLICY, "rules": [POLICY["rules"][1]]}))
    job = desk.workspace.write_job(
        policy="house.toml", release="independent", evaluation={"measures": ["validity"]}
    )  # fmt: skip
    ran = desk.workspace.run("run", job, "--out", desk.folder / "out")
    assert ran.exit_code == 3, ran.stderr
    assert "Self-test shuffled did not come out, so nothing passes." in ran.stdout


def test_a_waiver_for_longer_than_evidence_counts_is_warned_about(desk: Desk) -> None:
    today = datetime.now(UTC).date()
    soon, late = (str(today + timedelta(days=n)) for n in (700, 800))
    assert "check the year" in desk.gate(evaluation(LEAKY), *desk.waivers({"until": late})).stderr
    assert desk.gate(evaluation(LEAKY), *desk.waivers({"until": soon})).stderr == ""
    (desk.folder / "house.toml").write_text(tomli_w.dumps({**POLICY, "valid_days": 30}))
    assert "longer than the valid_days=30" in desk.gate(evaluation(LEAKY), *desk.waivers({"until": soon})).stderr


OUTCOMES = {"PASS": (QUIET, 0), "FAIL": (LEAKY, 1), "INCONCLUSIVE": (UNSURE, 3), "bad input": (None, 2)}
FULL = ("stdout", "stderr")


def ended(desk: Desk, case: str, *arguments: str) -> list[str]:
    """The arguments of a gate that ends as the case says."""
    result, _ = OUTCOMES[case]
    (desk.folder / "evaluation.json").write_text("{}" if result is None else evaluation(result).to_json())
    policy = ("--policy", str(desk.folder / "house.toml"))
    return ["gate", str(desk.folder / "evaluation.json"), *policy, *arguments]


def exit_code(arguments: list[str]) -> int:
    """Of the command line on the streams of this process, as they are."""
    from understudy.cli import app

    with pytest.raises(SystemExit) as left:
        app(arguments)
    return int(str(left.value.code))


@pytest.mark.parametrize("case", OUTCOMES)
@pytest.mark.parametrize("full", [("stdout",), ("stderr",), FULL], ids=" and ".join)
@pytest.mark.parametrize("form", ["", "--json", "--quiet"])
def test_a_verdict_that_cannot_be_said_is_an_error_and_never_another_verdict(
    desk: Desk, case: str, full: tuple[str, ...], form: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """Exit code 1 says FAIL: nothing but a FAIL that was clause may end in it."""
    says = {"": ("stdout",), "--json": FULL, "--quiet": ()}[form]
    needed = ("stderr",) if case == "bad input" else says
    arguments = ended(desk, case, *([form] if form else []))
    with Path("/dev/full").open("w") as each, Path("/dev/full").open("w") as other:
        for name, stream in zip(full, (each, other), strict=False):
            monkeypatch.setattr(sys, name, stream)
        code = exit_code(arguments)
    assert code == (2 if set(full) & set(needed) else OUTCOMES[case][1])
    text = capsys.readouterr()
    if full == ("stdout",) and "stdout" in needed:
        assert "standard output cannot be written (No space left on device)" in text.err.splitlines()[-1]


@pytest.mark.parametrize("name", FULL)
def test_a_stream_that_was_closed_before_is_one_that_cannot_be_written(
    desk: Desk, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ended(desk, "PASS", "--json")
    monkeypatch.setattr(sys, name, None)
    hold_descriptors()
    try:
        assert exit_code(arguments) == 2
    finally:
        os.close(getattr(sys, name).fileno())
