"""Sampling of texts: token by token, from the likeliest ones, within a length.

Source: Holtzman et al. 2020 (1904.09751), for sampling from the smallest set that holds a share of the mass.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from understudy.extras.text.decoder import Decoder
from understudy.extras.text.sequences import Vocabulary

ROWS_AT_ONCE = 256  # texts that are written side by side


@dataclass(frozen=True)
class Limits:
    """How texts are drawn."""

    max_tokens: int
    temperature: float
    top_p: float


@torch.no_grad()
def sample(
    decoder: Decoder, vocabulary: Vocabulary, prompts: Sequence[Sequence[int]], limits: Limits,
    generator: torch.Generator,
) -> list[list[int]]:  # fmt: skip
    """The tokens of a text for each prompt, without its end."""
    written: list[list[int]] = []
    for at in range(0, len(prompts), ROWS_AT_ONCE):
        written += _some(decoder, vocabulary, prompts[at : at + ROWS_AT_ONCE], limits, generator)
    return written


def _some(
    decoder: Decoder, vocabulary: Vocabulary, prompts: Sequence[Sequence[int]], limits: Limits,
    generator: torch.Generator,
) -> list[list[int]]:  # fmt: skip
    device = generator.device
    n_prompt = max(map(len, prompts))
    padded = np.zeros((len(prompts), n_prompt), dtype=np.int64)
    for row, prompt in enumerate(prompts):
        padded[row, n_prompt - len(prompt) :] = np.array(prompt) + 1
    tokens = torch.from_numpy(padded).to(device)
    mask, tokens = tokens > 0, (tokens - 1).clamp_min(0)
    never = torch.from_numpy(vocabulary.never_sampled()).to(device)
    first = never.clone()
    first[vocabulary.end] = True
    written: list[list[int]] = [[] for _ in prompts]
    going = np.ones(len(prompts), dtype=bool)
    cache = None
    for step in range(limits.max_tokens):
        logits, cache = decoder.follow(tokens, mask, cache)
        logits = logits.float().masked_fill(first if step == 0 else never, -torch.inf)
        drawn = draw(logits / limits.temperature, limits.top_p, generator)
        chosen = drawn.tolist()
        for row in np.flatnonzero(going).tolist():
            if chosen[row] == vocabulary.end:
                going[row] = False
            else:
                written[row].append(chosen[row])
        if not going.any():
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
    kept = shares.masked_fill(before >= top_p, 0.0)
    place = torch.multinomial(kept, 1, generator=generator)
    return order.gather(1, place)[:, 0]
