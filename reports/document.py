"""The report as data, before any rendering: every section, in order, of each synthetic table."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evaluate.gate.claim import Claims, Protection, claims_of, named, standing_protection
from evaluate.gate.verdict import Verdict
from evaluate.metrics import CATALOG, Metric
from evaluate.result import Candidate, Estimate, Evaluation, Failure
from reports.glossary import key_figures
from reports.guarantee import LACKS, AuditNote, BudgetTable, Standing, audit_note, books_of, standing_of
from reports.sections import quality
from reports.sections.attacks import AttackNote, attack_note
from reports.sections.comparison import Ranking, Sweep, VendorRow, ranking_of, shown_in_full, sweep_of
from reports.sections.limitations import GuidelineRow, criteria_rows, limits_of
from reports.sections.overview import Guarantee, OverviewLine, Ruling, answers_of, overview_of, ruling_of, self_checks
from synth.dp.statement import NO_GUARANTEE

__all__ = ["TITLE", "Document", "Section", "compose"]

TITLE = "Evaluation of synthetic tables"


@dataclass(frozen=True, repr=False)
class Section:
    """Everything about one candidate; `index` counts from one and names its anchors.

    `answers` are what policies that ship and were not applied say of it. `books` and `claims` are `None` without a
    statement, `protection` without a guarantee that stands, `audit` where none ran. `extras`: what each section of an
    extra says, by its anchor.
    """

    index: int
    candidate: Candidate
    named_for_release: bool
    standing: Standing | None
    rulings: tuple[Ruling, ...]
    answers: tuple[Ruling, ...]
    weakest: quality.Weakest
    associations: quality.AssociationSet | None
    worst_pairs: tuple[quality.WorstClique, ...]
    worst_triples: tuple[quality.WorstClique, ...]
    limits: tuple[str, ...]
    books: BudgetTable | None
    claims: Claims | None
    protection: Protection | None
    attacks: AttackNote
    audit: AuditNote | None
    expectations: tuple[quality.ExpectationLine, ...]
    extras: Mapping[str, Any]

    def __repr__(self) -> str:
        return f"<Section {self.index} of {self.candidate.name!r}>"

    @property
    def lacks(self) -> str:
        """The words for a guarantee that does not hold; empty where it does."""
        return LACKS[self.standing]

    @property
    def guarantee(self) -> Guarantee:
        unit = "row" if self.candidate.statement is None else str(self.candidate.statement.unit)
        protection = self.protection if self.standing == "formal" else None
        return protection, named(unit, 2), self.standing or NO_GUARANTEE


@dataclass(frozen=True, repr=False)
class Document:
    """One report on one or more synthetic tables of one real table."""

    title: str
    evaluation: Evaluation
    release: str | None
    policies: tuple[Verdict, ...]
    sections: tuple[Section, ...]
    overview: tuple[OverviewLine, ...]
    comparison: tuple[tuple[str, tuple[Estimate | Failure | None, ...]], ...]
    columns: tuple[quality.ColumnRow, ...]
    score_extent: tuple[float, float]
    self_checks: tuple[tuple[str, tuple[Any, ...], str], ...]
    criteria: tuple[GuidelineRow, ...]
    glossary: tuple[Metric, ...]
    sweep: Sweep | None
    ranking: Ranking | None

    def has(self, figure: str) -> bool:
        """True where a figure was drawn of any table."""
        return any(section.candidate.figures.get(figure) for section in self.sections)

    def __repr__(self) -> str:
        names = ", ".join(repr(section.candidate.name) for section in self.sections[:3])
        return f"<Document of {names}{' and others' if len(self.sections) > 3 else ''}>"

    @property
    def extras(self) -> tuple[quality.ExtraSection, ...]:
        """Sections of extras that say something of any table."""
        return quality.filled(section.extras for section in self.sections)

    @property
    def row_of(self) -> Mapping[str, quality.ColumnRow]:
        """The charts of each column."""
        return {row.column: row for row in self.columns}

    @property
    def real_associations(self) -> quality.AssociationSet | None:
        """The triangle of the real table beside those of all candidates, from the one with the most columns."""
        measured = [section.associations for section in self.sections if section.associations is not None]
        return max(measured, key=lambda drawn: len(drawn.columns), default=None)

    @property
    def column_anchors(self) -> Mapping[str, str]:
        """The anchor of each column's figure; a name itself is nothing to build an anchor of."""
        return {row.column: f"column-{position}" for position, row in enumerate(self.columns, start=1)}

    @property
    def shared_limits(self) -> tuple[str, ...]:
        """Limitations that all candidates share."""
        admitted = [section.limits for section in self.sections]
        return tuple(each for each in admitted[0] if all(each in other for other in admitted)) if admitted else ()

    @property
    def by_weight(self) -> tuple[Section, ...]:
        """The sections with the one that is named for release first; of a comparison, as they are ranked."""
        ranks = {row.name: rank for rank, row in enumerate(self.ranking.rows)} if self.ranking else {}

        def weight(section: Section) -> tuple[bool, int]:
            return not section.named_for_release, ranks.get(section.candidate.name, len(ranks))

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
    drawn = quality.associated(candidates)
    answers = answers_of(evaluation, ruled, [candidate.name for candidate in candidates])
    sections = tuple(
        _section(i, c, evaluation, ruled, answers, release, drawn) for i, c in enumerate(candidates, start=1)
    )
    explained = {finding.rule.measure for verdict in ruled for finding in verdict.findings}
    explained |= {name for name in key_figures() if any(candidate.find(name) for candidate in candidates)}
    return Document(
        title=title,
        evaluation=evaluation,
        release=release,
        policies=tuple({(v.policy, v.version): v for v in ruled}.values()),
        sections=sections,
        overview=overview_of(candidates, [section.guarantee for section in sections], evaluation.schema.unlearned),
        comparison=tuple(
            (measure, cells)
            for measure in key_figures()
            if any(cells := tuple(candidate.find(measure) for candidate in candidates))
        ),
        columns=quality.column_rows(candidates),
        score_extent=quality.score_extent(candidates),
        self_checks=self_checks(evaluation, ruled),
        criteria=criteria_rows(evaluation, [c for c in candidates if c.name == release] or candidates),
        glossary=tuple(metric for measure, metric in CATALOG.items() if measure in explained),
        sweep=sweep_of(evaluation, candidates),
        ranking=ranking_of(evaluation),
    )


