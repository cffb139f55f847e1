"""Causal language models, a small one of our own or a folder's with LoRA adapters on its attention; sampling.

Every parameter of the small one is in an embedding, a linear layer or a normalization: all of them have exact gradients
by unit. A folder is as `transformers` saves it: nothing in it is run, nothing is downloaded. Its weights stay as they
are; adapters alone are trained and saved.

Source: Vaswani et al. 2017 (1706.03762); Radford et al. 2019, for normalization before each part; Hu et al. 2022
(2106.09685), and for them under DP-SGD Yu et al. 2022 (2110.06500); Holtzman et al. 2020 (1904.09751), for sampling
from the smallest set of tokens that holds a share of the mass.
"""

import hashlib
import json
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from synth.errors import JobError
from understudy.extras.text.tokens import Vocabulary
from understudy.extras.text.wrapper import LanguageModel

Cache = Any  # keys and values of the tokens so far, in the form of the decoder that made them
HEAD = 16  # width of an attention head
ROWS_AT_ONCE, ROWS_A_PASS = 256, 64  # texts that are written side by side, and that are read at once
NEEDED = ("config.json", "tokenizer.json", "*.safetensors")
ADAPTER = "adapter_config.json"  # names another folder, which nothing here has looked at
SAFELY = {"local_files_only": True, "trust_remote_code": False}
LENGTHS = ("max_position_embeddings", "n_positions")  # keys of a configuration that say how many tokens a model reads


class Decoder(nn.Module):
    """A causal language model, of which the parameters with gradients are trained.

    Of n texts, `tokens` has shape (n, T), int64, and anything where there is none; `mask` says where there is one. Gaps
    stand on the left and the right only.
    """

    def forward(self, tokens: Tensor, mask: Tensor, n_last: int) -> Tensor:
        raise NotImplementedError

    def follow(self, tokens: Tensor, mask: Tensor, cache: Cache | None) -> tuple[Tensor, Cache]:
        """Logits of the token after the last one, shape (n, size), and what is kept for the next call.

        Tokens are new ones, shape (n, t); the mask is of all tokens so far, these last.
        """
        raise NotImplementedError

    @property
    def trained(self) -> dict[str, nn.Parameter]:
        return {name: parameter for name, parameter in self.named_parameters() if parameter.requires_grad}

    def put(self, weights: Mapping[str, Tensor]) -> None:
        if {name: w.shape for name, w in weights.items()} != {name: p.shape for name, p in self.trained.items()}:
            raise ValueError("the weights are of another model")
        self.load_state_dict(weights, strict=False)


class SmallDecoder(Decoder):
    """A transformer of a few layers. `size`: of its vocabulary; `length`: tokens that it reads at most."""

    def __init__(self, size: int, d_model: int, n_layers: int, length: int) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(size, d_model), nn.Embedding(length, d_model)
        self.layers = nn.ModuleList(Layer(d_model) for _ in range(n_layers))
        self.norm, self.head = nn.LayerNorm(d_model), nn.Linear(d_model, size)
        for table in (self.tokens, self.places):
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, tokens: Tensor, mask: Tensor, n_last: int) -> Tensor:
        logits: Tensor = self.head(self._hidden(tokens, mask, None)[0][:, -n_last:])
        return logits

    def follow(self, tokens: Tensor, mask: Tensor, cache: Cache | None) -> tuple[Tensor, Cache]:
        hidden, kept = self._hidden(tokens, mask, cache)
        return self.head(hidden[:, -1]), kept

    def _hidden(self, tokens: Tensor, mask: Tensor, cache: Cache | None) -> tuple[Tensor, Cache]:
        n_new = tokens.shape[1]
        ranks = positions(mask).clamp_max(self.places.num_embeddings - 1)[:, -n_new:]
        hidden = self.tokens(tokens) + self.places(ranks)
        seen, kept = attention_mask(mask, n_new), []
        for index, layer in enumerate(self.layers):
            hidden, pair = layer(hidden, seen, None if cache is None else cache[index])
            kept.append(pair)
        return self.norm(hidden), kept


