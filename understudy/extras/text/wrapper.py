"""Free text beside any generator: rows first, then a language model of their texts, for a share of the budget."""

import importlib.util
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from synth.dp.budget import Budget
from synth.dp.events import Event, SubsampledGaussianEvent
from synth.dp.schedule import EventsOfRho
from synth.errors import SchemaError, TableError
from synth.extras import missing_extra
from synth.generators.base import Generator, Wrapper, compose, fit_model
from synth.generators.fitting.training_data import bound_contributions
from synth.generators.models.model import Model
from synth.generators.neural_generator import sampling_rate
from synth.progress import Progress, quiet
from synth.schema import Schema
from synth.schema.kinds import BooleanColumn
from synth.table.rows import Rows
from understudy.extras.text.themes import longest, public_texts, theme_names

if TYPE_CHECKING:
    from understudy.extras.text.model import TextModel

OF_STEPS = frozenset({"sampling_rate", "max_grad_norm", "share"})  # parameters of the steps of DP-SGD
LEARNING_RATES = {"decoder": 2e-3, "adapters": 1e-3}  # of Adam, unless told
LM = "lm"  # the short form of a specification: the usual parameters
STEPS = "steps of DP-SGD on texts"  # their name in a statement
USUAL_RATE, EXPECTED_BATCH = 0.1, (64, 512)
"""Share of the units in a step's sample, and the units that it holds at least and at most, as expected."""
PREPARED = "texts"  # the folder of a fit's place with the checkpoint of texts
SMALLEST = {"d_model": 16, "n_layers": 1, "max_tokens": 8}  # of a decoder in an audit; a folder's model stays
THEMES = "how a private text becomes themes of public ones: a stand-in has none"
GAPS = "which private texts are missing: a stand-in misses none"
ROLES = ("sensitive", "quasi_identifiers")  # of a schema, that a column of text may have
LIBRARIES = ("torch", "tokenizers", "transformers", "peft", "opacus")


