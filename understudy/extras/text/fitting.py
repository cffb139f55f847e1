"""The fit of a language model to columns of free text, once the other columns have a model."""

import hashlib
import json
import math
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd

from synth.dp.budget import Budget
from synth.dp.events import SubsampledGaussianEvent
from synth.dp.schedule import require_declared
from synth.errors import BudgetError, JobError, SchemaError, TableError, TableNote
from synth.generators.fitting.training_data import bound_contributions
from synth.progress import Progress
from synth.schema import Schema
from synth.schema.kinds import BooleanColumn
from synth.table import conform
from synth.table.rows import Rows
from understudy.extras.text.specification import LanguageModel, missing_name
from understudy.extras.text.themes import cut

if TYPE_CHECKING:
    from synth.generators.models.model import Model
    from understudy.extras.text.themes import Themes
    from understudy.extras.text.writer import TextWriter

STEPS = "steps of DP-SGD on texts"
"""Their name in a statement."""
USUAL_RATE, EXPECTED_BATCH = 0.1, (64, 512)
"""Share of the units in a step's sample, and the units that it holds at least and at most, as expected."""
N_PROMPT_ROWS = 2_000
"""Synthetic rows that the domains of prompts are taken from."""
KEPT_SHARE = 0.99
"""Share of texts that a limit on their length keeps whole, where nobody sets one."""
CHARACTERS_A_TOKEN = 3  # of a folder's model, at least as a rule
TOKENS = 8, 1_024
"""Tokens of a text that such a limit may be."""
HALF_A_PAIR = re.compile("[\ud800-\udfff]")  # of surrogates: no character, and no tokenizer takes it
PREPARED = "texts"
"""Name of the folder of a fit's place in which its checkpoint of texts stands."""


def with_length(text: LanguageModel, schema: Schema) -> LanguageModel:
    """The specification with a length of texts, of a folder's model: by public numbers, and what it reads."""
    from understudy.extras.text.adapters import most_read

    if text.model is None or text.max_tokens is not None:
        return text
    most = min(math.ceil(longest(schema) / CHARACTERS_A_TOKEN), TOKENS[1], most_read(text.model) - text.max_prompt - 1)
    return text.model_copy(update={"max_tokens": max(most, 4)})


def try_folder(text: LanguageModel, *, promises: bool) -> None:
    """Refuse a folder's model that cannot be trained or read to the end, before a budget is charged.

    It is tried on made-up tokens, as many as a row and its text may have.
    """
    if text.model is None:
        return
    import torch

    from synth.neural.training import device_of, seeded
    from understudy.extras.text.adapters import AdaptedDecoder, load_tokenizer
    from understudy.extras.text.training import has_gradients_by_text

    device, length = device_of(text.device), text.max_prompt + (text.max_tokens or 0) + 1
    with seeded(None, device):
        decoder = AdaptedDecoder(text.model, text.rank, device)
        load_tokenizer(text.model, decoder.size)
        made = torch.zeros((1, length), dtype=torch.long, device=device)
        try:
            with torch.no_grad():
                decoder(made, made == 0, 1)
        except (RuntimeError, IndexError, ValueError):
            raise JobError(
                f"model={text.model!r} does not read max_prompt + max_tokens + 1 = {length:,} tokens; lower either"
            ) from None
        if promises and not has_gradients_by_text(decoder, decoder.size, text.max_prompt, device):
            raise JobError(
                f"gradients of model={text.model!r} cannot be clipped text by text; name another, or no epsilon"
            )


ROLES = ("sensitive", "quasi_identifiers")  # of a schema, that a column of text may have


def without_texts(schema: Schema) -> Schema:
    """The schema of the rows of a table, of which texts are left out."""
    gone = set(schema.texts)
    left_out = {name: schema.columns[name].model_copy(update={"learn": False, "drop": True}) for name in gone}
    roles: dict[str, Any] = {role: tuple(name for name in getattr(schema, role) if name not in gone) for role in ROLES}
    parties = (tuple(name for name in held if name not in gone) for held in schema.parties)
    roles["parties"] = tuple(held for held in parties if held)
    return schema.model_copy(update={"columns": {**schema.columns, **left_out}, **roles})


