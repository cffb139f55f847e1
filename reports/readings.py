"""What a number means where its scale surprises: a share above one, a distance below that of fresh rows."""

from evaluate.finding import CLAIMED
from evaluate.policy import STATEMENT
from evaluate.privacy.audit.result import MEASURE as AUDITED
from evaluate.result import Estimate
from reports.audits import DISPROVED, NOT_DISPROVED
from reports.text import alike, loss


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
    return _of_pairs(estimate) if estimate.measure == "pairs.tvd.floor_share" else ""


def _of_pairs(estimate: Estimate) -> str:
    low, high = estimate.low, estimate.high
    if estimate.value > 1 and low is not None and low <= 1:
        return (
            "Above 1 would be farther from the real table than its own columns shuffled independently; the interval "
            "reaches down to less than that."
        )
    if estimate.value > 1:
        return (
            "Above 1, pairs are farther from the real table than those of its own columns shuffled independently, "
            "mostly because single columns are off too."
        )
    if high is not None and high < 0:
        return "Below 0, pairs are closer to the training table than those of fresh real rows: look for copies."
    if estimate.value <= 0 or (low is not None and low <= 0):
        return "Around 0, pairs cannot be told from those of a fresh real sample."
    return ""
