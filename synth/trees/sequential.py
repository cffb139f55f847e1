"""Sequential trees: a table's columns one after another, each given those before it.

Source: synthpop (Nowok, Raab & Dibben 2016, "synthpop: Bespoke Creation of Synthetic Data in R").
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc
from threadpoolctl import threadpool_limits

from synth.domain.coded_rows import CodedRows, Evidence
from synth.domain.discretizer import MISSING, Attribute, Discretizer
from synth.trees.conditional import (
    Codes,
    Conditional,
    TrainingColumn,
    conditional_from_arrays,
    conditional_to_arrays,
    draw_codes,
    fit_conditional,
)
from synth.trees.forest import Array, Features, Forest, Growth, forests_from_arrays, forests_to_arrays

FOCUS = 2  # factor of the rounds for the column that matters most
ROWS_AT_ONCE = 100_000
"""Rows that are drawn at a time: what they need in memory does not grow with a table."""


class Kept(Protocol):
    """Columns that are learned, kept where a fit that is cut short goes on from."""

    def load(self, place: int, size: int, n_features: int) -> Conditional | None:
        """A column of so many codes that was learned before from so many others; `None`: there is none."""

    def save(self, place: int, conditional: Conditional) -> None:
        """Keep a column."""


@dataclass(frozen=True, eq=False)
class SequentialTrees:
    """A distribution over rows of codes and ranks."""

    discretizer: Discretizer
    order: tuple[int, ...]
    conditionals: tuple[Conditional, ...]
    n_given: int = 0

    def draw(self, n_rows: int, rng: np.random.Generator, evidence: Evidence | None = None) -> CodedRows:
        """Rows; those of given columns have what is given, and weigh what the columns before say of it."""
        known = Evidence() if evidence is None else evidence
        starts = range(0, n_rows, ROWS_AT_ONCE)
        return CodedRows.joined([self._drawn(start, min(ROWS_AT_ONCE, n_rows - start), rng, known) for start in starts])

    def _drawn(self, start: int, n: int, rng: np.random.Generator, evidence: Evidence) -> CodedRows:
        codes = np.zeros((n, len(self.order)), dtype=np.int32, order="F")
        features = np.zeros((n, len(self.order)), dtype=np.float32)
        ranks: dict[int, Array] = {}
        log_weights = np.zeros(n)
        n_given = self.n_given if evidence.rows is None else evidence.n_given
        for position, place in enumerate(self.order[:n_given]):
            of_rows = slice(start, start + n)
            codes[:, place] = evidence.given_codes(place)[of_rows]
            if (held := evidence.given_ranks(place)) is not None:
                ranks[place] = held[of_rows]
            features[:, position] = _feature(self.discretizer.attributes[place], codes[:, place], ranks.get(place))
        drawn = zip(self.order[n_given:], self.conditionals[n_given - self.n_given :], strict=True)
        for position, (place, conditional) in enumerate(drawn, start=n_given):
            attribute = self.discretizer.attributes[place]
            rows = conditional.features(features[:, :position], rng)
            if (given := evidence.codes.get(place)) is not None:
                codes[:, place] = given
                if position and not {*self.order[:position]} <= {*evidence.codes}:
                    log_weights += _log_chances(conditional, rows, given, evidence.intervals.get(place))
            else:
                is_open = evidence.open_codes(place, codes, self.order[:position])
                codes[:, place] = draw_codes(conditional.distribution, rows, is_open, rng)
            if conditional.refinement is not None:
                ranks[place] = conditional.refinement.draw(rows, codes[:, place], rng)
                if place in evidence.intervals:
                    ranks[place][:] = np.mean(evidence.intervals[place])
            features[:, position] = _feature(attribute, codes[:, place], ranks.get(place))
        return CodedRows(codes, ranks, log_weights)

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Plain data and arrays, for `from_arrays`."""
        forests: list[Forest] = []
        arrays: dict[str, NDArray[Any]] = {}
        columns = []
        for place, conditional in zip(self.order[self.n_given :], self.conditionals, strict=True):
            description, own = conditional_to_arrays(conditional, forests)
            columns.append(description)
            arrays |= {f"{place}.{name}": array for name, array in own.items()}
        described = {"order": list(self.order), "columns": columns, "n_given": self.n_given}
        return described, {**arrays, **forests_to_arrays(forests)}

    @classmethod
    def from_arrays(
        cls, content: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], discretizer: Discretizer
    ) -> Self:
        """The table model of the arrays that `to_arrays` made."""
        order, n_given = tuple(content["order"]), content.get("n_given", 0)
        if type(n_given) is not int or not 0 <= n_given < len(order):
            raise ValueError("some columns are drawn, and the others are given")
        if sorted(order) != list(range(len(discretizer.attributes))) or len(content["columns"]) + n_given != len(order):
            raise ValueError("the order is not one of the columns")
        forests = forests_from_arrays(arrays)
        attributes = [discretizer.attributes[place] for place in order]
        made = []
        drawn = zip(order[n_given:], content["columns"], strict=True)
        for position, (place, description) in enumerate(drawn, start=n_given):
            prefix = f"{place}."
            own = {name.removeprefix(prefix): part for name, part in arrays.items() if name.startswith(prefix)}
            conditional = conditional_from_arrays(description, own, forests, attributes[position].size, position)
            sizes = {p: len(table) for p, table in conditional.places.items()}
            known = {p: each.size for p, each in enumerate(attributes[:position]) if _is_unordered(each)}
            if not sizes.items() <= known.items():
                raise ValueError("a feature has other categories than its column")
            if (conditional.refinement is not None) != attributes[position].is_refined:
                raise ValueError("columns are refined where codes have several cells, and only there")
            made.append(conditional)
        return cls(discretizer, order, tuple(made), n_given)


