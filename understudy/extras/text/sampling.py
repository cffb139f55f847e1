"""Sampling of texts from a decoder, a token of many texts at a time.

Source: Holtzman et al. 2020 (1904.09751), for sampling from the smallest set of tokens that holds a share of the mass.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from understudy.extras.text.decoder import Decoder
from understudy.extras.text.specification import LanguageModel
from understudy.extras.text.tokens import Vocabulary

ROWS_AT_ONCE = 256  # texts that are written side by side


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
