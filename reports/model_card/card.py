"""One synthetic table's model card, composed of what its evaluation, its job and its file say.

Every card says where the table came from and how it was made. Only the internal one holds what was computed from real
rows. The epsilon that leads is true of what leaves the building, see `evaluate.gate.claim`.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any, cast

from evaluate.gate.claim import Claims, Of, Protection, claims_of, made_here, named, on_stand_in, protection_of
from evaluate.gate.verdict import Verdict
from evaluate.result import Candidate, Estimate, Evaluation, GeneratorRecord
from evaluate.text import plain
from reports.document import TITLE
from reports.glossary import key_figures
from reports.guarantee import (
    DECIMALS,
    LONGEST,
    MOST_EVENTS,
    STEPS,
    BudgetTable,
    Standing,
    audit_note,
    books_of,
    standing_of,
)
from reports.model_card import schema as parts
from reports.sections.comparison import is_releasable
from reports.sections.limitations import (
    AUDIT_FAILED,
    NOT_AUDITED,
    UNVERIFIED,
    audit_failed,
    evaluations_of,
    left_out,
    limits_of,
    warnings_of,
)
from synth.dp.statement import RELATIONS, PrivacyStatement, trust_words
from synth.errors import BadInput, nearest
from synth.schema import Schema
from synth.usage_terms import Terms

INTERNAL = (
    "Internal: this card holds numbers computed from real rows, outside any privacy guarantee. Do not pass it on; its "
    "form to hand on holds none."
)
PUBLIC = (
    "The rows of this table are synthetic: they were drawn from a model, and none is meant as an observation. Nothing "
    "that this card says was computed from real rows."
)
PUBLIC_UNBOUND = (
    "Nothing was measured on real rows to make this card. What the table itself shows, its number of rows too, may "
    "come from real rows: no guarantee that holds bounds that."
)
NOTHING_BOUNDS = (
    "This table comes with no formal guarantee: nothing bounds what it reveals about a single unit of the real table. "
    "Attacks that found nothing are no proof that there is nothing to find."
)
VOID = (
    "VOID: the noise was not drawn from a secure source. There is no formal guarantee, whatever epsilon says, and the "
    "table must not be released on the strength of it."
)
DISPUTED = (
    "DISPUTED: an audit has shown a larger epsilon than is claimed. The claim is false and must not be relied on until "
    "the fault is found."
)
_OTHERS = (
    "What is true of people in general. Whoever learns from this table that one thing goes with another can apply it "
    "to anyone, in the real table or not.",
    "Whatever else reads the real table: the evaluation, its report, and the decision to publish because both looked "
    "good. Other releases of the same table add to epsilon.",
    "What the schema declares: columns, bounds and categories are taken to be public.",
    "Leaks around the computation, such as by its duration, by memory or by stolen files.",
)
NOT_COVERED_BY_NONE = (
    "Everything: membership of a person in the real table, single values, whole rows and combinations of them may "
    "show, above all of those who are unlike others.",
    "Whether this is personal data under the law that applies has to be assessed for this table, as for the real one.",
)

INTENDED = (
    "Developing, testing and demonstrating software, pipelines and queries on rows that have the shape of real ones.",
    "Teaching, and exploration whose every finding is confirmed on the real table before anybody relies on it.",
)
PROHIBITED = (
    "Trying to find, single out or contact a person, household or organization; to infer whether one was in the real "
    "table, or what it says of one; or linking rows with other data to that end. Security research agreed with the "
    "contact is exempt.",
    "Decisions with legal or similarly significant effects on a person (as on credit, insurance, employment, housing, "
    "education, health care, benefits, migration or law enforcement) that rest on these rows, or on a model trained on "
    "them, without validation on real data by somebody accountable for it.",
    "Presenting rows, or figures computed from them, as observations, official statistics or evidence, or passing them "
    "on without saying that they are synthetic.",
    "Passing the table on without this card, or against its license or the law that applies.",
)
NO_ANONYMITY = (
    "Treating the table as anonymous, or handing it to others as such, on the strength of this card: it gives no "
    "formal guarantee.",
)
NO_LICENSE = "None is stated: without one, nobody but its owner has any right to use the table."

SEED_OF_SAMPLING = (
    "Of sampling, which reads the released model only. It reaches no noise: that is drawn from the operating system's "
    "secure source, by no seed."
)
SEED_KEPT_BACK = (
    "Kept back: the seed names the split, too, and of a fit without noise it would let whoever knows all rows but one "
    "fit again and confirm the last."
)
SEED_OF_ALL = "Of every draw of fit and sampling."
SEED_UNKNOWN = "Not stated."
NOT_SEEN = (
    "An audit finds faults of the kinds that it names, and is no evidence that the claim is true. What it does not "
    "look at stands beside it; what this table alone would bring out is never a part of it."
)
UNCOUNTED = (
    "How many evaluations read the real data is unknown: none were counted under a declared name. Published figures "
    "of a real table answer queries to it, so that each further one tells more."
)
UNKNOWN_EVALUATIONS = (
    "How many evaluations read the real table is unknown. Published figures of a real table answer queries to it, so "
    "that each further one tells more."
)


def of_several(n: int) -> str:
    return (
        f"This is one of {n:,} private fits that were evaluated together. Each is a release of its own, and they "
        "compose: whoever picks the best of them has looked at all."
    )


def evaluations_in_words(n: int | None, form: parts.Form) -> str:
    if n is None:
        return UNCOUNTED if form == "to-hand-on" else UNKNOWN_EVALUATIONS
    runs = "1 evaluation" if n == 1 else f"{n:,} evaluations"
    counted = "have read the real table" if n > 1 else "has read the real table"
    if form == "to-hand-on":
        counted = f"{'were' if n > 1 else 'was'} counted under the dataset's declared name"
    return f"{runs} {counted} so far, this one included. Choosing among them is outside the guarantee."


SEEN: Mapping[Of, str] = {
    "fit": "this table",
    "published": "this table and the numbers published about it",
    **dict.fromkeys(("sweep", "run", "sum"), "this table, with all that it may have been picked from,"),
}
"""The releases that a claim covers, by the subject of the claim."""


def not_covered(unit: str, most_rows: int) -> tuple[str, ...]:
    of_many = "Several rows of one person, family or organization as well as one row: the unit is one row."
    if unit != "row":
        of_many = (
            f"Groups as well as single ones: the unit is all that one {named(unit)} holds, of which {most_rows} "
            f"{'row' if most_rows == 1 else 'rows'} at most were used."
        )
    return (of_many, *_OTHERS)


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
) -> parts.InternalCard:  # fmt: skip
    """The card for whoever may see numbers computed from real rows. `evaluation`: *Sensitive*: it was measured on real
    rows.
    """
    candidate = _candidate(evaluation, name)
    figures = [candidate.find(measure) for measure in key_figures()]
    measured = parts.Measured(
        figures=tuple(figure for figure in figures if isinstance(figure, Estimate)),
        not_measured=tuple(dict.fromkeys(failure.measure for failure in candidate.failures)),
        limits=limits_of(candidate, evaluation.real.shift.notes),
        warnings=warnings_of(evaluation),
        verdicts=tuple(
            parts.Ruled(policy=v.policy, version=v.version, audience=v.audience, verdict=v.verdict)
            for v in verdicts
            if v.candidate == name
        ),
    )
    shared = _shared(evaluation, candidate, facts, "internal")
    return parts.InternalCard(**shared, form="internal", notice=INTERNAL, measured=measured)


def public_card(evaluation: Evaluation, name: str, facts: CardFacts) -> parts.PublicCard:
    """The card for anyone: statement, job, declared schema, the synthetic table's own facts, nothing measured."""
    shared = _shared(evaluation, _candidate(evaluation, name), facts, "to-hand-on")
    notice = PUBLIC if shared["privacy"].status == "formal" else PUBLIC_UNBOUND
    return parts.PublicCard(**shared, form="to-hand-on", notice=notice)


