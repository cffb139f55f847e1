"""Autoregressive generators' base: columns learned one after another, without epsilon."""

import itertools
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from synth.domain import Discretizer
from synth.domain.coded_rows import Array, CodedRows
from synth.domain.discretizer import MISSING, OTHER, Attribute
from synth.domain.quantile_grid import quantile_discretizer
from synth.errors import TableError, TableNote
from synth.generators.base import Generator
from synth.generators.fitting.private_fit import as_it_is
from synth.generators.fitting.training_data import TrainingTable
from synth.generators.models.autoregressive_model import (
    FEWEST_MEMBERS,
    Autoregression,
    AutoregressiveModel,
    is_too_rare,
)
from synth.progress import Progress, quiet
from synth.schema import Schema

LEAST_UNITS = 20  # units of a code or a leaf below which a fit warns
FEW_UNITS = 2
"""Units below which codes of two columns never meet, where at least `LEAST_UNITS` were to be expected by chance."""


@dataclass(frozen=True, eq=False)
class LearnedRows:
    """*Sensitive*. Rows as a fit without epsilon learns from them, and the codes that were read off them.

    Attributes:
        weights: of the rows, at most one for all rows of a unit together; shape (n,).
    """

    schema: Schema
    discretizer: Discretizer
    rows: CodedRows = field(repr=False)
    weights: Array = field(repr=False)
    known: tuple[str, ...] = ()

    @property
    def order(self) -> tuple[int, ...]:
        """Places of the columns as the schema has them, known ones first and the target last."""
        names = self.discretizer.columns
        return tuple(
            sorted(range(len(names)), key=lambda at: (names[at] not in self.known, names[at] == self.schema.target))
        )

    @property
    def target(self) -> int | None:
        """The place of the target; `None`: no modeled column is."""
        names = self.discretizer.columns
        return names.index(self.schema.target) if self.schema.target in names else None

    def together(self, pair: tuple[str, str]) -> NDArray[np.bool_]:
        """Mask of pairs of codes that occur together, or are too rare to tell (structural zeros that are learned).

        Entities are counted by their weights: a pair of codes in one of an entity's seven rows counts a seventh. Of a
        number, all codes from one on count together: a few rows left or many more, but never the last.
        """
        places = [self.discretizer.columns.index(name) for name in pair]
        sizes = [self.discretizer.attributes[place].size for place in places]
        codes = np.ravel_multi_index([self.rows.codes[:, place] for place in places], sizes)
        held: Array = np.bincount(codes, self.weights, sizes[0] * sizes[1]).astype(np.float64).reshape(sizes)
        expected = _expected(held)
        if self.discretizer.attributes[places[0]].edges is not None:
            held, expected = (np.asarray(np.cumsum(each[::-1], axis=0)[::-1]) for each in (held, expected))
            rare = np.maximum.accumulate((held < FEW_UNITS) & (expected >= LEAST_UNITS), axis=0)
            return ~rare
        return np.asarray((held >= FEW_UNITS) | (expected < LEAST_UNITS))

    def apart(self) -> dict[tuple[str, str], NDArray[np.bool_]]:
        """The masks of `together` of pairs of categories, and of whether two columns are missing, where they rule out
        any: who has no internet has no online security.
        """
        groups = {
            each.name: np.arange(each.size) if each.edges is None else np.arange(each.size) // (each.size + MISSING)
            for each in self.discretizer.attributes
        }
        columns = dict(zip(self.discretizer.columns, self.rows.codes.T, strict=True))
        codes = {name: own[columns[name]] for name, own in groups.items()}
        masks = {}
        for one, other in itertools.combinations([name for name in groups if np.ptp(codes[name])], 2):
            sizes = groups[one].max() + 1, groups[other].max() + 1
            pairs = codes[one] * sizes[1] + codes[other]
            held: Array = np.bincount(pairs, self.weights, sizes[0] * sizes[1]).astype(np.float64).reshape(sizes)
            allowed = (held >= FEW_UNITS) | (_expected(held) < LEAST_UNITS)
            if not allowed.all():
                masks[one, other] = allowed[np.ix_(groups[one], groups[other])]
        return masks

    @property
    def rows_a_unit(self) -> float:
        """Rows that a unit has on average."""
        return len(self.weights) / float(self.weights.sum())


