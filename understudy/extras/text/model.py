"""The model of a table with free text: a model of its rows, and a language model that writes their texts."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from synth.dp.statement import PrivacyStatement
from synth.errors import JobError, ModelError
from synth.generators.models.model import Model, ModelDisplay, save_around
from synth.identifiers import Part
from synth.neural.training import device_of
from synth.progress import Progress, quiet
from synth.schema import Schema
from synth.table import Table, conform, present
from understudy.extras.text.language_models import (
    AdaptedDecoder,
    Decoder,
    SmallDecoder,
    check_folder,
    digest_of,
    load_tokenizer,
    losses_of,
    sample,
)
from understudy.extras.text.themes import Themes
from understudy.extras.text.tokens import CodedVocabulary, Vocabulary, WordedVocabulary, sequences_of
from understudy.extras.text.wrapper import LanguageModel, missing_name

PUBLIC_CAVEAT = (
    "The public texts that were named are taken to be public: nothing limits what is told of them, and released texts "
    "may repeat them."
)


@dataclass(frozen=True, eq=False)
class TextWriter:
    """A language model of the texts of a table, given their rows. `base`: the digest of a folder's model."""

    specification: LanguageModel
    schema: Schema
    vocabulary: Vocabulary
    decoder: Decoder
    themes: Themes | None = None
    base: str | None = None

    @classmethod
    def begun(
        cls, asked: LanguageModel, schema: Schema, coded: CodedVocabulary | None, device: torch.device,
        themes: Themes | None = None,
    ) -> Self:  # fmt: skip
        """An untrained writer: a small decoder of a vocabulary at random, or a folder's model with fresh adapters."""
        if coded is not None:
            length = coded.n_prompt + (asked.max_tokens or 0) + 1
            small = SmallDecoder(coded.size, asked.d_model, asked.n_layers, length)
            return cls(asked, schema, coded, small.to(device), themes)
        adapted = AdaptedDecoder(folder := str(asked.model), asked.rank, device)
        tokenizer = load_tokenizer(folder, adapted.size)
        worded = WordedVocabulary(tokenizer, schema, themes, asked.max_prompt, adapted.size)
        return cls(asked, schema, worded, adapted, themes, digest_of(folder))

    @property
    def max_tokens(self) -> int:
        return self.specification.max_tokens or 0

    def write(self, rows: pd.DataFrame, seed: int) -> dict[str, NDArray[np.object_]]:
        """A text of each column of text for each row; shapes (n,), `None` where rows say that it is missing."""
        generator = torch.Generator(next(self.decoder.parameters()).device).manual_seed(seed)
        written: dict[str, NDArray[np.object_]] = {}
        for name in self.schema.texts:
            gap, texts = missing_name(name), np.full(len(rows), None, dtype=object)
            is_there = ~rows[gap].fillna(False).to_numpy(dtype=bool) if gap in rows else np.ones(len(rows), dtype=bool)
            prompts = self.vocabulary.prompts(rows[is_there], name)
            tokens = sample(self.decoder, self.vocabulary, prompts, self.specification, generator)
            texts[is_there] = [self._fitting(self.vocabulary.text(each), self.schema.columns[name]) for each in tokens]
            written[name] = texts
        return written

    def _fitting(self, text: str, column: Any) -> str:
        plain = "".join(" " if c.isspace() and c not in "\n\t" else c for c in text)
        plain = "".join(c for c in plain if c.isprintable() or c in "\n\t")[: column.length]
        return plain if plain and plain not in self.schema.missing_values else f"{plain}."[: column.length]

    def sequences(self, rows: pd.DataFrame, name: str) -> NDArray[np.int32]:
        """Prompt and text of each row as tokens. `rows`: *Sensitive* where they are real. Canonical, with themes."""
        column: Any = self.schema.columns[name]
        return sequences_of(self.vocabulary, rows, name, max_tokens=self.max_tokens, length=column.length)

    def to_plain(self) -> dict[str, Any]:
        return {
            "parameters": self.specification.model_dump(mode="json"),
            "vocabulary": self.vocabulary.to_plain() if isinstance(self.vocabulary, CodedVocabulary) else None,
            "base": self.base,
            "themes": None if self.themes is None else list(self.themes.words),
        }

    def to_arrays(self) -> dict[str, NDArray[np.float32]]:
        """The weights that were trained, and the arrays of themes, by name."""
        arrays = {name: value.detach().cpu().numpy().astype(np.float32) for name, value in self.decoder.trained.items()}
        return arrays if self.themes is None else arrays | self.themes.to_arrays()

    @classmethod
    def loaded(
        cls, content: Mapping[str, Any], arrays: Mapping[str, np.ndarray], schema: Schema, model: str | None = None
    ) -> Self:
        """A saved writer. `model`: the folder where a model that was adapted is now."""
        asked, weights = LanguageModel.model_validate(content["parameters"]), dict(arrays)
        themes = None if content["themes"] is None else Themes.taken(content["themes"], weights)
        coded = None if asked.model is not None else CodedVocabulary.loaded(content["vocabulary"], schema)
        if asked.model is not None:
            check_folder(folder := model or asked.model)
            asked = asked.model_copy(update={"model": folder})
            if digest_of(folder) != content["base"]:
                raise ModelError(f"the model was adapted from another than model={folder!r} holds now; put that back")
        device = device_of("cpu" if asked.device == "cpu" else "auto")
        writer = cls.begun(asked, schema, coded, device, themes)
        writer.decoder.put({name: torch.from_numpy(array) for name, array in weights.items()})
        return writer


