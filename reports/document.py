"""The report as data, before any rendering: what is said, in which order, about which synthetic table."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evaluate.result import Candidate, Estimate, Evaluation, Failure
from evaluate.verdict import Finding, Outcome, Verdict
from reports.attacks import AttackNote, attack_note
from reports.audits import AuditNote, audit_note
from reports.books import Books, books_of, warned
from reports.evidence import (
    AssociationSet,
    ColumnRow,
    WorstClique,
    associations,
    column_rows,
    difference_top,
    score_extent,
    worst_cliques,
)
from reports.expectations import Expectation, expectations
from reports.glossary import GLOSSARY, KEY_FIGURES, NOTES, Entry, entry
from reports.limits import Limits, limits_of, twins
from reports.provenance import Fact, SchemaRow, facts, schema_rows
from reports.sweep import Sweep, shown_in_full, sweep_of

TITLE = "Evaluation of synthetic tables"
NOTICE = "Internal: this report reads real data and is outside the privacy guarantee. Do not pass it on."

WORDS: Mapping[Outcome, str] = {
    "PASS": "RELEASE", "FAIL": "DO NOT RELEASE", "INCONCLUSIVE": "MORE EVIDENCE NEEDED",
}  # fmt: skip
MOST_REASONS = 5


@dataclass(frozen=True)
class Comparison:
    """One key figure of every candidate, in the order of candidates."""

    measure: str
    entry: Entry
    better: str
    note: str
    cells: tuple[Estimate | Failure | None, ...]


@dataclass(frozen=True)
class Ruling:
    """One policy's verdict on one candidate, with its strongest reasons first."""

    verdict: Verdict
    words: str
    reasons: tuple[Finding, ...]


@dataclass(frozen=True)
class Section:
    """Everything about one candidate; `index` counts from one and names its anchors; no epsilon, no `books`.

    `audit` is none where none ran; `expectations` are empty where nothing was expected from public facts.
    """

    index: int
    candidate: Candidate
    named_for_release: bool
    rulings: tuple[Ruling, ...]
    associations: AssociationSet | None
    worst_pairs: tuple[WorstClique, ...]
    worst_triples: tuple[WorstClique, ...]
    limits: Limits
    books: Books | None
    attacks: AttackNote
    audit: AuditNote | None
    expectations: tuple[Expectation, ...]


@dataclass(frozen=True)
class Document:
    """One report on one or more synthetic tables of one real table."""

    title: str
    job: str
    notice: str
    real: Mapping[str, Any]
    n_columns: int
    target: str | None
    release: str | None
    policies: tuple[Verdict, ...]
    sections: tuple[Section, ...]
    comparison: tuple[Comparison, ...]
    columns: tuple[ColumnRow, ...]
    score_extent: tuple[float, float]
    difference_top: float
    rules: bool
    twins: tuple[str, ...]
    warnings: tuple[str, ...]
    facts: tuple[Fact, ...]
    versions: tuple[Fact, ...]
    schema: tuple[SchemaRow, ...]
    glossary: tuple[tuple[str, Entry], ...]
    sweep: Sweep | None = None


def compose(
    evaluation: Evaluation, *, verdicts: Iterable[Verdict] = (), title: str = TITLE, release: str | None = None
) -> Document:
    """The report of an evaluation.

    Args:
        evaluation: *Sensitive*: it was measured on real rows.
        verdicts: of any number of policies on any of the candidates.
        title: the headline.
        release: the candidate that the job names for release; none where it names none.
    """
    ruled = tuple(verdicts)
    candidates = shown_in_full(evaluation, release)
    return Document(
        title=title,
        job=str(evaluation.provenance.get("job") or ""),
        notice=NOTICE,
        real=evaluation.real,
        n_columns=sum(not c.get("drop", False) for c in evaluation.schema.get("columns", {}).values()),
        target=evaluation.schema.get("target"),
        release=release,
        policies=tuple({(v.policy, v.version): v for v in ruled}.values()),
        sections=tuple(_section(i, c, ruled, release) for i, c in enumerate(candidates, start=1)),
        comparison=tuple(_compare(measure, candidates) for measure in _compared(candidates)),
        columns=column_rows(candidates),
        difference_top=difference_top(candidates),
        score_extent=score_extent(candidates),
        rules=any(candidate.figures.get("validity") for candidate in candidates),
        twins=twins(evaluation),
        warnings=_warnings(evaluation),
        facts=facts(evaluation),
        versions=facts(evaluation, versions=True),
        schema=schema_rows(evaluation.schema),
        glossary=_glossary(candidates, ruled),
        sweep=sweep_of(evaluation, candidates),
    )


