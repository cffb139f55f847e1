"""Sequential trees: every column from those before it, by gradient boosting and CART; the default without epsilon."""

import itertools
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from synth.constraints import Formula
from synth.domain import Discretizer
from synth.domain.discretizer import MISSING, OTHER, Array, Attribute, CodedRows
from synth.domain.quantile_grid import quantile_discretizer
from synth.errors import TableNote
from synth.generators.base import Generator
from synth.generators.fitting.private_fit import rows_and_shares
from synth.generators.fitting.training_data import TrainingTable
from synth.generators.models.fitted import FEWEST_MEMBERS, Autoregression, AutoregressiveModel, is_too_rare
from synth.generators.models.model import Arrays, Content
from synth.progress import Progress, quiet
from synth.schema import Schema
from synth.schema.kinds.modeled import Modeled
from synth.trees import Growth, SequentialTrees, fit_sequence
from synth.trees.rare_class import SHARE

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
        """Positions of the columns as the schema has them, known ones first and the target last."""
        names = self.discretizer.columns
        return tuple(
            sorted(range(len(names)), key=lambda at: (names[at] not in self.known, names[at] == self.schema.target))
        )

    @property
    def target(self) -> int | None:
        """Position of the target; `None`: no modeled column is."""
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
        asked = {name: getattr(self, name, LEAST_UNITS) for name in ("smallest_leaf", "least_units")}
        return tuple(
            f"{name}={units} leaks: below {LEAST_UNITS} units, attacks find rows of the table in the synthetic one"
            for name, units in asked.items()
            if units < LEAST_UNITS
        )

    def fit_rows(
        self, train: Any, schema: Schema, *, seed: int = 0, progress: Progress = quiet, known: tuple[str, ...] = ()
    ) -> AutoregressiveModel:
        self.check(schema)
        table, schema, shares = rows_and_shares(train, schema)
        return self.fitted(table, schema, shares, np.random.default_rng(seed), progress, known)

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
        apart = learned.apart() | {pair: mask for pair in pairs if not (mask := learned.together(pair)).all()}
        return self.model_class()(
            self.name, schema, len(table), learned.discretizer, distribution, shares, self.parameters(), apart
        )

    def _learn(self, learned: LearnedRows, seed: int, progress: Progress) -> Autoregression:
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


class TreesModel(AutoregressiveModel):
    """A model of `trees`."""

    @classmethod
    def restored(cls, content: Content, arrays: Arrays, discretizer: Discretizer) -> SequentialTrees:
        return SequentialTrees.from_arrays(content, arrays, discretizer)


class Trees(AutoregressiveGenerator):
    """Every column learned from those before it, the target last: boosted chances of codes, and CART within them.

    Columns come in the order of the schema. It takes no epsilon; with one, `aim` or `latent_class` is to be chosen.
    """

    name: ClassVar[str] = "trees"
    least_of_class: ClassVar[float] = SHARE
    n_bins: int = Field(default=24, ge=2, le=1000, description="Codes of a number or time, about.")
    smallest_leaf: int = Field(
        default=LEAST_UNITS, ge=1, le=10_000, description="Units of a leaf; below 20, members are found."
    )
    caution: float = Field(default=4.0, ge=0, le=1000, description="Least gain of a split, in variances by chance.")
    rounds: int = Field(default=160, ge=1, le=10_000, description="Trees of a booster on 20,000 rows, at most.")
    n_threads: int = Field(default=1, ge=1, le=1024, description="Columns learned at a time.")

    @classmethod
    def model_class(cls) -> type[TreesModel]:
        return TreesModel

    def drawn_schema(self, schema: Schema) -> Schema:
        """The schema as of any generator, but for numbers that repeat another now and then: a mixture learns that."""
        whole = super().drawn_schema(schema)
        values = {
            name: c.model_copy(update={"modeled": None}) for name, c in whole.columns.items() if _repeats(name, whole)
        }
        return whole.model_copy(update={"columns": {**whole.columns, **values}}) if values else whole

    def _learn(self, learned: LearnedRows, seed: int, progress: Progress) -> SequentialTrees:
        growth = Growth(self.rounds, self.smallest_leaf, learned.rows_a_unit, self.caution)
        return fit_sequence(
            learned.rows, learned.discretizer, learned.weights, learned.order, growth, seed, n_threads=self.n_threads,
            focus=learned.target, n_given=len(learned.known), tell=lambda done: progress("learning columns", done),
        )  # fmt: skip


def _repeats(name: str, schema: Schema) -> bool:
    """True of a number that is the same as another one, whose own value is counted, or has a value of its own."""
    column: Any = schema.columns[name]
    modeled: Modeled | None = column.modeled
    if modeled is None or not modeled.alone or column.is_time or modeled.expression not in schema.columns:
        return False
    other = schema.columns[modeled.expression]
    is_computed = any(isinstance(each, Formula) and each.column == modeled.expression for each in schema.constraints)
    is_counted = other.modeled is None or _repeats(modeled.expression, schema)
    is_same = modeled.column is not None and modeled.column.bounds == (0, 0)
    return is_same and is_counted and other.is_line and not other.is_time and not is_computed
