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

from pydantic import ValidationError

from synth import extras
from synth.errors import JobError, ModelError, nearest
from synth.generators.base import Generator, Model
from synth.generators.models.history_model import HISTORIES, HistoryModel
from synth.generators.models.model_folder import load_content
from synth.generators.models.text_model import TEXTS, TextModel
from synth.validation import sentence

_CLASSES = {
    "auto": "synth.generators.auto:Auto",
    "independent": "synth.generators.marginal_generator:Independent",
    "mst": "synth.generators.mst:Mst",
    "aim": "synth.generators.aim:Aim",
    "latent_class": "synth.generators.latent_class:LatentClass",
    "trees": "synth.generators.trees:Trees",
    "arn": "synth.generators.arn:Arn",
    "ctgan": "synth.generators.neural_generator:Ctgan",
    "tvae": "synth.generators.neural_generator:Tvae",
    "pategan": "synth.generators.pategan:PateGan",
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
        found: type[Generator] = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        if name in _ours():
            raise
        raise JobError(
            f"generator={name!r} of another package cannot be imported ({type(error).__name__}); mend that package"
        ) from None
    if name not in _ours() and found.private:
        raise JobError(
            f"generator={name!r} of another package takes an epsilon, for which nothing here can vouch; remove it"
        )
    return found


def generator(name: str, /, **parameters: Any) -> Generator:
    """A generator's specification.

    Raises:
        JobError: no generator has this name, or a parameter is unknown or out of range; nothing was fitted.

    >>> generator("mst", epsilon=1.0).epsilon
    1.0
    """
    chosen = generator_class(name)
    if parameters.get("epsilon") is not None and not chosen.private:
        raise JobError(
            f"generator={name!r} gives no formal guarantee and takes no epsilon; leave epsilon out or choose "
            f"{' or '.join(n for n in _ours() if generator_class(n).private)}"
        )
    try:
        return chosen.model_validate(parameters)
    except ValidationError as error:
        raise JobError(f"generator={name!r}: {sentence(error, chosen)}") from None


def load_model(path: Path | str, *, text_model: Path | str | None = None) -> Model:
    """A saved model. Nothing in the folder is run.

    Args:
        path: the folder.
        text_model: the folder of the language model that was adapted, where it is elsewhere now.

    Raises:
        ModelError: the folder holds no model, a damaged one, or one of an unknown generator.
    """
    content, arrays, schema, statement = load_content(Path(path))
    name = content.get("generator")
    if not isinstance(name, str) or name not in _known() or generator_class(name).unsaved is not None:
        raise ModelError(f"the model in {str(path)!r} is of an unknown generator; upgrade understudy")
    if name not in _ours() and statement is not None:
        raise ModelError(f"the model in {str(path)!r} makes a claim that its generator cannot make; fit it again")
    part_class = generator_class(name).model_class()
    of_texts = content.pop(TEXTS, None)
    apart = {key: arrays.pop(key) for key in list(arrays) if of_texts is not None and key.startswith(f"{TEXTS}.")}
    model: Model
    try:
        if HISTORIES in content:
            model = HistoryModel.load(content, arrays, schema, statement, part_class)
        else:
            model = part_class.load(content, arrays, schema, statement)
    except ModelError:
        raise
    except (KeyError, ValueError, TypeError, IndexError, AttributeError, OverflowError) as error:
        raise ModelError(f"the model is damaged ({type(error).__name__}); fit it again") from None
    if (of_texts is None) != (not schema.texts):
        raise ModelError(f"the model in {str(path)!r} is damaged (texts without their model); fit it again")
    if of_texts is None:
        return model
    return TextModel.load(model, of_texts, apart, None if text_model is None else str(text_model))
