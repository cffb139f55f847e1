"""Events: reads of the real table as frozen records. Their cost is `accounting`'s matter.

Every event has `what` was read, in words, and a `count` of how often. Its `rho` is the zCDP cost in total, `None` where
it has none worth stating. Its `delta`, over all of its releases, is what a stability histogram adds to the claim's.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import islice
from typing import Any, ClassVar, Self, get_args, overload

import numpy as np
from scipy import special

from synth.dp.statement import EventRecord
from synth.errors import BudgetError, nearest


@dataclass(frozen=True)
class _Event:
    what: str
    mechanism: ClassVar[str]
    positive: ClassVar[tuple[str, ...]] = ("epsilon",)

    def __post_init__(self) -> None:
        for name in self.positive:
            value = getattr(self, name)
            is_finite = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf
            self._require(is_finite, name, "a finite number above 0")
        whole = [name for name in ("count", "sensitivity") if hasattr(self, name)]
        for name in whole if getattr(self, "whole", True) else ["count"]:
            value = getattr(self, name)
            self._require(type(value) is int and value >= 1, name, "a whole number, at least 1")

    def _require(self, holds: bool, name: str, rule: str) -> None:
        if not holds:
            raise BudgetError(f"event={self.what!r}: {name}={getattr(self, name)!r} must be {rule}; correct it")

    @property
    def delta(self) -> float:
        return self.own_delta()

    def own_delta(self, group: int = 1) -> float:
        """The mechanism's own delta for a group of units, over all releases."""
        return 0.0

    def record(self) -> EventRecord:
        noise = {key: value for key, value in asdict(self).items() if key not in ("what", "count")}
        return EventRecord(self.what, self.mechanism, noise, self.count, self.rho, self.delta)  # type: ignore[attr-defined]


@dataclass(frozen=True)
class GaussianEvent(_Event):
    """Numbers released with Gaussian noise.

    Source: Canonne, Kamath, Steinke 2020, Theorem 4.
    """

    sigma: float
    sensitivity: float = 1
    count: int = 1
    whole: bool = True
    mechanism: ClassVar[str] = "Gaussian"
    positive: ClassVar[tuple[str, ...]] = ("sigma", "sensitivity")

    @property
    def noise_multiplier(self) -> float:
        return self.sigma / self.sensitivity

    @property
    def rho(self) -> float:
        """The zCDP cost of all releases (Bun & Steinke 2016, Proposition 1.6).

        >>> GaussianEvent("ages", sigma=10.0, count=2).rho
        0.01
        """
        return self.count / (2 * self.noise_multiplier**2)


@dataclass(frozen=True)
class LaplaceEvent(_Event):
    """Numbers released with Laplace noise.

    Source: Dwork, McSherry, Nissim, Smith 2006; Ghosh, Roughgarden, Sundararajan 2009 (discrete).
    """

    scale: float
    sensitivity: float = 1
    count: int = 1
    whole: bool = True
    mechanism: ClassVar[str] = "Laplace"
    positive: ClassVar[tuple[str, ...]] = ("scale", "sensitivity")

    @property
    def epsilon(self) -> float:
        return self.sensitivity / self.scale

    @property
    def rho(self) -> float:
        """The zCDP cost of all releases (Bun & Steinke 2016, Proposition 1.4).

        >>> LaplaceEvent("ages", scale=10.0, count=2).rho
        0.010000000000000002
        """
        return self.count * self.epsilon**2 / 2


@dataclass(frozen=True)
class SelectionEvent(_Event):
    """Choices by the exponential mechanism (Gumbel noisy max).

    Source: Dong, Durfee, Rogers 2020 (bounded range); Cesar, Rogers 2021 (its zCDP, epsilon^2 / 8).
    """

    epsilon: float
    count: int = 1
    mechanism: ClassVar[str] = "exponential"

    @property
    def rho(self) -> float:
        """The zCDP cost of all choices.

        >>> SelectionEvent("pairs", epsilon=2.0, count=2).rho
        1.0
        """
        return self.count * self.epsilon**2 / 8

    @classmethod
    def of_rho(cls, what: str, rho: float, count: int) -> "SelectionEvent":
        """The event whose `count` choices cost `rho` in total."""
        return cls(what, math.sqrt(8 * rho / count), count)


