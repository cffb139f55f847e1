"""A sweep: every generator at every epsilon of its list, once for each seed, and what all of it together promises.

Whoever fits one table fifteen times and picks the best has looked fifteen times. So a sweep's private fits are paid for
as a whole, and what leaves it is private at their composed epsilon; or nobody pays, and nothing leaves it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field, field_validator

from synth.validation import Frozen
from understudy.generator_spec import GeneratorSpec, shown
from understudy.seeds import MAX_SEED

if TYPE_CHECKING:
    from synth.dp.schedule import Schedule

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
    """How often each generator is fitted at each epsilon, and whether its tables may ever be released."""

    seeds: Annotated[Seeds, BeforeValidator(_counted, json_schema_input_type=Count | Seeds)] = Field(
        default=(0,), description="How many, or a list; 3 is [0, 1, 2]."
    )
    releasable: bool | None = Field(
        default=None, description="false: nothing is reserved or kept; none: true where there is a ledger."
    )

    @field_validator("seeds")
    @classmethod
    def _once(cls, seeds: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(seeds)) < len(seeds):
            raise ValueError("a seed stands in the list twice; name each once")
        return seeds


@dataclass(frozen=True)
class Point:
    """One candidate of a job: outside a sweep a generator, in a sweep a generator at one epsilon and one seed.

    Attributes:
        label: names its files.
        family: label of the generator in the job.
        epsilon: as the job asks for it; none: no formal guarantee.
        seed: of a sweep; none outside one.
        spec: the generator with this epsilon.
    """

    label: str
    family: str
    epsilon: float | None
    seed: int | None
    spec: GeneratorSpec

    @property
    def setting(self) -> tuple[str, float | None]:
        """What the points of all seeds have in common."""
        return self.family, self.epsilon

    @property
    def setting_label(self) -> str:
        """The label without the seed."""
        return self.label if self.seed is None else setting_label(*self.setting)

    def content(self) -> dict[str, Any]:
        """The point as plain data."""
        return {"label": self.label, "generator": self.family, "epsilon": self.epsilon, "seed": self.seed}


def points(generators: Mapping[str, GeneratorSpec], seeds: Iterable[int] | None) -> dict[str, Point]:
    """Every candidate by its label, in the order of generators, epsilons and seeds.

    Args:
        generators: by label, as the job has them.
        seeds: of a sweep; none outside one.
    """
    if seeds is None:
        return {
            label: Point(label, label, spec.parameters.get("epsilon"), None, spec) for label, spec in generators.items()
        }
    found = (
        Point(point_label(family, epsilon, seed), family, epsilon, seed, spec.at(epsilon))
        for family, spec in generators.items()
        for epsilon in spec.epsilons
        for seed in seeds
    )
    return {point.label: point for point in found}


def point_label(family: str, epsilon: float | None, seed: int) -> str:
    """What a point's files are called.

    >>> point_label("mst", 0.3, 1), point_label("tvae", None, 0)
    ('mst-eps0.3-seed1', 'tvae-none-seed0')
    """
    return f"{setting_label(family, epsilon)}-seed{seed}"


def setting_label(family: str, epsilon: float | None) -> str:
    """What the points of all seeds have in common, in words.

    >>> setting_label("mst", 10.0)
    'mst-eps10'
    """
    return f"{family}-{shown(epsilon)}"


@dataclass(frozen=True)
class Composed:
    """What the private fits of a sweep come to together.

    Attributes:
        epsilon: by PLD, at `delta`.
        delta: the largest of any of them, or twice what mechanisms have themselves where that is more.
        n_fits: how many there are.
    """

    epsilon: float
    delta: float
    n_fits: int


def composed(schedules: Mapping[str, "Schedule"]) -> Composed | None:
    """What several fits of one table come to; none where none promises anything.

    Args:
        schedules: of all private fits, by label.

    Raises:
        BudgetError: the accountants disagree, or delta is too small for so many releases.
    """
    from synth.dp.schedule import Schedule

    if not schedules:
        return None
    events = tuple(event for schedule in schedules.values() for event in schedule.events)
    # The deltas that mechanisms have themselves add up over fits, and half of the delta is left to all else.
    delta = max(2 * sum(event.delta for event in events), *(schedule.delta for schedule in schedules.values()))
    return Composed(Schedule(events, delta).epsilon, delta, len(schedules))
