"""Speed and memory of training on texts: the small decoder and adapters of a folder's model, with DP-SGD and without.

``python -m benchmarks.text_training decoder --private`` measures one case in a process of its own and prints JSON, so
that the peak of its memory is its own. `benchmarks.texts` runs them all.

Seconds of a step are those of a long fit less those of a short one, by their steps: tokenizer, rows and imports are in
both. They are processor seconds of one thread, which other work on the machine does not lengthen as much.

The folder's model has random weights: speed does not depend on them, and nothing is downloaded.
"""

import argparse
import json
import math
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.neural_point import Watch, peak_mib
from benchmarks.public_texts import like, written
from tests.text_tables import TEXT, complaint_schema, complaints

N_ROWS, BATCH, MAX_TOKENS = 480, 96, 96
SHORT, LONG = 1, 4
"""Passes over all rows."""
CASES = ("decoder", "adapters")
END = "<end>"


def main(arguments: Sequence[str]) -> None:
    """Measure one case."""
    parser = argparse.ArgumentParser("python -m benchmarks.text_training", description=__doc__)
    parser.add_argument("case", choices=CASES)
    parser.add_argument("--private", action="store_true", help="by DP-SGD at epsilon 8")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(_measured(options.case, options.private, Path(folder))))


def _measured(case: str, private: bool, folder: Path) -> dict[str, Any]:
    common: dict[str, Any] = {"max_tokens": MAX_TOKENS, "device": "cpu"}
    if case == "decoder":
        public = str(written(like(), folder / "public.txt"))
        common |= {"public_text": public, "public_epochs": 1, "d_model": 64}
    else:
        common |= {"model": str(tiny_folder(folder / "model")), "max_prompt": 48}
    begun = _imported()
    _, n_tokens, n_trained = _fitted(common, private, SHORT)
    short, *_ = _fitted(common, private, SHORT)
    long, *_ = _fitted(common, private, LONG)
    steps = (LONG - SHORT) * N_ROWS // BATCH
    return {
        "step_s": (long - short) / steps, "texts_s": BATCH * steps / (long - short),
        "tokens_s": BATCH * n_tokens * steps / (long - short), "peak_mib": peak_mib(), "before_mib": begun,
        "trained": n_trained, "batch": BATCH, "steps": steps, "tokens_a_text": n_tokens,
    }  # fmt: skip


def _imported() -> float:
    """Memory in MiB once the libraries are there, before any work."""
    import opacus  # noqa: F401
    import peft  # noqa: F401
    import torch  # noqa: F401
    import transformers  # noqa: F401

    import synth.dp.mechanisms  # noqa: F401

    return peak_mib()


def _fitted(common: dict[str, Any], private: bool, passes: int) -> tuple[float, float, int]:
    """Processor seconds of a fit, mean tokens of a text with its end, and how many weights are trained."""
    import synth

    table, schema = complaints(N_ROWS, 0), complaint_schema(N_ROWS)
    steps = {"steps": passes * N_ROWS // BATCH, "sampling_rate": BATCH / N_ROWS}
    text = common | (steps if private else {"epochs": passes, "batch_size": BATCH})
    watch = Watch()
    model: Any = synth.fit(table, schema, "independent", epsilon=8.0 if private else None, seed=0, text=text)
    _, seconds = watch.read()
    lengths = [len(model.writer.vocabulary.tokens(text)) + 1 for text in table[TEXT]]
    trained = sum(array.size for array in model.writer.to_arrays().values())
    return seconds, sum(lengths) / len(lengths), trained


def tiny_folder(path: Path) -> Path:
    """A folder with a small causal model of random weights, as `transformers` saves it.

    Args:
        path: of the folder, which is made.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    pairs = Tokenizer(models.BPE())
    pairs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    pairs.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    pairs.train_from_iterator(
        like(),
        trainers.BpeTrainer(vocab_size=1_000, special_tokens=[END], initial_alphabet=alphabet, show_progress=False),
    )
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=pairs, eos_token=END)
    tokenizer.save_pretrained(path)
    size = 2 ** math.ceil(math.log2(len(tokenizer)))
    config = LlamaConfig(
        vocab_size=size, hidden_size=64, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=4, max_position_embeddings=512, eos_token_id=tokenizer.eos_token_id, bos_token_id=None,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(path, safe_serialization=True)
    return path


if __name__ == "__main__":
    main(sys.argv[1:])
