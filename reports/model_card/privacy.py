"""The privacy statement of a card: the promise of all that leaves together, its mechanisms, and its audit.

The number that leads is the one that is true of what leaves the building. Where numbers are published about the table,
or it is one of several, its recipient may learn more than its fit alone claims. See `evaluate.gate.claim`.
Mechanisms are those by which a fit read the real table, with their noise and their cost.
"""

import math
from collections.abc import Iterator, Sequence

from evaluate.audit_result import EXCEEDS, NO_FAULT, TOO_WEAK
from evaluate.gate.claim import Claims, claims_of, made_here, on_stand_in
from evaluate.gate.protection import Protection, protection_of
from evaluate.result import Candidate, Evaluation, GeneratorRecord
from evaluate.text import plain
from reports.audits import DECIMALS, LONGEST, MOST_EVENTS, audit_note
from reports.model_card import wording
from reports.model_card.schema import (
    AuditOutcome,
    AuditSummary,
    Composed,
    DpSgd,
    Form,
    Grouped,
    LedgerPosition,
    NoPromise,
    Promise,
    Spending,
    Standing,
    Tested,
)
from reports.sections.limitations import AUDIT_FAILED, NOT_AUDITED, audit_failed
from reports.sections.privacy_budget import BudgetTable, books_of
from reports.sections.provenance import UNVERIFIED
from synth.dp.statement import IN_LEDGER, RELATIONS, PrivacyStatement, trust_words

STEPS = "Poisson-subsampled Gaussian"
MECHANISMS = {
    "Gaussian": "Gaussian mechanism",
    "Laplace": "Laplace mechanism",
    "exponential": "exponential mechanism",
    STEPS: "DP-SGD (Poisson-subsampled Gaussian mechanism)",
}


def mechanisms_of(*statements: PrivacyStatement) -> tuple[str, ...]:
    named = (event.mechanism for stated in statements for event in stated.events)
    return tuple(dict.fromkeys(MECHANISMS.get(one, one) for one in named))


def noise_multiplier(stated: PrivacyStatement) -> float | None:
    """Noise in units of what one unit can move: of DP-SGD's steps, else the least of all Gaussian releases."""
    steps = [event.noise["noise_multiplier"] for event in stated.events if event.mechanism == STEPS]
    gaussian = [event.noise for event in stated.events if event.mechanism == "Gaussian"]
    return min(steps or [noise["sigma"] / noise["sensitivity"] for noise in gaussian], default=None)


def dp_sgd_of(stated: PrivacyStatement, generator: GeneratorRecord | None) -> DpSgd | None:
    """The parameters of training by DP-SGD; `None` where there was no such training."""
    event = next((one for one in stated.events if one.mechanism == STEPS), None)
    if event is None:
        return None
    norm = None if generator is None else generator.parameters.get("max_grad_norm")
    return DpSgd(
        noise_multiplier=event.noise["noise_multiplier"],
        sampling_rate=event.noise["sampling_rate"],
        steps=event.count,
        clipping_norm=norm if isinstance(norm, int | float) else None,
    )


def spending_of(books: BudgetTable, stated: PrivacyStatement) -> tuple[Spending, ...]:
    return tuple(
        Spending(
            what=line.what, mechanism=line.mechanism, noise=line.noise, times=event.count, rho=line.rho,
            share=line.share, delta=line.delta,
        )
        for line, event in zip(books.lines, stated.events, strict=True)
    )  # fmt: skip


def audit_of(candidate: Candidate, form: Form) -> AuditSummary:
    note, found = audit_note(candidate), candidate.audit
    if found is None or note is None:
        failed = audit_failed(candidate)
        return _no_audit("no result" if failed else "not audited", AUDIT_FAILED if failed else NOT_AUDITED)
    if form == "to-hand-on" and not on_stand_in(found):
        return _no_audit("not audited", "No audit ran on a public stand-in.")
    return AuditSummary(
        outcome={EXCEEDS: EXCEEDS, TOO_WEAK: TOO_WEAK}.get(found.verdict, NO_FAULT),
        lower_bound=math.floor(10**DECIMALS * found.bound) / 10**DECIMALS,
        strongest=found.strongest,
        confidence=found.confidence,
        n_trials=found.n_trials,
        half_noise=found.weakest,
        covered=_named(found.covered),
        not_covered=_named(found.not_covered),
        in_words=tuple(
            said for said in (note.sentence, note.reading, note.power, note.evidence, *note.checks, note.scope) if said
        ),
        cannot_see=wording.NOT_SEEN,
    )


def _named(events: Sequence[str]) -> tuple[str, ...]:
    """Names that may come from anyone, as a card shows them."""
    return tuple(plain(event, LONGEST) for event in events[:MOST_EVENTS])


def _no_audit(outcome: AuditOutcome, sentence: str) -> AuditSummary:
    return AuditSummary(
        outcome=outcome, lower_bound=None, strongest=None, confidence=None, n_trials=None,
        half_noise=None, covered=(), not_covered=(), in_words=(sentence,),
        cannot_see=wording.NOT_SEEN,
    )  # fmt: skip


RDP = "RDP (dp-accounting)"
DOUBTS = {"disputed": wording.DISPUTED, "unverified": UNVERIFIED}
"""Sentences before the claim of a statement that is not void."""


