"""A job's generators, and the sweep over them: each at every epsilon of its list, once for each seed.

An entry names a generator, the number of its rows, and its parameters, of which epsilon may be a list. Whoever fits one
table fifteen times and picks the best has looked fifteen times. So a sweep's private fits are paid for as a whole, and
its tables are private at their composed epsilon; or nobody pays, and nothing leaves it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from evaluate.provenance import ComposedClaim, SweepEntry
from synth.validation import Frozen
from understudy.job.seeds import MAX_SEED

if TYPE_CHECKING:
    from synth.dp.schedule import Schedule

NONE = "none"
"""The text for a fit without epsilon in a list of epsilons."""
TABLES = ("workload", "text")
"""Parameters of a generator that are tables of TOML."""


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
    if len({shown(epsilon) for epsilon in epsilons}) < len(epsilons):
        raise ValueError("epsilon holds the same value twice; name each once, and use sweep.seeds to repeat fits")
    return epsilons


def shown(epsilon: float | None) -> str:
    """An epsilon as labels write it.

    >>> shown(0.3), shown(None)
    ('eps0.3', 'none')
    """
    return NONE if epsilon is None else f"eps{epsilon:.12g}"


MOST_SEEDS = 100

Seed = Annotated[int, Field(ge=0, le=MAX_SEED, strict=True)]
Seeds = Annotated[tuple[Seed, ...], Field(min_length=1, max_length=MOST_SEEDS)]
Count = Annotated[int, Field(ge=1, le=MOST_SEEDS, strict=True)]


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


def points(generators: Mapping[str, GeneratorSpec], seeds: Iterable[int] | None) -> dict[str, PlannedCandidate]:
    """Every candidate by its label, in the order of generators, epsilons and seeds."""
    if seeds is None:
        return {
            label: PlannedCandidate(label, label, spec.parameters.get("epsilon"), None, spec)
            for label, spec in generators.items()
        }
    candidates = (
        PlannedCandidate(point_label(family, epsilon, seed), family, epsilon, seed, spec.at(epsilon))
        for family, spec in generators.items()
        for epsilon in spec.epsilons
        for seed in seeds
    )
    return {point.label: point for point in candidates}


def point_label(family: str, epsilon: float | None, seed: int) -> str:
    """The label of a point, which names its files.

    >>> point_label("mst", 0.3, 1), point_label("tvae", None, 0)
    ('mst-eps0.3-seed1', 'tvae-none-seed0')
    """
    return f"{setting_label(family, epsilon)}-seed{seed}"


def setting_label(family: str, epsilon: float | None) -> str:
    """The label of a setting, which the points of all seeds share.

    >>> setting_label("mst", 10.0)
    'mst-eps10'
    """
    return f"{family}-{shown(epsilon)}"


def composed(schedules: Mapping[str, "Schedule"]) -> ComposedClaim | None:
    """The composed claim of several fits of one table; `None` where no fit promises anything."""
    from synth.dp.schedule_file import schedule_of  # as whoever reads the claim prices it

    if not schedules:
        return None
    events = tuple(event for schedule in schedules.values() for event in schedule.events)
    # The deltas that mechanisms have themselves add up over fits, and half of the delta is left to all else.
    delta = max(2 * sum(event.delta for event in events), *(schedule.delta for schedule in schedules.values()))
    return ComposedClaim(schedule_of(events, delta).epsilon, delta, len(schedules))
