"""Mode-specific normalization: a number as the mode it belongs to and its place within.

Source: Xu et al. 2019 (1907.00503), section 4.2.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from synth.domain import plain_arrays
from synth.domain.numeric_scale import ratio
from synth.transforms.atoms import find_atoms
from synth.transforms.bells import LEAST_DEVIATION, fit_bells
from synth.transforms.columns import Array, Values
from synth.transforms.encoding import Match

FAR = 100.0
"""Where the range of the values is so many times that of nine in ten of them, bells are on a signed logarithm."""
WIDEST = 1e100
"""Magnitudes beyond this are on a logarithm too, where float64 can square them."""
WIDTH, EDGE = 4.0, 0.99
"""A scalar is the distance from the bell's mean in so many standard deviations, cut off at the edge."""
_LARGEST_LOG = 709.7
"""Of a number that float64 holds."""
_NONE = np.empty(0)
Ladder = Sequence[tuple[float, float]]


@dataclass(frozen=True, eq=False)
class Modes:
    """The modes of one column of numbers; the codes are those of the atoms, then the bells, then missing.

    DEVIATES: a value that many rows hold (0 hours, 40 hours), or that is declared a spike, is a mode of its own, an
    *atom*, so that it comes back as it was and not as a narrow bell; the paper's mixture has bells only. A missing
    value is a mode as well.

    Attributes:
        atoms: values that are modes of their own, ascending, shape (n_atoms,).
        means: of the bells, shape (n_bells,).
        deviations: of the bells, positive, shape (n_bells,).
        weights: of the bells, positive, shape (n_bells,); they sum to one where there are any.
        missing: whether the last code is for missing values.
        log: whether bells and scalars live on a signed logarithm.
        step_shares: share of the values of the bells on each of the column's steps, shape (n_steps,); none where it has
            no steps or no bells.

    Raises:
        ValueError: these are no modes; nothing was made.
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
            raise ValueError("means, deviations and weights are not of the same bells")
        widest = 10 * WIDEST
        sound = (np.abs(self.means) <= widest) & (self.deviations >= LEAST_DEVIATION) & (self.deviations <= widest)
        if not sound.all():
            raise ValueError("means or deviations of bells are out of range")
        if len(self.weights) and not ((self.weights > 0).all() and np.isclose(self.weights.sum(), 1.0)):
            raise ValueError("weights of bells are not positive numbers that sum to one")
        if not all(0 <= share <= 1 for share in self.step_shares):
            raise ValueError("shares of steps are not in [0, 1]")

    @property
    def size(self) -> int:
        """Number of codes: atoms, bells, and missing."""
        return len(self.atoms) + len(self.means) + self.missing

    @property
    def has_scalar(self) -> bool:
        """True if a code may leave the value open."""
        return len(self.means) > 0

    @classmethod
    def fit(
        cls, values: Values, *, log: bool, rng: np.random.Generator, spikes: Array = _NONE, ladder: Ladder = ()
    ) -> Self:
        """The modes of a column; missing is one where it occurs, or where there is nothing else.

        DEVIATES: the paper fits the mixture on every row; a draw of 5,000 takes a fraction of the time and gives the
        same bells but for chance. It has no logarithm either, without which one far value hides all the others.

        Args:
            values: *Sensitive*. Of the column.
            log: whether to look for bells on a signed logarithm even where values do not reach far.
            rng: source of the draws and of the mixture's start.
            spikes: declared, ascending.
            ladder: declared steps with their shares, coarsest first.
        """
        atoms, rest = find_atoms(values, spikes, rng)
        drawn = rest.draw(rng)
        log = log or _reaches_far(rest, drawn)
        bells = fit_bells(_signed_log(drawn) if log else drawn, rng)
        shares = _step_shares(values.without(spikes), np.setdiff1d(atoms, spikes), ladder) if len(rest) else ()
        return cls(atoms, *bells, missing=values.missing or len(values) == 0, log=log, step_shares=shares)

    def apply(self, values: Array, rng: np.random.Generator) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """The code of each value, and its scalar: 0 where the code says it all; shape (n,) both.

        Args:
            values: *Sensitive*. Shape (n,), NaN where missing.
            rng: which of the bells that may have made a value is drawn by how likely each is to have.

        Raises:
            ValueError: a value has no mode, so that the modes are of another column; nothing was encoded.
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
            bell = self._drawn_bells(line, rng)
            codes[rest] = len(self.atoms) + bell
            scalars[rest] = np.clip((line - self.means[bell]) / (WIDTH * self.deviations[bell]), -EDGE, EDGE)
        return codes, scalars

    def invert(self, codes: NDArray[np.integer[Any]], scalars: NDArray[np.floating[Any]]) -> Array:
        """The values of codes and scalars, NaN where missing; shape (n,)."""
        values = np.concatenate([self.atoms, self.means, np.full(int(self.missing), np.nan)])[codes]
        inside = np.flatnonzero(self.leaves_open(codes))
        bell = codes[inside] - len(self.atoms)
        line = self.means[bell] + WIDTH * self.deviations[bell] * np.clip(scalars[inside], -1, 1)
        values[inside] = _signed_exp(line) if self.log else line
        return np.asarray(values)

    def leaves_open(self, codes: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
        """True if a code is a bell's, so that the scalar says the value; shape (n,)."""
        return np.asarray((codes >= len(self.atoms)) & (codes < len(self.atoms) + len(self.means)))

    def match(self, value: float) -> Match:
        """The codes under which a value may be found: its atom's, or those of all bells that reach it.

        Of bells it does not tell how likely each is to have made the value: whoever fits rows to the scalars of the
        bells does. It tells how much of the line a step of each bell's scalar covers: a weight is its density there.

        Args:
            value: NaN for a missing one.
        """
        weights, scalars = np.zeros(self.size), np.full(self.size, np.nan)
        atom = int(self._atom_codes(np.array([value]))[0])
        if np.isnan(value):
            weights[self.size - 1 :] = float(self.missing)
        elif atom >= 0:
            weights[atom] = 1.0
        else:
            bells = slice(len(self.atoms), len(self.atoms) + len(self.means))
            standard = (self._line(np.array([value])) - self.means) / self.deviations
            reached = np.abs(standard) <= WIDTH
            if reached.any():
                weights[bells] = reached * (self.deviations[reached].min() / self.deviations)
            scalars[bells] = np.where(reached, np.clip(standard / WIDTH, -EDGE, EDGE), np.nan)
        return Match(weights, scalars if self.has_scalar else None)

    def responsibilities(self, line: Array) -> Array:
        """How likely each bell is to have made each value, given that one of them did; shape (n, n_bells).

        Args:
            line: *Sensitive*. Where bells see the values, shape (n,).
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
        """The modes as plain data."""
        arrays = {name: getattr(self, name).tolist() for name in ("atoms", "means", "deviations", "weights")}
        return {**arrays, "missing": self.missing, "log": self.log, "step_shares": list(self.step_shares)}

    @classmethod
    def from_plain(cls, content: Mapping[str, Any]) -> Self:
        """The modes that `to_plain` took apart.

        Raises:
            ValueError, TypeError, KeyError: the data is damaged; nothing was made of it.
        """
        arrays = {name: plain_arrays.reals(content, name) for name in ("atoms", "means", "deviations", "weights")}
        # Models that know no steps were saved without them, and draw as they did.
        shares = tuple(plain_arrays.reals(content, "step_shares").tolist()) if "step_shares" in content else ()
        missing, log = (plain_arrays.flag(content, name) for name in ("missing", "log"))
        return cls(**arrays, missing=missing, log=log, step_shares=shares)

    def _atom_codes(self, values: Array) -> NDArray[np.int32]:
        """The code of each value that is an atom, -1 for the others."""
        if len(self.atoms) == 0:
            return np.full(len(values), -1, np.int32)
        place = np.minimum(np.searchsorted(self.atoms, values), len(self.atoms) - 1)
        return np.where(self.atoms[place] == values, place, -1).astype(np.int32)

    def _line(self, values: Array) -> Array:
        """Where bells see each value; finite, also for a value that nobody has fitted bells on."""
        return _signed_log(values) if self.log else np.clip(values, -WIDEST, WIDEST)

    def _drawn_bells(self, line: Array, rng: np.random.Generator) -> NDArray[np.int64]:
        shares = self.responsibilities(line)
        np.cumsum(shares, axis=1, out=shares)
        drawn = rng.random(len(line)) * shares[:, -1]
        return np.asarray((shares < drawn[:, None]).sum(axis=1), dtype=np.int64)


def _reaches_far(values: Values, drawn: Array) -> bool:
    """True if a few values lie so far out that bells could not tell the others apart."""
    if len(values) == 0:
        return False
    low, high = values.ends()
    if max(-low, high) > WIDEST:
        return True
    most = np.quantile(drawn, [0.05, 0.95])
    return bool(high - low > FAR * (most[1] - most[0]))


def _step_shares(values: Values, atoms: Array, ladder: Ladder) -> tuple[float, ...]:
    """Shares on steps of the values that are no atoms, so that with the atoms they are the declared ones.

    Args:
        values: *Sensitive*. Of the column, without its spikes.
        atoms: among them, ascending.
        ladder: declared steps with their shares of these values.
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
