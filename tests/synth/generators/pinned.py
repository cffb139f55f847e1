"""Pinned noise: a fit is answered as an earlier one was, and all that it asks for is kept beside what it has paid."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from synth.dp.budget import Budget
from synth.dp.events import Event, GaussianEvent, LaplaceEvent, SelectionEvent, StabilityEvent, SubsampledGaussianEvent
from synth.dp.mechanisms import InjectedNoise
from synth.dp.schedule import Schedule

ROUNDING = 1e-9
DRAWN = GaussianEvent | LaplaceEvent | SelectionEvent | StabilityEvent
"""One draw of noise pays for each release of these."""


@dataclass(frozen=True)
class Draw:
    """One question as it reached the noise: exact numbers, or counts by value, and the noise that they are to have."""

    event: Event
    exact: np.ndarray | dict[Any, float]
    scale: float
    answer: Any

    @property
    def stated(self) -> float:
        """How far one unit may move the exact numbers by what is paid, under the noise that is asked for."""
        match self.event:
            case GaussianEvent(sigma=scale, sensitivity=most) | StabilityEvent(sigma=scale, sensitivity=most):
                return most * self.scale / scale
            case LaplaceEvent(scale=scale, sensitivity=most):
                return most * self.scale / scale
            case SelectionEvent(epsilon=epsilon):
                return epsilon * self.scale / 2
            case SubsampledGaussianEvent(noise_multiplier=noise_multiplier):
                return self.scale / noise_multiplier  # the clipping bound
        raise AssertionError(f"{self.event} is drawn otherwise")

    @property
    def asks_for_less(self) -> bool:
        """True where less noise is asked for than the event states; a choice states none."""
        stated = {GaussianEvent: "sigma", StabilityEvent: "sigma", LaplaceEvent: "scale"}.get(type(self.event))
        return stated is not None and self.scale < getattr(self.event, stated) * (1 - ROUNDING)


def moved(before: Draw, after: Draw) -> float:
    """How far the exact numbers of one question are from those of another fit, by the event's own norm."""
    if isinstance(before.exact, dict) or isinstance(after.exact, dict):
        assert isinstance(before.exact, dict)
        assert isinstance(after.exact, dict)
        values = sorted({*before.exact, *after.exact}, key=repr)
        difference = np.array([before.exact.get(v, 0.0) - after.exact.get(v, 0.0) for v in values])
    else:
        assert before.exact.shape == after.exact.shape
        difference = (before.exact - after.exact).ravel()
    if isinstance(before.event, SelectionEvent):
        return float(np.abs(difference).max(initial=0.0))
    return float(np.linalg.norm(difference, 1 if isinstance(before.event, LaplaceEvent | StabilityEvent) else 2))


class PinnedNoise(InjectedNoise):
    """Answers as those of an earlier fit were, turn by turn."""

    private = True
    """A model of it is saved, so that its files can be read."""

    def __init__(self, earlier: Sequence[Draw]) -> None:
        super().__init__(np.random.default_rng(2))
        self.earlier, self.draws = earlier, list[Draw]()
        self.paid_by: Event | None = None
        self.values: tuple[Any, ...] = ()

    def gaussian(self, values: np.ndarray, sigma: float) -> np.ndarray:
        return np.asarray(self._answer(values, sigma, super().gaussian))

    def laplace(self, values: np.ndarray, scale: float) -> np.ndarray:
        return np.asarray(self._answer(values, scale, super().laplace))

    def noisy_max(self, scores: np.ndarray, scale: float) -> int:
        return int(self._answer(scores, scale, super().noisy_max))

    def floats(self, values: np.ndarray, sigma: float) -> np.ndarray:
        return np.asarray(self._answer(values, sigma, super().floats))

    def sample(self, n_units: int, sampling_rate: float) -> np.ndarray:
        """Everyone, so that of two samples one has the unit more."""
        return np.arange(n_units)

    def _answer(self, values: np.ndarray, scale: float, draw: Callable[[np.ndarray, float], Any]) -> Any:
        event, turn = self.paid_by, len(self.draws)
        assert event is not None, "noise is drawn that no event pays for"
        last = self.earlier[turn] if turn < len(self.earlier) else None
        exact: Any = values.astype(float)
        if isinstance(event, StabilityEvent):
            # Of one unit alone no value reaches the threshold, of several every one does: all are just below or above.
            exact = dict(zip(self.values, exact.tolist(), strict=True))
            known = {} if last is None else last.answer
            answer: Any = {
                value: known.get(value, event.threshold - (count <= event.sensitivity))
                for value, count in exact.items()
            }
            published: Any = np.array(list(answer.values()), dtype=np.int64)
        else:
            assert last is None or np.shape(last.exact) == values.shape, "a unit changes how many numbers are drawn"
            answer = published = draw(values, scale) if last is None else last.answer
        self.draws.append(Draw(event, exact, scale, answer))
        return published


class Pinned(Budget):
    """A budget that tells its noise which event pays; it answers as an earlier one did."""

    _noise: PinnedNoise

    def __init__(self, schedule: Schedule, earlier: "Pinned | None" = None) -> None:
        super().__init__(schedule, PinnedNoise(() if earlier is None else earlier.draws))

    @property
    def draws(self) -> list[Draw]:
        return self._noise.draws

    def name_stable(self, counts: Mapping[Any, int], event: StabilityEvent) -> list[Any]:
        self._noise.values = tuple(sorted(counts))
        return super().name_stable(counts, event)

    def _charge_then_draw(self, event: Event, draw: Callable[[], Any], n_releases: int = 1) -> Any:
        before, self._noise.paid_by = len(self.draws), event
        released = super()._charge_then_draw(event, draw, n_releases)
        if isinstance(event, DRAWN):
            assert len(self.draws) == before + n_releases, f"{event.what} is released without a draw of noise"
        self._noise.paid_by = None
        return released

    def differences(self, other: "Pinned") -> list[float]:
        """How far each question's exact numbers are from another fit's, in what is paid for."""
        assert [draw.event for draw in self.draws] == [draw.event for draw in other.draws]
        assert not any(draw.asks_for_less for budget in (self, other) for draw in budget.draws)
        pairs = list(zip(self.draws, other.draws, strict=True))
        distances = [(moved(*pair), min(draw.stated for draw in pair)) for pair in pairs]
        return [distance / stated if stated else math.inf for distance, stated in distances if distance]
