"""The representation of each column: exact expressions first, then what makes its coded length shorter."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from synth.infer.relations.candidates import LEAST_EXACT, Candidate, Search, agreement
from synth.infer.relations.coding import Features, count_bits, count_bits_of_parts, round_bits
from synth.infer.relations.lines import DAY, Lines, tolerance

LEAST_ROWS = 60  # with all values, for an expression to be told from chance
ENOUGH = 30.0  # rows in which each part of an exact expression says something
LEAST_GAIN, LEAST_SHARE = 2.0, 0.08  # bits a row, and share of the bits, that an expression saves where it is not exact
LEAST_GAIN_OF_TIMES, LEAST_GAIN_OF_GAPS = 0.5, 0.25
LEAST_PARTIAL, LEAST_GAIN_OF_PARTIAL = 0.03, 0.25  # share of the rows that an expression gives exactly; bits
LEAST_FOLLOWING = 0.95  # share of the rows in which an end is not before its start
LEAST_GAIN_OF_PARTS = 0.25  # of week, weekday and time of day
LEAST_GAIN_OF_EXACT = 0.5  # bits a row, without a tree, that an exact expression saves
WORTH_A_LOOK = 1.0  # bits that a candidate saves without a tree, for a look with one
PER_TERM = 0.1  # bits that each term costs
RANKED = 3  # candidates of a column that are looked at with a tree
LEAST_OF_CATEGORIES = 0.98  # share of the rows that gives a column of few values
LEAST_VARIED = 12  # values of a column that is modeled by what is left
FEW_LEVELS, NEIGHBORS = 12, 5


@dataclass(frozen=True, eq=False)
class Representation:
    """How a column is easiest to predict. `share`: of the complete rows, that the expression gives exactly."""

    column: str
    candidate: Candidate | None = None
    share: float = 0.0
    gain: float = 0.0
    parts: bool = False
    alone: bool = False  # rows that the expression does not give exactly hold their value apart


def left_over(own: np.ndarray, values: np.ndarray, step: float, ratio: bool = False) -> np.ndarray:
    """What is left of an expression: zero where it gives the value exactly, and on the column's own precision."""
    with np.errstate(all="ignore"):
        if ratio:
            return _shortest(own, values, step)
        near = np.abs(own - values) <= tolerance(own, step)
        left = own - (np.round(values / step) * step if step else values)
        if step:
            left = np.round(left / step) * step
    return np.where(np.isfinite(values), np.where(near, 0.0, left), np.nan)


def _shortest(own: np.ndarray, values: np.ndarray, step: float) -> np.ndarray:
    """The quotient as the shortest decimal number that gives the value back."""
    left = np.where(values > 0, own / values, np.nan)
    exact = left.copy()
    for digits in range(7, -1, -1):
        short = np.round(exact, digits)
        left = np.where(np.abs(short * values - own) <= 0.5001 * step, short, left) if step else left
    return np.where(np.isfinite(left), left, np.nan)