def _candidate(evaluation: Evaluation, name: str) -> Candidate:
    names = [candidate.name for candidate in evaluation.candidates]
    if name not in names:
        raise CardError(f"candidate={name!r} is not in the evaluation; {nearest(name, names)}")
    if not is_releasable(evaluation):
        raise CardError(
            f"candidate={name!r} is of a sweep that nobody pays for, so that none of its tables may be handed on and "
            "none has a card; run the sweep with a ledger"
        )
    return evaluation.candidates[names.index(name)]


def _shared(evaluation: Evaluation, candidate: Candidate, facts: CardFacts, form: parts.Form) -> dict[str, Any]:
    """The part of both forms. Of the evaluation, a card to hand on may read facts that no real row decided."""
    known, schema, public = evaluation.provenance, evaluation.schema, form == "to-hand-on"
    tells_schema = schema.status == "declared" or not public  # any other schema was read off the real table
    privacy = privacy_of(evaluation, candidate, form)
    n = evaluations_of(known, by_name=public)
    return {
        "card_version": parts.CARD_VERSION,
        "title": facts.terms.pretty_name or known.job or TITLE,
        "name": candidate.name,
        "made_on": facts.made_on,
        "privacy": privacy,
        "table": parts.Table(
            file=facts.file,
            n_rows=facts.n_rows,
            n_columns=facts.n_columns,
            task=_task(schema) if tells_schema else None,
            left_out=left_out(schema) if tells_schema else (),
        ),
        "trained": _trained(evaluation, privacy, facts.holdout_share, form),
        "made": _made(evaluation, candidate, privacy, form),
        "use": _use(facts.terms, privacy),
        "expected": candidate.expected,  # by public facts: schema, budget and plan, no row
        "evaluations": n,
        "evaluations_in_words": evaluations_in_words(n, form),
    }


