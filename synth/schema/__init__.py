"""What is public about a table: the schema, and the kinds of its columns."""

from synth.schema.kinds.base import TaskKind
from synth.schema.schema import FORMAT, Schema, build_schema, register

__all__ = ["FORMAT", "Schema", "TaskKind", "build_schema", "register"]
