"""Rows and texts as tokens: prompts of rows, the texts of these, and both as sequences.

Of a prompt, domains are taken from synthetic rows, which a fitted model of the other columns drew. So it costs no
budget, and no real row decides what it can say.

Source: byte-pair encoding by Sennrich, Haddow, Birch 2016 (1508.07909); over bytes, Radford et al. 2019.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from synth.domain.plain_arrays import reals
from synth.schema import Schema
from synth.schema.kinds import Column
from synth.table.restore_dtypes import texts
from understudy.extras.text.themes import theme_names

N_RANGES, MOST_VALUES = 16, 62
"""Ranges of a number or time, and values of any other column, that a prompt tells apart."""
OTHER = 0  # code of a value that no synthetic row holds
END, N_SPECIAL = 0, 1  # the end of a text; its vocabulary follows


@dataclass(frozen=True)
class KeyValues:
    """The codes of one column in a prompt; the last one is that of a missing value."""

    name: str
    edges: tuple[float, ...] | None
    values: tuple[str, ...] = ()

    @classmethod
    def of(cls, series: pd.Series, column: Column) -> Self:
        """The codes that tell apart what a synthetic column holds."""
        if column.is_line:
            line = column.positions(series)
            line = line[np.isfinite(line)]
            ranks = np.linspace(0, 1, N_RANGES + 1)[1:-1]
            edges = np.unique(np.quantile(line, ranks)) if len(line) else np.zeros(0)
            return cls(str(series.name), tuple(float(edge) for edge in edges))
        counted = pd.Series(texts(series, column), dtype=object).value_counts()
        order = sorted(counted.items(), key=lambda pair: (-pair[1], pair[0]))
        return cls(str(series.name), None, tuple(str(value) for value, _ in order[:MOST_VALUES]))

    @property
    def size(self) -> int:
        return (len(self.values) + 2) if self.edges is None else len(self.edges) + 2

    def codes(self, series: pd.Series, column: Column) -> NDArray[np.int64]:
        """The code of each row; shape (n,)."""
        if self.edges is None or not column.is_line:
            known = {value: 1 + rank for rank, value in enumerate(self.values)}
            codes = [self.size - 1 if text is None else known.get(text, OTHER) for text in texts(series, column)]
            return np.array(codes, dtype=np.int64)
        line = column.positions(series)
        ranges = np.searchsorted(np.array(self.edges), line, side="right")
        return np.where(np.isnan(line), self.size - 1, ranges).astype(np.int64)


@dataclass(frozen=True)
class Prompts:
    """The prompts of a table's rows. `themes`: what each column of themes says, in words."""

    columns: tuple[KeyValues, ...]
    schema: Schema
    themes: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, synthetic: pd.DataFrame, schema: Schema, themes: Mapping[str, str] | None = None) -> Self:
        """Prompts whose codes tell apart what synthetic rows hold."""
        columns = tuple(KeyValues.of(synthetic[name], schema.columns[name]) for name in schema.learned)
        return cls(columns, schema, themes or {})

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(column.size for column in self.columns)

    def codes(self, rows: pd.DataFrame) -> NDArray[np.int64]:
        """Codes of rows, shape (n, n_columns), each column's counted on from the one's before."""
        shifts = np.concatenate([[0], np.cumsum(self.sizes)[:-1]]).astype(np.int64)
        kinds = self.schema.columns
        parts = [column.codes(rows[column.name], kinds[column.name]) for column in self.columns]
        return np.stack(parts, axis=1) + shifts

    def lines(self, rows: pd.DataFrame, text_column: str) -> list[str]:
        """Rows as keys and values in words, which end with the name of the column that a text is asked for."""
        names = [name for name in self.schema.learned if name not in self.themes]
        told = [(name, texts(rows[name], self.schema.columns[name])) for name in names]
        parts = [[f"{name}: {'missing' if value is None else value}" for value in values] for name, values in told]
        own = [name for name in theme_names(text_column, len(self.themes)) if name in self.themes]
        if own:
            flags = rows[own].fillna(False).to_numpy(dtype=bool)
            words = np.array([self.themes[name] for name in own], dtype=object)
            parts.append(["themes: " + ", ".join(words[row]) for row in flags])
        return ["\n".join([*row, f"{text_column}:"]) for row in zip(*parts, strict=True)]

    def to_plain(self) -> list[dict[str, Any]]:
        return [asdict(column) for column in self.columns]

    @classmethod
    def from_plain(
        cls, content: Sequence[Mapping[str, Any]], schema: Schema, themes: Mapping[str, str] | None = None
    ) -> Self:
        columns = []
        for part in content:
            edges = None if part["edges"] is None else tuple(reals(part, "edges").tolist())
            columns.append(KeyValues(part["name"], edges, tuple(part["values"])))
            if not all(isinstance(value, str) for value in part["values"]):
                raise ValueError("values of a prompt are texts")
        if tuple(column.name for column in columns) != schema.learned:
            raise ValueError("a prompt has all learned columns")
        return cls(tuple(columns), schema, themes or {})


