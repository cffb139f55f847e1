"""What an evaluation measures, and on how many rows: declared once for notebooks, jobs and commands."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, ValidationError

from evaluate.estimate import EvaluationError
from synth.schema import Schema, TaskKind, build_schema
from synth.table.conforming import Outside
from synth.validation import Frozen, sentence

N_TARGETS, N_ROWS, SAMPLE_ROWS = 8_000, 50_000, 100_000  # Rows that are looked at unless more are asked for
LEAST_ROWS = 100  # Fewer would leave an attack without any power, and a comparison without any precision


def _rows(value: Any) -> Any:
    if value != "all" and (type(value) is not int or value < LEAST_ROWS):
        raise ValueError(f"{value!r} is neither a number of at least {LEAST_ROWS} nor all; write one of these")
    return value


_Limit = Annotated[int, Field(ge=LEAST_ROWS)] | Literal["all"]
Limit = Annotated[_Limit, BeforeValidator(_rows, json_schema_input_type=_Limit)]
"""A number of rows, or every one."""


def _listed(value: Any) -> Any:
    if isinstance(value, str):
        return [value]
    return tuple(value) if isinstance(value, Iterable) and not isinstance(value, Mapping) else value


class MeasureOptions(Frozen):
    """The measures, with their limits of time and rows."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    measures: (
        Annotated[tuple[str, ...], BeforeValidator(_listed, json_schema_input_type=str | tuple[str, ...])] | None
    ) = None
    """Names of measures; left out: all."""
    time_limit_s: float | None = Field(default=None, gt=0)
    """Seconds for each measure; left out: no limit."""
    target: str | None = None
    """Column that models predict; left out: the schema's target."""
    task: TaskKind | None = None
    """How they predict it; left out: the schema's, or by target."""
    targets: Limit = N_TARGETS
    """Rows of either side that attacks are tried on at most; all: every one."""
    fidelity_rows: Limit = N_ROWS
    """Rows of each table that columns, pairs and triples compare at most; all: all."""
    sample_rows: int = Field(default=SAMPLE_ROWS, strict=True, ge=LEAST_ROWS)
    """Rows of either real side that attacks and models have at most, and of synthetic ones five times as many."""
    show_rows: bool = Field(default=True, strict=True)
    """Whether the internal report, and `evaluation.json`, show fifteen real rows and a map of 500."""

    @property
    def n_targets(self) -> int | None:
        """Rows of either side that attacks are tried on at most; `None`: every one."""
        return None if self.targets == "all" else self.targets

    @property
    def n_rows(self) -> int | None:
        """Rows of each table that marginal fidelity compares at most; `None`: all."""
        return None if self.fidelity_rows == "all" else self.fidelity_rows

    def aim(self, schema: Schema) -> Schema:
        """The schema with the column to predict and the task that are asked for."""
        chosen = {name: value for name in ("target", "task") if (value := getattr(self, name)) is not None}
        if not chosen:
            return schema
        if self.target not in (None, schema.target):
            chosen.setdefault("task", None)
        return build_schema({**schema.model_dump(), **chosen})


class EvaluationOptions(MeasureOptions):
    """What an evaluation measures, and on how many rows of seeded samples; copies and validity count all rows."""

    seed: int = Field(default=0, ge=0)
    """Of every draw."""
    outside: Outside = "refuse"
    """What is done where a value of a real table does not fit a declared schema: the table is refused, or the value is
    clamped. Synthetic values are always clamped, and `validity` counts what did not fit."""

    @classmethod
    def of(cls, options: "EvaluationOptions | None", changes: Mapping[str, Any]) -> Self:
        """Options, some of them changed; by default all are as declared above."""
        if not changes and isinstance(options, cls):
            return options
        try:
            return cls(**{**({} if options is None else options.model_dump(exclude_unset=True)), **changes})
        except ValidationError as error:
            raise EvaluationError(sentence(error, cls)) from None
