"""The representation of each column: exact expressions first, then what makes its coded length shorter."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from synth.constraints import Formula
from synth.constraints.expression import Unit, written
from synth.infer.relations.formulas import LEAST_EXACT, Search, copy
from synth.infer.relations.line_columns import (
    DAY,
    MONDAY,
    WEEK,
    Candidate,
    Lines,
    Term,
    needed,
    tolerance,
    write_sum,
)
from synth.infer.relations.orders_and_keys import ENOUGH

BINS, SPIKE, LEAVES = 16, 0.02, 40  # codes of a number, share of a value with a code of its own, leaves of the tree
LEAST_LEAF, LEAST_HALF = 15, 40  # rows of a leaf, and of each half
PRIOR = 3.0  # rows that the shares of all rows count for in a leaf
ROUND = (2, 5, 10, 50, 100)  # multiples of the lattice that round values are on
MISSING, LARGEST = -1e12, 1e37


def features_of(lines: Lines) -> dict[str, np.ndarray]:
    """What a tree sees of each column in the sampled rows: positions or categories; of times weekday and clock, too."""
    features = {}
    for name in dict.fromkeys([*lines.sample, *lines.codes]):
        values = lines.codes[name] if name in lines.codes else lines.sample[name]
        views = [values]
        if lines.is_time(name):  # in days, as float32 holds no more
            views = [values / DAY, np.floor((values - MONDAY) / DAY) % 7, values % DAY]
        filled = [np.where(np.isfinite(view), view, MISSING) for view in views]
        features[name] = np.clip(np.stack(filled, axis=1), -LARGEST, LARGEST).astype(np.float32)
    return features


def count_bits(
    values: np.ndarray, step: float, features: np.ndarray | None = None, scale: Any = 1.0, *, spiky: bool = True
) -> float:
    """Held-out bits a row: of the code, given a tree where that helps, and of the place in the code.

    `step` is the lattice of the column itself, `scale` what one unit of the representation is on it, for each row.
    Without `spiky`, frequent values have no code of their own, as times have none in a generator.
    """
    known = np.isfinite(values)
    v, scales = np.round(values[known] / step, 9), np.broadcast_to(scale, values.shape)[known]
    half = len(v) // 2
    if half < LEAST_HALF:
        return 0.0
    code, widths = _codes(v[:half], v, spiky)
    n = len(widths)
    share = (np.bincount(code[:half], minlength=n) + 0.1) / (half + 0.1 * n)
    own = float(np.mean(np.log2(share[code[half:]])))
    if features is not None and features.shape[1] and len(np.unique(code[:half])) > 1:
        own = max(own, _with_tree(features[known], code, share))
    return float(np.mean(np.log2(np.maximum(widths[code[half:]] * scales[half:], 1.0)))) - own


def _with_tree(x: np.ndarray, code: np.ndarray, share: np.ndarray) -> float:
    from sklearn.tree import DecisionTreeClassifier

    half = len(code) // 2
    tree = DecisionTreeClassifier(max_leaf_nodes=LEAVES, min_samples_leaf=LEAST_LEAF, random_state=0)
    leaf = tree.fit(x[:half], code[:half]).apply(x)
    counts = np.zeros((tree.tree_.node_count, len(share)))
    np.add.at(counts, (leaf[:half], code[:half]), 1.0)
    chance = (counts + PRIOR * share) / (counts.sum(axis=1, keepdims=True) + PRIOR)
    return float(np.mean(np.log2(chance[leaf[half:], code[half:]])))


def _codes(train: np.ndarray, values: np.ndarray, spiky: bool) -> tuple[np.ndarray, np.ndarray]:
    """Codes of values and their widths: frequent ones have their own, the others share quantile bins."""
    distinct, counts = np.unique(train, return_counts=True)
    spikes = distinct[counts >= max(SPIKE * len(train), 5)] if spiky else distinct[:0]
    rest = train[~np.isin(train, spikes)]
    edges = np.unique(np.quantile(rest, np.linspace(0, 1, BINS + 1))) if len(rest) > 1 else np.array([0.0, 1.0])
    edges = np.append(edges, edges[-1] + 1) if len(edges) < 2 else edges
    bins = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, len(edges) - 2)
    at = np.clip(np.searchsorted(spikes, values), 0, max(len(spikes) - 1, 0))
    is_spike = spikes[at] == values if len(spikes) else np.zeros(len(values), dtype=bool)
    return np.where(is_spike, len(edges) - 1 + at, bins), np.append(np.diff(edges), np.zeros(len(spikes)))


def round_bits(values: np.ndarray, lattice: float) -> float:
    """Bits a row that round values save: they are lost where a ratio or a sum gives the column."""
    known, best = values[np.isfinite(values)], 0.0
    times = known[known != 0] / lattice  # zero is on every lattice, and stays zero
    if not len(times):
        return 0.0
    for k in ROUND:
        share = float((np.abs(times / k - np.round(times / k)) < 0.01 / k).mean())
        share = min(max(share, 1e-9), 1 - 1e-9)
        if share > 1 / k:
            best = max(best, share * np.log2(share * k) + (1 - share) * np.log2((1 - share) / (1 - 1 / k)))
    return best * len(times) / len(known)


def split(times: np.ndarray, origin: np.ndarray | float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weeks since the week of an origin, weekday from Monday on, and time of day in seconds."""
    week = np.floor((times - MONDAY) / WEEK) - np.floor((np.asarray(origin) - MONDAY) / WEEK)
    return week, np.floor((times - MONDAY) / DAY) % 7, times % DAY


