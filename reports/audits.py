"""The outcome of an audit of a claim, in the words of the report."""

from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

from evaluate.audit_result import EXCEEDS, TOO_WEAK, Audit, AuditCheck, AuditPart, in_ten
from evaluate.result import Candidate
from evaluate.text import loss, percent, plain

DISPROVED = "The noise protects less than was claimed: the privacy statement is false and must not be relied on."
NOT_DISPROVED = (
    "A bound below the claim proves nothing beyond that no flaw of this kind was found: it is no evidence that the "
    "claim is true."
)
WEAK = (
    "Too weak to say: even without any noise, so few trials of the attack could not have shown a bound well above the "
    "claim; give the audit more time."
)
READINGS = {EXCEEDS: DISPROVED, TOO_WEAK: WEAK}
OF_REPORTS = {
    EXCEEDS: "Reports tell more of their respondents than was claimed: the privacy statement is false and must not be "
    "relied on.",
    TOO_WEAK: "Too weak to say: so few reports would not have shown half the noise in nine of ten such audits.",
}
IN_PARTS = (
    "The sums of one training run were attacked by canaries in it, the counts before it by fits of their own. Each "
    "part had its share of the error, so that the confidence is of all bounds together."
)
ATTACKED = {"noise": "measurement log", "reports": "reports of respondents"}
"""The things that an audit attacks, in words."""
LONGEST, MOST_PARTS, MOST_CHECKS, MOST_EVENTS = 240, 4, 8, 40
"""Of what an audit says that it ran on, and of its parts, checks and events: an evaluation may come from anyone."""
DECIMALS, CLAIMED_DIGITS, MOST_DIGITS = 3, 3, 12
"""Of bounds, and the digits of claims: as many as `evaluate.text.loss` has, more where they would hide a difference."""


@dataclass(frozen=True)
class AuditNote:
    bound: str
    excess: str
    sentence: str
    reading: str
    evidence: str
    alarms: bool
    power: str = ""
    checks: tuple[str, ...] = ()
    scope: str = ""
    short: str = ""


def audit_note(candidate: Candidate) -> AuditNote | None:
    """The audit of one candidate; `None` where none ran."""
    audit = candidate.audit
    if audit is None:
        return None
    what = "one training run and the counts before it" if audit.parts else f"the {ATTACKED[audit.attacked]}"
    ran_on = "a public stand-in" if audit.parts else plain(audit.ran_on, LONGEST)
    alarms = audit.verdict == EXCEEDS
    bound, claimed, excess = _compared(audit)
    claim = claimed if alarms else loss(audit.epsilon)
    sentence = (
        f"Audit of {what}: {'' if alarms else f'{audit.verdict}; '}lower bound {bound}, claim {claim} at delta "
        f"{loss(audit.delta)}{f', exceeded by {excess}' if alarms else ''}, {100 * audit.confidence:g}% confidence, "
        f"on {ran_on}."
    )
    reading = (READINGS if audit.attacked == "noise" else OF_REPORTS).get(audit.verdict, NOT_DISPROVED)
    faults = (f"{_capitalized(plain(fault, LONGEST))}." for fault in audit.faults[:MOST_CHECKS])
    evidence = _evidence(audit)
    if audit.parts:
        parts = (
            f"{_capitalized(plain(part.what, 60))}: lower bound {cut(part.bound)}, on {plain(part.ran_on, LONGEST)}. "
            f"{_evidence(part)}"
            for part in audit.parts[:MOST_PARTS]
        )
        evidence = " ".join([IN_PARTS, *parts])
    return AuditNote(
        bound, excess, sentence, " ".join([*faults, reading]), evidence, alarms, power_in_words(audit),
        checks_in_words(audit), scope_in_words(audit), "" if audit.weakest is None else half_of(audit.weakest),
    )  # fmt: skip


