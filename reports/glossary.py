"""Every metric in plain words, as it is declared, terms of the report, and where the evidence for a metric is."""

from evaluate.audit_result import MEASURE as AUDITED
from evaluate.metrics import CATALOG, Metric

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
    "columns": "columns",
    "pairs": "pairs",
    "utility": "utility",
    "fairness": "utility",
    "privacy": "attacks",
    "statement": "guarantee",
}

METRICS = {"roc_auc": "ROC AUC", "r2": "R\u00b2"}
"""Scores of models as one writes them."""


def entry(measure: str) -> Metric:
    """A metric in words; one that nobody has described is shown by its name."""
    return CATALOG.get(measure) or Metric(measure, "none", measure)


def key_figures() -> tuple[str, ...]:
    """Names of the numbers that candidates are compared on, in their order."""
    return tuple(name for name, metric in CATALOG.items() if metric.key)


def evidence(measure: str) -> str:
    """The section of the report that shows what a measure rests on."""
    if measure == AUDITED:
        return "guarantee"
    return _EVIDENCE.get(measure.split(".")[0], "comparison")
