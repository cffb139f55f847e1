"""JUnit XML as Jenkins' xunit schema wants it: counts add up, and nothing looks like a pass by mistake."""

import xml.etree.ElementTree as ET
from datetime import date

import pytest

from evaluate.gate.policy import Policy, Rule, Waiver
from evaluate.gate.policy_checks import Check
from evaluate.gate.verdict import Verdict, judge_candidate
from evaluate.result import CASES, Candidate, Estimate, Failure, SelfTest
from reports.exports import render_junit

AUC, COPIES, VALID, MISSING = "privacy.membership.auc", "privacy.copies", "validity.rows", "columns.tvd.excess"
HOSTILE = "a\x00\x1b[31m\ud800\ufffe<b>&\"' ]]> \u2028\U0001f600"
# Of `junit-10.xsd`: attributes that an element may have, and its children; each of the first few must be there.
SCHEMA: dict[str, tuple[set[str], set[str], set[str]]] = {
    "testsuites": (set(), {"name", "time", "tests", "failures", "errors"}, {"testsuite"}),
    "testsuite": ({"name", "tests", "failures", "errors"}, {"time", "skipped"}, {"properties", "testcase"}),
    "properties": (set(), set(), {"property"}),
    "property": ({"name", "value"}, set(), set()),
    "testcase": ({"name"}, {"time", "classname"}, {"failure", "error", "skipped", "system-out"}),
    **{mark: (set(), {"type", "message"}, set()) for mark in ("failure", "error", "skipped", "system-out")},
}


def check_schema(element: ET.Element) -> None:
    must, may, children = SCHEMA[element.tag]
    assert must <= set(element.attrib) <= must | may, element.tag
    for child in element:
        assert child.tag in children
        check_schema(child)


def read(*verdicts: Verdict) -> ET.Element:
    root = ET.fromstring(render_junit(verdicts).encode("utf-8"))
    check_schema(root)
    for suite in root:
        cases = suite.findall("testcase")
        assert int(suite.attrib["tests"]) == len(cases)
        for mark, count in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
            assert int(suite.attrib[count]) == len(suite.findall(f"testcase/{mark}"))
        assert all(len([child for child in case if child.tag != "system-out"]) <= 1 for case in cases)
        assert len({(case.attrib["classname"], case.attrib["name"]) for case in cases}) == len(cases)
    for count in ("tests", "failures", "errors"):
        assert int(root.attrib[count]) == sum(int(suite.attrib[count]) for suite in root)
    return root


def verdict_of(
    *rules: Rule, waivers: tuple[Waiver, ...] = (), tests: tuple[SelfTest, ...] | None = None, name: str = "c"
) -> Verdict:
    estimates = (
        Estimate(AUC, 0.9, 1000, "lower", low=0.8, high=1.0, note="x"),
        Estimate(COPIES, 0.0, 1000, "lower", low=0.0, high=0.01),
        Estimate(MISSING, 0.9, 10, "lower", subject=(HOSTILE,), low=0.8, high=1.0),
    )
    candidate = Candidate(name, estimates, (Failure(VALID, "timed out", "it was late"),))
    policy = Policy(name="strict", version=2, audience="all", rules=rules)
    return judge_candidate(candidate, policy, waivers=waivers, today=date(2026, 1, 1), self_tests=tests)


def rule(measure: str, severity: str = "fail", **more: object) -> Rule:
    return Rule(measure=measure, limit=0.5, why="because", severity=severity, **more)  # type: ignore[arg-type]


def marks(root: ET.Element) -> dict[str, str]:
    """What each case is marked with, by its name; "pass" where it has no mark."""
    cases = root.iter("testcase")
    return {c.attrib["name"]: next((m.tag for m in c if m.tag != "system-out"), "pass") for c in cases}


def test_every_outcome_has_its_mark_and_nothing_unknown_looks_like_a_pass() -> None:
    root = read(verdict_of(rule(AUC), rule(COPIES), rule(VALID), rule(AUC, "warn")))
    assert marks(root) == {AUC: "failure", COPIES: "pass", VALID: "error", f"{AUC} (warning)": "skipped"}
    message = root.findall(".//error")[0].attrib["message"]
    assert message.startswith("INCONCLUSIVE") and "it was late" in message
    output = str(root.findall(".//system-out")[0].text)
    for part in ("0.9 [0.8, 1], n = 1,000", "at most 0.5", "because", "FAIL: Even the favorable end"):
        assert part in output


def test_a_waived_rule_is_skipped_and_says_who_answers_for_it_until_when() -> None:
    waiver = Waiver(
        policy="strict", version=2, candidate="c", measure=AUC, owner="A. Owner", reason="agreed",
        until=date(2026, 6, 1),
    )  # fmt: skip
    root = read(verdict_of(rule(AUC), rule(COPIES), waivers=(waiver,)))
    assert marks(root) == {AUC: "skipped", COPIES: "pass"}
    assert "waived by A. Owner until 2026-06-01: agreed." in root.findall(".//skipped")[0].attrib["message"]
    alone = marks(read(verdict_of(rule(AUC), waivers=(waiver,))))
    assert alone == {AUC: "skipped", "verdict": "error"}, "nothing is left that was shown to hold"
    assert marks(read(verdict_of())) == {"verdict": "error"}, "a policy without rules"


def test_self_tests_are_cases_too() -> None:
    root = read(verdict_of(rule(COPIES), tests=(SelfTest("copy", absent="Too many twins."),)))
    missing = {f"self-test {case}": "error" for case in CASES}
    assert marks(root) == {COPIES: "pass", **missing, "self-test copy": "skipped"}
    passed = Verdict("c", "p", 1, "a", "INCONCLUSIVE", (), (Check("honest", "came out", "Fine."),))
    assert marks(read(passed)) == {"self-test honest": "pass", "verdict": "error"}


@pytest.mark.parametrize("name", [HOSTILE, "\x0b", "\r\n\t", "</testsuite>"])
def test_hostile_names_are_escaped_or_written_out(name: str) -> None:
    root = read(verdict_of(rule(MISSING, subject=(HOSTILE,)), name=name))
    (case,) = root.iter("testcase")
    assert case.attrib["name"].startswith(f"{MISSING} a\\u0000\\u001b[31m\\ud800\\ufffe<b>&\"' ]]>")


def test_each_table_is_a_suite_and_equal_rules_are_told_apart() -> None:
    verdict = verdict_of(rule(AUC))
    twice = Verdict("d", "strict", 2, "all", "FAIL", (verdict.findings[0], verdict.findings[0]))
    root = read(verdict, twice)
    assert [suite.attrib["name"] for suite in root] == ["c under strict 2", "d under strict 2"]
    assert (root.attrib["tests"], root.attrib["failures"]) == ("3", "3")
    assert read().attrib["tests"] == "0"
