"""Train and holdout of a table of which nothing is known yet."""

from typing import Any

from synth.declare import declare_schema, measurable
from synth.errors import JobError
from synth.infer import infer_schema
from synth.schema import Schema
from synth.split import Split, split_table
from synth.table import Table
from understudy.quickstart import FEW_ROWS, FEW_SHARE, SHARE


def split(
    real: Any,
    schema: Schema | None = None,
    *,
    target: str | None = None,
    entity: str | None = None,
    holdout_share: float | None = None,
    **settings: Any,
) -> Split:
    """Train and holdout: `train, holdout = us.split(df)`. All rows of an entity are on one side.

    Args:
        real: *Sensitive*. A frame of any library, the path of a file or a folder, or the address of a table.
        schema: names the entity and the target; `None`: it is inferred, and a column that names patients or the like,
            several rows each, is taken for the entity.
        target: without a schema: the column that a model would predict; both sides get their share of its values.
        entity: without a schema: the column that names the unit.
        holdout_share: share of the units that is held out; `None`: a fifth, and a third of up to 20,000 rows, as
            fewer leave attacks undecided. Where the split is private, a fifth: the number of rows is not public.
        settings: of `synth.split_table`, such as `seed=0`, or `private=True` before a private fit.

    Raises:
        BadInput: the table does not fit the schema, or is too small; nothing was split.
    """
    if schema is None:
        schema = infer_schema(real, target=target, entity=entity, constraints=False)
        if settings.get("private"):  # a row is named by what it holds, never by bounds or a list that others are in
            schema = declare_schema(schema, measure=measurable(schema))
    elif not isinstance(schema, Schema):
        raise JobError(f"schema is a {type(schema).__name__}, and split(real, schema) takes the table first")
    elif target is not None or entity is not None:
        raise JobError("a schema names target and entity; leave them out, or the schema")
    if holdout_share is None:
        is_private, parts = settings.get("private"), Table.of(real).parts
        is_small = not is_private and sum(n for part in parts for _, n in part()) <= FEW_ROWS
        holdout_share = FEW_SHARE if is_small else SHARE
    return split_table(real, schema, holdout_share=holdout_share, **settings)
