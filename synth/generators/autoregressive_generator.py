"""Autoregressive generators' base: columns learned one after another, without epsilon."""

import itertools
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from synth.domain import Discretizer
from synth.domain.discretizer import MISSING, OTHER, Array, Attribute, CodedRows
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
    `weights`: of the rows, at most one for all rows of a unit together; shape (n,).
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

        Of a number, all codes from one on count together: a few rows left or many more, but never the last.
        """
        indices = [self.discretizer.columns.index(name) for name in pair]
        attributes = [self.discretizer.attributes[index] for index in indices]
        counts, expected = self._pairs(
            [self.rows.codes[:, index] for index in indices], [each.size for each in attributes]
        )
        if attributes[0].edges is not None:
            counts, expected = (np.cumsum(each[::-1], axis=0)[::-1] for each in (counts, expected))
            rare = np.maximum.accumulate((counts < FEW_UNITS) & (expected >= LEAST_UNITS), axis=0)
            return np.asarray(~rare)
        return np.asarray((counts >= FEW_UNITS) | (expected < LEAST_UNITS))

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
        for pair in itertools.combinations([name for name in groups if np.ptp(codes[name])], 2):
            own = [groups[name] for name in pair]
            counts, expected = self._pairs([codes[name] for name in pair], [int(each.max()) + 1 for each in own])
            allowed = (counts >= FEW_UNITS) | (expected < LEAST_UNITS)
            if not allowed.all():
                masks[pair] = allowed[np.ix_(*own)]
        return masks

    def _pairs(self, codes: Sequence[NDArray[Any]], sizes: Sequence[int]) -> tuple[Array, Array]:
        """Counts of pairs of codes by weights, where one of an entity's seven rows counts a seventh, and those that
        were to be expected, were both columns independent; shape `sizes`.
        """
        pairs = np.ravel_multi_index(tuple(codes), tuple(sizes))
        counts: Array = np.bincount(pairs, self.weights, sizes[0] * sizes[1]).astype(np.float64).reshape(sizes)
        return counts, counts.sum(axis=1, keepdims=True) * counts.sum(axis=0) / counts.sum()

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
        default=LEAST_UNITS, ge=1, le=10_000, description="Units of a value or stretch of values, else it is blurred."
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
            counts = table.rows_per_entity().astype(np.float64)
            shares = tuple((counts / counts.sum()).tolist()) if counts.sum() else (1.0,)
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
        columns, values = table.columns(None), dict[str, Array]()
        for attribute in Discretizer.by_schema(schema).attributes:
            values[attribute.name] = np.concatenate([np.zeros(0), *columns.parts(attribute)])[chosen]
        weights = _weights(table)[chosen]
        least = min(float(self.least_units), float(weights.sum()) / 2)
        discretizer = quantile_discretizer(
            schema, values, weights, n_bins=self.n_bins, least_units=least, least_of_class=least * self.least_of_class
        )
        attributes = discretizer.attributes
        positions = {at: values[each.name] for at, each in enumerate(attributes) if each.edges is not None}
        cells = {
            at: each.cells_at(positions[at]) if at in positions else values[each.name].astype(np.int64)
            for at, each in enumerate(attributes)
        }
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


def _weights(table: TrainingTable) -> Array:
    """One over the rows of each row's unit; a row without an entity is a unit by itself."""
    if table.schema.entity is None:
        return np.ones(len(table))
    entities = table.entities()
    sizes = np.bincount(entities[entities >= 0], minlength=1)
    return np.where(entities < 0, 1.0, 1.0 / np.maximum(sizes[entities], 1))
