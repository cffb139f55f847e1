"""Decoders, the loss of a text, and the sampling of texts."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from tests.extras.text.tiny import canonical, check_that_logits_follow, coded, decoder
from tests.text_tables import TEXT
from understudy.extras.text.decoder import Cache, SmallDecoder, draw, sample
from understudy.extras.text.specification import LanguageModel
from understudy.extras.text.tokens import END, sequences_of
from understudy.extras.text.training import losses, losses_of, trimmed

VOCABULARY = coded()
LIMITS = LanguageModel(max_tokens=12, temperature=1.0, top_p=0.95)


def read(n_rows: int = 6) -> tuple[Tensor, Tensor]:
    """Tokens and mask of some texts of unequal length."""
    rows = canonical(n_rows)
    rows[TEXT] = [text[: 2 + 3 * place] for place, text in enumerate(rows[TEXT])]
    sequences = torch.from_numpy(sequences_of(VOCABULARY, rows, TEXT, max_tokens=12, length=99)).long()
    return (sequences - 1).clamp_min(0), sequences > 0


def test_logits_token_by_token_are_those_of_one_call() -> None:
    tokens, mask = read()
    check_that_logits_follow(
        decoder(VOCABULARY), tokens[:, :-1], torch.ones_like(mask)[:, :-1], VOCABULARY.n_prompt, 1e-4
    )


@torch.no_grad()
def test_gaps_on_either_side_change_no_logit_of_a_text() -> None:
    model, (tokens, mask) = decoder(VOCABULARY), read()
    wide = torch.cat([torch.full((6, 3), 7), tokens, torch.full((6, 2), 9)], 1)
    gaps = torch.cat([torch.zeros(6, 3, dtype=torch.bool), mask, torch.zeros(6, 2, dtype=torch.bool)], 1)
    found, expected = model(wide, gaps, 14)[:, :12], model(tokens, mask, 12)
    torch.testing.assert_close(found[mask[:, -12:]], expected[mask[:, -12:]], rtol=1e-5, atol=1e-5)


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
    found = losses(model, (tokens + 1) * mask, n)
    for row in range(6):
        held = tokens[row][mask[row]]
        shares = model(held[None, :-1], torch.ones(1, len(held) - 1, dtype=torch.bool), len(held) - n)[0].softmax(1)
        asked = held[n:]
        by_hand = -np.sum([np.log(float(shares[place, token].detach())) for place, token in enumerate(asked)])
        assert float(found[row].detach()) == pytest.approx(by_hand, rel=1e-5)


def test_losses_of_a_table_are_those_of_each_row_and_padding_has_none() -> None:
    model, (tokens, mask) = decoder(VOCABULARY), read()
    sequences = ((tokens + 1) * mask).numpy().astype(np.int32)
    many = np.concatenate([sequences] * 20)
    found = losses_of(model, many, VOCABULARY.n_prompt)
    assert found == pytest.approx(np.tile(losses_of(model, sequences, VOCABULARY.n_prompt), 20), rel=1e-5)
    empty = losses(model, torch.zeros(2, sequences.shape[1], dtype=torch.long), VOCABULARY.n_prompt)
    assert empty.tolist() == [0.0, 0.0]
    assert trimmed(torch.tensor([[1, 2, 0, 0], [1, 0, 0, 0]])).tolist() == [[1, 2], [1, 0]]


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


def test_the_same_seed_writes_the_same_texts_and_another_seed_others() -> None:
    assert written(LIMITS, seed=1) == written(LIMITS, seed=1)
    assert written(LIMITS, seed=1) != written(LIMITS, seed=2)


class Fixed(SmallDecoder):
    """A decoder that gives the same logits everywhere."""

    def __init__(self, likely: dict[int, float]) -> None:
        super().__init__(VOCABULARY.size, 16, 1, 30)
        logits = torch.full((VOCABULARY.size,), -50.0)
        for token, share in likely.items():
            logits[token] = float(np.log(share))
        self.fixed = logits

    def follow(self, tokens: Tensor, mask: Tensor, cache: Cache | None) -> tuple[Tensor, Cache]:
        return self.fixed.expand(len(tokens), -1).clone(), None


A, B = VOCABULARY.tokens("ab")


def test_a_text_has_a_token_at_least() -> None:
    texts = written(LIMITS.model_copy(update={"top_p": 1.0}), model=Fixed({A: 0.3, END: 0.7}))
    assert all(texts)


def test_tokens_are_drawn_by_their_shares_among_the_likeliest() -> None:
    shares = np.array([0.5, 0.3, 0.15, 0.05])
    logits = torch.from_numpy(np.log(shares)).float().expand(4_000, -1)
    generator = torch.Generator().manual_seed(0)
    found = np.bincount(draw(logits, 1.0, generator).numpy(), minlength=4)
    assert stats.chisquare(found, 4_000 * shares).pvalue > 1e-6
    found = np.bincount(draw(logits, 0.75, generator).numpy(), minlength=4)
    assert not found[2:].any()
    assert stats.chisquare(found[:2], 4_000 * shares[:2] / 0.8).pvalue > 1e-6
    assert draw(logits[:5], 1e-9, generator).tolist() == [0] * 5


def test_a_low_temperature_writes_the_likeliest_text() -> None:
    model = Fixed({A: 0.6, B: 0.4})
    texts = written(LIMITS.model_copy(update={"temperature": 0.01}), model=model, n=20)
    assert texts == [[A] * 12] * 20


def test_prompts_of_unequal_length_are_followed_as_if_each_were_alone() -> None:
    model, prompts = decoder(VOCABULARY), VOCABULARY.prompts(canonical(3), TEXT)
    uneven: list[Sequence[int]] = [prompts[0], prompts[1][2:], prompts[2][-1:]]
    likeliest = LIMITS.model_copy(update={"temperature": 1e-4})
    generator = torch.Generator().manual_seed(0)
    together = sample(model, VOCABULARY, uneven, likeliest, generator)
    alone = [sample(model, VOCABULARY, [prompt], likeliest, generator)[0] for prompt in uneven]
    assert together == alone
