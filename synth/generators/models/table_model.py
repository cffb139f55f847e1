"""What models of one distribution over rows have in common: a sample is a table, and a saved one a folder."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from synth.chunks import Part
from synth.dp.statement import PrivacyStatement
from synth.generators.base import ModelDisplay
from synth.generators.models.model_folder import default_rows_of, entity_shares_of, save_model
from synth.generators.models.postprocess import finish, rows_wanted
from synth.progress import Progress, quiet
from synth.schema import Schema


class TableModel(ModelDisplay):
    """A mixin for models whose rows are drawn independently of each other.
    `entity_shares`: share of entities with 1, 2, ..., k rows, shape (k,); `None` where the unit is a row.
    """

    name: str
    schema: Schema
    statement: PrivacyStatement | None
    default_rows: int
    entity_shares: tuple[float, ...] | None
    parameters: Mapping[str, Any] | None

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
        """A synthetic table, as `synth.generators.base.Model` has it; free of charge, as often as wanted."""
        rng = np.random.default_rng(seed)
        progress("sampling", None)
        learned = self.learned_rows(rows_wanted(n_rows, self.default_rows), rng, given, balance, part)
        return finish(learned, self.schema, self.entity_shares, rng, part)

    def learned_rows(
        self,
        n_rows: int,
        rng: np.random.Generator,
        given: Mapping[str, Any] | None = None,
        balance: Mapping[str, Mapping[Any, float] | None] | None = None,
        part: Part | None = None,
    ) -> pd.DataFrame:
        """Canonical rows of the learned columns that keep the constraints; conditions and errors as of `sample`."""
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
