"""The report on one screen, as GitHub-flavored Markdown: for a comment on a merge request, or the log of a job."""

from collections.abc import Iterable

from evaluate.audit_result import MEASURE as AUDITED
from evaluate.gate.finding import Finding
from evaluate.gate.verdict import Verdict
from evaluate.result import Candidate, Evaluation
from evaluate.text import number
from reports.audits import audit_note, half_of
from reports.document import TITLE
from reports.glossary import shown
from reports.markdown import document
from reports.model_card.card import privacy_of
from reports.model_card.render import markdown_environment
from reports.sections.limitations import left_out, on_samples, warnings_of
from reports.sections.ranking import ranking_of
from reports.sections.verdicts import ruling_of

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
    """The verdicts, what they rest on, and what the tables promise. `evaluation`: *Sensitive*: it was measured on real
    rows.
    """
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
    return document([written])


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