def _section(
    index: int,
    candidate: Candidate,
    evaluation: Evaluation,
    verdicts: Sequence[Verdict],
    answers: Sequence[Verdict],
    release: str | None,
    drawn: Sequence[str],
) -> Section:
    name, claims = candidate.name, claims_of(evaluation, candidate)
    booked = evaluation.provenance.ledger
    return Section(
        index=index,
        candidate=candidate,
        named_for_release=name == release,
        standing=standing_of(evaluation, candidate, claims),
        rulings=tuple(ruling_of(v) for v in verdicts if v.candidate == name),
        answers=tuple(ruling_of(v) for v in answers if v.candidate == name),
        weakest=quality.weakest_of(candidate),
        associations=quality.associations(candidate, drawn),
        worst_pairs=quality.worst_cliques(candidate, "pairs"),
        worst_triples=quality.worst_cliques(candidate, "triples"),
        limits=limits_of(candidate, evaluation.real.shift.notes),
        books=None if candidate.statement is None else books_of(name, candidate.statement, booked),
        claims=claims,
        protection=standing_protection(evaluation, candidate, claims),
        attacks=attack_note(candidate),
        audit=audit_note(candidate),
        expectations=quality.expectations(candidate),
        extras={section.anchor: section.read(candidate, evaluation.schema) for section in quality.brought()},
    )