class Layer(nn.Module):
    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.n_heads = d_model // HEAD
        self.before, self.between = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.attend, self.mix = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)
        self.widen, self.narrow = nn.Linear(d_model, 4 * d_model), nn.Linear(4 * d_model, d_model)

    def forward(
        self, hidden: Tensor, seen: Tensor, cache: tuple[Tensor, Tensor] | None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """The next hidden states, shape (n, t, d_model), and keys and values of all tokens so far.
        `seen`: which tokens each new one attends to, shape (n, 1, t, T).
        """
        n, t, width = hidden.shape
        parts = self.attend(self.before(hidden)).view(n, t, 3, self.n_heads, width // self.n_heads).transpose(1, 3)
        query, key, value = parts.unbind(2)
        if cache is not None:
            key, value = torch.cat([cache[0], key], 2), torch.cat([cache[1], value], 2)
        attended = functional.scaled_dot_product_attention(query, key, value, attn_mask=seen)
        hidden = hidden + self.mix(attended.transpose(1, 2).reshape(n, t, width))
        hidden = hidden + self.narrow(functional.gelu(self.widen(self.between(hidden))))
        return hidden, (key, value)


def positions(mask: Tensor) -> Tensor:
    """The rank of each token among those of its text, shape (n, T); anything where there is none."""
    return (mask.long().cumsum(1) - 1).clamp_min(0)


def attention_mask(mask: Tensor, n_new: int) -> Tensor:
    """Which tokens each of the last ones attends to: those before it, and itself; shape (n, 1, n_new, T)."""
    rank = torch.arange(mask.shape[1], device=mask.device)
    new = rank[-n_new:, None]
    seen = (rank <= new) & mask[:, None, None, :]
    return seen | (rank == new)  # a gap attends to itself, since nothing at all gives no number


@torch.no_grad()
def sample(
    decoder: Decoder, vocabulary: Vocabulary, prompts: Sequence[Sequence[int]], asked: LanguageModel,
    generator: torch.Generator,
) -> list[list[int]]:  # fmt: skip
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
    """A token of each row of logits among the likeliest, which together hold a share of the mass; shape (n,)."""
    shares, order = torch.softmax(logits, 1).sort(1, descending=True)
    before = shares.cumsum(1) - shares
    rank = torch.multinomial(shares.masked_fill(before >= top_p, 0.0), 1, generator=generator)
    return order.gather(1, rank)[:, 0]


def check_folder(path: str, n_tokens: int = 0) -> None:
    """Refuse a folder that is no causal model as it can be read safely, or one that reads fewer tokens.

    Where such a model stops depends on the rows. So a fit that meets its end would tell of them.
    """
    folder, config = Path(path), _config(path)
    if not all(any(folder.glob(name)) for name in NEEDED) or "auto_map" in config or (folder / ADAPTER).exists():
        raise JobError(
            f"model={path!r} is no folder as `save_pretrained` leaves it: with {', '.join(NEEDED)}, and without code "
            "or adapters of its own (pickles may hold code, which is not run); name another, or save it anew"
        )
    if (most := most_read(path)) < n_tokens:
        raise JobError(
            f"model={path!r} reads {most:,} tokens, and max_prompt + max_tokens + 1 = {n_tokens:,}; lower either"
        )


def most_read(path: str) -> int:
    config = _config(path)
    return next((config[key] for key in LENGTHS if isinstance(config.get(key), int)), 10**9)


def _config(path: str) -> dict[str, Any]:
    try:
        return dict(json.loads((Path(path) / NEEDED[0]).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):  # loading it says more
        return {}


def digest_of(path: str) -> str:
    """SHA-256 of all that is read of a model, its configuration, tokenizer and weights, in hexadecimal."""
    digest, folder = hashlib.sha256(), Path(path)
    for file in sorted([*folder.glob("*.json"), *folder.glob("*.safetensors")]):
        with file.open("rb") as content:
            digest.update(f"{file.name}\0{hashlib.file_digest(content, 'sha256').hexdigest()}\0".encode())
    return digest.hexdigest()


def load_tokenizer(path: str, size: int) -> Any:
    from transformers import AutoTokenizer

    with _quiet(path):
        tokenizer = AutoTokenizer.from_pretrained(path, **SAFELY, use_fast=True)
    if tokenizer.eos_token_id is None or len(tokenizer) > size:
        raise JobError(
            f"the tokenizer of model={path!r} needs an eos_token, which ends a text, and no more tokens than the "
            f"model ({len(tokenizer):,} of {size:,}); save the one that belongs to it"
        )
    return tokenizer


class AdaptedDecoder(Decoder):
    """A folder's model with adapters. `size`: number of tokens that it has logits of."""

    def __init__(self, path: str, rank: int, device: torch.device) -> None:
        from peft import LoraConfig, get_peft_model
        from transformers import AutoModelForCausalLM

        super().__init__()
        check_folder(path)
        with _quiet(path):
            base, told = AutoModelForCausalLM.from_pretrained(
                path, **SAFELY, use_safetensors=True, dtype=torch.float32, output_loading_info=True
            )
            asked = LoraConfig(r=rank, lora_alpha=2 * rank, lora_dropout=0.0, bias="none", task_type="CAUSAL_LM")
            self.base_model = get_peft_model(base, asked).base_model.to(device)
        self.size = int(base.config.vocab_size)
        self.eval()  # no dropout: what is drawn for a text would have to be accounted for
        if told["missing_keys"] or told["mismatched_keys"] or not self._is_causal(device):
            raise JobError(
                f"model={path!r} lacks weights of a causal language model, or reads a text from both sides and writes "
                "none; name a causal one that is whole"
            )
        for module in self.modules():  # Opacus' hooks see what is in training
            if isinstance(module, nn.Linear) and module.weight.requires_grad:
                module.train()

    def forward(self, tokens: Tensor, mask: Tensor, n_last: int) -> Tensor:
        logits: Tensor = self._answer(tokens, mask, use_cache=False).logits[:, -n_last:]
        return logits

    def follow(self, tokens: Tensor, mask: Tensor, cache: Cache | None) -> tuple[Tensor, Cache]:
        with _quiet():  # the library renames arguments between versions, and warns of it
            answer = self._answer(tokens, mask, past_key_values=cache, use_cache=True)
            return answer.logits[:, -1], answer.past_key_values

    def _answer(self, tokens: Tensor, mask: Tensor, **more: Any) -> Any:
        ranks = positions(mask)[:, -tokens.shape[1] :]
        return self.base_model(input_ids=tokens, attention_mask=mask.long(), position_ids=ranks, **more)

    @torch.no_grad()
    def _is_causal(self, device: torch.device) -> bool:
        """True if no token has a say in the logits before it. The library takes encoders for causal models, too."""
        tokens = torch.tensor([[0, 1, 0], [0, 1, 1]], device=device)
        first, second = self(tokens, torch.ones_like(tokens, dtype=torch.bool), 3)[:, :2]
        return bool(torch.allclose(first, second, rtol=1e-4, atol=1e-5))


@contextmanager
def _quiet(path: str = "") -> Iterator[None]:
    """The libraries' own logs, bars and warnings turned off within. All that they raise of a folder is one refusal."""
    from transformers.utils import logging as told

    level, bars = told.get_verbosity(), told.is_progress_bar_enabled()
    told.set_verbosity(logging.CRITICAL)
    told.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except Exception as error:
        if not path:
            raise
        raise JobError(
            f"model={path!r} is no causal language model with an attention that can be adapted "
            f"({type(error).__name__}); name another"
        ) from None
    finally:
        told.set_verbosity(level)
        if bars:
            told.enable_progress_bar()


def losses(decoder: Decoder, sequences: Tensor, n_prompt: int) -> Tensor:
    """The negative log-likelihood of each text given its prompt, of all its tokens in nats, shape (n,). *Sensitive*."""
    mask, tokens = sequences > 0, (sequences - 1).clamp_min(0)
    asked = tokens[:, n_prompt:]
    logits = decoder(tokens[:, :-1], mask[:, :-1], asked.shape[1])
    of_tokens = functional.cross_entropy(logits.flatten(0, 1), asked.flatten(), reduction="none").view_as(asked)
    return (of_tokens * mask[:, n_prompt:].float()).sum(1)


@torch.no_grad()
def losses_of(decoder: Decoder, sequences: NDArray[np.int32], n_prompt: int) -> NDArray[np.float64]:
    """The same of a whole table, per token."""
    nats, device = np.zeros(len(sequences)), next(decoder.parameters()).device
    for at in range(0, len(sequences), ROWS_A_PASS):
        part = trimmed(torch.from_numpy(sequences[at : at + ROWS_A_PASS]).to(device).long())
        nats[at : at + ROWS_A_PASS] = losses(decoder, part, n_prompt).double().cpu().numpy()
    per_token: NDArray[np.float64] = nats / np.maximum((sequences[:, n_prompt:] > 0).sum(1), 1)
    return per_token


def trimmed(sequences: Tensor) -> Tensor:
    """The sequences without ranks on the right where none has a token: for what promises nothing."""
    return sequences[:, : int((sequences > 0).any(0).nonzero().max()) + 1]
