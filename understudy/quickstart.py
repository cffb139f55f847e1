"""The quick start: a schema and a job of a table alone, with every choice written down where it can be changed."""

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from synth.declare import declare_schema, measurable
from synth.infer import infer_schema
from synth.schema import Schema
from synth.schema_file import to_toml
from understudy.data import RealTable, find_table, first_rows

FEW_ROWS, FEW_SHARE, SHARE = 20_000, 0.34, 0.2
"""Rows up to which a larger share is held out: with fewer rows held out, rules on copies and attacks stay open."""
SCHEMA, JOB = "schema.toml", "job.toml"
LABEL = "auto"

_WITHOUT = "# Without an epsilon: sequential trees. They are close to the table, and promise nothing about its rows."
_WITH = "# With an epsilon: the private generator that suits the schema, chosen by public facts alone."


@dataclass(frozen=True)
class QuickStart:
    """A table to try, and the choices that were made for it."""

    table: RealTable
    schema: Schema
    is_small: bool = False
    seed: int = 0
    epsilon: float | None = None
    show_rows: bool = True

    @classmethod
    def of(cls, table: str, *, propose_order: bool = True, seed: int = 0, **named: Any) -> "QuickStart":
        """`named`: what of `infer_schema` is said by hand."""
        source = find_table(table)
        rows, is_whole = first_rows(source)
        schema = infer_schema(rows, propose_order=propose_order and is_whole, **named)
        return cls(source, schema, len(rows) <= FEW_ROWS, seed)

    @property
    def name(self) -> str:
        """The table's name, in characters that are safe in a file's name."""
        last = re.split(r"[/#]", self.table.shown.rstrip("/"))[-1]
        return re.sub(r"[^A-Za-z0-9_-]+", "-", last.split(".")[0]).strip("-") or "table"

    @property
    def folder(self) -> Path:
        return Path(f"tried-{self.name}")

    @property
    def to_measure(self) -> tuple[str, ...]:
        """Columns with limits that a private fit can measure under its budget."""
        return measurable(self.schema)

    @property
    def numbers(self) -> tuple[str, ...]:
        """Columns of numbers, whose frequent values a private fit can measure under its budget."""
        return tuple(name for name, column in self.schema.columns.items() if column.is_number and not column.drop)

    def declared(
        self, *, n_units: int, public: frozenset[str], epsilon: float, frequent: frozenset[str] = frozenset()
    ) -> "QuickStart":
        """The same with a declared schema and an epsilon: nothing of it is chosen by the table's rows.

        Proposed constraints are left out. The share that is held out goes by the declared number of units.
        """
        measure = [name for name in self.to_measure if name not in public]
        kept = tuple(constraint for constraint in self.schema.constraints if constraint.proposed is None)
        proposed = self.schema.model_copy(update={"constraints": kept})
        schema = declare_schema(proposed, n_units=n_units, dataset=self.name, measure=measure, measure_spikes=frequent)
        return replace(self, schema=schema, epsilon=epsilon, is_small=n_units <= FEW_ROWS)

    @property
    def job(self) -> str:
        budget = [] if self.epsilon is None else [f"epsilon = {self.epsilon!r}"]
        hidden = "show_rows = false  # no real row in the report, nor in evaluation.json"
        return "\n".join([
            "# Written by `understudy try`. `understudy run job.toml --out DIR` does the same again.",
            "# docs/reference/job.md has every key.",
            f"name = {json.dumps(self.name)}",
            f"seed = {self.seed}",
            f'release = "{LABEL}"  # the table that the verdict and the exit code are about',
            'policy = "internal"  # for people inside, in a protected place; "partner" and "public" ask for more',
            "",
            "[table]",
            f"path = {json.dumps(self.table.absolute, ensure_ascii=False)}",
            f'schema = "{SCHEMA}"',
            'outside = "clamp"  # a value beyond the limits of the schema counts as the nearest one within',
            "",
            "[split]",
            f"holdout_share = {FEW_SHARE if self.is_small else SHARE}  # rows that no generator sees, to compare with",
            "",
            _WITHOUT if self.epsilon is None else _WITH,
            f"[generators.{LABEL}]",
            *budget,
            "",
            *([] if self.show_rows else ["[evaluation]", hidden, ""]),
        ])  # fmt: skip

    def write(self, folder: Path) -> Path:
        read_off = self.schema.status == "inferred"
        (folder / SCHEMA).write_text(to_toml(self.schema, read_off=read_off), encoding="utf-8")
        (folder / JOB).write_text(self.job, encoding="utf-8")
        return folder / JOB
