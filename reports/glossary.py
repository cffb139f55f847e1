"""Every metric in plain words, with its reading where the scale surprises, and terms of the report."""

from evaluate.audit_result import MEASURE as AUDITED
from evaluate.gate.decision import CLAIMED
from evaluate.gate.policy import STATEMENT
from evaluate.metrics import CATALOG, UNJUDGED, Metric
from evaluate.result import Estimate
from evaluate.text import alike, loss, number
from reports.guarantee import DISPROVED, NOT_DISPROVED


def better(measure: str, direction: str) -> str:
    """The better direction in words; empty where a number only describes."""
    words = {"lower": "lower is better", "higher": "higher is better"}.get(direction, "")
    return (entry(measure).better or words) if words else ""


def shown(estimate: Estimate) -> str:
    """An estimate's value as text, with the decimals of its interval; a claimed privacy loss is rounded up."""
    if estimate.measure.startswith(STATEMENT):
        return loss(estimate.value)
    return alike(estimate.value, estimate.low, estimate.high)[0]


def spoken(estimate: Estimate, fresh: str = "fresh real sample") -> str:
    """An estimate with its interval and landmarks, for a tip and a screen reader."""
    value, low, high = alike(estimate.value, estimate.low, estimate.high)
    parts = [value]
    if estimate.low is not None:
        parts.append(f"95% interval {low} to {high}")
    if estimate.reference is not None:
        parts.append(f"{fresh} {number(estimate.reference)}")
    if estimate.floor is not None:
        parts.append(f"shuffled columns {number(estimate.floor)}")
    return "; ".join(parts)


def reading(estimate: Estimate | None) -> str:
    """A sentence on what the value says, where the number alone would be misread; else nothing."""
    if estimate is None:
        return ""
    if estimate.measure == AUDITED:
        return DISPROVED if estimate.value > 0 else NOT_DISPROVED
    if estimate.measure.startswith(STATEMENT):
        return "" if estimate.note == CLAIMED else estimate.note
    return entry(estimate.measure).above_one if estimate.low is not None and estimate.low > 1 else ""


TERMS = {
    "Fresh real sample": "Real rows that no generator saw. What they score is as good as it gets.",
    "Shuffled columns": "Training rows with each column shuffled on its own: right in every column, wrong in pairs.",
    "95% interval": "It holds the true number in 95 of 100 repetitions. Rules look at its unfavorable end.",
    "Rho": "What a line of the books costs, as zero-concentrated privacy. Costs of lines add up; a larger rho is less "
    "privacy. Steps of DP-SGD have none: accountants alone price them.",
    "Own delta": "A bound on the chance that a value is named which one unit alone holds. It is part of the claimed "
    "delta.",
    "Trade-off": "What a test of whether a unit is in the table can find at most, at each rate of false alarms.",
    "Ledger": "The record that adds up all releases of one table, and refuses what its total does not hold.",
    "Holdout": "Real rows set aside before anything was fitted. Every privacy number is measured against them.",
}

_EVIDENCE = {
    AUDITED: "guarantee", UNJUDGED: "policy", "columns": "columns", "pairs": "pairs", "utility": "utility",
    "fairness": "utility", "privacy": "attacks", "statement": "guarantee",
}  # fmt: skip
"""The section of a measure, or of its family."""

METRICS = {"roc_auc": "ROC AUC", "r2": "R\u00b2"}  # Scores of models as one writes them


def entry(measure: str) -> Metric:
    """A metric in words; one that nobody has described is shown by its name."""
    return CATALOG.get(measure) or Metric(measure, "none", measure)


def key_figures() -> tuple[str, ...]:
    return tuple(name for name, metric in CATALOG.items() if metric.key)


def evidence(measure: str) -> str:
    anchor = _EVIDENCE.get(measure) or entry(measure).anchor
    return anchor or _EVIDENCE.get(measure.split(".")[0], "comparison")
