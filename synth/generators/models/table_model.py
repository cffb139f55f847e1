"""What models of one distribution over rows have in common: a sample is a table, and a saved one a folder."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from synth.domain import Discretizer
from synth.dp.statement import PrivacyStatement
from synth.errors import JobError
from synth.generators.models.constraints import draw_lawful, with_dependents
from synth.generators.models.known_rows import GIVEN, WAYS, KnownRows, fill_in, read_given
from synth.generators.models.model import ModelDisplay
from synth.generators.models.model_folder import default_rows_of, entity_shares_of, save_model
from synth.generators.models.postprocess import finish, rows_wanted
from synth.identifiers import Part
from synth.progress import Progress, quiet
from synth.schema import Schema


class TableModel(ModelDisplay):
    """A mixin for models whose rows are drawn independently of each other.
    `entity_shares`: share of entities with 1, 2, ..., k rows, shape (k,); `None` where the unit is a row.
    """

    name: str
    schema: Schema
    discretizer: Discretizer
    statement: PrivacyStatement | None
    default_rows: int
    entity_shares: tuple[float, ...] | None
    parameters: Mapping[str, Any] | None

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
        """A synthetic table, as `synth.generators.models.model.Model` has it; free of charge, as often as wanted."""
        rng = np.random.default_rng(seed)
        progress("sampling", None)
        if is_table := given is not None and not isinstance(given, Mapping):
            given = read_given(given, self.schema)
            if n_rows not in (None, len(given)):
                raise JobError(
                    f"rows={n_rows}, and given has {len(given):,} rows, each of which has one; leave rows out"
                )
            if len(given) == 0:
                return self.sample(1, seed=seed).iloc[:0]
            n_rows = len(given)
        learned = self.learned_rows(rows_wanted(n_rows, self.default_rows), rng, given, balance, part)
        names = tuple(map(str, given)) if is_table else None
        return finish(learned, self.schema, self.entity_shares, rng, part, names)

    def learned_rows(
        self,
        n_rows: int,
        rng: np.random.Generator,
        given: Any = None,
        balance: Mapping[str, Mapping[Any, float] | None] | None = None,
        part: Part | None = None,
    ) -> pd.DataFrame:
        """Canonical rows of the learned columns that keep the constraints; conditions and errors as of `sample`."""
        if not (balance or (given is not None and len(given))):
            return draw_lawful(lambda n: with_dependents(self.drawn(n, rng), self.schema), n_rows, self.schema, part)
        known = KnownRows.given(given, balance, n_rows, self, rng)
        learned = known.drawn(self, rng, part)
        learned.attrs[GIVEN] = self.way(known.counted) if len(known.counted.columns) else WAYS[0]
        return learned

    def impute(self, frame: pd.DataFrame, *, seed: int | None = None) -> pd.DataFrame:
        """The rows of a table with missing cells drawn given the cells that are there.

        Free of any budget, as often as wanted. A filled cell is made from the model and the other cells of its row, and
        can repeat what these determine: it is as sensitive as the row, and no guarantee of the model covers it.
        `frame`: *Sensitive*. Rows with all columns of the schema; any may have missing cells. Not changed.
        """
        return fill_in(frame, self, seed)

    def drawn(self, n_rows: int, rng: np.random.Generator) -> pd.DataFrame:
        """Rows as they are counted."""
        raise NotImplementedError

    def drawn_given(self, known: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
        """Rows as they are counted, drawn given the columns that are known of each, which stay as they are."""
        raise NotImplementedError

    def way(self, known: pd.DataFrame) -> str:
        """How rows are drawn given such columns: one of `WAYS`."""
        raise NotImplementedError

    def save(self, path: Path | str) -> None:
        """Write the model as a new folder, whole or not at all."""
        content, arrays = self.taken_apart()
        save_model(path, content, arrays, self.schema, self.statement)

    def taken_apart(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Plain data and arrays, for `load`."""
        description, arrays = self._described()
        facts = {
            "generator": self.name,
            "default_rows": self.default_rows,
            "entity_shares": self.entity_shares,
            "parameters": None if self.parameters is None else dict(self.parameters),
        }
        return {**facts, **description}, arrays

    def _described(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Its own part of them."""
        raise NotImplementedError


def facts_of(content: Mapping[str, Any], schema: Schema) -> dict[str, Any]:
    """The facts that `TableModel.taken_apart` told beside a model's own part."""
    if not isinstance(content["parameters"], dict | None):
        raise TypeError("parameters are a mapping")
    return {
        "name": content["generator"],
        "schema": schema,
        "default_rows": default_rows_of(content),
        "entity_shares": entity_shares_of(content, schema),
        "parameters": content["parameters"],
    }
