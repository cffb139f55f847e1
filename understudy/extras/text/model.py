"""The model of a table with free text: a model of its rows, and a language model that writes their texts."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synth.chunks import Part
from synth.dp.statement import PrivacyStatement
from synth.errors import JobError
from synth.generators.models.model import Model, ModelDisplay
from synth.generators.models.model_folder import save_around
from synth.progress import Progress, quiet
from synth.schema import Schema
from synth.table import conform, present

if TYPE_CHECKING:
    from understudy.extras.text.writer import TextWriter

PUBLIC_CAVEAT = (
    "The public texts that were named are taken to be public: nothing limits what is told of them, and released texts "
    "may repeat them."
)


@dataclass(frozen=True, eq=False, repr=False)
class TextModel(ModelDisplay):
    """A model of rows, and a language model of their texts: no row of the real table."""

    rows: Model
    writer: "TextWriter"
    schema: Schema

    @property
    def name(self) -> str:
        """Name of the generator of the other columns."""
        return self.rows.name

    @property
    def parameters(self) -> dict[str, Any] | None:
        """Those that it was fitted by; `None` where the model of the rows holds none."""
        of_rows = getattr(self.rows, "parameters", None)
        return None if of_rows is None else {**of_rows, "text": dict(self.writer.specification.plain())}

    @property
    def _theme_columns(self) -> tuple[str, ...]:
        return tuple(self.writer.vocabulary.row.themes)

    @property
    def statement(self) -> PrivacyStatement | None:
        """Its guarantee, texts included; `None`: **no formal guarantee**."""
        stated, text = self.rows.statement, self.writer.specification
        if stated is None or text.public_text is None:
            return stated
        n_themes = len(self._theme_columns)
        counted = f"{n_themes} of the counted columns are themes of texts: clusters of public sentences."
        unread = "No step was trained on a real text."
        caveats = (PUBLIC_CAVEAT, *((counted,) if n_themes else ()), *(() if text.steps else (unread,)))
        return replace(stated, caveats=(*stated.caveats, *(each for each in caveats if each not in stated.caveats)))

    @property
    def default_rows(self) -> int:
        """Rows that `sample` gives unless told."""
        return self.rows.default_rows

    @property
    def entity_shares(self) -> tuple[float, ...] | None:
        """Share of entities with 1, 2, ..., k rows; `None` where the unit is a row."""
        found: tuple[float, ...] | None = getattr(self.rows, "entity_shares", None)
        return found

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
        """A synthetic table, as `synth.generators.models.model.Model` has it: rows first, then their texts."""
        named = () if given is None else getattr(given, "columns", given)
        beside = self.rows.schema.columns.keys() - self.schema.columns.keys()
        for name in sorted({*named, *(balance or {})} & beside):
            raise JobError(f"column={name!r} is counted for texts, and no sample has it; name another column")
        rng = np.random.default_rng(seed)
        of_rows, of_texts = (int(one) for one in rng.integers(2**31, size=2))
        table = self.rows.sample(
            n_rows, seed=of_rows, given=given, balance=balance, progress=progress, part=part
        )  # fmt: skip
        progress("writing texts", None)
        known = dict(table.attrs)
        canonical = conform(table, self.rows.schema, outside="clamp")
        texts = self.writer.write(canonical, of_texts)
        shown = [name for name in canonical if name in self.schema.columns]
        written = present(canonical[shown].assign(**texts), self.schema)
        written.attrs.update(known)
        return written

    def text_losses(self, rows: pd.DataFrame, name: str) -> NDArray[np.float64]:
        """The negative log-likelihood of each row's text, per token in nats; shape (n,). It reads these rows.
        `rows`: *Sensitive* where they are real. Conforming to the schema.
        """
        if name not in self.schema.texts:
            raise JobError(f"text={name!r} is no column of learned text; name one of {', '.join(self.schema.texts)}")
        return self.writer.losses(conform(rows, unwritten(self.schema), outside="clamp"), name)

    def save(self, path: Path | str) -> None:
        """Write the model as a new folder, whole or not at all; of a folder's model, adapters alone."""
        save_around(
            path, "text", self.rows, self.writer.to_plain(), self.writer.to_arrays(), self.schema, self.statement
        )  # fmt: skip


def unwritten(schema: Schema) -> Schema:
    """The schema of a table whose texts are not written yet: they may be missing."""
    columns: dict[str, Any] = dict(schema.columns)
    columns |= {name: columns[name].model_copy(update={"missing": True}) for name in schema.texts}
    return schema.model_copy(update={"columns": columns})
