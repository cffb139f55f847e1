"""Expressions that may give a column, looked for on a few rows: sums, products, parts and spans of times.

A beam search takes away summand after summand, or in logarithms factor after factor, and keeps what leaves least: the
mean distance from the median of the nearest 85%, so that broken rows and constants do no harm. Every pair of columns is
tried by itself, too, as a small difference of two large numbers hides both.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from synth.constraints.expression import written
from synth.infer.relations.lines import DAY, SECONDS, Lines, tolerance

SCREEN, FIRST = 240, 48  # rows for screening, and those that sift pairs before
TERMS, FACTORS, BEAM = 5, 3, 4  # of the longest sum, of the longest product; sums kept at a time
WEIGHTS = (1.0, -1.0, 0.5, 2.0, 1 / 3, 2 / 3)
MOST_WEIGHTED, MOST_LINES = 25, 60  # columns up to which all weights are tried, and that are looked at
LEAST_EXACT = 0.9  # share of complete rows that an exact expression gives
DIGITS = 4  # significant digits of a factor
LEAST_EXPLAINED = 10  # rows that break a sum and another summand explains
LEAST_KNOWN = 0.3  # share of the rows in which an operand of a sum or a product has a value


@dataclass(frozen=True, eq=False)
class Term:
    """A column, or a view of one or two, as an expression writes it; values of the sampled rows."""

    text: str
    names: tuple[str, ...]
    values: np.ndarray
    unit: str | None = None
    seconds: float = 1.0  # of one unit of it, in a sum that is a time


@dataclass(frozen=True, eq=False)
class Candidate:
    """An expression that may give a column; its values in the sampled rows, times in seconds.

    Attributes:
        operands: the columns it names.
        is_result: a sum of summands, a product of factors, rather than a part of one.
        terms: its summands with their weights, or its factors with their exponents; a constant is apart.
    """

    column: str
    expression: str
    values: np.ndarray
    operands: frozenset[str]
    unit: str | None = None
    is_result: bool = True
    is_ratio: bool = False
    is_view: bool = False
    terms: tuple[tuple[float, Term], ...] = ()
    constant: float = 0.0
    form: str = "sum"

    @property
    def about(self) -> frozenset[str]:
        return self.operands | {self.column}

    @property
    def key(self) -> tuple[str, str, str | None, bool]:
        return self.column, self.expression, self.unit, self.is_ratio


def agreement(lines: Lines, name: str, values: np.ndarray) -> tuple[float, int]:
    """The share of the sampled rows with both values that an expression gives exactly, and how many rows that are."""
    own = lines.sample[name]
    both = np.isfinite(own) & np.isfinite(values)
    near = np.abs(own[both] - values[both]) <= tolerance(own[both], lines.step(name))
    return float(near.mean()) if both.any() else 0.0, int(both.sum())


def number(value: float) -> str:
    return f"{value:.12g}"


def write_sum(terms: Sequence[tuple[float, Term]], constant: float = 0.0) -> str:
    text = ""
    for weight, term in sorted(terms, key=lambda each: -math.copysign(1, each[0])):
        size, part = abs(weight), term.text
        third = round(3 * size)
        if size != 1 and abs(3 * size - third) < 1e-9 and size != round(size):
            part = f"{part} / 3" if third == 1 else f"{third} * {part} / 3"
        elif size != 1:
            part = f"{number(size)} * {part}"
        text += (f" {'-' if weight < 0 else '+'} " if text else "-" * (weight < 0)) + part
    return text + (f" {'-' if constant < 0 else '+'} {number(abs(constant))}" if constant else "")


def write_product(terms: Sequence[tuple[float, Term]], factor: float = 1.0) -> str:
    wrapped = [(e, f"({t.text})" if any(s in t.text for s in (" + ", " - ")) else t.text) for e, t in terms]
    over = [text for e, text in wrapped for _ in range(round(e))]
    under = [text for e, text in wrapped for _ in range(round(-e))]
    divisor = 1 / factor
    whole = abs(divisor - round(divisor)) < 1e-9 * divisor and divisor > 1
    front = [] if factor == 1 or whole else [number(factor)]
    text = " * ".join([*front, *over]) or "1"
    return " / ".join([text, *under, *([number(round(divisor))] if whole else [])])


class Search:
    """Candidates for every column."""

    def __init__(self, lines: Lines, aside: frozenset[str] = frozenset()) -> None:
        self.lines = lines
        sample = lines.sample
        varied = {name: len(np.unique(values[np.isfinite(values)])) for name, values in sample.items()}
        self.varied = varied
        usable = [
            name for name in sample if varied[name] > 1 and name not in aside and not lines.column(name).is_weight
        ]
        self.numbers = [name for name in usable if not lines.is_time(name)][:MOST_LINES]
        self.times = [name for name in usable if lines.is_time(name)]
        self.plain = {name: Term(written(name), (name,), sample[name]) for name in self.numbers}
        self.earlier = {}
        if lines.previous is not None:
            for name in self.numbers:
                term = Term(f"before({written(name)})", (name,), lines.before(name)[lines.rows])
                if np.isfinite(term.values).mean() >= LEAST_KNOWN:
                    self.earlier[name] = term

    def candidates(self, name: str) -> list[Candidate]:
        source = self._of_time(name) if self.lines.is_time(name) else self._of_number(name)
        return list({each.key: each for each in source}.values())

    # --- times -------------------------------------------------------------------------------------------------------

    def _of_time(self, name: str) -> Iterator[Candidate]:
        sample, own = self.lines.sample, self.lines.sample[name]
        for other in self.times:
            if other == name or not self.lines.comparable(name, other):
                continue
            by_day = self.lines.step(name) == DAY and self.lines.step(other) < DAY
            start = np.floor(sample[other] / DAY) * DAY if by_day else sample[other]
            text = f"day({written(other)})" if by_day else written(other)
            base = Term(text, (other,), start)
            rest = own - start
            unit = next(
                u for u, s in SECONDS.items() if u != "week" and self.lines.step(name) % s == 0 or u == "second"
            )
            if np.isfinite(rest).any():
                yield self._shifted(
                    name, text, start, unit, (base,), is_view=by_day and bool(np.nanmax(np.abs(rest)) == 0)
                )
            for x, (u, seconds) in itertools.product(self.numbers, SECONDS.items()):
                if u == "week" and self.varied[x] > 600:
                    continue
                length = sample[x] * seconds
                if self._likely(rest, length, self.lines.step(name)):
                    yield self._shifted(
                        name,
                        f"{text} + {written(x)}",
                        start + length,
                        u,
                        (base, replace(self.plain[x], seconds=seconds)),
                    )

    def _likely(self, rest: np.ndarray, values: np.ndarray, step: float) -> bool:
        """A quick look at whether two columns differ by one constant in most rows."""
        gap = (rest - values)[: 2 * SCREEN]
        gap = gap[np.isfinite(gap)]
        if len(gap) < FIRST:
            return False
        return bool((np.abs(gap - np.median(gap)) <= 0.5001 * step + 1e-6).mean() >= 0.8)

    def _shifted(
        self,
        name: str,
        text: str,
        values: np.ndarray,
        unit: str | None,
        factors: tuple[Term, ...],
        is_view: bool = False,
        is_result: bool = True,
    ) -> Candidate:
        """An expression with the constant that most rows show, where most do; times in their unit."""
        shift = self._constant(name, values)
        in_unit = shift / SECONDS[unit] if unit and self.lines.is_time(name) else shift
        ending = f" {'-' if shift < 0 else '+'} {number(abs(in_unit))}" if shift else ""
        operands = frozenset(n for term in factors for n in term.names)
        terms = tuple((1.0, term) for term in factors)
        return Candidate(
            name, text + ending, values + shift, operands, unit, is_view=is_view, terms=terms, is_result=is_result,
            constant=shift, form="fixed",
        )  # fmt: skip

    def _constant(self, name: str, values: np.ndarray) -> float:
        rest = self.lines.sample[name] - values
        rest = rest[np.isfinite(rest)]
        if not len(rest):
            return 0.0
        step, middle = self.lines.step(name), float(np.median(rest))
        middle = round(middle / step) * step if step else float(f"{middle:.6g}")
        if step and step < 1:
            middle = float(f"{middle:.10g}")
        if middle == 0 or float((np.abs(rest) <= tolerance(rest, step)).mean()) >= 0.5:
            return 0.0
        near = np.abs(rest - middle) <= tolerance(
            self.lines.sample[name][np.isfinite(self.lines.sample[name] - values)], step
        )
        return middle if float(near.mean()) >= LEAST_EXACT else 0.0

    # --- numbers -----------------------------------------------------------------------------------------------------

    def _of_number(self, name: str) -> Iterator[Candidate]:
        yield from self._parts_and_spans(name)
        own = self.lines.sample[name]
        for term in self.earlier.values():
            if term.names != (name,) and self._likely(own, term.values, self.lines.step(name)):
                yield self._shifted(name, term.text, term.values, None, (term,), is_result=False)
        rows = self._rows(own)
        if len(rows) < FIRST:
            return
        terms = [term for n, term in self.plain.items() if n != name]
        terms = [t for t in terms if np.isfinite(t.values[rows]).mean() >= LEAST_KNOWN]
        # Taken away at first: what follows is looked for in the step to the row before.
        steps = [None] if name not in self.earlier else [None, self.earlier[name]]
        for base in steps:
            held = rows if base is None else rows[np.isfinite(base.values[rows])]
            if len(held) < FIRST:
                continue
            yield from self._sums(name, held, terms, base)
            if base is None:
                yield from self._multiples(name, held, terms)
                yield from self._products(name, held, terms)

    def _rows(self, own: np.ndarray) -> np.ndarray:
        """Rows to look at first: those that hold no value that many hold, where enough do."""
        held = np.flatnonzero(np.isfinite(own))
        distinct, inverse, counts = np.unique(own[held], return_inverse=True, return_counts=True)
        rare = held[inverse != np.argmax(counts)] if len(counts) and counts.max() > 0.3 * len(held) else held
        return rare[:SCREEN]

    def _parts_and_spans(self, name: str) -> Iterator[Candidate]:
        lines, own = self.lines, self.lines.sample[name]
        step = lines.step(name)
        for time in self.times:
            if step != 1 or lines.column(time).zone not in (None, "UTC"):
                continue
            for part in ("year", "month", "weekday", "hour"):
                if self.varied[name] > {"month": 12, "weekday": 7, "hour": 24}.get(part, 1_000):
                    continue
                text = f"{part}({written(time)})"
                values = lines.evaluate(text, "day")[lines.rows]
                if self._likely(own, values, step):
                    yield self._shifted(
                        name, text, values, "day", (Term(text, (time,), values),), is_view=True, is_result=False
                    )
        for end, start in itertools.permutations(self.times, 2):
            if not self.lines.comparable(end, start):
                continue
            pair = f"{written(end)} - {written(start)}"
            for unit, seconds in SECONDS.items():
                span = (lines.sample[end] - lines.sample[start]) / seconds
                options = [(pair, span)]
                if step == 1:
                    days = np.floor(lines.sample[end] / DAY) - np.floor(lines.sample[start] / DAY)
                    options += [(f"floor({pair})", np.floor(span + 1e-9))]
                    options += [(f"day({written(end)}) - day({written(start)})", days)] * (unit == "day")
                    options += [(f"floor(({pair}) / 365.25)", np.floor(span / 365.25))] * (unit == "day")
                for text, values in options:
                    if self._likely(own, values, step or 1e-6):
                        term = Term(text, (end, start), values)
                        yield self._shifted(
                            name,
                            text,
                            values,
                            unit,
                            (term,),
                            is_view="floor" in text or "day(" in text,
                            is_result=False,
                        )

    def _sums(self, name: str, rows: np.ndarray, terms: Sequence[Term], base: Term | None) -> Iterator[Candidate]:
        lines, taken = self.lines, [] if base is None else [(1.0, base)]
        own = lines.sample[name][rows]
        c = own if base is None else own - base.values[rows]
        terms = [t for t in terms if base is None or t.names != (name,)]
        least = 0.51 * lines.step(name) or 1e-7 * float(np.median(np.abs(c)) or 1e-9)
        if base is not None:
            yield self._sum(name, taken)
        if not terms:
            return
        x = np.array([_filled(term.values[rows]) for term in terms])
        weights = WEIGHTS if len(terms) <= MOST_WEIGHTED else WEIGHTS[:2]
        pool = [(w, i) for i in range(len(terms)) for w in weights]
        weighted = np.array([w * x[i] for w, i in pool])
        for used in _pursue(c, weighted, np.array([i for _, i in pool]), np.eye(len(terms), dtype=bool), TERMS, least):
            yield self._sum(name, [*taken, *((pool[k][0], terms[pool[k][1]]) for k in used)])
        for signs, pair in _pairs(c, x, least):
            yield self._sum(name, [*taken, *zip(signs, (terms[i] for i in pair), strict=True)])
        if base is None:
            for used in _by_regression(c, x):
                yield self._sum(name, [(w, terms[i]) for i, w in used])

    def _sum(self, name: str, terms: Sequence[tuple[float, Term]]) -> Candidate:
        values = sum((w * term.values for w, term in terms), np.zeros(len(self.lines.rows)))
        shift = self._constant(name, values)
        operands = frozenset(n for _, term in terms for n in term.names)
        is_result = all(w > 0 for w, _ in terms) and shift == 0
        return Candidate(
            name,
            write_sum(terms, shift),
            values + shift,
            operands,
            is_result=is_result,
            terms=tuple(terms),
            constant=shift,
        )

    def copy(self, name: str, term: Term) -> Candidate:
        return Candidate(name, term.text, term.values, frozenset(term.names), is_result=False, terms=((1.0, term),))

    def gap(self, name: str, other: str) -> list[Candidate]:
        """A number as another one and the gap between them, or as a share of it."""
        term = self.plain.get(other)
        if term is None or name not in self.plain:
            return []
        plain = self.copy(name, term)
        return [plain, replace(plain, is_ratio=True, form="product")]

    def extended(self, candidate: Candidate) -> Candidate:
        """A sum with the summands, one by one, that explain most of the rows that break it."""
        name, own = candidate.column, self.lines.sample[candidate.column]
        while candidate.form == "sum" and len(candidate.terms) < TERMS:
            rest = own - candidate.values
            slack = tolerance(own, self.lines.step(name))
            wrong = np.flatnonzero(np.abs(rest) > slack)
            others = [(w, t) for n, t in self.plain.items() if n not in candidate.about for w in (1.0, -1.0)]
            if len(wrong) < LEAST_EXPLAINED or not others:
                return candidate
            explained = [int((np.abs(rest - w * t.values)[wrong] <= slack[wrong]).sum()) for w, t in others]
            best = int(np.argmax(explained))
            if explained[best] < max(LEAST_EXPLAINED, len(wrong) / 2):
                return candidate
            candidate = self._sum(name, [*candidate.terms, others[best]])
        return candidate

    def solved(self, candidate: Candidate) -> Iterator[Candidate]:
        """The same equation, solved for its other columns."""
        plain = all(len(term.names) == 1 and self.plain.get(term.names[0]) is term for _, term in candidate.terms)
        if candidate.is_ratio or not plain or candidate.column not in self.plain or len(candidate.terms) < 2:
            return
        own = self.plain[candidate.column]
        for weight, term in candidate.terms:
            if abs(weight) not in (0.5, 1.0, 2.0) or (candidate.form == "product" and abs(weight) != 1):
                continue
            others = [(-w / weight, t) for w, t in candidate.terms if t is not term]
            if candidate.form == "sum":
                yield self._sum(term.names[0], [(1 / weight, own), *others])
            elif candidate.form == "product":
                yield from self._product(term.names[0], [(1 / weight, own), *others])

    def _multiples(self, name: str, rows: np.ndarray, terms: Sequence[Term]) -> Iterator[Candidate]:
        """Columns that are a multiple of another, and a constant."""
        c = self.lines.sample[name][rows]
        half = len(rows) // 2
        for term in terms:
            x = term.values[rows]
            at = np.argsort(x, kind="stable")
            with np.errstate(all="ignore"):
                slopes = (c[at][half : 2 * half] - c[at][:half]) / (x[at][half : 2 * half] - x[at][:half])
            slopes = slopes[np.isfinite(slopes)]
            if len(slopes) < half // 2 or not (slope := float(f"{np.median(slopes):.{DIGITS}g}")):
                continue
            rest = c - slope * x
            rest = rest[np.isfinite(rest)]
            step = self.lines.step(name) or 1e-6 * float(np.abs(c[np.isfinite(c)]).max() or 1)
            if not len(rest) or (np.abs(rest - np.median(rest)) <= 1.01 * step).mean() < 0.7:
                continue
            scaled = Term(write_product([(1, term)], slope), term.names, slope * term.values)
            yield self._shifted(name, scaled.text, scaled.values, None, (term,), is_result=False)

    def _products(self, name: str, rows: np.ndarray, terms: Sequence[Term]) -> Iterator[Candidate]:
        lines, c = self.lines, self.lines.sample[name][rows]
        rows = rows[c > 0]
        if len(rows) < max(FIRST, 0.6 * len(c)):
            return
        terms = [*terms, *self._complements(name), *self._spans()]
        with np.errstate(all="ignore"):
            kept = [t for t in terms if (t.values[rows] > 0).mean() > 0.6]
        if not kept:
            return
        with np.errstate(all="ignore"):
            logs = np.log(np.array([np.where(t.values[rows] > 0, t.values[rows], np.nan) for t in kept]))
        logs = np.array([_filled(line) for line in logs])
        exponents = (1, -1, 2, -2) if len(kept) <= MOST_WEIGHTED else (1, -1)
        pool = [(e, i) for i in range(len(kept)) for e in exponents]
        weighted = np.array([e * logs[i] for e, i in pool])
        own = np.log(lines.sample[name][rows])
        overlap = np.array([[not set(one.names).isdisjoint(other.names) for other in kept] for one in kept])
        for used in _pursue(own, weighted, np.array([i for _, i in pool]), overlap, FACTORS, 1e-4):
            yield from self._product(name, [(pool[k][0], kept[pool[k][1]]) for k in used])
        # In logarithms, a step of the precision of small values is not small.
        loose = max(2e-3, float(np.median(lines.step(name) / lines.sample[name][rows])))
        for signs, pair in _pairs(own, logs, loose):
            if not overlap[pair]:
                yield from self._product(name, [(s, kept[i]) for s, i in zip(signs, pair, strict=True)])

    def _product(self, name: str, terms: Sequence[tuple[float, Term]]) -> Iterator[Candidate]:
        with np.errstate(all="ignore"):
            values = np.prod([term.values**e for e, term in terms], axis=0)
            values = np.where(np.isfinite(values), values, np.nan)
            quotient = self.lines.sample[name] / values
        quotient = quotient[np.isfinite(quotient) & (quotient > 0)]
        if not len(quotient):
            return
        factor = float(f"{np.median(quotient):.{DIGITS}g}")
        if abs(1 / factor - round(1 / factor)) < 2e-3 / factor and 1 / factor > 1.5:
            factor = 1 / round(1 / factor)
        operands = frozenset(n for _, term in terms for n in term.names)
        unit = next((term.unit for _, term in terms if term.unit), None)
        # Powers of ten do not count against a result: percentages, cents.
        plain = unit is None and all(e > 0 for e, _ in terms)
        common: dict[str, Any] = {"operands": operands, "unit": unit, "terms": tuple(terms), "form": "product"}
        for k in dict.fromkeys((1.0, factor)):
            yield Candidate(name, write_product(terms, k), k * values, is_result=plain, constant=k, **common)
        yield Candidate(name, write_product(terms), values, is_ratio=True, is_result=plain, constant=1.0, **common)

    def _complements(self, name: str) -> list[Term]:
        """What shares, and percentages, leave of the whole, and what they add to it."""
        made = []
        for other, term in self.plain.items():
            low, high = np.nanmin(term.values), np.nanmax(term.values)
            if other == name or low < 0 or high > 100:
                continue
            step = self.lines.step(other)
            text = term.text
            if high <= 1 and step < 1:
                made += [Term(f"1 - {text}", (other,), 1 - term.values), Term(f"1 + {text}", (other,), 1 + term.values)]
            elif high > 1 and self.varied[other] > 2:
                made += [
                    Term(f"1 - {text} / 100", (other,), 1 - term.values / 100),
                    Term(f"1 + {text} / 100", (other,), 1 + term.values / 100),
                ]
        return made

    def _spans(self) -> list[Term]:
        made = []
        for end, start in itertools.permutations(self.times, 2):
            if self.lines.comparable(end, start):
                span = (self.lines.sample[end] - self.lines.sample[start]) / SECONDS["hour"]
                if np.isfinite(span).any() and np.nanmean(span >= 0) > 0.9:
                    made.append(Term(f"{written(end)} - {written(start)}", (end, start), span, "hour"))
        return made[:6]


def _filled(x: np.ndarray) -> np.ndarray:
    known = np.isfinite(x)
    return np.where(known, x, np.median(x[known]) if known.any() else 0.0)


def _spread(rows: np.ndarray) -> np.ndarray:
    """Mean distance from the median of the nearest 85% of each row."""
    n = rows.shape[1]
    gap = np.abs(rows - np.partition(rows, n // 2, axis=1)[:, n // 2, None])
    k = int(0.85 * n)
    return np.partition(gap, k - 1, axis=1)[:, :k].mean(axis=1)


def _pursue(
    c: np.ndarray, pool: np.ndarray, term: np.ndarray, overlap: np.ndarray, depth: int, least: float
) -> list[tuple[int, ...]]:
    """Beam search for sums of rows of the pool after which little of `c` is left, of terms that do not overlap."""
    best, exact = [], []
    kept: list[tuple[tuple[int, ...], np.ndarray, float]] = [((), c, float(_spread(c[None])[0]))]
    for _ in range(depth):
        reached: dict[tuple[int, ...], tuple[np.ndarray, float]] = {}
        for used, left, spread in kept:
            free = np.flatnonzero(~overlap[term[list(used)]].any(axis=0)[term]) if used else np.arange(len(pool))
            if not len(free):
                continue
            rows = left[None] - pool[free]
            new = _spread(rows)
            for j in np.argsort(new)[: 2 * BEAM]:
                if new[j] < 0.9 * spread:
                    reached[tuple(sorted((*used, int(free[j]))))] = (rows[j], float(new[j]))
        ranked = sorted(((u, r, s) for u, (r, s) in reached.items()), key=lambda each: each[2])
        exact += [used for used, _, spread in ranked if spread <= least]
        kept = [each for each in ranked if each[2] > least][:BEAM]
        best += kept
    rest = [used for used, _, _ in sorted(best, key=lambda each: (each[2], len(each[0])))[:BEAM]]
    return list(dict.fromkeys([*exact[:BEAM], *rest]))


def _pairs(c: np.ndarray, x: np.ndarray, least: float) -> list[tuple[tuple[float, float], tuple[int, int]]]:
    """Sums and differences of two rows from which `c` differs by a constant in most places."""
    k = len(x)
    if k < 2:
        return []
    one, other = np.triu_indices(k, 1)
    at = np.linspace(0, len(c) - 1, min(FIRST, len(c))).astype(int)
    kept = []
    for signs in ((1.0, 1.0), (1.0, -1.0), (-1.0, 1.0)):
        rest = c[at][None] - signs[0] * x[one][:, at] - signs[1] * x[other][:, at]
        middle = np.partition(rest, rest.shape[1] // 2, axis=1)[:, rest.shape[1] // 2, None]
        share = (np.abs(rest - middle) <= 1.02 * least).mean(axis=1)
        likely = np.argsort(-share)[:BEAM]
        kept += [(signs, (int(one[i]), int(other[i]))) for i in likely if share[i] >= 0.7]
    return kept


def _by_regression(c: np.ndarray, x: np.ndarray) -> list[list[tuple[int, float]]]:
    """A ridge regression, trimmed twice, its coefficients rounded: sums whose terms hide each other."""
    if len(x) > SCREEN // 3 or len(c) < 2 * len(x):
        return []
    scale = x.std(axis=1) + 1e-12
    z, keep, w = ((x - x.mean(axis=1, keepdims=True)) / scale[:, None]).T, np.arange(len(c)), None
    for _ in range(3):
        m = z[keep] - z[keep].mean(axis=0)
        w = np.linalg.solve(m.T @ m + 1e-6 * len(keep) * np.eye(len(x)), m.T @ (c[keep] - c[keep].mean()))
        rest = c - z @ w
        keep = np.argsort(np.abs(rest - np.median(rest)))[: int(0.85 * len(c))]
    raw, plain = w / scale, np.array([1.0, -1.0, 0.5, -0.5, 2.0, -2.0])
    near = plain[np.argmin(np.abs(raw[:, None] - plain), axis=1)]
    used = [(i, float(near[i])) for i in range(len(x)) if abs(raw[i] - near[i]) < 0.06]
    return [used] if 1 < len(used) <= TERMS else []
