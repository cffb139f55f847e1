"""Noise that is deaf: it answers by the turn and the shape of a question, so that nothing of the table is left."""

from collections.abc import Callable
from typing import Any

import numpy as np

from synth.dp.budget import Budget
from synth.dp.events import Event, StabilityEvent
from synth.dp.mechanisms import Oracle
from synth.dp.schedule import Schedule

N_UNITS = 90


class Deaf:
    """Answers by the turn and the shape of a question, never by the values asked about."""

    private = True
    """A model of it is saved, so that its files can be read."""

    def __init__(self) -> None:
        self.event: Event | None = None
        self.questions: list[tuple[str, tuple[int, ...], float]] = []

    def gaussian(self, values: np.ndarray, sigma: float) -> np.ndarray:
        if isinstance(self.event, StabilityEvent):  # of as many values as there are, which its delta pays for
            return np.zeros(values.shape, dtype=np.int64)
        answer = self._turn("gaussian", values, sigma).exponential(N_UNITS / values.size, values.shape)
        return answer.astype(np.int64) if values.dtype.kind in "iu" else answer

    def laplace(self, values: np.ndarray, scale: float) -> np.ndarray:
        return self.gaussian(values, scale)

    def noisy_max(self, scores: np.ndarray, scale: float) -> int:
        return int(self._turn("noisy_max", scores, scale).integers(len(scores)))

    def floats(self, values: np.ndarray, sigma: float) -> np.ndarray:
        return self._turn("floats", values, sigma).normal(0.0, sigma, values.shape)

    def sample(self, n_units: int, sampling_rate: float) -> np.ndarray:
        return np.arange(min(n_units, 7))

    def respond(self, cells: np.ndarray, oracle: Oracle) -> np.ndarray:
        return self._turn("respond", cells, oracle.size).integers(0, len(cells) + 1, oracle.size)

    def _turn(self, what: str, values: np.ndarray, scale: float) -> np.random.Generator:
        self.questions.append((what, values.shape, scale))
        return np.random.default_rng(len(self.questions))


class Watched(Budget):
    """Tells its noise which event is drawn."""

    def __init__(self, schedule: Schedule) -> None:
        self.deaf = Deaf()
        super().__init__(schedule, self.deaf)

    def _charge_then_draw(self, event: Event, draw: Callable[[], Any], n_releases: int = 1) -> Any:
        self.deaf.event = event
        return super()._charge_then_draw(event, draw, n_releases)
