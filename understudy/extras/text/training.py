"""The fit of a language model to columns of free text, once the other columns have a model.

Without privacy it takes epochs, with it steps of DP-SGD. With privacy a unit is all texts of one entity. They are in a
step's sample together, and their summed gradient is clipped as one. The number of steps is public, and nothing looks at
a loss.
"""

import copy
import hashlib
import json
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from synth.dp.budget import Budget
from synth.dp.events import SubsampledGaussianEvent
from synth.dp.schedule import require_declared
from synth.errors import JobError, TableNote
from synth.generators.models.model import Model
from synth.neural import training
from synth.neural.dp_sgd import Clipping, ClipTally, OpacusSums, StepRelease, noisy_mean, write_gradients
from synth.neural.encoding import Encoded
from synth.neural.networks import is_finite
from synth.neural.training import Epochs, UnitIndex
from synth.progress import Progress
from synth.schema import Schema
from synth.table import conform
from understudy.extras.text import tokens
from understudy.extras.text.language_models import (
    ROWS_A_PASS,
    AdaptedDecoder,
    Decoder,
    load_tokenizer,
    losses,
    most_read,
    trimmed,
)
from understudy.extras.text.model import TextWriter
from understudy.extras.text.themes import Themes, cut, longest
from understudy.extras.text.wrapper import STEPS, LanguageModel

N_PROMPT_ROWS = 2_000  # synthetic rows that the domains of prompts are taken from
KEPT_SHARE = 0.99  # of texts that a limit on their length keeps whole, where nobody sets one
TOKENS = 8, 1_024  # of a text that such a limit may be
CHARACTERS_A_TOKEN = 3  # of a folder's model, at least as a rule

TOLERANCE = 1e-3  # what rounding may make of gradients, as a share


class _ByAdam:
    """The weights and moments of a training, which a checkpoint keeps, at the end of an epoch or a stretch."""

    def __init__(self, decoder: Decoder, n_prompt: int, kind: type[torch.optim.Optimizer], rate: float) -> None:
        self._decoder, self._n_prompt, self._parameters = decoder, n_prompt, list(decoder.trained.values())
        self._optimizer = kind(self._parameters, lr=rate)

    def state(self) -> dict[str, Any]:
        weights = {name: value.detach().clone() for name, value in self._decoder.trained.items()}
        return {"weights": weights, "optimizer": copy.deepcopy(self._optimizer.state_dict())}

    def load(self, state: Mapping[str, Any]) -> None:
        self._decoder.put(state["weights"])
        self._optimizer.load_state_dict(copy.deepcopy(state["optimizer"]))


class TextTraining(_ByAdam):
    """Training without privacy. `sequences`: *Sensitive*. Shape (n, T)."""

    def __init__(
        self, decoder: Decoder, sequences: NDArray[np.int32], n_prompt: int, batch_size: int, rate: float
    ) -> None:
        super().__init__(decoder, n_prompt, torch.optim.AdamW, rate)
        device = self._parameters[0].device
        self._sequences = torch.from_numpy(sequences).to(device)
        self._batches = Epochs(len(sequences), batch_size, device)

    @property
    def n_steps_per_epoch(self) -> int:
        return self._batches.n_steps

    def step(self) -> dict[str, Tensor]:
        rows, weights = self._batches.draw()
        # One divisor for all: divided by its own tokens, a short text would weigh as much as a long one, and too many
        # short ones would be written.
        nats = losses(self._decoder, trimmed(self._sequences[rows].long()), self._n_prompt)
        loss = (nats * weights).sum() / (self._sequences.shape[1] - self._n_prompt)
        self._optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self._parameters, 1.0)
        self._optimizer.step()
        return {"loss": loss.detach()}


class PrivateTextTraining(_ByAdam):
    """Training by DP-SGD, with each unit's gradient clipped, by Opacus' gradients of single texts. *Sensitive*."""

    def __init__(
        self, decoder: Decoder, units: UnitIndex, n_prompt: int, expected_batch: float, max_grad_norm: float,
        rate: float,
    ) -> None:  # fmt: skip
        super().__init__(decoder, n_prompt, torch.optim.Adam, rate)
        self._units = units.to(self._parameters[0].device)
        self.tally = ClipTally()
        self._clipped = OpacusSums(decoder, tally=self.tally)
        self._clipping = Clipping.planned(max_grad_norm, expected_batch, units.max_rows_per_unit, ROWS_A_PASS)

    def step(self, steps: StepRelease) -> None:
        write_gradients(self._parameters, noisy_mean(steps, len(self._units), self._clipping, self._clipped_sum))
        self._optimizer.step()

    def _clipped_sum(self, sampled: NDArray[np.int64]) -> Tensor:
        # The divisor of all texts is public: it changes what is clipped, and nothing of the bound on it.
        size, most = self._clipping.pass_units, self._units.codes.shape[1] - self._n_prompt
        self.tally.sampled(len(sampled))
        batch = self._units.batch(sampled, size)
        return self._clipped(
            lambda: torch.where(batch.mask, losses(self._decoder, batch.codes, self._n_prompt) / most, 0.0),
            size,
            self._clipping.max_grad_norm,
        )

    @property
    def finite(self) -> bool:
        return is_finite(self._decoder)


