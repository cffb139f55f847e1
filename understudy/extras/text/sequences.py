"""Texts and their prompts as sequences of tokens: prompts end where texts begin, at one place for all rows.

A sequence is a row of numbers: 0 where there is no token, else the token plus 1. What a row's numbers are depends on
that row alone, and their shape on public numbers.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from understudy.extras.text.decoder import Decoder

ROWS_A_PASS = 64  # texts that are read at once


class Vocabulary(Protocol):
    """The tokens of a language model: of prompts and of texts."""

    @property
    def size(self) -> int:
        """Number of tokens, those of prompts among them."""

    @property
    def n_prompt(self) -> int:
        """Tokens of a prompt at most: a public number."""

    @property
    def end(self) -> int:
        """The token that ends a text."""

    def prompts(self, rows: pd.DataFrame, name: str) -> list[list[int]]:
        """The prompt of each row, at least one token and at most `n_prompt`."""

    def tokens(self, text: str) -> list[int]:
        """The tokens of a text, without its end."""

    def text(self, tokens: Sequence[int]) -> str:
        """The text of tokens."""

    def never_sampled(self) -> NDArray[np.bool_]:
        """True for tokens that stand in no text; shape (size,)."""


def sequences_of(
    vocabulary: Vocabulary, rows: pd.DataFrame, name: str, *, max_tokens: int, length: int
) -> NDArray[np.int32]:
    """Prompt and text of each row, shape (n, n_prompt + max_tokens + 1); a text that is too long is cut, and a missing
    one has no token: rows say which are missing, and nothing is learned of it.
    `rows`: *Sensitive*. Canonical.
    """
    n_prompt = vocabulary.n_prompt
    made = np.zeros((len(rows), n_prompt + max_tokens + 1), dtype=np.int32)
    held = [text[:length] if isinstance(text, str) else None for text in rows[name].tolist()]
    for row, (prompt, text) in enumerate(zip(vocabulary.prompts(rows, name), held, strict=True)):
        tokens = [] if text is None else [*vocabulary.tokens(text), vocabulary.end][: max_tokens + 1]
        made[row, n_prompt - len(prompt) : n_prompt] = np.array(prompt) + 1
        made[row, n_prompt : n_prompt + len(tokens)] = np.array(tokens) + 1
    return made


def losses(decoder: Decoder, sequences: Tensor, n_prompt: int) -> Tensor:
    """The negative log-likelihood of each text given its prompt, of all its tokens in nats, shape (n,).

    To learn, it is divided by one constant: divided by its own tokens, a short text would weigh as much as a long one.
    `sequences`: *Sensitive*. Shape (n, T), int64.
    """
    mask, tokens = sequences > 0, (sequences - 1).clamp_min(0)
    asked = tokens[:, n_prompt:]
    logits = decoder(tokens[:, :-1], mask[:, :-1], asked.shape[1])
    counted = mask[:, n_prompt:].float()
    of_tokens = functional.cross_entropy(logits.flatten(0, 1), asked.flatten(), reduction="none").view_as(counted)
    return (of_tokens * counted).sum(1)


@torch.no_grad()
def losses_of(
    decoder: Decoder, sequences: NDArray[np.int32], n_prompt: int, device: torch.device
) -> NDArray[np.float64]:
    """The same of a whole table, some rows at a time, per token; shape (n,). `sequences`: *Sensitive*. Shape (n, T)."""
    found = np.zeros(len(sequences))
    for at in range(0, len(sequences), ROWS_A_PASS):
        part = trimmed(torch.from_numpy(sequences[at : at + ROWS_A_PASS]).to(device).long())
        found[at : at + ROWS_A_PASS] = losses(decoder, part, n_prompt).double().cpu().numpy()
    per_token: NDArray[np.float64] = found / np.maximum((sequences[:, n_prompt:] > 0).sum(1), 1)
    return per_token


def trimmed(sequences: Tensor) -> Tensor:
    """The sequences without places on the right where none has a token: for what promises nothing."""
    last = int((sequences > 0).any(0).nonzero().max()) + 1
    return sequences[:, :last]
