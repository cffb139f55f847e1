"""Sequential trees: a table's columns one after another, each given those before it, and how they are saved.

A saved model is plain data and arrays: dataclasses by the names of their classes. Nothing in it is run.

Source: synthpop (Nowok, Raab & Dibben 2016, "synthpop: Bespoke Creation of Synthetic Data in R").
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc
from threadpoolctl import threadpool_limits

from synth.domain.discretizer import OTHER, Attribute, CodedRows, Discretizer, Evidence
from synth.schema.kinds import RealColumn
from synth.trees.conditional import (
    Boosters,
    Codes,
    Conditional,
    Marginal,
    Refinement,
    Stack,
    TrainingColumn,
    compute_features,
    draw_codes,
    fit_conditional,
    is_unordered,
    n_features,
)
from synth.trees.forest import Array, Features, Forest, Growth
from synth.trees.rare_class import RareClass, fit_rare_class, rare_codes
from synth.trees.ratios import Beside, Kin, Source, find_kin, ratio_features

Classes = Sequence[tuple[RareClass, NDArray[np.intp]]]  # rare classes, and the rows of each
FOCUS = 2  # factor of the rounds for the column that matters most
PARTS = (Marginal, Boosters, Refinement, Stack, Conditional, Forest, RareClass, Beside, Source)
KEPT = ("order", "conditionals", "n_given", "target", "rare", "beside")
"""What a saved model holds: objects of these classes, under these names."""
ROWS_AT_ONCE = 100_000  # rows that are drawn at a time: what they need in memory does not grow with a table


@dataclass(frozen=True, eq=False)
class SequentialTrees:
    """A distribution over rows of codes and ranks."""

    discretizer: Discretizer
    order: tuple[int, ...]
    conditionals: tuple[Conditional, ...]
    n_given: int = 0
    target: int | None = None
    rare: tuple[RareClass, ...] = ()
    beside: Mapping[int, Beside] = field(default_factory=dict)

    def draw(self, n_rows: int, rng: np.random.Generator, evidence: Evidence | None = None) -> CodedRows:
        """Rows; those of known columns have what is known, and weigh what the columns before say of it."""
        known = Evidence() if evidence is None else evidence
        starts = (np.arange(at, min(at + ROWS_AT_ONCE, n_rows)) for at in range(0, max(n_rows, 1), ROWS_AT_ONCE))
        return CodedRows.joined([self._drawn(len(rows), rng, known.taken(rows)) for rows in starts])

    def _drawn(self, n: int, rng: np.random.Generator, evidence: Evidence) -> CodedRows:
        ends = _ends(self.discretizer, self.order, {index: len(each.sources) for index, each in self.beside.items()})
        features = np.zeros((n, ends[-1]), dtype=np.float32)
        codes = np.zeros((n, len(self.order)), dtype=np.int32, order="F")
        ranks: dict[int, Array] = {}
        coded = CodedRows(codes, ranks, np.zeros(n), positions := {})
        placed = {*self.beside, *(source.index for each in self.beside.values() for source in each.sources)}
        if evidence.rows is not None:
            known = sorted(evidence.places)
            codes[:, known] = evidence.rows.codes[:, known]
            ranks |= {index: each for index, each in evidence.rows.ranks.items() if index in evidence.places}
        classes = self._rare_rows(codes, evidence, rng)
        for position, index in enumerate(self.order):
            attribute, beside = self.discretizer.attributes[index], np.full(n, np.nan)
            if index not in evidence.places:
                beside = self._draw_column(position, features[:, : ends[position]], coded, classes, evidence, rng)
            elif position >= self.n_given and not {*self.order[:position]} <= evidence.places:
                self._weigh(position, features[:, : ends[position]], coded, classes, rng)
            if index in placed:
                cells = attribute.ranked(codes[:, index], ranks.get(index, np.full(n, 0.5)))
                is_kept = attribute.cells_at(beside) == cells
                positions[index] = np.where(is_kept, beside, attribute.drawn(cells, rng))
            features[:, ends[position] : ends[position + 1]] = _features_of(
                attribute, codes[:, index], ranks.get(index), self.beside.get(index), positions, index
            )
        return coded

    def _draw_column(
        self, position: int, seen: Features, rows: CodedRows, classes: Classes, evidence: Evidence,
        rng: np.random.Generator,
    ) -> Array:  # fmt: skip
        index = self.order[position]
        attribute, conditional = self.discretizer.attributes[index], self.conditionals[position - self.n_given]
        codes, beside = rows.codes, self.beside.get(index)
        features, drawn = conditional.features(seen, rng), np.full(len(codes), np.nan)
        is_open = evidence.open_codes(index, codes, {*self.order[:position]} | evidence.places)
        codes[:, index] = draw_codes(conditional.distribution, features, is_open, rng)
        if conditional.refinement is not None:
            rows.ranks[index] = conditional.refinement.draw(features, codes[:, index], rng)  # type: ignore[index]
        if beside is not None:
            drawn = beside.draw(seen, rows.positions, attribute.column, rng)
            _put_beside(attribute, drawn, codes[:, index], rows.ranks.get(index), is_open)
        self._draw_classes(codes, rows.ranks, classes, index, rng)
        return drawn

    def _weigh(
        self, position: int, seen: Features, rows: CodedRows, classes: Classes, rng: np.random.Generator
    ) -> None:
        """Weigh what is known of a column by its chance given the columns before it."""
        index = self.order[position]
        attribute, conditional = self.discretizer.attributes[index], self.conditionals[position - self.n_given]
        codes, ranks, every = rows.codes[:, index], rows.ranks.get(index), np.arange(len(rows.codes))
        features = conditional.features(seen, rng)
        chances = conditional.distribution.table(features)[every, codes]
        cells = None if ranks is None else attribute.ranked(codes, ranks)
        if cells is not None and conditional.refinement is not None:
            shapes, ends = conditional.refinement.of_rows(features, codes), attribute.rank_intervals[cells]
            below, above = (betainc(shapes[:, 0], shapes[:, 1], end) for end in ends.T)
            chances = chances * (above - below)
        with np.errstate(divide="ignore"):
            log_chances = np.log(chances)
        if index in self.beside:
            ends = _within(attribute, codes, cells)
            log_chances = self.beside[index].log_chances(seen, rows.positions, ends, log_chances, rng)
        for each, own in classes:
            if index == self.target:
                log_chances[own] = 0.0
            elif index in each.masses:
                log_chances[own] = each.log_chances(attribute, index)[codes[own]]
        rows.log_weights[:] += log_chances

    def _draw_classes(
        self, codes: Codes, ranks: Mapping[int, Array], classes: Classes, index: int, rng: np.random.Generator
    ) -> None:
        """Draw anew the codes and ranks of a column in rows of rare classes that differ in it."""
        for each, own in classes:
            if index == self.target:
                codes[own, index] = each.code
            elif index in each.masses:
                codes[own, index], within = each.draw(self.discretizer.attributes[index], index, len(own), rng)
                if index in ranks:
                    ranks[index][own] = within

    def _rare_rows(self, codes: Codes, evidence: Evidence, rng: np.random.Generator) -> Classes:
        """Rare classes, and the rows that are of each, before any column is drawn."""
        if not self.rare or self.target is None:
            return []
        if self.target in evidence.places:
            return [(each, np.flatnonzero(codes[:, self.target] == each.code)) for each in self.rare]
        shares = np.array([each.share for each in self.rare])
        classes = rng.choice(len(shares) + 1, len(codes), p=[*shares, 1 - shares.sum()])
        return [(each, np.flatnonzero(classes == at)) for at, each in enumerate(self.rare)]

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        arrays: dict[str, NDArray[Any]] = {}
        kept = {name: getattr(self, name) for name in KEPT}
        return {name: to_plain(each, arrays) for name, each in kept.items()}, arrays

    @classmethod
    def from_arrays(
        cls, content: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], discretizer: Discretizer
    ) -> Self:
        trees = cls(
            discretizer,
            **{name: from_plain(content[name], arrays, {part.__name__: part for part in PARTS}) for name in KEPT},
        )
        n_drawn = len(trees.order) - trees.n_given
        if sorted(trees.order) != list(range(len(discretizer.attributes))) or len(trees.conditionals) != n_drawn:
            raise ValueError("the order is not one of the columns")
        return trees


def fit_sequence(  # noqa: PLR0913 - what is learned, how, and who is told
    rows: CodedRows,
    discretizer: Discretizer,
    weights: Array,
    order: Sequence[int],
    growth: Growth,
    seed: int,
    *,
    n_threads: int = 1,
    focus: int | None = None,
    n_given: int = 0,
    tell: Callable[[float], None] = lambda _done: None,
) -> SequentialTrees:
    """Every column learned from those before it; the same whatever the number of threads.
    `rows`: *Sensitive*. What is learned from.
    `weights`: of the rows, at most one for all rows of a unit together; shape (n,).
    """
    import sklearn.ensemble  # noqa: F401 - threads of a library are limited once it is loaded

    rare, rows, weights = _without_rare(rows, discretizer, weights, growth, seed, focus, n_given)
    kin = {} if n_given else find_kin(rows, weights, discretizer.attributes, order, growth.leaf_rows, seed)
    attributes = [discretizer.attributes[index] for index in order]
    ends = _ends(discretizer, order, {index: len(each.sources) for index, each in kin.items()})
    features = np.zeros((len(weights), ends[-1]), dtype=np.float32)
    for position, index in enumerate(order):
        features[:, ends[position] : ends[position + 1]] = _features_of(
            attributes[position], rows.codes[:, index], rows.ranks.get(index), kin.get(index), rows.positions, index
        )
    categories = {ends[p]: each.size for p, each in enumerate(attributes) if is_unordered(each)}
    seeds = np.random.SeedSequence(seed).spawn(len(order))
    done: list[int] = []

    def fitted(position: int) -> list[Conditional]:
        index = order[position]
        learned = TrainingColumn(
            features[:, : ends[position]],
            {p: size for p, size in categories.items() if p < ends[position]},
            rows.codes[:, index],
            attributes[position].size,
            None if is_unordered(attributes[position]) else features[:, ends[position]].astype(np.float64),
            rows.ranks.get(index),
            _widths(attributes[position], rows.codes[:, index], rows.ranks.get(index)),
            weights,
        )
        parts = [learned] if index not in kin else kin[index].columns(learned)
        conditionals = []
        for part, each in enumerate(parts):
            with threadpool_limits(1, user_api="openmp"):  # of this thread; that of BLAS is of the process
                grown = replace(growth, rounds=FOCUS * growth.rounds) if index == focus else growth
                rng = np.random.default_rng([*seeds[position].generate_state(2), part] if part else seeds[position])
                conditionals.append(fit_conditional(each, grown, rng))
        done.append(index)
        tell(len(done) / (len(order) - n_given))
        return conditionals

    with threadpool_limits(1):
        if n_threads == 1:
            fits = [fitted(position) for position in range(n_given, len(order))]
        else:
            with ThreadPoolExecutor(n_threads) as pool:
                fits = list(pool.map(fitted, range(n_given, len(order))))
    beside = {
        index: Beside(kin[index].sources, parts[1], tuple(parts[2:]))
        for index, parts in zip(order[n_given:], fits, strict=True)
        if index in kin
    }
    own = tuple(parts[0] for parts in fits)
    return SequentialTrees(discretizer, tuple(order), own, n_given, order[-1], rare, beside)


def _without_rare(
    rows: CodedRows,
    discretizer: Discretizer,
    weights: Array,
    growth: Growth,
    seed: int,
    focus: int | None,
    n_given: int,
) -> tuple[tuple[RareClass, ...], CodedRows, Array]:
    """Rare classes of the target, the last column; and the other rows. Of histories and entities there are none."""
    if focus is None or n_given or growth.rows_a_unit != 1:
        return (), rows, weights
    codes = rows.codes[:, focus]
    rare = rare_codes(discretizer.attributes[focus], codes, growth.smallest_leaf)
    if not rare:
        return (), rows, weights
    rng = np.random.default_rng(np.random.SeedSequence([seed, 1]))
    classes = tuple(fit_rare_class(rows, discretizer.attributes, focus, code, rng) for code in rare)
    others = np.flatnonzero(~np.isin(codes, rare))
    return classes, rows.taken(others), weights[others]


def _ends(discretizer: Discretizer, order: Sequence[int], n_ratios: Mapping[int, int]) -> list[int]:
    sizes = (n_features(discretizer.attributes[index]) + n_ratios.get(index, 0) for index in order)
    return list(itertools.accumulate(sizes, initial=0))


def _features_of(
    attribute: Attribute,
    codes: Codes,
    ranks: Array | None,
    beside: Beside | Kin | None,
    positions: Mapping[int, Array],
    index: int,
) -> Array:
    """A column as later ones see it, with its ratio to the column that it is beside."""
    features = compute_features(attribute, codes, ranks)
    if beside is None:
        return features
    return np.column_stack([features, ratio_features(index, beside.sources, positions)])


def _put_beside(
    attribute: Attribute, drawn: Array, codes: Codes, ranks: Array | None, is_open: NDArray[np.bool_] | None
) -> None:
    """Put positions, on the precision, in place of drawn codes and ranks; NaN where they are not open."""
    rows = np.flatnonzero(~np.isnan(drawn))
    unit = attribute.column.unit
    rounded = drawn[rows] if unit is None else np.rint(drawn[rows] / unit) * unit
    drawn[rows] = np.clip(rounded, *attribute.column.span)
    cells = attribute.cells_at(drawn[rows])
    if is_open is not None:
        lawful = is_open[rows, attribute.group[cells]]
        drawn[rows[~lawful]] = np.nan
        rows, cells = rows[lawful], cells[lawful]
    codes[rows] = attribute.group[cells]
    if ranks is not None:
        ranks[rows] = attribute.middle_ranks[cells]


def _within(attribute: Attribute, codes: Codes, cells: NDArray[np.intp] | None) -> Array:
    """The ends on the line of cells, or of codes where these are not known; NaN where missing; shape (2, n)."""
    edges, _ = attribute.line
    if cells is None:
        group = attribute.group[:OTHER]
        first, last = (np.full(attribute.size, len(group)), np.full(attribute.size, -1))
        np.minimum.at(first, group, np.arange(len(group)))
        np.maximum.at(last, group, np.arange(len(group)))
        low, high = first[codes], last[codes]
    else:
        low = high = cells
    ends = np.stack([np.append(edges, np.full(3, np.nan))[low], np.append(edges, np.full(3, np.nan))[high + 1]])
    return np.asarray(np.where((low > high) | (high >= len(edges) - 1), np.nan, ends))


def _widths(attribute: Attribute, codes: Codes, ranks: Array | None) -> Array | None:
    """The share of its code's mass that each value's cell holds, shape (n,); `None` where codes have one cell."""
    return None if ranks is None else attribute.rank_widths[attribute.ranked(codes, ranks)]


def to_plain(value: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    if isinstance(value, np.ndarray):
        name = str(len(arrays))
        arrays[name] = value
        return {"array": name}
    if isinstance(value, Attribute):
        return {"codes": Discretizer((value,)).to_plain()[value.name], "bounds": list(value.column.bounds)}
    if is_dataclass(value):
        parts = {field.name: to_plain(getattr(value, field.name), arrays) for field in fields(value)}
        return {"kind": type(value).__name__, **parts}
    if isinstance(value, Mapping):
        return {"items": [[key, to_plain(each, arrays)] for key, each in value.items()]}
    return [to_plain(each, arrays) for each in value] if isinstance(value, tuple) else value


def from_plain(content: Any, arrays: Mapping[str, NDArray[Any]], kinds: Mapping[str, type]) -> Any:
    if isinstance(content, list):
        return tuple(from_plain(each, arrays, kinds) for each in content)
    if not isinstance(content, dict):
        return content
    if "array" in content:
        return arrays[content["array"]]
    if "codes" in content:
        return Attribute.from_plain("", RealColumn(bounds=tuple(content["bounds"])), content["codes"])
    if "items" in content:
        return {key: from_plain(each, arrays, kinds) for key, each in content["items"]}
    parts = {key: from_plain(each, arrays, kinds) for key, each in content.items() if key != "kind"}
    return kinds[content["kind"]](**parts)