class BytePairs:
    """A tokenizer of texts. Every text has tokens, since every byte is one."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    @classmethod
    def learned(cls, texts: Iterable[str], size: int) -> Self:
        """A tokenizer with at most so many tokens.
        `texts`: public ones, or *Sensitive* ones of a fit without epsilon. Without any, tokens are bytes.

        >>> bytes_alone = BytePairs.learned([], 1_000)
        >>> bytes_alone.size, bytes_alone.text(bytes_alone.tokens("né"))
        (257, 'né')
        """
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False, min_frequency=2
        )
        tokenizer.train_from_iterator(texts, trainer)
        return cls(tokenizer)

    @property
    def size(self) -> int:
        return N_SPECIAL + int(self._tokenizer.get_vocab_size())

    def tokens(self, text: str) -> list[int]:
        return [N_SPECIAL + token for token in self._tokenizer.encode(text).ids]

    def text(self, tokens: Iterable[int]) -> str:
        """The text of tokens; bytes that are no text are left out."""
        return str(self._tokenizer.decode([token - N_SPECIAL for token in tokens])).replace("\ufffd", "")

    def to_text(self) -> str:
        return str(self._tokenizer.to_str())

    @classmethod
    def from_text(cls, text: str) -> Self:
        try:
            return cls(Tokenizer.from_str(text))
        except Exception as error:  # noqa: BLE001 - the library raises nothing narrower
            raise ValueError(f"it is no tokenizer ({type(error).__name__})") from None


@dataclass(frozen=True, eq=False)
class CodedVocabulary:
    """Of the small decoder: byte pairs, a token for each column of text, and one for each code of each column."""

    tokenizer: BytePairs
    row: Prompts
    text_columns: tuple[str, ...]
    end: int = END

    @property
    def size(self) -> int:
        return self.tokenizer.size + len(self.text_columns) + sum(self.row.sizes)

    @property
    def n_prompt(self) -> int:
        """Tokens of a prompt: one for each learned column, and one that names the column of text."""
        return len(self.row.columns) + 1

    def prompts(self, rows: pd.DataFrame, name: str) -> list[list[int]]:
        codes = self.row.codes(rows) + self.tokenizer.size + len(self.text_columns)
        heading = np.full((len(rows), 1), self.tokenizer.size + self.text_columns.index(name))
        prompts: list[list[int]] = np.concatenate([codes, heading], axis=1).tolist()
        return prompts

    def tokens(self, text: str) -> list[int]:
        return self.tokenizer.tokens(text)

    def text(self, tokens: Sequence[int]) -> str:
        return self.tokenizer.text(tokens)

    def never_sampled(self) -> NDArray[np.bool_]:
        """True for tokens of prompts; shape (size,)."""
        return np.arange(self.size) >= self.tokenizer.size


@dataclass(frozen=True, eq=False)
class WordedVocabulary:
    """Of a folder's model: its own tokenizer, and rows as keys and values in words.
    `n_prompt`: tokens of a prompt at most, a public number.
    """

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
        tokens: list[int] = self.tokenizer.encode(text, add_special_tokens=False, verbose=False)
        return tokens


Vocabulary = CodedVocabulary | WordedVocabulary


def sequences_of(
    vocabulary: Vocabulary, rows: pd.DataFrame, name: str, *, max_tokens: int, length: int
) -> NDArray[np.int32]:
    """Prompt and text of each row, shape (n, n_prompt + max_tokens + 1): 0 where there is no token, else that plus 1.

    Texts begin at one rank for all rows. A text that is too long is cut. A missing one has no token: rows say which are
    missing, and nothing is learned of it. A row's numbers depend on that row alone, and their shape on public numbers.
    `rows`: *Sensitive*. Canonical.
    """
    n_prompt = vocabulary.n_prompt
    sequences = np.zeros((len(rows), n_prompt + max_tokens + 1), dtype=np.int32)
    for row, (prompt, text) in enumerate(zip(vocabulary.prompts(rows, name), rows[name].tolist(), strict=True)):
        sequences[row, n_prompt - len(prompt) : n_prompt] = np.array(prompt) + 1
        if isinstance(text, str):
            tokens = [*vocabulary.tokens(text[:length]), vocabulary.end][: max_tokens + 1]
            sequences[row, n_prompt : n_prompt + len(tokens)] = np.array(tokens) + 1
    return sequences
