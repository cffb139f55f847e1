"""The job file: what to read, what to fit, what to measure and who may have it, as a checked and frozen specification.

`docs/reference/job.md` explains every key. Here nothing is read but the job file itself.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import CoreSchema, core_schema

from evaluate.options import EvaluationOptions, MeasureOptions
from evaluate.provenance import ComposedClaim, SweepEntry
from synth import extras
from synth.errors import JobError, nearest
from synth.table.conforming import Outside
from synth.usage_terms import Terms
from synth.validation import Frozen, read_toml, sentence
from understudy.data import refuse_credentials
from understudy.job import MAX_SEED

if TYPE_CHECKING:
    from synth.dp.schedule import Schedule

Kind = TypeVar("Kind", bound=BaseModel)
NONE = "none"
"""The text for a fit without epsilon in a list of epsilons."""
TABLES = ("workload", "text")
"""Parameters of a generator that are tables of TOML."""
MOST_SEEDS = 100
Seed = Annotated[int, Field(ge=0, le=MAX_SEED, strict=True)]
Seeds = Annotated[tuple[Seed, ...], Field(min_length=1, max_length=MOST_SEEDS)]
Count = Annotated[int, Field(ge=1, le=MOST_SEEDS, strict=True)]
LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""The pattern of a generator's label, which also names files."""


@dataclass(frozen=True)
class Tracked:
    server: str
    url: str | None = None
    failure: str = ""


class Tracker(Frozen):
    """A server, as `[tracking]` of a job describes it."""

    def check(self) -> None:
        """Refuse to track without the library that tells the server."""
        raise NotImplementedError

    def track(self, job: Any, delivery: Any, folder: Path) -> Tracked:
        """Tell the server of the job's `Delivery` in a folder; what goes wrong is in the answer, never raised."""
        raise NotImplementedError


def tracker_of(content: Any) -> Tracker:
    if isinstance(content, Tracker):
        return content
    known = extras.entries("tracker")
    name = next((name for name in known if isinstance(content, dict) and name in content), None)
    if name is None:
        raise ValueError(f"it names no server; known are: {', '.join(known) or 'none'}")
    tracker: type[Tracker] = extras.load("tracker")[name]
    try:
        return tracker.model_validate(content)
    except ValidationError as error:
        raise ValueError(sentence(error, tracker)) from None


