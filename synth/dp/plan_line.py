"""One line of a plan as a file writes it: what was read, by which mechanism, with what noise or what share of rho."""

from typing import Annotated, Any

from pydantic import Field, PlainValidator

from synth.dp.accounting import MOST_POINTS, n_points
from synth.dp.events import Event, event_of
from synth.dp.schedule import Schedule
from synth.errors import BudgetError
from synth.validation import Frozen

LEAST_DELTA = 1e-12
"""The accountant cuts off tails of about 1e-15, so that it resolves no smaller delta."""
MOST_NOISE, MOST_RELEASES = 3e5, 1_000_000
"""What accountants price in seconds; nobody adds more noise, or releases more often."""


def number(high: float, *, low: float = 0.0, whole: bool = False, closed: bool = False) -> Any:
    """A field's validator that keeps a number as it is written, whole or not, and refuses all else in one clause.

    Args:
        high: the largest that is allowed.
        low: what it must lie above.
        whole: whether it must be a whole number.
        closed: whether `low` itself is allowed.
    """
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


Words = Annotated[str, Field(min_length=1, max_length=1000)]
Delta = Annotated[float, number(0.5, low=LEAST_DELTA, closed=True)]
Epsilon = Annotated[float, number(1e6)]
_Size = Annotated[float | None, number(MOST_NOISE)]
_Share = Annotated[float | None, number(1.0)]


class Line(Frozen):
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
        """The event, where the line says its noise.

        Raises:
            BudgetError: it names a share, or not what its mechanism needs.
        """
        for key in ("share", "delta"):
            if getattr(self, key) is not None:
                raise BudgetError(
                    f"event={self.what!r}: {key!r} belongs to a plan with a target epsilon, and this one has none; add "
                    "epsilon and a share for every event, or give every event its noise"
                )
        return event_of(self.what, self.mechanism, self.noise(), self.count)


def schedule_of(events: tuple[Event, ...], delta: float) -> Schedule:
    """The schedule of events that accountants can hold on one grid: a typical one sets its width, all its extent.

    Raises:
        BudgetError: they cannot; nothing was priced.
    """
    if n_points(events) > MOST_POINTS:
        raise BudgetError(
            "the noise of the events is too small, or too different from one to the other, for an accountant to "
            "resolve; raise the smallest noise"
        )
    return Schedule(events, delta)