def power_in_words(audit: Audit) -> str:
    """The power of an audit, by the mechanism where it is weakest; empty where it does not say."""
    return "" if audit.weakest is None else f"Where it is weakest, it {half_of(audit.weakest)}."


def checks_in_words(audit: Audit) -> tuple[str, ...]:
    """Each check that was made beside the attack, as a sentence or two."""
    return tuple(_of_check(check) for check in audit.checks[:MOST_CHECKS])


def scope_in_words(audit: Audit) -> str:
    """The scope that an audit leaves out; empty where it does not say."""
    if not audit.not_covered:
        return ""
    return f"It does not look at: {'; '.join(plain(what, LONGEST) for what in audit.not_covered[:MOST_EVENTS])}."


def half_of(power: float) -> str:
    """The power of an audit, in short.

    >>> half_of(0.97)
    'would have shown half the noise in 9 of 10 such audits'
    """
    return f"would have shown {_half(power)}"


def _of_check(check: AuditCheck) -> str:
    shows = [plain(check.would_show, LONGEST)] if check.would_show else []
    shows += [_half(check.power)] if check.power is not None else []
    verdict = "no fault found" if check.fault is None else f"FAULT: {plain(check.fault, LONGEST)}"
    could = f" It would have shown {', and '.join(shows)}." if shows else ""
    return f"{_capitalized(plain(check.what, 60))}: {verdict}. Looked at: {plain(check.looked_at, LONGEST)}.{could}"


def _half(power: float) -> str:
    return f"half the noise in {in_ten(power)} of 10 such audits"


def _compared(audit: Audit) -> tuple[str, str, str]:
    """Bound, claim and bound less claim, which add up: the bound is cut off and the claim rounded up, as everywhere.
    Both have more digits where those would hide that the bound is above the claim.
    """
    for digits in range(CLAIMED_DIGITS, MOST_DIGITS):
        claim = Context(prec=digits, rounding=ROUND_CEILING).create_decimal(_decimal(audit.epsilon))
        decimals = max(DECIMALS + digits - CLAIMED_DIGITS, -int(claim.normalize().as_tuple().exponent))
        bound = _decimal(audit.bound).quantize(Decimal(1).scaleb(-decimals), rounding=ROUND_FLOOR)
        if audit.verdict != EXCEEDS or bound > claim:
            break
    bound_text, claimed, excess = (f"{x:.{decimals}f}".replace("-", "\u2212") for x in (bound, claim, bound - claim))
    return bound_text, claimed, excess


def _decimal(value: float) -> Decimal:
    """Without the last digits, which belong to floating point."""
    return Context(prec=14).create_decimal(Decimal(value))


def _capitalized(text: str) -> str:
    return text[:1].upper() + text[1:]


def _evidence(audit: Audit | AuditPart) -> str:
    """The attacker's error rates, and the bound that follows without assumptions."""
    wrong, missed = percent(audit.false_positives[0]), percent(audit.false_negatives[0])
    free, strongest = cut(audit.distribution_free), cut(audit.strongest)
    if isinstance(audit, Audit) and audit.attacked == "reports":
        return (
            f"Of {audit.n_trials:,} answers, half of them each row's, the attacker took {wrong} of the one row's for "
            f"the other's and missed {missed} of the other's. Without the assumption that each answer of a respondent "
            f"is randomized on its own, the bound is {free}. Answers that nobody randomized would have shown "
            f"{strongest}."
        )
    return (
        f"In {audit.n_trials:,} trials the attacker took {wrong} of absent canaries for present and {missed} of "
        f"present ones for absent. Without the assumption that noise is Gaussian, the bound is {free}. An attacker "
        f"who never errs would have shown {strongest}."
    )


def cut(bound: float) -> str:
    """A lower bound with three digits after the point: cut off, since rounding up would claim too much.

    >>> cut(2.9999), cut(0.0)
    ('2.999', '0.000')
    """
    return f"{_decimal(bound).quantize(Decimal(1).scaleb(-DECIMALS), rounding=ROUND_FLOOR)}"
