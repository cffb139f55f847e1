"""A folder's model: loaded, adapted, saved and loaded again, with and without epsilon; and all that is refused.

The libraries take seconds to import, so that all tests that need them are here.
"""

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from synth.dp.budget import Budget
from synth.errors import JobError, ModelError
from synth.generators.base import PrivateGenerator
from synth.generators.registry import generator, load_model
from tests.extras.conftest import uncalibrated
from tests.extras.text import tiny
from tests.synth.generators.deaf_noise import Watched
from tests.synth.neural.toy import Purse
from tests.text_tables import TEXT, complaint_schema, complaints
from understudy.extras.text.language_models import AdaptedDecoder
from understudy.extras.text.model import TextModel, TextWriter
from understudy.extras.text.training import PrivateTextTraining, has_gradients_by_text
from understudy.extras.text.wrapper import LanguageModel

pytestmark = pytest.mark.filterwarnings("ignore:.*cuts .* of the texts")
SETTINGS: dict[str, Any] = {"max_tokens": 10, "max_prompt": 60, "rank": 2, "device": "cpu"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {name: tiny.model_folder(tmp_path_factory.mktemp(name), name) for name in tiny.ARCHITECTURES}


def copied(folders: dict[str, Path], to: Path, name: str = "gpt2") -> Path:
    return Path(shutil.copytree(folders[name], to / "model"))


def writer(folder: Path, **settings: Any) -> TextWriter:
    asked = LanguageModel(model=str(folder), **{**SETTINGS, **settings})
    text_writer = TextWriter.begun(asked, complaint_schema(), None, tiny.CPU)
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in text_writer.decoder.trained.values():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return text_writer


@pytest.mark.parametrize("name", tiny.ARCHITECTURES)
def test_clipped_sums_over_adapters_equal_autograds_one_text_at_a_time(name: str, folders: dict[str, Path]) -> None:
    text_writer, rows = writer(folders[name]), tiny.canonical(14)
    rows[TEXT] = [text[: 2 + 3 * rank] for rank, text in enumerate(rows[TEXT])]
    sequences, owners = text_writer.sequences(rows, TEXT), np.repeat(np.arange(7), [1, 2, 3, 1, 2, 3, 2])
    n_prompt = text_writer.vocabulary.n_prompt
    assert (sequences[:, 0] == 0).any(), "prompts have gaps on their left"
    of_units = [tiny.gradient_of_unit(text_writer.decoder, sequences[owners == unit], n_prompt) for unit in range(7)]
    bound = float(np.median([np.linalg.norm(gradient) for gradient in of_units]))
    trained = PrivateTextTraining(text_writer.decoder, tiny.units_of(sequences, owners, 3), n_prompt, 4.0, bound, 0.0)
    for sampled in (range(7), [0, 5], []):
        purse = Purse([list(sampled)])
        trained.step(purse)
        expected = tiny.clipped([of_units[unit] for unit in sampled], bound) if len(sampled) else 0.0
        assert np.abs(purse.totals[0] - expected).max() < 1e-4 * bound


def test_a_private_fit_tries_whether_gradients_are_those_of_single_texts(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    text_writer = writer(folders["llama"])
    assert has_gradients_by_text(text_writer.decoder, text_writer.vocabulary.size, text_writer.vocabulary.n_prompt, 11)
    logits_of = AdaptedDecoder.forward

    def mixing(self: AdaptedDecoder, tokens: torch.Tensor, mask: torch.Tensor, n_last: int) -> torch.Tensor:
        logits = logits_of(self, tokens, mask, n_last)
        return logits - logits.mean(0, keepdim=True)

    monkeypatch.setattr(AdaptedDecoder, "forward", mixing)
    with pytest.raises(JobError, match="cannot be trained text by text"):
        fitted(folders["llama"], epsilon=2.0)


@pytest.mark.parametrize("name", tiny.ARCHITECTURES)
def test_logits_token_by_token_and_with_gaps_are_those_of_one_call(name: str, folders: dict[str, Path]) -> None:
    text_writer = writer(folders[name])
    sequences = torch.from_numpy(text_writer.sequences(tiny.canonical(5), TEXT)).long()
    mask, n = sequences > 0, text_writer.vocabulary.n_prompt
    mask[:, n:] = True
    tiny.check_that_logits_follow(text_writer.decoder, (sequences - 1).clamp_min(0)[:, :-1], mask[:, :-1], n, 1e-3)


def weights_of(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def fitted(folder: Path, epsilon: float | None = None, **settings: Any) -> TextModel:
    more = {} if epsilon is None else {"epsilon": epsilon}
    steps = {"steps": 2, "sampling_rate": 0.1} if settings.get("steps") != 0 else {}
    text = {"model": str(folder), "epochs": 1, **steps, **SETTINGS, **settings}
    schema = complaint_schema(None if epsilon is None else 60)
    chosen: Any = generator("independent", text=text, **more)
    budget = None if epsilon is None else Budget(uncalibrated(chosen, schema))
    model = chosen.fit(complaints(60, 2), schema, seed=4, budget=budget)
    assert isinstance(model, TextModel)
    return model


@pytest.mark.parametrize(("name", "epsilon"), [("gpt2", None), ("llama", 2.0)])
def test_a_folders_model_is_adapted_saved_and_loaded_again(
    name: str, epsilon: float | None, folders: dict[str, Path], tmp_path: Path
) -> None:
    before = weights_of(folders[name])
    untrained = AdaptedDecoder(str(folders[name]), 2, tiny.CPU).state_dict()
    model = fitted(folders[name], epsilon)
    after = model.writer.decoder.state_dict()
    kept = {key for key in after if "lora_" not in key}
    assert all(torch.equal(after[key], untrained[key]) for key in kept)
    assert all("lora_" in key for key in model.writer.decoder.trained)
    assert any(value.abs().max() > 0 for key, value in after.items() if "lora_B" in key)
    assert weights_of(folders[name]) == before
    model.save(tmp_path / "saved")
    assert {path.suffix for path in (tmp_path / "saved").iterdir()} <= {".json", ".safetensors"}
    (path,) = (tmp_path / "saved").glob("*.safetensors")
    of_texts = {key for key in load_file(path) if not key.startswith("base.")}
    assert of_texts == model.writer.decoder.trained.keys()
    again = load_model(tmp_path / "saved")
    assert again.sample(12, seed=3).equals(model.sample(12, seed=3))
    assert (again.statement is None) == (epsilon is None)
    wrong = {"base_model.model.transformer.wte.weight": np.zeros((400, 32), np.float32)}
    save_file({**load_file(path), **wrong}, path)
    with pytest.raises(ModelError, match="damaged"):
        load_model(tmp_path / "saved")


def test_the_folder_may_be_elsewhere_at_load_and_must_hold_the_same_model(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    model = fitted(copied(folders, tmp_path))
    model.save(tmp_path / "saved")
    expected = model.sample(8, seed=1)
    (tmp_path / "model").rename(tmp_path / "moved")
    with pytest.raises(JobError, match="is no folder as"):
        load_model(tmp_path / "saved")
    assert load_model(tmp_path / "saved", text_model=tmp_path / "moved").sample(8, seed=1).equals(expected)
    with pytest.raises(ModelError, match="adapted from another than"):
        load_model(tmp_path / "saved", text_model=tiny.model_folder(tmp_path / "other", seed=9))


def _with_code(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    auto_map = {"AutoModelForCausalLM": "modeling.Trap"}
    (folder / "config.json").write_text(json.dumps({**config, "auto_map": auto_map}))
    (folder / "modeling.py").write_text("raise SystemExit")


def _pickled(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'touch sprung'\ntR.")


WHOLE = "is no folder as `save_pretrained` leaves it"
REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "pickled weights": (_pickled, WHOLE),
    "code": (_with_code, WHOLE),
    "damaged weights": (lambda folder: (folder / "model.safetensors").write_bytes(b"x" * 99), "no causal language"),
    "a tokenizer without an end": (lambda folder: tiny.save_tokenizer(folder, end=None), "needs an eos_token"),
    "another's tokenizer": (lambda folder: tiny.model_folder(folder, vocab_size=300), "(400 of 300)"),
    "too few places": (lambda folder: tiny.model_folder(folder, n_positions=50), "reads 50 tokens, and max_prompt"),
}  # fmt: skip


@pytest.mark.parametrize(("spoil", "message"), REFUSED.values(), ids=REFUSED)
def test_a_folder_that_is_something_else_is_refused_in_a_sentence(
    spoil: Callable[[Path], object], message: str, folders: dict[str, Path], tmp_path: Path
) -> None:
    folder = copied(folders, tmp_path)
    spoil(folder)
    with pytest.raises(JobError, match=re.escape(message)) as caught:
        fitted(folder)
    assert "\n" not in str(caught.value)
    assert f"model={str(folder)!r}" in str(caught.value)
    assert not Path("sprung").exists()


@pytest.mark.statistical
def test_what_a_private_fit_of_adapters_leaves_is_a_function_of_its_noisy_answers(
    folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "seed", lambda: torch.manual_seed(0).initial_seed())
    text = {"model": str(folders["gpt2"]), "steps": 2, "sampling_rate": 0.1, **SETTINGS}
    chosen, schema = generator("independent", epsilon=2.0, text=text), complaint_schema(90)
    assert isinstance(chosen, PrivateGenerator)
    odd = complaints(120, 3).assign(product="zebrafish", amount=10**7)
    odd[TEXT] = [None if rank % 2 else "zebrafish " * (1 + rank) for rank in range(120)]
    left: list[dict[str, Any]] = []
    for rank, table in enumerate((complaints(60, 2), odd, odd.iloc[:0])):
        budget = Watched(chosen.counted_schedule(schema))
        model = chosen.fit(table, schema, budget=budget)
        model.save(tmp_path / str(rank))
        files = {path.name: path.read_bytes() for path in (tmp_path / str(rank)).iterdir()}
        left.append({**files, "questions": budget.deaf.questions, "sample": model.sample(5, seed=0).to_csv()})
    assert left[1] == left[0]
    assert left[2] == left[0]


def test_nothing_is_said_of_how_long_the_texts_are(
    folders: dict[str, Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = copied(folders, tmp_path)
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**config, "model_max_length": 5}))
    model = fitted(folder, epsilon=2.0)
    model.sample(5, seed=0)
    told = capfd.readouterr()
    assert "oken indices" not in told.err + told.out
