"""Whether synthetic rows can be told from real ones: by gradient boosting (C2ST), and by propensity scores (pMSE).

Synthetic rows are set against held-out ones, which no generator saw. Against the training rows a table of slightly
changed copies would do better than real rows do: a copy falls where its original, marked as real, was learned from. The
reference sets training rows against the same held-out rows, the floor training rows with shuffled columns.

Source: Lopez-Paz and Oquab 2017, "Revisiting Classifier Two-Sample Tests", arXiv:1610.06545; Snoke et al. 2018,
arXiv:1604.06651; LeDell, Petersen, van der Laan 2015 (the variance of a cross-fitted area under the curve).
"""

import numpy as np
from scipy import special

from evaluate.fidelity.joint_classifier import Skill, coded, skill
from evaluate.fidelity.joint_propensity import design, propensity
from evaluate.fidelity.joint_samples import MIN_UNITS, JointSamples, Side, joint_samples
from evaluate.intervals import LEVEL
from evaluate.result import Estimate, Failure
from evaluate.tables import Measurement, Tables

NAMES = ("joint.c2st.auc", "joint.c2st.excess", "joint.pmse.ratio", "joint.pmse.excess")
TWICE = 2.0
"""What cross-fitting makes of the variance of an area under the curve.

The difference between two parts of the rows counts where one is learned from and the other scored, and once more where
it is the other way round. For the area of a linear score under no difference between the tables the factor is 2; in
simulations with boosting it is 1.6 to 2.2 on some hundred rows, and falls towards 1, the value of LeDell et al., where
rows are many and the difference is large. Intervals are on the wide side there.
"""
_EQUAL = "All rows of all tables are equal: there is nothing to tell them by."


def measure(tables: Tables) -> Measurement:
    """The AUC of a classifier, its excess over real against real, and the pMSE over and beyond what chance makes of it.

    Estimates: `joint.c2st.auc`, `joint.c2st.excess`, `joint.pmse.ratio`, `joint.pmse.excess`. For a fixed difference
    between tables the ratio grows with the number of rows, the excess does not.
    """
    samples = joint_samples(tables)
    if samples.n_units < MIN_UNITS:
        why = f"it needs at least {MIN_UNITS} rows (or entities) of each table"
        return Measurement(failures=tuple(Failure(name, "skipped", why) for name in NAMES))
    pmse = _pmse(samples)
    return Measurement((*_c2st(samples, tables), *pmse.estimates), pmse.failures)


def _tables(samples: JointSamples) -> tuple[Side, Side, Side]:
    """What is set against held-out rows: synthetic, training and shuffled rows."""
    return samples.synthetic, samples.train, samples.shuffled


def _c2st(samples: JointSamples, tables: Tables) -> tuple[Estimate, Estimate]:
    sides = (samples.fresh, *_tables(samples))
    codes, categories = coded(list(sides), tables.schema)
    held_out, *others = ((code, side.units) for code, side in zip(codes, sides, strict=True))
    synthetic, real, shuffled = (skill(held_out, other, categories) for other in others)
    note = "0.5 is a coin." if len(categories) else _EQUAL
    low, high = _around(synthetic.auc, _error(synthetic, samples), (0.0, 1.0))
    auc = Estimate(
        "joint.c2st.auc", synthetic.auc, samples.n, "lower", low=low, high=high,
        reference=real.auc, floor=shuffled.auc, note=note,
    )  # fmt: skip
    excess = synthetic.auc - real.auc
    low, high = _around(excess, _error(synthetic, samples, real), (-1.0, 1.0))
    return auc, Estimate(
        "joint.c2st.excess", excess, samples.n, "lower", low=low, high=high,
        reference=0.0, floor=shuffled.auc - real.auc, note="The AUC minus that of training rows.",
    )  # fmt: skip


def _error(synthetic: Skill, samples: JointSamples, real: Skill | None = None) -> float:
    """The standard error of an area under the curve, or of its difference from that of training rows."""
    losses = synthetic.losses - (real.losses if real is not None else 0.0)
    parts = [(losses, samples.fresh), (synthetic.wins, samples.synthetic)]
    if real is not None:
        parts.append((real.wins, samples.train))
    return float(np.sqrt(TWICE * sum(_variance(*part) for part in parts)))


def _variance(added: np.ndarray, side: Side) -> float:
    """The variance of a mean over rows of whole units."""
    sums = np.bincount(side.units, added)
    return float(sums @ sums) / len(added) ** 2 * len(sums) / (len(sums) - 1)


def _around(value: float, error: float, bounds: tuple[float, float]) -> tuple[float, float]:
    half = float(special.ndtri(1 - (1 - LEVEL) / 2)) * error
    return max(value - half, bounds[0]), min(value + half, bounds[1])


def _pmse(samples: JointSamples) -> Measurement:
    """The pMSE over what chance makes of it, and beyond it."""
    sides = (samples.fresh, *_tables(samples))
    effects = design([side.points for side in sides])
    names = ("joint.pmse.ratio", "joint.pmse.excess")
    if effects[0].shape[1] == 0:
        return Measurement(failures=tuple(Failure(name, "skipped", _EQUAL.rstrip(".")) for name in names))
    held_out, *others = ((of, side.units) for of, side in zip(effects, sides, strict=True))
    synthetic, real, shuffled = (propensity(held_out, other) for other in others)
    note = f"The pMSE is {synthetic.pmse:.4f}; two samples of one population show {synthetic.expected:.4f}."
    low, high = synthetic.ratio_interval()
    ratio = Estimate(
        names[0], synthetic.ratio, samples.n, "lower", low=low, high=high,
        reference=real.ratio, floor=shuffled.ratio, note=note,
    )  # fmt: skip
    low, high = synthetic.excess_interval()
    excess = Estimate(
        names[1], synthetic.excess, samples.n, "lower", low=low, high=high,
        reference=real.excess, floor=shuffled.excess, note=note,
    )  # fmt: skip
    return Measurement((ratio, excess))
