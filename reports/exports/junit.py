"""The verdicts as JUnit XML: what continuous integration shows of a gate, rule by rule.

A suite is what one policy says of one table, a case one rule or self-test. A binding rule that does not hold is a
`<failure>`. One that cannot be told, and a self-test that does not come out, is an `<error>`, which Jenkins, GitLab and
the reporters of GitHub count as not passed: too little evidence never looks like a pass. Warnings, waived rules and
self-tests that do not apply are `<skipped>`, with why. Where no rule is left that counts, a last case says so.

Source: the elements and attributes of `junit-10.xsd` in Jenkins' xunit plugin.
"""

import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterable

from evaluate.gate.checks import BROKEN, NOT_APPLICABLE
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
    suite = ET.Element("testsuite", name=_text(f"{verdict.candidate} under {verdict.policy} {verdict.version}"))
    facts = {
        "candidate": verdict.candidate, "policy": verdict.policy, "version": str(verdict.version),
        "audience": verdict.audience, "verdict": verdict.verdict, "notice": NOTICE, "reason": verdict.reason,
    }  # fmt: skip
    properties = ET.SubElement(suite, "properties")
    for name, value in facts.items():
        if value:
            ET.SubElement(properties, "property", name=name, value=_text(value))
    marks: Counter[str] = Counter()
    names: Counter[str] = Counter()

    def add(name: str, mark: str, kind: str, message: str, reason: str, output: str) -> None:
        names[name] += 1  # cases of one name are one case to some readers: later ones are numbered
        name = f"{name} ({names[name]})" if names[name] > 1 else name
        case = ET.SubElement(suite, "testcase", classname=_text(verdict.policy), name=_text(name), time="0")
        if mark:
            marks[mark] += 1
            ET.SubElement(case, mark, type=kind, message=_text(message)).text = _text(reason)
        if output:
            ET.SubElement(case, "system-out").text = _text(output)

    for finding in verdict.findings:
        add(_name(finding), *_mark(finding), finding.reason, _output(finding))
    for check in verdict.checks:
        mark = {BROKEN: ERROR, NOT_APPLICABLE: SKIPPED}.get(check.outcome, "")
        output = f"{check.outcome}: {check.reason}"
        add(f"self-test {check.case}", mark, check.outcome, check.reason, check.reason, output)
    if verdict.verdict != "PASS" and not marks[FAILURE] + marks[ERROR]:
        message = f"{verdict.verdict}. No binding rule is left that counts, so nothing was shown to hold."
        add("verdict", FAILURE if verdict.verdict == "FAIL" else ERROR, verdict.verdict, message, message, "")
    counts = {"tests": names.total(), "failures": marks[FAILURE], "errors": marks[ERROR], "skipped": marks[SKIPPED]}
    suite.attrib.update({name: str(count) for name, count in counts.items()}, time="0")
    return suite


def _name(finding: Finding) -> str:
    subject = f" {', '.join(finding.rule.subject)}" if finding.rule.subject else ""
    return f"{finding.rule.measure}{subject}{'' if finding.binding else ' (warning)'}"


def _mark(finding: Finding) -> tuple[str, str, str]:
    """The mark of a case, empty for a pass; its type; its message."""
    outcome, waiver = finding.outcome, finding.waiver
    if outcome == "PASS":
        return "", outcome, ""
    if not finding.binding:
        return SKIPPED, outcome, f"{outcome} (a warning, which changes no verdict). {finding.reason}"
    if finding.waived and waiver is not None:
        who = f"{outcome}, waived by {waiver.owner} until {waiver.until}: {waiver.reason.rstrip('.')}."
        return SKIPPED, outcome, f"{who} {finding.reason}"
    return FAILURE if outcome == "FAIL" else ERROR, outcome, f"{outcome}. {finding.reason}"


def _output(finding: Finding) -> str:
    rule, estimate, shown = finding.rule, finding.estimate, "none"
    if estimate is not None and rule.measure.startswith(STATEMENT):
        shown = loss(estimate.value)  # never understated
    elif estimate is not None:
        has_interval = estimate.low is not None and estimate.high is not None
        interval = f" [{estimate.low:.4g}, {estimate.high:.4g}]" if has_interval else ""
        shown = f"{estimate.value:.4g}{interval}, n = {estimate.n:,}"
    limit = f"limit: {'at most' if rule.direction == 'lower' else 'at least'} {rule.limit:g}{rule.second}"
    return "\n".join([limit, f"why: {rule.why}", f"estimate: {shown}", f"{finding.outcome}: {finding.reason}"])


def _text(text: str) -> str:
    """The text with what XML cannot hold written as its code point."""
    return _UNWRITABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
