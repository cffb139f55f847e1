"""Mechanisms: how numbers, choices, values and sums over samples are released, and where the noise comes from.

Noise is OpenDP's samplers on the operating system's randomness, or an injected generator in tests. Whole numbers get
discrete noise, reals the continuous kind, which OpenDP samples exactly and rounds once.

The many numbers of DP-SGD are noised in double precision, by a generator with a new key from the operating system for
each sum. Exact samplers would take minutes where this takes milliseconds. What floating point can give away of a sum
(Mironov 2012) is then not ruled out, and the statement says so.

Source: Abadi et al. 2016 (1607.00133), Algorithm 1, for the steps of DP-SGD.
"""

import importlib.util
import math
import os
import secrets
from collections.abc import Callable, Mapping
from functools import cache
from importlib import metadata
from typing import Any, Protocol, TypeVar

import numpy as np

from synth.dp.events import GaussianEvent, LaplaceEvent, SelectionEvent, StabilityEvent, SubsampledGaussianEvent
from synth.errors import BudgetError, MissingExtra
from synth.extras import NAME, missing_extra

Value = TypeVar("Value", int, str, float)
Words = Callable[[int, type[np.unsignedinteger[Any]]], np.ndarray]
"""So many independent uniform words of an unsigned type, shape (n,)."""
LEAST_OPENDP = (0, 14)  # the oldest release of OpenDP that is used, as the extra `private` says


class Oracle(Protocol):
    """A way in which respondents randomize their answers to one question."""

    @property
    def size(self) -> int:
        """Numbers that a support has."""

    def support(self, cells: np.ndarray, words: Words) -> np.ndarray:
        """The reports that support each answer, int64, shape (size,): one of each respondent, whose true answers, -1
        for none, are *Sensitive*.
        """


class Noise(Protocol):
    """A source of noise for the mechanisms."""

    @property
    def private(self) -> bool:
        """True if its noise may carry a guarantee."""

    def gaussian(self, values: np.ndarray, sigma: float) -> np.ndarray:
        """The values with Gaussian noise of standard deviation `sigma` in each; discrete where they are integers."""

    def laplace(self, values: np.ndarray, scale: float) -> np.ndarray:
        """The values with Laplace noise of that scale in each; discrete where they are integers."""

    def noisy_max(self, scores: np.ndarray, scale: float) -> int:
        """The index of the largest score after Gumbel noise of the given scale."""

    def floats(self, values: np.ndarray, sigma: float) -> np.ndarray:
        """The values as float64 with Gaussian noise in each: of many numbers at a time, in floating point."""

    def sample(self, n_units: int, sampling_rate: float) -> np.ndarray:
        """A Poisson sample: the units that are in it, each with that probability on its own; ascending int64."""

    def respond(self, cells: np.ndarray, oracle: Oracle) -> np.ndarray:
        """The support of each answer among reports that respondents randomize, each their own; shape (size,)."""


def require_sampler() -> None:
    """Refuse work that draws private noise where its exact sampler cannot draw it: nothing else may.

    One draw of each kind on a constant shows that it works, before a row is read or a budget is reserved.
    """
    if importlib.util.find_spec("opendp") is None:
        raise missing_extra("private noise is drawn by OpenDP alone, which", "private")
    fault = _sampler_fault()
    if fault:
        raise MissingExtra(
            f"private noise is drawn by OpenDP alone, which is installed and {fault}; "
            f"pip install --upgrade '{NAME}[private]'"
        )


@cache
def _sampler_fault() -> str:
    """The reason why the installed OpenDP cannot be used; empty where it can."""
    try:
        release = metadata.version("opendp")
        if tuple(int(part) for part in release.split(".")[:2]) < LEAST_OPENDP:
            return f"too old (version={release}; at least {'.'.join(map(str, LEAST_OPENDP))} is needed)"
        for values in (np.zeros(1, dtype=np.int64), np.zeros(1)):
            _gaussian(values, 1.0)
            _laplace(values, 1.0)
        _noisy_max(np.zeros(2), 1.0)
        if _gumbel_max(2.0).map(1.0) > 1 / 8:  # of a choice at epsilon = 1, by scores that a unit moves by 1
            return "charges more for a choice than is accounted for"
    except Exception as error:  # noqa: BLE001 - whatever fails here would fail once the budget is spent
        return f"does not work ({type(error).__name__})"
    return ""


