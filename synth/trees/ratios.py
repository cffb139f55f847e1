"""Numbers that are beside others of their row: the same, or nearly a multiple, more often than chance.

Codes and places within them tell a number by its neighbors on the line, and not that it is last month's value less two
percent. So a number is a mixture. One part are values beside those of up to three columns before it, drawn as a ratio
to these; the other are values of its own. Where ratios are more frequent than those to values of any other rows, their
excess is the first part.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from synth.domain import grid
from synth.domain.discretizer import OTHER, Attribute, CodedRows
from synth.domain.quantile_grid import line_attribute
from synth.schema.kinds import LineColumn, RealColumn
from synth.trees.conditional import Codes, Conditional, TrainingColumn
from synth.trees.forest import Array

WIDEST = 1000.0  # ratio of two numbers that are beside each other, at most
MOST_SOURCES = 3
NEIGHBORS = 0.1
"""Share of the rows among which a ratio to another row is as well predicted as codes and ranks predict it."""
LEAST_SHARE, LEAST_LEAVES = 0.01, 4
"""Share of the rows that are beside another column, and leaves that they fill, at least."""
BIN_ROWS, MOST_BINS, DIFFERENT = 40, 400, 3.0
"""Rows of a bin of ratios, bins at most, and standard errors by which one is more frequent than by chance."""
N_CODES, LARGEST = 16, 2.0**52  # of ratios, and of steps of a number
NEVER, SMALLEST = -1.0, 1e-300
RATIOS = RealColumn(bounds=(1 / WIDEST, WIDEST))


@dataclass(frozen=True, eq=False)
class Source:
    """A column before a number, the codes of the ratio to it, and the share of products on each step of the number."""

    index: int
    scale: Attribute
    shares: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Beside:
    """How a number is drawn beside others. `way`: 0 for a value of its own, else which source. `left`: the ratio."""

    sources: tuple[Source, ...]
    way: Conditional
    left: tuple[Conditional, ...]

    def draw(
        self, rows: NDArray[np.float32], positions: Mapping[int, Array], column: LineColumn, rng: np.random.Generator
    ) -> Array:
        """Positions of those beside others, NaN for those of their own; shape (n,)."""
        ways = self.way.distribution.draw(self.way.features(rows, rng), rng)
        drawn = np.full(len(rows), np.nan)
        for number, (source, conditional) in enumerate(zip(self.sources, self.left, strict=True), start=1):
            own = np.flatnonzero(ways == number)
            seen = conditional.features(rows[own], rng)
            codes = conditional.distribution.draw(seen, rng)
            refinement = conditional.refinement
            ranks = rng.random(len(own)) if refinement is None else refinement.draw(seen, codes, rng)
            ratios = source.scale.drawn(source.scale.ranked(codes, ranks), rng)
            values = positions[source.index][own] * ratios
            products = (ratios != 1) & ~np.isnan(values)
            values[products] = grid.settle(values[products], column, np.zeros(0), source.shares, rng)
            drawn[own] = values
        return drawn

    def log_chances(
        self, rows: NDArray[np.float32], positions: Mapping[int, Array], ends: Array, own: Array,
        rng: np.random.Generator,
    ) -> Array:  # fmt: skip
        """The log of the chance of a position between two, shape (2, n); `own`: of a value of its own; shape (n,)."""
        ways = self.way.distribution.table(self.way.features(rows, rng))
        total = ways[:, 0] * np.exp(own)
        for number, (source, conditional) in enumerate(zip(self.sources, self.left, strict=True), start=1):
            table = conditional.distribution.table(conditional.features(rows, rng))
            scale = source.scale
            with np.errstate(divide="ignore", invalid="ignore"):
                limits = np.nan_to_num(np.sort(ends / positions[source.index], axis=0))
            for code in np.unique(scale.group[:OTHER]):
                running = np.cumsum(np.where(scale.group == code, scale.mass, 0.0)[:OTHER], dtype=np.float64)
                below, above = np.interp(limits, scale.line[0], np.append(0.0, running / max(running[-1], SMALLEST)))
                total += ways[:, number] * table[:, code] * (above - below)
        with np.errstate(divide="ignore"):
            return np.log(total)


@dataclass(frozen=True, eq=False)
class Kin:
    """*Sensitive*. A number's sources, and for each row which it is beside, and by what ratio; 0 and NaN: none."""

    sources: tuple[Source, ...]
    ways: Codes
    ratios: Array

    def columns(self, column: TrainingColumn) -> Iterator[TrainingColumn]:
        yield column.taken(self.ways == 0)
        yield replace(
            column, codes=self.ways, size=len(self.sources) + 1, scores=None, ranks=None, widths=None
        )  # fmt: skip
        for number, source in enumerate(self.sources, start=1):
            rows = self.ways == number
            cells = source.scale.cells_at(self.ratios[rows])
            codes, is_refined = source.scale.group[cells].astype(np.int32), source.scale.is_refined
            ranks = source.scale.middle_ranks[cells]
            yield replace(
                column.taken(rows),
                codes=codes,
                size=source.scale.size,
                scores=codes + ranks,
                ranks=ranks if is_refined else None,
                widths=source.scale.rank_widths[cells] if is_refined else None,
            )


