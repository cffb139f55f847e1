"""Wrappers: generators around any generator, which learn what that does not. Extras bring them, by kind "wrapper".

The name that a wrapper is registered by is that of its option among the parameters of a generator, where it takes one,
and its mark in saved models. A base is fitted to rows under the schema of `inner`, from its own part of the budget.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from pydantic import SerializeAsAny, model_validator

from synth import extras
from synth.dp.budget import Budget
from synth.dp.schedule import Plan, Schedule
from synth.errors import JobError, ModelError
from synth.generators.base import Generator, PrivateGenerator
from synth.generators.models.model import Model
from synth.progress import Progress, quiet
from synth.schema import Schema


class Wrapper(PrivateGenerator):
    """A generator around another, whose name, epsilon and delta it has."""

    files: ClassVar[tuple[str, ...]] = ()
    """Keys of its option that name files."""
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

    def cautions(self, schema: Schema) -> tuple[str, ...]:
        return self.base.cautions(self.inner(schema))

    def counted(self, schema: Schema) -> Schema:
        return self.base.counted(self.inner(schema))

    def schedule(self, schema: Schema) -> Schedule | None:
        chosen = self.chosen(schema)
        return super().schedule(schema) if chosen == self else chosen.schedule(schema)  # type: ignore[attr-defined]

    def whole_plan(self, schema: Schema, delta: float) -> Plan:
        assert isinstance(self.base, PrivateGenerator)
        return self.base.whole_plan(schema, delta)

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


def fit_model(
    generator: Generator,
    train: Any,
    schema: Schema,
    *,
    seed: int = 0,
    progress: Progress = quiet,
    budget: Budget | None = None,
    place: Path | None = None,
) -> Model:
    """A model by any generator, which is given what it takes. `train`: *Sensitive*. As `Generator.fit` has it."""
    generator = compose(generator, schema)
    taken: dict[str, Any] = {"seed": seed, "progress": progress}
    if isinstance(generator, PrivateGenerator):
        taken["budget"] = budget
    if generator.resumes:
        taken["place"] = place
    model = generator.fit(train, schema, **taken)
    if model.statement is not None and getattr(generator, "epsilon", None) is None:
        raise ModelError(
            f"generator={generator.name!r} has no epsilon, and its model makes a claim; correct the generator"
        )
    return model
