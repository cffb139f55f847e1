"""Vocabularies: the tokens of prompts and texts, of the small decoder and of a folder's model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from understudy.extras.text.prompts import Prompts
from understudy.extras.text.tokenizer import END, BytePairs


@dataclass(frozen=True, eq=False)
class CodedVocabulary:
    """Of the small decoder: a token for each code of each column, one for each column of text, then byte pairs."""

    tokenizer: BytePairs
    row: Prompts
    text_columns: tuple[str, ...]

    @property
    def size(self) -> int:
        """Number of tokens, those of prompts among them."""
        return self.tokenizer.size + len(self.text_columns) + sum(self.row.sizes)

    @property
    def n_prompt(self) -> int:
        """Tokens of a prompt: one for each learned column, and one that names the column of text."""
        return len(self.row.columns) + 1

    @property
    def end(self) -> int:
        return END

    def heading(self, name: str) -> int:
        """The token that asks for a text of a column."""
        return self.tokenizer.size + self.text_columns.index(name)

    def prompts(self, rows: pd.DataFrame, name: str) -> list[list[int]]:
        codes = self.row.codes(rows) + self.tokenizer.size + len(self.text_columns)
        heading = np.full((len(rows), 1), self.heading(name))
        made: list[list[int]] = np.concatenate([codes, heading], axis=1).tolist()
        return made

    def tokens(self, text: str) -> list[int]:
        return self.tokenizer.tokens(text)

    def text(self, tokens: Sequence[int]) -> str:
        return self.tokenizer.text(tokens)

    def never_sampled(self) -> NDArray[np.bool_]:
        """True for tokens of prompts; shape (size,)."""
        return np.arange(self.size) >= self.tokenizer.size


@dataclass(frozen=True, eq=False)
class WordedVocabulary:
    """Of a folder's model: its own tokenizer, and rows as keys and values in words."""

    tokenizer: Any
    row: Prompts
    n_prompt: int
    size: int
    end: int

    def prompts(self, rows: pd.DataFrame, name: str) -> list[list[int]]:
        """The prompt of each row; of one that is too long, its end."""
        return [self._encoded(line)[-self.n_prompt :] for line in self.row.lines(rows, name)]

    def tokens(self, text: str) -> list[int]:
        return self._encoded(f" {text}")

    def text(self, tokens: Sequence[int]) -> str:
        return str(self.tokenizer.decode(list(tokens), skip_special_tokens=True)).replace("\ufffd", "").strip()

    def never_sampled(self) -> NDArray[np.bool_]:
        """True for special tokens but the end; shape (size,)."""
        barred = np.zeros(self.size, dtype=bool)
        barred[[token for token in self.tokenizer.all_special_ids if token != self.end]] = True
        barred[len(self.tokenizer) :] = True
        return barred

    def _encoded(self, text: str) -> list[int]:
        # Without `verbose=False` the library logs the length of a text that is long: a number read off a row.
        found: list[int] = self.tokenizer.encode(text, add_special_tokens=False, verbose=False)
        return found
