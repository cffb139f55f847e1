"""Constraints in sampling: structural zeros of a distribution, and rejection of rows that break a constraint.

Constraints are public facts, so that all of this is post-processing.

A structural zero is a combination of codes that no row has which keeps the constraints: held at zero, it spares the
model mass that noise would put there. A pair of codes stays open where any values within it keep the constraint.
Formulas, and tables of more than `MOST_CELLS` cells, have no zeros; rejection alone serves them.

Rejection leaves the distribution of the accepted rows as it was, given that the constraints hold. Where values are
unique, each row is drawn given the rows before it, so that frequent values are used up first. A value that another
column determines is set instead: its own distribution is then that of the other column, as the model has it.
"""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from synth.constraints import Constraint, FixedCombinations, Formula, Inequality, Unique, combinations_of_held
from synth.constraints.kinds import Value
from synth.domain import Discretizer, grid
from synth.domain.discretizer import MISSING, OTHER, Attribute
from synth.domain.relations import (
    broken,
    canonical,
    compares_days,
    compute,
    determined,
    from_counted,
    key_hashes,
    on_one_line,
)
from synth.errors import ModelError
from synth.identifiers import Part
from synth.marginals.factor import Factor
from synth.marginals.junction_tree import cells_with_one_more
from synth.schema import Schema
from synth.schema.residual_schema import MissingPair

MOST_CELLS = 1_000_000  # cells of one factor at most


def affordable(zeros: Iterable[Factor], domain: Mapping[str, int], max_cells: float) -> tuple[Factor, ...]:
    """Structural zeros that add at most `max_cells` cells to a model of lone attributes, first come first served."""
    kept: list[Factor] = []
    alone = sum(domain.values())
    for zero in zeros:
        if cells_with_one_more(domain, [factor.attributes for factor in kept])(zero.attributes) <= max_cells + alone:
            kept.append(zero)
    return tuple(kept)


def structural_zeros(schema: Schema, discretizer: Discretizer) -> tuple[Factor, ...]:
    """One factor for each constraint that rules codes out: ``-inf`` where no values can keep it, 0 elsewhere.

    A code that a synthetic value may not have is ruled out as well. A constraint that rules out nothing, or everything
    (so that no distribution would be left), has no factor.
    """
    schema = schema.counted
    attributes = {attribute.name: attribute for attribute in discretizer.attributes}
    equivalents = schema.equivalents
    factors = []
    for constraint in (*schema.missing_pairs, *schema.constraints):
        if not isinstance(constraint, MissingPair | Inequality | FixedCombinations):
            continue
        names, listed = constraint.columns, set[tuple[Value, ...]]()
        if isinstance(constraint, FixedCombinations):
            names, listed = combinations_of_held(constraint, equivalents)
        if not attributes.keys() >= {*names}:
            continue
        own = [attributes[name] for name in names]
        if math.prod(attribute.size for attribute in own) > MOST_CELLS:
            continue
        if isinstance(constraint, MissingPair):
            open_codes = _missing_together(constraint, own)
        else:
            open_codes = _ordered(constraint, *own) if isinstance(constraint, Inequality) else _listed(listed, own)
        open_codes &= _possible(own)
        if open_codes.any() and not open_codes.all():
            factors.append(Factor(names, np.where(open_codes, 0.0, -np.inf)))
    return tuple(factors)


def _missing_together(pair: MissingPair, attributes: list[Attribute]) -> np.ndarray:
    """Pairs of codes of which such are missing together as may be."""
    is_missing = [np.arange(attribute.size) == attribute.group[MISSING] for attribute in attributes]
    kinds = 2 * is_missing[0][:, None] + is_missing[1][None, :]
    open_codes = np.isin(kinds, [2 * first + second for first, second in pair.allowed])
    if pair.keys is not None:
        left, by = attributes
        usual = left.codes(pd.Series(left.column.levels[:1], dtype=object))[0]
        if np.count_nonzero(left.group[:OTHER] == usual) == 1:  # else other categories share the code
            told = np.zeros(by.size, dtype=bool)
            told[by.codes(canonical(pair.keys, by.column))] = True
            open_codes[usual] &= told
    return open_codes


