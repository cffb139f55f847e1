"""Schedules as files, so that whoever doubts a claim can write down what was read and price it, without any data.

A plan is TOML: `delta` and one `[[events]]` table for every line of the books. It says either the noise of every event,
or a target `epsilon` and the `share` of rho that each event gets. A `[claim]` says what somebody says it costs. Books
are also read out of what a run leaves behind: `evaluation.json` and the folder of a saved model.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import ValidationError

from synth.dp.calibration import Plan, calibrate
from synth.dp.events import (
    MECHANISMS,
    Event,
    GaussianEvent,
    LaplaceEvent,
    SelectionEvent,
    StabilityEvent,
    SubsampledGaussianEvent,
    gaussian_of_rho,
)
from synth.dp.plan_line import Delta, Epsilon, Line, schedule_of
from synth.dp.schedule import Schedule
from synth.dp.stated import Books, Claim, read_stated
from synth.errors import BudgetError, nearest
from synth.output import whole_file
from synth.validation import Frozen, read_toml, sentence

SHARES_TOLERANCE = 1e-6
_DESCRIPTION = "model.json"


class _Claim(Frozen):
    epsilon: Epsilon


class _Plan(Frozen):
    delta: Delta
    epsilon: Epsilon | None = None
    events: tuple[Line, ...]
    claim: dict[str, Any] | None = None


def read_schedule(path: Path | str, candidate: str | None = None) -> Schedule:
    """The schedule that a plan, an evaluation or a saved model holds; arguments and errors as in `read_books`."""
    return read_books(path, candidate).schedule


def read_books(path: Path | str, candidate: str | None = None) -> Books:
    """What a plan, an evaluation or a saved model says was read, and what it claims that this costs.

    Args:
        path: a plan (TOML), `evaluation.json`, a model's folder, or its `model.json`.
        candidate: whose statement, where an evaluation holds several.

    Raises:
        BudgetError: the file cannot be read, or its plan cannot be priced; nothing was priced.
    """
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


def write_schedule(schedule: Schedule, path: Path | str) -> None:
    """Write a schedule as a plan that says every event's noise, whole or not at all; an older file is replaced.

    Raises:
        OutputError: the place cannot be written; nothing was left there.
    """
    with whole_file(Path(path)) as beside:
        beside.write_text(to_toml(schedule), encoding="utf-8")


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


def _books(content: Mapping[str, Any], name: str) -> Books:
    try:
        plan = _Plan.model_validate(content)
    except ValidationError as error:
        raise BudgetError(sentence(error, _Plan)) from None
    if not plan.events:
        raise BudgetError("events=[] is no plan; add an [[events]] table for everything that is read")
    claim = None if plan.claim is None else _claim(plan.claim)
    if plan.epsilon is None:
        return Books(name, schedule_of(tuple(line.event() for line in plan.events), plan.delta), claim)
    return Books(name, calibrate(_shared(plan.events, plan.delta), plan.epsilon, plan.delta), claim)


def _claim(content: Mapping[str, Any]) -> Claim:
    try:
        return Claim(_Claim.model_validate(content).epsilon)
    except ValidationError as error:
        raise BudgetError(f"claim: {sentence(error, _Claim)}") from None


def _shared(lines: Sequence[Line], delta: float) -> Plan:
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


def _maker(line: Line) -> Callable[[float], Event]:
    """The event of a line without noise, as a function of the rho that it gets."""
    _refuse_noise(line)
    k, count = line.sensitivity or 1, line.count
    if not isinstance(k, int):
        raise BudgetError(f"event={line.what!r}: sensitivity={k!r} must be a whole number, at least 1; correct it")
    kind = MECHANISMS[line.mechanism]
    if kind is GaussianEvent:
        return lambda rho: gaussian_of_rho(line.what, rho, count=count, sensitivity=k)
    if kind is LaplaceEvent:
        return lambda rho: LaplaceEvent(line.what, k * math.sqrt(count / (2 * rho)), k, count)
    if kind is SelectionEvent:
        return lambda rho: SelectionEvent.of_rho(line.what, rho, count)
    return lambda rho: _stability(line, rho, k)


def _stability(line: Line, rho: float, k: int) -> StabilityEvent:
    assert line.delta is not None
    one = StabilityEvent.of_rho(line.what, rho / line.count, line.delta / line.count, k)
    return StabilityEvent(line.what, one.sigma, one.threshold, k, line.count)


def _refuse_noise(line: Line) -> None:
    """Refuse a line that does not say what a plan with a target needs, or says more."""
    event, mechanism = f"event={line.what!r}", line.mechanism
    if mechanism not in MECHANISMS:
        raise BudgetError(f"{event}: mechanism={mechanism!r} is unknown; {nearest(mechanism, MECHANISMS)}")
    if mechanism == SubsampledGaussianEvent.mechanism:
        raise BudgetError(
            f"{event}: mechanism={mechanism!r} has no rho to take a share of; leave epsilon and all shares out, and "
            "give every event its noise"
        )
    takes = () if mechanism == SelectionEvent.mechanism else ("sensitivity",)
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