def privacy_of(evaluation: Evaluation, candidate: Candidate, form: Form) -> Promise | NoPromise:
    claims, stated = claims_of(evaluation, candidate), candidate.statement
    if stated is None or claims is None:
        return _no_promise(wording.NOTHING_BOUNDS)
    audit, counted = audit_of(candidate, form), claims.counted
    unit, k = stated.unit, stated.max_rows_per_unit
    status = _standing(evaluation, audit, claims)
    books = books_of(candidate.name, stated, evaluation.provenance.ledger)
    protection = protection_of(evaluation, candidate, claims)
    relation = stated.relation
    return Promise(
        status=status,
        in_words=_in_words(status, claims, protection, unit),
        not_covered=wording.not_covered(unit, k),
        mechanisms=mechanisms_of(stated, *_published(evaluation, candidate)),
        epsilon=counted.epsilon,
        delta=counted.delta,
        claim_of=counted.what,
        tests=() if status == "void" else tuple(_tests(protection)),
        groups=() if status == "void" else tuple(_groups(protection)),
        composition=tuple(
            Composed(of=one.of, what=one.what, releases=one.n_releases, epsilon=one.epsilon, delta=one.delta)
            for one in claims.all
        ),
        unit=unit,
        max_rows_per_unit=k,
        neighboring_relation=f"{relation}. {RELATIONS[relation]}" if relation in RELATIONS else relation,
        trust_model=f"{stated.trust}. {trust_words()[stated.trust]}",
        n_units=stated.n_units,
        accountant=stated.accountant,
        second_accountant=RDP,
        second_epsilon=stated.epsilon_rdp,
        dp_sgd=dp_sgd_of(stated, candidate.generator),
        spending=spending_of(books, stated),
        ledger=_ledger(books, form),
        ledger_in_words=wording.OUTSIDE_LEDGER if books.ledger is None else IN_LEDGER,
        caveats=(*stated.caveats, *_remarks(evaluation)),
        audit=audit,
    )


def _no_promise(*in_words: str) -> NoPromise:
    return NoPromise(status="none", in_words=in_words, not_covered=wording.NOT_COVERED_BY_NONE)


def _disputed(audit: AuditSummary, claims: Claims) -> bool:
    return audit.outcome == EXCEEDS or claims.counted.disputed > 0


def standing_of(evaluation: Evaluation, candidate: Candidate, claims: Claims) -> Standing:
    return _standing(evaluation, audit_of(candidate, "internal"), claims)


def _standing(evaluation: Evaluation, audit: AuditSummary, claims: Claims) -> Standing:
    if not claims.counted.private:
        return "void"
    if _disputed(audit, claims):
        return "disputed"
    return "formal" if made_here(evaluation) else "unverified"


def _in_words(status: Standing, claims: Claims, protection: Protection, unit: str) -> tuple[str, ...]:
    """The sentences of a promise, with its composition; of a void statement nothing is promised."""
    if status == "void":
        return (wording.VOID,)
    counted = claims.counted
    said = wording.promised(protection, unit, wording.SEEN[counted.of])
    made_of = tuple(one for one in (claims.reading, claims.price_of_choice) if one)
    if status in DOUBTS:
        of_others = status == "disputed" and counted != claims.alone and not claims.alone.disputed
        return (counted.doubt if of_others else DOUBTS[status], *(f"Claimed: {one}" for one in said), *made_of)
    return (*said, *made_of)


def _tests(protection: Protection) -> Iterator[Tested]:
    """Detections are rounded up, as every limit is."""
    for rate, most in protection.detections:
        yield Tested(false_alarms=rate, detections=min(1.0, math.ceil(1e6 * most) / 1e6))


def _groups(protection: Protection) -> Iterator[Grouped]:
    for n_units, epsilon in protection.groups:
        yield Grouped(units=n_units, epsilon=epsilon if math.isfinite(epsilon) else None)


def _published(evaluation: Evaluation, candidate: Candidate) -> tuple[PrivacyStatement, ...]:
    """The statement of the numbers that are published about a table; empty where there are none."""
    found = evaluation.provenance.released_numbers
    return (found.statement,) if found is not None and found.table == candidate.name else ()


def _ledger(books: BudgetTable, form: Form) -> LedgerPosition | None:
    # The entry is a hash over a keyed fingerprint of the real table, among others: it stays inside.
    held, inside = books.ledger, form == "internal"
    if held is None:
        return None
    return LedgerPosition(
        dataset=held.dataset,
        unit=held.unit,
        moment=str(books.moment),
        epsilon=held.epsilon,
        spent_epsilon=held.spent_epsilon,
        left_epsilon=books.left,
        total_epsilon=held.total_epsilon,
        total_delta=held.total_delta,
        reservation=held.reservation if inside else None,
        entry=held.entry if inside else None,
    )


def _remarks(evaluation: Evaluation) -> tuple[str, ...]:
    """Caveats beside a statement: other fits of the run, and an origin that nobody saw."""
    n_private = sum(one.statement is not None for one in evaluation.candidates)
    several = (wording.of_several(n_private),) if n_private > 1 else ()
    return several if made_here(evaluation) else (*several, UNVERIFIED)