def _ordered(constraint: Inequality, low: Attribute, high: Attribute) -> np.ndarray:
    """Pairs of codes in which some value of the one is below (or at) some value of the other, or one is missing."""
    by_day = compares_days(constraint, {low.name: low.column, high.name: high.column})
    least, greatest = _extent(low, by_day=by_day)[0][:, None], _extent(high, by_day=by_day)[1]
    open_codes = least < greatest if constraint.strict else least <= greatest
    return _with_missing(np.asarray(open_codes))


def _extent(attribute: Attribute, *, by_day: bool) -> tuple[np.ndarray, np.ndarray]:
    """The least and the greatest value of every code on the line of comparisons; shape (size,) both.

    Codes without cells of the line (`other`, `missing`) have the empty extent (inf, -inf).
    """
    edges, column = attribute.line
    unit = column.unit
    first, last = edges[:-1], np.nextafter(edges[1:], -np.inf)
    if unit is not None:
        # As `grid.draw` finds the values within a cell.
        first = np.ceil(grid.ratio(first, unit))
        last = np.maximum(first, np.ceil(grid.ratio(edges[1:], unit)) - 1)
    least, greatest = np.full(attribute.size, np.inf), np.full(attribute.size, -np.inf)
    starts, ends = (_on_one_line(line, column, by_day=by_day) for line in (first, last))
    # A value beside the line, as a missing one, breaks no order.
    np.minimum.at(least, attribute.group[:OTHER], np.where(np.isnan(starts), -np.inf, starts))
    np.maximum.at(greatest, attribute.group[:OTHER], np.where(np.isnan(ends), np.inf, ends))
    return least, greatest


def _on_one_line(drawn: np.ndarray, column: Any, *, by_day: bool) -> np.ndarray:
    """Where on the line of comparisons values are that `grid.draw` may give, rounded as values are."""
    if column.unit is not None:
        drawn = np.clip(drawn, -grid.LARGEST, grid.LARGEST).astype(np.int64)
    values = column.values(drawn, np.zeros(len(drawn), dtype=bool))
    return on_one_line(column.ordinary(values), column, by_day=by_day)


def _listed(combinations: Collection[tuple[Value, ...]], attributes: list[Attribute]) -> np.ndarray:
    """Tuples of codes that hold one of the combinations, or in which one is missing."""
    open_codes = np.zeros([attribute.size for attribute in attributes], dtype=bool)
    if combinations:
        values = zip(*combinations, strict=True)
        open_codes[
            tuple(a.codes(canonical(listed, a.column)) for a, listed in zip(attributes, values, strict=True))
        ] = True
    return _with_missing(open_codes)


def _with_missing(open_codes: np.ndarray) -> np.ndarray:
    """The codes with those opened in which any column is missing: every constraint holds there."""
    for axis in range(open_codes.ndim):
        np.moveaxis(open_codes, axis, 0)[MISSING] = True
    return open_codes


def _possible(attributes: list[Attribute]) -> np.ndarray:
    """Tuples of codes that a synthetic row can have at all."""
    possible = np.ones([attribute.size for attribute in attributes], dtype=bool)
    for axis, attribute in enumerate(attributes):
        np.moveaxis(possible, axis, 0)[attribute.impossible] = False
    return possible


REJECTED = "rejected"  # key in `attrs` of a sampled table: rows that were drawn and broke a constraint
LEAST_ACCEPTED = 1e-3  # share of lawful rows below which drawing on is given up, once `ENOUGH` rows are drawn
ENOUGH, MAX_BATCHES = 20_000, 2_000
MAX_OVERSAMPLED = 10  # the most rows of one batch, in multiples of the wanted rows
LARGEST_BATCH = 1_000_000  # rows that one batch draws at most, unless more are wanted: it is in memory as a whole

Draw = Callable[[int], pd.DataFrame]


