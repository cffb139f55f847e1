"""A causal model from a folder, with LoRA adapters on its attention: nothing in the folder is run, nothing downloaded.

The folder is as `transformers` saves it: `config.json`, weights as safetensors, and a fast tokenizer's
`tokenizer.json`. Its weights stay as they are; adapters alone are trained and saved.

Source: Hu et al. 2022 (2106.09685); for them under DP-SGD, Yu et al. 2022 (2110.06500).
"""

import hashlib
import importlib.util
import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from synth.distribution import missing_extra
from synth.errors import JobError
from understudy.extras.text.decoder import Cache

ADAPTER = "adapter_config.json"  # names another folder, which nothing here has looked at
CONFIG, TOKENIZER = "config.json", "tokenizer.json"
PICKLES = ("*.bin", "*.pt", "*.pth", "*.pkl", "*.ckpt")
"""Names of files of weights that run code when they are read."""
LENGTHS = ("max_position_embeddings", "n_positions")
"""Keys of a configuration that say how many tokens a model reads."""


def require_libraries() -> None:
    """Refuse work on free text where its libraries are not installed."""
    for name in ("torch", "tokenizers", "transformers", "peft", "opacus"):
        if importlib.util.find_spec(name) is None:
            raise missing_extra("learning free text", "text")


def check_folder(path: str, n_tokens: int = 0) -> None:
    """Refuse a folder that is no causal model as it can be read safely, or one that reads fewer tokens.

    Where such a model stops depends on the rows. So a fit that meets its end would tell of them.
    """
    folder, config = Path(path), _config(path)
    pickled = "only as pickles, which may run code" if any(map(list, map(folder.glob, PICKLES))) else "nowhere"
    rules = [
        ((folder / ADAPTER).exists(), "holds adapters of another model; merge them into it and save that"),
        (not list(folder.glob("*.safetensors")),
         f"lacks weights in safetensors: it has them {pickled}; save it with `save_pretrained`"),
        (not (folder / TOKENIZER).is_file(), f"needs {TOKENIZER}; save its tokenizer there"),
        (config is None, f"cannot be read by its {CONFIG}; save the model anew"),
        ((config or {}).get("auto_map"), "brings code of its own, which is not run; name one `transformers` knows"),
        (most_read(path) < n_tokens,
         f"reads {most_read(path):,} tokens, and max_prompt + max_tokens + 1 = {n_tokens:,}; lower either"),
    ]  # fmt: skip
    if not (folder / CONFIG).is_file():
        raise JobError(f"a language model is a folder with {CONFIG}, and model={path!r} is none; name one that is")
    for is_broken, words in rules:
        if is_broken:
            raise JobError(f"model={path!r} {words}")


