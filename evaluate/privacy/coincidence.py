"""Units of train that stand in the synthetic table beyond coincidence, judged by units that were not used.

Content (a row, a value, a part of a row) that one real unit alone has may stand in an honest table by chance. Of all
units that are hit so, a share `n_train / (n_train + n_holdout)` are of train, for every generator that did not see
which side is which. So hits on train beyond what hits on the holdout make likely are copies. Whoever copies rows of
both sides alike is not seen so: `privacy.copies.excess` counts rows of train, whatever is hit of the holdout.

Where no held-out unit was hit, twins among the real units help: content that two of them share says how often chance
repeats what somebody alone has. An honest table is taken to meet it no more often than real rows do, but only where
some twins were seen (a table may have been cleared of them), and no further than `MOST_TWINS` allows.

Contents are `Exact` codes, equal where two values are equal to the last digit: distances take ranks, which cannot tell
two values that lie close to each other. Scores (how much somebody has in common with a table) have a `ScoreTail`:
maxima by chance have an exponential tail, and one more score above a threshold, beside k held-out scores above it,
follows a Pareto law whose exponent is k, which allows for the tail being estimated.

Source: Clopper & Pearson 1934 (the exact test); Lugannani & Rice 1980 (the tail of a weighted sum); Good 1953, "The
Population Frequencies of Species" (content that was met once is met again as often as the number of contents that were
met twice says); Karlin & Altschul 1990, "Methods for assessing the statistical significance of molecular sequence
features"; Pickands 1975 (tails of maxima).
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import optimize, special

from evaluate.intervals import LEVEL, Rate
from evaluate.sampling import entity_codes
from evaluate.tables import Tables
from synth.row_hash import Ruler

CERTAIN = 1e-3  # Share of honest tables with a lower end above 0, at most
FITTED = 1.1
"""Allowed ratio of hits on train to hits on the holdout in an honest table. A model of the training rows fits their
rare combinations somewhat better than others."""
COMMON = 0.05
"""Share of held-out units that are met by chance, from which whole rows are combinations that a model fits."""
MOST_TWINS = 3.0  # Largest weight of twins, in multiples of the synthetic table's own


@dataclass(frozen=True)
class Coincidences:
    """Units with something that no other unit has, and how many a synthetic table hits, maybe in parts; *Sensitive*."""

    train: float
    holdout: float
    n_train: float
    n_holdout: float
    twins: float = np.inf
    n_known: float = 0.0
    n_drawn: float = 1.0

    @property
    def swapped(self) -> "Coincidences":
        """The same with the two sides exchanged: held-out units, judged by those of train."""
        return replace(
            self, train=self.holdout, holdout=self.train, n_train=self.n_holdout, n_holdout=self.n_train
        )  # fmt: skip

    @property
    def hit_ratio(self) -> float:
        """Where held-out units are seldom met, chance repeats nothing that a model could fit."""
        return FITTED if self.holdout > COMMON * self.n_holdout else 1.0

    def copied(self, n_comparisons: int = 1, hit_ratio: float = 1.0) -> Rate:
        """Units of train hit beyond coincidence, with an interval; never below zero.

        Its lower end is above zero for at most `CERTAIN` of honest tables, its upper end is that of a 95% interval.

        >>> Coincidences(40, 0, 6000, 6000).copied()[1] > 25
        True
        >>> Coincidences(140, 120, 6000, 6000).copied()[1]
        0.0
        """
        if self.n_train == 0:
            return 0.0, 0.0, 0.0
        share, certain = hit_ratio * self.n_train / (hit_ratio * self.n_train + self.n_holdout), CERTAIN / n_comparisons
        expected = self.holdout * share / (1 - share) if share < 1 else self.train
        most = _most(share, self.holdout, certain)
        if self.holdout == 0 and self.n_known and self.twins >= 1:  # else twins say nothing
            known = min(self.n_known / (2 * self.n_drawn * self.twins), MOST_TWINS)
            most = min(most, _most(share / (1 + known), 1.0, certain))
        least = 0.0
        if self.holdout > 0 and share < 1:  # the fewest hits on train that happen by chance, likewise
            least = max(0.0, float(special.btdtrib(self.holdout, (1 - LEVEL) / 2 / n_comparisons, 1 - share)) - 1)
        value, low, high = (max(0.0, self.train - chance) for chance in (expected, most, least))
        return value, min(low, value), max(high, value)


def _most(share: float, others: float, tail: float) -> float:
    """The most hits on train beside so many others that happen by chance more often than in `tail` of tables."""
    return float(special.btdtria(tail, others + 1, share)) if share < 1 else np.inf


def chance_of_sides(train: np.ndarray, holdout: np.ndarray, odds: float) -> float:
    """The chance of as much weight on train or more, each unit that is hit being of train at these odds.

    >>> round(chance_of_sides(np.ones(9), np.ones(1), 1.0), 4)  # of 10 coins 9 or 10: 0.0107
    0.0122
    """
    # By the sum's cumulants (Lugannani & Rice 1980); half a usual weight less, as the sum may be a lattice's.
    both = np.concatenate([train, holdout])
    share, total = odds / (1 + odds), float(train.sum() - np.median(both) / 2) if len(both) else 0.0
    if total <= share * both.sum():
        return 1.0

    def tilted(by: float) -> np.ndarray:
        return np.asarray(special.expit(by * both + np.log(odds)))

    by = optimize.brentq(lambda by: float(tilted(by) @ both) - total, 0.0, 700 / both.min())
    shares = tilted(by)
    cumulant = float(np.logaddexp(np.log1p(-share), np.log(share) + by * both).sum())
    root = np.sqrt(2 * max(by * total - cumulant, 1e-12))
    scale = by * np.sqrt(float((shares * (1 - shares)) @ both**2))
    return float(special.ndtr(-root - np.log(scale / root) / root))


def fewest_copied(train: np.ndarray, holdout: np.ndarray, tail: float) -> int:
    """The fewest units of train that were copied, whichever they are, so that chance leaves as much weight on train
    more often than in `tail` of tables. A unit weighs the same on either side, zero where chance explains it.
    """
    odds = FITTED * len(train) / max(len(holdout), 1)
    ranked, others = np.sort(train[train > 0])[::-1], holdout[holdout > 0]
    # Whoever was copied, the others weigh no less than if it were those who weigh most.
    low, high = -1, len(ranked)
    while high - low > 1:
        n = (low + high) // 2
        low, high = (low, n) if chance_of_sides(ranked[n:], others, odds) > tail else (n, high)
    return high


@dataclass(frozen=True)
class Alone:
    """Content that one real unit alone has. *Sensitive*."""

    content: np.ndarray  # that one unit has alone, sorted, shape (k,)
    units: np.ndarray  # whose it is, shape (k,)
    in_train: np.ndarray  # whether that unit is of train, shape (k,)
    twins: int
    n_known: int

    @classmethod
    def of(cls, content: np.ndarray, units: np.ndarray, in_train: np.ndarray) -> "Alone":
        """Of both sides' rows in the order of their units: content, unit, and whether of train; (n,) each."""
        order = np.argsort(content, kind="stable")
        content, units, in_train = content[order], units[order], in_train[order]
        first = np.ones(len(order), dtype=bool)  # of a unit with some content
        first[1:] = (content[1:] != content[:-1]) | (units[1:] != units[:-1])
        content, units, in_train = content[first], units[first], in_train[first]
        starts = np.flatnonzero(np.r_[True, content[1:] != content[:-1]][: len(content)])
        counts = np.diff(np.r_[starts, len(content)])
        alone = starts[counts == 1]
        return cls(content[alone], units[alone], in_train[alone], int((counts == 2).sum()), len(content))

    def hit_by(self, synthetic: np.ndarray) -> np.ndarray:
        """Mask of the content that stands in a synthetic table; shape (k,)."""
        ranked = np.sort(synthetic)
        return np.asarray(ranked[np.minimum(np.searchsorted(ranked, self.content), len(ranked) - 1)] == self.content)

    def coincidences(self, hit: np.ndarray, n_drawn: int) -> Coincidences:
        """The units that are hit, each once. `hit`: which content is, shape (k,), boolean."""
        train, holdout = self.in_train, ~self.in_train
        masks = (train & hit, holdout & hit, train, holdout)
        a, b, m, n = (int(np.count_nonzero(np.bincount(self.units[rows]))) for rows in masks)
        return Coincidences(a, b, m, n, self.twins, self.n_known, n_drawn)