def _task(schema: Schema) -> str | None:
    if schema.target is None:
        return None
    return "tabular-classification" if schema.columns[schema.target].is_categorical else "tabular-regression"


def _trained(
    evaluation: Evaluation, privacy: parts.Promise | parts.NoPromise, holdout_share: float | None, form: parts.Form
) -> parts.Trained:  # fmt: skip
    """The training table of a card, without a count of real rows in public."""
    schema = evaluation.schema
    declared, n, counted_in = schema.status == "declared", schema.n_units, "declared units, those held out included"
    if isinstance(privacy, parts.Promise):
        n = privacy.n_units
    elif form == "internal":
        n, counted_in = _two_digits(evaluation.real.train_rows), "training rows, rounded to two digits"
    elif not declared:
        n = None
    return parts.Trained(
        dataset=schema.dataset if declared else None,
        n=n,
        counted_in="not stated" if n is None else counted_in,
        holdout_share=holdout_share,
    )


def _two_digits(n: int) -> int:
    """A count that names no single row.

    >>> _two_digits(39074), _two_digits(7)
    (39000, 7)
    """
    step = 10 ** max(0, math.floor(math.log10(max(n, 1))) - 1)
    return int(round(n / step) * step)


def _made(
    evaluation: Evaluation, candidate: Candidate, privacy: parts.Promise | parts.NoPromise, form: parts.Form
) -> parts.Made:
    """By which generator it was made; in public without the seed, and without the machine."""
    known, generator = evaluation.provenance, candidate.generator or GeneratorRecord("unknown")
    secure, public = isinstance(privacy, parts.Promise) and privacy.status != "void", form == "to-hand-on"
    words = SEED_OF_SAMPLING if secure else SEED_OF_ALL
    if known.seed is None or public:
        words = SEED_KEPT_BACK if public else SEED_UNKNOWN
    return parts.Made(
        generator=generator.name,
        parameters=dict(generator.parameters),
        seed=None if public else known.seed,
        seed_in_words=words,
        run_id=known.run_id,
        versions={name: version for name, version in known.versions.items() if not (public and name == "platform")},
    )


def _use(terms: Terms, privacy: parts.Promise | parts.NoPromise) -> parts.Use:
    formal = privacy.status == "formal"
    tags = ("synthetic", "tabular", "differential-privacy" if formal else "no-formal-guarantee", *terms.tags)
    return parts.Use(
        intended=terms.intended_use or INTENDED,
        prohibited=(*terms.prohibited_use, *PROHIBITED, *(() if formal else NO_ANONYMITY)),
        license=terms.license or "unknown",
        contact=terms.contact,
        citation=terms.citation,
        language=terms.language,
        tags=tuple(dict.fromkeys(tags)),
    )


MECHANISMS = {
    "Gaussian": "Gaussian mechanism",
    "Laplace": "Laplace mechanism",
    "exponential": "exponential mechanism",
    STEPS: "DP-SGD (Poisson-subsampled Gaussian mechanism)",
}


