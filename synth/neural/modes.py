"""Mode-specific normalization: a number as the mode it belongs to and where in it the number lies.

A mode is an *atom*, or a component of a mixture of normal distributions, as many as the values call for. Atoms are
declared spikes, values that many rows hold, and values that few others stand beside.

Source: Xu et al. 2019 (1907.00503), section 4.2.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from synth.domain import plain_arrays
from synth.domain.grid import ratio

N_DRAWN = 5_000  # values that are looked at for frequent ones, and that a mixture is fitted on
ATOM_SHARE = 0.05  # share of the values from which on one of them is a mode of its own
FEW_VALUES = 24  # so many distinct values, besides the frequent ones, are modes of their own each
MOST_VALUES, ROWS_A_VALUE = 128, 10
"""So many are it, too, where the column has as many times more values: they are codes, or a scale."""
N_COMPONENTS, LEAST_WEIGHT = 10, 0.005
"""Mixture at most, and the weight below which one is left out; as in the library `ctgan`."""
LEAST_DEVIATION = 1e-50  # of a component, so that no distance in standard deviations is too large to be squared
FAR = 100.0
"""Components are on a signed logarithm if the range of the values is so many times that of nine in ten of them."""
WIDEST = 1e100  # magnitudes beyond this are on a logarithm too, where float64 can square them
WIDTH, EDGE = 4.0, 0.99
"""A scalar is the distance from the component's mean in so many standard deviations, cut off at the edge."""
_LARGEST_LOG = 709.7  # of a number that float64 holds
_NONE = np.empty(0)
Array = NDArray[np.float64]
Ladder = Sequence[tuple[float, float]]


class Match(NamedTuple):
    """The codes under which a value may be found.
    `weights`: of the span's codes, shape (size,): one for the code of the value; of several, in (0, 1] and as dense as
    each is about the value. All are zero where no row of the encoding can hold the value.
    `scalars`: of these codes, shape (size,), NaN where the code alone says the value; `None`: the column has none.
    """

    weights: NDArray[np.float64]
    scalars: NDArray[np.float64] | None


