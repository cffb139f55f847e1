"""Generators: frozen specifications with `fit`, which gives a model with `sample` and `save`; and wrappers around them.

A wrapper learns what its base does not. Extras bring them, by kind "wrapper". The name that one is registered by is
that of its option among the parameters of a generator, where it takes one, and its mark in saved models. A base is
fitted to rows under the schema of `inner`, from its own part of the budget.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny, model_validator

from synth import extras
from synth.dp.budget import Budget
from synth.dp.events import Event, SubsampledGaussianEvent
from synth.dp.mechanisms import require_sampler
from synth.dp.schedule import EPSILON_RANGE, EventsOfRho, Schedule, calibrate, resolve_delta
from synth.errors import BudgetError, JobError, ModelError, SchemaError
from synth.generators.fitting.private_fit import with_schema_events
from synth.generators.fitting.training_data import counted_source, find_relations
from synth.generators.models.model import Model
from synth.progress import Progress, quiet
from synth.schema import Schema
from synth.schema.residual_schema import in_rows_alone, measured_as


class Generator(BaseModel):
    """A generator's specification: its parameters, validated and frozen."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    name: ClassVar[str]
    private: ClassVar[bool] = False  # True if a fit by its name may have an epsilon
    unsaved: ClassVar[str | None] = None  # the reason why its models cannot be saved; `None`: they can
    counts_alone: ClassVar[bool] = False
    """True if a fit with epsilon reads a table by counts alone, which may be made where its rows are."""
    in_order: ClassVar[bool] = False
    """True if a fit needs the rows of each unit side by side, and a bounded one the first of them in their order."""
    resumes: ClassVar[bool] = False
    """True if a fit takes a `place`, a folder in which it keeps unfinished work or a log."""
    composes: ClassVar[bool] = True  # True if a wrapper may learn more beside it, with a share of its budget

    @classmethod
    def with_epsilon(cls) -> type["Generator"]:
        """The class of its fits with an epsilon, where these have options of their own; else this one."""
        return cls

    def __hash__(self) -> int:
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
        if self.unsaved is not None:
            raise ModelError(f"generator={self.name!r} cannot be saved: {self.unsaved}")

    @classmethod
    def model_class(cls) -> type[Any]:
        """The class of its models, whose `load` takes the content, arrays, schema and statement of a saved one."""
        from synth.generators.models.fitted import MarginalModel

        return MarginalModel

    def fit(
        self, train: Any, schema: Schema | None = None, *, seed: int = 0, progress: Progress = quiet,
        budget: Budget | None = None, place: Path | None = None, known: tuple[str, ...] = (),
    ) -> Model:  # fmt: skip
        """A model of the training table. `train`: *Sensitive*. Real rows: anything that `synth.fit` takes.
        `known`: columns that each row will be given, which a generator that learns rows column by column leaves out.
        """
        schema = self.schema_of_fit(schema)
        if not self.promises:
            train, schema = find_relations(train, schema)
        # The model draws rows one by one under `drawn`. It learns them under the counted form of that (see
        # `Schema.counted`), which is the same schema unless a column is modeled.
        drawn = self.drawn_schema(schema)
        counted = drawn.counted
        options: dict[str, Any] = {"seed": seed, "progress": progress}
        if isinstance(self, PrivateGenerator):
            if self.promises and counted is not drawn:
                # Rows are read below, to be brought to that form: what would refuse the fit must not come after.
                self.check(counted)
                budget = self.fit_budget(counted, budget, progress)
            options["budget"] = budget
        if self.resumes:
            options["place"] = place
        if known and self.conditional and not self.private:
            options["known"] = known
        if counted is drawn:
            return self.fit_rows(train, drawn, **options)
        # With a promise, counts may be made where the rows are (Spark, Dask): values that do not fit are clamped there.
        stay_there = self.promises and self.counts_alone
        rows = counted_source(train, drawn, promises=self.promises, mapped=stay_there)
        model: Any = self.fit_rows(rows, counted, **options)
        # Bounds and categories were measured under the counted form, and go into the schema that rows are drawn under.
        fitted: Model = replace(model, schema=measured_as(drawn, model.schema))
        return fitted

    def schema_of_fit(self, schema: object) -> Schema:
        if not isinstance(schema, Schema):
            raise JobError(
                f"generator({self.name!r}).fit takes the table, then its schema, not a {type(schema).__name__}; write "
                f"fit(real, schema), or synth.fit(real, {self.name!r}), which infers one"
            )
        return schema

    def counted(self, schema: Schema) -> Schema:
        """The counted form of the schema that a model draws its rows under."""
        return self.drawn_schema(schema).counted

    def drawn_schema(self, schema: Schema) -> Schema:
        """The schema that a model draws its rows under: one by one, so that no column is told by the row before."""
        return in_rows_alone(schema)

    def fit_rows(self, train: Any, schema: Schema, *, seed: int = 0, progress: Progress = quiet) -> Model:
        """A model of rows as they are counted; private generators take `budget`, too, and those that resume `place`."""
        raise NotImplementedError

    def parameters(self) -> dict[str, Any]:
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

    def own_events(self, schema: Schema) -> EventsOfRho:
        """The generator's own events at a cost rho, each at its stated share; what every fit reads is added to them."""
        raise NotImplementedError

    def schedule(self, schema: Schema) -> Schedule | None:
        """Everything a fit under this schema will draw, calibrated to epsilon; reads no row."""
        self.check(schema)
        if self.epsilon is None:
            return None
        counted = self.counted(schema)
        self.check_counted(counted)
        return self.counted_schedule(counted)

    def check_counted(self, schema: Schema) -> None:
        """Refuse what a fit to rows as they are counted refuses: before a ledger pays for it."""
        self.check(schema)

    def counted_schedule(self, schema: Schema) -> Schedule:
        """What `schedule` gives, for a schema that is in counted form already, and checked."""
        assert self.epsilon is not None
        delta = resolve_delta(self.delta, schema)
        return calibrate(self.all_events(schema, delta), self.epsilon, delta)

    def fit_budget(self, schema: Schema, budget: Budget | None, progress: Progress) -> Budget:
        """The budget of a fit to rows of a schema as they are counted: a new one, or the one that comes if it is so."""
        if budget is None:
            progress("calibrating the noise", None)
            return Budget(self.counted_schedule(schema))
        schedule, delta = budget.schedule, resolve_delta(self.delta, schema)
        events_of = self.all_events(schema, delta)
        # The total follows from the first event, whose cost is a fixed share of it.
        share, first = (events[0].rho if events else None for events in (events_of(1.0), schedule.events))
        expected = events_of(first / share) if first and share else ()
        if (
            schedule.delta != delta
            or schedule.epsilon > (self.epsilon or 0.0)
            or not expected
            or len(expected) != len(schedule.events)
            or not all(map(_costs_alike, expected, schedule.events))
        ):
            raise off_schedule(self.name)
        return budget

    def all_events(self, schema: Schema, delta: float) -> EventsOfRho:
        """All events of a fit at a total cost rho: those that the schema makes necessary, and the generator's own."""
        return with_schema_events(self.own_events(schema), schema, delta)


