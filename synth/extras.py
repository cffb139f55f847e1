"""The distribution and its extras: features beside the core, each a folder of `understudy/extras` that can be deleted.

Nothing in the core names one. The `__init__` of an extra holds what it brings, by kind and name, and imports nothing:

    BRINGS = {"generator": {"local": "understudy.extras.local.generator:Local"}}

Who reads a kind says what its objects are:

- "generator" `synth.generators.registry`, "measure" and "measure on request" `evaluate.metrics`, "section"
  `reports.document`, "command" `understudy.cli`, "schema command" `understudy.cli.schemas`
- "model" (by the name that saved ones have, of no generator) `synth.generators.registry`
- "wrapper" `synth.generators.base`, "audit" (by the name of its generator) `evaluate.privacy.audit.white_box`
- "trust" (a sentence) `synth.dp.statement`, "settings" (`Described`, by the key that tells such a file from others)
  `understudy.job.load`
- "tracker" `understudy.job.spec`, "executor" and "counting" `understudy.executor`
- "export": a function that writes a `Delivery` into its folder; "library": a package whose version provenance notes;
  "index page": the name of a page, and a function of a folder of outputs and the page's path
"""

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from synth.errors import MissingExtra

NAME = "understudy-tables"  # another project has the name of the command on PyPI
VERSION = "0.1.0"
"""The version of the program. It stands here, so that no lookup of installed metadata can fail or find another's."""
PACKAGE = "understudy.extras"


@cache
def entries(kind: str) -> Mapping[str, str]:
    """Where the objects of a kind are, as "module:attribute" by name, in the order of the extras' names."""
    try:
        package = importlib.import_module(PACKAGE)
    except ModuleNotFoundError:  # the libraries without the application
        return MappingProxyType({})
    folders = sorted(module.name for module in pkgutil.iter_modules(package.__path__))
    brought = [importlib.import_module(f"{PACKAGE}.{name}").BRINGS.get(kind, {}) for name in folders]
    return MappingProxyType({name: where for each in brought for name, where in each.items()})


@cache
def load(kind: str) -> Mapping[str, Any]:
    """The objects of a kind by name, imported now."""
    parts = {name: where.partition(":") for name, where in entries(kind).items()}
    objects = {name: getattr(importlib.import_module(module), what) for name, (module, _, what) in parts.items()}
    return MappingProxyType(objects)


def missing_extra(need: str, extra: str) -> MissingExtra:
    """The refusal of work that needs an extra that is not installed, for the caller to raise.

    >>> str(missing_extra("a PostgreSQL ledger", "postgres"))
    "a PostgreSQL ledger needs the extra `postgres`; pip install 'understudy-tables[postgres]'"
    """
    return MissingExtra(f"{need} needs the extra `{extra}`; pip install '{NAME}[{extra}]'")
