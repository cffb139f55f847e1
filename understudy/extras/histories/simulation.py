"""The simulation of histories: first rows, then row after row of all entities at once, until each history ends.

A row that breaks a constraint, or leaves a bound, is drawn again. After half of the draws a value beyond its bound is
put there. A history ends early where no draw keeps the constraints.
"""

from collections.abc import Callable, Mapping
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

    def rows(
        self, n_rows: int, mean_length: float, given: Mapping[str, Any] | None = None
    ) -> tuple[pd.DataFrame, NDArray[np.int64]]:
        """Canonical rows of learned columns, history by history, and the entity of each; the last may be cut off."""
        keys = Keys(self.schema, self.part)
        tables: list[pd.DataFrame] = []
        owners: list[NDArray[np.int64]] = []
        n_drawn = n_entities = 0
        while n_drawn < n_rows:
            self.progress("sampling histories", n_drawn / n_rows)
            wanted = min(int(1.02 * (n_rows - n_drawn) / max(mean_length, 1.0)) + 10, MOST_AT_ONCE)
            firsts = self.first.learned_rows(wanted, self.rng, given)
            table, owner = self._followed(firsts, n_entities + np.arange(wanted), keys)
            tables.append(table)
            owners.append(owner)
            n_drawn += len(table)
            n_entities += wanted
        keys.remember()
        table = pd.concat(tables, ignore_index=True) if len(tables) > 1 else tables[0]
        owner = np.unique(np.concatenate(owners)[:n_rows], return_inverse=True)[1]
        return table.iloc[:n_rows].reset_index(drop=True), owner

    def rows_of(self, parents: pd.DataFrame) -> tuple[pd.DataFrame, NDArray[np.int64]]:
        """Canonical rows of the learned columns, whole histories, and the place of each row's parent."""
        keys = Keys(self.schema, self.part)
        tables: list[pd.DataFrame] = []
        owners: list[NDArray[np.int64]] = []
        for start in range(0, len(parents), MOST_AT_ONCE):
            self.progress("sampling histories", start / len(parents))
            some = parents.iloc[start : start + MOST_AT_ONCE].reset_index(drop=True)
            firsts = self.first.learned_rows(len(some), self.rng, some)
            table, owner = self._followed(firsts, start + np.arange(len(some)), keys)
            tables.append(table)
            owners.append(owner)
        keys.remember()
        return pd.concat(tables, ignore_index=True), np.concatenate(owners)

    def _followed(
        self, firsts: pd.DataFrame, owners: NDArray[np.int64], keys: Keys
    ) -> tuple[pd.DataFrame, NDArray[np.int64]]:
        """First rows, each followed by the others of its history, and the entity of each row."""
        n = len(firsts)
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
        tables, at = [firsts], [owners]
        counted = to_counted(firsts, self.schema)
        sums = _added(self.layout, counted, {})
        histories = _State(self.schema, self.layout, firsts, counted, owners, lengths, 1, sums)
        n_cut = 0
        while self.later is not None:
            goes_on = histories.lengths > histories.place
            for steps in self.layout.steps:
                goes_on &= ~histories.last[steps.column].isin(steps.last).to_numpy()
            histories = histories.taken(np.flatnonzero(goes_on))
            if len(histories.owners) == 0:
                break
            rows, places = self._next_rows(histories, keys)
            n_cut += len(histories.owners) - len(places)
            if n_cut > MOST_CUT * n + 10:
                raise ModelError(
                    f"histories end for want of a row that keeps the constraints ({n_cut:,} of {n:,}); correct the "
                    "constraints, or take order out of the schema"
                )
            histories = histories.after(rows, places)
            tables.append(rows)
            at.append(histories.owners)
        whole, owner = pd.concat(tables, ignore_index=True), np.concatenate(at)
        order = np.argsort(owner, kind="stable")  # rows of an entity stay in the order in which they were drawn
        return whole.take(order).reset_index(drop=True), owner[order]

    def _next_rows(self, histories: "_State", keys: Keys) -> tuple[pd.DataFrame, NDArray[np.intp]]:
        """The next row of each history, and the places of those that have one."""
        layout, later = self.layout, self.later

        def draw(pending: NDArray[np.intp], attempt: int) -> tuple[pd.DataFrame, NDArray[np.bool_]]:
            known = histories.known(pending)
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
            last = histories.last.iloc[pending].reset_index(drop=True)
            table, unlawful = completed(rows, self.schema, last)
            looks_back = any(rule.looks_back for rule in self.schema.constraints)
            if looks_back and self.schema.order in table:  # to the one row before: none has its order
                unlawful |= (table[self.schema.order] == last[self.schema.order]).to_numpy(dtype=bool)
            # A history that has come to a bound stays there, rather than end.
            is_kept = ~(unlawful | outside) if attempt < TRIES // 2 else ~unlawful
            for name, chances in self.chances.items() if attempt < TRIES // 2 else ():
                steps = step_codes(known[layout.before(name)], drawn[name], layout.schema.columns[name].levels)
                is_kept &= self.rng.random(len(steps)) < chances.ravel()[steps]
            owners = histories.owners[pending]
            is_kept[is_kept] = ~keys.repeats(table[is_kept], owners[is_kept])
            keys.add(table[is_kept], owners[is_kept])
            return table, is_kept

        return _drawn_until_kept(len(histories.owners), draw)


