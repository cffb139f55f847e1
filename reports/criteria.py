"""What officers are asked elsewhere, beside what was measured here, and what none of it covers.

Source: Article 29 Working Party, Opinion 05/2014 on anonymisation techniques (WP 216), section 3; Near et al.
2025, Guidelines for evaluating differential privacy guarantees, NIST SP 800-226, doi 10.6028/NIST.SP.800-226;
ISO/IEC 27559:2022, Privacy enhancing data de-identification framework, clauses 6 to 9.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from evaluate.result import Candidate, Evaluation
from reports.answers import (
    MEMBERSHIP,
    Answer,
    by_attacks,
    of_audit,
    of_governance,
    of_guarantee,
    of_identification,
    of_schema,
    of_utility,
    to_judge,
)

SAID_ONCE = ("yours to judge", "stated")
"""Answers that need not be given for each table where they are the same."""


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


_WP29, _NIST, _ISO = "WP29 Opinion 05/2014", "NIST SP 800-226", "ISO/IEC 27559:2022"

CRITERIA = (
    Criterion(
        _WP29, "Singling out", "Can a person still be isolated?",
        by_attacks("privacy.singling_out.univariate", "privacy.singling_out.multivariate",
                 "privacy.quasi_identifiers.excess"),
        "Predicates other than those that were drawn from the synthetic table.",
    ),
    Criterion(
        _WP29, "Linkability", "Can two records of one person be linked?",
        by_attacks("privacy.linkability", *MEMBERSHIP),
        "Linking with tables that were not at hand, and with earlier releases of the same table.",
    ),
    Criterion(
        _WP29, "Inference", "Can a value of a person be deduced from other values?",
        by_attacks("privacy.inference", "privacy.inference.model"),
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
"""What is asked, source by source."""

NOT_COVERED = (
    "Whether the table is anonymous in the law is a judgment on all means reasonably likely to be used, by whoever "
    "holds it, and no number here is that judgment.",
    "Harm to groups: a table that is faithful to a population says what is true of it, also where that hurts people.",
    "Harm from being wrong: a synthetic record that happens to fit a real person may be taken for that person's.",
)
"""What none of these criteria covers."""
