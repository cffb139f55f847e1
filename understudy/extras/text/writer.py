"""The writer of texts: a trained language model and all that it needs to write the texts of a table's rows.

Source: Holtzman et al. 2020 (1904.09751), for sampling from the smallest set of tokens that holds a share of the mass.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from synth.errors import ModelError
from synth.neural.training import device_of
from synth.schema import Schema
from understudy.extras.text.adapters import AdaptedDecoder, check_folder, digest_of, load_tokenizer
from understudy.extras.text.decoder import Decoder, SmallDecoder
from understudy.extras.text.specification import LanguageModel, missing_name
from understudy.extras.text.themes import Themes, theme_names
from understudy.extras.text.tokens import (
    BytePairs,
    CodedVocabulary,
    Prompts,
    Vocabulary,
    WordedVocabulary,
    sequences_of,
)
from understudy.extras.text.training import losses_of, named, put

MOST_TOKENS = 10**6  # tokens of a saved vocabulary at most
THEMES = "themes "  # first part of the names of the arrays of themes
ROWS_AT_ONCE = 256  # texts that are written side by side


@dataclass(frozen=True, eq=False)
class TextWriter:
    """A language model of the texts of a table, given their rows. `base`: the digest of a folder's model."""

    specification: LanguageModel
    schema: Schema
    vocabulary: Vocabulary
    decoder: Decoder
    base: str | None
    themes: Themes | None = None

    @classmethod
    def begun(
        cls, specification: LanguageModel, schema: Schema, row: Prompts, tokenizer: BytePairs | None,
        device: torch.device, themes: Themes | None = None,
    ) -> Self:  # fmt: skip
        """An untrained writer: a folder's model with fresh adapters, or a small decoder at random."""
        asked, most = specification, specification.max_tokens or 0
        if asked.model is None:
            if tokenizer is None:
                raise ValueError("a small decoder needs a tokenizer")
            coded = CodedVocabulary(tokenizer, row, schema.texts)
            small = SmallDecoder(coded.size, asked.d_model, asked.n_layers, coded.n_prompt + most + 1)
            return cls(asked, schema, coded, small.to(device), None, themes)
        adapted = AdaptedDecoder(asked.model, asked.rank, device)
        known = load_tokenizer(asked.model, adapted.size)
        worded = WordedVocabulary(known, row, asked.max_prompt, adapted.size, int(known.eos_token_id))
        return cls(asked, schema, worded, adapted, digest_of(asked.model), themes)

    @property
    def max_tokens(self) -> int:
        return self.specification.max_tokens or 0

    @property
    def device(self) -> torch.device:
        device: torch.device = next(self.decoder.trained().parameters()).device
        return device

    def write(self, rows: pd.DataFrame, seed: int) -> dict[str, NDArray[np.object_]]:
        """A text of each column of text for each row; shapes (n,), `None` where rows say that it is missing."""
        generator = torch.Generator(self.device).manual_seed(seed)
        written: dict[str, NDArray[np.object_]] = {}
        for name in self.schema.texts:
            gap, texts = missing_name(name), np.full(len(rows), None, dtype=object)
            gone = rows[gap].fillna(False).to_numpy(dtype=bool) if gap in rows else np.zeros(len(rows), dtype=bool)
            prompts = self.vocabulary.prompts(rows[~gone], name)
            tokens = sample(self.decoder, self.vocabulary, prompts, self.specification, generator)
            texts[~gone] = [self._fitting(self.vocabulary.text(each), self.schema.columns[name]) for each in tokens]
            written[name] = texts
        return written

    def _fitting(self, text: str, column: Any) -> str:
        """The text as its column may hold it."""
        plain = "".join(" " if c.isspace() and c not in "\n\t" else c for c in text)
        plain = "".join(c for c in plain if c.isprintable() or c in "\n\t")[: column.length]
        return plain if plain and plain not in self.schema.missing_values else f"{plain}."[: column.length]

    def losses(self, rows: pd.DataFrame, name: str) -> NDArray[np.float64]:
        """The negative log-likelihood of each row's text, per token in nats; shape (n,). It reads these rows.
        `rows`: *Sensitive* where they are real. Canonical, without columns of themes.
        """
        sequences = self.sequences(rows if self.themes is None else self.themes.add_columns(rows, self.schema), name)
        nats: NDArray[np.float64] = losses_of(self.decoder, sequences, self.vocabulary.n_prompt, self.device)
        return nats

    def sequences(self, rows: pd.DataFrame, name: str) -> NDArray[np.int32]:
        """Prompt and text of each row as tokens.
        `rows`: *Sensitive* where they are real. Canonical, with columns of themes where there are any.
        """
        column: Any = self.schema.columns[name]
        return sequences_of(self.vocabulary, rows, name, max_tokens=self.max_tokens, length=column.length)

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
        arrays = {name: value.detach().cpu().numpy().astype(np.float32) for name, value in named(self.decoder)}
        of_themes = {} if self.themes is None else self.themes.to_arrays()
        return {**arrays, **{THEMES + name: array for name, array in of_themes.items()}}

    @classmethod
    def loaded(
        cls, content: Mapping[str, Any], arrays: Mapping[str, np.ndarray], schema: Schema, model: str | None = None
    ) -> Self:
        """A saved writer. `model`: the folder where a model that was adapted is now."""
        parameters = dict(content["parameters"])
        if model is not None and parameters.get("model") is not None:
            parameters["model"] = model
        asked = LanguageModel.model_validate(parameters)
        words, themes = content.get("themes"), None
        of_themes = {name.removeprefix(THEMES): array for name, array in arrays.items() if name.startswith(THEMES)}
        if words is not None:
            themes = Themes.loaded(words, of_themes)
        if (of_themes and themes is None) or (themes is not None and len(themes) != asked.themes):
            raise ValueError("a model has as many themes as its parameters name")
        row = Prompts.from_plain(content["prompts"], schema, theme_words(themes, schema))
        tokenizer = None if content["tokenizer"] is None else BytePairs.from_text(str(content["tokenizer"]))
        if tokenizer is not None and tokenizer.size > MOST_TOKENS:
            raise ValueError("the vocabulary is too large")
        if asked.model is not None:
            check_folder(asked.model)
            if digest_of(asked.model) != content["base"]:
                raise ModelError(
                    f"the model was adapted from another than model={asked.model!r} holds now; put that one back"
                )
        device = device_of("cpu" if asked.device == "cpu" else "auto")
        writer = cls.begun(asked, schema, row, tokenizer, device, themes)
        weights = {name: array for name, array in arrays.items() if not name.startswith(THEMES)}
        put(writer.decoder, {name: torch.from_numpy(np.asarray(array)) for name, array in weights.items()})
        return writer


