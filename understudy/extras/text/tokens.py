"""Rows and texts as tokens: prompts of rows, the texts of these, and both as sequences.

Of a prompt, domains are taken from synthetic rows, which a fitted model of the other columns drew. So it costs no
budget, and no real row decides what it can say.

Source: byte-pair encoding by Sennrich, Haddow, Birch 2016 (1508.07909); over bytes, Radford et al. 2019.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from synth.schema import Schema
from synth.schema.kinds import Column
from synth.table.conforming import texts
from understudy.extras.text.themes import Themes, theme_names

N_RANGES, MOST_VALUES = 16, 62  # ranges of a number or time, and values of any other column, that a prompt tells apart
OTHER = 0  # code of a value that no synthetic row holds
END, N_SPECIAL = 0, 1  # the end of a text; its vocabulary follows


class KeyValues(BaseModel):
    """The codes of one column in a prompt, by ranges or values; the last one is that of a missing value."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)
    name: str
    edges: tuple[float, ...] | None = None
    values: tuple[str, ...] = ()

    @classmethod
    def of(cls, series: pd.Series, column: Column) -> Self:
        if column.is_line:
            line = column.positions(series)
            line = line[np.isfinite(line)]
            ranks = np.linspace(0, 1, N_RANGES + 1)[1:-1]
            edges = np.unique(np.quantile(line, ranks)) if len(line) else np.zeros(0)
            return cls(name=str(series.name), edges=tuple(edges.tolist()))
        counted = pd.Series(texts(series, column), dtype=object).value_counts()
        order = sorted(counted.items(), key=lambda pair: (-pair[1], pair[0]))
        return cls(name=str(series.name), values=tuple(str(value) for value, _ in order[:MOST_VALUES]))

    @property
    def size(self) -> int:
        return 2 + len(self.values if self.edges is None else self.edges)

    def codes(self, series: pd.Series, column: Column) -> NDArray[np.int64]:
        if self.edges is None:
            known = {value: 1 + rank for rank, value in enumerate(self.values)}
            codes = [self.size - 1 if text is None else known.get(text, OTHER) for text in texts(series, column)]
            return np.array(codes, dtype=np.int64)
        line = column.positions(series)
        ranges = np.searchsorted(np.array(self.edges), line, side="right")
        return np.where(np.isnan(line), self.size - 1, ranges).astype(np.int64)


