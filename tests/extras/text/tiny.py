"""Small language models for tests: decoders of one layer, and folders as `transformers` saves them."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from synth.neural.encoding import Encoded
from synth.neural.training import UnitIndex
from synth.schema import Schema
from synth.table import conform
from tests.text_tables import TEXT, complaint_schema, complaints
from understudy.extras.text.language_models import Decoder, SmallDecoder, losses
from understudy.extras.text.tokens import CodedVocabulary, byte_pairs

TINY: Mapping[str, Any] = {"d_model": 16, "n_layers": 1, "max_tokens": 12, "vocabulary": 300, "device": "cpu"}
"""Parameters of a decoder that is trained in a second."""
CPU = torch.device("cpu")
ARCHITECTURES = ("gpt2", "llama")


def canonical(n_rows: int, seed: int = 0, schema: Schema | None = None) -> pd.DataFrame:
    return conform(complaints(n_rows, seed), schema or complaint_schema())


def coded(texts: Iterable[str] = (), rows: pd.DataFrame | None = None) -> CodedVocabulary:
    return CodedVocabulary.of(byte_pairs(texts, 300), canonical(50, 9) if rows is None else rows, complaint_schema())


def decoder(vocabulary: CodedVocabulary, max_tokens: int = 12, seed: int = 0) -> SmallDecoder:
    torch.manual_seed(seed)
    model = SmallDecoder(vocabulary.size, 16, 1, vocabulary.n_prompt + max_tokens + 1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3.0)
    return model


@torch.no_grad()
def check_that_logits_follow(model: Decoder, tokens: torch.Tensor, mask: torch.Tensor, n: int, off: float) -> None:
    """Token by token, and without gaps on the left, logits are those of one call. `n`: tokens of a prompt."""
    n_text = tokens.shape[1] - n
    whole = model(tokens, mask, n_text + 1)
    assert whole.std() > 0.1
    logits, cache = model.follow(tokens[:, :n], mask[:, :n], None)
    told = [logits]
    for rank in range(n, tokens.shape[1]):
        logits, cache = model.follow(tokens[:, rank : rank + 1], mask[:, : rank + 1], cache)
        told.append(logits)
    torch.testing.assert_close(torch.stack(told, 1), whole, rtol=off, atol=off)
    for row, gaps in enumerate((~mask).sum(1).tolist()):
        bare = model(tokens[row : row + 1, gaps:], mask[row : row + 1, gaps:], n_text + 1)
        torch.testing.assert_close(bare[0], whole[row], rtol=off, atol=off)


def units_of(sequences: np.ndarray, owners: np.ndarray, k: int) -> UnitIndex:
    return UnitIndex.of(Encoded(sequences, np.zeros((len(sequences), 0), dtype=np.float32)), owners, k)


def gradient_of_unit(model: Decoder, sequences: np.ndarray, n_prompt: int) -> np.ndarray:
    """The gradient of the summed losses of some texts by plain autograd, a text at a time; shape (d,), float64.

    All are divided by the same number, that of tokens at most.
    """
    parameters = list(model.trained.values())
    total = np.zeros(sum(parameter.numel() for parameter in parameters))
    for row in sequences:
        loss = losses(model, torch.from_numpy(row[None].astype(np.int64)), n_prompt).sum() / (
            sequences.shape[1] - n_prompt
        )
        parts = torch.autograd.grad(loss, parameters)
        total += torch.cat([part.flatten() for part in parts]).double().numpy()
    return total


def clipped(gradients: Iterable[np.ndarray], bound: float) -> np.ndarray:
    shortened = [vector * min(1.0, bound / max(float(np.linalg.norm(vector)), 1e-12)) for vector in gradients]
    return np.asarray(np.sum(shortened, axis=0))


def model_folder(folder: Path, architecture: str = "gpt2", seed: int = 0, **of_config: Any) -> Path:
    """A causal model of two layers with random weights, and a tokenizer of complaints, as `transformers` saves them."""
    from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

    save_tokenizer(folder)
    n_tokens = len(json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"])
    shape: dict[str, Any] = {"vocab_size": n_tokens, "eos_token_id": 0, "bos_token_id": 0}
    torch.manual_seed(seed)
    if architecture == "gpt2":
        model: Any = GPT2LMHeadModel(GPT2Config(**{"n_embd": 32, "n_layer": 2, "n_head": 2, **shape, **of_config}))
    else:
        small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
        model = LlamaForCausalLM(LlamaConfig(**{**small, "num_key_value_heads": 1, **shape, **of_config}))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3.0)
    model.save_pretrained(folder)
    return folder


def save_tokenizer(folder: Path, end: str | None = "<end>") -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False,
        special_tokens=["<end>", "<pad>"],
    )  # fmt: skip
    tokenizer.train_from_iterator(complaints(200, 5)[TEXT], trainer)
    told: dict[str, Any] = {} if end is None else {"eos_token": end}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", **told).save_pretrained(folder)
