"""One synthetic table's model card, composed of what its evaluation, its job and its file say."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from evaluate.gate.verdict import Verdict
from evaluate.result import Candidate, Evaluation
from evaluate.text import amount
from reports.attempts import evaluations_of
from reports.document import TITLE
from reports.model_card import words
from reports.model_card.measured import measured_of
from reports.model_card.origin import made_of, task_of, trained_of
from reports.model_card.privacy import privacy_of
from reports.model_card.shape import (
    CARD_VERSION,
    Expected,
    Form,
    InternalCard,
    NoPromise,
    Promise,
    PublicCard,
    Table,
    Use,
)
from reports.sweep import is_releasable
from synth.errors import BadInput, nearest
from synth.usage_terms import Terms


class CardError(BadInput):
    """There is nothing to make a card of; none was made."""


@dataclass(frozen=True)
class CardFacts:
    """What a card says that no evaluation knows; all of it public.

    Attributes:
        made_on: the day.
        terms: of use.
        file: the synthetic table, relative to the card; none where none is kept.
        n_rows: that the synthetic table has; none: not known.
        n_columns: likewise.
        holdout_share: of the units, as the job says; none: not known.
    """

    made_on: date
    terms: Terms = field(default_factory=Terms)
    file: str | None = None
    n_rows: int | None = None
    n_columns: int | None = None
    holdout_share: float | None = None


def internal_card(
    evaluation: Evaluation, name: str, facts: CardFacts, verdicts: Iterable[Verdict] = ()
) -> InternalCard:  # fmt: skip
    """The card for whoever may see numbers computed from real rows.

    Args:
        evaluation: *Sensitive*: it was measured on real rows.
        name: of the candidate.
        facts: what else there is to say.
        verdicts: of any policies on any candidates.

    Raises:
        CardError: no candidate goes by that name.
        EvaluationError: what the table claims with all that counts with it cannot be read.
    """
    candidate = _found(evaluation, name)
    return InternalCard(
        **_shared(evaluation, candidate, facts, "internal"),
        form="internal",
        notice=words.INTERNAL,
        measured=measured_of(evaluation, candidate, verdicts),
    )


def public_card(evaluation: Evaluation, name: str, facts: CardFacts) -> PublicCard:
    """The card for anyone: statement, job, declared schema and the synthetic table's own facts, and nothing measured.

    Raises:
        CardError: no candidate goes by that name.
        EvaluationError: what the table claims with all that counts with it cannot be read.
    """
    candidate = _found(evaluation, name)
    known = _shared(evaluation, candidate, facts, "public")
    notice = words.PUBLIC if known["privacy"].status == "formal" else words.PUBLIC_UNBOUND
    return PublicCard(**known, form="public", notice=notice)


def _found(evaluation: Evaluation, name: str) -> Candidate:
    names = [candidate.name for candidate in evaluation.candidates]
    if name not in names:
        raise CardError(f"candidate={name!r} is not in the evaluation; {nearest(name, names)}")
    if not is_releasable(evaluation):
        raise CardError(
            f"candidate={name!r} is of a sweep that nobody pays for, so that none of its tables may be handed on and "
            "none has a card; run the sweep with a ledger"
        )
    return evaluation.candidates[names.index(name)]


def _shared(evaluation: Evaluation, candidate: Candidate, facts: CardFacts, form: Form) -> dict[str, Any]:
    """What both forms hold. Of the evaluation, a public card may read what was said before any real row was."""
    known = evaluation.provenance
    privacy = privacy_of(evaluation, candidate, form)
    n = evaluations_of(known, by_name=form == "public")
    return {
        "card_version": CARD_VERSION,
        "title": facts.terms.pretty_name or str(known.get("job") or TITLE),
        "name": candidate.name,
        "made_on": facts.made_on,
        "privacy": privacy,
        "table": Table(
            file=facts.file, n_rows=facts.n_rows, n_columns=facts.n_columns, task=task_of(evaluation.schema, form)
        ),
        "trained": trained_of(evaluation, privacy, facts.holdout_share, form),
        "made": made_of(candidate, known, privacy, form),
        "use": _use(facts.terms, privacy),
        "expected": _expected(candidate),
        "evaluations": n,
        "evaluations_in_words": words.evaluations_in_words(n, form),
    }


def _use(terms: Terms, privacy: Promise | NoPromise) -> Use:
    formal = isinstance(privacy, Promise) and privacy.status == "formal"
    tags = ("synthetic", "tabular", "differential-privacy" if formal else "no-formal-guarantee", *terms.tags)
    return Use(
        intended=terms.intended_use or words.INTENDED,
        prohibited=(*terms.prohibited_use, *words.PROHIBITED, *(() if formal else words.NO_ANONYMITY)),
        license=terms.license or "unknown",
        license_in_words=terms.license or words.NO_LICENSE,
        contact=terms.contact,
        citation=terms.citation,
        language=terms.language,
        tags=tuple(dict.fromkeys(tags)),
    )


def _expected(candidate: Candidate) -> Expected | None:
    """What public facts let one expect: schema, budget and plan, no row."""
    if not candidate.expected:
        return None
    column, tree, pair = (amount(candidate.expected.get(key), 1e9) for key in ("column", "tree", "pair"))
    return Expected(column=column, pair=tree, typical_pair=pair)