class BroughtByExtras:
    """The annotation of a field that holds a tracker."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(tracker_of)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        known = [handler(tracker.__pydantic_core_schema__) for tracker in extras.load("tracker").values()]
        return {"anyOf": known} if known else {"not": {}}


class GeneratorSpec(BaseModel):
    """One candidate. Every further key is a parameter of the generator."""

    model_config = ConfigDict(frozen=True, extra="allow")
    generator: str | None = Field(default=None, description="Name of the generator; left out: the label.")
    rows: int | None = Field(
        default=None,
        ge=1,
        description="Rows to sample; left out: n_units for a private fit (with entities a noisy count), else as train.",
    )

    @model_validator(mode="after")
    def _usable_list(self) -> Self:
        if self.sweeps:
            epsilon_list(self.parameters["epsilon"])
        return self

    @property
    def parameters(self) -> dict[str, Any]:
        return dict(self.model_extra or {})

    @property
    def sweeps(self) -> bool:
        """True where it is to be fitted at each of several epsilons."""
        return isinstance(self.parameters.get("epsilon"), list | tuple)

    @property
    def epsilons(self) -> tuple[float | None, ...]:
        """Every epsilon that it is to be fitted at; `None`: without a formal guarantee."""
        asked = self.parameters.get("epsilon")
        return (None,) if asked is None else epsilon_list(asked if self.sweeps else [asked])

    def at(self, epsilon: float | None) -> Self:
        others = {key: value for key, value in self.parameters.items() if key != "epsilon"}
        chosen = {} if epsilon is None else {"epsilon": epsilon}
        return type(self)(generator=self.generator, rows=self.rows, **others, **chosen)


def epsilon_list(value: Any) -> tuple[float | None, ...]:
    """The epsilons of a job's list; `None` for `"none"`.

    >>> epsilon_list([0.3, 1, "none"])
    (0.3, 1.0, None)
    """
    if not value:
        raise ValueError("epsilon=[] is a sweep over nothing; list numbers or 'none', or leave epsilon out")
    for entry in value:
        if entry != NONE and (isinstance(entry, bool) or not isinstance(entry, int | float)):
            raise ValueError(f"epsilon holds {entry!r}, and a sweep takes numbers and 'none'; write [0.3, 1, 'none']")
    epsilons = tuple(None if entry == NONE else float(entry) for entry in value)
    if len({setting_label("", epsilon) for epsilon in epsilons}) < len(epsilons):
        raise ValueError("epsilon holds the same value twice; name each once, and use sweep.seeds to repeat fits")
    return epsilons


def _counted(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int):
        return value
    if not 1 <= value <= MOST_SEEDS:
        raise ValueError(f"seeds={value} is no number of fits; use 1 to {MOST_SEEDS}, or list the seeds")
    return tuple(range(value))


class SweepSpec(Frozen):
    """The seeds of a sweep, and whether its tables may ever be released."""

    seeds: Annotated[Seeds, BeforeValidator(_counted, json_schema_input_type=Count | Seeds)] = Field(
        default=(0,), description="How many, or a list; 3 is [0, 1, 2]."
    )
    releasable: bool | None = Field(
        default=None, description="false: nothing is reserved or kept; left out: true where there is a ledger."
    )

    @field_validator("seeds")
    @classmethod
    def _once(cls, seeds: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(seeds)) < len(seeds):
            raise ValueError("a seed stands in the list twice; name each once")
        return seeds


@dataclass(frozen=True)
class PlannedCandidate:
    """One candidate of a job: outside a sweep a generator, in a sweep a generator at one epsilon and one seed."""

    label: str
    family: str
    epsilon: float | None
    seed: int | None
    spec: GeneratorSpec

    @property
    def setting(self) -> tuple[str, float | None]:
        """The setting, which the points of all seeds share."""
        return self.family, self.epsilon

    @property
    def setting_label(self) -> str:
        return self.label if self.seed is None else setting_label(*self.setting)

    @property
    def entry(self) -> SweepEntry:
        return SweepEntry(self.label, self.family, self.epsilon, self.seed or 0)


def setting_label(family: str, epsilon: float | None) -> str:
    """The label of a setting, which the points of all seeds share, and the beginning of theirs.

    >>> setting_label("mst", 10.0), setting_label("tvae", None)
    ('mst-eps10', 'tvae-none')
    """
    return f"{family}-{NONE}" if epsilon is None else f"{family}-eps{epsilon:.12g}"


def points(generators: Mapping[str, GeneratorSpec], seeds: Iterable[int] | None) -> dict[str, PlannedCandidate]:
    """Every candidate by its label, in the order of generators, epsilons and seeds."""
    if seeds is None:
        return {
            label: PlannedCandidate(label, label, spec.parameters.get("epsilon"), None, spec)
            for label, spec in generators.items()
        }
    candidates = (
        PlannedCandidate(f"{setting_label(family, epsilon)}-seed{seed}", family, epsilon, seed, spec.at(epsilon))
        for family, spec in generators.items()
        for epsilon in spec.epsilons
        for seed in seeds
    )
    return {point.label: point for point in candidates}


def composed(schedules: Mapping[str, "Schedule"]) -> ComposedClaim | None:
    """The composed claim of several fits of one table; `None` where no fit promises anything."""
    from synth.dp.schedule_file import schedule_of  # as whoever reads the claim prices it

    if not schedules:
        return None
    events = tuple(event for schedule in schedules.values() for event in schedule.events)
    # The deltas that mechanisms have themselves add up over fits, and half of the delta is left to all else.
    delta = max(2 * sum(event.delta for event in events), *(schedule.delta for schedule in schedules.values()))
    return ComposedClaim(schedule_of(events, delta).epsilon, delta, len(schedules))


class TableSpec(Frozen):
    """The places of the real table and of its schema. Relative paths start from the job file."""

    path: str | None = Field(
        default=None,
        description="A file (.csv, .tsv, .jsonl, each also .gz, .parquet, .feather, .xlsx), a folder or a pattern of "
        "such files, or postgresql://host/database#table and its like; no password.",
    )
    source: str | None = Field(default=None, description='A table that a package brings, such as "statsmodels:fair".')
    schema_path: str = Field(alias="schema", description="The schema file.")
    outside: Literal["refuse", "clamp"] | None = Field(
        default=None,
        description="Treatment of values outside the schema: refuse, or clamp to the nearest bound; left out: clamp "
        "where any generator has an epsilon, refuse elsewhere.",
    )

    @field_validator("path")
    @classmethod
    def _no_credentials(cls, path: str | None) -> str | None:
        if path is not None:
            refuse_credentials(path)
        return path

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if (self.path is None) == (self.source is None):
            raise ValueError("a table comes either from a path or from a source; name one of them")
        return self


class SplitSpec(Frozen):
    """The share of units that is held out from every generator."""

    holdout_share: float = Field(default=0.2, gt=0, lt=1, description="Share of units that no generator sees.")
    seed: Seed | None = Field(default=None, description="Names the split; left out: the job's seed.")


class EvaluationSpec(MeasureOptions):
    """The measures, with their limits of time and rows."""

    audit: bool = Field(default=True, description="Whether the claim of each private fit is audited, on a stand-in.")
    shadow_models: Annotated[int, Field(strict=True, ge=4, le=1000)] | None = Field(
        default=None, description="Models that the shadow-model attack fits; left out: no attack."
    )

    def options(self, seed: int, outside: Outside) -> EvaluationOptions:
        shared = {name: getattr(self, name) for name in MeasureOptions.model_fields}
        return EvaluationOptions(**shared, seed=seed, outside=outside)


class LedgerSpec(Frozen):
    """The ledger that keeps the budget of the dataset."""

    url: str = Field(
        min_length=1, description="A path, sqlite:///path or postgresql://user@host/database; no password."
    )


class ReleasedNumbersSpec(Frozen):
    """The budget of the released numbers."""

    epsilon: Annotated[float, Field(strict=True, ge=1e-3, le=100.0)] = Field(
        description="Of all numbers together, charged to the ledger beside the fits."
    )
    delta: float | Literal["auto"] = Field(default="auto", description="auto: as for a fit.")


class JobTerms(Frozen):
    """All that a job says beside its table. Constructing one checks it."""

    name: str | None = Field(default=None, min_length=1, description="Title of the report.")
    seed: Seed = Field(default=0, description="Of every draw but the noise of private fits.")
    workers: int = Field(default=1, ge=1, strict=True, description="Processes that make candidates side by side.")
    release: str | None = Field(default=None, description="Label of the candidate whose table is to be released.")
    policy: str = Field(default="internal", description="Name of a shipped policy, or the path of one.")
    waivers: str | None = Field(
        default=None,
        min_length=1,
        description="A file of waivers, relative to the job file; left out: no rule is waived.",
    )
    split: SplitSpec = SplitSpec()
    generators: dict[str, GeneratorSpec] = Field(min_length=1)
    sweep: SweepSpec | None = Field(default=None, description="Left out: a sweep only where an epsilon is a list.")
    evaluation: EvaluationSpec = EvaluationSpec()
    ledger: LedgerSpec | None = Field(default=None, description="Left out: private fits are outside any ledger.")
    card: Terms = Terms()
    released_numbers: ReleasedNumbersSpec | None = Field(
        default=None, description="Left out: the report to hand on holds no number that was read off real rows."
    )
    tracking: Annotated[Tracker, BroughtByExtras] | None = Field(
        default=None, description="Left out: no server is told of the run."
    )

    @field_validator("generators")
    @classmethod
    def _labels(cls, generators: dict[str, GeneratorSpec]) -> dict[str, GeneratorSpec]:
        for label, spec in generators.items():
            if LABEL.fullmatch(label) is None:
                raise ValueError(f"label={label!r} names files: use letters, digits, '.', '_' and '-' only")
            for key, value in spec.parameters.items():
                if isinstance(value, dict) and key not in TABLES:
                    raise ValueError(f'a label with a dot is quoted; write [generators."{label}.{key}"]')
        if len({label.casefold() for label in generators}) < len(generators):
            raise ValueError("two labels differ in case only, which some file systems cannot tell apart; rename one")
        return generators

    @model_validator(mode="after")
    def _release_is_there(self) -> Self:
        labels = self.points  # Built even where none is named, so that an unusable epsilon is refused here.
        if self.released_numbers is not None and self.release is None:
            raise ValueError(
                "released_numbers is about the table that is released, and release names none; name it, or leave "
                "released_numbers out"
            )
        if self.release is None or self.release in labels:
            return self
        if self.release in self.generators:
            point = next(label for label, point in labels.items() if point.family == self.release)
            raise ValueError(
                f"release={self.release!r} is a generator of a sweep; name one of its points, as {point!r}"
            )
        raise ValueError(f"release={self.release!r} is not a generator's label; {nearest(self.release, labels)}")

    @property
    def is_sweep(self) -> bool:
        return self.sweep is not None or any(spec.sweeps for spec in self.generators.values())

    @cached_property
    def points(self) -> dict[str, PlannedCandidate]:
        """Every candidate by its label: a generator, or one point of a sweep."""
        return points(self.generators, (self.sweep or SweepSpec()).seeds if self.is_sweep else None)

    @property
    def is_private(self) -> bool:
        return any(point.epsilon is not None for point in self.points.values())

    @property
    def split_seed(self) -> int:
        return self.seed if self.split.seed is None else self.split.seed


class Job(JobTerms):
    """One run: a table, its schema, generators, measures, a policy. Constructing one checks it."""

    table: TableSpec

    @property
    def outside(self) -> Literal["refuse", "clamp"]:
        """Treatment of values outside the schema. A private fit clamps: whether it stops must not depend on rows."""
        return self.table.outside or ("clamp" if self.is_private else "refuse")


def read_job(path: Path) -> Job:
    return build_job(read_toml(path, "job", JobError))


def build_job(content: dict[str, Any]) -> Job:
    for key in extras.entries("job"):
        if key in content:
            raise JobError(f"a job with [{key}] is carried out by `understudy run` alone; name a job of one table")
    table = content.get("table")
    if isinstance(table, dict) and "schema" not in table and isinstance(table.get("path"), str):
        raise JobError(
            f"the job cannot be used: 'table.schema' is missing; write one with `understudy schema infer "
            f"{table['path']} --out schema.toml` and name it, or start with `understudy try {table['path']}`"
        )
    return checked_job(Job, content)


def checked_job(kind: type[Kind], content: Any, what: str = "job") -> Kind:
    """A job of the kind, or the first thing that is wrong with it."""
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        raise JobError(f"the {what} cannot be used: {sentence(error, kind)}") from None


def job_json() -> dict[str, Any]:
    """The JSON Schema of a job file: it names a table, or what a kind of job that an extra brings has in its place."""
    content = Job.model_json_schema(by_alias=True)
    kinds = {key: kind.spec for key, kind in extras.load("job").items() if kind.spec is not None}
    for key, spec in kinds.items():
        brought = spec.model_json_schema(by_alias=True)
        content["$defs"] |= brought["$defs"]
        content["properties"][key] = brought["properties"][key]
    content["required"] = [name for name in content["required"] if name != "table"]
    return {**content, "oneOf": [{"required": [key]} for key in ("table", *kinds)]}