def rows_schema(text: LanguageModel, schema: Schema, *, promises: bool) -> Schema:
    """The schema of the rows of a fit: without texts, with columns that say which are missing, and of their themes.

    No text is read: the schema says which may be missing, and the number of themes is known.
    """
    rows = without_texts(schema)
    gaps = {missing_name(name): BooleanColumn() for name in schema.texts if schema.columns[name].missing}
    if taken := gaps.keys() & rows.columns.keys():
        raise SchemaError(f"column={min(taken)!r} has the name of what is learned of a text; rename it")
    rows = rows.model_copy(update={"columns": {**rows.columns, **gaps}})
    if not has_themes(text, schema, promises):
        return rows
    from understudy.extras.text.themes import with_themes

    return with_themes(rows, schema.texts, text.themes)


def with_texts(rows: Schema, schema: Schema) -> Schema:
    """The schema of rows, with the texts that another one has of them; with columns of themes still."""
    gaps = {missing_name(name) for name in schema.texts}
    columns = {name: column for name, column in rows.columns.items() if name in schema.columns or name not in gaps}
    columns |= {name: schema.columns[name] for name in schema.texts}
    roles = {role: getattr(schema, role) for role in (*ROLES, "parties")}
    return rows.model_copy(update={"columns": columns, **roles})


def has_themes(text: LanguageModel, schema: Schema, promises: bool) -> bool:
    return text.public_text is not None and promises and text.themes > 0 and bool(schema.texts)


@dataclass(frozen=True, eq=False)
class PublicTexts:
    """The public texts of a fit, read once."""

    lines: tuple[str, ...] = ()
    themes: "Themes | None" = None

    @classmethod
    def read(cls, text: LanguageModel, schema: Schema, *, promises: bool) -> Self:
        """Those that an option names."""
        if text.public_text is None:
            return cls()
        lines = tuple(public_texts(text.public_text))
        return cls(lines, _themes(lines, text.themes) if has_themes(text, schema, promises) else None)


@lru_cache(maxsize=1)
def _themes(public: tuple[str, ...], number: int) -> "Themes":
    from understudy.extras.text.themes import Themes

    return Themes.learned(public, number)


def text_event(text: LanguageModel, schema: Schema, rho: float) -> SubsampledGaussianEvent:
    """The steps of DP-SGD on texts, at about a cost rho.

    A step's own share is worked out as if samples were small and noise large; what is spent is accounted exactly.
    """
    rate = _sampling_rate(text, schema)
    return SubsampledGaussianEvent(STEPS, rate * math.sqrt(text.steps / (2 * rho)), rate, text.steps)


def _sampling_rate(text: LanguageModel, schema: Schema) -> float:
    if schema.n_units is None:
        return USUAL_RATE if text.sampling_rate == "auto" else text.sampling_rate
    if text.sampling_rate != "auto":
        if text.sampling_rate * schema.n_units < 1:
            raise BudgetError(
                f"text.sampling_rate={text.sampling_rate:g} draws less than one unit a step, as expected; choose at "
                f"least 1 / n_units = {1 / schema.n_units:.3g}"
            )
        return text.sampling_rate
    expected = min(max(USUAL_RATE * schema.n_units, EXPECTED_BATCH[0]), EXPECTED_BATCH[1])
    return min(1.0, expected / schema.n_units)


def prepared(train: Any, schema: Schema, *, promises: bool, in_order: bool) -> pd.DataFrame:
    """The rows that the models of all columns are fitted on: those of an entity are chosen once for all.
    `train`: *Sensitive*. Real rows.
    """
    if promises:
        return bound_contributions(Rows.of(train, schema), schema, in_order=in_order).frame()
    rows = Rows.of(train, schema, outside="refuse").frame()
    if len(rows) == 0:
        raise TableError("a fit needs rows, and the table has none; give it a larger one")
    for name in schema.texts:
        if any(HALF_A_PAIR.search(text) for text in rows[name] if isinstance(text, str)):
            raise TableError(f"text={name!r} holds half a surrogate pair, which is no character; mend its encoding")
    return rows