class SystemNoise:
    """OpenDP's samplers, seeded by the operating system: no seed reaches them."""

    private = True

    def __init__(self) -> None:
        require_sampler()

    @property
    def _generator(self) -> np.random.Generator:
        """A new counter-based generator, for one sum, whose key nobody knows and nothing keeps."""
        # A generator that was kept would go on alike in every process that is forked from this one.
        return np.random.Generator(np.random.Philox(key=secrets.randbits(128), counter=secrets.randbits(256)))

    def gaussian(self, values: np.ndarray, sigma: float) -> np.ndarray:
        """Source: Canonne, Kamath, Steinke 2020; exact sampling, no floating point in the noise."""
        return _gaussian(values, sigma)

    def laplace(self, values: np.ndarray, scale: float) -> np.ndarray:
        """Source: Canonne, Kamath, Steinke 2020, Algorithm 2."""
        return _laplace(values, scale)

    def noisy_max(self, scores: np.ndarray, scale: float) -> int:
        """Under zero-concentrated divergence OpenDP adds Gumbel noise; its max-divergence form is permute-and-flip."""
        return _noisy_max(scores, scale)

    def floats(self, values: np.ndarray, sigma: float) -> np.ndarray:
        """Source: Philox of Salmon et al. 2011 and numpy's ziggurat, keyed by the operating system."""
        return np.asarray(values + self._generator.normal(0.0, sigma, size=values.shape))

    def sample(self, n_units: int, sampling_rate: float) -> np.ndarray:
        """From the operating system's own random bytes, so that no sample tells of another."""
        return poisson_sample(n_units, sampling_rate, _system_uniforms)

    def respond(self, cells: np.ndarray, oracle: Oracle) -> np.ndarray:
        """From the operating system's own random bytes, compared as whole numbers: no floating point is in a report."""
        return oracle.support(cells, system_words)


class InjectedNoise:
    """Noise from a generator that a test holds: reproducible, hence never private."""

    private = False

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def gaussian(self, values: np.ndarray, sigma: float) -> np.ndarray:
        return _added(values, self._rng.normal(0.0, sigma, size=values.shape))

    def laplace(self, values: np.ndarray, scale: float) -> np.ndarray:
        return _added(values, self._rng.laplace(0.0, scale, size=values.shape))

    def noisy_max(self, scores: np.ndarray, scale: float) -> int:
        return int(np.argmax(scores + self._rng.gumbel(0.0, scale, size=scores.shape)))

    def floats(self, values: np.ndarray, sigma: float) -> np.ndarray:
        return np.asarray(values + self._rng.normal(0.0, sigma, size=values.shape))

    def sample(self, n_units: int, sampling_rate: float) -> np.ndarray:
        return poisson_sample(n_units, sampling_rate, lambda n: 1.0 - self._rng.random(n))

    def respond(self, cells: np.ndarray, oracle: Oracle) -> np.ndarray:
        return oracle.support(cells, self._words)

    def _words(self, n: int, dtype: type[np.unsignedinteger[Any]]) -> np.ndarray:
        return np.frombuffer(self._rng.bytes(n * np.dtype(dtype).itemsize), dtype=dtype)


class NoNoise:
    """Exact answers: for fits without epsilon, which promise nothing."""

    private = False

    def gaussian(self, values: np.ndarray, sigma: float) -> np.ndarray:
        return values

    def laplace(self, values: np.ndarray, scale: float) -> np.ndarray:
        return values

    def noisy_max(self, scores: np.ndarray, scale: float) -> int:
        return int(np.argmax(scores))

    def floats(self, values: np.ndarray, sigma: float) -> np.ndarray:
        return values.astype(np.float64)

    def sample(self, n_units: int, sampling_rate: float) -> np.ndarray:
        """A Poisson sample: which rows a step of training sees is random with noise or without."""
        return poisson_sample(n_units, sampling_rate, _system_uniforms)

    def respond(self, cells: np.ndarray, oracle: Oracle) -> np.ndarray:
        return np.bincount(cells[cells >= 0], minlength=oracle.size)


def release(exact: np.ndarray, event: GaussianEvent | LaplaceEvent, noise: Noise) -> np.ndarray:
    """Noisy numbers for exact ones, *Sensitive*, under an event that the budget has charged."""
    exact = exact.astype(np.int64 if event.whole else np.float64)
    if isinstance(event, LaplaceEvent):
        return noise.laplace(exact, event.scale)
    return noise.gaussian(exact, event.sigma)


def select(scores: np.ndarray, score_sensitivity: float, event: SelectionEvent, noise: Noise) -> int:
    """The index chosen by the exponential mechanism from scores, *Sensitive*, of public candidates.

    The largest score after Gumbel noise is a choice with chances in proportion to exp(score / scale). One unit moves
    two scores against each other by 2 s at most, s the sensitivity of one, and so the log of two choices' odds by
    2 s / scale = epsilon: a range of epsilon, which costs epsilon^2 / 8 in rho (Cesar & Rogers 2021). OpenDP charges as
    much for scores under `linf_distance` that may move up and down, which `require_sampler` checks.
    """
    return noise.noisy_max(scores, 2 * score_sensitivity / event.epsilon)


