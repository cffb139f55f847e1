"""Schedules as files, so that whoever doubts a claim can write down what was read and price it, without any data.

A plan is TOML: `delta` and one `[[events]]` table for every line of the books. It says either the noise of every event,
or a target `epsilon` and the `share` of rho that each event gets. A `[claim]` says what somebody says it costs.

They are also read out of files that a run leaves behind, `evaluation.json` and the folder of a saved model. These hold
the claim, and the events, which anyone can price again. Lines of either sort of file are held to the same rules.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StrictBool, ValidationError

from synth.dp.accounting import MOST_POINTS, epsilon_pure, n_points
from synth.dp.events import (
    Event,
    LaplaceEvent,
    RandomizedResponseEvent,
    SelectionEvent,
    StabilityEvent,
    event_of,
    gaussian_of_rho,
)
from synth.dp.schedule import LEAST_DELTA, EventsOfRho, Schedule, calibrate
from synth.errors import BudgetError, nearest
from synth.validation import Frozen, NotPlain, plain_json, read_given, read_toml, sentence

MOST_NOISE, MOST_RELEASES = 3e5, 1_000_000
"""Limits within which accountants take seconds; nobody adds more noise, or releases more often."""
SHARES_TOLERANCE = 1e-6
ModelT = TypeVar("ModelT", bound=BaseModel)
Words = Annotated[str, Field(min_length=1, max_length=1000)]
Delta = Annotated[float, Field(strict=True, ge=LEAST_DELTA, le=0.5)]
Epsilon = Annotated[float, Field(strict=True, gt=0, le=1e6)]
_Size = Annotated[float | None, Field(strict=True, gt=0, le=MOST_NOISE)]
_Share = Annotated[float | None, Field(strict=True, gt=0, le=1)]


class PlanEntry(Frozen):
    """One line, in either form: which keys belong to it is its mechanism's and its form's matter."""

    what: Words
    mechanism: Words
    count: Annotated[int, Field(strict=True, ge=1, le=MOST_RELEASES)] = 1
    sigma: _Size = None
    scale: _Size = None
    epsilon: _Size = None
    threshold: Annotated[int | None, Field(strict=True, ge=1, le=100 * MOST_NOISE)] = None
    sensitivity: Annotated[int, Field(strict=True, gt=0, le=MOST_NOISE)] | _Size = None
    whole: StrictBool | None = None
    noise_multiplier: _Size = None
    sampling_rate: _Share = None
    share: _Share = None
    delta: _Share = None

    def noise(self) -> dict[str, Any]:
        return dict(self.model_dump(exclude_none=True, exclude={"what", "mechanism", "count", "share", "delta"}))

    def event(self) -> Event:
        if self.share is not None or self.delta is not None:
            key = "delta" if self.share is None else "share"
            raise BudgetError(
                f"event={self.what!r}: {key!r} belongs to a plan with a target epsilon, and this one has none; add "
                "epsilon and a share for every event, or give every event its noise"
            )
        return event_of(self.what, self.mechanism, self.noise(), self.count)

    def of_share(self) -> Callable[[float], Event]:
        """The event of a line without noise, as a function of the rho that it gets."""
        what, count, k, own = self.what, self.count, self.sensitivity or 1, self.delta or 0.0

        def stability(rho: float) -> Event:
            single = StabilityEvent.of_rho(what, rho / count, own / count, int(k))
            return StabilityEvent(what, single.sigma, single.threshold, int(k), count)

        makers: dict[str, Callable[[float], Event]] = {
            "Gaussian": lambda rho: gaussian_of_rho(what, rho, count=count, sensitivity=int(k)),
            "Laplace": lambda rho: LaplaceEvent(what, k * math.sqrt(count / (2 * rho)), k, count),
            "exponential": lambda rho: SelectionEvent.of_rho(what, rho, count),
            "randomized response": lambda rho: RandomizedResponseEvent(what, math.sqrt(2 * rho / count), count),
            "stability histogram": stability,
        }
        noise = ", ".join(sorted(self.noise().keys() - {"sensitivity"}))
        names_delta = self.mechanism == StabilityEvent.mechanism
        rules = (
            (
                self.mechanism not in makers,
                f"mechanism={self.mechanism!r} takes no share; {nearest(self.mechanism, makers)}",
            ),
            (noise, f"{noise} does not go with a target epsilon, under which shares set the noise; leave it out"),
            (self.share is None, "'share' is missing, and a plan with a target epsilon needs one; add it"),
            (names_delta and self.delta is None, "a stability histogram names its own delta; add it"),
            (self.delta is not None and not names_delta, "only a stability histogram has an own delta; leave it out"),
            (not isinstance(k, int), f"sensitivity={k!r} must be a whole number, at least 1; correct it"),
        )
        for is_broken, rule in rules:
            if is_broken:
                raise BudgetError(f"event={what!r}: {rule}")
        return makers[self.mechanism]


@dataclass(frozen=True)
class StatedCost:
    """The cost of the events as a file states it."""

    epsilon: float
    rhos: tuple[float | None, ...] = ()
    deltas: tuple[float, ...] = ()
    in_ledger: tuple[float, float, float] | None = None
    private: bool = True


@dataclass(frozen=True)
class ScheduleFile:
    """A schedule read from a file, its owner, and the claim about it, if there is one."""

    name: str
    schedule: Schedule
    claim: StatedCost | None = None


class _Stated(BaseModel):
    """The parts of a statement that are read; it says more."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class _Record(_Stated):
    what: Words
    mechanism: Words
    noise: dict[str, Any]
    count: Any
    rho: float | None
    delta: float = 0.0


