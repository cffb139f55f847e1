"""Limitations of an evaluation: what did not run, how small a leak it could have seen, why copies can be honest."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evaluate.audit_result import MEASURE as AUDITED
from evaluate.gate.finding import sampled
from evaluate.provenance import Provenance
from evaluate.result import Candidate, Estimate, Evaluation, Failure
from evaluate.text import count, finite, listed, number, percent, plain, sentence
from reports.audits import audit_note
from synth.schema import Schema


def evaluations_of(provenance: Provenance, *, by_name: bool) -> int | None:
    """Evaluations that were run, this one included; `None` where nobody counted."""
    counted = provenance.attempts
    if counted is None or (by_name and counted.by_name is None):
        return None
    return counted.by_name.evaluations if by_name and counted.by_name is not None else counted.evaluations


NOT_RUN = (
    "attackers who see several releases of the same table", "attackers who question or hold the generator itself",
    "attackers who know a person's relatives or other rows",
)  # fmt: skip
"""Attacks that this version does not have. Nothing in a report speaks against them."""
NOT_AUDITED = (
    "Not audited: the claimed epsilon follows from the books, and no attack has measured a lower bound for it."
)
NO_SHADOWS = (
    "No attack by shadow models gave a result: whoever fits the same generator again and again may see more than the "
    "attacks here do."
)
AUDIT_FAILED = (
    "The audit was tried and gave no result: the claimed epsilon follows from the books alone. Why it gave none stands "
    "among the measures without a result."
)
LEFT_OUT = (
    "The audit tests Gaussian noise on counts and in steps of DP-SGD, on a public stand-in. It names nothing else that "
    "it looked at: not choices, the histogram of rows per entity, measured domains, what a step does after its noise, "
    "or anything that this table alone would bring out."
)
"""Of an audit that does not say what it left out."""
NOT_COUNTED = (
    "How many evaluations were run on this real table is not counted here. Each one that somebody reads is a question "
    "to the table, and many questions about few people can be put together to their rows."
)


@dataclass(frozen=True)
class TableLimitations:
    failures: tuple[Failure, ...]
    power: tuple[str, ...]


def limits_of(candidate: Candidate, notes: Sequence[str] = ()) -> TableLimitations:
    audit = [_of_audit(candidate)] if candidate.statement is not None else []
    shadows = [] if isinstance(candidate.find("privacy.shadow.auc"), Estimate) else [NO_SHADOWS]
    return TableLimitations(candidate.failures, (*on_samples(candidate), *notes, *_power(candidate), *shadows, *audit))


def warnings_of(evaluation: Evaluation) -> tuple[str, ...]:
    """Warnings of the evaluation and its run, as whole sentences; first, that train and holdout differ."""
    return tuple(map(_warned, (*evaluation.real.warnings, *evaluation.provenance.warnings)))


def _warned(warning: object) -> str:
    """A warning as a whole sentence.

    >>> _warned("no formal guarantee for a"), _warned("n_units=900 is few")
    ('No formal guarantee for a.', 'n_units=900 is few.')
    """
    text = sentence(warning).rstrip(".")
    first = text.partition(" ")[0]
    return f"{text[:1].upper() + text[1:] if first.isalpha() else text}."


_LISTED = 'kind = "categorical" and their categories (`understudy schema infer --kind COLUMN=categorical` lists them)'
_WRITER = 'kind = "text" and learn = true: a language model writes new ones (docs/how-to/free-text.md).'
_ANEW = f"To keep what is none of this, write {_LISTED}."
_UNLEARNED: Mapping[str, tuple[str, str]] = {
    "text": (
        "Left out, as texts that are neither categories nor numbers nor times as they are written",
        f"To keep them, write {_LISTED}; the very texts then stand in the synthetic table. Or write {_WRITER}",
    ),
    "left out": ("Left out by the schema", "To keep them, take drop = true out."),
    "random": (
        "Free text, in whose place random words stand",
        f"To have texts that go with their rows, write {_WRITER}",
    ),
    "personal": ("Personal data, written anew: no real value is kept, nor what it goes with", _ANEW),
    "identifier": ("Identifiers, written anew: no real value is kept, nor what it goes with", _ANEW),
}
"""What becomes of columns that are not learned, and what to write in the schema instead."""


def left_out(schema: Schema) -> tuple[str, ...]:
    """A sentence on each kind of columns that are left out or replaced, with what to write to keep them."""
    names: dict[str, list[str]] = {}
    for name in schema.unlearned:
        column = schema.columns[name]
        if column.drop:
            fate = "text" if column.is_text else "left out"
        elif column.is_personal:
            fate = "random" if column.personal == "text" else "personal"
        else:
            fate = "identifier"
        names.setdefault(fate, []).append(name)
    known = ((*_UNLEARNED[fate], names[fate]) for fate in _UNLEARNED if fate in names)
    return tuple(f"{what}: {listed(columns)}. {remedy}" for what, remedy, columns in known)


def on_samples(candidate: Candidate) -> tuple[str, ...]:
    """A sentence on the samples that numbers rest on; none where they rest on all rows."""
    # The longest names all tables that were not looked at as a whole; some measures need samples of one alone.
    longest = max(
        (sampled(estimate).partition(";")[0].rstrip(".") for estimate in candidate.estimates), key=len, default=""
    )
    return (f"{longest}, by all that needs rows in memory (attacks, utility, detection, fairness).",) if longest else ()


def attempts_on(evaluation: Evaluation) -> str:
    """The number of evaluations of this real table, and its meaning, as sentences.

    Source: Ganev and De Cristofaro 2023, arXiv:2312.05114 (ReconSyn).
    """
    counted = evaluation.provenance.attempts
    if counted is None:
        return NOT_COUNTED
    n = counted.evaluations
    times = "the first evaluation" if n == 1 else f"evaluation number {count(n)}"
    tables = "one synthetic table" if counted.tables == 1 else f"{count(counted.tables)} synthetic tables in all"
    return (
        f"This is {times} of this real table that was counted on this machine, with {tables} since "
        f"{plain(counted.since, 20)}. Each one that somebody reads is a question to the table; the more of them are "
        "passed on, the more they say together about single rows."
    )


def audit_failed(candidate: Candidate) -> bool:
    """True where an audit was tried in vain."""
    return candidate.audit is None and isinstance(candidate.find(AUDITED), Failure)


def _of_audit(candidate: Candidate) -> str:
    if audit_failed(candidate):
        return AUDIT_FAILED
    if candidate.audit is None:
        return NOT_AUDITED
    note = audit_note(candidate)
    return f"The audit tests the program on public stand-ins. {note.scope}" if note and note.scope else LEFT_OUT


def _power(candidate: Candidate) -> list[str]:
    figure, auc = candidate.figures.get("membership"), candidate.find("privacy.membership.auc")
    if not figure or not isinstance(auc, Estimate):
        return ["No membership attack gave a result, so nothing here speaks against one."]
    members, controls = int(finite(figure.get("n_members"))), int(finite(figure.get("n_controls")))
    sentences = []
    if auc.detectable is not None:
        sentences.append(
            f"With {count(members)} members and {count(controls)} outsiders, the membership attack would have seen "
            f"an area under the curve above {number(auc.detectable)} in four of five trials; a weaker leak could go "
            "unseen."
        )
    if 0 < controls < 1000:
        sentences.append(
            f"Success at 0.1% false alarms needs 1,000 outsiders; there were {count(controls)}, so the most exposed "
            "one in a thousand could not be looked at."
        )
    return sentences


def twins(evaluation: Evaluation) -> tuple[str, ...]:
    """Plain words on duplicates among real rows, and what they mean for copies."""
    copies = (candidate.find("privacy.copies") for candidate in evaluation.candidates)
    shares = (each.reference for each in copies if isinstance(each, Estimate) and each.reference is not None)
    reference = next(shares, None)
    if reference is None:
        return ()
    if reference < 0.001:
        return (
            "Hardly any two real rows are equal, so a synthetic row that equals a training row calls for a reason.",
        )
    also = f" Within the training table, {percent(evaluation.real.duplicate_share_train)} of the rows have a twin."
    return (
        f"{percent(reference)} of fresh real rows, which nobody copied, equal some training row: different people gave "
        f"the same answers.{also} A table with few columns or few categories has many such twins.",
        "So equal rows alone are no leak. A generator that learned the population, and no one in particular, makes "
        f"about as many ({percent(reference)}). What is judged is the share beyond that, and whether the counts of "
        "equal rows match the training table more closely than chance allows.",
    )
