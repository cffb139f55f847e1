"""The privacy statement of a card: what was promised, at what cost, and what an audit made of it."""

import math
from collections.abc import Mapping
from typing import Any

from evaluate.privacy.audit.result import EXCEEDS, TOO_WEAK, WITHIN, Audit, AuditError
from evaluate.result import Candidate, Evaluation
from reports.audits import audit_note
from reports.books import BookLine, books_of
from reports.limits import AUDIT_FAILED, NOT_AUDITED, audit_failed
from reports.model_card import words
from reports.model_card.shape import (
    AuditSummary,
    DpSgd,
    Form,
    LedgerPosition,
    NoPromise,
    Promise,
    Spending,
    Standing,
    Together,
)
from reports.plain_data import mapping, mappings, texts
from reports.provenance import UNVERIFIED
from reports.text import amount
from synth.errors import BudgetError

STEPS = "Poisson-subsampled Gaussian"
MECHANISMS = {
    "Gaussian": "Gaussian mechanism",
    "Laplace": "Laplace mechanism",
    "exponential": "exponential mechanism",
    STEPS: "DP-SGD (Poisson-subsampled Gaussian mechanism)",
}
STAND_IN = "public stand-in"
RDP = "RDP (dp-accounting)"
DOUBTS = {"disputed": words.DISPUTED, "unverified": UNVERIFIED}
"""What is said before the claim of a statement that is not void."""
RELATIONS = {"zero-out": "zero-out: one unit is replaced by nothing, its slot kept"}


def privacy_of(
    candidate: Candidate,
    form: Form,
    together: Together | None = None,
    remarks: tuple[str, ...] = (),
    *,
    verified: bool = True,
) -> Promise | NoPromise:
    """What a table promises; its statement may come from anyone and hold anything.

    Args:
        candidate: the table.
        form: a public card names neither the ledger's entry nor an audit that ran on anything but a stand-in.
        together: what it promises with all else that was drawn with it; none where that is all.
        remarks: further caveats.
        verified: whether the run that measured the table made it.
    """
    stated = candidate.statement
    if not stated:
        return NoPromise(status="none", in_words=(words.NOTHING_BOUNDS,), not_covered=words.NOT_COVERED_BY_NONE)
    epsilon, delta, n_units = (amount(stated.get(key)) for key in ("epsilon", "delta", "n_units"))
    if epsilon is None or delta is None or n_units is None:
        in_words = (words.UNREADABLE, words.NOTHING_BOUNDS)
        return NoPromise(status="none", in_words=in_words, not_covered=words.NOT_COVERED_BY_NONE)
    audit = _audit(candidate, form)
    void, disputed = stated.get("private") is not True, audit.outcome == EXCEEDS
    unit, k = str(stated.get("unit", "row")), max(1, int(amount(stated.get("max_rows_per_unit")) or 1))
    said = words.in_odds(epsilon, delta, unit)
    status = _standing(void=void, disputed=disputed, verified=verified)
    if status in DOUBTS:
        said = (DOUBTS[status], *(f"Claimed: {one}" for one in said))
    if void:
        said = (words.VOID,)
    books = books_of(candidate.name, stated)
    return Promise(
        status=status,
        in_words=said,
        not_covered=words.not_covered(unit, k),
        mechanisms=tuple(dict.fromkeys(_mechanism(event) for event in events_of(stated))),
        epsilon=epsilon,
        delta=delta,
        unit=unit,
        max_rows_per_unit=k,
        neighboring_relation=_relation(stated),
        n_units=int(n_units),
        accountant=str(stated.get("accountant", "not stated")),
        second_accountant=RDP,
        second_epsilon=amount(stated.get("epsilon_rdp")),
        dp_sgd=_dp_sgd(stated, candidate.generator),
        spending=tuple(
            _spending(line, event) for line, event in zip(books.lines, events_of(stated), strict=True)
        ),
        ledger=None if books.ledger is None else _ledger(books.ledger, books.left, form),
        ledger_in_words=words.OUTSIDE_LEDGER if books.ledger is None else words.IN_LEDGER,
        together=together,
        caveats=(*_caveats(stated), *remarks),
        audit=audit,
    )  # fmt: skip


def _standing(*, void: bool, disputed: bool, verified: bool) -> Standing:
    if void or disputed:
        return "void" if void else "disputed"
    return "formal" if verified else "unverified"


