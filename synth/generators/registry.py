"""Generators by name: ours, those of extras among them, and those that installed packages bring.

A package brings generators by entry points of the group `understudy.generators`: a name, and the class that it stands
for. None of them has a name of ours, or makes a claim: nothing here knows whether its epsilon is true. Imports stay
late, since some are heavy.
"""

import importlib
from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from synth import extras
from synth.dp.statement import PrivacyStatement
from synth.errors import JobError, ModelError, UnderstudyError, nearest
from synth.generators.base import Generator
from synth.generators.models.model import ARRAYS, BASE, WRAPPER, Arrays, Content, Model, load_content
from synth.schema import Schema, build_schema
from synth.validation import NotPlain, sentence

_CLASSES = {
    "auto": "synth.generators.auto:Auto",
    "independent": "synth.generators.marginal_generator:Independent",
    "mst": "synth.generators.marginal_generator:Mst",
    "aim": "synth.generators.aim:Aim",
    "latent_class": "synth.generators.latent_class:LatentClass",
    "trees": "synth.generators.trees:Trees",
    "ctgan": "synth.generators.neural_generator:Ctgan",
    "tvae": "synth.generators.neural_generator:Tvae",
}
GROUP = "understudy.generators"


@cache
def _known() -> Mapping[str, str]:
    """The module and class of each generator, ours first."""
    ours = _ours()
    return {**ours, **{point.name: point.value for point in entry_points(group=GROUP) if point.name not in ours}}


def _ours() -> Mapping[str, str]:
    return {**_CLASSES, **extras.entries("generator")}


def names() -> tuple[str, ...]:
    return tuple(_known())


def generator_class(name: str) -> type[Generator]:
    if name not in _known():
        raise JobError(f"generator={name!r} is unknown; {nearest(name, _known())}")
    module, _, attribute = _known()[name].partition(":")
    try:
        kind: type[Generator] = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        if name in _ours():
            raise
        raise JobError(
            f"generator={name!r} of another package cannot be imported ({type(error).__name__}); mend that package"
        ) from None
    if name not in _ours() and kind.private:
        raise JobError(
            f"generator={name!r} of another package takes an epsilon, for which nothing here can vouch; remove it"
        )
    return kind


def generator(name: str, /, **parameters: Any) -> Generator:
    """A generator's specification, with wrappers around it where parameters are options of these.

    Raises:
        JobError: no generator has this name, or a parameter is unknown or out of range; nothing was fitted.

    >>> generator("mst", epsilon=1.0).epsilon
    1.0
    """
    if not isinstance(name, str):
        raise JobError(f"a generator is named, and {type(name).__name__} is no name; known are: {', '.join(names())}")
    chosen = generator_class(name)
    if parameters.get("epsilon") is not None and not chosen.private:
        raise JobError(
            f"generator={name!r} gives no formal guarantee and takes no epsilon; leave epsilon out or choose "
            f"{' or '.join(n for n in _ours() if generator_class(n).private)}"
        )
    options = {option: parameters.pop(option) for option in extras.entries("wrapper") if option in parameters}
    kind = chosen = _of_its_mode(chosen, parameters)
    try:
        specified: Generator = chosen.model_validate(parameters)
        for option, value in options.items():
            if value is not None:
                kind = extras.load("wrapper")[option]
                specified = kind.model_validate({"base": specified, option: value})
    except ValidationError as error:
        raise JobError(f"generator={name!r}: {sentence(error, kind)}") from None
    return specified


def _of_its_mode(chosen: type[Generator], parameters: dict[str, Any]) -> type[Generator]:
    """The class of a fit with these parameters; what counts in the other mode alone is refused."""
    other = chosen.with_epsilon()
    if other is chosen:
        return chosen
    how, remedy = "with", "without"
    if parameters.get("epsilon") is None:
        parameters.pop("epsilon", None)
        parameters.pop("delta", None)
    else:
        chosen, other, how, remedy = other, chosen, remedy, how
    idle = [key for key in parameters if key in {*other.model_fields} - {*chosen.model_fields}]
    if idle:
        raise JobError(
            f"generator={chosen.name!r}: {idle[0]} is of a fit {how} epsilon, and this is one {remedy} it; leave it out"
        )
    return chosen


def load_model(path: Path | str, **elsewhere: Path | str | None) -> Model:
    """A saved model. Nothing in the folder is run.

    Args:
        path: the folder.
        elsewhere: folders that the model names and that are elsewhere now, such as `text_model`, that of a language
            model which was adapted.

    Raises:
        ModelError: the folder holds no model, a damaged one, or one of an unknown generator.
    """
    from safetensors import SafetensorError

    moved = {name: str(folder) for name, folder in elsewhere.items() if folder is not None}
    try:
        return _loaded(*load_content(Path(path)), moved)
    except UnderstudyError:
        raise
    except (LookupError, ValueError, TypeError, AttributeError, ArithmeticError, RuntimeError, OSError) as error:
        fault = error if isinstance(error, NotPlain) else type(error).__name__
    except SafetensorError:
        fault = ARRAYS
    raise ModelError(f"the model in {str(path)!r} is damaged ({fault}); fit it again")


def _loaded(
    content: Content, arrays: Arrays, schema: Schema, statement: PrivacyStatement | None, elsewhere: Mapping[str, str]
) -> Model:
    """A model, or the one that a wrapper put around another."""
    if (around := content.get(WRAPPER)) is not None:
        if around not in extras.entries("wrapper"):
            raise ModelError("the model needs an extra that is not installed; install it, or upgrade understudy")
        base, of_base, own = content[BASE], dict[str, np.ndarray](), dict[str, np.ndarray]()
        for name, array in arrays.items():
            (of_base if name.startswith(f"{BASE}.") else own)[name.removeprefix(f"{BASE}.")] = array
        inner = _loaded(base, of_base, build_schema(base["schema"]), statement, elsewhere)
        whole: Model = extras.load("wrapper")[around].load(inner, content[around], own, schema, elsewhere)
        return whole
    made_by = content.get("generator")
    if isinstance(made_by, str) and made_by in extras.entries("model"):
        brought: Model = extras.load("model")[made_by].load(content, arrays, schema, statement)
        return brought
    if not isinstance(made_by, str) or made_by not in _known() or generator_class(made_by).unsaved is not None:
        raise ModelError("the model is of an unknown generator; upgrade understudy")
    if made_by not in _ours() and statement is not None:
        raise ModelError("the model makes a claim that its generator cannot make; fit it again")
    part_class = generator_class(made_by).model_class()
    model: Model = part_class.load(content, arrays, schema, statement)
    return model