@dataclass
class Keys:
    """Values of unique constraints in the rows that are kept; a key with the entity counts where owners are known."""

    schema: Schema
    part: Part | None
    _seen: dict[Unique, np.ndarray] = field(default_factory=dict)

    def repeats(self, table: pd.DataFrame, owners: np.ndarray | None = None) -> np.ndarray:
        """True for rows that repeat a value of a key: of a row above, of one that is kept, or of another part."""
        none = np.zeros(len(table), dtype=bool)
        return np.asarray(np.any([none, *self.repeated(table, owners).values()], axis=0))

    def repeated(self, table: pd.DataFrame, owners: np.ndarray | None = None) -> dict[Constraint, np.ndarray]:
        """The same by key."""
        flags: dict[Constraint, np.ndarray] = {}
        for unique, hashes, is_whole in self._hashed(table, owners):
            again = np.isin(hashes, self._seen.get(unique, np.zeros(0, dtype=np.uint64)))
            again[np.setdiff1d(np.arange(len(table)), np.unique(hashes, return_index=True)[1])] = True
            if self.part is not None and self.schema.entity not in unique.columns:
                again |= self.part.among(_key(unique), hashes)
            flags[unique] = again & is_whole
        return flags

    def add(self, table: pd.DataFrame, owners: np.ndarray | None = None) -> None:
        """Note the rows that are kept."""
        for unique, hashes, is_whole in self._hashed(table, owners):
            seen = self._seen.get(unique, np.zeros(0, dtype=np.uint64))
            self._seen[unique] = np.concatenate([seen, hashes[is_whole]])

    def remember(self) -> None:
        """Note all rows for the parts of the table after this one."""
        for unique, hashes in self._seen.items():
            if self.part is not None and self.schema.entity not in unique.columns:
                self.part.add(_key(unique), hashes)

    def _hashed(
        self, table: pd.DataFrame, owners: np.ndarray | None
    ) -> Iterator[tuple[Unique, np.ndarray, np.ndarray]]:
        for unique in uniques(self.schema):
            names = tuple(name for name in unique.columns if name != self.schema.entity)
            if owners is None and len(names) < len(unique.columns):
                continue  # rows have no entity yet, and are dealt to entities so that their key holds
            hashes, is_whole = key_hashes(table, Unique(columns=names), self.schema.columns)
            if owners is not None and len(names) < len(unique.columns):
                hashes = pd.util.hash_array(hashes ^ pd.util.hash_array(owners.astype(np.uint64)))
            yield unique, hashes, is_whole


def uniques(schema: Schema) -> list[Unique]:
    return [constraint for constraint in schema.constraints if isinstance(constraint, Unique)]


def _key(unique: Unique) -> str:
    return "\0".join(("key", *unique.columns))


def draw_lawful(draw: Draw, n_rows: int, schema: Schema, part: Part | None = None) -> pd.DataFrame:
    """Rows that keep every constraint of the schema, from rows as they are counted, drawn in batches."""
    # Rows have no entity yet, and are dealt to entities so that their key holds.
    drawn_alone = [each for each in schema.constraints if schema.entity not in each.columns]
    if not drawn_alone and not schema.worked_out:
        return draw(n_rows)
    keys, of_rows = Keys(schema, part), [each for each in drawn_alone if isinstance(each, Unique)]
    for unique in of_rows:
        _check_room(unique, n_rows if part is None else part.n_table, schema)
    parts, n_kept, n_drawn, wanted = list[pd.DataFrame](), 0, 0, n_rows
    for _ in range(MAX_BATCHES):
        batch, unlawful = completed(draw(wanted), schema)
        lawful = np.flatnonzero(~unlawful)
        lawful = lawful[~keys.repeats(batch.iloc[lawful])] if of_rows else lawful
        kept = lawful[: n_rows - n_kept]
        n_kept += len(kept)
        if len(kept):
            parts.append(batch.iloc[kept])
            keys.add(parts[-1])
        if n_kept == n_rows:
            keys.remember()
            table = pd.concat(parts, ignore_index=True)
            table.attrs[REJECTED] = n_drawn + int(kept[-1]) + 1 - n_rows
            return table
        n_drawn += len(batch)
        if n_drawn >= ENOUGH and n_kept < LEAST_ACCEPTED * n_drawn:
            break
        # The rate falls while values of keys are used up.
        rate = (len(kept) + 1) / (len(batch) + 1) if of_rows else (n_kept + 1) / (n_drawn + 1)
        needed = math.ceil(1.1 * (n_rows - n_kept) / rate) + 10
        wanted = min(needed, max(min(MAX_OVERSAMPLED * n_rows, LARGEST_BATCH), n_rows, ENOUGH))
    raise ModelError(
        f"next to no row that the model draws keeps the constraints ({n_kept:,} of {n_drawn:,}): most of them "
        f"{_hardest(batch, keys, drawn_alone)}; correct the constraints (or what is given), or fit a generator that "
        "learns these columns together"
    )


