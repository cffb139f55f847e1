"""`understudy gate`: a verdict from the evaluation's file alone, with waivers, and no false PASS of a changed one."""

import json
import os
import re
import sys
import tomllib
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tomli_w
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evaluate.engine import evaluate
from evaluate.gate.policy import Policy, Waiver, build_policy, build_waivers, check_waivers
from evaluate.gate.verdict import judge, judge_candidate
from evaluate.real_facts import Shift
from evaluate.result import CASES, Candidate, Estimate, Evaluation, EvaluationError, Failure, SelfTest
from evaluate.result_io import evaluation_from
from reports.exports import render_junit
from synth.errors import JobError
from synth.schema import build_schema
from tests.evaluations import SCHEMA, altered, facts, origin, stated, swept
from understudy.cli import hold_descriptors
from understudy.evaluate_external import read_policy

AUC, COPIES, VALID = "privacy.membership.auc", "privacy.copies", "validity.rows"
PERSONAL = "privacy.personal"
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


COMPOSED = {"epsilon": 4.0, "delta": 1e-6, "n_fits": 4}
SWEEP = swept({"releasable": True, "composed": COMPOSED}, "m")


def policy_of(*limits: tuple[str, float]) -> Policy:
    rules = [{"measure": measure, "limit": limit, "why": "w"} for measure, limit in limits]
    return build_policy({"name": "house", "version": 1, "audience": "a", "rules": rules})


CLAIMS = policy_of(("statement.epsilon", 2.0))


def private(provenance: dict[str, Any], **claims: Any) -> Evaluation:
    table = Candidate("m", (QUIET,), statement=stated(**claims))
    return Evaluation((table,), ALIKE, SCHEMA, origin(**provenance), ABSENT)


def verdict_of(provenance: dict[str, Any], **claims: Any) -> str:
    (verdict,) = judge(private(provenance, **claims), [CLAIMS])
    return verdict.verdict


# What a sweep, and what is published, claim.


def published(**together: Any) -> dict[str, Any]:
    return {"released_numbers": {"table": "m", "together": together, "n_fits": 1}}


def test_no_claim_of_several_fits_is_smaller_than_that_of_one_and_none_lifts_a_bar() -> None:
    unpaid = {"sweep": swept({"releasable": False, "composed": COMPOSED}, "m")}
    assert verdict_of({**unpaid, **published()}) == "FAIL"
    assert verdict_of({"sweep": None, **published(private=False)}) == "FAIL"
    assert verdict_of({"sweep": None, **published(epsilon=0.6)}, epsilon=50.0) == "FAIL"
    small = {"sweep": {**SWEEP, "composed": {**COMPOSED, "epsilon": 0.6}}}
    assert verdict_of(small, epsilon=50.0) == "FAIL"
    assert verdict_of({"sweep": SWEEP, **published(epsilon=0.6)}) == "FAIL"
    assert verdict_of({"sweep": None, **published()}) == verdict_of(small) == "PASS"


def written(part: str, **changes: Any) -> str:
    """The file of one private table with another provenance or statement."""
    content = json.loads(private({"sweep": SWEEP, **published()}).to_json())
    known = content["provenance"] if part == "provenance" else content["candidates"][0]["statement"]
    known.update(changes)
    return json.dumps(content)


PUBLISHED = json.loads(private(published()).to_json())["provenance"]["released_numbers"]
TOGETHER = {**PUBLISHED["together"], "private": 1}
POINTS = SWEEP["points"]
DAMAGED: list[tuple[str, dict[str, Any]]] = [
    *(("provenance", {"sweep": sweep}) for sweep in (
        [], "no", {}, {"releasable": "true", "composed": COMPOSED, "points": POINTS},
        {"releasable": True, "composed": None, "points": POINTS},
        {"releasable": True, "composed": {**COMPOSED, "epsilon": True}, "points": POINTS},
        {"releasable": True, "composed": {**COMPOSED, "epsilon": 10**400}, "points": POINTS},
    )),
    *(("provenance", {"sweep": None, "released_numbers": numbers}) for numbers in (
        [], {}, {**PUBLISHED, "table": "another"}, {**PUBLISHED, "together": {}}, {**PUBLISHED, "together": TOGETHER},
    )),
    *(("statement", {"private": odd}) for odd in (1, None)),
    *(("statement", {"epsilon": odd}) for odd in (0, True, "1", None, float("inf"), 10**400)),
]  # fmt: skip


@pytest.mark.parametrize(("part", "changes"), DAMAGED)
def test_a_sweep_a_publication_or_a_claim_that_no_run_writes_is_damage(part: str, changes: dict[str, Any]) -> None:
    assert judge(evaluation_from(written(part)), [CLAIMS])
    with pytest.raises(EvaluationError):
        judge(evaluation_from(written(part, **changes)), [CLAIMS])


# Waivers and policies.


def test_a_number_beyond_the_limit_of_what_nobody_may_waive_counts_without_an_interval() -> None:
    policy = policy_of((PERSONAL, 0.0), (AUC, 0.6))
    waiver = Waiver.model_validate(
        {"policy": "house", "version": 1, "candidate": "m", "measure": PERSONAL, "owner": "o", "reason": "r",
         "until": "2999-12-31"}
    )  # fmt: skip
    table = Candidate("m", (QUIET, Estimate(PERSONAL, 0.5, 100, "lower")))
    verdict = judge_candidate(table, policy, waivers=[waiver])
    assert (verdict.verdict, verdict.findings[0].waived) == ("INCONCLUSIVE", False)
    assert "Its waiver does not count" in verdict.findings[0].reason
    unknown = Candidate("m", (QUIET,))
    assert judge_candidate(unknown, policy, waivers=[waiver]).verdict == "PASS"


