"""What officers are asked elsewhere, beside what was measured here, and what none of it covers.

Source: Article 29 Working Party, Opinion 05/2014 on anonymisation techniques (WP 216), section 3; Near et
al. 2025, Guidelines for evaluating differential privacy guarantees, NIST SP 800-226, doi 10.6028/NIST.SP.800-226;
ISO/IEC 27559:2022, Privacy enhancing data de-identification framework, clauses 6 to 9.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from evaluate.catalog import CATALOG
from evaluate.result import Candidate, Estimate, Evaluation
from reports.attacks import AttackLine, attack_note
from reports.audits import audit_note
from reports.limits import audit_failed
from reports.text import count, loss, number, plain
from reports.weakest import weakest_of

Word = Literal["alarm", "no alarm", "not measured", "stated", "absent", "yours to judge"]


SAID_ONCE = ("yours to judge", "stated")


@dataclass(frozen=True)
class Answer:
    """What was found for one criterion of one table: a word, and a sentence without its full stop."""

    word: Word
    text: str


@dataclass(frozen=True)
class Criterion:
    """One thing that a guideline asks.

    Attributes:
        source: the guideline.
        title: its own words.
        asks: the question.
        answer: what was found of a candidate, given its evaluation.
        uncovered: what the answer leaves open.
    """

    source: str
    title: str
    asks: str
    answer: Callable[[Candidate, Evaluation], Answer]
    uncovered: str


@dataclass(frozen=True)
class Row:
    """One criterion with its answer for every candidate that the report shows, in their order."""

    criterion: Criterion
    answers: tuple[tuple[str, Answer], ...]

    @property
    def same(self) -> bool:
        """Whether one sentence answers for every candidate, so that it need not be said for each."""
        return len({answer.text for _, answer in self.answers}) == 1 and self.answers[0][1].word in SAID_ONCE


def criteria_rows(evaluation: Evaluation, candidates: Sequence[Candidate]) -> tuple[Row, ...]:
    """The criteria in the order of their sources, each with what was found here."""
    return tuple(Row(one, tuple((c.name, one.answer(c, evaluation)) for c in candidates)) for one in CRITERIA)


def _attacks(*measures: str) -> Callable[[Candidate, Evaluation], Answer]:
    """An answer from attacks: those that raise an alarm, else the smallest leak that they would have seen."""

    def answer(candidate: Candidate, _: Evaluation) -> Answer:
        lines = [line for line in attack_note(candidate).lines if line.measure in measures]
        tried = [line for line in lines if line.word != "not measured"]
        alarms = [line for line in tried if line.word == "alarm"]
        if not tried:
            return Answer("not measured", "no attack of this kind gave a result")
        of = f"{len(alarms)} of {len(tried)} attacks" if alarms else f"{len(tried)} attack{'s' * (len(tried) > 1)}"
        missing = f"; {len(lines) - len(tried)} gave no result" if len(lines) > len(tried) else ""
        return Answer("alarm" if alarms else "no alarm", f"{of}; {_worst((alarms or tried)[0])}{missing}")

    return answer


def _worst(line: AttackLine) -> str:
    assert line.value is not None
    value, low, high = line.value
    seen = f", and {number(line.detectable)} would have been seen" if line.detectable is not None else ""
    what = line.title[:1].lower() + line.title[1:]
    return f"the worst, {what}, has {line.scale} {number(value)} ({number(low)} to {number(high)}){seen}"


def _guarantee(candidate: Candidate, _: Evaluation) -> Answer:
    statement = candidate.statement
    if not statement:
        return Answer("absent", "no formal guarantee, so that there is nothing to evaluate")
    if not statement.get("private", False):
        return Answer("absent", "void: its noise was not drawn from a secure source")
    rows = statement.get("max_rows_per_unit", 1)
    each = f" of at most {plain(rows, 20)} rows" if rows != 1 else ""
    return Answer(
        "stated",
        f"epsilon {loss(statement.get('epsilon'))} at delta {loss(statement.get('delta'))}, "
        f"unit {plain(statement.get('unit', 'not stated'), 40)}{each}",
    )


def _correctness(candidate: Candidate, _: Evaluation) -> Answer:
    if not candidate.statement:
        return Answer("absent", "no formal guarantee to test")
    note = audit_note(candidate)
    if note is None:
        return Answer("not measured", "the audit gave no result" if audit_failed(candidate) else "it was not audited")
    return Answer("alarm" if note.alarms else "no alarm", f"audited lower bound {note.bound}")


def _utility(candidate: Candidate, _: Evaluation) -> Answer:
    gaps = [e for e in candidate.estimates if e.measure.startswith("utility.gap.")]
    groups = weakest_of(candidate).groups
    served = next((g for g in groups if g.anchor == "utility"), None)
    if not gaps and served is None:
        return Answer("not measured", "no utility for models or groups was measured")
    said = [f"loss of a model trained on it at most {number(max(e.value for e in gaps))}"] if gaps else []
    said += [f"worst group {plain(served.group, 60)}: {served.what} {number(served.value)}"] if served else []
    return Answer("stated", "; ".join(said))


def _data(_: Candidate, evaluation: Evaluation) -> Answer:
    quasi, sensitive = (_n(evaluation.schema, key) for key in ("quasi_identifiers", "sensitive"))
    status = plain(evaluation.schema.get("status", "unknown"), 20)
    return Answer("stated", f"schema {status}; {quasi} quasi-identifiers and {sensitive} sensitive columns named")


def _n(schema: Mapping[str, Any], key: str) -> str:
    found = schema.get(key)
    return count(len(found)) if isinstance(found, list | tuple) and found else "no"


def _copies(candidate: Candidate, evaluation: Evaluation) -> Answer:
    """Membership and quasi-identifiers, and equal rows beside them."""
    found = _IDENTIFIED(candidate, evaluation)
    copies = candidate.find("privacy.copies.excess")
    if not isinstance(copies, Estimate):
        return found
    return Answer(found.word, f"{found.text}; rows equal to a training row, beyond chance: {number(copies.value)}")


def _yours(text: str) -> Callable[[Candidate, Evaluation], Answer]:
    return lambda _candidate, _evaluation: Answer("yours to judge", text)


def _governed(candidate: Candidate, _: Evaluation) -> Answer:
    ledger = (candidate.statement or {}).get("ledger")
    kept = "its spending stands in a ledger" if ledger else "no ledger holds its spending"
    return Answer("yours to judge", f"{kept}; the sign-off above is to be filled in")


_IDENTIFIED = _attacks(
    *(name for name in CATALOG if name.startswith(("privacy.membership.", "privacy.vulnerable."))),
    "privacy.quasi_identifiers.excess",
)
_WP29, _NIST, _ISO = "WP29 Opinion 05/2014", "NIST SP 800-226", "ISO/IEC 27559:2022"

CRITERIA = (
    Criterion(
        _WP29, "Singling out", "Can a person still be isolated?",
        _attacks("privacy.singling_out.univariate", "privacy.singling_out.multivariate",
                 "privacy.quasi_identifiers.excess"),
        "Predicates other than those that were drawn from the synthetic table.",
    ),
    Criterion(
        _WP29, "Linkability", "Can two records of one person be linked?",
        _attacks("privacy.linkability", *(n for n in CATALOG if n.startswith("privacy.membership."))),
        "Linking with tables that were not at hand, and with earlier releases of the same table.",
    ),
    Criterion(
        _WP29, "Inference", "Can a value of a person be deduced from other values?",
        _attacks("privacy.inference", "privacy.inference.model"),
        "What follows from the population alone: it can be guessed of people who are in no table, and still harm them.",
    ),
    Criterion(
        _NIST, "Privacy parameters and unit of privacy", "What is promised, and to whom?", _guarantee,
        "Whether one unit is one person: the schema's author says so, and nothing here can check it.",
    ),
    Criterion(
        _NIST, "Algorithms and correctness", "Does the mechanism keep its promise?", _correctness,
        "An audit finds a broken promise and proves none: what it does not test is listed above.",
    ),
    Criterion(
        _NIST, "Utility and bias", "Is it of use, and for every group alike?", _utility,
        "Uses other than the target and the queries that were tried, and groups that no column names.",
    ),
    Criterion(
        _NIST, "Trust model, access and collection", "Who holds the real data, and how is it guarded?",
        _yours("the real table is read in the clear by whoever runs this"),
        "Security of the machine, side channels, and how the data was collected.",
    ),
    Criterion(
        _ISO, "Context (clause 6)", "Who receives it, and what can they do?",
        _yours("the audience is that of the policy"),
        "The recipient's other data, skills, motives and safeguards; the transparency owed to data subjects.",
    ),
    Criterion(
        _ISO, "Data (clause 7)", "Which attributes identify, and which hurt?", _data,
        "Whether the right columns were named: attacks by quasi-identifiers use no others.",
    ),
    Criterion(
        _ISO, "Identifiability (clause 8)", "How likely is it that somebody is identified?", _copies,
        "A probability of attack: attacks here assume that somebody tries, with the knowledge that each one states.",
    ),
    Criterion(
        _ISO, "Governance (clause 9)", "Who answers, for how long, and what if it goes wrong?", _governed,
        "Review of recipients, incidents, and the deletion of copies that were passed on.",
    ),
)  # fmt: skip
"""What is asked, source by source."""

NOT_COVERED = (
    "Whether the table is anonymous in the law is a judgment on all means reasonably likely to be used, by whoever "
    "holds it, and no number here is that judgment.",
    "Harm to groups: a table that is faithful to a population says what is true of it, also where that hurts people.",
    "Harm from being wrong: a synthetic record that happens to fit a real person may be taken for that person's.",
)
"""What none of these criteria covers."""