def _drawn_until_kept(
    n: int, draw: Callable[[NDArray[np.intp], int], tuple[pd.DataFrame, NDArray[np.bool_]]]
) -> tuple[pd.DataFrame, NDArray[np.intp]]:
    """A row for each of so many places, and the places that have one: those that are not kept are drawn again.
    `draw`: rows of some places, and which of them are kept; it is told how often it was asked before.
    """
    pending = np.arange(n)
    tables: list[pd.DataFrame] = []
    places: list[NDArray[np.intp]] = []
    for attempt in range(TRIES):
        table, is_kept = draw(pending, attempt)
        tables.append(table[is_kept])
        places.append(pending[is_kept])
        pending = pending[~is_kept]
        if len(pending) == 0:
            break
    place = np.concatenate(places)
    order = np.argsort(place)
    return pd.concat(tables, ignore_index=True).take(order).reset_index(drop=True), place[order]


@dataclass(frozen=True)
class _State:
    """Histories under way: their last rows, these as they are counted, and sums over all of them.
    `sums`: of the values of averaged columns so far, and how many; shape (n, 2) each.
    """

    schema: Schema
    layout: HistoryLayout
    last: pd.DataFrame
    counted: pd.DataFrame
    owners: NDArray[np.int64]
    lengths: NDArray[np.int64]
    place: int
    sums: Mapping[str, NDArray[np.float64]]

    def taken(self, kept: NDArray[np.intp]) -> "_State":
        return replace(
            self,
            last=self.last.iloc[kept].reset_index(drop=True),
            counted=self.counted.iloc[kept].reset_index(drop=True),
            owners=self.owners[kept],
            lengths=self.lengths[kept],
            sums={name: sums[kept] for name, sums in self.sums.items()},
        )

    def known(self, places: NDArray[np.intp]) -> pd.DataFrame:
        """The columns that are known of the next rows, as `HistoryLayout.known` names them."""
        layout, last = self.layout, self.counted.iloc[places].reset_index(drop=True)
        made: dict[str, Any] = {name: last[name] for name in layout.constant}
        made[layout.left] = whole_numbers(self.lengths[places] - self.place - 1)
        made[layout.place] = whole_numbers(np.full(len(places), self.place + 1))
        made |= {layout.before(name): last[name] for name in layout.varying}
        for name in layout.averaged:
            with np.errstate(invalid="ignore"):
                made[layout.average(name)] = self.sums[name][places, 0] / self.sums[name][places, 1]
        return pd.DataFrame({name: made[name] for name in layout.known}, copy=False)

    def after(self, rows: pd.DataFrame, places: NDArray[np.intp]) -> "_State":
        """The histories that have a next row, after it; the others have ended."""
        kept = self.taken(places)
        counted = to_counted(rows, self.schema, kept.last)
        sums = _added(self.layout, counted, kept.sums)
        return replace(kept, last=rows, counted=counted, place=self.place + 1, sums=sums)


def _added(
    layout: HistoryLayout, rows: pd.DataFrame, sums: Mapping[str, NDArray[np.float64]]
) -> dict[str, NDArray[np.float64]]:
    """The sums with those of one more row each."""
    made = {}
    for name in layout.averaged:
        values = rows[name].to_numpy(dtype=np.float64, na_value=np.nan)
        more = np.stack([np.nan_to_num(values), ~np.isnan(values)], axis=1)
        made[name] = sums[name] + more if name in sums else more
    return made