@pytest.mark.parametrize("name", ["partner", "Partner", "PUBLIC", "ｉnternal"])
def test_a_policy_that_takes_the_name_of_a_shipped_one_is_refused(tmp_path: Path, name: str) -> None:
    lax = {"name": name, "version": 2, "audience": "a", "rules": [{"measure": AUC, "limit": 1.0, "why": "w"}]}
    path = tmp_path / "lax.toml"
    path.write_text(tomli_w.dumps(lax))
    with pytest.raises(JobError, match="rename it"):
        read_policy(str(path))


# The terminal, and what an earlier gate left.


def test_no_verdict_of_an_earlier_gate_survives_an_error(workspace: Any) -> None:
    path, junit = workspace.folder / "evaluation.json", workspace.folder / "gate.xml"
    path.write_text(private({}).to_json())
    assert workspace.run("gate", path, "--policy", "internal", "--junit", junit).exit_code != 2
    assert junit.exists()
    path.write_text("{}")
    assert workspace.run("gate", path, "--policy", "internal", "--junit", junit).exit_code == 2
    assert not junit.exists()


# Any change at all.

ODD: tuple[Any, ...] = (
    None, True, False, "", "x", [], {}, [[]], ["x"], {"x": 1}, -1, 0, 1, 0.5, 1e308, 10**400, "1", "\ud800", "\x1b",
)  # fmt: skip
STRICT = policy_of((AUC, 0.3), ("columns.tvd.excess", 0.2), ("validity.rows", 0.9))
LAX = policy_of(("validity.rows", 0.5), (AUC, 0.75))


@pytest.fixture(scope="module")
def honest() -> dict[str, Any]:
    """Two tables that break the strict policy and keep the lax one, of no sweep."""
    columns = {"age": {"kind": "integer", "bounds": [0, 99]}, "ill": {"kind": "boolean"}}
    rng = np.random.default_rng(0)
    train, holdout, other = (
        pd.DataFrame({"age": rng.integers(0, 99, 100), "ill": rng.random(100) < 0.4}) for _ in range(3)
    )
    measures = ["validity", "privacy.membership", "fidelity.columns"]
    schema = build_schema({"status": "declared", "columns": columns})
    tables = {"a": other, "b": train.assign(age=other["age"])}
    written = evaluate(train, tables, holdout=holdout, schema=schema, measures=measures, statements={"a": stated()})
    provenance = origin(versions={"understudy": "1"})
    small = tuple(replace(each, figures={"columns": []}) for each in written.candidates)
    content: dict[str, Any] = json.loads(replace(written, candidates=small, provenance=provenance).to_json())
    return content


def places(content: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every node but the root, by the steps that lead to it."""
    pairs = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for step, below in pairs:
        yield (*above, step)
        yield from places(below, (*above, step))


def changed(content: dict[str, Any], steps: tuple[Any, ...], way: str, odd: Any) -> dict[str, Any]:
    copy = deepcopy(content)
    parent: Any = reduce(getitem, steps[:-1], copy)
    if way == "drop":
        del parent[steps[-1]]
    elif way == "twice" and isinstance(parent, list):
        parent.insert(steps[-1], deepcopy(parent[steps[-1]]))
    else:
        parent[steps[-1]] = odd
    return copy


def gated(text: str, policy: Policy) -> list[str]:
    """The verdicts of the file, as the gate comes to them and writes them; none where it is refused in a sentence."""
    try:
        verdicts = judge(evaluation_from(text), [policy])
    except (EvaluationError, JobError) as error:
        assert str(error).isprintable()
        return []
    render_junit(verdicts)
    json.dumps([verdict.to_dict() for verdict in verdicts], allow_nan=False)
    return [verdict.verdict for verdict in verdicts]


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def any_change(content: dict[str, Any], data: st.DataObject) -> tuple[tuple[Any, ...], str, Any]:
    way = st.sampled_from(["drop", "twice", "odd"])
    return data.draw(st.sampled_from([*places(content)])), data.draw(way), data.draw(st.sampled_from(ODD))


MANY = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@given(data=st.data())
@MANY
def test_no_change_of_a_file_makes_a_pass_of_what_is_none(honest: dict[str, Any], data: st.DataObject) -> None:
    path, way, odd = any_change(honest, data)
    verdicts = gated(json.dumps(changed(honest, path, way, odd)), STRICT)
    if not (is_number(reduce(getitem, path, honest)) and is_number(odd)):
        assert "PASS" not in verdicts


@given(data=st.data())
@MANY
def test_no_change_of_a_file_lifts_the_bar_of_a_sweep(honest: dict[str, Any], data: st.DataObject) -> None:
    barred = {"sweep": swept({"releasable": False, "composed": COMPOSED}, "a", "b")}
    content = {**honest, "provenance": {**honest["provenance"], **barred}}
    assert set(gated(json.dumps(honest), LAX)) == {"PASS"}
    path, way, odd = any_change(content, data)
    honest_too: tuple[Any, ...] = ((("provenance", "sweep"), None), (("provenance", "sweep", "releasable"), True))
    if way != "odd" or not any(path == other and odd == value for other, value in honest_too):
        assert "PASS" not in gated(json.dumps(changed(content, path, way, odd)), LAX)