def events_of(stated: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """The books of a statement, as far as they are any."""
    return mappings(stated.get("events"))


def noise_multiplier(stated: Mapping[str, Any]) -> float | None:
    """Noise in units of what one unit can move: of DP-SGD's steps, else the least of all Gaussian releases.

    >>> noise_multiplier({"events": [{"mechanism": "Gaussian", "noise": {"sigma": 30.0, "sensitivity": 3}}]})
    10.0
    """
    found: dict[str, list[float]] = {STEPS: [], "Gaussian": []}
    for event in events_of(stated):
        noise, kind = event.get("noise"), str(event.get("mechanism"))
        if not isinstance(noise, Mapping) or kind not in found:
            continue
        if kind == STEPS:
            multiplier = amount(noise.get("noise_multiplier"))
        else:
            sigma, moved = amount(noise.get("sigma")), amount(noise.get("sensitivity", 1))
            multiplier = sigma / moved if sigma is not None and moved else None
        found[kind] += [] if multiplier is None else [multiplier]
    return min(found[STEPS] or found["Gaussian"], default=None)


def _mechanism(event: Mapping[str, Any]) -> str:
    named = str(event.get("mechanism"))
    return MECHANISMS.get(named, named)


def _relation(stated: Mapping[str, Any]) -> str:
    relation = str(stated.get("relation", "not stated"))
    return RELATIONS.get(relation, relation)


def _dp_sgd(stated: Mapping[str, Any], generator: Mapping[str, Any]) -> DpSgd | None:
    for event in events_of(stated):
        noise = event.get("noise")
        if event.get("mechanism") != STEPS or not isinstance(noise, Mapping):
            continue
        multiplier, rate, steps = (
            amount(value) for value in (noise.get("noise_multiplier"), noise.get("sampling_rate"), event.get("count"))
        )
        if multiplier is not None and rate is not None and steps is not None:
            clipped = amount(generator.get("max_grad_norm"))
            return DpSgd(noise_multiplier=multiplier, sampling_rate=rate, steps=int(steps), clipping_norm=clipped)
    return None


def _spending(line: BookLine, event: Mapping[str, Any]) -> Spending:
    times = amount(event.get("count"))
    return Spending(
        what=line.what,
        mechanism=line.mechanism,
        noise=line.noise,
        times=None if times is None else int(times),
        rho=line.rho,
        share=line.share,
        delta=line.delta,
    )


def _ledger(held: Mapping[str, Any], left: float | None, form: Form) -> LedgerPosition:
    # The entry is a hash over a keyed fingerprint of the real table, among others: it stays inside.
    inside = form == "internal"
    return LedgerPosition(
        dataset=str(held["dataset"]),
        unit=str(held["unit"]),
        epsilon=amount(held["epsilon"]),
        spent_epsilon=amount(held["spent_epsilon"]),
        left_epsilon=left,
        total_epsilon=amount(held["total_epsilon"]),
        total_delta=amount(held["total_delta"]),
        reservation=str(held["reservation"]) if inside else None,
        entry=str(held["entry"]) if inside else None,
    )


def together_of(evaluation: Evaluation, name: str) -> Together | None:
    """What a table promises with all that has to be counted with it; none where it stands alone.

    That is the numbers published about it, with which goes a sweep that it is from; else the other fits of a sweep. For
    a table that its job did not name for release it is all that the job drew: whoever picks one of several fits has
    looked at all.

    Args:
        evaluation: says what was drawn; of it, only what was said before any real row was read is used.
        name: of the candidate.

    Raises:
        BudgetError: what the table and the numbers published about it come to cannot be read.
    """
    published = evaluation.provenance.get("public_report")
    if isinstance(published, Mapping) and published.get("table") == name:
        found = _together(published.get("together"), published.get("n_fits"))
        if found is None:
            raise BudgetError("the evaluation's published numbers are damaged; evaluate again")
        return found.model_copy(update={"fits": found.fits + 1})  # the numbers are a release, too
    known = evaluation.provenance
    composed = mapping(mapping(known.get("sweep")).get("composed"))
    if known.get("release") != name:
        everything = mapping(known.get("composed"))
        found = _together(everything, everything.get("n_fits"))
        if found is not None:
            return found
        composed = composed or _added_up(evaluation)
    return _together(composed, composed.get("n_fits"))


def _added_up(evaluation: Evaluation) -> Mapping[str, Any]:
    """What several private fits come to whose run did not compose them; empty where there are not several.

    Source: Dwork and Roth (2014), The Algorithmic Foundations of Differential Privacy, Theorem 3.16.
    """
    stated = [one.statement for one in evaluation.candidates if one.statement]
    if len(stated) < 2:
        return {}
    epsilons, deltas = ([amount(one.get(key)) or 0.0 for one in stated] for key in ("epsilon", "delta"))
    return {"epsilon": sum(epsilons), "delta": min(1.0, sum(deltas)), "n_fits": len(stated)}


def _together(claimed: object, n_fits: object) -> Together | None:
    claim = mapping(claimed)
    epsilon, delta, fits = amount(claim.get("epsilon")), amount(claim.get("delta")), amount(n_fits)
    if epsilon is None or delta is None or fits is None:
        return None
    return Together(fits=int(fits), epsilon=epsilon, delta=delta)


def _caveats(stated: Mapping[str, Any]) -> tuple[str, ...]:
    return texts(stated.get("caveats"))


def _audit(candidate: Candidate, form: Form) -> AuditSummary:
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
    outcome = {EXCEEDS: EXCEEDS, TOO_WEAK: TOO_WEAK}.get(found.verdict, WITHIN)
    return AuditSummary(
        outcome=outcome,
        lower_bound=math.floor(100 * found.bound) / 100,
        strongest=found.strongest,
        confidence=found.confidence,
        n_trials=found.n_trials,
        in_words=tuple(said for said in (note.sentence, note.reading, note.evidence) if said),
        cannot_see=words.NOT_SEEN,
    )


def on_stand_in(found: Audit) -> bool:
    """Whether all of an audit ran on a public stand-in: what else it may have run on is not for the public."""
    return all(STAND_IN in ran_on for ran_on in (found.ran_on, *(part.ran_on for part in found.parts)))


def _no_audit(outcome: Any, sentence: str) -> AuditSummary:
    return AuditSummary(
        outcome=outcome, lower_bound=None, strongest=None, confidence=None, n_trials=None, in_words=(sentence,),
        cannot_see=words.NOT_SEEN,
    )  # fmt: skip