@dataclass(frozen=True, eq=False, repr=False)
class TextModel(ModelDisplay):
    """A model of rows, and a language model of their texts: no row of the real table."""

    rows: Model
    writer: TextWriter
    schema: Schema

    @property
    def name(self) -> str:
        return self.rows.name

    @property
    def parameters(self) -> dict[str, Any] | None:
        of_rows = getattr(self.rows, "parameters", None)
        return None if of_rows is None else {**of_rows, "text": self.writer.specification.model_dump(mode="json")}

    @property
    def statement(self) -> PrivacyStatement | None:
        stated, text = self.rows.statement, self.writer.specification
        if stated is None or text.public_text is None:
            return stated
        n_themes = len(self.schema.texts) * len(self.writer.themes or ())
        counted = f"{n_themes} of the counted columns are themes of texts: clusters of public sentences."
        unread = "No step was trained on a real text."
        caveats = (PUBLIC_CAVEAT, *((counted,) if n_themes else ()), *(() if text.steps else (unread,)))
        return replace(stated, caveats=(*stated.caveats, *(each for each in caveats if each not in stated.caveats)))

    @property
    def default_rows(self) -> int:
        return self.rows.default_rows

    def sample(
        self, n_rows: int | None = None, *, seed: int | None = None, given: Any = None,
        balance: Mapping[str, Mapping[Any, float] | None] | None = None, progress: Progress = quiet,
        part: Part | None = None,
    ) -> pd.DataFrame:  # fmt: skip
        given = given if given is None or isinstance(given, Mapping) else Table.of(given, named=False)
        asked = {*(given.names if isinstance(given, Table) else given or ()), *(balance or ())}
        if beside := asked & (self.rows.schema.columns.keys() - self.schema.columns.keys()):
            raise JobError(f"column={min(beside)!r} is counted for texts, and no sample has it; name another column")
        of_rows, of_texts = (int(seed_of) for seed_of in np.random.default_rng(seed).integers(2**31, size=2))
        table = self.rows.sample(n_rows, seed=of_rows, given=given, balance=balance, progress=progress, part=part)
        progress("writing texts", None)
        canonical = conform(table, self.rows.schema, outside="clamp")
        texts = self.writer.write(canonical, of_texts)
        shown = [name for name in canonical if name in self.schema.columns]
        written = present(canonical[shown].assign(**texts), self.schema)
        written.attrs.update(table.attrs)
        return written

    def text_losses(self, rows: pd.DataFrame, name: str) -> NDArray[np.float64]:
        """The negative log-likelihood of each row's text, per token in nats; shape (n,). It reads these rows."""
        columns: dict[str, Any] = dict(self.schema.columns)
        columns |= {text: columns[text].model_copy(update={"missing": True}) for text in self.schema.texts}
        read = conform(rows, self.schema.model_copy(update={"columns": columns}), outside="clamp")
        read = read if self.writer.themes is None else self.writer.themes.add_columns(read, self.schema)
        sequences, n_prompt = self.writer.sequences(read, name), self.writer.vocabulary.n_prompt
        nats: NDArray[np.float64] = losses_of(self.writer.decoder, sequences, n_prompt)
        return nats

    def save(self, path: Path | str) -> None:
        content, arrays = self.writer.to_plain(), self.writer.to_arrays()
        save_around(path, "text", self.rows, content, arrays, self.schema, self.statement)
