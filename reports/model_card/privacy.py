"""The privacy statement of a card: what is promised of all that leaves together, and what an audit made of it.

The number that leads is the one that is true of what leaves the building: where numbers are published about the table,
or it is one of several, its fit alone claims less than whoever receives it may learn. See `evaluate.gate.claim`.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from evaluate.audit_result import EXCEEDS
from evaluate.gate.claim import Claims, Composition, made_here
from evaluate.gate.protection import Protection, protection_of
from evaluate.plain_data import mapping, texts
from evaluate.result import Candidate, Evaluation
from evaluate.text import amount
from reports.books import Books, books_of
from reports.model_card import words
from reports.model_card.audit import audit_of
from reports.model_card.mechanisms import dp_sgd_of, mechanisms_of, spending_of
from reports.model_card.shape import (
    AuditSummary,
    Composed,
    Form,
    Grouped,
    LedgerPosition,
    NoPromise,
    Promise,
    Standing,
    Tested,
)
from reports.provenance import UNVERIFIED
from synth.dp.statement import RELATIONS

RDP = "RDP (dp-accounting)"
DOUBTS = {"disputed": words.DISPUTED, "unverified": UNVERIFIED}
"""What is said before the claim of a statement that is not void."""


def privacy_of(evaluation: Evaluation, candidate: Candidate, form: Form) -> Promise | NoPromise:
    """What a table promises; its statement may come from anyone and hold anything.

    Args:
        evaluation: says what was drawn beside the table; of it, only what was said before any real row was read is
            used.
        candidate: the table.
        form: a public card names neither the ledger's entry nor an audit that ran on anything but a stand-in.

    Raises:
        EvaluationError: what the table comes to with all that counts with it cannot be read.
    """
    claims, stated = Composition.of(evaluation).claims(candidate), candidate.statement
    if not stated:
        return _no_promise(words.NOTHING_BOUNDS)
    n_units = amount(stated.get("n_units"))
    if claims is None or n_units is None:
        return _no_promise(words.UNREADABLE, words.NOTHING_BOUNDS)
    audit, counted = audit_of(candidate, form), claims.counted
    unit, k = str(stated.get("unit", "row")), max(1, int(amount(stated.get("max_rows_per_unit")) or 1))
    status = _standing(void=not counted.private, disputed=_disputed(audit, claims), verified=made_here(evaluation))
    books = books_of(candidate.name, stated, evaluation.provenance.get("ledger"))
    protection = protection_of(evaluation, candidate, claims)
    return Promise(
        status=status,
        in_words=_in_words(status, claims, protection, unit),
        not_covered=words.not_covered(unit, k),
        mechanisms=mechanisms_of(stated, _published(evaluation, candidate)),
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
        neighboring_relation=_relation(stated),
        n_units=int(n_units),
        accountant=str(stated.get("accountant", "not stated")),
        second_accountant=RDP,
        second_epsilon=amount(stated.get("epsilon_rdp")),
        dp_sgd=dp_sgd_of(stated, candidate.generator),
        spending=spending_of(books, stated),
        ledger=_ledger(books, form),
        ledger_in_words=words.OUTSIDE_LEDGER if books.ledger is None else words.IN_LEDGER,
        caveats=(*texts(stated.get("caveats")), *_remarks(evaluation)),
        audit=audit,
    )


def _no_promise(*in_words: str) -> NoPromise:
    return NoPromise(status="none", in_words=in_words, not_covered=words.NOT_COVERED_BY_NONE)


def _disputed(audit: AuditSummary, claims: Claims) -> bool:
    return audit.outcome == EXCEEDS or claims.counted.disputed > 0


def _standing(*, void: bool, disputed: bool, verified: bool) -> Standing:
    if void or disputed:
        return "void" if void else "disputed"
    return "formal" if verified else "unverified"


def _in_words(status: Standing, claims: Claims, protection: Protection, unit: str) -> tuple[str, ...]:
    """What is promised, with what it is made of; of a void statement nothing is."""
    if status == "void":
        return (words.VOID,)
    counted = claims.counted
    said = words.promised(protection, unit, words.SEEN[counted.of])
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


def _published(evaluation: Evaluation, candidate: Candidate) -> Mapping[str, Any]:
    """The statement of the numbers that are published about a table; empty where there are none."""
    found = mapping(evaluation.provenance.get("public_report"))
    return mapping(found.get("statement")) if found.get("table") == candidate.name else {}


def _relation(stated: Mapping[str, Any]) -> str:
    relation = str(stated.get("relation", "not stated"))
    return f"{relation}. {RELATIONS[relation]}" if relation in RELATIONS else relation


def _ledger(books: Books, form: Form) -> LedgerPosition | None:
    # The entry is a hash over a keyed fingerprint of the real table, among others: it stays inside.
    held, inside = books.ledger, form == "internal"
    if held is None:
        return None
    return LedgerPosition(
        dataset=str(held["dataset"]),
        unit=str(held["unit"]),
        moment=str(books.moment),
        epsilon=amount(held["epsilon"]),
        spent_epsilon=amount(held["spent_epsilon"]),
        left_epsilon=books.left,
        total_epsilon=amount(held["total_epsilon"]),
        total_delta=amount(held["total_delta"]),
        reservation=str(held["reservation"]) if inside else None,
        entry=str(held["entry"]) if inside else None,
    )


def _remarks(evaluation: Evaluation) -> tuple[str, ...]:
    """What its statement cannot say of a table: what else was fitted, and that nobody saw where it came from."""
    n_private = sum(bool(one.statement) for one in evaluation.candidates)
    several = (words.of_several(n_private),) if n_private > 1 else ()
    return several if made_here(evaluation) else (*several, UNVERIFIED)
