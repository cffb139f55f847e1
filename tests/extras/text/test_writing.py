"""Decoders, the loss of a text, and the sampling of texts."""

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from tests.extras.text.tiny import canonical, check_that_logits_follow, coded, decoder
from tests.text_tables import TEXT
from understudy.extras.text.language_models import SmallDecoder, draw, losses, sample
from understudy.extras.text.tokens import END, sequences_of
from understudy.extras.text.wrapper import LanguageModel

VOCABULARY = coded()
LIMITS = LanguageModel(max_tokens=12, temperature=1.0, top_p=0.95)


def read(n_rows: int = 6) -> tuple[Tensor, Tensor]:
    rows = canonical(n_rows)
    rows[TEXT] = [text[: 2 + 3 * rank] for rank, text in enumerate(rows[TEXT])]
    sequences = torch.from_numpy(sequences_of(VOCABULARY, rows, TEXT, max_tokens=12, length=99)).long()
    return (sequences - 1).clamp_min(0), sequences > 0


def test_logits_token_by_token_are_those_of_one_call() -> None:
    tokens, mask = read()
    check_that_logits_follow(
        decoder(VOCABULARY), tokens[:, :-1], torch.ones_like(mask)[:, :-1], VOCABULARY.n_prompt, 1e-4
    )


@torch.no_grad()
def test_a_token_sees_none_after_it_and_none_of_another_text() -> None:
    model, (tokens, mask) = decoder(VOCABULARY), read()
    before = model(tokens, mask, tokens.shape[1])
    changed = tokens.clone()
    changed[0, 8:] = 5
    after = model(changed, mask, tokens.shape[1])
    assert torch.equal(before[1:], after[1:])
    torch.testing.assert_close(before[0, :8], after[0, :8], rtol=1e-6, atol=1e-7)
    assert not torch.equal(before[0, 8:], after[0, 8:])


def test_a_loss_is_the_cross_entropy_of_text_and_end_by_hand() -> None:
    model, (tokens, mask) = decoder(VOCABULARY), read()
    n = VOCABULARY.n_prompt
    computed = losses(model, (tokens + 1) * mask, n)
    for row in range(6):
        row_tokens = tokens[row][mask[row]]
        shares = model(
            row_tokens[None, :-1], torch.ones(1, len(row_tokens) - 1, dtype=torch.bool), len(row_tokens) - n
        )[0].softmax(1)
        asked = row_tokens[n:]
        by_hand = -np.sum([np.log(float(shares[rank, token].detach())) for rank, token in enumerate(asked)])
        assert float(computed[row].detach()) == pytest.approx(by_hand, rel=1e-5)


def written(limits: LanguageModel, seed: int = 0, n: int = 300, model: SmallDecoder | None = None) -> list[list[int]]:
    prompts = VOCABULARY.prompts(canonical(n), TEXT)
    generator = torch.Generator().manual_seed(seed)
    return sample(model or decoder(VOCABULARY), VOCABULARY, prompts, limits, generator)


def test_texts_are_no_longer_than_their_limit_and_hold_no_token_of_a_prompt() -> None:
    texts = written(LIMITS)
    assert len(texts) == 300
    assert {len(text) for text in texts} <= set(range(1, 13))
    assert max(len(text) for text in texts) == 12
    tokens = {token for text in texts for token in text}
    assert END not in tokens
    assert not VOCABULARY.never_sampled()[list(tokens)].any()


def test_tokens_are_drawn_by_their_shares_among_the_likeliest() -> None:
    shares = np.array([0.5, 0.3, 0.15, 0.05])
    logits = torch.from_numpy(np.log(shares)).float().expand(4_000, -1)
    generator = torch.Generator().manual_seed(0)
    counts = np.bincount(draw(logits, 1.0, generator).numpy(), minlength=4)
    assert stats.chisquare(counts, 4_000 * shares).pvalue > 1e-6
    counts = np.bincount(draw(logits, 0.75, generator).numpy(), minlength=4)
    assert not counts[2:].any()
    assert stats.chisquare(counts[:2], 4_000 * shares[:2] / 0.8).pvalue > 1e-6
    assert draw(logits[:5], 1e-9, generator).tolist() == [0] * 5
