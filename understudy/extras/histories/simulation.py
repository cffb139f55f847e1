"""The simulation of histories: first rows, then row after row of all entities at once, until each history ends.

A row that breaks a constraint, or leaves a bound, is drawn again. After half of the draws a value beyond its bound is
put there. A history ends early where no draw keeps the constraints.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synth.chunks import Part
from synth.domain.counted_form import to_counted
from synth.errors import ModelError
from synth.generators.models.constraints import Keys, completed, uniques, with_dependents
from synth.progress import Progress
from synth.schema import Schema
from understudy.extras.histories.layout import HistoryLayout, step_codes, whole_numbers

TRIES = 60
"""Draws of a row at most, before its history ends; after half of them, a value beyond its bound is put there."""
MOST_CUT = 0.1  # share of histories that may end early for want of a lawful row
MOST_AT_ONCE = 200_000  # histories that are simulated at a time

Rows = tuple[pd.DataFrame, NDArray[np.int64]]  # canonical rows of learned columns, and the number of each one's entity


@dataclass(frozen=True)
class _State:
    """Histories under way: their last rows, these as they are counted, and sums over all of them.
    `sums`: of the values of averaged columns so far, and how many; shape (n, 2) each.
    """

    last: pd.DataFrame
    counted: pd.DataFrame
    owners: NDArray[np.int64]
    lengths: NDArray[np.int64]
    sums: Mapping[str, NDArray[np.float64]]

    def taken(self, kept: NDArray[np.intp]) -> "_State":
        return _State(
            self.last.iloc[kept].reset_index(drop=True),
            self.counted.iloc[kept].reset_index(drop=True),
            self.owners[kept],
            self.lengths[kept],
            {name: sums[kept] for name, sums in self.sums.items()},
        )


@dataclass(frozen=True)
class Simulation:
    """Histories drawn row after row.
    `layout`: of rows as they are counted, which `schema` need not be.
    """

    schema: Schema
    layout: HistoryLayout
    first: Any
    later: Any | None
    rng: np.random.Generator
    part: Part | None
    progress: Progress
    chances: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def rows(self, n_rows: int, mean_length: float, given: Mapping[str, Any] | None = None) -> Rows:
        """So many rows, history by history; the last may be cut off."""
        keys, n_drawn, n_entities = Keys(self.schema, self.part), 0, 0
        parts: list[Rows] = []
        while n_drawn < n_rows:
            self.progress("sampling histories", n_drawn / n_rows)
            wanted = min(int(1.02 * (n_rows - n_drawn) / max(mean_length, 1.0)) + 10, MOST_AT_ONCE)
            firsts = self.first.learned_rows(wanted, self.rng, given)
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
        """First rows, each followed by the others of its history."""
        n, n_cut, place = len(firsts), 0, 1
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
            goes_on = state.lengths > place
            for steps in self.layout.steps:
                goes_on &= ~state.last[steps.column].isin(steps.last).to_numpy()
            state = state.taken(np.flatnonzero(goes_on))
            if len(state.owners) == 0:
                break
            rows, positions = self._next_rows(state, place, keys)
            n_cut += len(state.owners) - len(positions)
            if n_cut > MOST_CUT * n + 10:
                raise ModelError(
                    f"histories end for want of a row that keeps the constraints ({n_cut:,} of {n:,}); correct the "
                    "constraints, or take order out of the schema"
                )
            state, place = state.taken(positions), place + 1
            counted = to_counted(rows, self.schema, state.last)
            state = replace(state, last=rows, counted=counted, sums=self._added(counted, state.sums))
            parts.append((rows, state.owners))
        table, owner = _joined(parts)
        order = np.argsort(owner, kind="stable")  # rows of an entity stay in the order in which they were drawn
        return table.take(order).reset_index(drop=True), owner[order]

    def _next_rows(self, state: _State, place: int, keys: Keys) -> tuple[pd.DataFrame, NDArray[np.intp]]:
        """The next row of each history, and the positions of those that have one."""
        layout, later = self.layout, self.later
        looks_back = any(rule.looks_back for rule in self.schema.constraints) and self.schema.order in state.last
        pending, parts = np.arange(len(state.owners)), list[tuple[pd.DataFrame, NDArray[np.intp]]]()
        for attempt in range(TRIES):
            known, owners = self._known(state, place, pending), state.owners[pending]
            drawn = later.drawn_given(known, self.rng)  # type: ignore[union-attr]
            made: dict[str, Any] = {name: known[name] for name in layout.constant}
            outside = np.zeros(len(pending), dtype=bool)
            for name in layout.varying:
                if name in layout.schema.growing:
                    made[name], beyond = layout.grown(name, known[layout.before(name)], drawn[layout.gain(name)])
                    outside |= beyond
                else:
                    made[name] = drawn[name]
            rows = with_dependents(pd.DataFrame({name: made[name] for name in layout.schema.modeled}), layout.schema)
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

    def _known(self, state: _State, place: int, positions: NDArray[np.intp]) -> pd.DataFrame:
        """The columns that are known of the next rows, as `HistoryLayout.known` names them."""
        layout, last = self.layout, state.counted.iloc[positions].reset_index(drop=True)
        made: dict[str, Any] = {name: last[name] for name in layout.constant}
        made[layout.left] = whole_numbers(state.lengths[positions] - place - 1)
        made[layout.place] = whole_numbers(np.full(len(positions), place + 1))
        made |= {layout.before(name): last[name] for name in layout.varying}
        for name in layout.averaged:
            with np.errstate(invalid="ignore"):
                made[layout.average(name)] = np.divide(*state.sums[name][positions].T)
        return pd.DataFrame({name: made[name] for name in layout.known}, copy=False)

    def _added(self, rows: pd.DataFrame, sums: Mapping[str, NDArray[np.float64]]) -> dict[str, NDArray[np.float64]]:
        """The sums with those of one more row each."""
        made = {}
        for name in self.layout.averaged:
            values = rows[name].to_numpy(dtype=np.float64, na_value=np.nan)
            made[name] = np.stack([np.nan_to_num(values), ~np.isnan(values)], axis=1) + sums.get(name, 0.0)
        return made


def _joined(parts: list[tuple[pd.DataFrame, NDArray[Any]]]) -> tuple[pd.DataFrame, NDArray[Any]]:
    tables, numbers = zip(*parts, strict=True)
    return pd.concat(tables, ignore_index=True), np.concatenate(numbers)