@dataclass(frozen=True)
class RandomizedResponseEvent(_Event):
    """Answers that each unit randomizes on its own, so that only their reports leave it.

    Source: Warner 1965; Kasiviswanathan et al. 2011 (local privacy).
    """

    epsilon: float
    count: int = 1
    mechanism: ClassVar[str] = "randomized response"

    @property
    def rho(self) -> float:
        """The zCDP cost of all answers (Bun & Steinke 2016, Proposition 1.4).

        >>> RandomizedResponseEvent("columns", epsilon=1.0, count=2).rho
        1.0
        """
        return self.count * self.epsilon**2 / 2


@dataclass(frozen=True)
class StabilityEvent(_Event):
    """The values that enough units hold: counts with discrete Gaussian noise, of which those at a threshold are named.

    Source: Korolova et al. 2009; Bun, Nissim, Stemmer 2016 (stability-based histograms).
    """

    sigma: float
    threshold: int
    sensitivity: int = 1
    count: int = 1
    mechanism: ClassVar[str] = "stability histogram"
    positive: ClassVar[tuple[str, ...]] = ("sigma", "threshold")

    def __post_init__(self) -> None:
        super().__post_init__()
        is_above = isinstance(self.threshold, int) and self.threshold > self.sensitivity
        self._require(is_above, "threshold", f"a whole number above sensitivity={self.sensitivity}")

    @property
    def rho(self) -> float:
        """The zCDP cost of the noise, where no value of one unit alone is named."""
        return self.count * self.sensitivity**2 / (2 * self.sigma**2)

    def own_delta(self, group: int = 1) -> float:
        """Bound on the probability that a value is named which the units of a group alone hold, over all histograms.

        They may spread their rows over values of their own in any way. A value with c of their n rows is named when the
        noise reaches threshold - c. So a row costs at most the largest of tail(threshold - c) / c.

        >>> event = StabilityEvent("jobs", sigma=10.0, threshold=60)
        >>> event.delta < event.own_delta(2) < event.own_delta(5) < event.own_delta(60) == 1.0
        True
        """
        n_rows = group * self.sensitivity
        if n_rows >= self.threshold:  # all of them in one value: it is named as likely as not
            return 1.0
        tails = gaussian_tail(self.threshold - np.arange(1, n_rows + 1), self.sigma)
        worst = float((tails / np.arange(1, n_rows + 1)).max())
        return min(1.0, self.count * n_rows * worst)

    @classmethod
    def of_rho(cls, what: str, rho: float, delta: float, sensitivity: int) -> "StabilityEvent":
        """The event that costs `rho` and at most `delta`, with the lowest threshold that allows.

        >>> event = StabilityEvent.of_rho("jobs", rho=0.005, delta=1e-7, sensitivity=1)
        >>> event.sigma, event.threshold, event.delta <= 1e-7
        (10.0, 54, True)
        """
        sigma = sensitivity / math.sqrt(2 * rho)
        low, high = sensitivity, sensitivity + math.ceil(sigma * math.sqrt(2 * math.log(sensitivity / delta))) + 2
        while high - low > 1:
            middle = (low + high) // 2
            fits = cls(what, sigma, middle, sensitivity).delta <= delta
            low, high = (low, middle) if fits else (middle, high)
        return cls(what, sigma, high, sensitivity)


@dataclass(frozen=True)
class SubsampledGaussianEvent(_Event):
    """Sums over Poisson samples of the units, released with Gaussian noise: the steps of DP-SGD.

    Source: Abadi et al. 2016 (1607.00133); Mironov, Talwar, Zhang 2019 (1908.10530).
    """

    noise_multiplier: float
    sampling_rate: float
    count: int = 1
    mechanism: ClassVar[str] = "Poisson-subsampled Gaussian"
    positive: ClassVar[tuple[str, ...]] = ("noise_multiplier", "sampling_rate")

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require(self.sampling_rate <= 1, "sampling_rate", "in (0, 1]")

    @property
    def rho(self) -> None:
        """None: as zCDP it would be priced as if every unit were in every sample."""
        return


LARGE_SIGMA = 50.0
"""The sigma at which `gaussian_tail` goes over from the sum of the mass to a bound, then within a few percent of it."""
Event = (
    GaussianEvent | LaplaceEvent | SelectionEvent | RandomizedResponseEvent | StabilityEvent | SubsampledGaussianEvent
)
MECHANISMS: Mapping[str, type[Event]] = {kind.mechanism: kind for kind in get_args(Event)}
"""Events by the name of their mechanism, as statements and plans write it."""


