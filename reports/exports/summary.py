"""The report on one screen, as GitHub-flavored Markdown: for a comment on a merge request, or the log of a job."""

from collections.abc import Iterable, Iterator, Sequence

from evaluate.audit_result import MEASURE as AUDITED
from evaluate.gate.policy import STATEMENT, Rule
from evaluate.gate.verdict import Finding, Verdict
from evaluate.result import Candidate, Evaluation
from evaluate.text import at_most, compact, loss, number, room
from reports.audits import audit_note, half_of
from reports.document import TITLE
from reports.glossary import entry
from reports.markdown import bullets, document, name, table, text
from reports.model_card.card import privacy_of
from reports.model_card.schema import Promise
from reports.sections.limitations import left_out, on_samples, warnings_of
from reports.sections.privacy_budget import OUTSIDE
from reports.sections.ranking import VendorRow, ranking_of
from reports.sections.verdicts import Ruling, ruling_of
from synth.dp.statement import NO_GUARANTEE

SUMMARY = "summary.md"
INTERNAL = "**Internal.** Numbers computed from real rows, outside any privacy guarantee. Do not pass them on."
MARKS = {"PASS": "\u2705", "FAIL": "\u274c", "INCONCLUSIVE": "\u2754"}
MOST_TABLES = 12  # Tables that are shown with their rules; the rest have a line
MOST_REASONS = 5  # Of a table; the rules below have all
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
    found = sorted((ruling_of(v) for v in verdicts), key=lambda ruling: ruling.verdict.candidate != release)
    return document(_lines(evaluation, found, title, release, report))


def _lines(
    evaluation: Evaluation, rulings: Sequence[Ruling], title: str, release: str | None, report: str
) -> Iterator[str]:
    yield f"# {text(title)}"
    yield f"\n{INTERNAL}\n"
    rows = [_verdict_row(evaluation, ruling, release) for ruling in rulings]
    yield from (table(("verdict", "synthetic table", "policy", "privacy"), rows) if rows else _unjudged(evaluation))
    yield from _ranked(evaluation)
    yield from _warnings(evaluation)
    for ruling in rulings[:MOST_TABLES]:
        yield from _of(evaluation, ruling, release)
    if len(rulings) > MOST_TABLES:
        yield f"\nThe rules of {len(rulings) - MOST_TABLES} more are in the report.\n"
    linked = "".join(character for character in report if character.isalnum() or character in "._-/")
    yield f"\nEverything else, with pictures and limits: [{text(linked)}]({linked})"


def _ranked(evaluation: Evaluation) -> Iterator[str]:
    ranking = ranking_of(evaluation)
    if ranking is not None:
        yield "\n## Ranking\n"
        yield from table(("vendor", "standing", "place", "group", "why"), (_standing(row) for row in ranking.rows))


def _standing(row: VendorRow) -> tuple[str, ...]:
    words = f"**{row.words}**" if row.vendor.standing != "ranked" else row.words
    place, letters = ("\u2014", "") if row.rank is None else (str(row.rank.place), row.rank.letters)
    return name(row.name), words, place, text(letters), text(row.vendor.reason, 300)


def _warnings(evaluation: Evaluation) -> Iterator[str]:
    for title, said in (("Warnings", warnings_of(evaluation)), ("Left out or replaced", left_out(evaluation.schema))):
        if said:
            yield f"\n## {title}\n"
            yield from bullets(said)


def _unjudged(evaluation: Evaluation) -> Iterator[str]:
    names = ", ".join(name(candidate.name) for candidate in evaluation.candidates)
    yield f"\nNo policy was applied to {names or 'any table'}.\n"


def _candidate(evaluation: Evaluation, called: str) -> Candidate | None:
    return next((one for one in evaluation.candidates if one.name == called), None)


def _verdict_row(evaluation: Evaluation, ruling: Ruling, release: str | None) -> tuple[str, ...]:
    verdict = ruling.verdict
    named = f"{name(verdict.candidate)}{' (named for release)' if verdict.candidate == release else ''}"
    policy = f"{name(verdict.policy)} {verdict.version}"
    candidate = _candidate(evaluation, verdict.candidate)
    privacy = "\u2014" if candidate is None else _in_short(evaluation, candidate)
    return f"{MARKS[ruling.verdict.verdict]} **{text(ruling.words)}**", named, policy, privacy


