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
import warnings
from typing import TYPE_CHECKING, Any

from synth import extras

if TYPE_CHECKING:
    from synth.declare import declare_schema
    from synth.generators.models.model import Model
    from synth.generators.registry import generator, load_model
    from synth.infer import infer_schema
    from synth.progress import Progress, quiet
    from synth.schema import Schema
    from synth.schema_file import read_schema, write_schema
    from synth.split import split_table
    from synth.table import read_table, write_table

_HOMES = {
    "Schema": "synth.schema",
    "declare_schema": "synth.declare",
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


def fit(
    real: Any,
    schema: "Schema | str | None" = None,
    name: str | None = None,
    *,
    seed: int = 0,
    progress: "Progress | None" = None,
    **parameters: Any,
) -> "Model":
    """A fitted generator: `fit(real)`, `fit(real, "trees")`, `fit(real, schema)` or `fit(real, schema, "trees")`.

    Args:
        real: *Sensitive*. Rows to learn from: a frame of pandas, polars, Arrow, DuckDB, Ibis, Spark or Dask, a dict of
            columns, the path of a file or a folder, or the address of a table in a database. `synth.split_table` keeps
            a holdout apart first. Samples are frames of the same kind.
        schema: what is public about them; declared, where `epsilon` is set. Left out, it is inferred and shown, on
            standard error or in the notebook; the model has it as `schema`. A name here is that of a generator.
        name: of a generator (`synth.generators.registry.names()`); left out: `auto`, the one that public facts choose.
        seed: for everything but the noise of a private fit.
        progress: told what is being done; `None`: a bar in a notebook, nothing elsewhere; `synth.quiet`: nothing, nor
            is an inferred schema shown.
        parameters: of the generator, such as `epsilon=1.0`.

    Raises:
        BadInput: a parameter, the schema or the table cannot be used; nothing was fitted.
    """
    from synth.errors import BudgetError, JobError
    from synth.generators.models.framed_model import FramedModel
    from synth.generators.registry import generator
    from synth.generators.wrapper import cautions, compose, fit_model
    from synth.infer import infer_schema
    from synth.progress import quiet, show, shown
    from synth.table import Table
    from synth.table.frames import as_they_are
    from synth.table.rows import Rows

    if isinstance(schema, str):
        if name is not None:
            raise JobError(f"schema={schema!r} is a text; read a schema file by `synth.read_schema`, or leave it out")
        schema, name = None, schema
    chosen = generator("auto" if name is None else name, **parameters)
    table = real if isinstance(real, Rows) else Table.of(real)
    if schema is None:
        if chosen.promises:
            raise BudgetError(
                "a private fit needs a declared schema, and none is named: what is read off the table is not public; "
                "read `synth.infer_schema(real)`, and declare it by `synth.declare_schema(schema, n_units=..., "
                "measure=[...])`, where measure names each column whose bounds or categories are not public"
            )
        schema = infer_schema(table)
        if progress is not quiet:
            show(schema)
    chosen = compose(chosen, schema)
    for sentence in cautions(chosen, schema):
        warnings.warn(sentence, stacklevel=2)
    with shown(progress) as tell:
        model = fit_model(chosen, table, schema, seed=seed, progress=tell)
    return model if isinstance(table, Rows) or table.back is as_they_are else FramedModel(model, table.back)


def __getattr__(name: str) -> Any:
    """The public names, imported when first used, and those of extras, by the registry kind "public name"."""
    if name in extras.entries("public name"):
        return extras.load("public name")[name]
    if name not in _HOMES:
        raise AttributeError(f"module 'synth' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """The public names, also those not yet imported."""
    return list(__all__)