def fit_texts(
    asked: tuple[LanguageModel, PublicTexts],
    rows: pd.DataFrame,
    made: "tuple[Model, Schema]",
    seed: int,
    progress: Progress,
    budget: Budget | None,
    place: Path | None,
) -> "TextWriter":
    """A writer of texts, trained on the texts of real rows.
    `rows`: *Sensitive*. From `prepared`, with columns of themes where there are any.
    """
    from synth.neural.training import device_of, seeded
    from understudy.extras.text.tokens import BytePairs, Prompts
    from understudy.extras.text.writer import TextWriter, theme_words

    text, public = asked
    (model, schema), device, rng = made, device_of(text.device), np.random.default_rng([seed, 31])
    progress("prompts of texts", None)
    drawn = conform(model.sample(N_PROMPT_ROWS, seed=int(rng.integers(2**31))), model.schema, outside="clamp")
    # Under a budget no token and no length may come from a real text.
    told = () if budget is not None else schema.texts
    real = [text for name in told for text in cut(rows[name].tolist(), schema, name) if isinstance(text, str)]
    tokenizer = None
    if text.model is None:
        tokenizer = BytePairs.learned(public.lines or real, text.vocabulary)
        most = text.max_tokens or _most_tokens(tokenizer, schema, real, public.lines)
        text = text.model_copy(update={"max_tokens": most})
    start = int(rng.integers(2**63))
    with seeded(start if budget is None else None, device):
        row = Prompts.of(drawn, schema, theme_words(public.themes, schema))
        writer = TextWriter.begun(text, schema, row, tokenizer, device, public.themes)
        if public.lines:
            _learn_public(writer, public.lines, drawn, rng, progress)
        if budget is None:
            _tell_cuts(writer, rows)
        if budget is None or text.steps:
            _train(writer, rows, start, progress, budget, place)
    return writer


def _most_tokens(tokenizer: Any, schema: Schema, real: Sequence[str], public: Sequence[str]) -> int:
    """Tokens that 99% of real texts have at most, or texts of the declared length. `real`: *Sensitive*, or none."""
    if real:
        most = float(np.quantile([len(tokenizer.tokens(text)) for text in real], KEPT_SHARE))
    else:
        n_tokens = sum(len(tokenizer.tokens(text)) for text in public)
        most = longest(schema) * (n_tokens / sum(map(len, public)) if public else 1.0)
    return int(np.clip(math.ceil(most), *TOKENS))


def longest(schema: Schema, *names: str) -> int:
    """Characters of a text of these columns at most, or of any."""
    return max(int(getattr(schema.columns[name], "length", 0)) for name in names or schema.texts)


def _tell_cuts(writer: "TextWriter", rows: pd.DataFrame) -> None:
    """Say where more texts are cut than a few, for fits that promise nothing. `rows`: *Sensitive*."""
    for name in writer.schema.texts:
        texts, length = [text for text in rows[name] if isinstance(text, str)], longest(writer.schema, name)
        n_tokens = [len(writer.vocabulary.tokens(text)) for text in cut(texts, writer.schema, name)]
        limits = {f"length = {length:,}": [len(text) > length for text in texts]}
        limits[f"max_tokens = {writer.max_tokens:,}"] = [n > writer.max_tokens for n in n_tokens]
        for limit, are_cut in limits.items():
            if sum(are_cut) > (1 - KEPT_SHARE) * len(texts):
                share = sum(are_cut) / len(texts)
                warnings.warn(TableNote(f"text={name!r}: {limit} cuts {share:.0%} of the texts"), stacklevel=2)


