"""Tables over the cells of a clique: a factor of log values, and a measurement of noisy counts."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Clique = tuple[str, ...]
Array = NDArray[np.float64]
CELLS_A_MB = 1e6 / 8
"""Cells of a factor in a megabyte: each is a float64."""


@dataclass(frozen=True, eq=False)
class Factor:
    """A nonnegative function of a few attributes, in log space.

    >>> doubled = Factor(("a",), np.log([1.0, 1.0])) + Factor(("b",), np.log([2.0, 3.0]))
    >>> np.exp(doubled.log_values).round(6).tolist()
    [[2.0, 3.0], [2.0, 3.0]]
    """

    attributes: Clique
    log_values: Array = field(repr=False)

    def __post_init__(self) -> None:
        if len(set(self.attributes)) != len(self.attributes):
            raise ValueError(f"a clique names an attribute once: attributes={self.attributes}")
        if self.log_values.ndim != len(self.attributes):
            raise ValueError(f"one axis per attribute: {self.attributes} against shape={self.log_values.shape}")

    @classmethod
    def uniform(cls, domain: Mapping[str, int], attributes: Clique) -> "Factor":
        """The factor that is one everywhere."""
        return cls(attributes, np.zeros(shape_of(domain, attributes)))

    def aligned(self, attributes: Clique) -> Array:
        """A view of the log values that broadcasts over `attributes`: their order, length 1 where it has none."""
        order = sorted(range(len(self.attributes)), key=lambda axis: attributes.index(self.attributes[axis]))
        view = self.log_values.transpose(order)
        return view.reshape(broadcast_shape(tuple(self.attributes[axis] for axis in order), view.shape, attributes))

    def __add__(self, other: "Factor") -> "Factor":
        """The product of two factors, over the attributes of both."""
        attributes = self.attributes + tuple(name for name in other.attributes if name not in self.attributes)
        return Factor(attributes, self.aligned(attributes) + other.aligned(attributes))


def finite_peak(log_values: Array, axes: tuple[int, ...]) -> Array:
    """The largest value along `axes`, kept as axes of length 1; zero where there is none above ``-inf``."""
    peak: Array = np.maximum.reduce(log_values, axis=axes, keepdims=True)
    return np.where(np.isneginf(peak), 0.0, peak)


def shape_of(domain: Mapping[str, int], attributes: Iterable[str]) -> tuple[int, ...]:
    return tuple(domain[name] for name in attributes)


def axes_beside(attributes: Sequence[str], kept: Iterable[str]) -> tuple[int, ...]:
    """The axes of a table over `attributes` that are not among `kept`."""
    names = set(kept)
    return tuple(axis for axis, name in enumerate(attributes) if name not in names)


def broadcast_shape(attributes: Clique, shape: tuple[int, ...], onto: Clique) -> tuple[int, ...]:
    """`shape` with axes of length 1 put in for the names of `onto` that `attributes`, in the same order, lacks."""
    sizes = dict(zip(attributes, shape, strict=True))
    return tuple(sizes.get(name, 1) for name in onto)


MEAN_ABSOLUTE = math.sqrt(2 / math.pi)
"""Mean absolute value of a normal variable, in standard deviations."""
EXACT_SIGMA = 0.5  # standard deviation, in rows, that counts without noise are taken to have


@dataclass(frozen=True, eq=False)
class Measurement:
    """Noisy counts of a clique's cells."""

    clique: Clique
    values: Array = field(repr=False)
    sigma: float | Array

    def __post_init__(self) -> None:
        object.__setattr__(self, "clique", tuple(self.clique))
        object.__setattr__(self, "values", np.asarray(self.values, dtype=np.float64))
        sigma = np.asarray(self.sigma, dtype=np.float64)
        if len(set(self.clique)) != len(self.clique):
            raise ValueError(f"a clique names an attribute once: clique={self.clique}")
        if not np.isfinite(self.values).all():
            raise ValueError(f"measured counts are finite: clique={self.clique} has one that is not")
        if not (np.isfinite(sigma).all() and (sigma > 0).all()):
            raise ValueError(f"sigma is positive and finite: clique={self.clique} has one that is not")
        if sigma.ndim > 0 and sigma.size != self.values.size:
            raise ValueError(f"sigma is one number or one for each cell: clique={self.clique}, sigmas={sigma.size}")
        object.__setattr__(self, "sigma", float(sigma) if sigma.ndim == 0 else sigma)

    def ordered(self, domain: Mapping[str, int]) -> "Measurement":
        """The same measurement with its attributes in the order of the domain and its values shaped by them."""
        unknown = [name for name in self.clique if name not in domain]
        if unknown:
            raise ValueError(f"a measurement names attributes of the domain: attribute={unknown[0]!r} is not in it")
        shape = shape_of(domain, self.clique)
        if self.values.shape not in (shape, (int(np.prod(shape)),)):
            raise ValueError(f"values fit the domain: clique={self.clique}, shape={self.values.shape}, domain={shape}")
        position = {name: index for index, name in enumerate(domain)}
        order = sorted(range(len(self.clique)), key=lambda axis: position[self.clique[axis]])
        sigma = self.sigma if isinstance(self.sigma, float) else self.sigma.reshape(shape).transpose(order)
        clique = tuple(self.clique[axis] for axis in order)
        return Measurement(clique, self.values.reshape(shape).transpose(order), sigma)


def merge(measurements: Iterable[Measurement], domain: Mapping[str, int]) -> list[Measurement]:
    """One measurement for each clique: repeated ones averaged by inverse variance, which loses nothing."""
    groups: dict[Clique, list[Measurement]] = {}
    for measurement in measurements:
        ordered = measurement.ordered(domain)
        groups.setdefault(ordered.clique, []).append(ordered)
    merged = []
    for clique, group in groups.items():
        if len(group) == 1:
            merged += group
            continue
        precisions = [np.square(np.reciprocal(each.sigma)) for each in group]
        precision = np.sum(np.broadcast_arrays(*precisions), axis=0)
        weighted = np.sum([each.values * weight for each, weight in zip(group, precisions, strict=True)], axis=0)
        merged.append(Measurement(clique, weighted / precision, 1 / np.sqrt(precision)))
    return merged


def estimate_total(measurements: Sequence[Measurement]) -> float:
    """The number of rows: the measurements' sums averaged by inverse variance; at least 1, and 1 of no measurement."""
    sums = np.array([measurement.values.sum() for measurement in measurements])
    variances = np.array([np.broadcast_to(np.square(each.sigma), each.values.shape).sum() for each in measurements])
    return max(1.0, float((sums / variances).sum() / (1 / variances).sum())) if measurements else 1.0
