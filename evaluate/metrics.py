"""The metrics of an evaluation by name: who measures each, which way is better, and whether a rule may rest on it.

A rule may rest on a number whose 95% interval is shown, by simulation in the test suite, to hold what it estimates in
93 to 97 of 100 repetitions. More is allowed where it is exact or allows for a choice. It may also rest on a few whose
interval is a textbook's and not simulated, which docs/evaluation.md names. All others describe: an entry says why, and
what to name instead.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from evaluate.audit_result import MEASURE as AUDITED
from evaluate.result import Direction


@dataclass(frozen=True)
class Metric:
    """What is known of a number before it is measured.

    Attributes:
        by: the measure that gives it, by its name in the engine; "statement", "privacy.audit", "released" and
            "training" are none of these.
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


def _biased(instead: str) -> str:
    return f"a small sample adds to it, so that a limit would depend on the number of rows; name {instead!r}"


def _mean(name: str, by: str) -> dict[str, Metric]:
    """The mean of many distances, which only describes, and its excess over a fresh real sample."""
    return {
        f"{name}.mean": Metric(by, "lower", _biased(f"{name}.excess")),
        f"{name}.excess": Metric(by, "lower"),
    }


_FAR = "distances do not find leaks; name 'privacy.membership.auc'"
"""Yao et al. 2025, arXiv:2505.01524."""

_FEW_VALUES = "a few values far out decide it and its interval; name 'columns.tail.excess.mean'"

_VALIDITY = {
    "validity.rows": Metric("validity", "higher"),
    "validity.column": Metric("validity", "higher"),
    "validity.constraint": Metric("validity", "higher"),
}

_COLUMNS = {
    **_mean("columns.tvd", "fidelity.columns"),
    **_mean("columns.ks", "fidelity.columns"),
    **_mean("columns.wasserstein", "fidelity.columns"),
    "columns.tvd": Metric("fidelity.columns", "lower", _biased("columns.tvd.excess")),
    "columns.ks": Metric("fidelity.columns", "lower", _biased("columns.ks.excess")),
    "columns.wasserstein": Metric("fidelity.columns", "lower", _biased("columns.wasserstein.excess")),
    "columns.chi2": Metric("fidelity.columns", "lower", _biased("columns.chi2.excess")),
    "columns.chi2.excess": Metric("fidelity.columns", "lower"),
    "columns.tvd.excess.worst": Metric("fidelity.columns", "lower"),
    "columns.missing": Metric("fidelity.columns", "lower"),
    "columns.tail": Metric("fidelity.columns", "none", "honest rows lie there, too; name 'columns.tail.excess'"),
    "columns.tail.excess": Metric("fidelity.columns", "lower"),
    "columns.tail.excess.mean": Metric("fidelity.columns", "lower"),
    "columns.tail.excess.worst": Metric("fidelity.columns", "lower"),
    "columns.mean": Metric("fidelity.columns", "lower", _FEW_VALUES),
    "columns.mean.worst": Metric("fidelity.columns", "lower", _FEW_VALUES),
    "columns.std": Metric("fidelity.columns", "lower", _FEW_VALUES),
    "columns.std.worst": Metric("fidelity.columns", "lower", _FEW_VALUES),
    "columns.spikes.kept": Metric("fidelity.columns", "higher"),
    "columns.spikes.kept.worst": Metric("fidelity.columns", "higher"),
    "columns.lattice.kept": Metric("fidelity.columns", "higher"),
    "columns.lattice.kept.worst": Metric("fidelity.columns", "higher"),
}

_PAIRS = {
    **_mean("pairs.pearson", "fidelity.pairs"),
    **_mean("pairs.spearman", "fidelity.pairs"),
    **_mean("pairs.cramers_v", "fidelity.pairs"),
    **_mean("pairs.correlation_ratio", "fidelity.pairs"),
    **_mean("pairs.association", "fidelity.pairs"),
    "pairs.association.kept": Metric("fidelity.pairs", "higher"),
    "pairs.pearson.excess.worst": Metric("fidelity.pairs", "lower"),
    "pairs.dependence.floor_share": Metric("fidelity.pairs", "lower"),
    "pairs.dependence.floor_share.worst": Metric("fidelity.pairs", "lower"),
    **_mean("pairs.tvd", "fidelity.pairs"),
    "pairs.tvd": Metric("fidelity.pairs", "lower", _biased("pairs.tvd.excess.worst")),
    "pairs.tvd.excess.worst": Metric("fidelity.pairs", "lower"),
    "pairs.tvd.floor_share": Metric("fidelity.pairs", "lower"),
    "pairs.tvd.floor_excess": Metric("fidelity.pairs", "lower"),
}

_TRIPLES = {
    **_mean("triples.tvd", "fidelity.triples"),
    "triples.tvd": Metric("fidelity.triples", "lower", _biased("triples.tvd.excess.worst")),
    "triples.tvd.excess.worst": Metric("fidelity.triples", "lower"),
    "triples.tvd.floor_share": Metric("fidelity.triples", "lower"),
}

