"""Generators: frozen specifications with `fit`, which gives a model with `sample` and `save`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol

import pandas as pd
from pydantic import BaseModel, ConfigDict, Field

from synth.chunks import Part
from synth.dp.budget import Budget
from synth.dp.mechanisms import require_sampler
from synth.dp.schedule import EPSILON_RANGE, Plan, Schedule, calibrate, resolve_delta
from synth.dp.statement import PrivacyStatement, guarantee_words
from synth.errors import BudgetError, ModelError, SchemaError
from synth.generators.fitting.fixed_costs import with_overhead
from synth.notebook import html_table
from synth.progress import Progress, quiet
from synth.schema import Schema
from synth.schema.counted import in_rows_alone


class Model(Protocol):
    """A fitted generator. It holds no real row."""

    @property
    def name(self) -> str:
        """Name of the generator in the registry."""

    @property
    def schema(self) -> Schema:
        """The schema it was fitted under."""

    @property
    def statement(self) -> PrivacyStatement | None:
        """Its guarantee; `None`: **no formal guarantee**."""

    @property
    def default_rows(self) -> int:
        """The rows that `sample` gives unless told: public for a private fit."""

    def sample(
        self,
        n_rows: int | None = None,
        *,
        seed: int | None = None,
        given: Any = None,
        balance: Mapping[str, Mapping[Any, float] | None] | None = None,
        progress: Progress = quiet,
        part: Part | None = None,
    ) -> pd.DataFrame:
        """A synthetic table with the real table's columns, order, dtypes, precision and bounds.

        Args:
            n_rows: number of rows; `None`: `default_rows`.
            seed: the same seed gives the same table; `None` draws a fresh one.
            given: the value that every row holds in some columns (`None`: missing), or a table of such columns: then
                the sample has one row for each of its rows, in their order.
            balance: for one column the share of rows with each value; `None`: the same for each of its categories.
            progress: told what is being done.
            part: of the table that the rows are for, where it is written piece by piece; `None`: they are all of it.

        Raises:
            JobError: the model cannot give such rows, or so few; nothing was drawn.
        """

    def save(self, path: Path | str) -> None:
        """Write the model as a new folder of safetensors and JSON, whole or not at all."""


class ModelDisplay:
    """The display of a fitted model in a notebook; a mixin for models."""

    def __repr__(self: Model) -> str:
        n_columns, rows = len(self.schema.kept), f"{self.default_rows:,} rows"
        return f"<Model {self.name!r} of {n_columns} columns and {rows}: {guarantee_words(self.statement)}>"

    def _repr_html_(self: Model) -> str:
        rows = [("columns", f"{len(self.schema.kept):,}"), ("rows that a sample has", f"{self.default_rows:,}")]
        rows.append(("guarantee", guarantee_words(self.statement)))
        return html_table(f"Model {self.name!r}", ("", ""), rows)


class Generator(BaseModel):
    """A generator's specification: its parameters, validated and frozen.

    Subclasses are small pydantic models: a class variable `name`, fields for parameters, and `fit`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    name: ClassVar[str]
    private: ClassVar[bool] = False
    """True if it takes epsilon at all."""
    unsaved: ClassVar[str | None] = None
    """The reason why its models cannot be saved; `None`: they can."""
    counts_alone: ClassVar[bool] = False
    """True if a fit with epsilon reads a table by counts alone, which may be made where its rows are."""
    in_order: ClassVar[bool] = False
    """True if a fit needs the rows of each unit side by side, and a bounded one the first of them in their order."""
    resumes: ClassVar[bool] = False
    """True if a fit takes a `place`, a folder in which it keeps unfinished work or a log."""
    composes: ClassVar[bool] = True
    """True if a wrapper may learn more beside it, with a share of its budget."""

    def __hash__(self) -> int:
        """A hash of all parameters, of which a table of weights has none of its own."""
        return hash((type(self), *(frozenset(x.items()) if isinstance(x, dict) else x for _, x in self)))

    @property
    def promises(self) -> bool:
        """True if a fit gives a formal guarantee."""
        return False

    def check(self, schema: Schema) -> None:
        """Refuse, before any row is read, a fit that the schema or the installation rules out."""
        schema.refuse_unlearned()
        back = next((name for name, each in schema.worked_out.items() if each.looks_back), None)
        if back is not None and not schema.columns[back].modeled:
            raise SchemaError(
                f"column={back!r} is computed from the row before it, and generator={self.name!r} draws rows "
                "independently; choose a generator whose rows follow each other, or drop the column"
            )
        if not schema.learned:
            raise SchemaError(
                "a generator needs a column to learn, and the schema keeps none but those made anew; keep one"
            )

    def chosen(self, schema: Schema) -> "Generator":
        """The generator that fits tables of a schema: itself, unless it stands for one that public facts choose."""
        return self

    @property
    def conditional(self) -> bool:
        """True if it learns columns of rows given others, which it does not count (`fitted`)."""
        return False

    def cautions(self, schema: Schema) -> tuple[str, ...]:
        """Sentences on settings that are allowed and leak; without a final stop."""
        return ()

    def check_saving(self) -> None:
        """Refuse, before a fit, to save a model that cannot be saved."""
        if self.unsaved is not None:
            raise ModelError(f"generator={self.name!r} cannot be saved: {self.unsaved}")

    @classmethod
    def model_class(cls) -> type[Any]:
        """The class of its models, whose `load` takes the content, arrays, schema and statement of a saved one."""
        from synth.generators.models.marginal_model import MarginalModel

        return MarginalModel

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
        """A model of the training table.

        Args:
            train: *Sensitive*. Real rows: a DataFrame, a path, or anything else that `synth.fit` takes.
        """
        if not self.promises:
            from synth.generators.fitting.counted import find_relations

            train, schema = find_relations(train, schema)
        return self._fit_counted(train, schema, self._taken(seed, progress, budget, place))

    def counted(self, schema: Schema) -> Schema:
        """The schema of the rows that a fit counts: with what is left of modeled columns."""
        return self._held(schema).counted

    def _held(self, schema: Schema) -> Schema:
        """The schema of a model: rows are drawn one by one, and no column is told by the row before."""
        return in_rows_alone(schema)

    def _fit_counted(self, train: Any, schema: Schema, taken: Mapping[str, Any]) -> Model:
        """A model of the rows as they are counted, which gives rows under the schema. `train`: *Sensitive*."""
        held = self._held(schema)
        counted = held.counted
        if counted is held:
            return self.fit_rows(train, held, **taken)
        from synth.generators.fitting.counted import counted_source, under

        mapped = self.promises and self.counts_alone
        rows = counted_source(train, held, promises=self.promises, mapped=mapped)
        model: Model = under(self.fit_rows(rows, counted, **taken), held)
        return model

    def _taken(
        self, seed: int, progress: Progress, budget: Budget | None, place: Path | None
    ) -> dict[str, Any]:  # fmt: skip
        """The arguments that `fit_rows` of this generator takes."""
        taken: dict[str, Any] = {"seed": seed, "progress": progress}
        return taken | ({"budget": budget} if self.private else {}) | ({"place": place} if self.resumes else {})

    def fit_rows(self, train: Any, schema: Schema, *, seed: int = 0, progress: Progress = quiet) -> Model:
        """A model of the rows as they are counted; arguments as of `fit`.

        Private generators take `budget` beside these, and those that keep unfinished work `place`.
        """
        raise NotImplementedError

    def parameters(self) -> dict[str, Any]:
        """The parameters as plain data."""
        return self.model_dump(mode="json")