def _hardest(batch: pd.DataFrame, keys: Keys, constraints: list[Constraint]) -> str:
    """What most rows of a batch fail, in words."""
    schema, flags = keys.schema, keys.repeated(batch)
    for each in constraints:
        if isinstance(each, Formula):
            flags[each] = compute(batch, each, schema.columns)[1]
        elif not isinstance(each, Unique):
            flags[each] = broken(batch, each, schema.columns)
    worst = max(constraints, key=lambda each: int(flags[each].sum()), default=None)
    if worst is not None and flags[worst].any():
        return f"break that {worst}" + " within its bounds" * isinstance(worst, Formula)
    return f"leave the bounds of what is worked out from others ({', '.join(schema.worked_out)})"


def with_dependents(drawn: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """The rows with the dependent value that each determinant asks for, where neither is missing.

    Rejection would cost most rows where a determinant has many values. It would weigh them by how well both columns
    agree; setting takes the determinant's side.
    """
    schema = schema.counted
    columns = {name: drawn[name] for name in drawn.columns}
    computed = {constraint.column for constraint in schema.constraints if isinstance(constraint, Formula)}
    for dependency in schema.dependencies:
        if computed.isdisjoint((dependency.determinant, dependency.dependent)):
            old = columns[dependency.dependent]
            new, unlisted = determined(columns[dependency.determinant], dependency, schema.columns)
            columns[dependency.dependent] = new.astype(old.dtype).where(~(unlisted | old.isna().to_numpy()), old)
    return pd.DataFrame(columns, index=drawn.index, copy=False)


def rejections(n_rejected: int) -> str:
    """A sentence on rejected rows.

    >>> rejections(1200)
    '1,200 rows that broke a constraint were rejected and drawn again'
    """
    return f"{n_rejected:,} rows that broke a constraint were rejected and drawn again"


def completed(
    drawn: pd.DataFrame, schema: Schema, before: pd.DataFrame | None = None
) -> tuple[pd.DataFrame, np.ndarray]:
    """The rows with their computed columns, in the schema's order, and which of them are not lawful.
    `drawn`: as they are counted. `before`: the row before each, complete; `None`: there is none.
    """
    drawn = drawn.reset_index(drop=True)
    worked_out = schema.worked_out
    columns = {name: drawn[name] for name in schema.modeled if name not in worked_out}
    unlawful = np.zeros(len(drawn), dtype=bool)
    for name, dependency in schema.equivalents.items():
        columns[name], unlisted = determined(columns[dependency.determinant], dependency, schema.columns)
        unlawful |= unlisted
    unlawful |= from_counted(columns, drawn, schema, before)
    table = pd.DataFrame({name: columns[name] for name in schema.learned})
    for constraint in schema.constraints:
        if not isinstance(constraint, Formula | Unique):
            unlawful |= broken(table, constraint, schema.columns, before)
    return table, unlawful


def _check_room(unique: Unique, n_rows: int, schema: Schema) -> None:
    """Refuse more rows than there are values for; a row where one is missing needs none."""
    room = math.prod(_room(name, schema) for name in unique.columns)
    if n_rows > room:
        raise ModelError(
            f"{unique}, and by the schema there are {room:,.0f} values for rows={n_rows}; ask for fewer rows, or take "
            "the constraint out"
        )


def _room(name: str, schema: Schema) -> float:
    """The number of values of a column; infinite where it may be missing, or has no precision."""
    column = schema.columns[name]
    if name in schema.equivalents:
        return len(schema.equivalents[name].mapping)
    if column.missing:
        return math.inf
    if column.is_categorical:
        return len(column.levels)
    unit, (low, high) = column.unit, column.ends
    return math.inf if unit is None else math.floor((high - low) / unit + 1e-9) + 1