TAIL = 100  # Held-out scores that the tail is estimated by, at most: the highest
PRIOR_SCORES, PRIOR_SPREAD = 20, 2.0
"""Prior of the tail: so many scores, so many nats above the threshold. Independent rows come to one nat. Without a
prior a single row in common would be an alarm where no held-out one is."""
LEAST_CONTROLS = 40  # Held-out people that a tail takes


@dataclass(frozen=True)
class ScoreTail:
    threshold: float
    excess: float
    k: int
    n: int
    prior_spread: float = PRIOR_SPREAD

    @classmethod
    def of(cls, scores: np.ndarray, most: int = TAIL, prior_spread: float = PRIOR_SPREAD) -> "ScoreTail":
        """The tail of so many of the highest scores; of those above 0, where these are fewer."""
        ranked = np.sort(scores)[::-1]
        threshold = float(ranked[most]) if len(ranked) > most else 0.0
        above = ranked[ranked > threshold]
        return cls(threshold, float((above - threshold).sum()), len(above), len(ranked), prior_spread)

    def chance(self, scores: np.ndarray) -> np.ndarray:
        """With k exceedances whose sum is s, the next one is above x with probability (1 + x / s)^-k."""
        k, total = self.k + PRIOR_SCORES, self.excess + PRIOR_SCORES * self.prior_spread
        tail = (self.k + 1) / (self.n + 1) * (1.0 + np.maximum(scores - self.threshold, 0.0) / total) ** -k
        return np.where(scores > self.threshold, np.minimum(tail, 1.0), 1.0)


