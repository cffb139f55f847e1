"""What every fitted model promises, and how it shows itself."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import pandas as pd

from synth.dp.statement import PrivacyStatement, guarantee_words
from synth.identifiers import Part
from synth.progress import Progress, html_table, quiet
from synth.schema import Schema


class Model(Protocol):
    """A fitted generator. It holds no real row."""

    @property
    def name(self) -> str:
        """Name of the generator in the registry."""

    @property
    def schema(self) -> Schema:
        """The schema it was fitted under."""

    @property
    def statement(self) -> PrivacyStatement | None:
        """Its guarantee; `None`: **no formal guarantee**."""

    @property
    def default_rows(self) -> int:
        """The rows that `sample` gives unless told: public for a private fit."""

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
        """A synthetic table with the real table's columns, order, dtypes, precision and bounds.

        Args:
            n_rows: number of rows; `None`: `default_rows`.
            seed: the same seed gives the same table; `None` draws a fresh one.
            given: the value that every row holds in some columns (`None`: missing), or a table of such columns: then
                the sample has one row for each of its rows, in their order.
            balance: for one column the share of rows with each value; `None`: the same for each of its categories.
            progress: told what is being done.
            part: of the table that the rows are for, where it is written piece by piece; `None`: they are all of it.

        Raises:
            JobError: the model cannot give such rows, or so few; nothing was drawn.
        """

    def save(self, path: Path | str) -> None:
        """Write the model as a new folder of safetensors and JSON, whole or not at all."""


class ModelDisplay:
    """The display of a fitted model in a notebook; a mixin for models."""

    def __repr__(self: Model) -> str:
        n_columns, rows = len(self.schema.kept), f"{self.default_rows:,} rows"
        return f"<Model {self.name!r} of {n_columns} columns and {rows}: {guarantee_words(self.statement)}>"

    def _repr_html_(self: Model) -> str:
        rows = [("columns", f"{len(self.schema.kept):,}"), ("rows that a sample has", f"{self.default_rows:,}")]
        rows.append(("guarantee", guarantee_words(self.statement)))
        return html_table(f"Model {self.name!r}", ("", ""), rows)
