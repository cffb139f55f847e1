"""The model of a table with free text: a model of its rows, and a language model that writes their texts."""

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synth.chunks import Part
from synth.dp.statement import PrivacyStatement
from synth.errors import JobError, ModelError
from synth.generators.base import Model, ModelDisplay
from synth.generators.models.model_folder import load_content, save_model
from synth.progress import Progress, quiet
from synth.schema import Schema
from synth.table import conform, present

if TYPE_CHECKING:
    from synth.language.writer import TextWriter

TEXTS = "texts"
"""Key in the content of a saved model that writes texts, and first part of the names of its arrays."""
PUBLIC_CAVEAT = (
    "The public texts that were named are taken to be public: nothing limits what is told of them, and released texts "
    "may repeat them."
)


@dataclass(frozen=True, eq=False, repr=False)
class TextModel(ModelDisplay):
    """A model of rows, and a language model of their texts: no row of the real table."""

    rows: Model
    writer: "TextWriter"

    @property
    def name(self) -> str:
        """Name of the generator of the other columns."""
        return self.rows.name

    @property
    def schema(self) -> Schema:
        known, of_themes = self.rows.schema, set(self._theme_columns)
        if not of_themes:
            return known
        columns = {name: column for name, column in known.columns.items() if name not in of_themes}
        return known.model_copy(update={"columns": columns})

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
        """A synthetic table, as `synth.generators.base.Model` has it: rows first, then their texts."""
        for name in sorted({*(given or {}), *(balance or {})} & {*self._theme_columns}):
            raise JobError(f"column={name!r} is a theme of texts, which no sample has; name another column")
        rng = np.random.default_rng(seed)
        of_rows, of_texts = (int(one) for one in rng.integers(2**31, size=2))
        table = self.rows.sample(
            n_rows, seed=of_rows, given=given, balance=balance, progress=progress, part=part
        )  # fmt: skip
        progress("writing texts", None)
        known = dict(table.attrs)
        canonical = conform(table, unwritten(self.rows.schema), outside="clamp")
        texts = self.writer.write(canonical, of_texts)
        written = present(canonical.drop(columns=list(self._theme_columns)).assign(**texts), self.schema)
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
        with tempfile.TemporaryDirectory() as place:
            apart = Path(place) / "rows"
            self.rows.save(apart)
            content, arrays, schema, _ = load_content(apart)
        of_texts = {f"{TEXTS}.{name}": array for name, array in self.writer.to_arrays().items()}
        save_model(path, {**content, TEXTS: self.writer.to_plain()}, {**arrays, **of_texts}, schema, self.statement)

    @classmethod
    def load(
        cls, rows: Model, content: Mapping[str, Any], arrays: Mapping[str, np.ndarray], model: str | None = None
    ) -> Self:
        from synth.language.adapters import require_libraries

        require_libraries()
        from synth.language.writer import TextWriter

        own = {name.removeprefix(f"{TEXTS}."): array for name, array in arrays.items()}
        try:
            return cls(rows, TextWriter.loaded(content, own, rows.schema, model))
        except (KeyError, ValueError, TypeError, IndexError, AttributeError, OverflowError, RuntimeError) as error:
            if isinstance(error, ModelError | JobError):
                raise
            raise ModelError(f"the model is damaged ({type(error).__name__}); fit it again") from None


def unwritten(schema: Schema) -> Schema:
    """The schema of a table whose texts are not written yet: they may be missing."""
    columns: dict[str, Any] = dict(schema.columns)
    columns |= {name: columns[name].model_copy(update={"missing": True}) for name in schema.texts}
    return schema.model_copy(update={"columns": columns})


def rows_of(model: Model) -> Model:
    """The model of the rows alone, where another one writes texts beside it."""
    return model.rows if isinstance(model, TextModel) else model


def scorer_of(model: Model) -> Callable[[str, pd.DataFrame], NDArray[np.float64]] | None:
    """The loss of a model on texts, by their column and their rows; `None` where it writes none."""
    return (lambda name, rows: model.text_losses(rows, name)) if isinstance(model, TextModel) else None
