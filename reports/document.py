"""The report as data, before any rendering: every section, in order, of each synthetic table.

Candidates are also compared side by side on a few key figures, which the glossary names.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evaluate.gate.claim import Claims, claims_of, made_here
from evaluate.gate.protection import Protection, named, standing_protection
from evaluate.gate.verdict import Verdict
from evaluate.metrics import CATALOG, Metric
from evaluate.real_facts import RealFacts
from evaluate.result import LOOKS, Candidate, Estimate, Evaluation, Failure
from reports.audits import AuditNote, audit_note
from reports.glossary import better, entry, key_figures
from reports.sections.attacks import AttackNote, attack_note
from reports.sections.extra import ExtraSection, filled, read_extras
from reports.sections.fidelity import (
    AssociationSet,
    ColumnRow,
    ExpectationLine,
    WorstClique,
    associated,
    associations,
    column_rows,
    expectations,
    score_extent,
    worst_cliques,
)
from reports.sections.guidelines import GuidelineRow, criteria_rows
from reports.sections.limitations import (
    AttackPower,
    TableLimitations,
    attempts_on,
    left_out,
    limits_of,
    powers,
    twins,
    warnings_of,
)
from reports.sections.overview import Guarantee, Overview, overview_of
from reports.sections.privacy_budget import BudgetTable, books_of
from reports.sections.provenance import Fact, FactGroup, SchemaRow, fact_groups, schema_rows, versions_of
from reports.sections.ranking import Ranking, VendorRow, intervals_of, ranking_of
from reports.sections.sweep import Sweep, shown_in_full, sweep_of
from reports.sections.verdicts import Ruling, SelfCheck, ruling_of, self_checks
from reports.sections.weakest import Weakest, weakest_of

__all__ = ["TITLE", "Comparison", "Document", "Section", "compose"]


@dataclass(frozen=True)
class Comparison:
    """One key figure of every candidate, in the order of candidates."""

    measure: str
    entry: Metric
    better: str
    note: str
    cells: tuple[Estimate | Failure | None, ...]


def comparisons(candidates: Sequence[Candidate]) -> tuple[Comparison, ...]:
    """Every key figure that was tried on any candidate."""
    tried = [measure for measure in key_figures() if any(c.find(measure) is not None for c in candidates)]
    return tuple(_compare(measure, candidates) for measure in tried)


def _compare(measure: str, candidates: Sequence[Candidate]) -> Comparison:
    cells = tuple(c.find(measure) for c in candidates)
    directions = [cell.direction for cell in cells if isinstance(cell, Estimate)]
    notes = {cell.note for cell in cells if isinstance(cell, Estimate)}
    note = notes.pop() if len(notes) == 1 and measure.startswith("utility.") else entry(measure).note
    return Comparison(measure, entry(measure), better(measure, directions[0] if directions else ""), note, cells)


TITLE = "Evaluation of synthetic tables"
NOTICE = "Internal: this report reads real data and is outside the privacy guarantee. Do not pass it on."


@dataclass(frozen=True, repr=False)
class Section:
    """Everything about one candidate; `index` counts from one and names its anchors; no epsilon, no `books`.

    `claims` are `None` where no statement can be read. `protection` is `None` without an undisputed guarantee. `audit`
    is `None` where no audit ran. `expectations` are empty where nothing was expected from public facts. `extras`: what
    each section of an extra says, by its anchor.
    """

    index: int
    candidate: Candidate
    named_for_release: bool
    rulings: tuple[Ruling, ...]
    weakest: Weakest
    associations: AssociationSet | None
    worst_pairs: tuple[WorstClique, ...]
    worst_triples: tuple[WorstClique, ...]
    limits: TableLimitations
    books: BudgetTable | None
    claims: Claims | None
    protection: Protection | None
    attacks: AttackNote
    audit: AuditNote | None
    expectations: tuple[ExpectationLine, ...]
    extras: Mapping[str, Any]

    def __repr__(self) -> str:
        return f"<Section {self.index} of {self.candidate.name!r}>"

    @property
    def void(self) -> bool:
        """True where noise of its fit, or of what counts with it, was not drawn from a secure source."""
        return self.claims is not None and not (self.claims.alone.private and self.claims.counted.private)

    def guarantee(self, verified: bool) -> Guarantee:
        """The guarantee as the overview shows it; `verified`: the run is seen to have made the table."""
        stated = self.candidate.statement
        unit = "rows" if stated is None else named(str(stated.unit), 2)
        if stated is None:
            return Guarantee(None, unit)
        disputed = (self.audit and self.audit.alarms) or (self.claims and self.claims.counted.disputed)
        lacks = "void" if self.void else "disputed" if disputed else "unverified" if not verified else "not known"
        return Guarantee(self.protection, unit, lacks)


@dataclass(frozen=True, repr=False)
class Document:
    """One report on one or more synthetic tables of one real table; `verified`: their run is seen to have made them."""

    title: str
    job: str
    notice: str
    real: RealFacts
    n_columns: int
    target: str | None
    release: str | None
    policies: tuple[Verdict, ...]
    sections: tuple[Section, ...]
    overview: Overview
    comparison: tuple[Comparison, ...]
    columns: tuple[ColumnRow, ...]
    score_extent: tuple[float, float]
    rules: bool
    twins: tuple[str, ...]
    warnings: tuple[str, ...]
    unlearned: tuple[str, ...]
    left_out: tuple[str, ...]
    powers: tuple[AttackPower, ...]
    self_checks: tuple[SelfCheck, ...]
    attempts: str
    facts: tuple[FactGroup, ...]
    versions: tuple[Fact, ...]
    schema: tuple[SchemaRow, ...]
    criteria: tuple[GuidelineRow, ...]
    glossary: tuple[tuple[str, Metric], ...]
    sweep: Sweep | None = None
    ranking: Ranking | None = None
    intervals: Mapping[tuple[str, str], Estimate] = field(default_factory=dict)
    verified: bool = True

    def __repr__(self) -> str:
        """The report in one line."""
        names = ", ".join(repr(one.candidate.name) for one in self.sections[:3])
        return f"<Document of {names}{' and others' if len(self.sections) > 3 else ''}>"

    @property
    def extras(self) -> tuple[ExtraSection, ...]:
        """Sections of extras that say something of any table."""
        return filled(section.extras for section in self.sections)

    @property
    def row_of(self) -> Mapping[str, ColumnRow]:
        """The charts of each column."""
        return {row.column: row for row in self.columns}

    @property
    def looks(self) -> bool:
        """True where rows are there to look at."""
        return any(LOOKS in section.candidate.figures for section in self.sections)

    @property
    def real_associations(self) -> AssociationSet | None:
        """The triangle of the real table beside those of all candidates, from the one with the most columns."""
        found = [section.associations for section in self.sections if section.associations is not None]
        return max(found, key=lambda one: len(one.columns), default=None)

    @property
    def column_anchors(self) -> Mapping[str, str]:
        """The anchor of each column's figure; a name itself is nothing to build an anchor of."""
        return {row.column: f"column-{place}" for place, row in enumerate(self.columns, start=1)}

    @property
    def shared_limits(self) -> tuple[str, ...]:
        """Limitations that all candidates share."""
        admitted = [section.limits.power for section in self.sections]
        return tuple(one for one in admitted[0] if all(one in other for other in admitted)) if admitted else ()

    @property
    def sources(self) -> tuple[tuple[str, tuple[GuidelineRow, ...]], ...]:
        """The guidelines, each with its criteria."""
        names = dict.fromkeys(row.criterion.source for row in self.criteria)
        return tuple((name, tuple(row for row in self.criteria if row.criterion.source == name)) for name in names)

    @property
    def by_weight(self) -> tuple[Section, ...]:
        """The sections with the one that is named for release first; of a comparison, as they are ranked."""
        places = {row.name: place for place, row in enumerate(self.ranking.rows)} if self.ranking else {}

        def weight(section: Section) -> tuple[bool, int]:
            return not section.named_for_release, places.get(section.candidate.name, len(places))

        return tuple(sorted(self.sections, key=weight))

    @property
    def vendors(self) -> Mapping[str, VendorRow]:
        """The outcome of each vendor; empty where nothing was compared."""
        return {row.name: row for row in self.ranking.rows} if self.ranking else {}


