"""Descriptive statistics of columns: categories, tails, mean, standard deviation, spikes and lattices.

None of it is biased by the size of a sample, so that all rows count, up to as many as train has.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from evaluate.fidelity.samples import OrderedValues, Samples
from evaluate.intervals import WITHOUT, Rate, jackknife, newcombe, replicate_groups, wilson
from evaluate.result import Direction, Estimate, Failure
from synth.domain import Attribute, grid

TAIL, FEWEST_IN_TAIL = 0.001, 3
"""Share of the training rows beyond each end of a column's bulk, and how many rows these are at least."""
SPIKE, FEWEST_IN_SPIKE = 0.01, 10
"""Share of the training rows that a frequent value has at least, and how many rows these are at least."""
COMMON, FEWEST_OF_A_CATEGORY = 0.01, 50
"""Share of the training rows that a category has at least whose share is asked for, and how many rows these are: with
fewer, chance alone halves or doubles some of them."""
STANDS_OUT = 3.0  # Least ratio of a frequent value's count to its neighbors', in a column with steps
LEAST_MASS = 0.05  # Share of the training rows on spikes below which a column is said to have none
MOST_OF = 0.5  # Share of the training values other than 0 that lie on a lattice at least
STEPS = tuple(float(f"{digits}e{power}") for power in range(9, -4, -1) for digits in ("5", "2.5", "1"))
"""Steps of lattices that are looked for, the coarsest first."""
STEPS_OF_TIMES = tuple(float(10**6 * seconds) for seconds in (86_400, 3_600, 1_800, 900, 300, 60, 1))
"""The same of times, in microseconds."""
LEAST_DISTINCT = 5  # Values that a lattice has at least
LARGEST_LOG = float(np.log(1_000.0))  # Log ratio of standard deviations that a constant column counts as

CATEGORIES = "columns.categories.kept.worst"
TAILS, SPIKES, LATTICE = OF_THE_TABLE = (
    "columns.tail.excess.worst", "columns.spikes.kept.worst", "columns.lattice.kept.worst",
)  # fmt: skip
PLAIN = {"tail": 0.005, "mean": 0.1, "std": 0.22, "kept": 0.9}
"""Limits beyond which a picture says in bold that a column is off, where the favorable end of the interval breaks them:
one row in 200 in the tails, a tenth of a standard deviation, a quarter wider or narrower, a tenth lost."""
_MOST_DRAWN = 1e15  # Standard deviations that a picture tells at most
_FURTHEST = 1e100  # Standard deviations from train's mean that a value is taken to be off at most
_WITHOUT = (
    "no number or date has values that are frequent", "the values of no number lie mostly on multiples of a step",
)  # fmt: skip
_NO_NUMBER = "the schema has no number or date with a value"