def public_texts(path: str) -> list[str]:
    """The lines of a file of public texts; empty ones are left out."""
    try:
        lines = [line.strip() for line in Path(path).read_text(encoding="utf-8-sig").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise JobError(f"public_text={path!r} cannot be read ({type(error).__name__}); name a file in UTF-8") from None
    held = [line for line in lines if line]
    if not held:
        raise JobError(f"public_text={path!r} holds no text; name a file with one text a line")
    return held


def _learn_public(
    writer: "TextWriter", public: Sequence[str], drawn: pd.DataFrame, rng: np.random.Generator, progress: Progress
) -> None:
    """Train on public texts.

    The prompt of each is a synthetic row that has about its themes. Without themes a row would tell it nothing: there
    the prompt of the small decoder names the column alone, and that of a folder's model is a row at random.
    """
    from synth.neural.training import Course, train
    from understudy.extras.text.tokens import CodedVocabulary
    from understudy.extras.text.training import TextTraining

    text, vocabulary, made = writer.specification, writer.vocabulary, []
    for place, name in enumerate(writer.schema.texts):
        lines = cut(public[place :: len(writer.schema.texts)], writer.schema, name)
        if writer.themes is not None:
            rows = writer.themes.deal(lines, drawn, name, rng)
        else:
            rows = drawn.iloc[rng.integers(len(drawn), size=len(lines))].reset_index(drop=True)
        made.append(writer.sequences(rows.assign(**{name: list(lines)}), name))
        if writer.themes is None and isinstance(vocabulary, CodedVocabulary):
            made[-1][:, : vocabulary.n_prompt - 1] = 0
    sequences = np.concatenate(made)
    training = TextTraining(writer.decoder, sequences, vocabulary.n_prompt, text.batch_size, text.rate, writer.device)
    train(training, text.public_epochs, Course("public text", "", None, progress))


def _train(
    writer: "TextWriter", rows: pd.DataFrame, seed: int, progress: Progress, budget: Budget | None, place: Path | None
) -> None:
    from synth.neural.batches import UnitIndex
    from synth.neural.training import CLIPPING, CheckpointFolder, Course, train, train_privately
    from synth.transforms.layout import Encoded
    from understudy.extras.text.training import PrivateTextTraining, TextTraining

    text, schema, n_prompt = writer.specification, writer.schema, writer.vocabulary.n_prompt
    progress("reading texts", None)
    sequences = np.concatenate([writer.sequences(rows, name) for name in schema.texts])
    if place is not None:
        place.mkdir(parents=True, exist_ok=True)
        if (place.parent / CLIPPING).exists():  # whoever asks for notes of clipping asks for these, too
            (place / CLIPPING).touch()
    folder = None if place is None else CheckpointFolder(place)
    known: dict[str, Any] = {**writer.to_plain(), "texts": schema.texts}
    if writer.themes is not None:
        known["themes"] = [hashlib.sha256(one.tobytes()).hexdigest() for one in writer.themes.to_arrays().values()]
    if budget is None:
        known |= {"seed": seed, "rows": hashlib.sha256(np.ascontiguousarray(sequences).data).hexdigest()}
    digest = hashlib.sha256(json.dumps(known, sort_keys=True, default=str).encode()).hexdigest()
    course = Course("text", digest, folder, progress)
    if budget is None:
        is_read = (sequences[:, n_prompt:] > 0).any(1)
        sequences = sequences[is_read] if is_read.any() else sequences
        train(
            TextTraining(writer.decoder, sequences, n_prompt, text.batch_size, text.rate, writer.device),
            text.epochs,
            course,
        )
        return
    event = budget.schedule.required(STEPS, SubsampledGaussianEvent)
    owners = np.arange(len(rows)) if schema.entity is None else rows[schema.entity].to_numpy()
    owned = np.concatenate([owners] * len(schema.texts))
    rows_per_unit = schema.max_rows_per_unit * len(schema.texts)
    units = UnitIndex.of(Encoded(sequences, np.zeros((len(sequences), 0), dtype=np.float32)), owned, rows_per_unit)
    expected = event.sampling_rate * require_declared(schema)
    training = PrivateTextTraining(
        writer.decoder, units, n_prompt, expected, text.max_grad_norm, text.rate, writer.device
    )  # fmt: skip
    train_privately(training, event, budget, course)
