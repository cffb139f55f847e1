"""The model of histories: a distribution over first rows, and one over later rows given those before them.

First rows are drawn, then row after row of all entities at once, until each history ends. A row that breaks a
constraint, or leaves a bound, is drawn again. After half of the draws a value beyond its bound is put there. A history
ends early where no draw keeps the constraints.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synth.domain.relations import to_counted
from synth.dp.statement import PrivacyStatement
from synth.errors import JobError, ModelError
from synth.generators.models.constraints import Keys, completed, uniques, with_dependents
from synth.generators.models.given import read_given
from synth.generators.models.model import ModelDisplay, default_rows_of, entity_shares_of, save_around
from synth.generators.models.postprocess import check_part, finish_histories, rows_wanted
from synth.identifiers import Part
from synth.progress import Progress, quiet
from synth.schema import Schema, build_schema
from synth.schema.residual_schema import measured_as
from synth.table.conforming import shown_column
from understudy.extras.histories.layout import LATER, HistoryLayout, step_codes, whole_numbers

STEPS = "steps"  # key of the columns whose steps are kept by chance, and first part of the names of their arrays
TRIES = 60  # draws of a row, before its history ends; after half of them, a value beyond its bound is put there
MOST_CUT = 0.1  # share of histories that may end early for want of a lawful row
MOST_AT_ONCE = 200_000  # histories that are simulated at a time

Rows = tuple[pd.DataFrame, NDArray[np.int64]]  # canonical rows of learned columns, and the number of each one's entity


@dataclass(frozen=True)
class _State:
    """Histories under way."""

    last: pd.DataFrame  # their last rows
    counted: pd.DataFrame  # these as they are counted
    owners: NDArray[np.int64]
    lengths: NDArray[np.int64]
    sums: Mapping[str, NDArray[np.float64]]  # of averaged columns so far, and of how many values; shape (n, 2) each

    def taken(self, kept: NDArray[np.intp]) -> "_State":
        last, counted = (rows.iloc[kept].reset_index(drop=True) for rows in (self.last, self.counted))
        sums = {name: sums[kept] for name, sums in self.sums.items()}
        return _State(last, counted, self.owners[kept], self.lengths[kept], sums)


@dataclass(frozen=True)
class Simulation:
    """Histories drawn row after row."""

    schema: Schema
    layout: HistoryLayout  # of rows as they are counted, which `schema` need not be
    first: Any
    later: Any | None
    rng: np.random.Generator
    part: Part | None
    progress: Progress
    chances: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def rows(self, n_rows: int, mean_length: float, known: Mapping[str, Any] | None = None) -> Rows:
        keys, parts, n_drawn, n_entities = Keys(self.schema, self.part), list[Rows](), 0, 0
        while n_drawn < n_rows:
            self.progress("sampling histories", n_drawn / n_rows)
            wanted = min(int(1.02 * (n_rows - n_drawn) / max(mean_length, 1.0)) + 10, MOST_AT_ONCE)
            firsts = self.first.learned_rows(wanted, self.rng, known)
            parts.append(self._followed(firsts, n_entities + np.arange(wanted), keys))
            n_drawn, n_entities = n_drawn + len(parts[-1][0]), n_entities + wanted
        keys.remember()
        table, owner = _joined(parts)
        return table.iloc[:n_rows].reset_index(drop=True), np.unique(owner[:n_rows], return_inverse=True)[1]

    def rows_of(self, parents: pd.DataFrame) -> Rows:
        """Whole histories of parents; the number of each row's parent."""
        keys, parts = Keys(self.schema, self.part), list[Rows]()
        for start in range(0, len(parents), MOST_AT_ONCE):
            self.progress("sampling histories", start / len(parents))
            some = parents.iloc[start : start + MOST_AT_ONCE].reset_index(drop=True)
            firsts = self.first.learned_rows(len(some), self.rng, some)
            parts.append(self._followed(firsts, start + np.arange(len(some)), keys))
        keys.remember()
        return _joined(parts)

    def _followed(self, firsts: pd.DataFrame, owners: NDArray[np.int64], keys: Keys) -> Rows:
        n, n_cut, rank = len(firsts), 0, 1
        lengths = firsts[self.layout.n_rows].to_numpy(dtype=np.int64)
        firsts = firsts[list(self.schema.learned)]
        kept = ~keys.repeats(firsts, owners)
        firsts, owners, lengths = firsts[kept].reset_index(drop=True), owners[kept], lengths[kept]
        if len(firsts) == 0:
            raise ModelError(
                "no first row of a history that the model draws keeps that "
                f"{' and that '.join(map(str, uniques(self.schema)))}; correct the constraint"
            )
        keys.add(firsts, owners)
        counted = to_counted(firsts, self.schema)
        state, parts = _State(firsts, counted, owners, lengths, self._added(counted, {})), [(firsts, owners)]
        while self.later is not None:
            goes_on = state.lengths > rank
            for steps in self.layout.steps:
                goes_on &= ~state.last[steps.column].isin(steps.last).to_numpy()
            state = state.taken(np.flatnonzero(goes_on))
            if len(state.owners) == 0:
                break
            rows, positions = self._next_rows(state, rank, keys)
            n_cut += len(state.owners) - len(positions)
            if n_cut > MOST_CUT * n + 10:
                raise ModelError(
                    f"histories end for want of a row that keeps the constraints ({n_cut:,} of {n:,}); correct the "
                    "constraints, or take order out of the schema"
                )
            state, rank = state.taken(positions), rank + 1
            counted = to_counted(rows, self.schema, state.last)
            state = replace(state, last=rows, counted=counted, sums=self._added(counted, state.sums))
            parts.append((rows, state.owners))
        table, owner = _joined(parts)
        order = np.argsort(owner, kind="stable")  # rows of an entity stay in the order in which they were drawn
        return table.take(order).reset_index(drop=True), owner[order]

    def _next_rows(self, state: _State, rank: int, keys: Keys) -> tuple[pd.DataFrame, NDArray[np.intp]]:
        """The next row of each history, and the positions of those that have one."""
        layout, later = self.layout, self.later
        looks_back = any(rule.looks_back for rule in self.schema.constraints) and self.schema.order in state.last
        pending, parts = np.arange(len(state.owners)), list[tuple[pd.DataFrame, NDArray[np.intp]]]()
        for attempt in range(TRIES):
            known, owners = self._known(state, rank, pending), state.owners[pending]
            drawn = later.drawn_given(known, self.rng)  # type: ignore[union-attr]
            values: dict[str, Any] = {name: known[name] for name in layout.constant}
            outside = np.zeros(len(pending), dtype=bool)
            for name in layout.varying:
                if name in layout.schema.growing:
                    values[name], beyond = layout.grown(name, known[layout.before(name)], drawn[layout.gain(name)])
                    outside |= beyond
                else:
                    values[name] = drawn[name]
            rows = with_dependents(pd.DataFrame({name: values[name] for name in layout.schema.modeled}), layout.schema)
            last = state.last.iloc[pending].reset_index(drop=True)
            table, unlawful = completed(rows, self.schema, last)
            if looks_back:  # to the one row before: none has its order
                unlawful |= (table[self.schema.order] == last[self.schema.order]).to_numpy(dtype=bool)
            is_kept = ~unlawful
            if attempt < TRIES // 2:  # then a history that has come to a bound stays there, rather than end
                is_kept &= ~outside
                for name, chances in self.chances.items():
                    steps = step_codes(known[layout.before(name)], drawn[name], layout.schema.columns[name].levels)
                    is_kept &= self.rng.random(len(steps)) < chances.ravel()[steps]
            is_kept[is_kept] = ~keys.repeats(table[is_kept], owners[is_kept])
            keys.add(table[is_kept], owners[is_kept])
            parts.append((table[is_kept], pending[is_kept]))
            pending = pending[~is_kept]
            if len(pending) == 0:
                break
        table, positions = _joined(parts)
        order = np.argsort(positions)
        return table.take(order).reset_index(drop=True), positions[order]

    def _known(self, state: _State, rank: int, positions: NDArray[np.intp]) -> pd.DataFrame:
        layout, last = self.layout, state.counted.iloc[positions].reset_index(drop=True)
        values: dict[str, Any] = {name: last[name] for name in layout.constant}
        values[layout.left] = whole_numbers(state.lengths[positions] - rank - 1)
        values[layout.place] = whole_numbers(np.full(len(positions), rank + 1))
        values |= {layout.before(name): last[name] for name in layout.varying}
        for name in layout.averaged:
            with np.errstate(invalid="ignore"):
                values[layout.average(name)] = np.divide(*state.sums[name][positions].T)
        return pd.DataFrame({name: values[name] for name in layout.known}, copy=False)

    def _added(self, rows: pd.DataFrame, sums: Mapping[str, NDArray[np.float64]]) -> dict[str, NDArray[np.float64]]:
        total = {}
        for name in self.layout.averaged:
            values = rows[name].to_numpy(dtype=np.float64, na_value=np.nan)
            total[name] = np.stack([np.nan_to_num(values), ~np.isnan(values)], axis=1) + sums.get(name, 0.0)
        return total


