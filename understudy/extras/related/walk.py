"""The walk over related tables, parents first: what a row of each is drawn given, and how it comes to name its parents.

Each row is drawn below one parent, the *first*, whose columns it is drawn given, and those of the parents above. Of a
*further* parent the columns are drawn with the row's own, and a row of it that is like these is named afterwards. The
key of a lookup table that is taken over is a category. Names of columns of other tables are "table.column".
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from pydantic import Field, ValidationError

from synth.constraints import Formula, Inequality
from synth.errors import SchemaError
from synth.generators.trees import LEAST_UNITS
from synth.infer import infer_schema
from synth.infer.relations import add_modeled, find
from synth.schema import Schema
from synth.schema.residual_schema import free_name
from synth.table import conform
from synth.validation import Frozen
from understudy.extras.related.keys import ForeignKey, Keys, Positions, candidates, followed, hidden_columns, taken

LABELED = 100  # rows of a lookup table whose key is learned as a category; of a larger one, its columns are
SAME = 0.99  # share of rows whose parent and whose first parent lie below one row further up, for this to be a rule
MOST_MEASURED = 20_000  # rows that are looked at to choose a first parent
FEWEST_UNITS = 400  # rows of a first parent that are units where none is named
LABEL_MARK = " | "  # between the parts of a key of several columns, where it is a category


class Further(Frozen):
    """A parent that a row names beside its first one."""

    key: ForeignKey
    prefix: str = Field(description="What the names of its columns begin with.")
    columns: tuple[str, ...] = ()  # of the parent, drawn with the row
    there: str | None = None  # column of whether it is named; `None`: it always is
    label: str | None = None  # column of the key as a category
    count: str | None = None  # column of the parent that holds how many rows name it so
    within: str | None = None  # table of which this parent and the first one lie below the same row
    before: bool = False  # whether rows name it before they are drawn, given its columns
    total: str | None = None  # column of that table that holds how many rows below it name such a parent


class Step(Frozen):
    """How the rows of one table are drawn."""

    table: str
    first: ForeignKey | None = None
    further: tuple[Further, ...] = ()
    implied: tuple[tuple[ForeignKey, str], ...] = ()  # keys that name the row of a table above
    inherited: tuple[str, ...] = ()  # columns that a row is drawn given, as the model names them
    count: str | None = None  # column of the first parent that holds how many rows it has
    beyond: tuple[int, float] = (0, 0.0)  # more rows that one of the highest count has at most, and on average
    loose: float = 0.0  # rows without a first parent, for each row of that table
    carried: tuple[str, ...] = ()  # its own columns that rows below are drawn given


@dataclass(frozen=True)
class Walk:
    """Real tables as they are fitted, *Sensitive*, and how each is drawn. `above`: rows of tables above, by table."""

    keys: Keys
    keep: frozenset[str]
    private: bool
    declared: Mapping[str, Schema]  # of whole tables, as they were given
    own: Mapping[str, Schema]  # of the columns that are no keys
    unit: str | None = None  # table whose rows are units, where there is no promise
    steps: dict[str, Step] = field(default_factory=dict)
    schemas: dict[str, Schema] = field(default_factory=dict)
    rows: dict[str, pd.DataFrame] = field(default_factory=dict)
    above: dict[str, dict[str, Positions]] = field(default_factory=dict)
    learned: set[str] = field(default_factory=set)  # tables with something to learn beside what they inherit

    @property
    def roots(self) -> list[str]:
        return [name for name, step in self.steps.items() if step.first is None]


def lay_out(
    tables: Mapping[str, pd.DataFrame], parents: Mapping[str, Mapping[ForeignKey, Positions]], keys: Keys,
    keep: Collection[str], schemas: Mapping[str, Schema], *, private: bool, unit: str | None = None,
) -> Walk:  # fmt: skip
    """The tables as they are fitted. `tables`, `parents`: *Sensitive*. With valid keys; of a private fit `bounded`.

    Without a promise, tables that have no rows are left out, and keys to them, which are missing.
    """
    own = dict[str, Schema]()
    drawn = [name for name in keys.order if name not in keep and (private or len(tables[name]))]
    for name in drawn:
        hidden = hidden_columns(keys, name)
        shown = [column for column in map(str, tables[name]) if column not in hidden]
        if not shown:
            continue
        declared = name in schemas
        schema = without(schemas[name], hidden) if declared else infer_schema(tables[name][shown], propose_entity=False)
        if schema is not None and schema.kept:
            own[name] = schema
    walk = Walk(keys, frozenset(keep), private, schemas, own, unit)
    for name in drawn:
        _add_table(walk, name, tables, parents)
    for name in walk.steps:  # numbers of rows below, which are known once the steps are
        _join(walk, name, tables, parents)
    return walk


def without(schema: Schema, hidden: Collection[str]) -> Schema | None:
    """A schema without some columns, keys; `None` where no other is left."""
    columns = {name: column for name, column in schema.columns.items() if name not in hidden}
    if not columns:
        return None
    roles: dict[str, Any] = {name: tuple(c for c in getattr(schema, name) if c in columns)
                             for name in ("sensitive", "quasi_identifiers")}  # fmt: skip
    roles |= {"target": schema.target if schema.target in columns else None, "task": None, "parties": ()}
    roles["n_units"] = None  # of the table of units alone
    if schema.order is None or schema.order in hidden:
        roles |= {"order": None, "nondecreasing_in_entity": (), "entity": None, "constant_in_entity": ()}
        roles["max_rows_per_unit"] = 1
    else:  # the parent's row stands for the entity
        columns = {str(schema.entity): schema.columns[str(schema.entity)], **columns}
    kept = tuple(each for each in schema.constraints if {*each.columns} <= columns.keys())
    return Schema.model_validate({**dict(schema), **roles, "columns": columns, "constraints": kept})


def _add_table(
    walk: Walk, name: str, tables: Mapping[str, pd.DataFrame], parents: Mapping[str, Mapping[ForeignKey, Positions]]
) -> None:
    """Choose the first parent of a table, and what becomes of its other keys."""
    keys, frame, at = walk.keys, tables[name], parents[name]
    full = [k for k in keys.tables[name].foreign if walk.private or len(tables[k.table])]
    options = [key for key in candidates(keys, name, walk.keep) if key in full]
    first = options[0] if options else None
    if len(options) > 1 and not walk.private:
        first = max(
            options, key=lambda key: (-round(float((at[key] < 0).mean()), 2), _clustering(walk, name, frame, at[key]))
        )
    above = walk.above[name] = {}
    if first is not None:
        above[first.table] = at[first]
        above |= {table: followed(at[first], rows) for table, rows in walk.above[first.table].items()}
    assigned = {*first.columns} if first else set()
    further, implied = list[Further](), list[tuple[ForeignKey, str]]()
    for key in sorted(full, key=lambda key: -len(key.columns)):
        if {*key.columns} <= assigned:
            continue
        if assigned & {*key.columns}:
            raise SchemaError(
                f"{name}: {key} shares some of its columns with another key, and not all; take one of them out"
            )
        assigned |= {*key.columns}
        if key.table in above and (walk.private or _agree(above[key.table], at[key]) >= SAME):
            implied.append((key, key.table))
            continue
        further.append(_further(walk, name, key, at[key], above))
    loose = float((at[first] < 0).sum() / max(len(tables[first.table]), 1)) if first else 0.0
    walk.steps[name] = Step(table=name, first=first, further=tuple(further), implied=tuple(implied), loose=loose)


def _further(walk: Walk, name: str, key: ForeignKey, at: Positions, above: Mapping[str, Positions]) -> Further:
    twice = sum(other.table == key.table for other in walk.keys.tables[name].foreign) > 1
    prefix = f"{'+'.join(key.columns)}->{key.table}" if twice else key.table
    if walk.private:  # by what is declared; a parent that is drawn counts within the unit alone
        known = walk.declared[name].columns
        may_lack = key.table not in walk.keep or any(known[c].missing for c in key.columns if c in known)
    else:
        may_lack = bool((at < 0).any())
    there = f"{prefix} is there" if may_lack else None
    if key.table in walk.keep:
        return Further(key=key, prefix=prefix, there=there)
    theirs, within = walk.above[key.table], None
    if walk.private:
        within = next(iter(reversed(theirs)), None)
    else:
        for table, rows in theirs.items():
            if table in above and _agree(above[table], followed(at, rows)) >= SAME:
                within = table
                break
    # Of the few rows that it may name, each gets its number of rows before these are drawn, given its columns.
    own = walk.own.get(name)
    before = within is not None and (own is None or own.order is None)
    return Further(key=key, prefix=prefix, there=there, within=within, before=before)


def _agree(one: Positions, other: Positions) -> float:
    both = (one >= 0) & (other >= 0)
    return float((one[both] == other[both]).mean()) if both.any() else 0.0


def _clustering(walk: Walk, name: str, frame: pd.DataFrame, at: Positions) -> float:
    """How much more alike the rows of one parent are than any: omega squared, a mean over columns."""
    schema = walk.own.get(name)
    rows = np.flatnonzero(at >= 0)[:MOST_MEASURED]
    if schema is None or len(rows) < 10:
        return 0.0
    groups, shares = np.unique(at[rows], return_inverse=True)[1], []
    sizes = np.bincount(groups)
    for column in (c for c in schema.learned if c in frame):
        values = pd.Series(pd.factorize(frame[column].iloc[rows], sort=False)[0])
        if not pd.api.types.is_object_dtype(frame[column].dtype):
            values = frame[column].iloc[rows].rank()
        x = values.fillna(0).to_numpy(dtype=np.float64)
        x -= x.mean()
        between = float((np.bincount(groups, x) ** 2 / sizes).sum())
        within = float((x**2).sum()) - between
        error = within / max(len(rows) - len(sizes), 1)
        shares.append((between - (len(sizes) - 1) * error) / max(between + within + error, 1e-12))
    return float(np.mean(shares)) if shares else 0.0


def labels(frame: pd.DataFrame, key: Sequence[str]) -> np.ndarray:
    """The key of each row of a lookup table as a text."""
    parts = [frame[name].map(str) for name in key]
    return np.array([LABEL_MARK.join(row) for row in zip(*parts, strict=True)], dtype=object)


@dataclass
class _Joined:
    """The rows of one table with what they are drawn given and drawn with. Cells: *Sensitive*."""

    n: int
    columns: dict[str, Any] = field(default_factory=dict)
    cells: dict[str, pd.Series] = field(default_factory=dict)

    def add(self, name: str, column: Any, cells: Any) -> str:
        """Add a column; one of a name that is taken gets another."""
        name = free_name(name, self.columns)
        self.columns[name], self.cells[name] = column, pd.Series(cells).reset_index(drop=True)
        return name


def _join(
    walk: Walk, name: str, tables: Mapping[str, pd.DataFrame], parents: Mapping[str, Mapping[ForeignKey, Positions]]
) -> None:
    """The rows of a table with what they are drawn given and drawn with, and the schema of these."""
    step, own, joined = walk.steps[name], walk.own.get(name), _Joined(len(tables[name]))
    inherited = [] if step.first is None else _inherit(walk, step, step.first.table, parents[name][step.first], joined)
    further = []
    for each in sorted(step.further, key=lambda each: not each.before):
        each, names = _with_further(walk, name, each, tables, parents[name][each.key], joined)
        inherited += names if each.before else []
        further.append(each)
    if own is not None:
        _add_own(walk, name, own, tables[name], joined)
    n_given = len(inherited)
    counts = _add_counts(walk, name, parents, joined)
    carried = [c for c in (own.modeled if own is not None else ()) if own is not None and own.columns[c].part is None]
    carried += [each.label for each in further if each.label] + ([] if walk.private else counts)
    if len(joined.columns) > n_given:
        walk.learned.add(name)
    base = _with_unit(walk, name, inherited, joined)
    if joined.columns:
        walk.schemas[name] = Schema.model_validate({**base, "columns": joined.columns})
    walk.rows[name] = pd.DataFrame(joined.cells, index=pd.RangeIndex(joined.n))
    if own is not None and own.order is None and not walk.private:
        walk.schemas[name] = _with_relations(walk.schemas[name], walk.rows[name], own.columns, inherited)
    changes = {"inherited": tuple(inherited), "further": tuple(further), "carried": tuple(carried)}
    walk.steps[name] = step.model_copy(update=changes)


def _with_relations(schema: Schema, rows: pd.DataFrame, own: Collection[str], inherited: Collection[str]) -> Schema:
    """The schema with what holds between own columns and others, as of one table. `rows`: *Sensitive*.

    Columns that rows are drawn given are never computed. Of declared own columns nothing is a law that nobody declared.
    """
    modeled = {name: column for name, column in schema.columns.items() if column.modeled is not None}
    if schema.status == "declared" and modeled:
        return schema
    laws, relations = find(rows[list(schema.kept)], schema, laws=schema.status == "inferred", given=inherited)
    columns = {**schema.columns, **{name: _as_operand(c, missing=c.missing) for name, c in modeled.items()}}
    schema = schema.model_copy(update={"status": "inferred", **({"columns": columns} if relations else {})})
    for law in laws:
        if isinstance(law, Formula | Inequality) and len({*law.columns} & {*own}) not in (0, len({*law.columns})):
            with suppress(ValidationError):  # beside the others
                schema = Schema.model_validate({**dict(schema), "constraints": (*schema.constraints, law)})
    return add_modeled(schema, relations)


def sources(above: Step) -> dict[str, str]:
    """What rows below a table inherit: its columns, as its model names them, by what they are called below."""
    return {**{each: each for each in above.inherited}, **{c: f"{above.table}.{c}" for c in above.carried}}


def _inherit(walk: Walk, step: Step, parent: str, at: Positions, joined: _Joined) -> list[str]:
    """The columns of the first parent, and those that it inherits itself."""
    may_lack = bool((at < 0).any()) and not walk.private
    for source, target in sources(walk.steps[parent]).items():
        column = walk.schemas[parent].columns[source]
        joined.columns[target] = _as_operand(column, missing=column.missing or may_lack)
        joined.cells[target] = taken(walk.rows[parent][source], at)
    return list(joined.columns)


def _add_own(walk: Walk, name: str, own: Schema, frame: pd.DataFrame, joined: _Joined) -> None:
    if clash := next((c for c in own.columns if c in joined.columns), None):
        raise SchemaError(f"{name}: column={clash!r} has the name of an inherited one; rename it")
    rows = frame[[c for c in own.written if c in frame]]
    if own.order is not None:  # the row of the parent stands for the entity: see `_with_unit`
        columns = {**own.columns, str(own.entity): {"kind": "identifier", "bounds": (0, 2**53)}}
        own, rows = Schema.model_validate({**dict(own), "columns": columns}), rows.assign(**{str(own.entity): 0})
    canonical = conform(rows, own, outside="clamp" if walk.private else "refuse", part=len(rows) == 0)
    joined.columns |= dict(own.columns)
    joined.cells |= {c: canonical[c] for c in own.kept}


def _add_counts(
    walk: Walk, name: str, parents: Mapping[str, Mapping[ForeignKey, Positions]], joined: _Joined
) -> list[str]:
    """Numbers of rows below each row, of those that name it, and of those below it that name something within."""
    counts = []

    def add(words: str, numbers: np.ndarray, most: int) -> str:
        most = most if walk.private else int(numbers.max(initial=0))
        column = {"kind": "integer", "bounds": (0, most)}
        counts.append(joined.add(words, column, pd.array(np.minimum(numbers, most), dtype="Int64")))
        return counts[-1]

    for child, step in walk.steps.items():
        for key in (key for key in walk.keys.tables[child].foreign if key.table == name):
            numbers = _numbers(parents[child][key], joined.n)
            if key == step.first:
                numbers, beyond = (numbers, (0, 0.0)) if walk.private else _capped(numbers, _unit_of(walk, name)[1])
                count = add(f"rows of {child}", numbers, _most(walk.keys, child, walk))
                _change(walk, child, key, count=count, beyond=beyond)
            elif any(each.key == key for each in step.further):
                most, words = of_unit(walk.keys, child, walk), f"rows of {child} by {'+'.join(key.columns)}"
                _change(walk, child, key, count=add(words, numbers, most))
        for each in (each for each in step.further if each.before and each.within == name):
            at = np.where(parents[child][each.key] >= 0, walk.above[child][name], -1)
            numbers = _numbers(at, joined.n)
            total = add(f"rows of {child} with {each.prefix}", numbers, of_unit(walk.keys, child, walk))
            _change(walk, child, each.key, total=total)
    return counts


def _numbers(at: Positions, n: int) -> np.ndarray:
    return np.bincount(at[at >= 0], minlength=n)


def _capped(numbers: np.ndarray, units: Positions | None) -> tuple[np.ndarray, tuple[int, float]]:
    """Numbers of rows with those cut off that few units have, and how many more of these there are: most and mean.

    A generator gives what few units hold to the value beside it, so that each level would have fewer rows.
    """
    weights = np.ones(len(numbers))
    if units is not None:
        _, which, sizes = np.unique(units, return_inverse=True, return_counts=True)
        weights /= sizes[which]
    at_least = np.bincount(numbers, weights, minlength=1)[::-1].cumsum()[::-1]
    cap = int(np.flatnonzero(at_least >= min(LEAST_UNITS, at_least[0]))[-1])
    more = numbers[numbers >= cap] - cap
    return np.minimum(numbers, cap), (int(more.max(initial=0)), float(more.sum() / max(len(more), 1)))


def _unit_of(walk: Walk, name: str) -> tuple[str | None, Positions | None]:
    """The table whose rows are the units of a table below it, and the unit of each row, a number of its own if none."""
    own, above = walk.own.get(name), walk.above[name]
    # Without a promise, and where no unit is named, it is the row of the first parent: what few hold is blurred. Where
    # there are few of them, as of regions, nothing would be left.
    many = (table for table in list(above)[:1] if len(walk.rows[table]) >= FEWEST_UNITS)
    table = next(reversed(above), None) if walk.private else walk.unit or next(many, None)
    if own is not None and own.order is not None:
        table = next(iter(above))
    if table not in above:
        return None, None
    return table, np.where(above[table] < 0, 2**40 + np.arange(len(above[table])), above[table])


def _with_unit(walk: Walk, name: str, inherited: Sequence[str], joined: _Joined) -> dict[str, Any]:
    """The schema but for its columns, one of which is added: that names the unit of each row."""
    own, (table, units) = walk.own.get(name), _unit_of(walk, name)
    base: dict[str, Any] = {"status": "inferred"} if own is None else dict(own)
    if units is not None and joined.columns:
        cells = pd.array(units, dtype="Int64")
        column = {"kind": "identifier", "bounds": (0, 2**53)}
        if own is not None and own.order is not None:
            unit = str(base["entity"])
            joined.columns[unit], joined.cells[unit] = column, pd.Series(cells)
            base["constant_in_entity"] = tuple(inherited)
        else:
            unit = joined.add(f"row of {table}", column, cells)
        base["entity"] = unit
        if walk.private:
            base["max_rows_per_unit"] = of_unit(walk.keys, name, walk)
    if walk.private:
        top = walk.declared[table or name]
        base |= {"n_units": top.n_units, "dataset": top.dataset, "status": "declared"}
    return base


def _change(walk: Walk, child: str, key: ForeignKey, **names: Any) -> None:
    """Note what the columns are called that hold numbers of rows of a child by one of its keys."""
    step = walk.steps[child]
    further = tuple(each.model_copy(update=names) if each.key == key else each for each in step.further)
    walk.steps[child] = step.model_copy(update=names if step.first == key else {"further": further})


def _as_operand(column: Any, *, missing: bool) -> Any:
    """A column as rows of another table hold it: its own value, whatever it is worked out from there."""
    return column.model_copy(update={"modeled": None, "missing": missing})


def with_measured(walk: Walk, name: str, fitted: Mapping[str, Schema]) -> Schema:
    """The schema of a table, inherited columns as they were measured where they come from."""
    step, schema = walk.steps[name], fitted.get(name) or walk.schemas[name]
    if step.first is None:
        return schema
    origins = {each: (step.first.table, source) for source, each in sources(walk.steps[step.first.table]).items()}
    origins |= {f"{each.prefix}.{c}": (each.key.table, c) for each in step.further if each.before for c in each.columns}
    columns = dict(schema.columns)
    for each, (table, source) in origins.items():
        column = with_measured(walk, table, fitted).columns[source]
        columns[each] = _as_operand(column, missing=columns[each].missing)
    return schema.model_copy(update={"columns": columns})


def _with_further(
    walk: Walk, name: str, each: Further, tables: Mapping[str, pd.DataFrame], at: Positions, joined: _Joined
) -> tuple[Further, list[str]]:
    """A further parent with the columns that are drawn for it, or given before, which are added."""
    start, table, optional = len(joined.columns), each.key.table, each.there is not None or walk.private
    if any(c.startswith(f"{each.prefix}.") for c in joined.columns):  # which a row inherits by another way
        prefix = f"{'+'.join(each.key.columns)}->{table}"
        there = None if each.there is None else f"{prefix} is there"
        each = each.model_copy(update={"prefix": prefix, "there": there})
    if each.there is not None:
        joined.columns[each.there] = {"kind": "boolean"}
        joined.cells[each.there] = pd.Series(pd.array(at >= 0, dtype="boolean"))
    if table in walk.keep and len(tables[table]) <= LABELED:
        names = labels(tables[table], walk.keys.tables[table].primary)
        values = {"kind": "categorical", "categories": tuple(sorted(names)), "missing": optional}
        label = joined.add(f"key of {each.prefix}", values, np.array([*names, None], dtype=object)[at])
        return each.model_copy(update={"label": label}), list(joined.columns)[start:]
    if table in walk.keep:
        plain = tables[table].drop(columns=list(hidden_columns(walk.keys, table)))
        schema = infer_schema(plain, propose_entity=False, constraints=False)
        cells, learned = conform(plain, schema, outside="clamp"), schema.modeled
    else:
        schema, cells, theirs = walk.schemas[table], walk.rows[table], walk.steps[table]
        above = () if each.within is None else joined.columns  # the row below which both are is the same
        learned = tuple(c for c in theirs.inherited if c not in above and ".rows of " not in c)
        learned += tuple(c for c in theirs.carried if not c.startswith("rows of "))
    for column in learned:
        target = f"{each.prefix}.{column}"
        known = schema.columns[column]
        joined.columns[target] = _as_operand(known, missing=known.missing or optional)
        joined.cells[target] = taken(cells[column], at)
    return each.model_copy(update={"columns": tuple(learned)}), list(joined.columns)[start:]


def _most(keys: Keys, name: str, walk: Walk) -> int:
    """Rows of a table that one row of its first parent has at most; 1 where these share a key."""
    own, first = keys.tables[name], walk.steps[name].first
    if own.most is None or (first is not None and {*own.primary} == {*first.columns}):
        return 1
    return own.most


def of_unit(keys: Keys, name: str, walk: Walk) -> int:
    """Rows of a table that one unit has at most: the product along the way up, or what is declared."""
    product, at = 1, name
    while (first := walk.steps[at].first) is not None:
        product, at = product * _most(keys, at, walk), first.table
    return min(product, keys.tables[name].most_of_unit or product)