def _section(index: int, candidate: Candidate, verdicts: Sequence[Verdict], release: str | None) -> Section:
    return Section(
        index=index,
        candidate=candidate,
        named_for_release=candidate.name == release,
        rulings=tuple(Ruling(v, WORDS[v.verdict], _reasons(v)) for v in verdicts if v.candidate == candidate.name),
        associations=associations(candidate),
        worst_pairs=worst_cliques(candidate, "pairs"),
        worst_triples=worst_cliques(candidate, "triples"),
        limits=limits_of(candidate),
        books=books_of(candidate.name, candidate.statement) if candidate.statement else None,
        attacks=attack_note(candidate),
        audit=audit_note(candidate),
        expectations=expectations(candidate),
    )


def _warnings(evaluation: Evaluation) -> tuple[str, ...]:
    """What was said before and during the run, as whole sentences."""
    found = evaluation.provenance.get("warnings") or ()
    return tuple(warned(sentence) for sentence in found) if isinstance(found, list | tuple) else ()


def _reasons(verdict: Verdict) -> tuple[Finding, ...]:
    """What decided, most weighty first; of a PASS, the calls that were closest."""
    if verdict.verdict == "PASS":
        passed = [f for f in verdict.findings if f.outcome == "PASS" and f.estimate is not None]
        return tuple(sorted(passed, key=_slack)[:3])
    weight = {("FAIL", "fail"): 0, ("INCONCLUSIVE", "fail"): 1, ("FAIL", "warn"): 2, ("INCONCLUSIVE", "warn"): 3}
    against = [f for f in verdict.findings if f.outcome != "PASS"]
    return tuple(sorted(against, key=lambda f: weight[f.outcome, f.rule.severity])[:MOST_REASONS])


def _slack(finding: Finding) -> float:
    """How much room a rule had left, as a share of the way from a fresh real sample to the limit."""
    assert finding.estimate is not None
    estimate, limit = finding.estimate, finding.rule.limit
    worst = estimate.high if finding.rule.direction == "lower" else estimate.low
    room = abs(limit - (estimate.reference or 0.0))
    if room == 0.0:  # a limit that leaves none, kept to the letter, was no close call
        return math.inf
    return abs(limit - (estimate.value if worst is None else worst)) / room


def _compared(candidates: Sequence[Candidate]) -> list[str]:
    return [measure for measure in KEY_FIGURES if any(c.find(measure) is not None for c in candidates)]


def _compare(measure: str, candidates: Sequence[Candidate]) -> Comparison:
    cells = tuple(c.find(measure) for c in candidates)
    directions = [cell.direction for cell in cells if isinstance(cell, Estimate)]
    better = {"lower": "lower is better", "higher": "higher is better"}.get(directions[0] if directions else "", "")
    notes = {cell.note for cell in cells if isinstance(cell, Estimate)}
    note = notes.pop() if len(notes) == 1 and measure.startswith("utility.") else NOTES.get(measure, "")
    return Comparison(measure, entry(measure), better, note, cells)


def _glossary(candidates: Sequence[Candidate], verdicts: Sequence[Verdict]) -> tuple[tuple[str, Entry], ...]:
    """The measures that this report mentions."""
    met = {e.measure for c in candidates for e in c.estimates} | {f.measure for c in candidates for f in c.failures}
    met |= {finding.rule.measure for v in verdicts for finding in v.findings}
    return tuple((measure, described) for measure, described in GLOSSARY.items() if measure in met)
