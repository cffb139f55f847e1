"""Detection of synthetic rows among real ones, by gradient boosting (C2ST).

Synthetic rows are set against held-out ones, which no generator saw. Against the training rows a table of slightly
changed copies would do better than real rows do: a copy falls where its original, marked as real, was learned from. The
reference sets training rows against the same held-out rows, the floor training rows with shuffled columns. The
classifier is `evaluate.fidelity.classifier`.

Source: Lopez-Paz and Oquab 2017, "Revisiting Classifier Two-Sample Tests", arXiv:1610.06545; LeDell, Petersen, van der
Laan 2015 (the variance of a cross-fitted area under the curve).
"""

import numpy as np
from scipy import special

from evaluate.fidelity.classifier import N_FOLDS, Skill, coded, skill
from evaluate.fidelity.joint_samples import MIN_UNITS, JointSamples, JointSide, joint_samples
from evaluate.fidelity.relations import left_of_rows
from evaluate.intervals import LEVEL
from evaluate.metrics import THREE, Metric
from evaluate.result import Estimate, Failure
from evaluate.tables import MetricResult, Tables
from evaluate.text import listed

_LEARNS = "the more rows, the better a difference is seen; name 'joint.c2st.excess'"
METRICS = (
    Metric("joint.c2st.auc", "lower", "Told from real rows, AUC", "How well gradient boosting tells synthetic rows "
           "from held-out ones by their values, digits and differences (C2ST); 0.5 is a coin.", describes=_LEARNS,
           key=True),
    Metric("joint.c2st.excess", "lower", "Told from real rows beyond noise",
           "The same AUC minus that of training rows against held-out ones.", counted=THREE),
)  # fmt: skip

NAMES = tuple(metric.name for metric in METRICS)
TWICE = 2.0
"""Factor of cross-fitting on the variance of an area under the curve.

The difference between two parts of the rows counts where one is learned from and the other scored, and once more where
it is the other way round. For the area of a linear score under no difference between the tables the factor is 2; in
simulations with boosting it is 1.6 to 2.2 on some hundred rows, and falls towards 1, the value of LeDell et al., where
rows are many and the difference is large. Intervals are on the wide side there.
"""


def measure(tables: Tables) -> MetricResult:
    """The area under the curve of a classifier, and its excess over that of real rows against real ones."""
    samples = joint_samples(tables)
    if samples.n_units < MIN_UNITS:
        why = f"it needs at least {MIN_UNITS} rows (or entities) of each table"
        return MetricResult(failures=tuple(Failure(name, "skipped", why) for name in NAMES))
    sides = (samples.fresh, samples.synthetic, samples.train, samples.shuffled)
    codes, categories = coded(list(sides), tables.schema, left_of_rows([side.rows for side in sides], tables))
    held_out, *others = ((code, side.units) for code, side in zip(codes, sides, strict=True))
    # Of shuffled columns one fold is enough: their number is a landmark, and has no interval.
    n_folds = (N_FOLDS, N_FOLDS, 1)
    synthetic, real, shuffled = (skill(held_out, *part) for part in zip(others, [categories] * 3, n_folds, strict=True))
    note = (
        "0.5 is a coin." if len(categories) else "All rows of all tables are equal: there is nothing to tell them by."
    )
    if tables.schema.unlearned:
        note = f"Without the columns {listed(tables.schema.unlearned)}. {note}"
    low, high = _around(synthetic.auc, _error(synthetic, samples), (0.0, 1.0))
    auc = Estimate(
        "joint.c2st.auc", synthetic.auc, samples.n, "lower", low=low, high=high,
        reference=real.auc, floor=shuffled.auc, note=note,
    )  # fmt: skip
    excess = synthetic.auc - real.auc
    low, high = _around(excess, _error(synthetic, samples, real), (-1.0, 1.0))
    beyond = Estimate(
        "joint.c2st.excess", excess, samples.n, "lower", low=low, high=high,
        reference=0.0, floor=shuffled.auc - real.auc, note="The AUC minus that of training rows.",
    )  # fmt: skip
    return MetricResult((auc, beyond))


def _error(synthetic: Skill, samples: JointSamples, real: Skill | None = None) -> float:
    """The standard error of an area under the curve, or of its difference from that of training rows."""
    losses = synthetic.losses - (real.losses if real is not None else 0.0)
    parts = [(losses, samples.fresh), (synthetic.wins, samples.synthetic)]
    if real is not None:
        parts.append((real.wins, samples.train))
    return float(np.sqrt(TWICE * sum(_variance(*part) for part in parts)))


def _variance(added: np.ndarray, side: JointSide) -> float:
    """The variance of a mean over rows of whole units."""
    sums = np.bincount(side.units, added)
    return float(sums @ sums) / len(added) ** 2 * len(sums) / (len(sums) - 1)


def _around(value: float, error: float, bounds: tuple[float, float]) -> tuple[float, float]:
    half = float(special.ndtri(1 - (1 - LEVEL) / 2)) * error
    return max(value - half, bounds[0]), min(value + half, bounds[1])
