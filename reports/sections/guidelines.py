"""Criteria of guidelines, each with a finding of one synthetic table, and what none of them covers.

A finding is a word and a sentence, made of attacks, the audit, the privacy claim, utility or the schema.

Source: Article 29 Working Party, Opinion 05/2014 on anonymisation techniques (WP 216), section 3; Near et al.
2025, Guidelines for evaluating differential privacy guarantees, NIST SP 800-226, doi 10.6028/NIST.SP.800-226;
ISO/IEC 27559:2022, Privacy enhancing data de-identification framework, clauses 6 to 9.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from evaluate.gate.claim import claims_of
from evaluate.metrics import CATALOG
from evaluate.result import Candidate, Estimate, Evaluation
from evaluate.text import alike, count, loss, number, plain
from reports.audits import audit_note
from reports.sections.attacks import AttackLine, attack_note
from reports.sections.limitations import audit_failed
from reports.sections.weakest import groups_of

Word = Literal["alarm", "no alarm", "not measured", "stated", "absent", "yours to judge"]


@dataclass(frozen=True)
class GuidelineFinding:
    """The finding for one criterion of one table: a word, and a sentence without its full stop."""

    word: Word
    text: str


def by_attacks(key: str) -> Callable[[Candidate, Evaluation], GuidelineFinding]:
    """An answer from attacks: those that raise an alarm, else the smallest leak that they would have seen."""

    def answer(candidate: Candidate, _: Evaluation) -> GuidelineFinding:
        lines = [line for line in attack_note(candidate).lines if key in CATALOG[line.measure].criteria]
        tried = [line for line in lines if line.word != "not measured"]
        alarms = [line for line in tried if line.word == "alarm"]
        if not tried:
            return GuidelineFinding("not measured", "no attack of this kind gave a result")
        of = f"{len(alarms)} of {len(tried)} attacks" if alarms else f"{len(tried)} attack{'s' * (len(tried) > 1)}"
        missing = f"; {len(lines) - len(tried)} gave no result" if len(lines) > len(tried) else ""
        return GuidelineFinding("alarm" if alarms else "no alarm", f"{of}; {_worst((alarms or tried)[0])}{missing}")

    return answer


def _worst(line: AttackLine) -> str:
    if line.value is None:
        raise ValueError("an attack without a number is not the worst one")
    value, low, high = alike(*line.value)
    seen = f", and {number(line.detectable)} would have been seen" if line.detectable is not None else ""
    what = line.title[:1].lower() + line.title[1:]
    return f"the worst, {what}, has {line.scale} {value} ({low} to {high}){seen}"


def of_guarantee(candidate: Candidate, evaluation: Evaluation) -> GuidelineFinding:
    """The claim of all that counts with a table, its unit included, or that there is none."""
    statement = candidate.statement
    claims = claims_of(evaluation, candidate)
    if statement is None or claims is None:
        return GuidelineFinding("absent", "no formal guarantee, so that there is nothing to evaluate")
    if not (claims.alone.private and claims.counted.private):
        return GuidelineFinding("absent", "void: its noise was not drawn from a secure source")
    rows = statement.max_rows_per_unit
    each = f" of at most {rows} rows" if rows != 1 else ""
    epsilon, delta, of = statement.epsilon, statement.delta, ""
    if claims.reading:
        epsilon, delta, of = claims.counted.epsilon, claims.counted.delta, f", for {claims.counted.what}"
    unit = f"unit {plain(statement.unit, 40)}{each}"
    return GuidelineFinding("stated", f"epsilon {loss(epsilon)} at delta {loss(delta)}{of}, {unit}")


def of_audit(candidate: Candidate, _: Evaluation) -> GuidelineFinding:
    if candidate.statement is None:
        return GuidelineFinding("absent", "no formal guarantee to test")
    note = audit_note(candidate)
    if note is None:
        return GuidelineFinding(
            "not measured", "the audit gave no result" if audit_failed(candidate) else "it was not audited"
        )
    return GuidelineFinding(
        "alarm" if note.alarms else "no alarm", f"audited lower bound {note.bound}{note.short and f'; {note.short}'}"
    )


def of_utility(candidate: Candidate, _: Evaluation) -> GuidelineFinding:
    gaps = [e for e in candidate.estimates if e.measure.startswith("utility.gap.")]
    served = next((group for group in groups_of(candidate) if group.anchor == "utility"), None)
    if not gaps and served is None:
        return GuidelineFinding("not measured", "no utility for models or groups was measured")
    said = [f"loss of a model trained on it at most {number(max(e.value for e in gaps))}"] if gaps else []
    said += [f"worst group {plain(served.group, 60)}: {served.what} {number(served.value)}"] if served else []
    return GuidelineFinding("stated", "; ".join(said))


def of_schema(_: Candidate, evaluation: Evaluation) -> GuidelineFinding:
    """The number of columns that the schema's author named as identifying or sensitive."""
    schema = evaluation.schema
    quasi, sensitive = (count(len(of)) if of else "no" for of in (schema.quasi_identifiers, schema.sensitive))
    return GuidelineFinding(
        "stated", f"schema {schema.status}; {quasi} quasi-identifiers and {sensitive} sensitive columns named"
    )


