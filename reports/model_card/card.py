"""One synthetic table's model card, composed of what its evaluation, its job and its file say."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from evaluate.result import Candidate, Evaluation
from evaluate.verdict import Verdict
from reports.attempts import evaluations_of
from reports.document import TITLE
from reports.model_card import words
from reports.model_card.measured import measured_of
from reports.model_card.privacy import privacy_of, together_of
from reports.model_card.shape import (
    CARD_VERSION,
    Expected,
    Form,
    InternalCard,
    Made,
    NoPromise,
    Promise,
    PublicCard,
    Table,
    Trained,
    Use,
)
from reports.plain_data import mapping, whole
from reports.text import amount
from synth.errors import BadInput, nearest
from synth.terms import Terms

_CLASSES = ("boolean", "categorical")
_NUMBERS = ("integer", "real", "weight", "date", "datetime")


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
    """
    candidate = _found(evaluation, name)
    return PublicCard(**_shared(evaluation, candidate, facts, "public"), form="public", notice=words.PUBLIC)


def _found(evaluation: Evaluation, name: str) -> Candidate:
    names = [candidate.name for candidate in evaluation.candidates]
    if name not in names:
        raise CardError(f"candidate={name!r} is not in the evaluation; {nearest(name, names)}")
    return evaluation.candidates[names.index(name)]


def _shared(evaluation: Evaluation, candidate: Candidate, facts: CardFacts, form: Form) -> dict[str, Any]:
    """What both forms hold. Of the evaluation, a public card may read what was said before any real row was."""
    known = evaluation.provenance
    privacy = privacy_of(candidate, form, together_of(evaluation, candidate.name), _remarks(evaluation))
    n = evaluations_of(known, by_name=form == "public")
    return {
        "card_version": CARD_VERSION,
        "title": facts.terms.pretty_name or str(known.get("job") or TITLE),
        "name": candidate.name,
        "made_on": facts.made_on,
        "privacy": privacy,
        "table": Table(
            file=facts.file, n_rows=facts.n_rows, n_columns=facts.n_columns, task=_task(evaluation.schema, form)
        ),
        "trained": _trained(evaluation, privacy, facts.holdout_share, form),
        "made": _made(candidate, known, privacy, form),
        "use": _use(facts.terms, privacy),
        "expected": _expected(candidate),
        "evaluations": n,
        "evaluations_in_words": words.evaluations_in_words(n, form),
    }


def _remarks(evaluation: Evaluation) -> tuple[str, ...]:
    """What its statement cannot say of a table: what else was fitted, and that nobody saw where it came from."""
    n_private = sum(bool(one.statement) for one in evaluation.candidates)
    several = (words.of_several(n_private),) if n_private > 1 else ()
    # A run splits the table itself; whoever offers one brings the two sides.
    return several if evaluation.provenance.get("split") else (*several, words.UNVERIFIED)


def _task(schema: Mapping[str, Any], form: Form) -> str | None:
    """What the target is for; an inferred schema has kinds that were read off the real table."""
    if form == "public" and schema.get("status") != "declared":
        return None
    column = mapping(mapping(schema.get("columns")).get(str(schema.get("target"))))
    kind = column.get("kind")
    return "tabular-classification" if kind in _CLASSES else "tabular-regression" if kind in _NUMBERS else None


def _trained(
    evaluation: Evaluation, privacy: Promise | NoPromise, holdout_share: float | None, form: Form
) -> Trained:  # fmt: skip
    schema = evaluation.schema
    dataset = schema.get("dataset") if schema.get("status") == "declared" else None
    n, counted_in = whole(schema.get("n_units")), "declared units, those held out included"
    if isinstance(privacy, Promise):
        n = privacy.n_units
    elif form == "internal":
        n, counted_in = _two_digits(evaluation.real.get("train_rows")), "training rows, rounded to two digits"
    elif schema.get("status") != "declared":
        n = None
    return Trained(
        dataset=None if dataset is None else str(dataset),
        n=n,
        counted_in="not stated" if n is None else counted_in,
        holdout_share=holdout_share,
    )


def _made(candidate: Candidate, known: Mapping[str, Any], privacy: Promise | NoPromise, form: Form) -> Made:
    specified = dict(candidate.generator)
    secure = isinstance(privacy, Promise) and privacy.status != "void"
    seed, said = whole(known.get("seed")), words.SEED_OF_SAMPLING if secure else words.SEED_OF_ALL
    if form == "public":
        seed, said = None, words.SEED_KEPT_BACK
    elif seed is None:
        said = words.SEED_UNKNOWN
    installed = {str(name): str(version) for name, version in mapping(known.get("versions")).items()}
    if form == "public":
        installed.pop("platform", None)
    return Made(
        generator=str(specified.pop("generator", "unknown")),
        parameters={str(key): _plain(value) for key, value in specified.items()},
        seed=seed,
        seed_in_words=said,
        run_id=None if known.get("run_id") is None else str(known["run_id"]),
        versions=installed,
    )


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


def _two_digits(n: object) -> int | None:
    """A count that names no single row.

    >>> _two_digits(39074), _two_digits(7), _two_digits(None)
    (39000, 7, None)
    """
    known = amount(n)
    if known is None:
        return None
    step = 10 ** max(0, math.floor(math.log10(max(known, 1.0))) - 1)
    return int(round(known / step) * step)


def _plain(value: object) -> Any:
    """A parameter as plain data, whatever it was."""
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if value is None or isinstance(value, bool | int | str):
        return value
    return value if isinstance(value, float) and math.isfinite(value) else str(value)