_LEARNS = "the more rows, the better a difference is seen; name 'joint.c2st.excess' or 'joint.pmse.excess'"
_SUPPORT = "a small sample moves it, so that its limit would depend on the number of rows"
_WIDE = "its interval is on the wide side; name 'joint.density.gap' or 'joint.beta_recall.gap'"
_AUTHENTIC = "distances do not find leaks, and rows far off are authentic too; name 'privacy.membership.auc'"

_JOINT = {
    "joint.c2st.auc": Metric("fidelity.detection", "lower", _LEARNS),
    "joint.c2st.excess": Metric("fidelity.detection", "lower"),
    "joint.pmse.ratio": Metric("fidelity.detection", "lower", _LEARNS),
    "joint.pmse.excess": Metric("fidelity.detection", "lower"),
    "joint.alpha_precision": Metric("fidelity.support", "higher", f"{_SUPPORT}; name 'joint.alpha_precision.gap'"),
    "joint.alpha_precision.gap": Metric("fidelity.support", "lower", _WIDE),
    "joint.beta_recall": Metric("fidelity.support", "higher", f"{_SUPPORT}; name 'joint.beta_recall.gap'"),
    "joint.beta_recall.gap": Metric("fidelity.support", "lower"),
    "joint.density": Metric("fidelity.support", "higher", f"{_SUPPORT}; name 'joint.density.gap'"),
    "joint.density.gap": Metric("fidelity.support", "lower"),
    "joint.coverage": Metric("fidelity.support", "higher", _WIDE),
    "joint.coverage.gap": Metric("fidelity.support", "lower", _WIDE),
    "joint.authenticity": Metric("fidelity.support", "none", _AUTHENTIC),
}

_SCORED = "its interval is not simulated; name 'utility.tstr.linear' or 'utility.gap.linear'"
_OUTLIERS = "a few outliers decide it; name 'utility.gap.boosting.without'"
_TSTR: Mapping[str, Direction] = {"tstr": "higher", "gap": "lower"}
_ROUGH = "its interval is rough, as ranks jump; name 'utility.gap.linear'"
_OF_ANOTHER = "it says what another way would give, not how good the table is; name 'utility.gap.linear'"
_CHOSEN = "it is the worst of groups, whose number the data decide; name 'utility.gap.linear' or 'columns.tvd.excess'"

_UTILITY = {
    "utility.tstr.linear": Metric("utility.tstr", "higher"),
    "utility.tstr.boosting": Metric("utility.tstr", "higher"),
    "utility.gap.linear": Metric("utility.tstr", "lower"),
    "utility.gap.boosting": Metric("utility.tstr", "lower"),
    **{
        f"utility.{kind}.{form}.{variant}": Metric("utility.tstr", direction, describes)
        for variant, describes in (("without", ""), ("uncut", _OUTLIERS))
        for form in ("linear", "boosting")
        for kind, direction in _TSTR.items()
    },
    "utility.average_precision.linear": Metric("utility.tstr", "higher", _SCORED),
    "utility.average_precision.boosting": Metric("utility.tstr", "higher", _SCORED),
    "utility.importance.linear": Metric("utility.importance", "higher", _ROUGH),
    "utility.importance.boosting": Metric("utility.importance", "higher", _ROUGH),
    "utility.queries": Metric("utility.queries", "lower", _biased("utility.queries.excess")),
    "utility.queries.median": Metric("utility.queries", "lower", _biased("utility.queries.excess")),
    "utility.queries.excess": Metric("utility.queries", "lower"),
    "utility.dp_alternative.score": Metric("utility.dp_alternative", "none", _OF_ANOTHER),
    "utility.dp_alternative.gap": Metric("utility.dp_alternative", "lower", _OF_ANOTHER),
}

_ADDED = "a model that has learned nothing treats all groups alike, so less is not better; name 'utility.gap.linear'"

_FAIRNESS = {
    "fairness.gap.linear": Metric("fairness.models", "lower", _CHOSEN),
    "fairness.gap.boosting": Metric("fairness.models", "lower", _CHOSEN),
    "fairness.parity.linear": Metric("fairness.models", "none", _ADDED),
    "fairness.parity.boosting": Metric("fairness.models", "none", _ADDED),
    "fairness.odds.linear": Metric("fairness.models", "none", _ADDED),
    "fairness.odds.boosting": Metric("fairness.models", "none", _ADDED),
    "fairness.tvd.excess": Metric("fairness.columns", "lower", _CHOSEN),
}

_COINCIDE = "common names and numbers coincide by chance; name 'privacy.personal.excess', or 'privacy.personal'"

_PERSONAL = {
    "privacy.personal": Metric("privacy.personal", "lower"),
    "privacy.personal.column": Metric("privacy.personal", "lower", _COINCIDE),
    "privacy.personal.holdout": Metric("privacy.personal", "lower", _COINCIDE),
    "privacy.personal.excess": Metric("privacy.personal", "lower"),
}