def off_schedule(name: str) -> BudgetError:
    return BudgetError(
        f"the budget is not on the schedule of generator={name!r} under this schema; make it with "
        "`Budget(generator.schedule(schema))`"
    )


def _costs_alike(planned: Event, event: Event) -> bool:
    """True if two events read the same at the same cost, but for rounding."""
    exact = ("mechanism", "what", "count", "sensitivity", "whole", "sampling_rate", "threshold")
    if any(getattr(planned, name, None) != getattr(event, name, None) for name in exact):
        return False
    costs = [e.noise_multiplier if isinstance(e, SubsampledGaussianEvent) else e.rho for e in (planned, event)]
    return None not in costs and math.isclose(*costs, rel_tol=1e-9)


class Wrapper(PrivateGenerator):
    """A generator around another, whose name, epsilon and delta it has."""

    files: ClassVar[tuple[str, ...]] = ()  # keys of its option that name files
    base: SerializeAsAny[Generator]

    @model_validator(mode="before")
    @classmethod
    def _claim_of_base(cls, content: Any) -> Any:
        base = content["base"]
        return {**content, "epsilon": getattr(base, "epsilon", None), "delta": getattr(base, "delta", "auto")}

    @classmethod
    def wraps(cls, generator: Generator, schema: Schema) -> bool:
        """True if a schema makes it necessary around a generator, without any option."""
        return False

    @classmethod
    def load(
        cls,
        base: Model,
        content: Mapping[str, Any],
        arrays: Mapping[str, np.ndarray],
        schema: Schema,
        elsewhere: Mapping[str, str],
    ) -> Model:
        """A model that `save_around` wrote, around one of the base. `elsewhere`: as `load_model` has it."""
        raise NotImplementedError

    def inner(self, schema: Schema) -> Schema:
        """The schema of the rows that the base learns."""
        return schema

    @classmethod
    def unused(cls, generator: Generator, schema: Schema) -> tuple[str, ...]:
        """Cautions on what it would learn, and is not around a composed generator to learn."""
        return ()

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.base.name

    @property
    def in_order(self) -> bool:  # type: ignore[override]
        return self.base.in_order

    @property
    def unsaved(self) -> str | None:  # type: ignore[override]
        return self.base.unsaved

    @property
    def reads(self) -> Mapping[str, Path]:
        """Files that a fit reads beside the table, by their parameters."""
        return {}

    @property
    def shortcuts(self) -> Mapping[str, Any]:
        """Parameters that change no noise, and make a fit short: for audits."""
        return {}

    @property
    def clips(self) -> Mapping[str, float]:
        """The norm that its steps of DP-SGD clip to, by their name."""
        return {}

    def unaudited(self, schema: Schema) -> tuple[str, ...]:
        """What of a claim under a schema no stand-in of an audit has, in words."""
        return ()

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy; what it has no field of its own for is of the base."""
        own = {name for name in type(self).model_fields if name not in PrivateGenerator.model_fields}
        base = (update or {}).get("base", self.base)
        base = base.model_copy(update={name: each for name, each in (update or {}).items() if name not in own})
        claim = {"epsilon": getattr(base, "epsilon", None), "delta": getattr(base, "delta", "auto")}
        changed = {name: each for name, each in (update or {}).items() if name in own}
        return super().model_copy(update={**changed, "base": base, **claim}, deep=deep)

    def chosen(self, schema: Schema) -> Generator:
        return self.model_copy(update={"base": compose(self.base, self.inner(schema))})

    def check(self, schema: Schema) -> None:
        if not self.base.composes:
            raise JobError(f"nothing is learned beside generator={self.name!r}; leave the option for it out")
        self.base.check(self.inner(schema))

    def check_counted(self, schema: Schema) -> None:
        if isinstance(self.base, PrivateGenerator):
            self.base.check_counted(schema)

    def cautions(self, schema: Schema) -> tuple[str, ...]:
        return self.base.cautions(self.inner(schema))

    def counted(self, schema: Schema) -> Schema:
        return self.base.counted(self.inner(schema))

    def schedule(self, schema: Schema) -> Schedule | None:
        chosen = self.chosen(schema)
        return super().schedule(schema) if chosen == self else chosen.schedule(schema)  # type: ignore[attr-defined]

    def all_events(self, schema: Schema, delta: float) -> EventsOfRho:
        assert isinstance(self.base, PrivateGenerator)
        return self.base.all_events(schema, delta)

    def parameters(self) -> dict[str, Any]:
        own = super().parameters()
        return {**self.base.parameters(), **{name: own[name] for name in own if name in extras.entries("wrapper")}}


def compose(generator: Generator, schema: Schema) -> Generator:
    """The generator that fits tables of a schema, with the wrappers around it that the schema makes necessary."""
    chosen = generator.chosen(schema)
    if isinstance(chosen, Wrapper):
        return chosen
    needed = (wrapper for wrapper in extras.load("wrapper").values() if wrapper.wraps(chosen, schema))
    return next((wrapper(base=chosen) for wrapper in needed), chosen)


def cautions(generator: Generator, schema: Schema) -> tuple[str, ...]:
    """Sentences on what is allowed and leaks, or counts for nothing; without a final stop."""
    chosen = compose(generator, schema)
    unused = [each for wrapper in extras.load("wrapper").values() for each in wrapper.unused(chosen, schema)]
    if schema.order is not None and not chosen.in_order and not unused:
        rows = f"generator={chosen.name!r} draws the rows of an entity independently"
        unused.append(f"{rows}, and order={schema.order!r} counts for nothing")
    return (*chosen.cautions(schema), *unused)


def draws_in_order(generator: Generator, schema: Schema) -> bool:
    """True if the generator, fitted under the schema, draws the rows of an entity one after another."""
    return compose(unwrapped(generator), schema).in_order


def wrappers(generator: Generator) -> Iterator[Wrapper]:
    """Those around a generator, the outermost first."""
    while isinstance(generator, Wrapper):
        yield generator
        generator = generator.base


def unwrapped(generator: Generator) -> Generator:
    return unwrapped(generator.base) if isinstance(generator, Wrapper) else generator


def with_files(parameters: Mapping[str, Any], change: Callable[[str], str]) -> dict[str, Any]:
    """Parameters of a generator, with each file that an option of a wrapper names changed."""
    changed = dict(parameters)
    for option in parameters.keys() & extras.entries("wrapper").keys():
        if isinstance(value := parameters[option], Mapping):
            files = extras.load("wrapper")[option].files
            named = {key: change(value[key]) for key in files if isinstance(value.get(key), str)}
            changed[option] = {**value, **named}
    return changed


def fit_model(generator: Generator, train: Any, schema: Schema, **options: Any) -> Model:
    """A model by the generator and the wrappers that its schema needs; `options` as `Generator.fit` has them."""
    generator = compose(generator, schema)
    model = generator.fit(train, schema, **options)
    if model.statement is not None and getattr(generator, "epsilon", None) is None:
        raise ModelError(
            f"generator={generator.name!r} has no epsilon, and its model makes a claim; correct the generator"
        )
    return model
