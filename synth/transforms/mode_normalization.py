"""Mode-specific normalization: a number as the mode it belongs to and its place within.

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
from synth.domain.numeric_scale import ratio
from synth.transforms.columns import Array, PresentValues
from synth.transforms.encoding import Match

ATOM_SHARE = 0.05  # share of the values from which on one of them is a mode of its own
FEW_VALUES = 24  # so many distinct values, besides the frequent ones, are modes of their own each
MOST_VALUES, ROWS_A_VALUE = 128, 10
"""So many are it, too, where the column has as many times more values: they are codes, or a scale."""


def find_atoms(present: PresentValues, spikes: Array, rng: np.random.Generator) -> tuple[Array, PresentValues]:
    """Values that are modes of their own, ascending, and all rows that hold none of them.

    The values beside the frequent ones are atoms, too, where they are few: a scale from 1 to 5, or the one value of a
    few rows in a million.
    `present`: *Sensitive*. The column's values.
    """
    drawn = present.draw(rng)
    distinct, counts = np.unique(drawn, return_counts=True)
    frequent = np.union1d(distinct[counts >= ATOM_SHARE * len(drawn)], spikes[present.counts(spikes) > 0])
    rest = present.without(frequent)
    seen = np.unique(rest.draw(rng))
    if len(seen) > max(FEW_VALUES, min(MOST_VALUES, len(drawn) // ROWS_A_VALUE)):
        return frequent, rest
    rest = rest.without(seen)
    unseen = np.unique(rest.draw(rng))
    atoms = np.union1d(frequent, seen)
    if len(unseen) > FEW_VALUES:
        return atoms, rest
    return np.union1d(atoms, unseen), rest.without(unseen)


N_COMPONENTS, LEAST_WEIGHT = 10, 0.005
"""Mixture at most, and the weight below which one is left out."""
LEAST_DEVIATION = 1e-50
"""Of a component, so that no distance in standard deviations is too large to be squared."""


class GaussianMixture(NamedTuple):
    """A mixture of normal distributions.

    Attributes:
        means: shape (n_components,).
        deviations: positive, shape (n_components,).
        weights: positive, shape (n_components,); they sum to one where there are any.
    """

    means: NDArray[np.float64]
    deviations: NDArray[np.float64]
    weights: NDArray[np.float64]


def fit_mixture(values: NDArray[np.float64], rng: np.random.Generator) -> GaussianMixture:
    """The components of some values; none of no values, and one of a few.
    `values`: *Sensitive*. Finite and at most 1e100 in magnitude, shape (n,).
    """
    if len(values) == 0:
        return GaussianMixture(np.empty(0), np.empty(0), np.empty(0))
    center = float(np.median(values))
    reach = float(np.abs(values - center).max()) or 1.0
    standard = (values - center) / reach
    spread = max(float(standard.std()), LEAST_DEVIATION)
    if len(np.unique(standard)) < N_COMPONENTS:
        mean = center + reach * standard.mean()
        return GaussianMixture(np.array([mean]), np.array([max(reach * spread, LEAST_DEVIATION)]), np.ones(1))
    means, deviations, weights = _mixture(standard / spread, rng)
    unit = reach * spread
    return GaussianMixture(center + unit * means, np.maximum(unit * deviations, LEAST_DEVIATION), weights)


def _mixture(standard: NDArray[np.float64], rng: np.random.Generator) -> GaussianMixture:
    """A variational mixture with a Dirichlet process over its weights."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import BayesianGaussianMixture

    mixture = BayesianGaussianMixture(
        n_components=N_COMPONENTS, weight_concentration_prior=0.001, random_state=int(rng.integers(2**31))
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # near is near enough: components only scale
        mixture.fit(standard[:, None])
    kept = mixture.weights_ > LEAST_WEIGHT
    weights = mixture.weights_[kept] / mixture.weights_[kept].sum()
    return GaussianMixture(mixture.means_[kept, 0], np.sqrt(mixture.covariances_[kept, 0, 0]), weights)


FAR = 100.0
"""Components are on a signed logarithm if the range of the values is so many times that of nine in ten of them."""
WIDEST = 1e100  # magnitudes beyond this are on a logarithm too, where float64 can square them
WIDTH, EDGE = 4.0, 0.99
"""A scalar is the distance from the component's mean in so many standard deviations, cut off at the edge."""
_LARGEST_LOG = 709.7  # of a number that float64 holds
_NONE = np.empty(0)
Ladder = Sequence[tuple[float, float]]


@dataclass(frozen=True, eq=False)
class Modes:
    """The modes of one column of numbers; the codes are those of the atoms, then the components, then missing.

    DEVIATES: a value that many rows hold (0 hours, 40 hours), or that is declared a spike, is a mode of its own, an
    *atom*, so that it comes back as it was and not as a narrow component; the paper's mixture has components only. A
    missing value is a mode as well.

    Attributes:
        atoms: values that are modes of their own, ascending, shape (n_atoms,).
        means: of the components, shape (n_components,).
        deviations: of the components, positive, shape (n_components,).
        weights: of the components, positive, shape (n_components,); they sum to one where there are any.
        step_shares: share of the values of the components on each of the column's steps, shape (n_steps,); `None` where
            it has no steps or no components.
    """

    atoms: Array
    means: Array
    deviations: Array
    weights: Array
    missing: bool
    log: bool = False
    step_shares: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError("a column has at least one mode")
        if not np.isfinite(self.atoms).all() or not (np.diff(self.atoms) > 0).all():
            raise ValueError("atoms are not finite and strictly ascending")
        if not len(self.means) == len(self.deviations) == len(self.weights):
            raise ValueError("means, deviations and weights are not of the same components")
        widest = 10 * WIDEST
        sound = (np.abs(self.means) <= widest) & (self.deviations >= LEAST_DEVIATION) & (self.deviations <= widest)
        if not sound.all():
            raise ValueError("means or deviations of components are out of range")
        if len(self.weights) and not ((self.weights > 0).all() and np.isclose(self.weights.sum(), 1.0)):
            raise ValueError("weights of components are not positive numbers that sum to one")
        if not all(0 <= share <= 1 for share in self.step_shares):
            raise ValueError("shares of steps are not in [0, 1]")

    @property
    def size(self) -> int:
        """Number of codes: atoms, components, and missing."""
        return len(self.atoms) + len(self.means) + self.missing

    @property
    def has_scalar(self) -> bool:
        """True if a code may leave the value open."""
        return len(self.means) > 0

    @classmethod
    def fit(
        cls, values: PresentValues, *, log: bool, rng: np.random.Generator, spikes: Array = _NONE, ladder: Ladder = ()
    ) -> Self:
        """The modes of a column; missing is one where it occurs, or where there is nothing else.

        DEVIATES: the paper fits the mixture on every row. A draw of 5,000 takes a fraction of the time and gives the
        same components but for chance. It has no logarithm either, without which one far value hides all the others.

        Args:
            values: *Sensitive*. Of the column.
        """
        atoms, rest = find_atoms(values, spikes, rng)
        drawn = rest.draw(rng)
        log = log or _reaches_far(rest, drawn)
        components = fit_mixture(_signed_log(drawn) if log else drawn, rng)
        shares = _step_shares(values.without(spikes), np.setdiff1d(atoms, spikes), ladder) if len(rest) else ()
        return cls(atoms, *components, missing=values.missing or len(values) == 0, log=log, step_shares=shares)

    def apply(self, values: Array, rng: np.random.Generator) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """The code of each value, and its scalar: 0 where the code says it all; shape (n,) both.
        `values`: *Sensitive*. Shape (n,), NaN where missing.
        """
        codes, gone = self._atom_codes(values), np.isnan(values)
        scalars = np.zeros(len(values), np.float32)
        if gone.any():
            _require_mode(self.missing)
            codes[gone] = self.size - 1
        rest = np.flatnonzero(codes < 0)
        if len(rest):
            _require_mode(self.has_scalar)
            line = self._line(values[rest])
            component = self._drawn_components(line, rng)
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

        Of components it does not tell how likely each is to have made the value: whoever fits rows to the scalars of
        the components does. It tells how much of the line a step of each component's scalar covers: a weight is
        its density there.
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
        """The posterior probability of each component for each value; shape (n, n_components).
        `line`: *Sensitive*. Where components see the values, shape (n,).
        """
        shares = line[:, None] - self.means
        shares /= self.deviations
        np.square(shares, out=shares)
        shares *= -0.5
        shares += np.log(self.weights) - np.log(self.deviations)
        shares -= shares.max(axis=1, keepdims=True)
        np.exp(shares, out=shares)
        shares /= shares.sum(axis=1, keepdims=True)
        return shares

    def to_plain(self) -> dict[str, Any]:
        arrays = {name: getattr(self, name).tolist() for name in ("atoms", "means", "deviations", "weights")}
        return {**arrays, "missing": self.missing, "log": self.log, "step_shares": list(self.step_shares)}

    @classmethod
    def from_plain(cls, content: Mapping[str, Any]) -> Self:
        arrays = {name: plain_arrays.reals(content, name) for name in ("atoms", "means", "deviations", "weights")}
        # Models that know no steps were saved without them, and draw as they did.
        shares = tuple(plain_arrays.reals(content, "step_shares").tolist()) if "step_shares" in content else ()
        missing, log = (plain_arrays.flag(content, name) for name in ("missing", "log"))
        return cls(**arrays, missing=missing, log=log, step_shares=shares)

    def _atom_codes(self, values: Array) -> NDArray[np.int32]:
        if len(self.atoms) == 0:
            return np.full(len(values), -1, np.int32)
        place = np.minimum(np.searchsorted(self.atoms, values), len(self.atoms) - 1)
        return np.where(self.atoms[place] == values, place, -1).astype(np.int32)

    def _line(self, values: Array) -> Array:
        """Values on the scale of the components; finite, also for a value that nobody has fitted components on."""
        return _signed_log(values) if self.log else np.clip(values, -WIDEST, WIDEST)

    def _drawn_components(self, line: Array, rng: np.random.Generator) -> NDArray[np.int64]:
        shares = self.responsibilities(line)
        np.cumsum(shares, axis=1, out=shares)
        drawn = rng.random(len(line)) * shares[:, -1]
        return np.asarray((shares < drawn[:, None]).sum(axis=1), dtype=np.int64)


def _reaches_far(values: PresentValues, drawn: Array) -> bool:
    """True if a few values lie so far out that components could not tell the others apart."""
    if len(values) == 0:
        return False
    low, high = values.ends()
    if max(-low, high) > WIDEST:
        return True
    most = np.quantile(drawn, [0.05, 0.95])
    return bool(high - low > FAR * (most[1] - most[0]))


def _step_shares(values: PresentValues, atoms: Array, ladder: Ladder) -> tuple[float, ...]:
    """Shares on steps of the values that are no atoms, so that with the atoms they are the declared ones.
    `values`: *Sensitive*. Of the column, without its spikes.
    """
    held, n = values.counts(atoms), len(values)
    left = n - held.sum()
    on = [held[ratio(atoms, size) % 1 == 0].sum() for size, _ in ladder]
    return tuple(float(np.clip((share * n - k) / left, 0, 1)) for (_, share), k in zip(ladder, on, strict=True))


def _require_mode(known: bool) -> None:
    if not known:
        raise ValueError("a value has no mode: encode rows of the table that the modes were fitted on")


def _signed_log(values: Array) -> Array:
    return np.sign(values) * np.log1p(np.abs(values))


def _signed_exp(line: Array) -> Array:
    return np.sign(line) * np.expm1(np.minimum(np.abs(line), _LARGEST_LOG))