class NamedEvents(Sequence[Event]):
    """Events, each an attribute. A subclass is a frozen dataclass.

    A field holds an event, `None`, or a tuple, a mapping or another `NamedEvents` with more of them. As a sequence,
    it has all of its events, in the order of the fields.

    >>> @dataclass(frozen=True)
    ... class Counts(NamedEvents):
    ...     columns: GaussianEvent
    ...     pairs: tuple[GaussianEvent, ...] = ()
    >>> planned = Counts(GaussianEvent("columns", 1.0), (GaussianEvent("pairs", 1.0),))
    >>> planned.of([GaussianEvent("columns", 3.0), GaussianEvent("pairs", 4.0)]).pairs[0].sigma
    4.0
    """

    def __iter__(self) -> Iterator[Event]:
        yield from _flat(vars(self).values())

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Event]: ...
    def __getitem__(self, index: int | slice) -> Event | Sequence[Event]:
        return tuple(self)[index]

    def of(self, events: Iterable[Event]) -> Self:
        """The same attributes with the events of a schedule, which has them in the same order."""
        left = iter(events)
        taken = type(self)(**{name: _taken(part, left) for name, part in vars(self).items()})
        if next(left, None) is not None:
            raise _off_plan()
        return taken


def _flat(parts: Iterable[Any]) -> Iterator[Event]:
    for part in parts:
        if isinstance(part, _Event):
            yield part  # type: ignore[misc]
        elif part is not None:
            yield from _flat(part.values() if isinstance(part, Mapping) else part)


def _taken(part: Any, left: Iterator[Event]) -> Any:
    """The same part with the next events in place of its own."""
    if part is None:
        return None
    if isinstance(part, Mapping):
        return {key: _taken(each, left) for key, each in part.items()}
    if isinstance(part, tuple):
        return tuple(_taken(each, left) for each in part)
    if isinstance(part, NamedEvents):
        return part.of(islice(left, len(part)))
    event = next(left, None)
    if type(event) is not type(part):
        raise _off_plan()
    return event


def _off_plan() -> BudgetError:
    return BudgetError("the schedule does not hold the events of this plan; make it with `generator.schedule(schema)`")


def event_of(what: str, mechanism: str, noise: Mapping[str, Any], count: int) -> Event:
    """The event that a line of the books describes.

    >>> event_of("ages", "Gaussian", {"sigma": 10.0}, 2)
    GaussianEvent(what='ages', sigma=10.0, sensitivity=1, count=2, whole=True)
    """
    if mechanism not in MECHANISMS:
        raise BudgetError(f"event={what!r}: mechanism={mechanism!r} is unknown; {nearest(mechanism, MECHANISMS)}")
    kind = MECHANISMS[mechanism]
    known = [field.name for field in fields(kind) if field.name not in ("what", "count")]
    for name in noise:
        if name not in known:
            raise BudgetError(f"event={what!r}: unknown key {name!r}; {nearest(name, known)}")
    try:
        return kind(what=what, count=count, **noise)
    except TypeError:  # known keys with values of the wrong type are refused by the event: one must be missing
        missing = next(name for name in known if name not in noise)
        raise BudgetError(f"event={what!r}: {missing!r} is missing; add it") from None


def gaussian_of_rho(what: str, rho: float, *, count: int, sensitivity: int) -> GaussianEvent:
    """The event whose `count` releases cost `rho` in total.

    >>> gaussian_of_rho("ages", 0.01, count=2, sensitivity=1).sigma
    10.0
    """
    return GaussianEvent(what, sensitivity * math.sqrt(count / (2 * rho)), sensitivity, count)


def ceil_sqrt(square: int) -> int:
    """The square root rounded up, as the whole sensitivity of whole numbers is.

    >>> ceil_sqrt(1), ceil_sqrt(4), ceil_sqrt(5)
    (1, 2, 3)
    """
    return math.isqrt(square - 1) + 1


def gaussian_tail(least: np.ndarray, sigma: float) -> np.ndarray:
    """The probability that discrete Gaussian noise is at least this, by summing its mass; shape of `least`.

    Beyond `LARGE_SIGMA` a bound, by the continuous tail one below (Canonne, Kamath, Steinke 2020, Proposition 25).

    >>> gaussian_tail(np.array([0, 1]), 1e-3).round(6).tolist()
    [1.0, 0.0]
    """
    if sigma > LARGE_SIGMA:
        return np.asarray(special.ndtr(-(least - 1) / sigma))
    reach = max(math.ceil(40 * sigma), 1)
    points = np.arange(-reach, reach + 1)
    mass = np.exp(-(points.astype(np.float64) ** 2) / (2 * sigma**2))
    above = np.cumsum(mass[::-1])[::-1] / mass.sum()  # summed from the small end, where precision matters
    return np.asarray(np.where(least > reach, 0.0, above[np.clip(least + reach, 0, 2 * reach)]))
