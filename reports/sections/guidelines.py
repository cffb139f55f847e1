"""Criteria of guidelines, each with what was found of one synthetic table, and what none of them covers.

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
from reports.sections.attacks import attack_note
from reports.sections.limitations import audit_failed
from reports.sections.weakest import groups_of

Word = Literal["alarm", "no alarm", "not measured", "stated", "absent", "yours to judge"]
Answer = tuple[Word, str]  # A word, and a sentence without its full stop


@dataclass(frozen=True)
class Criterion:
    """What a guideline asks, how a table answers it inside and to hand on, and what that leaves open."""

    source: str
    title: str
    asks: str
    answer: Callable[[Candidate, Evaluation], Answer]
    uncovered: str
    public: str = "Measured inside, if at all, and not shown: see the limits."
    without: str = ""
    """The answer to hand on without a guarantee that holds, where it is another one."""


@dataclass(frozen=True)
class GuidelineRow:
    criterion: Criterion
    answers: tuple[tuple[str, Answer], ...]

    @property
    def same(self) -> bool:
        """True where one sentence answers for every candidate."""
        words, texts = ({answer[i] for _, answer in self.answers} for i in (0, 1))
        return len(texts) == 1 and words <= {"yours to judge", "stated", "absent"}


def criteria_rows(evaluation: Evaluation, candidates: Sequence[Candidate]) -> tuple[GuidelineRow, ...]:
    return tuple(
        GuidelineRow(each, tuple((c.name, each.answer(c, evaluation)) for c in candidates)) for each in CRITERIA
    )


def by_attacks(key: str) -> Callable[[Candidate, Evaluation], Answer]:
    """An answer from attacks: those that raise an alarm, else the smallest leak that they would have seen."""

    def answer(candidate: Candidate, _: Evaluation) -> Answer:
        lines = [line for line in attack_note(candidate).lines if key in CATALOG[line.measure].criteria]
        tried = [line for line in lines if line.value is not None]
        alarms = [line for line in tried if line.word == "alarm"]
        if not tried:
            return "not measured", "no attack of this kind gave a result"
        worst = (alarms or tried)[0]
        value, low, high = alike(*(worst.value or ()))
        seen = f", and {number(worst.detectable)} would have been seen" if worst.detectable is not None else ""
        n = f"{len(alarms)} of {len(tried)}" if alarms else f"{len(tried)}"
        missing = f"; {len(lines) - len(tried)} gave no result" if len(lines) > len(tried) else ""
        words = f"{n} attack{'s' * (len(tried) > 1)}; the worst, {worst.title[:1].lower()}{worst.title[1:]}, has"
        return "alarm" if alarms else "no alarm", f"{words} {worst.scale} {value} ({low} to {high}){seen}{missing}"

    return answer


def of_guarantee(candidate: Candidate, evaluation: Evaluation) -> Answer:
    """The claim of all that counts with a table, its unit included, or that there is none."""
    statement, claims = candidate.statement, claims_of(evaluation, candidate)
    if statement is None or claims is None:
        return "absent", "no formal guarantee"
    if not claims.counted.private:
        return "absent", "void: its noise was not drawn from a secure source"
    rows, claim = statement.max_rows_per_unit, claims.counted if claims.reading else claims.alone
    unit = f"unit {plain(statement.unit, 40)}{f' of at most {rows} rows' if rows != 1 else ''}"
    what = f", for {claim.what}" if claims.reading else ""
    return "stated", f"epsilon {loss(claim.epsilon)} at delta {loss(claim.delta)}{what}, {unit}"


def of_audit(candidate: Candidate, _: Evaluation) -> Answer:
    if candidate.statement is None:
        return "absent", "no formal guarantee to test"
    note = audit_note(candidate)
    if note is None:
        failed = audit_failed(candidate)
        return "not measured", "the audit gave no result" if failed else "it was not audited"
    power = f"; {note.short}" if note.short else ""
    return "alarm" if note.alarms else "no alarm", f"audited lower bound {note.bound}{power}"


def of_utility(candidate: Candidate, _: Evaluation) -> Answer:
    gaps = [e.value for e in candidate.estimates if e.measure.startswith("utility.gap.")]
    parts = [f"loss of a model trained on it at most {number(max(gaps))}"] if gaps else []
    parts += [
        f"worst group {plain(group.group, 60)}: {group.what} {number(group.value)}"
        for group in groups_of(candidate)[:1]
    ]
    return ("stated", "; ".join(parts)) if parts else ("not measured", "no utility for models or groups was measured")


def of_schema(_: Candidate, evaluation: Evaluation) -> Answer:
    """The number of columns that the schema's author named as identifying or sensitive."""
    schema = evaluation.schema
    quasi, sensitive = (count(len(names)) if names else "no" for names in (schema.quasi_identifiers, schema.sensitive))
    return "stated", f"schema {schema.status}; {quasi} quasi-identifiers and {sensitive} sensitive columns named"


