"""The model of histories: a distribution over first rows, and one over later rows given those before them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synth.chunks import Part
from synth.dp.statement import PrivacyStatement
from synth.errors import JobError
from synth.generators.models.known_rows import read_given
from synth.generators.models.model import ModelDisplay
from synth.generators.models.model_folder import default_rows_of, entity_shares_of, save_around
from synth.generators.models.postprocess import check_part, finish_histories, rows_wanted
from synth.progress import Progress, quiet
from synth.schema import Schema, build_schema
from synth.schema.counted import measured_as
from synth.table.restore_dtypes import shown_column
from understudy.extras.histories.layout import LATER, HistoryLayout, whole_numbers
from understudy.extras.histories.simulation import Simulation

STEPS = "steps"  # key of the columns whose steps are kept by chance, and first part of the names of their arrays


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
        """The columns of first and later rows as they are counted."""
        return HistoryLayout(self.schema.counted, len(self.entity_shares), averages=self.averages)

    def under(self, schema: Schema) -> "HistoryModel":
        """The model, which was fitted to counted rows, as one of rows under their schema."""
        whole = measured_as(schema, self.schema)
        first_rows = HistoryLayout(whole, len(self.entity_shares), averages=self.averages).first_rows
        return replace(self, schema=whole, first=replace(self.first, schema=measured_as(first_rows, self.first.schema)))

    def sample(
        self,
        n_rows: int | None = None,
        *,
        seed: int | None = None,
        given: Any = None,
        balance: Mapping[str, Mapping[Any, float] | None] | None = None,
        progress: Progress = quiet,
        part: Part | None = None,
    ) -> pd.DataFrame:
        """A synthetic table of whole histories, as of any model; the last may be cut off.

        Values that are given are of columns in constant_in_entity. A table of them names the entity of each row, too:
        its rows of an entity are one history, which follows what is given as the base's rows do.
        """
        if balance:
            raise JobError(
                "rows of histories are not balanced one by one: leave balance out, or order out of the schema"
            )
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

    def _given(self, given: Any, n_rows: int | None, seed: int | None, progress: Progress) -> pd.DataFrame:
        """One row for each row of a table, in its order."""
        entity, most = str(self.schema.entity), len(self.entity_shares)
        unlearned = [n for n in (entity, *self.schema.constant_in_entity) if not self.schema.columns[n].is_learned]
        table = read_given(given, self.schema, more=tuple(unlearned))
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
        order = np.argsort(owners, kind="stable")  # the histories come entity by entity
        return rows.take(np.argsort(order)).reset_index(drop=True)

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
        """Write the model as a new folder, whole or not at all."""
        content: dict[str, Any] = {
            "generator": self.name,
            "default_rows": self.default_rows,
            "entity_shares": self.entity_shares,
            "parameters": None if self.parameters is None else dict(self.parameters),
            "averages": self.averages,
            STEPS: list(self.chances),
        }
        arrays = {f"{STEPS}.{at}": each for at, each in enumerate(self.chances.values())}
        if self.later is not None:
            own, of_later = self.later.taken_apart()
            content[LATER], arrays = (
                {**own, "schema": self.later.schema.model_dump(mode="json")},
                {**of_later, **arrays},
            )
        save_around(path, "histories", self.first, content, arrays, self.schema, self.statement)

    @classmethod
    def loaded(cls, first: Any, content: Mapping[str, Any], arrays: Mapping[str, Any], schema: Schema) -> Self:
        """What `save` wrote, around a model of first rows, which was loaded with the claim of the whole."""
        shares, averages, parameters = entity_shares_of(content, schema), content["averages"], content["parameters"]
        if shares is None or type(averages) is not bool or not isinstance(parameters, dict | None):
            raise ValueError("histories are of entities, with parameters")
        whole, counted = (HistoryLayout(each, len(shares), averages=averages) for each in (schema, schema.counted))
        later = None
        if (held := content.get(LATER)) is not None:
            of_later = {name: each for name, each in arrays.items() if not name.startswith(f"{STEPS}.")}
            later = type(first).load(held, of_later, build_schema(held["schema"]), None)
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