class Choice:
    """One search: what is exact, and what is modeled."""

    def __init__(self, lines: Lines, fixed: Collection[str] = (), protected: Mapping[str, int] | None = None) -> None:
        """`fixed`: columns that are never computed. `protected`: those that only expressions of so many operands give."""
        self.lines, self.search = lines, Search(lines)
        self.fixed, self.protected = frozenset(fixed), dict(protected or {})
        self.features = Features(lines)
        self.others: dict[str, list[Candidate]] = {}
        self.partial: dict[str, list[tuple[float, Candidate]]] = {}
        self.exact_ones: list[Representation] = []
        self._look()

    def _look(self) -> None:
        """Measure all candidates: those that are exact, and the rest."""
        seen: dict[tuple, Representation] = {}
        for name in [*self.search.numbers, *self.search.times]:
            self.others[name], self.partial[name] = [], []
            waiting = self.search.candidates(name)
            for candidate in waiting:
                self._measure(candidate, seen)
            if name in self.search.plain:
                for term in [*self.search.plain.values(), *self.search.earlier.values()]:
                    if term.names != (name,):
                        self._note_partial(self.search.copy(name, term))
        self.exact_ones = list(seen.values())

    def _measure(self, candidate: Candidate, seen: dict[tuple, Representation]) -> None:
        if candidate.key in seen:
            return
        name = candidate.column
        share, n = agreement(self.lines, name, candidate.values)
        if candidate.is_ratio:
            share = 0.0
        known = int(np.isfinite(self.lines.sample[name]).sum())
        if n < LEAST_ROWS or n < 0.3 * known:
            return
        if 0.5 <= share < 1:
            longer = self.search.extended(candidate)
            if longer is not candidate:
                self._measure(longer, seen)
        if share >= LEAST_EXACT:
            made = self._exact(candidate, share)
            if made is not None:
                seen[candidate.key] = made
                for other in self.search.solved(candidate):
                    if other.key not in seen and agreement(self.lines, other.column, other.values)[0] >= LEAST_EXACT:
                        again = self._exact(other, agreement(self.lines, other.column, other.values)[0])
                        if again is not None:
                            seen[other.key] = again
        self._note_partial(candidate)
        if (
            share < LEAST_EXACT
            and n >= 0.5 * known
            and self.search.varied[name] >= LEAST_VARIED
            and not candidate.is_view
        ):
            self.others[name].append(candidate)

    def _note_partial(self, candidate: Candidate) -> None:
        """Keep a candidate that gives the column exactly in some of the rows that do not hold its usual value."""
        lines, name = self.lines, candidate.column
        if candidate.is_ratio or candidate.is_view or lines.is_time(name) or self.search.varied[name] < LEAST_VARIED:
            return
        own = lines.sample[name]
        near = (np.abs(own - candidate.values) <= tolerance(own, lines.step(name))) & (own != _usual(own))
        share = float(near.sum() / max(np.isfinite(own).sum(), 1))
        if LEAST_PARTIAL <= share < LEAST_EXACT:
            self.partial[name].append((share, candidate))

    def _exact(self, candidate: Candidate, share: float) -> Representation | None:
        lines, name = self.lines, candidate.column
        own, step = lines.sample[name], lines.step(name)
        near = np.abs(own - candidate.values) <= tolerance(own, step)
        enough = ENOUGH * len(lines.rows) / max(lines.n_units, 1)
        # Without any of its parts, the expression has to be wrong in many more rows.
        for weight, term in candidate.terms if len(candidate.terms) > 1 else ():
            usual = _usual(term.values[near])
            with np.errstate(all="ignore"):
                part = (
                    (usual / term.values) ** weight if candidate.form == "product" else weight * (usual - term.values)
                )
                without = (
                    candidate.values * part if candidate.form == "product" else candidate.values + part * term.seconds
                )
            if np.sum(near & ~(np.abs(own - without) <= tolerance(own, step))) < enough:
                return None
        if _varying(own[near]) < enough:
            return None
        if candidate.column in candidate.operands and len(candidate.terms) == 1:
            before = candidate.terms[0][1].values
            if np.sum(near & (own != before)) < enough:
                return None
        left = left_over(own, candidate.values, step)
        gain = count_bits(own, lines.lattice(name)) - count_bits(left, lines.lattice(name))
        # A few categories are learned as such, unless nearly nothing is left of them.
        clear = share >= LEAST_OF_CATEGORIES or self.search.varied[name] >= LEAST_VARIED
        return Representation(name, candidate, share, gain) if clear and gain > LEAST_GAIN_OF_EXACT else None

    def exact(self) -> list[Representation]:
        """Exact expressions, the strongest first; an equation gives one column, and none needs itself."""
        place = {name: i for i, name in enumerate(self.lines.schema.columns)}
        best: dict[frozenset[str], float] = {}
        for each in self.exact_ones:
            best[each.candidate.about] = max(best.get(each.candidate.about, 0.0), each.share)

        def rank(each: Representation) -> tuple:
            candidate = each.candidate
            n = len(candidate.operands)
            long = (
                n > 2
                and candidate.form == "sum"
                and any(e.candidate.is_result for e in self.exact_ones if e.candidate.about == candidate.about)
            )
            worth = each.gain + 0.75 * candidate.is_result
            about = -n * long, n, -round(best[candidate.about], 2), sorted(map(place.get, candidate.about))
            return *about, -round(worth, 1), len(candidate.expression), -place[each.column]

        taken: dict[str, Representation] = {}
        used: set[frozenset[str]] = set()
        for each in sorted(self.exact_ones, key=rank):
            candidate = each.candidate
            if (
                candidate.about not in used
                and each.column not in taken
                and self._allows(candidate)
                and not self._circular(each, taken)
            ):
                taken[each.column] = each
                used.add(candidate.about)
        return list(taken.values())

    def _allows(self, candidate: Candidate) -> bool:
        least = self.protected.get(candidate.column, 0)
        enough = not least or (candidate.is_result and len(candidate.operands) >= least)
        return candidate.column not in self.fixed and enough and self._is_constant_or_free(candidate)

    def _is_constant_or_free(self, candidate: Candidate) -> bool:
        """True unless a column that is constant in an entity would follow from one that is not."""
        constant = self.lines.schema.constant_in_entity
        return candidate.column not in constant or candidate.operands <= {*constant}

    # --- what is not exact -------------------------------------------------------------------------------------------

    def modeled(
        self, exact: Iterable[Representation], orders: Collection[tuple[str, str]], aside: Collection[str] = ()
    ) -> list[Representation]:
        """Columns of which something is left, by the bits that this saves; none of those aside.
        `orders`: (low, high) that all rows keep.
        """
        self.fixed |= set(aside)
        self.taken = {each.column: each for each in exact}
        self.aside = frozenset(self.taken)
        self._plain: dict[str, float] = {}
        self.about = about = {each.candidate.about for each in self.taken.values()}
        choices: list[Representation] = []
        for name in self.others:
            if name in self.taken or name in self.fixed:
                continue
            ordered = {low for low, high in orders if high == name} | {high for low, high in orders if low == name}
            candidates = [each for each in self.others[name] if each.about not in about]
            look = self._of_time if self.lines.is_time(name) else self._of_number
            choices += look(name, candidates, ordered)
            choices += self._partly(name)
        for each in sorted(choices, key=lambda each: -each.gain):
            new = each.column not in self.taken and each.candidate.about not in about
            if new and self._is_constant_or_free(each.candidate) and not self._circular(each, self.taken):
                self.taken[each.column] = each
                about.add(each.candidate.about)
        parts = [self._parted(name) for name in self.search.times if name not in self.aside | self.fixed]
        return [each for name, each in self.taken.items() if name not in self.aside] + [
            e for e in parts if e is not None
        ]

    def plain(self, name: str) -> float:
        """Bits of the column's own value."""
        if name not in self._plain:
            spiky = not self.lines.is_time(name)
            seen = self.features.without({name, *self.aside})
            self._plain[name] = count_bits(self.lines.sample[name], self.lines.lattice(name), seen, spiky=spiky)
        return self._plain[name]

    def _of_number(
        self, name: str, candidates: Sequence[Candidate], ordered: Collection[str]
    ) -> Iterator[Representation]:
        lines, own, lattice = self.lines, self.lines.sample[name], self.lines.lattice(name)
        rough = count_bits(own, lattice)
        ranked = []
        candidates = [*candidates, *(c for n in ordered for c in self.search.gap(name, n) if c.about not in self.about)]
        for each in candidates:
            left, scale = self._left(each)
            cost = count_bits(left, lattice, scale=scale) + PER_TERM * 1.5 * len(each.terms)
            if rough - cost >= (0.0 if each.operands <= set(ordered) else WORTH_A_LOOK):
                ranked.append((cost, each, left, scale))
        known, best = np.isfinite(own), (0.0, 0.0, None, own)
        for _, each, left, scale in sorted(ranked, key=lambda r: r[0])[:RANKED]:
            missing = 1 - float(np.isfinite(left[known]).mean())
            seen = self.features.without({name, *self.aside})
            cost = (1 - missing) * count_bits(left, lattice, seen, scale) + missing * self.plain(name)
            lost = round_bits(own, lattice) - (0.0 if each.is_ratio else round_bits(left, lattice))
            gain = self.plain(name) - cost - PER_TERM * len(each.terms) - max(lost, 0.0)
            least = LEAST_GAIN if each.is_ratio else max(LEAST_GAIN, LEAST_SHARE * self.plain(name))
            if each.operands <= set(ordered):
                least = LEAST_GAIN_OF_GAPS
            if gain >= least:
                best = max(best, (gain, least, each, left), key=lambda b: b[0] - b[1])
        gain, least, candidate, left = best
        if candidate is None:
            return
        gain += min(self._of_others(candidate, left), 2.0)
        if gain >= least:
            positive = 0.5 * (not candidate.is_ratio and bool(np.nanmin(left) >= 0))
            yield Representation(name, candidate, gain=gain + positive)

    def _partly(self, name: str) -> Iterator[Representation]:
        """An expression that gives the column in some rows: whether it does, and the value where it does not."""
        lines, own, lattice = self.lines, self.lines.sample[name], self.lines.lattice(name)
        rough, known = count_bits(own, lattice), np.isfinite(own)
        ranked = []
        for _, each in sorted(self.partial[name], key=lambda p: -p[0])[: 2 * RANKED]:
            near = np.abs(own - each.values) <= tolerance(own, lines.step(name))
            share = float(near[known].mean())
            rest = np.where(near, np.nan, own)
            cost = _entropy(share) + (1 - share) * count_bits(rest, lattice) + PER_TERM * len(each.terms)
            if rough - cost >= LEAST_GAIN_OF_PARTIAL:
                ranked.append((cost, each, near, rest, share))
        for _, each, near, rest, share in sorted(ranked, key=lambda r: r[0])[:2]:
            seen = self.features.without({name, *self.aside})
            flag = count_bits(np.where(known, near, np.nan), 1e9, seen)
            cost = flag + (1 - share) * count_bits(rest, lattice, seen) + PER_TERM * len(each.terms)
            gain = self.plain(name) - cost - share * round_bits(own, lattice)
            if gain >= LEAST_GAIN_OF_PARTIAL:
                gain += min(self._of_others(each, rest), 2.0)
            if gain >= LEAST_GAIN_OF_PARTIAL:
                yield Representation(name, each, share, gain, alone=True)

    def _of_time(
        self, name: str, candidates: Sequence[Candidate], ordered: Collection[str]
    ) -> Iterator[Representation]:
        own, step = self.lines.sample[name], self.lines.step(name)
        for each in candidates:
            left, _ = self._left(each)
            if len(each.terms) > 1 or np.mean(left[np.isfinite(left)] >= 0) < LEAST_FOLLOWING:
                continue
            missing = 1 - float(np.isfinite(left[np.isfinite(own)]).mean())
            seen = self.features.without({name, *self.aside})
            whole = count_bits(left, step, seen)
            parted = count_bits_of_parts(own, step, seen, each.values)
            value = min(self.plain(name), count_bits_of_parts(own, step, seen))
            gain = value - (1 - missing) * min(whole, parted) - missing * value - PER_TERM
            least = LEAST_GAIN_OF_TIMES if not each.operands & set(ordered) else 0.0
            if gain > -1:
                gain += min(self._of_others(each, left), 2.0)
            if gain >= least:
                yield Representation(name, each, gain=gain + 0.5)

    def _left(self, candidate: Candidate) -> tuple[np.ndarray, np.ndarray | float]:
        """What is left of a candidate in the sampled rows, and what one unit of it is on the column's scale."""
        own = self.lines.sample[candidate.column]
        left = left_over(own, candidate.values, self.lines.step(candidate.column), candidate.is_ratio)
        scale = np.where(np.isfinite(candidate.values), np.abs(candidate.values), 1.0) if candidate.is_ratio else 1.0
        return left, scale

    def _parted(self, name: str) -> Representation | None:
        """A time as week, weekday and time of day, if that is shorter."""
        lines, own, step = self.lines, self.lines.sample[name], self.lines.step(name)
        rep = self.taken.get(name, Representation(name))
        seen = self.features.without({name, *self.aside, *self._computed_from(name)})
        if rep.candidate is None:
            whole, parted = count_bits(own, step, seen, spiky=False), count_bits_of_parts(own, step, seen)
        else:
            left, _ = self._left(rep.candidate)
            whole, parted = count_bits(left, step, seen), count_bits_of_parts(own, step, seen, rep.candidate.values)
        if whole - parted < LEAST_GAIN_OF_PARTS + 60 / len(lines.rows):
            return None
        self.taken.pop(name, None)
        return replace(rep, parts=True, gain=rep.gain + whole - parted)

    def _computed_from(self, name: str) -> set[str]:
        """Columns that are computed from a column, by any number of steps."""
        made = {name}
        for _ in self.taken:
            made |= {n for n, each in self.taken.items() if each.candidate and each.candidate.operands & made}
        return made - {name}

    def _of_others(self, candidate: Candidate, left: np.ndarray) -> float:
        """Bits that columns which go with this one, or are few categories, save when they see what is left of it."""
        lines, name = self.lines, candidate.column
        aside = {name, *self.aside}
        block = np.nan_to_num(left, nan=-1e12)[:, None].astype(np.float32)
        own = self.features.matrix[:, self.features.at[name]]
        ranks = {n: _ranked(v) for n, v in lines.sample.items() if n not in {*candidate.about, *aside}}
        pair = _ranked(lines.sample[name]), _ranked(left)
        near = {n: max(abs(_correlation(p, r)) for p in pair) for n, r in ranks.items()}
        saved = 0.0
        for n in sorted(near, key=lambda n: -near[n])[:NEIGHBORS]:
            seen, lattice = self.features.without({n, *aside}), lines.lattice(n)
            bits = [
                count_bits(lines.sample[n], lattice, np.hstack([seen, more]), spiky=not lines.is_time(n))
                for more in (own, block)
            ]
            saved += bits[0] - bits[1]
        for n, codes in lines.codes.items():
            if n in aside or not 1 < codes.max() + 1 <= FEW_LEVELS:
                continue
            seen, values = self.features.without({n, *aside}), np.where(codes >= 0, codes, np.nan).astype(np.float64)
            bits = [count_bits(values, 1e9, np.hstack([seen, more])) for more in (own, block)]
            saved += bits[0] - bits[1] if abs(bits[0] - bits[1]) > 0.02 else 0.0
        return saved

    @staticmethod
    def _circular(each: Representation, taken: Mapping[str, Representation]) -> bool:
        """True if an operand is computed from the column itself."""
        waiting, seen = list(each.candidate.operands - {each.column}), set()
        while waiting:
            at = waiting.pop()
            if at == each.column:
                return True
            if at not in seen and at in taken and taken[at].candidate is not None:
                seen.add(at)
                waiting += taken[at].candidate.operands - {at}
        return False


def _entropy(share: float) -> float:
    share = min(max(share, 1e-9), 1 - 1e-9)
    return -share * np.log2(share) - (1 - share) * np.log2(1 - share)


def _ranked(values: np.ndarray) -> np.ndarray:
    filled = np.where(np.isfinite(values), values, np.nanmedian(values))
    return np.argsort(np.argsort(filled, kind="stable"), kind="stable").astype(np.float64)


def _correlation(one: np.ndarray, other: np.ndarray) -> float:
    one, other = one - one.mean(), other - other.mean()
    return float(one @ other / np.sqrt((one @ one) * (other @ other) + 1e-12))


def _usual(values: np.ndarray) -> float:
    """The most frequent value."""
    distinct, counts = np.unique(values[np.isfinite(values)], return_counts=True)
    return float(distinct[np.argmax(counts)])


def _varying(values: np.ndarray) -> int:
    """How many rows hold another value than most do."""
    values = values[np.isfinite(values)]
    if not len(values):
        return 0
    counts = np.unique(values, return_counts=True)[1]
    return int(len(values) - counts.max())