def fit_sequence(  # noqa: PLR0913 - what is learned, how, and who is told
    rows: CodedRows,
    discretizer: Discretizer,
    weights: Array,
    order: Sequence[int],
    growth: Growth,
    seed: int,
    *,
    n_threads: int = 1,
    kept: Kept | None = None,
    focus: int | None = None,
    n_given: int = 0,
    tell: Callable[[float], None] = lambda _done: None,
) -> SequentialTrees:
    """Every column learned from those before it; the same whatever the number of threads.
    `rows`: *Sensitive*. What is learned from.
    `weights`: of the rows, at most one for all rows of a unit together; shape (n,).
    """
    import sklearn.ensemble  # noqa: F401 - threads of a library are limited once it is loaded

    attributes = [discretizer.attributes[place] for place in order]
    features = np.zeros((len(weights), len(order)), dtype=np.float32)
    for position, place in enumerate(order):
        features[:, position] = _feature(attributes[position], rows.codes[:, place], rows.ranks.get(place))
    categories = {p: each.size for p, each in enumerate(attributes) if _is_unordered(each)}
    seeds = np.random.SeedSequence(seed).spawn(len(order))
    done: list[int] = []

    def fitted(position: int) -> Conditional:
        place = order[position]
        conditional = None if kept is None else kept.load(place, attributes[position].size, position)
        if conditional is None:
            is_line = attributes[position].edges is not None or not _is_unordered(attributes[position])
            learned = TrainingColumn(
                features[:, :position],
                {p: size for p, size in categories.items() if p < position},
                rows.codes[:, place],
                attributes[position].size,
                features[:, position].astype(np.float64) if is_line else None,
                rows.ranks.get(place),
                _widths(attributes[position], rows.codes[:, place], rows.ranks.get(place)),
                weights,
            )
            with threadpool_limits(1, user_api="openmp"):  # of this thread; that of BLAS is of the process
                grown = replace(growth, rounds=FOCUS * growth.rounds) if place == focus else growth
                conditional = fit_conditional(learned, grown, np.random.default_rng(seeds[position]))
            if kept is not None:
                kept.save(place, conditional)
        done.append(place)
        tell(len(done) / (len(order) - n_given))
        return conditional

    with threadpool_limits(1):
        if n_threads == 1:
            made = [fitted(position) for position in range(n_given, len(order))]
        else:
            with ThreadPoolExecutor(n_threads) as pool:
                made = list(pool.map(fitted, range(n_given, len(order))))
    return SequentialTrees(discretizer, tuple(order), tuple(made), n_given)


def _is_unordered(attribute: Attribute) -> bool:
    """True if a column's codes are categories in no order, of which there are more than two."""
    column = attribute.column
    return attribute.size > 2 and column.is_categorical and not (column.is_boolean or column.is_ordered)


def _feature(attribute: Attribute, codes: Codes, ranks: Array | None) -> Array:
    """A column as trees see it: its codes, of numbers with the middle rank of the cell; missing in order is -1."""
    values = codes.astype(np.float64)
    if attribute.is_refined and ranks is not None:
        values += attribute.middle_ranks[attribute.ranked(codes, ranks)]
    return values if _is_unordered(attribute) else np.where(codes == attribute.size + MISSING, -1.0, values)


def _widths(attribute: Attribute, codes: Codes, ranks: Array | None) -> Array | None:
    """The share of its code's mass that each value's cell holds, shape (n,); `None` where codes have one cell."""
    return None if ranks is None else attribute.rank_widths[attribute.ranked(codes, ranks)]


def _log_chances(conditional: Conditional, rows: Features, code: int, interval: tuple[float, float] | None) -> Array:
    """The log of the chance of a code, and of an interval of ranks within it, for each row; shape (n,)."""
    chances = conditional.distribution.table(rows)[:, code].copy()
    if interval is not None and conditional.refinement is not None:
        shapes = conditional.refinement.of_rows(rows, np.full(len(rows), code, dtype=np.int32))
        below, above = (betainc(shapes[:, 0], shapes[:, 1], end) for end in interval)
        chances *= above - below
    with np.errstate(divide="ignore"):
        return np.log(chances)
