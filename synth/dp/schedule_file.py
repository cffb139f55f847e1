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
from typing import Annotated, Any

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, PlainValidator, ValidationError

from synth.dp.accounting import MOST_POINTS, epsilon_pure, n_points
from synth.dp.events import (
    MECHANISMS,
    Event,
    GaussianEvent,
    LaplaceEvent,
    RandomizedResponseEvent,
    SelectionEvent,
    StabilityEvent,
    SubsampledGaussianEvent,
    event_of,
    gaussian_of_rho,
)
from synth.dp.schedule import LEAST_DELTA, Plan, Schedule, calibrate
from synth.errors import BudgetError, nearest
from synth.parsing import NotPlain, plain_json
from synth.validation import Frozen, read_toml, sentence

MOST_NOISE, MOST_RELEASES = 3e5, 1_000_000
"""Limits within which accountants take seconds; nobody adds more noise, or releases more often."""
Words = Annotated[str, Field(min_length=1, max_length=1000)]
SHARES_TOLERANCE = 1e-6
_DESCRIPTION = "model.json"


def number(high: float, *, low: float = 0.0, whole: bool = False, closed: bool = False) -> Any:
    """A field's validator that keeps a number as it is written, whole or not, and refuses all else in one clause."""
    bounds = f"from {low:g} to" if closed else f"above {low:g} and at most"
    rule = f"must be a {'whole ' if whole else ''}number {bounds} {high:g}"

    def check(value: Any) -> Any:
        fits = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
        # Written so that NaN, which compares as false, is refused.
        if not fits or not (low <= value if closed else low < value) or not value <= high:
            raise ValueError(f"{rule}, not {_cut(value)}; correct it")
        return value

    return PlainValidator(check)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"must be true or false, not {_cut(value)}; correct it")
    return value