class LanguageModel(BaseModel):
    """A causal language model of texts given their rows: a folder's with LoRA adapters, or a small decoder of our own.

    The decoder is trained from nothing. It is worth as much as the texts it has seen: it repeats their phrases and
    writes little that is new. A folder's model writes better texts from fewer rows.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    model: str | None = Field(
        default=None,
        min_length=1,
        description="Folder of a causal model as `transformers` saves it; `None`: a small decoder of our own.",
    )
    public_text: str | None = Field(
        default=None,
        min_length=1,
        description="File of public texts, one a line, that the model learns from first, and a decoder's tokenizer.",
    )
    public_epochs: int = Field(default=10, ge=1, le=10_000, description="Passes over the file of public texts.")
    themes: int = Field(
        default=32, ge=0, le=256, description="With epsilon: themes of public texts, by which rows are counted; 0: off."
    )
    vocabulary: int = Field(default=1_000, ge=300, le=50_000, description="Tokens of the small decoder's tokenizer.")
    d_model: int = Field(default=96, ge=16, le=1024, multiple_of=16, description="Width of the small decoder.")
    n_layers: int = Field(default=2, ge=1, le=24, description="Layers of the small decoder.")
    rank: int = Field(default=8, ge=1, le=256, description="Rank of the adapters of a folder's model.")
    epochs: int = Field(default=20, ge=1, le=10_000, description="Without epsilon: passes over the texts.")
    batch_size: int = Field(default=32, ge=1, le=4096, description="Without epsilon: texts of a step.")
    steps: int = Field(
        default=300,
        ge=0,
        le=1_000_000,
        description="With epsilon: steps of DP-SGD; left out: none where public texts have themes, which tell more.",
    )
    sampling_rate: Annotated[float, Field(gt=0, le=1)] | Literal["auto"] = Field(
        default="auto", description="With epsilon: probability of a unit to be in a step's sample, in (0, 1]."
    )
    max_grad_norm: float = Field(
        default=1.0, ge=1e-6, le=1e6, description="With epsilon: L2 norm that a unit's gradient is clipped to."
    )
    share: float = Field(default=0.5, gt=0, lt=1, description="With epsilon: share of the budget for texts, about.")
    learning_rate: float | None = Field(default=None, gt=0, le=1, description="`None`: the usual one.")
    max_tokens: int | None = Field(
        default=None,
        ge=4,
        le=4096,
        description="Tokens of a text that are read or written at most; `None`: without epsilon as many as nearly all "
        "texts have, else as many as `length` and public texts say.",
    )
    max_prompt: int = Field(
        default=160, ge=8, le=4096, description="Tokens of a row before the text, of a folder's model, at most."
    )
    temperature: float = Field(default=1.0, gt=0, le=10, description="Of sampling; below 1, likely words get likelier.")
    top_p: float = Field(default=0.95, gt=0, le=1, description="Share of the likeliest tokens that are drawn from.")
    device: Literal["auto", "cpu", "cuda"] = Field(default="auto", description="auto: the GPU where there is one.")

    @model_validator(mode="before")
    @classmethod
    def _usual(cls, content: Any) -> Any:
        """The short form in full; no steps where themes do more for the same budget."""
        content = {} if content == LM else content
        if not isinstance(content, Mapping) or "steps" in content or not OF_STEPS.isdisjoint(content):
            return content
        return {**content, "steps": 0 if content.get("public_text") and content.get("themes", 1) != 0 else 300}

    @model_validator(mode="after")
    def _applies(self) -> Self:
        if self.public_text is None and self.steps == 0:
            raise ValueError("steps=0 learns public texts alone, and there are none; set public_text, or choose steps")
        return self

    @property
    def rate(self) -> float:
        return self.learning_rate or LEARNING_RATES["decoder" if self.model is None else "adapters"]


class WithTexts(Wrapper):
    """A generator whose rows get texts by a language model."""

    resumes: ClassVar[bool] = True
    files: ClassVar[tuple[str, ...]] = ("model", "public_text")
    text: LanguageModel = Field(description='Language model of columns of text; "lm": the usual one.')

    @property
    def _n_themes(self) -> int:
        return self.text.themes if self.text.public_text is not None and self.promises else 0

    def inner(self, schema: Schema) -> Schema:
        """The schema of the rows: without texts, with columns that say which are missing, and of their themes.

        No text is read: the schema says which may be missing, and the number of themes is known.
        """
        names = [missing_name(name) for name in schema.texts if schema.columns[name].missing]
        names += theme_names(schema.texts, self._n_themes)
        if taken := schema.columns.keys() & names:
            raise SchemaError(f"column={min(taken)!r} has the name of what is learned of a text; rename it")
        rows = without_texts(schema)
        return rows.model_copy(update={"columns": {**rows.columns, **{name: BooleanColumn() for name in names}}})

    @property
    def reads(self) -> Mapping[str, Path]:
        public = self.text.public_text
        return {} if public is None else {"public_text": Path(public)}

    def chosen(self, schema: Schema) -> Generator:
        # Columns that are counted for texts do not choose the generator, and have their part of the budget.
        base = self.base.chosen(without_texts(schema))
        return self.model_copy(update={"base": compose(base, self.inner(schema))})

    def check(self, schema: Schema) -> None:
        """Refuse, before any row is read, texts that nothing would learn, or an option without texts."""
        schema.refuse_text()
        if not schema.texts:
            raise SchemaError("the option text is for columns with learn = true, and the schema has none; leave it out")
        super().check(schema)
        require_libraries()
        from understudy.extras.text.language_models import check_folder

        text = self.text
        if text.model is not None:
            check_folder(text.model, text.max_prompt + (text.max_tokens or 0) + 1)
        if text.public_text is not None:
            public_texts(text.public_text, self._n_themes)

    def cautions(self, schema: Schema) -> tuple[str, ...]:
        """Those of the base, and one on texts that are cut where tokens are bytes. They rest on public numbers."""
        text, most = self.text, longest(schema)
        if not self.promises or text.model or text.public_text or most <= (text.max_tokens or most):
            return super().cautions(schema)
        cut = (
            f"texts have up to {most:,} characters, of which text.max_tokens={text.max_tokens} keeps as many bytes at "
            "most; raise it, or give public_text"
        )
        return (*super().cautions(schema), cut)

    @property
    def shortcuts(self) -> Mapping[str, Any]:
        """Without public texts a stand-in has no themes: it has columns enough that are counted as they are."""
        smaller = SMALLEST if self.text.model is None else {}
        return {"text": self.text.model_copy(update={**smaller, "public_text": None})}

    @property
    def clips(self) -> Mapping[str, float]:
        return {STEPS: self.text.max_grad_norm}

    def unaudited(self, schema: Schema) -> tuple[str, ...]:
        has_gaps = any(schema.columns[name].missing for name in schema.texts)
        return (*((THEMES,) if self._n_themes else ()), *((GAPS,) if has_gaps else ()))

    def all_events(self, schema: Schema, delta: float) -> EventsOfRho:
        """The plan of the rows with their share of rho, then the steps on texts with theirs.

        A step's own share is worked out as if samples were small and noise large; what is spent is accounted exactly.
        """
        of_rows, text = super().all_events(schema, delta), self.text
        if text.steps == 0:
            return of_rows
        rate = sampling_rate("text.sampling_rate", text.sampling_rate, schema, USUAL_RATE, EXPECTED_BATCH)

        def events(rho: float) -> list[Event]:
            noise_multiplier = rate * math.sqrt(text.steps / (2 * text.share * rho))
            steps = SubsampledGaussianEvent(STEPS, noise_multiplier, rate, text.steps)
            return [*of_rows((1 - text.share) * rho), steps]

        return events

    def fit(
        self, train: Any, schema: Schema | None = None, *, seed: int = 0, progress: Progress = quiet,
        budget: Budget | None = None, place: Path | None = None, known: tuple[str, ...] = (),
    ) -> Model:  # fmt: skip
        schema = self.schema_of_fit(schema)
        chosen = self.chosen(schema)
        if chosen != self:
            return fit_model(
                chosen, train, schema, seed=seed, progress=progress, budget=budget, place=place, known=known
            )
        self.check(schema)
        from understudy.extras.text import training
        from understudy.extras.text.model import TextModel

        text, paid = training.with_length(self.text, schema, promises=self.promises), None
        if self.promises:
            of_rows = self.counted(schema)
            self.check_counted(of_rows)  # the fit of the rows comes after they are read
            budget = self.fit_budget(of_rows, budget, progress)
            paid = budget.part([event for event in budget.schedule.events if event.what != STEPS])
        public, themes = ((), None) if text.public_text is None else public_texts(text.public_text, self._n_themes)
        # The rows of an entity are chosen once for the models of all columns.
        if self.promises:
            real = bound_contributions(Rows.of(train, schema), schema, in_order=self.in_order).frame()
        elif len(real := Rows.of(train, schema, outside="refuse").frame()) == 0:
            raise TableError("a fit needs rows, and the table has none; give it a larger one")
        if themes is not None:
            real = themes.add_columns(real, schema)
        may_miss = (name for name in schema.texts if schema.columns[name].missing)
        gaps = {missing_name(name): real[name].isna().astype("boolean") for name in may_miss}
        counted = real.assign(**gaps).drop(columns=list(schema.texts))
        rows = fit_model(
            self.base, counted, self.inner(schema), seed=seed, progress=progress, budget=paid, place=place, known=known
        )
        whole, checkpoints = with_texts(rows.schema, schema), None if place is None else place / PREPARED
        budget = budget if self.promises else None
        fit = training.TextFit(text, rows, whole, public, themes, seed, progress, budget, checkpoints)
        kept = {name: column for name, column in whole.columns.items() if name in schema.columns}
        return TextModel(rows, fit.writer(real), whole.model_copy(update={"columns": kept}))

    @classmethod
    def load(
        cls, base: Model, content: Mapping[str, Any], arrays: Mapping[str, np.ndarray], schema: Schema,
        elsewhere: Mapping[str, str],
    ) -> "TextModel":  # fmt: skip
        require_libraries()
        from understudy.extras.text.model import TextModel, TextWriter

        whole = with_texts(base.schema, schema)
        return TextModel(base, TextWriter.loaded(content, arrays, whole, elsewhere.get("text_model")), schema)


def require_libraries() -> None:
    if any(importlib.util.find_spec(name) is None for name in LIBRARIES):
        raise missing_extra("learning free text", "text")


def missing_name(name: str) -> str:
    return f"{name}: missing"


def without_texts(schema: Schema) -> Schema:
    gone = schema.texts
    left_out = {name: schema.columns[name].model_copy(update={"learn": False, "drop": True}) for name in gone}
    roles: dict[str, Any] = {role: tuple(name for name in getattr(schema, role) if name not in gone) for role in ROLES}
    parties = (tuple(name for name in party if name not in gone) for party in schema.parties)
    columns = {**schema.columns, **left_out}
    return schema.model_copy(update={"columns": columns, "parties": tuple(filter(None, parties)), **roles})


def with_texts(rows: Schema, schema: Schema) -> Schema:
    """The schema of rows, with the texts that another one has of them; with columns of themes still."""
    gaps = {missing_name(name) for name in schema.texts}
    columns = {name: column for name, column in rows.columns.items() if name in schema.columns or name not in gaps}
    columns |= {name: schema.columns[name] for name in schema.texts}
    roles = {role: getattr(schema, role) for role in (*ROLES, "parties")}
    return rows.model_copy(update={"columns": columns, **roles})
