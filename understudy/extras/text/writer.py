"""The writer of texts: a trained language model and all that it needs to write the texts of a table's rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from synth.neural.training import device_of
from synth.schema import Schema
from understudy.extras.text.adapters import AdaptedDecoder, check_folder, digest_of, load_tokenizer, other_base
from understudy.extras.text.decoder import Decoder, DecoderShape, SmallDecoder
from understudy.extras.text.prompts import Prompts
from understudy.extras.text.sampling import Limits, sample
from understudy.extras.text.sequences import Vocabulary, losses_of, sequences_of
from understudy.extras.text.specification import LanguageModel, missing_name
from understudy.extras.text.themes import Themes, theme_names
from understudy.extras.text.tokenizer import BytePairs
from understudy.extras.text.training import named, put
from understudy.extras.text.vocabularies import CodedVocabulary, WordedVocabulary

MOST_TOKENS = 10**6  # tokens of a saved vocabulary at most
THEMES = "themes "  # first part of the names of the arrays of themes


@dataclass(frozen=True, eq=False)
class TextWriter:
    """A language model of the texts of a table, given their rows."""

    specification: LanguageModel
    schema: Schema
    vocabulary: CodedVocabulary | WordedVocabulary
    decoder: Decoder
    base: str | None
    themes: Themes | None = None

    @classmethod
    def begun(
        cls,
        specification: LanguageModel,
        schema: Schema,
        row: Prompts,
        tokenizer: BytePairs | None,
        device: torch.device,
        themes: Themes | None = None,
    ) -> Self:
        """An untrained writer: a folder's model with fresh adapters, or a small decoder at random."""
        vocabulary: CodedVocabulary | WordedVocabulary
        if specification.model is None:
            if tokenizer is None:
                raise ValueError("a small decoder needs a tokenizer")
            vocabulary = CodedVocabulary(tokenizer, row, schema.texts)
            length = vocabulary.n_prompt + (specification.max_tokens or 0) + 1
            shape = DecoderShape(vocabulary.size, specification.d_model, specification.n_layers, length)
            return cls(specification, schema, vocabulary, SmallDecoder(shape).to(device), None, themes)
        check_folder(specification.model)
        adapted = AdaptedDecoder(specification.model, specification.rank, device)
        held = load_tokenizer(specification.model, adapted.size)
        vocabulary = WordedVocabulary(held, row, specification.max_prompt, adapted.size, int(held.eos_token_id))
        return cls(specification, schema, vocabulary, adapted, digest_of(specification.model), themes)

    @property
    def max_tokens(self) -> int:
        """Tokens of a text at most, which a writer knows."""
        return self.specification.max_tokens or 0

    @property
    def device(self) -> torch.device:
        found: torch.device = next(self.decoder.trained().parameters()).device
        return found

    def write(self, rows: pd.DataFrame, seed: int) -> dict[str, NDArray[np.object_]]:
        """A text of each column of text for each row; shapes (n,), `None` where it is missing."""
        generator = torch.Generator(self.device).manual_seed(seed)
        asked = self.specification
        limits = Limits(self.max_tokens, asked.temperature, asked.top_p)
        written: dict[str, NDArray[np.object_]] = {}
        for name in self.schema.texts:
            column, texts = self.schema.columns[name], np.full(len(rows), None, dtype=object)
            gone = rows[gap].fillna(False).to_numpy(dtype=bool) if (gap := missing_name(name)) in rows else None
            there = np.arange(len(rows)) if gone is None else np.flatnonzero(~gone)
            vocabulary: Vocabulary = self.vocabulary
            prompts = vocabulary.prompts(rows.iloc[there], name)
            drawn = sample(self.decoder, vocabulary, prompts, limits, generator)
            texts[there] = [self._fitting(vocabulary.text(tokens), column) for tokens in drawn]
            written[name] = texts
        return written

    def _fitting(self, text: str, column: Any) -> str:
        """The text as its column may hold it."""
        most = column.length
        plain = "".join(" " if c.isspace() and c not in "\n\t" else c for c in text)
        plain = "".join(c for c in plain if c.isprintable() or c in "\n\t")[:most]
        return plain if plain and plain not in self.schema.missing_values else f"{plain}."[:most]

    def losses(self, rows: pd.DataFrame, name: str) -> NDArray[np.float64]:
        """The negative log-likelihood of each row's text, per token in nats; shape (n,). It reads these rows.
        `rows`: *Sensitive* where they are real. Canonical, without columns of themes.
        """
        sequences = self.sequences(rows if self.themes is None else self.themes.add_columns(rows, self.schema), name)
        found: NDArray[np.float64] = losses_of(self.decoder, sequences, self.vocabulary.n_prompt, self.device)
        return found

    def sequences(self, rows: pd.DataFrame, name: str) -> NDArray[np.int32]:
        """Prompt and text of each row as tokens.
        `rows`: *Sensitive* where they are real. Canonical, with columns of themes where there are any.
        """
        column = self.schema.columns[name]
        length = column.length if column.is_text else 0
        vocabulary: Vocabulary = self.vocabulary
        return sequences_of(vocabulary, rows, name, max_tokens=self.max_tokens, length=length)

    def to_plain(self) -> dict[str, Any]:
        """All but the weights, as plain data."""
        return {
            "parameters": dict(self.specification.plain()),
            "prompts": self.vocabulary.row.to_plain(),
            "tokenizer": self.vocabulary.tokenizer.to_text() if isinstance(self.vocabulary, CodedVocabulary) else None,
            "base": self.base,
            "themes": None if self.themes is None else list(self.themes.words),
        }

    def to_arrays(self) -> dict[str, NDArray[np.float32]]:
        """The weights that were trained, and the arrays of themes, by name."""
        trained = {name: value.detach().cpu().numpy().astype(np.float32) for name, value in named(self.decoder)}
        if self.themes is None:
            return trained
        return {**trained, **{THEMES + name: array for name, array in self.themes.to_arrays().items()}}

    @classmethod
    def loaded(
        cls, content: Mapping[str, Any], arrays: Mapping[str, np.ndarray], schema: Schema, model: str | None = None
    ) -> Self:
        parameters = dict(content["parameters"])
        if model is not None and parameters.get("model") is not None:
            parameters["model"] = model
        specification = LanguageModel.model_validate(parameters)
        device = device_of("cpu" if specification.device == "cpu" else "auto")
        words, themes, told = content.get("themes"), None, content["tokenizer"]
        apart = {name.removeprefix(THEMES): array for name, array in arrays.items() if name.startswith(THEMES)}
        if words is not None:
            themes = Themes.loaded(words, apart)
        if (apart and themes is None) or (themes is not None and len(themes) != specification.themes):
            raise ValueError("a model has as many themes as its parameters name")
        row = Prompts.from_plain(content["prompts"], schema, theme_words(themes, schema))
        tokenizer = None if told is None else BytePairs.from_text(str(told))
        if tokenizer is not None and tokenizer.size > MOST_TOKENS:
            raise ValueError("the vocabulary is too large")
        if (specification.model is None) != (content["base"] is None):
            raise ValueError("a model that was adapted is known by its digest")
        if specification.model is not None:
            check_folder(specification.model)
            if digest_of(specification.model) != content["base"]:
                raise other_base(specification.model)
        writer = cls.begun(specification, schema, row, tokenizer, device, themes)
        rest = {name: array for name, array in arrays.items() if not name.startswith(THEMES)}
        put(writer.decoder, {name: torch.from_numpy(np.asarray(array)) for name, array in rest.items()})
        return writer


def theme_words(themes: Themes | None, schema: Schema) -> dict[str, str]:
    """The words of each column of themes that a schema has."""
    if themes is None:
        return {}
    words = themes.described()
    found = {
        column: word
        for name in schema.texts
        for column, word in zip(theme_names(name, len(themes)), words, strict=True)
    }
    if not all(name in schema.columns and schema.columns[name].is_boolean for name in found):
        raise ValueError("the schema of a model has all themes of its texts, which are true or false")
    return found
