"""Detection of synthetic rows among real ones: by gradient boosting (C2ST), and by propensity scores (pMSE).

Synthetic rows are set against held-out ones, which no generator saw. Against the training rows a table of slightly
changed copies would do better than real rows do: a copy falls where its original, marked as real, was learned from. The
reference sets training rows against the same held-out rows, the floor training rows with shuffled columns.

The classifier is `evaluate.fidelity.classifier`. Propensity scores are those of a logistic regression on main effects
and on products of the first principal components: main effects see columns one by one, products see how they hang
together. It has a slight ridge (a prior of one unit of log-odds per unit of the space), so that a perfect separation
has a solution; degrees of freedom are then no whole number.

Source: Lopez-Paz and Oquab 2017, "Revisiting Classifier Two-Sample Tests", arXiv:1610.06545; Snoke et al. 2018,
"General and Specific Utility Measures for Synthetic Data", arXiv:1604.06651, eq. 1 and theorem 1; LeDell, Petersen, van
der Laan 2015 (the variance of a cross-fitted area under the curve).
"""

from dataclasses import dataclass

import numpy as np
from scipy import linalg, special

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
    Metric("joint.pmse.ratio", "lower", "Propensity ratio",
           "How far propensity scores are from a coin's, over what chance gives (pMSE ratio); 1 is as real.",
           describes=_LEARNS, key=True),
)  # fmt: skip

RIDGE = 1.0
MAX_PRODUCTS_OF = 10  # Principal components that are multiplied with each other
ROWS_PER_EFFECT = 10  # Rows of each table for each main effect, and for each product: more effects would fit noise
_LEAST_VARIANCE = 1e-9
_LEAST_EXPECTED = 1e-12
MAX_STEPS = 50
MAX_LEVERAGE = 0.9


@dataclass(frozen=True)
class Propensity:
    """Mean squared difference of propensity scores from the share of the table's rows, and its mean under chance."""

    pmse: float
    expected: float
    error: float

    @property
    def ratio(self) -> float:
        """1 for two samples of one population, or equal rows."""
        return self.pmse / self.expected if self.expected > _LEAST_EXPECTED else 1.0

    def interval(self) -> tuple[float, float]:
        """The 95% interval of the ratio."""
        error = self.error / self.expected if self.expected > _LEAST_EXPECTED else 0.0
        return _around(self.ratio, error, (0.0, np.inf))