_OF_MANY = "it is one of several and picked by nobody; name {!r}, which allows for the choice"
_SUBSET = "it attacks few rows, so that its limit would depend on how many; name 'privacy.membership.auc'"
_COUNTED = "honest rows match, too; name 'privacy.quasi_identifiers.excess'"
_SHADOW = "it is run only where somebody asks for it; name 'privacy.membership.auc'"

_ATTACKS = {
    "privacy.vulnerable.isolated.auc": Metric("privacy.vulnerable", "lower", _SUBSET),
    "privacy.vulnerable.isolated.tpr_at_0.01": Metric("privacy.vulnerable", "lower", _SUBSET),
    "privacy.vulnerable.rare.auc": Metric("privacy.vulnerable", "lower", _SUBSET),
    "privacy.vulnerable.rare.tpr_at_0.01": Metric("privacy.vulnerable", "lower", _SUBSET),
    "privacy.vulnerable.group.auc": Metric("privacy.vulnerable", "lower", _SUBSET),
    "privacy.singling_out.univariate": Metric("privacy.singling_out", "lower"),
    "privacy.singling_out.multivariate": Metric("privacy.singling_out", "lower"),
    "privacy.linkability": Metric("privacy.linkability", "lower"),
    "privacy.linkability.split": Metric("privacy.linkability", "lower", _OF_MANY.format("privacy.linkability")),
    "privacy.inference": Metric("privacy.inference", "lower"),
    "privacy.inference.column": Metric("privacy.inference", "lower", _OF_MANY.format("privacy.inference")),
    "privacy.inference.model": Metric("privacy.inference", "lower", _OF_MANY.format("privacy.inference")),
    "privacy.quasi_identifiers": Metric("privacy.quasi_identifiers", "lower", _COUNTED),
    "privacy.quasi_identifiers.excess": Metric("privacy.quasi_identifiers", "lower"),
    "privacy.shadow.auc": Metric("privacy.shadow", "lower", _SHADOW),
    "privacy.shadow.tpr_at_0.01": Metric("privacy.shadow", "lower", _SHADOW),
}

_PRIVACY = {
    "privacy.copies.people": Metric("privacy.copies", "lower"),
    "privacy.copies.values": Metric("privacy.copied_parts", "lower"),
    "privacy.copies.parts": Metric("privacy.copied_parts", "lower"),
    "privacy.copies.near": Metric("privacy.copied_parts", "lower"),
    "privacy.copies": Metric("privacy.copies", "lower"),
    "privacy.copies.excess": Metric("privacy.copies", "lower"),
    "privacy.copies.unique": Metric("privacy.copies", "lower"),
    "privacy.copies.unique.excess": Metric("privacy.copies", "lower"),
    "privacy.multiset": Metric("privacy.copies", "higher"),
    "privacy.membership.auc": Metric("privacy.membership", "lower"),
    "privacy.membership.tpr_at_0.01": Metric("privacy.membership", "lower"),
    "privacy.membership.tpr_at_0.001": Metric("privacy.membership", "lower"),
    **_ATTACKS,
    "privacy.dcr.median": Metric("privacy.distance", "none", _FAR),
    "privacy.nndr.median": Metric("privacy.distance", "none", _FAR),
    "privacy.dcr.share_closer": Metric("privacy.distance", "none", _FAR),
    AUDITED: Metric("privacy.audit", "lower"),
    "statement.epsilon": Metric("statement", "lower"),
    "statement.delta": Metric("statement", "lower"),
}

_RELEASED = {
    "rows.released": Metric("released", "none", "it says how large the table is; name 'columns.tvd.released.mean'"),
    "columns.tvd.released": Metric("released", "lower"),
    "columns.tvd.released.mean": Metric("released", "lower"),
    "pairs.tvd.released.mean": Metric("released", "lower"),
    "utility.accuracy.released": Metric("released", "higher"),
}
"""Numbers published under a budget of their own (`evaluate.dp_release`): the interval is that of the noise, which is
known. They are there only where a job asks for them."""

CLIPPED = "training.clip_fraction"
_TRAINING = {
    CLIPPED: Metric(
        "training", "none", "it is of how a network was trained, not of its table; name 'privacy.membership.auc'"
    )
}
"""What the fit of a network notes beside its log; it is there only of a fit by DP-SGD."""

CATALOG: Mapping[str, Metric] = {
    **_VALIDITY, **_COLUMNS, **_PAIRS, **_TRIPLES, **_JOINT, **_UTILITY, **_FAIRNESS, **_PERSONAL, **_PRIVACY,
    **_RELEASED, **_TRAINING,
}  # fmt: skip
"""Every number by name."""

GATEABLE: Mapping[str, Direction] = {name: number.direction for name, number in CATALOG.items() if number.gateable}
"""Every number that a rule may rest on, with the direction that is better."""


def numbers_of(measure: str) -> tuple[str, ...]:
    """Names of the numbers that a measure gives, without those of single columns or pairs being told apart."""
    return tuple(name for name, number in CATALOG.items() if number.by == measure)
