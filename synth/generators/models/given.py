"""Rows of which some cells are known: `sample(given=...)`, balanced columns, and missing cells that are filled in.

A model draws the other columns given those that are known (`drawn_given`); all else is here, once for all models. A
model is conditioned on codes, and a column then holds the value itself: within a code, codes of other columns are
independent of it. Where two columns determine each other, the one that is modeled is conditioned on; one that is
computed from others is where these are known. Rows that come to have another value are drawn again, as are those that
break a constraint. Free of any budget: a released model is all that is read beside the known cells.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd

from synth.constraints import Formula, Unique
from synth.domain import Discretizer
from synth.domain.relations import broken, canonical, to_counted
from synth.errors import JobError, nearest
from synth.generators.models.constraints import REJECTED, Keys, completed, with_dependents
from synth.identifiers import Part
from synth.marginals.sampling import round_counts
from synth.schema import Schema
from synth.table import Table, conform
from synth.table.decode import BIT, Fault

GIVEN, UNFILLED = "given", "unfilled"
"""Keys in `attrs`: of a table sampled on conditions one of `WAYS`; of one whose missing cells were filled in, the rows
with a cell that no draw filled in so that the constraints hold.
"""
WAYS = ("exact", "weights", "direct", "merged")  # ways in which conditions are met, the most exact first
if TYPE_CHECKING:
    from synth.generators.models.model import TableModel

Balance = Mapping[str, Mapping[Any, float] | None]  # shares of the values of a column
N_SHOWN = 8  # categories that a message lists at most
MOST_DRAWS, MOST_CANDIDATES = 1_000, 50_000
"""Draws of a row until it is lawful, and rows that are drawn at a time beyond one for each."""
LEAST_ACCEPTED, ENOUGH = 1e-3, 20_000
"""Share of lawful rows below which drawing on is given up, once so many rows are drawn."""
HOLE_DRAWS, ROWS_AT_ONCE = 200, 2_000
"""The same for a row whose missing cells are filled in, and rows that are filled in at a time."""
BATCHES, FIRST_OF_GROUP = 7, 64
"""Batches of candidates for a row, each twice as large, and candidates of rows that know the same in the first one."""
MOST_AT_ONCE = 200_000  # candidates that are in memory at a time


class NoCandidate(JobError):
    """Next to no row that a model draws holds what is known of one."""


class NoRows(JobError):
    """Next to no lawful row goes with what is known of some. `rows`: their positions, shape (k,)."""

    def __init__(self, message: str, rows: np.ndarray) -> None:
        super().__init__(message)
        self.rows = rows


Candidates = tuple[np.ndarray, Callable[[np.ndarray], pd.DataFrame]]


def accept_by_weight(
    groups: np.ndarray, candidates: Callable[[np.ndarray], Candidates], rng: np.random.Generator
) -> pd.DataFrame:
    """A row for each place, drawn among candidates by how likely these make what is known of it.

    Rows that know the same bound each other's weights, and each takes the first of its own candidates that is accepted
    (rejection). Rows for which none is, take one of the last batch by weight. None stands for two rows.
    `groups`: a number for every row, equal where the same is known. `candidates`: their log weights for the rows at
    some positions, which may repeat, and the function that makes a table of some of them.
    """
    pending, bounds = np.arange(len(groups)), np.full(int(groups.max(initial=-1)) + 1, -np.inf)
    wanted = -(-FIRST_OF_GROUP // np.bincount(groups, minlength=len(bounds)))
    tables: list[pd.DataFrame] = []
    positions: list[np.ndarray] = []
    for batch in range(BATCHES):
        left = []
        repeats = np.maximum(wanted[groups[pending]], 2**batch) if batch == 0 else np.full(len(pending), 2**batch)
        for some in np.array_split(np.arange(len(pending)), -(-int(repeats.sum()) // MOST_AT_ONCE)):
            rows = np.repeat(pending[some], repeats[some])
            log_weights, table_of = candidates(rows)
            np.maximum.at(bounds, groups[rows], log_weights)
            with np.errstate(invalid="ignore"):
                is_accepted = rng.random(len(rows)) < np.exp(log_weights - bounds[groups[rows]])
            if batch == BATCHES - 1:  # by Gumbel noise, the largest of each row is one of its candidates by weight
                order = np.lexsort((-(log_weights + rng.gumbel(size=len(rows))), ~is_accepted, rows))
                chosen = order[np.unique(rows[order], return_index=True)[1]]
            else:
                accepted = np.flatnonzero(is_accepted)
                chosen = accepted[np.unique(rows[accepted], return_index=True)[1]]
            tables.append(table_of(chosen))
            positions.append(rows[chosen])
            left.append(np.setdiff1d(pending[some], rows[chosen], assume_unique=True))
        pending = np.concatenate(left)
        if len(pending) == 0:
            break
    if np.isneginf(bounds).any():
        raise NoCandidate(
            "next to no row that the model draws holds what is given; give values that go together, or fewer of them"
        )
    order = np.argsort(np.concatenate(positions))
    return pd.concat(tables, ignore_index=True).take(order).reset_index(drop=True)


@dataclass(frozen=True, eq=False)
class KnownRows:
    """Rows of which some cells are known.
    `cells`: of learned columns, canonical. `counted`: of those that a model conditions on. `is_known`: of these cells.
    `named`: the columns as they were asked for.
    """

    schema: Schema
    cells: pd.DataFrame
    counted: pd.DataFrame
    is_known: pd.DataFrame
    named: tuple[str, ...]
    has_holes: bool = False
    n_drawn: list[int] = field(default_factory=lambda: [0])

    @classmethod
    def given(
        cls, given: Any, balance: Balance | None, n_rows: int, model: "TableModel", rng: np.random.Generator
    ) -> Self:
        """Rows from values by column, or a table of them with a row for each."""
        schema, read = model.schema, read_given({} if given is None else given, model.schema)
        cells = read if len(read) == n_rows else read.take(np.zeros(n_rows, dtype=int)).reset_index(drop=True)
        if balance:
            name, values, shares = _balanced(balance, cells, model.discretizer, schema)
            counts = round_counts(np.array([shares]), np.array([n_rows]), rng)[0]
            chosen = rng.permutation(np.repeat(np.arange(len(values)), counts))
            cells[name] = values.take(chosen).reset_index(drop=True)
        named, completed_cells = tuple(map(str, cells)), _with_determinants(cells, schema, refuse=True)
        computed = {n for n, what in schema.worked_out.items() if not {n, *what.parents} <= {*completed_cells}}
        known = [n for n in completed_cells if n not in schema.equivalents and n not in computed]
        counted = to_counted(completed_cells[known], schema)
        counted = counted[[n for n in counted if n in model.discretizer.sizes]]
        rows = cls(schema, completed_cells, counted, counted.isna() | True, named)
        rows.check(model.discretizer)
        return rows

    @classmethod
    def with_holes(cls, frame: pd.DataFrame, model: "TableModel") -> Self:
        """Rows of a canonical table whose missing cells are to be drawn."""
        cells = _with_determinants(frame[list(model.schema.learned)], model.schema)
        counted = to_counted(cells, model.schema)[list(model.discretizer.sizes)]
        return cls(model.schema, cells, counted, counted.notna(), tuple(map(str, cells)), has_holes=True)

    def check(self, discretizer: Discretizer) -> None:
        """Refuse values that break a constraint by themselves, or that no synthetic row has."""
        unlawful = np.zeros(len(self.cells), dtype=bool)
        for constraint in self.schema.constraints:
            if not isinstance(constraint, Unique) and {*constraint.columns} <= {*self.cells}:
                unlawful |= broken(self.cells, constraint, self.schema.columns)
        for attribute in discretizer.attributes:
            if attribute.name in self.counted:
                unlawful |= np.isin(attribute.codes(self.counted[attribute.name]), attribute.impossible)
        if unlawful.any():
            raise self._no_rows(np.flatnonzero(unlawful))

    def drawn(self, model: "TableModel", rng: np.random.Generator, part: Part | None = None) -> pd.DataFrame:
        """Lawful rows of the learned columns, in order, with exactly the cells that are known."""
        table, kept = self._lawful(model, rng, Keys(self.schema, part), MOST_DRAWS)
        if len(kept) < len(self.cells):
            apart = {p for n, what in self.schema.worked_out.items() if n in self.cells for p in what.parents}
            if not (needed := sorted(apart - {*self.cells})):
                raise self._no_rows(np.setdiff1d(np.arange(len(self.cells)), kept))
            raise JobError(
                f"given={sorted(self.named)} is worked out from other columns, and next to no row has what is given; "
                f"give {', '.join(needed)}, too"
            )
        table.attrs[REJECTED] = self.n_drawn[0] - len(table)
        return table

    def _no_rows(self, rows: np.ndarray) -> NoRows:
        return NoRows(
            f"the model has no rows that meet what is given: columns={sorted(self.named)}; give values that go "
            "together, or fewer of them",
            rows,
        )

    def filled(self, model: "TableModel", rng: np.random.Generator) -> pd.DataFrame:
        """The rows with their missing cells drawn; where no draw is lawful, those that constraints bear on stay."""
        bound = {name for constraint in self.schema.constraints for name in constraint.columns}
        table, kept = self._lawful(model, rng, None, HOLE_DRAWS)
        whole, left = self.cells.copy(), np.setdiff1d(np.arange(len(self.cells)), kept)
        names = filled_columns(self.schema)
        for name in names:
            whole[name] = _merged(whole[name], table[name].set_axis(kept).reindex(whole.index))
        if len(left):
            drawn, _ = self._judged(left, model, rng, None)
            pool, _ = completed(model.drawn(ROWS_AT_ONCE, rng), self.schema)
            for name in (n for n in names if n not in bound):
                whole[name] = _merged(whole[name], drawn[name].set_axis(left).reindex(whole.index))
                some, empty = pool[name].dropna(), whole[name].isna().to_numpy()
                if empty.any() and len(some):  # given the others the model has them missing alone
                    whole.loc[empty, name] = some.iloc[rng.integers(len(some), size=int(empty.sum()))].array
        return whole

    def _lawful(
        self, model: "TableModel", rng: np.random.Generator, keys: Keys | None, most: int
    ) -> tuple[pd.DataFrame, np.ndarray]:
        """Lawful rows, and the positions for which there is one, ascending; each is drawn anew until it is."""
        pending, tries, n_kept = np.arange(len(self.cells)), 0, 0
        tables: list[pd.DataFrame] = []
        positions: list[np.ndarray] = []
        while len(pending) and tries < most:
            repeats = max(min(tries + 1, most - tries, MOST_CANDIDATES // len(pending)), 1)
            rows = np.repeat(pending, repeats)
            table, is_lawful = self._judged(rows, model, rng, keys)
            lawful = np.flatnonzero(is_lawful)
            chosen = lawful[np.unique(rows[lawful], return_index=True)[1]]
            if keys is not None:
                keys.add(table.iloc[chosen])
                self.n_drawn[0] += len(rows) if len(chosen) < len(pending) else int(chosen.max(initial=-1)) + 1
            tables.append(table.iloc[chosen])
            positions.append(rows[chosen])
            pending, tries, n_kept = np.setdiff1d(pending, rows[chosen]), tries + repeats, n_kept + len(chosen)
            if keys is not None and self.n_drawn[0] >= ENOUGH and n_kept < LEAST_ACCEPTED * self.n_drawn[0]:
                break
        if keys is not None:
            keys.remember()
        kept = np.concatenate(positions)
        order = np.argsort(kept)
        return pd.concat(tables, ignore_index=True).take(order).reset_index(drop=True), kept[order]

    def _judged(
        self, rows: np.ndarray, model: "TableModel", rng: np.random.Generator, keys: Keys | None
    ) -> tuple[pd.DataFrame, np.ndarray]:
        """Rows drawn at some positions, which may repeat, and which of them are lawful."""
        parts = (self.cells, self.counted, self.is_known)
        cells, counted, is_known = (part.iloc[rows].reset_index(drop=True) for part in parts)
        drawn = _fixed(_drawn(model, counted, is_known, rng), counted, is_known)
        drawn = _fixed(with_dependents(drawn, self.schema), counted, is_known)
        table, unlawful = completed(drawn, self.schema)
        if self.has_holes:
            names = filled_columns(self.schema)
            table = pd.DataFrame({name: _merged(cells[name], table[name]) for name in table.columns})
            unlawful |= table[names].isna().any(axis=1).to_numpy()
            for each in self.schema.constraints:
                if not (isinstance(each, Unique) or each.looks_back) and {*each.columns} <= {*table.columns}:
                    unlawful |= broken(table, each, self.schema.columns)
            return table, ~unlawful
        for name in cells:
            if name in self.schema.worked_out or name in self.schema.equivalents:
                unlawful |= _differ(table[name], cells[name])
        lawful = np.flatnonzero(~unlawful)
        if keys is not None and len(lawful):
            unlawful[lawful] = keys.repeats(table.iloc[lawful])
        return table.assign(**{str(name): cells[name] for name in cells}), ~unlawful


def _fixed(drawn: pd.DataFrame, counted: pd.DataFrame, is_known: pd.DataFrame) -> pd.DataFrame:
    """The rows with exactly the cells that are known."""
    known = {n: counted[n].astype(drawn[n].dtype).where(is_known[n], drawn[n]) for n in map(str, counted)}
    return drawn.assign(**known)


def _drawn(
    model: "TableModel", counted: pd.DataFrame, is_known: pd.DataFrame, rng: np.random.Generator
) -> pd.DataFrame:
    """Modeled columns of rows, those together that know the same columns."""
    if len(counted.columns) == 0:  # all that is known is computed from other columns
        return model.drawn(len(counted), rng)
    flags = is_known.to_numpy()
    patterns, which = np.unique(flags, axis=0, return_inverse=True)
    if len(patterns) <= 1 and flags.all():
        return model.drawn_given(counted, rng)
    order = np.argsort(which.ravel(), kind="stable")
    pieces = np.split(order, np.flatnonzero(np.diff(which.ravel()[order])) + 1)
    tables = []
    for some in pieces:
        known = counted.iloc[some].loc[:, flags[some[0]]].reset_index(drop=True)
        try:
            tables.append(model.drawn_given(known, rng) if len(known.columns) else model.drawn(len(known), rng))
        except NoCandidate:  # no model has such a row, which is real: its missing cells are those of any row
            tables.append(model.drawn(len(known), rng))
    return pd.concat(tables, ignore_index=True).take(np.argsort(order)).reset_index(drop=True)


def fill_in(frame: pd.DataFrame, model: "TableModel", seed: int | None) -> pd.DataFrame:
    """The table in canonical form, missing cells of modeled and computed columns drawn given the others of their row.

    Values are drawn as if cells were missing at random given the row. Cells of identifiers, personal data and text stay
    missing. So do those of keys and of columns that are constant within an entity: rows are filled in one by one.

    DEVIATES: Rubin 1987 draws the model's parameters anew for each imputation. Here all draws are from one model, so
    that their spread lacks the uncertainty of the model.
    `frame`: *Sensitive*. Rows that fit the schema, but for missing cells, which any column may have.
    """
    rng, names = np.random.default_rng(seed), filled_columns(model.schema)
    table = conform(frame, with_missing(model.schema), part=True)
    holes = np.flatnonzero(table[names].isna().any(axis=1).to_numpy())
    for start in range(0, len(holes), ROWS_AT_ONCE):
        some = holes[start : start + ROWS_AT_ONCE]
        filled = KnownRows.with_holes(table.iloc[some].reset_index(drop=True), model).filled(model, rng)
        for name in names:
            table.loc[some, name] = filled[name].array
    table = table.set_axis(frame.index)
    table.attrs[UNFILLED] = int(table[names].isna().any(axis=1).sum())
    return table


def filled_columns(schema: Schema) -> list[str]:
    """Those that a model holds or computes, and that no other row bears on."""
    keys = {name for c in schema.constraints if isinstance(c, Unique) for name in c.columns}
    return [name for name in schema.learned if name not in keys | {*schema.constant_in_entity}]


def with_missing(schema: Schema) -> Schema:
    """The schema of rows that are to be filled in: any cell may be missing."""
    optional = {name: column.model_copy(update={"missing": True}) for name, column in schema.columns.items()}
    return schema.model_copy(update={"columns": optional})


def read_given(given: Any, schema: Schema, more: tuple[str, ...] = ()) -> pd.DataFrame:
    """Canonical columns of what is given: one row, or a table. `more`: names beside learned ones."""
    if isinstance(given, Mapping):
        if not given:
            return pd.DataFrame(index=pd.RangeIndex(1))
        given = pd.DataFrame({name: pd.Series([value], dtype=object) for name, value in given.items()}, index=[0])
    table = Table.of(given, named=False)
    _check_names([name for name in table.names if name not in more], schema)
    if not table.names:
        return pd.DataFrame(index=pd.RangeIndex(1))
    # A value is read as it stands, whatever other columns it is modeled by.
    columns = {name: schema.columns[name].model_copy(update={"modeled": None}) for name in table.names}
    named = Schema(status=schema.status, missing_values=schema.missing_values, columns=columns)
    chunk = table.chunk(named, clamp=False)
    for name, bits in chunk.faults.items():
        if (bits & BIT[Fault.MISSING]).any():
            raise JobError(f"given={name!r} is never missing, as its schema says; give a value")
        if bits.any():
            raise JobError(f"given={name!r} must be {_allowed(columns[name])}; give a value that its schema allows")
    return chunk.frame(schema, table.names)


def _check_names(names: Sequence[str], schema: Schema) -> None:
    """Refuse columns on which no condition can be."""
    formulas = {each.column: each for each in schema.constraints if isinstance(each, Formula)}
    for name in names:
        if name not in schema.columns:
            raise JobError(f"given={name!r} is not a column; {nearest(str(name), schema.modeled)}")
        if name in formulas:
            operands = ", ".join(formulas[name].operands)
            raise JobError(f"given={name!r} is computed by a formula; give its operands: {operands}")
        if name not in schema.learned:
            kind = schema.columns[name].kind
            raise JobError(f"given={name!r} is dropped or of kind {kind}, which no model learns; give another")


def _balanced(
    balance: Balance, cells: pd.DataFrame, discretizer: Discretizer, schema: Schema
) -> tuple[str, pd.Series, list[float]]:
    """A balanced column, its values and their shares."""
    if len(balance) > 1 or {*cells} & balance.keys():
        raise JobError(f"balance={sorted(balance)} must be one column that is not given; name one")
    ((name, shares),) = balance.items()
    asked = dict.fromkeys(_values(name, discretizer, schema), 1.0) if shares is None else dict(shares)
    weights = list(asked.values())
    if not asked or not all(0 <= weight < np.inf for weight in weights) or not sum(weights) > 0:
        raise JobError(f"balance={name!r} must give each value a share of at least 0, and some more; correct them")
    kept = [value for value, weight in asked.items() if weight > 0]
    values = pd.concat([read_given({name: value}, schema)[name] for value in kept], ignore_index=True)
    return name, values, [weight for weight in weights if weight > 0]


def _values(name: str, discretizer: Discretizer, schema: Schema) -> list[Any]:
    """The values that a balanced column has: its categories that the model holds."""
    attribute = next((each for each in discretizer.attributes if each.name == name and name in schema.columns), None)
    if attribute is None or attribute.edges is not None:
        raise JobError(f"balance={name!r} is no modeled column of categories; give the share of each value")
    if (own := schema.columns[name]).modeled is not None:
        return list(own.tokens if own.is_boolean else own.levels)
    values = [value for value, mass in zip(attribute.column.levels, attribute.mass, strict=False) if mass > 0]
    return [attribute.column.tokens[int(value)] for value in values] if attribute.column.is_boolean else values


def _with_determinants(cells: pd.DataFrame, schema: Schema, *, refuse: bool = False) -> pd.DataFrame:
    """The rows with each determinant that is missing beside a column that it would determine, and that tells it.
    `refuse`: values that are in no listed combination.
    """
    columns = {str(name): cells[name] for name in cells.columns}
    for name, dependency in schema.equivalents.items():
        if name in columns:
            column, inverse = schema.columns[dependency.determinant], dependency.inverse
            values = canonical(tuple(inverse.values()), column)
            listed = pd.Index(canonical(tuple(inverse), schema.columns[name]).array)
            positions = listed.get_indexer(pd.Index(columns[name].array))
            if refuse and (positions < 0).any():
                raise JobError(f"given={name!r} has a value that is in no listed combination; give another")
            told = values.take(np.maximum(positions, 0)).set_axis(cells.index)
            is_told = (positions >= 0) & columns[name].notna().to_numpy()
            told = told.where(is_told, None if told.dtype == object else pd.NA)
            known = columns.get(dependency.determinant)
            columns[dependency.determinant] = told if known is None else _merged(known, told)
    return pd.DataFrame(columns, index=cells.index, copy=False)


def _differ(first: pd.Series, second: pd.Series) -> np.ndarray:
    """True where two values differ; missing ones are alike."""
    missing = first.isna().to_numpy(), second.isna().to_numpy()
    differs = (first.astype(object) != second.astype(object)).to_numpy(dtype=bool)
    return np.asarray(np.where(missing[0] | missing[1], missing[0] != missing[1], differs))


def _allowed(column: Any) -> str:
    if column.is_boolean:
        return f"one of {list(column.tokens)}"
    if column.is_categorical:
        more = len(column.levels) - N_SHOWN
        return f"one of {', '.join(map(repr, column.levels[:N_SHOWN]))}{f' and {more} more' if more > 0 else ''}"
    bounds = getattr(column, "bounds", None)  # an identifier by a template has none
    return f"of kind {column.kind}{f' and within {bounds[0]} and {bounds[1]}' if bounds else ''}"


def _merged(known: pd.Series, drawn: pd.Series) -> pd.Series:
    """The known cells, and drawn ones where they are missing."""
    return known.where(known.notna(), drawn.astype(known.dtype))
