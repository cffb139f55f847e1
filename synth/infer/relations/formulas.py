"""Candidates for expressions, looked for on a few rows: sums, products, parts and spans of times.

Least squares, in logarithms for products, choose few columns that explain most, every pair among them: a small
difference of two large numbers hides both. Rows that nothing explains are left aside, so that they do no harm.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from synth.constraints.expression import OF_INTEREST, Unit, written
from synth.infer.relations.line_columns import (
    DAY,
    SECONDS,
    Candidate,
    Lines,
    Term,
    Terms,
    shortest,
    tolerance,
    wrap,
    write_product,
    write_sum,
)

SCREEN, FIRST = 240, 48  # rows for screening, and those that sift pairs before
TERMS, FACTORS, BEAM = 5, 3, 4  # of the longest sum and product; sums that are lengthened
PRODUCTS, SETS = 12, 2  # products that are tried as summands; sums of each length that least squares lead to
MOST_LINES, MOST_SPANS = 60, 6  # columns, and spans of times, that are looked at
MOST_PERCENT, MOST_PERIODS = 100, 600  # of a rate of interest, and of what it is paid for
LEAST_EXACT = 0.9  # share of complete rows that an exact expression gives
BROKEN = 0.05  # share of rows at either end that an exact sum need not give
LIKELY = 0.7  # the same of the few rows that are looked at first
LEAST_KNOWN = 0.3  # share of the rows in which an operand has a value
FAR = 3.0  # times the median of what a sum leaves, in rows that it does not explain
LEAST_EXPLAINED = 10  # rows that break a sum and another summand explains
LEAST_DAYS = 20  # different days of a month
DIGITS = 4  # significant digits of a factor
SECOND: Unit = "second"
YEAR = "365.25"  # days
PERIODS = (1.0, 30.4375, float(YEAR))  # days, of ages
FARTHEST_DAY = 60_000  # from 1970: a year is no age
OF_A_DAY = (0.0, 0.01)  # shares of rows at either end that need not show the day that ages are counted to
MOST_VALUES = 100_000
WEEKS = (
    "floor({0} + 4 / 7) - floor(date({1}, 1, 1) + 4 / 7) + 1",  # from Sunday, and from Monday on
    "floor({0} + 3 / 7) - floor(date({1}, 1, 1) + 3 / 7) + 1",
    "floor(floor({0} + 3 / 7) - date(year(floor({0} + 3 / 7)), 1, 1)) + 1",  # that which holds a Thursday, as ISO says
)
PARTS = {"year": 1_000, "month": 12, "weekday": 7, "hour": 24}  # of a time, and how many values they may have


class Search:
    """Candidates for the numbers and times of a table."""

    def __init__(self, lines: Lines) -> None:
        self.lines, sample = lines, lines.sample
        self.varied = {name: len(np.unique(values[np.isfinite(values)])) for name, values in sample.items()}
        usable = [name for name in lines.computable if self.varied[name] > 1]
        self.numbers = [name for name in usable if not lines.is_time(name)][:MOST_LINES]
        self.times = [name for name in usable if lines.is_time(name)]
        named = [*self.numbers, *(n for n in sample if n not in lines.computable and self.varied[n] > 1)]
        self.plain = {name: Term(written(name), (name,), sample[name]) for name in named[:MOST_LINES]}
        self.rank = {term.text: rank for rank, term in enumerate(self.plain.values())}
        self.earlier: dict[str, Term] = {}
        if lines.previous is not None:
            for name in self.numbers:
                values = lines.before(name)[lines.rows]
                if np.isfinite(values).mean() >= LEAST_KNOWN:
                    self.earlier[name] = Term(f"before({written(name)})", (name,), values)

    def find(self, name: str) -> list[Candidate]:
        """Candidates for one column, each once."""
        look = self._of_time if self.lines.is_time(name) else self._of_number
        return list({each.key: each for each in look(name)}.values())

    def solve(self, candidate: Candidate) -> Iterator[Candidate]:
        """The same equation, solved for its other columns."""
        name, terms = candidate.column, candidate.terms
        plain = all(self.plain.get(term.names[0]) is term for _, term in terms)
        if candidate.is_ratio or not plain or name not in self.plain or len(terms) < 2:
            return
        for weight, term in terms:
            if term.names[0] not in self.numbers:
                continue
            rest = [(-w / weight, other) for w, other in terms if other is not term]
            around = [(1 / weight, self.plain[name]), *rest]
            if not candidate.is_product and abs(weight) in (0.5, 1, 2):
                yield self._sum(term.names[0], around)
            elif candidate.is_product and abs(weight) == 1:
                yield from self._products_of(term.names[0], around)

    def extend(self, candidate: Candidate) -> Candidate:
        """A sum with the summands, one by one, that explain most of the rows that break it."""
        name, own = candidate.column, self.lines.sample[candidate.column]
        slack = tolerance(own, self.lines.step(name))
        while not candidate.is_product and len(candidate.terms) < TERMS:
            rest = own - candidate.values
            wrong = np.flatnonzero(np.abs(rest) > slack)
            others = [(w, t) for n, t in self.plain.items() if n not in candidate.about for w in (1.0, -1.0)]
            explained = [int((np.abs(rest - w * t.values)[wrong] <= slack[wrong]).sum()) for w, t in others]
            if not others or max(explained) < max(LEAST_EXPLAINED, len(wrong) / 2):
                break
            terms = [*candidate.terms, others[int(np.argmax(explained))]]
            candidate = self._sum(name, terms, candidate.unit)
        return candidate

    def gap(self, name: str, other: str) -> list[Candidate]:
        """A number as another one and the gap between them, or as a share of it."""
        if name not in self.plain or other not in self.plain:
            return []
        plain = copy(name, self.plain[other])
        return [plain, replace(plain, is_ratio=True, is_product=True)]

    def _sum(self, name: str, terms: Terms, unit: Unit | None = None, *, is_view: bool = False) -> Candidate:
        if unit is None:
            terms = sorted(terms, key=lambda each: self.rank.get(each[1].text, -1))
        values = sum((w * term.values for w, term in terms), np.zeros(len(self.lines.rows)))
        shift = self._constant(name, values)
        scale = SECONDS[unit] if unit and self.lines.is_time(name) else 1.0
        is_result = len(terms) > 1 and all(w > 0 and len(term.names) == 1 for w, term in terms)
        text = write_sum(terms, shift / scale)
        return Candidate(name, text, values + shift, tuple(terms), unit, is_result=is_result, is_view=is_view)

    def _constant(self, name: str, values: np.ndarray) -> float:
        """What an exact sum has beside its terms, where most rows show it."""
        rest, step = self.lines.sample[name] - values, self.lines.step(name)
        known = np.isfinite(rest)
        if not known.any():
            return 0.0
        rest, slack = rest[known], np.broadcast_to(tolerance(self.lines.sample[name], step), known.shape)[known]
        if (np.abs(rest) <= slack).mean() >= LEAST_EXACT:
            return 0.0
        middle = np.round(np.median(rest) / step) * step if step else np.median(rest)
        low, high = np.quantile(rest - slack, 1 - BROKEN), np.quantile(rest + slack, BROKEN)
        if high - low > 0.01 * step and not self.lines.is_time(name):
            middle = shortest(low, high)
        middle = float(f"{middle:.10g}")
        return middle if (np.abs(rest - middle) <= slack).mean() >= LEAST_EXACT else 0.0

    def _is_likely(self, name: str, values: np.ndarray) -> bool:
        """A quick look at whether values differ from a column by one constant in most rows."""
        gap = (self.lines.sample[name] - values)[:SCREEN]
        gap = gap[np.isfinite(gap)]
        step = self.lines.step(name) or 1e-6 * float(np.nanmax(np.abs(values), initial=0.0))
        return len(gap) >= FIRST and bool((np.abs(gap - np.median(gap)) <= 1.001 * step).mean() >= LIKELY)

    # --- times -------------------------------------------------------------------------------------------------------

    def _of_time(self, name: str) -> Iterator[Candidate]:
        """Another time, and so many days, hours or minutes after it."""
        lines, own, step = self.lines, self.lines.sample[name], self.lines.step(name)
        finest = next((unit for unit, seconds in SECONDS.items() if unit != "week" and step % seconds == 0), SECOND)
        starts = [
            Term(written(n), (n,), lines.sample[n]) for n in self.times if n != name and lines.comparable(name, n)
        ]
        # What goes with the weekday of a day in parts is not seen there, so that the gap to it is not held.
        starts += self._dated if lines.column(name).zone in (None, "UTC") else []
        for start in starts:
            is_whole = len(start.names) == 1
            by_day = is_whole and step == DAY > lines.step(start.names[0])
            if by_day:
                start = Term(f"day({start.text})", start.names, np.floor(start.values / DAY) * DAY)
            rest = own - start.values
            if self._is_likely(name, start.values) if not is_whole else np.isfinite(rest).any():
                yield self._sum(name, [(1.0, start)], finest, is_view=by_day and not np.nanmax(np.abs(rest)))
            for x, (unit, seconds) in itertools.product(self.numbers, SECONDS.items()):
                length = replace(self.plain[x], values=self.plain[x].values * seconds)
                if self._is_likely(name, start.values + length.values):
                    yield self._sum(name, [(1.0, start), (1.0, length)], unit)

    @cached_property
    def _views(self) -> list[tuple[Term, int]]:
        """Parts of times and spans of two; and how many values they may have, 0 where they are not cut off."""
        lines, forms = self.lines, list[tuple[str, tuple[str, ...], Unit, int]]()
        for time in self.times:
            if lines.column(time).zone in (None, "UTC"):
                text = written(time)
                forms += [(f"{part}({text})", (time,), "day", most) for part, most in PARTS.items()]
                forms.append((f"day({text}) - date(year({text}), month({text}), 1) + 1", (time,), "day", 31))
                forms += [(week.format(text, f"year({text})"), (time,), "week", 53) for week in WEEKS]
        for term in self._dated:
            forms.append((f"weekday({term.text})", term.names, "day", 7))
            forms += [(week.format(term.text, written(term.names[0])), term.names, "week", 53) for week in WEEKS]
        for pair in itertools.permutations(self.times, 2):
            if lines.comparable(*pair):
                end, start = map(written, pair)
                forms += [(f"{end} - {start}", pair, unit, 0) for unit in SECONDS]
                forms += [(f"floor({end} - {start})", pair, unit, MOST_VALUES) for unit in SECONDS]
                forms.append((f"day({end}) - day({start})", pair, "day", MOST_VALUES))
                forms.append((f"floor(({end} - {start}) / {YEAR})", pair, "day", MOST_VALUES))
        values = [lines.evaluate(text, unit, rows=lines.rows) for text, _, unit, _ in forms]
        return [(Term(t, names, v, unit), most) for (t, names, unit, most), v in zip(forms, values, strict=True)]

    @cached_property
    def _dated(self) -> list[Term]:
        """Days that a year, a month and a day make."""
        whole = {n: t for n, t in self.plain.items() if self.lines.step(n) == 1}
        ends = {n: (np.nanmin(term.values), np.nanmax(term.values)) for n, term in whole.items()}
        years, months, days = (
            [n for n, (first, last) in ends.items() if low <= first and least <= last <= high]
            for low, least, high in ((1900, 1900, 2100), (1, 12, 12), (1, 28, 31))
        )
        results = []
        for parts in itertools.product(years, months, days):
            text = f"date({', '.join(map(written, parts))})"
            values = self.lines.evaluate(text, "day", rows=self.lines.rows) * DAY
            known = np.all([np.isfinite(whole[n].values) for n in parts], axis=0)
            if self.varied[parts[2]] >= LEAST_DAYS and known.any() and np.isfinite(values[known]).all():
                results.append(Term(text, parts, values))
        return results[:MOST_SPANS]

    # --- numbers -----------------------------------------------------------------------------------------------------

    def _of_number(self, name: str) -> Iterator[Candidate]:
        own = self.lines.sample[name]
        for term, most in self._views:
            fits = not most or (self.lines.step(name) == 1 and self.varied[name] <= most)
            if fits and name not in term.names and self._is_likely(name, term.values):
                yield self._sum(name, [(1.0, term)], term.unit, is_view=most > 0)
        for term in self.earlier.values():
            if term.names != (name,) and self._is_likely(name, term.values):
                yield copy(name, term)
        yield from self._ages(name)
        rows = self._rows(own)
        terms = [t for n, t in self.plain.items() if n != name and np.isfinite(t.values[rows]).mean() >= LEAST_KNOWN]
        if len(rows) >= FIRST and terms:
            yield from self.linear(name, terms, products=True)
            yield from self._products(name, rows, terms)
        if name in self.earlier:  # what is added to the row before
            yield self._from_first(copy(name, self.earlier[name]))
            yield from map(self._from_first, self.linear(name, terms, [(1.0, self.earlier[name])]))

    def _ages(self, name: str) -> Iterator[Candidate]:
        """Years, months or days from a time to one day, such as that on which the table was made, or from it on."""
        own, step = self.lines.sample[name], self.lines.step(name)
        times = [time for time in self.times if step and self.lines.column(time).zone in (None, "UTC")]
        cuts = (True, False) if step == 1 else (False,)
        for time, period, sign, cut in itertools.product(times, PERIODS, (1, -1), cuts):
            ends = [own, own + step] if cut else [own - step / 2, own + step / 2]
            low, high = (self.lines.sample[time] / DAY + sign * period * end for end in ends[::sign])
            known = np.isfinite(low)
            for part in OF_A_DAY if known.any() else ():
                first, last = np.quantile(low[known], 1 - part), np.quantile(high[known], part)
                day = max(np.floor((first + last) / 2), np.ceil(first))
                if day <= last and abs(day) <= FARTHEST_DAY:
                    text = " - ".join([f"{day:.0f}", written(time)][::sign])
                    text = text if period == 1 else f"({text}) / {period:g}"
                    text = f"floor({text})" if cut else text
                    values = self.lines.evaluate(text, "day", rows=self.lines.rows)
                    yield replace(copy(name, Term(text, (time,), values, "day")), unit="day", is_view=True)
                    break

    @staticmethod
    def _rows(own: np.ndarray) -> np.ndarray:
        """Rows to look at first: those that hold no value that many hold, where there is one."""
        known = np.flatnonzero(np.isfinite(own))
        _, inverse, counts = np.unique(own[known], return_inverse=True, return_counts=True)
        usual = int(np.argmax(counts)) if len(counts) and counts.max() > 0.3 * len(known) else -1
        return np.asarray(known[inverse != usual][:SCREEN])

    def _from_first(self, candidate: Candidate) -> Candidate:
        """A step from the row before, with what is in its place in the first row of an entity: a column, or zero."""
        name, ((_, before), *rest) = candidate.column, candidate.terms
        looks_back = np.isfinite(before.values)
        if not np.isfinite(candidate.values).any():
            return candidate
        added = sum((w * term.values for w, term in rest), np.zeros(len(looks_back)))
        constant = float(np.median((candidate.values - before.values - added)[np.isfinite(candidate.values)]))
        wanted = np.where(looks_back, np.nan, self.lines.sample[name] - added - round(constant, 9))
        first, zero = np.isfinite(wanted), Term("0", (), np.zeros(len(wanted)))
        for start in (zero, *(term for n, term in self.plain.items() if n != name)):
            near = np.abs(wanted - start.values)[first] <= tolerance(wanted[first], self.lines.step(name))
            if len(near) and near.mean() >= LEAST_EXACT:
                filled = np.where(looks_back, before.values, start.values)
                either = Term(f"either({before.text}, {start.text})", (*before.names, *start.names), filled)
                return self._sum(name, [(1.0, either), *rest])
        return candidate

    def linear(
        self, name: str, terms: Sequence[Term], taken: Terms = (), *, products: bool = False
    ) -> Iterator[Candidate]:
        """Sums with any weights, as a tariff has: those of least squares, as the shortest numbers that are as good.
        `taken`: of each sum. `products`: of two terms each that are tried as summands, too.
        """
        own = self.lines.sample[name] - sum((w * term.values for w, term in taken), np.zeros(len(self.lines.rows)))
        rows, terms = self._rows(own), [*terms, *self._spans]
        if len(rows) < FIRST or not terms:
            return
        terms += self._of_two(own[rows], rows, terms) if products else []
        for used in _by_regression(own[rows], np.array([_fill(term.values[rows]) for term in terms]), _overlap(terms)):
            chosen = [terms[i] for i in used]
            weights = _weights(own, np.array([term.values for term in chosen]))
            if all(weights):
                unit = next((term.unit for term in chosen if term.unit), None)
                yield self._sum(name, [*taken, *zip(weights, chosen, strict=True)], unit)

    @staticmethod
    def _of_two(c: np.ndarray, rows: np.ndarray, terms: Sequence[Term]) -> list[Term]:
        """Products of two terms, those first that go with `c`."""
        x, free = np.array([_fill(term.values[rows]) for term in terms]), ~_overlap(terms)
        pairs = [(i, j) for i, j in itertools.combinations(range(len(x)), 2) if free[i, j]]
        if not pairs:
            return []
        z, x = _standard(x[[i for i, _ in pairs]] * x[[j for _, j in pairs]]), _standard(x)
        # What is a column already is none again.
        fit = np.where((np.abs(x @ z.T) < len(rows) * (1 - 1e-9)).all(axis=0), np.abs(z @ (c - c.mean())), 0.0)
        products = []
        for i, j in (pairs[k] for k in np.argsort(-fit)[:PRODUCTS] if fit[k] > 0):
            a, b = terms[i], terms[j]
            values, text = np.multiply(a.values, b.values), f"{wrap(a.text)} * {wrap(b.text)}"
            products.append(Term(text, a.names + b.names, values, a.unit or b.unit))
        return products

    def _products(self, name: str, rows: np.ndarray, terms: Sequence[Term]) -> Iterator[Candidate]:
        own = self.lines.sample[name]
        positive = rows[own[rows] > 0]
        if len(positive) < max(FIRST, 0.6 * len(rows)):
            return
        terms = [*terms, *self._complements(name), *self._spans, *self._interest]
        terms = [term for term in terms if name not in term.names and (term.values[positive] > 0).mean() > 0.6]
        if not terms:
            return
        c = np.log(own[positive])
        with np.errstate(all="ignore"):
            x = np.array([_fill(np.where(t.values > 0, np.log(t.values), np.nan)[positive]) for t in terms])
        for used in _by_regression(c, x, _overlap(terms)):
            exponents = np.rint(np.linalg.lstsq(np.vstack([x[list(used)], np.ones(len(c))]).T, c, rcond=None)[0][:-1])
            if len(used) <= FACTORS and np.isin(np.abs(exponents), (1, 2)).all():
                yield from self._products_of(name, [(float(e), terms[i]) for e, i in zip(exponents, used, strict=True)])

    def _products_of(self, name: str, terms: Terms) -> Iterator[Candidate]:
        with np.errstate(all="ignore"):
            values = np.prod([term.values**e for e, term in terms], axis=0)
            values = np.where(np.isfinite(values), values, np.nan)
            quotient = self.lines.sample[name] / values
        quotient = quotient[np.isfinite(quotient) & (quotient > 0)]
        if not len(quotient):
            return
        factor = float(f"{np.median(quotient):.{DIGITS}g}")
        if factor < 0.7 and abs(1 / factor - round(1 / factor)) < 2e-3 / factor:
            factor = 1 / round(1 / factor)
        unit = next((term.unit for _, term in terms if term.unit), None)
        is_result = len(terms) > 1 and all(e > 0 for e, _ in terms)
        plain = Candidate(name, write_product(terms), values, tuple(terms), unit, is_product=True, is_result=is_result)
        yield plain
        yield replace(plain, is_ratio=True)
        if factor != 1:
            yield replace(plain, expression=write_product(terms, factor), values=factor * values)

    def _complements(self, name: str) -> list[Term]:
        """What shares, and percentages, leave of the whole, and what they add to it."""
        terms = []
        for other, term in self.plain.items():
            low, high = np.nanmin(term.values), np.nanmax(term.values)
            if other != name and low >= 0 and ((high <= 1 and self.lines.step(other) < 1) or 1 < high <= 100):
                size, text = (1, term.text) if high <= 1 else (100, f"{term.text} / 100")
                terms += [Term(f"1 {'-+'[s > 0]} {text}", (other,), 1 + s * term.values / size) for s in (-1, 1)]
        return terms

    @cached_property
    def _spans(self) -> list[Term]:
        """Spans of two times, in most rows of an end after its start."""
        terms = list[Term]()
        unit: Unit = "hour" if any(self.lines.step(name) < DAY for name in self.times) else "day"
        for end, start in itertools.permutations(self.times, 2):
            span = (self.lines.sample[end] - self.lines.sample[start]) / SECONDS[unit]
            if self.lines.comparable(end, start) and (span[np.isfinite(span)] >= 0).mean() > 0.9:
                terms.append(Term(f"{written(end)} - {written(start)}", (end, start), span, unit))
        return terms[:MOST_SPANS]

    @cached_property
    def _interest(self) -> list[Term]:
        """What rates of interest come to over so many periods: per year, and per month."""
        low, high = ({n: f(t.values) for n, t in self.plain.items()} for f in (np.nanmin, np.nanmax))
        rates = [n for n in self.numbers if 0 <= low[n] < high[n] <= MOST_PERCENT and self.lines.step(n) < 1]
        periods = [n for n in self.plain if low[n] >= 1 and high[n] <= MOST_PERIODS and self.lines.step(n) == 1]
        texts = []
        for rate, n in itertools.product(rates, periods) if len(rates) * len(periods) <= MOST_SPANS else ():
            for part in (1 if high[rate] <= 1 else 100, 12 if high[rate] <= 1 else 1200):
                share = written(rate) if part == 1 else f"{written(rate)} / {part}"
                texts += [(f"{function}({share}, {written(n)})", (rate, n)) for function in OF_INTEREST]
        return [Term(text, names, self.lines.evaluate(text, None, rows=self.lines.rows)) for text, names in texts]


def copy(name: str, term: Term) -> Candidate:
    return Candidate(name, term.text, term.values, ((1.0, term),))


def _overlap(terms: Sequence[Term]) -> np.ndarray:
    return np.array([[not set(term.names).isdisjoint(other.names) for other in terms] for term in terms])


def _fill(x: np.ndarray) -> np.ndarray:
    known = np.isfinite(x)
    return np.where(known, x, np.median(x[known]) if known.any() else 0.0)


def _standard(x: np.ndarray) -> np.ndarray:
    return np.asarray((x - x.mean(axis=1, keepdims=True)) / (x.std(axis=1, keepdims=True) + 1e-300))


def _by_regression(c: np.ndarray, x: np.ndarray, overlap: np.ndarray) -> list[tuple[int, ...]]:
    """Sets of rows of `x` of which least squares leave least of `c`, less than half, a few of each size."""
    z = _standard(x)
    nearest = np.arange(len(c))
    for _ in range(2 if len(c) >= 3 * len(z) else 0):  # rows that no sum explains are left aside
        m = z[:, nearest]
        fit = np.linalg.solve(m @ m.T + 1e-6 * len(c) * np.eye(len(z)), m @ (c[nearest] - c[nearest].mean()))
        rest = c - fit @ z
        nearest = np.argsort(np.abs(rest - np.median(rest)))[: int(0.85 * len(c))]
    full = np.vstack([z, c - c.mean()])[:, nearest]
    full -= full.mean(axis=1, keepdims=True)
    gram, product = full[:-1] @ full[:-1].T + 1e-9 * len(nearest) * np.eye(len(z)), full[:-1] @ full[-1]
    beam: list[tuple[int, ...]] = [()]
    sets = []
    for size in range(1, TERMS + 1):
        longer = {tuple(sorted((*used, j))) for used in beam for j in range(len(z)) if not overlap[j, list(used)].any()}
        if not longer:
            break
        at = np.array(sorted(longer))
        fits = np.linalg.solve(gram[at[:, :, None], at[:, None, :]], product[at][:, :, None])[:, :, 0]
        explained = np.sum(fits * product[at], axis=1)
        order = np.argsort(-explained)
        beam = [tuple(map(int, at[i])) for i in order[: len(z) if size == 1 else BEAM]]
        sets += [tuple(map(int, at[i])) for i in order[:SETS] if explained[i] >= 0.5 * (full[-1] @ full[-1])]
    return sets


def _weights(c: np.ndarray, x: np.ndarray) -> list[float]:
    """The weights of rows of `x` in `c`, one by one as the shortest number within their error."""
    known = np.isfinite(c) & np.isfinite(x).all(axis=0)
    if known.sum() < FIRST:
        return [0.0]
    c, scale = c[known], np.abs(x[:, known]).max(axis=1) + 1e-300
    a = np.vstack([x[:, known] / scale[:, None], np.ones(len(c))]).T
    weights: list[float] = []
    nearest = np.ones(len(c), dtype=bool)
    for per_unit in scale:
        for _ in range(1 if weights else 3):
            fit, *_ = np.linalg.lstsq(a[nearest], c[nearest], rcond=None)
            rest = c - a @ fit
            nearest = np.abs(rest) <= FAR * np.median(np.abs(rest))
        m = a[nearest] - a[nearest].mean(axis=0)
        m[:, -1] = 1.0
        error = 3 * rest[nearest].std() * np.sqrt(abs(np.linalg.pinv(m.T @ m)[0, 0])) + 1e-9 * abs(fit[0])
        weights.append(shortest((fit[0] - error) / per_unit, (fit[0] + error) / per_unit))
        c, a = c - weights[-1] * per_unit * a[:, 0], a[:, 1:]
    return weights
