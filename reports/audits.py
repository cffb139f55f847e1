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
    found = candidate.audit
    if found is None:
        return None
    what = "one training run and the counts before it" if found.parts else f"the {ATTACKED[found.attacked]}"
    ran_on = "a public stand-in" if found.parts else plain(found.ran_on, LONGEST)
    alarms = found.verdict == EXCEEDS
    bound, claimed, excess = _compared(found)
    claim = claimed if alarms else loss(found.epsilon)
    verdict = "" if alarms else f"{found.verdict}; "
    sentence = (
        f"Audit of {what}: {verdict}lower bound {bound}, claim {claim} at delta {loss(found.delta)}"
        f"{f', exceeded by {excess}' if alarms else ''}, {100 * found.confidence:g}% confidence, on {ran_on}."
    )
    reading = (READINGS if found.attacked == "noise" else OF_REPORTS).get(found.verdict, NOT_DISPROVED)
    reading = " ".join([*(f"{_capitalized(plain(fault, LONGEST))}." for fault in found.faults[:MOST_CHECKS]), reading])
    return AuditNote(
        bound, excess, sentence, reading, _parts(found) or _evidence(found), alarms,
        power_in_words(found), checks_in_words(found), scope_in_words(found),
        "" if found.weakest is None else half_of(found.weakest),
    )  # fmt: skip


def power_in_words(found: Audit) -> str:
    """The power of an audit, by the mechanism where it is weakest; empty where it does not say."""
    if found.weakest is None:
        return ""
    return f"Where it is weakest, it would have shown {_half(found.weakest)}."


def checks_in_words(found: Audit) -> tuple[str, ...]:
    """Each check that was made beside the attack, as a sentence or two."""
    return tuple(_of_check(check) for check in found.checks[:MOST_CHECKS])


def scope_in_words(found: Audit) -> str:
    """The scope that an audit leaves out; empty where it does not say."""
    if not found.not_covered:
        return ""
    return f"It does not look at: {'; '.join(plain(what, LONGEST) for what in found.not_covered[:MOST_EVENTS])}."


def half_of(half: float) -> str:
    """The power of an audit, in short.

    >>> half_of(0.97)
    'would have shown half the noise in 9 of 10 such audits'
    """
    return f"would have shown {_half(half)}"


def _of_check(check: AuditCheck) -> str:
    shows = [plain(check.would_show, LONGEST)] if check.would_show else []
    shows += [_half(check.power)] if check.power is not None else []
    verdict = "no fault found" if check.fault is None else f"FAULT: {plain(check.fault, LONGEST)}"
    could = f" It would have shown {', and '.join(shows)}." if shows else ""
    return f"{_capitalized(plain(check.what, 60))}: {verdict}. Looked at: {plain(check.looked_at, LONGEST)}.{could}"


def _half(power: float) -> str:
    return f"half the noise in {in_ten(power)} of 10 such audits"


def _compared(found: Audit) -> tuple[str, str, str]:
    """Bound, claim and bound less claim, which add up: the bound is cut off and the claim rounded up, as everywhere.
    Both have more digits where those would hide that the bound is above the claim.
    """
    for digits in range(CLAIMED_DIGITS, MOST_DIGITS):
        claim = Context(prec=digits, rounding=ROUND_CEILING).create_decimal(_decimal(found.epsilon))
        decimals = max(DECIMALS + digits - CLAIMED_DIGITS, -int(claim.normalize().as_tuple().exponent))
        bound = _decimal(found.bound).quantize(Decimal(1).scaleb(-decimals), rounding=ROUND_FLOOR)
        if found.verdict != EXCEEDS or bound > claim:
            break
    shown, claimed, excess = (f"{one:.{decimals}f}".replace("-", "\u2212") for one in (bound, claim, bound - claim))
    return shown, claimed, excess


def _decimal(value: float) -> Decimal:
    """Without the last digits, which belong to floating point."""
    return Context(prec=14).create_decimal(Decimal(value))


def _parts(found: Audit) -> str:
    """Every part; nothing where all was attacked at once."""
    return " ".join([IN_PARTS, *(_of_part(part) for part in found.parts[:MOST_PARTS])]) if found.parts else ""


def _of_part(part: AuditPart) -> str:
    return (
        f"{_capitalized(plain(part.what, 60))}: lower bound {cut(part.bound)}, on {plain(part.ran_on, LONGEST)}. "
        f"{_evidence(part)}"
    )


def _capitalized(text: str) -> str:
    return text[:1].upper() + text[1:]


def _evidence(found: Audit | AuditPart) -> str:
    """The attacker's error rates, and the bound that follows without assumptions."""
    if isinstance(found, Audit) and found.attacked == "reports":
        return (
            f"Of {found.n_trials:,} answers, half of them each row's, the attacker took "
            f"{percent(found.false_positives[0])} of the one row's for the other's and missed "
            f"{percent(found.false_negatives[0])} of the other's. Without the assumption that each answer of a "
            f"respondent is randomized on its own, the bound is {cut(found.distribution_free)}. Answers that nobody "
            f"randomized would have shown {cut(found.strongest)}."
        )
    return (
        f"In {found.n_trials:,} trials the attacker took {percent(found.false_positives[0])} of absent canaries for "
        f"present and {percent(found.false_negatives[0])} of present ones for absent. Without the assumption that "
        f"noise is Gaussian, the bound is {cut(found.distribution_free)}. An attacker who never errs would have shown "
        f"{cut(found.strongest)}."
    )


def cut(bound: float) -> str:
    """A lower bound with three digits after the point: cut off, since rounding up would claim too much.

    >>> cut(2.9999), cut(0.0)
    ('2.999', '0.000')
    """
    return f"{_decimal(bound).quantize(Decimal(1).scaleb(-DECIMALS), rounding=ROUND_FLOOR)}"