def find_kin(
    rows: CodedRows, weights: Array, attributes: Sequence[Attribute], order: Sequence[int], least: float, seed: int
) -> dict[int, Kin]:
    """The numbers that are beside others before them. `rows`: *Sensitive*."""
    rng = np.random.default_rng(np.random.SeedSequence([seed, 2]))
    n, kin, nearby = len(weights), {}, dict[int, Array]()
    for index in order:
        y = rows.positions.get(index)
        if y is None or not _is_number(attributes[index]):
            continue
        is_alone = _are_alone(attributes[index], y)
        ways, ratios, sources = np.zeros(n, dtype=np.int32), np.full(n, np.nan), list[Source]()
        while len(sources) < MOST_SOURCES:
            free = ways == 0
            tried = [
                (_excess(y, rows.positions[x], other, free, is_alone, weights)[0], x)
                for x, other in nearby.items()
                if x not in {source.index for source in sources}
            ]
            share, x = max(tried, default=(0.0, index))
            if share < max(LEAST_SHARE, LEAST_LEAVES * least / weights.sum()):
                break
            _, chances = _excess(y, rows.positions[x], rng.permutation(rows.positions[x]), free, is_alone, weights)
            beside = rng.random(n) < chances
            ratios[beside] = y[beside] / rows.positions[x][beside]
            ways[beside] = len(sources) + 1
            scale = line_attribute("", RATIOS, ratios[beside], weights[beside], N_CODES, least)
            products = y[beside & (ratios != 1)]
            sources.append(Source(x, scale, _shares(attributes[index].column, products)))
        if sources:
            kin[index] = Kin(tuple(sources), ways, ratios)
        nearby[index] = _from_nearby(y, rng)
    return kin


def ratio_features(index: int, sources: Sequence[Source], positions: Mapping[int, Array]) -> Array:
    """The ratios of a number to those that it is beside; shape (n, n_sources)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.column_stack([positions[index] / positions[source.index] for source in sources])
    return np.where(np.isfinite(ratios), np.clip(ratios, NEVER, 1e6), NEVER)


def _from_nearby(y: Array, rng: np.random.Generator) -> Array:
    """For each row the number of another one of about the same rank; shape (n,)."""
    order, n = np.argsort(y, kind="stable"), len(y)
    swapped, width = np.empty(n), max(round(NEIGHBORS * n), 2)
    for start in range(0, n, width):
        rows = order[start : start + width]
        swapped[rows] = y[rng.permutation(rows)]
    return swapped


def _is_number(attribute: Attribute) -> bool:
    """True of a number of which float64 tells all values apart."""
    if attribute.edges is None or attribute.column.is_time:
        return False
    return float(np.abs(attribute.edges).max()) < LARGEST * (attribute.column.unit or 1.0)


def _are_alone(attribute: Attribute, y: Array) -> NDArray[np.bool_]:
    """True of values so frequent that they have a cell: they repeat another, or are their own; shape (n,)."""
    edges, column = attribute.line
    widths, unit = np.diff(edges), column.unit
    single = widths <= 2 * np.spacing(np.abs(edges[:-1])) if unit is None else widths < 1.5 * unit
    flags: NDArray[np.bool_] = np.append(single, [True, True])[attribute.cells_at(y)]
    return flags


def _shares(column: LineColumn, y: Array) -> tuple[float, ...]:
    return tuple(float(np.mean(y == np.rint(y / size) * size)) if len(y) else 0.0 for size, _ in column.ladder)


def _excess(
    y: Array, x: Array, by_chance: Array, free: NDArray[np.bool_], is_alone: NDArray[np.bool_], weights: Array
) -> tuple[float, Array]:
    """The share of rows in which two numbers have ratios beyond chance, and the chance that a row is one of them."""
    with np.errstate(divide="ignore", invalid="ignore"):
        real, chance = y / x, y / by_chance
    chances = np.zeros(len(y))
    inside, outside = (
        np.flatnonzero(free & (each > 1 / WIDEST) & (each < WIDEST) & (~is_alone | (each == 1)))
        for each in (real, chance)
    )  # fmt: skip
    if len(inside) < BIN_ROWS:
        return 0.0, chances
    both = np.concatenate([real[inside], chance[outside]])
    n_bins = min(len(both) // BIN_ROWS, MOST_BINS)
    edges = np.unique(np.quantile(both, np.linspace(0, 1, n_bins + 1)[1:-1]))
    edges = np.unique(np.concatenate([edges, [1.0, np.nextafter(1.0, 2.0)]]))
    bins = np.searchsorted(edges, both, side="right")
    counts = np.bincount(bins[: len(inside)], weights[inside], len(edges) + 1)
    expected = np.bincount(bins[len(inside) :], weights[outside], len(edges) + 1)
    more = counts - expected
    more[more < DIFFERENT * np.sqrt(counts + expected + 1)] = 0.0
    chances[inside] = (more / np.maximum(counts, 1e-9))[bins[: len(inside)]]
    return float(more.sum() / weights.sum()), chances