def privacy_of(evaluation: Evaluation, candidate: Candidate, form: parts.Form) -> parts.Promise | parts.NoPromise:
    """The promise of all that leaves together; mechanisms, spending and audit are of the fit."""
    claims, stated, public = claims_of(evaluation, candidate), candidate.statement, form == "to-hand-on"
    status = standing_of(evaluation, candidate, claims, public=public)
    if stated is None or claims is None or status is None:
        return parts.NoPromise(
            status="none", in_words=(NOTHING_BOUNDS,), not_covered=NOT_COVERED_BY_NONE
        )  # fmt: skip
    numbers = evaluation.provenance.released_numbers
    published = (numbers.statement,) if numbers is not None and numbers.table == candidate.name else ()
    mechanisms = [event.mechanism for each in (stated, *published) for event in each.events]
    books = books_of(candidate.name, stated, evaluation.provenance.ledger)
    protection, relation = protection_of(evaluation, candidate, claims), stated.relation
    detections, groups = (protection.detections, protection.groups) if status != "void" else ((), ())
    n_private = sum(each.statement is not None for each in evaluation.candidates)
    remarks = (of_several(n_private),) if n_private > 1 else ()
    return parts.Promise(
        status=status,
        in_words=_in_words(status, claims, protection, stated.unit),
        not_covered=not_covered(stated.unit, stated.max_rows_per_unit),
        mechanisms=tuple(dict.fromkeys(MECHANISMS.get(mechanism, mechanism) for mechanism in mechanisms)),
        epsilon=claims.counted.epsilon,
        delta=claims.counted.delta,
        claim_of=claims.counted.what,
        # Detections are rounded up, as every limit is.
        tests=tuple(
            parts.Tested(false_alarms=rate, detections=min(1.0, math.ceil(1e6 * most) / 1e6))
            for rate, most in detections
        ),
        groups=tuple(parts.Grouped(units=n, epsilon=e if math.isfinite(e) else None) for n, e in groups),
        composition=tuple(
            parts.Composed(of=c.scope, what=c.what, releases=c.n_releases, epsilon=c.epsilon, delta=c.delta)
            for c in claims.all
        ),
        unit=stated.unit,
        max_rows_per_unit=stated.max_rows_per_unit,
        relation=f"{relation}. {RELATIONS[relation]}" if relation in RELATIONS else relation,
        trust=f"{stated.trust}. {trust_words()[stated.trust]}",
        n_units=stated.n_units,
        accountant=stated.accountant,
        epsilon_rdp=stated.epsilon_rdp,
        dp_sgd=_dp_sgd(stated, candidate.generator),
        spending=books.lines,
        ledger=_ledger(books, public=public),
        caveats=(*stated.caveats, *remarks, *(() if made_here(evaluation) else (UNVERIFIED,))),
        audit=_audit(candidate, public=public),
    )


def _in_words(status: Standing, claims: Claims, protection: Protection, unit: str) -> tuple[str, ...]:
    """The sentences of a promise, with its composition; of a void statement nothing is promised."""
    if status == "void":
        return (VOID,)
    counted = claims.counted
    seen = SEEN[counted.scope]
    promised = (*protection.tests(unit, seen), *protection.definition(unit, seen), protection.together(unit))
    composed = tuple(sentence for sentence in (claims.reading, claims.price_of_choice) if sentence)
    if status == "formal":
        return (*promised, *composed)
    of_others = status == "disputed" and counted != claims.alone and not claims.alone.disputed
    doubt = UNVERIFIED if status == "unverified" else counted.doubt if of_others else DISPUTED
    return (doubt, *(f"Claimed: {sentence}" for sentence in promised), *composed)


def _dp_sgd(stated: PrivacyStatement, generator: GeneratorRecord | None) -> parts.DpSgd | None:
    """The parameters of training by DP-SGD; `None` where there was no such training."""
    event = next((event for event in stated.events if event.mechanism == STEPS), None)
    if event is None:
        return None
    norm = None if generator is None else generator.parameters.get("max_grad_norm")
    return parts.DpSgd(
        noise_multiplier=event.noise["noise_multiplier"],
        sampling_rate=event.noise["sampling_rate"],
        steps=event.count,
        clipping_norm=norm if isinstance(norm, int | float) else None,
    )


def _ledger(books: BudgetTable, *, public: bool) -> parts.LedgerPosition | None:
    if books.ledger is None:
        return None
    # The entry is a hash over a keyed fingerprint of the real table, among others: it stays inside.
    note = replace(books.ledger, reservation=None, entry=None) if public else books.ledger
    return parts.LedgerPosition(moment=books.moment, note=note, left_epsilon=books.left)


def _audit(candidate: Candidate, *, public: bool) -> parts.AuditSummary:
    note, audit = audit_note(candidate), candidate.audit
    if audit is None or note is None or (public and not on_stand_in(audit)):
        failed = audit_failed(candidate)
        why = AUDIT_FAILED if failed else NOT_AUDITED if audit is None else "No audit ran on a public stand-in."
        return parts.AuditSummary(
            outcome="no result" if failed else "not audited", bound=None, strongest=None, confidence=None,
            n_trials=None, half_noise=None, covered=(), not_covered=(), in_words=(why, NOT_SEEN),
        )  # fmt: skip
    words = (note.sentence, note.reading, note.power, note.evidence, *note.checks, note.scope, NOT_SEEN)
    return parts.AuditSummary(
        outcome=cast("parts.AuditOutcome", audit.verdict),
        bound=math.floor(10**DECIMALS * audit.bound) / 10**DECIMALS,
        strongest=audit.strongest,
        confidence=audit.confidence,
        n_trials=audit.n_trials,
        half_noise=audit.weakest,
        covered=tuple(plain(event, LONGEST) for event in audit.covered[:MOST_EVENTS]),
        not_covered=tuple(plain(event, LONGEST) for event in audit.not_covered[:MOST_EVENTS]),
        in_words=tuple(sentence for sentence in words if sentence),
    )