@torch.no_grad()
def sample(
    decoder: Decoder, vocabulary: Vocabulary, prompts: Sequence[Sequence[int]], asked: LanguageModel,
    generator: torch.Generator,
) -> list[list[int]]:  # fmt: skip
    """The tokens of a text for each prompt, without its end: one at least."""
    if len(prompts) > ROWS_AT_ONCE:
        parts = [prompts[at : at + ROWS_AT_ONCE] for at in range(0, len(prompts), ROWS_AT_ONCE)]
        return [text for part in parts for text in sample(decoder, vocabulary, part, asked, generator)]
    padded = np.zeros((len(prompts), max(map(len, prompts), default=0)), dtype=np.int64)
    for row, prompt in enumerate(prompts):
        padded[row, padded.shape[1] - len(prompt) :] = np.array(prompt) + 1
    tokens = torch.from_numpy(padded).to(generator.device)
    mask, tokens = tokens > 0, (tokens - 1).clamp_min(0)
    never = torch.from_numpy(vocabulary.never_sampled()).to(generator.device)
    at_first, cache = never.clone(), None
    at_first[vocabulary.end] = True
    written: list[list[int]] = [[] for _ in prompts]
    unfinished = np.ones(len(prompts), dtype=bool)
    for step in range((asked.max_tokens or 0) if prompts else 0):
        logits, cache = decoder.follow(tokens, mask, cache)
        logits = logits.float().masked_fill(never if step else at_first, -torch.inf)
        drawn = draw(logits / asked.temperature, asked.top_p, generator)
        chosen = drawn.cpu().numpy()
        unfinished &= chosen != vocabulary.end
        for row in np.flatnonzero(unfinished).tolist():
            written[row].append(int(chosen[row]))
        if not unfinished.any():
            break
        tokens, mask = drawn[:, None], torch.cat([mask, torch.ones_like(mask[:, :1])], 1)
    return written


def draw(logits: Tensor, top_p: float, generator: torch.Generator) -> Tensor:
    """A token of each row among the likeliest, which together hold a share of the mass; shape (n,).
    `logits`: shape (n, size).

    >>> draw(torch.tensor([[3.0, 0.0, 0.0]]), 0.5, torch.Generator()).tolist()
    [0]
    """
    shares, order = torch.softmax(logits, 1).sort(1, descending=True)
    before = shares.cumsum(1) - shares
    rank = torch.multinomial(shares.masked_fill(before >= top_p, 0.0), 1, generator=generator)
    return order.gather(1, rank)[:, 0]


def theme_words(themes: Themes | None, schema: Schema) -> dict[str, str]:
    """The words of each column of themes that a schema has."""
    if themes is None:
        return {}
    words = themes.described()
    told = {
        column: word
        for name in schema.texts
        for column, word in zip(theme_names(name, len(themes)), words, strict=True)
    }
    if not all(name in schema.columns and schema.columns[name].is_boolean for name in told):
        raise ValueError("the schema of a model has all themes of its texts, which are true or false")
    return told