def _config(path: str) -> dict[str, Any] | None:
    try:
        config = json.loads((Path(path) / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return config if isinstance(config, dict) else None


def most_read(path: str) -> int:
    """Tokens that the model of a folder reads at most, as far as it says so."""
    config = _config(path) or {}
    return next((config[key] for key in LENGTHS if isinstance(config.get(key), int)), 10**9)


def digest_of(path: str) -> str:
    """SHA-256 of all that is read of a model, its configuration, tokenizer and weights, in hexadecimal."""
    digest, folder = hashlib.sha256(), Path(path)
    for file in sorted([*folder.glob("*.json"), *folder.glob("*.safetensors")]):
        with file.open("rb") as content:
            digest.update(f"{file.name}\0{hashlib.file_digest(content, 'sha256').hexdigest()}\0".encode())
    return digest.hexdigest()


def load_tokenizer(path: str, size: int) -> Any:
    from transformers import AutoTokenizer

    with _quiet():
        try:
            tokenizer = AutoTokenizer.from_pretrained(
                path, local_files_only=True, trust_remote_code=False, use_fast=True
            )
        except Exception as error:  # noqa: BLE001 - the library raises of all kinds
            raise _unreadable(path, error) from None
    if tokenizer.eos_token_id is None:
        raise JobError(f"the tokenizer of model={path!r} has no token that ends a text; set its eos_token")
    if len(tokenizer) > size:
        raise JobError(
            f"the tokenizer of model={path!r} has {len(tokenizer):,} tokens, and the model {size:,}; save the "
            "tokenizer that belongs to it"
        )
    return tokenizer


class AdaptedDecoder:
    """A folder's model with adapters."""

    def __init__(self, path: str, rank: int, device: torch.device) -> None:
        from peft import LoraConfig, get_peft_model
        from transformers import AutoModelForCausalLM

        check_folder(path)
        with _quiet():
            try:
                base, told = AutoModelForCausalLM.from_pretrained(
                    path,
                    local_files_only=True,
                    trust_remote_code=False,
                    use_safetensors=True,
                    dtype=torch.float32,
                    output_loading_info=True,
                )
                asked = LoraConfig(r=rank, lora_alpha=2 * rank, lora_dropout=0.0, bias="none", task_type="CAUSAL_LM")
                self._network = get_peft_model(base, asked).to(device)
            except Exception as error:  # noqa: BLE001 - the libraries raise of all kinds
                raise _unreadable(path, error) from None
        self._network.eval()  # no dropout: what is drawn for a text would have to be accounted for
        if told["missing_keys"] or told["mismatched_keys"]:
            raise JobError(f"model={path!r} lacks weights of a causal language model; name one that has them all")
        if not self._is_causal():
            raise JobError(f"model={path!r} reads a text from both sides, and writes none; name a causal one")
        for module in self._network.modules():
            if isinstance(module, nn.Linear) and module.weight.requires_grad:
                module.train()

    @property
    def size(self) -> int:
        """Number of tokens that it has logits of."""
        return int(self._network.config.vocab_size)

    def __call__(self, tokens: Tensor, mask: Tensor, n_last: int) -> Tensor:
        found = self._network(input_ids=tokens, attention_mask=mask.long(), position_ids=_places(mask), use_cache=False)
        logits: Tensor = found.logits[:, -n_last:]
        return logits

    def follow(self, tokens: Tensor, mask: Tensor, cache: Cache | None) -> tuple[Tensor, Cache]:
        places = _places(mask)[:, -tokens.shape[1] :]
        with _quiet():  # the library renames arguments between versions, and warns of it
            found = self._network(
                input_ids=tokens, attention_mask=mask.long(), position_ids=places, past_key_values=cache, use_cache=True
            )
            return found.logits[:, -1], found.past_key_values

    @torch.no_grad()
    def _is_causal(self) -> bool:
        """True if no token has a say in the logits before it. The library takes encoders for causal models, too."""
        device = next(self._network.parameters()).device
        one, other = (torch.tensor([[0, 1, last]], device=device) for last in (0, 1))
        mask = torch.ones_like(one, dtype=torch.bool)
        with _quiet():
            first, second = self(one, mask, 3), self(other, mask, 3)
        return bool(torch.allclose(first[:, :2], second[:, :2], rtol=1e-4, atol=1e-5))

    def trained(self) -> nn.Module:
        """The module, of which adapters alone have gradients."""
        module: nn.Module = self._network
        return module


def _places(mask: Tensor) -> Tensor:
    return (mask.long().cumsum(1) - 1).clamp_min(0)


@contextmanager
def _quiet() -> Iterator[None]:
    """The libraries' own logs, bars and warnings turned off within."""
    from transformers.utils import logging as told

    level, bars = told.get_verbosity(), told.is_progress_bar_enabled()
    told.set_verbosity(logging.CRITICAL)
    told.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        told.set_verbosity(level)
        if bars:
            told.enable_progress_bar()


def _unreadable(path: str, error: Exception) -> JobError:
    return JobError(
        f"model={path!r} is no causal language model with an attention that can be adapted ({type(error).__name__}); "
        "name another"
    )