@dataclass(frozen=True, eq=False)
class ColumnValues:
    name: str
    column: Any
    lines: tuple[OrderedValues, ...]  # of training, synthetic, fresh and shuffled rows
    worth: tuple[float, ...]  # units of each sample over its rows

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Present values of each sample."""
        return tuple(int(line.counts.sum()) for line in self.lines)

    @property
    def moments(self) -> np.ndarray:
        """Mean and standard deviation around train's, in train's units, of train and synthetic: (2, 2, n)."""
        train = self.lines[0]
        scale = float(train.deviation()[0])
        largest = max(-float(train.values[0]), float(train.values[-1])) or 1.0  # so that no sum overflows
        center = largest * float(np.average(train.values / largest, weights=train.counts.sum(axis=0)))
        sums = []
        for line in self.lines[:2]:
            with np.errstate(over="ignore"):
                scaled = np.clip((line.values - center) / (scale or 1.0), -_FURTHEST, _FURTHEST)
            sums.append([line.counts @ scaled**power for power in range(3)])
        n, total, squares = np.moveaxis(np.array(sums) @ replicate_groups(len(train.counts)).T, 1, 0)
        mean = total / np.maximum(n, 1.0)
        return np.stack([mean, np.sqrt(np.maximum(squares / np.maximum(n, 1.0) - mean**2, 0.0))], axis=1)

    def drawn(self, tail: "Shares", spikes: "Shares | None", lattice: "Shares | None") -> dict[str, Any]:
        """Numbers, the lattice in words, and which of them are plainly off, for the picture."""
        beyond, least, _ = tail.differences()[0]
        kept = {"spikes": spikes, "steps": lattice}
        ratios = {name: shares.ratios()[0] for name, shares in kept.items() if shares is not None}
        off = ["tail"] * (least > PLAIN["tail"])
        off += [name for name, (_, _, high) in ratios.items() if high < PLAIN["kept"]]
        drawn = {"tail": beyond, **{name: ratio[0] for name, ratio in ratios.items()}}
        train, synthetic = self.moments
        if train[1, 0] > 0:
            with np.errstate(divide="ignore", invalid="ignore"):
                logs = np.nan_to_num(np.log(synthetic[1] / train[1]), nan=0.0)
            moved = {"mean": synthetic[0] - train[0], "std": np.clip(logs, -LARGEST_LOG, LARGEST_LOG)}
            drawn["mean"] = float(np.clip(moved["mean"][0], -_MOST_DRAWN, _MOST_DRAWN))
            drawn["std"] = float(np.exp(moved["std"][0]))
            for name, values in moved.items() if len(logs) > 1 else ():
                low, high = jackknife(float(values[0]), values[WITHOUT])
                off += [name] * (max(low, -high) > PLAIN[name])
        return {**drawn, "lattice": "" if lattice is None else lattice.description, "off": off}


@dataclass(frozen=True, eq=False)
class Shares:
    """The share of a column's values on some places, in each of the four samples."""

    values: ColumnValues
    hits: tuple[np.ndarray, ...]  # of the places of each sample, which count; boolean, shape (n_values,)
    description: str = ""
    among: tuple[np.ndarray, ...] | None = None  # which may count at all; all where `None`
    n_pseudo_hits: float = 0.0

    def rates(self, n_comparisons: int = 1) -> list[Rate]:
        """Of the training, synthetic, fresh and shuffled rows, each with its interval."""
        result = []
        for i, (line, hits, worth) in enumerate(zip(self.values.lines, self.hits, self.values.worth, strict=True)):
            counts, pseudo = line.counts.sum(axis=0), self.n_pseudo_hits if i == 0 else 0.0
            n = max(int(counts.sum() if self.among is None else counts[self.among[i]].sum()), 1)
            result.append(
                wilson((float(counts[hits].sum()) + pseudo) / (n + pseudo), max(n * worth, 1.0), n_comparisons)
            )
        return result

    def differences(self, n_comparisons: int = 1) -> list[Rate]:
        """Of synthetic, fresh and shuffled rows beyond train's, each with its interval."""
        train, *others = self.rates(n_comparisons)
        return [newcombe(other, train) for other in others]

    def ratios(self, n_comparisons: int = 1) -> list[Rate]:
        """Of synthetic, fresh and shuffled rows over train's, each with its interval."""
        train, *others = self.rates(n_comparisons)
        return [ratio(other, train) for other in others]


def ratio(first: Rate, second: Rate) -> Rate:
    """The ratio of two independent rates, with an interval from the interval of each.

    Source: Donner and Zou 2012, "Closed-form confidence intervals for functions of the normal mean and standard
    deviation", section 3 (MOVER).

    >>> [round(number, 3) for number in ratio((0.5, 0.4, 0.6), (0.5, 0.4, 0.6))]
    [1.0, 0.75, 1.333]
    """
    (a, low_a, high_a), (b, low_b, high_b) = first, second
    below, above = high_b * (2 * b - high_b), low_b * (2 * b - low_b)
    value, low = a / b, 0.0
    if below > 0:
        low = (a * b - np.sqrt(max((a * b) ** 2 - low_a * (2 * a - low_a) * below, 0.0))) / below
    high = (a * b + np.sqrt(max((a * b) ** 2 - high_a * (2 * a - high_a) * above, 0.0))) / above
    return value, min(float(low), value), max(float(high), value)