def byte_pairs(public: Iterable[str], size: int) -> Tokenizer:
    """A tokenizer with at most so many tokens, of texts that are public, or of a fit without epsilon."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False, min_frequency=2
    )
    tokenizer.train_from_iterator(public, trainer)
    return tokenizer


@dataclass(frozen=True, eq=False)
class CodedVocabulary:
    """Of the small decoder: byte pairs, a token for each column of text, and one for each code of each column."""

    tokenizer: Tokenizer
    columns: tuple[KeyValues, ...]
    schema: Schema
    end: int = END

    @classmethod
    def of(cls, tokenizer: Tokenizer, synthetic: pd.DataFrame, schema: Schema) -> Self:
        return cls(tokenizer, tuple(KeyValues.of(synthetic[n], schema.columns[n]) for n in schema.learned), schema)

    @property
    def n_written(self) -> int:
        """Tokens that texts consist of; they come first."""
        return N_SPECIAL + int(self.tokenizer.get_vocab_size())

    @property
    def size(self) -> int:
        return self.n_written + len(self.schema.texts) + sum(column.size for column in self.columns)

    @property
    def n_prompt(self) -> int:
        """Tokens of a prompt: one for each learned column, and one that names the column of text."""
        return len(self.columns) + 1

    def prompts(self, rows: pd.DataFrame, name: str) -> list[list[int]]:
        codes, first = list[Any](), self.n_written + len(self.schema.texts)
        for column in self.columns:
            codes.append(first + column.codes(rows[column.name], self.schema.columns[column.name]))
            first += column.size
        heading = np.full(len(rows), self.n_written + self.schema.texts.index(name))
        prompts: list[list[int]] = np.stack([*codes, heading], axis=1).tolist()
        return prompts

    def tokens(self, text: str) -> list[int]:
        return [N_SPECIAL + token for token in self.tokenizer.encode(text).ids]

    def text(self, tokens: Sequence[int]) -> str:
        return str(self.tokenizer.decode([token - N_SPECIAL for token in tokens])).replace("\ufffd", "")

    def never_sampled(self) -> NDArray[np.bool_]:
        """True for tokens of prompts; shape (size,)."""
        return np.arange(self.size) >= self.n_written

    def to_plain(self) -> dict[str, Any]:
        return {"tokenizer": self.tokenizer.to_str(), "columns": [column.model_dump() for column in self.columns]}

    @classmethod
    def loaded(cls, content: Mapping[str, Any], schema: Schema) -> Self:
        columns = tuple(KeyValues.model_validate(part) for part in content["columns"])
        try:
            return cls(Tokenizer.from_str(content["tokenizer"]), columns, schema)
        except Exception as error:  # noqa: BLE001 - the library raises nothing narrower
            raise ValueError(f"it is no tokenizer ({type(error).__name__})") from None


@dataclass(frozen=True, eq=False)
class WordedVocabulary:
    """Of a folder's model: its own tokenizer, and rows as keys and values in words."""

    tokenizer: Any
    schema: Schema
    themes: Themes | None
    n_prompt: int  # tokens of a prompt at most, a public number
    size: int

    @property
    def end(self) -> int:
        return int(self.tokenizer.eos_token_id)

    def lines(self, rows: pd.DataFrame, name: str) -> list[str]:
        """Rows as keys and values in words, which end with the name of the column that a text is asked for."""
        of_themes, parts = theme_names(self.schema.texts, self.themes), []
        for key in (key for key in self.schema.learned if key not in of_themes):
            values = texts(rows[key], self.schema.columns[key])
            parts.append([f"{key}: {'missing' if value is None else value}" for value in values])
        if self.themes is not None:
            words = np.array(self.themes.described(), dtype=object)
            flags = rows[theme_names((name,), self.themes)].fillna(False).to_numpy(dtype=bool)
            parts.append(["themes: " + ", ".join(words[row]) for row in flags])
        return ["\n".join([*row, f"{name}:"]) for row in zip(*parts, strict=True)]

    def prompts(self, rows: pd.DataFrame, name: str) -> list[list[int]]:
        """The prompt of each row; of one that is too long, its end."""
        return [self._encoded(line)[-self.n_prompt :] for line in self.lines(rows, name)]

    def tokens(self, text: str) -> list[int]:
        return self._encoded(f" {text}")

    def text(self, tokens: Sequence[int]) -> str:
        return str(self.tokenizer.decode(list(tokens), skip_special_tokens=True)).replace("\ufffd", "").strip()

    def never_sampled(self) -> NDArray[np.bool_]:
        """True for special tokens but the end; shape (size,)."""
        barred = np.arange(self.size) >= len(self.tokenizer)
        barred[[token for token in self.tokenizer.all_special_ids if token != self.end]] = True
        return barred

    def _encoded(self, text: str) -> list[int]:
        # Without `verbose=False` the library logs the length of a text that is long: a number read off a row.
        tokens: list[int] = self.tokenizer.encode(text, add_special_tokens=False, verbose=False)
        return tokens


Vocabulary = CodedVocabulary | WordedVocabulary


def sequences_of(
    vocabulary: Vocabulary, rows: pd.DataFrame, name: str, *, max_tokens: int, length: int
) -> NDArray[np.int32]:
    """Prompt and text of each row, shape (n, n_prompt + max_tokens + 1): 0 where there is no token, else that plus 1.

    Texts begin at one rank for all rows. A text that is too long is cut. A missing one has no token: rows say which are
    missing, and nothing is learned of it. A row's numbers depend on that row alone, and their shape on public numbers.
    """
    n_prompt = vocabulary.n_prompt
    sequences = np.zeros((len(rows), n_prompt + max_tokens + 1), dtype=np.int32)
    for row, (prompt, text) in enumerate(zip(vocabulary.prompts(rows, name), rows[name].tolist(), strict=True)):
        sequences[row, n_prompt - len(prompt) : n_prompt] = np.array(prompt) + 1
        if isinstance(text, str):
            tokens = [*vocabulary.tokens(text[:length]), vocabulary.end][: max_tokens + 1]
            sequences[row, n_prompt : n_prompt + len(tokens)] = np.array(tokens) + 1
    return sequences
