"""Interpretation of a number where its scale surprises: a share above one, a distance below that of fresh rows."""

from evaluate.audit_result import MEASURE as AUDITED
from evaluate.gate.finding import CLAIMED
from evaluate.gate.policy import STATEMENT
from evaluate.result import Estimate
from evaluate.text import alike, loss
from reports.audits import DISPROVED, NOT_DISPROVED
from reports.glossary import entry

FLOOR_SHARE = ".tvd.floor_share"
"""Ends the name of a distance as a share of the way to shuffled columns, after "pairs" or "triples"."""


def better(measure: str, direction: str) -> str:
    """The better direction in words; empty where a number only describes.

    >>> better("validity.rows", "higher"), better("pairs.association.kept", "higher")
    ('higher is better', '1 is right; less is lost, more is made up')
    """
    said = {"lower": "lower is better", "higher": "higher is better"}.get(direction, "")
    if said and measure.endswith(FLOOR_SHARE):
        return "lower is better; 1 and more is no better than shuffled columns"
    return (entry(measure).better or said) if said else ""


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
    if estimate.measure.endswith(FLOOR_SHARE):
        return _of_pairs(estimate)
    return entry(estimate.measure).above_one if estimate.low is not None and estimate.low > 1 else ""


def _of_pairs(estimate: Estimate) -> str:
    low, high = estimate.low, estimate.high
    what = estimate.measure.removesuffix(FLOOR_SHARE)
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