def design(points: list[np.ndarray]) -> list[np.ndarray]:
    """Effects of the rows of each table, on axes that all tables together make: shape (n, n_effects) each. `points`: of
    each table in the space of `evaluate.neighbors`; *Sensitive* where the table is.
    """
    together = np.concatenate(points)
    together = together - together.mean(axis=0)
    variances, axes = np.linalg.eigh(together.T @ together / len(together))
    n_allowed = max(1, len(points[0]) // ROWS_PER_EFFECT)
    n_main = min(n_allowed, int((variances > _LEAST_VARIANCE).sum()))
    variances, axes = variances[::-1][:n_main], axes[:, ::-1][:, :n_main]
    main = together @ axes
    n_multiplied = min(MAX_PRODUCTS_OF, n_main, int((np.sqrt(8 * n_allowed + 1) - 1) / 2))
    scaled = main[:, :n_multiplied] / np.sqrt(variances[:n_multiplied])
    first, second = np.triu_indices(n_multiplied)
    effects = np.hstack([main, scaled[:, first] * scaled[:, second]])
    return np.split(effects, np.cumsum([len(of) for of in points])[:-1])


def propensity(held_out: tuple[np.ndarray, np.ndarray], table: tuple[np.ndarray, np.ndarray]) -> Propensity:
    """The pMSE of a table's rows among held-out ones. `held_out`: *Sensitive*. Effects, shape (n, n_effects), and unit
    of each row from 0, shape (n,).
    """
    effects = np.concatenate([held_out[0], table[0]])
    effects = effects - effects.mean(axis=0)
    labels = np.repeat([0.0, 1.0], [len(held_out[0]), len(table[0])])
    units = np.concatenate([held_out[1], table[1] + held_out[1].max() + 1])
    share = float(labels.mean())
    x = np.column_stack([np.ones(len(effects)), effects])
    scores, information = _fitted(x, labels)
    expected, chance = _null(effects, units, share)
    gaps = scores - share
    # What each row adds, by itself and by its pull on the coefficients (the influence function); a row that the model
    # bends to has too small a residual (MacKinnon and White 1985, HC3).
    pull = 2.0 * x.T @ (gaps * scores * (1.0 - scores)) / len(x)
    leverage = scores * (1.0 - scores) * np.einsum("ij,ji->i", x, linalg.cho_solve(information, x.T))
    residuals = (labels - scores) / (1.0 - np.minimum(leverage, MAX_LEVERAGE))
    added = gaps**2 / len(x) + (x @ linalg.cho_solve(information, pull)) * residuals
    # Near chance the influence is itself an estimate, whose noise is as large as what chance gives.
    variance = max(_clustered(added, labels, units) - chance, chance)
    return Propensity(float((gaps**2).mean()), expected, float(np.sqrt(variance)))


def _null(effects: np.ndarray, units: np.ndarray, share: float) -> tuple[float, float]:
    """Mean and variance of the pMSE where it is by chance which units are of the table. To first order the pMSE is s'
    A^-1 J A^-1 s, s being the score at zero, A the information with the ridge in it and J what maps coefficients to
    squared scores: its mean is the trace of A^-1 J A^-1 V, V being the variance of s.
    """
    # DEVIATES: Theorem 1 takes the real rows for given, and finds (1 - c)^2 c (k - 1) / N. Ours are a sample too, and
    # one that the generator did not see, which gives (1 - c) c (k - 1) / N: 1 then is a fresh real sample. The ridge
    # and rows of one entity change k - 1; without either the trace below is the same.
    products = effects.T @ effects
    spread = share * (1.0 - share)
    information = linalg.cho_factor(spread * products + RIDGE * np.eye(len(products)))
    carried = linalg.cho_solve(information, spread**2 / len(effects) * products)
    sums, n_units = _sums(effects, units)
    variance = spread * n_units / (n_units - 1) * (sums.T @ sums)
    weights = carried @ linalg.cho_solve(information, variance)
    return float(np.trace(weights)), float(2.0 * np.sum(weights * weights.T))


def _clustered(added: np.ndarray, labels: np.ndarray, units: np.ndarray) -> float:
    """The variance of the sum of what two samples of whole units add."""
    total = 0.0
    for side in (0.0, 1.0):
        rows = added[labels == side]
        sums, n_units = _sums(rows - rows.mean(), units[labels == side])
        total += float(sums @ sums) * n_units / (n_units - 1)
    return total


def _sums(rows: np.ndarray, units: np.ndarray) -> tuple[np.ndarray, int]:
    """The sum over the rows of each unit, and how many units there are."""
    _, of = np.unique(units, return_inverse=True)
    n_units = int(of.max()) + 1
    if n_units == len(rows):
        return rows, n_units
    order = np.argsort(of, kind="stable")
    starts = np.searchsorted(of[order], np.arange(n_units))
    return np.asarray(np.add.reduceat(rows[order], starts, axis=0)), n_units


def _fitted(x: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, tuple[np.ndarray, bool]]:
    """Propensity scores by penalized maximum likelihood, and information: Newton's steps, halved where they lead up."""
    penalty = np.full(x.shape[1], RIDGE)
    penalty[0] = 0.0
    beta = np.zeros(x.shape[1])
    beta[0] = special.logit(labels.mean())
    loss = _loss(x, labels, beta, penalty)
    for _ in range(MAX_STEPS):
        scores = special.expit(x @ beta)
        information = linalg.cho_factor((x.T * (scores * (1.0 - scores))) @ x + np.diag(penalty))
        step = linalg.cho_solve(information, x.T @ (labels - scores) - penalty * beta)
        size = 1.0
        while (after := _loss(x, labels, beta + size * step, penalty)) > loss and size > 1e-6:
            size /= 2.0
        beta = beta + size * step
        if loss - after < 1e-9 * len(x):
            break
        loss = after
    return scores, information


def _loss(x: np.ndarray, labels: np.ndarray, beta: np.ndarray, penalty: np.ndarray) -> float:
    scores = x @ beta
    return float(np.logaddexp(0.0, scores).sum() - labels @ scores + (penalty * beta**2).sum() / 2.0)


NAMES = tuple(metric.name for metric in METRICS)
TWICE = 2.0
"""Factor of cross-fitting on the variance of an area under the curve.

The difference between two parts of the rows counts where one is learned from and the other scored, and once more where
it is the other way round. For the area of a linear score under no difference between the tables the factor is 2; in
simulations with boosting it is 1.6 to 2.2 on some hundred rows, and falls towards 1, the value of LeDell et al., where
rows are many and the difference is large. Intervals are on the wide side there.
"""
_EQUAL = "All rows of all tables are equal: there is nothing to tell them by."


def measure(tables: Tables) -> MetricResult:
    """The AUC of a classifier, its excess over real against real, and the pMSE over what chance makes of it, which
    grows with the number of rows. Estimates: `joint.c2st.auc`, `joint.c2st.excess`, `joint.pmse.ratio`.
    """
    samples = joint_samples(tables)
    if samples.n_units < MIN_UNITS:
        why = f"it needs at least {MIN_UNITS} rows (or entities) of each table"
        return MetricResult(failures=tuple(Failure(name, "skipped", why) for name in NAMES))
    auc, pmse = _c2st(samples, tables), _pmse(samples)
    return MetricResult((*auc, pmse)) if isinstance(pmse, Estimate) else MetricResult(auc, (pmse,))


def _tables(samples: JointSamples) -> tuple[JointSide, JointSide, JointSide]:
    """The tables that are set against held-out rows: synthetic, training and shuffled rows."""
    return samples.synthetic, samples.train, samples.shuffled


def _c2st(samples: JointSamples, tables: Tables) -> tuple[Estimate, Estimate]:
    sides = (samples.fresh, *_tables(samples))
    codes, categories = coded(list(sides), tables.schema, left_of_rows([side.rows for side in sides], tables))
    held_out, *others = ((code, side.units) for code, side in zip(codes, sides, strict=True))
    # Of shuffled columns one fold is enough: their number is a landmark, and has no interval.
    n_folds = (N_FOLDS, N_FOLDS, 1)
    synthetic, real, shuffled = (skill(held_out, *part) for part in zip(others, [categories] * 3, n_folds, strict=True))
    note = "0.5 is a coin." if len(categories) else _EQUAL
    if tables.schema.unlearned:
        note = f"Without the columns {listed(tables.schema.unlearned)}. {note}"
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


def _variance(added: np.ndarray, side: JointSide) -> float:
    """The variance of a mean over rows of whole units."""
    sums = np.bincount(side.units, added)
    return float(sums @ sums) / len(added) ** 2 * len(sums) / (len(sums) - 1)


def _around(value: float, error: float, bounds: tuple[float, float]) -> tuple[float, float]:
    half = float(special.ndtri(1 - (1 - LEVEL) / 2)) * error
    return max(value - half, bounds[0]), min(value + half, bounds[1])


def _pmse(samples: JointSamples) -> Estimate | Failure:
    sides = (samples.fresh, *_tables(samples))
    effects = design([side.points for side in sides])
    if effects[0].shape[1] == 0:
        return Failure("joint.pmse.ratio", "skipped", _EQUAL.rstrip("."))
    held_out, *others = ((of, side.units) for of, side in zip(effects, sides, strict=True))
    synthetic, real, shuffled = (propensity(held_out, other) for other in others)
    low, high = synthetic.interval()
    return Estimate(
        "joint.pmse.ratio", synthetic.ratio, samples.n, "lower", low=low, high=high, reference=real.ratio,
        floor=shuffled.ratio,
        note=f"The pMSE is {synthetic.pmse:.4f}; two samples of one population show {synthetic.expected:.4f}.",
    )  # fmt: skip
