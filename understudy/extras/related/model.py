"""The model of related tables, which draws parents first, and saves and loads what it is made of."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Integral
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd

from evaluate.text import listed
from synth import identifiers
from synth.dp.statement import PrivacyStatement
from synth.errors import JobError, ModelError
from synth.generators.fit import check_seed
from synth.generators.models.given import NoRows
from synth.generators.registry import load_model
from synth.output import whole_folder
from synth.progress import Progress, quiet
from synth.schema import Schema
from synth.schema.kinds import IdentifierColumn
from synth.table import conform, present
from synth.table.table import as_they_are
from understudy.extras.related.keys import ForeignKey, Keys, Positions, comparable, followed, repeats, taken
from understudy.extras.related.matching import deal, match, without_pairs
from understudy.extras.related.walk import Further, Step, labels, sources

SLOT_DRAWS = 6  # draws of how often a row is named, where rows of one unit share a number of names
DESCRIPTION = "related.json"
"""The name of the file beside the models of the tables."""


@dataclass
class Drawn:
    """Synthetic rows of one table."""

    columns: pd.DataFrame  # as the model draws them, with inherited ones
    keys: pd.DataFrame
    above: dict[str, Positions]
    named: dict[ForeignKey, Positions] = field(default_factory=dict)  # rows of further parents, before they are drawn


@dataclass(frozen=True, repr=False)
class RelatedModel:
    """The models of related tables, and how their rows come to name each other.

    Attributes:
        keys: of the tables.
        statement: the privacy statement of all tables together; `None`: no formal guarantee.
        models: of the tables that are drawn, by name; of one that has nothing to learn there is none.
        kept: lookup tables, which are taken over as they are.
    """

    keys: Keys
    statement: PrivacyStatement | None
    models: Mapping[str, Any]
    kept: Mapping[str, pd.DataFrame]
    steps: Mapping[str, Step]
    columns: Mapping[str, tuple[str, ...]]  # of each table, in order
    made: Mapping[str, Mapping[str, IdentifierColumn]]  # keys that are made anew, by table and column
    dtypes: Mapping[str, Mapping[str, str]]  # of columns of keys; of tables that had no rows, of all
    n_rows: Mapping[str, int]  # of roots
    slots: Mapping[str, tuple[int, ...]]  # of large lookup tables: how often each row is named, by key
    backs: Mapping[str, Any]  # to the kinds of frames that came

    def __repr__(self) -> str:
        claim = "no formal guarantee" if self.statement is None else f"epsilon {self.statement.epsilon:.3g}"
        return f"<RelatedModel of {len(self.columns)} tables, {claim}>"

    def sample(
        self, n_roots: int | Mapping[str, int] | None = None, *, seed: int | None = None, progress: Progress = quiet
    ) -> dict[str, Any]:  # fmt: skip
        """Synthetic tables by name, each as its real one came. Free of charge, as often as wanted.

        Args:
            n_roots: rows of the table that is below none; of several such tables, rows by name. `None`: as many as were
                learned from.
            seed: the same seed gives the same tables; `None` draws fresh ones.
            progress: told what is being done.

        Raises:
            JobError: `n_roots` names no such table, or is no whole number from 1.
        """
        if seed is not None:
            check_seed(seed)
        wanted, rng = self._wanted(n_roots), np.random.default_rng(seed)
        drawn, tables = dict[str, Drawn](), dict[str, Any]()
        for at, name in enumerate(self.keys.order):
            progress(f"sampling {name}", at / len(self.keys.order))
            if name in self.kept:
                keys = self.kept[name][list(self.keys.tables[name].primary)]
                drawn[name] = Drawn(self.kept[name], keys, {})
                tables[name] = self.kept[name].copy()
                continue
            if name not in self.steps:
                tables[name] = pd.DataFrame({c: pd.Series(dtype=dtype) for c, dtype in self.dtypes[name].items()})
                continue
            drawn[name] = self._drawn(name, drawn, wanted, rng)
            whole = pd.concat([drawn[name].columns, drawn[name].keys], axis=1)
            tables[name] = whole[[c for c in self.columns[name] if c in whole]]
        return {name: self.backs.get(name, as_they_are)(tables[name]) for name in self.keys.tables}

    def _wanted(self, n_roots: Any) -> dict[str, int]:
        if n_roots is None:
            return dict(self.n_rows)
        if not isinstance(n_roots, Mapping):
            if len(self.n_rows) != 1:
                raise JobError(
                    f"n_roots={n_roots} is of one table, and {listed([*self.n_rows])} are below none; give a dict"
                )
            n_roots = dict.fromkeys(self.n_rows, n_roots)
        for name, n in n_roots.items():
            if name not in self.n_rows or isinstance(n, bool) or not isinstance(n, Integral) or int(n) < 1:
                raise JobError(f"n_roots: {name}={n!r} must be a whole number from 1 of {listed([*self.n_rows])}")
        return {**self.n_rows, **{name: int(n) for name, n in n_roots.items()}}

    def _drawn(
        self, name: str, drawn: Mapping[str, Drawn], wanted: Mapping[str, int], rng: np.random.Generator
    ) -> Drawn:
        step, model = self.steps[name], self.models.get(name)
        if step.first is None:
            n = wanted[name]
            columns = pd.DataFrame(index=pd.RangeIndex(n)) if model is None else model.sample(n, seed=_seed(rng))
            result = Drawn(columns, pd.DataFrame(index=columns.index), {})
        else:
            result = self.below(step, drawn, model, rng)
        result.keys = self._keys_of(step, result, drawn, rng)
        return self._without_repeats(step, result, drawn, rng)

    def below(self, step: Step, drawn: Mapping[str, Drawn], model: Any, rng: np.random.Generator) -> Drawn:
        """Rows below the rows of the first parent, as many as each of these has, but for those that cannot be."""
        known, above, named = self.known_rows(step, drawn, rng)
        columns, kept = self._rows_of(step, model, known, above, rng)
        above = {table: rows[kept] for table, rows in above.items()}
        named = {key: rows[kept] for key, rows in named.items()}
        return Drawn(columns, pd.DataFrame(index=columns.index), above, named)

    def known_rows(
        self, step: Step, drawn: Mapping[str, Drawn], rng: np.random.Generator
    ) -> tuple[pd.DataFrame, dict[str, Positions], dict[ForeignKey, Positions]]:
        """What rows below others are drawn given, the rows of tables above, and those that they name already."""
        assert step.first is not None
        table, parent = step.first.table, drawn[step.first.table]
        counts = parent.columns[step.count].to_numpy(dtype=np.int64, copy=True)
        most, mean = step.beyond
        if most:  # of the highest count, as many more as there were on average
            highest = np.flatnonzero(counts == self.models[table].schema.columns[step.count].bounds[1])
            counts[highest] += rng.binomial(most, mean / most, len(highest))
        at = np.repeat(np.arange(len(counts)), counts)
        loose = int(rng.binomial(len(counts), step.loose % 1)) + int(step.loose) * len(counts)
        at = np.append(at, np.full(loose, -1))
        above = {table: at, **{name: followed(at, rows) for name, rows in parent.above.items()}}
        of_parent = sources(self.steps[table]).items()
        cells = {target: taken(parent.columns[source], at) for source, target in of_parent if source in parent.columns}
        named = dict[ForeignKey, Positions]()
        for each in (each for each in step.further if each.before):
            within, theirs = str(each.within), drawn[each.key.table]
            slots = self._slots(each, theirs, rng)
            totals = None if each.there is None else drawn[within].columns[each.total].to_numpy(dtype=np.int64)
            rows = named[each.key] = deal(above[within], theirs.above[within], slots, totals, rng)
            if each.there is not None:
                cells[each.there] = pd.Series(pd.array(rows >= 0, dtype="boolean"))
            cells |= {f"{each.prefix}.{c}": taken(theirs.columns[c], rows) for c in each.columns}
        return pd.DataFrame(cells, index=pd.RangeIndex(len(at))), above, named

    def _slots(self, each: Further, parent: Drawn, rng: np.random.Generator) -> np.ndarray:
        """How often each row of a parent is to be named, in its own draw and some more given its other columns."""
        model, own = self.models[each.key.table], parent.columns[each.count].to_numpy(dtype=np.int64)
        if model.schema.order is not None:
            return own[None]
        known = parent.columns[[c for c in model.schema.modeled if c != each.count]]
        more = [model.sample(given=known, seed=_seed(rng))[each.count] for _ in range(SLOT_DRAWS - 1)]
        return np.stack([own, *(drawn.to_numpy(dtype=np.int64) for drawn in more)])

    def _rows_of(
        self, step: Step, model: Any, known: pd.DataFrame, above: Mapping[str, Positions], rng: np.random.Generator
    ) -> tuple[pd.DataFrame, Positions]:
        """A row for each known one, and which: no lawful row may go with some, and histories may end early."""
        every = np.arange(len(known))
        if model is None:
            return known, every
        if len(known) == 0:
            return _no_rows(model.schema), every
        known = as_known(known, model.schema, rng)
        if model.schema.order is None:
            if not step.inherited:
                return model.sample(len(known), seed=_seed(rng)), every
            return sampled_below(model, known, rng)
        assert step.first is not None
        entity, at = str(model.schema.entity), above[step.first.table]
        _, first, counts = np.unique(np.where(at < 0, -1 - every, at), return_index=True, return_counts=True)
        of_parents = known.iloc[first].reset_index(drop=True)
        of_parents[entity] = pd.array(np.arange(len(first)), dtype="Int64")
        rows = model.rows_of(of_parents, counts, seed=_seed(rng))
        return rows.drop(columns=entity), first[rows[entity].to_numpy(dtype=np.int64)]

    def _keys_of(self, step: Step, result: Drawn, drawn: Mapping[str, Drawn], rng: np.random.Generator) -> pd.DataFrame:
        """The columns of all keys of rows: those of parents, and those that are made anew."""
        own, n, cells = self.keys.tables[step.table], len(result.columns), dict[str, pd.Series]()

        def name_rows(key: Any, at: Positions) -> None:
            parent = drawn[key.table]
            for column, other in zip(key.columns, self.keys.tables[key.table].primary, strict=True):
                # A part of its own of a key of several columns is learned.
                cells[column] = taken((parent.keys if other in parent.keys else parent.columns)[other], at)

        for each in step.further:
            name_rows(each.key, result.named[each.key] if each.before else self._chosen(step, each, result, drawn, rng))
        for key, table in step.implied:
            name_rows(key, result.above[table])
        if step.first is not None:
            name_rows(step.first, result.above[step.first.table])
        for column, made in self.made[step.table].items():
            cells[column] = pd.Series(_generated(made, n, rng, column))
        keys = pd.DataFrame(cells, index=pd.RangeIndex(n))
        if own.number is not None:
            rest = [comparable(keys[c] if c in keys else result.columns[c]) for c in own.primary if c != own.number]
            keys[own.number] = pd.Series(range(n)).groupby(rest).cumcount() + 1
        for column, dtype in self.dtypes[step.table].items():
            keys[column] = _as_dtype(keys.get(column, pd.Series(None, keys.index, dtype=object)), dtype)
        return keys

    def _chosen(
        self, step: Step, each: Further, result: Drawn, drawn: Mapping[str, Drawn], rng: np.random.Generator
    ) -> Positions:
        """The row of a further parent that each row names, -1 for none."""
        columns, parent = result.columns, drawn[each.key.table]
        at = np.full(len(columns), -1, dtype=np.intp)
        is_there = (
            np.ones(len(columns), bool)
            if each.there is None
            else columns[each.there].to_numpy(dtype=bool, na_value=False)
        )
        if each.label is not None:
            known = pd.Index(labels(parent.columns, self.keys.tables[each.key.table].primary))
            at = known.get_indexer(columns[each.label])
            lost = np.flatnonzero((at < 0) & is_there)
            at[lost] = rng.integers(len(known), size=len(lost))
            return np.where(is_there, at, -1)
        rows = np.flatnonzero(is_there)
        if len(rows) == 0 or len(parent.columns) == 0:
            return at
        chosen, theirs = columns.iloc[rows].reset_index(drop=True), parent.columns
        prefixed = {f"{each.prefix}.{c}": c for c in each.columns}
        wanted = chosen[list(prefixed)].rename(columns=prefixed)
        others = [c for c in chosen if c not in prefixed and not str(c).startswith("rows of ")][:40]
        if each.count is not None:
            slots = theirs[each.count].to_numpy(dtype=np.int64)
        else:
            slots = np.array(self.slots.get(f"{step.table}: {each.key}") or (1,) * len(theirs), dtype=np.int64)
        groups = None
        if each.within is not None:
            groups = result.above[each.within][rows], parent.above[each.within]
        at[rows] = match(wanted, chosen[others], theirs, slots, groups, rng)
        own = self.keys.tables[step.table]
        if step.first is not None and {*own.primary} == {*step.first.columns, *each.key.columns}:
            first = result.above[step.first.table]
            near = np.lexsort((rng.random(len(at)), at))
            at = without_pairs(first, at, near, None if each.within is None else result.above[each.within], rng)
        return at

    def _without_repeats(
        self, step: Step, result: Drawn, drawn: Mapping[str, Drawn], rng: np.random.Generator
    ) -> Drawn:
        """The rows without those whose key an earlier one has, or that lack a part of it, or a parent they need."""
        own = self.keys.tables[step.table]
        needed = [c for each in step.further if each.there is None for c in each.key.columns]
        whole = pd.concat([result.columns, result.keys], axis=1)
        bad = whole[[*own.primary, *needed]].isna().any(axis=1).to_numpy()
        if own.primary:
            bad |= repeats(whole, own.primary)
        if not bad.any():
            return result
        kept = np.flatnonzero(~bad)
        columns, keys = (part.iloc[kept].reset_index(drop=True) for part in (result.columns, result.keys))
        if own.number is not None:
            rest = [comparable(keys[c] if c in keys else columns[c]) for c in own.primary if c != own.number]
            keys[own.number] = (pd.Series(range(len(kept))).groupby(rest).cumcount() + 1).astype(keys[own.number].dtype)
        return Drawn(columns, keys, {table: rows[kept] for table, rows in result.above.items()})

    def save(self, path: Path | str) -> None:
        """Write the model as a new folder: a model of each table, lookup tables as they are, and what joins them."""
        if not isinstance(path, str | Path):
            raise ModelError(f"a model is saved to a folder, and path is a {type(path).__name__}; name one")
        content = {
            "format": 1,
            "keys": self.keys.model_dump(mode="json"),
            "statement": None if self.statement is None else self.statement.to_dict(),
            "steps": {name: step.model_dump(mode="json") for name, step in self.steps.items()},
            "columns": {name: list(each) for name, each in self.columns.items()},
            "made": {t: {c: made.model_dump(mode="json") for c, made in each.items()} for t, each in self.made.items()},
            "dtypes": {name: dict(each) for name, each in self.dtypes.items()},
            "n_rows": dict(self.n_rows),
            "slots": {key: list(each) for key, each in self.slots.items()},
            "models": list(self.models),
            "kept": list(self.kept),
        }
        with whole_folder(Path(path)) as folder:
            (folder / DESCRIPTION).write_text(json.dumps(content, indent=1), encoding="utf-8")
            for at, model in enumerate(self.models.values()):
                model.save(folder / f"model-{at}")
            for at, frame in enumerate(self.kept.values()):
                frame.to_parquet(folder / f"kept-{at}.parquet", index=False)

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """The model that `save` wrote; it gives pandas frames."""
        if not isinstance(path, str | Path) or not ((folder := Path(path)) / DESCRIPTION).is_file():
            raise ModelError(f"a model of related tables is a folder with {DESCRIPTION}: {str(path)!r} is none")
        try:
            return cls._read(folder, json.loads((folder / DESCRIPTION).read_text(encoding="utf-8")))
        except (KeyError, ValueError, TypeError, AttributeError, OSError):
            raise ModelError(f"the model of related tables in {str(path)!r} is damaged; save it again") from None

    @classmethod
    def _read(cls, folder: Path, content: Any) -> Self:
        if content["format"] != 1:
            raise ModelError(f"this version loads format=1, not {content['format']!r}; upgrade understudy")
        statement = content["statement"]
        made = content["made"].items()
        return cls(
            Keys.model_validate(content["keys"]),
            None if statement is None else PrivacyStatement.from_dict(statement),
            {name: load_model(folder / f"model-{at}") for at, name in enumerate(content["models"])},
            {name: pd.read_parquet(folder / f"kept-{at}.parquet") for at, name in enumerate(content["kept"])},
            {name: Step.model_validate(step) for name, step in content["steps"].items()},
            {name: tuple(each) for name, each in content["columns"].items()},
            {table: {c: IdentifierColumn.model_validate(m) for c, m in own.items()} for table, own in made},
            content["dtypes"], content["n_rows"], {key: tuple(each) for key, each in content["slots"].items()}, {},
        )  # fmt: skip


load_related = RelatedModel.load


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**63))


def sampled_below(model: Any, known: pd.DataFrame, rng: np.random.Generator) -> tuple[pd.DataFrame, Positions]:
    """A row given each of these, and their positions: none where no row is lawful, as below a day after all of them."""
    kept = np.arange(len(known))
    while len(kept):
        try:
            return model.sample(given=known.iloc[kept].reset_index(drop=True), seed=_seed(rng)), kept
        except NoRows as error:
            kept = np.delete(kept, error.rows)
    return _no_rows(model.schema), kept


def _no_rows(schema: Schema) -> pd.DataFrame:
    """A table of no rows, its columns as they are drawn."""
    columns = {name: pd.Series(dtype=object) for name in schema.written}
    return present(conform(pd.DataFrame(columns), schema, outside="clamp"), schema)


def _generated(column: IdentifierColumn, n: int, rng: np.random.Generator, name: str) -> np.ndarray:
    """Keys made anew; numbers go on beyond the greatest one there was, where the table grows."""
    if column.bounds is not None and n > identifiers.capacity(column):
        column = column.model_copy(update={"bounds": (column.bounds[0], column.bounds[0] + n - 1)})
    values = identifiers.generate(column, n, rng, None, name)
    return values if column.dealt == "shuffled" else np.sort(values)


def _as_dtype(cells: pd.Series, dtype: str) -> pd.Series:
    if cells.isna().any() and dtype.startswith(("int", "uint")):
        dtype = dtype.replace("uint", "UInt").replace("int", "Int")
    result: pd.Series = cells.astype(dtype)  # type: ignore[call-overload]
    return result


def as_known(known: pd.DataFrame, schema: Schema, rng: np.random.Generator) -> pd.DataFrame:
    """What rows are drawn given, as their model can know it: the nearest number, any category for one it never saw."""
    columns = {name: schema.columns[name] for name in map(str, known)}
    if not columns:
        return known
    alone = Schema(status="declared", missing_values=schema.missing_values, columns=columns)
    result = conform(known, alone, outside="clamp")
    for name, column in columns.items():
        lost = result[name].isna().to_numpy() & (known[name].notna().to_numpy() | (not column.missing))
        if column.is_categorical and not column.is_boolean:
            lost |= (~result[name].isin(column.categories) & result[name].notna()).to_numpy()
            pool: Any = np.array(column.categories, dtype=object)
        else:
            pool = result[name].dropna().to_numpy()
        if lost.any() and len(pool):
            cells = result[name].copy()
            cells.iloc[np.flatnonzero(lost)] = pool[rng.integers(len(pool), size=int(lost.sum()))]
            result[name] = cells
    return result
