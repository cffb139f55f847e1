"""Generators: frozen specifications with `fit`, which gives a model with `sample` and `save`."""

from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from synth.dp.budget import Budget
from synth.dp.mechanisms import require_sampler
from synth.dp.schedule import EPSILON_RANGE, Plan, Schedule, calibrate, resolve_delta
from synth.errors import BudgetError, JobError, ModelError, SchemaError
from synth.generators.fitting.private_fit import with_overhead
from synth.generators.models.model import Model
from synth.progress import Progress, quiet
from synth.schema import Schema
from synth.schema.counted import in_rows_alone


class Generator(BaseModel):
    """A generator's specification: its parameters, validated and frozen."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    name: ClassVar[str]
    private: ClassVar[bool] = False
    """True if a fit by its name may have an epsilon."""
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

    @classmethod
    def with_epsilon(cls) -> type["Generator"]:
        """The class of its fits with an epsilon, where these have options of their own; else this one."""
        return cls

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
        from synth.generators.models.fitted import MarginalModel

        return MarginalModel

    def fit(
        self, train: Any, schema: Schema | None = None, *, seed: int = 0, progress: Progress = quiet,
        budget: Budget | None = None, place: Path | None = None,
    ) -> Model:  # fmt: skip
        """A model of the training table. `train`: *Sensitive*. Real rows: anything that `synth.fit` takes."""
        schema = self.schema_of_fit(schema)
        if not self.promises:
            from synth.generators.fitting.training_data import find_relations

            train, schema = find_relations(train, schema)
        taken: dict[str, Any] = {"seed": seed, "progress": progress}
        taken |= ({"budget": budget} if isinstance(self, PrivateGenerator) else {}) | (
            {"place": place} if self.resumes else {}
        )
        whole = self._held(schema)
        if (counted := whole.counted) is whole:
            return self.fit_rows(train, whole, **taken)
        from synth.generators.fitting.training_data import counted_source, under

        mapped = self.promises and self.counts_alone
        rows = counted_source(train, whole, promises=self.promises, mapped=mapped)
        model: Model = under(self.fit_rows(rows, counted, **taken), whole)
        return model

    def schema_of_fit(self, schema: object) -> Schema:
        """The schema that a fit was called with; anything else is refused, and what was meant is said."""
        if isinstance(schema, Schema):
            return schema
        raise JobError(
            f"generator({self.name!r}).fit takes the table, then its schema, and has schema={type(schema).__name__}; "
            f"write fit(real, schema), or synth.fit(real, {self.name!r}), which infers one"
        )

    def counted(self, schema: Schema) -> Schema:
        """The schema of the rows that a fit counts: with what is left of modeled columns."""
        return self._held(schema).counted

    def _held(self, schema: Schema) -> Schema:
        """The schema of a model: rows are drawn one by one, and no column is told by the row before."""
        return in_rows_alone(schema)

    def fit_rows(self, train: Any, schema: Schema, *, seed: int = 0, progress: Progress = quiet) -> Model:
        """A model of rows as they are counted; private generators take `budget`, too, and those that resume `place`."""
        raise NotImplementedError

    def parameters(self) -> dict[str, Any]:
        """The parameters as plain data."""
        return self.model_dump(mode="json")


class PrivateGenerator(Generator):
    """A generator that takes a privacy budget; `epsilon=None` fits without one and promises nothing."""

    private: ClassVar[bool] = True
    epsilon: float | None = Field(
        default=None, strict=True, ge=EPSILON_RANGE[0], le=EPSILON_RANGE[1],
        description="`None`: no formal guarantee.",
    )  # fmt: skip
    delta: float | Literal["auto"] = Field(default="auto", description="auto: min(1e-6, n_units^-1.2).")

    @property
    def promises(self) -> bool:
        return self.epsilon is not None

    def check(self, schema: Schema) -> None:
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