MISSING = -1  # The code of a missing value


@dataclass(frozen=True)
class RealCodes:
    """Rows of train and of the holdout as codes, in the order of their units; *Sensitive*."""

    codes: np.ndarray  # from 0, `MISSING` where missing, shape (d, n), int32
    units: np.ndarray  # codes of their units, those of train and of the holdout apart; shape (n,)
    in_train: np.ndarray  # which rows are of train, shape (n,)
    share: float = 1.0

    @property
    def n_units(self) -> int:
        """Units of train."""
        return len(np.unique(self.units[self.in_train]))

    def n_people(self, n_drawn: int) -> int:
        """Units of train that so many synthetic rows could copy: of these rows, the share whose units are here."""
        return max(1, min(self.n_units, round(self.share * n_drawn)))


@dataclass(frozen=True)
class Exact:
    """The four tables of an evaluation as codes; *Sensitive*."""

    names: tuple[str, ...]
    train: np.ndarray  # codes from 0, `MISSING` where missing; shape (d, n_train), int32
    fresh: np.ndarray
    control: np.ndarray
    synthetic: np.ndarray
    # for each column the codes that a person's own value may have: those of numbers and times that are not at a bound,
    # which is public; shape (n_codes,), boolean, `None` for categories.
    free: tuple[np.ndarray | None, ...]
    units: tuple[np.ndarray, np.ndarray, np.ndarray]

    def real(self, most: int | None = None) -> RealCodes:
        codes = (self.train, np.hstack([self.fresh, self.control]))
        units = (self.units[0], np.concatenate(self.units[1:]))
        share = 1.0 if most is None else min(1.0, most / max(map(len, units)))
        kept = [_first_units(side, share) for side in units]
        of_rows = np.concatenate([side[rows] for side, rows in zip(units, kept, strict=True)])
        order = np.argsort(of_rows, kind="stable")
        chosen = np.hstack([side[:, rows] for side, rows in zip(codes, kept, strict=True)])
        return RealCodes(chosen[:, order], of_rows[order], order < len(kept[0]), share)


def _first_units(units: np.ndarray, share: float) -> np.ndarray:
    """Positions of all rows of a share of the units: those that come first."""
    turns = pd.factorize(units)[0]
    return np.flatnonzero(turns < round(share * (int(turns.max(initial=-1)) + 1)))


def exact_of(tables: Tables) -> Exact:
    """The codes of an evaluation, made once for the same tables."""
    return tables.kept.once("exact", lambda: _exact(tables))


def _exact(tables: Tables) -> Exact:
    frames = [tables.train, tables.fresh, tables.control, tables.synthetic]
    names, ends = tuple(sorted(tables.schema.learned)), np.cumsum([len(frame) for frame in frames])
    together = (pd.concat([frame[name] for frame in frames], ignore_index=True) for name in names)
    columns = [_codes(part, tables.schema.columns[name]) for name, part in zip(names, together, strict=True)]
    codes = np.array([part for part, _ in columns], dtype=np.int32).reshape(len(names), ends[-1])
    units, holdout = (entity_codes(frame, tables.schema) for frame in (tables.train, tables.holdout))
    # Units are all different between train and the holdout.
    fresh, control = np.split(holdout + int(units.max(initial=-1)) + 1, [len(tables.fresh)])
    sides = dict(zip(("train", "fresh", "control", "synthetic"), np.split(codes, ends[:-1], axis=1), strict=True))
    return Exact(names, **sides, free=tuple(free for _, free in columns), units=(units, fresh, control))


def _codes(values: pd.Series, column: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """Codes of a column, and which of them are no bound; `None` for categories."""
    if column.is_categorical:
        return pd.factorize(values)[0], None
    places, ruler = column.positions(values), Ruler.of(column)
    bounds: np.ndarray = np.array(column.ends)
    if ruler.n_digits == 1:
        places, bounds = np.rint(places * ruler.factor), np.rint(bounds * ruler.factor)
    codes, distinct = pd.factorize(places)
    return codes, ~np.isin(distinct, bounds)
