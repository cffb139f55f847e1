"""Interpretation of a number where its scale surprises: a share above one, a distance below that of fresh rows."""

from evaluate.audit_result import MEASURE as AUDITED
from evaluate.gate.finding import CLAIMED
from evaluate.gate.policy import STATEMENT
from evaluate.result import Estimate
from evaluate.text import alike, loss
from reports.audits import DISPROVED, NOT_DISPROVED

FLOOR_SHARES = ("pairs.tvd.floor_share", "triples.tvd.floor_share")
_ABOVE_ONE = {
    "pairs.association.kept": "Above 1 is not better than 1: columns hang together more strongly than in the real "
    "table, so that relations are exaggerated or made up.",
    "privacy.multiset": "Above 1 is not better than 1, which is an independent sample: the counts of rows are farther "
    "from the training table than chance makes them, as of a table that is off.",
}
"""Sentences on shares whose lower end lies above 1."""


_BETTER = {
    "pairs.association.kept": "1 is right; less is lost, more is made up",
    "privacy.multiset": "1 is an independent sample, 0 a copy",
    **dict.fromkeys(FLOOR_SHARES, "lower is better; 1 and more is no better than shuffled columns"),
}


def better(measure: str, direction: str) -> str:
    """The better direction in words; empty where a number only describes.

    >>> better("validity.rows", "higher"), better("pairs.association.kept", "higher")
    ('higher is better', '1 is right; less is lost, more is made up')
    """
    said = {"lower": "lower is better", "higher": "higher is better"}.get(direction, "")
    return _BETTER.get(measure, said) if said else ""


def shown(estimate: Estimate) -> str:
    """An estimate's value as text, with the decimals of its interval; a claimed privacy loss is rounded up."""
    if estimate.measure.startswith(STATEMENT):
        return loss(estimate.value)
    return alike(estimate.value, estimate.low, estimate.high)[0]


def reading(estimate: Estimate | None) -> str:
    """A sentence on what the value says, where the number alone would be misread; else nothing."""
    if estimate is None:
        return ""
    if estimate.measure == AUDITED:
        return DISPROVED if estimate.value > 0 else NOT_DISPROVED
    if estimate.measure.startswith(STATEMENT):
        return "" if estimate.note == CLAIMED else estimate.note
    if estimate.measure in FLOOR_SHARES:
        return _of_pairs(estimate)
    return _ABOVE_ONE.get(estimate.measure, "") if estimate.low is not None and estimate.low > 1 else ""


def _of_pairs(estimate: Estimate) -> str:
    low, high = estimate.low, estimate.high
    what = "pairs" if estimate.measure == FLOOR_SHARES[0] else "triples"
    if estimate.value > 1 and low is not None and low <= 1:
        return (
            "Above 1 would be farther from the real table than its own columns shuffled independently; the interval "
            "reaches down to less than that."
        )
    if estimate.value > 1:
        return (
            f"Above 1, {what} are farther from the real table than those of its own columns shuffled independently, "
            "mostly because single columns are off too."
        )
    if high is not None and high < 0:
        return f"Below 0, {what} are closer to the training table than those of fresh real rows: look for copies."
    if estimate.value <= 0 or (low is not None and low <= 0):
        return f"Around 0, {what} cannot be told from those of a fresh real sample."
    return ""
