"""Make a synthetic table.

Three lines from a notebook: a schema, a fit, a sample.

>>> import numpy as np, pandas as pd, synth
>>> real = pd.DataFrame({"age": np.arange(200) % 60 + 18, "smoker": np.arange(200) % 3 == 0})
>>> schema = synth.infer_schema(real)
>>> model = synth.fit(real, schema, "mst")
>>> model.sample(5, seed=0).dtypes.astype(str).to_dict()
{'age': 'int64', 'smoker': 'bool'}
"""

import importlib
from typing import TYPE_CHECKING, Any

from synth import extras

if TYPE_CHECKING:
    from synth.declare import declare_schema
    from synth.generators.fit import fit
    from synth.generators.registry import generator, load_model
    from synth.infer import infer_schema
    from synth.progress import quiet
    from synth.schema import Schema
    from synth.schema_file import read_schema, write_schema
    from synth.split import split_table
    from synth.table import read_table, write_table

_HOMES = {
    "Schema": "synth.schema",
    "declare_schema": "synth.declare",
    "fit": "synth.generators.fit",
    "generator": "synth.generators.registry",
    "infer_schema": "synth.infer",
    "load_model": "synth.generators.registry",
    "quiet": "synth.progress",
    "read_schema": "synth.schema_file",
    "read_table": "synth.table",
    "split_table": "synth.split",
    "write_schema": "synth.schema_file",
    "write_table": "synth.table",
}

__all__ = [
    "Schema",
    "declare_schema",
    "fit",
    "generator",
    "infer_schema",
    "load_model",
    "quiet",
    "read_schema",
    "read_table",
    "split_table",
    "write_schema",
    "write_table",
]


def __getattr__(name: str) -> Any:
    """The public names, imported when first used, and those of extras, by the registry kind "public name"."""
    if name in extras.entries("public name"):
        return extras.load("public name")[name]
    if name not in _HOMES:
        raise AttributeError(f"module 'synth' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return list(__all__)
