"""Free text beside any generator: rows first, then a language model of their texts, for a share of the budget."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from pydantic import Field

from synth.dp.budget import Budget
from synth.dp.schedule import Plan
from synth.errors import ModelError, SchemaError
from synth.generators.base import Generator
from synth.generators.fitting.private_fit import planned_budget
from synth.generators.models.model import Model
from synth.generators.wrapper import Wrapper, compose, fit_model
from synth.progress import Progress, quiet
from synth.schema import Schema
from understudy.extras.text import fitting
from understudy.extras.text.specification import LM, LanguageModel, missing_name

if TYPE_CHECKING:
    from understudy.extras.text.model import TextModel


SMALLEST: Mapping[str, Any] = {"d_model": 16, "n_layers": 1, "max_tokens": 8}
"""Of a decoder in an audit. A folder's model stays as it is."""
THEMES = "how a private text becomes themes of public ones: a stand-in has none"


class WithTexts(Wrapper):
    """A generator whose rows get texts by a language model."""

    files: ClassVar[tuple[str, ...]] = ("model", "public_text")
    text: LanguageModel = Field(description='Language model of columns of text; "lm": the usual one.')

    def inner(self, schema: Schema) -> Schema:
        """The schema of the rows: without texts, with columns of their themes where these are counted."""
        return fitting.rows_schema(self.text, schema, promises=self.promises)

    @classmethod
    def usual(cls, schema: Schema) -> str | None:
        return LM if schema.texts else None

    @property
    def reads(self) -> Mapping[str, Path]:
        public = self.text.public_text
        return {} if public is None else {"public_text": Path(public)}

    def chosen(self, schema: Schema) -> Generator:
        # Columns that are counted for texts do not choose the generator, and have their part of the budget.
        base = self.base.chosen(fitting.without_texts(schema))
        return self.model_copy(update={"base": compose(base, self.inner(schema))})

    def check(self, schema: Schema) -> None:
        """Refuse, before any row is read, texts that nothing would learn, or an option without texts."""
        schema.refuse_text()
        if not schema.texts:
            raise SchemaError("the option text is for columns with learn = true, and the schema has none; leave it out")
        super().check(schema)
        from understudy.extras.text.adapters import check_folder, require_libraries

        require_libraries()
        text = self.text
        if text.model is not None:
            check_folder(text.model, text.max_prompt + (text.max_tokens or 0) + 1)
        fitting.PublicTexts.read(text, schema, promises=self.promises)

    def cautions(self, schema: Schema) -> tuple[str, ...]:
        """Those of the base, and one on texts that are cut where tokens are bytes. They rest on public numbers."""
        text, longest, cut = self.text, fitting.longest(schema), ""
        if text.model is None and text.public_text is None and self.promises and longest > (text.max_tokens or longest):
            cut = f"texts have up to {longest:,} characters, of which text.max_tokens={text.max_tokens} keeps as many "
            cut += "bytes at most; raise it, or give public_text"
        return (*super().cautions(schema), *((cut,) if cut else ()))

    def advice(self, schema: Schema) -> tuple[str, ...]:
        names = ", ".join(f"column={name!r}" for name in schema.texts)
        return (
            f'{names}: free text needs text = "{LM}", and share={self.text.share:g} of the budget is counted here for '
            "its steps of DP-SGD; their time is not in the forecast",
            "public texts of the same kind have themes, which do more: with steps = 0 all of the budget is for rows",
        )

    @property
    def shortcuts(self) -> Mapping[str, Any]:
        """Without public texts a stand-in has no themes: it has columns enough that are counted as they are."""
        smaller = SMALLEST if self.text.model is None else {}
        return {"text": self.text.model_copy(update={**smaller, "public_text": None})}

    @property
    def clips(self) -> Mapping[str, float]:
        return {fitting.STEPS: self.text.max_grad_norm}

    def unaudited(self, schema: Schema) -> tuple[str, ...]:
        return (THEMES,) if fitting.has_themes(self.text, schema, self.promises) else ()

    def whole_plan(self, schema: Schema, delta: float) -> Plan:
        """The plan of the rows with their share of rho, then the steps on texts with theirs."""
        of_rows, text = super().whole_plan(schema, delta), self.text
        if text.steps == 0:
            return of_rows
        return lambda rho: [*of_rows((1 - text.share) * rho), fitting.text_event(text, schema, text.share * rho)]

    def fit(
        self,
        train: Any,
        schema: Schema,
        *,
        seed: int = 0,
        progress: Progress = quiet,
        budget: Budget | None = None,
        place: Path | None = None,
    ) -> Model:
        """A model of the rows first, then of their texts. `train`: *Sensitive*. Real rows."""
        from understudy.extras.text.model import TextModel

        chosen = self.chosen(schema)
        if chosen != self:
            return fit_model(chosen, train, schema, seed=seed, progress=progress, budget=budget, place=place)
        self.check(schema)
        text = fitting.with_length(self.text, schema)
        fitting.try_folder(text, promises=self.promises)
        counted, paid = self.counted(schema), None
        if self.promises:
            budget = planned_budget(self, counted, budget, progress)
            paid = budget.part([event for event in budget.schedule.events if event.what != fitting.STEPS])
        rows = fitting.prepared(train, schema, promises=self.promises, in_order=self.in_order)
        public = fitting.PublicTexts.read(self.text, schema, promises=self.promises)
        if public.themes is not None:
            rows = public.themes.add_columns(rows, schema)
        may_miss = (name for name in schema.texts if schema.columns[name].missing)
        gaps = {missing_name(name): rows[name].isna().astype("boolean") for name in may_miss}
        counted_rows = rows.assign(**gaps).drop(columns=list(schema.texts))
        model = fit_model(
            self.base, counted_rows, self.inner(schema), seed=seed, progress=progress, budget=paid, place=place
        )
        apart = None if place is None else place / fitting.PREPARED
        told = fitting.with_texts(model.schema, schema)
        paid = budget if self.promises else None
        writer = fitting.fit_texts((text, public), rows, (model, told), seed, progress, paid, apart)
        kept = {name: column for name, column in told.columns.items() if name in schema.columns}
        return TextModel(model, writer, told.model_copy(update={"columns": kept}))

    @classmethod
    def load(
        cls, base: Model, content: Mapping[str, Any], arrays: Mapping[str, np.ndarray], schema: Schema,
        elsewhere: Mapping[str, str],
    ) -> "TextModel":  # fmt: skip
        from understudy.extras.text.adapters import require_libraries

        require_libraries()
        from understudy.extras.text.model import TextModel
        from understudy.extras.text.writer import TextWriter

        if not schema.texts:
            raise ModelError("the model is damaged (texts without columns of them); fit it again")
        model = elsewhere.get("text_model")
        return TextModel(
            base, TextWriter.loaded(content, arrays, fitting.with_texts(base.schema, schema), model), schema
        )