class _Note(_Stated):
    epsilon: float
    total_epsilon: Epsilon
    total_delta: Annotated[float, Field(strict=True, gt=0, le=0.5)]


class _Statement(_Stated):
    epsilon: Epsilon
    delta: Annotated[float, Field(strict=True, ge=0, le=0.5)]
    events: Annotated[tuple[_Record, ...], Field(min_length=1)]
    ledger: _Note | None = None
    private: bool = False

    def schedule(self) -> Schedule:
        events = tuple(
            _read(PlanEntry, {**r.noise, "what": r.what, "mechanism": r.mechanism, "count": r.count}, r.what).event()
            for r in self.events
        )
        if self.delta == 0 and epsilon_pure(events) is None:
            raise BudgetError("delta=0 takes events of pure losses, and one of these has none; state the delta")
        if 0 < self.delta < LEAST_DELTA:
            raise BudgetError(
                f"delta={self.delta:g} is smaller than {LEAST_DELTA:g}, which no accountant resolves; raise it"
            )
        return schedule_of(events, self.delta)


class _Claim(Frozen):
    epsilon: Epsilon


class _Plan(Frozen):
    delta: Delta
    epsilon: Epsilon | None = None
    events: Annotated[tuple[PlanEntry, ...], Field(min_length=1)]
    claim: _Claim | None = None

    def schedule(self) -> Schedule:
        if self.epsilon is None:
            return schedule_of(tuple(line.event() for line in self.events), self.delta)
        return calibrate(_shared(self.events, self.delta), self.epsilon, self.delta)


def _read(model: type[ModelT], content: Any, what: str) -> ModelT:
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise BudgetError(f"{what!r} cannot be priced: {sentence(error, model)}") from None


def schedule_of(events: tuple[Event, ...], delta: float) -> Schedule:
    """The schedule of events that accountants can hold on one grid: a typical one sets its width, all its extent."""
    if n_points(events) > MOST_POINTS:
        raise BudgetError(
            "the noise of the events is too small, or too different from one to the other, for an accountant to "
            "resolve; raise the smallest noise"
        )
    return Schedule(events, delta)


def _shared(lines: Sequence[PlanEntry], delta: float) -> EventsOfRho:
    """The plan in which every line gets its share of rho."""
    makers = [line.of_share() for line in lines]
    shares = [line.share or 0.0 for line in lines]
    whole, own = sum(shares), sum(line.delta or 0.0 for line in lines)
    if abs(whole - 1) > SHARES_TOLERANCE:
        raise BudgetError(f"shares add up to {whole:.6g} and must add up to 1; correct one of them")
    if own > delta / 2:
        raise BudgetError(
            f"the events' own deltas add up to {own:.3g} and must leave half of delta={delta:g} to the rest; lower them"
        )
    return lambda rho: [make(rho * share / whole) for make, share in zip(makers, shares, strict=True)]


def stated_schedule(name: str, statement: Mapping[str, Any]) -> Schedule:
    """The schedule that a statement's books come to, whatever it claims of them."""
    return _read(_Statement, statement, name).schedule()


def read_schedule(path: Path | str, candidate: str | None = None) -> Schedule:
    return read_books(path, candidate).schedule


def read_books(path: Path | str, candidate: str | None = None) -> ScheduleFile:
    """The events and the claim in a plan, an evaluation or a saved model."""
    path = Path(path)
    source = path / "model.json" if (path / "model.json").is_file() else path
    if source.suffix.lower() == ".json":
        return _stated(_read_json(source), candidate)
    if candidate is not None:
        raise BudgetError(f"candidate={candidate!r} belongs to an evaluation, and this is a plan; leave it out")
    plan = _read(_Plan, read_toml(source, "plan", BudgetError), str(path))
    claim = None if plan.claim is None else StatedCost(plan.claim.epsilon)
    return ScheduleFile(path.stem, plan.schedule(), claim)


def _read_json(path: Path) -> dict[str, Any]:
    file = read_given(path, "books", BudgetError)
    try:
        content = plain_json(file.content)
    except NotPlain as fault:
        raise BudgetError(f"path={str(path)!r} is damaged: {fault}; pass a file that a run wrote") from None
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise BudgetError(f"path={str(path)!r} is not JSON that a run wrote; pass an evaluation, a model or a plan")
    return content


def _stated(content: Mapping[str, Any], candidate: str | None) -> ScheduleFile:
    """The books of one candidate of an evaluation, or of a model."""
    listed = content.get("candidates", [{**content, "name": content.get("generator", "model")}])
    parts = [part for part in listed if isinstance(part, dict)] if isinstance(listed, list) else []
    statements = {str(part.get("name")): part.get("statement") for part in parts}
    stated = [name for name, statement in statements.items() if statement is not None]
    if candidate is None and len(stated) > 1:
        raise BudgetError(f"several candidates have a statement, {', '.join(stated)}; name one with --candidate")
    name = next(iter([*stated, *statements]), "") if candidate is None else candidate
    if name not in statements:
        raise BudgetError(f"candidate={name!r} is not in the file; {nearest(name, statements)}")
    if statements[name] is None:
        raise BudgetError(f"{name!r} has no formal guarantee, so that there is nothing to price; pass one that has")
    statement = _read(_Statement, statements[name], name)
    note = statement.ledger
    claim = StatedCost(
        epsilon=statement.epsilon,
        rhos=tuple(record.rho for record in statement.events),
        deltas=tuple(record.delta for record in statement.events),
        in_ledger=None if note is None else (note.epsilon, note.total_epsilon, note.total_delta),
        private=statement.private,
    )
    return ScheduleFile(name, statement.schedule(), claim)
