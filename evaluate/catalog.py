"""Every number that an evaluation gives, by name: who measures it, which way is better, whether a rule may rest on it.

A rule may rest on a number whose 95% interval is shown, by simulation in the test suite, to hold what it estimates in
93 to 97 of 100 repetitions, or in more where it is exact or allows for a choice. All others describe: an entry says
why, and what to name instead.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from evaluate.privacy.audit_result import MEASURE as AUDITED
from evaluate.result import Direction


@dataclass(frozen=True)
class Number:
    """What is known of a number before it is measured.

    Attributes:
        by: the measure that gives it, by its name in the engine; "statement" and "privacy.audit" are none of these.
        direction: which way is better.
        describes: why no rule may rest on it, and what to name instead; empty where one may.
    """

    by: str
    direction: Direction
    describes: str = ""

    @property
    def gateable(self) -> bool:
        """Whether a rule may rest on it."""
        return not self.describes


_BIASED = "a small sample adds to a distance, so that its limit would depend on the number of rows"
_FAR = "distances do not find leaks; name 'privacy.membership.auc'"
"""Yao et al. 2025, arXiv:2505.01524."""

_VALIDITY = {
    "validity.rows": Number("validity", "higher"),
    "validity.column": Number("validity", "higher"),
    "validity.constraint": Number("validity", "higher"),
}

_COLUMNS = {
    "columns.ks": Number("fidelity.columns", "lower"),
    "columns.ks.mean": Number("fidelity.columns", "lower"),
    "columns.chi2": Number("fidelity.columns", "lower"),
    "columns.missing": Number("fidelity.columns", "lower"),
    "columns.tvd": Number("fidelity.columns", "lower"),
    "columns.tvd.mean": Number("fidelity.columns", "lower"),
    "columns.tvd.excess": Number("fidelity.columns", "lower"),
    "columns.tvd.worst": Number("fidelity.columns", "lower"),
}

_PAIRS = {
    "pairs.pearson.mean": Number("fidelity.pairs", "lower"),
    "pairs.cramers_v.mean": Number("fidelity.pairs", "lower"),
    "pairs.correlation_ratio.mean": Number("fidelity.pairs", "lower"),
    "pairs.association.mean": Number("fidelity.pairs", "lower"),
    "pairs.association.kept": Number("fidelity.pairs", "higher"),
    "pairs.tvd": Number("fidelity.pairs", "lower"),
    "pairs.tvd.mean": Number("fidelity.pairs", "lower"),
    "pairs.tvd.excess": Number("fidelity.pairs", "lower"),
    "pairs.tvd.floor_share": Number("fidelity.pairs", "lower"),
}

_JOINT: dict[str, Number] = {}

_UTILITY = {
    "utility.tstr.linear": Number("utility.tstr", "higher"),
    "utility.tstr.boosting": Number("utility.tstr", "higher"),
    "utility.gap.linear": Number("utility.tstr", "lower"),
    "utility.gap.boosting": Number("utility.tstr", "lower"),
}

_FAIRNESS: dict[str, Number] = {}

_PERSONAL: dict[str, Number] = {}

_PRIVACY = {
    "privacy.copies": Number("privacy.copies", "lower"),
    "privacy.copies.excess": Number("privacy.copies", "lower"),
    "privacy.copies.unique": Number("privacy.copies", "lower"),
    "privacy.copies.unique.excess": Number("privacy.copies", "lower"),
    "privacy.multiset": Number("privacy.copies", "higher"),
    "privacy.membership.auc": Number("privacy.membership", "lower"),
    "privacy.membership.tpr_at_0.01": Number("privacy.membership", "lower"),
    "privacy.membership.tpr_at_0.001": Number("privacy.membership", "lower"),
    "privacy.dcr.median": Number("privacy.distance", "none", _FAR),
    "privacy.nndr.median": Number("privacy.distance", "none", _FAR),
    "privacy.dcr.share_closer": Number("privacy.distance", "none", _FAR),
    AUDITED: Number("privacy.audit", "lower"),
    "statement.epsilon": Number("statement", "lower"),
    "statement.delta": Number("statement", "lower"),
}

CATALOG: Mapping[str, Number] = {
    **_VALIDITY, **_COLUMNS, **_PAIRS, **_JOINT, **_UTILITY, **_FAIRNESS, **_PERSONAL, **_PRIVACY,
}  # fmt: skip
"""Every number by name."""

GATEABLE: Mapping[str, Direction] = {name: number.direction for name, number in CATALOG.items() if number.gateable}
"""Every number that a rule may rest on, with the direction that is better."""


def numbers_of(measure: str) -> tuple[str, ...]:
    """Names of the numbers that a measure gives, without those of single columns or pairs being told apart."""
    return tuple(name for name, number in CATALOG.items() if number.by == measure)
