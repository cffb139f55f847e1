"""How far propensity scores of a table's rows among held-out ones are from a coin's: pMSE, and what chance makes of it.

The model is a logistic regression on main effects and on products of the first principal components: main effects see
columns one by one, products see how they hang together. It has a slight ridge (a prior of one unit of log-odds per unit
of the space), so that a perfect separation has a solution; degrees of freedom are then no whole number.

Source: Snoke et al. 2018, "General and Specific Utility Measures for Synthetic Data", arXiv:1604.06651, eq. 1 and
theorem 1.
"""

from dataclasses import dataclass

import numpy as np
from scipy import linalg, special

from evaluate.intervals import LEVEL

RIDGE = 1.0
MAX_PRODUCTS_OF = 10
"""Principal components that are multiplied with each other."""
ROWS_PER_EFFECT = 10
"""Rows of each table for each main effect, and for each product: more effects would fit noise."""
_LEAST_VARIANCE = 1e-9
_LEAST_EXPECTED = 1e-12
MAX_STEPS = 50
MAX_LEVERAGE = 0.9


@dataclass(frozen=True)
class Propensity:
    """The mean squared difference of propensity scores from the share of the table's rows.

    Attributes:
        pmse: the figure itself, in [0, 0.25].
        expected: what two samples of one population show on average.
        error: standard error of `pmse`.
    """

    pmse: float
    expected: float
    error: float

    @property
    def ratio(self) -> float:
        """How many times what chance makes of it; 1 as two samples of one population, or equal rows."""
        return self.pmse / self.expected if self.expected > _LEAST_EXPECTED else 1.0

    @property
    def excess(self) -> float:
        """What is beyond chance; 0 is as two samples of one population."""
        return self.pmse - self.expected

    def ratio_interval(self) -> tuple[float, float]:
        """The 95% interval of the ratio."""
        half = self._half / self.expected if self.expected > _LEAST_EXPECTED else 0.0
        return max(0.0, self.ratio - half), self.ratio + half

    def excess_interval(self) -> tuple[float, float]:
        """The 95% interval of the excess."""
        return self.excess - self._half, self.excess + self._half

    @property
    def _half(self) -> float:
        return float(special.ndtri(1 - (1 - LEVEL) / 2)) * self.error


def design(points: list[np.ndarray]) -> list[np.ndarray]:
    """Effects of the rows of each table, on axes that all tables together make: shape (n, n_effects) each.

    Args:
        points: of each table in the space of `evaluate.neighbors`; *Sensitive* where the table is.
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
    """The pMSE of a table's rows among held-out ones.

    Args:
        held_out: *Sensitive*. Effects, shape (n, n_effects), and unit of each row from 0, shape (n,).
        table: the same of the table.
    """
    effects = np.concatenate([held_out[0], table[0]])
    effects = effects - effects.mean(axis=0)
    labels = np.repeat([0.0, 1.0], [len(held_out[0]), len(table[0])])
    units = np.concatenate([held_out[1], table[1] + held_out[1].max() + 1])
    share = float(labels.mean())
    expected, chance = _null(effects, units, share)
    x = np.column_stack([np.ones(len(effects)), effects])
    scores, information = _fitted(x, labels)
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
    """Mean and variance of the pMSE where it is by chance which units are of the table.

    To first order the pMSE is s' A^-1 J A^-1 s, s being the score at zero, A the information with the ridge in it and J
    what maps coefficients to squared scores: its mean is the trace of A^-1 J A^-1 V, V being the variance of s.
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
