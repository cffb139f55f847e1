"""The verdicts as JUnit XML: what continuous integration shows of a gate, rule by rule.

A suite is what one policy says of one table; a case is one rule, or one self-test. What a case says:

* a binding rule that does not hold is a `<failure>`;
* one that cannot be told, and a self-test that does not come out, is an `<error>`, which Jenkins, GitLab and the
  reporters of GitHub count as not passed, so that too little evidence never looks like a pass;
* a warning that does not hold, a rule that is waived and a self-test that does not apply are `<skipped>`, with why;
* all else is without a mark, which is a pass.

Where all cases look like passes and the verdict is none (no rule is left that counts), a last case says so.

Source: the elements and attributes of `junit-10.xsd` in Jenkins' xunit plugin.
"""

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable

from evaluate.gate.checks import BROKEN, NOT_APPLICABLE, Check
from evaluate.gate.finding import Finding
from evaluate.gate.policy import STATEMENT
from evaluate.gate.verdict import Verdict
from evaluate.result import NOTICE
from evaluate.text import loss

FAILURE, ERROR, SKIPPED = "failure", "error", "skipped"

_UNWRITABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 has no way to write (section 2.2); a column may be named so."""


def render_junit(verdicts: Iterable[Verdict]) -> str:
    """The verdicts as the text of one XML file. It holds numbers computed from real rows: it is internal."""
    root = ET.Element("testsuites", name="understudy gate", time="0")
    root.extend(_suite(verdict) for verdict in verdicts)
    for count in ("tests", "failures", "errors"):
        root.set(count, str(sum(int(suite.attrib[count]) for suite in root)))
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _suite(verdict: Verdict) -> ET.Element:
    cases = [_of_rule(finding, verdict) for finding in verdict.findings]
    cases += [_of_check(check, verdict) for check in verdict.checks]
    if verdict.verdict != "PASS" and not any(_marked(case, FAILURE, ERROR) for case in cases):
        cases.append(_unshown(verdict))
    _tell_apart(cases)
    counts = {
        "tests": len(cases),
        "failures": sum(_marked(case, FAILURE) for case in cases),
        "errors": sum(_marked(case, ERROR) for case in cases),
        "skipped": sum(_marked(case, SKIPPED) for case in cases),
    }
    name = f"{verdict.candidate} under {verdict.policy} {verdict.version}"
    suite = ET.Element("testsuite", {"name": _text(name), **{key: str(n) for key, n in counts.items()}, "time": "0"})
    suite.append(_properties(verdict))
    suite.extend(cases)
    return suite


def _properties(verdict: Verdict) -> ET.Element:
    said = {
        "candidate": verdict.candidate, "policy": verdict.policy, "version": str(verdict.version),
        "audience": verdict.audience, "verdict": verdict.verdict, "notice": NOTICE,
    }  # fmt: skip
    said |= {"reason": verdict.reason} if verdict.reason else {}
    properties = ET.Element("properties")
    for name, value in said.items():
        ET.SubElement(properties, "property", name=name, value=_text(value))
    return properties


def _of_rule(finding: Finding, verdict: Verdict) -> ET.Element:
    rule = finding.rule
    subject = f" {', '.join(rule.subject)}" if rule.subject else ""
    case = _case(f"{rule.measure}{subject}{'' if finding.binding else ' (warning)'}", verdict)
    if finding.outcome != "PASS":
        mark, message = _mark(finding)
        ET.SubElement(case, mark, type=finding.outcome, message=_text(message)).text = _text(finding.reason)
    sign = "at most" if rule.direction == "lower" else "at least"
    lines = [f"limit: {sign} {rule.limit:g}{rule.second}", f"why: {rule.why}", f"estimate: {_estimate(finding)}"]
    ET.SubElement(case, "system-out").text = _text("\n".join([*lines, f"{finding.outcome}: {finding.reason}"]))
    return case


def _mark(finding: Finding) -> tuple[str, str]:
    if not finding.binding:
        return SKIPPED, f"{finding.outcome} (a warning, which changes no verdict). {finding.reason}"
    if finding.waived and finding.waiver is not None:
        waiver = finding.waiver
        who = f"{finding.outcome}, waived by {waiver.owner} until {waiver.until}: {waiver.reason.rstrip('.')}."
        return SKIPPED, f"{who} {finding.reason}"
    return FAILURE if finding.outcome == "FAIL" else ERROR, f"{finding.outcome}. {finding.reason}"


def _of_check(check: Check, verdict: Verdict) -> ET.Element:
    case = _case(f"self-test {check.case}", verdict)
    mark = {BROKEN: ERROR, NOT_APPLICABLE: SKIPPED}.get(check.outcome)
    if mark is not None:
        ET.SubElement(case, mark, type=check.outcome, message=_text(check.reason)).text = _text(check.reason)
    ET.SubElement(case, "system-out").text = _text(f"{check.outcome}: {check.reason}")
    return case


def _unshown(verdict: Verdict) -> ET.Element:
    case = _case("verdict", verdict)
    mark = FAILURE if verdict.verdict == "FAIL" else ERROR
    message = f"{verdict.verdict}. No binding rule is left that counts, so nothing was shown to hold."
    ET.SubElement(case, mark, type=verdict.verdict, message=message).text = message
    return case


def _case(name: str, verdict: Verdict) -> ET.Element:
    return ET.Element("testcase", classname=_text(verdict.policy), name=_text(name), time="0")


def _tell_apart(cases: list[ET.Element]) -> None:
    """Cases of one name are one case to some readers: the second and later ones are numbered."""
    seen: dict[str, int] = {}
    for case in cases:
        name = case.attrib["name"]
        seen[name] = seen.get(name, 0) + 1
        if seen[name] > 1:
            case.set("name", f"{name} ({seen[name]})")


def _marked(case: ET.Element, *marks: str) -> bool:
    return any(case.find(mark) is not None for mark in marks)


def _estimate(finding: Finding) -> str:
    found = finding.estimate
    if found is None:
        return "none"
    if finding.rule.measure.startswith(STATEMENT):
        return loss(found.value)  # Never understated.
    interval = "" if found.low is None or found.high is None else f" [{found.low:.4g}, {found.high:.4g}]"
    return f"{found.value:.4g}{interval}, n = {found.n:,}"


def _text(text: str) -> str:
    """The text with what XML cannot hold written as its code point."""
    return _UNWRITABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
