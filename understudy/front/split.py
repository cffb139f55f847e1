"""Train and holdout of a table of which nothing is known yet."""

from typing import Any

from synth.errors import JobError
from synth.infer import infer_schema
from synth.schema import Schema
from synth.split import Split, split_table


def split(
    real: Any,
    schema: Schema | None = None,
    *,
    target: str | None = None,
    entity: str | None = None,
    **settings: Any,
) -> Split:
    """Train and holdout: `train, holdout = us.split(df)`. All rows of an entity are on one side.

    Args:
        real: *Sensitive*. A frame of any library, the path of a file or a folder, or the address of a table.
        schema: names the entity and the target; `None`: it is inferred, and a column that names patients or the like,
            several rows each, is taken for the entity.
        target: without a schema: the column that a model would predict; both sides get their share of its values.
        entity: without a schema: the column that names the unit.
        settings: of `synth.split_table`, such as `holdout_share=0.2`, `seed=0`, or `private=True` before a private fit.

    Raises:
        BadInput: the table does not fit the schema, or is too small; nothing was split.
    """
    if schema is None:
        schema = infer_schema(real, target=target, entity=entity, constraints=False)
    elif not isinstance(schema, Schema):
        raise JobError(f"schema is a {type(schema).__name__}, and split(real, schema) takes the table first")
    elif target is not None or entity is not None:
        raise JobError("a schema names target and entity; leave them out, or the schema")
    return split_table(real, schema, **settings)