def of_identification(candidate: Candidate, evaluation: Evaluation) -> Answer:
    """Membership and quasi-identifiers, and equal rows beside them."""
    word, text = by_attacks("identifiability")(candidate, evaluation)
    copies = candidate.find("privacy.copies.people")
    beside = f"; people copied, beyond chance: {number(copies.value)}" if isinstance(copies, Estimate) else ""
    return word, text + beside


def of_governance(candidate: Candidate, _: Evaluation) -> Answer:
    """The record of its spending; the rest is for people."""
    booked = candidate.statement is not None and candidate.statement.ledger is not None
    kept = "its spending stands in a ledger" if booked else "no ledger holds its spending"
    return "yours to judge", f"{kept}; the sign-off above is to be filled in"


def to_judge(text: str) -> Callable[[Candidate, Evaluation], Answer]:
    """The same answer for every table: what nothing here can judge."""
    return lambda _candidate, _evaluation: ("yours to judge", text)


_WP29, _NIST, _ISO = "WP29 Opinion 05/2014", "NIST SP 800-226", "ISO/IEC 27559:2022"

CRITERIA = (
    Criterion(
        _WP29, "Singling out", "Can a person still be isolated?", by_attacks("singling out"),
        "Predicates other than those that were drawn from the synthetic table.",
    ),
    Criterion(
        _WP29, "Linkability", "Can two records of one person be linked?", by_attacks("linkability"),
        "Linking with tables that were not at hand, and with earlier releases.",
    ),
    Criterion(
        _WP29, "Inference", "Can a value of a person be deduced from other values?", by_attacks("inference"),
        "What follows from the population alone, which may still harm people who are in no table.",
    ),
    Criterion(
        _NIST, "Privacy parameters and unit of privacy", "What is promised, and to whom?", of_guarantee,
        "Whether one unit is one person: nothing here can check it.",
        "See the privacy statement: epsilon, delta, unit and relation.", "There is no formal guarantee that holds.",
    ),
    Criterion(
        _NIST, "Algorithms and correctness", "Does the mechanism keep its promise?", of_audit,
        "An audit finds a broken promise and proves none.",
        "See the audit beside the privacy statement.",
        "There is no formal guarantee that holds, so that no mechanism is shown to keep one.",
    ),
    Criterion(
        _NIST, "Utility and bias", "Is it of use, and for every group alike?", of_utility,
        "Uses other than those tried, and groups that no column names.",
        "See the released numbers, if there are any; nothing is said of single groups.",
    ),
    Criterion(
        _NIST, "Trust model, access and collection", "Who holds the real data, and how is it guarded?",
        to_judge("the real table is read in the clear by whoever runs this"),
        "Security of the machine, side channels, and how the data was collected.",
        "The real table was read in the clear by whoever made this table.",
    ),
    Criterion(
        _ISO, "Context (clause 6)", "Who receives it, and what can they do?",
        to_judge("the audience is that of the policy"),
        "The recipient's other data, skills, motives and safeguards; the transparency owed to data subjects.",
        "The audience is that of the policy.",
    ),
    Criterion(
        _ISO, "Data (clause 7)", "Which attributes identify, and which hurt?", of_schema,
        "Whether the right columns were named: attacks by quasi-identifiers use no others.",
    ),
    Criterion(
        _ISO, "Identifiability (clause 8)", "How likely is it that somebody is identified?", of_identification,
        "A probability of attack: attacks here assume that somebody tries.",
    ),
    Criterion(
        _ISO, "Governance (clause 9)", "Who answers, for how long, and what if it goes wrong?", of_governance,
        "Review of recipients, incidents, and the deletion of copies that were passed on.",
        "See the sign-off of the bundle that this report lies in.",
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
