"""Tables in and out, and checked against a schema."""

from synth.table.conforming import Violation, conform, present, violations
from synth.table.table import Table
from synth.table.writing import check_names, read_table, write_table

__all__ = [
    "Table", "Violation", "check_names", "conform", "present", "read_table", "violations", "write_table",
]  # fmt: skip