def name_stable(counts: Mapping[Value, int], event: StabilityEvent, noise: Noise) -> list[Value]:
    """The values whose noisy count reaches the threshold; *Sensitive*: how many rows hold each value that any holds."""
    # In sorted order: the order in which values were met is the table's own.
    values = sorted(counts)
    noisy = noise.gaussian(np.array([counts[value] for value in values], dtype=np.int64), event.sigma)
    named = [(-count, value) for value, count in zip(values, noisy.tolist(), strict=True) if count >= event.threshold]
    return [value for _, value in sorted(named)]


def poisson_sample(n_units: int, sampling_rate: float, uniforms: Callable[[int], np.ndarray]) -> np.ndarray:
    """The units that are in a Poisson sample, ascending int64: the gaps between them are geometric.

    >>> poisson_sample(4, 1.0, np.ones).tolist()
    [0, 1, 2, 3]
    """
    if sampling_rate == 1:
        return np.arange(n_units)
    likely = sampling_rate * n_units
    block = math.ceil(likely + 6 * math.sqrt(likely)) + 10
    parts, last = [], -1
    while last < n_units:
        # A gap of this size or more lies beyond any table; cut off before it becomes a whole number.
        gaps = np.minimum(np.log(uniforms(block)) / math.log1p(-sampling_rate), float(n_units))
        parts.append(last + np.cumsum(gaps.astype(np.int64) + 1))
        last = int(parts[-1][-1])
    units = np.concatenate([np.zeros(0, dtype=np.int64), *parts])
    return units[units < n_units]


def system_words(n: int, dtype: type[np.unsignedinteger[Any]]) -> np.ndarray:
    """Random words from the operating system, shape (n,)."""
    return np.frombuffer(os.urandom(n * np.dtype(dtype).itemsize), dtype=dtype)


def _system_uniforms(n: int) -> np.ndarray:
    """Numbers in (0, 1], with 53 random bits each."""
    bits = np.frombuffer(os.urandom(8 * n), dtype=np.uint64) >> np.uint64(11)
    return (bits + np.uint64(1)) / 2.0**53


def _gaussian(values: np.ndarray, sigma: float) -> np.ndarray:
    dp = _opendp()
    return _drawn(values, lambda domain, _: dp.m.make_gaussian(domain, dp.l2_distance(T="f64"), scale=float(sigma)))


def _laplace(values: np.ndarray, scale: float) -> np.ndarray:
    dp = _opendp()
    return _drawn(values, lambda domain, kind: dp.m.make_laplace(domain, dp.l1_distance(T=kind), scale=float(scale)))


def _drawn(values: np.ndarray, measurement: Callable[[Any, str], Any]) -> np.ndarray:
    """Whole numbers with discrete noise, others with continuous noise, by a measurement on their domain."""
    dp, is_whole = _opendp(), values.dtype.kind in "iu"
    carrier, kind = (np.int64, "i64") if is_whole else (np.float64, "f64")
    domain = dp.vector_domain(dp.atom_domain(T=kind) if is_whole else dp.atom_domain(T=kind, nan=False))
    drawn = measurement(domain, kind)(values.astype(carrier).ravel().tolist())
    return np.array(drawn, dtype=carrier).reshape(values.shape)


def _noisy_max(scores: np.ndarray, scale: float) -> int:
    return int(_gumbel_max(scale)(scores.astype(np.float64).tolist()))


def _gumbel_max(scale: float) -> Any:
    dp = _opendp()
    space = dp.vector_domain(dp.atom_domain(T="f64", nan=False)), dp.linf_distance(T="f64", monotonic=False)
    return dp.m.make_noisy_max(*space, dp.zero_concentrated_divergence(), scale=float(scale))


def _added(values: np.ndarray, noise: np.ndarray) -> np.ndarray:
    return np.asarray(values + (np.round(noise).astype(np.int64) if values.dtype.kind in "iu" else noise))


def _opendp() -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    return dp


class Steps:
    """The steps that a budget has charged, and no more: each draws a sample, then one noisy sum."""

    def __init__(self, event: SubsampledGaussianEvent, n_steps: int, noise: Noise) -> None:
        self._event, self._noise = event, noise
        self._samples = self._sums = n_steps

    def sample(self, n_units: int) -> np.ndarray:
        """The units in the next step's sample, each with the event's rate on its own; ascending int64, often none."""
        self._samples = _one_less(self._samples, self._event)
        return self._noise.sample(n_units, self._event.sampling_rate)

    def release(self, total: np.ndarray, max_grad_norm: float) -> np.ndarray:
        """The sum, *Sensitive*, of vectors of a norm of at most `max_grad_norm`, with that many times the noise."""
        self._sums = _one_less(self._sums, self._event)
        return self._noise.floats(total, self._event.noise_multiplier * max_grad_norm)


def _one_less(left: int, event: SubsampledGaussianEvent) -> int:
    if left == 0:
        raise BudgetError(f"the budget holds no further step of {event.what!r}; plan it before drawing")
    return left - 1
