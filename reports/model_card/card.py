"""One synthetic table's model card, composed of what its evaluation, its job and its file say.

Every card says where the table came from and how it was made. Only the internal one holds what was computed from real
rows.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from evaluate.gate.verdict import Verdict
from evaluate.provenance import Provenance
from evaluate.result import Candidate, Estimate, Evaluation, GeneratorRecord
from reports.document import TITLE
from reports.glossary import entry, key_figures
from reports.model_card import wording
from reports.model_card.privacy import privacy_of
from reports.model_card.schema import (
    CARD_VERSION,
    Expected,
    Figure,
    Form,
    InternalCard,
    Made,
    Measured,
    NoPromise,
    Promise,
    PublicCard,
    Ruled,
    Table,
    Trained,
    Use,
)
from reports.sections.limitations import evaluations_of, left_out, limits_of, warnings_of
from reports.sections.sweep import is_releasable
from synth.errors import BadInput, nearest
from synth.schema import Schema
from synth.usage_terms import Terms


def task_of(schema: Schema, form: Form) -> str | None:
    """The task on the target; an inferred schema has kinds that were read off the real table."""
    if schema.target is None or (form == "to-hand-on" and schema.status != "declared"):
        return None
    return "tabular-classification" if schema.columns[schema.target].is_categorical else "tabular-regression"


def trained_of(
    evaluation: Evaluation, privacy: Promise | NoPromise, holdout_share: float | None, form: Form
) -> Trained:  # fmt: skip
    """The training table of a card, without a count of real rows in public."""
    schema = evaluation.schema
    declared, n, counted_in = schema.status == "declared", schema.n_units, "declared units, those held out included"
    if isinstance(privacy, Promise):
        n = privacy.n_units
    elif form == "internal":
        n, counted_in = _two_digits(evaluation.real.train_rows), "training rows, rounded to two digits"
    elif not declared:
        n = None
    return Trained(
        dataset=schema.dataset if declared else None,
        n=n,
        counted_in="not stated" if n is None else counted_in,
        holdout_share=holdout_share,
    )


def made_of(candidate: Candidate, known: Provenance, privacy: Promise | NoPromise, form: Form) -> Made:
    """By which generator it was made; in public without the seed, and without the machine."""
    made = candidate.generator or GeneratorRecord("unknown")
    secure = isinstance(privacy, Promise) and privacy.status != "void"
    seed, said = known.seed, wording.SEED_OF_SAMPLING if secure else wording.SEED_OF_ALL
    if form == "to-hand-on":
        seed, said = None, wording.SEED_KEPT_BACK
    elif seed is None:
        said = wording.SEED_UNKNOWN
    hidden = ("platform",) if form == "to-hand-on" else ()
    return Made(
        generator=made.name,
        parameters=dict(made.parameters),
        seed=seed,
        seed_in_words=said,
        run_id=known.run_id,
        versions={name: version for name, version in known.versions.items() if name not in hidden},
    )


def _two_digits(n: int) -> int:
    """A count that names no single row.

    >>> _two_digits(39074), _two_digits(7)
    (39000, 7)
    """
    step = 10 ** max(0, math.floor(math.log10(max(n, 1))) - 1)
    return int(round(n / step) * step)


def measured_of(evaluation: Evaluation, candidate: Candidate, verdicts: Iterable[Verdict]) -> Measured:
    """The measured part of an internal card, nothing of which is in one to hand on. `evaluation`: *Sensitive*: it was
    measured on real rows.
    """
    found = [candidate.find(measure) for measure in key_figures()]
    return Measured(
        figures=tuple(_figure(one) for one in found if isinstance(one, Estimate)),
        not_measured=tuple(dict.fromkeys(failure.measure for failure in candidate.failures)),
        limits=limits_of(candidate, evaluation.real.shift.notes).power,
        warnings=warnings_of(evaluation),
        verdicts=tuple(
            Ruled(policy=v.policy, version=v.version, audience=v.audience, verdict=v.verdict)
            for v in verdicts
            if v.candidate == candidate.name
        ),
    )


def _figure(found: Estimate) -> Figure:
    return Figure(
        measure=found.measure,
        title=entry(found.measure).title,
        value=found.value,
        low=found.low,
        high=found.high,
        fresh_sample=found.reference,
    )


class CardError(BadInput):
    """There is nothing to make a card of; none was made."""


@dataclass(frozen=True)
class CardFacts:
    """The facts of a card that no evaluation knows; all of them public."""

    made_on: date
    terms: Terms = field(default_factory=Terms)
    file: str | None = None
    n_rows: int | None = None
    n_columns: int | None = None
    holdout_share: float | None = None


def internal_card(
    evaluation: Evaluation, name: str, facts: CardFacts, verdicts: Iterable[Verdict] = ()
) -> InternalCard:  # fmt: skip
    """The card for whoever may see numbers computed from real rows. `evaluation`: *Sensitive*: it was measured on real
    rows.
    """
    candidate = _found(evaluation, name)
    return InternalCard(
        **_shared(evaluation, candidate, facts, "internal"),
        form="internal",
        notice=wording.INTERNAL,
        measured=measured_of(evaluation, candidate, verdicts),
    )


def public_card(evaluation: Evaluation, name: str, facts: CardFacts) -> PublicCard:
    """The card for anyone: statement, job, declared schema, the synthetic table's own facts, nothing measured."""
    candidate = _found(evaluation, name)
    known = _shared(evaluation, candidate, facts, "to-hand-on")
    notice = wording.PUBLIC if known["privacy"].status == "formal" else wording.PUBLIC_UNBOUND
    return PublicCard(**known, form="to-hand-on", notice=notice)


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
    """The part of both forms. Of the evaluation, a card to hand on may read facts that no real row decided."""
    known = evaluation.provenance
    privacy = privacy_of(evaluation, candidate, form)
    n = evaluations_of(known, by_name=form == "to-hand-on")
    found = candidate.expected  # by public facts: schema, budget and plan, no row
    return {
        "card_version": CARD_VERSION,
        "title": facts.terms.pretty_name or known.job or TITLE,
        "name": candidate.name,
        "made_on": facts.made_on,
        "privacy": privacy,
        "table": Table(
            file=facts.file,
            n_rows=facts.n_rows,
            n_columns=facts.n_columns,
            task=task_of(evaluation.schema, form),
            # A schema that is not declared was read off the real table.
            left_out=(
                () if form == "to-hand-on" and evaluation.schema.status != "declared" else left_out(evaluation.schema)
            ),
        ),
        "trained": trained_of(evaluation, privacy, facts.holdout_share, form),
        "made": made_of(candidate, known, privacy, form),
        "use": _use(facts.terms, privacy),
        "expected": None if found is None else Expected(column=found.column, pair=found.tree, typical_pair=found.pair),
        "evaluations": n,
        "evaluations_in_words": wording.evaluations_in_words(n, form),
    }


def _use(terms: Terms, privacy: Promise | NoPromise) -> Use:
    formal = isinstance(privacy, Promise) and privacy.status == "formal"
    tags = ("synthetic", "tabular", "differential-privacy" if formal else "no-formal-guarantee", *terms.tags)
    return Use(
        intended=terms.intended_use or wording.INTENDED,
        prohibited=(*terms.prohibited_use, *wording.PROHIBITED, *(() if formal else wording.NO_ANONYMITY)),
        license=terms.license or "unknown",
        license_in_words=terms.license or wording.NO_LICENSE,
        contact=terms.contact,
        citation=terms.citation,
        language=terms.language,
        tags=tuple(dict.fromkeys(tags)),
    )
