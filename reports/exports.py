"""An evaluation and its verdicts in formats of others: CSV, JUnit XML, Markdown. All are internal.

**CSV** is safe in a spreadsheet: a cell that would be run as a formula is shown as text. A sweep is three files: every
number of every point, the means over seeds, and whether any may be released. Each line says itself that it is internal,
since lines get copied.

**JUnit XML** is what continuous integration shows of a gate, rule by rule. A suite is what one policy says of one
table, a case one rule or self-test. A binding rule that does not hold is a `<failure>`. One that cannot be told, and a
self-test that does not come out, is an `<error>`, which Jenkins, GitLab and the reporters of GitHub count as not
passed: too little evidence never looks like a pass. Warnings, waived rules and self-tests that do not apply are
`<skipped>`, with why. Where no rule is left that counts, a last case says so.

**Markdown** is the report on one screen, for a comment on a merge request, or the log of a job.

Source: the elements and attributes of `junit-10.xsd` in Jenkins' xunit plugin.
"""

import csv
import re
import statistics
import xml.etree.ElementTree as ET
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from evaluate.audit_result import MEASURE as AUDITED
from evaluate.gate.decision import Finding
from evaluate.gate.policy import STATEMENT
from evaluate.gate.policy_checks import BROKEN, NOT_APPLICABLE
from evaluate.gate.verdict import Verdict
from evaluate.result import NOTICE, Candidate, Estimate, Evaluation, Failure
from evaluate.text import loss, number
from reports.document import TITLE
from reports.glossary import shown
from reports.guarantee import audit_note, half_of
from reports.model_card.card import privacy_of
from reports.model_card.render import document, markdown_environment
from reports.sections.comparison import SweepPoint, average, by_setting, mean_of, ranking_of, sweep_of, sweep_points
from reports.sections.limitations import left_out, on_samples, warnings_of
from reports.sections.overview import ruling_of
from synth.output import whole_file

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "|", "%", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""Beginnings of cells that some spreadsheet runs instead of showing them: the last four are full-width forms.

Source: OWASP, "CSV Injection"."""


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    with whole_file(path) as beside, beside.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [safe(column) for column in columns], lineterminator="\n")
        writer.writeheader()
        writer.writerows({safe(column): safe(row[column]) for column in columns} for row in rows)


def safe(value: Any) -> Any:
    """A cell that every spreadsheet shows as text: what would be run as a formula gets an apostrophe before it.

    >>> safe("=HYPERLINK(1)"), safe("  @x"), safe(-1.5)
    ("'=HYPERLINK(1)", "'  @x", -1.5)
    """
    if not isinstance(value, str):
        return value
    # Not all text is UTF-8: what is not is shown by its code.
    shown = value.replace("\0", "").encode("utf-8", "backslashreplace").decode("utf-8")
    return f"'{shown}" if _begins(shown) else shown


def runs(text: str) -> bool:
    """True where some spreadsheet would run a cell: it begins like a formula, and is no number.

    >>> runs("=HYPERLINK(1)"), runs("-1.5"), runs("-")
    (True, False, False)
    """
    if not _begins(text) or len(text.strip()) < 2:
        return False
    try:
        float(text)
    except ValueError:
        return True
    return False


def _begins(text: str) -> bool:
    return text.startswith(FORMULA) or text.lstrip().startswith(FORMULA)


POINTS_FILE, SUMMARY_FILE = "sweep.csv", "sweep_summary.csv"
UNPAID_FILE, PAID_FILE = "NOT_RELEASABLE.txt", "COMPOSED_STATEMENT.txt"
INTERNAL, NOT_RELEASABLE = "internal: reads real rows", "internal: reads real rows; not releasable"
POINT_COLUMNS = (
    "point", "generator", "epsilon", "seed", "claimed_epsilon", "delta",
    "measure", "subject", "direction", "value", "low", "high", "reference", "floor", "n", "failure", "notice",
)  # fmt: skip
SUMMARY_COLUMNS = (
    "generator", "epsilon", "measure", "subject", "direction",
    "mean", "low", "high", "sd", "n_seeds", "reference", "floor", "notice",
)  # fmt: skip

PAID = """
The ledger has reserved the sum. Whichever of their tables or models is released, and
however many, this is the guarantee to state: whoever picks one of them has looked at all.
The statement in each model is of its own fit alone.
{uncovered}
Picking by numbers that were measured on real rows is outside any guarantee.
"""
UNCOVERED = """
The sweep has {n} more, without epsilon: tables and models of these have no formal guarantee,
and the one above does not cover them.
"""
UNPAID = """
No ledger pays for them, so nothing of this sweep may be released: its tables and models
were not kept, and every verdict is FAIL. To release one of its points, run the sweep
under a ledger, which reserves the sum of all.
"""

Line = Mapping[str, object]


def write_sweep(evaluation: Evaluation, folder: Path) -> None:
    """The files of a sweep: `sweep.csv`, `sweep_summary.csv` and a text about its release.

    Args:
        evaluation: *Sensitive*: of a sweep.
        folder: where to write them; files that are there are replaced.

    Raises:
        OutputError: the folder cannot be written.
    """
    sweep, points = sweep_of(evaluation), sweep_points(evaluation)
    if sweep is None:
        return
    notice = INTERNAL if sweep.releasable else NOT_RELEASABLE
    for name, columns, lines in (
        (POINTS_FILE, POINT_COLUMNS, _point_lines(points)), (SUMMARY_FILE, SUMMARY_COLUMNS, _summary_lines(points))
    ):  # fmt: skip
        write_csv(folder / name, columns, ({**dict.fromkeys(columns), **line, "notice": notice} for line in lines))
    if sweep.epsilon is None:
        return
    together = (
        f"The {sweep.n_fits} private fits of this sweep read one table. Together they come to\n"
        f"epsilon = {loss(sweep.epsilon)} at delta = {loss(sweep.delta)}.\n"
    )
    uncovered = UNCOVERED.format(n=sweep.n_uncovered) if sweep.n_uncovered else ""
    name, text = PAID_FILE, together + PAID.format(uncovered=uncovered)
    if not sweep.releasable:
        name, text = UNPAID_FILE, f"NOT RELEASABLE\n\n{together}{UNPAID}"
    with whole_file(folder / name) as beside:
        beside.write_text(text, encoding="utf-8")


def _point_lines(points: Iterable[SweepPoint]) -> Iterator[Line]:
    for point in points:
        claim = point.candidate.statement
        shared = {
            "point": point.candidate.name, "generator": point.generator, "epsilon": _epsilon(point.epsilon),
            "seed": point.seed, "claimed_epsilon": None if claim is None else claim.epsilon,
            "delta": None if claim is None else claim.delta,
        }  # fmt: skip
        answers: tuple[Estimate | Failure, ...] = (*point.candidate.estimates, *point.candidate.failures)
        for answer in answers:
            names = ("direction", "value", "low", "high", "reference", "floor", "n")
            line = {"measure": answer.measure, "subject": " & ".join(answer.subject)}
            if isinstance(answer, Failure):
                yield {**shared, **line, "failure": f"{answer.reason}: {answer.message}"}
            else:
                yield {**shared, **line, **{name: getattr(answer, name) for name in names}}


def _summary_lines(points: Sequence[SweepPoint]) -> Iterator[Line]:
    """One line for each number of each generator at each epsilon: its mean over seeds and Student's 95% interval."""
    for (generator, epsilon), group in by_setting(points).items():
        by_number = defaultdict(list)
        for estimate in (each for point in group for each in point.candidate.estimates):
            by_number[estimate.measure, estimate.subject].append(estimate)
        for (measure, subject), estimates in by_number.items():
            values = [each.value for each in estimates]
            mean = mean_of(values)
            yield {
                "generator": generator, "epsilon": _epsilon(epsilon), "measure": measure,
                "subject": " & ".join(subject), "direction": estimates[0].direction,
                "mean": mean.value, "low": mean.low, "high": mean.high,
                "sd": statistics.stdev(values) if len(values) > 1 else None, "n_seeds": len(values),
                "reference": average(each.reference for each in estimates),
                "floor": average(each.floor for each in estimates),
            }  # fmt: skip