def compose(
    evaluation: Evaluation, *, verdicts: Iterable[Verdict] = (), title: str = TITLE, release: str | None = None
) -> Document:
    """The report of an evaluation.

    Args:
        evaluation: *Sensitive*: it was measured on real rows.
        verdicts: of any number of policies on any of the candidates.
        title: the headline.
        release: the candidate that the job names for release; `None` where it names none.

    Raises:
        EvaluationError: what a table claims with all that counts with it cannot be read.
    """
    ruled = tuple(verdicts)
    candidates = shown_in_full(evaluation, release)
    drawn = associated(candidates)
    sections = tuple(_section(i, c, evaluation, ruled, release, drawn) for i, c in enumerate(candidates, start=1))
    return Document(
        title=title,
        job=evaluation.provenance.job or "",
        notice=NOTICE,
        real=evaluation.real,
        n_columns=len(evaluation.schema.kept),
        target=evaluation.schema.target,
        release=release,
        policies=tuple({(v.policy, v.version): v for v in ruled}.values()),
        sections=sections,
        overview=overview_of(
            candidates, [section.guarantee(made_here(evaluation)) for section in sections], evaluation.schema.unlearned
        ),
        comparison=comparisons(candidates),
        columns=column_rows(candidates),
        score_extent=score_extent(candidates),
        rules=any(candidate.figures.get("validity") for candidate in candidates),
        twins=twins(evaluation),
        warnings=warnings_of(evaluation),
        unlearned=evaluation.schema.unlearned,
        left_out=left_out(evaluation.schema),
        powers=powers([section.attacks for section in sections]),
        self_checks=self_checks(evaluation, ruled),
        attempts=attempts_on(evaluation),
        facts=fact_groups(evaluation),
        versions=versions_of(evaluation),
        schema=schema_rows(evaluation.schema),
        criteria=criteria_rows(evaluation, candidates),
        glossary=_glossary(candidates, ruled),
        sweep=sweep_of(evaluation, candidates),
        ranking=ranking_of(evaluation),
        intervals=intervals_of(evaluation),
        verified=made_here(evaluation),
    )


