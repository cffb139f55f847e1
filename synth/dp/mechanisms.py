"""Where noise comes from: OpenDP's samplers on the operating system's randomness, or an injected generator in tests."""

from typing import Any, Protocol

import numpy as np

from synth.dp.events import GaussianEvent, SelectionEvent


class Noise(Protocol):
    """A source of noise for the mechanisms."""

    @property
    def private(self) -> bool:
        """Whether what it draws may carry a guarantee."""

    def gaussian(self, counts: np.ndarray, sigma: float) -> np.ndarray:
        """The integer counts with discrete Gaussian noise of standard deviation `sigma` in every cell."""

    def noisy_max(self, scores: np.ndarray, scale: float) -> int:
        """The index of the largest score after Gumbel noise of the given scale."""


class SystemNoise:
    """OpenDP's discrete Gaussian and Gumbel noisy max, seeded by the operating system: no seed reaches it."""

    private = True

    def gaussian(self, counts: np.ndarray, sigma: float) -> np.ndarray:
        """Source: Canonne, Kamath, Steinke 2020; exact sampling, no floating point in the noise."""
        dp = _opendp()
        space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
        measurement = dp.m.make_gaussian(*space, scale=float(sigma))
        return np.array(measurement(counts.astype(np.int64).ravel().tolist()), dtype=np.int64).reshape(counts.shape)

    def noisy_max(self, scores: np.ndarray, scale: float) -> int:
        """Under zero-concentrated divergence OpenDP adds Gumbel noise; its max-divergence form is permute-and-flip."""
        dp = _opendp()
        space = dp.vector_domain(dp.atom_domain(T="f64", nan=False)), dp.linf_distance(T="f64", monotonic=False)
        measurement = dp.m.make_noisy_max(*space, dp.zero_concentrated_divergence(), scale=float(scale))
        return int(measurement(scores.astype(np.float64).tolist()))


class InjectedNoise:
    """Noise from a generator that a test holds: reproducible, hence never private."""

    private = False

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def gaussian(self, counts: np.ndarray, sigma: float) -> np.ndarray:
        """Rounded Gaussian noise."""
        return counts + np.round(self._rng.normal(0.0, sigma, size=counts.shape)).astype(np.int64)

    def noisy_max(self, scores: np.ndarray, scale: float) -> int:
        """Gumbel noise."""
        return int(np.argmax(scores + self._rng.gumbel(0.0, scale, size=scores.shape)))


class NoNoise:
    """Exact answers: for fits without epsilon, which promise nothing."""

    private = False

    def gaussian(self, counts: np.ndarray, sigma: float) -> np.ndarray:
        """The counts themselves."""
        return counts

    def noisy_max(self, scores: np.ndarray, scale: float) -> int:
        """The largest score."""
        return int(np.argmax(scores))


def release_counts(counts: np.ndarray, event: GaussianEvent, noise: Noise) -> np.ndarray:
    """Noisy counts under an event that the budget has charged; one call is one of the event's `count`.

    Args:
        counts: *Sensitive*. Exact integer counts, any shape.
        event: names the noise.
        noise: draws it.
    """
    return noise.gaussian(counts, event.sigma)


def select(scores: np.ndarray, score_sensitivity: float, event: SelectionEvent, noise: Noise) -> int:
    """The index chosen by the exponential mechanism under an event that the budget has charged.

    Args:
        scores: *Sensitive*. One score per public candidate, shape (n,); larger is better.
        score_sensitivity: how far one unit can move any score, up or down.
        event: names the epsilon of one choice.
        noise: draws the Gumbel noise, of scale 2 score_sensitivity / epsilon.
    """
    return noise.noisy_max(scores, 2 * score_sensitivity / event.epsilon)


def _opendp() -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    return dp
