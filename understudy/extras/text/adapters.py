"""A causal model from a folder, with LoRA adapters on its attention: nothing in the folder is run, nothing downloaded.

The folder is as `transformers` saves it. Its weights stay as they are; adapters alone are trained and saved.

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

from synth.errors import JobError
from synth.extras import missing_extra
from understudy.extras.text.decoder import Cache, Decoder, positions

NEEDED = ("config.json", "tokenizer.json", "*.safetensors")
ADAPTER = "adapter_config.json"  # names another folder, which nothing here has looked at
SAFELY = {"local_files_only": True, "trust_remote_code": False}
LENGTHS = ("max_position_embeddings", "n_positions")  # keys of a configuration that say how many tokens a model reads


def require_libraries() -> None:
    for name in ("torch", "tokenizers", "transformers", "peft", "opacus"):
        if importlib.util.find_spec(name) is None:
            raise missing_extra("learning free text", "text")


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