def _section(
    index: int,
    candidate: Candidate,
    evaluation: Evaluation,
    verdicts: Sequence[Verdict],
    release: str | None,
    drawn: Sequence[str],
) -> Section:
    booked, claims = evaluation.provenance.ledger, claims_of(evaluation, candidate)
    return Section(
        index=index,
        candidate=candidate,
        named_for_release=candidate.name == release,
        rulings=tuple(ruling_of(v) for v in verdicts if v.candidate == candidate.name),
        weakest=weakest_of(candidate),
        associations=associations(candidate, drawn),
        worst_pairs=worst_cliques(candidate, "pairs"),
        worst_triples=worst_cliques(candidate, "triples"),
        limits=limits_of(candidate, evaluation.real.shift.notes),
        books=books_of(candidate.name, candidate.statement, booked) if candidate.statement else None,
        claims=claims,
        protection=standing_protection(evaluation, candidate, claims),
        attacks=attack_note(candidate),
        audit=audit_note(candidate),
        expectations=expectations(candidate),
        extras=read_extras(candidate, evaluation.schema),
    )


def _glossary(candidates: Sequence[Candidate], verdicts: Sequence[Verdict]) -> tuple[tuple[str, Metric], ...]:
    met = {e.measure for c in candidates for e in c.estimates} | {f.measure for c in candidates for f in c.failures}
    met |= {finding.rule.measure for v in verdicts for finding in v.findings}
    return tuple((measure, described) for measure, described in CATALOG.items() if measure in met)
