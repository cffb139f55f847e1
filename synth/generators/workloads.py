"""A user's workload: how much each column matters to the mechanisms that choose or weigh marginals."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from synth.errors import JobError, nearest
from synth.schema import Schema

Weight = Annotated[float, Field(strict=True, gt=0, le=1000)]
"""How much marginals with a column matter; 1 is that of a column which nobody names."""


def check_workload(workload: Mapping[str, float], schema: Schema) -> None:
    """Refuse weights of columns that no model holds.

    Raises:
        JobError: the workload names what is no modeled column of the schema.
    """
    for name in workload:
        if name not in schema.modeled:
            raise JobError(
                "a workload weighs single columns that the generator models: "
                f"column={name!r} is {_not_modeled(name, schema)}"
            )


def column_weights(workload: Mapping[str, float], focus: float, schema: Schema) -> dict[str, float]:
    """The weight of each modeled column: that of the workload, times 1 + `focus` by its role; public."""
    roles = {schema.target, *schema.sensitive}
    return {name: workload.get(name, 1.0) * (1.0 + (focus if name in roles else 0.0)) for name in schema.modeled}


def _not_modeled(name: str, schema: Schema) -> str:
    """The reason why a name is no modeled column, and the remedy."""
    if name in schema.equivalents:
        return f"computed from {schema.equivalents[name].determinant!r}; weigh that one"
    if name in schema.columns:
        return "dropped, computed or made anew; take it out of the workload"
    return f"not in the schema; {nearest(name, schema.modeled)}"