def _cut(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # a whole number of thousands of digits is not written out
        return "one of thousands of digits"
    return text if len(text) <= 40 else f"{text[:37]}..."


_DELTA = number(0.5, low=LEAST_DELTA, closed=True)
Delta = Annotated[float, _DELTA]
Epsilon = Annotated[float, number(1e6)]
_Size = Annotated[float | None, number(MOST_NOISE)]
_Share = Annotated[float | None, number(1.0)]


class PlanEntry(Frozen):
    """One line, in either form: which keys belong to it is its mechanism's and its form's matter."""

    what: Words
    mechanism: Words
    count: Annotated[int, number(MOST_RELEASES, low=1, whole=True, closed=True)] = 1
    sigma: _Size = None
    scale: _Size = None
    epsilon: _Size = None
    threshold: Annotated[int | None, number(100 * MOST_NOISE, low=1, whole=True, closed=True)] = None
    sensitivity: _Size = None
    whole: Annotated[bool | None, PlainValidator(_flag)] = None
    noise_multiplier: _Size = None
    sampling_rate: _Share = None
    share: _Share = None
    delta: _Share = None

    def noise(self) -> dict[str, Any]:
        """The parameters of the mechanism that the line names."""
        named = self.model_dump(exclude_none=True, exclude={"what", "mechanism", "count", "share", "delta"})
        return dict(named)

    def event(self) -> Event:
        """The event, where the line says its noise."""
        for key in ("share", "delta"):
            if getattr(self, key) is not None:
                raise BudgetError(
                    f"event={self.what!r}: {key!r} belongs to a plan with a target epsilon, and this one has none; add "
                    "epsilon and a share for every event, or give every event its noise"
                )
        return event_of(self.what, self.mechanism, self.noise(), self.count)


def schedule_of(events: tuple[Event, ...], delta: float) -> Schedule:
    """The schedule of events that accountants can hold on one grid: a typical one sets its width, all its extent."""
    if n_points(events) > MOST_POINTS:
        raise BudgetError(
            "the noise of the events is too small, or too different from one to the other, for an accountant to "
            "resolve; raise the smallest noise"
        )
    return Schedule(events, delta)


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


def _stated_delta(value: Any) -> Any:
    """The delta of a statement: that of a plan, or 0 where all losses are pure."""
    return value if value == 0 and not isinstance(value, bool) else _DELTA.func(value)


class _Said(BaseModel):
    """The parts of a statement that are read; it says more."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class _Record(_Said):
    what: Words
    mechanism: Words
    noise: dict[str, Any]
    count: Any
    rho: float | None
    delta: float = 0.0


class _Note(_Said):
    epsilon: float
    total_epsilon: Epsilon
    total_delta: Annotated[float, number(0.5)]


class _Statement(_Said):
    epsilon: Epsilon
    delta: Annotated[float, PlainValidator(_stated_delta)]
    events: tuple[_Record, ...]
    ledger: _Note | None = None
    private: bool = False


def read_stated(path: Path, candidate: str | None = None) -> ScheduleFile:
    """The books in `evaluation.json`, in a model's `model.json`, or in what a fit said with --json."""
    name, statement = _statement_of(_read_json(path), candidate)
    if statement is None:
        raise BudgetError(f"{name!r} has no formal guarantee, so that there is nothing to price; pass one that has")
    said = _said(name, statement)
    note = said.ledger
    claim = StatedCost(
        epsilon=said.epsilon,
        rhos=tuple(record.rho for record in said.events),
        deltas=tuple(record.delta for record in said.events),
        in_ledger=None if note is None else (note.epsilon, note.total_epsilon, note.total_delta),
        private=said.private,
    )
    return ScheduleFile(name, _schedule(said), claim)


def stated_schedule(name: str, statement: Mapping[str, Any]) -> Schedule:
    """The schedule that a statement's books come to, whatever it claims of them."""
    return _schedule(_said(name, statement))


def _said(name: str, statement: Any) -> _Statement:
    try:
        said = _Statement.model_validate(statement)
    except ValidationError as error:
        raise BudgetError(f"the statement of {name!r} is damaged: {sentence(error, _Statement)}") from None
    if not said.events:
        raise BudgetError(f"the statement of {name!r} is damaged: events=[] is no release; make it anew")
    return said


def _schedule(said: _Statement) -> Schedule:
    events = tuple(_event(record) for record in said.events)
    if said.delta == 0 and epsilon_pure(events) is None:
        raise BudgetError("delta=0 takes events of pure losses, and one of these has none; state the delta")
    return schedule_of(events, said.delta)


def _event(record: _Record) -> Event:
    content = {**record.noise, "what": record.what, "mechanism": record.mechanism, "count": record.count}
    try:
        return PlanEntry.model_validate(content).event()
    except ValidationError as error:
        raise BudgetError(f"event={record.what!r}: {sentence(error, PlanEntry)}") from None


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = plain_json(path.read_bytes())
    except OSError as refusal:
        raise BudgetError(f"the books cannot be read: {refusal.strerror}; check the name") from None
    except NotPlain as fault:
        raise BudgetError(f"the file is damaged: {fault}; pass one that a run wrote") from None
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise BudgetError("the file is not JSON that a run wrote; pass an evaluation.json, a model's folder or a plan")
    return content


def _statement_of(content: Mapping[str, Any], candidate: str | None) -> tuple[str, Any]:
    """The name and the statement that a file of a run holds, of the candidate where it holds several."""
    listed = content.get("candidates")
    if not isinstance(listed, list):
        if "statement" not in content:
            raise BudgetError(
                "the file holds no privacy statement; pass an evaluation.json, a model's folder or a plan"
            )
        if candidate is not None:
            raise BudgetError(f"candidate={candidate!r} belongs to an evaluation, and this is a model; leave it out")
        return str(content.get("generator", "model")), content["statement"]
    found = {str(one.get("name")): one.get("statement") for one in listed if isinstance(one, dict)}
    return _chosen(found, candidate)


def _chosen(found: Mapping[str, Any], candidate: str | None) -> tuple[str, Any]:
    if not found:
        raise BudgetError("the evaluation holds no candidate; pass one that does")
    stated = [name for name, statement in found.items() if statement is not None]
    if candidate is None and len(stated) > 1:
        raise BudgetError(f"several candidates have a statement, {', '.join(stated)}; name one with --candidate")
    name = candidate if candidate is not None else (*stated, *found)[0]
    if name not in found:
        raise BudgetError(f"candidate={name!r} is not in the evaluation; {nearest(name, found)}")
    return name, found[name]


class _Claim(Frozen):
    epsilon: Epsilon


class _Plan(Frozen):
    delta: Delta
    epsilon: Epsilon | None = None
    events: tuple[PlanEntry, ...]
    claim: dict[str, Any] | None = None


def read_schedule(path: Path | str, candidate: str | None = None) -> Schedule:
    """The schedule that a plan, an evaluation or a saved model holds; arguments and errors as in `read_books`."""
    return read_books(path, candidate).schedule


def read_books(path: Path | str, candidate: str | None = None) -> ScheduleFile:
    """The events and the claim in a plan, an evaluation or a saved model."""
    path = Path(path)
    place = f"path={str(path)!r}"
    source = path / _DESCRIPTION if (path / _DESCRIPTION).is_file() else path
    try:
        if source.suffix.lower() == ".json":
            return read_stated(source, candidate)
        if candidate is not None:
            raise BudgetError(f"candidate={candidate!r} belongs to an evaluation, and this is a plan; leave it out")
        return _books(read_toml(source, "plan", BudgetError), path.stem)
    except BudgetError as error:
        raise (error if place in str(error) else BudgetError(f"{error} ({place})")) from None


def to_toml(schedule: Schedule) -> str:
    """The text of a plan, from which the same schedule is read again, digit for digit.

    >>> print(to_toml(Schedule((GaussianEvent("ages", sigma=40.0),), 1e-6)))
    delta = 1e-06
    <BLANKLINE>
    [[events]]
    what = "ages"
    mechanism = "Gaussian"
    count = 1
    sigma = 40.0
    sensitivity = 1
    whole = true
    <BLANKLINE>
    """
    records = [event.record() for event in schedule.events]
    lines = [{"what": r.what, "mechanism": r.mechanism, "count": r.count, **r.noise} for r in records]
    return tomli_w.dumps({"delta": schedule.delta, "events": lines})


def _books(content: Mapping[str, Any], name: str) -> ScheduleFile:
    try:
        plan = _Plan.model_validate(content)
    except ValidationError as error:
        raise BudgetError(sentence(error, _Plan)) from None
    if not plan.events:
        raise BudgetError("events=[] is no plan; add an [[events]] table for everything that is read")
    claim = None if plan.claim is None else _claim(plan.claim)
    if plan.epsilon is None:
        return ScheduleFile(name, schedule_of(tuple(line.event() for line in plan.events), plan.delta), claim)
    return ScheduleFile(name, calibrate(_shared(plan.events, plan.delta), plan.epsilon, plan.delta), claim)


def _claim(content: Mapping[str, Any]) -> StatedCost:
    try:
        return StatedCost(_Claim.model_validate(content).epsilon)
    except ValidationError as error:
        raise BudgetError(f"claim: {sentence(error, _Claim)}") from None


def _shared(lines: Sequence[PlanEntry], delta: float) -> Plan:
    """The plan in which every line gets its share of rho."""
    makers = [_maker(line) for line in lines]
    shares = [line.share for line in lines if line.share is not None]
    whole = sum(shares)
    if abs(whole - 1) > SHARES_TOLERANCE:
        raise BudgetError(f"shares add up to {whole:.6g} and must add up to 1; correct one of them")
    own = sum(line.delta or 0.0 for line in lines)
    if own > delta / 2:
        raise BudgetError(
            f"the events' own deltas add up to {own:.3g} and must leave half of delta={delta:g} to the rest; lower them"
        )
    return lambda rho: [make(rho * share / whole) for make, share in zip(makers, shares, strict=True)]


def _maker(line: PlanEntry) -> Callable[[float], Event]:
    """The event of a line without noise, as a function of the rho that it gets."""
    _refuse_noise(line)
    k, count = line.sensitivity or 1, line.count
    if not isinstance(k, int):
        raise BudgetError(f"event={line.what!r}: sensitivity={k!r} must be a whole number, at least 1; correct it")
    if (delta := line.delta) is not None:  # of a stability histogram alone: see `_refuse_noise`
        return lambda rho: _stability(line, delta, rho, k)
    kind = MECHANISMS[line.mechanism]
    if kind is GaussianEvent:
        return lambda rho: gaussian_of_rho(line.what, rho, count=count, sensitivity=k)
    if kind is RandomizedResponseEvent:
        return lambda rho: RandomizedResponseEvent(line.what, math.sqrt(2 * rho / count), count)
    if kind is LaplaceEvent:
        return lambda rho: LaplaceEvent(line.what, k * math.sqrt(count / (2 * rho)), k, count)
    return lambda rho: SelectionEvent.of_rho(line.what, rho, count)


def _stability(line: PlanEntry, delta: float, rho: float, k: int) -> StabilityEvent:
    one = StabilityEvent.of_rho(line.what, rho / line.count, delta / line.count, k)
    return StabilityEvent(line.what, one.sigma, one.threshold, k, line.count)


def _refuse_noise(line: PlanEntry) -> None:
    """Refuse a line that does not say what a plan with a target needs, or says more."""
    event, mechanism = f"event={line.what!r}", line.mechanism
    if mechanism not in MECHANISMS:
        raise BudgetError(f"{event}: mechanism={mechanism!r} is unknown; {nearest(mechanism, MECHANISMS)}")
    if mechanism == SubsampledGaussianEvent.mechanism:
        raise BudgetError(
            f"{event}: mechanism={mechanism!r} has no rho to take a share of; leave epsilon and all shares out, and "
            "give every event its noise"
        )
    pure = (SelectionEvent.mechanism, RandomizedResponseEvent.mechanism)
    takes = () if mechanism in pure else ("sensitivity",)
    for key in line.noise():
        if key not in takes:
            raise BudgetError(
                f"{event}: {key!r} does not go with a target epsilon, under which shares set the noise; leave it out, "
                "or leave out epsilon and all shares"
            )
    if line.share is None:
        raise BudgetError(f"{event}: 'share' is missing, and a plan with a target epsilon needs one; add it")
    if (line.delta is None) == (mechanism == StabilityEvent.mechanism):
        raise BudgetError(
            f"{event}: a stability histogram names its own delta, and no other mechanism has one; "
            f"{'add it' if line.delta is None else 'leave it out'}"
        )