class AutoregressiveGenerator(Generator):
    """Columns one after another, each given those before it; it promises nothing, since codes are read off the rows.

    Values that few units hold share a code, and are drawn alike.
    """

    least_of_class: ClassVar[float] = 1.0  # share of the least units that a class of the target has
    most_rows: int = Field(
        default=200_000, ge=100, le=10_000_000, description="Rows learned from at most; a seeded sample."
    )
    least_units: int = Field(
        default=LEAST_UNITS,
        ge=1,
        le=10_000,
        description="Units of a value or stretch of values, else it is blurred.",
    )
    n_bins: int = Field(default=64, ge=2, le=1000, description="Codes of a number or time, about.")

    @classmethod
    def model_class(cls) -> type[AutoregressiveModel]:
        raise NotImplementedError

    @property
    def conditional(self) -> bool:
        return True

    def cautions(self, schema: Schema) -> tuple[str, ...]:
        """Sentences on settings that are allowed and leak."""
        asked = {name: getattr(self, name, LEAST_UNITS) for name in ("smallest_leaf", "least_units")}
        return tuple(
            f"{name}={units} leaks: below {LEAST_UNITS} units, attacks find rows of the table in the synthetic one"
            for name, units in asked.items()
            if units < LEAST_UNITS
        )

    def fit_rows(self, train: Any, schema: Schema, *, seed: int = 0, progress: Progress = quiet) -> AutoregressiveModel:
        """A model of the training table. `train`: *Sensitive*."""
        self.check(schema)
        table, schema = as_it_is(train, schema)
        if len(table) == 0:
            raise TableError("a fit needs rows, and the table has none; give it a larger one")
        rng = np.random.default_rng(seed)
        shares = None
        if schema.entity is not None:
            held = table.rows_per_entity().astype(np.float64)
            shares = tuple((held / held.sum()).tolist()) if held.sum() else (1.0,)
        return self.fitted(table, schema, shares, rng, progress)

    def fitted(
        self,
        table: TrainingTable,
        schema: Schema,
        shares: tuple[float, ...] | None,
        rng: np.random.Generator,
        progress: Progress,
        known: tuple[str, ...] = (),
        pairs: Iterable[tuple[str, str]] = (),
    ) -> AutoregressiveModel:
        """A model of rows given known columns, in which codes of pairs of columns that never met never meet."""
        progress("reading rows", None)
        learned = replace(self._read(table, schema, rng), known=known)
        if learned.target is not None and not known:
            _note_rare_classes(learned.discretizer.attributes[learned.target])
        distribution = self._learn(learned, int(rng.integers(2**63)), progress)
        allowed_pairs = {pair: together for pair in pairs if not (together := learned.together(pair)).all()}
        allowed_pairs = {**learned.apart(), **allowed_pairs}
        return self.model_class()(
            self.name, schema, len(table), learned.discretizer, distribution, shares, self.parameters(), allowed_pairs
        )

    def _learn(self, learned: LearnedRows, seed: int, progress: Progress) -> Autoregression:
        """The distribution over codes and ranks."""
        raise NotImplementedError

    def _read(self, table: TrainingTable, schema: Schema, rng: np.random.Generator) -> LearnedRows:
        """The rows, or a sample of them, in codes that are read off them."""
        n = len(table)
        chosen = np.sort(rng.choice(n, self.most_rows, replace=False)) if n > self.most_rows else np.arange(n)
        columns = table.columns(None)
        found = {a.name: _taken(columns.parts(a), chosen) for a in Discretizer.by_schema(schema).attributes}
        weights = _weights(table)[chosen]
        least = min(float(self.least_units), float(weights.sum()) / 2)
        discretizer = quantile_discretizer(
            schema,
            found,
            weights,
            n_bins=self.n_bins,
            least_units=least,
            least_of_class=least * self.least_of_class,
        )
        cells = {
            at: each.cells_at(found[each.name]) if each.edges is not None else found[each.name].astype(np.int64)
            for at, each in enumerate(discretizer.attributes)
        }
        positions = {at: found[each.name] for at, each in enumerate(discretizer.attributes) if each.edges is not None}
        return LearnedRows(schema, discretizer, CodedRows.of(discretizer, cells, positions), weights)


def _note_rare_classes(target: Attribute) -> None:
    """Say that classes of the target have too few rows; which they are, is not said."""
    codes = np.unique(target.group[:OTHER][target.mass[:OTHER] > 0]) if target.edges is None else ()
    if any(is_too_rare(target, code) for code in codes):
        note = (
            f"classes of the target={target.name!r} with fewer than {FEWEST_MEMBERS} rows are not learned; their "
            "synthetic rows are like those of others"
        )
        warnings.warn(TableNote(note), stacklevel=2)


def _expected(held: Array) -> Array:
    """Counts of pairs, were both columns independent."""
    return np.asarray(held.sum(axis=1, keepdims=True) * held.sum(axis=0) / held.sum())


def _weights(table: TrainingTable) -> Array:
    """One over the rows of each row's unit; a row without an entity is a unit by itself."""
    if table.schema.entity is None:
        return np.ones(len(table))
    entities = table.entities()
    sizes = np.bincount(entities[entities >= 0], minlength=1)
    return np.where(entities < 0, 1.0, 1.0 / np.maximum(sizes[entities], 1))


def _taken(parts: Iterator[NDArray[np.generic]], chosen: NDArray[np.intp]) -> Array:
    """Some rows of a column that comes in parts, shape (n_chosen,)."""
    made, start = [], 0
    for part in parts:
        first, end = np.searchsorted(chosen, [start, start + len(part)])
        made.append(np.asarray(part[chosen[first:end] - start], dtype=np.float64))
        start += len(part)
    return np.concatenate(made) if made else np.zeros(0)
