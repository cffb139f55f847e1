"""A factor: a table of log values over the cells of a clique, and the two things one does with it."""

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
    """The number of codes of each attribute."""
    return tuple(domain[name] for name in attributes)


def axes_beside(attributes: Sequence[str], kept: Iterable[str]) -> tuple[int, ...]:
    """The axes of a table over `attributes` that are not among `kept`."""
    names = set(kept)
    return tuple(axis for axis, name in enumerate(attributes) if name not in names)


def broadcast_shape(attributes: Clique, shape: tuple[int, ...], onto: Clique) -> tuple[int, ...]:
    """`shape` with axes of length 1 put in for the names of `onto` that `attributes`, in the same order, lacks."""
    sizes = dict(zip(attributes, shape, strict=True))
    return tuple(sizes.get(name, 1) for name in onto)