class PrivateGenerator(Generator):
    """A generator that takes a privacy budget; `epsilon=None` fits without one and promises nothing."""

    private: ClassVar[bool] = True
    epsilon: float | None = Field(
        default=None,
        strict=True,
        ge=EPSILON_RANGE[0],
        le=EPSILON_RANGE[1],
        description="Total epsilon; `None`: no formal guarantee.",
    )
    delta: float | Literal["auto"] = Field(default="auto", description="auto: min(1e-6, n_units^-1.2).")

    @property
    def promises(self) -> bool:
        """True if a fit gives a formal guarantee: it does where epsilon is set."""
        return self.epsilon is not None

    def check(self, schema: Schema) -> None:
        """Refuse, before any row is read, a fit that the schema or the installation rules out."""
        super().check(schema)
        if self.epsilon is not None:
            require_sampler()
            self.claimed_delta(schema)

    def claimed_delta(self, schema: Schema) -> float:
        return resolve_delta(self.delta, schema)

    def plan(self, schema: Schema) -> Plan:
        """The generator's own events at a total cost rho, with its stated shares; what every fit reads is added."""
        raise NotImplementedError

    def schedule(self, schema: Schema) -> Schedule | None:
        """Everything a fit under this schema will draw, calibrated to epsilon; reads no row."""
        self.check(schema)
        return None if self.epsilon is None else self.calibrated(self.counted(schema))

    def calibrated(self, schema: Schema) -> Schedule:
        """The schedule of a generator with an epsilon, for rows of a schema as they are counted."""
        if self.epsilon is None:
            raise BudgetError(f"generator={self.name!r} has no epsilon to calibrate noise to; set one")
        delta = resolve_delta(self.delta, schema)
        return calibrate(self.whole_plan(schema, delta), self.epsilon, delta)

    def whole_plan(self, schema: Schema, delta: float) -> Plan:
        """The plan of a fit: the generator's own events, and what the schema makes necessary."""
        return with_overhead(self.plan(schema), schema, delta)

    def fit_rows(
        self, train: Any, schema: Schema, *, seed: int = 0, progress: Progress = quiet, budget: Budget | None = None
    ) -> Model:
        """A model of the rows as they are counted, as `Generator.fit_rows` has it."""
        raise NotImplementedError
