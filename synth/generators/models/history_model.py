"""The model of histories: a distribution over first rows, and one over later rows given those before them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synth.chunks import Part
from synth.domain.counted_form import to_counted
from synth.dp.statement import PrivacyStatement
from synth.errors import JobError
from synth.generators.models.history_simulation import Simulation
from synth.generators.models.postprocess import finish_histories, rows_wanted
from synth.generators.models.table_model import TableModel, facts_of
from synth.histories.layout import FIRST, LATER, HistoryLayout, whole_numbers
from synth.progress import Progress, quiet
from synth.schema import Schema, build_schema
from synth.table import conform, present

HISTORIES = "histories"  # key in the content of a saved model that is one of histories


_NO_ROLES: dict[str, Any] = {
    "target": None,
    "task": None,
    "sensitive": (),
    "quasi_identifiers": (),
    "parties": (),
    "order": None,
    "nondecreasing_in_entity": (),
    "constraints": (),
}
"""Keys of a schema that name columns of the rows, as a schema of their parents alone leaves them out."""


@dataclass(frozen=True, eq=False, repr=False)
class HistoryModel(TableModel):
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

    @property
    def layout(self) -> HistoryLayout:
        """The columns of first and later rows as they are counted."""
        return HistoryLayout(self.schema.counted, len(self.entity_shares), averages=self.averages)

    def sample(
        self,
        n_rows: int | None = None,
        *,
        seed: int | None = None,
        given: Mapping[str, Any] | None = None,
        balance: Mapping[str, Mapping[Any, float] | None] | None = None,
        progress: Progress = quiet,
        part: Part | None = None,
    ) -> pd.DataFrame:
        """A synthetic table of whole histories, as `synth.generators.base.Model` has it; the last may be cut off."""
        wanted = rows_wanted(n_rows, self.default_rows)
        self._check(given, balance)
        if part is not None and not part.is_whole and len(self.entity_shares) > part.n_rows:
            raise JobError(
                f"all rows of an entity are in one file, and it may have {len(self.entity_shares)}: "
                f"rows_a_file={part.n_rows} is too few; write more rows a file"
            )
        rng = np.random.default_rng(seed)
        mean = float(np.average(np.arange(1, len(self.entity_shares) + 1), weights=self.entity_shares))
        simulation = Simulation(self.schema, self.layout, self.first, self.later, rng, part, progress)
        learned, owner = simulation.rows(wanted, mean, given)
        return finish_histories(learned, owner, self.schema, rng, part)

    def rows_of(
        self, parents: pd.DataFrame, counts: NDArray[np.int64], *, seed: int | None = None, progress: Progress = quiet
    ) -> pd.DataFrame:
        """The rows of parents that are known: each has a history of its own, under its own key.
        `counts`: rows of each, shape (n_parents,), 0 included; more than the longest history that the model knows are
        cut to it.
        """
        names = [name for name in self.schema.kept if name in {self.schema.entity, *self.schema.constant_in_entity}]
        with_rows = np.flatnonzero(counts > 0)
        if len(with_rows) == 0:
            return self.sample(1, seed=seed, progress=progress).iloc[:0]
        held = self.schema.model_copy(
            update={"columns": {n: self.schema.columns[n] for n in names}, **_NO_ROLES, "n_units": None}
        )
        known = conform(parents, held, part=True).iloc[with_rows].reset_index(drop=True)
        rng = np.random.default_rng(seed)
        constant = [name for name in known if name in self.schema.learned]
        counted = to_counted(known[constant], self.schema)
        made: dict[str, Any] = {name: counted[name] for name in self.layout.constant}
        longest = np.minimum(counts[with_rows], len(self.entity_shares)).astype(np.int64)
        made[self.layout.n_rows] = whole_numbers(longest)
        simulation = Simulation(self.schema, self.layout, self.first, self.later, rng, None, progress)
        learned, owner = simulation.rows_of(pd.DataFrame(made, index=known.index))
        table = finish_histories(learned, owner, self.schema, rng)
        shown = present(known, held)
        for name in names:
            if self.schema.columns[name].is_replaced:
                table[name] = shown[name].take(owner).set_axis(table.index)
        return table

    def _check(self, given: Mapping[str, Any] | None, balance: Mapping[str, Any] | None) -> None:
        if balance:
            raise JobError(
                "rows of histories are not balanced one by one: leave balance out, or order out of the schema"
            )
        for name in given or {}:
            if name not in self.schema.constant_in_entity:
                raise JobError(
                    f"given names what an entity holds in all of its rows: column={name!r} is not in "
                    "constant_in_entity; name one that is, or take order out of the schema"
                )

    def _described(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        held: dict[str, Any] = {"averages": self.averages}
        arrays: dict[str, NDArray[Any]] = {}
        for name, model in ((FIRST, self.first), (LATER, self.later)):
            if model is not None:
                own, own_arrays = model.taken_apart()
                held[name] = {**own, "schema": model.schema.model_dump(mode="json")}
                arrays |= {f"{name}.{key}": array for key, array in own_arrays.items()}
        return {HISTORIES: held}, arrays

    @classmethod
    def load(
        cls,
        content: Mapping[str, Any],
        arrays: Mapping[str, NDArray[Any]],
        schema: Schema,
        statement: PrivacyStatement | None,
        part_class: type[Any],
    ) -> Self:
        held, facts = content[HISTORIES], facts_of(content, schema)
        if facts["entity_shares"] is None or type(held["averages"]) is not bool:
            raise ValueError("histories are of entities")
        whole, counted = (
            HistoryLayout(each, len(facts["entity_shares"]), averages=held["averages"])
            for each in (schema, schema.counted)
        )
        parts: dict[str, Any] = {FIRST: None, LATER: None}
        for name, of_part in ((FIRST, whole.first_rows), (LATER, counted.later_rows)):
            if name == FIRST or name in held:
                own, prefix = build_schema(held[name]["schema"]), f"{name}."
                if list(own.columns) != list(of_part.columns) or own.measured or own.spikes_measured:
                    raise ValueError("the columns of a part are those of its layout")
                of_model = {k.removeprefix(prefix): each for k, each in arrays.items() if k.startswith(prefix)}
                parts[name] = part_class.load(held[name], of_model, own, None)
        return cls(**facts, statement=statement, **parts, averages=held["averages"])