def _of(evaluation: Evaluation, ruling: Ruling, release: str | None) -> Iterator[str]:
    """One table under one policy; its rules are folded away unless it is the one for release, or none is named."""
    verdict = ruling.verdict
    head = (
        f"{name(verdict.candidate)}: {MARKS[ruling.verdict.verdict]} {text(ruling.words)}, under {name(verdict.policy)}"
    )
    yield f"\n## {head}"
    yield f"\n{text(verdict.reason, 1000)}\n" if verdict.reason else ""
    yield from bullets(_reason(finding) for finding in ruling.reasons[:MOST_REASONS] if finding.outcome != "PASS")
    yield from bullets(f"Self-test: {check.reason}" for check in ruling.broken)
    candidate = _candidate(evaluation, verdict.candidate)
    if candidate is not None:
        yield from (f"\n{text(said)}\n" for said in on_samples(candidate))
        yield from _privacy(evaluation, candidate)
    counted = {outcome: sum(f.outcome == outcome for f in verdict.findings) for outcome in _OUTCOMES}
    summed = ", ".join(f"{n} {outcome}" for outcome, n in counted.items() if n)
    yield f"\n<details{'' if release not in (None, verdict.candidate) else ' open'}>"
    yield f"<summary>Rules: {summed or 'none'}</summary>"
    head_row = ("rule", "limit", "estimate", "95% interval", "verdict", "waiver")
    yield from table(head_row, (_row(finding, candidate) for finding in _ordered(verdict.findings)))
    yield "</details>\n"


def _ordered(findings: Sequence[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda f: (_OUTCOMES.index(f.outcome), f.rule.severity != "fail"))


def _row(finding: Finding, candidate: Candidate | None) -> tuple[str, ...]:
    rule, found = finding.rule, finding.estimate
    sign = "\u2264" if rule.direction == "lower" else "\u2265"
    warns = "" if rule.severity == "fail" else " (warning)"
    claimed = rule.measure.startswith(STATEMENT)  # A privacy loss is never understated.
    value = "none" if found is None else loss(found.value) if claimed else number(found.value)
    ends = "\u2014" if found is None or found.low is None else f"{number(found.low)} to {number(found.high)}"
    note = audit_note(candidate) if candidate is not None and rule.measure == AUDITED else None
    if note is not None and found is not None:  # It is what the bound has beyond the claim, as both are shown.
        value, ends = note.excess, "a bound"
    by = "" if finding.proven is None else f" by proof (at most {at_most(finding.proven)})"
    outcome = f"{MARKS[finding.outcome]} {finding.outcome}{by}{warns}"
    return _rule(rule), f"{sign} {compact(rule.limit)}{rule.second}", value, ends, outcome, _waiver(finding)


def _rule(rule: Rule) -> str:
    subject = f" of {', '.join(name(column) for column in rule.subject)}" if rule.subject else ""
    return f"{text(entry(rule.measure).title)}{subject}"


def _waiver(finding: Finding) -> str:
    waiver = finding.waiver
    if waiver is None:
        return ""
    state = "until" if finding.waived else "EXPIRED on"
    return f"{text(waiver.owner)}, {state} {waiver.until.isoformat()}: {text(waiver.reason, 300)}"


def _reason(finding: Finding) -> str:
    subject = f" of {', '.join(finding.rule.subject)}" if finding.rule.subject else ""
    waived = " Waived." if finding.waived else ""
    return f"{entry(finding.rule.measure).title}{subject}: {finding.outcome}. {finding.reason}{waived}"


def _in_short(evaluation: Evaluation, candidate: Candidate) -> str:
    said = privacy_of(evaluation, candidate, "internal")
    if not isinstance(said, Promise):
        return f"**{NO_GUARANTEE}**"
    flag = "" if said.status == "formal" else f" **{said.status.upper()}**"
    return f"epsilon {loss(said.epsilon)}, delta {loss(said.delta)}{_alone(said)}{flag}"


def _alone(said: Promise) -> str:
    """The claim of the fit alone, where the table counts with more."""
    alone = said.composition[0]
    return "" if said.claim_of == alone.what else f", for {text(said.claim_of)}; this fit alone {loss(alone.epsilon)}"


def _privacy(evaluation: Evaluation, candidate: Candidate) -> Iterator[str]:
    """The claim of the table, in two lines."""
    said = privacy_of(evaluation, candidate, "internal")
    if not isinstance(said, Promise):
        yield f"\nPrivacy: **{NO_GUARANTEE}**. {text(said.in_words[0])}\n"
        return
    promised = f"epsilon {loss(said.epsilon)} at delta {loss(said.delta)}{_alone(said)}"
    mechanisms = ", ".join(said.mechanisms) or "mechanisms not stated"
    yield f"\nPrivacy: {promised}, unit {name(said.unit)}, by {text(mechanisms)}.\\"
    if said.status != "formal":
        yield f"**{text(said.in_words[0])}**\n"
        return
    yield f"{_ledger(said)} {_audit(said)}\n"


def _ledger(said: Promise) -> str:
    """The rest of the budget, and the moment of it."""
    if said.ledger is None:
        return OUTSIDE
    note = said.ledger.note
    left, whole = room(said.ledger.left_epsilon), loss(note.total_epsilon)
    return f"Ledger of {name(note.dataset)}: epsilon {left} of {whole} is left {text(said.ledger.moment)}."


def _audit(said: Promise) -> str:
    audit = said.audit
    if audit.bound is None:
        return f"Audit: {audit.outcome}."
    power = "" if audit.half_noise is None else f"; {half_of(audit.half_noise)}"
    return f"Audit: {audit.outcome}, lower bound {audit.bound:.3f}{power}."