def count_bits_of_parts(
    times: np.ndarray, step: float, features: np.ndarray, origin: np.ndarray | float = MONDAY
) -> float:
    """The bits of week, weekday and time of day, each given those before."""
    week, weekday, clock = split(times, origin)
    z = np.nan_to_num(np.stack([week, weekday], axis=1), nan=MISSING).astype(np.float32)
    total = count_bits(week, 1.0, features) + count_bits(weekday, 1.0, np.hstack([features, z[:, :1]]))
    return total + (count_bits(clock, step, np.hstack([features, z])) if step < DAY else 0.0)


LEAST_ADDED, MOST_ADDING, POLISHED = 0.03, 12, 5
"""Share of the variance left that categories of a column explain beyond chance; such columns; times they are fitted."""


def added_by_categories(
    values: np.ndarray, columns: Mapping[str, Any], step: float, units: np.ndarray
) -> dict[str, np.ndarray]:
    """What each category of few columns adds to a number: medians, by column and code; nothing of one with few units.
    `values`, `columns`: *Sensitive*. The latter are pandas categoricals. `units`: the entity of each row, from 0.

    Columns are chosen one by one. Source: the median polish of Tukey 1977.
    """
    known = np.isfinite(values)
    units = units[known]
    if len(np.unique(units)) < LEAST_HALF:
        return {}
    # A few large values tell nothing of the rest.
    rest = np.clip(values[known], *np.quantile(values[known], (0.01, 0.99)))
    codes = {name: each.codes[known].astype(np.int64) for name, each in columns.items()}
    chosen: list[str] = []
    while len(chosen) < MOST_ADDING and rest.std() > 0:
        explained = {}
        for name in codes.keys() - chosen:
            means = _means(rest - rest.mean(), codes[name])[codes[name]]
            explained[name] = float((means**2).mean() / rest.var()) - 3 * (len(np.unique(codes[name])) - 1) / len(rest)
        best = max(sorted(explained), key=lambda name: explained[name], default=None)
        if best is None or explained[best] < LEAST_ADDED:
            break
        chosen.append(best)
        for name in chosen:
            rest = rest - _means(rest, codes[name])[codes[name]]
    middle = np.median(values[known])
    added = {name: np.full(len(columns[name].categories), middle if name == chosen[0] else 0.0) for name in chosen}
    n_units = int(units.max()) + 1
    of_units = {name: np.unique(codes[name] * n_units + units) // n_units for name in chosen}
    rest = values[known] - middle
    for name in chosen * POLISHED:
        own = codes[name]
        counts = np.bincount(own, minlength=len(added[name]))
        # The lower of two in the middle: a value that rows have leaves nothing of them.
        middles = np.minimum(np.cumsum(counts) - counts + np.maximum(counts - 1, 0) // 2, len(own) - 1)
        few = np.bincount(of_units[name], minlength=len(counts)) < LEAST_LEAF  # their median would be one's own
        by = np.where(few, 0.0, rest[np.lexsort((rest, own))[middles]])
        added[name] += by
        rest -= by[own]
    return {name: np.round(np.round(each / step) * step, 9) for name, each in added.items()}


def _means(values: np.ndarray, codes: np.ndarray) -> np.ndarray:
    return np.asarray(np.bincount(codes, values) / np.maximum(np.bincount(codes), 1))


LEAST_ROWS = 60  # with all values, for an expression to be told from chance
LEAST_COVERED = 0.3  # share of a column's values for which all operands are known
LEAST_GAIN, LEAST_SHARE = 2.0, 0.08  # bits a row, and share of the bits, that an expression saves where it is not exact
LEAST_GAIN_OF_TIMES, LEAST_GAIN_OF_GAPS = 0.5, 0.25  # the same of a gap of times, and of columns that keep an order
LEAST_GAIN_OF_PARTS, PARTS_PER_ROW = 0.25, 60.0  # of week, weekday and time of day, which are learned from few rows
LEAST_GAIN_OF_SUMS = 0.5  # of a sum with any weights, of which what is left says nothing more
LEAST_GAIN_OF_EXACT = 0.5  # of an exact expression, without a tree
LEAST_PARTIAL, LEAST_GAIN_OF_PARTIAL = 0.03, 0.25  # share of the rows that an expression gives exactly; bits
LEAST_FOLLOWING = 0.95  # share of the rows in which an end is not before its start
WORTH_A_LOOK = 1.0  # bits that a candidate saves without a tree, for a look with one
PER_TERM = 0.1  # bits that each term costs
RANKED = 3  # candidates that are looked at with a tree
LEAST_VARIED = 12  # values of a column that is modeled by what is left
LEAST_OF_CATEGORIES = 0.98  # share of the rows that an expression gives exactly of a column of fewer values
RESULT = 0.5  # bits that each sign of a sum or a product is worth, beside that of its parts
MOST_LEVELS = 3.0  # bits of a share with few levels
BEAM = 24  # sets of exact expressions that are looked at
OPERANDS_OF_TARGET = 3  # at least, of a sum or a product that computes the column that models predict
FEW_TIMES = 100  # different times, such as the first days of months: parts would leave these


@dataclass(frozen=True, eq=False)
class Representation:
    """How a column is easiest to predict."""

    candidate: Candidate  # what is taken away first; one without terms: nothing
    share: float = 0.0  # of the complete rows, that the expression gives exactly
    covered: float = 0.0  # the same of the rows with a value
    gain: float = 0.0  # bits a row that are saved
    parts: bool = False
    alone: bool = False  # rows that the expression does not give exactly have their value apart

    @property
    def column(self) -> str:
        return self.candidate.column


def left_over(own: np.ndarray, values: np.ndarray, step: float, *, ratio: bool = False) -> np.ndarray:
    """What is left of an expression, on the column's precision: zero where it gives the value; NaN where it cannot."""
    with np.errstate(all="ignore"):
        if ratio:  # the shortest decimal number that gives the value back
            exact = left = np.where(values > 0, own / values, np.nan)
            for digits in range(7, -1, -1) if step else ():
                short = np.round(exact, digits)
                left = np.where(np.abs(short * values - own) <= 0.5001 * step, short, left)
        else:
            left = np.round(own / step - np.round(values / step)) * step if step else own - values
            left = np.where(np.isfinite(left) & (np.abs(own - values) <= tolerance(own, step)), 0.0, left)
    return np.where(np.isfinite(left), left, np.nan)


def left_in(lines: Lines, column: str, expression: str, unit: Unit | None) -> np.ndarray:
    """What is left of an expression in all rows."""
    return left_over(lines.positions[column], lines.evaluate(expression, unit, column), lines.step(column))


class Choice:
    """One search: what is exact, and what is modeled."""

    def __init__(self, lines: Lines, fixed: Collection[str | None]) -> None:
        """`fixed`: columns that are never computed."""
        self.lines, self.search, self.fixed = lines, Search(lines), frozenset(fixed)
        self.n_units = len(np.unique(lines.units[lines.rows]))  # in the sample: rows of one entity are alike
        self.near: defaultdict[str, list[Candidate]] = defaultdict(list)  # not exact in most rows
        self.partial: defaultdict[str, list[tuple[float, Candidate]]] = defaultdict(list)  # exact in some
        self._exact: dict[object, Representation] = {}
        self.gains = cache(self._gains)
        for name in [*self.search.numbers, *self.search.times]:
            for candidate in self.search.find(name):
                self._weigh(candidate)
        self.exact = {name: each for name, each in self._take_exact().items() if self.share(each) >= LEAST_EXACT}

    def share(self, each: Representation) -> float:
        """The share of all rows that an expression gives exactly."""
        left = left_in(self.lines, each.column, each.candidate.expression, each.candidate.unit)
        return float((left[np.isfinite(left)] == 0).mean()) if np.isfinite(left).any() else 0.0

    def _weigh(self, candidate: Candidate) -> None:
        """Put a candidate where it belongs: exact in nearly all rows, in some, or close to the column at best."""
        name, own = candidate.column, self.lines.sample[candidate.column]
        both, known = np.isfinite(own) & np.isfinite(candidate.values), int(np.isfinite(own).sum())
        if candidate.key in self._exact or both.sum() < max(LEAST_ROWS, LEAST_COVERED * known):
            return
        share = 0.0 if candidate.is_ratio else float(self.is_exact(candidate)[both].mean())
        longer = self.search.extend(candidate) if 0.5 <= share < 1 else candidate
        if longer is not candidate:
            self._weigh(longer)
        if share >= LEAST_EXACT:
            if self._add_exact(candidate, share):
                for other in self.search.solve(candidate):
                    rows = np.isfinite(self.lines.sample[other.column]) & np.isfinite(other.values)
                    again = self.is_exact(other)[rows]
                    if other.key not in self._exact and len(again) and again.mean() >= LEAST_EXACT:
                        self._add_exact(other, float(again.mean()))
        elif self.search.varied[name] >= LEAST_VARIED and not candidate.is_view:
            if both.sum() >= 0.5 * known:
                self.near[name].append(candidate)
            self.note_partial(candidate)

    def is_exact(self, candidate: Candidate) -> np.ndarray:
        own = self.lines.sample[candidate.column]
        return np.asarray(np.abs(own - candidate.values) <= tolerance(own, self.lines.step(candidate.column)))

    def note_partial(self, candidate: Candidate) -> None:
        """Keep a candidate that gives the column exactly in some of the rows that do not hold its usual value."""
        own = self.lines.sample[candidate.column]
        if not candidate.is_ratio and not self.lines.is_time(candidate.column):
            share = float((self.is_exact(candidate) & (own != _usual(own))).sum() / np.isfinite(own).sum())
            if LEAST_PARTIAL <= share < LEAST_EXACT:
                self.partial[candidate.column].append((share, candidate))

    def _add_exact(self, candidate: Candidate, share: float) -> bool:
        """Add an exact expression, if all of its parts say something, and it more than chance."""
        lines, name, exact = self.lines, candidate.column, self.is_exact(candidate)
        own, step, lattice = lines.sample[name], lines.step(name), lines.lattice(name)
        enough = ENOUGH * len(lines.rows) / max(self.n_units, 1)
        values, counts = np.unique(own[exact], return_counts=True)
        if len(values) < 2 or exact.sum() - counts.max() < enough:
            return False
        for weight, term in candidate.terms:
            # With its most frequent value instead, a part has to be wrong in many more rows.
            usual = _usual(term.values[exact])
            if len(candidate.terms) == 1:
                without = term.values if name in term.names else np.full(len(own), np.nan)
            elif candidate.is_product:
                with np.errstate(all="ignore"):
                    without = candidate.values * (usual / term.values) ** weight
            else:
                without = candidate.values + weight * (usual - term.values)
            if np.sum(exact & ~(np.abs(own - without) <= tolerance(own, step))) < enough:
                return False
        gain = count_bits(own, lattice) - count_bits(left_over(own, candidate.values, step), lattice)
        # A few categories are learned as such, unless nearly nothing is left of them.
        few = self.search.varied[name] < LEAST_VARIED or (candidate.is_product and candidate.unit is not None)
        is_clear = share >= LEAST_OF_CATEGORIES or not few
        if not is_clear or gain <= LEAST_GAIN_OF_EXACT:
            return False
        known = np.isfinite(own)
        if lines.previous is not None and candidate.looks_back:
            known &= (lines.previous[lines.rows] >= 0) | np.isfinite(candidate.values)  # no first row has one before it
        covered = float(exact.sum() / known.sum())
        self._exact[candidate.key] = Representation(candidate, share, covered, gain)
        return True

    def _take_exact(self) -> dict[str, Representation]:
        """The exact expressions that save most bits together; an equation gives one column, and none needs itself."""
        groups: defaultdict[tuple[frozenset[str], bool], list[Representation]] = defaultdict(list)
        for each in self._exact.values():
            groups[each.candidate.about, each.candidate.looks_back].append(each)
        share = {key: (max(round(e.covered, 2) for e in group), -len(key[0])) for key, group in groups.items()}
        beam: list[tuple[float, dict[str, Representation]]] = [(0.0, {})]
        for key in sorted(groups, key=lambda key: (-share[key][0], len(key[0]), sorted(key[0]), key[1])):
            # Of two equations of which one holds the columns of the other, that which holds in more rows.
            rivals = (other for other in groups if other[1] == key[1] and (key[0] < other[0] or other[0] < key[0]))
            if any(share[other] > share[key] for other in rivals):
                continue
            worth = {each.candidate.key: self._worth(each) for each in groups[key]}
            reached = list(beam)
            for total, taken in beam:
                for each in groups[key]:
                    if each.column not in taken and self.is_allowed(each.candidate, taken):
                        reached.append((total + worth[each.candidate.key], {**taken, each.column: each}))
            beam = sorted(reached, key=lambda each: -each[0])[:BEAM]
        return beam[0][1]

    def _worth(self, each: Representation) -> float:
        """Bits that an expression saves; more for results, and if others of its columns are then shorter, too."""
        name, candidate, names = each.column, each.candidate, list(self.lines.schema.columns)
        rest = candidate.operands & {*self.lines.computable} if len(candidate.operands) == 2 else ()
        gains = [gain for n in rest for gain, parents in self.gains(n) if parents <= candidate.operands]
        # A whole comes before its shares.
        result = 0.0 if gains else RESULT * candidate.is_result * (len(candidate.terms) - 1)
        # Of equal ones, the shortest, the last column, the first operands.
        operands = sum(names.index(n) for n in candidate.operands) / len(candidate.operands)
        order = (names.index(name) - 0.1 * operands) / len(names) - 10 * candidate.expression.count(" ")
        return round(each.gain, 1) + result + max(gains, default=0.0) + 1e-3 * order

    def _gains(self, name: str) -> list[tuple[float, frozenset[str]]]:
        """Bits that a share of another column with few levels saves, without a tree, and its operands."""
        own, step, lattice = self.lines.sample[name], self.lines.step(name), self.lines.lattice(name)
        rough, gains = count_bits(own, lattice), []
        for each in self.near[name]:
            left = left_over(own, each.values, step, ratio=True) if each.is_ratio else own
            scale = np.abs(np.nan_to_num(each.values, nan=1.0))
            bits = count_bits(left, lattice, scale=scale) if each.is_ratio else rough
            covered = float(np.isfinite(left[np.isfinite(own)]).mean())
            gains += [(covered * (rough - bits), each.operands)] * (bits <= MOST_LEVELS)
        return gains

    def is_allowed(self, candidate: Candidate, taken: Mapping[str, Representation]) -> bool:
        """True if a column may be computed so: not the order, and what is constant from what is; not in a circle."""
        name, operands = candidate.column, candidate.operands
        enough = name != self.lines.schema.target or len(operands) >= OPERANDS_OF_TARGET
        constant = self.lines.schema.constant_in_entity
        alike = name not in constant or operands <= {*constant}
        is_free = name not in self.fixed and enough and alike
        return is_free and name not in needed(candidate.parents - {name}, self.parents(taken))

    def parents(self, taken: Mapping[str, Representation]) -> dict[str, Collection[str]]:
        """The columns that computed ones follow from, those of the schema's own formulas among them."""
        formulas = (each for each in self.lines.schema.constraints if isinstance(each, Formula))
        return {each.column: each.parents for each in formulas} | {n: e.candidate.parents for n, e in taken.items()}


class Modeling:
    """What is not exact: columns that an expression, their parts or a gap make easier to predict."""

    def __init__(self, choice: Choice, orders: Collection[tuple[str, str]], aside: Collection[str] = ()) -> None:
        """`orders`: (low, high) that all rows keep. `aside`: columns that hold their own value."""
        self.lines, self.search, self.choice = choice.lines, choice.search, choice
        self.features, self.computed = features_of(self.lines), frozenset(choice.exact)
        self.orders, self.aside = frozenset(orders), {*aside, *choice.fixed, *self.computed}
        self.plain = cache(self._plain)

    def find(self) -> list[Representation]:
        """The representations that save most bits, and of times as they are in parts."""
        known = {each.candidate.about for each in self.choice.exact.values()}
        numbers = [name for name in self.search.numbers if name not in self.aside]
        options = [each for name in numbers for each in (*self._partly(name), *self._of_number(name))]
        options += [each for name in self.search.times if name not in self.aside for each in self._of_time(name)]
        chosen = dict[str, Representation]()
        self._choose(options, chosen, known)
        options = [each for name in numbers if name not in chosen for each in self._linear(name, chosen)]
        self._choose(options, chosen, known)
        options = [each for name in numbers if name not in chosen for each in self._of_categories(name, chosen)]
        self._choose(options, chosen, known)
        for name in (name for name in self.search.times if name not in self.aside):
            if self.lines.column(name).rhythm is None and (parted := self._parted(name, chosen)) is not None:
                chosen[name] = parted
        return list(chosen.values())

    def _choose(
        self, options: Collection[Representation], chosen: dict[str, Representation], known: set[frozenset[str]]
    ) -> None:
        """Add the options that save most; of an equation one."""
        exact = self.choice.exact.values()
        for each in sorted(options, key=lambda each: -each.gain):
            about = each.candidate.about
            new = each.column not in chosen and about not in known
            # What is left of a part of a sum may be the column that it gives.
            parts = (e for e in exact if about < e.candidate.about and e.candidate.about - about == {e.column})
            is_gap = each.candidate.is_ratio or each.alone or self.lines.is_time(each.column)
            new &= is_gap or all(e.candidate.is_product for e in parts)
            if not new or not self.choice.is_allowed(each.candidate, self.choice.exact | chosen):
                continue
            chosen[each.column] = each
            known.add(about)

    def _linear(self, name: str, chosen: dict[str, Representation]) -> Iterator[Representation]:
        """A number as a sum of two columns or more that do not follow from it, with any weights."""
        parents = self.choice.parents(self.choice.exact | chosen)
        terms = [term for other, term in self.search.plain.items() if name not in needed({other}, parents)]
        own, lattice = self.lines.sample[name], self.lines.lattice(name)
        for each in self.search.linear(name, terms):
            left = self._left(each)[0]
            lost = round_bits(own, lattice) - round_bits(left, lattice)
            gain = self.plain(name) - count_bits(left, lattice) - PER_TERM * len(each.terms) - max(lost, 0.0)
            if gain >= LEAST_GAIN_OF_SUMS and len(each.terms) > 1:  # one column alone, trees tell as well
                yield Representation(each, gain=gain)

    def _of_categories(self, name: str, chosen: dict[str, Representation]) -> Iterator[Representation]:
        """A number as the sum of what categories add to it, as a tariff has it: pairs of columns hardly tell that."""
        lines, own, lattice = self.lines, self.lines.sample[name], self.lines.lattice(name)
        parents = self.choice.parents(self.choice.exact | chosen)
        columns = {
            other: lines.coded(other)
            for other in lines.categories
            if not (lines.column(other).missing or lines.column(other).is_measured)
            and other != lines.schema.target
            and name not in needed({other}, parents)
        }
        added = added_by_categories(own, columns, lattice, lines.units[lines.rows])
        if not added:
            return
        of_rows = {n: each[columns[n].codes] for n, each in added.items()}
        rest = own - np.sum([*of_rows.values()], axis=0)
        cost = count_bits(rest, lattice) + PER_TERM * len(added)
        lost = max(round_bits(own, lattice) - round_bits(rest, lattice), 0.0)
        if count_bits(own, lattice) - cost - lost < LEAST_GAIN:
            return
        numbers = {n: dict(zip(lines.column(n).levels, each.tolist(), strict=True)) for n, each in added.items()}
        terms = tuple((1.0, Term(written(n), (n,), each)) for n, each in of_rows.items())
        candidate = Candidate(name, write_sum(terms), own - rest, terms, numbers=numbers)
        gain = self.plain(name) - count_bits(rest, lattice, self._seen(name)) - PER_TERM * len(added)
        if gain >= LEAST_GAIN_OF_GAPS:
            yield Representation(candidate, gain=gain)

    def _plain(self, name: str) -> float:
        """Bits of the column's own value."""
        own, lattice = self.lines.sample[name], self.lines.lattice(name)
        return count_bits(own, lattice, self._seen(name), spiky=not self.lines.is_time(name))

    def _seen(self, *names: str) -> np.ndarray:
        """What a tree sees that predicts a column: what is computed says nothing of it."""
        nothing = np.zeros((len(self.lines.rows), 0), np.float32)
        hidden = {*names, *self.computed}
        return np.hstack([nothing, *(each for name, each in self.features.items() if name not in hidden)])

    def _of_number(self, name: str) -> Iterator[Representation]:
        own, lattice = self.lines.sample[name], self.lines.lattice(name)
        rough, known = count_bits(own, lattice), np.isfinite(own)
        ends = {end for order in self.orders if name in order for end in order} - {name}
        ranked = []
        for each in [*self.choice.near[name], *(gap for end in ends for gap in self.search.gap(name, end))]:
            if not self.choice.is_allowed(each, self.choice.exact):
                continue
            left, scale = self._left(each)
            cost = count_bits(left, lattice, scale=scale) + 1.5 * PER_TERM * len(each.terms)
            if rough - cost >= (0.0 if each.operands <= ends else WORTH_A_LOOK):
                ranked.append((cost, each, left, scale))
        best = []
        for _, each, left, scale in sorted(ranked, key=lambda each: each[0])[:RANKED]:
            missing = 1 - float(np.isfinite(left[known]).mean())
            cost = (1 - missing) * count_bits(left, lattice, self._seen(name), scale) + missing * self.plain(name)
            lost = round_bits(own, lattice) - (0.0 if each.is_ratio else round_bits(left, lattice))
            gain = self.plain(name) - cost - PER_TERM * len(each.terms) - max(lost, 0.0)
            least = LEAST_GAIN if each.is_ratio else max(LEAST_GAIN, LEAST_SHARE * self.plain(name))
            best.append((gain - (LEAST_GAIN_OF_GAPS if each.operands <= ends else least), gain, each, left))
        for beyond, gain, each, left in sorted(best, key=lambda each: -each[0])[:1]:
            if beyond >= 0:
                bonus = 0.5 * (not each.is_ratio and bool(np.nanmin(left) >= 0))
                yield Representation(each, gain=gain + bonus)

    def _partly(self, name: str) -> Iterator[Representation]:
        """An expression that gives the column in some rows: whether it does, and the value where it does not."""
        own, lattice = self.lines.sample[name], self.lines.lattice(name)
        rough, known = count_bits(own, lattice), np.isfinite(own)
        for term in [*self.search.plain.values(), *self.search.earlier.values()]:
            if term.names != (name,) and self.search.varied[name] >= LEAST_VARIED:
                self.choice.note_partial(copy(name, term))
        ranked = []
        allowed = [each for each in self.choice.partial[name] if self.choice.is_allowed(each[1], self.choice.exact)]
        for _, each in sorted(allowed, key=lambda each: -each[0])[: 2 * RANKED]:
            exact = self.choice.is_exact(each)
            share, rest = float(exact[known].mean()), np.where(exact, np.nan, own)
            p = np.clip([share, 1 - share], 1e-9, 1 - 1e-9)
            cost = -float((p * np.log2(p)).sum()) + (1 - share) * count_bits(rest, lattice) + PER_TERM * len(each.terms)
            if rough - cost >= LEAST_GAIN_OF_PARTIAL:
                ranked.append((cost, share, each, exact, rest))
        for _, share, each, exact, rest in sorted(ranked, key=lambda each: each[0])[:1]:
            flag = count_bits(np.where(known, exact, np.nan), 1.0, self._seen(name))
            cost = flag + (1 - share) * count_bits(rest, lattice, self._seen(name)) + PER_TERM * len(each.terms)
            gain = self.plain(name) - cost - share * round_bits(own, lattice)
            if gain >= LEAST_GAIN_OF_PARTIAL:
                yield Representation(each, share, share, gain, alone=True)

    def _of_time(self, name: str) -> Iterator[Representation]:
        """A time as the gap to another one, which it follows."""
        own, step = self.lines.sample[name], self.lines.step(name)
        for each in self.choice.near[name]:
            left, _ = self._left(each)
            if len(each.terms) > 1 or (left[np.isfinite(left)] >= 0).mean() < LEAST_FOLLOWING:
                continue
            seen, missing = self._seen(name), 1 - float(np.isfinite(left[np.isfinite(own)]).mean())
            gap = min(count_bits(left, step, seen), count_bits_of_parts(own, step, seen, each.values))
            value = min(self.plain(name), count_bits_of_parts(own, step, seen))
            gain = (1 - missing) * (value - gap) - PER_TERM
            is_ordered = any(each.operands | {name} == {*order} for order in self.orders)
            if gain >= (0.0 if is_ordered else LEAST_GAIN_OF_TIMES):
                yield Representation(each, gain=gain + 0.5)

    def _parted(self, name: str, others: Mapping[str, Representation]) -> Representation | None:
        """A time, or its gap, as week, weekday and time of day, if that is shorter."""
        own, step, chosen = self.lines.sample[name], self.lines.step(name), others.get(name)
        # What is computed from the column says nothing of it.
        seen = self._seen(name, *(n for n in others if name in needed({n}, self.choice.parents(others))))
        if chosen is None:
            chosen = Representation(Candidate(name, "", np.zeros(len(own))))
            if self.search.varied[name] <= FEW_TIMES:
                return None
            whole, parted = count_bits(own, step, seen, spiky=False), count_bits_of_parts(own, step, seen)
        else:
            whole = count_bits(self._left(chosen.candidate)[0], step, seen)
            parted = count_bits_of_parts(own, step, seen, chosen.candidate.values)
        if whole - parted < LEAST_GAIN_OF_PARTS + PARTS_PER_ROW / len(own):
            return None
        return replace(chosen, parts=True, gain=chosen.gain + whole - parted)

    def _left(self, candidate: Candidate) -> tuple[np.ndarray, np.ndarray | float]:
        """What is left of a candidate in the sampled rows, and what one unit of it is on the column's scale."""
        own, step = self.lines.sample[candidate.column], self.lines.step(candidate.column)
        left = left_over(own, candidate.values, step, ratio=candidate.is_ratio)
        return left, np.abs(np.nan_to_num(candidate.values, nan=1.0)) if candidate.is_ratio else 1.0


def _usual(values: np.ndarray) -> float:
    """The most frequent value."""
    distinct, counts = np.unique(values[np.isfinite(values)], return_counts=True)
    return float(distinct[np.argmax(counts)])