def has_gradients_by_text(decoder: Decoder, size: int, n_prompt: int, n_text: int) -> bool:
    """True if Opacus' gradients of single texts are those of autograd, one text after another.

    It has a rule for each layer, and takes the first axis of its input for texts. A model that lays its tokens out in
    another way, or in which texts see each other, would not be clipped by unit. The texts tried are made up.
    """
    tokens = torch.randint(1, size + 1, (4, n_prompt + n_text), generator=torch.Generator().manual_seed(0))
    tokens[0, : n_prompt // 2], tokens[1, n_prompt + 2 :], tokens[3] = 0, 0, 0
    parameters, bound = list(decoder.trained.values()), 1e-3
    units, expected = tokens.to(parameters[0].device).view(2, 2, -1), torch.zeros(())
    try:
        for unit in units:
            of_texts = [torch.autograd.grad(losses(decoder, text[None], n_prompt).sum(), parameters) for text in unit]
            gradient = torch.stack([torch.cat([part.flatten() for part in each]).double() for each in of_texts]).sum(0)
            expected = expected + gradient * (bound / gradient.norm().clamp_min(1e-12)).clamp_max(1.0)
        sums = OpacusSums(decoder)(lambda: losses(decoder, units.flatten(0, 1), n_prompt), 2, bound)
    except (RuntimeError, IndexError, ValueError, NotImplementedError):
        return False
    return bool((sums - expected).norm() <= TOLERANCE * bound)


def with_length(text: LanguageModel, schema: Schema, *, promises: bool) -> LanguageModel:
    """The specification with a length of texts by public numbers, of a folder's model. With a promise it is tried on
    made-up tokens, and one that cannot be trained text by text is refused before a budget is charged.
    """
    if text.model is None:
        return text
    most = min(math.ceil(longest(schema) / CHARACTERS_A_TOKEN), TOKENS[1], most_read(text.model) - text.max_prompt - 1)
    n_tokens, device = text.max_tokens or max(most, 4), training.device_of(text.device)
    with training.seeded(None, device):
        decoder = AdaptedDecoder(text.model, text.rank, device)
        load_tokenizer(text.model, decoder.size)
        if promises and not has_gradients_by_text(decoder, decoder.size, text.max_prompt, n_tokens + 1):
            raise JobError(
                f"model={text.model!r} cannot be trained text by text on max_prompt + max_tokens + 1 = "
                f"{text.max_prompt + n_tokens + 1:,} tokens; name another, lower either, or leave epsilon out"
            )
    return text.model_copy(update={"max_tokens": n_tokens})


@dataclass(frozen=True, eq=False)
class TextFit:
    """A fit but for its rows. Without a budget it promises nothing. `schema`: with columns of themes, if any."""

    text: LanguageModel
    rows: Model  # of the other columns
    schema: Schema
    public: Sequence[str]
    themes: Themes | None
    seed: int
    progress: Progress
    budget: Budget | None
    checkpoints: Path | None

    def writer(self, real: pd.DataFrame) -> TextWriter:
        """A writer of texts, trained on those of real rows. `real`: *Sensitive*. Canonical, with columns of themes."""
        text, schema, device = self.text, self.schema, training.device_of(self.text.device)
        rng = np.random.default_rng([self.seed, 31])
        self.progress("prompts of texts", None)
        seed = int(rng.integers(2**31))
        drawn = conform(self.rows.sample(N_PROMPT_ROWS, seed=seed), self.rows.schema, outside="clamp")
        coded = None
        if text.model is None:
            # Under a budget no token and no length may come from a real text.
            read = () if self.budget is not None else schema.texts
            known = [each for name in read for each in cut(real[name].dropna().tolist(), schema, name)]
            pairs = tokens.byte_pairs(self.public or known, text.vocabulary)
            coded = tokens.CodedVocabulary.of(pairs, drawn, schema)
            text = text.model_copy(update={"max_tokens": text.max_tokens or self._most_tokens(coded, known)})
        start = int(rng.integers(2**63))
        with training.seeded(start if self.budget is None else None, device):
            writer = TextWriter.begun(text, schema, coded, device, self.themes)
            if self.public:
                self._learn_public(writer, drawn, rng)
            if self.budget is None:
                _tell_cuts(writer, real)
            if self.budget is None or text.steps:
                self._learn_real(writer, real, start)
        return writer

    def _most_tokens(self, coded: tokens.CodedVocabulary, real: Sequence[str]) -> int:
        """Tokens that 99% of real texts have at most, or texts of the declared length. `real`: *Sensitive*, or none."""
        if real:
            most = float(np.quantile([len(coded.tokens(text)) for text in real], KEPT_SHARE))
        else:
            n_tokens, n_characters = sum(len(coded.tokens(text)) for text in self.public), sum(map(len, self.public))
            most = longest(self.schema) * (n_tokens / n_characters if self.public else 1.0)
        return int(np.clip(math.ceil(most), *TOKENS))

    def _learn_public(self, writer: TextWriter, drawn: pd.DataFrame, rng: np.random.Generator) -> None:
        """Train on public texts.

        The prompt of each is a synthetic row that has about its themes. Without themes a row would tell it nothing:
        there the prompt of the small decoder names the column alone, and that of a folder's model is a row at random.
        """
        text, n_prompt, names, parts = writer.specification, writer.vocabulary.n_prompt, self.schema.texts, []
        for turn, name in enumerate(names):
            lines = cut(self.public[turn :: len(names)], self.schema, name)
            if self.themes is not None:
                rows = self.themes.deal(lines, drawn, name, rng)
            else:
                rows = drawn.iloc[rng.integers(len(drawn), size=len(lines))].reset_index(drop=True)
            parts.append(writer.sequences(rows.assign(**{name: lines}), name))
            if self.themes is None and text.model is None:
                parts[-1][:, : n_prompt - 1] = 0
        course = training.Course("public text", "", None, self.progress)
        learning = TextTraining(writer.decoder, np.concatenate(parts), n_prompt, text.batch_size, text.rate)
        training.train(learning, text.public_epochs, course)

    def _learn_real(self, writer: TextWriter, real: pd.DataFrame, start: int) -> None:
        text, schema, n_prompt = writer.specification, self.schema, writer.vocabulary.n_prompt
        self.progress("reading texts", None)
        sequences = np.concatenate([writer.sequences(real, name) for name in schema.texts])
        folder, known = None, list[Any]([writer.to_plain(), schema.texts])
        if self.checkpoints is not None:
            self.checkpoints.mkdir(parents=True, exist_ok=True)
            folder = training.CheckpointFolder(self.checkpoints)
            # Who asks for notes of clipping asks for these, too.
            if (self.checkpoints.parent / training.CLIPPING).exists():
                (self.checkpoints / training.CLIPPING).touch()
        if self.budget is None:
            known += [start, hashlib.sha256(sequences.tobytes()).hexdigest()]
        digest = hashlib.sha256(json.dumps(known).encode()).hexdigest()
        course = training.Course("text", digest, folder, self.progress)
        if self.budget is None:
            is_read = (sequences[:, n_prompt:] > 0).any(1)
            sequences = sequences[is_read] if is_read.any() else sequences
            learning = TextTraining(writer.decoder, sequences, n_prompt, text.batch_size, text.rate)
            training.train(learning, text.epochs, course)
            return
        event = self.budget.schedule.required(STEPS, SubsampledGaussianEvent)
        owners = np.arange(len(real)) if schema.entity is None else pd.factorize(real[schema.entity])[0]
        owned, n_texts = np.concatenate([owners] * len(schema.texts)), schema.max_rows_per_unit * len(schema.texts)
        units = UnitIndex.of(Encoded(sequences, np.zeros((len(sequences), 0), dtype=np.float32)), owned, n_texts)
        expected = event.sampling_rate * require_declared(schema)
        private = PrivateTextTraining(writer.decoder, units, n_prompt, expected, text.max_grad_norm, text.rate)
        training.train_privately(private, event, self.budget, course)


def _tell_cuts(writer: TextWriter, real: pd.DataFrame) -> None:
    """Say where more texts are cut than a few, for fits that promise nothing. `real`: *Sensitive*."""
    for name in writer.schema.texts:
        texts, length = real[name].dropna().tolist(), longest(writer.schema, name)
        n_tokens = [len(writer.vocabulary.tokens(text[:length])) for text in texts]
        limits = {f"length = {length:,}": [len(text) > length for text in texts]}
        limits[f"max_tokens = {writer.max_tokens:,}"] = [n > writer.max_tokens for n in n_tokens]
        for limit, are_cut in limits.items():
            if sum(are_cut) > (1 - KEPT_SHARE) * len(texts):
                share = sum(are_cut) / len(texts)
                warnings.warn(TableNote(f"text={name!r}: {limit} cuts {share:.0%} of the texts"), stacklevel=2)
