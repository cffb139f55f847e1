"""JUnit XML as Jenkins' xunit schema wants it: counts add up, and nothing looks like a pass by mistake."""

import xml.etree.ElementTree as ET
from datetime import date

import pytest

from evaluate.gate.checks import Check
from evaluate.gate.policy import Policy, Rule, Waiver
from evaluate.gate.verdict import Verdict, judge_candidate
from evaluate.result import CASES, Candidate, Estimate, Failure, SelfTest
from reports.exports.junit import render_junit

AUC, COPIES, VALID, MISSING = "privacy.membership.auc", "privacy.copies", "validity.rows", "columns.tvd.excess"
HOSTILE = "a\x00\x1b[31m\ud800\ufffe<b>&\"' ]]> \u2028\U0001f600"

# Of `junit-10.xsd`: attributes that an element may have, those that it must have, and its children.
MAY = {
    "testsuites": {"name", "time", "tests", "failures", "errors"},
    "testsuite": {
        "name", "tests", "failures", "errors", "group", "time", "skipped", "timestamp", "hostname", "id", "package",
        "file", "log", "url",
    },
    "properties": set(), "property": {"name", "value"},
    "testcase": {"name", "time", "classname", "group"},
    "failure": {"type", "message"}, "error": {"type", "message"}, "skipped": {"type", "message"}, "system-out": set(),
}  # fmt: skip
MUST = {
    "testsuite": {"name", "tests", "failures", "errors"}, "property": {"name", "value"}, "testcase": {"name"},
}  # fmt: skip
HOLDS = {
    "testsuites": {"testsuite"}, "testsuite": {"properties", "testcase"}, "properties": {"property"},
    "testcase": {"failure", "error", "skipped", "system-out"},
}  # fmt: skip


def check_schema(element: ET.Element) -> None:
    assert set(element.attrib) <= MAY[element.tag], element.tag
    assert MUST.get(element.tag, set()) <= set(element.attrib), element.tag
    for child in element:
        assert child.tag in HOLDS[element.tag]
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
    found = (
        Estimate(AUC, 0.9, 1000, "lower", low=0.8, high=1.0, note="x"),
        Estimate(COPIES, 0.0, 1000, "lower", low=0.0, high=0.01),
        Estimate(MISSING, 0.9, 10, "lower", subject=(HOSTILE,), low=0.8, high=1.0),
    )
    candidate = Candidate(name, found, (Failure(VALID, "timed out", "it was late"),))
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
    (suite,) = root
    assert suite.attrib["name"] == "c under strict 2"
    assert {case.attrib["classname"] for case in suite.iter("testcase")} == {"strict"}
    message = suite.find("testcase/error").attrib["message"]  # type: ignore[union-attr]
    assert message.startswith("INCONCLUSIVE")
    assert "it was late" in message


def test_the_output_of_a_case_holds_estimate_interval_limit_and_reason() -> None:
    root = read(verdict_of(rule(AUC)))
    (said,) = (element.text or "" for element in root.iter("system-out"))
    for part in ("0.9 [0.8, 1], n = 1,000", "at most 0.5", "because", "FAIL: Even the favorable end"):
        assert part in said


def test_a_waived_rule_is_skipped_and_says_who_answers_for_it_until_when() -> None:
    waiver = Waiver(
        policy="strict", version=2, candidate="c", measure=AUC, owner="A. Owner", reason="agreed",
        until=date(2026, 6, 1),
    )  # fmt: skip
    root = read(verdict_of(rule(AUC), rule(COPIES), waivers=(waiver,)))
    assert marks(root) == {AUC: "skipped", COPIES: "pass"}
    message = root.find(".//skipped").attrib["message"]  # type: ignore[union-attr]
    assert "waived by A. Owner until 2026-06-01: agreed." in message
    alone = marks(read(verdict_of(rule(AUC), waivers=(waiver,))))
    assert alone == {AUC: "skipped", "verdict": "error"}  # nothing is left that was shown to hold


def test_a_policy_without_rules_does_not_look_like_a_pass() -> None:
    assert marks(read(verdict_of())) == {"verdict": "error"}


def test_self_tests_are_cases_too() -> None:
    absent = SelfTest("copy", absent="Too many twins.")
    root = read(verdict_of(rule(COPIES), tests=(absent,)))
    missing = {f"self-test {case}": "error" for case in CASES}
    assert marks(root) == {COPIES: "pass", **missing, "self-test copy": "skipped"}


def test_a_self_test_that_came_out_is_a_pass() -> None:
    checks = (Check("honest", "came out", "Fine."),)
    verdict = Verdict("c", "p", 1, "a", "INCONCLUSIVE", (), checks)
    assert marks(read(verdict)) == {"self-test honest": "pass", "verdict": "error"}


@pytest.mark.parametrize("name", [HOSTILE, "\x0b", "\r\n\t", "</testsuite>"])
def test_hostile_names_are_escaped_or_written_out(name: str) -> None:
    root = read(verdict_of(rule(MISSING, subject=(HOSTILE,)), name=name))
    (case,) = root.iter("testcase")
    assert case.attrib["name"].startswith(f"{MISSING} a\\u0000\\u001b[31m\\ud800\\ufffe<b>&\"' ]]>")
    assert root.find(".//property[@name='candidate']") is not None


def test_each_table_is_a_suite_and_equal_rules_are_told_apart() -> None:
    verdict = verdict_of(rule(AUC))
    twice = Verdict("d", "strict", 2, "all", "FAIL", (verdict.findings[0], verdict.findings[0]))
    root = read(verdict, twice)
    assert [suite.attrib["name"] for suite in root] == ["c under strict 2", "d under strict 2"]
    assert (root.attrib["tests"], root.attrib["failures"]) == ("3", "3")


def test_no_verdict_at_all_is_still_a_file() -> None:
    assert read().attrib["tests"] == "0"