def find_atoms(values: Array, spikes: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Values that are modes of their own, ascending, and all values that are none of them. `values`: *Sensitive*."""
    drawn = _draw(values, rng)
    distinct, counts = np.unique(drawn, return_counts=True)
    atoms = np.union1d(distinct[counts >= ATOM_SHARE * len(drawn)], spikes[np.isin(spikes, values)])
    rest = values[~np.isin(values, atoms)]
    # Where few others stand beside these, they are atoms, too: a scale from 1 to 5. A second look finds values that the
    # first draw did not show, such as the one value of a few rows in a million.
    for most in (max(FEW_VALUES, min(MOST_VALUES, len(drawn) // ROWS_A_VALUE)), FEW_VALUES):
        others = np.unique(_draw(rest, rng))
        if len(others) > most:
            break
        atoms, rest = np.union1d(atoms, others), rest[~np.isin(rest, others)]
    return atoms, rest


def _draw(values: Array, rng: np.random.Generator) -> Array:
    return values[rng.choice(len(values), N_DRAWN, replace=False)] if len(values) > N_DRAWN else values


def fit_mixture(values: Array, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Means, deviations and weights of the components of some values; none of no values, and one of a few.
    `values`: *Sensitive*. Finite and at most 1e100 in magnitude, shape (n,).
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import BayesianGaussianMixture

    if len(values) == 0:
        return _NONE, _NONE, _NONE
    center = float(np.median(values))
    reach = float(np.abs(values - center).max()) or 1.0
    standard = (values - center) / reach  # so that no square overflows
    spread = max(float(standard.std()), LEAST_DEVIATION)
    unit = reach * spread
    if len(np.unique(standard)) < N_COMPONENTS:
        return np.array([center + reach * standard.mean()]), np.array([max(unit, LEAST_DEVIATION)]), np.ones(1)
    mixture = BayesianGaussianMixture(
        n_components=N_COMPONENTS, weight_concentration_prior=0.001, random_state=int(rng.integers(2**31))
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # near is near enough: components only scale
        likeliest = mixture.fit_predict((standard / spread)[:, None])
    kept = (mixture.weights_ > LEAST_WEIGHT) & (np.bincount(likeliest, minlength=N_COMPONENTS) > 0)
    deviations = unit * np.sqrt(mixture.covariances_[kept, 0, 0])
    weights = mixture.weights_[kept] / mixture.weights_[kept].sum()
    return center + unit * mixture.means_[kept, 0], np.maximum(deviations, LEAST_DEVIATION), weights


@dataclass(frozen=True, eq=False)
class Modes:
    """The modes of one column of numbers; the codes are those of the atoms, then the components, then missing.
    `atoms`: ascending, shape (n_atoms,). `means`, `deviations`, `weights`: of the components, shape (n_components,).
    `step_shares`: share of the components' values on each of the column's steps, shape (n_steps,), or none.

    DEVIATES: a value that many rows hold (0 hours, 40 hours), or that is declared a spike, is a mode of its own, so
    that it comes back as it was and not as a narrow component; the paper's mixture has components only. A missing value
    is a mode as well.
    """

    atoms: Array
    means: Array
    deviations: Array
    weights: Array
    missing: bool
    log: bool = False
    step_shares: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        n, widest = len(self.means), 10 * WIDEST
        is_sound = (
            self.size > 0
            and len(self.deviations) == len(self.weights) == n
            and bool(np.isfinite(self.atoms).all() and (np.diff(self.atoms) > 0).all())
            and bool((np.abs(self.means) <= widest).all() and (self.weights > 0).all())
            and bool(((self.deviations >= LEAST_DEVIATION) & (self.deviations <= widest)).all())
            and (n == 0 or bool(np.isclose(self.weights.sum(), 1.0)))
            and all(0 <= share <= 1 for share in self.step_shares)
        )
        if not is_sound:
            raise ValueError("modes are atoms in order, and components that a mixture can have")

    @property
    def size(self) -> int:
        return len(self.atoms) + len(self.means) + self.missing

    @property
    def has_scalar(self) -> bool:
        return len(self.means) > 0

    @property
    def line(self) -> tuple[tuple[float, float], ...]:
        """Where each code lies on the scale of the components, NaN where missing, and how far a scalar of 1 is off."""
        starts = [*self._line(self.atoms), *self.means, *[np.nan] * self.missing]
        reaches = [*np.zeros(len(self.atoms)), *WIDTH * self.deviations, *[0.0] * self.missing]
        return tuple(zip(map(float, starts), map(float, reaches), strict=True))

    @classmethod
    def fit(
        cls, values: Array, *, log: bool, rng: np.random.Generator, spikes: Array = _NONE, ladder: Ladder = ()
    ) -> Self:
        """The modes of a column; missing is one where it occurs, or where there is nothing else.
        `values`: *Sensitive*. Shape (n,), NaN where missing.

        DEVIATES: the paper fits the mixture on every row. A draw of 5,000 takes a fraction of the time and gives the
        same components but for chance. It has no logarithm either, without which one far value hides all the others.
        """
        present = values[~np.isnan(values)]
        atoms, rest = find_atoms(present, spikes, rng)
        drawn = _draw(rest, rng)
        log = log or _reaches_far(rest, drawn)
        components = fit_mixture(_signed_log(drawn) if log else drawn, rng)
        shares: tuple[float, ...] = ()
        if len(rest):
            others = present[~np.isin(present, spikes)]
            shares = tuple(_step_share(others, np.setdiff1d(atoms, spikes), size, share) for size, share in ladder)
        missing = len(present) < len(values) or len(values) == 0
        return cls(atoms, *components, missing=missing, log=log, step_shares=shares)

    def apply(
        self, values: Array, rng: np.random.Generator | None = None
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """The code of each value, and its scalar: 0 where the code says it all; shape (n,) both.
        `rng`: draws a component by the posterior, as the paper does; `None`: it is the likeliest.
        `values`: *Sensitive*. Shape (n,), NaN where missing; of the table that the modes were fitted on.
        """
        codes, scalars = self._atom_codes(values), np.zeros(len(values), np.float32)
        codes[np.isnan(values)] = self.size - 1
        rest = np.flatnonzero(codes < 0)
        if len(rest):
            line = self._line(values[rest])
            shares = self.responsibilities(line)
            if rng is None:
                component = shares.argmax(axis=1)
            else:
                running = shares.cumsum(axis=1)
                component = (running < rng.random(len(line))[:, None] * running[:, -1:]).sum(axis=1)
            codes[rest] = len(self.atoms) + component
            scalars[rest] = np.clip((line - self.means[component]) / (WIDTH * self.deviations[component]), -EDGE, EDGE)
        return codes, scalars

    def invert(self, codes: NDArray[np.integer[Any]], scalars: NDArray[np.floating[Any]]) -> Array:
        """The values of codes and scalars, NaN where missing; shape (n,)."""
        values = np.concatenate([self.atoms, self.means, np.full(int(self.missing), np.nan)])[codes]
        inside = np.flatnonzero(self.leaves_open(codes))
        component = codes[inside] - len(self.atoms)
        line = self.means[component] + WIDTH * self.deviations[component] * np.clip(scalars[inside], -1, 1)
        values[inside] = _signed_exp(line) if self.log else line
        return np.asarray(values)

    def leaves_open(self, codes: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
        """True if a code is a component's, so that the scalar says the value; shape (n,)."""
        return np.asarray((codes >= len(self.atoms)) & (codes < len(self.atoms) + len(self.means)))

    def match(self, value: float) -> Match:
        """The codes under which a value may be found: its atom's, or those of all components that reach it.

        A component's weight is the density of its scalar about the value: how much of the line a step covers. How
        likely each is to have made the value is not in it: whoever fits rows to the scalars counts that.
        """
        weights, scalars = np.zeros(self.size), np.full(self.size, np.nan)
        atom = int(self._atom_codes(np.array([value]))[0])
        if np.isnan(value):
            weights[self.size - 1 :] = float(self.missing)
        elif atom >= 0:
            weights[atom] = 1.0
        else:
            components = slice(len(self.atoms), len(self.atoms) + len(self.means))
            standard = (self._line(np.array([value])) - self.means) / self.deviations
            reached = np.abs(standard) <= WIDTH
            if reached.any():
                weights[components] = reached * (self.deviations[reached].min() / self.deviations)
            scalars[components] = np.where(reached, np.clip(standard / WIDTH, -EDGE, EDGE), np.nan)
        return Match(weights, scalars if self.has_scalar else None)

    def responsibilities(self, line: Array) -> Array:
        """The posterior probability of each component for each value; shape (n, n_components)."""
        standard = (line[:, None] - self.means) / self.deviations
        shares = np.log(self.weights) - np.log(self.deviations) - 0.5 * np.square(standard)
        shares = np.exp(shares - shares.max(axis=1, keepdims=True))
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))

    def to_plain(self) -> dict[str, Any]:
        arrays = {name: getattr(self, name).tolist() for name in ("atoms", "means", "deviations", "weights")}
        return {**arrays, "missing": self.missing, "log": self.log, "step_shares": list(self.step_shares)}

    @classmethod
    def from_plain(cls, content: Mapping[str, Any]) -> Self:
        names = ("atoms", "means", "deviations", "weights", "step_shares")
        arrays = {name: plain_arrays.reals(content, name) for name in names}
        shares = tuple(arrays.pop("step_shares").tolist())
        missing, log = (plain_arrays.flag(content, name) for name in ("missing", "log"))
        return cls(**arrays, missing=missing, log=log, step_shares=shares)

    def _atom_codes(self, values: Array) -> NDArray[np.int32]:
        """The code of each value's atom, -1 where it has none."""
        if len(self.atoms) == 0:
            return np.full(len(values), -1, np.int32)
        code = np.minimum(np.searchsorted(self.atoms, values), len(self.atoms) - 1)
        return np.where(self.atoms[code] == values, code, -1).astype(np.int32)

    def _line(self, values: Array) -> Array:
        """Values on the scale of the components; finite, also for a value that nobody has fitted components on."""
        return _signed_log(values) if self.log else np.clip(values, -WIDEST, WIDEST)


def _reaches_far(values: Array, drawn: Array) -> bool:
    """True if a few values lie so far out that components could not tell the others apart."""
    if len(values) == 0:
        return False
    low, high = float(values.min()), float(values.max())
    most = np.quantile(drawn, [0.05, 0.95])
    return max(-low, high) > WIDEST or bool(high - low > FAR * (most[1] - most[0]))


def _step_share(values: Array, atoms: Array, size: float, share: float) -> float:
    """The share on a step of the values that are no atoms, so that with the atoms it is the declared one.
    `values`: *Sensitive*. Of the column, without its spikes.
    """
    are_atoms = np.isin(values, atoms)
    n_on = np.count_nonzero(ratio(values[are_atoms], size) % 1 == 0)
    return float(np.clip((share * len(values) - n_on) / np.count_nonzero(~are_atoms), 0, 1))


def _signed_log(values: Array) -> Array:
    return np.sign(values) * np.log1p(np.abs(values))


def _signed_exp(line: Array) -> Array:
    return np.sign(line) * np.expm1(np.minimum(np.abs(line), _LARGEST_LOG))