_IDENTIFIED = by_attacks("identifiability")


def of_identification(candidate: Candidate, evaluation: Evaluation) -> GuidelineFinding:
    """Membership and quasi-identifiers, and equal rows beside them."""
    found = _IDENTIFIED(candidate, evaluation)
    copies = candidate.find("privacy.copies.people")
    if not isinstance(copies, Estimate):
        return found
    return GuidelineFinding(found.word, f"{found.text}; people copied, beyond chance: {number(copies.value)}")


def to_judge(text: str) -> Callable[[Candidate, Evaluation], GuidelineFinding]:
    """The same answer for every table: what nothing here can judge."""
    return lambda _candidate, _evaluation: GuidelineFinding("yours to judge", text)


def of_governance(candidate: Candidate, _: Evaluation) -> GuidelineFinding:
    """The record of its spending; the rest is for people."""
    held = candidate.statement is not None and candidate.statement.ledger is not None
    kept = "its spending stands in a ledger" if held else "no ledger holds its spending"
    return GuidelineFinding("yours to judge", f"{kept}; the sign-off above is to be filled in")


SAID_ONCE = ("yours to judge", "stated")  # Answers that need not be given for each table where they are the same


@dataclass(frozen=True)
class Criterion:
    source: str
    title: str
    asks: str
    answer: Callable[[Candidate, Evaluation], GuidelineFinding]
    uncovered: str


@dataclass(frozen=True)
class GuidelineRow:
    criterion: Criterion
    answers: tuple[tuple[str, GuidelineFinding], ...]

    @property
    def same(self) -> bool:
        """True where one sentence answers for every candidate."""
        return len({answer.text for _, answer in self.answers}) == 1 and self.answers[0][1].word in SAID_ONCE


def criteria_rows(evaluation: Evaluation, candidates: Sequence[Candidate]) -> tuple[GuidelineRow, ...]:
    return tuple(GuidelineRow(one, tuple((c.name, one.answer(c, evaluation)) for c in candidates)) for one in CRITERIA)


_WP29, _NIST, _ISO = "WP29 Opinion 05/2014", "NIST SP 800-226", "ISO/IEC 27559:2022"

CRITERIA = (
    Criterion(
        _WP29, "Singling out", "Can a person still be isolated?",
        by_attacks("singling out"),
        "Predicates other than those that were drawn from the synthetic table.",
    ),
    Criterion(
        _WP29, "Linkability", "Can two records of one person be linked?",
        by_attacks("linkability"),
        "Linking with tables that were not at hand, and with earlier releases of the same table.",
    ),
    Criterion(
        _WP29, "Inference", "Can a value of a person be deduced from other values?",
        by_attacks("inference"),
        "What follows from the population alone: it can be guessed of people who are in no table, and still harm them.",
    ),
    Criterion(
        _NIST, "Privacy parameters and unit of privacy", "What is promised, and to whom?", of_guarantee,
        "Whether one unit is one person: the schema's author says so, and nothing here can check it.",
    ),
    Criterion(
        _NIST, "Algorithms and correctness", "Does the mechanism keep its promise?", of_audit,
        "An audit finds a broken promise and proves none: what it does not test is listed above.",
    ),
    Criterion(
        _NIST, "Utility and bias", "Is it of use, and for every group alike?", of_utility,
        "Uses other than the target and the queries that were tried, and groups that no column names.",
    ),
    Criterion(
        _NIST, "Trust model, access and collection", "Who holds the real data, and how is it guarded?",
        to_judge("the real table is read in the clear by whoever runs this"),
        "Security of the machine, side channels, and how the data was collected.",
    ),
    Criterion(
        _ISO, "Context (clause 6)", "Who receives it, and what can they do?",
        to_judge("the audience is that of the policy"),
        "The recipient's other data, skills, motives and safeguards; the transparency owed to data subjects.",
    ),
    Criterion(
        _ISO, "Data (clause 7)", "Which attributes identify, and which hurt?", of_schema,
        "Whether the right columns were named: attacks by quasi-identifiers use no others.",
    ),
    Criterion(
        _ISO, "Identifiability (clause 8)", "How likely is it that somebody is identified?", of_identification,
        "A probability of attack: attacks here assume that somebody tries, with the knowledge that each one states.",
    ),
    Criterion(
        _ISO, "Governance (clause 9)", "Who answers, for how long, and what if it goes wrong?", of_governance,
        "Review of recipients, incidents, and the deletion of copies that were passed on.",
    ),
)  # fmt: skip
"""Criteria, source by source."""

NOT_COVERED = (
    "Whether the table is anonymous in the law is a judgment on all means reasonably likely to be used, by whoever "
    "holds it, and no number here is that judgment.",
    "Harm to groups: a table that is faithful to a population says what is true of it, also where that hurts people.",
    "Harm from being wrong: a synthetic record that happens to fit a real person may be taken for that person's.",
)
"""Questions that none of these criteria covers."""
