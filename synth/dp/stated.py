"""What a run left behind says of its budget: the events, which anyone can price again, and the claim."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, ValidationError

from synth.dp.events import Event
from synth.dp.plan_line import Delta, Epsilon, Line, Words, number, schedule_of
from synth.dp.schedule import Schedule
from synth.errors import BudgetError, nearest
from synth.parsing import NotPlain, plain_json
from synth.validation import sentence


@dataclass(frozen=True)
class Claim:
    """What a file says its events cost.

    Attributes:
        epsilon: of all of them, at the schedule's delta.
        rhos: of each event, none where it has none; empty where the file names none.
        deltas: of each event's own; empty where the file names none.
        in_ledger: epsilon alone, the total's epsilon and its delta, where a ledger holds the release.
        private: False where the noise was not drawn from a secure source, so that nothing is promised.
    """

    epsilon: float
    rhos: tuple[float | None, ...] = ()
    deltas: tuple[float, ...] = ()
    in_ledger: tuple[float, float, float] | None = None
    private: bool = True


@dataclass(frozen=True)
class Books:
    """A schedule, whose it is, and what is claimed of it; none where nothing is."""

    name: str
    schedule: Schedule
    claim: Claim | None = None


class _Said(BaseModel):
    """What a statement is read for; it says more."""

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
    delta: Delta
    events: tuple[_Record, ...]
    ledger: _Note | None = None
    private: bool = False


def read_stated(path: Path, candidate: str | None = None) -> Books:
    """The books in `evaluation.json`, in a model's `model.json`, or in what a fit said with --json.

    Args:
        path: the file.
        candidate: whose statement, where an evaluation holds several.

    Raises:
        BudgetError: the file cannot be read, or holds no statement, or a damaged one; nothing was priced.
    """
    name, statement = _statement_of(_read_json(path), candidate)
    if statement is None:
        raise BudgetError(f"{name!r} has no formal guarantee, so that there is nothing to price; pass one that has")
    said = _said(name, statement)
    note = said.ledger
    claim = Claim(
        epsilon=said.epsilon,
        rhos=tuple(record.rho for record in said.events),
        deltas=tuple(record.delta for record in said.events),
        in_ledger=None if note is None else (note.epsilon, note.total_epsilon, note.total_delta),
        private=said.private,
    )
    return Books(name, _schedule(said), claim)


def stated_schedule(name: str, statement: Mapping[str, Any]) -> Schedule:
    """The schedule that a statement's books come to, whatever it claims of them.

    Raises:
        BudgetError: they are damaged, or no accountant resolves them.
    """
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
    return schedule_of(tuple(_event(record) for record in said.events), said.delta)


def _event(record: _Record) -> Event:
    content = {**record.noise, "what": record.what, "mechanism": record.mechanism, "count": record.count}
    try:
        return Line.model_validate(content).event()
    except ValidationError as error:
        raise BudgetError(f"event={record.what!r}: {sentence(error, Line)}") from None


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