def _epsilon(epsilon: float | None) -> float | str:
    return "none" if epsilon is None else epsilon


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


SUMMARY = "summary.md"
MARKS = {"PASS": "\u2705", "FAIL": "\u274c", "INCONCLUSIVE": "\u2754"}
MOST_TABLES = 12  # Tables that are shown with their rules; the rest have a line
_OUTCOMES = ("FAIL", "INCONCLUSIVE", "PASS")


def to_summary(
    evaluation: Evaluation,
    verdicts: Iterable[Verdict],
    *,
    title: str = TITLE,
    release: str | None = None,
    report: str = "report.html",
) -> str:
    """*Sensitive*. The verdicts, what they rest on, and what the tables promise."""
    rulings = sorted((ruling_of(v) for v in verdicts), key=lambda ruling: ruling.verdict.candidate != release)
    candidates = {candidate.name: candidate for candidate in evaluation.candidates}
    judged = [candidates[name] for name in {r.verdict.candidate: None for r in rulings} if name in candidates]
    template = markdown_environment().get_template("summary.md.j2")
    written = template.render(
        title=title,
        release=release,
        rulings=rulings,
        candidates=candidates,
        promises={candidate.name: privacy_of(evaluation, candidate, "internal") for candidate in judged},
        ranking=ranking_of(evaluation),
        warnings=(("Warnings", warnings_of(evaluation)), ("Left out or replaced", left_out(evaluation.schema))),
        link="".join(character for character in report if character.isalnum() or character in "._-/"),
        MARKS=MARKS, MOST_TABLES=MOST_TABLES,
        on_samples=on_samples, half_of=half_of, numbers=_numbers, ordered=_ordered, tally=_tally,
    )  # fmt: skip
    return document(written)


def _ordered(findings: Iterable[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda f: (_OUTCOMES.index(f.outcome), f.rule.severity != "fail"))


def _tally(findings: Iterable[Finding]) -> str:
    outcomes = [finding.outcome for finding in findings]
    return ", ".join(f"{outcomes.count(each)} {each}" for each in _OUTCOMES if each in outcomes) or "none"


def _numbers(finding: Finding, candidate: Candidate | None) -> tuple[str, str]:
    """The estimate and its interval; of an audit what the bound has beyond the claim, as both are shown."""
    estimate = finding.estimate
    note = audit_note(candidate) if candidate is not None and finding.rule.measure == AUDITED else None
    if estimate is None:
        return "none", "\u2014"
    if note is not None:
        return note.excess, "a bound"
    value = shown(estimate) if finding.rule.measure.startswith("statement.") else number(estimate.value)
    return value, "\u2014" if estimate.low is None else f"{number(estimate.low)} to {number(estimate.high)}"