def kept_categories(samples: Samples, attributes: Sequence[Attribute]) -> Estimate | Failure:
    """The frequent category whose share changed most, twice as many like half; its interval holds all (Bonferroni)."""
    alone, worth = [(i,) for i in range(len(attributes))], _worth(samples)
    frequent: list[tuple[str, np.ndarray, np.ndarray]] = []
    each = zip(*(sample.coded(attributes).each(alone) for sample in samples.all), strict=True)
    for attribute, tables in zip(attributes, each, strict=True):
        counts = np.array([table.sum(axis=0) for table in tables])
        n = counts.sum(axis=1)
        for code in np.flatnonzero(counts[0] >= max(COMMON * n[0], FEWEST_OF_A_CATEGORY)):
            name = f"{attribute.labels()[code]!r} of {attribute.name!r}"
            frequent.append((name, counts[:, code] / n, n * worth))
    if not frequent:
        return Failure(CATEGORIES, "not applicable", "no category is frequent enough")
    kept: list[tuple[str, list[Rate]]] = []
    for name, shares, n in frequent:
        train, *others = (wilson(float(s), max(float(m), 1.0), len(frequent)) for s, m in zip(shares, n, strict=True))
        kept.append((name, [_either_way(ratio(other, train)) for other in others]))
    name, rates = min(kept, key=lambda each: each[1][0][0])
    low, high = (min(ends[0][end] for *_, ends in kept) for end in (1, 2))
    return Estimate(
        CATEGORIES, rates[0][0], samples.others[0].n_rows, "higher", low=low, high=high,
        reference=min(ends[1][0] for *_, ends in kept), floor=min(ends[2][0] for *_, ends in kept),
        note=f"The worst is {name}, of {len(kept):,} categories.",
    )  # fmt: skip


def _either_way(times: Rate) -> Rate:
    """A ratio, or its inverse where it is above 1.

    >>> _either_way((2.0, 1.6, 2.5)), _either_way((1.0, 0.5, 1.25))
    ((0.5, 0.4, 0.625), (1.0, 0.5, 1.0))
    """
    value, low, high = times
    inverse = [1 / end if end > 0 else np.inf for end in times]
    return min(value, inverse[0]), min(low, inverse[2]), 1.0 if low <= 1 <= high else max(min(high, inverse[1]), 0.0)


def _worth(samples: Samples) -> np.ndarray:
    """Units of each sample over its rows; shape (4,)."""
    return np.array([sample.n_units / sample.n_rows for sample in samples.all])


def measure(
    samples: Samples, columns: Mapping[str, Any], lines: Mapping[str, Sequence[OrderedValues]]
) -> tuple[list[Estimate | Failure], dict[str, dict[str, Any]]]:
    """The worst of all columns, and by column what its picture tells of them."""
    # A column that hardly any real row holds says nothing: where no fresh one does, honest rows cannot be measured.
    there = {name: each for name, each in lines.items() if not any(each[i].is_empty for i in (0, 2, 3))}
    empty = [name for name, each in there.items() if any(part.is_empty for part in each)]
    if empty:  # a column left out would improve what is said of all
        why = f"it is undefined for column {empty[0]!r}: a table has no present value in it"
        return [Failure(name, "skipped", why) for name in OF_THE_TABLE], {}
    if not there:
        why = f"Nothing lies too far out: {_NO_NUMBER}."
        nothing_out = Estimate(TAILS, 0.0, samples.n, "lower", (), 0.0, 0.0, 0.0, 0.0, why)
        return [nothing_out, *(Failure(name, "not applicable", _NO_NUMBER) for name in (SPIKES, LATTICE))], {}
    worth = tuple(_worth(samples).tolist())
    values = [ColumnValues(name, columns[name], tuple(each), worth) for name, each in there.items()]
    shares = [(tail(each), spikes(each), lattice(each)) for each in values]
    tails, *others = zip(*shares, strict=True)
    measured: list[Estimate | Failure] = [_worst_share(TAILS, tails, Shares.differences, "lower")]
    for name, part, without in zip((SPIKES, LATTICE), others, _WITHOUT, strict=True):
        kept = [share for share in part if share is not None]
        nothing = Failure(name, "not applicable", without)
        measured.append(_worst_share(name, kept, Shares.ratios, "higher") if kept else nothing)
    return measured, {each.name: each.drawn(*parts) for each, parts in zip(values, shares, strict=True)}