def _joined(parts: list[tuple[pd.DataFrame, NDArray[Any]]]) -> tuple[pd.DataFrame, NDArray[Any]]:
    tables, numbers = zip(*parts, strict=True)
    return pd.concat(tables, ignore_index=True), np.concatenate(numbers)


@dataclass(frozen=True, eq=False, repr=False)
class HistoryModel(ModelDisplay):
    """Two models of rows, and the schema: rows of an entity follow each other."""

    name: str
    schema: Schema
    statement: PrivacyStatement | None
    default_rows: int
    first: Any
    later: Any | None
    entity_shares: tuple[float, ...]
    averages: bool
    parameters: Mapping[str, Any] | None
    chances: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    @property
    def layout(self) -> HistoryLayout:
        return HistoryLayout(self.schema.counted, len(self.entity_shares), averages=self.averages)

    def under(self, schema: Schema) -> "HistoryModel":
        """The model, which was fitted to counted rows, as one of rows under their schema."""
        whole = measured_as(schema, self.schema)
        first_rows = HistoryLayout(whole, len(self.entity_shares), averages=self.averages).first_rows
        return replace(self, schema=whole, first=replace(self.first, schema=measured_as(first_rows, self.first.schema)))

    def sample(
        self, n_rows: int | None = None, *, seed: int | None = None, given: Any = None,
        balance: Mapping[str, Mapping[Any, float] | None] | None = None, progress: Progress = quiet,
        part: Part | None = None,
    ) -> pd.DataFrame:  # fmt: skip
        """A synthetic table of whole histories, as of any model; the last may be cut off.

        Values that are given are of columns in constant_in_entity. A table of them names the entity of each row, too:
        its rows of an entity are one history, which follows what is given as the base's rows do.
        """
        if balance:
            raise JobError("rows of histories are not balanced one by one: leave out balance, or order in the schema")
        if given is not None and not isinstance(given, Mapping):
            return self._given(given, n_rows, seed, progress)
        self._check_names(map(str, given or {}))
        wanted, rng = rows_wanted(n_rows, self.default_rows), np.random.default_rng(seed)
        if part is not None:
            check_part(part, len(self.entity_shares))
        mean = float(np.average(np.arange(1, len(self.entity_shares) + 1), weights=self.entity_shares))
        simulation = Simulation(self.schema, self.layout, self.first, self.later, rng, part, progress, self.chances)
        learned, owner = simulation.rows(wanted, mean, given)
        return finish_histories(learned, owner, self.schema, rng, part)

    def _check_names(self, names: Iterable[str]) -> None:
        if wrong := next((name for name in names if name not in self.schema.constant_in_entity), None):
            raise JobError(
                f"given names what an entity holds in all of its rows: column={wrong!r} is not in constant_in_entity; "
                "name one that is, or take order out of the schema"
            )

    def _given(self, conditions: Any, n_rows: int | None, seed: int | None, progress: Progress) -> pd.DataFrame:
        entity, most = str(self.schema.entity), len(self.entity_shares)
        unlearned = [n for n in (entity, *self.schema.constant_in_entity) if not self.schema.columns[n].is_learned]
        table = read_given(conditions, self.schema, more=tuple(unlearned))
        self._check_names(str(name) for name in table if name != entity)
        if entity not in table or table[entity].isna().any():
            raise JobError(f"given has no entity for each of its rows; add the column {entity!r}")
        if n_rows not in (None, len(table)):
            raise JobError(f"rows={n_rows}, and given has {len(table):,} rows, one for each; leave rows out")
        owners = pd.factorize(table[entity])[0]
        first_of, counts = np.unique(owners, return_index=True, return_counts=True)[1:]
        for name in map(str, table):
            codes = pd.factorize(table[name], use_na_sentinel=False)[0]
            if (codes != codes[first_of][owners]).any():
                raise JobError(f"given={name!r} varies within an entity, which holds one value; give it one")
        if most < counts.max(initial=0):
            raise JobError(f"given has entities of more rows than histories have, up to {most:,}; give fewer")
        rows = self.rows_of(table.iloc[first_of].reset_index(drop=True), counts, seed=seed, progress=progress)
        if len(rows) < len(table):
            raise JobError(
                "histories of so many rows end early, for want of a row that keeps the constraints; give fewer"
            )
        # The histories come entity by entity.
        return rows.take(np.argsort(np.argsort(owners, kind="stable"))).reset_index(drop=True)

    def rows_of(
        self, parents: pd.DataFrame, counts: NDArray[np.int64], *, seed: int | None = None, progress: Progress = quiet
    ) -> pd.DataFrame:
        """The rows of parents that are known: each has a history of its own, under its own key.
        `parents`: canonical columns, the key among them, and some that are constant in an entity. `counts`: rows of
        each, shape (n_parents,), 0 included; more than the longest history has are cut to it.
        """
        known, counts = parents[counts > 0].reset_index(drop=True), counts[counts > 0]
        if len(known) == 0:
            return self.sample(1, seed=seed, progress=progress).iloc[:0]
        rng, layout = np.random.default_rng(seed), self.layout
        learned = {str(name): known[name] for name in known if name in self.schema.learned}
        learned[layout.n_rows] = whole_numbers(np.minimum(counts, len(self.entity_shares)))
        simulation = Simulation(self.schema, layout, self.first, self.later, rng, None, progress, self.chances)
        rows, owner = simulation.rows_of(pd.DataFrame(learned))
        table = finish_histories(rows, owner, self.schema, rng)
        for name in (str(n) for n in known if self.schema.columns[str(n)].is_replaced):
            shown = shown_column(known[name], name, self.schema.columns[name])
            table[name] = shown.take(owner).set_axis(table.index)
        return table

    def save(self, path: Path | str) -> None:
        content: dict[str, Any] = {
            "generator": self.name, "default_rows": self.default_rows, "entity_shares": self.entity_shares,
            "parameters": None if self.parameters is None else dict(self.parameters), "averages": self.averages,
            STEPS: list(self.chances),
        }  # fmt: skip
        arrays = {f"{STEPS}.{at}": each for at, each in enumerate(self.chances.values())}
        if self.later is not None:
            own, of_later = self.later.taken_apart()
            content[LATER] = {**own, "schema": self.later.schema.model_dump(mode="json")}
            arrays = {**of_later, **arrays}
        save_around(path, "histories", self.first, content, arrays, self.schema, self.statement)

    @classmethod
    def loaded(cls, first: Any, content: Mapping[str, Any], arrays: Mapping[str, Any], schema: Schema) -> Self:
        """What `save` wrote, around a model of first rows, which was loaded with the claim of the whole."""
        shares, averages, parameters = entity_shares_of(content, schema), content["averages"], content["parameters"]
        if shares is None or type(averages) is not bool or not isinstance(parameters, dict | None):
            raise ValueError("histories are of entities, with parameters")
        whole, counted = (HistoryLayout(each, len(shares), averages=averages) for each in (schema, schema.counted))
        later = None
        if (second := content.get(LATER)) is not None:
            of_later = {name: each for name, each in arrays.items() if not name.startswith(f"{STEPS}.")}
            later = type(first).load(second, of_later, build_schema(second["schema"]), None)
        chances = {name: arrays[f"{STEPS}.{at}"] for at, name in enumerate(content[STEPS])}
        for name, each in chances.items():
            n = len(counted.schema.columns[name].levels) + 1
            if name not in counted.varying or each.shape != (n, n) or not (0 <= each.min() <= each.max() <= 1):
                raise ValueError("steps of a category are kept by chance")
        for model, layout in ((first, whole.first_rows), (later, counted.later_rows)):
            own = layout if model is None else model.schema
            if list(own.columns) != list(layout.columns) or (
                model is not None and (own.measured or own.spikes_measured)
            ):
                raise ValueError("the columns of a part are those of its layout")
        name, rows, firsts = content["generator"], default_rows_of(content), replace(first, statement=None)
        return cls(name, schema, first.statement, rows, firsts, later, shares, averages, parameters, chances)
