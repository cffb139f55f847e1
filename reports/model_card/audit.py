"""What an audit made of a claim, as a card says."""

import math
from collections.abc import Sequence

from evaluate.audit_result import EXCEEDS, NO_FAULT, TOO_WEAK, Audit, AuditError
from evaluate.gate.claim import on_stand_in
from evaluate.result import Candidate
from evaluate.text import plain
from reports.audits import DECIMALS, LONGEST, MOST_EVENTS, audit_note
from reports.limits import AUDIT_FAILED, NOT_AUDITED, audit_failed
from reports.model_card import words
from reports.model_card.shape import AuditOutcome, AuditSummary, Form


def audit_of(candidate: Candidate, form: Form) -> AuditSummary:
    """What an audit found of the mechanism that a table was made by.

    Args:
        candidate: its audit may come from anyone and hold anything.
        form: a public card holds no audit that ran on anything but a public stand-in.
    """
    note = audit_note(candidate)
    if candidate.audit is None or note is None:
        failed = audit_failed(candidate)
        return _no_audit("no result" if failed else "not audited", AUDIT_FAILED if failed else NOT_AUDITED)
    try:
        found = Audit.from_dict(candidate.audit)
    except AuditError:
        return _no_audit("no result", note.sentence)
    if form == "public" and not on_stand_in(found):
        return _no_audit("not audited", "No audit ran on a public stand-in.")
    return AuditSummary(
        outcome={EXCEEDS: EXCEEDS, TOO_WEAK: TOO_WEAK}.get(found.verdict, NO_FAULT),
        lower_bound=math.floor(10**DECIMALS * found.bound) / 10**DECIMALS,
        strongest=found.strongest,
        confidence=found.confidence,
        n_trials=found.n_trials,
        half_noise=found.weakest.half if found.weakest else None,
        noise_shown=found.weakest.share if found.weakest else None,
        covered=_named(found.covered),
        not_covered=_named(found.not_covered),
        in_words=tuple(
            said for said in (note.sentence, note.reading, note.power, note.evidence, *note.checks, note.scope) if said
        ),
        cannot_see=words.NOT_SEEN,
    )


def _named(events: Sequence[str]) -> tuple[str, ...]:
    """Names that may come from anyone, as a card shows them."""
    return tuple(plain(event, LONGEST) for event in events[:MOST_EVENTS])


def _no_audit(outcome: AuditOutcome, sentence: str) -> AuditSummary:
    return AuditSummary(
        outcome=outcome, lower_bound=None, strongest=None, confidence=None, n_trials=None,
        half_noise=None, noise_shown=None, covered=(), not_covered=(), in_words=(sentence,), cannot_see=words.NOT_SEEN,
    )  # fmt: skip