def tail(column: ColumnValues) -> Shares:
    """The share of values beyond the outermost 1 in 1,000 of train's at either end. Of k training values beyond the one
    that is taken for a quantile, another sample has k + 1 more often than k.
    """
    train, n = column.lines[0], column.sizes[0]
    counts = train.counts.sum(axis=0)
    most = min(int(max(TAIL * n, FEWEST_IN_TAIL)), n // 20)
    up_to = np.cumsum(counts)
    first = int(np.searchsorted(up_to - counts, most, side="right")) - 1  # the last place with so few below it
    last = int(np.searchsorted(up_to, n - most, side="left"))
    low, high = max(min(first, last), 0), min(max(first, last), len(counts) - 1)
    beyond = tuple((line.values < train.values[low]) | (line.values > train.values[high]) for line in column.lines)
    return Shares(column, beyond, n_pseudo_hits=float((low > 0) + (high < len(counts) - 1)))


def spikes(column: ColumnValues) -> Shares | None:
    """The share of values that are frequent ones of train; `None` where it has none to speak of."""
    train, n = column.lines[0], column.sizes[0]
    counts = train.counts.sum(axis=0)
    frequent = counts >= max(SPIKE * n, FEWEST_IN_SPIKE)
    if (own := column.column.unit) is not None:
        beside = []
        for places in (train.values - own, train.values + own):
            positions = np.clip(np.searchsorted(train.values, places), 0, len(counts) - 1)
            beside.append(np.where(np.isclose(train.values[positions], places, rtol=1e-12), counts[positions], 0))
        frequent &= counts >= STANDS_OUT * np.mean(beside, axis=0)
    if counts[frequent].sum() < LEAST_MASS * n:
        return None
    called = f"{int(frequent.sum()):,} frequent values" if frequent.sum() > 1 else "one frequent value"
    return Shares(column, tuple(np.isin(line.values, train.values[frequent]) for line in column.lines), called)


def lattice(column: ColumnValues) -> Shares | None:
    """The share of values other than 0 on the coarsest lattice that most of train's lie on; `None` where there is none.
    A step that the schema rounds to is kept by every table, and so is no finding.
    """
    train = column.lines[0]
    if column.column.is_date:
        return None
    counts, own = train.counts.sum(axis=0), column.column.unit or 0.0
    some = tuple(line.values != 0 for line in column.lines)
    n = int(counts[some[0]].sum())
    is_time = column.column.is_time
    for step in STEPS_OF_TIMES if is_time else STEPS:
        if step < 2 * own or n == 0:
            break
        on = _multiples(train.values, step)
        if on.sum() >= LEAST_DISTINCT and counts[on].sum() >= max(MOST_OF, 3 * own / step) * n:
            called = f"multiples of {step / 10**6:,.0f} seconds" if is_time else f"multiples of {step:,.10g}"
            return Shares(column, tuple(_multiples(line.values, step) for line in column.lines), called, some)
    return None


def _multiples(values: np.ndarray, step: float) -> np.ndarray:
    """Which values other than 0 are multiples of a step."""
    steps = grid.ratio(values, step)
    return np.asarray((steps == np.round(steps)) & (np.abs(values) >= step / 2))


def _worst_share(
    name: str, shares: Sequence[Shares], rates_of: Callable[[Shares, int], list[Rate]], direction: Direction
) -> Estimate:
    """The worst of several columns; its interval holds all of them at once (Bonferroni)."""
    rates = [rates_of(share, len(shares)) for share in shares]
    sign = 1.0 if direction == "lower" else -1.0
    worst = int(np.argmax([sign * synthetic[0] for synthetic, *_ in rates]))
    pick = max if direction == "lower" else min
    low, high = (pick(synthetic[end] for synthetic, *_ in rates) for end in (1, 2))
    note = f"The worst is {shares[worst].values.name!r}."
    if direction == "higher":
        train, synthetic, *_ = shares[worst].rates()
        called = shares[worst].description[0].upper() + shares[worst].description[1:]
        note += f" {called}: {train[0]:.3g} of the real values, {synthetic[0]:.3g} of the synthetic ones."
    return Estimate(
        name, rates[worst][0][0], shares[worst].values.sizes[1], direction, low=low, high=high,
        reference=pick(rate[1][0] for rate in rates), floor=pick(rate[2][0] for rate in rates), note=note,
    )  # fmt: skip
